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

pub use crate::{__codetag_place as place, __codetag_tag as tag};

/// The function of the current tag, for tests of what runs in which scope.
#[must_use]
pub fn current_function() -> &'static str {
    crate::scope::current_tag().function()
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
