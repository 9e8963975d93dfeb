//! Any platform, by what `std` offers.
//!
//! # Safety model
//!
//! As in the parent module. The hot words are a const-initialised thread-local without destructor.

use super::HotWords;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU64, AtomicUsize};
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

/// Whether [`map_aligned`] does anything here.
pub(crate) const MAPS_ALIGNED: bool = false;

/// Never called.
pub(crate) fn map_aligned(_layout: Layout) -> *mut u8 {
    core::ptr::null_mut()
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

/// Does nothing here.
///
/// # Safety
///
/// None; the signature is that of the other platforms.
pub(crate) unsafe fn want_huge_pages(_at: *mut u8, _bytes: usize, _wanted: bool) {}

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

thread_local! {
    static HOT: HotWords = const {
        HotWords {
            heap: AtomicUsize::new(0),
            number: AtomicU64::new(0),
            tag_word: AtomicUsize::new(0),
            phase: AtomicUsize::new(0),
        }
    };
}

/// Two copies of the code in front of it may become one.
#[inline(always)]
pub(crate) fn keep_apart() {}

/// The address of this thread's heap; of the heap that is always empty while it has none.
#[inline(always)]
pub(crate) fn hot_heap() -> usize {
    let heap = HOT.with(|h| h.heap.load(Relaxed));
    if heap == 0 {
        (&raw const crate::alloc::NO_HEAP).addr()
    } else {
        heap
    }
}

/// Whether a number is that of this thread's heap.
#[inline(always)]
pub(crate) fn is_hot_number(number: u64) -> bool {
    number == HOT.with(|h| h.number.load(Relaxed))
}

/// The address of this thread's current tag word.
#[inline(always)]
pub(crate) fn hot_tag_word() -> usize {
    let word = HOT.with(|h| h.tag_word.load(Relaxed));
    if word == 0 {
        (&raw const crate::alloc::UNTAGGED_WORD).addr()
    } else {
        word
    }
}

/// What this thread's life has come to; the meaning is `thread`'s.
#[inline(always)]
pub(crate) fn hot_phase() -> usize {
    HOT.with(|h| h.phase.load(Relaxed))
}

/// The hot words of this thread. They live as long as the thread.
pub(crate) fn hot_words() -> &'static HotWords {
    // SAFETY: without a destructor they are there as long as the thread; whoever keeps the reference
    // beyond that says why it is not used then.
    HOT.with(|h| unsafe { &*ptr::from_ref(h) })
}

/// Sets all four hot words of this thread.
pub(crate) fn set_hot(heap: usize, number: u64, tag_word: usize, phase: usize) {
    HOT.with(|h| {
        h.restore(heap, number);
        h.tag_word.store(tag_word, Relaxed);
        h.phase.store(phase, Relaxed);
    });
}
