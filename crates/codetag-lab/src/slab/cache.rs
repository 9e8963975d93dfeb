//! A cache's arrays and lists, with the kernel's names of the steps.

use super::{Config, Geometry, GeometryParams, Management, Slab, Tunables, geometry, tunables};
use crate::kmalloc::Family;
use crate::model::{CacheFlags, CacheId, CacheSpec, CacheUsage, Obj};
use crate::page::{OutOfPages, PageAllocator, Pfn};

const NONE: u32 = u32::MAX;

/// `BATCHREFILL_LIMIT`: what an array takes at a time that has not been used since the last reaping.
const REFILL_UNTOUCHED: u32 = 16;

/// Which of its node's lists a slab is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Partial,
    Free,
    Full,
}

/// One slab. An object in an array is not in its slab, so it counts as active there.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlabEntry {
    pfn: Pfn,
    pub(super) cache: u32,
    active_objs: u32,
    on: On,
    next: u32,
    prev: u32,
    /// Its freelist, if that is off the slab.
    freelist: Option<Obj>,
    /// Its vector of tag refs.
    pub(super) vector: Option<Obj>,
}

/// Slabs by number; numbers of those that are gone are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Slabs {
    all: Vec<SlabEntry>,
    unused: Vec<u32>,
}

impl Slabs {
    fn add(&mut self, slab: SlabEntry) -> u32 {
        if let Some(id) = self.unused.pop() {
            self.all[id as usize] = slab;
            return id;
        }
        self.all.push(slab);
        self.all.len() as u32 - 1
    }

    fn remove(&mut self, id: u32) -> SlabEntry {
        self.unused.push(id);
        self.all[id as usize]
    }
}

impl std::ops::Index<u32> for Slabs {
    type Output = SlabEntry;

    fn index(&self, id: u32) -> &SlabEntry {
        &self.all[id as usize]
    }
}

impl std::ops::IndexMut<u32> for Slabs {
    fn index_mut(&mut self, id: u32) -> &mut SlabEntry {
        &mut self.all[id as usize]
    }
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        len: 0,
    };

    fn push(&mut self, slabs: &mut Slabs, id: u32, on: On, at_tail: bool) {
        let (prev, next) = if at_tail {
            (self.tail, NONE)
        } else {
            (NONE, self.head)
        };
        let slab = &mut slabs[id];
        (slab.prev, slab.next, slab.on) = (prev, next, on);
        match prev {
            NONE => self.head = id,
            prev => slabs[prev].next = id,
        }
        match next {
            NONE => self.tail = id,
            next => slabs[next].prev = id,
        }
        self.len += 1;
    }

    fn unlink(&mut self, slabs: &mut Slabs, id: u32) {
        let SlabEntry { next, prev, .. } = slabs[id];
        match prev {
            NONE => self.head = next,
            prev => slabs[prev].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => slabs[next].prev = prev,
        }
        self.len -= 1;
    }
}

/// Free objects at hand, by slab; the last one is taken first.
#[derive(Clone, Debug, Default)]
struct Array {
    slabs: Vec<u32>,
    touched: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    pub(super) name: String,
    pub(super) object_bytes: u32,
    pub(super) geometry: Geometry,
    pub(super) ever_used: bool,
    /// Its objects belong to slabs: vectors of refs. They have no refs themselves.
    pub(super) for_slabs: bool,
    flags: CacheFlags,
    tunables: Tunables,
    arrays: Vec<Array>,
    shared: Array,
    partial: List,
    free: List,
    full: List,
    /// Objects in slabs, not in arrays, that are free.
    free_objs: u32,
    free_limit: u32,
    /// Whether an empty slab was used since the last reaping.
    free_touched: bool,
    next_colour: u32,
    live_objs: u64,
}

