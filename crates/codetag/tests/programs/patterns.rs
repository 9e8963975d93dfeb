//! Known patterns, and the exact figures that they must give.
//!
//! Every block of the process is in the account of `watch`; `quiet_point` compares each figure of a
//! snapshot with it. Where a test names figures of its own beside, they are what a reader would
//! compute by hand.

mod moving;
mod random;
mod threads;

use crate::block::{Block, layout};
use crate::check::{Account, quiet_point, turn_off, turn_on};
use crate::labels::{LABELS, within};
use crate::page::quiet_texts;
use crate::runner::Program;
use crate::slots::slots;
use crate::watch;
use codetag::{Snapshot, StateKind};
use std::alloc::GlobalAlloc;
use std::panic;

pub(crate) fn programs() -> Vec<Program> {
    let mut all = vec![
        Program::new(
            "slots_lie_as_far_apart_as_the_documented_spacing_says",
            spacing,
        ),
        Program::new(
            "before_the_first_enable_everything_is_untracked",
            before_enable,
        ),
        Program::new(
            "sizes_from_1_byte_to_10_mib_at_alignments_to_4_mib_are_exact",
            sizes,
        ),
        Program::new("zeroed_blocks_are_zero_and_counted_like_others", zeroed),
        Program::new("zero_sizes_are_never_counted", zero_sizes),
        Program::new(
            "shrink_gives_back_what_is_empty_and_every_line_still_adds_up",
            shrinking,
        ),
        Program::new("the_printed_page_and_list_say_what_the_account_says", texts),
        Program::new("an_ordinary_program_with_collections_is_exact", ordinary),
    ];
    if has_tags() {
        all.extend([
            Program::new("nested_and_recursive_scopes_charge_the_innermost", nested),
            Program::new(
                "caught_panics_leave_the_outer_scope_and_exact_figures",
                panics,
            ),
            Program::new(
                "disable_empties_the_usages_and_enable_starts_anew",
                toggling,
            ),
            Program::new(
                "profiling_from_the_first_allocation_leaves_nothing_untracked",
                from_start,
            )
            .with_codetag("1"),
            Program::new(
                "never_keeps_no_vectors_and_counts_everything_as_untracked",
                never,
            )
            .with_codetag("never"),
        ]);
    }
    all.extend(moving::programs());
    all.extend(threads::programs());
    all.extend(random::programs());
    all.into_iter().map(Program::watched).collect()
}

/// Whether the tags are compiled in. Without them only what says something of the heap is run.
fn has_tags() -> bool {
    codetag::state().kind != StateKind::TagsOff
}

/// Labels in turn, from 1.
fn label(i: usize) -> u8 {
    (1 + i % (LABELS - 1)) as u8
}

/// A filled block in the scope of a label.
fn block_in(label: u8, size: usize, align: usize) -> Block {
    let mut block = within(label, || Block::new(layout(size, align))).expect("memory");
    block.fill(size);
    block
}

/// Fails unless a label owns just that, where profiling is on.
#[track_caller]
fn owns(account: &Account, label: u8, objs: u64, bytes: u64) {
    if codetag::is_enabled() {
        let usage = account.tags[usize::from(label)];
        assert_eq!(
            (usage.live_objs, usage.live_bytes),
            (objs, bytes),
            "label {label}"
        );
    }
}

fn spacing() {
    slots().assert_documented_spacing();
    quiet_point("measured");
}

fn before_enable() {
    let start = quiet_point("start");
    let blocks: Vec<Block> = (1..3000)
        .map(|i| block_in(label(i), i * 7 % 20_000 + 1, 8))
        .collect();
    let held = quiet_point("held");
    assert_eq!(
        held.objs(),
        start.objs() + 3000,
        "the blocks and their vector"
    );
    assert_eq!(held.untracked_objs, held.objs());
    drop(blocks);
    assert_eq!(quiet_point("dropped").objs(), start.objs());
}

fn sizes() {
    const SIZES: [usize; 24] = [
        1,
        7,
        8,
        9,
        16,
        17,
        64,
        100,
        127,
        128,
        129,
        1000,
        1024,
        1025,
        4095,
        4096,
        8192,
        16_383,
        16_384,
        16_385,
        65_536,
        100_000,
        1 << 20,
        10 << 20,
    ];
    turn_on();
    let start = quiet_point("start");
    let mut blocks = Vec::with_capacity(SIZES.len() * 23);
    for shift in 0..23 {
        for size in SIZES {
            blocks.push(block_in(label(blocks.len()), size, 1 << shift));
        }
        let account = quiet_point("one more alignment");
        assert_eq!(account.objs(), start.objs() + 1 + blocks.len() as u64);
    }
    let account = quiet_point("all");
    for label in 1..LABELS as u8 {
        let of = |i: &usize| crate::patterns::label(*i) == label;
        let sizes = (0..blocks.len())
            .filter(of)
            .map(|i| SIZES[i % SIZES.len()] as u64);
        owns(&account, label, sizes.clone().count() as u64, sizes.sum());
    }
    // Every third first, so that slabs are left with holes.
    for step in [3, 2, 1] {
        let mut i = 0;
        blocks.retain(|b| {
            i += 1;
            b.check(b.size(), b.size());
            i % step != 0
        });
        quiet_point("fewer");
    }
    drop(blocks);
    assert_eq!(quiet_point("none").objs(), start.objs());
}

