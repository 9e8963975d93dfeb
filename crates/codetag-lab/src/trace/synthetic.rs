//! Traces that nobody recorded, for tests of length and speed.

use crate::event::{
    Alloc, Event, Free, GfpFlags, Kind, KnownBy, Name, Names, Origin, ReadCounts, ReadError, Source,
};
use crate::random::SplitMix64;

/// What to make up. The same specification gives the same events, on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticSpec {
    /// Where the pseudo-random numbers start.
    pub seed: u64,
    /// How many events there are.
    pub events: u64,
    /// At most so many objects are live at any time.
    pub live_objs_max: usize,
    /// CPUs that the events are spread over, at least 1.
    pub cpus: u16,
}

/// Object sizes in bytes of caches that every kernel has, most used first (Linux 6.1, x86-64).
const CACHES: [(&str, u64); 12] = [
    ("dentry", 192),
    ("inode_cache", 552),
    ("filp", 192),
    ("vm_area_struct", 152),
    ("anon_vma_chain", 64),
    ("radix_tree_node", 200),
    ("names_cache", 4096),
    ("kernfs_node_cache", 128),
    ("maple_node", 256),
    ("cred_jar", 192),
    ("files_cache", 632),
    ("task_struct", 2624),
];

/// A [`Source`] of made-up events: allocations of sizes that small ones dominate, freed in random order, with the
/// number of live objects wandering between a quarter of its bound and the bound.
#[derive(Debug)]
pub struct Synthetic {
    spec: SyntheticSpec,
    names: Names,
    caches: Vec<(Name, u64)>,
    site: Name,
    /// Address and cache of each live object.
    live: Vec<(u64, Option<Name>)>,
    /// Addresses that were freed, to be used again.
    free: Vec<u64>,
    next_ptr: u64,
    growing: bool,
    random: SplitMix64,
    counts: ReadCounts,
}

/// Addresses are so far apart that the largest object fits.
const STRIDE_BYTES: u64 = 8192;

impl Synthetic {
    /// Starts at the first event.
    #[must_use]
    pub fn new(spec: SyntheticSpec) -> Self {
        let mut names = Names::new();
        let caches = CACHES.map(|(name, bytes)| (names.intern(name), bytes));
        Self {
            spec,
            caches: caches.to_vec(),
            site: names.intern("synthetic"),
            names,
            live: Vec::new(),
            free: Vec::new(),
            next_ptr: 0xffff_8880_0010_0000,
            growing: true,
            random: SplitMix64::new(spec.seed),
            counts: ReadCounts::default(),
        }
    }

    fn alloc(&mut self) -> Kind {
        let ptr = self.free.pop().unwrap_or_else(|| {
            self.next_ptr += STRIDE_BYTES;
            self.next_ptr
        });
        let (origin, bytes_req, bytes_alloc) = if self.random.below(3) == 0 {
            // Log-uniform from 8 bytes to 4 KiB.
            let bytes_req = (8 + self.random.below(8)) << self.random.below(9);
            (Origin::Kmalloc, bytes_req, kmalloc_slot_bytes(bytes_req))
        } else {
            // The smaller of two draws: the first caches are the most used.
            let count = self.caches.len() as u64;
            let at = self.random.below(count).min(self.random.below(count));
            let (name, bytes) = self.caches[at as usize];
            let origin = Origin::Cache {
                name,
                known_by: KnownBy::Event,
            };
            (origin, bytes, bytes)
        };
        let cache = match origin {
            Origin::Cache { name, .. } => Some(name),
            Origin::Kmalloc => None,
        };
        self.live.push((ptr, cache));
        Kind::Alloc(Alloc {
            ptr,
            origin,
            bytes_req,
            bytes_alloc,
            call_site: self.site,
            flags: GfpFlags::default(),
        })
    }

    fn free(&mut self) -> Kind {
        let at = self.random.below(self.live.len() as u64) as usize;
        let (ptr, cache) = self.live.swap_remove(at);
        self.free.push(ptr);
        Kind::Free(Free {
            ptr,
            cache,
            by_rcu: false,
        })
    }
}

/// The class that SLUB and SLAB serve a kmalloc from (96 and 192 beside the powers of two).
fn kmalloc_slot_bytes(bytes: u64) -> u64 {
    match bytes {
        65..=96 => 96,
        129..=192 => 192,
        _ => bytes.next_power_of_two().max(8),
    }
}

impl Source for Synthetic {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        if self.counts.events >= self.spec.events || self.spec.live_objs_max == 0 {
            return Ok(None);
        }
        let live = self.live.len();
        if live == self.spec.live_objs_max {
            self.growing = false;
        } else if live <= self.spec.live_objs_max / 4 {
            self.growing = true;
        }
        // Three of five events go with the current, so both kinds are frequent.
        let with_the_current = self.random.below(5) < 3;
        let alloc =
            live == 0 || (live < self.spec.live_objs_max && with_the_current == self.growing);
        let kind = if alloc { self.alloc() } else { self.free() };
        let event = Event {
            // A burst of eight on each tick, as on a coarse clock.
            time_ns: self.counts.events / 8 * 8000,
            cpu: self.random.below(u64::from(self.spec.cpus.max(1))) as u16,
            kind,
        };
        self.counts.events += 1;
        Ok(Some(event))
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn counts(&self) -> ReadCounts {
        self.counts
    }
}