impl Cache {
    pub(super) fn new(spec: &CacheSpec, config: &Config, for_slabs: bool) -> Self {
        let geometry = geometry(GeometryParams {
            object_bytes: spec.object_bytes,
            align: spec.align,
            keeps_objects: spec.flags.ctor || spec.flags.rcu,
            reclaim: spec.flags.reclaim,
            max_order: config.max_order,
        });
        let tunables = tunables(geometry.slot_bytes, config.cpus);
        Self {
            name: spec.name.clone(),
            object_bytes: spec.object_bytes,
            geometry,
            ever_used: false,
            for_slabs,
            flags: spec.flags,
            tunables,
            arrays: vec![Array::default(); usize::from(config.cpus)],
            shared: Array::default(),
            partial: List::EMPTY,
            free: List::EMPTY,
            full: List::EMPTY,
            free_objs: 0,
            free_limit: (1 + u32::from(config.cpus)) * tunables.batchcount + geometry.objs,
            free_touched: false,
            next_colour: 0,
            live_objs: 0,
        }
    }

    pub(super) fn next_colour_bytes(&self) -> u32 {
        let next = if self.next_colour + 1 >= self.geometry.colours {
            0
        } else {
            self.next_colour + 1
        };
        next * self.geometry.colour_bytes
    }

    fn list(&mut self, on: On) -> &mut List {
        match on {
            On::Partial => &mut self.partial,
            On::Free => &mut self.free,
            On::Full => &mut self.full,
        }
    }

    pub(super) fn usage(&self) -> CacheUsage {
        let slabs = u64::from(self.partial.len + self.free.len + self.full.len);
        let slots = slabs * u64::from(self.geometry.objs);
        CacheUsage {
            name: self.name.clone(),
            live_objs: self.live_objs,
            active_objs: slots - u64::from(self.free_objs),
            slots,
            slot_bytes: self.geometry.slot_bytes,
            object_bytes: self.object_bytes,
            objs_per_slab: self.geometry.objs,
            order: self.geometry.order,
            tunables: [
                self.tunables.limit,
                self.tunables.batchcount,
                self.tunables.shared,
            ],
            active_slabs: slabs - u64::from(self.free.len),
            slabs,
            pages: slabs << self.geometry.order,
            partial_slabs: u64::from(self.partial.len),
            cpu_slabs: 0,
            cpu_partial_slabs: 0,
            shared_avail: self.shared.slabs.len() as u64,
        }
    }
}

impl Slab {
    /// As in SLUB, by the slot's size and the kind of pages.
    pub(super) fn find_mergeable(&self, spec: &CacheSpec) -> Option<CacheId> {
        let fixed = |flags: &CacheFlags| flags.ctor || flags.rcu || flags.no_merge;
        if !self.config.merge || fixed(&spec.flags) {
            return None;
        }
        let size = spec
            .object_bytes
            .max(1)
            .next_multiple_of(8)
            .next_multiple_of(spec.align.max(8));
        let found = self.caches.iter().position(|cache| {
            !fixed(&cache.flags)
                && cache.geometry.slot_bytes == size
                && cache.flags.reclaim == spec.flags.reclaim
                && (!self.config.memcg || cache.flags.account == spec.flags.account)
        });
        found.map(|index| CacheId(index as u32))
    }

    /// `____cache_alloc`: the slab that the object is of.
    pub(super) fn alloc(
        &mut self,
        pages: &mut PageAllocator,
        id: CacheId,
        cpu: u16,
    ) -> Result<u32, OutOfPages> {
        let cpu = usize::from(cpu % self.config.cpus);
        let array = &mut self.caches[id.index()].arrays[cpu];
        let taken = match array.slabs.pop() {
            Some(slab) => {
                array.touched = true;
                slab
            }
            None => self.refill(pages, id, cpu)?,
        };
        let cache = &mut self.caches[id.index()];
        cache.live_objs += 1;
        cache.ever_used = true;
        Ok(taken)
    }

    /// `cache_alloc_refill`: from the shared array, else from slabs, else from a new slab.
    fn refill(
        &mut self,
        pages: &mut PageAllocator,
        id: CacheId,
        cpu: usize,
    ) -> Result<u32, OutOfPages> {
        let Self { caches, slabs, .. } = self;
        let cache = &mut caches[id.index()];
        let mut batch = cache.tunables.batchcount;
        if !cache.arrays[cpu].touched {
            batch = batch.min(REFILL_UNTOUCHED);
        }
        if !cache.shared.slabs.is_empty() {
            let from = cache.shared.slabs.len() - cache.shared.slabs.len().min(batch as usize);
            let moved = cache.shared.slabs.split_off(from);
            cache.arrays[cpu].slabs.extend(moved);
            cache.shared.touched = true;
        } else {
            while batch > 0 {
                let slab = if cache.partial.head != NONE {
                    cache.partial.head
                } else {
                    cache.free_touched = true;
                    cache.free.head
                };
                if slab == NONE {
                    break;
                }
                cache.take_block(slabs, slab, cpu, &mut batch);
            }
        }
        if cache.arrays[cpu].slabs.is_empty() {
            self.grow(pages, id, cpu, batch)?;
        }
        let array = &mut self.caches[id.index()].arrays[cpu];
        array.touched = true;
        Ok(array.slabs.pop().expect("a refilled array has an object"))
    }

