//! Which code owns the heap right now: exact live bytes per code site, cheap enough to leave in.
//!
//! # What it counts
//!
//! Every object that the program's global allocator hands out while profiling is on is charged to
//! the *current tag* of the thread that allocates it: that of the innermost running function with
//! [`#[alloc_tag]`](alloc_tag). What was allocated while no such function ran is *untagged*; what is
//! older than the last [`enable`] is *untracked*: its number and slot bytes are known. Figures are
//! exact whenever nothing moves, and nothing is sampled. Memory that does not go through the global
//! allocator (C libraries, mappings, stacks) is not seen.
//!
//! # Setup
//!
//! ```
//! #[global_allocator]
//! static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();
//!
//! #[codetag::alloc_tag]
//! fn load(words: usize) -> Vec<String> {
//!     (0..words).map(|n| n.to_string()).collect()
//! }
//!
//! fn main() -> Result<(), codetag::EnableError> {
//!     # if codetag::state().kind == codetag::StateKind::TagsOff { return Ok(()) }
//!     codetag::enable()?; // or CODETAG=1 in the environment
//!     let words = load(1000);
//!
//!     let snapshot = codetag::Snapshot::take();
//!     let load = snapshot.usages().find(|u| u.tag.function() == "load").unwrap();
//!     assert_eq!(load.live_objs, 1001);
//!
//!     eprint!("{}", codetag::show_mem());
//!     drop(words);
//!     Ok(())
//! }
//! ```
//!
//! # Reading the result
//!
//! [`Snapshot`] has the figures; [`show_mem()`] is a page that adds up; [`allocinfo()`] lists every
//! tag in the form of Linux's `/proc/allocinfo`. *Requested* bytes are what the program asked for,
//! *slot* bytes what the objects really take.
//!
//! # Costs
//!
//! Three configurations: *tags off* (compiled out, by `CODETAG_BUILD=off` at build time or
//! `default-features = false`: a tagged function is then the same machine code as without the
//! attribute), *default-off* (compiled in, not enabled) and *enabled*. The README has the figures.
//! The functions of this crate are present in each, so that users need no `cfg`.

#![deny(unsafe_code)]
#![cfg_attr(
    codetag_off,
    allow(
        dead_code,
        unused_imports,
        reason = "a twin has what only the other side uses"
    )
)]

#[doc(hidden)]
#[path = "macro_support.rs"]
pub mod __private;
mod alloc;
mod control;
#[doc(hidden)]
pub mod protocol;
mod report;
mod scope;
#[allow(unsafe_code, reason = "the operating system is called here")]
mod sys;
mod tag;

pub use alloc::{TagAlloc, shrink};
#[cfg(not(codetag_off))]
pub use codetag_macros::alloc_tag;
#[cfg(codetag_off)]
pub use codetag_macros::alloc_tag_off as alloc_tag;
pub use control::{
    Action, EnableError, State, StateKind, UnknownWord, disable, enable, is_enabled, on_signal,
    on_signal_polled, poll, state,
};
pub use report::{
    AllocInfo, ClassUsage, HeapTotals, ShowMem, Snapshot, TagUsage, Untracked, Usage, allocinfo,
    show_mem,
};
pub use tag::{CodeTag, tags};

/// The README's code, compiled and run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[derive(Debug)]
pub struct Readme;
