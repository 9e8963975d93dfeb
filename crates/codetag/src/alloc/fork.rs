//! Fork: the child has one thread, and must find every heap whole.
//!
//! The kernel copies the pages of the parent one after the other while its other threads run, so what
//! one of them is doing at that moment reaches the child in pieces. Therefore, before the fork:
//!
//! 1. Changes of the switch and `shrink` are locked out.
//! 2. The gate closes: no thread begins a [`Change`](super::change::Change) any more, and those under
//!    way are waited for, unless they are inside the inner allocator, where nothing of ours is half done.
//! 3. The hot words of the other threads are set to those of a thread without heap. Each finishes at most
//!    the one operation that it is in the middle of, without a slow path; the next one meets the gate.
//! 4. What that one operation may still change is noted: of each slab the free lists and `used`, of each
//!    bin the slot behind its head.
//!
//! The child goes back to what was noted and hands the heaps of the threads that are gone to the shared
//! one. The first slot of each of their bins may have been given to the program after the fork began; it
//! is set aside for good, at most one per class and thread, and counted as free. The parent restores the
//! hot words and opens the gate.
//!
//! The forking thread passes the gate: handlers of others may allocate. They must not fork, nor change
//! the switch, nor shrink. A child made by `vfork` runs no handlers, shares the memory with its parent,
//! which waits, and needs none of this.
//!
//! # Safety model
//!
//! Between the closing and the opening of the gate no thread but the forking one changes anything
//! beyond the one operation of step 3. A thread's hot words are mapped while its heap names them: the
//! thread takes them back in a change, before its thread-locals go.

use super::change::{self, CAUTION, Change, FENCES, FORKING};
use super::chunk;
use super::ext;
use super::heap::{Heap, SHARED};
use super::slab::Slab;
use super::thread;
use crate::protocol::{Atomics, SpinLock, Std};
use crate::{sys, tag};
use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};

/// The address of the hot words of the forking thread.
static FORKER: AtomicUsize = AtomicUsize::new(0);

/// Threads that hold a lock without being in a change: readers.
static READERS: AtomicU32 = AtomicU32::new(0);

/// Held by a thread that gives memory back with [`super::shrink`].
pub(crate) static SHRINKING: SpinLock = SpinLock::new();

/// Arranges for the handlers to run, once. After the inner allocator's first service, so that it has
/// registered its own by now: those that are registered later prepare first.
pub(crate) fn register() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Relaxed) || DONE.swap(true, Relaxed) {
        return;
    }
    if !sys::barrier_all_threads() {
        CAUTION.fetch_or(FENCES, SeqCst);
    }
    sys::at_fork(prepare, in_parent, in_child);
}

/// Whether the running thread may go on, after it made its coming known.
#[inline(always)]
pub(crate) fn may_pass() -> bool {
    change::caution() & (FORKING | FENCES) == 0 || may_pass_after_all()
}

#[cold]
#[inline(never)]
fn may_pass_after_all() -> bool {
    fence(SeqCst);
    !is_closed() || is_forker()
}

/// Whether a fork is under way.
fn is_closed() -> bool {
    CAUTION.load(Acquire) & FORKING != 0
}

fn is_forker() -> bool {
    FORKER.load(Relaxed) == ptr::from_ref(sys::hot_words()).addr()
}

/// Waits until the gate is open.
#[cold]
#[inline(never)]
pub(crate) fn wait() {
    let mut turns = 0;
    while is_closed() && !is_forker() {
        turns += 1;
        Std::relax(turns);
    }
}

/// Notes a slab again that the forking thread has just changed.
#[inline]
pub(crate) fn note(slab: &Slab) {
    // Another thread may come here late from an operation that it was in the middle of, and no longer
    // touches the slab, which may be gone.
    if CAUTION.load(Relaxed) & FORKING != 0 && is_forker() {
        slab.note_for_fork();
    }
}

/// Runs `f`, which takes locks and changes nothing that a report would see, at a time when no fork is
/// under way.
pub(crate) fn as_reader<R>(f: impl FnOnce() -> R) -> R {
    struct Leaves;
    impl Drop for Leaves {
        fn drop(&mut self) {
            READERS.fetch_sub(1, Release);
        }
    }
    loop {
        READERS.fetch_add(1, SeqCst);
        let leaves = Leaves;
        if may_pass() {
            let r = f();
            drop(leaves);
            return r;
        }
        drop(leaves);
        wait();
    }
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let mut turns = 0;
    while !done() {
        turns += 1;
        Std::relax(turns);
    }
}

/// Before the fork.
extern "C" fn prepare() {
    mem::forget(ext::CHANGE.lock());
    mem::forget(SHRINKING.lock());
    FORKER.store(ptr::from_ref(sys::hot_words()).addr(), Relaxed);
    CAUTION.fetch_or(FORKING, SeqCst);
    sys::barrier_all_threads();
    fence(SeqCst);
    wait_until(|| READERS.load(Acquire) == 0);
    for heap in thread::heaps() {
        wait_until(|| heap.changes.are_outside());
    }
    for heap in others() {
        if let Some(hot) = heap.hot() {
            hot.redirect();
        }
    }
    fence(SeqCst);
    // Heaps first: what a thread is in the middle of moves from its bins to its slabs, and back.
    for heap in others() {
        heap.note_for_fork();
    }
    chunk::for_each_alone(|c| {
        for slab in c.slabs().filter(|s| s.is_cut()) {
            slab.note_for_fork();
        }
    });
}

/// The heaps of threads other than the running one.
fn others() -> impl Iterator<Item = &'static Heap> {
    let own = thread::own_heap_as_it_is();
    thread::heaps()
        .filter(move |h| !ptr::eq(*h, &raw const SHARED) && !own.is_some_and(|o| ptr::eq(o, *h)))
}

fn open() {
    CAUTION.fetch_and(!FORKING, AcqRel);
    FORKER.store(0, Relaxed);
    SHRINKING.release();
    ext::CHANGE.release();
}

/// After the fork, in the parent; also when it failed.
extern "C" fn in_parent() {
    for heap in others() {
        if let Some(hot) = heap.hot() {
            hot.restore(ptr::from_ref(heap).expose_provenance(), heap.number());
        }
    }
    open();
}

/// After the fork, in the child.
extern "C" fn in_child() {
    READERS.store(0, Relaxed);
    for heap in thread::heaps() {
        heap.changes.forget();
    }
    tag::complete_ids();
    chunk::unpin_all();
    open();
    let _change = Change::new();
    chunk::for_each(|c| {
        for slab in c.slabs().filter(|s| s.is_cut()) {
            let owner = slab.owner_heap();
            if others().any(|h| ptr::eq(h, owner)) {
                owner.hand_over_after_fork(slab);
            } else {
                owner.settle_after_fork(slab);
            }
        }
    });
    for heap in others() {
        heap.drop_after_fork();
    }
    thread::idle_all(others());
}
