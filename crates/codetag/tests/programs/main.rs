//! Programs that own their process: each test runs one function of this binary in a child, where
//! nothing but that function has used the allocator, the environment and the heap's state.
//!
//! `cargo test -p codetag --test programs NAME` runs one; to debug it without the parent, run the
//! test binary itself with `CODETAG_TEST_PROGRAM=NAME`.

#![allow(
    unsafe_code,
    reason = "the inner allocator of the tests, and programs that use layouts of their own"
)]

mod block;
mod check;
mod figures;
mod inner;
mod labels;
mod page;
mod runner;
mod sandbox;
mod sites;
mod slots;
mod text;
mod watch;

mod control;
mod counters;
mod faults;
mod forks;
mod layouts;
mod lives;
mod model;
mod motion;
mod pages;
mod parked;
mod patterns;
mod signals;
mod soak;
mod switch;
mod threads;
mod toggles;

use codetag::TagAlloc;
use inner::{INNER, TestInner};
use runner::Program;
use std::process::ExitCode;
use watch::Watched;

#[global_allocator]
static ALLOC: Watched<TagAlloc<&'static TestInner>> = Watched(TagAlloc::new(&INNER));

fn main() -> ExitCode {
    let programs: Vec<Program> = [
        patterns::programs(),
        model::programs(),
        lives::programs(),
        threads::programs(),
        parked::programs(),
        faults::programs(),
        forks::programs(),
        layouts::programs(),
        motion::programs(),
        pages::programs(),
        control::programs(),
        counters::programs(),
        signals::programs(),
        switch::programs(),
        toggles::programs(),
        soak::programs(),
    ]
    .into_iter()
    .flatten()
    .collect();
    runner::main(&programs)
}
