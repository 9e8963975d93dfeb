//! Which code owns the heap right now.

#![deny(unsafe_code)]

mod tag;
mod scope;
#[doc(hidden)]
#[path = "macro_support.rs"]
pub mod __private;
#[doc(hidden)]
pub mod protocol;
mod alloc;
mod control;
mod report;
#[allow(unsafe_code)]
mod sys;

pub use alloc::{TagAlloc, shrink};
#[cfg(not(codetag_off))]
pub use codetag_macros::alloc_tag;
#[cfg(codetag_off)]
pub use codetag_macros::alloc_tag_off as alloc_tag;
pub use control::{EnableError, State, StateKind, disable, enable, is_enabled, state};
pub use report::{AllocInfo, ClassUsage, HeapTotals, ShowMem, Snapshot, TagUsage, Untracked, Usage, allocinfo, show_mem};
pub use tag::{CodeTag, tags};
