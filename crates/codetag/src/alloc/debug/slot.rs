//! What a slot holds beside its object.
//!
//! ```text
//! slot                 object                                                    end of the slot
//! | link | left zone   | requested bytes          | right zone, 8 B or more | record, 32 B |
//! | left bytes: 16 or the alignment |
//!
//! live:  0xcc            the program's               0xcc                      live
//! free:  list, 0xbb      0x6b …, the last 0xa5       0xbb                      free
//! ```
//!
//! The bytes are those of SLUB (`include/linux/poison.h`). The link of the free list lies outside of the
//! object, so that a write through a stale pointer does not lead the allocator astray before it is met.
//! The record's last word is a sum over the others and the slot's address: a record that was written over,
//! or that lies there from another class, is not believed.
//!
//! # Safety model
//!
//! A [`Frame`] is made of a slot of a mapped slab that is larger than a record. Bytes of a slot are touched
//! by whoever owns it: the one who takes or frees it. Records are atomics, because a wrong pointer may lead
//! to the slot of a thread that is in the middle of something.

use super::super::slab::Slab;
use crate::tag::CodeTag;
use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Around a live object.
pub(super) const RED_ACTIVE: u8 = 0xcc;
/// Around a free one.
pub(super) const RED_INACTIVE: u8 = 0xbb;
/// An object that was never written since it was handed out.
const POISON_INUSE: u8 = 0x5a;
/// A free object.
pub(super) const POISON_FREE: u8 = 0x6b;
/// Its last byte.
pub(super) const POISON_END: u8 = 0xa5;

/// The least that stands behind an object.
pub(super) const RED_BYTES: usize = 8;
/// The least that stands before it: the link of the free list, and as much again.
const LEFT_MIN: usize = 16;
const RECORD_BYTES: usize = size_of::<Record>();

/// Who had the slot.
#[repr(C)]
struct Record {
    /// Requested bytes, and the binary logarithm of the alignment from bit 56 on.
    size: AtomicU64,
    allocated_by: AtomicU64,
    freed_by: AtomicU64,
    /// See [`Record::sum`].
    sum: AtomicU64,
}

const _: () = assert!(RECORD_BYTES == 32);

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not handed out since the slab was cut.
    Fresh,
    Live,
    Free,
    /// The record was written over.
    Lost,
}

/// A byte that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Bytes from the object's start; negative in the left zone.
    pub offset: isize,
    pub found: u8,
    pub expected: u8,
    /// From there to the last wrong byte of the zone.
    pub bytes: usize,
}

/// Which zone is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Before(Wrong),
    Behind(Wrong),
    Inside(Wrong),
}

/// A slot and its record.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub slot: *mut u8,
    pub slot_bytes: usize,
}

/// What stands before an object of this alignment.
const fn left_bytes(align: usize) -> usize {
    if align > LEFT_MIN { align } else { LEFT_MIN }
}

/// Bytes of the slot that an object of this layout needs; none if there is no such number.
pub(super) fn bytes_for(layout: Layout) -> Option<usize> {
    layout
        .size()
        .checked_add(left_bytes(layout.align()))?
        .checked_add(RED_BYTES + RECORD_BYTES)
}

/// The first byte in `[at, at + bytes)` that is not `expected`, and how far the wrong ones go. `base` is the
/// object's start.
///
/// # Safety
///
/// The range is mapped, and nobody writes to it.
pub(super) unsafe fn first_wrong(
    at: *mut u8,
    bytes: usize,
    expected: u8,
    base: *mut u8,
) -> Option<Wrong> {
    // SAFETY: as the caller's.
    let zone = unsafe { core::slice::from_raw_parts(at, bytes) };
    let first = zone.iter().position(|&b| b != expected)?;
    let last = zone.iter().rposition(|&b| b != expected).unwrap_or(first);
    Some(Wrong {
        offset: (at.addr() + first).wrapping_sub(base.addr()).cast_signed(),
        found: zone[first],
        expected,
        bytes: last - first + 1,
    })
}

impl Record {
    /// Differs for every other slot, state and content.
    fn sum(&self, slot: usize, state: State) -> u64 {
        let mut sum = 0x636f_6465_7461_6700 | state as u64;
        for word in [
            slot as u64,
            self.size.load(Relaxed),
            self.allocated_by.load(Relaxed),
            self.freed_by.load(Relaxed),
        ] {
            sum = (sum ^ word)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
        }
        sum
    }
}

fn word_of(tag: &'static CodeTag) -> u64 {
    ptr::from_ref(tag).expose_provenance() as u64
}

fn tag_of(word: u64) -> Option<&'static CodeTag> {
    // SAFETY: the sum is right, so the word is 0 or what `word_of` made of a tag that lives for ever.
    unsafe { ptr::with_exposed_provenance::<CodeTag>(word as usize).as_ref() }
}

impl Frame {
    /// Of the slot that begins at `slot`, in a slab that is cut.
    pub(super) fn of(slab: &Slab, slot: *mut u8) -> Self {
        Self {
            slot,
            slot_bytes: slab.slot_bytes.load(Relaxed) as usize,
        }
    }

    /// Whether the slot has room for a record and a byte.
    pub(super) fn is_framed(&self) -> bool {
        self.slot_bytes > LEFT_MIN + RED_BYTES + RECORD_BYTES
    }

