//! Any platform, by what `std` offers.
//!
//! # Safety model
//!
//! As in the parent module. The hot words are a const-initialised thread-local without destructor.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};
use std::time::Instant;

fn pages(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, super::PAGE_BYTES).unwrap_or(Layout::new::<u64>())
}

/// Maps `bytes` of zeroed memory, page-aligned; null if the system has none.
pub(crate) fn map_zeroed(bytes: usize) -> *mut u8 {
    // SAFETY: no caller asks for zero bytes.
    unsafe { System.alloc_zeroed(pages(bytes)) }
}

/// Gives back what [`map_zeroed`] returned.
///
/// # Safety
///
/// `at` and `bytes` are a mapping of [`map_zeroed`] that nobody uses any more.
pub(crate) unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: as the caller's; the layout is the one of the mapping.
    unsafe { System.dealloc(at, pages(bytes)) };
}

/// Says that pages cannot be given back one by one here.
///
/// # Safety
///
/// None; the signature is that of the other platforms.
pub(crate) unsafe fn release_pages(_at: *mut u8, _bytes: usize) -> bool {
    false
}

/// Says that there is no barrier over all threads here.
pub(crate) fn barrier_all_threads() -> bool {
    false
}

/// Monotonic time in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Lets another thread run.
pub(crate) fn yield_now() {
    std::thread::yield_now();
}

struct Hot {
    heap: Cell<usize>,
    number: Cell<u64>,
    tag_word: Cell<usize>,
    phase: Cell<usize>,
}

thread_local! {
    static HOT: Hot = const {
        Hot { heap: Cell::new(0), number: Cell::new(0), tag_word: Cell::new(0), phase: Cell::new(0) }
    };
}

/// The address of this thread's heap; of the heap that is always empty while it has none.
#[inline(always)]
pub(crate) fn hot_heap() -> usize {
    let heap = HOT.with(|h| h.heap.get());
    if heap == 0 {
        (&raw const crate::alloc::NO_HEAP).addr()
    } else {
        heap
    }
}

/// The number of this thread's heap; 0 while it has none.
#[inline(always)]
pub(crate) fn hot_number() -> u64 {
    HOT.with(|h| h.number.get())
}

/// The address of this thread's current tag word.
#[inline(always)]
pub(crate) fn hot_tag_word() -> usize {
    let word = HOT.with(|h| h.tag_word.get());
    if word == 0 {
        (&raw const crate::alloc::UNTAGGED_WORD).addr()
    } else {
        word
    }
}

/// What this thread's life has come to; the meaning is `thread`'s.
#[inline(always)]
pub(crate) fn hot_phase() -> usize {
    HOT.with(|h| h.phase.get())
}

/// Sets all four hot words of this thread.
pub(crate) fn set_hot(heap: usize, number: u64, tag_word: usize, phase: usize) {
    HOT.with(|h| {
        h.heap.set(heap);
        h.number.set(number);
        h.tag_word.set(tag_word);
        h.phase.set(phase);
    });
}