fn zeroed() {
    turn_on();
    let start = quiet_point("start");
    let sizes: Vec<usize> = (0..400).map(|i| i * i * 37 % 70_000 + 1).collect();
    for round in 0..3 {
        let dirty: Vec<Block> = sizes.iter().map(|&s| block_in(3, s, 1)).collect();
        drop(dirty);
        let zeros: Vec<Block> = sizes
            .iter()
            .map(|&s| within(4, || Block::zeroed(layout(s, 1 << (s % 13)))).expect("memory"))
            .collect();
        let account = quiet_point("zeroed");
        owns(&account, 4, 400, sizes.iter().sum::<usize>() as u64);
        drop(zeros);
        if round == 1 {
            codetag::shrink();
        }
    }
    drop(sizes);
    assert_eq!(quiet_point("none").objs(), start.objs());
}

fn zero_sizes() {
    turn_on();
    let start = quiet_point("start");
    for shift in 0..23 {
        let none = layout(0, 1 << shift);
        let some = layout(40, 1 << shift);
        // SAFETY: the allocator under test answers zero sizes; what it returns is not written to.
        unsafe {
            let at = crate::ALLOC.alloc(none);
            assert_eq!(at.addr() % none.align(), 0);
            let zeroed = crate::ALLOC.alloc_zeroed(none);
            crate::ALLOC.dealloc(zeroed, none);
            let grown = crate::ALLOC.0.realloc(at, none, 40);
            let gone = crate::ALLOC.0.realloc(grown, some, 0);
            crate::ALLOC.dealloc(gone, none);
        }
    }
    assert_eq!(quiet_point("end").objs(), start.objs());
}

fn nested() {
    fn down(depth: usize, blocks: &mut Vec<Block>) {
        within(label(depth), || {
            blocks.push(block_in(0, depth + 1, 1));
            if depth > 0 {
                down(depth - 1, blocks);
            }
            // The inner scope has been left.
            blocks.push(block_in(0, 1000, 1));
        });
    }
    turn_on();
    let mut blocks = Vec::with_capacity(1000);
    down(79, &mut blocks);
    let account = quiet_point("80 deep");
    for label in 1..LABELS as u8 {
        let depths = (0..80).filter(|&d| crate::patterns::label(d) == label);
        owns(
            &account,
            label,
            20,
            depths.map(|d| d as u64 + 1 + 1000).sum(),
        );
    }
    blocks.truncate(7);
    quiet_point("most are gone");
}

fn panics() {
    // The hook allocates while the panicking thread is in a scope.
    panic::set_hook(Box::new(|info| {
        let text = format!("{info}");
        assert!(!text.is_empty());
    }));
    turn_on();
    let start = quiet_point("start");
    let mut caught = Vec::with_capacity(100);
    let mut after = Vec::with_capacity(100);
    for i in 0..100 {
        within(2, || {
            let outcome = panic::catch_unwind(|| {
                within(1, || {
                    let _lost = block_in(5, 3000 + i, 8);
                    if i % 2 == 0 {
                        panic::panic_any([0_u8; 333]);
                    }
                    panic!("{}", "x".repeat(i));
                });
            });
            caught.push(outcome.expect_err("it panics"));
            after.push(block_in(0, 10, 1));
        });
        if i % 10 == 0 {
            quiet_point("one more panic");
        }
    }
    let account = quiet_point("payloads held");
    owns(&account, 2, 100, 1000);
    owns(&account, 5, 0, 0);
    drop((caught, after));
    let end = quiet_point("end");
    owns(&end, 1, 0, 0);
    owns(&end, 2, 0, 0);
    assert_eq!(end.objs(), start.objs());
}

