//! The current tag of a thread, and the scopes that set it.
//!
//! Knows nothing of allocation. A scope is entered by swapping one thread-local word and left by
//! swapping it back, whether profiling is on or off. It is left on return, on `?` and on panic by the
//! guard's drop; a future enters it for each poll and for its own drop, so it is never held across an
//! await.

use crate::tag::{CodeTag, UNTAGGED};
use core::cell::Cell;
use core::marker::PhantomData;

#[allow(
    unsafe_code,
    reason = "a pinned field, and a word written before it is read"
)]
mod future;
#[cfg(not(codetag_off))]
mod handle;
#[cfg(codetag_off)]
#[path = "scope/handle_off.rs"]
mod handle;
#[cfg(not(codetag_off))]
#[allow(unsafe_code, reason = "a pinned field")]
mod in_tag;
#[cfg(codetag_off)]
#[path = "scope/in_tag_off.rs"]
#[allow(unsafe_code, reason = "a pinned field")]
mod in_tag;

pub use future::{Place, TagFuture};
pub use handle::{TagHandle, current};
pub use in_tag::{FutureExt, InTag};

thread_local! {
    /// Who is allocating now. Const-initialised and without drop: usable for as long as the thread runs.
    static CURRENT: Cell<&'static CodeTag> = const { Cell::new(&UNTAGGED) };
}

/// Runs `f` on this thread's current tag word. Never `None`: the word has no drop after which it were gone.
// `LocalKey::try_with` is inlined wherever it is used. `with`, `get`, `set` and `replace` are not: without LTO
// the codegen unit that has them is called from all others, 12 B more in each tagged function.
#[inline(always)]
fn with_current<R>(f: impl FnOnce(&Cell<&'static CodeTag>) -> R) -> Option<R> {
    CURRENT.try_with(f).ok()
}

/// The address of this thread's current tag word; valid for as long as the thread runs.
#[inline]
#[cfg_attr(codetag_off, allow(dead_code, reason = "who reads it is compiled out"))]
pub(crate) fn current_word() -> *const Cell<&'static CodeTag> {
    CURRENT.with(core::ptr::from_ref)
}

/// The tag of the innermost scope of this thread.
#[inline]
pub(crate) fn current_tag() -> &'static CodeTag {
    with_current(Cell::get).unwrap_or(&UNTAGGED)
}

/// Makes `tag` the current tag of this thread; returns the one before.
#[inline(always)]
#[cfg_attr(codetag_off, allow(dead_code, reason = "who calls it is compiled out"))]
pub(crate) fn swap_current(tag: &'static CodeTag) -> &'static CodeTag {
    with_current(|word| word.replace(tag)).unwrap_or(tag)
}

/// Makes `tag` the current tag of this thread.
#[inline(always)]
#[cfg_attr(codetag_off, allow(dead_code, reason = "who calls it is compiled out"))]
pub(crate) fn set_current(tag: &'static CodeTag) {
    let _here = with_current(|word| word.set(tag));
}

/// An entered scope; dropping it makes the tag current again that was current before.
///
/// It is neither `Send` nor `Sync`: the word it restores is its thread's.
#[derive(Debug)]
#[must_use = "the scope is left at once when the guard is dropped"]
pub struct TagGuard {
    outer: &'static CodeTag,
    _this_thread: PhantomData<*const ()>,
}

impl TagGuard {
    /// Makes `tag` the current tag of this thread.
    // Inlined it is a load, an address and a store, and one store to leave; as a call it would cost a
    // tagged function more text than its own code.
    #[inline(always)]
    pub fn enter(tag: &'static CodeTag) -> Self {
        Self {
            outer: swap_current(tag),
            _this_thread: PhantomData,
        }
    }
}

impl Drop for TagGuard {
    #[inline(always)]
    fn drop(&mut self) {
        set_current(self.outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;
    use std::panic;

    static OUTER: CodeTag = CodeTag::__new("m\0outer\0x.rs\0", 1, 1);
    static INNER: CodeTag = CodeTag::__new("m\0inner\0x.rs\0", 2, 1);

    #[test]
    fn guards_nest_and_restore() {
        assert!(ptr::eq(current_tag(), &raw const UNTAGGED));
        {
            let _outer = TagGuard::enter(&OUTER);
            assert!(ptr::eq(current_tag(), &raw const OUTER));
            let caught = panic::catch_unwind(|| {
                let _inner = TagGuard::enter(&INNER);
                assert!(ptr::eq(current_tag(), &raw const INNER));
                panic::resume_unwind(Box::new(()));
            });
            assert!(caught.is_err());
            assert!(ptr::eq(current_tag(), &raw const OUTER));
        }
        assert!(ptr::eq(current_tag(), &raw const UNTAGGED));
    }

    #[test]
    fn each_thread_starts_untagged() {
        let _outer = TagGuard::enter(&OUTER);
        let other = std::thread::spawn(|| current_tag().function());
        assert_eq!(other.join().unwrap(), "untagged");
    }
}
