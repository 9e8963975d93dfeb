//! Size classes, and how a slab of each is laid out.
//!
//! Steps of 8 bytes up to 128, eight steps per doubling up to 1 KiB, and above that sizes that cut
//! a slab into equal parts. Above 128 bytes at most one eighth of a slot is lost.
//! Each class from 128 up is a multiple of 16, each power of two is a class.
//!
//! The ref of a slot is found by a multiplication with the reciprocal of the slot size, so a vector has as
//! many refs as its slab has slots.
//!
//! # Safety model
//!
//! The only unsafe code is table look-ups whose index is in range by construction: a [`Class`] is
//! made from the tables themselves, so its index is below [`CLASSES`].

use core::fmt;

/// A slab: this many bytes, aligned to as many.
pub(crate) const SLAB_BYTES: usize = 64 << 10;

/// The largest request that a slab serves, in bytes.
pub(crate) const SMALL_MAX: usize = 16 << 10;

/// From this slot size on a slab has at most [`OUTSIDE_REFS`] slots, and its tag refs lie in the
/// chunk's head, in space that nothing else uses: slots of whole pages stay page-aligned, and refs
/// cost no slot.
pub(crate) const OUTSIDE_FROM: usize = 144;

/// Tag refs that the chunk's head reserves for one slab: an odd number of cache lines.
pub(crate) const OUTSIDE_REFS: usize = 464;

const _: () = assert!(SLAB_BYTES / OUTSIDE_FROM <= OUTSIDE_REFS);

/// How many slots there are before an offset is the upper bits of its product with
/// [`Geometry::reciprocal`], above this many.
pub(crate) const RECIPROCAL_BITS: u32 = 48;

/// The low bits of a reciprocal, which are 0: whatever stands there changes no product's upper bits,
/// so a bin keeps a count there.
pub(crate) const RECIPROCAL_SPARE: u64 = (1 << 14) - 1;

static SIZES: [u32; 65] = [
    8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, //
    144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, 480, 512, //
    576, 640, 704, 768, 832, 896, 960, 1024, 1168, 1328, 1488, 1680, 1920, 2048, 2336,
    2608, //
    2976, 3264, 3632, 4096, 4672, 5040, 5456, 5952, 6544, 7280, 8192, 9360, 10688, 12208, 13104,
    14976, 16384,
];

/// Number of size classes.
pub(crate) const CLASSES: usize = SIZES.len();

/// A size class: its index times [`BIN_BYTES`], which is where its bin stands in a heap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Class(u16);

/// Bytes of what a heap has per class, so that finding it takes no arithmetic.
pub(crate) const BIN_BYTES: usize = 32;

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class of {} bytes", self.slot_bytes())
    }
}

/// How a slab of one class is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Bytes of one slot.
    pub slot_bytes: u32,
    /// Offset of the first slot in the slab.
    pub data_start: u32,
    /// Number of slots.
    pub capacity: u32,
    /// Bytes of the vector, wherever it lies.
    pub ext_bytes: u32,
    /// 2^[`RECIPROCAL_BITS`] over the slot size, rounded up to a multiple of the spare bits.
    pub reciprocal: u64,
}

/// Whether the vector of this slot size lies in the chunk's head.
pub(crate) const fn is_outside(slot_bytes: u32) -> bool {
    slot_bytes as usize >= OUTSIDE_FROM
}

/// Without tag refs.
const fn plain(slot_bytes: u32) -> Geometry {
    Geometry {
        slot_bytes,
        data_start: 0,
        capacity: SLAB_BYTES as u32 / slot_bytes,
        ext_bytes: 0,
        reciprocal: (1_u64 << RECIPROCAL_BITS)
            .div_ceil(slot_bytes as u64)
            .next_multiple_of(RECIPROCAL_SPARE + 1),
    }
}

/// With one tag ref of 4 bytes per slot. The first slot is at a multiple of the slot size, so that the
/// number of a slot, counted from the start of the slab, is its offset divided by the slot size.
const fn tagged(slot_bytes: u32) -> Geometry {
    let mut g = plain(slot_bytes);
    if is_outside(slot_bytes) {
        g.ext_bytes = 4 * g.capacity;
        return g;
    }
    loop {
        g.capacity = (SLAB_BYTES as u32 - g.data_start) / slot_bytes;
        g.ext_bytes = 4 * g.capacity;
        if g.ext_bytes <= g.data_start {
            return g;
        }
        g.data_start += slot_bytes;
    }
}

const fn all(with_refs: bool) -> [Geometry; CLASSES] {
    let mut out = [plain(8); CLASSES];
    let mut i = 0;
    while i < CLASSES {
        out[i] = if with_refs {
            tagged(SIZES[i])
        } else {
            plain(SIZES[i])
        };
        i += 1;
    }
    out
}

static PLAIN: [Geometry; CLASSES] = all(false);
static TAGGED: [Geometry; CLASSES] = all(true);

/// Class by size: entry `(size + 7) / 8`.
pub(super) static BY_UNITS: [Class; SMALL_MAX / 8 + 1] = {
    let mut table = [Class(0); SMALL_MAX / 8 + 1];
    let mut class = 0;
    let mut units = 0;
    while units < table.len() {
        while (SIZES[class] as usize) < units * 8 {
            class += 1;
        }
        table[units] = Class::of_index(class);
        units += 1;
    }
    table
};

impl Class {
    /// The class at `index`; the last one if there are not so many.
    pub(crate) const fn of_index(index: usize) -> Self {
        let index = if index < CLASSES { index } else { CLASSES - 1 };
        Self((index * BIN_BYTES) as u16)
    }

