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
//! # Threads, tasks and spans
//!
//! Work that was wrapped (by [`TagHandle::scope`], [`TagHandle::wrap`] or [`FutureExt::in_tag`], with the
//! handle of [`current`]) is charged to the tag that it was wrapped with, on whatever thread it runs and
//! whatever scope that thread is in. Work that nobody wrapped is charged to the innermost scope of the thread
//! that runs it: a new thread begins without one, a closure in a pool is charged to the scope that the pool's
//! thread is in, a job that a waiting thread steals to the scope that waits. A scope is left as it was
//! entered, also by a panic. A future has its tag for each poll and for its drop. The guard behind a scope
//! cannot leave its thread.
//!
//! With the feature `tracing` spans are scopes too (`TagLayer`), and reports can be events (`report::emit`).
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
pub mod report;
mod scope;
#[cfg(feature = "tracing")]
mod span;
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
#[doc(inline)]
pub use report::{
    AllocInfo, ClassUsage, HeapTotals, ShowMem, Snapshot, TagUsage, Untracked, Usage, allocinfo,
    show_mem,
};
pub use scope::{FutureExt, InTag, TagHandle, current};
#[cfg(feature = "tracing")]
pub use span::TagLayer;
pub use tag::{CodeTag, tags};

/// The README's code, compiled and run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[derive(Debug)]
pub struct Readme;
