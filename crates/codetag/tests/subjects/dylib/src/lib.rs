//! codetag, the allocator and a generic function in one dynamic library.

#![forbid(unsafe_code)]

pub use codetag_subject_generic::{bytes_from_here, copies};

// Not in the program: the compiler passes over the global allocator of one that links std dynamically.
#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

/// `n` objects of 64 B and their Vec, charged to a tag of the library.
#[codetag::alloc_tag]
#[must_use]
pub fn of_the_dylib(n: usize) -> Vec<Box<[u8; 64]>> {
    (0..n).map(|_| Box::new([1; 64])).collect()
}
