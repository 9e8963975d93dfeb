//! Inner allocators that fail or reuse at once, layouts at the edges, and what must come of them.

use crate::block::{Block, layout, sum_of};
use crate::figures::{all_figures, assert_owned, enable, has_tags, owned, quiet, rounds};
use crate::inner::INNER;
use crate::runner::Program;
use crate::threads::join;
use codetag::Snapshot;
use std::alloc::Layout;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

pub(crate) fn programs() -> Vec<Program> {
    vec![
        Program::new(
            "null_at_every_nth_call_reaches_the_caller_and_figures_stay_exact",
            null_at_every_nth,
        ),
        Program::new(
            "page_ext_is_exact_over_an_inner_allocator_that_reuses_at_once",
            reuses_at_once,
        ),
        Program::new(
            "a_large_object_leaves_page_ext_before_the_inner_allocator_has_it",
            leaves_first,
        ),
        Program::new(
            "try_reserve_of_half_the_address_space_is_an_error",
            impossible_reserve,
        ),
        Program::new(
            "realloc_to_null_leaves_the_old_block_and_the_figures",
            realloc_to_null,
        ),
        Program::new(
            "bytes_in_recycled_memory_do_not_show_as_tags",
            recycled_memory,
        ),
    ]
}

#[codetag::alloc_tag]
fn first_tag(layout: Layout) -> Option<Block> {
    Block::new(layout)
}

#[codetag::alloc_tag]
fn second_tag(layout: Layout) -> Option<Block> {
    Block::zeroed(layout)
}

/// What one run got, and what it was refused.
#[derive(Default)]
struct Run {
    first: Vec<Block>,
    second: Vec<Block>,
    refused: u64,
}

impl Run {
    fn with_room() -> Self {
        Self {
            first: Vec::with_capacity(4000),
            second: Vec::with_capacity(4000),
            refused: 0,
        }
    }

    /// Small and large, zeroed, grown in place, moved, and across the border both ways.
    fn work(&mut self, salt: usize) {
        for i in 0..300 {
            let size = [64, 700, 16_384, 20_000, 30_000, 8, 16_384, 17_000, 13_000][i % 9]
                + (i % 2) * salt;
            match first_tag(layout(size, 8 << (i % 3))) {
                Some(mut block) => {
                    block.fill(i);
                    if i % 10 == 1 {
                        self.grow(&mut block, i);
                    }
                    self.first.push(block);
                }
                None => self.refused += 1,
            }
            match second_tag(layout(size + 1, 16)) {
                Some(block) => self.second.push(block),
                None => self.refused += 1,
            }
            if i % 5 == 4 {
                self.second.pop();
            }
        }
    }

    fn grow(&mut self, block: &mut Block, seed: usize) {
        for size in [block.size() + 3, 3 * block.size(), 20_000, 40_000, 300] {
            let (old, at) = (block.size(), block.addr());
            if block.realloc(size) {
                block.check(seed, old.min(size));
            } else {
                self.refused += 1;
                assert_eq!((block.size(), block.addr()), (old, at));
                block.check(seed, old);
            }
            block.fill(seed);
        }
    }
}

/// Threads that are not std's: their start does not need the memory that is refused.
fn on_raw_thread(run: &mut Run) -> libc::pthread_t {
    extern "C" fn work(run: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the starter waits for this thread and leaves the run alone meanwhile.
        unsafe { &mut *run.cast::<Run>() }.work(1);
        ptr::null_mut()
    }
    let mut thread = 0;
    // SAFETY: the run outlives the thread, which the caller joins.
    let status = unsafe {
        libc::pthread_create(
            &raw mut thread,
            ptr::null(),
            work,
            ptr::from_mut(run).cast(),
        )
    };
    assert_eq!(status, 0);
    thread
}

fn null_at_every_nth() {
    enable();
    for n in 1..=200 {
        let mut runs = [Run::with_room(), Run::with_room(), Run::with_room()];
        let asked = INNER.asked.load(SeqCst);
        INNER.failed.store(0, SeqCst);
        INNER.towards_failure.store(0, SeqCst);
        INNER.fail_every.store(n, SeqCst);
        {
            let [own, a, b] = &mut runs;
            let threads = [on_raw_thread(a), on_raw_thread(b)];
            own.work(2);
            for thread in threads {
                // SAFETY: started above, joined once.
                assert_eq!(unsafe { libc::pthread_join(thread, ptr::null_mut()) }, 0);
            }
        }
        INNER.fail_every.store(0, SeqCst);
        let asked = INNER.asked.load(SeqCst) - asked;
        assert_eq!(
            INNER.failed.load(SeqCst),
            asked / n,
            "of {asked} calls, each {n}th"
        );
        assert!(asked >= 400, "{asked} calls are too few for two failures");

        let refused: u64 = runs.iter().map(|r| r.refused).sum();
        assert!(
            refused > 0 && (n > 1 || refused >= asked),
            "{refused} of {asked} refused at {n}"
        );
        let sum = |of: fn(&Run) -> &[Block]| {
            runs.iter()
                .map(|r| sum_of(of(r)))
                .fold((0, 0), |(o, b), (o2, b2)| (o + o2, b + b2))
        };
        let (first, second) = (sum(|r| &r.first), sum(|r| &r.second));
        assert_owned("faults::first_tag", first.0, first.1);
        assert_owned("faults::second_tag", second.0, second.1);
        drop(runs);
        assert_owned("faults::first_tag", 0, 0);
        assert_owned("faults::second_tag", 0, 0);
        // The next run must ask for its chunks again.
        codetag::shrink();
    }
}

