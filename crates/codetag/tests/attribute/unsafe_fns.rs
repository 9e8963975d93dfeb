//! Unsafe functions with the attribute.
//!
//! # Safety model
//!
//! Each function reads one address that its caller took from a live value.

#![allow(unsafe_code, reason = "functions of this kind are what is tested")]

use codetag::alloc_tag;

fn here() -> &'static str {
    codetag::__private::current_function()
}

#[alloc_tag]
unsafe fn reads(from: *const u32) -> (u32, &'static str) {
    // SAFETY: the caller gives the address of a value.
    (unsafe { *from }, here())
}

#[alloc_tag]
async unsafe fn reads_async(from: &u32) -> (u32, &'static str) {
    // SAFETY: a reference can be read.
    (unsafe { *std::ptr::from_ref(from) }, here())
}

#[alloc_tag]
async fn reads_in_async(from: &u32) -> u32 {
    // SAFETY: the function asks for nothing but its reference.
    unsafe { reads_async(from) }.await.0
}

#[test]
fn unsafe_functions_keep_their_keywords() {
    let value = 7;
    // SAFETY: the address is that of `value`.
    assert_eq!(unsafe { reads(&raw const value) }, (7, "reads"));
    // SAFETY: the function asks for nothing but its reference.
    let future = unsafe { reads_async(&value) };
    assert_eq!(codetag_subject_2024::block_on(future), (7, "reads_async"));
    assert_eq!(codetag_subject_2024::block_on(reads_in_async(&value)), 7);
}
