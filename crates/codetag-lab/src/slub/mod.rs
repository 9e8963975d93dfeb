//! SLUB and SLUB_TINY: mm/slub.c of 6.1 and 6.12, and the CPU partial lists of before 5.16.
//!
//! The model knows slabs and how many of their objects are free, not which: that decides every list
//! and every page. No freelist randomisation, one node. A slab that is freed under RCU
//! (`SLAB_TYPESAFE_BY_RCU`) gives its pages back at once here, in the kernel after a grace period.

mod config;
mod layout;
mod order;
mod path;
mod report;
mod slabs;

pub use config::{
    Config, CpuPartial, Path, cpu_partial_estimate_objs, cpu_partial_objs, cpu_partial_slabs,
    min_partial,
};
pub use layout::{DebugFlags, Layout, LayoutParams, layout};
pub use order::{OBJS_MAX, OrderParams, OrderRule, OrderSteps, OrderTry, calculate_order};
pub use report::ListedSlab;

use crate::kernel::{align_up, get_order, order_bytes};
use crate::kmalloc::{CLASSES, Families, Family, cache_align_of_class, class_of};
use crate::model::{CacheFlags, CacheId, CacheSpec, CacheUsage, Call, Model, Obj, Usage};
use crate::page::{OutOfPages, PageAllocator};
use slabs::{List, NONE, Slabs};

/// A CPU's part of a cache.
#[derive(Clone, Copy, Debug)]
struct CpuCache {
    /// The slab that it allocates from.
    slab: u32,
    /// Objects on its own freelist, all of that slab.
    free_objs: u32,
    /// First of its partial slabs.
    partial: u32,
}

#[derive(Clone, Debug)]
struct Cache {
    name: String,
    object_bytes: u32,
    slot_bytes: u32,
    order: u32,
    objs: u32,
    /// Smallest order that holds an object, for when memory is short.
    least_order: u32,
    flags: CacheFlags,
    is_kmalloc: bool,
    /// Holds vectors of tag refs, so it has none itself.
    holds_refs: bool,
    min_partial: u32,
    cpu_partial_slabs: u32,
    cpu_partial_estimate: u32,
    cpus: Vec<CpuCache>,
    partial: List,
    slabs: u64,
    slots: u64,
    pages: u64,
    live_objs: u64,
    ever_used: bool,
}

/// Number of [`Family`] and of the family that holds vectors of refs.
const FAMILIES: usize = 5;

/// A SLUB that runs.
#[derive(Clone, Debug)]
pub struct Slub {
    config: Config,
    caches: Vec<Cache>,
    slabs: Slabs,
    kmalloc: [[Option<CacheId>; CLASSES.len()]; FAMILIES],
    large_pages: u64,
    ext_vectors: u64,
    ext_bytes: u64,
    ext_failures: u64,
    /// Vectors of slabs that are gone, to be freed once the call that emptied the slab is done.
    dead_vectors: Vec<Obj>,
}

