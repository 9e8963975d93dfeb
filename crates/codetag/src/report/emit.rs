//! A report as events of `tracing`.

use super::snapshot::Snapshot;
use super::top;
use tracing::info;

/// Scans the heap and sends what it finds to the current subscriber as events: one for the heap, and one
/// for each of the `n` tags with the most requested bytes, the largest first.
///
/// The events' target is `codetag`, their level INFO; figures are fields, so that a collector can add them
/// up. Their messages are `heap` and `tag`.
///
/// | event | fields |
/// |---|---|
/// | `heap` | `obtained_bytes`, `tagged_bytes`, `tagged_objs`, `untagged_bytes`, `untagged_objs`, `untracked_slot_bytes`, `untracked_objs`, `is_quiet`, `state` |
/// | `tag` | `rank` (from 1), `live_bytes`, `live_objs`, `slot_bytes`, `krate`, `tag_module_path`, `function`, `tag_file`, `tag_line`, and `name` if the tag has one |
///
/// Bytes are requested bytes, but for `obtained_bytes` (taken from the inner allocator) and those of slots.
/// The scan allocates as any report does; what the subscriber allocates for the events is the caller's.
/// While profiling is not on there is no event of a tag.
///
/// # Examples
///
/// ```
/// #[global_allocator]
/// static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();
///
/// codetag::report::emit(10);
/// ```
pub fn emit(n: usize) {
    let snapshot = Snapshot::take();
    let (mut tagged_objs, mut tagged_bytes) = (0, 0);
    for usage in snapshot.usages() {
        tagged_objs += usage.live_objs;
        tagged_bytes += usage.live_bytes;
    }
    let (untagged, untracked) = (snapshot.untagged(), snapshot.untracked());
    info!(
        target: "codetag",
        obtained_bytes = snapshot.heap().obtained_bytes,
        tagged_bytes,
        tagged_objs,
        untagged_bytes = untagged.live_bytes,
        untagged_objs = untagged.live_objs,
        untracked_slot_bytes = untracked.slot_bytes,
        untracked_objs = untracked.live_objs,
        is_quiet = snapshot.is_quiet(),
        state = %snapshot.state.kind,
        "heap"
    );
    for (rank, usage) in (1_u64..).zip(top::top(&snapshot, n)) {
        let tag = usage.tag;
        info!(
            target: "codetag",
            rank,
            live_bytes = usage.live_bytes,
            live_objs = usage.live_objs,
            slot_bytes = usage.slot_bytes,
            krate = tag.krate(),
            tag_module_path = tag.module_path(),
            function = tag.function(),
            tag_file = tag.file(),
            tag_line = tag.line(),
            name = tag.name(),
            "tag"
        );
    }
}
