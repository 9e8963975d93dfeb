//! What knowing the owner of each object adds to the allocator. With the tags compiled out, a twin
//! with the same signatures and empty bodies stands here.

#[cfg(all(codetag_counters, not(codetag_off)))]
mod counters;
#[cfg(not(any(codetag_counters, codetag_off)))]
#[path = "counters_off.rs"]
mod counters;
#[cfg(not(codetag_off))]
pub(super) mod obj_exts;
#[cfg(not(codetag_off))]
mod on;
#[cfg(not(codetag_off))]
mod page_ext;
#[cfg(not(codetag_off))]
pub(super) mod switch;
#[cfg(not(codetag_off))]
pub(crate) use on::*;

#[cfg(codetag_off)]
mod off;
#[cfg(codetag_off)]
pub(crate) use off::*;

/// The owner of a large object, while its entry of page_ext is out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// Its id word.
    pub word: u32,
    /// Clearing passes before it was taken out.
    pub epoch: u32,
}

/// What page_ext takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageExtUsage {
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Tracked objects that found no place since the program began.
    pub missed_objs: u64,
    /// Changes whenever an entry does.
    pub version: u64,
}
