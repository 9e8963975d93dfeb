//! Blocks that cross threads, threads that are parked, and threads that ended.

use super::{block_in, has_tags, label, owns};
use crate::block::Block;
use crate::check::{quiet_point, turn_off, turn_on};
use crate::labels::{LABELS, within};
use crate::runner::Program;
use std::cell::RefCell;
use std::sync::{Arc, Barrier, Mutex};
use std::{mem, thread};

pub(super) fn programs() -> Vec<Program> {
    let mut all = vec![
        Program::new(
            "frees_by_other_threads_are_taken_off_the_owner_exactly",
            freed_by_others,
        ),
        Program::new("objects_outlive_the_threads_that_made_them", ended),
        Program::new(
            "parked_threads_keep_their_slabs_and_every_line_adds_up",
            parked,
        ),
        Program::new(
            "blocks_that_thread_locals_hold_to_the_end_are_exact",
            thread_locals,
        ),
        Program::new("the_first_call_of_a_thread_may_be_any", first_calls),
    ];
    if has_tags() {
        all.extend([
            Program::new(
                "threads_that_realloc_what_others_made_are_charged",
                realloc_by_others,
            ),
            Program::new(
                "older_blocks_freed_by_other_threads_stay_untracked_to_the_end",
                older,
            ),
        ]);
    }
    all
}

fn freed_by_others() {
    turn_on();
    let start = quiet_point("start");
    for (round, keep) in [2, 7, 3000, 1, 4, usize::MAX].into_iter().enumerate() {
        let mut blocks: Vec<(u8, Block)> = Vec::with_capacity(3001);
        let size = |i| 1 + i * (round + 1) % 3000;
        blocks.extend((0..3000).map(|i| (label(i), block_in(label(i), size(i), 8))));
        blocks.push((1, block_in(1, 200_000, 8)));
        quiet_point("made");
        let rest = thread::spawn(move || {
            // The scope of the thread that frees is of no account.
            within(3, || {
                let mut i = 0;
                blocks.retain(|_| {
                    i += 1;
                    i % keep == 0
                });
                blocks
            })
        });
        let rest = rest.join().unwrap();
        let account = quiet_point("freed by another");
        for l in 1..LABELS as u8 {
            let sizes = rest
                .iter()
                .filter(|(of, _)| *of == l)
                .map(|(_, b)| b.size() as u64);
            owns(&account, l, sizes.clone().count() as u64, sizes.sum());
        }
        drop(rest);
        quiet_point("freed by both");
    }
    assert_eq!(quiet_point("end").objs(), start.objs());
}

fn ended() {
    turn_on();
    let start = quiet_point("start");
    let mut held = Vec::with_capacity(64);
    for t in 0..64 {
        let made = thread::spawn(move || {
            let mut blocks = Vec::with_capacity(40);
            blocks.extend((0..40).map(|i| block_in(label(t), 10 + t * 100 + i, 8)));
            // Some of its own are free again, so that its slabs are left partial.
            drop(blocks.drain(..10));
            blocks
        });
        held.push(made.join().unwrap());
        if t % 8 == 0 {
            quiet_point("one more has ended");
        }
    }
    let account = quiet_point("all have ended");
    for l in 1..LABELS as u8 {
        let bytes = held.iter().enumerate().filter(|(t, _)| label(*t) == l);
        let bytes: u64 = bytes.flat_map(|(_, v)| v).map(|b| b.size() as u64).sum();
        // Eight threads of 30 blocks.
        owns(&account, l, 8 * 30, bytes);
    }
    // A new thread takes over slabs that others left.
    let taker = thread::spawn(|| {
        (0..500)
            .map(|i| block_in(8, 10 + i * 10, 8))
            .collect::<Vec<_>>()
    });
    let taken = taker.join().unwrap();
    quiet_point("taken over");
    for (i, blocks) in held.drain(..).enumerate() {
        if i % 2 == 0 {
            drop(blocks);
        } else {
            thread::spawn(|| drop(blocks)).join().unwrap();
        }
        if i % 8 == 0 {
            quiet_point("freed after the end");
        }
    }
    drop((taken, held));
    codetag::shrink();
    assert_eq!(quiet_point("end").objs(), start.objs());
}

