//! Runs each path of the allocator by itself, for Callgrind to count; see `.ci/counts`.
//!
//! ```text
//! codetag-subject-paths [--enable]
//! codetag-subject-paths --classes
//! ```
//!
//! Each path runs twice in [`codetag_bench_measured`], of which the second run counts, and prints
//! `ops:NAME N`: how many operations of the path that was. The loop around the calls is included. With
//! `--classes` it prints `obj_exts:SLOT_BYTES BYTES SLOTS` for each size class instead: what the refs of a slab take.
//!
//! # Safety model
//!
//! A block is given back once, with the layout that it was taken or last reallocated with.

#![allow(unsafe_code, reason = "the functions of std::alloc are unsafe")]

use std::alloc::{GlobalAlloc, Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::ptr;
use std::sync::mpsc;
use std::thread;

/// The inner allocator: the system's, but for sizes of which it has one block each, so that what is counted of a
/// large object is what codetag adds to it.
struct Inner {
    at_hand: UnsafeCell<[u8; AT_HAND_MAX]>,
}

const LARGE_BYTES: usize = 20_000;
const AT_HAND_MAX: usize = 20_100;

// SAFETY: one object of such a size is alive at a time, in one thread.
unsafe impl Sync for Inner {}

fn is_at_hand(bytes: usize) -> bool {
    (LARGE_BYTES..=AT_HAND_MAX).contains(&bytes)
}

// SAFETY: the system's blocks are its own; the one at hand is long enough for the sizes that get it.
unsafe impl GlobalAlloc for Inner {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_at_hand(layout.size()) {
            return self.at_hand.get().cast();
        }
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if !is_at_hand(layout.size()) {
            // SAFETY: as the caller's.
            unsafe { System.dealloc(at, layout) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if is_at_hand(layout.size()) && is_at_hand(bytes) {
            return at;
        }
        // SAFETY: as the caller's.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOC: codetag::TagAlloc<Inner> = codetag::TagAlloc::new(Inner {
    at_hand: UnsafeCell::new([0; AT_HAND_MAX]),
});

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("a possible layout")
}

#[inline(always)]
fn take(layout: Layout) -> *mut u8 {
    // SAFETY: no path asks for zero bytes.
    black_box(unsafe { alloc(black_box(layout)) })
}

#[inline(always)]
fn give(at: *mut u8, layout: Layout) {
    // SAFETY: taken with this layout, and given back once.
    unsafe { dealloc(at, black_box(layout)) };
}

#[inline(always)]
fn resize(at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
    // SAFETY: live, with this layout; the new size is not 0.
    black_box(unsafe { realloc(at, black_box(layout), black_box(bytes)) })
}

/// What a path has beside its run: blocks that were prepared for it.
struct Prepared {
    blocks: Vec<*mut u8>,
}

/// One path.
struct Path {
    name: &'static str,
    /// Operations of one run.
    ops: u32,
    /// Before each run; not counted.
    prepare: fn(&mut Prepared),
    run: fn(&mut Prepared),
    /// After each run; not counted.
    clear: fn(&mut Prepared),
}

const NOTHING: fn(&mut Prepared) = |_| {};
const OPS: u32 = 1000;

/// A class that nothing else of the program uses, with its slots.
const QUIET_BYTES: usize = 3_264;
const QUIET_SLOTS: usize = 20;

const PATHS: &[Path] = &[
    Path {
        name: "small.pair",
        ops: OPS,
        prepare: NOTHING,
        run: |_| pairs(layout(64)),
        clear: NOTHING,
    },
    Path {
        name: "small.aligned_64",
        ops: OPS,
        prepare: NOTHING,
        run: |_| pairs(Layout::from_size_align(64, 64).expect("possible")),
        clear: NOTHING,
    },
    // The bin is empty, and each allocation finds the one slot that was freed before.
    Path {
        name: "refill.own_list",
        ops: OPS,
        prepare: empty_bin,
        run: |p| {
            for _ in 0..OPS {
                give(p.blocks[0], layout(QUIET_BYTES));
                p.blocks[0] = take(layout(QUIET_BYTES));
            }
        },
        clear: give_blocks,
    },
    // Whole slabs are filled and emptied again: per slab of 20 slots.
    Path {
        name: "slab.filled_and_emptied",
        ops: 50,
        prepare: |p| p.blocks.reserve(50 * QUIET_SLOTS),
        run: |p| {
            for _ in 0..50 * QUIET_SLOTS {
                p.blocks.push(take(layout(QUIET_BYTES)));
            }
            for at in p.blocks.drain(..) {
                give(at, layout(QUIET_BYTES));
            }
        },
        clear: NOTHING,
    },
    Path {
        name: "free.remote",
        ops: OPS,
        prepare: take_elsewhere,
        run: |p| {
            for &at in &p.blocks {
                give(at, layout(64));
            }
        },
        clear: |p| p.blocks.clear(),
    },
    Path {
        name: "large.pair",
        ops: OPS,
        prepare: NOTHING,
        run: |_| pairs(layout(LARGE_BYTES)),
        clear: NOTHING,
    },
    Path {
        name: "large.realloc",
        ops: OPS,
        prepare: |p| p.blocks.push(take(layout(LARGE_BYTES))),
        run: |p| {
            for _ in 0..OPS / 2 {
                p.blocks[0] = resize(p.blocks[0], layout(LARGE_BYTES), LARGE_BYTES + 1);
                p.blocks[0] = resize(p.blocks[0], layout(LARGE_BYTES + 1), LARGE_BYTES);
            }
        },
        clear: |p| give(p.blocks.remove(0), layout(LARGE_BYTES)),
    },
    Path {
        name: "realloc.in_slot",
        ops: OPS,
        prepare: |p| p.blocks.push(take(layout(57))),
        run: |p| {
            for _ in 0..OPS / 2 {
                p.blocks[0] = resize(p.blocks[0], layout(57), 64);
                p.blocks[0] = resize(p.blocks[0], layout(64), 57);
            }
        },
        clear: |p| give(p.blocks.remove(0), layout(57)),
    },
    Path {
        name: "realloc.to_next_slot",
        ops: OPS,
        prepare: |p| p.blocks.push(take(layout(64))),
        run: |p| {
            for _ in 0..OPS / 2 {
                p.blocks[0] = resize(p.blocks[0], layout(64), 128);
                p.blocks[0] = resize(p.blocks[0], layout(128), 64);
            }
        },
        clear: |p| give(p.blocks.remove(0), layout(64)),
    },
    Path {
        name: "zeroed.64",
        ops: OPS,
        prepare: NOTHING,
        run: |_| zeroed_pairs(64),
        clear: NOTHING,
    },
    Path {
        name: "zeroed.4096",
        ops: OPS,
        prepare: NOTHING,
        run: |_| zeroed_pairs(4096),
        clear: NOTHING,
    },
    // What starting and joining a thread takes besides is that of `thread.without`.
    Path {
        name: "thread.with_one_object",
        ops: 10,
        prepare: NOTHING,
        run: |_| {
            for _ in 0..10 {
                join(thread::Builder::new().spawn(|| pair(layout(64))));
            }
        },
        clear: NOTHING,
    },
];

fn join(thread: std::io::Result<thread::JoinHandle<()>>) {
    thread
        .expect("a thread starts")
        .join()
        .expect("the thread does not panic");
}

#[codetag::alloc_tag]
fn pair(layout: Layout) {
    give(take(layout), layout);
}

#[codetag::alloc_tag]
fn pairs(layout: Layout) {
    for _ in 0..OPS {
        give(take(layout), layout);
    }
}

#[codetag::alloc_tag]
fn zeroed_pairs(bytes: usize) {
    for _ in 0..OPS {
        // SAFETY: not of zero size.
        let at = black_box(unsafe { alloc_zeroed(black_box(layout(bytes))) });
        give(at, layout(bytes));
    }
}

/// Takes slots of the quiet class until its bin is empty: eight come at a time.
fn empty_bin(p: &mut Prepared) {
    p.blocks.extend((0..8).map(|_| take(layout(QUIET_BYTES))));
}

fn give_blocks(p: &mut Prepared) {
    for at in p.blocks.drain(..) {
        give(at, layout(QUIET_BYTES));
    }
}

/// Blocks of a thread that lives on until the end of the process.
fn take_elsewhere(p: &mut Prepared) {
    let (blocks, taken) = mpsc::channel();
    thread::spawn(move || {
        let addrs: Vec<usize> = (0..2 * OPS)
            .map(|_| take(layout(64)).expose_provenance())
            .collect();
        blocks.send(addrs).expect("the main thread waits");
        loop {
            thread::park();
        }
    });
    let addrs = taken.recv().expect("the thread sends");
    p.blocks.extend(
        addrs
            .into_iter()
            .take(OPS as usize)
            .map(ptr::with_exposed_provenance_mut),
    );
}

/// One object of each size class, and what the vector of its slab takes.
fn print_classes() {
    let sizes: Vec<usize> = (8..=16 << 10).step_by(8).collect();
    let held: Vec<*mut u8> = sizes.iter().map(|&bytes| take(layout(bytes))).collect();
    let snapshot = codetag::Snapshot::take();
    for class in snapshot.classes() {
        println!(
            "obj_exts:{} {} {}",
            class.slot_bytes, class.obj_exts_bytes, class.slots
        );
    }
    drop(snapshot);
    for (at, bytes) in held.into_iter().zip(sizes) {
        give(at, layout(bytes));
    }
}

fn main() {
    if std::env::args().any(|arg| arg == "--classes") {
        return print_classes();
    }
    if std::env::args().any(|arg| arg == "--enable") {
        codetag::enable().expect("profiling can be turned on");
    }
    println!("state {}", codetag::state().kind);
    let mut prepared = Prepared {
        blocks: Vec::with_capacity(2_000),
    };
    for path in PATHS {
        for _warm_then_counted in 0..2 {
            (path.prepare)(&mut prepared);
            codetag_bench_measured(path, &mut prepared);
            (path.clear)(&mut prepared);
        }
        println!("ops:{} {}", path.name, path.ops);
    }
}

/// What Callgrind counts, found by its name.
#[unsafe(no_mangle)]
#[inline(never)]
fn codetag_bench_measured(path: &Path, prepared: &mut Prepared) {
    (path.run)(prepared);
}
