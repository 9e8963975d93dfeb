//! The whole table, of a tree whose workloads do nothing but say what is due.

use codetag_overhead::callgrind;
use codetag_overhead::figures::{Format, Report};
use codetag_overhead::project::{self, Options};
use codetag_overhead::rounds::Scale;
use codetag_overhead::tree::Tree;
use std::fs;
use std::path::Path;
use std::time::Duration;

const MANIFEST: &str = r#"
[package]
name = "codetag-bench-workload"
version = "0.0.0"
edition = "2024"

[[bin]]
name = "workload"
path = "main.rs"

[features]
alloc-codetag = []
alloc-system = []
alloc-mimalloc = []
mimalloc-v2 = []
alloc-jemalloc = []
jemalloc-profiling = []
alloc-dhat = []
alloc-tracking = []

[workspace]
"#;

/// A tree of its own for each test, for builds leave their binaries in it.
fn options(name: &str, only: &str, rows: &[&str]) -> Options {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let workload = root.join("benches/workload");
    fs::create_dir_all(&workload).expect("a directory");
    fs::write(workload.join("Cargo.toml"), MANIFEST).expect("a manifest");
    let subject = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/subjects/tree.rs");
    fs::copy(subject, workload.join("main.rs")).expect("a source");
    let mut tree = Tree::find(&workload).expect("a tree");
    assert_eq!(tree.root, root);
    tree.target = root.join("target");
    Options {
        tree,
        only: only.to_owned(),
        rows: rows.iter().map(|row| (*row).to_owned()).collect(),
        scale: Scale {
            rounds: 6,
            orders: [2, 0, 0],
            limit: Duration::from_secs(60),
            ..Scale::quick()
        },
        with_text: false,
        command: "codetag overhead".to_owned(),
    }
}

fn measured(options: &Options) -> Report {
    let prepared = project::prepare(options).expect("workloads");
    project::measure(prepared, options)
}

fn figure(report: &Report, table: &str, row: &str, workload: &str, what: &str) -> f64 {
    let mut figures = report.figures.iter();
    let found = figures.find(|figure| {
        figure.table == table
            && figure.row == row
            && figure.workload == workload
            && figure.what == what
    });
    let value = found
        .unwrap_or_else(|| panic!("{table}, {row}, {workload}, {what}: {report:?}"))
        .value;
    // Means of logarithms are off in the last digits.
    (value * 1e9).round() / 1e9
}

fn verdict<'r>(report: &'r Report, start: &str) -> &'r str {
    let line = report
        .budgets
        .iter()
        .find(|budget| budget.what.starts_with(start));
    &line.unwrap_or_else(|| panic!("{start}")).verdict
}

#[test]
fn every_row_has_its_figures_and_one_that_cannot_be_built_its_cause() {
    let report = measured(&options("tree-whole", "", &[]));
    assert_eq!(report.errors.len(), 1, "{:?}", report.errors);
    let error = &report.errors[0];
    assert!(
        error.starts_with("dhat: cannot be built: ")
            && error.contains("this profiler cannot be built"),
        "{error}"
    );
    assert_eq!(report.interrupted, None);

    for row in ["tags off again (A/A)", "default-off"] {
        assert_eq!(
            figure(&report, "time", row, "small.x", "time / tags off"),
            1.0
        );
    }
    for row in [
        "enabled at start",
        "enabled at run time",
        "counters on the hot path",
    ] {
        assert_eq!(
            figure(&report, "time", row, "larger.y", "time / tags off"),
            2.0
        );
    }
    for row in [
        "System",
        "mimalloc v3",
        "mimalloc v2",
        "jemalloc",
        "jemalloc, profiling",
        "tracking-allocator",
    ] {
        assert_eq!(
            figure(&report, "time", row, "small.x", "time per operation"),
            30.0
        );
        assert_eq!(
            figure(
                &report,
                "peak-rss",
                row,
                "small",
                "peak RSS, median over rounds"
            ),
            3_145_728.0
        );
    }
    assert_eq!(
        figure(
            &report,
            "memory",
            "counters on the hot path",
            "",
            "counters × CPUs"
        ),
        4_096.0
    );
    assert_eq!(
        figure(
            &report,
            "obj_exts",
            "enabled at start",
            "slots of 8 B",
            "obj_exts per slot"
        ),
        4.0
    );
    assert!(figure(&report, "binary", "tracking", "", ".text") > 100_000.0);

    assert_eq!(
        verdict(&report, "enabled / tags off, small objects, time"),
        "missed"
    );
    assert_eq!(
        verdict(&report, "enabled / tags off, 4 KiB pages"),
        "not measured: no workload pages was run"
    );
    assert_eq!(
        verdict(
            &report,
            "tags off / mimalloc-v3, small objects, geometric mean"
        ),
        "met"
    );
    assert_eq!(verdict(&report, "enabled / fastest plain peer"), "met");
    assert_eq!(verdict(&report, "obj_exts, mean"), "met");
    assert_eq!(verdict(&report, "peak RSS, default-off / tags off"), "met");
    if callgrind::available().is_ok() {
        let count = |row| {
            figure(
                &report,
                "instructions",
                row,
                "small.x",
                "instructions per operation",
            )
        };
        assert!((count("enabled at start") / count("default-off") - 2.0).abs() < 0.01);
        assert_eq!(count("tags off again (A/A)"), count("tags off"));
        assert!(
            figure(
                &report,
                "i1-misses",
                "default-off",
                "larger.y",
                "over link orders"
            ) < 1.0
        );
        assert_eq!(verdict(&report, "default-off − tags off, small"), "met");
    }

    let mut out = Vec::new();
    report.write(Format::Text, &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    for line in [
        "\n   dhat  ",
        "\nerror: dhat: ",
        "\nBudgets\n",
        "6 rounds of all rows in turn",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn rows_and_workloads_are_chosen_by_name() {
    let report = measured(&options("tree-some", "larger.", &["default-off"]));
    assert_eq!(report.errors, [] as [String; 0]);
    assert!(
        report
            .figures
            .iter()
            .all(|figure| figure.workload != "small.x")
    );
    assert!(
        report
            .figures
            .iter()
            .all(|figure| !figure.row.starts_with("enabled"))
    );
    assert_eq!(
        figure(
            &report,
            "time",
            "default-off",
            "larger.y",
            "time per operation"
        ),
        10.0
    );
    assert_eq!(
        verdict(&report, "tags off / mimalloc-v3"),
        "not measured: no workload small was run"
    );

    let no_workload = project::prepare(&options("tree-some", "none", &["default-off"]));
    assert_eq!(
        no_workload.expect_err("no workload"),
        "no workload starts with none: there are small.x, larger.y"
    );
    let no_row = project::prepare(&options("tree-some", "", &["none"]));
    assert!(
        no_row
            .expect_err("no row")
            .starts_with("there is no row none: ")
    );
}

#[test]
fn workloads_that_cannot_be_built_are_one_error() {
    let options = options("tree-broken", "", &["default-off"]);
    let main = options.tree.root.join("benches/workload/main.rs");
    fs::write(main, "fn main() { not rust }").expect("a source");
    let error = project::prepare(&options).expect_err("no program");
    assert!(
        error.starts_with("the workloads cannot be built: ") && error.contains("error: "),
        "{error}"
    );
    assert!(!error.contains('\n'), "{error}");
}