#[codetag::alloc_tag]
fn by_left(layout: Layout) -> Option<Block> {
    Block::new(layout)
}

#[codetag::alloc_tag]
fn by_right(layout: Layout) -> Option<Block> {
    Block::new(layout)
}

#[codetag::alloc_tag]
fn grown_by_left(block: &mut Block, size: usize) {
    assert!(block.realloc(size));
}

#[codetag::alloc_tag]
fn grown_by_right(block: &mut Block, size: usize) {
    assert!(block.realloc(size));
}

type Get = fn(Layout) -> Option<Block>;
type Grow = fn(&mut Block, usize);

/// A thread's large objects, and which of its two tags each belongs to.
struct Large {
    get: Get,
    grow: Grow,
    held: Vec<(Block, bool)>,
}

impl Large {
    fn churn(&mut self, random: &mut fastrand::Rng, operations: usize) {
        // Few layouts, so that each thread gets what the other has just freed.
        let size = |r: &mut fastrand::Rng| [20_000, 30_000][r.usize(..2)];
        for _ in 0..operations {
            match random.u8(..4) {
                0 | 1 if self.held.len() < 16 => {
                    let block = (self.get)(layout(size(random), 16)).unwrap();
                    self.held.push((block, false));
                }
                2 if !self.held.is_empty() => {
                    let i = random.usize(..self.held.len());
                    let (block, is_grown) = &mut self.held[i];
                    (self.grow)(block, size(random));
                    *is_grown = true;
                }
                _ if !self.held.is_empty() => {
                    drop(self.held.swap_remove(random.usize(..self.held.len())));
                }
                _ => {}
            }
        }
    }

    fn live(&self, grown: bool) -> (u64, u64) {
        let blocks = self.held.iter().filter(|&&(_, g)| g == grown);
        blocks.fold((0, 0), |(objs, bytes), (b, _)| {
            (objs + 1, bytes + b.size() as u64)
        })
    }
}

fn reuses_at_once() {
    let operations = rounds(50_000, 500_000);
    enable();
    INNER.reuses.store(true, SeqCst);
    let start = Arc::new(Barrier::new(2));
    let kinds: [(Get, Grow); 2] = [(by_left, grown_by_left), (by_right, grown_by_right)];
    let mut sides = kinds.map(|(get, grow)| Large {
        get,
        grow,
        held: Vec::with_capacity(16),
    });
    for round in 0..50 {
        let threads = sides.into_iter().enumerate().map(|(t, mut side)| {
            let start = Arc::clone(&start);
            thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(2 * round + t as u64);
                start.wait();
                side.churn(&mut random, operations / 50);
                side
            })
        });
        let threads: Vec<_> = threads.collect();
        let done = join(threads).try_into();
        sides = done.unwrap_or_else(|_| unreachable!());
        let s = quiet();
        if has_tags() {
            let [left, right] = &sides;
            assert_eq!(owned(&s, "faults::by_left"), left.live(false));
            assert_eq!(owned(&s, "faults::grown_by_left"), left.live(true));
            assert_eq!(owned(&s, "faults::by_right"), right.live(false));
            assert_eq!(owned(&s, "faults::grown_by_right"), right.live(true));
        }
    }
    drop(sides);
    assert_eq!(quiet().heap().large_objs, 0);
}

/// How many objects of `first_tag` were there at each look.
static SEEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn leaves_first() {
    enable();
    SEEN.lock().unwrap().reserve(10);
    let look = || {
        SEEN.lock()
            .unwrap()
            .push(owned(&Snapshot::take(), "faults::first_tag").0);
    };
    INNER.before_large_goes.set(look).unwrap();
    let _other = first_tag(layout(20_000, 8)).unwrap();
    let mut block = first_tag(layout(200_000, 8)).unwrap();
    assert!(block.realloc(300_000));
    // The look takes a block of its own if there are tags; the next one is refused.
    INNER.towards_failure.store(0, SeqCst);
    INNER.fail_every.store(1 + u64::from(has_tags()), SeqCst);
    let grown = block.realloc(400_000);
    INNER.fail_every.store(0, SeqCst);
    assert!(!grown);
    // It is back after that, with its owner.
    assert_owned("faults::first_tag", 2, 320_000);
    drop(block);
    assert_owned("faults::first_tag", 1, 20_000);
    let seen = SEEN.lock().unwrap();
    assert_eq!(*seen, if has_tags() { [1; 3] } else { [0; 3] });
}

