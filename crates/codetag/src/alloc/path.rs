//! The four calls, from the fast path outwards.
//!
//! # Safety model
//!
//! Callers keep the contract of `GlobalAlloc`: a pointer that comes in came out of here with that
//! layout and is live. Whether a block is small or large follows from its layout alone, by
//! [`small_class`]; whatever else is needed of a small one stands in its slab's header.

use super::change::{Begun, Change, OwnChange};
use super::class::{Class, SMALL_MAX};
use super::heap::{self, Heap, SHARED, SHARED_OWNER};
use super::slab::{Slab, Slot};
use super::{chunk, ext, large};
use crate::protocol::LocalFree;
use crate::sys;
use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// What the four calls and the paths behind them have as their first argument, and nothing needs: the instance that
/// was called. So their other arguments stay in the registers that `GlobalAlloc` has them in.
pub(crate) type Instance = *const ();

/// Stands where next to nothing comes by, so that no optimiser takes the argument away and moves the others up.
#[inline(always)]
fn keep(instance: Instance) {
    let _ = core::hint::black_box(instance);
}

/// For calls from inside.
pub(crate) const NO_INSTANCE: Instance = ptr::null();

/// Whether `bytes` is from 1 to [`SMALL_MAX`] and `align` at most 8, in one comparison.
#[inline(always)]
fn is_usual(bytes: usize, align: usize) -> bool {
    const { assert!(SMALL_MAX >> 10 == 16) };
    (bytes.wrapping_sub(1) >> 10 | align) < 16
}

/// The same for alignments up to 16.
#[inline(always)]
fn is_usual_to_16(bytes: usize, align: usize) -> bool {
    const { assert!(SMALL_MAX >> 9 == 32) };
    (bytes.wrapping_sub(1) >> 9 | align) < 32
}

/// Whether a layout is a slot's. The largest class, a power of two, is a multiple of every alignment up to it, so
/// none has to be looked for.
#[inline(always)]
fn is_small(layout: Layout) -> bool {
    const { assert!(SMALL_MAX.is_power_of_two()) };
    // A layout's size can be rounded up.
    let rest = layout.align() - 1;
    layout.size().wrapping_add(rest) & !rest <= SMALL_MAX
}

/// The class that serves a layout; none if it is a large object's. Not for zero sizes.
fn small_class(layout: Layout) -> Option<Class> {
    Class::of_aligned(layout.size(), layout.align())
}

/// # Safety
///
/// As of `GlobalAlloc::alloc`.
#[inline(never)]
pub(crate) unsafe fn alloc(instance: Instance, layout: Layout) -> *mut u8 {
    if !is_usual(layout.size(), layout.align()) {
        // SAFETY: as the caller's.
        return unsafe { alloc_unusual(instance, layout) };
    }
    // SAFETY: just compared.
    let class = unsafe { Class::of_small(layout.size()) };
    alloc_small(class, layout)
}

/// A slot of `class` for an object of that layout; null if there is none.
#[inline(always)]
pub(super) fn alloc_small(class: Class, layout: Layout) -> *mut u8 {
    // SAFETY: the hot word is the address of a heap, and heaps are never unmapped.
    let heap = unsafe { &*ptr::with_exposed_provenance::<Heap>(sys::hot_heap()) };
    let bin = heap.bin(class);
    match bin.pop() {
        // SAFETY: the slot came from the bin.
        Ok(slot) => unsafe { ext::mark_in(heap, bin, slot, layout.size()) },
        Err(empty) => alloc_slow(class, empty, layout),
    }
}

/// The bin is empty, or the thread has no heap. The usual case, slots that this thread has freed, calls nothing.
#[cold]
#[inline(never)]
fn alloc_slow(class: Class, empty: u64, layout: Layout) -> *mut u8 {
    match OwnChange::begin() {
        Begun::Plain(change) => match change.heap().take_own(class, empty) {
            Some(slot) => slot.at,
            None => alloc_refilled(change, class),
        },
        Begun::Tagging(change) => alloc_tagging(change, empty, layout, class),
        Begun::Not => alloc_in_any_case(class, layout),
    }
}

/// While allocations store no refs; so that no size has to be kept.
#[inline(never)]
fn alloc_refilled(change: OwnChange, class: Class) -> *mut u8 {
    let taken = change.heap().take(class);
    drop(change);
    taken.unwrap_or_else(|| take_in_any_case(class))
}

