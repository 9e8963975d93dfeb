//! The four calls, from the fast path outwards.
//!
//! # Safety model
//!
//! Callers keep the contract of `GlobalAlloc`: a pointer that comes in came out of here with that
//! layout and is live. Whether a block is small or large follows from its layout alone, by
//! [`small_class`]; whatever else is needed of a small one stands in its slab's header.

#[cfg_attr(
    not(all(
        target_os = "linux",
        target_arch = "x86_64",
        target_pointer_width = "64",
        not(codetag_portable),
        not(codetag_flag_switch),
        not(codetag_counters)
    )),
    path = "path/fast_plain.rs"
)]
mod fast;

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
#[inline(always)]
pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
    // SAFETY: as the caller's.
    unsafe { fast::alloc(layout.align(), layout.size()) }
}

/// A slot of `class` for an object of `bytes`; null if there is none.
#[inline(always)]
pub(super) fn alloc_small(class: Class, bytes: usize) -> *mut u8 {
    // SAFETY: the hot word is the address of a heap, and heaps are never unmapped.
    let heap = unsafe { &*ptr::with_exposed_provenance::<Heap>(sys::hot_heap()) };
    let bin = heap.bin(class);
    match bin.pop() {
        // SAFETY: the slot came from the bin.
        Ok(slot) => unsafe { ext::mark_in(heap, bin, slot, bytes) },
        Err(empty) => alloc_slow(class, bytes, empty),
    }
}

/// The bin is empty, or the thread has no heap. The usual case, slots that this thread has freed, calls nothing. The
/// size stays the second argument of all that follows, in its register.
#[cold]
#[inline(never)]
extern "C-unwind" fn alloc_slow(class: Class, bytes: usize, empty: u64) -> *mut u8 {
    match OwnChange::begin() {
        Begun::Plain(change) => match change.heap().take_own(class, empty) {
            Some(slot) => slot.at,
            None => alloc_refilled(change, class),
        },
        Begun::Tagging(change) => alloc_tagging(change, bytes, empty, class),
        Begun::Not => alloc_in_any_case(class, bytes),
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
fn alloc_tagging(change: OwnChange, bytes: usize, empty: u64, class: Class) -> *mut u8 {
    let heap = change.heap();
    match heap.take_own(class, empty) {
        Some(slot) => {
            drop(change);
            // SAFETY: the slot came from the bin.
            unsafe { ext::mark_in(heap, heap.bin(class), slot, bytes) }
        }
        None => alloc_refilled_tagging(change, bytes, class),
    }
}

#[inline(never)]
fn alloc_refilled_tagging(change: OwnChange, bytes: usize, class: Class) -> *mut u8 {
    let taken = change.heap().take(class);
    drop(change);
    match taken {
        // SAFETY: a slot that was just taken.
        Some(at) => ext::mark(unsafe { Slab::of(at) }, at, bytes),
        None => alloc_in_any_case(class, bytes),
    }
}

#[cold]
#[inline(never)]
fn alloc_in_any_case(class: Class, bytes: usize) -> *mut u8 {
    let at = take_in_any_case(class);
    if at.is_null() {
        return at;
    }
    // SAFETY: a slot that was just taken.
    ext::mark(unsafe { Slab::of(at) }, at, bytes)
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
unsafe extern "C-unwind" fn alloc_unusual(align: usize, bytes: usize) -> *mut u8 {
    // SAFETY: they were those of a layout.
    let layout = unsafe { Layout::from_size_align_unchecked(bytes, align) };
    // Jumps, for which no registers are saved.
    if layout.size() > SMALL_MAX {
        // SAFETY: as the caller's, and not of zero size.
        unsafe { large::alloc(layout, false) }
    } else {
        // SAFETY: as the caller's.
        unsafe { alloc_aligned(layout) }
    }
}

/// Alignments above 8, zero sizes.
///
/// # Safety
///
/// As of `GlobalAlloc::alloc`.
#[inline(never)]
unsafe fn alloc_aligned(layout: Layout) -> *mut u8 {
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
    if layout.size() > 0 && !is_small(layout) {
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
    if !is_usual_to_16(layout.size(), layout.align()) {
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
    // Two copies of the rest, so that the tag work need not jump back to it.
    // SAFETY: as the caller's.
    unsafe {
        if ext::unmark(slab, at) {
            free_unmarked::<true>(at, slab);
        } else {
            free_unmarked::<false>(at, slab);
        }
    }
}

/// # Safety
///
/// `at` is a live slot of the slab, which the caller gives up.
#[inline(always)]
unsafe fn free_unmarked<const IS_COPY: bool>(at: *mut u8, slab: &'static Slab) {
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
        LocalFree::Quiet => {
            if IS_COPY {
                sys::keep_apart();
            }
        }
        rare => free_rare(at, slab, rare),
    }
}

#[cold]
#[inline(never)]
fn free_rare(_at: *mut u8, slab: &'static Slab, what: LocalFree) {
    let heap = slab.owner_heap();
    if what == LocalFree::Empty && heap.is_taking_from(slab) {
        // It goes on from its own list.
        return;
    }
    let _change = Change::new();
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
    // Jumps, as in `alloc_unusual`.
    if layout.size() > SMALL_MAX {
        // SAFETY: by its size the block is a large object.
        unsafe { large::dealloc(at, layout) };
    } else {
        // SAFETY: as the caller's.
        unsafe { dealloc_aligned(at, layout) };
    }
}

/// Alignments above 16, zero sizes.
///
/// # Safety
///
/// As of `GlobalAlloc::dealloc`.
#[inline(never)]
unsafe fn dealloc_aligned(at: *mut u8, layout: Layout) {
    if layout.size() == 0 {
        return;
    }
    if is_small(layout) {
        // SAFETY: by its layout the block is a slot.
        unsafe { free_small(at) };
    } else {
        // SAFETY: by its layout the block is a large object.
        unsafe { large::dealloc(at, layout) };
    }
}

/// # Safety
///
/// As of `GlobalAlloc::realloc`.
#[inline(never)]
pub(crate) unsafe fn realloc(at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
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
        unsafe { large::realloc(at, layout, new_bytes) }
    } else {
        // SAFETY: as the caller's.
        unsafe { realloc_unusual(at, layout, new_bytes) }
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
    let to = unsafe { alloc(Layout::from_size_align_unchecked(new_bytes, old.align())) };
    if !to.is_null() {
        ext::inherit(at, false, to, false);
        // SAFETY: both blocks have that many bytes and do not overlap.
        unsafe { ptr::copy_nonoverlapping(at, to, old.size().min(new_bytes)) };
        // SAFETY: as the caller's.
        unsafe { dealloc(at, old) };
    }
    to
}

/// Everything but from a small block to a small one at an alignment up to 8, and from a large object to a large one.
///
/// # Safety
///
/// As of `GlobalAlloc::realloc`.
#[inline(never)]
unsafe fn realloc_unusual(at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
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
    match (is_small(layout), small_class(new)) {
        // SAFETY: by its layout the block is a large object, and stays one.
        (false, None) => unsafe { large::realloc(at, layout, new_bytes) },
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
    let to = unsafe { alloc(new) };
    if !to.is_null() {
        ext::inherit(at, !is_small(old), to, !is_small(new));
        // SAFETY: both blocks have that many bytes and do not overlap.
        unsafe { ptr::copy_nonoverlapping(at, to, old.size().min(new.size())) };
        // SAFETY: as the caller's.
        unsafe { dealloc(at, old) };
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
