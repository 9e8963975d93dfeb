//! Spans as tags: whatever is done to a span, the innermost one that a thread is in is charged.

#![forbid(unsafe_code)]

use codetag::TagLayer;
use codetag_span_tests::{current, enable, live, tags_off};
use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::thread;
use tracing::subscriber::{self, set_default, with_default};
use tracing::{Instrument, Span, info_span};
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

fn subscriber() -> impl tracing::Subscriber + Send + Sync {
    tracing_subscriber::registry().with(TagLayer::new())
}

/// Runs a test under a subscriber of its own; with the tags compiled out it only has to run.
fn with_layer(test: impl FnOnce(&dyn Fn(&str))) {
    with_default(subscriber(), || {
        test(&|expected| {
            let expected = if tags_off() { "untagged" } else { expected };
            assert_eq!(current(), expected);
        });
        assert_eq!(current(), "untagged");
    });
}

#[codetag::alloc_tag]
fn tagged<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[test]
fn a_span_is_current_while_it_is_entered() {
    with_layer(|is| {
        let (a, b) = (info_span!("a"), info_span!("b"));
        is("untagged");
        a.in_scope(|| {
            is("a");
            b.in_scope(|| is("b"));
            is("a");
        });
        is("untagged");
    });
}

#[test]
fn spans_are_left_in_any_order() {
    with_layer(|is| {
        let (a, b, c) = (info_span!("a"), info_span!("b"), info_span!("c"));
        let (in_a, in_b, in_c) = (a.enter(), b.enter(), c.enter());
        is("c");
        drop(in_b);
        is("c");
        drop(in_c);
        is("a");
        let in_c = c.enter();
        drop(in_a);
        is("c");
        drop(in_c);
        is("untagged");
    });
}

#[test]
fn a_span_is_entered_twice_on_one_thread() {
    with_layer(|is| {
        let (a, b) = (info_span!("a"), info_span!("b"));
        let first = a.enter();
        let in_b = b.enter();
        let second = a.enter();
        is("a");
        // A subscriber hears that `a` is left, and cannot know by which guard: it takes the last one.
        drop(first);
        is("b");
        drop(in_b);
        is("a");
        drop(second);
        is("untagged");
    });
}

#[test]
fn a_span_is_entered_on_several_threads_at_once() {
    let subscriber = tracing::Dispatch::new(subscriber());
    let span = tracing::dispatcher::with_default(&subscriber, || info_span!("many"));
    let all_in = Barrier::new(4);
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..100 {
                    let entered = span.enter();
                    all_in.wait();
                    assert_eq!(current() == "many", !tags_off());
                    all_in.wait();
                    drop(entered);
                    assert_eq!(current(), "untagged");
                }
            });
        }
    });
}

#[test]
fn clones_and_closed_spans() {
    with_layer(|is| {
        let span = info_span!("cloned");
        let clone = span.clone();
        drop(span);
        clone.in_scope(|| is("cloned"));
        drop(clone);
        // Ids of closed spans are given again: by then to another callsite.
        for _ in 0..20_000 {
            info_span!("first").in_scope(|| is("first"));
            info_span!("second").in_scope(|| is("second"));
        }
    });
}

#[test]
fn more_open_spans_than_the_table_has_room_for() {
    with_layer(|is| {
        let spans: Vec<Span> = (0..6_000)
            .map(|i| match i % 3 {
                0 => info_span!("zero"),
                1 => info_span!("one"),
                _ => info_span!("two"),
            })
            .collect();
        for (i, span) in spans.iter().enumerate() {
            span.in_scope(|| is(["zero", "one", "two"][i % 3]));
        }
        // In reverse, and half of them closed.
        for (i, span) in spans.into_iter().enumerate().rev() {
            if i.is_multiple_of(2) {
                span.in_scope(|| is(["zero", "one", "two"][i % 3]));
            }
        }
    });
}

#[test]
fn a_hundred_spans_deep() {
    fn down(n: u32, is: &dyn Fn(&str)) {
        if n > 0 {
            let (name, span) = if n.is_multiple_of(2) {
                ("even", info_span!("even"))
            } else {
                ("odd", info_span!("odd"))
            };
            span.in_scope(|| {
                is(name);
                down(n - 1, is);
                is(name);
            });
        }
    }
    with_layer(|is| down(100, is));
}

#[test]
fn spans_and_tagged_functions_each_own_what_is_theirs() {
    with_layer(|is| {
        let (outer, inner) = (info_span!("outer"), info_span!("inner"));
        outer.in_scope(|| {
            tagged(|| {
                is("tagged");
                inner.in_scope(|| is("inner"));
                is("tagged");
            });
            is("outer");
        });
        tagged(|| {
            let left_behind = inner.clone().entered();
            is("inner");
            drop(left_behind);
            is("tagged");
        });
        is("untagged");
    });
}