fn toggling() {
    let mut held: Vec<Block> = Vec::with_capacity(1000);
    held.extend((0..50).map(|i| block_in(label(i), 100 + 700 * i, 8)));
    for round in 0..6 {
        let before = quiet_point("off");
        assert_eq!(before.untracked_objs, before.objs());
        turn_on();
        let on = quiet_point("on: everything is older");
        assert_eq!(on.objs(), before.objs());
        if codetag::is_enabled() {
            assert_eq!(on.untracked_objs, on.objs());
        }
        held.extend((0..50).map(|i| block_in(label(i), 60 + 600 * i, 8)));
        // Older ones and younger ones go.
        for i in (0..40).rev() {
            held.swap_remove(i * 2);
        }
        quiet_point("some of both");
        for block in held.iter_mut().step_by(5) {
            let size = block.size();
            assert!(within(label(round), || block.realloc(size * 3 / 2 + 1)));
        }
        quiet_point("older ones reallocated");
        turn_off();
        let off = quiet_point("off: no usages");
        assert!(off.tags.iter().all(|t| t.live_objs == 0));
        held.extend((0..20).map(|i| block_in(label(i), 30 + 900 * i, 8)));
        held.drain(..15);
        let size = held[0].size();
        assert!(held[0].realloc(size + 1));
    }
    drop(held);
    quiet_point("end");
}

/// Bytes obtained that are not with the system.
fn held_bytes() -> u64 {
    let snapshot = Snapshot::take();
    snapshot.heap().obtained_bytes - snapshot.heap().returned_bytes
}

fn shrinking() {
    turn_on();
    let start = quiet_point("start");
    codetag::shrink();
    let held_at_start = held_bytes();
    let mut handed_back = 0;
    for round in 0..4 {
        let blocks: Vec<Block> = (0..4000)
            .map(|i| block_in(label(i), 1 + (i * 61 + round) % 6000, 8))
            .collect();
        quiet_point("full");
        let kept: Vec<Block> = blocks.into_iter().step_by(500).collect();
        quiet_point("few left");
        let bytes = codetag::shrink();
        quiet_point("shrunk with few left");
        drop(kept);
        handed_back += bytes + codetag::shrink();
        assert_eq!(codetag::shrink(), 0, "everything has been given back");
        assert_eq!(held_bytes(), held_at_start, "no slab is left over");
        quiet_point("shrunk");
    }
    assert!(handed_back > 0);
    let end = quiet_point("end");
    assert_eq!(end.objs(), start.objs());
}

fn from_start() {
    let kind = codetag::state().kind;
    assert_eq!(kind, StateKind::On);
    let account = quiet_point("start");
    assert_eq!(account.untracked_objs, 0);
    assert_ne!(account.tags[0].live_objs, 0, "the runtime's own");
    let _held = block_in(6, 77, 1);
    owns(&quiet_point("one"), 6, 1, 77);
    turn_off();
    quiet_point("off");
    turn_on();
    let again = quiet_point("on again");
    assert_eq!(again.untracked_objs, again.objs());
}

fn never() {
    turn_on();
    assert!(!codetag::is_enabled());
    let held: Vec<Block> = (0..500)
        .map(|i| block_in(label(i), 1 + i * 100, 8))
        .collect();
    let account = quiet_point("never");
    assert_eq!(account.untracked_objs, account.objs());
    assert_eq!(account.tags[1].live_objs, 0);
    drop(held);
    quiet_texts("never");
}

fn texts() {
    quiet_texts("off");
    turn_on();
    quiet_texts("on, nothing owned");
    let mut held: Vec<Block> = Vec::with_capacity(2000);
    for round in 0..5 {
        held.extend((0..300).map(|i| block_in(label(i * i), 1 + (i * 97 + round) % 40_000, 8)));
        quiet_texts("more");
    }
    held.truncate(3);
    quiet_texts("three");
    turn_off();
    quiet_texts("off again");
}

fn ordinary() {
    use std::collections::{BTreeMap, HashMap};
    turn_on();
    let start = quiet_point("start");
    let text: String = within(1, || {
        (0..20_000).map(|i| format!("w{} ", i * i % 977)).collect()
    });
    let mut counts: HashMap<&str, usize> = HashMap::new();
    within(2, || {
        for word in text.split_whitespace() {
            *counts.entry(word).or_default() += 1;
        }
    });
    quiet_point("counted");
    let mut by_count: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    within(3, || {
        for (word, n) in &counts {
            by_count.entry(*n).or_default().push((*word).to_owned());
        }
    });
    quiet_point("grouped");
    // Who grows a vector owns it, whoever made it.
    within(4, || {
        by_count
            .values_mut()
            .for_each(|words| words.push(String::from("last")));
    });
    quiet_point("pushed");
    within(5, || by_count.values_mut().for_each(Vec::shrink_to_fit));
    let account = quiet_point("shrunk to fit");
    owns(&account, 1, 1, text.capacity() as u64);
    drop(counts);
    by_count.retain(|n, _| n % 2 == 0);
    quiet_point("retained");
    drop((by_count, text));
    let end = quiet_point("end");
    assert_eq!(end.objs(), start.objs());
    for label in 1..LABELS as u8 {
        owns(&end, label, 0, 0);
    }
    assert_eq!(watch::is_on(), codetag::is_enabled());
}
