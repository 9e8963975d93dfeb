//! How an object comes and goes, with the kernel's names of the steps \[6.1\].

use super::slabs::{NONE, Place, Slab};
use super::{CacheId, CpuPartial, OutOfPages, PageAllocator, Path, Slub, slots_of};
use crate::model::Obj;

/// `SHRINK_PROMOTE_MAX`: shrinking sorts slabs with so many free objects, fullest first.
const PROMOTE_MAX: usize = 32;

impl Slub {
    /// `slab_alloc_node`: the slab that the object is in.
    pub(super) fn alloc(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        cpu: u16,
    ) -> Result<u32, OutOfPages> {
        let slab = match self.config.path {
            Path::CpuSlab(partial) => self.alloc_from_cpu(pages, cache, cpu, partial),
            Path::Node => self.alloc_from_node(pages, cache, cpu),
        }?;
        let cache = &mut self.caches[cache.index()];
        cache.live_objs += 1;
        cache.ever_used = true;
        Ok(slab)
    }

    /// `___slab_alloc`.
    fn alloc_from_cpu(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        cpu: u16,
        partial: CpuPartial,
    ) -> Result<u32, OutOfPages> {
        let cpu = self.cpu_of(cpu);
        let here = &mut self.caches[cache.index()].cpus[cpu];
        if here.free_objs > 0 {
            here.free_objs -= 1;
            return Ok(here.slab);
        }
        if here.slab != NONE {
            let slab = here.slab;
            // What other CPUs freed meanwhile: get_freelist.
            if self.slabs[slab].free_objs > 0 {
                return Ok(self.load(cache, cpu, slab));
            }
            self.slabs[slab].place = Place::Full;
            self.caches[cache.index()].cpus[cpu].slab = NONE;
        }
        let here = &mut self.caches[cache.index()].cpus[cpu];
        let slab = if here.partial != NONE {
            let slab = here.partial;
            here.partial = self.slabs[slab].next;
            slab
        } else if let Some(slab) = self.get_partial(cache, cpu, partial) {
            slab
        } else {
            self.new_slab(pages, cache, cpu as u16)?
        };
        Ok(self.load(cache, cpu, slab))
    }

    /// The CPU takes all free objects of `slab`, and the first of them is allocated.
    fn load(&mut self, cache: CacheId, cpu: usize, slab: u32) -> u32 {
        let free_objs = std::mem::take(&mut self.slabs[slab].free_objs);
        self.slabs[slab].place = Place::Cpu(cpu as u16);
        let here = &mut self.caches[cache.index()].cpus[cpu];
        here.slab = slab;
        here.free_objs = free_objs - 1;
        slab
    }

    /// `get_partial_node`: the first slab of the node's list; with CPU partial lists also further ones, to
    /// half of what a CPU may hold.
    fn get_partial(&mut self, cache: CacheId, cpu: usize, partial: CpuPartial) -> Option<u32> {
        let first = self.take_partial(cache)?;
        let half = |of: u32| of / 2;
        let Self { caches, slabs, .. } = self;
        let (slabs_max, objs_max) = {
            let cache = &caches[cache.index()];
            (
                half(cache.cpu_partial_slabs),
                half(cache.cpu_partial_estimate),
            )
        };
        let mut moved_slabs = 0;
        let mut objs = slabs[first].free_objs;
        loop {
            let enough = match partial {
                CpuPartial::Off => true,
                CpuPartial::Slabs => moved_slabs > slabs_max,
                CpuPartial::Estimate => objs > objs_max,
            };
            if enough {
                return Some(first);
            }
            let Some(next) = self.take_partial(cache) else {
                return Some(first);
            };
            objs += self.slabs[next].free_objs;
            moved_slabs += 1;
            self.add_cpu_partial(cache, cpu, next);
        }
    }

    fn take_partial(&mut self, cache: CacheId) -> Option<u32> {
        let list = &mut self.caches[cache.index()].partial;
        let slab = list.head;
        (slab != NONE).then(|| {
            list.unlink(&mut self.slabs, slab);
            slab
        })
    }

    /// `alloc_single_from_partial`, `alloc_single_from_new_slab`.
    fn alloc_from_node(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        cpu: u16,
    ) -> Result<u32, OutOfPages> {
        let mut slab = self.caches[cache.index()].partial.head;
        if slab == NONE {
            slab = self.new_slab(pages, cache, cpu)?;
            self.caches[cache.index()]
                .partial
                .push_head(&mut self.slabs, slab);
        }
        self.slabs[slab].free_objs -= 1;
        if self.slabs[slab].free_objs == 0 {
            self.caches[cache.index()]
                .partial
                .unlink(&mut self.slabs, slab);
        }
        Ok(slab)
    }

