//! The inner allocator of the instance that owns the heap, with its type erased.
//!
//! # Safety model
//!
//! `ready` is set once, after the two words, by the instance that won the claim; nobody reads the
//! words before. The instance is a `static` (the contract of `TagAlloc`), so the words stay true.

use crate::protocol::{Atomics, Std};
use crate::sys;
use core::alloc::{GlobalAlloc, Layout};
use core::any::TypeId;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr};
use std::alloc::System;

type AllocFn = unsafe fn(*const (), Layout) -> *mut u8;

/// The four calls of an allocator.
struct Calls {
    alloc: AllocFn,
    alloc_zeroed: AllocFn,
    dealloc: unsafe fn(*const (), *mut u8, Layout),
    realloc: unsafe fn(*const (), *mut u8, Layout, usize) -> *mut u8,
}

struct Erased<A>(core::marker::PhantomData<A>);

impl<A: GlobalAlloc> Erased<A> {
    const CALLS: Calls = Calls {
        alloc: |this, layout| {
            // SAFETY: `this` is the address of an `A` that lives; the rest is the caller's.
            unsafe { (*this.cast::<A>()).alloc(layout) }
        },
        alloc_zeroed: |this, layout| {
            // SAFETY: as above.
            unsafe { (*this.cast::<A>()).alloc_zeroed(layout) }
        },
        dealloc: |this, at, layout| {
            // SAFETY: as above.
            unsafe { (*this.cast::<A>()).dealloc(at, layout) }
        },
        realloc: |this, at, layout, n| {
            // SAFETY: as above.
            unsafe { (*this.cast::<A>()).realloc(at, layout, n) }
        },
    };
}

/// The instance that owns the heap.
static CLAIMED: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// Its inner allocator.
static THIS: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static CALLS: AtomicPtr<Calls> = AtomicPtr::new(ptr::null_mut());
static READY: AtomicBool = AtomicBool::new(false);
/// Whether the inner allocator is `System`.
static IS_SYSTEM: AtomicBool = AtomicBool::new(false);

/// Makes `inner` the allocator under the heap if none is; runs `first` if so, before anyone is
/// served. `instance` tells instances apart: inner allocators without size may share an address.
/// Returns whether `inner` is the one under the heap.
pub(crate) fn claim<A: GlobalAlloc + 'static>(instance: *const (), inner: &A, first: fn()) -> bool {
    let instance = instance.cast_mut();
    match CLAIMED.compare_exchange(ptr::null_mut(), instance, AcqRel, Acquire) {
        Ok(_) => {
            THIS.store(ptr::from_ref(inner).cast_mut().cast(), Relaxed);
            IS_SYSTEM.store(TypeId::of::<A>() == TypeId::of::<System>(), Relaxed);
            CALLS.store(ptr::from_ref(&Erased::<A>::CALLS).cast_mut(), Release);
            first();
            READY.store(true, Release);
            true
        }
        Err(owner) if owner == instance => {
            let mut turns = 0;
            while !is_ready() {
                turns += 1;
                Std::relax(turns);
            }
            true
        }
        Err(_) => false,
    }
}

/// Whether an instance owns the heap and may be served.
pub(crate) fn is_ready() -> bool {
    READY.load(Acquire)
}

fn calls() -> Option<(&'static Calls, *const ())> {
    // SAFETY: null, or a promoted constant.
    let calls = unsafe { CALLS.load(Acquire).as_ref() }?;
    Some((calls, THIS.load(Relaxed)))
}

/// `A::alloc` or `A::alloc_zeroed`; null also when no instance owns the heap.
///
/// # Safety
///
/// As of [`GlobalAlloc::alloc`].
pub(crate) unsafe fn alloc(layout: Layout, zeroed: bool) -> *mut u8 {
    match calls() {
        // SAFETY: as the caller's.
        Some((c, this)) => unsafe { (if zeroed { c.alloc_zeroed } else { c.alloc })(this, layout) },
        None => ptr::null_mut(),
    }
}

/// A block for a chunk. Where the inner allocator is the system's, from the system itself: glibc raises the
/// size from which it maps blocks by that of the largest it was given back, and chunks that it then cuts
/// from its own heap leave holes of their alignment there.
///
/// # Safety
///
/// As of [`GlobalAlloc::alloc`].
pub(crate) unsafe fn alloc_chunk(layout: Layout, in_huge_pages: bool) -> *mut u8 {
    if sys::MAPS_ALIGNED && IS_SYSTEM.load(Relaxed) {
        let at = sys::map_aligned(layout);
        if in_huge_pages && !at.is_null() {
            // SAFETY: mapped just now.
            unsafe { sys::want_huge_pages(at, layout.size(), true) };
        }
        return at;
    }
    // SAFETY: as the caller's.
    unsafe { alloc(layout, false) }
}

/// Asks for no huge pages in a chunk any more.
///
/// # Safety
///
/// The range is page-aligned and mapped.
pub(crate) unsafe fn forgo_huge_pages(at: *mut u8, bytes: usize) {
    if sys::MAPS_ALIGNED && IS_SYSTEM.load(Relaxed) {
        // SAFETY: as the caller's.
        unsafe { sys::want_huge_pages(at, bytes, false) };
    }
}

/// Gives back what [`alloc_chunk`] returned.
///
/// # Safety
///
/// As of [`GlobalAlloc::dealloc`].
pub(crate) unsafe fn dealloc_chunk(at: *mut u8, layout: Layout) {
    if sys::MAPS_ALIGNED && IS_SYSTEM.load(Relaxed) {
        // SAFETY: mapped with this size; the rest is the caller's.
        return unsafe { sys::unmap(at, layout.size()) };
    }
    // SAFETY: as the caller's.
    unsafe { dealloc(at, layout) };
}

/// `A::dealloc`.
///
/// # Safety
///
/// As of [`GlobalAlloc::dealloc`].
pub(crate) unsafe fn dealloc(at: *mut u8, layout: Layout) {
    if let Some((c, this)) = calls() {
        // SAFETY: as the caller's.
        unsafe { (c.dealloc)(this, at, layout) };
    }
}

/// `A::realloc`.
///
/// # Safety
///
/// As of [`GlobalAlloc::realloc`].
pub(crate) unsafe fn realloc(at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
    match calls() {
        // SAFETY: as the caller's.
        Some((c, this)) => unsafe { (c.realloc)(this, at, layout, new_bytes) },
        None => ptr::null_mut(),
    }
}
