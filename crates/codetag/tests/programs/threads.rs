//! Threads: the first and the last thing that they do, and who frees what.

use crate::block::{Block, layout};
use crate::figures::{assert_owned, enable, held_bytes, quiet, rounds};
use crate::inner::INNER;
use crate::runner::Program;
use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, JoinHandle};

pub(crate) fn programs() -> Vec<Program> {
    vec![
        Program::new(
            "sixty_four_threads_that_contend_for_new_slabs_get_them",
            contend,
        ),
        Program::new(
            "ten_thousand_threads_of_three_objects_leave_an_exact_sum",
            short_threads,
        ),
        Program::new(
            "objects_freed_by_another_thread_are_used_again",
            freed_elsewhere,
        ),
        Program::new(
            "slabs_of_a_parked_thread_are_released_by_who_empties_them",
            parked_owner,
        ),
        Program::new(
            "what_thirty_two_parked_threads_allocated_is_given_back_when_another_frees_it",
            parked_thirty_two,
        ),
        Program::new("slots_that_threads_left_free_are_used_by_others", left_free),
        Program::new(
            "slots_around_a_survivor_are_used_again_by_the_owner",
            survivors,
        ),
        Program::new(
            "slabs_that_the_owner_empties_last_are_given_back",
            owner_empties_last,
        ),
        Program::new(
            "boxes_count_for_who_allocated_them_until_someone_frees_them",
            freed_by_task_b,
        ),
        Program::new(
            "threads_in_a_ring_hand_objects_on_with_their_contents",
            ring,
        ),
        Program::new(
            "owner_and_others_free_the_last_slots_at_the_same_time",
            last_slots_at_once,
        ),
        Program::new(
            "slabs_change_hands_while_their_last_objects_are_freed",
            hand_over_races,
        ),
    ]
}

/// Joins, so that the thread's thread-locals are gone as well.
pub(crate) fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

#[codetag::alloc_tag]
fn spread(seed: usize) -> Vec<Block> {
    // One of each size takes a new slab for each class; some sizes take several.
    let sizes = (1..=64)
        .map(|i| i * 256)
        .chain([4096; 48])
        .chain([16; 5000]);
    sizes
        .map(|size| {
            let mut block = Block::new(layout(size, 8)).unwrap();
            block.fill(seed + size);
            block
        })
        .collect()
}

fn contend() {
    const THREADS: usize = 64;
    enable();
    let start = Arc::new(Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|t| {
            let start = Arc::clone(&start);
            thread::spawn(move || {
                start.wait();
                spread(t)
            })
        })
        .collect();
    let held = join(threads);
    let bytes: usize = (1..=64).map(|i| i * 256).sum::<usize>() + 48 * 4096 + 5000 * 16;
    let per_vec: usize = held.iter().map(|v| v.capacity() * size_of::<Block>()).sum();
    let objs = THREADS as u64 * (64 + 48 + 5000 + 1);
    assert_owned("threads::spread", objs, (THREADS * bytes + per_vec) as u64);
    for (t, blocks) in held.iter().enumerate() {
        blocks.iter().for_each(|b| b.check(t + b.size(), b.size()));
    }
    drop(held);
    assert_owned("threads::spread", 0, 0);
}

#[codetag::alloc_tag]
fn three(i: usize) -> [Box<[u8]>; 3] {
    [1 + i % 100, 200, 3000].map(|n| vec![i as u8; n].into_boxed_slice())
}

