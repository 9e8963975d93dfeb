//! No counters per tag: the twin for every build but that of the bench (`--cfg codetag_counters`).
//!
//! # Safety model
//!
//! No unsafe code.

/// Whether counters are kept.
pub(crate) const KEPT: bool = false;

pub(crate) fn reserve() -> bool {
    true
}

#[inline(always)]
pub(crate) fn came(_tag_ref: u32) {}

#[inline(always)]
pub(crate) fn goes(_tag_ref: u32) {}

#[inline(always)]
pub(crate) fn large_came(_word: u32, _bytes: usize) {}

#[inline(always)]
pub(crate) fn large_goes(_word: u32, _bytes: usize) {}

pub(crate) fn clear_all() {}

pub(crate) fn counted(_word: u32) -> Option<(u64, u64)> {
    None
}

pub(crate) fn counter_bytes() -> Option<u64> {
    None
}