    /// `cache_grow_begin` and `cache_grow_end`, with the first objects taken in between.
    fn grow(
        &mut self,
        pages: &mut PageAllocator,
        id: CacheId,
        cpu: usize,
        mut batch: u32,
    ) -> Result<(), OutOfPages> {
        let Geometry {
            order,
            objs,
            management,
            ..
        } = self.caches[id.index()].geometry;
        let pfn = pages.alloc(cpu as u16, order)?;
        let cache = &mut self.caches[id.index()];
        cache.next_colour = if cache.next_colour + 1 >= cache.geometry.colours {
            0
        } else {
            cache.next_colour + 1
        };
        let freelist = match management {
            Management::OffSlab => {
                match self.alloc_for_slab(pages, Some(Family::Normal), u64::from(objs), cpu as u16)
                {
                    Ok(freelist) => Some(freelist),
                    Err(none) => {
                        pages.free(cpu as u16, pfn);
                        return Err(none);
                    }
                }
            }
            Management::InObject | Management::OnSlab => None,
        };
        let slab = self.slabs.add(SlabEntry {
            pfn,
            cache: id.0,
            active_objs: 0,
            on: On::Free,
            next: NONE,
            prev: NONE,
            freelist,
            vector: None,
        });
        let Self { caches, slabs, .. } = self;
        let cache = &mut caches[id.index()];
        cache.free.push(slabs, slab, On::Free, true);
        cache.free_objs += objs;
        cache.take_block(slabs, slab, cpu, &mut batch);
        if self.config.ref_bytes > 0 && !self.config.lazy_refs && !self.caches[id.index()].for_slabs
        {
            self.alloc_vector(pages, slab, objs, cpu as u16);
        }
        Ok(())
    }

    pub(super) fn free_one(&mut self, pages: &mut PageAllocator, obj: Obj, cpu: u16) {
        if let Some(pfn) = obj.as_large() {
            let before = pages.allocated_pages();
            pages.free(cpu, pfn);
            self.large_pages -= before - pages.allocated_pages();
            return;
        }
        let slab = obj.0 as u32;
        let id = CacheId(self.slabs[slab].cache);
        let cpu = usize::from(cpu % self.config.cpus);
        let cache = &mut self.caches[id.index()];
        cache.live_objs -= 1;
        if cache.arrays[cpu].slabs.len() >= cache.tunables.limit as usize {
            self.flush(pages, id, cpu);
        }
        self.caches[id.index()].arrays[cpu].slabs.push(slab);
    }

    /// `cache_flusharray`: the oldest go to the shared array as far as it has room, else to their slabs.
    fn flush(&mut self, pages: &mut PageAllocator, id: CacheId, cpu: usize) {
        let cache = &mut self.caches[id.index()];
        let room =
            (cache.tunables.shared * cache.tunables.batchcount) as usize - cache.shared.slabs.len();
        let batch = cache.tunables.batchcount as usize;
        if room > 0 {
            let moved = cache.arrays[cpu].slabs.drain(..batch.min(room));
            cache.shared.slabs.extend(moved);
        } else {
            let moved: Vec<u32> = cache.arrays[cpu].slabs.drain(..batch).collect();
            self.free_block(pages, id, &moved);
        }
    }

