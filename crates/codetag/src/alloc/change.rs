//! Changes beyond the fast paths: what a report must not see half of, and what a fork waits for.
//!
//! In the middle of a [`Change`] the words that a report reads need not fit each other, however long the
//! thread is stopped there; so each heap has a word that says how many of its threads' changes are under way,
//! and that is another whenever one has ended. While another thread forks none begins (see `fork`).
//!
//! A thread with a heap of its own is the only one that writes the heap's word, so that beginning and ending are
//! an addition without a lock prefix each; to the word of the shared heap every other thread adds.

use super::fork;
use super::heap::{Heap, SHARED};
use super::thread;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64, compiler_fence};

/// One change under way. In the lowest 20 bits: so many threads may share a heap.
const BEGUN: u64 = 1;
/// One of those under way that is inside the inner allocator. In the next 20 bits.
const OUTSIDE: u64 = 1 << 20;
/// One that ended. In the upper 24 bits, which wrap.
const ENDED: u64 = 1 << 40;
const COUNT: u64 = OUTSIDE - 1;

/// Why a change must look closer than usual: one word for all reasons, nearly always 0.
pub(super) static CAUTION: AtomicU32 = AtomicU32::new(0);
/// A fork is under way: the gate is closed.
pub(super) const FORKING: u32 = 1;
/// There is no barrier over all threads, so that each has to fence by itself.
pub(super) const FENCES: u32 = 2;
/// Allocations store refs. Here too, so that while they do not no slow path has to ask.
pub(super) const TAGGING: u32 = 4;

/// The reasons, to who made its coming known.
#[inline(always)]
pub(super) fn caution() -> u32 {
    // With the barrier over all threads: either it sees this thread's word, or this sees a closed gate.
    compiler_fence(SeqCst);
    CAUTION.load(Relaxed)
}

/// Allocations store refs from now on, or no more.
pub(super) fn set_tagging(on: bool) {
    if on {
        CAUTION.fetch_or(TAGGING, AcqRel);
    } else {
        CAUTION.fetch_and(!TAGGING, AcqRel);
    }
}

/// The changes of a heap's threads.
#[derive(Debug)]
pub(crate) struct Changes(AtomicU64);

impl Changes {
    /// None yet, as zeroed memory says too.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A word that differs whenever a change has ended; none while one is under way.
    pub(crate) fn fingerprint(&self) -> Option<u64> {
        let word = self.0.load(Acquire);
        (word & COUNT == 0).then_some(word)
    }

    /// Whether no change is under way, except inside the inner allocator.
    pub(crate) fn are_outside(&self) -> bool {
        all_outside(self.0.load(Acquire))
    }

    /// Adds; for the thread that has the heap. Returns the word before.
    #[inline(always)]
    fn add_own(&self, n: u64) -> u64 {
        let before = self.0.load(Relaxed);
        self.0.store(before.wrapping_add(n), Release);
        before
    }

    /// In a forked child: the threads whose changes were under way are gone, but for the running one, which
    /// is in none.
    pub(crate) fn forget(&self) {
        let word = self.0.load(Relaxed);
        self.0
            .store((word & !(ENDED - 1)).wrapping_add(ENDED), Relaxed);
    }
}

fn all_outside(word: u64) -> bool {
    word & COUNT == (word / OUTSIDE) & COUNT
}

/// A change of the running thread, from `new` to drop.
#[must_use]
pub(crate) struct Change {
    heap: &'static Heap,
}

impl Change {
    /// Begins a change of the running thread.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let Some(heap) = thread::ready_heap() else {
            return Self::new_without_heap();
        };
        let before = heap.changes.add_own(BEGUN);
        if fork::may_pass() {
            return Self { heap };
        }
        Self::new_at_the_gate(heap, before)
    }

    /// A fork is under way. One inside another must not wait for it, since it waits for the outer one.
    #[cold]
    #[inline(never)]
    fn new_at_the_gate(heap: &'static Heap, before: u64) -> Self {
        let change = Self { heap };
        if !all_outside(before) {
            return change;
        }
        drop(change);
        fork::wait();
        Self::begin(heap, true)
    }

    #[cold]
    #[inline(never)]
    fn new_without_heap() -> Self {
        match thread::own_heap() {
            Some(heap) => {
                let waits = all_outside(heap.changes.0.load(Relaxed));
                Self::begin(heap, waits)
            }
            None => Self::begin(&SHARED, !thread::is_entering()),
        }
    }

    /// Begins a change of the heap's. `waits` unless it is inside another.
    pub(super) fn begin(heap: &'static Heap, waits: bool) -> Self {
        loop {
            add(heap, BEGUN);
            let change = Self { heap };
            if fork::may_pass() || !waits {
                return change;
            }
            drop(change);
            fork::wait();
        }
    }

    /// The running thread's heap; none if it must use the shared one.
    #[inline(always)]
    pub(crate) fn own_heap(&self) -> Option<&'static Heap> {
        (!self.heap.is_shared()).then_some(self.heap)
    }

    /// Calls the inner allocator from inside the change. Nothing of ours is half done meanwhile, so a fork need
    /// not wait for it.
    pub(crate) fn outside<R>(&self, f: impl FnOnce() -> R) -> R {
        outside_of(self.heap, f)
    }
}