    /// The class that serves `bytes`, which is at most [`SMALL_MAX`].
    ///
    /// # Safety
    ///
    /// `bytes <= SMALL_MAX`.
    #[inline(always)]
    pub(crate) unsafe fn of_small(bytes: usize) -> Self {
        // SAFETY: the table has an entry for each size up to SMALL_MAX.
        unsafe { *BY_UNITS.get_unchecked((bytes + 7) >> 3) }
    }

    /// The class whose slots hold `bytes` at a multiple of `align`, a power of two; none if only a
    /// large object can.
    pub(crate) fn of_aligned(bytes: usize, align: usize) -> Option<Self> {
        let bytes = bytes.checked_add(align - 1)? & !(align - 1);
        if bytes > SMALL_MAX {
            return None;
        }
        // SAFETY: just compared.
        let first = unsafe { Self::of_small(bytes) };
        if align <= 16 {
            // Steps of 8 below 128 meet every multiple of 16, and all larger classes are such.
            return Some(first);
        }
        let is_aligned = |c: &Self| c.slot_bytes() as usize & (align - 1) == 0;
        (first.index()..CLASSES)
            .map(Self::of_index)
            .find(is_aligned)
    }

    /// Its index.
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize / BIN_BYTES
    }

    /// Where its bin stands among those of a heap, in bytes.
    #[inline(always)]
    pub(crate) const fn bin_offset(self) -> usize {
        self.0 as usize
    }

    /// Bytes of one slot.
    pub(crate) fn slot_bytes(self) -> u32 {
        // SAFETY: as in `geometry`.
        unsafe { *SIZES.get_unchecked(self.index()) }
    }

    /// The layout of a slab.
    pub(crate) fn geometry(self, with_refs: bool) -> Geometry {
        let table = if with_refs { &TAGGED } else { &PLAIN };
        // SAFETY: a class's index is below CLASSES. Indexing could panic, and nothing on the
        // allocation path may.
        unsafe { *table.get_unchecked(self.index()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_fits_its_class_and_no_smaller_one() {
        for bytes in 1..=SMALL_MAX {
            // SAFETY: at most SMALL_MAX.
            let class = unsafe { Class::of_small(bytes) };
            assert!(class.slot_bytes() as usize >= bytes);
            if class.index() > 0 {
                assert!((Class::of_index(class.index() - 1).slot_bytes() as usize) < bytes);
            }
        }
    }

    #[test]
    fn above_128_bytes_a_slot_wastes_at_most_an_eighth() {
        for pair in SIZES.windows(2).filter(|p| p[0] >= 128) {
            let waste = f64::from(pair[1] - (pair[0] + 1)) / f64::from(pair[1]);
            assert!(waste <= 0.125, "{pair:?} wastes {waste}");
        }
    }

    #[test]
    fn every_power_of_two_is_a_class_and_large_classes_are_multiples_of_16() {
        for shift in 3..=14 {
            assert!(SIZES.contains(&(1 << shift)));
        }
        assert!(SIZES.iter().filter(|&&s| s >= 128).all(|s| s % 16 == 0));
    }

    #[test]
    fn slots_refs_and_slab_do_not_overlap() {
        for class in (0..CLASSES).map(Class::of_index) {
            for with_refs in [false, true] {
                let g = class.geometry(with_refs);
                assert!(g.data_start + g.capacity * g.slot_bytes <= SLAB_BYTES as u32);
                assert!(g.data_start + (g.capacity + 1) * g.slot_bytes > SLAB_BYTES as u32);
                assert_eq!(g.data_start % (1 << g.slot_bytes.trailing_zeros()), 0);
                if with_refs && is_outside(g.slot_bytes) {
                    assert!(g.ext_bytes <= 4 * OUTSIDE_REFS as u32 && g.data_start == 0);
                } else if with_refs {
                    assert!(g.ext_bytes <= g.data_start);
                }
            }
        }
    }

    #[test]
    fn slots_are_numbered_by_their_reciprocal_whatever_its_spare_bits_hold() {
        for class in (0..CLASSES).map(Class::of_index) {
            let g = class.geometry(true);
            assert_eq!(g.reciprocal & RECIPROCAL_SPARE, 0);
            assert!(u64::from(g.capacity) <= RECIPROCAL_SPARE);
            let skipped = g.data_start / g.slot_bytes;
            for i in 0..g.capacity {
                let offset = u64::from(g.data_start + i * g.slot_bytes);
                for spare in [0, 1, u64::from(g.capacity), RECIPROCAL_SPARE] {
                    let number = offset.wrapping_mul(g.reciprocal | spare) >> RECIPROCAL_BITS;
                    assert_eq!(number, u64::from(skipped + i), "{class:?}, slot {i}");
                }
            }
        }
    }

    #[test]
    fn a_ref_costs_4_bytes_a_slot_and_the_first_slot_wastes_less_than_a_slot() {
        for class in (0..CLASSES).map(Class::of_index) {
            let g = class.geometry(true);
            assert_eq!(g.ext_bytes, 4 * g.capacity);
            if !is_outside(g.slot_bytes) {
                assert!(g.data_start - g.ext_bytes < 2 * g.slot_bytes, "{class:?}");
            }
        }
    }

    #[test]
    fn aligned_requests_get_slots_that_are_multiples_of_the_alignment() {
        for align in (0..=14).map(|s| 1_usize << s) {
            for bytes in [1, 7, 24, 100, 129, 1000, 4097, 16384] {
                match Class::of_aligned(bytes, align) {
                    Some(c) => {
                        assert!(c.slot_bytes() as usize >= bytes);
                        assert_eq!(c.slot_bytes() as usize % align, 0);
                        for with_refs in [false, true] {
                            assert_eq!(c.geometry(with_refs).data_start as usize % align, 0);
                        }
                    }
                    None => assert!(bytes.next_multiple_of(align) > SMALL_MAX / 2),
                }
            }
        }
    }
}