    /// `free_block`: objects back into their slabs, and empty slabs away while more is free than the limit.
    fn free_block(&mut self, pages: &mut PageAllocator, id: CacheId, objs: &[u32]) {
        let Self { caches, slabs, .. } = self;
        let cache = &mut caches[id.index()];
        cache.free_objs += objs.len() as u32;
        for &slab in objs {
            let on = slabs[slab].on;
            cache.list(on).unlink(slabs, slab);
            slabs[slab].active_objs -= 1;
            if slabs[slab].active_objs == 0 {
                cache.free.push(slabs, slab, On::Free, false);
            } else {
                cache.partial.push(slabs, slab, On::Partial, true);
            }
        }
        while self.caches[id.index()].free_objs > self.caches[id.index()].free_limit
            && self.destroy_last(pages, id)
        {}
    }

    /// The last of the empty slabs goes; whether there was one.
    fn destroy_last(&mut self, pages: &mut PageAllocator, id: CacheId) -> bool {
        let cache = &mut self.caches[id.index()];
        let slab = cache.free.tail;
        if slab == NONE {
            return false;
        }
        cache.free.unlink(&mut self.slabs, slab);
        cache.free_objs -= cache.geometry.objs;
        let objs = cache.geometry.objs;
        let SlabEntry {
            pfn,
            freelist,
            vector,
            ..
        } = self.slabs.remove(slab);
        pages.free(0, pfn);
        self.dead.extend(freelist);
        if let Some(vector) = vector {
            self.ext_vectors -= 1;
            self.ext_bytes -= u64::from(objs) * u64::from(self.config.ref_bytes);
            self.dead.push(vector);
        }
        true
    }

    /// One cache in `cache_reap`: a fifth of the limit of each array, and empty slabs, unless they were used.
    pub(super) fn reap(&mut self, pages: &mut PageAllocator, id: CacheId, is_node_due: bool) {
        for cpu in 0..usize::from(self.config.cpus) {
            let cache = &mut self.caches[id.index()];
            let limit = cache.tunables.limit;
            let objs = drained(&mut cache.arrays[cpu], limit);
            self.free_block(pages, id, &objs);
        }
        if !is_node_due {
            return;
        }
        let cache = &mut self.caches[id.index()];
        let limit = cache.tunables.shared * cache.tunables.batchcount;
        let objs = drained(&mut cache.shared, limit);
        self.free_block(pages, id, &objs);
        let cache = &mut self.caches[id.index()];
        if std::mem::take(&mut cache.free_touched) {
            return;
        }
        let most = cache.free_limit.div_ceil(5 * cache.geometry.objs);
        for _ in 0..most {
            if !self.destroy_last(pages, id) {
                break;
            }
        }
    }

    /// `__kmem_cache_shrink`: nothing stays in arrays, no slab is empty.
    pub(super) fn shrink_cache(&mut self, pages: &mut PageAllocator, id: CacheId) {
        for cpu in 0..usize::from(self.config.cpus) {
            let objs = std::mem::take(&mut self.caches[id.index()].arrays[cpu].slabs);
            self.free_block(pages, id, &objs);
        }
        let objs = std::mem::take(&mut self.caches[id.index()].shared.slabs);
        self.free_block(pages, id, &objs);
        while self.destroy_last(pages, id) {}
    }
}

impl Cache {
    /// `alloc_block` and `fixup_slab_list`: up to `batch` objects of `slab` into a CPU's array.
    fn take_block(&mut self, slabs: &mut Slabs, slab: u32, cpu: usize, batch: &mut u32) {
        let on = slabs[slab].on;
        self.list(on).unlink(slabs, slab);
        let count = (self.geometry.objs - slabs[slab].active_objs).min(*batch);
        slabs[slab].active_objs += count;
        self.free_objs -= count;
        *batch -= count;
        self.arrays[cpu]
            .slabs
            .extend(std::iter::repeat_n(slab, count as usize));
        if slabs[slab].active_objs == self.geometry.objs {
            self.full.push(slabs, slab, On::Full, false);
        } else {
            self.partial.push(slabs, slab, On::Partial, false);
        }
    }
}

/// `drain_array`: the oldest objects of an array that was not used since the last time.
fn drained(array: &mut Array, limit: u32) -> Vec<u32> {
    if array.slabs.is_empty() || std::mem::take(&mut array.touched) {
        return Vec::new();
    }
    let fifth = (limit as usize).div_ceil(5);
    let count = if fifth > array.slabs.len() {
        array.slabs.len().div_ceil(2)
    } else {
        fifth
    };
    array.slabs.drain(..count).collect()
}
