//! Enters and leaves a span 100,000 times, for Callgrind to count: `span_cost none|hooks|tags`.
//!
//! Over the registry stands a layer: with `none` one that has no hooks, so that none is called; with `hooks`
//! one whose hooks are called and do nothing; with `tags` it is `TagLayer`. What is counted is `measured`.
//! Prints `pairs N`.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::ExitCode;
use tracing::Subscriber;
use tracing::span::{Id, Span};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

const PAIRS: u32 = 100_000;

struct NoHooks;

impl<S: Subscriber> Layer<S> for NoHooks {}

struct EmptyHooks;

impl<S: Subscriber> Layer<S> for EmptyHooks {
    #[inline(never)]
    fn on_enter(&self, id: &Id, _ctx: Context<'_, S>) {
        black_box(id);
    }

    #[inline(never)]
    fn on_exit(&self, id: &Id, _ctx: Context<'_, S>) {
        black_box(id);
    }
}

#[inline(never)]
fn measured(span: &Span, pairs: u32) {
    for _ in 0..pairs {
        black_box(span).in_scope(|| ());
    }
}

fn run() {
    let outer = tracing::info_span!("outer");
    let _outer = outer.enter();
    let span = tracing::info_span!("measured");
    measured(&span, PAIRS);
    println!("pairs {PAIRS}");
}

fn main() -> ExitCode {
    let registry = tracing_subscriber::registry();
    match std::env::args().nth(1).as_deref() {
        Some("none") => registry.with(NoHooks).init(),
        Some("hooks") => registry.with(EmptyHooks).init(),
        Some("tags") => registry.with(codetag::TagLayer::new()).init(),
        _ => {
            eprintln!("usage: span_cost none|hooks|tags");
            return ExitCode::from(2);
        }
    }
    run();
    ExitCode::SUCCESS
}
