//! Objects too large for a slab: straight to the inner allocator, noted in page_ext.
//!
//! # Safety model
//!
//! As of `path`. An entry of page_ext exists only while its object is the program's: it is
//! inserted after the inner allocator returned the block, and taken out before the block is given
//! to the inner allocator again, which may hand the address to another thread at once.

use super::change::{Begun, Change, OwnChange};
use super::heap::{Heap, SHARED};
use super::{debug, ext, inner, thread};
use core::alloc::Layout;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Adds to the counts of the running thread's own heap: no shared line is written.
#[inline(always)]
fn count_own(heap: &Heap, objs: u64, bytes: u64) {
    let add = |to: &AtomicU64, n: u64| to.store(to.load(Relaxed).wrapping_add(n), Relaxed);
    add(&heap.large_objs, objs);
    add(&heap.large_bytes, bytes);
}

#[inline(always)]
fn count(change: &Change, objs: u64, bytes: u64) {
    match change.own_heap() {
        Some(heap) => count_own(heap, objs, bytes),
        None => {
            SHARED.large_objs.fetch_add(objs, Relaxed);
            SHARED.large_bytes.fetch_add(bytes, Relaxed);
        }
    }
}

/// # Safety
///
/// As of `GlobalAlloc::alloc`.
#[inline(never)]
pub(crate) unsafe fn alloc(layout: Layout, zeroed: bool) -> *mut u8 {
    // Outside of any change: until it returns there is no object.
    // SAFETY: as the caller's.
    let at = unsafe { inner::alloc(layout, zeroed) };
    if at.is_null() {
        return at;
    }
    came(at, layout.size())
}

/// Counts an object, and notes it while profiling is on; returns it.
#[inline(always)]
fn came(at: *mut u8, bytes: usize) -> *mut u8 {
    match OwnChange::begin() {
        Begun::Plain(change) => {
            count_own(change.heap(), 1, bytes as u64);
            at
        }
        Begun::Tagging(change) => came_tagging(change, at, bytes),
        Begun::Not => came_in_any_case(at, bytes),
    }
}

/// Ends what `came` began, while profiling is on; the usual case calls nothing.
#[inline(never)]
fn came_tagging(change: OwnChange, at: *mut u8, bytes: usize) -> *mut u8 {
    if ext::try_large_allocated(at, bytes - debug::LARGE_EXTRA_BYTES) {
        count_own(change.heap(), 1, bytes as u64);
        return at;
    }
    drop(change);
    came_in_any_case(at, bytes)
}

#[cold]
#[inline(never)]
fn came_in_any_case(at: *mut u8, bytes: usize) -> *mut u8 {
    let change = Change::new();
    count(&change, 1, bytes as u64);
    ext::large_allocated(at, bytes - debug::LARGE_EXTRA_BYTES);
    at
}

/// # Safety
///
/// As of `GlobalAlloc::dealloc`.
#[inline(never)]
pub(crate) unsafe fn dealloc(at: *mut u8, layout: Layout) {
    let bytes = (layout.size() as u64).wrapping_neg();
    if !ext::noted_large()
        && let Begun::Plain(change) = OwnChange::begin()
    {
        count_own(change.heap(), u64::MAX, bytes);
    } else {
        // A jump, for which no registers are saved.
        // SAFETY: as the caller's.
        return unsafe { dealloc_noted(at, layout) };
    }
    // Outside of any change: there is no object any more.
    // SAFETY: as the caller's.
    unsafe { inner::dealloc(at, layout) };
}

/// Once profiling was on; the usual case calls nothing but the inner allocator.
///
/// # Safety
///
/// As of [`dealloc`].
#[inline(never)]
unsafe fn dealloc_noted(at: *mut u8, layout: Layout) {
    let bytes = (layout.size() as u64).wrapping_neg();
    if let Begun::Plain(change) | Begun::Tagging(change) = OwnChange::begin()
        && ext::try_large_remove(at)
    {
        count_own(change.heap(), u64::MAX, bytes);
    } else {
        goes_in_any_case(at, bytes);
    }
    // SAFETY: as the caller's.
    unsafe { inner::dealloc(at, layout) };
}

#[cold]
#[inline(never)]
fn goes_in_any_case(at: *mut u8, bytes: u64) {
    let change = Change::new();
    ext::large_remove(at);
    count(&change, u64::MAX, bytes);
}

/// # Safety
///
/// As of `GlobalAlloc::realloc`; old and new size are those of large objects.
#[inline(never)]
pub(crate) unsafe fn realloc(at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
    if ext::noted_large() {
        // SAFETY: as the caller's.
        return unsafe { realloc_noted(at, layout, new_bytes) };
    }
    // SAFETY: as the caller's.
    let to = unsafe { inner::realloc(at, layout, new_bytes) };
    if to.is_null() {
        return to;
    }
    let more = (new_bytes as u64).wrapping_sub(layout.size() as u64);
    if let Begun::Plain(change) | Begun::Tagging(change) = OwnChange::begin() {
        count_own(change.heap(), 0, more);
        return to;
    }
    resized(to, more)
}

/// Counts a realloc in the rare case; returns the block.
#[cold]
#[inline(never)]
fn resized(to: *mut u8, more: u64) -> *mut u8 {
    count(&Change::new(), 0, more);
    to
}

/// The entry of a noted object is out while the inner allocator moves it, and reports must know.
///
/// # Safety
///
/// As of [`realloc`].
#[inline(never)]
unsafe fn realloc_noted(at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
    let change = Change::new();
    let owner = ext::large_take(at);
    // SAFETY: as the caller's.
    let to = change.outside(|| unsafe { inner::realloc(at, layout, new_bytes) });
    if to.is_null() {
        ext::large_put_back(at, layout.size(), owner);
    } else {
        count(
            &change,
            0,
            (new_bytes as u64).wrapping_sub(layout.size() as u64),
        );
        ext::large_moved(to, new_bytes, owner);
    }
    to
}

/// Large objects and bytes out, by the counts of all heaps. In motion the heaps are read one after
/// the other, and an object may be missed where it was allocated and seen where it was freed.
pub(crate) fn totals() -> (u64, u64) {
    let (objs, bytes) = thread::heaps().fold((0_u64, 0_u64), |(objs, bytes), heap| {
        (
            objs.wrapping_add(heap.large_objs.load(Relaxed)),
            bytes.wrapping_add(heap.large_bytes.load(Relaxed)),
        )
    });
    let not_negative = |n: u64| n.cast_signed().max(0).cast_unsigned();
    (not_negative(objs), not_negative(bytes))
}
