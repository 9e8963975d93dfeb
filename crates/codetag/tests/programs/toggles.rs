//! The switch turned thousands of times while threads allocate, free, reallocate and hand objects to each
//! other, and reports made meanwhile.
//!
//! A thread cannot know whether an allocation that was under way while the switch was turned is tracked;
//! it knows of every other one. So each object is `Sure` to be of a turn, or not, and at each meeting, with
//! all threads parked, the figures must lie between what is sure and what is possible; and once all has been
//! freed, nothing may be left.

use crate::block::{Block, layout};
use crate::figures::{has_tags, owned, quiet, rounds};
use crate::forks::ended;
use crate::runner::{Program, end_at_first_panic};
use codetag::Snapshot;
use std::hint;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Barrier, Mutex};
use std::thread;

pub(crate) fn programs() -> Vec<Program> {
    let mut all = vec![Program::new(
        "an_object_that_lives_throughout_is_in_every_snapshot_once",
        lasting,
    )];
    if has_tags() {
        all.push(Program::new(
            "every_figure_is_right_between_thousands_of_toggles",
            among_toggles,
        ));
    }
    all
}

const THREADS: usize = 4;

/// Rises before and after each turn of the switch: on and still when 2 modulo 4, off and still when 0.
static TURNS: AtomicU64 = AtomicU64::new(0);

/// An object and when it was allocated, or last reallocated.
struct Object {
    block: Block,
    owner: usize,
    /// [`TURNS`] before and after.
    turns: (u64, u64),
}

#[codetag::alloc_tag]
fn zero(size: usize) -> Block {
    block(size)
}

#[codetag::alloc_tag]
fn one(size: usize) -> Block {
    block(size)
}

#[codetag::alloc_tag]
fn two(size: usize) -> Block {
    block(size)
}

#[codetag::alloc_tag]
fn three(size: usize) -> Block {
    block(size)
}

