//! Wrong use of the heap, met as SLUB's debug mode meets it: red zones, poison, and who owned it.
//!
//! With the feature `debug` each of the four calls goes through `on`, which gives an object a record of
//! its own and looks at it before it believes a pointer; what it finds wrong is one page on stderr, and
//! `abort`. Without the feature `off` stands here: the four calls are those of `path` themselves, and the
//! hooks are empty.
//!
//! `blocks` knows every chunk and every large object, so that nothing is read through a pointer
//! that nobody knows; `slot` is what a slot holds beside its object; `page` is what is printed.
//!
//! A slot that was freed is handed out again at once, so a second free that comes after that is the free
//! of another's object, and is not seen.

#[cfg(feature = "debug")]
mod blocks;
#[cfg(feature = "debug")]
mod on;
#[cfg(feature = "debug")]
mod page;
#[cfg(feature = "debug")]
mod slot;
#[cfg(feature = "debug")]
pub(crate) use on::*;

#[cfg(not(feature = "debug"))]
mod off;
#[cfg(not(feature = "debug"))]
pub(crate) use off::*;
