//! What every model can do, and what can be asked of it.

use crate::event::GfpFlags;
use crate::page::{OutOfPages, PageAllocator};
use std::fmt;

/// A cache of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheId(pub(crate) u32);

impl CacheId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A live object of a model. What it holds is the model's: a slab, an address or a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obj(pub(crate) u64);

impl Obj {
    /// Set for objects that are whole pages.
    const LARGE: u64 = 1 << 63;

    pub(crate) fn large(pfn: crate::page::Pfn) -> Self {
        Self(Self::LARGE | pfn.index() as u64)
    }

    /// The first page of a large object.
    pub(crate) fn as_large(self) -> Option<crate::page::Pfn> {
        (self.0 & Self::LARGE != 0)
            .then(|| crate::page::Pfn::from_index((self.0 & !Self::LARGE) as usize))
    }
}

/// Flags of a cache that change sizes, merging or lifetimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFlags {
    /// `SLAB_RECLAIM_ACCOUNT`.
    pub reclaim: bool,
    /// `SLAB_TYPESAFE_BY_RCU`.
    pub rcu: bool,
    /// It has a constructor.
    pub ctor: bool,
    /// `SLAB_ACCOUNT`: every object is charged.
    pub account: bool,
    /// Never merged for another reason: a usercopy region, or a cache of the allocator itself.
    pub no_merge: bool,
}

/// A cache as its creator asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSpec {
    /// Its name.
    pub name: String,
    /// Bytes of an object.
    pub object_bytes: u32,
    /// Power of two, at least 8.
    pub align: u32,
    /// The slot, where the trace has it from the very allocator that is modelled; else the model
    /// computes it.
    pub slot_bytes: Option<u32>,
    /// Its flags.
    pub flags: CacheFlags,
}

/// What a call of the allocator says besides the size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The CPU that it runs on.
    pub cpu: u16,
    /// Its flags.
    pub flags: GfpFlags,
    /// Whether the object gets a tag ref, if the model keeps any.
    pub is_tagged: bool,
}

/// One allocator, which counts the pages that it takes.
pub trait Model: fmt::Debug {
    /// Makes a cache, or finds the one that it is merged with.
    fn create_cache(&mut self, spec: &CacheSpec) -> CacheId;

    /// Allocates from a cache.
    ///
    /// # Errors
    ///
    /// When it needs pages and there are none.
    fn cache_alloc(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        call: Call,
    ) -> Result<Obj, OutOfPages>;

    /// Allocates `bytes`, more than 0.
    ///
    /// # Errors
    ///
    /// When it needs pages and there are none.
    fn kmalloc(
        &mut self,
        pages: &mut PageAllocator,
        bytes: u64,
        call: Call,
    ) -> Result<Obj, OutOfPages>;

    /// Frees an object of either kind.
    fn free(&mut self, pages: &mut PageAllocator, obj: Obj, cpu: u16);

    /// Bytes that a live object takes: its slot, its block or its pages.
    fn obj_bytes(&self, pages: &PageAllocator, obj: Obj) -> u64;

    /// A grace period of RCU has ended: what waits for it is freed. Replays say so when the trace shows it.
    fn end_grace_period(&mut self, _pages: &mut PageAllocator, _cpu: u16) {}

    /// The trace's clock stands at `now_ns`, never less than before. For what the kernel does from time to time.
    fn pass_time(&mut self, _pages: &mut PageAllocator, _now_ns: u64) {}

    /// Gives back what the kernel gives back when it is asked to: cached objects and empty slabs.
    fn shrink(&mut self, pages: &mut PageAllocator);

    /// The sums.
    fn usage(&self) -> Usage;

    /// Each cache that ever had an object; merged ones under the name of the first.
    fn caches(&self) -> Vec<CacheUsage>;
}

/// Sums over an allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Pages of slabs.
    pub slab_pages: u64,
    /// Pages of requests too large for a slab.
    pub large_pages: u64,
    /// Slabs; with SLOB pages that hold blocks.
    pub slabs: u64,
    /// Slots of these slabs; 0 with SLOB, which has none.
    pub slots: u64,
    /// Live objects in slabs.
    pub slab_objs: u64,
    /// Bytes of their slots; with SLOB of their blocks, headers included.
    pub slot_bytes: u64,
    /// Vectors of tag refs, and their bytes as asked for.
    pub ext_vectors: u64,
    /// See [`ext_vectors`](Self::ext_vectors).
    pub ext_bytes: u64,
    /// Tagged objects that got no ref because there were no pages for a vector.
    pub ext_failures: u64,
}

impl Usage {
    /// All pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.slab_pages + self.large_pages
    }
}

/// One cache, with the columns of /proc/slabinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Its name.
    pub name: String,
    /// Live objects in truth: not what slabinfo calls active.
    pub live_objs: u64,
    /// Objects that slabinfo counts as active: all that are not free in a slab on the node's lists.
    pub active_objs: u64,
    /// Slots.
    pub slots: u64,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// Bytes of an object.
    pub object_bytes: u32,
    /// Slots of a slab; the smallest one differs where memory was short.
    pub objs_per_slab: u32,
    /// Order of a slab.
    pub order: u32,
    /// Tunables of SLAB: limit, batchcount, shared factor. Zeros elsewhere.
    pub tunables: [u32; 3],
    /// Slabs with an object; with SLUB all of them.
    pub active_slabs: u64,
    /// Slabs.
    pub slabs: u64,
    /// Their pages.
    pub pages: u64,
    /// Slabs on the node's partial list.
    pub partial_slabs: u64,
    /// Slabs that a CPU allocates from.
    pub cpu_slabs: u64,
    /// Slabs on CPU partial lists.
    pub cpu_partial_slabs: u64,
    /// Objects in the shared arrays of SLAB.
    pub shared_avail: u64,
}

impl Model for Box<dyn Model> {
    fn create_cache(&mut self, spec: &CacheSpec) -> CacheId {
        (**self).create_cache(spec)
    }

    fn cache_alloc(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        (**self).cache_alloc(pages, cache, call)
    }

    fn kmalloc(
        &mut self,
        pages: &mut PageAllocator,
        bytes: u64,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        (**self).kmalloc(pages, bytes, call)
    }

    fn free(&mut self, pages: &mut PageAllocator, obj: Obj, cpu: u16) {
        (**self).free(pages, obj, cpu);
    }

    fn obj_bytes(&self, pages: &PageAllocator, obj: Obj) -> u64 {
        (**self).obj_bytes(pages, obj)
    }

    fn end_grace_period(&mut self, pages: &mut PageAllocator, cpu: u16) {
        (**self).end_grace_period(pages, cpu);
    }

    fn pass_time(&mut self, pages: &mut PageAllocator, now_ns: u64) {
        (**self).pass_time(pages, now_ns);
    }

    fn shrink(&mut self, pages: &mut PageAllocator) {
        (**self).shrink(pages);
    }

    fn usage(&self) -> Usage {
        (**self).usage()
    }

    fn caches(&self) -> Vec<CacheUsage> {
        (**self).caches()
    }
}
