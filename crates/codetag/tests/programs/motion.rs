//! Reports and changes of the switch while others allocate: what must hold even then, and what must
//! hold once all is quiet again.

use crate::block::{Block, layout};
use crate::figures::has_tags;
use crate::runner::Program;
use codetag::Snapshot;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::thread;

pub(crate) fn programs() -> Vec<Program> {
    let mut all = vec![
        Program::new(
            "a_quiet_snapshot_adds_up_whatever_others_do",
            quiet_means_quiet,
        ),
        Program::new(
            "no_figure_is_negative_while_large_objects_cross_threads",
            large_objects_cross,
        ),
    ];
    if has_tags() {
        all.extend([
            Program::new(
                "reallocs_during_enable_leave_nothing_to_an_older_owner",
                reallocs_during_enable,
            ),
            Program::new(
                "a_snapshot_in_a_change_of_the_switch_is_not_quiet_or_is_whole",
                snapshots_in_changes,
            ),
        ]);
    }
    all
}

/// More than was ever out at once in these programs.
const MOST_BYTES: u64 = 1 << 30;

fn block(size: usize) -> Block {
    Block::new(layout(size, 8)).unwrap()
}

fn quiet_means_quiet() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let other = thread::spawn(|| {
        while !STOP.load(SeqCst) {
            drop((block(100_000), block(100), block(2000)));
        }
    });
    for _ in 0..20_000 {
        let s = Snapshot::take();
        assert!(!s.is_quiet() || s.heap().unaccounted_bytes == 0, "{s:?}");
    }
    STOP.store(true, SeqCst);
    other.join().unwrap();
}

fn large_objects_cross() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let (send, receive) = mpsc::sync_channel::<Block>(64);
    let frees = thread::spawn(move || receive.into_iter().for_each(drop));
    let allocates = thread::spawn(move || {
        while !STOP.load(SeqCst) {
            send.send(block(20_000)).unwrap();
        }
    });
    for _ in 0..20_000 {
        let s = Snapshot::take();
        assert!(s.heap().large_objects_bytes < MOST_BYTES, "{s:?}");
        assert!(s.heap().obtained_bytes < MOST_BYTES, "{s:?}");
        assert!(s.untracked().slot_bytes < MOST_BYTES, "{s:?}");
    }
    STOP.store(true, SeqCst);
    allocates.join().unwrap();
    frees.join().unwrap();
}

#[codetag::alloc_tag]
fn older_owner(size: usize) -> Block {
    block(size)
}

fn reallocs_during_enable() {
    for round in 0..200 {
        codetag::enable().unwrap();
        let sizes = (0..500).map(|i| if i % 2 == 0 { 20_000 } else { 1000 });
        let mut older: Vec<Block> = sizes.map(older_owner).collect();
        codetag::disable();
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                for (i, b) in older.iter_mut().enumerate() {
                    // To another slot, from large to small, and in place.
                    assert!(b.realloc(if i % 2 == 0 { 3000 } else { 990 }));
                }
            });
            start.wait();
            codetag::enable().unwrap();
        });
        let s = Snapshot::take();
        // Everything older than the change is nobody's, or untagged where it was reallocated after.
        let owner = s
            .usages()
            .find(|u| u.tag.function().ends_with("older_owner"));
        assert!(owner.is_none(), "round {round}: {owner:?}");
        let untagged = s.untagged();
        assert!(untagged.live_bytes >= untagged.live_objs, "round {round}");
        drop(older);
        codetag::disable();
    }
}

fn snapshots_in_changes() {
    static STOP: AtomicBool = AtomicBool::new(false);
    codetag::enable().unwrap();
    let _held: Vec<Block> = (0..1000).map(|i| older_owner(1 + i * 20)).collect();
    let other = thread::spawn(|| {
        while !STOP.load(SeqCst) {
            codetag::disable();
            codetag::enable().unwrap();
        }
    });
    for _ in 0..5_000 {
        let s = Snapshot::take();
        if s.is_quiet() {
            assert_eq!(s.heap().unaccounted_bytes, 0, "{s:?}");
            // After the first change all of them are untracked; before it, tagged.
            let tagged: u64 = s.usages().map(|u| u.live_objs).sum();
            assert!(tagged == 1000 || s.untracked().live_objs >= 1000, "{s:?}");
        }
    }
    STOP.store(true, SeqCst);
    other.join().unwrap();
}
