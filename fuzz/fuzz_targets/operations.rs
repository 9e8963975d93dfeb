//! Operations on the allocator, as the model test has them: its interpreter, account and checks.

#![no_main]
#![allow(dead_code, reason = "the files are the tests', which use all of them")]

macro_rules! shared {
    ($($name:ident $path:literal;)*) => {
        $(#[path = $path] mod $name;)*
    };
}

shared! {
    block "../../crates/codetag/tests/programs/block.rs";
    check "../../crates/codetag/tests/programs/check.rs";
    figures "../../crates/codetag/tests/programs/figures.rs";
    inner "../../crates/codetag/tests/programs/inner.rs";
    labels "../../crates/codetag/tests/programs/labels.rs";
    model "../../crates/codetag/tests/programs/model/mod.rs";
    page "../../crates/codetag/tests/programs/page.rs";
    runner "../../crates/codetag/tests/programs/runner.rs";
    slots "../../crates/codetag/tests/programs/slots.rs";
    text "../../crates/codetag/tests/programs/text.rs";
    watch "../../crates/codetag/tests/programs/watch.rs";
}

use codetag::TagAlloc;
use inner::{INNER, TestInner};
use libfuzzer_sys::fuzz_target;
use watch::Watched;

#[global_allocator]
static ALLOC: Watched<TagAlloc<&'static TestInner>> = Watched(TagAlloc::new(&INNER));

fuzz_target!(|bytes: &[u8]| model::run_bytes(bytes));
