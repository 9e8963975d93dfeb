//! What runs the workloads.

use crate::args::{Args, Mode};
use crate::confirm;
use crate::larger::{Hackbench, KINDS, Kind, Larger, Outcome, Setup};
use crate::patterns::{PATTERNS, Pattern, Slots, verify};
use crate::peers::Peer;
use crate::report::{Report, peak_rss};
use crate::samples::Lane;
use crate::scale::Scale;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use std::time::Instant;

/// Calls what is measured.
pub(crate) type Measured = fn(&mut dyn FnMut());

const REPEATS: u32 = 15;
const REPEATS_QUICK: u32 = 5;

/// What one operation of a pattern is.
const PATTERN_UNIT: &str = "one object: allocated and freed; sampled in batches";

/// Hour-long operations are beyond belief, and digits beyond three are noise.
const NS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// The names of all workloads, in their order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let patterns = PATTERNS.iter().map(|pattern| pattern.name);
    patterns.chain(KINDS.iter().map(|kind| kind.name))
}

/// Does what `args` say, and returns what is to be printed.
///
/// # Errors
///
/// One sentence, if something cannot be done or a workload came to something else than it must.
pub(crate) fn run(args: &Args, measured: Measured) -> Result<Report, String> {
    let mut report = Report::default();
    if args.mode == Mode::List {
        for name in names() {
            let family = name.split('.').next().unwrap_or(name);
            report.line("workload", format_args!("{name} family={family}"));
        }
        return Ok(report);
    }
    let peer = Peer::start()?;
    if args.enable {
        confirm::enable().map_err(|error| format!("profiling cannot be enabled: {error}"))?;
    }
    let held = confirm::Held::new();
    held.print("before", &mut report);
    match args.mode {
        Mode::List => {}
        Mode::Time => time(args, &mut report)?,
        Mode::Count => count(args, measured, &mut report)?,
        Mode::Memory => confirm::print_memory(&mut report),
        Mode::Hoard => hoard(args, &mut report)?,
    }
    held.print("after", &mut report);
    peer.confirm()?;
    peak_rss(&mut report)?;
    Ok(report)
}

fn chosen_patterns(args: &Args) -> impl Iterator<Item = &'static Pattern> {
    PATTERNS
        .iter()
        .filter(|pattern| pattern.name.starts_with(&args.only))
}

fn chosen_kinds(args: &Args) -> impl Iterator<Item = &'static Kind> {
    KINDS
        .iter()
        .filter(|kind| kind.name.starts_with(&args.only))
}

/// The repeats go over all patterns and sizes in turn, so that a slow phase of the machine is spread
/// over all of them. A larger workload has the process for itself while it is there.
fn time(args: &Args, report: &mut Report) -> Result<(), String> {
    time_patterns(args, report)?;
    for kind in chosen_kinds(args) {
        time_larger(kind, args, report)?;
    }
    Ok(())
}

fn time_patterns(args: &Args, report: &mut Report) -> Result<(), String> {
    let repeats = args.repeats.unwrap_or(default_repeats(args.scale));
    let mut slots = Slots::new();
    let mut lanes = chosen_patterns(args)
        .map(|pattern| Lane::new(pattern.sizes.len() * repeats as usize))
        .collect::<Result<Vec<_>, _>>()?;
    let cells: Vec<(usize, &Pattern, usize)> = chosen_patterns(args)
        .enumerate()
        .flat_map(|(at, pattern)| pattern.sizes.iter().map(move |size| (at, pattern, *size)))
        .collect();
    let mut fastest_ns = vec![f64::INFINITY; cells.len()];
    for _ in 0..repeats {
        for ((at, pattern, size), fastest_ns) in cells.iter().zip(&mut fastest_ns) {
            let pairs = pattern.timed_rounds * pattern.pairs_per_round;
            let start = Instant::now();
            (pattern.run)(*size, pattern.timed_rounds, &mut slots);
            let time = start.elapsed();
            *fastest_ns = fastest_ns.min(time.as_secs_f64() * 1e9 / f64::from(pairs));
            lanes[*at].record(time, u64::from(pairs));
        }
    }
    for ((_, pattern, size), ns) in cells.iter().zip(&fastest_ns) {
        report.line(
            format_args!("ns:{}:{size}", pattern.name),
            format_args!("{ns:.3}"),
        );
    }
    for (pattern, lane) in chosen_patterns(args).zip(&lanes) {
        report.line(
            format_args!("hdr:{}", pattern.name),
            histogram(std::slice::from_ref(lane))?,
        );
        report.line(format_args!("unit:{}", pattern.name), PATTERN_UNIT);
        print_check(pattern.name, verify(pattern, args.seed)?, report);
    }
    Ok(())
}

fn default_repeats(scale: Scale) -> u32 {
    match scale {
        Scale::Full => REPEATS,
        _ => REPEATS_QUICK,
    }
}