fn short_threads() {
    const THREADS: usize = 10_000;
    enable();
    let before = quiet().untagged();
    let mut outlive = Vec::with_capacity(THREADS);
    for first in (0..THREADS).step_by(16) {
        let some: Vec<_> = (first..first + 16)
            .map(|i| {
                thread::spawn(move || {
                    let [small, middle, large] = three(i);
                    black_box((small, middle));
                    large
                })
            })
            .collect();
        outlive.extend(join(some));
    }
    assert_owned("threads::three", THREADS as u64, 3000 * THREADS as u64);
    let untagged = quiet().untagged();
    let of_the_list = u64::from(crate::figures::has_tags());
    assert_eq!(
        untagged.live_objs,
        before.live_objs + of_the_list,
        "threads left something behind"
    );

    assert!(
        outlive
            .iter()
            .enumerate()
            .all(|(i, b)| b.iter().all(|&x| x == i as u8))
    );
    drop(outlive);
    assert_owned("threads::three", 0, 0);
    codetag::shrink();
    let held = held_bytes();
    assert!(held <= 1 << 20, "{held} B are held for nothing");
}

#[codetag::alloc_tag]
fn batch(i: usize) -> Vec<Box<[u8]>> {
    (0..1000)
        .map(|k| vec![i as u8; 8 + (i * 7 + k) % 505].into_boxed_slice())
        .collect()
}

