//! Programs that use the heap wrongly, and what must become of them: each runs in a child, which must end
//! by SIGABRT with one page on stderr that names the fault, the pointer and the tags.
//!
//! `cargo test -p codetag --features debug --test debug_programs NAME` runs one; to debug it without the
//! parent, run the test binary itself with `CODETAG_TEST_PROGRAM=NAME`.

#![allow(
    unsafe_code,
    reason = "the wrong use itself, and an allocator around the heap"
)]

#[allow(dead_code, reason = "programs of the other test use the rest")]
#[path = "../programs/block.rs"]
mod block;
#[allow(dead_code, reason = "as above")]
#[path = "../programs/figures.rs"]
mod figures;
#[allow(dead_code, reason = "as above")]
#[path = "../programs/inner.rs"]
mod inner;

mod armed;
mod clean;
mod faults;
mod runner;

use armed::Armed;
use codetag::TagAlloc;
use inner::{INNER, TestInner};
use std::process::ExitCode;

#[global_allocator]
static ALLOC: Armed<TagAlloc<&'static TestInner>> = Armed(TagAlloc::new(&INNER));

fn main() -> ExitCode {
    let mut programs = faults::programs();
    programs.extend(clean::programs());
    runner::main(&programs)
}
