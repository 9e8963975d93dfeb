//! The patterns of allocation.
//!
//! Calls go through `std::alloc`, as those of collections do, and every layout is black-boxed, so that a
//! size is known to the allocator only when it is called. Each function is tagged: profiling on, each object
//! is charged to one.
//!
//! # Safety model
//!
//! A block is used by the function that took it, up to the size that it asked for, and given back by the
//! same function with the layout that it was taken or last reallocated with. Sizes are at least 8 and
//! the alignment is 8, so that the first word of each block can be written.

#![allow(unsafe_code, reason = "the functions of std::alloc are unsafe")]

use crate::mix;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::hint::black_box;

/// Where a batch keeps its blocks. As long as the longest batch, so that it never grows.
#[derive(Debug)]
pub(crate) struct Slots(Vec<*mut u8>);

impl Slots {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(BATCH_MAX))
    }
}

const BATCH_MAX: usize = 10_000;
const PAGE_BYTES: usize = 4096;

/// So much of each size is verified at a time.
const VERIFIED_BYTES: usize = 64 << 10;

const SMALL: &[usize] = &{
    let mut sizes = [0; 30];
    let mut n = 0;
    while n < 30 {
        sizes[n] = 8 * (n + 1);
        n += 1;
    }
    sizes
};
const LARGE_MIN: usize = 64 << 10;
const LARGE_MAX: usize = 4 << 20;
const LARGE: &[usize] = &[
    LARGE_MIN,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    LARGE_MAX,
];

/// One pattern and the sizes that it is run with.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    /// In bytes.
    pub(crate) sizes: &'static [usize],
    /// Takes a size, a number of rounds, and room for a batch.
    pub(crate) run: fn(usize, u32, &mut Slots),
    /// Objects that are allocated and freed in one round.
    pub(crate) pairs_per_round: u32,
    /// Whether its objects begin smaller and are reallocated.
    pub(crate) grows: bool,
    /// Rounds between two readings of the clock: about 0.1 ms or more.
    pub(crate) timed_rounds: u32,
    /// Rounds under Callgrind, which is some fifty times slower.
    pub(crate) counted_rounds: u32,
}

pub(crate) const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "small.paired",
        sizes: SMALL,
        run: paired,
        pairs_per_round: 1,
        grows: false,
        timed_rounds: 20_000,
        counted_rounds: 1_000,
    },
    Pattern {
        name: "small.batch100",
        sizes: SMALL,
        run: batch::<100>,
        pairs_per_round: 100,
        grows: false,
        timed_rounds: 200,
        counted_rounds: 20,
    },
    Pattern {
        name: "small.batch10000",
        sizes: SMALL,
        run: batch::<BATCH_MAX>,
        pairs_per_round: 10_000,
        grows: false,
        timed_rounds: 4,
        counted_rounds: 1,
    },
    Pattern {
        name: "pages.paired",
        sizes: &[PAGE_BYTES],
        run: paired,
        pairs_per_round: 1,
        grows: false,
        timed_rounds: 20_000,
        counted_rounds: 1_000,
    },
    Pattern {
        name: "pages.batch100",
        sizes: &[PAGE_BYTES],
        run: batch::<100>,
        pairs_per_round: 100,
        grows: false,
        timed_rounds: 200,
        counted_rounds: 20,
    },
    Pattern {
        name: "large.paired",
        sizes: LARGE,
        run: paired,
        pairs_per_round: 1,
        grows: false,
        timed_rounds: 50,
        counted_rounds: 50,
    },
    Pattern {
        name: "large.grown",
        sizes: &[LARGE_MAX],
        run: grown,
        pairs_per_round: 1,
        grows: true,
        timed_rounds: 4,
        counted_rounds: 4,
    },
];

/// Blocks of each size of `pattern`, with contents that follow from the seed, are read again when all are there, or
/// have grown, and freed. Not measured: it shows that the allocator which was measured is one.
///
/// # Errors
///
/// One sentence, if a block does not hold what was written to it.
pub(crate) fn verify(pattern: &Pattern, seed: u64) -> Result<u64, String> {
    let mut check = mix::bytes(pattern.name.as_bytes());
    for &size in pattern.sizes {
        let blocks = (VERIFIED_BYTES / size).clamp(2, BATCH_MAX) as u64;
        let start = if pattern.grows { LARGE_MIN } else { size };
        let mut taken: Vec<(Vec<u64>, u64)> = (0..blocks)
            .map(|n| mix::words([seed, size as u64, n]))
            .map(|word| (vec![word; start / 8], word))
            .collect();
        for (block, word) in &mut taken {
            while block.len() < size / 8 {
                block.resize(2 * block.len(), *word);
            }
        }
        for (block, word) in taken {
            if block.iter().any(|found| *found != word) {
                return Err(format!(
                    "{}: a block of {size} bytes does not hold what was written to it",
                    pattern.name
                ));
            }
            check = mix::words([check, word]);
        }
    }
    Ok(check)
}

/// Each object is freed before the next is allocated.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn paired(size: usize, rounds: u32, _: &mut Slots) {
    let layout = layout(size);
    for _ in 0..rounds {
        let block = take(layout);
        // SAFETY: just taken with the same layout.
        unsafe { dealloc(block, black_box(layout)) };
    }
}

/// `N` objects are allocated, then freed in the same order, as a dropped vector of boxes frees them.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn batch<const N: usize>(size: usize, rounds: u32, Slots(slots): &mut Slots) {
    let layout = layout(size);
    for _ in 0..rounds {
        slots.clear();
        // `min` shows the compiler that the vector need not grow.
        for _ in 0..N.min(slots.capacity()) {
            slots.push(take(layout));
        }
        for block in slots.iter() {
            // SAFETY: taken above with the same layout, and freed once.
            unsafe { dealloc(*block, black_box(layout)) };
        }
    }
}

/// An object that starts at 64 KiB, is reallocated to twice its size until it has `size`, and is freed. One
/// word of each page is written as it is gained.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn grown(size: usize, rounds: u32, _: &mut Slots) {
    for _ in 0..rounds {
        let mut now = layout(LARGE_MIN);
        let mut block = take(now);
        touch(block, 0, now.size());
        while now.size() < size {
            let more = layout(2 * now.size());
            // SAFETY: the block was last taken with `now`, and the new size is not 0.
            block = unsafe { realloc(block, black_box(now), more.size()) };
            if block.is_null() {
                handle_alloc_error(more);
            }
            touch(block, now.size(), more.size());
            now = more;
        }
        // SAFETY: the block was last reallocated to `now`.
        unsafe { dealloc(block, black_box(now)) };
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("the sizes of this program are possible")
}

/// A block with its first word written.
#[inline(always)]
fn take(layout: Layout) -> *mut u8 {
    debug_assert!(layout.size() >= 8);
    // SAFETY: the size is not 0.
    let block = unsafe { alloc(black_box(layout)) };
    if block.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: at least 8 bytes, aligned to 8, were taken.
    unsafe { block.cast::<u64>().write_volatile(1) };
    black_box(block)
}

/// Writes one word per page of `block` from `from` on, up to `to`; both are within its size.
fn touch(block: *mut u8, from: usize, to: usize) {
    for at in (from..to).step_by(PAGE_BYTES) {
        // SAFETY: `at` is within the block, a multiple of 8, and at least a page before its end.
        unsafe { block.add(at).cast::<u64>().write_volatile(1) };
    }
}
