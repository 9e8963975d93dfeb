//! Threads that are parked while others free what they allocated: nothing waits for them to run.

use crate::block::{Block, layout};
use crate::figures::{assert_owned, enable, held_bytes, quiet, rounds};
use crate::runner::Program;
use crate::threads::{drop_elsewhere, join};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, JoinHandle};

pub(crate) fn programs() -> Vec<Program> {
    vec![
        Program::new(
            "slabs_of_a_parked_thread_are_released_by_who_empties_them",
            parked_owner,
        ),
        Program::new(
            "what_thirty_two_parked_threads_allocated_is_given_back_when_another_frees_it",
            parked_thirty_two,
        ),
    ]
}

#[codetag::alloc_tag]
fn of_many_classes(each: usize) -> Vec<Block> {
    let sizes = [16, 48, 200, 1024, 4096, 16384];
    (0..each * sizes.len())
        .map(|i| Block::new(layout(sizes[i % 6], 8)).unwrap())
        .collect()
}

/// A thread that stays where it is until [`Parked::leave`].
struct Parked {
    thread: JoinHandle<()>,
    gate: Arc<Barrier>,
}

impl Parked {
    /// Runs `work` on the thread, and gives out what it made.
    fn after<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (Self, T) {
        // A barrier allocates nothing when it is waited for.
        let gate = Arc::new(Barrier::new(2));
        let made = Arc::new(Mutex::new(None));
        let (its_gate, its_made) = (Arc::clone(&gate), Arc::clone(&made));
        let thread = thread::spawn(move || {
            *its_made.lock().unwrap() = Some(work());
            its_gate.wait();
            its_gate.wait();
        });
        gate.wait();
        let made = made.lock().unwrap().take().unwrap();
        (Self { thread, gate }, made)
    }

    fn leave(self) {
        self.gate.wait();
        join([self.thread]);
    }
}

/// What two threads may keep, one of them parked: caches, and a slab for each class that was used.
const TWO_THREADS_KEEP_BYTES: u64 = (1 << 20) + 2 * (256 << 10) + (6 + 8) * (64 << 10);

fn parked_owner() {
    enable();
    let (parked, blocks) = Parked::after(|| of_many_classes(2000));
    let full = held_bytes();
    assert!(full > 40 << 20, "{full}");
    // Backwards through half of them, forwards through the others.
    let (mut first, second): (Vec<_>, Vec<_>) = blocks
        .into_iter()
        .enumerate()
        .partition(|(i, _)| i / 60 % 2 == 0);
    while first.pop().is_some() {}
    drop((first, second));
    assert_owned("parked::of_many_classes", 0, 0);
    // Nobody else had to run for that: the parked thread and this one keep a slab each.
    for class in quiet().classes() {
        assert!(
            class.slabs <= 2,
            "slabs of {} bytes still cut: {}",
            class.slot_bytes,
            class.slabs
        );
    }
    codetag::shrink();
    let held = held_bytes();
    assert!(
        held <= TWO_THREADS_KEEP_BYTES,
        "{held} B are held for nothing"
    );
    parked.leave();
}

/// A list of objects of 64 bytes.
struct Node {
    next: Option<Box<Node>>,
    _rest: [u64; 7],
}

#[codetag::alloc_tag]
fn chain(n: usize) -> Option<Box<Node>> {
    let mut first = None;
    for i in 0..n as u64 {
        first = Some(Box::new(Node {
            next: first,
            _rest: [i; 7],
        }));
    }
    first
}

fn drop_chain(mut first: Option<Box<Node>>) {
    while let Some(node) = first {
        first = node.next;
    }
}

/// Bytes of this process that are in memory; none where the system does not say.
fn resident_bytes() -> Option<u64> {
    let said = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = said.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

fn parked_thirty_two() {
    const THREADS: usize = 32;
    const OBJ_BYTES: usize = size_of::<Node>();
    const { assert!(OBJ_BYTES == 64) };
    let each = rounds(2 << 20, 32 << 20) / OBJ_BYTES;
    enable();
    let before = resident_bytes();
    let mut parked = Vec::new();
    let mut chains = Vec::new();
    for _ in 0..THREADS {
        let (thread, chain) = Parked::after(move || chain(each));
        parked.push(thread);
        chains.push(chain);
    }
    let objs = (THREADS * each) as u64;
    assert_owned("parked::chain", objs, objs * OBJ_BYTES as u64);
    drop_elsewhere(Chains(chains));
    assert_owned("parked::chain", 0, 0);
    codetag::shrink();
    // A thread keeps its caches and its current slab of each class that it used.
    let slabs: u64 = quiet().classes().map(|c| c.slabs).sum();
    let due = (1 << 20) + (THREADS as u64 + 1) * (256 << 10) + slabs * (64 << 10);
    let held = held_bytes();
    assert!(
        held <= due,
        "{held} B are held for nothing, at most {due} are due"
    );
    let of_its_class = quiet()
        .classes()
        .find(|c| c.slot_bytes == 64)
        .map_or(0, |c| c.slabs);
    assert!(of_its_class <= THREADS as u64 + 1, "{of_its_class} slabs");
    if let (true, Some(before), Some(now)) = (cfg!(not(codetag_portable)), before, resident_bytes())
    {
        let grown = now.saturating_sub(before);
        // Beside the heap: the stacks and the heaps of the threads, and pages of the tests themselves.
        let others = THREADS as u64 * (64 << 10) + (4 << 20);
        assert!(
            grown <= held + others,
            "{grown} B more in memory, {held} B held"
        );
    }
    parked.into_iter().for_each(Parked::leave);
}

/// Lists, dropped one object after the other.
struct Chains(Vec<Option<Box<Node>>>);

impl Drop for Chains {
    fn drop(&mut self) {
        self.0.drain(..).for_each(drop_chain);
    }
}
