//! SLOB: mm/slob.c of 6.1, the last but two kernels that had it.
//!
//! Blocks of any size in units of two bytes, first fit by address within a page, pages on up to three
//! lists by the size of the request. The model keeps every free block of every page.
//!
//! Objects of `SLAB_TYPESAFE_BY_RCU` caches are freed after a grace period, so they wait for the next one that the
//! trace shows to have ended. Some grace periods end unseen; a trace of another kind may show none, so no more
//! than [`WAITING_MAX`] objects wait.

mod lists;
mod page;

use crate::kernel::{PAGE_BYTES, get_order, order_bytes};
use crate::model::{CacheId, CacheSpec, CacheUsage, Call, Model, Obj, Usage};
use crate::page::{OutOfPages, PageAllocator};
use crate::survey::SLOB_RCU_BYTES;
use lists::List;
use page::{PAGE_UNITS, SlobPage, UNIT_BYTES, units};
use std::collections::VecDeque;

/// Alignment and header of kmalloc on x86-64: the larger of `ARCH_KMALLOC_MINALIGN` and `ARCH_SLAB_MINALIGN`.
const MIN_ALIGN: u32 = 8;

/// Objects that wait for a grace period at most; the oldest goes when one more comes.
pub const WAITING_MAX: usize = 1000;

/// Which SLOB is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Requests below so many bytes are small: `SLOB_BREAK1`.
    pub small_below_bytes: u32,
    /// Other requests below so many bytes are medium: `SLOB_BREAK2`; the rest is large.
    pub medium_below_bytes: u32,
    /// Whether the page that an object was found in becomes the first of its list.
    pub rotate: bool,
    /// Bytes that each block takes more for a tag ref, tagged or not: nothing else of a block could say whether
    /// it has one. A kmalloc header grows by a multiple of its alignment.
    pub ref_bytes: u32,
}

impl Config {
    /// SLOB as it is: three lists, with rotation.
    #[must_use]
    pub fn three_lists() -> Self {
        Self {
            small_below_bytes: 256,
            medium_below_bytes: 1024,
            rotate: true,
            ref_bytes: 0,
        }
    }

    /// Two lists, below 256 bytes and from there on.
    #[must_use]
    pub fn two_lists() -> Self {
        Self {
            medium_below_bytes: 256,
            ..Self::three_lists()
        }
    }

    /// One list, as before 2008.
    #[must_use]
    pub fn one_list() -> Self {
        Self {
            small_below_bytes: 0,
            medium_below_bytes: 0,
            ..Self::three_lists()
        }
    }

    /// Every search from the same first page.
    #[must_use]
    pub fn without_rotation(self) -> Self {
        Self {
            rotate: false,
            ..self
        }
    }

    /// With a tag ref of so many bytes in front of each object.
    #[must_use]
    pub fn with_refs(self, ref_bytes: u32) -> Self {
        Self { ref_bytes, ..self }
    }

    fn list_of(&self, bytes: u32) -> u8 {
        if bytes < self.small_below_bytes {
            0
        } else if bytes < self.medium_below_bytes {
            1
        } else {
            2
        }
    }
}

/// State of one of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListState {
    /// `small`, `medium` or `large`.
    pub name: &'static str,
    /// Pages on it: those with free units and with blocks in use.
    pub pages: u64,
    /// Free units, of two bytes, in these pages.
    pub free_units: u64,
}

#[derive(Clone, Debug)]
struct Cache {
    name: String,
    object_bytes: u32,
    /// With what RCU needs.
    block_bytes: u32,
    align: u32,
    live_objs: u64,
    ever_used: bool,
    /// `SLAB_TYPESAFE_BY_RCU`.
    rcu: bool,
}

/// A SLOB that runs.
#[derive(Clone, Debug)]
pub struct Slob {
    config: Config,
    pages: Vec<SlobPage>,
    unused: Vec<u32>,
    lists: [List; 3],
    /// The first stands for kmalloc.
    caches: Vec<Cache>,
    used_pages: u64,
    large_pages: u64,
    live_objs: u64,
    live_block_bytes: u64,
    /// Freed objects of RCU caches, the oldest first.
    waiting: VecDeque<Used>,
}

/// What the model knows of a block that is in use, packed into an [`Obj`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    page: u32,
    start: u16,
    bytes: u32,
    cache: u32,
}

impl Used {
    const START_BITS: u32 = 11;
    const BYTES_BITS: u32 = 13;
    const CACHE_BITS: u32 = 11;
    /// Objects of further caches count for the last.
    const CACHES_MAX: u32 = 1 << Self::CACHE_BITS;

    fn pack(self) -> Obj {
        let mut bits = u64::from(self.page);
        bits = bits << Self::START_BITS | u64::from(self.start);
        bits = bits << Self::BYTES_BITS | u64::from(self.bytes);
        Obj(bits << Self::CACHE_BITS | u64::from(self.cache.min(Self::CACHES_MAX - 1)))
    }

