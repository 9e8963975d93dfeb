//! What programs ask of the heap, and what must hold whenever they do.

use crate::inner::INNER;
use codetag::{EnableError, HeapTotals, Snapshot, StateKind, Untracked, Usage};
use std::env;
use std::sync::atomic::Ordering::SeqCst;

/// `short`, or `long` when `CODETAG_LONG=1` asks for the long form.
pub(crate) fn rounds(short: usize, long: usize) -> usize {
    if env::var_os("CODETAG_LONG").is_some_and(|v| v == "1") {
        long
    } else {
        short
    }
}

/// Whether the tags are compiled in. Without them programs check the heap alone.
pub(crate) fn has_tags() -> bool {
    codetag::state().kind != StateKind::TagsOff
}

/// Turns profiling on, where there is any.
pub(crate) fn enable() {
    match codetag::enable() {
        Ok(()) => assert!(has_tags() && codetag::is_enabled()),
        Err(e) => assert!(!has_tags() && matches!(e, EnableError::TagsOff), "{e}"),
    }
}

/// A snapshot at a quiet point, with all that must hold at one. No other snapshot may be alive.
pub(crate) fn quiet() -> Snapshot {
    let out = INNER.bytes_out.load(SeqCst);
    let s = Snapshot::take();
    assert!(s.is_quiet());
    assert_adds_up(&s, out);
    s
}

fn assert_adds_up(s: &Snapshot, inner_bytes_out: u64) {
    let heap = s.heap();
    assert_eq!(heap.unaccounted_bytes, 0, "{heap:?}");
    assert_eq!(
        heap.obtained_bytes, inner_bytes_out,
        "what the inner allocator itself counted"
    );
    assert_eq!(heap.page_ext_missed_objs, 0);
    let (mut objs, mut slot_bytes) = (heap.large_objs, heap.large_objects_bytes);
    for c in s.classes() {
        objs += c.live_objs;
        slot_bytes += c.live_objs * c.slot_bytes;
        assert!(
            c.tracked_objs <= c.live_objs && c.live_objs + c.free_objs == c.slots,
            "{c:?}"
        );
    }
    let (untagged, untracked) = (s.untagged(), s.untracked());
    let (mut by_tag_objs, mut by_tag_bytes) = (0, 0);
    for u in s.usages() {
        assert!(
            u.live_objs > 0 && u.live_bytes >= u.live_objs && u.slot_bytes >= u.live_bytes,
            "{u:?}"
        );
        by_tag_objs += u.live_objs;
        by_tag_bytes += u.slot_bytes;
    }
    assert_eq!(by_tag_objs + untagged.live_objs + untracked.live_objs, objs);
    assert_eq!(
        by_tag_bytes + untagged.slot_bytes + untracked.slot_bytes,
        slot_bytes
    );
}

/// Live objects and requested bytes of the tag at `place`, a module and a function.
pub(crate) fn owned(s: &Snapshot, place: &str) -> (u64, u64) {
    let (module, function) = place.split_once("::").expect("module::function");
    let is_it = |tag: &codetag::CodeTag| {
        tag.function() == function && tag.module_path().rsplit("::").next() == Some(module)
    };
    assert!(
        !has_tags() || codetag::tags().any(is_it),
        "no tag at {place}"
    );
    s.usages()
        .filter(|u| is_it(u.tag))
        .fold((0, 0), |(objs, bytes), u| {
            (objs + u.live_objs, bytes + u.live_bytes)
        })
}

/// Asserts what the tag at `place` owns, at a quiet point.
#[track_caller]
pub(crate) fn assert_owned(place: &str, objs: u64, bytes: u64) {
    let s = quiet();
    if has_tags() {
        assert_eq!(owned(&s, place), (objs, bytes), "{place}");
    }
}

/// Bytes obtained from the inner allocator that are not with the operating system.
pub(crate) fn held_bytes() -> u64 {
    let s = quiet();
    s.heap().obtained_bytes - s.heap().returned_bytes
}

/// Everything that a snapshot says of the heap.
pub(crate) fn all_figures() -> (HeapTotals, Usage, Untracked, u64, u64) {
    let s = quiet();
    let tagged = s.usages().fold((0, 0), |(objs, bytes), u| {
        (objs + u.live_objs, bytes + u.live_bytes)
    });
    (*s.heap(), s.untagged(), s.untracked(), tagged.0, tagged.1)
}
