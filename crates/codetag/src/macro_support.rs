//! What the expansions of the macros name. **Not part of the public interface**: it changes without
//! notice and without a change of version.

pub use crate::scope::{Place, TagFuture, TagGuard};
#[cfg(not(codetag_off))]
pub use crate::tag::CODETAG_TAGS;
pub use crate::tag::CodeTag;
pub use core::convert::Infallible;
pub use core::future::Future;
pub use core::{column, concat, file, line, module_path, option::Option};
#[cfg(not(codetag_off))]
pub use linkme;

pub use crate::{__codetag_hooks as hooks, __codetag_place as place, __codetag_tag as tag};
pub use codetag_macros::no_await;

/// The tag of the innermost scope of this thread, for tests of what runs in which scope.
#[must_use]
pub fn current_tag() -> &'static CodeTag {
    crate::scope::current_tag()
}

/// The function of the current tag.
#[must_use]
pub fn current_function() -> &'static str {
    crate::scope::current_tag().function()
}

/// Live bytes and objects of a tag as counters say, which are kept under `--cfg codetag_counters` alone, once
/// profiling was on. For the bench that sets them beside the scan.
#[must_use]
pub fn counted(tag: &CodeTag) -> Option<(u64, u64)> {
    crate::alloc::counted(tag.id_word())
}

/// Bytes of those counters: 16 per tag that has an id and CPU.
#[must_use]
pub fn counter_bytes() -> Option<u64> {
    crate::alloc::counter_bytes()
}

/// The tag of a place.
#[inline(always)]
pub fn tag_of<P: Place>(_place: &P) -> &'static CodeTag {
    P::tag()
}

/// Leaves the scope of `_guard` with a value made in it.
#[inline(always)]
pub fn leave<T>(_guard: TagGuard, value: T) -> T {
    value
}

/// An expression of type `&'static CodeTag`: makes the static and lists it.
///
/// Only used with the tags compiled in: the attribute that is exported otherwise expands to its item.
#[doc(hidden)]
#[macro_export]
macro_rules! __codetag_tag {
    ($function:literal, $file:expr, $line:expr, $column:expr, $name:literal) => {{
        #[$crate::__private::linkme::distributed_slice($crate::__private::CODETAG_TAGS)]
        #[linkme(crate = $crate::__private::linkme)]
        static TAG: $crate::__private::CodeTag = $crate::__private::CodeTag::__new(
            $crate::__private::concat!(
                $crate::__private::module_path!(),
                "\0",
                $function,
                "\0",
                $file,
                "\0",
                $name
            ),
            $line,
            $column,
        );
        &TAG
    }};
}

/// An expression whose type stands for a tag of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! __codetag_place {
    ($($tag:tt)*) => {{
        struct Place;
        impl $crate::__private::Place for Place {
            #[inline(always)]
            fn tag() -> &'static $crate::__private::CodeTag {
                $crate::__private::tag!($($tag)*)
            }
        }
        Place
    }};
}

/// Charges what one expression allocates to a code tag of its own.
///
/// `alloc_hooks!(expr)` or `alloc_hooks!("name", expr)`. The value is that of the expression, and
/// `?`, `return` and `break` in it do what they do without the macro; each leaves the scope.
/// Temporaries live to the end of the statement around it, as in a call of a function. The tag's
/// [`function`](crate::CodeTag::function) is `alloc_hooks`: a macro is not told what it stands in.
///
/// # Errors
///
/// An `.await` in the expression is a compile error: other tasks run on the thread while it waits. Tag
/// the future instead, with [`alloc_tag`](crate::alloc_tag) on its `async fn`. Awaits that other macros
/// hide (`join!`, `select!`) are not seen; a future that holds one is not `Send`.
///
/// # Examples
///
/// ```
/// fn parse(text: &str) -> Result<Vec<u32>, std::num::ParseIntError> {
///     let mut numbers = codetag::alloc_hooks!("numbers", Vec::with_capacity(text.len() / 2));
///     for word in text.split(' ') {
///         numbers.push(codetag::alloc_hooks!(word.parse()?));
///     }
///     Ok(numbers)
/// }
/// assert_eq!(parse("1 2 3"), Ok(vec![1, 2, 3]));
/// assert!(parse("1 x").is_err());
/// ```
#[macro_export]
macro_rules! alloc_hooks {
    ($name:literal, $expr:expr $(,)?) => {
        $crate::__private::hooks!($name, $crate::__private::no_await!($expr))
    };
    ($expr:expr $(,)?) => {
        $crate::__private::hooks!("", $crate::__private::no_await!($expr))
    };
}

#[cfg(not(codetag_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __codetag_hooks {
    ($name:literal, $expr:expr) => {
        $crate::__private::leave(
            $crate::__private::TagGuard::enter($crate::__private::tag!(
                "alloc_hooks",
                $crate::__private::file!(),
                $crate::__private::line!(),
                $crate::__private::column!(),
                $name
            )),
            $expr,
        )
    };
}

#[cfg(codetag_off)]
#[doc(hidden)]
#[macro_export]
macro_rules! __codetag_hooks {
    ($name:literal, $expr:expr) => {
        $expr
    };
}
