//! The current tag of a thread, and the scopes that set it.
//!
//! Knows nothing of allocation.

use crate::tag::{CodeTag, UNTAGGED};
use core::cell::Cell;

thread_local! {
    /// Who is allocating now. Const-initialised and without drop: usable for as long as the thread runs.
    static CURRENT: Cell<&'static CodeTag> = const { Cell::new(&UNTAGGED) };
}

/// The address of this thread's current tag word; valid for as long as the thread runs.
pub(crate) fn current_word() -> *const Cell<&'static CodeTag> {
    CURRENT.with(core::ptr::from_ref)
}
