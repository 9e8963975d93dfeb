//! A future that runs in its own scope.
//!
//! # Safety model
//!
//! The wrapped future is structurally pinned: it is never moved out of [`TagFuture`], no `&mut` to it
//! is given out except pinned, and it is dropped in place as a field. `TagFuture` is `Unpin` only if
//! the future is, is not packed, and its `Drop` does not touch the future.
//!
//! [`Leave`] is written by `TagFuture::drop`, which runs before any field is dropped; nothing else
//! drops a `Leave`, and a value with `Drop` cannot be taken apart.

use super::TagGuard;
use crate::tag::CodeTag;
use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::task::{Context, Poll};

/// A type that stands for one tag, so that a future need not carry the address.
#[doc(hidden)]
pub trait Place {
    /// The tag.
    fn tag() -> &'static CodeTag;
}

/// A future whose polls and drop are charged to the tag of `P`. It is one word larger than the future
/// in it (8 B; 16 B if that is aligned to 16).
// The compiler computes the layout of nested futures by recursion and gives up at the recursion limit of
// the user's crate: 32 plain futures deep at the default of 128, 25 with this type. The future in a
// `ManuallyDrop` would save the word, and give up at 18.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct TagFuture<F, P: Place> {
    /// Dropped before `leave`.
    future: F,
    leave: Leave,
    // The place is never stored: neither Send nor drop may depend on it.
    place: PhantomData<fn() -> P>,
}

/// The scope that is left when the future was dropped. Written only then.
// Packed, so that a future of small alignment grows by no more than the word.
#[repr(C, packed)]
struct Leave(MaybeUninit<TagGuard>);

// SAFETY: the guard in it is made and dropped by one `drop` of the future, on one thread.
unsafe impl Send for Leave {}
// SAFETY: nothing reads it through a shared reference.
unsafe impl Sync for Leave {}

impl<F, P: Place> TagFuture<F, P> {
    /// Wraps `future`.
    #[inline(always)]
    pub fn new(_place: P, future: F) -> Self {
        Self {
            future,
            leave: Leave(MaybeUninit::uninit()),
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
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        future.poll(cx)
    }
}

impl<F, P: Place> Drop for TagFuture<F, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.leave.0 = MaybeUninit::new(TagGuard::enter(P::tag()));
    }
}

impl Drop for Leave {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: written by `TagFuture::drop`, a moment ago on this thread, and not read again.
        drop(unsafe { (&raw const self.0).read_unaligned().assume_init() });
    }
}

impl<F, P: Place> fmt::Debug for TagFuture<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagFuture")
            .field("tag", P::tag())
            .finish_non_exhaustive()
    }
}
