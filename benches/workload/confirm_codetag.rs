//! What codetag says of itself: its state, a known number of live objects, and what its tables take.

use codetag::{Snapshot, StateKind};

/// Live objects of a known number, from before the measurement to after it.
#[derive(Debug)]
pub(crate) struct Held {
    _small: Vec<Vec<u64>>,
    _large: Vec<Vec<u8>>,
}

const SMALL_OBJS: usize = 1_000;
const LARGE_OBJS: usize = 3;
const LARGE_BYTES: usize = 256 << 10;

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

pub(crate) fn print_memory() {
    const OBJS: usize = 50_000;
    for size in (8..=240).step_by(8) {
        let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(OBJS);
        let before = Snapshot::take().heap().obj_exts_bytes;
        blocks.extend((0..OBJS).map(|_| Vec::with_capacity(size)));
        let grown = Snapshot::take().heap().obj_exts_bytes - before;
        println!(
            "obj_exts_bytes_per_slot:{size} {:.3}",
            grown as f64 / OBJS as f64
        );
    }
    const LARGE_OBJS: usize = 1_000;
    let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(LARGE_OBJS);
    blocks.extend((0..LARGE_OBJS).map(|_| Vec::with_capacity(LARGE_BYTES)));
    println!(
        "page_ext_bytes_per_entry {:.3}",
        Snapshot::take().heap().page_ext_bytes as f64 / LARGE_OBJS as f64
    );
}
