//! The heap, watched: what a wrong call does beside ending the process is seen.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

/// The exit status of a program that allocated while its page was made.
pub(crate) const ALLOCATED: i32 = 98;

/// The exit status of a program whose wrong call returned.
pub(crate) const RETURNED: i32 = 99;

const IDLE: u32 = 0;
const ARMED: u32 = 1;
const INSIDE: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(IDLE);

/// Passes calls on; of the one after [`arm`] it wants no return and no other call.
pub(crate) struct Armed<A>(pub(crate) A);

/// The next call of the allocator is the wrong one.
pub(crate) fn arm() {
    STATE.store(ARMED, SeqCst);
}

fn end(status: i32) -> ! {
    // SAFETY: no preconditions; nothing of the process is needed any more.
    unsafe { libc::_exit(status) }
}

fn watched<R>(call: impl FnOnce() -> R) -> R {
    match STATE.load(SeqCst) {
        IDLE => return call(),
        ARMED => STATE.store(INSIDE, SeqCst),
        _ => end(ALLOCATED),
    }
    call();
    end(RETURNED)
}

// SAFETY: passes each call on, or ends the process.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Armed<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        watched(|| unsafe { self.0.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        watched(|| unsafe { self.0.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        watched(|| unsafe { self.0.dealloc(at, layout) });
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as the caller's.
        watched(|| unsafe { self.0.realloc(at, layout, new_size) })
    }
}
