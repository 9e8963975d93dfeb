//! A future that runs in the scope of a handle.
//!
//! # Safety model
//!
//! The wrapped future is structurally pinned: it is never moved out of [`InTag`], no `&mut` to it is
//! given out except pinned, and it is dropped in place as a field. `InTag` is `Unpin` only if the future
//! is, is not packed, and its `Drop` does not touch the future.

use super::handle::TagHandle;
use super::{TagGuard, set_current, swap_current};
use crate::tag::CodeTag;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// What [`FutureExt::in_tag`] returns. It is one word larger than the future in it (8 B; 16 B if that is
/// aligned to 16).
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct InTag<F> {
    /// Dropped before `scope`.
    future: F,
    scope: Scope,
}

/// The tag; while the future is dropped, the one to make current again.
struct Scope(&'static CodeTag);

/// Futures that take a tag along.
pub trait FutureExt: Future + Sized {
    /// Runs each poll of the future, and its drop, in the scope of `handle`, on whatever thread that
    /// happens.
    ///
    /// # Examples
    ///
    /// ```
    /// use codetag::FutureExt;
    ///
    /// #[codetag::alloc_tag]
    /// fn request() -> impl Future<Output = String> {
    ///     // Charged to `request`, though it runs after `request` has returned.
    ///     async { String::from("answer") }.in_tag(codetag::current())
    /// }
    /// # drop(request());
    /// ```
    fn in_tag(self, handle: TagHandle) -> InTag<Self> {
        InTag {
            future: self,
            scope: Scope(handle.tag()),
        }
    }
}

impl<F: Future> FutureExt for F {}

impl<F: Future> Future for InTag<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _scope = TagGuard::enter(self.scope.0);
        // SAFETY: the future is structurally pinned (see the safety model).
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        future.poll(cx)
    }
}

impl<F> Drop for InTag<F> {
    #[inline]
    fn drop(&mut self) {
        self.scope.0 = swap_current(self.scope.0);
    }
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        // Nothing else drops a `Scope`: a value with `Drop` cannot be taken apart.
        set_current(self.0);
    }
}

impl<F> fmt::Debug for InTag<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTag")
            .field("tag", self.scope.0)
            .finish_non_exhaustive()
    }
}
