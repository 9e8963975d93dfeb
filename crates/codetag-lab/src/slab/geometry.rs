//! How SLAB cuts its slabs: `__kmem_cache_create` and `calculate_slab_order` of mm/slab.c \[6.1\], 64 bit.

use crate::kernel::{CACHE_LINE_BYTES, MAX_ORDER, PAGE_BYTES, align_up, order_bytes};
use crate::kmalloc::{CLASSES, KmallocAlign, cache_align_of_class, class_of};

/// Most objects that a slab counts with an index of one byte: `SLAB_OBJ_MAX_NUM`.
const OBJS_MAX: u64 = 255;

/// Smallest slot, so that a page has no more objects than that: `SLAB_OBJ_MIN_SIZE`.
const SLOT_BYTES_MIN: u32 = 16;

/// Bytes of an entry of the freelist: `freelist_idx_t`.
const INDEX_BYTES: u64 = 1;

/// Where the freelist of a slab, which says what is free in it, lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Management {
    /// In a free object of the slab.
    InObject,
    /// In memory of its own, from kmalloc.
    OffSlab,
    /// Behind the objects.
    OnSlab,
}

/// What the geometry depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeometryParams {
    /// The object.
    pub object_bytes: u32,
    /// Power of two, at least 8.
    pub align: u32,
    /// It has a constructor or is typesafe by RCU: nothing may be written into a free object.
    pub keeps_objects: bool,
    /// `SLAB_RECLAIM_ACCOUNT`: the smallest order that holds an object.
    pub reclaim: bool,
    /// `slab_max_order`: 1 on machines of more than 32 MiB, else 0.
    pub max_order: u32,
}

/// A slab of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The slot.
    pub slot_bytes: u32,
    /// Order of a slab.
    pub order: u32,
    /// Objects per slab.
    pub objs: u32,
    /// Where the freelist is.
    pub management: Management,
    /// By how much the first object's offset grows from slab to slab.
    pub colour_bytes: u32,
    /// How many offsets there are: 0 or 1 for none but 0.
    pub colours: u32,
}

#[derive(Clone, Copy)]
struct Cut {
    order: u32,
    objs: u64,
    leftover_bytes: u64,
}

/// How slabs of such objects are cut.
#[must_use]
pub fn geometry(params: GeometryParams) -> Geometry {
    let align = params.align.max(8);
    let slot_bytes = align_up(align_up(params.object_bytes.max(1), align), 8)
        .max(align_up(SLOT_BYTES_MIN, align));
    let colour_bytes = CACHE_LINE_BYTES.max(align);
    let slot = u64::from(slot_bytes);

    let in_object = || {
        let cut = calculate(slot, 0, params, |_| true).filter(|_| !params.keeps_objects)?;
        (cut.objs * INDEX_BYTES <= u64::from(params.object_bytes)).then_some(cut)
    };
    let off_slab = || {
        let cut = calculate(slot, 0, params, |objs| off_slab_pays(objs, slot_bytes))?;
        // What fits behind the objects goes there.
        (cut.leftover_bytes < cut.objs * INDEX_BYTES).then_some(cut)
    };
    let on_slab = || calculate(slot, INDEX_BYTES, params, |_| true);

    let found = in_object()
        .map(|cut| (Management::InObject, cut))
        .or_else(|| off_slab().map(|cut| (Management::OffSlab, cut)))
        .or_else(|| on_slab().map(|cut| (Management::OnSlab, cut)));
    let (management, cut) = found.unwrap_or((
        Management::OnSlab,
        // No block holds such an object; the kernel refuses to create the cache.
        Cut {
            order: MAX_ORDER + 1,
            objs: 1,
            leftover_bytes: 0,
        },
    ));
    Geometry {
        slot_bytes,
        order: cut.order,
        objs: cut.objs as u32,
        management,
        colour_bytes,
        colours: (cut.leftover_bytes / u64::from(colour_bytes)) as u32,
    }
}

/// The smallest order that leaves at most an eighth over, within the limits.
fn calculate(
    slot: u64,
    per_object: u64,
    params: GeometryParams,
    is_worth_it: impl Fn(u64) -> bool,
) -> Option<Cut> {
    let mut found = None;
    for order in 0..=MAX_ORDER {
        let bytes = order_bytes(order);
        let objs = bytes / (slot + per_object);
        if objs == 0 {
            continue;
        }
        if objs > OBJS_MAX {
            break;
        }
        if !is_worth_it(objs) {
            continue;
        }
        let leftover_bytes = bytes % (slot + per_object);
        found = Some(Cut {
            order,
            objs,
            leftover_bytes,
        });
        if params.reclaim || order >= params.max_order || leftover_bytes * 8 <= bytes {
            break;
        }
    }
    found
}

