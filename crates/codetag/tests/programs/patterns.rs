//! Known patterns, and the exact figures that they must give.

use crate::runner::Program;

pub(crate) fn programs() -> Vec<Program> {
    vec![Program::new("enable_before_any_allocation_of_main_works", enable_first)]
}

fn enable_first() {
    codetag::enable().unwrap();
    assert!(codetag::is_enabled());
    let v = vec![1_u8; 100];
    let s = codetag::Snapshot::take();
    assert_eq!(s.heap().unaccounted_bytes, 0);
    assert!(s.is_quiet());
    drop(v);
}
