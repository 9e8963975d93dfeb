//! The switch: whether the sites of allocation and of free do tag work.
//!
//! A hot site asks [`alloc_site`] or [`free_site`], which cost what the form of the switch costs:
//! patched text (`patched.rs`, Linux on x86-64) or a flag (`flag.rs`, elsewhere and under
//! `--cfg codetag_flag_switch`). A rare site asks [`alloc_on`] or [`free_on`], a flag in both forms,
//! so that there are few places to patch. A thread sees a flip of either kind at the latest when it
//! has passed the barrier that follows.
//!
//! # Safety model
//!
//! No unsafe code; the order of the flips is the protocol's.

#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(codetag_portable),
    not(codetag_flag_switch)
))]
#[path = "patched.rs"]
pub(in crate::alloc) mod form;
#[cfg(not(all(
    target_os = "linux",
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(codetag_portable),
    not(codetag_flag_switch)
)))]
#[path = "flag.rs"]
mod form;

pub(crate) use form::{Error, alloc_site, free_site};

use crate::alloc::change;
use crate::protocol::Sites;
use crate::sys;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

static ALLOC_SITES: AtomicBool = AtomicBool::new(false);
static FREE_SITES: AtomicBool = AtomicBool::new(false);

/// Whether allocations store a ref; for rare sites.
#[inline(always)]
pub(crate) fn alloc_on() -> bool {
    ALLOC_SITES.load(Acquire)
}

/// Whether frees and reallocs look at refs; for rare sites.
#[inline(always)]
pub(crate) fn free_on() -> bool {
    FREE_SITES.load(Acquire)
}

/// What a site belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Kind {
    Alloc = 0,
    Free = 1,
}

/// All sites.
pub(crate) struct Switch {
    /// Clears every ref.
    pub clear: fn(),
    /// The self-test.
    pub works: fn() -> bool,
}

fn flip(kind: Kind, flag: &AtomicBool, on: bool) -> Result<(), Error> {
    form::flip(kind, on)?;
    flag.store(on, Release);
    Ok(())
}

impl Sites for Switch {
    type Error = Error;

    fn set_alloc(&self, on: bool) -> Result<(), Error> {
        flip(Kind::Alloc, &ALLOC_SITES, on)?;
        change::set_tagging(on);
        Ok(())
    }

    fn set_free(&self, on: bool) -> Result<(), Error> {
        flip(Kind::Free, &FREE_SITES, on)
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
