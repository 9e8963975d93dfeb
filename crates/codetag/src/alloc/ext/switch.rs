//! The switch: whether the sites of allocation and of free do tag work. Flag form: one relaxed load
//! and a branch a site.
//!
//! # Safety model
//!
//! No unsafe code; the order of the flips is the protocol's.

use crate::protocol::Sites;
use crate::sys;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

static ALLOC_SITES: AtomicBool = AtomicBool::new(false);
static FREE_SITES: AtomicBool = AtomicBool::new(false);

/// Whether allocations store a ref.
#[inline(always)]
pub(crate) fn alloc_on() -> bool {
    ALLOC_SITES.load(Relaxed)
}

/// Whether frees and reallocs look at refs.
#[inline(always)]
pub(crate) fn free_on() -> bool {
    FREE_SITES.load(Relaxed)
}

/// The sites in their flag form.
pub(crate) struct Flags {
    /// Clears every ref.
    pub clear: fn(),
    /// The self-test.
    pub works: fn() -> bool,
}

impl Sites for Flags {
    type Error = core::convert::Infallible;

    fn set_alloc(&self, on: bool) -> Result<(), Self::Error> {
        ALLOC_SITES.store(on, Relaxed);
        Ok(())
    }

    fn set_free(&self, on: bool) -> Result<(), Self::Error> {
        FREE_SITES.store(on, Relaxed);
        Ok(())
    }

    fn barrier(&self) -> bool {
        sys::barrier_all_threads()
    }

    fn clear(&self) {
        (self.clear)();
    }

    fn works(&self) -> bool {
        (self.works)()
    }
}
