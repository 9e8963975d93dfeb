//! The program that the benches run: allocates and frees in known patterns, and times or counts itself.
//!
//! ```text
//! workload time|count|memory [--only PREFIX] [--repeats N] [--enable]
//! ```
//!
//! `time` prints nanoseconds per pair of alloc and free, the fastest of its repeats for each pattern and
//! size. `count` runs each pattern twice in [`codetag_bench_measured`], for Callgrind to count the second
//! run. `memory` prints what codetag's tables take per object. All print `key value` lines, and among them
//! what the allocator says of itself and how many of a known number of live objects it tracked.

mod patterns;

#[cfg(feature = "alloc-codetag")]
#[path = "confirm_codetag.rs"]
mod confirm;
#[cfg(not(feature = "alloc-codetag"))]
#[path = "confirm_none.rs"]
mod confirm;

use patterns::{PATTERNS, Pattern, Slots};
use std::process::ExitCode;
use std::time::Instant;

// The features are added up where a whole workspace is built with all of them: one of them must win.
#[cfg(feature = "alloc-mimalloc")]
#[global_allocator]
static ALLOC: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(all(feature = "alloc-system", not(feature = "alloc-mimalloc")))]
#[global_allocator]
static ALLOC: std::alloc::System = std::alloc::System;

#[cfg(all(
    feature = "alloc-codetag",
    not(any(feature = "alloc-system", feature = "alloc-mimalloc"))
))]
#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

const USAGE: &str = "usage: workload time|count|memory [--only PREFIX] [--repeats N] [--enable]";

#[derive(Debug)]
struct Args {
    mode: String,
    only: String,
    repeats: u32,
    enable: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<Args> {
    let mut parsed = Args {
        mode: args.next()?,
        only: String::new(),
        repeats: 15,
        enable: false,
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--only" => parsed.only = args.next()?,
            "--repeats" => parsed.repeats = args.next()?.parse().ok()?,
            "--enable" => parsed.enable = true,
            _ => return None,
        }
    }
    Some(parsed)
}

fn main() -> ExitCode {
    let Some(args) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if args.enable
        && let Err(error) = confirm::enable()
    {
        eprintln!("workload: profiling cannot be enabled: {error}");
        return ExitCode::FAILURE;
    }
    let held = confirm::Held::new();
    held.print("before");
    match args.mode.as_str() {
        "time" => time(&args),
        "count" => count(&args),
        "memory" => confirm::print_memory(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    held.print("after");
    ExitCode::SUCCESS
}

fn chosen(only: &str) -> impl Iterator<Item = &'static Pattern> {
    PATTERNS
        .iter()
        .filter(move |pattern| pattern.name.starts_with(only))
}

/// The repeats go over all patterns and sizes in turn, so that a slow phase of the machine is spread
/// over all of them; the fastest repeat of each counts.
fn time(args: &Args) {
    let mut slots = Slots::new();
    let cells: Vec<(&Pattern, usize)> = chosen(&args.only)
        .flat_map(|pattern| pattern.sizes.iter().map(move |size| (pattern, *size)))
        .collect();
    let mut fastest_ns = vec![f64::INFINITY; cells.len()];
    for _ in 0..args.repeats {
        for ((pattern, size), fastest_ns) in cells.iter().zip(&mut fastest_ns) {
            let start = Instant::now();
            (pattern.run)(*size, pattern.timed_rounds, &mut slots);
            let ns = start.elapsed().as_secs_f64() * 1e9;
            *fastest_ns =
                fastest_ns.min(ns / f64::from(pattern.timed_rounds * pattern.pairs_per_round));
        }
    }
    for ((pattern, size), ns) in cells.iter().zip(&fastest_ns) {
        println!("ns:{}:{size} {ns:.3}", pattern.name);
    }
}

fn count(args: &Args) {
    let mut slots = Slots::new();
    for pattern in chosen(&args.only) {
        for _warm_then_counted in 0..2 {
            codetag_bench_measured(pattern, &mut slots);
        }
        let pairs = pattern.counted_rounds * pattern.pairs_per_round * pattern.sizes.len() as u32;
        println!("pairs:{} {pairs}", pattern.name);
    }
}

/// What Callgrind counts, found by its name.
#[expect(
    unsafe_code,
    reason = "the attribute keeps the name as it is; no other symbol has it"
)]
#[unsafe(no_mangle)]
#[inline(never)]
fn codetag_bench_measured(pattern: &Pattern, slots: &mut Slots) {
    for size in pattern.sizes {
        (pattern.run)(*size, pattern.counted_rounds, slots);
    }
}
