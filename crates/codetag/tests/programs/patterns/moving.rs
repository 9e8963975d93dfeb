//! Reallocs: in place, moving, across the border to large objects, and who is charged.

use super::{block_in, has_tags, label, owns};
use crate::block::Block;
use crate::check::{quiet_point, turn_off, turn_on};
use crate::inner::INNER;
use crate::labels::within;
use crate::runner::Program;
use crate::slots::slots;
use crate::watch::SMALL_MAX;
use std::sync::atomic::Ordering::SeqCst;

pub(super) fn programs() -> Vec<Program> {
    let mut all = vec![
        Program::new(
            "a_realloc_within_its_slot_stays_and_renews_the_size",
            in_place,
        ),
        Program::new("a_realloc_to_another_slot_moves_with_its_contents", moves),
        Program::new(
            "a_realloc_across_the_border_to_large_objects_is_exact_both_ways",
            border,
        ),
        Program::new("large_objects_grow_and_shrink_exactly", large),
        Program::new(
            "a_realloc_without_memory_changes_no_figure_and_no_byte",
            no_memory,
        ),
    ];
    if has_tags() {
        all.extend([
            Program::new("a_realloc_without_a_scope_keeps_the_owner", keeps_owner),
            Program::new("a_realloc_in_another_scope_is_charged_to_it", changes_owner),
            Program::new(
                "an_untracked_block_that_is_reallocated_becomes_tracked",
                untracked,
            ),
            Program::new("a_realloc_while_off_tracks_nothing", while_off),
        ]);
    }
    all
}

/// Reallocs in the scope of a label, and says whether the block moved.
#[track_caller]
fn realloc_in(label: u8, block: &mut Block, seed: usize, size: usize) -> bool {
    let (at, before) = (block.addr(), block.size());
    assert!(within(label, || block.realloc(size)));
    block.check(seed, before.min(size));
    block.fill(seed);
    block.addr() != at
}

fn in_place() {
    turn_on();
    for &slot in slots().sizes() {
        let mut block = block_in(1, slot, 1);
        block.fill(slot);
        let smaller = slots().sizes().iter().rev().find(|&&s| s <= slot / 2);
        // The smallest size whose own slot is more than half of this one.
        let least = smaller.map_or(1, |s| s + 1);
        for size in [least, slot, least.midpoint(slot), slot - 1, slot] {
            let size = size.max(1);
            assert!(
                !realloc_in(2, &mut block, slot, size),
                "{slot} to {size} moved"
            );
            owns(&quiet_point("in place"), 2, 1, size as u64);
        }
        if let Some(&smaller) = smaller {
            assert!(
                realloc_in(2, &mut block, slot, smaller),
                "{slot} to {smaller} stayed"
            );
            owns(&quiet_point("to a smaller slot"), 2, 1, smaller as u64);
        }
        drop(block);
        owns(&quiet_point("freed"), 2, 0, 0);
    }
}

fn moves() {
    turn_on();
    for shift in [0, 4, 6, 12, 16, 22] {
        let mut block = block_in(1, 1, 1 << shift);
        block.fill(shift);
        let mut i = 0;
        let mut step = |block: &mut Block, size: usize| {
            i += 1;
            realloc_in(label(i), block, shift, size);
            assert_eq!(block.addr() % (1 << shift), 0);
            owns(&quiet_point("moved"), label(i), 1, size as u64);
        };
        for power in 1..=23 {
            for size in [(1 << power) - 1, 1 << power, (1 << power) + 1] {
                step(&mut block, size);
            }
        }
        for power in (0..=23).rev() {
            step(&mut block, (1 << power) + 1);
        }
    }
}

fn border() {
    turn_on();
    for align in [1, 8, 16, 64, 4096, 16_384] {
        let mut block = block_in(3, 100, align);
        block.fill(align);
        for size in [SMALL_MAX + 1, SMALL_MAX, 60_000, 20, SMALL_MAX * 2, 17, 1] {
            let before = block.size();
            let crosses = (before <= SMALL_MAX) != (size <= SMALL_MAX);
            let moved = realloc_in(3, &mut block, align, size);
            assert!(moved || !crosses, "{before} to {size} at {align}");
            let account = quiet_point("across the border");
            owns(&account, 3, 1, size as u64);
        }
    }
    // An alignment beyond a slab's largest slot makes any size a large object.
    let mut block = block_in(4, 50, SMALL_MAX * 2);
    let small = quiet_point("a large object of 50 bytes");
    realloc_in(4, &mut block, 50, 5000);
    let account = quiet_point("a large object of 5,000 bytes");
    assert_eq!(account.large_bytes, small.large_bytes - 50 + 5000);
}

