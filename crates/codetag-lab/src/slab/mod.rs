//! SLAB: mm/slab.c of 6.1, the allocator that 6.8 removed.
//!
//! Every CPU has an array of free objects of each cache, the CPUs of a node may share one, behind them
//! are lists of slabs. The model knows for each free object in an array which slab it is of, and for
//! each slab how many of its objects are not in it. One node; no debugging.

mod cache;
mod geometry;

pub use geometry::{Geometry, GeometryParams, Management, Tunables, geometry, tunables};

use crate::kernel::{get_order, order_bytes};
use crate::kmalloc::{CLASSES, Families, Family, KmallocAlign, cache_align_of_class, class_of};
use crate::model::{CacheFlags, CacheId, CacheSpec, CacheUsage, Call, Model, Obj, Usage};
use crate::page::{OutOfPages, PageAllocator};
use cache::{Cache, Slabs};

/// Which SLAB is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// CPUs.
    pub cpus: u16,
    /// `slab_max_order`: 1 on machines of more than 32 MiB, else 0.
    pub max_order: u32,
    /// Whether caches that fit each other share slabs.
    pub merge: bool,
    /// Whether there are `kmalloc-cg-*`, and `SLAB_ACCOUNT` keeps caches from merging.
    pub memcg: bool,
    /// Bytes of a tag ref per slot, 0 for none.
    pub ref_bytes: u32,
    /// Whether a slab's vector is made with its first tagged object; else with the slab.
    pub lazy_refs: bool,
}

impl Config {
    /// SLAB on a machine of `cpus` CPUs and more than 32 MiB.
    #[must_use]
    pub fn new(cpus: u16) -> Self {
        Self {
            cpus: cpus.max(1),
            max_order: 1,
            merge: true,
            memcg: false,
            ref_bytes: 0,
            lazy_refs: true,
        }
    }

    /// On a machine of 32 MiB or less.
    #[must_use]
    pub fn small(cpus: u16) -> Self {
        Self {
            max_order: 0,
            ..Self::new(cpus)
        }
    }

    /// With `slab_nomerge`.
    #[must_use]
    pub fn without_merging(self) -> Self {
        Self {
            merge: false,
            ..self
        }
    }

    /// With a tag ref of so many bytes for each slot.
    #[must_use]
    pub fn with_refs(self, ref_bytes: u32, lazy_refs: bool) -> Self {
        Self {
            ref_bytes,
            lazy_refs,
            ..self
        }
    }
}

/// Rows of kmalloc caches: each [`Family`], one for what belongs to slabs.
const FAMILIES: usize = 5;

/// A SLAB that runs.
#[derive(Clone, Debug)]
pub struct Slab {
    config: Config,
    caches: Vec<Cache>,
    slabs: Slabs,
    kmalloc: [[Option<CacheId>; CLASSES.len()]; FAMILIES],
    large_pages: u64,
    ext_vectors: u64,
    ext_bytes: u64,
    ext_failures: u64,
    /// Freelists and vectors of slabs that are gone.
    dead: Vec<Obj>,
    next_reap_ns: u64,
}

/// Time between two rounds of `cache_reap` on a CPU: `REAPTIMEOUT_AC`.
const REAP_NS: u64 = 2_000_000_000;

