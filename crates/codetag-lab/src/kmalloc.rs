//! The size classes of kmalloc.

use crate::event::GfpFlags;

/// Classes of SLUB and, from 32 on, of SLAB on x86-64, in bytes. Above the last one kmalloc takes pages.
pub const CLASSES: [u32; 13] = [
    8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192,
];

/// Largest request that a slab serves \[6.1, both SLUB and SLAB\].
pub const LARGEST_CLASS: u64 = 8192;

/// Index in [`CLASSES`] of the smallest class that holds `bytes`; `None` if only pages do.
#[must_use]
pub fn class_of(bytes: u64) -> Option<usize> {
    // Few compares: most requests are small.
    CLASSES.iter().position(|&class| bytes <= u64::from(class))
}

/// How the kernel aligns kmalloc caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KmallocAlign {
    /// Powers of two to themselves, 96 and 192 to 8 \[SLUB 6.1\].
    PowerOfTwo,
    /// To the lowest bit that is set, so 96 to 32 and 192 to 64 \[SLUB 6.12\].
    LowestBit,
    /// Powers of two to themselves, others to a cache line \[SLAB 6.1\].
    CacheLine,
}

/// Alignment of the kmalloc cache of `class` bytes.
#[must_use]
pub fn cache_align_of_class(class: u32, rule: KmallocAlign) -> u32 {
    match rule {
        _ if class.is_power_of_two() => class,
        KmallocAlign::PowerOfTwo => 8,
        KmallocAlign::LowestBit => 1 << class.trailing_zeros(),
        KmallocAlign::CacheLine => 64,
    }
}

/// Which family of kmalloc caches a call takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// `kmalloc-*`.
    Normal,
    /// `kmalloc-rcl-*`.
    Reclaimable,
    /// `kmalloc-cg-*`.
    Accounted,
    /// `dma-kmalloc-*`.
    Dma,
}

/// Which families a kernel has, besides the normal one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// Not under `SLUB_TINY`.
    pub reclaimable: bool,
    /// With `MEMCG_KMEM`.
    pub accounted: bool,
    /// With `ZONE_DMA`.
    pub dma: bool,
}

impl Family {
    /// `kmalloc_type` of include/linux/slab.h \[6.1\]: DMA before reclaimable before accounted.
    #[must_use]
    pub fn of(flags: GfpFlags, families: Families) -> Self {
        if families.dma && flags.has(GfpFlags::DMA) {
            Self::Dma
        } else if families.reclaimable && flags.has(GfpFlags::RECLAIMABLE) {
            Self::Reclaimable
        } else if families.accounted && flags.has(GfpFlags::ACCOUNT) {
            Self::Accounted
        } else {
            Self::Normal
        }
    }

    /// The name of its cache of `class` bytes, as slabinfo prints it.
    #[must_use]
    pub fn cache_name(self, class: u32) -> String {
        let prefix = match self {
            Self::Normal => "kmalloc-",
            Self::Reclaimable => "kmalloc-rcl-",
            Self::Accounted => "kmalloc-cg-",
            Self::Dma => "dma-kmalloc-",
        };
        if class >= 1024 {
            format!("{prefix}{}k", class / 1024)
        } else {
            format!("{prefix}{class}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_class_that_holds_it() {
        let classes = [1, 8, 9, 65, 96, 97, 129, 192, 193, 8192]
            .map(|bytes| class_of(bytes).map(|class| CLASSES[class]));
        assert_eq!(
            classes.map(Option::unwrap),
            [8, 8, 16, 96, 96, 128, 192, 192, 256, 8192]
        );
        assert_eq!(class_of(8193), None);
    }

    #[test]
    fn families_have_an_order() {
        let all = Families {
            reclaimable: true,
            accounted: true,
            dma: true,
        };
        let both = GfpFlags::RECLAIMABLE.with(GfpFlags::ACCOUNT);
        assert_eq!(Family::of(both, all), Family::Reclaimable);
        assert_eq!(Family::of(both.with(GfpFlags::DMA), all), Family::Dma);
        let tiny = Families {
            reclaimable: false,
            accounted: false,
            dma: false,
        };
        assert_eq!(Family::of(both, tiny), Family::Normal);
        assert_eq!(Family::Reclaimable.cache_name(64), "kmalloc-rcl-64");
        assert_eq!(Family::Normal.cache_name(2048), "kmalloc-2k");
    }
}
