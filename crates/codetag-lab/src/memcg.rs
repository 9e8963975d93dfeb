//! Charging of kernel objects to memory cgroups: mm/memcontrol.c and mm/page_counter.c of 6.12.
//!
//! Objects are charged in bytes: what a slot takes and the pointer to its group. Bytes come out of a stock of
//! each CPU, which holds what is left of pages charged before; pages come out of another stock, which is filled
//! in batches of 64 from the counters of the group and all its ancestors.
//!
//! No reclaim and no OOM killer: a charge that does not fit fails, unless it must not.

use crate::event::GfpFlags;
use crate::kernel::{PAGE_BYTES, PAGE_SHIFT};
use crate::model::{CacheId, CacheSpec, CacheUsage, Call, Model, Obj, Usage};
use crate::page::{OutOfPages, PageAllocator};
use std::fmt;

/// `MEMCG_CHARGE_BATCH`, in pages.
pub const CHARGE_BATCH: u64 = 64;

/// What an object is charged beyond its slot: the pointer to its group in the slab's vector.
pub const OBJ_REF_BYTES: u64 = 8;

/// A group. The root is [`Groups::ROOT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(u32);

/// A charge that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// The group whose limit is in the way, the lowest one.
    pub group: GroupId,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {} is at its limit", self.group.0)
    }
}

impl std::error::Error for OverLimit {}

/// A group's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// `None` for the root.
    pub parent: Option<GroupId>,
    /// `memory.current`, in pages: of the group and its descendants, with what lies in stocks.
    pub charged_pages: u64,
    /// `memory.max`, in pages.
    pub limit_pages: u64,
    /// `memory.peak`, in pages.
    pub peak_pages: u64,
    /// Charges that failed here: `memory.events`, max.
    pub failures: u64,
    /// Pages that hold kernel objects of this very group: `MEMCG_KMEM`.
    pub kmem_pages: u64,
    /// Bytes of these pages that belong to no object and to no CPU's stock.
    pub spare_bytes: u64,
}

/// What a CPU holds for its next charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Whose pages.
    pub pages_of: Option<GroupId>,
    /// Charged and not used.
    pub pages: u64,
    /// Whose bytes.
    pub bytes_of: Option<GroupId>,
    /// Of kmem pages, not used. May exceed a page while objects are charged.
    pub bytes: u64,
}

/// Groups with the stocks of all CPUs.
#[derive(Clone, Debug)]
pub struct Groups {
    groups: Vec<Group>,
    stocks: Vec<Stock>,
}

impl Groups {
    /// The group that every other one descends from.
    pub const ROOT: GroupId = GroupId(0);

    /// The root alone.
    #[must_use]
    pub fn new(cpus: u16) -> Self {
        let mut groups = Self {
            groups: Vec::new(),
            stocks: vec![Stock::default(); usize::from(cpus.max(1))],
        };
        groups.push(None, u64::MAX);
        groups
    }

    /// A new group with a limit in pages.
    pub fn add(&mut self, parent: GroupId, limit_pages: u64) -> GroupId {
        self.push(Some(parent), limit_pages)
    }

    fn push(&mut self, parent: Option<GroupId>, limit_pages: u64) -> GroupId {
        self.groups.push(Group {
            parent,
            charged_pages: 0,
            limit_pages,
            peak_pages: 0,
            failures: 0,
            kmem_pages: 0,
            spare_bytes: 0,
        });
        GroupId(self.groups.len() as u32 - 1)
    }

    /// The counters of `group`.
    ///
    /// # Panics
    ///
    /// If it is not one of these.
    #[must_use]
    pub fn get(&self, group: GroupId) -> &Group {
        &self.groups[group.0 as usize]
    }

    /// What `cpu` holds.
    #[must_use]
    pub fn stock(&self, cpu: u16) -> &Stock {
        &self.stocks[usize::from(cpu) % self.stocks.len()]
    }

