//! A first look at a trace: what its caches are, and what allocator it is from.
//!
//! Events say an object's size and address, not how its cache was created. What a model needs besides is
//! inferred here once for the whole trace, and [`Survey::inferred`] says how much that is.

use crate::event::{
    Alloc, Event, Kind, KnownBy, Name, Names, Origin, Pages, ReadCounts, ReadError, Source,
};
use crate::kernel::{PAGE_BYTES, align_up, cache_align};
use crate::kmalloc::{CLASSES, class_of};
use crate::known::known_cache;
use crate::model::{CacheFlags, CacheSpec};
use rustc_hash::FxHashMap;

/// Bytes that SLOB adds to objects of `SLAB_TYPESAFE_BY_RCU` caches: `struct slob_rcu`.
pub const SLOB_RCU_BYTES: u32 = 24;

/// Differences of address and page frame that are looked at for the start of the direct mapping.
const BASES_MAX: usize = 64;

/// The direct mapping starts at a multiple of what a large page maps, which few other differences are.
const BASE_ALIGN_BYTES: u64 = 2 << 20;

/// Which allocator wrote a trace, by what it took for each kmalloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traced {
    /// Size classes from 8 on.
    Slub,
    /// Size classes from 32 on, 96 in 128.
    Slab,
    /// Eight bytes more than asked for.
    Slob,
    /// None of these.
    Unknown,
}

/// What the trace tells of one cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Facts {
    allocs: u64,
    object_bytes: u64,
    /// 0 in the first events of a boot; then the object is as large as what was taken for it.
    unknown_size_allocs: u64,
    alloc_bytes: u64,
    /// All addresses, ored.
    ptr_bits: u64,
    /// Whether its name is made up.
    by_site: bool,
}

/// What a trace is about.
#[derive(Clone, Debug)]
pub struct Survey {
    caches: FxHashMap<Box<str>, Facts>,
    traced: Traced,
    cpus: u16,
    page_offset: Option<u64>,
    inferred: Inferred,
    counts: ReadCounts,
    page_allocs: u64,
}

/// How much of a replay rests on inference. All are shares of allocations from caches, as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inferred {
    /// Allocations from caches.
    pub cache_allocs: u64,
    /// Those whose size is the slot's, because the event has none.
    pub size_from_slot: u64,
    /// Those of caches whose alignment is inferred from their addresses.
    pub align_from_address: u64,
    /// Those of caches whose flags are not known, and taken to be none.
    pub unknown_flags: u64,
    /// Those whose cache is made up from call site and size.
    pub made_up_caches: u64,
}

#[derive(Debug, Default)]
struct Kmallocs {
    slub: u64,
    slab: u64,
    slob: u64,
    all: u64,
}

impl Kmallocs {
    fn count(&mut self, alloc: &Alloc) {
        let Some(class) = class_of(alloc.bytes_req).map(|class| u64::from(CLASSES[class])) else {
            return;
        };
        self.all += 1;
        self.slub += u64::from(alloc.bytes_alloc == class);
        let of_slab = if class == 96 { 128 } else { class.max(32) };
        self.slab += u64::from(alloc.bytes_alloc == of_slab);
        self.slob += u64::from(alloc.bytes_alloc == alloc.bytes_req + 8);
    }

    /// Nine of ten have to agree, for lines may be damaged.
    fn decide(&self) -> Traced {
        let agreed = |count: u64| self.all > 0 && count >= self.all - self.all / 10;
        if self.slob > self.slub && agreed(self.slob) {
            Traced::Slob
        } else if self.slab > self.slub && agreed(self.slab) {
            Traced::Slab
        } else if agreed(self.slub) {
            Traced::Slub
        } else {
            Traced::Unknown
        }
    }
}

impl Survey {
    /// Reads the trace to its end.
    ///
    /// # Errors
    ///
    /// If `source` cannot be read.
    pub fn of(source: &mut dyn Source) -> Result<Self, ReadError> {
        let mut by_name: Vec<Facts> = Vec::new();
        let mut kmallocs = Kmallocs::default();
        let mut bases: FxHashMap<u64, u64> = FxHashMap::default();
        let mut last_pages: Option<Pages> = None;
        let mut cpus = 1;
        let mut page_allocs = 0;
        while let Some(Event { cpu, kind, .. }) = source.next_event()? {
            cpus = cpus.max(cpu.saturating_add(1));
            match kind {
                Kind::Alloc(alloc) => {
                    if let Some(pages) = last_pages.take() {
                        let base = (alloc.ptr & !(PAGE_BYTES - 1))
                            .wrapping_sub(pages.pfn.wrapping_mul(PAGE_BYTES));
                        if base.is_multiple_of(BASE_ALIGN_BYTES)
                            && (bases.len() < BASES_MAX || bases.contains_key(&base))
                        {
                            *bases.entry(base).or_default() += 1;
                        }
                    }
                    match alloc.origin {
                        Origin::Kmalloc => kmallocs.count(&alloc),
                        Origin::Cache { name, known_by } => {
                            note(&mut by_name, name, known_by, &alloc);
                        }
                    }
                }
                Kind::PageAlloc(pages) => {
                    last_pages = Some(pages);
                    page_allocs += 1;
                }
                Kind::Free(_) | Kind::PageFree(_) => last_pages = None,
            }
        }
        let names = source.names();
        let caches = gather(&by_name, names);
        let all: u64 = bases.values().sum();
        let page_offset = bases
            .into_iter()
            .max_by_key(|&(_, votes)| votes)
            .filter(|&(_, votes)| votes > 2 && votes * 2 > all);
        let traced = kmallocs.decide();
        Ok(Self {
            inferred: inferred(&caches, traced),
            caches,
            traced,
            cpus,
            page_offset: page_offset.map(|(base, _)| base),
            counts: source.counts(),
            page_allocs,
        })
    }

