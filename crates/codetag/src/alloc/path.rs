//! The four calls, from the fast path outwards.
//!
//! # Safety model
//!
//! Callers keep the contract of `GlobalAlloc`: a pointer that comes in came out of here with that
//! layout and is live. Whether a block is small or large follows from its layout alone, by
//! [`small_class`]; whatever else is needed of a small one stands in its slab's header.

use super::change::Change;
use super::class::{Class, SMALL_MAX};
use super::heap::{self, Heap, SHARED, SHARED_OWNER};
use super::slab::{Slab, Slot};
use super::{chunk, ext, large};
use crate::protocol::LocalFree;
use crate::sys;
use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// Whether `bytes` is from 1 to [`SMALL_MAX`] and `align` at most 8, in one comparison.
#[inline(always)]
fn is_usual(bytes: usize, align: usize) -> bool {
    const { assert!(SMALL_MAX >> 10 == 16) };
    (bytes.wrapping_sub(1) >> 10 | align) < 16
}

/// The class that serves a layout; none if it is a large object's. Not for zero sizes.
fn small_class(layout: Layout) -> Option<Class> {
    Class::of_aligned(layout.size(), layout.align())
}

/// # Safety
///
/// As of `GlobalAlloc::alloc`.
#[inline(never)]
pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
    if !is_usual(layout.size(), layout.align()) {
        // SAFETY: as the caller's.
        return unsafe { alloc_unusual(layout) };
    }
    // SAFETY: just compared.
    let class = unsafe { Class::of_small(layout.size()) };
    alloc_small(class, layout.size())
}

/// A slot of `class` for an object of `bytes`; null if there is none.
#[inline(always)]
pub(super) fn alloc_small(class: Class, bytes: usize) -> *mut u8 {
    // SAFETY: the hot word is the address of a heap, and heaps are never unmapped.
    let heap = unsafe { &*ptr::with_exposed_provenance::<Heap>(sys::hot_heap()) };
    let bin = heap.bin(class);
    match bin.pop() {
        // SAFETY: the slot came from the bin.
        Some(slot) => unsafe { ext::mark_in(heap, bin, slot, bytes) },
        None => alloc_slow(class, bytes),
    }
}

/// The bin is empty, or the thread has no heap.
#[cold]
#[inline(never)]
fn alloc_slow(class: Class, bytes: usize) -> *mut u8 {
    let change = Change::new();
    loop {
        let taken = match change.own_heap() {
            Some(heap) => heap.take(class),
            None => {
                let _owner = SHARED_OWNER.lock();
                SHARED.take(class)
            }
        };
        if let Some(at) = taken {
            // SAFETY: a slot that was just taken.
            return ext::mark(unsafe { Slab::of(at) }, at, bytes);
        }
        if !chunk::fetch() {
            return ptr::null_mut();
        }
    }
}

/// Alignments above 8, zero sizes, large objects.
///
/// # Safety
///
/// As of `GlobalAlloc::alloc`.
#[inline(never)]
unsafe fn alloc_unusual(layout: Layout) -> *mut u8 {
    if layout.size() == 0 {
        return ptr::without_provenance_mut(layout.align());
    }
    match small_class(layout) {
        Some(class) => alloc_small(class, layout.size()),
        // SAFETY: as the caller's, and not of zero size.
        None => unsafe { large::alloc(layout, false) },
    }
}

/// # Safety
///
/// As of `GlobalAlloc::alloc_zeroed`.
#[inline(never)]
pub(crate) unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
    if layout.size() > 0 && small_class(layout).is_none() {
        // SAFETY: as the caller's.
        return unsafe { large::alloc(layout, true) };
    }
    // SAFETY: as the caller's.
    let at = unsafe { alloc(layout) };
    if !at.is_null() {
        // SAFETY: the block has at least that many bytes.
        unsafe { at.write_bytes(0, layout.size()) };
    }
    at
}

/// # Safety
///
/// As of `GlobalAlloc::dealloc`.
#[inline(never)]
pub(crate) unsafe fn dealloc(at: *mut u8, layout: Layout) {
    // Alignment 16 too: its slots are those of the rounded size, which is small.
    if !is_usual(layout.size(), layout.align() >> 1) {
        // SAFETY: as the caller's.
        return unsafe { dealloc_unusual(at, layout) };
    }
    // SAFETY: by its layout the block is a slot.
    unsafe { free_small(at) };
}

