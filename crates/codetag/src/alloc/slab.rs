//! The header of a slab.
//!
//! # Safety model
//!
//! Headers lie packed in the head of their chunk, one per slab, and stay mapped as long as the
//! chunk. A header is reached from a pointer into its slab by arithmetic alone. All fields are
//! atomics: the owner writes them with plain stores, anyone may read them. The slots of a slab
//! belong to the owner of the slab while they are free, to the program while they are not, and to
//! the remote list in between. The vector belongs to the slab; a ref is written by whoever holds
//! its object.

use super::chunk::{CHUNK_BYTES, SLAB_INDEX_MASK};
use super::class::{Class, Geometry, RECIPROCAL_BITS, SLAB_BYTES};
use super::fork;
use super::heap::Heap;
use crate::protocol::{Occupancy, Place, Std};
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};

/// Bytes of one header.
pub(crate) const HEADER_BYTES: usize = 128;

/// A free slot: the first word is the next one of its list.
#[repr(C)]
pub(crate) struct Slot {
    pub next: *mut Slot,
}

/// Links `n` slots of `bytes` each, one behind the other.
pub(crate) fn link_slots(first: *mut u8, bytes: usize, n: u32) {
    let mut slot = first;
    for _ in 1..n {
        let next = slot.wrapping_add(bytes);
        // SAFETY: the slots were never handed out and lie inside the slab.
        unsafe { slot.cast::<Slot>().write(Slot { next: next.cast() }) };
        slot = next;
    }
    // SAFETY: as above.
    unsafe {
        slot.cast::<Slot>().write(Slot {
            next: ptr::null_mut(),
        });
    };
}

/// Hangs `tail` behind the last of the `n` slots that start at `head`.
pub(crate) fn append(head: *mut Slot, n: u32, tail: *mut Slot) {
    let mut slot = head;
    for _ in 1..n {
        // SAFETY: the list has `n` free slots, which the caller owns.
        slot = unsafe { (*slot).next };
    }
    // SAFETY: as above.
    unsafe { (*slot).next = tail };
}

/// The header of a slab: in the first cache line what every free reads and only a slab that changes hands, a bit of `owner`
/// and a change of all vectors write; in the second what frees write, the owner's and those of others.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Slab {
    /// Number of the heap that owns it; 0 while in its chunk. With [`MIXED`] the owner's frees go
    /// the way of everyone else's.
    pub owner: AtomicU64,
    /// See [`Geometry::reciprocal`].
    pub reciprocal: AtomicU64,
    /// Where the ref of slab offset 0 would lie, in bytes.
    pub refs: AtomicUsize,
    /// The heap that owns it.
    pub heap: AtomicPtr<Heap>,
    /// Number of slots.
    pub capacity: AtomicU32,
    /// Bytes of one slot.
    pub slot_bytes: AtomicU32,
    /// Index of the class.
    pub class: AtomicU32,
    /// Offset of the first slot.
    pub data_start: AtomicU32,
    /// Bytes of the vector.
    pub ext_bytes: AtomicU32,
    /// Odd while the slab is cut, released or cleared; whoever makes it odd has it alone.
    pub generation: AtomicU32,
    /// Slots that are on no list since a fork: one per bin of a thread that is gone.
    pub lost: AtomicU32,
    spare: AtomicU32,

    /// The owner's list of free slots, beside what its bin has taken.
    pub free: AtomicPtr<Slot>,
    /// See [`Occupancy`].
    pub remote: AtomicU64,
    /// See [`Occupancy`].
    pub used: AtomicU32,
    /// Slots that were ever linked into a list since the slab was cut.
    pub carved: AtomicU32,
    /// See [`Occupancy`].
    pub place: AtomicU32,
    /// See `noted_free`.
    pub noted_used: AtomicU32,
    /// What a fork notes: see [`Slab::note_for_fork`].
    pub noted_free: AtomicPtr<Slot>,
    /// See `noted_free`.
    pub noted_remote: AtomicU64,
    /// Next on the list that the slab is on.
    pub next: AtomicPtr<Slab>,
    /// The one before.
    pub prev: AtomicPtr<Slab>,
}

const _: () = assert!(size_of::<Slab>() == HEADER_BYTES);
const _: () = assert!(core::mem::offset_of!(Slab, free) == 64);

/// In [`Slab::owner`]: others have freed slots of this slab since its owner left it. Then all frees
/// come through the remote list, and whoever brings the last one sees that it is the last.
const MIXED: u64 = 1 << 63;

