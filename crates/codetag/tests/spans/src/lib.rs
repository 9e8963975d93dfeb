//! What the tests share. The package exists for them, and for `span_cost`, which Callgrind counts.

#![forbid(unsafe_code)]

use codetag::{Snapshot, StateKind};

/// Whether the tags are compiled out: then nothing is charged to anyone, and the tests look at no more than
/// that everything compiles and runs.
#[must_use]
pub fn tags_off() -> bool {
    codetag::state().kind == StateKind::TagsOff
}

/// The function of the current tag; `untagged` without a scope.
#[must_use]
pub fn current() -> &'static str {
    codetag::current().tag().function()
}

/// Turns profiling on, if there is any.
pub fn enable() {
    if !tags_off() {
        codetag::enable().expect("profiling can be turned on");
    }
}

/// Live objects and requested bytes of the tags with that function.
#[must_use]
pub fn live(function: &str) -> (u64, u64) {
    let snapshot = Snapshot::take();
    let of = snapshot.usages().filter(|u| u.tag.function() == function);
    of.fold((0, 0), |(objs, bytes), u| {
        (objs + u.live_objs, bytes + u.live_bytes)
    })
}
