//! What codetag says of itself: its state, a known number of live objects, and what its tables take.

use codetag::{ClassUsage, Snapshot, StateKind};

/// Live objects of a known number, from before the measurement to after it.
#[derive(Debug)]
pub(crate) struct Held {
    _small: Vec<Vec<u64>>,
    _large: Vec<Vec<u8>>,
}

const SMALL_OBJS: usize = 1_000;
const LARGE_OBJS: usize = 3;
const LARGE_BYTES: usize = 256 << 10;

/// What [`print_memory`] allocates.
const LARGER_OBJS: usize = 256;
const LARGE_OBJS_COUNTED: usize = 1_000;

impl Held {
    pub(crate) fn new() -> Self {
        // The two vectors' own memory is not to be charged to the tag.
        let (mut small, mut large) = (
            Vec::with_capacity(SMALL_OBJS),
            Vec::with_capacity(LARGE_OBJS),
        );
        held(&mut small, &mut large);
        Self {
            _small: small,
            _large: large,
        }
    }

    pub(crate) fn print(&self, when: &str) {
        let state = match codetag::state().kind {
            StateKind::TagsOff => "tags-off",
            StateKind::Never => "never",
            StateKind::Off => "off",
            StateKind::On => "on",
            _ => "unknown",
        };
        let snapshot = Snapshot::take();
        let usage = snapshot
            .usages()
            .find(|usage| usage.tag.function() == "held");
        println!("state:{when} {state}");
        println!(
            "tracked_objs:{when} {}",
            usage.as_ref().map_or(0, |usage| usage.live_objs)
        );
        println!(
            "tracked_bytes:{when} {}",
            usage.as_ref().map_or(0, |usage| usage.live_bytes)
        );
    }
}

/// 1,000 objects of 24 B and 3 of 256 KiB.
#[codetag::alloc_tag]
fn held(small: &mut Vec<Vec<u64>>, large: &mut Vec<Vec<u8>>) {
    small.extend((0..SMALL_OBJS as u64).map(|n| vec![n; 3]));
    large.extend((0..LARGE_OBJS).map(|_| Vec::with_capacity(LARGE_BYTES)));
}

pub(crate) fn enable() -> Result<(), codetag::EnableError> {
    codetag::enable()
}

/// Bytes of the tables, per slot of each class and per large object, with some of every size alive.
pub(crate) fn print_memory() {
    const OBJS: usize = 5_000;
    let sizes = || (8..=240_usize).step_by(8);
    let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(30 * OBJS + LARGER_OBJS + LARGE_OBJS_COUNTED);
    for size in sizes() {
        blocks.extend((0..OBJS).map(|_| Vec::with_capacity(size)));
    }
    let snapshot = Snapshot::take();
    for size in sizes() {
        let class = snapshot
            .classes()
            .find(|class| class.slot_bytes >= size as u64);
        let bytes = class.map_or(0.0, |class| {
            class.obj_exts_bytes as f64 / class.slots as f64
        });
        println!("obj_exts_bytes_per_slot:{size} {bytes:.3}");
    }
    let heap = snapshot.heap();
    println!(
        "obj_exts_percent {:.3}",
        100.0 * heap.obj_exts_bytes as f64 / heap.obtained_bytes as f64
    );

    // All other classes, up to sizes that have none.
    blocks.extend((1..=LARGER_OBJS).map(|n| Vec::with_capacity(256 * n)));
    let classes = Snapshot::take();
    let per_slot = |class: &ClassUsage| class.obj_exts_bytes as f64 / class.slots as f64;
    if let Some(most) = classes
        .classes()
        .max_by(|a, b| per_slot(a).total_cmp(&per_slot(b)))
    {
        println!("obj_exts_bytes_per_slot_max {:.3}", per_slot(most));
        println!("obj_exts_bytes_per_slot_max_class {}", most.slot_bytes);
    }

    blocks.extend((0..LARGE_OBJS_COUNTED).map(|_| Vec::with_capacity(LARGE_BYTES)));
    let snapshot = Snapshot::take();
    let heap = snapshot.heap();
    println!(
        "page_ext_bytes_per_entry {:.3}",
        heap.page_ext_bytes as f64 / heap.large_objs.max(1) as f64
    );
}
