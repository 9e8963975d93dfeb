//! Programs without a fault: they must run as without the feature, and the figures stay exact.

use crate::block::{Block, layout, sum_of};
use crate::figures::{assert_owned, enable, quiet};
use crate::runner::Program;
use std::sync::mpsc;
use std::thread;

pub(crate) fn programs() -> Vec<Program> {
    let program = |name, run| Program {
        name,
        run,
        page: None,
    };
    vec![
        program(
            "random_operations_are_met_with_silence_and_exact_figures",
            random,
        ),
        program(
            "objects_that_other_threads_free_are_met_with_silence",
            handed_over,
        ),
        program(
            "slabs_cut_again_for_other_classes_are_met_with_silence",
            recut,
        ),
        program("reports_say_what_was_requested", requested),
        program("zeroed_objects_are_zero_after_poison", zeroed),
    ]
}

#[codetag::alloc_tag]
fn keep(size: usize, align: usize) -> Block {
    Block::new(layout(size, align)).unwrap()
}

/// Sizes around the border between small and large too.
fn any_size(random: &mut fastrand::Rng) -> usize {
    match random.u32(..10) {
        0..6 => random.usize(1..300),
        6..8 => random.usize(1..5000),
        8 => random.usize(16_000..17_000),
        _ => random.usize(20_000..200_000),
    }
}

fn random() {
    enable();
    let mut random = fastrand::Rng::with_seed(5);
    let mut held: Vec<(Block, usize)> = Vec::with_capacity(300);
    for i in 0..20_000 {
        let at = if held.is_empty() {
            0
        } else {
            random.usize(..held.len())
        };
        match random.u32(..5) {
            0 | 1 if held.len() < 300 => {
                let mut block = keep(any_size(&mut random), 1 << random.u32(..13));
                block.fill(i);
                held.push((block, i));
            }
            2 | 3 if !held.is_empty() => {
                let (block, seed) = &mut held[at];
                let old = block.size();
                codetag::alloc_hooks!(assert!(block.realloc(any_size(&mut random))));
                block.check(*seed, old.min(block.size()));
                block.fill(*seed);
            }
            _ if !held.is_empty() => {
                let (block, seed) = held.swap_remove(at);
                block.check(seed, block.size());
            }
            _ => {}
        }
        if i % 2000 == 0 {
            drop(quiet());
        }
    }
    held.clear();
    assert_owned("clean::keep", 0, 0);
}

fn handed_over() {
    enable();
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let (give, take) = mpsc::channel::<Block>();
            let taker = thread::spawn(move || take.into_iter().map(|b| b.size()).sum::<usize>());
            let giver = thread::spawn(move || {
                for i in 0..5000 {
                    give.send(keep(1 + (i * 37 + t) % 900, 8)).unwrap();
                }
            });
            (giver, taker)
        })
        .collect();
    for (giver, taker) in threads {
        giver.join().unwrap();
        assert!(taker.join().unwrap() > 0);
    }
    assert_owned("clean::keep", 0, 0);
}

fn recut() {
    enable();
    for round in 0..6 {
        for size in [30, 3000, 100, 9000, 700] {
            let mut held: Vec<_> = (0..2000).map(|_| keep(size + round, 8)).collect();
            for (i, block) in held.iter_mut().enumerate() {
                block.fill(i);
            }
            drop(held);
            if round % 2 == 1 {
                codetag::shrink();
            }
        }
    }
    assert_owned("clean::keep", 0, 0);
}

fn requested() {
    enable();
    let held: Vec<_> = [1, 24, 100, 5000, 16_384, 20_000, 1_000_000]
        .into_iter()
        .map(|size| keep(size, 8))
        .collect();
    let (objs, bytes) = sum_of(&held);
    assert_eq!((objs, bytes), (7, 1_041_509));
    assert_owned("clean::keep", objs, bytes);
    drop(held);
    assert_owned("clean::keep", 0, 0);
}

fn zeroed() {
    for size in [1, 50, 3000, 100_000] {
        for _ in 0..20 {
            keep(size, 8).fill(1);
            drop(Block::zeroed(layout(size, 8)));
        }
    }
}
