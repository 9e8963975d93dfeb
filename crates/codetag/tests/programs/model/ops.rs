//! The operations of the model test, and where they come from.

use crate::labels::LABELS;
use crate::slots::slots;
use crate::watch::SMALL_MAX;
use fastrand::Rng;

/// Threads that operations run on; 0 is the interpreter's own.
pub(crate) const THREADS: u32 = 4;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Allocates in the scope of a label; 0 for none.
    Alloc {
        thread: u8,
        label: u8,
        size: usize,
        align_shift: u8,
        zeroed: bool,
        starved: bool,
    },
    /// Frees the block that `pick` falls on.
    Free { thread: u8, pick: u32 },
    /// Reallocates it in the scope of a label.
    Realloc {
        thread: u8,
        label: u8,
        pick: u32,
        size: usize,
        starved: bool,
    },
    /// Frees all but every `keep`-th block.
    FreeMany { thread: u8, keep: u8 },
    /// A thread ends; the next operation on it starts another one.
    EndThread { thread: u8 },
    /// Turns profiling on or off.
    Toggle,
    /// Gives empty memory back, on a thread.
    Shrink { thread: u8 },
    /// Compares every figure.
    Snapshot,
    /// Compares the printed texts too.
    Texts,
}

/// Where numbers come from.
pub(crate) trait Source {
    /// A number below `n`; none when there are no more.
    fn below(&mut self, n: u32) -> Option<u32>;
    /// Whether the next operation may be one that takes long: on another thread, of many bytes, of the whole
    /// heap. A run of a billion cannot do with all of them.
    fn is_long(&mut self) -> bool {
        true
    }
}

/// Seeded random numbers for a number of operations.
pub(crate) struct Random {
    rng: Rng,
    ops_left: u64,
    is_quick: bool,
}

impl Random {
    pub(crate) fn new(seed: u64, ops: u64, is_quick: bool) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            ops_left: ops,
            is_quick,
        }
    }
}

impl Source for Random {
    fn below(&mut self, n: u32) -> Option<u32> {
        if n == KINDS {
            self.ops_left = self.ops_left.checked_sub(1)?;
        }
        Some(self.rng.u32(..n))
    }

    fn is_long(&mut self) -> bool {
        !self.is_quick || self.rng.u32(..128) == 0
    }
}

/// Bytes of a fuzzer's.
pub(crate) struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }
}

impl Source for Bytes<'_> {
    fn below(&mut self, n: u32) -> Option<u32> {
        let wanted = if n <= 1 << 8 { 1 } else { 3 };
        let (now, rest) = self.0.split_at_checked(wanted)?;
        self.0 = rest;
        let word = now.iter().fold(0, |word, &b| word << 8 | u32::from(b));
        Some(word % n)
    }
}

/// Weights of the kinds of operations; asked once per operation.
const KINDS: u32 = 4000;

/// The next operation; none when the source has no more.
pub(crate) fn next(source: &mut impl Source) -> Option<Op> {
    let kind = source.below(KINDS)?;
    if !source.is_long() {
        return quick(source, kind);
    }
    // Half of the work on the interpreter's own thread, which is quicker.
    let thread = source.below(2 * THREADS - 2)?.saturating_sub(THREADS - 2) as u8;
    Some(match kind {
        0..1500 => Op::Alloc {
            label: label(source)?,
            thread,
            size: size(source)?,
            align_shift: align_shift(source)?,
            zeroed: source.below(4)? == 0,
            starved: source.below(100)? == 0,
        },
        1500..2800 => Op::Free {
            thread,
            pick: pick(source)?,
        },
        2800..3960 => Op::Realloc {
            label: label(source)?,
            thread,
            pick: pick(source)?,
            size: size(source)?,
            starved: source.below(50)? == 0,
        },
        3960..3964 => Op::FreeMany {
            thread,
            keep: source.below(20)? as u8,
        },
        3964..3972 => Op::EndThread { thread },
        3972..3978 => Op::Toggle,
        3978..3986 => Op::Shrink { thread },
        3986..3999 => Op::Snapshot,
        _ => Op::Texts,
    })
}

/// One of the three kinds that are nearly all, of few bytes, on the interpreter's own thread.
fn quick(source: &mut impl Source, kind: u32) -> Option<Op> {
    let size = |source: &mut _| Some(1 + Source::below(source, 512)? as usize);
    Some(match kind {
        0..1500 => Op::Alloc {
            label: label(source)?,
            thread: 0,
            size: size(source)?,
            align_shift: source.below(5)? as u8,
            zeroed: false,
            starved: false,
        },
        1500..2900 => Op::Free {
            thread: 0,
            pick: pick(source)?,
        },
        _ => Op::Realloc {
            label: label(source)?,
            thread: 0,
            pick: pick(source)?,
            size: size(source)?,
            starved: false,
        },
    })
}

fn label(source: &mut impl Source) -> Option<u8> {
    Some(source.below(LABELS as u32)? as u8)
}

fn pick(source: &mut impl Source) -> Option<u32> {
    source.below(1 << 20)
}

fn align_shift(source: &mut impl Source) -> Option<u8> {
    let most = match source.below(100)? {
        // To 4 MiB.
        0 => 23,
        1..5 => 15,
        5..20 => 7,
        _ => 5,
    };
    Some(source.below(most)? as u8)
}

/// Around the borders of slots, mostly; anything to 32 KiB; rarely anything to 4 MiB.
fn size(source: &mut impl Source) -> Option<usize> {
    let sizes = slots().sizes();
    let around = |n: usize, by: u32| (n + by as usize).saturating_sub(1).max(1);
    Some(match source.below(200)? {
        0..3 => 1 + source.below(4 << 20)? as usize,
        3..10 => around(SMALL_MAX, source.below(3)?),
        10..25 => SMALL_MAX + 1 + source.below(16 << 10)? as usize,
        25..100 => {
            let slot = sizes[source.below(sizes.len() as u32)? as usize];
            around(slot, source.below(3)?)
        }
        100..150 => 1 + source.below(256)? as usize,
        150..180 => 1 + source.below(4096)? as usize,
        _ => 1 + source.below(32 << 10)? as usize,
    })
}