    /// `obj_cgroup_charge`.
    ///
    /// # Errors
    ///
    /// If pages are needed that a limit does not allow and the call may fail.
    pub fn charge(
        &mut self,
        cpu: u16,
        group: GroupId,
        bytes: u64,
        flags: GfpFlags,
    ) -> Result<(), OverLimit> {
        let stock = self.stock_mut(cpu);
        if stock.bytes_of == Some(group) && stock.bytes >= bytes {
            stock.bytes -= bytes;
            return Ok(());
        }
        let pages = bytes.div_ceil(PAGE_BYTES);
        self.charge_pages(cpu, group, pages, flags)?;
        self.groups[group.0 as usize].kmem_pages += pages;
        let rest = pages * PAGE_BYTES - bytes;
        if rest > 0 {
            self.refill_bytes(cpu, group, rest, false);
        }
        Ok(())
    }

    /// `obj_cgroup_uncharge`.
    pub fn uncharge(&mut self, cpu: u16, group: GroupId, bytes: u64) {
        self.refill_bytes(cpu, group, bytes, true);
    }

    /// `try_charge_memcg`: from the stock, else a batch, else just what is needed.
    ///
    /// # Errors
    ///
    /// As with [`charge`](Self::charge).
    pub fn charge_pages(
        &mut self,
        cpu: u16,
        group: GroupId,
        pages: u64,
        flags: GfpFlags,
    ) -> Result<(), OverLimit> {
        let stock = self.stock_mut(cpu);
        if pages <= CHARGE_BATCH && stock.pages_of == Some(group) && stock.pages >= pages {
            stock.pages -= pages;
            return Ok(());
        }
        let batch = pages.max(CHARGE_BATCH);
        if self.count(group, batch).is_ok() {
            if batch > pages {
                self.refill_pages(cpu, group, batch - pages);
            }
            return Ok(());
        }
        match self.count(group, pages) {
            Err(OverLimit { .. }) if flags.has(GfpFlags::NOFAIL) => {
                self.count_always(group, pages);
                Ok(())
            }
            counted => counted,
        }
    }

    /// `__memcg_kmem_charge_page`: pages that are an object by themselves.
    ///
    /// # Errors
    ///
    /// As with [`charge`](Self::charge).
    pub fn charge_kmem_pages(
        &mut self,
        cpu: u16,
        group: GroupId,
        pages: u64,
        flags: GfpFlags,
    ) -> Result<(), OverLimit> {
        self.charge_pages(cpu, group, pages, flags)?;
        self.groups[group.0 as usize].kmem_pages += pages;
        Ok(())
    }

    /// `__memcg_kmem_uncharge_page`.
    pub fn uncharge_kmem_pages(&mut self, cpu: u16, group: GroupId, pages: u64) {
        self.groups[group.0 as usize].kmem_pages -= pages;
        self.refill_pages(cpu, group, pages);
    }

    /// Gives pages back to the CPU's stock.
    pub fn uncharge_pages(&mut self, cpu: u16, group: GroupId, pages: u64) {
        self.refill_pages(cpu, group, pages);
    }

    /// Everything in stocks goes back, as when a group is removed or is short.
    pub fn drain(&mut self) {
        for cpu in 0..self.stocks.len() {
            self.drain_bytes(cpu);
            self.drain_pages(cpu);
        }
    }

    fn stock_mut(&mut self, cpu: u16) -> &mut Stock {
        let cpu = usize::from(cpu) % self.stocks.len();
        &mut self.stocks[cpu]
    }

    /// The group, its parent and so on.
    fn ancestors(&self, group: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        std::iter::successors(Some(group), |&group| self.get(group).parent)
    }

    /// `page_counter_try_charge`: from the leaf up; what was added below the level that fails is taken back.
    fn count(&mut self, group: GroupId, pages: u64) -> Result<(), OverLimit> {
        let full = self.ancestors(group).find(|&level| {
            let of = self.get(level);
            of.charged_pages.saturating_add(pages) > of.limit_pages
        });
        match full {
            Some(group) => {
                self.groups[group.0 as usize].failures += 1;
                Err(OverLimit { group })
            }
            None => {
                self.count_always(group, pages);
                Ok(())
            }
        }
    }