/// While they do.
#[inline(never)]
fn alloc_tagging(change: OwnChange, empty: u64, layout: Layout, class: Class) -> *mut u8 {
    let heap = change.heap();
    match heap.take_own(class, empty) {
        Some(slot) => {
            drop(change);
            // SAFETY: the slot came from the bin.
            unsafe { ext::mark_in(heap, heap.bin(class), slot, layout.size()) }
        }
        None => alloc_refilled_tagging(change, layout, class),
    }
}

#[inline(never)]
fn alloc_refilled_tagging(change: OwnChange, layout: Layout, class: Class) -> *mut u8 {
    let taken = change.heap().take(class);
    drop(change);
    match taken {
        // SAFETY: a slot that was just taken.
        Some(at) => ext::mark(unsafe { Slab::of(at) }, at, layout.size()),
        None => alloc_in_any_case(class, layout),
    }
}

#[cold]
#[inline(never)]
fn alloc_in_any_case(class: Class, layout: Layout) -> *mut u8 {
    let at = take_in_any_case(class);
    if at.is_null() {
        return at;
    }
    // SAFETY: a slot that was just taken.
    ext::mark(unsafe { Slab::of(at) }, at, layout.size())
}

/// A slot, though it take another chunk, a fork be under way, or the thread have to use the shared heap; null if there is
/// no memory.
#[cold]
#[inline(never)]
fn take_in_any_case(class: Class) -> *mut u8 {
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
            return at;
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
unsafe fn alloc_unusual(instance: Instance, layout: Layout) -> *mut u8 {
    // Jumps, for which no registers are saved.
    if layout.size() > SMALL_MAX {
        // SAFETY: as the caller's, and not of zero size.
        unsafe { large::alloc(false, layout) }
    } else {
        // SAFETY: as the caller's.
        unsafe { alloc_aligned(instance, layout) }
    }
}

/// Alignments above 8, zero sizes.
///
/// # Safety
///
/// As of `GlobalAlloc::alloc`.
#[inline(never)]
unsafe fn alloc_aligned(instance: Instance, layout: Layout) -> *mut u8 {
    if layout.size() == 0 {
        keep(instance);
        return ptr::without_provenance_mut(layout.align());
    }
    match small_class(layout) {
        Some(class) => alloc_small(class, layout),
        // SAFETY: as the caller's, and not of zero size.
        None => unsafe { large::alloc(false, layout) },
    }
}

/// # Safety
///
/// As of `GlobalAlloc::alloc_zeroed`.
#[inline(never)]
pub(crate) unsafe fn alloc_zeroed(instance: Instance, layout: Layout) -> *mut u8 {
    if layout.size() > 0 && !is_small(layout) {
        // SAFETY: as the caller's.
        return unsafe { large::alloc(true, layout) };
    }
    // SAFETY: as the caller's.
    let at = unsafe { alloc(instance, layout) };
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
pub(crate) unsafe fn dealloc(instance: Instance, at: *mut u8, layout: Layout) {
    // Alignment 16 too: its slots are those of the rounded size, which is small.
    if !is_usual_to_16(layout.size(), layout.align()) {
        // SAFETY: as the caller's.
        return unsafe { dealloc_unusual(instance, at, layout) };
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
unsafe fn dealloc_unusual(instance: Instance, at: *mut u8, layout: Layout) {
    // Jumps, as in `alloc_unusual`.
    if layout.size() > SMALL_MAX {
        // SAFETY: by its size the block is a large object.
        unsafe { large::dealloc(instance, at, layout) };
    } else {
        // SAFETY: as the caller's.
        unsafe { dealloc_aligned(instance, at, layout) };
    }
}

/// Alignments above 16, zero sizes.
///
/// # Safety
///
/// As of `GlobalAlloc::dealloc`.
#[inline(never)]
unsafe fn dealloc_aligned(instance: Instance, at: *mut u8, layout: Layout) {
    if layout.size() == 0 {
        return keep(instance);
    }
    if is_small(layout) {
        // SAFETY: by its layout the block is a slot.
        unsafe { free_small(at) };
    } else {
        // SAFETY: by its layout the block is a large object.
        unsafe { large::dealloc(instance, at, layout) };
    }
}

/// # Safety
///
/// As of `GlobalAlloc::realloc`.
#[inline(never)]
pub(crate) unsafe fn realloc(
    instance: Instance,
    at: *mut u8,
    layout: Layout,
    new_bytes: usize,
) -> *mut u8 {
    if is_usual(layout.size(), layout.align()) && is_usual(new_bytes, layout.align()) {
        // SAFETY: just compared.
        let class = unsafe { Class::of_small(new_bytes) };
        // SAFETY: by its layout the block is a slot.
        let slab = unsafe { Slab::of(at) };
        if keeps_slot(slab, class) {
            ext::remark(slab, at, new_bytes);
            return at;
        }
        // SAFETY: as the caller's.
        return unsafe { move_small(at, layout, new_bytes) };
    }
    // Jumps, as in `alloc_unusual`.
    if layout.size() > SMALL_MAX && new_bytes > SMALL_MAX {
        // SAFETY: by both sizes it is a large object, and stays one.
        unsafe { large::realloc(instance, at, layout, new_bytes) }
    } else {
        // SAFETY: as the caller's.
        unsafe { realloc_unusual(instance, at, layout, new_bytes) }
    }
}

/// Whether a block of the slab that is to be served by `class` stays where it is. One that shrinks below half its
/// slot moves to a smaller one.
#[inline(always)]
fn keeps_slot(slab: &Slab, class: Class) -> bool {
    let slot_bytes = slab.slot_bytes.load(Relaxed);
    class.slot_bytes() <= slot_bytes && class.slot_bytes() > slot_bytes / 2
}

/// Moves a small block to another slot. By calls, so that there are few sites to patch.
///
/// # Safety
///
/// As of `GlobalAlloc::realloc`; both sizes are usual.
#[inline(never)]
unsafe fn move_small(at: *mut u8, old: Layout, new_bytes: usize) -> *mut u8 {
    // SAFETY: the caller's contract bounds the new size.
    let to = unsafe {
        alloc(
            NO_INSTANCE,
            Layout::from_size_align_unchecked(new_bytes, old.align()),
        )
    };
    if !to.is_null() {
        ext::inherit(at, false, to, false);
        // SAFETY: both blocks have that many bytes and do not overlap.
        unsafe { ptr::copy_nonoverlapping(at, to, old.size().min(new_bytes)) };
        // SAFETY: as the caller's.
        unsafe { dealloc(NO_INSTANCE, at, old) };
    }
    to
}

/// Everything but from a small block to a small one at an alignment up to 8, and from a large object to a large one.
///
/// # Safety
///
/// As of `GlobalAlloc::realloc`.
#[inline(never)]
unsafe fn realloc_unusual(
    instance: Instance,
    at: *mut u8,
    layout: Layout,
    new_bytes: usize,
) -> *mut u8 {
    // SAFETY: the caller's contract bounds the new size.
    let new = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
    if layout.size() == 0 {
        keep(instance);
        // SAFETY: a block of no bytes is no block.
        return unsafe { alloc(instance, new) };
    }
    if new_bytes == 0 {
        // SAFETY: as the caller's.
        unsafe { dealloc(instance, at, layout) };
        return ptr::without_provenance_mut(layout.align());
    }
    match (is_small(layout), small_class(new)) {
        // SAFETY: by its layout the block is a large object, and stays one.
        (false, None) => unsafe { large::realloc(instance, at, layout, new_bytes) },
        (true, Some(class)) => {
            // SAFETY: by its layout the block is a slot.
            let slab = unsafe { Slab::of(at) };
            if keeps_slot(slab, class) {
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
    let to = unsafe { alloc(NO_INSTANCE, new) };
    if !to.is_null() {
        ext::inherit(at, !is_small(old), to, !is_small(new));
        // SAFETY: both blocks have that many bytes and do not overlap.
        unsafe { ptr::copy_nonoverlapping(at, to, old.size().min(new.size())) };
        // SAFETY: as the caller's.
        unsafe { dealloc(NO_INSTANCE, at, old) };
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_is_what_has_a_class() {
        for align in (0..=16).map(|shift| 1_usize << shift) {
            for bytes in (1..200).chain((200..40_000).step_by(97)).chain([
                SMALL_MAX - 1,
                SMALL_MAX,
                SMALL_MAX + 1,
                isize::MAX as usize - align,
            ]) {
                let layout = Layout::from_size_align(bytes, align).unwrap();
                assert_eq!(
                    is_small(layout),
                    small_class(layout).is_some(),
                    "{layout:?}"
                );
            }
        }
    }
}
