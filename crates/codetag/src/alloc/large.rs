//! Objects too large for a slab: straight to the inner allocator, noted in page_ext.
//!
//! # Safety model
//!
//! As of `path`. An entry of page_ext exists only while its object is the program's: it is
//! inserted after the inner allocator returned the block, and taken out before the block is given
//! to the inner allocator again, which may hand the address to another thread at once.

use super::change::Change;
use super::heap::SHARED;
use super::{debug, ext, inner, thread};
use core::alloc::Layout;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Counts a change of the large objects, in the running thread's heap: no shared line is written.
#[inline(always)]
fn count(change: &Change, objs: u64, bytes: u64) {
    match change.own_heap() {
        Some(heap) => {
            let add = |to: &AtomicU64, n: u64| to.store(to.load(Relaxed).wrapping_add(n), Relaxed);
            add(&heap.large_objs, objs);
            add(&heap.large_bytes, bytes);
        }
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
    if !at.is_null() {
        let change = Change::new();
        count(&change, 1, layout.size() as u64);
        ext::large_allocated(at, layout.size() - debug::LARGE_EXTRA_BYTES);
    }
    at
}

/// # Safety
///
/// As of `GlobalAlloc::dealloc`.
#[inline(never)]
pub(crate) unsafe fn dealloc(at: *mut u8, layout: Layout) {
    {
        let change = Change::new();
        ext::large_remove(at);
        count(&change, u64::MAX, (layout.size() as u64).wrapping_neg());
    }
    // Outside of any change: there is no object any more.
    // SAFETY: as the caller's.
    unsafe { inner::dealloc(at, layout) };
}

/// # Safety
///
/// As of `GlobalAlloc::realloc`; old and new size are those of large objects.
#[inline(never)]
pub(crate) unsafe fn realloc(at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
    let change = Change::new();
    let owner = ext::large_remove(at);
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
