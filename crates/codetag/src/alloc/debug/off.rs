//! The twin for builds without the feature.

use super::super::slab::Slab;

pub(crate) use super::super::path::{alloc, alloc_zeroed, dealloc, realloc};

/// Bytes of a large object's block beside the object.
pub(crate) const LARGE_EXTRA_BYTES: usize = 0;

#[inline(always)]
pub(crate) fn chunk_came(_at: *mut u8) -> bool {
    true
}

#[inline(always)]
pub(crate) fn chunk_goes(_at: *mut u8) {}

#[inline(always)]
pub(crate) fn slab_cut(_slab: &Slab) {}
