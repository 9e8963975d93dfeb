//! Reports: what the heap holds now, as figures and as text.
//!
//! They read and never write. Making one takes one block from the inner allocator itself and gives
//! it back; the measured heap is not touched. The types are also in the crate's root; reports as events,
//! with the feature `tracing`, are here only.

mod allocinfo;
#[cfg(feature = "tracing")]
mod emit;
mod heap_totals;
#[cfg(feature = "tracing")]
mod reporter;
#[allow(
    unsafe_code,
    reason = "one raw block, because a report must not use the global allocator"
)]
mod scratch;
mod show_mem;
mod size;
mod snapshot;
mod top;

pub use allocinfo::{AllocInfo, allocinfo};
#[cfg(feature = "tracing")]
pub use emit::emit;
pub use heap_totals::{ClassUsage, HeapTotals};
#[cfg(feature = "tracing")]
pub use reporter::Reporter;
pub use show_mem::{ShowMem, show_mem};
pub use snapshot::{Snapshot, TagUsage, Untracked, Usage};