/// A thread that does what it is told between two meetings.
struct Parked {
    meet: Arc<Barrier>,
    thread: thread::JoinHandle<()>,
}

impl Parked {
    fn new(mut step: impl FnMut(usize) + Send + 'static, steps: usize) -> Self {
        let meet = Arc::new(Barrier::new(2));
        let theirs = Arc::clone(&meet);
        let thread = thread::spawn(move || {
            // A thread allocates while it starts.
            theirs.wait();
            for i in 0..steps {
                theirs.wait();
                step(i);
                theirs.wait();
            }
            // Parked until the end.
            theirs.wait();
        });
        meet.wait();
        Self { meet, thread }
    }

    /// Lets it do its next step, to the end.
    fn step(&self) {
        self.meet.wait();
        self.meet.wait();
    }

    /// Lets it end.
    fn end(self) {
        self.meet.wait();
        self.thread.join().unwrap();
    }
}

fn parked() {
    const STEPS: usize = 12;
    turn_on();
    let shelf: Arc<Mutex<Vec<Block>>> = Arc::new(Mutex::new(Vec::with_capacity(10_000)));
    let workers: Vec<Parked> = (0..4_usize)
        .map(|t| {
            let shelf = Arc::clone(&shelf);
            let work = move |i: usize| {
                let mut shelf = shelf.lock().unwrap();
                if (i + t).is_multiple_of(3) {
                    // Others' and own blocks, from both ends.
                    let n = shelf.len() / 3;
                    drop(shelf.drain(..n));
                    let n = shelf.len() / 2;
                    shelf.truncate(n);
                } else {
                    let sizes = (0..300).map(|k| 1 + (k * 131 + t * 17 + i) % 2500);
                    shelf.extend(sizes.map(|size| block_in(label(t + i), size, 8)));
                }
            };
            Parked::new(work, STEPS)
        })
        .collect();
    for step in 0..STEPS {
        for worker in &workers {
            worker.step();
            quiet_point("one has worked, all are parked");
        }
        if step == 6 {
            codetag::shrink();
            quiet_point("shrunk while all are parked");
        }
    }
    for worker in workers {
        worker.end();
    }
    quiet_point("all have ended");
    shelf.lock().unwrap().clear();
    quiet_point("cleared");
}

/// What the thread-locals below leave behind.
static LEFT: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// Allocates and frees in its drop, in a scope, when the thread's own heap may be gone already.
struct Last(Vec<Block>);

impl Drop for Last {
    fn drop(&mut self) {
        let n = self.0.len();
        let mut left = LEFT.lock().unwrap();
        for i in 0..n {
            let mut block = block_in(5, 500 + i * 100, 8);
            assert!(within(6, || block.realloc(700 + i * 3000)));
            left.push(block);
        }
        self.0.truncate(n / 2);
        left.append(&mut self.0);
    }
}

thread_local! {
    static FIRST: RefCell<Last> = const { RefCell::new(Last(Vec::new())) };
    static SECOND: RefCell<Last> = const { RefCell::new(Last(Vec::new())) };
}

fn thread_locals() {
    turn_on();
    LEFT.lock().unwrap().reserve(10_000);
    let start = quiet_point("start");
    for round in 0..20 {
        let t = thread::spawn(move || {
            // One registers before the thread's first allocation, one behind it.
            FIRST.with_borrow(|_| {});
            let mut blocks: Vec<Block> = (0..20).map(|i| block_in(4, 40 + i * 60, 8)).collect();
            SECOND.with_borrow_mut(|last| last.0.extend(blocks.drain(..10)));
            if round % 2 == 0 {
                FIRST.with_borrow_mut(|last| last.0.append(&mut blocks));
            }
        });
        t.join().unwrap();
        quiet_point("a thread with thread-locals has ended");
    }
    let left = mem::take(&mut *LEFT.lock().unwrap());
    quiet_point("left");
    let room = left.capacity();
    assert!(room >= 10_000);
    drop(left);
    assert_eq!(quiet_point("end").objs() + 1, start.objs());
}

