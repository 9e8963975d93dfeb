//! One generic function with a tag. Its instances are made in whatever crate asks for them.

#![forbid(unsafe_code)]

/// One object of `n` times the size of a `T`.
#[codetag::alloc_tag]
pub fn copies<T: Clone>(value: &T, n: usize) -> Vec<T> {
    vec![value.clone(); n]
}

/// An instance that is made in this crate.
#[inline(never)]
#[must_use]
pub fn bytes_from_here(n: usize) -> Vec<u8> {
    copies(&7_u8, n)
}