impl Slub {
    /// An empty one.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            caches: Vec::new(),
            slabs: Slabs::default(),
            kmalloc: [[None; CLASSES.len()]; FAMILIES],
            large_pages: 0,
            ext_vectors: 0,
            ext_bytes: 0,
            ext_failures: 0,
            dead_vectors: Vec::new(),
        }
    }

    /// How it was made.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn slot_bytes(&self, spec: &CacheSpec, is_kmalloc: bool) -> u32 {
        match spec.slot_bytes {
            Some(slot) if !self.config.debug.any() => slot,
            _ => {
                layout(LayoutParams {
                    object_bytes: spec.object_bytes,
                    align: spec.align,
                    ctor: spec.flags.ctor,
                    rcu: spec.flags.rcu,
                    kmalloc: is_kmalloc,
                    debug: self.config.debug,
                })
                .size_bytes
            }
        }
    }

    /// `find_mergeable` of mm/slab_common.c: same size to the pointer, same kind of pages. Sizes are
    /// multiples of eight and of the alignment, so that at most one cache can be found.
    fn find_mergeable(&self, spec: &CacheSpec) -> Option<CacheId> {
        let fixed = |flags: &CacheFlags| flags.ctor || flags.rcu || flags.no_merge;
        if !self.config.merge || fixed(&spec.flags) {
            return None;
        }
        let size = align_up(align_up(spec.object_bytes.max(1), 8), spec.align);
        let same_pages = |a: &CacheFlags, b: &CacheFlags| {
            (!self.config.reclaim || a.reclaim == b.reclaim)
                && (!self.config.memcg || a.account == b.account)
        };
        let found = self.caches.iter().position(|cache| {
            !cache.is_kmalloc
                && !fixed(&cache.flags)
                && cache.slot_bytes == size
                && same_pages(&cache.flags, &spec.flags)
        });
        found.map(|index| CacheId(index as u32))
    }

    fn add_cache(&mut self, spec: &CacheSpec, is_kmalloc: bool, holds_refs: bool) -> CacheId {
        let slot_bytes = self.slot_bytes(spec, is_kmalloc);
        let steps = calculate_order(slot_bytes, self.config.order);
        let idle = CpuCache {
            slab: NONE,
            free_objs: 0,
            partial: NONE,
        };
        self.caches.push(Cache {
            name: spec.name.clone(),
            object_bytes: spec.object_bytes,
            slot_bytes,
            order: steps.order,
            objs: steps.objs.max(1),
            least_order: get_order(u64::from(slot_bytes)),
            flags: spec.flags,
            is_kmalloc,
            holds_refs,
            min_partial: self
                .config
                .min_partial
                .unwrap_or_else(|| min_partial(slot_bytes)),
            cpu_partial_slabs: cpu_partial_slabs(slot_bytes, steps.objs),
            cpu_partial_estimate: cpu_partial_estimate_objs(slot_bytes),
            cpus: vec![idle; usize::from(self.config.cpus)],
            partial: List::EMPTY,
            slabs: 0,
            slots: 0,
            pages: 0,
            live_objs: 0,
            ever_used: false,
        });
        CacheId(self.caches.len() as u32 - 1)
    }

    fn kmalloc_cache(&mut self, family: Option<Family>, class: usize) -> CacheId {
        let row = family.map_or(FAMILIES - 1, |family| family as usize);
        if let Some(cache) = self.kmalloc[row][class] {
            return cache;
        }
        let bytes = CLASSES[class];
        let name = match family {
            Some(family) => family.cache_name(bytes),
            None => Family::Normal
                .cache_name(bytes)
                .replace("kmalloc-", "kmalloc-no-objext-"),
        };
        let spec = CacheSpec {
            name,
            object_bytes: bytes,
            align: cache_align_of_class(bytes, self.config.kmalloc_align),
            slot_bytes: None,
            flags: CacheFlags {
                reclaim: family == Some(Family::Reclaimable),
                no_merge: true,
                ..CacheFlags::default()
            },
        };
        let cache = self.add_cache(&spec, true, family.is_none());
        self.kmalloc[row][class] = Some(cache);
        cache
    }

    /// A vector of refs for `objs` objects; untagged itself.
    fn alloc_vector(&mut self, pages: &mut PageAllocator, objs: u32, cpu: u16) -> Option<Obj> {
        let bytes = u64::from(objs) * u64::from(self.config.ref_bytes);
        let obj = match class_of(bytes) {
            Some(class) => {
                let cache = self.kmalloc_cache(None, class);
                self.alloc(pages, cache, cpu)
                    .map(|slab| Obj(u64::from(slab)))
            }
            None => self.alloc_large(pages, bytes, cpu),
        };
        obj.inspect(|_| {
            self.ext_vectors += 1;
            self.ext_bytes += bytes;
        })
        .ok()
    }

    fn alloc_large(
        &mut self,
        pages: &mut PageAllocator,
        bytes: u64,
        cpu: u16,
    ) -> Result<Obj, OutOfPages> {
        let order = get_order(bytes);
        let pfn = pages.alloc(cpu, order)?;
        self.large_pages += 1 << order;
        Ok(Obj::large(pfn))
    }

    /// An object of `cache` and, if it is due, its slab's vector.
    fn alloc_tagged(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        let slab = self.alloc(pages, cache, call.cpu)?;
        if self.config.ref_bytes > 0
            && call.is_tagged
            && self.slabs[slab].vector.is_none()
            && !self.caches[cache.index()].holds_refs
        {
            let objs = self.slabs[slab].objs;
            let vector = self.alloc_vector(pages, objs, call.cpu);
            self.ext_failures += u64::from(vector.is_none());
            self.slabs[slab].vector = vector;
        }
        Ok(Obj(u64::from(slab)))
    }
}

impl Model for Slub {
    fn create_cache(&mut self, spec: &CacheSpec) -> CacheId {
        if let Some(found) = self.find_mergeable(spec) {
            let cache = &mut self.caches[found.index()];
            cache.object_bytes = cache.object_bytes.max(spec.object_bytes);
            return found;
        }
        self.add_cache(spec, false, false)
    }

    fn cache_alloc(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        self.alloc_tagged(pages, cache, call)
    }

    fn kmalloc(
        &mut self,
        pages: &mut PageAllocator,
        bytes: u64,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        let Some(class) = class_of(bytes) else {
            return self.alloc_large(pages, bytes, call.cpu);
        };
        let families = Families {
            reclaimable: self.config.reclaim,
            accounted: self.config.memcg,
            dma: true,
        };
        let cache = self.kmalloc_cache(Some(Family::of(call.flags, families)), class);
        self.alloc_tagged(pages, cache, call)
    }

    fn free(&mut self, pages: &mut PageAllocator, obj: Obj, cpu: u16) {
        self.free_one(pages, obj, cpu);
        self.free_dead_vectors(pages, cpu);
    }

    fn obj_bytes(&self, pages: &PageAllocator, obj: Obj) -> u64 {
        match obj.as_large() {
            Some(pfn) => order_bytes(pages.order_of(pfn)),
            None => u64::from(self.caches[self.slabs[obj.0 as u32].cache as usize].slot_bytes),
        }
    }

    fn shrink(&mut self, pages: &mut PageAllocator) {
        for cache in 0..self.caches.len() {
            self.shrink_cache(pages, CacheId(cache as u32));
        }
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage {
            large_pages: self.large_pages,
            ext_vectors: self.ext_vectors,
            ext_bytes: self.ext_bytes,
            ext_failures: self.ext_failures,
            ..Usage::default()
        };
        for cache in &self.caches {
            usage.slab_pages += cache.pages;
            usage.slabs += cache.slabs;
            usage.slots += cache.slots;
            usage.slab_objs += cache.live_objs;
            usage.slot_bytes += cache.live_objs * u64::from(cache.slot_bytes);
        }
        usage
    }

    fn caches(&self) -> Vec<CacheUsage> {
        self.caches
            .iter()
            .filter(|cache| cache.ever_used)
            .map(|cache| self.cache_usage(cache))
            .collect()
    }
}

/// Slots of a block of `order`.
fn slots_of(order: u32, slot_bytes: u32) -> u32 {
    (order_bytes(order) / u64::from(slot_bytes)) as u32
}

#[cfg(test)]
mod tests;
