//! The twin for builds without tags.
//!
//! # Safety model
//!
//! Nothing here touches memory; one signature is unsafe because its twin's is.

use super::super::class::{Class, Geometry};
use super::super::heap::{Bin, Heap, Popped};
use super::super::slab::Slab;
use super::{Owner, PageExtUsage};
use crate::control::{EnableError, StateKind};
use crate::protocol::SpinLock;

/// Nothing changes; a fork locks it all the same.
pub(crate) static CHANGE: SpinLock = SpinLock::new();

pub(crate) fn geometry(class: Class) -> Geometry {
    class.geometry(false)
}

pub(crate) fn clear_unless_off(_slab: &Slab) -> bool {
    true
}

pub(crate) fn must_clear() -> bool {
    false
}

#[inline(always)]
pub(crate) unsafe fn mark_in(_heap: &Heap, _bin: &Bin, slot: Popped, _bytes: usize) -> *mut u8 {
    slot.at
}

#[inline(always)]
pub(crate) fn mark(_slab: &'static Slab, at: *mut u8, _bytes: usize) -> *mut u8 {
    at
}

#[inline(always)]
pub(crate) fn unmark(_slab: &Slab, _at: *mut u8) -> bool {
    false
}

pub(crate) fn is_marked(_slab: &Slab, _at: *mut u8) -> bool {
    false
}

#[cfg_attr(
    not(feature = "debug"),
    allow(dead_code, reason = "only the page of a fault asks")
)]
pub(crate) fn owner_id(_slab: &Slab, _at: *mut u8) -> Option<u16> {
    None
}

#[inline(always)]
pub(crate) fn remark(_slab: &Slab, _at: *mut u8, _bytes: usize) {}

#[inline(always)]
pub(crate) fn inherit(_from: *mut u8, _from_large: bool, _to: *mut u8, _to_large: bool) {}

#[inline(always)]
pub(crate) fn noted_large() -> bool {
    false
}

#[inline(always)]
pub(crate) fn try_large_allocated(_at: *mut u8, _bytes: usize) -> bool {
    true
}

#[inline(always)]
pub(crate) fn try_large_remove(_at: *mut u8) -> bool {
    true
}

#[inline(always)]
pub(crate) fn large_allocated(_at: *mut u8, _bytes: usize) {}

#[inline(always)]
pub(crate) fn large_moved(_at: *mut u8, _bytes: usize, _was: Option<Owner>) {}

#[inline(always)]
pub(crate) fn large_remove(_at: *mut u8) {}

#[inline(always)]
pub(crate) fn large_take(_at: *mut u8) -> Option<Owner> {
    None
}

#[inline(always)]
pub(crate) fn large_put_back(_at: *mut u8, _bytes: usize, _was: Option<Owner>) {}

pub(crate) fn start(_never: bool, _on: bool) {}

pub(crate) fn enable(_changed: impl FnOnce()) -> Result<(), EnableError> {
    Err(EnableError::TagsOff)
}

pub(crate) fn disable(_changed: impl FnOnce()) {}

pub(crate) fn kind() -> StateKind {
    StateKind::TagsOff
}

/// Large objects in page_ext: none are kept.
pub(crate) fn for_each_large(_visit: impl FnMut(usize, u32)) {}

/// No table.
pub(crate) fn page_ext_usage() -> PageExtUsage {
    PageExtUsage::default()
}

/// There is nothing to start.
pub(crate) fn start_error() -> i32 {
    0
}

/// Changes of the switch so far.
pub(crate) fn changes() -> u64 {
    0
}

/// Whether refs say anything now.
pub(crate) fn has_refs() -> bool {
    false
}

/// No counters.
pub(crate) fn counted(_word: u32) -> Option<(u64, u64)> {
    None
}

/// See [`counted`].
pub(crate) fn counter_bytes() -> Option<u64> {
    None
}