/// Whether a freelist of so many objects may be off the slab: it takes at most half a slot, and comes from
/// a cache that has its own freelists on its slabs.
fn off_slab_pays(objs: u64, slot_bytes: u32) -> bool {
    let bytes = objs * INDEX_BYTES;
    match class_of(bytes.max(1)) {
        Some(class) => {
            let freelist_slot = class_slot_bytes(CLASSES[class].max(32));
            // Classes up to half a page have theirs on the slab, larger freelists than 255 bytes do not occur.
            freelist_slot <= slot_bytes / 2
        }
        None => bytes.next_multiple_of(PAGE_BYTES) <= u64::from(slot_bytes / 2),
    }
}

/// The slot of a kmalloc class of SLAB.
pub(super) fn class_slot_bytes(class: u32) -> u32 {
    align_up(class, cache_align_of_class(class, KmallocAlign::CacheLine))
}

/// What each CPU keeps of a cache, and what the CPUs of a node share: `enable_cpucache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Objects that a CPU's array holds.
    pub limit: u32,
    /// Objects moved at a time.
    pub batchcount: u32,
    /// Batches that the shared array holds.
    pub shared: u32,
}

/// The tunables of a cache whose slots have so many bytes.
#[must_use]
pub fn tunables(slot_bytes: u32, cpus: u16) -> Tunables {
    let limit = match slot_bytes {
        131_073.. => 1,
        4_097.. => 8,
        1_025.. => 24,
        257.. => 54,
        _ => 120,
    };
    Tunables {
        limit,
        batchcount: limit.div_ceil(2),
        shared: if u64::from(slot_bytes) <= PAGE_BYTES && cpus > 1 {
            8
        } else {
            0
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(object_bytes: u32) -> Geometry {
        geometry(GeometryParams {
            object_bytes,
            align: 8,
            keeps_objects: false,
            reclaim: false,
            max_order: 1,
        })
    }

    #[test]
    fn well_known_slabs() {
        for (bytes, order, objs, colours, management) in [
            (32, 0, 124, 0, Management::OnSlab),
            (64, 0, 64, 0, Management::InObject),
            (96, 0, 42, 1, Management::InObject),
            (128, 0, 32, 0, Management::InObject),
            (192, 0, 21, 1, Management::InObject),
            (512, 0, 8, 0, Management::InObject),
            (4096, 0, 1, 0, Management::InObject),
            (8192, 1, 1, 0, Management::InObject),
        ] {
            let got = of(bytes);
            let expected = Geometry {
                slot_bytes: bytes,
                order,
                objs,
                management,
                colour_bytes: 64,
                colours,
            };
            assert_eq!(got, expected, "{bytes}");
        }
    }

    #[test]
    fn a_constructor_keeps_the_freelist_out_of_the_objects() {
        let with_ctor = |object_bytes| {
            geometry(GeometryParams {
                object_bytes,
                align: 8,
                keeps_objects: true,
                reclaim: false,
                max_order: 1,
            })
        };
        // 4096 = 8 × 512: no room behind the objects, and a freelist of 8 bytes is worth it.
        assert_eq!(
            (with_ctor(512).management, with_ctor(512).objs),
            (Management::OffSlab, 8)
        );
        // 4096 - 7 × 544 = 288 bytes are left for seven.
        assert_eq!(
            (with_ctor(544).management, with_ctor(544).objs),
            (Management::OnSlab, 7)
        );
        // The smallest kmalloc slot is more than half an object.
        assert_eq!(
            (with_ctor(32).management, with_ctor(32).objs),
            (Management::OnSlab, 124)
        );
    }

    #[test]
    fn reclaimable_slabs_are_as_small_as_they_can_be() {
        let reclaim = geometry(GeometryParams {
            object_bytes: 2000,
            align: 8,
            keeps_objects: false,
            reclaim: true,
            max_order: 1,
        });
        assert_eq!((reclaim.order, reclaim.objs), (0, 2));
        assert_eq!((of(2624).order, of(2624).objs), (1, 3));
    }

    #[test]
    fn limits_by_size() {
        let limits = [32, 256, 257, 1024, 1025, 4096, 4097, 131_072, 131_073]
            .map(|bytes| tunables(bytes, 1).limit);
        assert_eq!(limits, [120, 120, 54, 54, 24, 24, 8, 8, 1]);
        assert_eq!(tunables(64, 2).shared, 8);
        assert_eq!(tunables(8192, 2).shared, 0);
        assert_eq!(
            tunables(64, 1),
            Tunables {
                limit: 120,
                batchcount: 60,
                shared: 0
            }
        );
    }
}
