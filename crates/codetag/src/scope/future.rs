//! A future that runs in its own scope.
//!
//! # Safety model
//!
//! The wrapped future is structurally pinned: it is never moved out of [`TagFuture`], no `&mut` to it
//! is given out except pinned, and `Drop` drops it in place. `TagFuture` is `Unpin` only if the future
//! is, and is not packed.

use super::TagGuard;
use crate::tag::CodeTag;
use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};
use core::pin::Pin;
use core::task::{Context, Poll};

/// A type that stands for one tag, so that a future need not carry the address.
#[doc(hidden)]
pub trait Place {
    /// The tag.
    fn tag() -> &'static CodeTag;
}

/// A future whose polls and drop are charged to the tag of `P`. It is as large as the future in it.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct TagFuture<F, P: Place> {
    future: ManuallyDrop<F>,
    // The place is never stored: neither Send nor drop may depend on it.
    place: PhantomData<fn() -> P>,
}

impl<F, P: Place> TagFuture<F, P> {
    /// Wraps `future`.
    #[inline(always)]
    pub fn new(_place: P, future: F) -> Self {
        Self {
            future: ManuallyDrop::new(future),
            place: PhantomData,
        }
    }
}

impl<F: Future, P: Place> Future for TagFuture<F, P> {
    type Output = F::Output;

    // Always inlined: a chain of tagged futures then needs no more stack than the plain one.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _scope = TagGuard::enter(P::tag());
        // SAFETY: the future is structurally pinned (see the safety model).
        let future = unsafe { self.map_unchecked_mut(|this| &mut *this.future) };
        future.poll(cx)
    }
}

impl<F, P: Place> Drop for TagFuture<F, P> {
    #[inline(always)]
    fn drop(&mut self) {
        if mem::needs_drop::<F>() {
            let _scope = TagGuard::enter(P::tag());
            // SAFETY: dropped here, in place and only here; nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.future) };
        }
    }
}

impl<F, P: Place> fmt::Debug for TagFuture<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagFuture").field("tag", P::tag()).finish_non_exhaustive()
    }
}