/// As the layer's documentation says.
#[test]
fn a_guard_that_is_dropped_in_a_tagged_function_shows_until_the_scope_around_it_ends() {
    with_layer(|is| {
        let (outer, moved) = (info_span!("outer"), info_span!("moved"));
        outer.in_scope(|| {
            let entered = moved.entered();
            tagged(|| {
                drop(entered);
                is("outer");
            });
            is("moved");
        });
        is("untagged");
    });
}

#[test]
fn handles_of_spans_are_handles() {
    with_layer(|is| {
        let handle = info_span!("asks").in_scope(codetag::current);
        handle.scope(|| is("asks"));
        let there = thread::spawn(handle.wrap(current)).join().unwrap();
        assert_eq!(there == "asks", !tags_off());
    });
}

#[test]
fn a_future_moves_between_threads_at_each_poll() {
    struct Yield(bool);
    impl Future for Yield {
        type Output = ();
        fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }
    }
    let _default = set_default(subscriber());
    let mut future = pin!(
        async {
            let mut seen = Vec::new();
            for _ in 0..10 {
                seen.push((thread::current().id(), current()));
                Yield(false).await;
            }
            seen
        }
        .instrument(info_span!("moves"))
    );
    let seen = loop {
        // Each poll on a thread of its own.
        let polled = thread::scope(|s| {
            let poll = || {
                let polled = future
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()));
                assert_eq!(current(), "untagged");
                polled
            };
            s.spawn(poll).join().unwrap()
        });
        if let Poll::Ready(seen) = polled {
            break seen;
        }
    };
    let threads: HashSet<_> = seen.iter().map(|(thread, _)| *thread).collect();
    assert_eq!(threads.len(), 10);
    assert!(seen.iter().all(|(_, tag)| (*tag == "moves") != tags_off()));
}

#[test]
fn a_subscriber_is_replaced_while_its_spans_are_entered() {
    let in_scope = |name| if tags_off() { "untagged" } else { name };
    let first = set_default(subscriber());
    let old = info_span!("old");
    let in_old = old.enter();
    assert_eq!(current(), in_scope("old"));
    {
        let _second = set_default(subscriber());
        // In both registries the first span has the same id.
        let new = info_span!("new");
        assert_eq!(new.id(), old.id());
        new.in_scope(|| {
            assert_eq!(current(), in_scope("new"));
            old.in_scope(|| assert_eq!(current(), in_scope("old")));
            assert_eq!(current(), in_scope("new"));
        });
        assert_eq!(current(), in_scope("old"));
    }
    drop(first);
    // The subscriber lives as long as its spans.
    assert_eq!(current(), in_scope("old"));
    drop(in_old);
    assert_eq!(current(), "untagged");
    old.in_scope(|| assert_eq!(current(), in_scope("old")));
    drop(old);
    assert_eq!(current(), "untagged");
}

#[test]
fn a_subscriber_without_the_layer_changes_nothing() {
    subscriber::with_default(tracing_subscriber::registry(), || {
        info_span!("unseen").in_scope(|| assert_eq!(current(), "untagged"));
    });
}

#[test]
fn two_layers_in_one_subscriber_agree() {
    let both = tracing_subscriber::registry()
        .with(TagLayer::new())
        .with(TagLayer::new());
    subscriber::with_default(both, || {
        let (a, b) = (info_span!("a"), info_span!("b"));
        a.in_scope(|| {
            b.in_scope(|| assert_eq!(current() == "b", !tags_off()));
            assert_eq!(current() == "a", !tags_off());
        });
        assert_eq!(current(), "untagged");
    });
}

#[test]
fn a_tag_says_where_its_span_is() {
    with_layer(|_| {
        let line = line!() + 1;
        let tag = info_span!("where it is").in_scope(codetag::current).tag();
        let other = info_span!(target: "my::target", "x")
            .in_scope(codetag::current)
            .tag();
        if tags_off() {
            return;
        }
        assert_eq!(tag.function(), "where it is");
        assert_eq!((tag.module_path(), tag.krate()), ("layer", "layer"));
        assert_eq!((tag.file(), tag.line(), tag.column()), (file!(), line, 0));
        assert_eq!(tag.name(), None);
        assert_eq!((other.krate(), other.name()), ("layer", Some("my::target")));
    });
}

#[test]
fn figures_and_the_list_have_spans() {
    enable();
    with_layer(|_| {
        let span = info_span!("with figures");
        let kept = span.in_scope(|| vec![0_u8; 4_321]);
        if !tags_off() {
            assert_eq!(live("with figures"), (1, 4_321));
            let list = codetag::allocinfo().to_string();
            let line = list.lines().find(|l| l.contains("func:with_figures "));
            assert!(line.unwrap().ends_with(" requested:4321 "), "{line:?}");
        }
        drop(kept);
        assert_eq!(live("with figures"), (0, 0));
    });
}
