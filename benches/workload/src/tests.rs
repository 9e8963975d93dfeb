//! All workloads, in the smallest size, in this process.

use crate::args::{Args, Mode, parse};
use crate::driver::{names, run};
use crate::larger::{KINDS, Outcome, Setup};
use crate::patterns::{PATTERNS, verify};
use crate::scale::Scale;
use base64::Engine as _;
use hdrhistogram::serialization::Deserializer;
use std::cell::Cell;
use std::collections::BTreeMap;

fn tiny(mode: Mode, only: &str) -> Args {
    Args {
        only: only.to_owned(),
        scale: Scale::Tiny,
        repeats: Some(2),
        ..Args::new(mode)
    }
}

fn lines(args: &Args) -> BTreeMap<String, String> {
    let report = run(args, |run| run()).expect("the workloads run");
    report
        .text()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn run_once(kind: &crate::larger::Kind, seed: u64) -> Outcome {
    let setup = Setup {
        scale: Scale::Tiny,
        seed,
        timed_runs: 0,
    };
    let mut workload = (kind.make)(setup).expect("its input can be made");
    assert!(workload.outcome().is_err(), "{} has not run", kind.name);
    workload.run();
    workload.outcome().expect("the result is right")
}

#[test]
fn a_result_follows_from_the_seed() {
    for kind in KINDS {
        let outcome = run_once(kind, 5);
        assert_eq!(outcome, run_once(kind, 5), "{}", kind.name);
        assert_ne!(outcome.check, run_once(kind, 6).check, "{}", kind.name);
        assert!(outcome.ops > 0, "{}", kind.name);
    }
    for pattern in PATTERNS {
        let check = |seed| verify(pattern, seed).expect("blocks hold what is written");
        assert_eq!(check(5), check(5), "{}", pattern.name);
        assert_ne!(check(5), check(6), "{}", pattern.name);
    }
}

#[test]
fn the_measured_function_is_called_twice_per_workload() {
    thread_local!(static CALLS: Cell<u32> = const { Cell::new(0) });
    for name in names().filter(|name| name.starts_with("larger") || *name == "pages.paired") {
        CALLS.set(0);
        let report = run(&tiny(Mode::Count, name), |run| {
            CALLS.set(CALLS.get() + 1);
            run();
        })
        .expect("the workload runs");
        assert_eq!(CALLS.get(), 2, "{name}");
        let ops = report.text().matches("ops:").count();
        assert_eq!(ops, 1, "{name}");
    }
}

#[test]
fn what_is_timed_is_there_as_figure_and_as_histogram() {
    for name in names().filter(|name| name.starts_with("larger") || *name == "pages.paired") {
        let lines = lines(&tiny(Mode::Time, name));
        let value = |key: String| {
            lines
                .get(&key)
                .unwrap_or_else(|| panic!("{key} in {lines:?}"))
        };
        let size = if name.starts_with("larger") { 0 } else { 4096 };
        let ns: f64 = value(format!("ns:{name}:{size}"))
            .parse()
            .expect("a number");
        assert!(ns > 0.0 && ns.is_finite(), "{name}");
        assert!(!value(format!("unit:{name}")).is_empty());
        assert_eq!(value(format!("check:{name}")).len(), 16);
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(value(format!("hdr:{name}")))
            .expect("base64");
        let histogram: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .expect("a histogram");
        assert!(!histogram.is_empty() && histogram.max() > 0, "{name}");
    }
}

#[test]
fn timed_and_counted_runs_come_to_the_same() {
    let check = |mode| {
        let mut lines = lines(&tiny(mode, "larger.larson"));
        lines.remove("check:larger.larson").expect("a check")
    };
    assert_eq!(check(Mode::Time), check(Mode::Count));
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    let error = |args: &[&str]| match parse(lexopt::Parser::from_args(args)) {
        Ok(args) => panic!("{args:?}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(error(&[]), "a mode is missing");
    assert_eq!(error(&["run"]), "unknown mode \"run\"");
    assert_eq!(error(&["time", "--fast"]), "invalid option '--fast'");
    assert_eq!(error(&["memory", "--quick"]), "invalid option '--quick'");
    assert_eq!(error(&["list", "--enable"]), "invalid option '--enable'");
    assert_eq!(
        error(&["time", "--repeats", "0"]),
        "--repeats is at least 1"
    );
    assert!(error(&["time", "--seed", "x"]).contains("\"x\""));
    assert_eq!(
        error(&["count", "--only", "large.x"]),
        "no workload's name begins with \"large.x\""
    );
}
