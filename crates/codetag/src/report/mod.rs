//! Reports: what the heap holds now, as figures and as text.
//!
//! They read and never write. Making one takes one block from the inner allocator itself and gives
//! it back; the measured heap is not touched.

mod allocinfo;
mod heap_totals;
#[allow(
    unsafe_code,
    reason = "one raw block, because a report must not use the global allocator"
)]
mod scratch;
mod show_mem;
mod size;
mod snapshot;

pub use allocinfo::{AllocInfo, allocinfo};
pub use heap_totals::{ClassUsage, HeapTotals};
pub use show_mem::{ShowMem, show_mem};
pub use snapshot::{Snapshot, TagUsage, Untracked, Usage};