    /// Which allocator the trace is from.
    #[must_use]
    pub fn traced(&self) -> Traced {
        self.traced
    }

    /// CPUs that events happened on, counted from the first.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.cpus
    }

    /// As on a machine of `cpus` CPUs, at least those that events happened on.
    #[must_use]
    pub fn with_cpus(self, cpus: u16) -> Self {
        Self {
            cpus: self.cpus.max(cpus),
            ..self
        }
    }

    /// Address of page frame 0 in the kernel's direct mapping, if addresses and page frames agree on one.
    #[must_use]
    pub fn page_offset(&self) -> Option<u64> {
        self.page_offset
    }

    /// Page allocations in the trace, those of slabs included.
    #[must_use]
    pub fn page_allocs(&self) -> u64 {
        self.page_allocs
    }

    /// Events in the trace, for a progress bar.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.counts.events
    }

    /// How much is inferred.
    #[must_use]
    pub fn inferred(&self) -> Inferred {
        self.inferred
    }

    /// The cache `name` as it was created, as far as the trace and [`known`](crate::known) tell; a cache that
    /// the trace does not have is one of 8 bytes.
    #[must_use]
    pub fn spec(&self, name: &str) -> CacheSpec {
        match self.caches.get(name) {
            Some(facts) => facts.spec(name, self.traced),
            None => Facts::default().spec(name, self.traced),
        }
    }
}

fn note(by_name: &mut Vec<Facts>, name: Name, known_by: KnownBy, alloc: &Alloc) {
    if by_name.len() <= name.index() {
        by_name.resize(name.index() + 1, Facts::default());
    }
    let facts = &mut by_name[name.index()];
    facts.allocs += 1;
    facts.unknown_size_allocs += u64::from(alloc.bytes_req == 0);
    facts.object_bytes = facts.object_bytes.max(alloc.bytes_req);
    facts.alloc_bytes = facts.alloc_bytes.max(alloc.bytes_alloc);
    facts.ptr_bits |= alloc.ptr;
    facts.by_site |= known_by == KnownBy::Site;
}

fn gather(by_name: &[Facts], names: &Names) -> FxHashMap<Box<str>, Facts> {
    let named = by_name
        .iter()
        .enumerate()
        .filter(|(_, facts)| facts.allocs > 0);
    let mut caches = FxHashMap::default();
    for (index, facts) in named {
        caches.insert(names.by_index(index).into(), facts.clone());
    }
    caches
}

fn inferred(caches: &FxHashMap<Box<str>, Facts>, traced: Traced) -> Inferred {
    let mut sums = Inferred::default();
    for (name, facts) in caches {
        let known = known_cache(name);
        sums.cache_allocs += facts.allocs;
        sums.size_from_slot += facts.unknown_size_allocs;
        if known.is_none() {
            sums.unknown_flags += facts.allocs;
        }
        if traced == Traced::Slob || known.is_none() {
            sums.align_from_address += facts.allocs;
        }
        if facts.by_site {
            sums.made_up_caches += facts.allocs;
        }
    }
    sums
}

impl Facts {
    fn spec(&self, name: &str, traced: Traced) -> CacheSpec {
        let known = known_cache(name);
        let alloc_bytes = clamped(self.alloc_bytes);
        let object_bytes = match self.object_bytes {
            0 => alloc_bytes,
            bytes => clamped(bytes),
        };
        let mut flags = known.map_or_else(CacheFlags::default, |known| known.flags);
        if traced == Traced::Slob {
            flags.rcu = alloc_bytes == object_bytes + SLOB_RCU_BYTES;
        }
        if traced == Traced::Slub {
            // What could be merged is merged: these are the names of what remained.
            flags.no_merge = true;
        }
        CacheSpec {
            name: name.to_owned(),
            object_bytes,
            align: match (traced, known) {
                (Traced::Slob, _) => self.align_of_addresses(object_bytes),
                (_, Some(known)) => known.align_of(object_bytes),
                (Traced::Slub | Traced::Slab, None) => align_of_slot(object_bytes, alloc_bytes),
                (Traced::Unknown, None) => 8,
            },
            slot_bytes: (traced == Traced::Slub && alloc_bytes > 0).then_some(alloc_bytes),
            flags,
        }
    }

    /// SLOB puts objects at any address that their alignment allows. A cache line is what caches ask for if
    /// they ask; a few ask for their own size.
    fn align_of_addresses(&self, object_bytes: u32) -> u32 {
        let line = cache_align(object_bytes, true, 0);
        let common = 1_u64 << self.ptr_bits.trailing_zeros().min(12);
        let common = common as u32;
        if object_bytes.is_power_of_two() && common >= object_bytes && object_bytes > line {
            object_bytes
        } else if common >= line {
            line
        } else {
            common.max(8)
        }
    }
}

/// The slot is a multiple of the alignment; where it is larger than it would have to be, that is why.
fn align_of_slot(object_bytes: u32, slot_bytes: u32) -> u32 {
    let line = cache_align(object_bytes, true, 0);
    if slot_bytes > align_up(object_bytes, 8) + 8 && slot_bytes.is_multiple_of(line) {
        line
    } else {
        8
    }
}

fn clamped(bytes: u64) -> u32 {
    bytes.clamp(1, 1 << 22) as u32
}

#[cfg(test)]
mod tests;
