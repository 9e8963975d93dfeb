//! A profile of this very program.

use crate::make;
use codetag::{Snapshot, StateKind, TagAlloc};
use codetag_export::{Owner, Profile, Source};

#[global_allocator]
static ALLOC: TagAlloc = TagAlloc::system();

#[codetag::alloc_tag(name = "the texts")]
fn texts() -> Vec<String> {
    (0..50).map(|_| "x".repeat(100)).collect()
}

#[codetag::alloc_tag]
fn never_called() {}

fn usage<'p>(profile: &'p Profile, function: &str) -> Option<&'p codetag_export::Usage> {
    let is_it = |owner: &Owner| owner.tag().is_some_and(|tag| tag.function == function);
    profile.usages.iter().find(|usage| is_it(&usage.owner))
}

#[test]
fn a_snapshot_becomes_a_profile_with_every_tag() {
    let _unused: fn() = never_called;
    let tags_off = codetag::state().kind == StateKind::TagsOff;
    if !tags_off {
        codetag::enable().expect("profiling can be turned on");
    }
    let kept = texts();
    let snapshot = Snapshot::take();
    let profile = Profile::from_snapshot(&snapshot);
    assert_eq!(profile.source, Source::Snapshot);
    assert_eq!(profile.is_quiet, Some(snapshot.is_quiet()));
    assert!(
        profile
            .program
            .as_ref()
            .is_some_and(|name| name.starts_with("export"))
    );
    assert!(
        profile
            .taken_unix_ns
            .is_some_and(|ns| ns > 1_700_000_000_000_000_000)
    );
    let heap = |name: &str| {
        let line = profile.heap.iter().find(|line| line.0 == name);
        line.expect("a line of the page").1
    };
    assert_eq!(
        heap("obtained_bytes"),
        snapshot.heap().obtained_bytes.cast_signed()
    );
    assert_eq!(heap("unaccounted_bytes"), snapshot.heap().unaccounted_bytes);
    assert_eq!(usage(&profile, "texts").is_none(), tags_off);
    if let Some(usage) = usage(&profile, "texts") {
        let tag = usage.owner.tag().expect("a tag");
        assert_eq!(tag.krate.as_deref(), Some("export"));
        assert_eq!(tag.module_path.as_deref(), Some("export::snapshot"));
        assert_eq!(tag.name.as_deref(), Some("the texts"));
        // The texts and the vector of them.
        assert_eq!(
            (usage.live_objs, usage.requested_bytes),
            (51, Some(50 * 100 + 50 * 24))
        );
        let unused = self::usage(&profile, "never_called").expect("listed");
        assert_eq!((unused.live_objs, unused.slot_bytes), (0, 0));
    }
    let untagged = profile
        .usages
        .iter()
        .find(|u| u.owner == Owner::Untagged)
        .expect("a row");
    assert_eq!(untagged.live_objs, snapshot.untagged().live_objs);
    let untracked = profile
        .usages
        .iter()
        .find(|u| u.owner == Owner::Untracked)
        .expect("a row");
    assert_eq!(
        (
            untracked.slot_bytes.cast_unsigned(),
            untracked.requested_bytes,
            untracked.is_accurate
        ),
        (snapshot.untracked().slot_bytes, None, false)
    );
    for bytes in [make::json(&profile), make::allocinfo(&profile)] {
        assert_eq!(codetag_export::read(&*bytes).expect("ours"), profile);
    }
    drop(kept);
}
