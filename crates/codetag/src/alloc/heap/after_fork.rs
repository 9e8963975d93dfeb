//! What a fork does to heaps and their slabs; the order of the steps is `fork`'s.
//!
//! # Safety model
//!
//! As of the parent module. In the parent these run while no thread changes anything beyond the one
//! operation that it is in the middle of; in the child there is one thread.

use super::{Heap, SHARED, SHARED_NUMBER, settle_claim};
use crate::alloc::class::{CLASSES, Class, RECIPROCAL_SPARE};
use crate::alloc::slab::{Slab, Slot, append};
use crate::alloc::{chunk, ext};
use crate::protocol::Place;
use crate::sys::HotWords;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

impl Heap {
    /// The number of the thread that has the heap; 0 if none has.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// The hot words of the thread that has the heap.
    pub(crate) fn hot(&self) -> Option<&'static HotWords> {
        // SAFETY: the thread takes them back before they go, in a change, and none is under way.
        unsafe { self.hot.load(Acquire).as_ref() }
    }

    /// Notes of each bin what stands behind its head, which is all of it that the thread's operation
    /// under way may spoil.
    pub(crate) fn note_for_fork(&self) {
        for (i, bin) in self.bins.iter().enumerate() {
            let (mut head, mut left, mut behind);
            loop {
                head = bin.head.load(Acquire);
                left = (bin.left.load(Acquire) & RECIPROCAL_SPARE) as u32;
                if left == 0 {
                    behind = ptr::null_mut();
                    break;
                }
                // SAFETY: the slot was the bin's a moment ago, so it is mapped. It may be the program's
                // by now; then the head has moved on, and what was read is not used.
                behind = unsafe { (&raw const (*head).next).read_volatile() };
                if bin.head.load(Acquire) == head {
                    break;
                }
            }
            self.noted_left[i].store(left, Relaxed);
            self.noted_behind[i].store(behind, Relaxed);
        }
    }

    /// In the child: the shared heap takes over a slab of this heap, whose thread is gone.
    pub(crate) fn hand_over_after_fork(&'static self, slab: &'static Slab) {
        let occupancy = slab.occupancy();
        let place = occupancy.place();
        occupancy.go_back_and_leave_lists(
            slab.noted_used.load(Relaxed),
            slab.noted_remote.load(Relaxed),
        );
        slab.free.store(slab.noted_free.load(Relaxed), Relaxed);
        if place == Place::Current {
            self.empty_bin_after_fork(slab);
        }
        let used = occupancy.used();
        if used == slab.carved.load(Relaxed) {
            // At most the slot whose free was not counted yet.
            slab.free.store(ptr::null_mut(), Relaxed);
        }
        slab.set_owner(&SHARED, SHARED_NUMBER);
        if used == occupancy.remote_count() {
            return chunk::give(slab);
        }
        let has_slots = !slab.free.load(Relaxed).is_null()
            || occupancy.remote_count() > 0
            || slab.carved.load(Relaxed) < slab.capacity.load(Relaxed);
        if has_slots {
            SHARED.list(slab, chunk::give);
        } else {
            // Nobody frees as the owner of the shared heap's.
            occupancy.mark_full(1);
        }
    }

    /// Gives the slots of the bin of a current slab back to the slab, but for the first.
    fn empty_bin_after_fork(&self, slab: &Slab) {
        let class = slab.class();
        let (bin, i) = (self.bin(class), class.index());
        let left = self.noted_left[i].load(Relaxed);
        if left == 0 {
            return;
        }
        let behind = self.noted_behind[i].load(Relaxed);
        let head = bin.head.load(Relaxed);
        if head != behind && !ext::is_marked(slab, head.cast()) {
            slab.lost.store(slab.lost.load(Relaxed) + 1, Relaxed);
        }
        let n = count_slots(behind, left - 1);
        if n > 0 {
            append(behind, n, slab.free.load(Relaxed));
            slab.free.store(behind, Relaxed);
            slab.occupancy().return_local(n);
        }
    }

    /// In the child: a slab of the running thread's heap, or of the shared one, to which a thread that is
    /// gone was bringing a slot.
    pub(crate) fn settle_after_fork(&'static self, slab: &'static Slab) {
        let pending = slab
            .occupancy()
            .go_back_remote(slab.noted_remote.load(Relaxed));
        if pending.must_be_listed {
            self.list(slab, chunk::give);
        }
        if pending.is_claimed {
            settle_claim(slab);
        }
    }

    /// In the child: the heap is nobody's, and has no slab any more but those in its cache.
    pub(crate) fn drop_after_fork(&self) {
        for i in 0..CLASSES {
            let bin = self.bin(Class::of_index(i));
            bin.set_slab(None);
            bin.fill(ptr::null_mut(), 0);
            self.partial[i].store(ptr::null_mut(), Relaxed);
        }
        self.drop_cache();
        self.number.store(0, Relaxed);
        self.hot.store(ptr::null_mut(), Relaxed);
    }
}

/// Slots of a list, at most `most`.
fn count_slots(mut slot: *mut Slot, most: u32) -> u32 {
    let mut n = 0;
    while n < most && !slot.is_null() {
        // SAFETY: free slots behind the head of a bin, which no thread could reach.
        slot = unsafe { (*slot).next };
        n += 1;
    }
    n
}