fn freed_elsewhere() {
    let batches = rounds(1_000, 100_000);
    enable();
    let (send, receive) = sync_channel::<Vec<Box<[u8]>>>(2);
    let other = thread::spawn(move || receive.into_iter().map(|b| b.len()).sum::<usize>());
    let mut most = [0; 2];
    for i in 0..batches {
        send.send(batch(i)).unwrap();
        let half = &mut most[2 * i / batches];
        *half = INNER.bytes_out.load(SeqCst).max(*half);
    }
    drop(send);
    assert_eq!(join([other]), [1000 * batches]);
    assert!(
        most[1] <= most[0] + (1 << 20),
        "{most:?} bytes obtained at most, by halves"
    );
    assert_owned("threads::batch", 0, 0);
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

/// Frees on another thread.
fn drop_elsewhere<T: Send + 'static>(what: T) {
    join([thread::spawn(move || drop(what))]);
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
    assert_owned("threads::of_many_classes", 0, 0);
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
    assert_owned("threads::chain", objs, objs * OBJ_BYTES as u64);
    drop_elsewhere(Chains(chains));
    assert_owned("threads::chain", 0, 0);
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

#[codetag::alloc_tag]
fn of_100(n: usize) -> Vec<Box<[u8]>> {
    (0..n).map(|i| Box::from([i as u8; 100])).collect()
}

fn left_free() {
    const OBJS: usize = 100_000;
    enable();
    let owner = thread::spawn(|| {
        let mut blocks = of_100(OBJS);
        // Every other one stays, in slabs that are half free when the thread ends.
        let mut i = 0;
        blocks.retain(|_| {
            i += 1;
            i % 2 == 0
        });
        blocks
    });
    let [left] = <[_; 1]>::try_from(join([owner])).unwrap();
    let obtained = quiet().heap().obtained_bytes;
    let mine = of_100(OBJS / 2);
    let grown = quiet().heap().obtained_bytes - obtained;
    // The list itself, and no slab.
    let list = (mine.capacity() * size_of::<Box<[u8]>>()) as u64;
    assert!(grown <= list, "{grown} B were obtained beside free slots");
    assert!(
        left.iter()
            .chain(&mine)
            .all(|b| b.iter().all(|&x| x == b[0]))
    );
    let lists = ((left.capacity() + mine.capacity()) * size_of::<Box<[u8]>>()) as u64;
    assert_owned(
        "threads::of_100",
        OBJS as u64 + 2,
        100 * OBJS as u64 + lists,
    );
}

fn survivors() {
    const OBJS: usize = 100_000;
    enable();
    let mut survivors = Vec::new();
    let mut obtained = Vec::new();
    for round in 0..10 {
        let mut blocks = of_100(OBJS - survivors.len());
        if round == 0 {
            // At least one in each slab.
            for i in (0..OBJS / 300).rev() {
                survivors.push(blocks.swap_remove(i * 300));
            }
        }
        obtained.push(quiet().heap().obtained_bytes);
        drop_elsewhere(blocks);
    }
    let (first, last) = (obtained[0], obtained[9]);
    assert!(last <= first + (1 << 20), "obtained by round: {obtained:?}");
    assert!(survivors.iter().all(|b| b.iter().all(|&x| x == b[0])));
    assert_owned(
        "threads::of_100",
        (OBJS / 300) as u64,
        (OBJS / 300) as u64 * 100,
    );
}

fn owner_empties_last() {
    enable();
    let mut mine = Vec::new();
    let mut others = Vec::new();
    for (i, block) in of_100(100_000).into_iter().enumerate() {
        // Two neighbours in each 200: at least two in each slab.
        if i % 200 < 2 {
            mine.push(block);
        } else {
            others.push(block);
        };
    }
    drop_elsewhere(others);
    drop(mine);
    assert_owned("threads::of_100", 0, 0);
    let slabs = quiet()
        .classes()
        .find(|c| c.slot_bytes == 104)
        .map_or(0, |c| c.slabs);
    // The current one, and one to spare.
    assert!(
        slabs <= 2,
        "{slabs} empty slabs are still cut for the class"
    );
}

#[codetag::alloc_tag]
fn task_a(i: usize) -> Box<usize> {
    Box::new(i)
}

#[codetag::alloc_tag]
fn task_b(boxes: &Receiver<Box<usize>>) -> Vec<Box<[usize]>> {
    // Frees nine of ten and keeps boxes of its own.
    boxes
        .iter()
        .filter(|i| **i % 10 == 0)
        .map(|i| Box::from([*i + 1]))
        .collect()
}

#[codetag::alloc_tag]
fn for_ever() -> Box<[u8]> {
    vec![7; 777].into_boxed_slice()
}

static NOBODY_FREES: Mutex<Option<Box<[u8]>>> = Mutex::new(None);

fn freed_by_task_b() {
    let n = rounds(100_000, 1_000_000);
    enable();
    let (send, receive) = channel();
    let b = thread::spawn(move || task_b(&receive));
    for i in 0..n {
        send.send(task_a(i)).unwrap();
    }
    *NOBODY_FREES.lock().unwrap() = Some(for_ever());
    drop(send);
    let [kept] = <[_; 1]>::try_from(join([b])).unwrap();
    assert_eq!(kept.len(), n / 10);
    assert_owned("threads::task_a", 0, 0);
    let list = (kept.capacity() * size_of::<Box<[usize]>>()) as u64;
    assert_owned(
        "threads::task_b",
        n as u64 / 10 + 1,
        n as u64 / 10 * 8 + list,
    );
    assert_owned("threads::for_ever", 1, 777);
    drop(kept);
    assert_owned("threads::task_b", 0, 0);
}

#[codetag::alloc_tag]
fn ring_block(seed: usize) -> (usize, Block) {
    let size = if seed.is_multiple_of(200) {
        20_000 + seed % 5000
    } else {
        1 + seed % 1500
    };
    let mut block = Block::new(layout(size, 8 << (seed % 4))).unwrap();
    block.fill(seed);
    (seed, block)
}

/// Each thread replaces, grows and checks blocks of the set that it holds, and hands the set on.
fn ring() {
    const THREADS: usize = 8;
    const SET: usize = 200;
    let laps = rounds(40, 1000);
    enable();
    let (mut sends, receives): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel::<Vec<_>>()).unzip();
    for (t, send) in sends.iter().enumerate() {
        send.send((0..SET).map(|i| ring_block(t * SET + i)).collect())
            .unwrap();
    }
    sends.rotate_left(1);
    let threads: Vec<_> = sends
        .into_iter()
        .zip(receives)
        .enumerate()
        .map(|(t, (next, mine))| {
            thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(t as u64);
                for _ in 1..laps {
                    let mut set = mine.recv().unwrap();
                    for _ in 0..SET {
                        let (seed, block) = &mut set[random.usize(..SET)];
                        block.check(*seed, block.size());
                        if random.u8(..) < 32 {
                            let (old, size) = (block.size(), 1 + random.usize(..3000));
                            assert!(block.realloc(size));
                            block.check(*seed, old.min(size));
                            block.fill(*seed);
                        } else {
                            (*seed, *block) = ring_block(random.usize(..1 << 20));
                        }
                    }
                    next.send(set).unwrap();
                }
                mine.recv().unwrap()
            })
        })
        .collect();
    let sets = join(threads);
    let bytes = sets.iter().flatten().map(|(_, b)| b.size() as u64).sum();
    sets.iter()
        .flatten()
        .for_each(|(seed, b)| b.check(*seed, b.size()));
    assert_owned("threads::ring_block", (THREADS * SET) as u64, bytes);
    drop(sets);
    assert_owned("threads::ring_block", 0, 0);
}

