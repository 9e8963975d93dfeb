//! The twin for builds without tags: nothing to take along.

use crate::tag::{CodeTag, UNTAGGED};

/// A tag that work elsewhere can be charged to; with the tags compiled out, none, and of no size.
#[derive(Clone, Copy, Debug)]
pub struct TagHandle(());

/// The tag of the innermost scope of this thread: none, the tags are compiled out.
#[must_use]
#[inline]
pub fn current() -> TagHandle {
    TagHandle(())
}

impl TagHandle {
    /// The tag of untagged objects.
    #[must_use]
    pub fn tag(self) -> &'static CodeTag {
        &UNTAGGED
    }

    /// Runs `f`.
    #[inline]
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }

    /// `f`.
    #[inline]
    pub fn wrap<R, F: FnOnce() -> R>(self, f: F) -> impl FnOnce() -> R + use<R, F> {
        f
    }
}
