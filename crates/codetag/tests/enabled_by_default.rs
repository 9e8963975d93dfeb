//! With the feature `enabled-by-default` profiling is on from the first allocation, unless `CODETAG` says
//! otherwise.

use codetag::{Snapshot, StateKind, TagAlloc};
use std::env;
use std::process::Command;

#[global_allocator]
static ALLOC: TagAlloc = TagAlloc::system();

#[codetag::alloc_tag]
fn keep() -> Box<[u8; 100]> {
    Box::new(std::hint::black_box([1; 100]))
}

#[test]
fn the_feature_turns_profiling_on_and_the_environment_beats_it() {
    if env::var_os("CODETAG").is_none() {
        assert_eq!(codetag::state().kind, StateKind::On);
        let held = keep();
        let usage = Snapshot::take()
            .usages()
            .find(|u| u.tag.function() == "keep")
            .map(|u| (u.live_objs, u.live_bytes));
        assert_eq!(usage, Some((1, 100)));
        drop(held);
        for value in ["0", "never"] {
            let child = Command::new(env::current_exe().unwrap())
                .env("CODETAG", value)
                .output()
                .unwrap();
            assert!(child.status.success(), "{child:?}");
        }
    } else {
        let expected = if env::var_os("CODETAG").unwrap() == "0" {
            StateKind::Off
        } else {
            StateKind::Never
        };
        assert_eq!(codetag::state().kind, expected);
    }
}
