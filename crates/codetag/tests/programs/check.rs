//! Compares what the reports say with the account, figure by figure, at a quiet point.

use crate::inner::INNER;
use crate::labels::{self, LABELS};
use crate::slots::{Slots, slots};
use crate::watch;
use codetag::{ClassUsage, EnableError, Snapshot, StateKind, Usage};
use std::sync::atomic::Ordering::SeqCst;

pub(crate) const CLASS_ROOM: usize = 128;
const CHUNK_BYTES: u64 = 2 << 20;
const SLAB_BYTES: u64 = 64 << 10;
/// A head for the chunk and one for each of its 31 slabs, 128 bytes each.
const HEADERS_BYTES: u64 = 32 * 128;

/// What the account says, added up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    /// By label, tracked blocks.
    pub(crate) tags: [Usage; LABELS],
    pub(crate) untracked_objs: u64,
    pub(crate) untracked_slot_bytes: u64,
    /// Small and tracked.
    pub(crate) requested_bytes: u64,
    pub(crate) waste_bytes: u64,
    /// Small and untracked.
    pub(crate) untracked_small_bytes: u64,
    pub(crate) large_objs: u64,
    pub(crate) large_bytes: u64,
    /// Live and tracked blocks by index of the slot size.
    pub(crate) classes: [(u64, u64); CLASS_ROOM],
}

impl Account {
    /// Adds the account up. Allocates nothing.
    pub(crate) fn now() -> Self {
        let slots = slots();
        let mut a = Self {
            tags: [Usage::default(); LABELS],
            untracked_objs: 0,
            untracked_slot_bytes: 0,
            requested_bytes: 0,
            waste_bytes: 0,
            untracked_small_bytes: 0,
            large_objs: 0,
            large_bytes: 0,
            classes: [(0, 0); CLASS_ROOM],
        };
        watch::for_each(|block| a.add(slots, block));
        a
    }

    fn add(&mut self, slots: &Slots, block: &watch::Block) {
        let tracked = block.tracked && watch::is_on();
        let bytes = block.bytes as u64;
        let slot = slot_of(slots, block);
        let slot_bytes = slot.map_or(bytes, |(_, b)| b as u64);
        match slot {
            Some((class, _)) => {
                self.classes[class].0 += 1;
                self.classes[class].1 += u64::from(tracked);
                if tracked {
                    self.requested_bytes += bytes;
                    self.waste_bytes += slot_bytes - bytes;
                } else {
                    self.untracked_small_bytes += slot_bytes;
                }
            }
            None => {
                self.large_objs += 1;
                self.large_bytes += bytes;
            }
        }
        if tracked {
            let tag = &mut self.tags[usize::from(block.label)];
            tag.live_objs += 1;
            tag.live_bytes += bytes;
            tag.slot_bytes += slot_bytes;
        } else {
            self.untracked_objs += 1;
            self.untracked_slot_bytes += slot_bytes;
        }
    }

    /// Blocks of every kind.
    pub(crate) fn objs(&self) -> u64 {
        self.untracked_objs + self.tags.iter().map(|t| t.live_objs).sum::<u64>()
    }
}

/// Index and size of the slot that a block lies in; none if it is large.
pub(crate) fn slot_of(slots: &Slots, block: &watch::Block) -> Option<(usize, usize)> {
    if !watch::is_small(block.bytes, block.align) {
        return None;
    }
    let slot = slots.serving(block.placed_bytes, block.align);
    if slot.is_none_or(|(_, slot)| slot < block.bytes) {
        watch::fail(format_args!("{block:?} does not fit its slot: {slot:?}"));
    }
    slot
}

/// Turns profiling on, here and in the account; with tags off it must say that it cannot. Twice is
/// once.
pub(crate) fn turn_on() {
    if watch::is_on() {
        return codetag::enable().unwrap();
    }
    match (codetag::enable(), codetag::state().kind) {
        (Ok(()), StateKind::On) => watch::turned_on(false),
        (Err(EnableError::TagsOff), StateKind::TagsOff) => {}
        (Err(EnableError::Never), StateKind::Never) => {}
        other => panic!("{other:?}"),
    }
}

/// Turns profiling off, here and in the account.
pub(crate) fn turn_off() {
    watch::turned_off();
    codetag::disable();
    assert!(!codetag::is_enabled());
}

/// Whether profiling can be on in this build and process.
pub(crate) fn can_track() -> bool {
    matches!(codetag::state().kind, StateKind::On | StateKind::Off)
}