impl Slab {
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
            dead: Vec::new(),
            next_reap_ns: REAP_NS,
        }
    }

    /// The cache of that name, merged ones by the name of the first.
    #[must_use]
    pub fn find_cache(&self, name: &str) -> Option<CacheId> {
        let index = self.caches.iter().position(|cache| cache.name == name)?;
        Some(CacheId(index as u32))
    }

    /// The columns of slabinfo and more.
    ///
    /// # Panics
    ///
    /// If `cache` is not one of this model's.
    #[must_use]
    pub fn usage_of(&self, cache: CacheId) -> CacheUsage {
        self.caches[cache.index()].usage()
    }

    /// How the slabs of `cache` are cut.
    ///
    /// # Panics
    ///
    /// If `cache` is not one of this model's.
    #[must_use]
    pub fn geometry_of(&self, cache: CacheId) -> Geometry {
        self.caches[cache.index()].geometry
    }

    /// Offset of the first object of the next slab of `cache`, in bytes.
    ///
    /// # Panics
    ///
    /// If `cache` is not one of this model's.
    #[must_use]
    pub fn next_colour_bytes(&self, cache: CacheId) -> u32 {
        self.caches[cache.index()].next_colour_bytes()
    }

    fn add_cache(&mut self, spec: &CacheSpec, for_slabs: bool) -> CacheId {
        self.caches.push(Cache::new(spec, &self.config, for_slabs));
        CacheId(self.caches.len() as u32 - 1)
    }

    fn kmalloc_cache(&mut self, family: Option<Family>, bytes: u64) -> Option<CacheId> {
        // The smallest class is 32.
        let class = class_of(bytes.max(32))?;
        let row = family.map_or(FAMILIES - 1, |family| family as usize);
        if let Some(cache) = self.kmalloc[row][class] {
            return Some(cache);
        }
        let of = family.unwrap_or(Family::Normal);
        let name = of.cache_name(CLASSES[class]);
        let spec = CacheSpec {
            name: if family.is_some() {
                name
            } else {
                name.replace("kmalloc-", "kmalloc-no-objext-")
            },
            object_bytes: CLASSES[class],
            align: cache_align_of_class(CLASSES[class], KmallocAlign::CacheLine),
            slot_bytes: None,
            flags: CacheFlags {
                reclaim: of == Family::Reclaimable,
                no_merge: true,
                ..CacheFlags::default()
            },
        };
        let cache = self.add_cache(&spec, family.is_none());
        self.kmalloc[row][class] = Some(cache);
        Some(cache)
    }

    /// Memory that belongs to a slab: its vector of refs, or with `family` its freelist.
    fn alloc_for_slab(
        &mut self,
        pages: &mut PageAllocator,
        family: Option<Family>,
        bytes: u64,
        cpu: u16,
    ) -> Result<Obj, OutOfPages> {
        match self.kmalloc_cache(family, bytes) {
            Some(cache) => self
                .alloc(pages, cache, cpu)
                .map(|slab| Obj(u64::from(slab))),
            None => self.alloc_large(pages, bytes, cpu),
        }
    }

    fn alloc_vector(&mut self, pages: &mut PageAllocator, slab: u32, objs: u32, cpu: u16) {
        let bytes = u64::from(objs) * u64::from(self.config.ref_bytes);
        match self.alloc_for_slab(pages, None, bytes, cpu) {
            Ok(vector) => {
                self.ext_vectors += 1;
                self.ext_bytes += bytes;
                self.slabs[slab].vector = Some(vector);
            }
            Err(OutOfPages { .. }) => self.ext_failures += 1,
        }
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

    fn alloc_tagged(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        let slab = self.alloc(pages, cache, call.cpu)?;
        let of = &self.caches[cache.index()];
        if self.config.ref_bytes > 0
            && call.is_tagged
            && !of.for_slabs
            && self.slabs[slab].vector.is_none()
        {
            let objs = of.geometry.objs;
            self.alloc_vector(pages, slab, objs, call.cpu);
        }
        Ok(Obj(u64::from(slab)))
    }

    fn free_dead(&mut self, pages: &mut PageAllocator, cpu: u16) {
        while let Some(obj) = self.dead.pop() {
            self.free_one(pages, obj, cpu);
        }
    }
}

impl Model for Slab {
    fn create_cache(&mut self, spec: &CacheSpec) -> CacheId {
        if let Some(found) = self.find_mergeable(spec) {
            let cache = &mut self.caches[found.index()];
            cache.object_bytes = cache.object_bytes.max(spec.object_bytes);
            return found;
        }
        self.add_cache(spec, false)
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
        let families = Families {
            reclaimable: true,
            accounted: self.config.memcg,
            dma: true,
        };
        match self.kmalloc_cache(Some(Family::of(call.flags, families)), bytes) {
            Some(cache) => self.alloc_tagged(pages, cache, call),
            None => self.alloc_large(pages, bytes, call.cpu),
        }
    }

    fn free(&mut self, pages: &mut PageAllocator, obj: Obj, cpu: u16) {
        self.free_one(pages, obj, cpu);
        self.free_dead(pages, cpu);
    }

    /// `cache_reap`, every two seconds on each CPU.
    fn pass_time(&mut self, pages: &mut PageAllocator, now_ns: u64) {
        if now_ns < self.next_reap_ns {
            return;
        }
        // Whatever passed unseen, an array that was used once is left alone once.
        let is_node_due = now_ns / (2 * REAP_NS) > (self.next_reap_ns - REAP_NS) / (2 * REAP_NS);
        self.next_reap_ns = (now_ns / REAP_NS * REAP_NS).saturating_add(REAP_NS);
        for cache in 0..self.caches.len() {
            self.reap(pages, CacheId(cache as u32), is_node_due);
        }
        self.free_dead(pages, 0);
    }

    fn obj_bytes(&self, pages: &PageAllocator, obj: Obj) -> u64 {
        match obj.as_large() {
            Some(pfn) => order_bytes(pages.order_of(pfn)),
            None => u64::from(
                self.caches[self.slabs[obj.0 as u32].cache as usize]
                    .geometry
                    .slot_bytes,
            ),
        }
    }

    fn shrink(&mut self, pages: &mut PageAllocator) {
        for cache in 0..self.caches.len() {
            self.shrink_cache(pages, CacheId(cache as u32));
        }
        self.free_dead(pages, 0);
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
            let of = cache.usage();
            usage.slab_pages += of.pages;
            usage.slabs += of.slabs;
            usage.slots += of.slots;
            usage.slab_objs += of.live_objs;
            usage.slot_bytes += of.live_objs * u64::from(of.slot_bytes);
        }
        usage
    }

    fn caches(&self) -> Vec<CacheUsage> {
        self.caches
            .iter()
            .filter(|cache| cache.ever_used)
            .map(Cache::usage)
            .collect()
    }
}

#[cfg(test)]
mod tests;
