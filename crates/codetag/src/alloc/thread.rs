//! Which heap a thread has, from its first slow path to the end of its thread-locals.
//!
//! ```text
//! Fresh ──first slow path──▶ Entering ──▶ Live ──token dropped──▶ Gone
//!                            (shared)     (own)                   (shared)
//! ```
//!
//! # Safety model
//!
//! The hot words are the running thread's own. A heap is in the hot words of at most one thread:
//! it comes from the idle list, under its lock, or fresh from the system, and goes back to the
//! list after the thread's hot words have let go of it.

use super::fork;
use super::heap::{Heap, NO_HEAP, SHARED};
use crate::protocol::SpinLock;
use crate::{scope, sys};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

const FRESH: usize = 0;
const ENTERING: usize = 1;
const LIVE: usize = 2;
const GONE: usize = 3;

/// Numbers 0 and 1 are nobody's and the shared heap's.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(2);

/// Every heap ever mapped.
static HEAPS: AtomicPtr<Heap> = AtomicPtr::new(ptr::null_mut());

/// Heaps that no thread has, under `IDLE_LOCK`.
static IDLE: AtomicPtr<Heap> = AtomicPtr::new(ptr::null_mut());
static IDLE_LOCK: SpinLock = SpinLock::new();

const MAP_BYTES: usize = size_of::<Heap>().next_multiple_of(sys::PAGE_BYTES);

/// Hands the thread's heap over when the thread ends.
struct Token;

impl Drop for Token {
    fn drop(&mut self) {
        leave();
    }
}

thread_local! {
    static TOKEN: Token = const { Token };
}

/// The heap of the running thread, made on its first call; none while the thread must use the
/// shared heap.
pub(crate) fn own_heap() -> Option<&'static Heap> {
    match sys::hot_phase() {
        LIVE => {
            if sys::hot_heap() == (&raw const NO_HEAP).addr() {
                // Another thread forks, and gives the word back.
                fork::wait();
            }
            own_heap_as_it_is()
        }
        FRESH => enter(),
        _ => None,
    }
}

/// The heap of the running thread, if it has one. Makes none and waits for nobody.
pub(crate) fn own_heap_as_it_is() -> Option<&'static Heap> {
    (sys::hot_phase() == LIVE)
        // SAFETY: while Live the word is the address of a heap, and heaps are never unmapped.
        .then(|| unsafe { &*ptr::with_exposed_provenance::<Heap>(sys::hot_heap()) })
}

#[cold]
fn enter() -> Option<&'static Heap> {
    let _change = Change::begin(&SHARED, true);
    let word = scope::current_word().addr();
    let no_heap = (&raw const NO_HEAP).expose_provenance();
    sys::set_hot(no_heap, 0, word, ENTERING);
    // Registering the destructor may allocate: that is served by the shared heap.
    let registered = TOKEN.try_with(|_| ()).is_ok();
    let heap = if registered {
        idle_heap().or_else(new_heap)
    } else {
        None
    };
    let Some(heap) = heap else {
        sys::set_hot(no_heap, 0, word, GONE);
        return None;
    };
    let number = NEXT_NUMBER.fetch_add(1, Relaxed);
    heap.begin(number, word, sys::hot_words());
    sys::set_hot(ptr::from_ref(heap).expose_provenance(), number, word, LIVE);
    Some(heap)
}

fn idle_heap() -> Option<&'static Heap> {
    let _guard = IDLE_LOCK.lock();
    // SAFETY: heaps are never unmapped.
    let heap = unsafe { IDLE.load(Relaxed).as_ref() }?;
    IDLE.store(heap.next_idle.load(Relaxed), Relaxed);
    Some(heap)
}

fn new_heap() -> Option<&'static Heap> {
    let at = sys::map_zeroed(MAP_BYTES).cast::<Heap>();
    // SAFETY: null, or zeroed memory of its own, which is an empty heap.
    let heap = unsafe { at.as_ref() }?;
    let mut first = HEAPS.load(Relaxed);
    loop {
        heap.next.store(first, Relaxed);
        match HEAPS.compare_exchange_weak(first, at, Release, Relaxed) {
            Ok(_) => return Some(heap),
            Err(now) => first = now,
        }
    }
}

fn leave() {
    let _change = Change::begin(&SHARED, true);
    let heap = own_heap_as_it_is();
    sys::set_hot(
        (&raw const NO_HEAP).expose_provenance(),
        0,
        scope::current_word().addr(),
        GONE,
    );
    if let Some(heap) = heap {
        heap.hand_over();
        let _guard = IDLE_LOCK.lock();
        heap.next_idle.store(IDLE.load(Relaxed), Relaxed);
        IDLE.store(ptr::from_ref(heap).cast_mut(), Relaxed);
    }
}

/// Every heap, the shared one first.
pub(crate) fn heaps() -> impl Iterator<Item = &'static Heap> {
    // SAFETY: heaps are never unmapped, and the links never change.
    let mut at = unsafe { HEAPS.load(Acquire).as_ref() };
    core::iter::once(&SHARED).chain(core::iter::from_fn(move || {
        let heap = at?;
        // SAFETY: as above.
        at = unsafe { heap.next.load(Acquire).as_ref() };
        Some(heap)
    }))
}

/// Bytes mapped for heaps.
pub(crate) fn heap_bytes() -> u64 {
    (heaps().count() as u64 - 1) * MAP_BYTES as u64 + size_of::<Heap>() as u64 * 2
}

/// Makes `heaps` the heaps that no thread has.
pub(crate) fn idle_all(heaps: impl Iterator<Item = &'static Heap>) {
    let _guard = IDLE_LOCK.lock();
    IDLE.store(ptr::null_mut(), Relaxed);
    for heap in heaps {
        heap.next_idle.store(IDLE.load(Relaxed), Relaxed);
        IDLE.store(ptr::from_ref(heap).cast_mut(), Relaxed);
    }
}

/// A change beyond the fast paths, from `new` to drop. In the middle of one the words that a report
/// reads need not fit each other, however long the thread is stopped there. While another thread
/// forks, none begins.
#[must_use]
pub(crate) struct Change {
    heap: &'static Heap,
}

impl Change {
    /// Begins a change of the running thread.
    pub(crate) fn new() -> Self {
        match own_heap() {
            // One inside another must not wait for a fork, which waits for the outer one.
            Some(heap) => Self::begin(heap, heap.begun.load(Relaxed) == heap.ended.load(Relaxed)),
            None => Self::begin(&SHARED, sys::hot_phase() != ENTERING),
        }
    }

    fn begin(heap: &'static Heap, is_outermost: bool) -> Self {
        loop {
            add(heap, &heap.begun, 1);
            let change = Self { heap };
            if fork::may_pass() || !is_outermost {
                return change;
            }
            drop(change);
            fork::wait();
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        add(self.heap, &self.heap.ended, 1);
    }
}

/// Calls the inner allocator from inside a change. Nothing of ours is half done meanwhile, so a fork
/// need not wait for it.
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    let heap = own_heap_as_it_is().unwrap_or(&SHARED);
    add(heap, &heap.outside, 1);
    let r = f();
    loop {
        add(heap, &heap.outside, u64::MAX);
        if fork::may_pass() {
            return r;
        }
        add(heap, &heap.outside, 1);
        fork::wait();
    }
}

/// Adds to a count of the running thread's.
fn add(heap: &Heap, count: &AtomicU64, n: u64) {
    if ptr::eq(heap, &raw const SHARED) {
        count.fetch_add(n, Release);
    } else {
        // The heap's own thread is the only one that counts here.
        count.store(count.load(Relaxed).wrapping_add(n), Release);
    }
}