impl Slab {
    /// The header of the slab that `ptr` points into.
    ///
    /// # Safety
    ///
    /// `ptr` points into a slab that was cut.
    #[inline(always)]
    pub(crate) unsafe fn of(ptr: *mut u8) -> &'static Self {
        let addr = ptr.addr();
        let chunk = addr & !(CHUNK_BYTES - 1);
        let at = chunk
            + ((addr >> (SLAB_BYTES.ilog2() - HEADER_BYTES.ilog2()))
                & (SLAB_INDEX_MASK * HEADER_BYTES));
        // SAFETY: by the layout of a chunk this is the slab's header, and it stays mapped while an
        // object of the slab lives.
        unsafe { &*ptr::with_exposed_provenance(at) }
    }

    /// Where the slab begins.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        let at = ptr::from_ref(self).cast_mut().cast::<u8>();
        let index = (at.addr() & (SLAB_INDEX_MASK * HEADER_BYTES)) / HEADER_BYTES;
        at.map_addr(|a| (a & !(CHUNK_BYTES - 1)) + index * SLAB_BYTES)
    }

    /// The three words that the protocol works on.
    #[inline(always)]
    pub(crate) fn occupancy(&self) -> Occupancy<'_, Std> {
        Occupancy {
            used: &self.used,
            place: &self.place,
            remote: &self.remote,
        }
    }

    /// The class that the slab is cut for.
    pub(crate) fn class(&self) -> Class {
        Class::of_index(self.class.load(Relaxed) as usize)
    }

    /// The ref of the slot at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` is the start of a slot of this slab, which was cut with refs.
    #[inline(always)]
    pub(crate) unsafe fn ref_of(&self, ptr: *mut u8) -> &'static AtomicU32 {
        // SAFETY: nobody writes the word while the slab is cut. As a plain read it becomes an operand of
        // the multiplication.
        let reciprocal = unsafe { *self.reciprocal.as_ptr() };
        // SAFETY: as the caller's.
        unsafe { ref_at(ptr, self.refs.load(Relaxed), reciprocal) }
    }

    /// Takes the slab for a change that readers must not see half of; waits for whoever has it.
    pub(crate) fn begin_change(&self) {
        let mut turns = 0;
        loop {
            let g = self.generation.load(Relaxed);
            let odd = self
                .generation
                .compare_exchange_weak(g & !1, g | 1, AcqRel, Relaxed);
            if odd.is_ok() {
                // A reader that sees a word of the change sees the odd generation.
                fence(Release);
                return;
            }
            turns += 1;
            <Std as crate::protocol::Atomics>::relax(turns);
        }
    }

    /// Ends what [`Slab::begin_change`] began.
    pub(crate) fn end_change(&self) {
        self.generation
            .store(self.generation.load(Relaxed).wrapping_add(1), Release);
    }

    /// Makes an empty slab one of `class`, owned by `heap`, current. The caller has it alone, and
    /// has begun a change.
    pub(crate) fn lay_out(
        &self,
        class: Class,
        g: Geometry,
        outside_refs: usize,
        heap: &'static Heap,
        number: u64,
    ) {
        let refs = if outside_refs == 0 {
            // The first slot's ref lies at the head of the slab.
            self.base()
                .addr()
                .wrapping_sub(4 * (g.data_start / g.slot_bytes) as usize)
        } else {
            outside_refs
        };
        self.free.store(ptr::null_mut(), Relaxed);
        self.reciprocal.store(g.reciprocal, Relaxed);
        self.refs.store(refs, Relaxed);
        self.carved.store(0, Relaxed);
        self.capacity.store(g.capacity, Relaxed);
        self.slot_bytes.store(g.slot_bytes, Relaxed);
        self.class.store(class.index() as u32, Relaxed);
        self.data_start.store(g.data_start, Relaxed);
        self.ext_bytes.store(g.ext_bytes, Relaxed);
        self.lost.store(0, Relaxed);
        self.set_owner(heap, number);
        self.occupancy().reset(Place::Current);
        fork::note(self);
    }

    /// Makes an empty slab belong to nobody. The caller has it alone.
    pub(crate) fn uncut(&self, place: Place) {
        self.begin_change();
        self.owner.store(0, Relaxed);
        self.occupancy().reset(place);
        self.free.store(ptr::null_mut(), Relaxed);
        self.carved.store(0, Relaxed);
        self.capacity.store(0, Relaxed);
        self.ext_bytes.store(0, Relaxed);
        self.end_change();
    }

    /// Gives the slab to a heap. The caller has it alone, or holds the lock of the heap that had it.
    pub(crate) fn set_owner(&self, heap: &'static Heap, number: u64) {
        self.owner.store(number, Relaxed);
        self.heap.store(ptr::from_ref(heap).cast_mut(), Release);
    }

    /// Notes what a thread that is in the middle of an operation may still change of the slab.
    pub(crate) fn note_for_fork(&self) {
        // In this order: `used` falls after the slot is on the list, so no more slots are counted as free
        // than there are.
        let used = self.used.load(Acquire);
        self.noted_used.store(used, Relaxed);
        self.noted_free.store(self.free.load(Acquire), Relaxed);
        self.noted_remote.store(self.remote.load(Acquire), Relaxed);
    }

    /// Sends the owner's frees through the remote list too, until it allocates from the slab again.
    /// The caller holds an object of the slab, so the slab stays cut. An owner's free that is on its
    /// way at that moment may still be missed; the slab is then found by the next use of the class
    /// or by `shrink`.
    pub(crate) fn mix_frees(&self) {
        if self.owner.load(Relaxed) & MIXED == 0 && self.occupancy().place() != Place::Current {
            self.owner.fetch_or(MIXED, Relaxed);
        }
    }

    /// The number of the heap that owns the slab.
    pub(crate) fn owner_number(&self) -> u64 {
        self.owner.load(Relaxed) & !MIXED
    }

    /// The heap that owns the slab, as of now.
    pub(crate) fn owner_heap(&self) -> &'static Heap {
        // SAFETY: heaps are never unmapped, and the field is set before the slab is visible.
        unsafe { &*self.heap.load(Acquire) }
    }

    /// Whether the slab holds a class now.
    pub(crate) fn is_cut(&self) -> bool {
        !matches!(self.occupancy().place(), Place::Chunk | Place::Cached)
    }

    /// The vector: address of the first ref and number of refs. Meaningful while the slab is cut.
    pub(crate) fn vector(&self) -> (usize, usize) {
        let skipped = slot_number(
            self.data_start.load(Relaxed) as usize,
            self.reciprocal.load(Relaxed),
        );
        let first = self.refs.load(Relaxed).wrapping_add(4 * skipped);
        (first, self.ext_bytes.load(Relaxed) as usize / 4)
    }
}