/// Nothing allocates or frees now: every figure of a snapshot must be the account's. Returns the
/// account, for what a program knows about itself beside.
pub(crate) fn quiet_point(at: &str) -> Account {
    // Nothing is allocated before the last figure has been read.
    slots();
    let before = (INNER.bytes_out.load(SeqCst), INNER.blocks_out.load(SeqCst));
    let snapshot = Snapshot::take();
    let account = Account::now();
    assert!(snapshot.is_quiet(), "{at}: not quiet");
    assert_eq!(watch::is_on(), codetag::is_enabled(), "{at}: state");
    let blocks = INNER.blocks_out.load(SeqCst) - before.1;
    assert_eq!(
        blocks,
        u64::from(watch::is_on()),
        "{at}: blocks of the report itself"
    );
    let heap = snapshot.heap();
    assert_eq!(
        heap.obtained_bytes, before.0,
        "{at}: obtained, as the inner allocator counts"
    );
    assert_eq!(heap.unaccounted_bytes, 0, "{at}: unaccounted; {heap:?}");
    owners(at, &snapshot, &account);
    let slabs = classes(at, &snapshot, &account);
    heap_lines(at, &snapshot, &account, &slabs);
    drop(snapshot);
    let after = (INNER.bytes_out.load(SeqCst), INNER.blocks_out.load(SeqCst));
    assert_eq!(after, before, "{at}: the report gave back what it took");
    no_overlaps(at);
    account
}

fn owners(at: &str, snapshot: &Snapshot, account: &Account) {
    let mut seen = [false; LABELS];
    for usage in snapshot.usages() {
        let label = labels::of(usage.tag).unwrap_or_else(|| panic!("{at}: whose is {usage:?}"));
        assert!(
            !std::mem::replace(&mut seen[label], true),
            "{at}: twice: {usage:?}"
        );
        let said = Usage {
            live_objs: usage.live_objs,
            live_bytes: usage.live_bytes,
            slot_bytes: usage.slot_bytes,
        };
        assert_eq!(said, account.tags[label], "{at}: {:?}", usage.tag);
        assert_ne!(
            said.live_objs, 0,
            "{at}: a usage without objects: {:?}",
            usage.tag
        );
    }
    for label in (1..LABELS).filter(|&l| !seen[l]) {
        assert_eq!(
            Usage::default(),
            account.tags[label],
            "{at}: label {label} is missing"
        );
    }
    assert_eq!(snapshot.untagged(), account.tags[0], "{at}: untagged");
    let untracked = snapshot.untracked();
    assert_eq!(
        (untracked.live_objs, untracked.slot_bytes),
        (account.untracked_objs, account.untracked_slot_bytes),
        "{at}: untracked"
    );
}

/// Sums over the rows of the classes.
#[derive(Default)]
struct SlabSums {
    slabs: u64,
    slot_bytes: u64,
    free_bytes: u64,
    obj_exts_bytes: u64,
}

fn classes(at: &str, snapshot: &Snapshot, account: &Account) -> SlabSums {
    let mut sums = SlabSums::default();
    let mut last = 0;
    let mut live = 0;
    for row in snapshot.classes() {
        assert!(row.slot_bytes > last, "{at}: rows in rising order: {row:?}");
        last = row.slot_bytes;
        let index = slots().index(row.slot_bytes as usize);
        let index = index.unwrap_or_else(|| panic!("{at}: no such slot: {row:?}"));
        let expected = account.classes[index];
        assert_eq!((row.live_objs, row.tracked_objs), expected, "{at}: {row:?}");
        assert_eq!(row.slots, row.live_objs + row.free_objs, "{at}: {row:?}");
        per_slab(at, row);
        live += row.live_objs;
        sums.slabs += row.slabs;
        sums.slot_bytes += row.slots * row.slot_bytes;
        sums.free_bytes += row.free_objs * row.slot_bytes;
        sums.obj_exts_bytes += row.obj_exts_bytes;
    }
    let expected: u64 = account.classes.iter().map(|&(live, _)| live).sum();
    assert_eq!(live, expected, "{at}: live slots over all rows");
    sums
}

