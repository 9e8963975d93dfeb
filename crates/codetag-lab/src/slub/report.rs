//! What the lists hold, as slabinfo and a debugger would see it.

use super::slabs::NONE;
use super::{Cache, CacheId, Slub};
use crate::model::CacheUsage;

/// A slab on a node's partial list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedSlab {
    /// Objects that are not free in it.
    pub inuse_objs: u32,
    /// All its objects.
    pub objs: u32,
}

impl Slub {
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
        self.cache_usage(&self.caches[cache.index()])
    }

    /// Slots of all slabs of `cache`.
    ///
    /// # Panics
    ///
    /// If `cache` is not one of this model's.
    #[must_use]
    pub fn slots_of(&self, cache: CacheId) -> u64 {
        self.caches[cache.index()].slots
    }

    /// The node's partial list, in its order.
    ///
    /// # Panics
    ///
    /// If `cache` is not one of this model's.
    pub fn node_partial(&self, cache: CacheId) -> impl Iterator<Item = ListedSlab> + '_ {
        self.caches[cache.index()]
            .partial
            .ids(&self.slabs)
            .map(|slab| ListedSlab {
                inuse_objs: self.slabs[slab].inuse(),
                objs: self.slabs[slab].objs,
            })
    }

    /// Slabs on each CPU's partial list.
    ///
    /// # Panics
    ///
    /// If `cache` is not one of this model's.
    pub fn cpu_partial(&self, cache: CacheId) -> impl Iterator<Item = u32> + '_ {
        self.caches[cache.index()]
            .cpus
            .iter()
            .map(|cpu| match cpu.partial {
                NONE => 0,
                head => self.slabs[head].list_slabs,
            })
    }

    pub(super) fn cache_usage(&self, cache: &Cache) -> CacheUsage {
        let on_node: u64 = cache
            .partial
            .ids(&self.slabs)
            .map(|slab| u64::from(self.slabs[slab].free_objs))
            .sum();
        CacheUsage {
            name: cache.name.clone(),
            live_objs: cache.live_objs,
            active_objs: cache.slots - on_node,
            slots: cache.slots,
            slot_bytes: cache.slot_bytes,
            object_bytes: cache.object_bytes,
            objs_per_slab: cache.objs,
            order: cache.order,
            tunables: [0; 3],
            active_slabs: cache.slabs,
            slabs: cache.slabs,
            pages: cache.pages,
            partial_slabs: u64::from(cache.partial.len),
            cpu_slabs: cache.cpus.iter().filter(|cpu| cpu.slab != NONE).count() as u64,
            cpu_partial_slabs: cache
                .cpus
                .iter()
                .filter(|cpu| cpu.partial != NONE)
                .map(|cpu| u64::from(self.slabs[cpu.partial].list_slabs))
                .sum(),
            shared_avail: 0,
        }
    }
}