    fn unpack(Obj(mut bits): Obj) -> Self {
        let mut take = |width: u32| {
            let low = bits & ((1 << width) - 1);
            bits >>= width;
            low as u32
        };
        let cache = take(Self::CACHE_BITS);
        let bytes = take(Self::BYTES_BITS);
        let start = take(Self::START_BITS) as u16;
        Self {
            page: take(28),
            start,
            bytes,
            cache,
        }
    }
}

impl Slob {
    /// An empty one.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let kmalloc = Cache {
            name: "kmalloc".into(),
            object_bytes: 0,
            block_bytes: 0,
            align: MIN_ALIGN,
            live_objs: 0,
            ever_used: false,
            rcu: false,
        };
        Self {
            config,
            pages: Vec::new(),
            unused: Vec::new(),
            lists: [List::EMPTY; 3],
            caches: vec![kmalloc],
            used_pages: 0,
            large_pages: 0,
            live_objs: 0,
            live_block_bytes: 0,
            waiting: VecDeque::new(),
        }
    }

    /// The lists, small ones first. Lists that the configuration does not use are empty.
    #[must_use]
    pub fn lists(&self) -> [ListState; 3] {
        let names = ["small", "medium", "large"];
        std::array::from_fn(|index| {
            let list = self.lists[index];
            let free = list
                .iter(&self.pages)
                .map(|page| u64::from(self.pages[page as usize].free_units));
            ListState {
                name: names[index],
                pages: u64::from(list.pages),
                free_units: free.sum(),
            }
        })
    }

    /// Free units of each page of list `index`, 0 to 2, in its order.
    ///
    /// # Panics
    ///
    /// If there is no such list.
    pub fn list_pages(&self, index: usize) -> impl Iterator<Item = u16> + '_ {
        self.lists[index]
            .iter(&self.pages)
            .map(|page| self.pages[page as usize].free_units)
    }

    /// `slob_alloc`.
    fn alloc(
        &mut self,
        pages: &mut PageAllocator,
        bytes: u32,
        (align, align_offset): (u32, u32),
        cache: u32,
        cpu: u16,
    ) -> Result<Obj, OutOfPages> {
        let list = self.config.list_of(bytes);
        let needed = units(bytes);
        let found = self.find(list, needed, align, align_offset);
        let (page, start) = match found {
            Some(found) => found,
            None => {
                let page = self.add_page(pages, list, cpu)?;
                let start = self.pages[page as usize].alloc(needed, align, align_offset);
                (
                    page,
                    start.expect("a block of less than a page fits into an empty one"),
                )
            }
        };
        let is_full = self.pages[page as usize].free_units == 0;
        if is_full {
            self.unlink(page);
        } else if found.is_some() && self.config.rotate {
            self.lists[usize::from(list)].rotate_to(page);
        }
        self.live_objs += 1;
        self.live_block_bytes += u64::from(needed) * u64::from(UNIT_BYTES);
        let of = &mut self.caches[cache as usize];
        of.live_objs += 1;
        of.ever_used = true;
        Ok(Used {
            page,
            start,
            bytes,
            cache,
        }
        .pack())
    }

    fn find(&mut self, list: u8, needed: u16, align: u32, align_offset: u32) -> Option<(u32, u16)> {
        let List {
            first,
            pages: count,
        } = self.lists[usize::from(list)];
        let mut page = first;
        for _ in 0..count {
            let at = &mut self.pages[page as usize];
            if at.may_hold(needed)
                && let Some(start) = at.alloc(needed, align, align_offset)
            {
                return Some((page, start));
            }
            page = self.pages[page as usize].next;
        }
        None
    }

    fn add_page(
        &mut self,
        pages: &mut PageAllocator,
        list: u8,
        cpu: u16,
    ) -> Result<u32, OutOfPages> {
        let page = SlobPage::new(pages.alloc(cpu, 0)?);
        let id = match self.unused.pop() {
            Some(id) => {
                self.pages[id as usize] = page;
                id
            }
            None => {
                self.pages.push(page);
                self.pages.len() as u32 - 1
            }
        };
        self.used_pages += 1;
        self.link(id, list);
        Ok(id)
    }

    fn link(&mut self, page: u32, list: u8) {
        self.pages[page as usize].list = Some(list);
        self.lists[usize::from(list)].push_first(&mut self.pages, page);
    }

    fn unlink(&mut self, page: u32) {
        if let Some(list) = self.pages[page as usize].list.take() {
            self.lists[usize::from(list)].unlink(&mut self.pages, page);
        }
    }

    /// `slob_free`. A page that was full goes to the list of the block that is freed, whatever list it was on.
    fn free_block(&mut self, pages: &mut PageAllocator, used: Used, cpu: u16) {
        let count = units(used.bytes);
        self.live_objs -= 1;
        self.live_block_bytes -= u64::from(count) * u64::from(UNIT_BYTES);
        self.caches[used.cache as usize].live_objs -= 1;
        let page = &mut self.pages[used.page as usize];
        if page.free_units + count == PAGE_UNITS {
            let pfn = page.pfn;
            self.unlink(used.page);
            self.unused.push(used.page);
            self.used_pages -= 1;
            pages.free(cpu, pfn);
            return;
        }
        let was_full = page.free_units == 0;
        page.free(used.start, count);
        if was_full {
            self.link(used.page, self.config.list_of(used.bytes));
        }
    }

    fn free_waiting(&mut self, pages: &mut PageAllocator, cpu: u16) {
        if let Some(used) = self.waiting.pop_front() {
            self.free_block(pages, used, cpu);
        }
    }

    /// Freed objects that wait for a grace period, and the units, of two bytes, that they take.
    #[must_use]
    pub fn waiting(&self) -> (u64, u64) {
        let units_of = |used: &Used| u64::from(units(used.bytes));
        (
            self.waiting.len() as u64,
            self.waiting.iter().map(units_of).sum(),
        )
    }

    fn alloc_pages(
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
}