/// # Safety
///
/// `at` is a live slot, which the caller gives up.
#[inline(always)]
pub(super) unsafe fn free_small(at: *mut u8) {
    // SAFETY: a live slot's slab is cut.
    let slab = unsafe { Slab::of(at) };
    ext::unmark(slab, at);
    if !sys::is_hot_number(slab.owner.load(Relaxed)) {
        // SAFETY: as the caller's.
        return unsafe { heap::free_remote(at, slab) };
    }
    // SAFETY: the slot is ours now, and the slab's list is its owner's, this thread's.
    unsafe {
        at.cast::<Slot>().write(Slot {
            next: slab.free.load(Relaxed),
        });
    };
    // After the link: who reads the list, as a fork does, can follow it.
    slab.free.store(at.cast(), Release);
    match slab.occupancy().local_free() {
        LocalFree::Quiet => {}
        rare => free_rare(at, slab, rare),
    }
}

#[cold]
#[inline(never)]
fn free_rare(_at: *mut u8, slab: &'static Slab, what: LocalFree) {
    let _change = Change::new();
    let heap = slab.owner_heap();
    match what {
        LocalFree::Empty => heap.emptied(slab),
        LocalFree::WasFull => heap.was_full(slab),
        LocalFree::Quiet => {}
    }
}

/// Alignments above 16, zero sizes, large objects.
///
/// # Safety
///
/// As of `GlobalAlloc::dealloc`.
#[inline(never)]
unsafe fn dealloc_unusual(at: *mut u8, layout: Layout) {
    if layout.size() == 0 {
        return;
    }
    match small_class(layout) {
        // SAFETY: by its layout the block is a slot.
        Some(_) => unsafe { free_small(at) },
        // SAFETY: by its layout the block is a large object.
        None => unsafe { large::dealloc(at, layout) },
    }
}

/// # Safety
///
/// As of `GlobalAlloc::realloc`.
#[inline(never)]
pub(crate) unsafe fn realloc(at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
    // SAFETY: the caller's contract bounds the new size.
    let new = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
    if layout.size() == 0 {
        // SAFETY: a block of no bytes is no block.
        return unsafe { alloc(new) };
    }
    if new_bytes == 0 {
        // SAFETY: as the caller's.
        unsafe { dealloc(at, layout) };
        return ptr::without_provenance_mut(layout.align());
    }
    match (small_class(layout), small_class(new)) {
        // SAFETY: by its layout the block is a large object, and stays one.
        (None, None) => unsafe { large::realloc(at, layout, new_bytes) },
        (Some(_), Some(class)) => {
            // SAFETY: by its layout the block is a slot.
            let slab = unsafe { Slab::of(at) };
            let slot_bytes = slab.slot_bytes.load(Relaxed);
            // A block that shrinks below half its slot moves to a smaller one.
            if class.slot_bytes() <= slot_bytes && class.slot_bytes() > slot_bytes / 2 {
                ext::remark(slab, at, new_bytes);
                return at;
            }
            // SAFETY: as the caller's.
            unsafe { move_block(at, layout, new) }
        }
        // SAFETY: as the caller's.
        _ => unsafe { move_block(at, layout, new) },
    }
}

/// Allocates anew, copies, frees the old block.
///
/// # Safety
///
/// As of `GlobalAlloc::realloc`.
unsafe fn move_block(at: *mut u8, old: Layout, new: Layout) -> *mut u8 {
    // SAFETY: the new layout is not of zero size.
    let to = unsafe { alloc(new) };
    if !to.is_null() {
        let was = small_class(old).is_none();
        ext::inherit(at, was, to, small_class(new).is_none());
        // SAFETY: both blocks have that many bytes and do not overlap.
        unsafe { ptr::copy_nonoverlapping(at, to, old.size().min(new.size())) };
        // SAFETY: as the caller's.
        unsafe { dealloc(at, old) };
    }
    to
}
