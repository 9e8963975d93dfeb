//! Counters on each allocation and free, which are kept under `--cfg codetag_counters` alone.

use crate::block::{Block, layout};
use crate::runner::Program;
use crate::threads::{drop_elsewhere, join};
use codetag::{CodeTag, Snapshot};
use std::thread;

pub(crate) fn programs() -> Vec<Program> {
    if !cfg!(codetag_counters) {
        return Vec::new();
    }
    vec![
        Program::new("counters_agree_with_the_scan_at_a_quiet_point", agree).with_codetag("1"),
        Program::new("counters_begin_anew_with_each_enable", anew),
    ]
}

#[codetag::alloc_tag]
fn one(bytes: usize) -> Block {
    Block::new(layout(bytes, 8)).unwrap()
}

#[codetag::alloc_tag]
fn other(bytes: usize) -> Block {
    Block::new(layout(bytes, 8)).unwrap()
}

fn counted(tag: &CodeTag) -> (u64, u64) {
    codetag::__private::counted(tag).expect("counters are kept")
}

/// Every tag that owns something, and two that must.
fn assert_agreement() {
    let snapshot = Snapshot::take();
    assert!(snapshot.is_quiet());
    let mut seen = 0;
    for usage in snapshot.usages() {
        let function = usage.tag.function();
        seen += u32::from(function == "one" || function == "other");
        assert_eq!(
            counted(usage.tag),
            (usage.live_bytes, usage.live_objs),
            "{function}: counters, then the scan"
        );
    }
    assert_eq!(seen, 2, "tags with something live");
}

/// Small and large objects of two tags, freed by other threads, reallocated in their slot and out of it.
fn agree() {
    let mut kept = Vec::new();
    for turn in 0..4 {
        let (freed_here, freed_there): (Vec<_>, Vec<_>) = (0..4_000)
            .map(|n| (one(1 + n % 700), other(1 + (n * 17) % 40_000)))
            .unzip();
        kept.push((one(50 * (turn + 1)), other(30_000)));
        drop_elsewhere(freed_there);
        kept.extend(join([thread::spawn(|| (one(100), other(17_000)))]));
        drop(freed_here);
        assert_agreement();
    }
    for (small, large) in &mut kept {
        for bytes in [60, 61, 5_000, 20_000, 40_000, 90] {
            assert!(small.realloc(bytes) && large.realloc(bytes + 1));
        }
    }
    assert_agreement();
    let ids = codetag::tags().count() as u64;
    let bytes = codetag::__private::counter_bytes().expect("counters are kept");
    assert!(
        bytes >= ids * 16 && bytes.is_multiple_of(16),
        "{bytes} B of counters"
    );
}

fn anew() {
    let old = (one(100), other(20_000));
    for _ in 0..3 {
        codetag::enable().unwrap();
        let new = (one(100), other(20_000));
        assert_agreement();
        drop(new);
        codetag::disable();
    }
    codetag::enable().unwrap();
    let new = (one(200), other(40_000));
    drop(old);
    assert_agreement();
    drop(new);
}
