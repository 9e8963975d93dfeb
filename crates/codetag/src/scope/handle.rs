//! A current tag to take along: to another thread, into a pool, into a task.

use super::{TagGuard, current_tag};
use crate::tag::CodeTag;

/// A tag that work elsewhere can be charged to. Made by [`current`]; 8 B, copied freely.
///
/// # Examples
///
/// Work is charged to whoever asked for it, wherever it runs:
///
/// ```
/// #[codetag::alloc_tag]
/// fn load() -> Vec<String> {
///     let handle = codetag::current();
///     let elsewhere = std::thread::spawn(handle.wrap(|| vec![String::from("a")]));
///     elsewhere.join().expect("no panic")
/// }
/// # load();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TagHandle {
    tag: &'static CodeTag,
}

/// The tag of the innermost scope of this thread, to take along. A load.
///
/// Where no scope is active it stands for none: work that takes it along is untagged, whatever scope
/// it meets.
#[must_use]
#[inline]
pub fn current() -> TagHandle {
    TagHandle { tag: current_tag() }
}

impl TagHandle {
    /// The tag; that of untagged objects, whose [`file`](CodeTag::file) is `<untagged>`, if no scope was
    /// active.
    #[must_use]
    pub fn tag(self) -> &'static CodeTag {
        self.tag
    }

    /// Runs `f` in the tag's scope, on this thread, and leaves it, also by a panic. Swaps a word, twice.
    ///
    /// # Examples
    ///
    /// For closures that take arguments, as rayon's iterators and scopes do:
    ///
    /// ```
    /// # #[codetag::alloc_tag]
    /// # fn demo() {
    /// let handle = codetag::current();
    /// let lengths: Vec<usize> = ["a", "bb"].iter().map(|word| handle.scope(|| word.len())).collect();
    /// assert_eq!(lengths, [1, 2]);
    /// # }
    /// # demo();
    /// ```
    #[inline]
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        let _scope = TagGuard::enter(self.tag);
        f()
    }

    /// A closure that runs `f` in the tag's scope, on whatever thread it is called. One word more than
    /// `f`.
    ///
    /// For whatever takes a closure: `std::thread::spawn` and the `spawn` of `std::thread::scope`,
    /// `rayon::spawn` and `join`, tokio's `spawn_blocking`. For futures there is
    /// [`in_tag`](super::FutureExt::in_tag). What `f` captures is dropped in the scope too, once it was
    /// called; if it never is, in that of whoever drops it, which matters to no figure: a free counts
    /// for the owner.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[codetag::alloc_tag]
    /// # fn demo() {
    /// let handle = codetag::current();
    /// let words = ["a", "b"];
    /// let copies = std::thread::scope(|s| {
    ///     let threads = words.map(|word| s.spawn(handle.wrap(move || word.to_owned())));
    ///     threads.map(|t| t.join().expect("no panic"))
    /// });
    /// assert_eq!(copies, words);
    /// # }
    /// # demo();
    /// ```
    #[inline]
    pub fn wrap<R, F: FnOnce() -> R>(self, f: F) -> impl FnOnce() -> R + use<R, F> {
        move || self.scope(f)
    }
}
