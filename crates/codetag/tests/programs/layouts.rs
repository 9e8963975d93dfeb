//! Layouts at the edges, what is forwarded to the inner allocator, and what comes back.

use crate::block::{Block, layout, sum_of};
use crate::figures::{all_figures, assert_owned, enable, has_tags, quiet, rounds};
use crate::inner::{INNER, TestInner};
use crate::runner::Program;
use codetag::TagAlloc;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::Ordering::SeqCst;

pub(crate) fn programs() -> Vec<Program> {
    vec![
        Program::new(
            "sizes_to_4097_at_alignments_to_64_kib_do_not_overlap",
            sizes_and_alignments,
        ),
        Program::new(
            "realloc_keeps_contents_and_alignment_across_every_border",
            realloc_matrix,
        ),
        Program::new(
            "blocks_of_no_bytes_are_answered_and_not_counted",
            zero_sizes,
        ),
        Program::new(
            "a_second_instance_passes_calls_on_and_is_not_counted",
            second_instance,
        ),
        Program::new(
            "growth_of_large_objects_is_the_inner_allocators_realloc",
            large_growth,
        ),
        Program::new(
            "large_zeroed_memory_is_the_inner_allocators_alloc_zeroed",
            large_zeroed,
        ),
        Program::new(
            "page_ext_shrinks_after_disable_and_the_last_free",
            page_ext_shrinks,
        ),
        Program::new(
            "adding_and_freeing_returns_exactly_to_the_start",
            there_and_back,
        ),
        Program::new(
            "parts_of_a_split_vector_count_for_their_tag_to_the_end",
            split_in_parts,
        ),
        Program::new("nothing_is_dropped_in_many_allocations", nothing_is_dropped),
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

fn sizes_and_alignments() {
    enable();
    let mut objs = 0;
    let mut held: Vec<Block> = Vec::with_capacity(16 * 17 * 2);
    for first in (1..4098).step_by(16) {
        for size in first..(first + 16).min(4098) {
            for shift in 0..=16 {
                let mut block = if (size + shift) % 2 == 0 {
                    Block::new(layout(size, 1 << shift)).unwrap()
                } else {
                    Block::zeroed(layout(size, 1 << shift)).unwrap()
                };
                block.fill(size + shift * 7);
                held.push(block);
                objs += 1;
            }
        }
        for (i, block) in held.iter().enumerate() {
            block.check(block.size() + i % 17 * 7, block.size());
        }
        drop(quiet());
        held.clear();
    }
    assert_eq!(objs, 4097 * 17);
    for shift in 17..=22 {
        for size in [1, 4096, 70_000, 3 << 20] {
            let mut block = Block::new(layout(size, 1 << shift)).unwrap();
            block.fill(shift);
            block.check(shift, size);
        }
    }
    assert_eq!(quiet().heap().large_objs, 0);
}

#[codetag::alloc_tag]
fn reallocated(size: usize, align: usize) -> Block {
    Block::new(layout(size, align)).unwrap()
}

fn realloc_matrix() {
    let sizes: Vec<usize> = (0..=17)
        .flat_map(|s| [(1 << s) - 1, 1 << s, (1 << s) + 1])
        .skip(1)
        .collect();
    enable();
    for align in (0..=16).map(|s| 1 << s) {
        for &from in &sizes {
            for &to in sizes.iter().step_by(if align > 64 { 5 } else { 1 }) {
                let mut block = reallocated(from, align);
                block.fill(from);
                assert!(block.realloc(to));
                block.check(from, from.min(to));
                block.fill(to);
                assert!(block.realloc(from));
                block.check(to, from.min(to));
            }
        }
        let block = reallocated(1, align);
        assert_owned("layouts::reallocated", 1, block.size() as u64);
    }
    assert_owned("layouts::reallocated", 0, 0);
}

fn zero_sizes() {
    enable();
    for align in (0..=16).map(|s| 1 << s) {
        let none = layout(0, align);
        let before = (all_figures(), INNER.blocks_out.load(SeqCst));
        // SAFETY: the trait leaves a size of 0 open; this allocator says what it does.
        unsafe {
            for at in [crate::ALLOC.alloc(none), crate::ALLOC.alloc_zeroed(none)] {
                assert!(!at.is_null() && at.addr().is_multiple_of(align));
                crate::ALLOC.dealloc(at, none);
            }
            let at = crate::ALLOC.alloc(none);
            let some = crate::ALLOC.realloc(at, none, 100);
            some.write_bytes(1, 100);
            assert_eq!(some.addr() % align, 0);
            let at = crate::ALLOC.realloc(some, layout(100, align), 0);
            assert!(!at.is_null() && at.addr().is_multiple_of(align));
            crate::ALLOC.dealloc(at, none);
        }
        let after = (all_figures(), INNER.blocks_out.load(SeqCst));
        assert_eq!((after.0.1, after.0.2), (before.0.1, before.0.2));
        assert!(after.1 <= before.1 + 1, "at most a new chunk");
    }
}

static SECOND_INNER: TestInner = TestInner::new();
static SECOND: TagAlloc<&'static TestInner> = TagAlloc::new(&SECOND_INNER);
static SAME_INNER: TagAlloc<&'static TestInner> = TagAlloc::new(&INNER);
static SYSTEM: TagAlloc = TagAlloc::system();

#[codetag::alloc_tag]
fn of_instance(alloc: &dyn GlobalAlloc, size: usize) {
    let (small, large) = (layout(size, 16), layout(50_000, 16));
    let before = all_figures();
    // SAFETY: each block goes back where it came from, with its layout.
    unsafe {
        let (a, b) = (alloc.alloc(small), alloc.alloc_zeroed(large));
        a.write_bytes(1, size);
        let (a, b) = (
            alloc.realloc(a, small, 20_000),
            alloc.realloc(b, large, 100_000),
        );
        assert!(b.read() == 0 && a.read() == 1);
        assert_eq!(all_figures(), before, "another instance counts");
        alloc.dealloc(a, layout(20_000, 16));
        alloc.dealloc(b, layout(100_000, 16));
    }
    assert_eq!(all_figures(), before);
}

fn second_instance() {
    enable();
    of_instance(&SECOND, 100);
    of_instance(&SYSTEM, 100);
    let second = &SECOND_INNER;
    assert_eq!(second.asked.load(SeqCst), 4);
    assert_eq!(
        (
            second.given_back.load(SeqCst),
            second.bytes_out.load(SeqCst)
        ),
        (2, 0)
    );

    let before = (INNER.asked.load(SeqCst), INNER.given_back.load(SeqCst));
    let one = layout(10, 1);
    // SAFETY: given back where it came from.
    unsafe { SAME_INNER.dealloc(SAME_INNER.alloc(one), one) };
    let after = (INNER.asked.load(SeqCst), INNER.given_back.load(SeqCst));
    assert_eq!(
        after,
        (before.0 + 1, before.1 + 1),
        "each call goes to the inner allocator"
    );
    assert!(format!("{SYSTEM:?}").contains("passes calls on"));
}

fn large_growth() {
    enable();
    let mut block = first_tag(layout(20_000, 8)).unwrap();
    block.fill(3);
    let before = (INNER.asked.load(SeqCst), INNER.given_back.load(SeqCst));
    let reallocs = INNER.asked_realloc.load(SeqCst);
    for i in 1..=200 {
        assert!(block.realloc(20_000 + i * 5_000));
    }
    assert!(block.realloc(30_000));
    block.check(3, 20_000);
    assert_eq!(INNER.asked_realloc.load(SeqCst) - reallocs, 201);
    let after = (INNER.asked.load(SeqCst), INNER.given_back.load(SeqCst));
    assert_eq!(
        after,
        (before.0 + 201, before.1),
        "no block was allocated and copied into"
    );
    assert_owned("layouts::first_tag", 1, 30_000);
}

fn large_zeroed() {
    enable();
    let zeroed = INNER.asked_zeroed.load(SeqCst);
    let held: Vec<_> = (0..100)
        .map(|i| second_tag(layout(17_000 + 1000 * i, 8)).unwrap())
        .collect();
    assert_eq!(INNER.asked_zeroed.load(SeqCst) - zeroed, 100);
    // Small zeroed memory comes from slabs that others have used.
    let mut dirty: Vec<_> = (0..1000)
        .map(|i| first_tag(layout(1 + 16 * i, 16)).unwrap())
        .collect();
    dirty.iter_mut().for_each(|b| b.fill(1));
    drop(dirty);
    let clean: Vec<_> = (0..1000)
        .map(|i| second_tag(layout(1 + 16 * i, 16)).unwrap())
        .collect();
    let (a, b) = (sum_of(&held), sum_of(&clean));
    assert_owned("layouts::second_tag", a.0 + b.0, a.1 + b.1);
}

fn page_ext_shrinks() {
    const OBJS: usize = 4000;
    // Four tables of the smallest size, a page each.
    const EMPTY_BYTES: u64 = 4 * 4096;
    assert!(quiet().heap().page_ext_bytes <= EMPTY_BYTES);
    enable();
    let mut held: Vec<_> = (0..OBJS)
        .map(|_| first_tag(layout(17_000, 8)).unwrap())
        .collect();
    let full = quiet().heap().page_ext_bytes;
    assert!(
        !has_tags() || full >= 16 * OBJS as u64 && full <= 64 * OBJS as u64 + EMPTY_BYTES,
        "{full}"
    );
    codetag::disable();
    held.extend((0..OBJS).map(|_| first_tag(layout(17_000, 8)).unwrap()));
    // And the list itself.
    assert_eq!(quiet().heap().large_objs, 2 * OBJS as u64 + 1);
    drop(held);
    let s = quiet();
    assert!(
        s.heap().page_ext_bytes <= EMPTY_BYTES,
        "{} B",
        s.heap().page_ext_bytes
    );
    assert_eq!((s.heap().large_objs, s.heap().large_objects_bytes), (0, 0));
    drop(s);
    enable();
    assert_owned("layouts::first_tag", 0, 0);
}

fn there_and_back() {
    enable();
    let mut held = Vec::with_capacity(2000);
    let before = quiet();
    let (heap, untagged) = (*before.heap(), before.untagged());
    drop(before);
    // Counts and bytes that no unit turns into one another.
    for (n, size) in [
        (3, 7),
        (7, 333),
        (1, 16_384),
        (11, 16_385),
        (2, 1_000_003),
        (1000, 129),
    ] {
        held.extend((0..n).map(|_| first_tag(layout(size, 1)).unwrap()));
        assert_owned("layouts::first_tag", n, n * size as u64);
        held.clear();
        assert_owned("layouts::first_tag", 0, 0);
        let s = quiet();
        assert_eq!(s.untagged(), untagged);
        assert_eq!(
            s.heap().tracked_requested_bytes,
            heap.tracked_requested_bytes
        );
        assert_eq!(s.heap().tracked_waste_bytes, heap.tracked_waste_bytes);
        assert_eq!(s.heap().large_objects_bytes, heap.large_objects_bytes);
        assert_eq!(s.heap().untracked_slots_bytes, heap.untracked_slots_bytes);
    }
}

#[codetag::alloc_tag]
fn parts(n: usize) -> (Vec<u64>, Vec<u64>, Box<[u64]>, Vec<u8>) {
    let mut first: Vec<u64> = (0..n as u64).collect();
    let second = first.split_off(n / 3);
    let mut third = second.clone();
    third.reserve(n);
    (
        first,
        second,
        third.into_boxed_slice(),
        "word ".repeat(n).into_bytes(),
    )
}

/// An object that became others, or moved, leaves neither an object without bytes nor bytes without one.
fn split_in_parts() {
    enable();
    // Slots of several classes, and large objects.
    for n in [3, 40, 1000, 50_000] {
        let (first, second, third, text) = parts(n);
        let left = (second.capacity() + third.len()) * size_of::<u64>();
        let all = left + first.capacity() * size_of::<u64>() + text.capacity();
        assert_owned("layouts::parts", 4, all as u64);
        drop((first, text));
        assert_owned("layouts::parts", 2, left as u64);
        drop((second, third));
        assert_owned("layouts::parts", 0, 0);
    }
}

fn nothing_is_dropped() {
    let n = rounds(1_000_000, 100_000_000);
    enable();
    let mut held: Vec<Option<Block>> = (0..256).map(|_| None).collect();
    for i in 0..n {
        held[i % 256] = first_tag(layout(1 + i % 1000, 8));
    }
    let live: u64 = held.iter().flatten().map(|b| b.size() as u64).sum();
    assert_owned("layouts::first_tag", 256, live);
    drop(held);
    assert_owned("layouts::first_tag", 0, 0);
    let page = codetag::show_mem().to_string();
    assert!(
        !page.contains("lost") && !page.contains("have none"),
        "{page}"
    );
}