fn large() {
    turn_on();
    let start = quiet_point("start");
    let mut blocks: Vec<Block> = (0..8).map(|i| block_in(label(i), 20_000 + i, 8)).collect();
    let mut size = 20_000;
    for round in 0..40 {
        // Up to 10 MiB, and down again.
        size = if round < 20 {
            size * 137 / 100
        } else {
            size * 100 / 137
        };
        let size = size.clamp(SMALL_MAX + 1, 10 << 20);
        let i = round % 8;
        assert!(within(label(i), || blocks[i].realloc(size)));
        owns(&quiet_point("one more size"), label(i), 1, size as u64);
    }
    drop(blocks);
    assert_eq!(quiet_point("end").large_bytes, start.large_bytes);
}

fn no_memory() {
    turn_on();
    for size in STEPS {
        let mut block = block_in(1, size, 16);
        for target in STEPS.into_iter().chain([SMALL_MAX, SMALL_MAX + 1, 4 << 20]) {
            let before = quiet_point("before");
            let (at, size) = (block.addr(), block.size());
            INNER.fail_every.store(1, SeqCst);
            let done = within(2, || block.realloc(target));
            INNER.fail_every.store(0, SeqCst);
            block.check(size, size.min(target));
            let after = quiet_point("behind");
            if done {
                // The heap had a slot for it.
                assert!(target <= SMALL_MAX);
                owns(&after, 2, 1, target as u64);
                block = block_in(1, size, 16);
                continue;
            }
            assert_eq!((block.addr(), block.size()), (at, size));
            owns(&after, 1, 1, size as u64);
            owns(&after, 2, 0, 0);
            assert_eq!(after.large_bytes, before.large_bytes);
        }
    }
}

/// Sizes of every kind of step: in place, to another slot, to a large object, as a large object,
/// back to a slot.
const STEPS: [usize; 8] = [100, 120, 5000, 20_000, 90_000, 1 << 20, 30_000, 40];

fn keeps_owner() {
    turn_on();
    let mut owned = block_in(2, 97, 1);
    let mut nobodys = block_in(0, 97, 1);
    let before = quiet_point("start").tags[0];
    for size in STEPS {
        for block in [&mut owned, &mut nobodys] {
            realloc_in(0, block, 97, size);
        }
        let account = quiet_point("no scope");
        owns(&account, 2, 1, size as u64);
        owns(
            &account,
            0,
            before.live_objs,
            before.live_bytes - 97 + size as u64,
        );
        // A scope that was left is no scope.
        drop(block_in(5, 1, 1));
    }
}

fn changes_owner() {
    turn_on();
    let mut block = block_in(1, 97, 1);
    for (i, size) in STEPS.into_iter().enumerate() {
        realloc_in(label(i + 1), &mut block, 97, size);
        let account = quiet_point("another scope");
        owns(&account, label(i + 1), 1, size as u64);
        owns(&account, label(i), 0, 0);
        // In the innermost of two, in place.
        within(8, || realloc_in(7, &mut block, 97, size));
        owns(&quiet_point("the innermost"), 7, 1, size as u64);
    }
}

fn untracked() {
    let mut old: Vec<Block> = STEPS.iter().map(|&s| block_in(1, s, 1)).collect();
    let mut more: Vec<Block> = STEPS.iter().map(|&s| block_in(1, s, 1)).collect();
    turn_on();
    let start = quiet_point("all are older");
    owns(&start, 1, 0, 0);
    let mut bytes = 0;
    for i in 0..STEPS.len() {
        // Each to each other's size, so that every pair of kinds occurs with `more` below.
        let (a, b) = (STEPS[(i + 3) % STEPS.len()], STEPS[i]);
        realloc_in(3, &mut old[i], STEPS[i], a);
        realloc_in(0, &mut more[i], STEPS[i], b);
        bytes += a as u64;
        let account = quiet_point("one more is tracked");
        owns(&account, 3, i as u64 + 1, bytes);
        if codetag::is_enabled() {
            assert_eq!(
                account.untracked_objs,
                start.untracked_objs - 2 * (i as u64 + 1)
            );
            assert_eq!(
                account.tags[0].live_objs,
                start.tags[0].live_objs + i as u64 + 1
            );
        }
    }
    drop((old, more));
    owns(&quiet_point("end"), 3, 0, 0);
}

fn while_off() {
    let mut blocks: Vec<Block> = STEPS.iter().map(|&s| block_in(1, s, 1)).collect();
    turn_on();
    blocks.extend(STEPS.iter().map(|&s| block_in(2, s, 1)));
    quiet_point("half are tracked");
    turn_off();
    for (i, block) in blocks.iter_mut().enumerate() {
        let seed = STEPS[i % STEPS.len()];
        realloc_in(3, block, seed, STEPS[(i + 1) % STEPS.len()]);
        quiet_point("off");
    }
    turn_on();
    let account = quiet_point("on again");
    assert_eq!(account.untracked_objs, account.objs());
}
