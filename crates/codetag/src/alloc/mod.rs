//! The allocator: slabs over chunks from an inner allocator, a heap per thread, a tag ref per
//! object.
//!
//! Data flows down this list: [`path`] has the four calls; [`large`] what is too large for a slab;
//! [`thread`] finds the thread's [`heap`]; heaps own slabs ([`slab`], [`class`]) cut from chunks
//! ([`chunk`]) from the instance's inner allocator ([`inner`]). [`ext`] is what tags add, [`debug`] what
//! the feature of that name does. [`scan`] is what reports read.
//!
//! # Safety model
//!
//! The unsafe calls here pass on the contract of [`GlobalAlloc`] to [`path`], or to the instance's
//! own `A`. A block goes back where it came from because an instance's role never changes once it
//! has served a call.

#![allow(
    unsafe_code,
    reason = "raw memory is what this room is about; each file states its safety model"
)]

mod change;
mod chunk;
mod class;
mod debug;
mod ext;
mod fork;
mod heap;
mod inner;
#[cfg_attr(
    feature = "debug",
    allow(dead_code, reason = "`debug` stands between it and the callers")
)]
mod large;
#[cfg_attr(
    feature = "debug",
    allow(dead_code, reason = "`debug` stands between it and the callers")
)]
mod path;
pub(crate) mod scan;
mod slab;
mod thread;

pub(crate) use ext::{counted, counter_bytes, disable, enable, kind, start_error};
pub(crate) use heap::NO_HEAP;

use crate::control;
use crate::tag::{CodeTag, UNTAGGED};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::fmt;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::alloc::System;

/// What the hot word of a thread without a heap points to: a current tag that is nobody's.
#[repr(transparent)]
pub(crate) struct UntaggedWord(Cell<&'static CodeTag>);

// SAFETY: nobody ever writes the cell: scopes write the thread's own word.
unsafe impl Sync for UntaggedWord {}

/// See [`UntaggedWord`].
pub(crate) static UNTAGGED_WORD: UntaggedWord = UntaggedWord(Cell::new(&UNTAGGED));

const UNDECIDED: u8 = 0;
const OWNER: u8 = 1;
const BYSTANDER: u8 = 2;

/// An allocator that knows which code owns each object: slabs over any inner allocator `A`.
///
/// Small objects, up to 16 KiB, come from slabs of 64 KiB that are cut from aligned chunks of 2 MiB
/// taken from `A`; larger ones go straight to `A`. A thread allocates from slabs of its own.
///
/// The first instance that serves an allocation owns the heap of the process. Any other passes each
/// call to its own `A` and is not counted.
///
/// An instance must be a `static`, which is what `#[global_allocator]` needs anyway: the heap keeps
/// the address of the inner allocator for as long as the process runs.
///
/// # Examples
///
/// ```
/// #[global_allocator]
/// static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();
///
/// # if codetag::state().kind == codetag::StateKind::TagsOff { return }
/// codetag::enable().expect("profiling can be turned on");
/// let _held = vec![0_u8; 1000];
/// assert!(codetag::Snapshot::take().untagged().live_bytes >= 1000);
/// ```
pub struct TagAlloc<A = System> {
    role: AtomicU8,
    inner: A,
}

impl TagAlloc<System> {
    /// Over the system's allocator.
    #[must_use]
    pub const fn system() -> Self {
        Self::new(System)
    }
}

impl<A> TagAlloc<A> {
    /// Over `inner`.
    pub const fn new(inner: A) -> Self {
        Self {
            role: AtomicU8::new(UNDECIDED),
            inner,
        }
    }
}

impl<A: fmt::Debug> fmt::Debug for TagAlloc<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role.load(Relaxed) {
            OWNER => "owns the heap",
            BYSTANDER => "passes calls on",
            _ => "not used yet",
        };
        f.debug_struct("TagAlloc")
            .field("role", &role)
            .field("inner", &self.inner)
            .finish()
    }
}

