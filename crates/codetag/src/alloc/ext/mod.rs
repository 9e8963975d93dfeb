//! What knowing the owner of each object adds to the allocator. With the tags compiled out, a twin
//! with the same signatures and empty bodies stands here.

#[cfg(not(codetag_off))]
mod obj_exts;
#[cfg(not(codetag_off))]
mod on;
#[cfg(not(codetag_off))]
mod page_ext;
#[cfg(not(codetag_off))]
mod switch;
#[cfg(not(codetag_off))]
pub(crate) use on::*;

#[cfg(codetag_off)]
mod off;
#[cfg(codetag_off)]
pub(crate) use off::*;

/// An entry of page_ext, taken out while its object moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargeEntry {
    /// The id word, or [`UNTRACKED`].
    pub word: u32,
}

/// Stands for a large object without a tag ref.
pub(crate) const UNTRACKED: u32 = u32::MAX;