/// How many slots of its size there are before an offset in the slab.
#[inline(always)]
fn slot_number(offset: usize, reciprocal: u64) -> usize {
    // No more than 16 and 46 bits.
    ((offset as u64).wrapping_mul(reciprocal) >> RECIPROCAL_BITS) as usize
}

/// The ref of the slot at `ptr`, by the words of its slab.
///
/// # Safety
///
/// `ptr` is the start of a slot of a slab that was cut with refs; `refs` and `reciprocal` are the slab's; the
/// spare bits of the reciprocal may have been used.
#[inline(always)]
pub(crate) unsafe fn ref_at(ptr: *mut u8, refs: usize, reciprocal: u64) -> &'static AtomicU32 {
    let index = slot_number(ptr.addr() & (SLAB_BYTES - 1), reciprocal);
    // SAFETY: by the geometry of the class the slot's ref lies inside the vector, which is mapped
    // while the slot is live.
    unsafe {
        &*ptr
            .with_addr(refs.wrapping_add(index * 4))
            .cast::<AtomicU32>()
    }
}

/// An intrusive list of slabs. Protected by what protects its head.
pub(crate) struct List<'a>(pub &'a AtomicPtr<Slab>);

impl List<'_> {
    /// The first slab.
    pub(crate) fn first(&self) -> Option<&'static Slab> {
        // SAFETY: slabs on a list are cut or cached, so their headers are mapped.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// Puts `slab` first.
    pub(crate) fn push(&self, slab: &'static Slab) {
        let old = self.0.load(Relaxed);
        slab.next.store(old, Relaxed);
        slab.prev.store(ptr::null_mut(), Relaxed);
        let at = ptr::from_ref(slab).cast_mut();
        if let Some(old) = self.first() {
            old.prev.store(at, Relaxed);
        }
        self.0.store(at, Relaxed);
    }

    /// Takes `slab`, which is on this list, out.
    pub(crate) fn remove(&self, slab: &'static Slab) {
        let (next, prev) = (slab.next.load(Relaxed), slab.prev.load(Relaxed));
        // SAFETY: neighbours on a list are mapped, as above.
        if let Some(next) = unsafe { next.as_ref() } {
            next.prev.store(prev, Relaxed);
        }
        // SAFETY: as above.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.store(next, Relaxed),
            None => self.0.store(next, Relaxed),
        }
    }

    /// The slab behind `slab`.
    pub(crate) fn after(slab: &Slab) -> Option<&'static Slab> {
        // SAFETY: as in `first`.
        unsafe { slab.next.load(Relaxed).as_ref() }
    }
}