impl<A: GlobalAlloc + 'static> TagAlloc<A> {
    #[inline(always)]
    fn owns_heap(&self) -> bool {
        // With the claim's stores: who sees the role sees the inner allocator and the state.
        self.role.load(Acquire) == OWNER
    }

    /// Decides the role at the first call of an instance; returns whether it owns the heap.
    #[cold]
    fn decide(&self) -> bool {
        if self.role.load(Relaxed) == UNDECIDED {
            let owns = inner::claim(
                core::ptr::from_ref(self).cast(),
                &self.inner,
                control::start,
            );
            self.role
                .store(if owns { OWNER } else { BYSTANDER }, Release);
        }
        self.owns_heap()
    }

    /// The first call of an instance, and every call of one that passes calls on. Apart from the
    /// usual case so that it is a jump there, not a call around which registers are saved.
    ///
    /// # Safety
    ///
    /// As of [`GlobalAlloc::alloc`] and [`GlobalAlloc::alloc_zeroed`].
    #[cold]
    #[inline(never)]
    unsafe fn alloc_undecided(&self, layout: Layout, zeroed: bool) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe {
            match (self.decide(), zeroed) {
                (true, false) => debug::alloc(layout),
                (true, true) => debug::alloc_zeroed(layout),
                (false, false) => self.inner.alloc(layout),
                (false, true) => self.inner.alloc_zeroed(layout),
            }
        }
    }

    /// As [`alloc_undecided`](Self::alloc_undecided).
    ///
    /// # Safety
    ///
    /// As of [`GlobalAlloc::dealloc`].
    #[cold]
    #[inline(never)]
    unsafe fn dealloc_undecided(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe {
            if self.decide() {
                debug::dealloc(at, layout);
            } else {
                self.inner.dealloc(at, layout);
            }
        }
    }

    /// As [`alloc_undecided`](Self::alloc_undecided).
    ///
    /// # Safety
    ///
    /// As of [`GlobalAlloc::realloc`].
    #[cold]
    #[inline(never)]
    unsafe fn realloc_undecided(&self, at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe {
            if self.decide() {
                debug::realloc(at, layout, new_bytes)
            } else {
                self.inner.realloc(at, layout, new_bytes)
            }
        }
    }
}

// SAFETY: blocks come from slabs and from `A`, and go back where their layout says they came from
// (see `path`); a bystander's calls all go to its own `A`.
unsafe impl<A: GlobalAlloc + 'static> GlobalAlloc for TagAlloc<A> {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe {
            if self.owns_heap() {
                debug::alloc(layout)
            } else {
                self.alloc_undecided(layout, false)
            }
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe {
            if self.owns_heap() {
                debug::dealloc(at, layout);
            } else {
                self.dealloc_undecided(at, layout);
            }
        }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe {
            if self.owns_heap() {
                debug::alloc_zeroed(layout)
            } else {
                self.alloc_undecided(layout, true)
            }
        }
    }

    #[inline(never)]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe {
            if self.owns_heap() {
                debug::realloc(at, layout, new_bytes)
            } else {
                self.realloc_undecided(at, layout, new_bytes)
            }
        }
    }
}

/// Before the first allocation is served.
pub(crate) fn start(never: bool, on: bool) {
    ext::start(never, on);
}

/// Whether a `TagAlloc` owns the heap.
pub(crate) fn is_installed() -> bool {
    inner::is_ready()
}

/// Gives empty memory back to the inner allocator and to the system; returns the bytes handed back.
///
/// Whole empty chunks go to the inner allocator, the pages of empty slabs to the system, where it
/// takes pages (Linux). The calling thread gives up its caches; another keeps its current slab of
/// each size class that it used. Threads may allocate meanwhile. Costs a walk over all chunks.
pub fn shrink() -> usize {
    let _one_at_a_time = fork::SHRINKING.lock();
    let own = thread::own_heap();
    let _change = change::Change::new();
    if let Some(own) = own {
        own.shrink_bins();
    }
    {
        let _owner = heap::SHARED_OWNER.lock();
        heap::SHARED.shrink_bins();
    }
    for heap in thread::heaps() {
        heap.shrink_lists();
    }
    chunk::shrink()
}
