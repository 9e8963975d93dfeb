//! Which code owns the heap right now.

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
#[allow(unsafe_code)]
mod sys;
mod tag;

pub use alloc::{TagAlloc, shrink};
#[cfg(not(codetag_off))]
pub use codetag_macros::alloc_tag;
#[cfg(codetag_off)]
pub use codetag_macros::alloc_tag_off as alloc_tag;
pub use control::{EnableError, State, StateKind, disable, enable, is_enabled, state};
pub use report::{
    AllocInfo, ClassUsage, HeapTotals, ShowMem, Snapshot, TagUsage, Untracked, Usage, allocinfo,
    show_mem,
};
pub use tag::{CodeTag, tags};