/// A tagged function and its place.
type Owner = (&'static str, fn(usize) -> Block);

const OWNERS: [Owner; THREADS] = [
    ("toggles::zero", zero),
    ("toggles::one", one),
    ("toggles::two", two),
    ("toggles::three", three),
];

fn block(size: usize) -> Block {
    Block::new(layout(size, 8)).unwrap()
}

impl Object {
    fn new(owner: usize, size: usize) -> Self {
        let before = TURNS.load(SeqCst);
        let block = OWNERS[owner].1(size);
        Self {
            block,
            owner,
            turns: (before, TURNS.load(SeqCst)),
        }
    }

    /// Outside every scope: the owner stays.
    fn realloc(&mut self, size: usize) {
        let before = TURNS.load(SeqCst);
        assert!(self.block.realloc(size));
        let after = TURNS.load(SeqCst);
        // Of an object that was not surely tracked the owner is lost, or not.
        let was = self.turns;
        let still_tracked = was.0 == was.1 && was.0 == before && before == after;
        self.turns = if still_tracked { was } else { (0, after) };
    }

    /// Whether it is tracked under its owner at `now`, with the switch on and still: surely, or perhaps.
    fn is_tracked(&self, now: u64) -> (bool, bool) {
        (self.turns.0 == now, self.turns.1 >= now - 1)
    }
}

struct Worker {
    rng: fastrand::Rng,
    owner: usize,
    objects: Vec<Object>,
}

static INBOX: [Mutex<Vec<Object>>; THREADS] = [const { Mutex::new(Vec::new()) }; THREADS];
static OPS: [AtomicU64; THREADS] = [const { AtomicU64::new(0) }; THREADS];
static REPORT: Mutex<()> = Mutex::new(());
static MEET: AtomicBool = AtomicBool::new(false);
static END: AtomicBool = AtomicBool::new(false);

impl Worker {
    fn size(&mut self) -> usize {
        match self.rng.u32(..100) {
            0..70 => self.rng.usize(1..300),
            70..95 => self.rng.usize(1..5000),
            // The class of `LASTING_BYTES` is left alone.
            _ => match self.rng.usize(1..60_000) {
                14_000..17_000 => 17_000,
                size => size,
            },
        }
    }

    fn step(&mut self) {
        let size = self.size();
        match self.rng.u32(..10) {
            0..4 => {
                let object = Object::new(self.owner, size);
                self.objects.push(object);
            }
            4..6 if !self.objects.is_empty() => {
                let i = self.rng.usize(..self.objects.len());
                self.objects[i].realloc(size);
            }
            6..8 if !self.objects.is_empty() => {
                let i = self.rng.usize(..self.objects.len());
                let object = self.objects.swap_remove(i);
                let to = self.rng.usize(..THREADS);
                INBOX[to].lock().unwrap().push(object);
            }
            _ => {
                if let Some(object) = INBOX[self.owner].lock().unwrap().pop() {
                    self.objects.push(object);
                }
                if self.objects.len() > 200 {
                    self.objects.truncate(100);
                }
            }
        }
        OPS[self.owner].fetch_add(1, SeqCst);
    }
}

/// Threads at a meeting, and the main thread.
static PARKED: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

fn work(owner: usize, arrived: &Barrier, leave: &Barrier) {
    let mut worker = Worker {
        rng: fastrand::Rng::with_seed(owner as u64 + 1),
        owner,
        objects: Vec::with_capacity(1000),
    };
    loop {
        while !MEET.load(SeqCst) {
            worker.step();
        }
        PARKED.lock().unwrap().push(worker);
        arrived.wait();
        leave.wait();
        if END.load(SeqCst) {
            return;
        }
        let mut parked = PARKED.lock().unwrap();
        let mine = parked.iter().position(|w| w.owner == owner).unwrap();
        worker = parked.swap_remove(mine);
    }
}

fn turn(on: bool) {
    TURNS.fetch_add(1, SeqCst);
    if on {
        codetag::enable().unwrap();
    } else {
        codetag::disable();
    }
    TURNS.fetch_add(1, SeqCst);
    assert_eq!(codetag::is_enabled(), on);
}

/// Waits until each thread has done that much more.
fn wait_for_ops(n: u64) {
    for ops in &OPS {
        let until = ops.load(SeqCst) + n;
        while ops.load(SeqCst) < until {
            thread::yield_now();
        }
    }
}

/// All threads are parked: compares every figure.
fn meeting(on: bool) {
    let now = TURNS.load(SeqCst);
    let mut parked = PARKED.lock().unwrap();
    let mut inboxes = INBOX.each_ref().map(|i| i.lock().unwrap());
    let s = quiet();
    if !on {
        assert_eq!(s.usages().count(), 0);
        assert_eq!(s.untagged().live_objs, 0);
    }
    for (owner, (place, _)) in OWNERS.iter().enumerate() {
        let (mut sure, mut possible) = ((0, 0), (0, 0));
        let all = parked
            .iter()
            .flat_map(|w| &w.objects)
            .chain(inboxes.iter().flat_map(|i| i.iter()));
        for object in all.filter(|o| on && o.owner == owner) {
            let bytes = object.block.size() as u64;
            let (is_sure, is_possible) = object.is_tracked(now);
            if is_sure {
                sure = (sure.0 + 1, sure.1 + bytes);
            }
            if is_possible {
                possible = (possible.0 + 1, possible.1 + bytes);
            }
        }
        let said = owned(&s, place);
        assert!(
            sure.0 <= said.0 && said.0 <= possible.0,
            "{place}: {sure:?} {said:?} {possible:?}"
        );
        assert!(
            sure.1 <= said.1 && said.1 <= possible.1,
            "{place}: {sure:?} {said:?} {possible:?}"
        );
    }
    drop(s);
    if !on {
        return;
    }
    // Freed, each leaves nothing behind, and takes nobody else's.
    for worker in &mut *parked {
        worker.objects.clear();
    }
    for inbox in &mut inboxes {
        inbox.clear();
    }
    let s = quiet();
    for (place, _) in OWNERS {
        assert_eq!(owned(&s, place), (0, 0), "{place} owns what is gone");
    }
    drop(s);
    // What is allocated now is exact.
    for worker in &mut *parked {
        let owner = worker.owner;
        worker
            .objects
            .extend((0..100).map(|i| Object::new(owner, 1 + i * 37)));
    }
    let s = quiet();
    for (place, _) in OWNERS {
        assert_eq!(
            owned(&s, place),
            (100, (0..100).map(|i| 1 + i * 37).sum()),
            "{place}"
        );
    }
}

fn among_toggles() {
    end_at_first_panic();
    let meetings = rounds(8, 101);
    let turns_between = rounds(101, 1001);
    let (arrived, leave) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    // Three of a size that nobody else asks for.
    let _lasting: [Block; 3] = [(); 3].map(|()| block(LASTING_BYTES));
    let mut on = false;
    thread::scope(|scope| {
        let reporter = scope.spawn(|| {
            let mut n = 0_u64;
            while !END.load(SeqCst) {
                // A report takes a block of the inner allocator's, which a meeting counts.
                let _turn = REPORT.lock().unwrap();
                let s = Snapshot::take();
                assert_plausible(&s);
                n += 1;
            }
            n
        });
        for owner in 0..THREADS {
            let (arrived, leave) = (&arrived, &leave);
            scope.spawn(move || work(owner, arrived, leave));
        }
        for _ in 0..meetings {
            for _ in 0..turns_between {
                on = !on;
                turn(on);
            }
            wait_for_ops(200);
            MEET.store(true, SeqCst);
            arrived.wait();
            let alone = REPORT.lock().unwrap();
            meeting(on);
            drop(alone);
            MEET.store(false, SeqCst);
            leave.wait();
        }
        MEET.store(true, SeqCst);
        arrived.wait();
        END.store(true, SeqCst);
        leave.wait();
        assert!(reporter.join().unwrap() > 0);
    });
    // Meetings while on and while off.
    assert!(turns_between % 2 == 1 && TURNS.load(SeqCst) == 2 * (meetings * turns_between) as u64);
}

const LASTING_BYTES: usize = 15_900;

/// What holds of every snapshot, quiet or not.
fn assert_plausible(s: &Snapshot) {
    const MOST_BYTES: u64 = 1 << 30;
    let lasting: u64 = s
        .classes()
        .filter(|c| c.slot_bytes >= LASTING_BYTES as u64)
        .map(|c| c.live_objs)
        .sum();
    assert_eq!(lasting, 3);
    let heap = s.heap();
    for bytes in [
        heap.obtained_bytes,
        heap.tracked_requested_bytes,
        heap.tracked_waste_bytes,
        heap.untracked_slots_bytes,
        heap.large_objects_bytes,
        s.untracked().slot_bytes,
        s.untagged().live_bytes,
    ] {
        assert!(bytes < MOST_BYTES, "{s:?}");
    }
    for u in s.usages() {
        assert!(
            u.live_objs > 0 && u.live_bytes < MOST_BYTES && u.slot_bytes < MOST_BYTES,
            "{u:?}"
        );
    }
}

#[codetag::alloc_tag]
fn throughout(size: usize) -> Block {
    block(size)
}

/// Slabs are cut, emptied, recut and given back, and chunks with them, while scans run.
fn lasting() {
    static STOP: AtomicBool = AtomicBool::new(false);
    end_at_first_panic();
    crate::figures::enable();
    let lasting: Vec<Block> = [20, 100, 700, 3000, 15_900, 100_000].map(throughout).into();
    let due = (6, lasting.iter().map(|b| b.size() as u64).sum());
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for t in 0..3 {
            threads.push(scope.spawn(move || {
                let mut size = t * 40;
                while !STOP.load(SeqCst) {
                    size = (size + 97) % 16_000;
                    let blocks: Vec<Block> = (0..300).map(|_| block(1 + size)).collect();
                    hint::black_box(&blocks);
                    drop(blocks);
                    codetag::shrink();
                }
            }));
        }
        for _ in 0..rounds(2_000, 50_000) {
            let s = Snapshot::take();
            if has_tags() {
                assert_eq!(owned(&s, "toggles::throughout"), due, "{s:?}");
            }
            assert!(!s.is_quiet() || s.heap().unaccounted_bytes == 0, "{s:?}");
        }
        STOP.store(true, SeqCst);
        ended(threads);
    });
    drop(quiet());
}
