//! The fast path of an allocation, for everywhere but Linux on x86-64, where `fast.rs` is the same by hand.
//!
//! # Safety model
//!
//! As of the parent module.

use super::super::class::Class;
use super::{alloc_small, alloc_unusual, is_usual};

/// An object of `bytes` at a multiple of `align`.
///
/// # Safety
///
/// As of `GlobalAlloc::alloc`.
#[inline(never)]
pub(super) unsafe fn alloc(align: usize, bytes: usize) -> *mut u8 {
    if !is_usual(bytes, align) {
        // SAFETY: as the caller's.
        return unsafe { alloc_unusual(align, bytes) };
    }
    // SAFETY: just compared.
    let class = unsafe { Class::of_small(bytes) };
    alloc_small(class, bytes)
}