    fn count_always(&mut self, group: GroupId, pages: u64) {
        let mut level = Some(group);
        while let Some(GroupId(index)) = level {
            let of = &mut self.groups[index as usize];
            of.charged_pages += pages;
            of.peak_pages = of.peak_pages.max(of.charged_pages);
            level = of.parent;
        }
    }

    fn uncount(&mut self, group: GroupId, pages: u64) {
        let mut level = Some(group);
        while let Some(GroupId(index)) = level {
            let of = &mut self.groups[index as usize];
            of.charged_pages -= pages;
            level = of.parent;
        }
    }

    /// `refill_stock`: a stock of another group goes first, and one above the batch goes whole.
    fn refill_pages(&mut self, cpu: u16, group: GroupId, pages: u64) {
        let cpu = usize::from(cpu) % self.stocks.len();
        if self.stocks[cpu].pages_of != Some(group) {
            self.drain_pages(cpu);
            self.stocks[cpu].pages_of = Some(group);
        }
        self.stocks[cpu].pages += pages;
        if self.stocks[cpu].pages > CHARGE_BATCH {
            self.drain_pages(cpu);
            self.stocks[cpu].pages_of = Some(group);
        }
    }

    fn drain_pages(&mut self, cpu: usize) {
        let pages = std::mem::take(&mut self.stocks[cpu].pages);
        if let Some(group) = self.stocks[cpu].pages_of.take() {
            self.uncount(group, pages);
        }
    }

    /// `refill_obj_stock`. While an object is charged whole pages stay in the stock; they go with the next free.
    fn refill_bytes(&mut self, cpu: u16, group: GroupId, bytes: u64, mut may_uncharge: bool) {
        let index = usize::from(cpu) % self.stocks.len();
        if self.stocks[index].bytes_of != Some(group) {
            self.drain_bytes(index);
            let spare = std::mem::take(&mut self.groups[group.0 as usize].spare_bytes);
            self.stocks[index].bytes_of = Some(group);
            self.stocks[index].bytes = spare;
            may_uncharge = true;
        }
        let stock = &mut self.stocks[index];
        stock.bytes += bytes;
        if may_uncharge && stock.bytes > PAGE_BYTES {
            let pages = stock.bytes >> PAGE_SHIFT;
            stock.bytes %= PAGE_BYTES;
            self.groups[group.0 as usize].kmem_pages -= pages;
            self.refill_pages(cpu, group, pages);
        }
    }

    /// `drain_obj_stock`: whole pages to the page stock, the rest to the group.
    fn drain_bytes(&mut self, cpu: usize) {
        let bytes = std::mem::take(&mut self.stocks[cpu].bytes);
        let Some(group) = self.stocks[cpu].bytes_of.take() else {
            return;
        };
        let of = &mut self.groups[group.0 as usize];
        let pages = bytes >> PAGE_SHIFT;
        of.spare_bytes += bytes % PAGE_BYTES;
        of.kmem_pages -= pages;
        if pages > 0 {
            self.refill_pages(cpu as u16, group, pages);
        }
    }
}

/// Any model, with its accounted objects charged to a group.
///
/// An object is accounted if its call or its cache says so. If the charge fails, so does the allocation, as
/// when there are no pages.
#[derive(Debug)]
pub struct Charged<M> {
    model: M,
    groups: Groups,
    current: GroupId,
    /// Whether objects of a cache are accounted, by its number.
    accounted: Vec<bool>,
    objs: Vec<Entry>,
    unused: Vec<u32>,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    obj: Obj,
    /// Who pays for how many bytes, if anyone.
    charge: Option<(GroupId, u64)>,
}

impl<M: Model> Charged<M> {
    /// `model` with groups. Objects are charged to `current`.
    #[must_use]
    pub fn new(model: M, groups: Groups, current: GroupId) -> Self {
        Self {
            model,
            groups,
            current,
            accounted: Vec::new(),
            objs: Vec::new(),
            unused: Vec::new(),
            refused: 0,
        }
    }

