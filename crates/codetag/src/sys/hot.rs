//! The words of a thread that its every allocation or free reads.
//!
//! # Safety model
//!
//! No unsafe code.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU64, AtomicUsize};

/// The hot words. Written by their thread; two of them also by a thread that forks.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct HotWords {
    /// See [`super::hot_heap`].
    pub heap: AtomicUsize,
    /// See [`super::is_hot_number`].
    pub number: AtomicU64,
    /// See [`super::hot_tag_word`].
    pub tag_word: AtomicUsize,
    /// See [`super::hot_phase`].
    pub phase: AtomicUsize,
}

impl HotWords {
    /// Makes the thread one without heap, but for its phase.
    pub(crate) fn redirect(&self) {
        self.restore((&raw const crate::alloc::NO_HEAP).expose_provenance(), 0);
    }

    /// Gives the thread a heap.
    pub(crate) fn restore(&self, heap: usize, number: u64) {
        self.number.store(number, Relaxed);
        self.heap.store(heap, Relaxed);
    }
}
