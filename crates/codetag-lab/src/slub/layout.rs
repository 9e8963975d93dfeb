//! What one slot of SLUB holds besides the object: `calculate_sizes` of mm/slub.c \[6.1, 6.12\], 64 bit.
//!
//! ```text
//! | left red zone | object | red zone to inuse | free pointer | alloc track | free track | kmalloc size | red zone | to align |
//! ```
//!
//! Everything but the object is there only when it is asked for. Without debugging the free pointer lies
//! inside the object, unless a constructor or RCU needs the object's bytes after it is freed.

use crate::kernel::align_up;

const POINTER_BYTES: u32 = 8;
/// `struct track` with a stack depot handle: address, handle, CPU, PID, time.
const TRACK_BYTES: u32 = 32;
/// The size that a kmalloc asked for.
const ORIG_SIZE_BYTES: u32 = 4;

/// `slub_debug`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugFlags {
    /// `F`, consistency checks: no bytes, but each object comes and goes under the node's lock.
    pub checks: bool,
    /// `Z`, red zones.
    pub red_zone: bool,
    /// `P`, poisoning.
    pub poison: bool,
    /// `U`, who allocated and freed.
    pub store_user: bool,
}

impl DebugFlags {
    /// `slub_debug=FZPU`.
    pub const FZPU: Self = Self {
        checks: true,
        red_zone: true,
        poison: true,
        store_user: true,
    };

    /// Whether anything is on, which takes the CPU slabs away.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// What the layout depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutParams {
    /// The object without anything.
    pub object_bytes: u32,
    /// Power of two, at least 8.
    pub align: u32,
    /// It has a constructor.
    pub ctor: bool,
    /// `SLAB_TYPESAFE_BY_RCU`.
    pub rcu: bool,
    /// It is a kmalloc cache.
    pub kmalloc: bool,
    /// What is debugged.
    pub debug: DebugFlags,
}

/// Offsets and sizes in one slot, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// From the start of the slot to the object.
    pub red_left_bytes: u32,
    /// From the start of the object to what follows it.
    pub inuse_bytes: u32,
    /// From the start of the object to the free pointer.
    pub free_pointer_offset: u32,
    /// The slot.
    pub size_bytes: u32,
}

/// The layout of one slot.
#[must_use]
pub fn layout(params: LayoutParams) -> Layout {
    let LayoutParams {
        object_bytes,
        debug,
        ..
    } = params;
    let mut size = align_up(object_bytes.max(1), POINTER_BYTES);
    if debug.red_zone && size == object_bytes {
        size += POINTER_BYTES;
    }
    let inuse_bytes = size;
    let keeps_kmalloc_size = params.kmalloc && debug.store_user;
    let free_pointer_outside = params.ctor
        || params.rcu
        || debug.poison
        || (debug.red_zone && (object_bytes < POINTER_BYTES || keeps_kmalloc_size));
    let free_pointer_offset = if free_pointer_outside {
        size += POINTER_BYTES;
        inuse_bytes
    } else {
        object_bytes / 2 / POINTER_BYTES * POINTER_BYTES
    };
    if debug.store_user {
        size += 2 * TRACK_BYTES;
        if params.kmalloc {
            size += ORIG_SIZE_BYTES;
        }
    }
    let mut red_left_bytes = 0;
    if debug.red_zone {
        red_left_bytes = align_up(POINTER_BYTES, params.align);
        size += POINTER_BYTES + red_left_bytes;
    }
    Layout {
        red_left_bytes,
        inuse_bytes,
        free_pointer_offset,
        size_bytes: align_up(size, params.align),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmalloc::{KmallocAlign, cache_align_of_class};

    fn plain(object_bytes: u32, align: u32) -> LayoutParams {
        LayoutParams {
            object_bytes,
            align,
            ctor: false,
            rcu: false,
            kmalloc: false,
            debug: DebugFlags::default(),
        }
    }

    #[test]
    fn the_free_pointer_lies_in_the_middle_of_the_object() {
        let dentry = layout(plain(192, 8));
        assert_eq!((dentry.size_bytes, dentry.free_pointer_offset), (192, 96));
        let mnt_cache = layout(plain(312, 64));
        assert_eq!(
            (mnt_cache.size_bytes, mnt_cache.free_pointer_offset),
            (320, 152)
        );
    }

    #[test]
    fn constructors_and_rcu_push_it_out() {
        let inode_cache = layout(LayoutParams {
            ctor: true,
            ..plain(544, 8)
        });
        assert_eq!(
            (inode_cache.size_bytes, inode_cache.free_pointer_offset),
            (552, 544)
        );
        let sighand_cache = layout(LayoutParams {
            rcu: true,
            ..plain(2072, 64)
        });
        assert_eq!(sighand_cache.size_bytes, 2112);
    }

    #[test]
    fn kmalloc_slots_under_fzpu() {
        for (class, expected) in [
            (8, 112),
            (16, 128),
            (32, 160),
            (64, 256),
            (96, 224),
            (128, 384),
            (256, 768),
            (1024, 3072),
            (4096, 12288),
        ] {
            let params = LayoutParams {
                kmalloc: true,
                debug: DebugFlags::FZPU,
                ..plain(class, cache_align_of_class(class, KmallocAlign::LowestBit))
            };
            assert_eq!(layout(params).size_bytes, expected, "kmalloc-{class}");
        }
    }
}