    /// `allocate_slab`: of the cache's order, or of the smallest that holds an object.
    fn new_slab(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        cpu: u16,
    ) -> Result<u32, OutOfPages> {
        let of = &self.caches[cache.index()];
        let (mut order, mut objs) = (of.order, of.objs);
        let pfn = match pages.alloc(cpu, order) {
            Ok(pfn) => pfn,
            Err(_) if of.least_order < order => {
                order = of.least_order;
                objs = slots_of(order, of.slot_bytes).max(1);
                pages.alloc(cpu, order)?
            }
            Err(none) => return Err(none),
        };
        let of = &mut self.caches[cache.index()];
        of.slabs += 1;
        of.slots += u64::from(objs);
        of.pages += 1 << order;
        let needs_vector = self.config.ref_bytes > 0 && !self.config.lazy_refs && !of.holds_refs;
        let slab = self.slabs.add(Slab {
            pfn,
            cache: cache.0,
            objs,
            free_objs: objs,
            order: order as u8,
            place: Place::Full,
            next: NONE,
            prev: NONE,
            list_slabs: 0,
            list_objs: 0,
            vector: None,
        });
        if needs_vector {
            let vector = self.alloc_vector(pages, objs, cpu);
            self.ext_failures += u64::from(vector.is_none());
            self.slabs[slab].vector = vector;
        }
        Ok(slab)
    }

    /// `slab_free`.
    pub(super) fn free_one(&mut self, pages: &mut PageAllocator, obj: Obj, cpu: u16) {
        if let Some(pfn) = obj.as_large() {
            let before = pages.allocated_pages();
            pages.free(cpu, pfn);
            self.large_pages -= before - pages.allocated_pages();
            return;
        }
        let slab = obj.0 as u32;
        let cache = CacheId(self.slabs[slab].cache);
        self.caches[cache.index()].live_objs -= 1;
        let cpu = self.cpu_of(cpu);
        if self.slabs[slab].place == Place::Cpu(cpu as u16) {
            self.caches[cache.index()].cpus[cpu].free_objs += 1;
        } else {
            self.free_slow(pages, cache, slab, cpu);
        }
    }

    /// `__slab_free`; for objects taken one by one `free_to_partial_list`, which comes to the same lists.
    fn free_slow(&mut self, pages: &mut PageAllocator, cache: CacheId, slab: u32, cpu: usize) {
        let was_full = self.slabs[slab].free_objs == 0;
        self.slabs[slab].free_objs += 1;
        let is_empty = self.slabs[slab].inuse() == 0;
        match self.slabs[slab].place {
            // Frozen: its CPU will see to it.
            Place::Cpu(_) | Place::CpuPartial => return,
            Place::Full | Place::NodePartial => {}
        }
        if let (Path::CpuSlab(CpuPartial::Slabs | CpuPartial::Estimate), true) =
            (self.config.path, was_full)
        {
            self.put_cpu_partial(pages, cache, cpu, slab);
            return;
        }
        let of = &mut self.caches[cache.index()];
        if is_empty && of.partial.len >= of.min_partial {
            if !was_full {
                of.partial.unlink(&mut self.slabs, slab);
            }
            self.discard(pages, slab, cpu as u16);
        } else if was_full {
            of.partial.push_tail(&mut self.slabs, slab);
        }
    }

    /// `put_cpu_partial` with `drain`: a list that has reached its bound first goes to the node as a whole.
    fn put_cpu_partial(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        cpu: usize,
        slab: u32,
    ) {
        let of = &self.caches[cache.index()];
        let head = of.cpus[cpu].partial;
        let is_at_bound = head != NONE
            && match self.config.path {
                Path::CpuSlab(CpuPartial::Estimate) => {
                    self.slabs[head].list_objs > of.cpu_partial_estimate
                }
                _ => self.slabs[head].list_slabs >= of.cpu_partial_slabs,
            };
        if is_at_bound {
            self.caches[cache.index()].cpus[cpu].partial = NONE;
            self.add_cpu_partial(cache, cpu, slab);
            self.unfreeze_partials(pages, cache, head, cpu);
        } else {
            self.add_cpu_partial(cache, cpu, slab);
        }
    }

