//! Which SLUB is modelled, and the limits that follow from the size of a slot.

use super::layout::DebugFlags;
use super::order::OrderParams;
use crate::kmalloc::KmallocAlign;

/// How the CPU partial lists are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuPartial {
    /// There are none: `SLUB_CPU_PARTIAL=n`, and every kernel for one CPU.
    Off,
    /// In slabs, as since 5.16.
    Slabs,
    /// In free objects as estimated when each slab was added, as before 5.16: a slab that has one free
    /// object then counts as one for good.
    Estimate,
}

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// From a slab that the CPU has taken whole.
    CpuSlab(CpuPartial),
    /// One by one from the first slab of the node's partial list: `SLUB_TINY`, debugged caches, and a
    /// SLUB that never loads a CPU slab.
    Node,
}

/// A SLUB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// CPUs.
    pub cpus: u16,
    /// For the order of slabs.
    pub order: OrderParams,
    /// Whether caches that fit each other share slabs.
    pub merge: bool,
    /// `slub_debug`, for all caches. Implies [`Path::Node`] and no merging.
    pub debug: DebugFlags,
    /// Where objects come from.
    pub path: Path,
    /// What to take instead of [`min_partial`].
    pub min_partial: Option<u32>,
    /// How kmalloc caches are aligned.
    pub kmalloc_align: KmallocAlign,
    /// Whether there are `kmalloc-rcl-*`, and `SLAB_RECLAIM_ACCOUNT` keeps caches from merging.
    pub reclaim: bool,
    /// Whether there are `kmalloc-cg-*`, and `SLAB_ACCOUNT` keeps caches from merging.
    pub memcg: bool,
    /// Bytes of a tag ref per slot, 0 for none.
    pub ref_bytes: u32,
    /// Whether a slab's vector is made with its first tagged object; else with the slab.
    pub lazy_refs: bool,
}

impl Config {
    /// SLUB of 6.1 with its defaults. With one CPU there are no CPU partial lists.
    #[must_use]
    pub fn slub(cpus: u16) -> Self {
        Self {
            cpus: cpus.max(1),
            order: OrderParams::new(u32::from(cpus)),
            merge: true,
            debug: DebugFlags::default(),
            path: Path::CpuSlab(if cpus > 1 {
                CpuPartial::Slabs
            } else {
                CpuPartial::Off
            }),
            min_partial: None,
            kmalloc_align: KmallocAlign::PowerOfTwo,
            reclaim: true,
            memcg: false,
            ref_bytes: 0,
            lazy_refs: true,
        }
    }

    /// `SLUB_TINY` of 6.12: no CPU slabs, no empty slabs, orders 0 and 1, wider merging.
    #[must_use]
    pub fn tiny(cpus: u16) -> Self {
        Self {
            order: OrderParams::new(u32::from(cpus)).with_max_order(1),
            path: Path::Node,
            min_partial: Some(0),
            kmalloc_align: KmallocAlign::LowestBit,
            reclaim: false,
            ..Self::slub(cpus)
        }
    }

    /// With `slub_max_order`.
    #[must_use]
    pub fn with_max_order(self, max_order: u32) -> Self {
        Self {
            order: self.order.with_max_order(max_order),
            ..self
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

    /// With `slub_debug`: nothing is merged, no CPU has slabs.
    #[must_use]
    pub fn with_debug(self, debug: DebugFlags) -> Self {
        if !debug.any() {
            return self;
        }
        Self {
            debug,
            merge: false,
            path: Path::Node,
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

/// `min_partial`: a slab that becomes empty is given back when the node's partial list has so many, the
/// slab itself included if it is on it. 5 to 10, by `set_min_partial`.
#[must_use]
pub fn min_partial(slot_bytes: u32) -> u32 {
    (slot_bytes.max(1).ilog2() / 2).clamp(5, 10)
}

/// `cpu_partial`: free objects that a CPU's partial list is to hold \[5.16 and later\].
#[must_use]
pub fn cpu_partial_objs(slot_bytes: u32) -> u32 {
    match slot_bytes {
        4096.. => 6,
        1024.. => 24,
        256.. => 52,
        _ => 120,
    }
}

/// Slabs that these objects come to when each slab is half full: `slub_set_cpu_partial`.
#[must_use]
pub fn cpu_partial_slabs(slot_bytes: u32, objs_per_slab: u32) -> u32 {
    (cpu_partial_objs(slot_bytes) * 2).div_ceil(objs_per_slab.max(1))
}

/// `cpu_partial` before 5.16, a bound on the estimate.
#[must_use]
pub fn cpu_partial_estimate_objs(slot_bytes: u32) -> u32 {
    match slot_bytes {
        4096.. => 2,
        1024.. => 6,
        256.. => 13,
        _ => 30,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_partial_grows_with_the_root_of_the_size() {
        assert_eq!(
            [8, 2048, 4096, 8192, 1 << 20, 1 << 24].map(min_partial),
            [5, 5, 6, 6, 10, 10]
        );
    }

    #[test]
    fn cpu_partial_by_size() {
        assert_eq!(
            [64, 256, 512, 1024, 4096].map(cpu_partial_objs),
            [120, 52, 52, 24, 6]
        );
        assert_eq!(cpu_partial_slabs(512, 16), 7);
        assert_eq!(cpu_partial_slabs(64, 64), 4);
        assert_eq!(
            [64, 512, 1024, 4096].map(cpu_partial_estimate_objs),
            [30, 13, 6, 2]
        );
    }
}
