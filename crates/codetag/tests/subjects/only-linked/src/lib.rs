//! Linked by `use … as _` alone.

/// Never called.
#[codetag::alloc_tag]
pub fn only_linked() -> Vec<u8> {
    vec![1]
}
