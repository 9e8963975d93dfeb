//! The twin for builds without tags: the future, unchanged.
//!
//! # Safety model
//!
//! The wrapped future is structurally pinned: `InTag` is nothing else.

use super::handle::TagHandle;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// What [`FutureExt::in_tag`] returns: with the tags compiled out, the future.
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[repr(transparent)]
pub struct InTag<F> {
    future: F,
}

/// Futures that take a tag along.
pub trait FutureExt: Future + Sized {
    /// The future, unchanged: the tags are compiled out.
    fn in_tag(self, _handle: TagHandle) -> InTag<Self> {
        InTag { future: self }
    }
}

impl<F: Future> FutureExt for F {}

impl<F: Future> Future for InTag<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is structurally pinned (see the safety model).
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(cx)
    }
}

impl<F> fmt::Debug for InTag<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTag").finish_non_exhaustive()
    }
}