impl Model for Slob {
    fn create_cache(&mut self, spec: &CacheSpec) -> CacheId {
        let rcu_bytes = if spec.flags.rcu { SLOB_RCU_BYTES } else { 0 };
        self.caches.push(Cache {
            name: spec.name.clone(),
            object_bytes: spec.object_bytes,
            block_bytes: spec.object_bytes + rcu_bytes,
            align: spec.align.max(MIN_ALIGN),
            live_objs: 0,
            ever_used: false,
            rcu: spec.flags.rcu,
        });
        CacheId((self.caches.len() as u32 - 1).min(Used::CACHES_MAX - 1))
    }

    fn cache_alloc(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        let Cache {
            block_bytes, align, ..
        } = self.caches[cache.index()];
        let bytes = block_bytes + self.config.ref_bytes;
        if u64::from(bytes) < PAGE_BYTES {
            self.alloc(pages, bytes, (align, 0), cache.0, call.cpu)
        } else {
            self.alloc_pages(pages, u64::from(bytes), call.cpu)
        }
    }

    fn kmalloc(
        &mut self,
        pages: &mut PageAllocator,
        bytes: u64,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        if bytes >= PAGE_BYTES - u64::from(MIN_ALIGN) {
            return self.alloc_pages(pages, bytes, call.cpu);
        }
        let bytes = bytes as u32;
        let align = if bytes.is_power_of_two() {
            bytes.max(MIN_ALIGN)
        } else {
            MIN_ALIGN
        };
        let header = MIN_ALIGN + self.config.ref_bytes.next_multiple_of(MIN_ALIGN);
        if u64::from(bytes + header) >= PAGE_BYTES {
            return self.alloc_pages(pages, u64::from(bytes), call.cpu);
        }
        self.alloc(pages, bytes + header, (align, header), 0, call.cpu)
    }

    fn free(&mut self, pages: &mut PageAllocator, obj: Obj, cpu: u16) {
        match obj.as_large() {
            Some(pfn) => {
                let before = pages.allocated_pages();
                pages.free(cpu, pfn);
                self.large_pages -= before - pages.allocated_pages();
            }
            None => {
                let used = Used::unpack(obj);
                if !self.caches[used.cache as usize].rcu {
                    self.free_block(pages, used, cpu);
                    return;
                }
                self.waiting.push_back(used);
                if self.waiting.len() > WAITING_MAX {
                    self.free_waiting(pages, cpu);
                }
            }
        }
    }

    fn end_grace_period(&mut self, pages: &mut PageAllocator, cpu: u16) {
        while !self.waiting.is_empty() {
            self.free_waiting(pages, cpu);
        }
    }

    fn obj_bytes(&self, pages: &PageAllocator, obj: Obj) -> u64 {
        match obj.as_large() {
            Some(pfn) => order_bytes(pages.order_of(pfn)),
            None => u64::from(units(Used::unpack(obj).bytes)) * u64::from(UNIT_BYTES),
        }
    }

    /// SLOB keeps nothing back that it could give.
    fn shrink(&mut self, _pages: &mut PageAllocator) {}

    fn usage(&self) -> Usage {
        Usage {
            slab_pages: self.used_pages,
            large_pages: self.large_pages,
            slabs: self.used_pages,
            slots: 0,
            slab_objs: self.live_objs,
            slot_bytes: self.live_block_bytes,
            ext_bytes: self.live_objs * u64::from(self.config.ref_bytes),
            ..Usage::default()
        }
    }

    fn caches(&self) -> Vec<CacheUsage> {
        let used = self.caches.iter().filter(|cache| cache.ever_used);
        used.map(|cache| CacheUsage {
            name: cache.name.clone(),
            live_objs: cache.live_objs,
            active_objs: cache.live_objs,
            slot_bytes: cache.block_bytes,
            object_bytes: cache.object_bytes,
            ..CacheUsage::default()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