    fn record(&self) -> &'static Record {
        let at = self.slot.wrapping_add(self.slot_bytes - RECORD_BYTES);
        // SAFETY: the slot's last bytes, mapped while its slab is; slots are multiples of 8.
        unsafe { &*at.cast::<Record>() }
    }

    pub(super) fn state(&self) -> State {
        let record = self.record();
        let sum = record.sum.load(Relaxed);
        [State::Fresh, State::Live, State::Free]
            .into_iter()
            .find(|&s| record.sum(self.slot.addr(), s) == sum)
            .unwrap_or(State::Lost)
    }

    fn set_state(&self, state: State) {
        let record = self.record();
        record
            .sum
            .store(record.sum(self.slot.addr(), state), Relaxed);
    }

    /// Requested bytes. Meaningful unless the record is lost, as what follows.
    pub(super) fn bytes(&self) -> usize {
        (self.record().size.load(Relaxed) & ((1 << 56) - 1)) as usize
    }

    pub(super) fn align(&self) -> usize {
        1 << (self.record().size.load(Relaxed) >> 56)
    }

    /// Where the object begins.
    pub(super) fn object(&self) -> *mut u8 {
        self.slot.wrapping_add(left_bytes(self.align()))
    }

    pub(super) fn allocated_by(&self) -> Option<&'static CodeTag> {
        tag_of(self.record().allocated_by.load(Relaxed))
    }

    pub(super) fn freed_by(&self) -> Option<&'static CodeTag> {
        tag_of(self.record().freed_by.load(Relaxed))
    }

    /// The slab was cut.
    pub(super) fn refresh(&self) {
        let record = self.record();
        record.size.store(0, Relaxed);
        record.allocated_by.store(0, Relaxed);
        record.freed_by.store(0, Relaxed);
        self.set_state(State::Fresh);
    }

    /// Gives the slot, which the caller owns, to the program; returns the object.
    pub(super) fn hand_out(&self, layout: Layout, by: &'static CodeTag) -> *mut u8 {
        let record = self.record();
        let align = u64::from(layout.align().trailing_zeros());
        record
            .size
            .store(layout.size() as u64 | align << 56, Relaxed);
        record.allocated_by.store(word_of(by), Relaxed);
        record.freed_by.store(0, Relaxed);
        self.set_state(State::Live);
        let object = self.object();
        // SAFETY: the three parts of a slot that is the caller's; `bytes_for` saw to the room.
        unsafe {
            self.slot
                .write_bytes(RED_ACTIVE, left_bytes(layout.align()));
            object.write_bytes(POISON_INUSE, layout.size());
            object
                .add(layout.size())
                .write_bytes(RED_ACTIVE, self.right_bytes());
        };
        object
    }

    /// Says that the object is freed; the caller is the only one who does.
    pub(super) fn take_back(&self, by: &'static CodeTag) {
        self.record().freed_by.store(word_of(by), Relaxed);
        self.set_state(State::Free);
    }

    /// Poisons a slot that was taken back and is on no list yet.
    pub(super) fn poison(&self) {
        let (object, bytes) = (self.object(), self.bytes());
        // SAFETY: as in `hand_out`; an object has at least one byte.
        unsafe {
            self.slot
                .write_bytes(RED_INACTIVE, object.addr() - self.slot.addr());
            object.write_bytes(POISON_FREE, bytes - 1);
            object.add(bytes - 1).write(POISON_END);
            object
                .add(bytes)
                .write_bytes(RED_INACTIVE, self.right_bytes());
        }
    }

    fn right_bytes(&self) -> usize {
        let end = self.slot.addr() + self.slot_bytes - RECORD_BYTES;
        end - (self.object().addr() + self.bytes())
    }

    /// The zones of a live object.
    ///
    /// # Safety
    ///
    /// The caller owns the object, and its record is not lost.
    pub(super) unsafe fn check_live(&self) -> Option<Broken> {
        // SAFETY: the caller owns the object, and so the zones around it.
        unsafe { self.check_zones(RED_ACTIVE, 0) }
    }

    /// The zones and the poison of a free one.
    ///
    /// # Safety
    ///
    /// The caller owns the slot, whose record says that it is free.
    pub(super) unsafe fn check_free(&self) -> Option<Broken> {
        let (object, bytes) = (self.object(), self.bytes());
        // SAFETY: the slot is the caller's. Its first word was a list's.
        unsafe {
            first_wrong(object, bytes - 1, POISON_FREE, object)
                .or_else(|| first_wrong(object.add(bytes - 1), 1, POISON_END, object))
                .map(Broken::Inside)
                .or_else(|| self.check_zones(RED_INACTIVE, size_of::<usize>()))
        }
    }

    /// # Safety
    ///
    /// As of the callers; `skipped` bytes at the slot's start may be anything.
    unsafe fn check_zones(&self, expected: u8, skipped: usize) -> Option<Broken> {
        let (object, bytes) = (self.object(), self.bytes());
        let behind = object.wrapping_add(bytes);
        let before = self.slot.wrapping_add(skipped);
        // SAFETY: both zones lie in the slot, by its record.
        unsafe {
            first_wrong(behind, self.right_bytes(), expected, object)
                .map(Broken::Behind)
                .or_else(|| {
                    first_wrong(before, object.addr() - before.addr(), expected, object)
                        .map(Broken::Before)
                })
        }
    }
}

/// The slot of a live small object of this layout.
pub(super) fn slot_before(object: *mut u8, layout: Layout) -> *mut u8 {
    object.wrapping_sub(left_bytes(layout.align()))
}
