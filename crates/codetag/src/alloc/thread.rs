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

use super::change::Change;
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

/// The heap of the running thread, if it has one and no other thread forks.
#[inline(always)]
pub(crate) fn ready_heap() -> Option<&'static Heap> {
    let heap = sys::hot_heap();
    (heap != (&raw const NO_HEAP).addr())
        // SAFETY: the word is the address of a heap, and heaps are never unmapped.
        .then(|| unsafe { &*ptr::with_exposed_provenance::<Heap>(heap) })
}

/// The heap of the running thread, made on its first call; none while the thread must use the
/// shared heap.
#[inline]
pub(crate) fn own_heap() -> Option<&'static Heap> {
    ready_heap().or_else(own_heap_unready)
}

#[cold]
#[inline(never)]
fn own_heap_unready() -> Option<&'static Heap> {
    match sys::hot_phase() {
        LIVE => {
            // Another thread forks, and gives the word back.
            fork::wait();
            own_heap_as_it_is()
        }
        FRESH => enter(),
        _ => None,
    }
}

/// Whether the thread's heap is being made.
pub(crate) fn is_entering() -> bool {
    sys::hot_phase() == ENTERING
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
