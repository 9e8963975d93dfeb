//! What a heap has ready for one class.
//!
//! # Safety model
//!
//! As of the parent module: the slots of a bin are the heap's thread's, others only read the words.

use super::super::class::{BIN_BYTES, RECIPROCAL_SPARE};
use super::super::slab::{Slab, Slot};
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

/// What a heap has ready for one class, and what a tag ref of its slots needs.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Bin {
    /// The next slot; meaningful while `left > 0`.
    pub(in crate::alloc) head: AtomicPtr<Slot>,
    /// Slots in the list, in the [`RECIPROCAL_SPARE`] bits, and the slab's `reciprocal` above them: one
    /// word, so that an allocation that stores a ref has it already.
    pub(in crate::alloc) left: AtomicU64,
    /// The slab's `refs`, so that an allocation need not touch its header.
    pub(in crate::alloc) refs: AtomicUsize,
    /// The slab that the slots came from.
    slab: AtomicPtr<Slab>,
}

const _: () = assert!(size_of::<Bin>() == BIN_BYTES);

/// What [`Bin::pop`] took.
pub(crate) struct Popped {
    pub at: *mut u8,
    /// The reciprocal of the bin's slab, with a count in its spare bits.
    pub reciprocal: u64,
}

impl Bin {
    pub(super) const fn empty() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            left: AtomicU64::new(0),
            refs: AtomicUsize::new(0),
            slab: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Takes slots from another slab from now on, or from none.
    pub(super) fn set_slab(&self, slab: Option<&'static Slab>) {
        let (at, reciprocal, refs) = slab.map_or((ptr::null_mut(), 0, 0), |s| {
            let at = ptr::from_ref(s).cast_mut();
            (at, s.reciprocal.load(Relaxed), s.refs.load(Relaxed))
        });
        self.slab.store(at, Relaxed);
        self.left.store(reciprocal, Relaxed);
        self.refs.store(refs, Relaxed);
    }

    /// Takes the next slot; the bin's word if the list is empty, for [`Bin::fill_behind`].
    #[inline(always)]
    pub(crate) fn pop(&self) -> Result<Popped, u64> {
        let left = self.left.load(Relaxed);
        if left & RECIPROCAL_SPARE == 0 {
            return Err(left);
        }
        let slot = self.head.load(Relaxed);
        // SAFETY: `left > 0`, so `slot` is a free slot of this bin's slab, and its link was written.
        let next = unsafe { (*slot).next };
        self.left.store(left - 1, Relaxed);
        // In this order: who reads `head` and then `left`, as a fork does, finds no more slots counted
        // than there are.
        self.head.store(next, Release);
        Ok(Popped {
            at: slot.cast(),
            reciprocal: left,
        })
    }

    /// The bin's slab's `refs`.
    #[inline(always)]
    pub(crate) fn refs(&self) -> usize {
        self.refs.load(Relaxed)
    }

    /// The slab that slots are taken from.
    #[inline(always)]
    pub(crate) fn slab(&self) -> Option<&'static Slab> {
        // SAFETY: a bin's slab is cut, so its header is mapped.
        unsafe { self.slab.load(Relaxed).as_ref() }
    }

    /// Whether slots are taken from `slab` now. For anyone: a bin's slab may be gone by the time it is read.
    pub(crate) fn is_of(&self, slab: &Slab) -> bool {
        ptr::eq(self.slab.load(Relaxed), slab)
    }

    /// Slots in the list, as of now.
    pub(crate) fn left(&self) -> u32 {
        (self.left.load(Relaxed) & RECIPROCAL_SPARE) as u32
    }

    /// Words that differ whenever the bin was used.
    pub(crate) fn fingerprint(&self) -> u64 {
        (self.head.load(Relaxed).addr() as u64) ^ self.left.load(Relaxed) << 48
    }

    /// Whether the bin is as it was when [`Bin::pop`] found it empty.
    #[inline(always)]
    pub(super) fn is_still(&self, empty: u64) -> bool {
        self.left.load(Relaxed) == empty
    }

    /// Fills a bin that [`is_still`](Bin::is_still) empty with what stands behind a slot that is taken at once.
    #[inline(always)]
    pub(super) fn fill_behind(
        &self,
        empty: u64,
        slot: *mut Slot,
        next: *mut Slot,
        n: u32,
    ) -> Popped {
        self.head.store(next, Relaxed);
        self.left.store(empty | u64::from(n), Relaxed);
        Popped {
            at: slot.cast(),
            reciprocal: empty,
        }
    }

    pub(super) fn fill(&self, head: *mut Slot, n: u32) {
        self.head.store(head, Relaxed);
        let reciprocal = self.left.load(Relaxed) & !RECIPROCAL_SPARE;
        self.left.store(reciprocal | u64::from(n), Relaxed);
    }
}