#[codetag::alloc_tag]
fn quarter_slab() -> Block {
    // Four of these fill a slab.
    Block::new(layout(16_384, 8)).unwrap()
}

/// Slabs of four slots: three go to another thread, which frees them while the owner frees the
/// fourth and a third thread cuts slabs from what is released.
fn last_slots_at_once() {
    let slabs = rounds(20_000, 2_000_000);
    enable();
    let (send, receive) = sync_channel::<[Block; 3]>(8);
    let other = thread::spawn(move || receive.into_iter().for_each(drop));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let cutter = thread::spawn(move || {
        while !stopped.load(SeqCst) {
            // More slabs than a thread keeps when they are empty.
            let mut blocks: Vec<_> = (0..60).map(|_| quarter_slab()).collect();
            blocks.iter_mut().enumerate().for_each(|(i, b)| b.fill(i));
            blocks
                .iter()
                .enumerate()
                .for_each(|(i, b)| b.check(i, 16_384));
        }
    });
    let mut full: Option<[Block; 4]> = None;
    for i in 0..slabs {
        let mut blocks: [_; 4] = std::array::from_fn(|_| quarter_slab());
        blocks.iter_mut().for_each(|b| b.fill(i));
        // The slab before is on no list now.
        if let Some([last, a, b, c]) = full.replace(blocks) {
            [&last, &a, &b, &c]
                .iter()
                .for_each(|block| block.check(i - 1, 16_384));
            send.send([a, b, c]).unwrap();
            drop(last);
        }
    }
    drop(full);
    drop(send);
    stop.store(true, SeqCst);
    join([other, cutter]);
    assert_owned("threads::quarter_slab", 0, 0);
    let s = quiet();
    let class = s.classes().find(|c| c.slot_bytes == 16_384);
    assert!(
        class.is_none_or(|c| c.live_objs == 0 && c.slabs <= 8),
        "{class:?}"
    );
}

/// Threads that end while others free the last objects of their slabs.
fn hand_over_races() {
    let threads = rounds(2_000, 100_000);
    enable();
    let (send, receive) = sync_channel::<Block>(16);
    let receive = Arc::new(Mutex::new(receive));
    let droppers: Vec<_> = (0..2)
        .map(|_| {
            let receive = Arc::clone(&receive);
            thread::spawn(move || {
                while let Ok(block) = { receive.lock().unwrap().recv() } {
                    block.check(1, block.size());
                }
            })
        })
        .collect();
    for i in 0..threads {
        let send = send.clone();
        let owner = thread::spawn(move || {
            for _ in 0..1 + i % 7 {
                let mut block = quarter_slab();
                block.fill(1);
                send.send(block).unwrap();
            }
        });
        join([owner]);
    }
    drop(send);
    join(droppers);
    assert_owned("threads::quarter_slab", 0, 0);
    codetag::shrink();
    let slabs: u64 = quiet()
        .classes()
        .filter(|c| c.slot_bytes == 16_384)
        .map(|c| c.slabs)
        .sum();
    assert_eq!(slabs, 0, "slabs were lost");
}