    /// Objects allocated from now on are charged to `group`.
    pub fn set_current(&mut self, group: GroupId) {
        self.current = group;
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The model underneath.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Allocations that a limit refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// `memcg_slab_post_alloc_hook`.
    fn charged(
        &mut self,
        pages: &mut PageAllocator,
        obj: Obj,
        is_accounted: bool,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        let mut charge = None;
        if is_accounted {
            let bytes = self.model.obj_bytes(pages, obj);
            let group = self.current;
            let done = if obj.as_large().is_some() {
                self.groups
                    .charge_kmem_pages(call.cpu, group, bytes >> PAGE_SHIFT, call.flags)
            } else {
                self.groups
                    .charge(call.cpu, group, bytes + OBJ_REF_BYTES, call.flags)
            };
            if done.is_err() {
                self.refused += 1;
                self.model.free(pages, obj, call.cpu);
                return Err(OutOfPages { order: 0 });
            }
            charge = Some((group, bytes));
        }
        let entry = Entry { obj, charge };
        let id = match self.unused.pop() {
            Some(id) => {
                self.objs[id as usize] = entry;
                id
            }
            None => {
                self.objs.push(entry);
                self.objs.len() as u32 - 1
            }
        };
        Ok(Obj(u64::from(id)))
    }
}

impl<M: Model> Model for Charged<M> {
    fn create_cache(&mut self, spec: &CacheSpec) -> CacheId {
        let cache = self.model.create_cache(spec);
        if self.accounted.len() <= cache.index() {
            self.accounted.resize(cache.index() + 1, false);
        }
        self.accounted[cache.index()] |= spec.flags.account;
        cache
    }

    fn cache_alloc(
        &mut self,
        pages: &mut PageAllocator,
        cache: CacheId,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        let is_accounted = self.accounted[cache.index()] || call.flags.has(GfpFlags::ACCOUNT);
        let call = Call {
            is_tagged: call.is_tagged || is_accounted,
            ..call
        };
        let obj = self.model.cache_alloc(pages, cache, call)?;
        self.charged(pages, obj, is_accounted, call)
    }

    fn kmalloc(
        &mut self,
        pages: &mut PageAllocator,
        bytes: u64,
        call: Call,
    ) -> Result<Obj, OutOfPages> {
        let obj = self.model.kmalloc(pages, bytes, call)?;
        self.charged(pages, obj, call.flags.has(GfpFlags::ACCOUNT), call)
    }

    fn free(&mut self, pages: &mut PageAllocator, obj: Obj, cpu: u16) {
        let id = obj.0 as u32;
        let Entry { obj, charge } = self.objs[id as usize];
        self.unused.push(id);
        if let Some((group, bytes)) = charge {
            if obj.as_large().is_some() {
                self.groups
                    .uncharge_kmem_pages(cpu, group, bytes >> PAGE_SHIFT);
            } else {
                self.groups.uncharge(cpu, group, bytes + OBJ_REF_BYTES);
            }
        }
        self.model.free(pages, obj, cpu);
    }

    fn obj_bytes(&self, pages: &PageAllocator, obj: Obj) -> u64 {
        self.model.obj_bytes(pages, self.objs[obj.0 as usize].obj)
    }

    fn end_grace_period(&mut self, pages: &mut PageAllocator, cpu: u16) {
        self.model.end_grace_period(pages, cpu);
    }

    fn pass_time(&mut self, pages: &mut PageAllocator, now_ns: u64) {
        self.model.pass_time(pages, now_ns);
    }

    fn shrink(&mut self, pages: &mut PageAllocator) {
        self.model.shrink(pages);
    }

    fn usage(&self) -> Usage {
        self.model.usage()
    }

    fn caches(&self) -> Vec<CacheUsage> {
        self.model.caches()
    }
}

#[cfg(test)]
mod tests;
