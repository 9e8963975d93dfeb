//! What the layer allocates, and spans that are made in the middle of an allocation.

#![allow(unsafe_code, reason = "allocators of its own")]

use codetag::{TagAlloc, TagLayer};
use codetag_span_tests::{current, enable, live, tags_off};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::thread;
use tracing::info_span;
use tracing::subscriber::with_default;
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOC: Counting<TagAlloc<Noisy>> = Counting(TagAlloc::new(Noisy(System)));

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static NOISE: Cell<u32> = const { Cell::new(0) };
}

/// Counts the calls of each thread.
struct Counting<A>(A);

// SAFETY: every call is passed on as it came.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as the caller's.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as the caller's.
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as the caller's.
        unsafe { self.0.realloc(at, layout, bytes) }
    }
}

/// An inner allocator that is instrumented: while `NOISE` is not 0 each call makes spans, which allocate.
struct Noisy(System);

fn noise() {
    let left = NOISE.get();
    if left > 0 {
        // Without end it would call itself.
        NOISE.set(0);
        let in_allocator = info_span!("in the allocator");
        in_allocator.in_scope(|| {
            let deeper = info_span!("deeper in it");
            let words: Vec<String> = deeper.in_scope(|| (0..20).map(|n| n.to_string()).collect());
            drop(words);
        });
        NOISE.set(left - 1);
    }
}

// SAFETY: every call is passed on as it came.
unsafe impl GlobalAlloc for Noisy {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        noise();
        // SAFETY: as the caller's.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        noise();
        // SAFETY: as the caller's.
        unsafe { self.0.dealloc(at, layout) }
    }
}

/// Calls of the allocator by this thread while `f` runs.
fn calls(f: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    f();
    CALLS.get() - before
}

#[test]
fn entering_and_leaving_allocates_nothing_after_the_first_time() {
    with_default(tracing_subscriber::registry().with(TagLayer::new()), || {
        let nested = |n: usize| {
            let spans: Vec<_> = (0..n).map(|_| info_span!("nested")).collect();
            let enter_all = || {
                let mut entered: Vec<_> = Vec::with_capacity(n);
                entered.extend(spans.iter().map(tracing::Span::enter));
                // Out of order too.
                entered.swap(0, n - 1);
            };
            enter_all();
            // The vector, made and freed.
            assert_eq!(calls(enter_all), 2);
        };
        nested(10);
        // Deeper than the part of the stack that lies in the thread-locals.
        nested(70);
        // A new span of a callsite that was seen: nothing of ours either.
        let make = || drop(info_span!("again").entered());
        make();
        assert_eq!(calls(make), 0);
    });
}

#[test]
fn what_the_layer_allocates_is_charged_to_no_span() {
    enable();
    with_default(tracing_subscriber::registry().with(TagLayer::new()), || {
        // The registry's own tables, first.
        info_span!("warm").in_scope(|| info_span!("warmer").in_scope(|| ()));
        info_span!("maker").in_scope(|| {
            // A callsite that is seen for the first time, by a layer that is made here, and a deep stack.
            let new = info_span!("seen for the first time");
            {
                let _layer = TagLayer::new();
                assert_eq!(current() == "maker", !tags_off());
            }
            for _ in 0..40 {
                std::mem::forget(new.enter());
            }
            for _ in 0..40 {
                tracing::dispatcher::get_default(|d| d.exit(&new.id().unwrap()));
            }
        });
        // The registry's own stack of the thread grew to 64 entries under the span.
        let (objs, bytes) = live("maker");
        assert!(
            objs <= 1 && bytes <= 64 * 16,
            "{objs} objects, {bytes} bytes"
        );
        assert_eq!(
            live("seen for the first time").0 + objs,
            u64::from(!tags_off())
        );
    });
}

#[test]
fn spans_in_the_middle_of_an_allocation() {
    enable();
    with_default(tracing_subscriber::registry().with(TagLayer::new()), || {
        info_span!("outer").in_scope(|| {
            let mut kept = Vec::with_capacity(64);
            NOISE.set(u32::MAX);
            for n in 0..64 {
                // Large ones call the inner allocator each time, small ones for a chunk.
                kept.push(vec![0_u8; 20_000 + n]);
                kept.push(vec![0_u8; 8_000]);
                if kept.len() > 32 {
                    kept.truncate(8);
                }
                assert_eq!(current() == "outer", !tags_off());
            }
            NOISE.set(0);
            drop(kept);
        });
        assert_eq!(current(), "untagged");
        assert_eq!(live("in the allocator"), (0, 0));
        assert_eq!(live("deeper in it"), (0, 0));
    });
    // On a thread whose first allocation it is that makes a span.
    let noisy = thread::spawn(|| {
        with_default(tracing_subscriber::registry().with(TagLayer::new()), || {
            NOISE.set(1_000);
            let kept: Vec<Vec<u8>> = (0..200).map(|n| vec![1; 17_000 + n]).collect();
            NOISE.set(0);
            assert_eq!(current(), "untagged");
            kept.iter().map(Vec::len).sum::<usize>()
        })
    });
    assert_eq!(noisy.join().unwrap(), 200 * 17_000 + 199 * 100);
}