/// How often a larger workload is run: more or less often than the patterns are repeated, so that it takes as long.
fn runs(kind: &Kind, args: &Args) -> u32 {
    let by_default = match args.scale {
        Scale::Full => kind.runs.full,
        _ => kind.runs.quick,
    };
    let default = default_repeats(args.scale);
    let runs = u64::from(by_default) * u64::from(args.repeats.unwrap_or(default));
    u32::try_from(runs / u64::from(default))
        .unwrap_or(u32::MAX)
        .max(1)
}

fn time_larger(kind: &Kind, args: &Args, report: &mut Report) -> Result<(), String> {
    let runs = runs(kind, args);
    let mut workload = make(kind, args, runs)?;
    let (mut fastest_ns, mut check) = (f64::INFINITY, None);
    for _ in 0..runs {
        let start = Instant::now();
        workload.run();
        let ns = start.elapsed().as_secs_f64() * 1e9;
        let outcome = outcome(kind, &*workload, &mut check)?;
        fastest_ns = fastest_ns.min(ns / outcome.ops as f64);
    }
    // Not timed, and in every configuration, so that all have run equally often.
    confirm::watch_peak(&mut || workload.run(), report);
    outcome(kind, &*workload, &mut check)?;
    report.line(
        format_args!("ns:{}:0", kind.name),
        format_args!("{fastest_ns:.3}"),
    );
    report.line(
        format_args!("hdr:{}", kind.name),
        histogram(workload.lanes())?,
    );
    report.line(format_args!("unit:{}", kind.name), kind.unit);
    if let Some(check) = check {
        print_check(kind.name, check, report);
    }
    Ok(())
}

fn count(args: &Args, measured: Measured, report: &mut Report) -> Result<(), String> {
    let mut slots = Slots::new();
    for pattern in chosen_patterns(args) {
        let rounds = pattern.counted_rounds;
        for _warm_then_counted in 0..2 {
            measured(&mut || {
                for size in pattern.sizes {
                    (pattern.run)(*size, rounds, &mut slots);
                }
            });
        }
        let pairs = rounds * pattern.pairs_per_round * pattern.sizes.len() as u32;
        report.line(format_args!("ops:{}", pattern.name), pairs);
        print_check(pattern.name, verify(pattern, args.seed)?, report);
    }
    for kind in chosen_kinds(args) {
        let mut workload = make(kind, args, 0)?;
        let (mut ops, mut check) = (0, None);
        for _warm_then_counted in 0..2 {
            measured(&mut || workload.run());
            ops = outcome(kind, &*workload, &mut check)?.ops;
        }
        report.line(format_args!("ops:{}", kind.name), ops);
        if let Some(check) = check {
            print_check(kind.name, check, report);
        }
    }
    Ok(())
}

fn make(kind: &Kind, args: &Args, timed_runs: u32) -> Result<Box<dyn Larger>, String> {
    let setup = Setup {
        scale: args.scale,
        seed: args.seed,
        timed_runs,
    };
    (kind.make)(setup).map_err(|error| format!("{}: {error}", kind.name))
}

/// What the run has come to; each run must come to the same.
fn outcome(kind: &Kind, workload: &dyn Larger, check: &mut Option<u64>) -> Result<Outcome, String> {
    let outcome = workload
        .outcome()
        .map_err(|error| format!("{}: {error}", kind.name))?;
    match check.replace(outcome.check) {
        Some(before) if before != outcome.check => Err(format!(
            "{}: one run came to {before:016x}, the next to {:016x}",
            kind.name, outcome.check
        )),
        _ => Ok(outcome),
    }
}

fn print_check(name: &str, check: u64, report: &mut Report) {
    report.line(format_args!("check:{name}"), format_args!("{check:016x}"));
}

/// All samples in one histogram of whole nanoseconds, as text.
fn histogram(lanes: &[Lane]) -> Result<String, String> {
    let error = |error: &dyn std::fmt::Display| format!("the histogram: {error}");
    let mut histogram =
        Histogram::<u64>::new_with_bounds(1, NS_MAX, DIGITS).map_err(|e| error(&e))?;
    for ns in lanes.iter().flat_map(Lane::samples) {
        histogram.saturating_record(ns);
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&histogram, &mut bytes)
        .map_err(|e| error(&e))?;
    Ok(STANDARD.encode(bytes))
}

/// What the heap keeps after messages went from thread to thread, and threads came and went.
fn hoard(args: &Args, report: &mut Report) -> Result<(), String> {
    let mut hackbench = Hackbench::new(Setup {
        scale: args.scale,
        seed: args.seed,
        timed_runs: 0,
    })?;
    confirm::print_heap("start", report)?;
    for run in 1..=3 {
        hackbench.run();
        hackbench.outcome()?;
        confirm::print_heap(&format!("run{run}"), report)?;
    }
    confirm::shrink();
    confirm::print_heap("shrunk", report)
}