/// Every slab of a class is like every other.
fn per_slab(at: &str, row: &ClassUsage) {
    assert_eq!(row.slots % row.slabs, 0, "{at}: {row:?}");
    assert_eq!(row.obj_exts_bytes % row.slabs, 0, "{at}: {row:?}");
    let capacity = row.slots / row.slabs;
    let ext_bytes = row.obj_exts_bytes / row.slabs;
    // From 144 bytes up refs lie in the chunk's head.
    let inside = if row.slot_bytes < 144 { ext_bytes } else { 0 };
    // Slots begin at a multiple of their size; one more, with its ref, would not fit.
    let refs = inside.min(1) * 4;
    let end = inside.next_multiple_of(row.slot_bytes) + capacity * row.slot_bytes;
    let beyond = (inside + refs).next_multiple_of(row.slot_bytes) + (capacity + 1) * row.slot_bytes;
    assert!(end <= SLAB_BYTES && SLAB_BYTES < beyond, "{at}: {row:?}");
    if can_track() {
        assert_eq!(
            ext_bytes,
            4 * capacity,
            "{at}: a ref of 4 bytes per slot: {row:?}"
        );
    } else {
        assert_eq!(ext_bytes, 0, "{at}: {row:?}");
    }
}

fn heap_lines(at: &str, snapshot: &Snapshot, account: &Account, slabs: &SlabSums) {
    let heap = snapshot.heap();
    let chunks_bytes = heap.obtained_bytes - account.large_bytes;
    assert_eq!(
        chunks_bytes % CHUNK_BYTES,
        0,
        "{at}: obtained is chunks and large objects"
    );
    let chunks = chunks_bytes / CHUNK_BYTES;
    assert_eq!(
        [
            heap.tracked_requested_bytes,
            heap.tracked_waste_bytes,
            heap.untracked_slots_bytes,
            heap.large_objects_bytes,
            heap.large_objs,
            heap.slab_headers_bytes,
            heap.obj_exts_bytes,
            heap.page_ext_missed_objs,
        ],
        [
            account.requested_bytes,
            account.waste_bytes,
            account.untracked_small_bytes,
            account.large_bytes,
            account.large_objs,
            chunks * HEADERS_BYTES,
            slabs.obj_exts_bytes,
            0,
        ],
        "{at}: {heap:?}"
    );
    let free_slots = heap.free_current_bytes + heap.free_partial_bytes + heap.free_remote_bytes;
    assert_eq!(
        free_slots, slabs.free_bytes,
        "{at}: free slots, by line and by class"
    );
    assert_eq!(
        heap.free_cached_bytes % SLAB_BYTES,
        0,
        "{at}: whole slabs are cached"
    );
    let cut = slabs.slabs + heap.free_cached_bytes / SLAB_BYTES;
    assert!(cut <= 31 * chunks, "{at}: {cut} slabs in {chunks} chunks");
    let used = slabs.slot_bytes + slabs.obj_exts_bytes + chunks * HEADERS_BYTES;
    let unused = chunks_bytes - used - heap.free_cached_bytes;
    assert_eq!(heap.unused_chunk_bytes, unused, "{at}: unused chunk space");
    assert_eq!(
        heap.returned_bytes % SLAB_BYTES,
        0,
        "{at}: whole slabs are returned"
    );
    let uncut_bytes = (31 * chunks - cut) * SLAB_BYTES;
    assert!(heap.returned_bytes <= uncut_bytes, "{at}: {heap:?}");
    let owned: u64 = snapshot.usages().map(|u| u.live_bytes).sum();
    let large_tracked = owned + snapshot.untagged().live_bytes - heap.tracked_requested_bytes;
    assert!(large_tracked <= heap.large_objects_bytes, "{at}: {heap:?}");
    // An entry takes at most 64 bytes, beside whole pages for each of the four tables.
    let most = 64 * account.large_objs + 4 * 2 * 4096;
    assert!(
        heap.page_ext_bytes <= most,
        "{at}: page_ext takes {}",
        heap.page_ext_bytes
    );
}

/// No two blocks share a byte, counting each with its whole slot.
fn no_overlaps(at: &str) {
    let slots = slots();
    // One more, for this very vector is a block as well.
    let mut spans = Vec::with_capacity(Account::now().objs() as usize + 1);
    watch::for_each(|b| spans.push((b.addr, slot_of(slots, b).map_or(b.bytes, |(_, s)| s))));
    spans.sort_unstable();
    for pair in spans.windows(2) {
        assert!(
            pair[0].0 + pair[0].1 <= pair[1].0,
            "{at}: {pair:x?} overlap"
        );
    }
}
