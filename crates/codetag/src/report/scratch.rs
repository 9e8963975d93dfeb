//! The one block of memory that a report takes: a tally per tag id.
//!
//! # Safety model
//!
//! The block comes from the inner allocator, zeroed, and is the snapshot's alone until its drop.
//! It holds `len` tallies; all-zero is a valid tally. Without memory it holds none.

use crate::alloc::scan;
use core::alloc::Layout;
use core::ptr::NonNull;

/// What one tag owns, as it is added up.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Tally {
    pub objs: u64,
    pub bytes: u64,
    pub slot_bytes: u64,
    /// Whether the tag is one of those that the linker lists.
    pub is_listed: bool,
}

/// Tallies by tag id.
#[derive(Debug)]
pub(super) struct Scratch {
    block: NonNull<Tally>,
    len: usize,
}

// SAFETY: the block is owned, and tallies are plain numbers.
unsafe impl Send for Scratch {}
// SAFETY: as above; a shared scratch is only read.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Room for `len` tallies; for none if the inner allocator has no memory.
    pub(super) fn new(len: usize) -> Self {
        let block = match Layout::array::<Tally>(len) {
            Ok(layout) if layout.size() > 0 => {
                NonNull::new(scan::alloc_scratch(layout).cast::<Tally>())
            }
            _ => None,
        };
        match block {
            Some(block) => Self { block, len },
            None => Self {
                block: NonNull::dangling(),
                len: 0,
            },
        }
    }

    pub(super) fn tallies(&self) -> &[Tally] {
        // SAFETY: the block holds `len` tallies.
        unsafe { core::slice::from_raw_parts(self.block.as_ptr(), self.len) }
    }

    pub(super) fn tallies_mut(&mut self) -> &mut [Tally] {
        // SAFETY: the block holds `len` tallies and is ours alone.
        unsafe { core::slice::from_raw_parts_mut(self.block.as_ptr(), self.len) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let (1.., Ok(layout)) = (self.len, Layout::array::<Tally>(self.len)) {
            // SAFETY: allocated with this layout.
            unsafe { scan::dealloc_scratch(self.block.as_ptr().cast(), layout) };
        }
    }
}