fn first_calls() {
    type First = fn(&mut Vec<Block>);
    const FIRST: [First; 12] = [
        |blocks| assert!(within(2, || blocks[0].realloc(41))),
        |blocks| assert!(within(2, || blocks[0].realloc(44))),
        |blocks| assert!(within(2, || blocks[0].realloc(4000))),
        |blocks| assert!(within(2, || blocks[0].realloc(40_000))),
        |blocks| assert!(within(2, || blocks[1].realloc(41_000))),
        |blocks| assert!(within(2, || blocks[1].realloc(41))),
        |blocks| assert!(blocks[0].realloc(44)),
        |blocks| assert!(blocks[1].realloc(50_000)),
        |blocks| drop(blocks.swap_remove(0)),
        |blocks| drop(blocks.swap_remove(1)),
        |_| {
            codetag::shrink();
        },
        |_| assert_eq!(codetag::Snapshot::take().heap().unaccounted_bytes, 0),
    ];
    turn_on();
    for (i, first) in FIRST.into_iter().enumerate() {
        let before = quiet_point("before").tags[2];
        let mut blocks = vec![block_in(1, 41, 8), block_in(1, 40_000, 8)];
        let changed = thread::spawn(move || {
            first(&mut blocks);
            blocks
        });
        let blocks = changed.join().unwrap();
        let account = quiet_point("one call, and the thread has ended");
        let of_two = u64::from(i < 6);
        assert!(!codetag::is_enabled() || account.tags[2].live_objs == before.live_objs + of_two);
        drop(blocks);
    }
    quiet_point("end");
}

fn realloc_by_others() {
    turn_on();
    let start = quiet_point("start");
    let mut blocks: Vec<Block> = (0..600).map(|i| block_in(1, 1 + i * 40, 8)).collect();
    for round in 0..5 {
        let changed = thread::spawn(move || {
            for (i, block) in blocks.iter_mut().enumerate() {
                if i % 5 != round {
                    let size = (block.size() * (i % 4 + 1)).div_ceil(2).clamp(1, 1 << 20);
                    assert!(within(if i % 2 == 0 { 0 } else { 2 }, || block.realloc(size)));
                }
            }
            blocks
        });
        blocks = changed.join().unwrap();
        quiet_point("reallocated by another");
    }
    let account = quiet_point("by five others");
    let owned = account.tags[1].live_objs + account.tags[2].live_objs;
    assert!(owned == 600 || !codetag::is_enabled(), "{owned}");
    drop(blocks);
    assert_eq!(quiet_point("end").objs(), start.objs());
}

fn older() {
    let older: Vec<Block> = (0..900).map(|i| block_in(1, 1 + i * 20, 8)).collect();
    let (meet, made) = (
        Arc::new(Barrier::new(2)),
        Arc::new(Mutex::new(Vec::with_capacity(900))),
    );
    let (theirs, theirs_made) = (Arc::clone(&meet), Arc::clone(&made));
    let keeper = thread::spawn(move || {
        let blocks = (0..900).map(|i| block_in(2, 1 + i * 20, 8));
        theirs_made.lock().unwrap().extend(blocks);
        theirs.wait();
        theirs.wait();
    });
    meet.wait();
    turn_on();
    let start = quiet_point("on");
    let gone = thread::spawn(|| drop(older));
    gone.join().unwrap();
    let account = quiet_point("main's are gone");
    // Beside the blocks goes their vector.
    assert_eq!(account.untracked_objs + 901, start.untracked_objs);
    drop(made.lock().unwrap().drain(300..));
    let account = quiet_point("two thirds of the other's are gone");
    assert_eq!(account.untracked_objs + 901 + 600, start.untracked_objs);
    turn_off();
    turn_on();
    quiet_point("on again");
    meet.wait();
    keeper.join().unwrap();
    made.lock().unwrap().clear();
    quiet_point("end");
}