impl Drop for Change {
    #[inline(always)]
    fn drop(&mut self) {
        add(self.heap, ENDED - BEGUN);
    }
}

/// The usual case of a [`Change`]: the thread has a heap, and no fork is under way. Beginning one calls nothing, so
/// that a path with a jump for all other cases saves no registers.
#[must_use]
pub(crate) struct OwnChange {
    heap: &'static Heap,
}

/// What came of beginning an [`OwnChange`].
pub(crate) enum Begun {
    /// As usual.
    Plain(OwnChange),
    /// As usual, and allocations store refs.
    Tagging(OwnChange),
    /// It is another case: a [`Change`] must do.
    Not,
}

impl OwnChange {
    #[inline(always)]
    pub(crate) fn begin() -> Begun {
        let Some(heap) = thread::ready_heap() else {
            return Begun::Not;
        };
        heap.changes.add_own(BEGUN);
        let change = Self { heap };
        match caution() {
            0 => Begun::Plain(change),
            TAGGING => Begun::Tagging(change),
            // It has begun and ends, and has changed nothing.
            _ => Begun::Not,
        }
    }

    /// The running thread's heap.
    #[inline(always)]
    pub(crate) fn heap(&self) -> &'static Heap {
        self.heap
    }
}

impl Drop for OwnChange {
    #[inline(always)]
    fn drop(&mut self) {
        self.heap.changes.add_own(ENDED - BEGUN);
    }
}

/// As [`Change::outside`], for who is in a change of the running thread's but does not have it at hand.
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    outside_of(thread::own_heap_as_it_is().unwrap_or(&SHARED), f)
}

fn outside_of<R>(heap: &Heap, f: impl FnOnce() -> R) -> R {
    add(heap, OUTSIDE);
    let r = f();
    loop {
        add(heap, OUTSIDE.wrapping_neg());
        if fork::may_pass() {
            return r;
        }
        add(heap, OUTSIDE);
        fork::wait();
    }
}

/// Adds to the word of the running thread's heap.
#[inline(always)]
fn add(heap: &Heap, n: u64) {
    if heap.is_shared() {
        heap.changes.0.fetch_add(n, Release);
    } else {
        heap.changes.add_own(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_sees_a_change_under_way_and_one_that_has_ended() {
        let changes = Changes::new();
        let before = changes.fingerprint();
        assert!(before.is_some());
        changes.add_own(BEGUN);
        changes.add_own(BEGUN);
        assert_eq!(changes.fingerprint(), None);
        changes.add_own(ENDED - BEGUN);
        assert_eq!(changes.fingerprint(), None);
        changes.add_own(ENDED - BEGUN);
        assert!(changes.fingerprint().is_some_and(|now| Some(now) != before));
    }

    #[test]
    fn a_fork_waits_for_changes_that_are_not_inside_the_inner_allocator() {
        let changes = Changes::new();
        assert!(changes.are_outside());
        changes.add_own(BEGUN);
        assert!(!changes.are_outside());
        changes.add_own(OUTSIDE);
        assert!(changes.are_outside());
        // The inner allocator allocates from the heap itself.
        changes.add_own(BEGUN);
        assert!(!changes.are_outside());
        changes.add_own(ENDED - BEGUN);
        assert!(changes.are_outside());
        let before = changes.0.load(Relaxed);
        changes.forget();
        assert!(changes.are_outside() && changes.fingerprint().is_some());
        assert_ne!(changes.0.load(Relaxed), before);
    }

    #[test]
    fn the_count_of_those_that_ended_wraps_and_leaves_the_others() {
        let changes = Changes(AtomicU64::new(ENDED.wrapping_neg()));
        changes.add_own(BEGUN);
        changes.add_own(ENDED - BEGUN);
        assert_eq!(changes.fingerprint(), Some(0));
    }
}
