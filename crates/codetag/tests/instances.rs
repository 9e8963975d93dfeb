//! A generic function has one tag, in whatever crates its instances are made.

use codetag::{Snapshot, StateKind};
use codetag_subject_generic::{bytes_from_here, copies};

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

/// Objects and bytes of each row of the function.
fn rows() -> Vec<(u64, u64)> {
    let snapshot = Snapshot::take();
    let of = snapshot
        .usages()
        .filter(|u| (u.tag.krate(), u.tag.function()) == ("codetag_subject_generic", "copies"));
    of.map(|u| (u.live_objs, u.live_bytes)).collect()
}

#[test]
fn instances_of_two_crates_are_one_row() {
    let has_tags = codetag::state().kind != StateKind::TagsOff;
    assert_eq!(codetag::enable().is_ok(), has_tags);
    let due = |objs, bytes| {
        if has_tags {
            vec![(objs, bytes)]
        } else {
            Vec::new()
        }
    };
    let theirs = bytes_from_here(1_000);
    assert_eq!(rows(), due(1, 1_000));
    let same_type = copies(&7_u8, 200);
    assert_eq!(rows(), due(2, 1_200));
    let other_type = copies(&7_u64, 5);
    assert_eq!(rows(), due(3, 1_240));

    let listed = codetag::tags()
        .filter(|tag| (tag.krate(), tag.function()) == ("codetag_subject_generic", "copies"));
    assert_eq!(listed.count(), usize::from(has_tags));
    let text = codetag::allocinfo().to_string();
    let lines = text.lines().filter(|line| line.contains(" func:copies "));
    assert_eq!(lines.count(), usize::from(has_tags), "{text}");

    drop(theirs);
    assert_eq!(rows(), due(2, 240));
    drop((same_type, other_type));
    assert_eq!(rows(), []);
}