    fn add_cpu_partial(&mut self, cache: CacheId, cpu: usize, slab: u32) {
        let here = &mut self.caches[cache.index()].cpus[cpu];
        let (list_slabs, list_objs) = match here.partial {
            NONE => (0, 0),
            head => (self.slabs[head].list_slabs, self.slabs[head].list_objs),
        };
        let entry = &mut self.slabs[slab];
        entry.list_slabs = list_slabs + 1;
        entry.list_objs = list_objs + entry.free_objs;
        entry.next = here.partial;
        entry.place = Place::CpuPartial;
        here.partial = slab;
    }

    /// `__unfreeze_partials`: a CPU's list, from `head` on, goes to the node's.
    fn unfreeze_partials(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        mut head: u32,
        cpu: usize,
    ) {
        while head != NONE {
            let slab = head;
            head = self.slabs[slab].next;
            self.put_on_node(pages, cache, slab, cpu, false);
        }
    }

    /// To the node's partial list, or away if it is empty and the node has enough.
    fn put_on_node(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        slab: u32,
        cpu: usize,
        at_head: bool,
    ) {
        let of = &mut self.caches[cache.index()];
        if self.slabs[slab].inuse() == 0 && of.partial.len >= of.min_partial {
            self.discard(pages, slab, cpu as u16);
        } else if at_head {
            of.partial.push_head(&mut self.slabs, slab);
        } else {
            of.partial.push_tail(&mut self.slabs, slab);
        }
    }

    /// `flush_all`: every CPU's slab and partial slabs go to the node.
    fn flush_all(&mut self, pages: &mut PageAllocator, cache: CacheId) {
        for cpu in 0..usize::from(self.config.cpus) {
            let here = self.caches[cache.index()].cpus[cpu];
            let of = &mut self.caches[cache.index()].cpus[cpu];
            (of.slab, of.free_objs, of.partial) = (NONE, 0, NONE);
            if here.slab != NONE {
                // deactivate_slab: what other CPUs freed tells that the slab is not cache-hot.
                let had_remote_frees = self.slabs[here.slab].free_objs > 0;
                self.slabs[here.slab].free_objs += here.free_objs;
                if self.slabs[here.slab].free_objs == 0 {
                    self.slabs[here.slab].place = Place::Full;
                } else {
                    self.put_on_node(pages, cache, here.slab, cpu, !had_remote_frees);
                }
            }
            self.unfreeze_partials(pages, cache, here.partial, cpu);
        }
    }

    /// `kmem_cache_shrink`: no slabs on CPUs, no empty slabs, the fullest slabs first.
    pub fn shrink_cache(&mut self, pages: &mut PageAllocator, cache: CacheId) {
        self.flush_all(pages, cache);
        let ids: Vec<u32> = self.caches[cache.index()]
            .partial
            .ids(&self.slabs)
            .collect();
        let mut promoted = vec![Vec::new(); PROMOTE_MAX];
        for slab in ids {
            let Slab {
                objs, free_objs, ..
            } = self.slabs[slab];
            let list = &mut self.caches[cache.index()].partial;
            if free_objs == objs {
                list.unlink(&mut self.slabs, slab);
                self.discard(pages, slab, 0);
            } else if free_objs as usize <= PROMOTE_MAX {
                list.unlink(&mut self.slabs, slab);
                promoted[free_objs as usize - 1].push(slab);
            }
        }
        for slab in promoted.into_iter().rev().flatten() {
            self.caches[cache.index()]
                .partial
                .push_head(&mut self.slabs, slab);
        }
        self.free_dead_vectors(pages, 0);
    }

    fn discard(&mut self, pages: &mut PageAllocator, slab: u32, cpu: u16) {
        let Slab {
            pfn,
            cache,
            objs,
            order,
            vector,
            ..
        } = self.slabs.remove(slab);
        let of = &mut self.caches[cache as usize];
        of.slabs -= 1;
        of.slots -= u64::from(objs);
        of.pages -= 1 << order;
        pages.free(cpu, pfn);
        if let Some(vector) = vector {
            self.ext_vectors -= 1;
            self.ext_bytes -= u64::from(objs) * u64::from(self.config.ref_bytes);
            self.dead_vectors.push(vector);
        }
    }

    /// Freeing a vector may empty a slab of vectors, but such a slab has no vector itself.
    pub(super) fn free_dead_vectors(&mut self, pages: &mut PageAllocator, cpu: u16) {
        while let Some(vector) = self.dead_vectors.pop() {
            self.free_one(pages, vector, cpu);
        }
    }

    fn cpu_of(&self, cpu: u16) -> usize {
        usize::from(cpu % self.config.cpus)
    }
}