fn impossible_reserve() {
    enable();
    let (mut empty, mut hundred) = (Vec::<u8>::new(), vec![7_u8; 100]);
    let before = all_figures();
    assert!(empty.try_reserve(isize::MAX as usize / 2).is_err());
    assert!(empty.try_reserve_exact(isize::MAX as usize).is_err());
    assert!(hundred.try_reserve(isize::MAX as usize / 2).is_err());
    assert!(Block::new(layout(isize::MAX as usize - 4095, 4096)).is_none());
    assert!(Block::zeroed(layout(1 << 62, 1 << 62)).is_none());
    assert_eq!(all_figures(), before);
    assert_eq!((empty.capacity(), hundred), (0, vec![7; 100]));
}

fn realloc_to_null() {
    enable();
    let mut blocks: Vec<_> = [
        (100, 8),
        (4096, 4096),
        (16_384, 8),
        (50_000, 8),
        (20_000, 65_536),
    ]
    .map(|(size, align)| first_tag(layout(size, align)).unwrap())
    .into();
    blocks.iter_mut().enumerate().for_each(|(i, b)| b.fill(i));
    let live = sum_of(&blocks);
    // Takes every free slab, and then every slot of the larger classes.
    let mut fill = Vec::with_capacity(100_000);
    INNER.fail_every.store(1, SeqCst);
    for size in [16_384, 8_192, 5_000, 4_096, 700, 104] {
        while let Some(block) = second_tag(layout(size, 8)) {
            fill.push(block);
        }
    }
    // Not in place, whatever the way: within the slabs, within the large objects, between them. A
    // panic would need memory, so all are tried before one is judged.
    #[rustfmt::skip]
    let moves = [
        (0, 700), (0, 5_000), (0, 17_000), (1, 9_000), (1, 17_000), (2, 700), (2, 17_000),
        (3, 60_000), (3, 700), (3, 15_000), (4, 1 << 20), (4, 700),
    ];
    let mut refused = [true; 12];
    for (refused, (i, size)) in refused.iter_mut().zip(moves) {
        let block: &mut Block = &mut blocks[i];
        let was = (block.addr(), block.size());
        *refused = !block.realloc(size) && (block.addr(), block.size()) == was;
    }
    INNER.fail_every.store(0, SeqCst);
    assert_eq!(refused, [true; 12], "{moves:?}");
    blocks
        .iter()
        .enumerate()
        .for_each(|(i, b)| b.check(i, b.size()));
    assert_owned("faults::first_tag", live.0, live.1);
    let held = sum_of(&fill);
    assert_owned("faults::second_tag", held.0, held.1);
    for (i, block) in blocks.iter_mut().enumerate() {
        let old = block.size();
        assert!(block.realloc(2 * old));
        block.check(i, old);
    }
    let live = sum_of(&blocks);
    assert_owned("faults::first_tag", live.0, live.1);
}

fn recycled_memory() {
    INNER.poisons.store(true, SeqCst);
    let sizes = [8, 16, 40, 104, 500, 1000, 1024, 4096, 16_384];
    let all = |tag: fn(Layout) -> Option<Block>| -> Vec<Block> {
        (0..9000)
            .map(|i| tag(layout(sizes[i % 9], 8)).unwrap())
            .collect()
    };
    for round in 0..3 {
        // The bytes of a tag ref of some size, in every slot and vector.
        let mut used = all(first_tag);
        // SAFETY: all of a block is ours.
        used.iter_mut().for_each(|b| unsafe {
            ptr::with_exposed_provenance_mut::<u8>(b.addr()).write_bytes(0xa5, b.size());
        });
        drop(used);
        if round == 1 {
            // From here on the chunks are new ones, full of the same bytes.
            codetag::shrink();
        }
        let held = all(second_tag);
        enable();
        assert_owned("faults::second_tag", 0, 0);
        assert_owned("faults::first_tag", 0, 0);
        assert!(quiet().untracked().live_objs >= 9000);
        let tracked = all(second_tag);
        let live = sum_of(&tracked);
        assert_owned("faults::second_tag", live.0, live.1);
        drop((held, tracked));
        assert_owned("faults::second_tag", 0, 0);
        codetag::disable();
        assert_eq!(quiet().usages().count(), 0);
    }
}
