//! The program as the harness runs it.

use std::collections::BTreeMap;
use std::process::{Command, Output};

fn workload(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_workload"))
        .args(args)
        .env_remove("CODETAG")
        .output()
        .expect("the program starts")
}

/// The lines of a run that ends well, of which each is a key and a value.
fn lines(args: &[&str]) -> BTreeMap<String, String> {
    let output = workload(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    String::from_utf8(output.stdout)
        .expect("text")
        .lines()
        .map(|line| {
            let (key, value) = line.split_once(' ').expect("a key and a value");
            assert!(!value.trim().is_empty(), "{line}");
            (key.to_owned(), value.to_owned())
        })
        .collect()
}

fn number(lines: &BTreeMap<String, String>, key: &str) -> f64 {
    let value = lines
        .get(key)
        .unwrap_or_else(|| panic!("no {key} in {lines:?}"));
    value
        .parse()
        .unwrap_or_else(|error| panic!("{key} {value}: {error}"))
}

/// Whether the build under test has tags.
fn has_tags(lines: &BTreeMap<String, String>) -> bool {
    lines["state:before"] != "tags-off"
}

#[test]
fn the_list_names_each_workload_with_its_family() {
    let output = workload(&["list"]);
    let text = String::from_utf8(output.stdout).expect("text");
    let expected = "\
workload small.paired family=small
workload small.batch100 family=small
workload small.batch10000 family=small
workload pages.paired family=pages
workload pages.batch100 family=pages
workload large.paired family=large
workload large.grown family=large
workload larger.json family=larger
workload larger.syn family=larger
workload larger.words family=larger
workload larger.hackbench family=larger
workload larger.larson family=larger
workload larger.async family=larger
";
    assert_eq!(text, expected);
}

#[test]
fn usage_errors_end_with_2_and_other_failures_with_1() {
    for args in [
        &[][..],
        &["run"],
        &["time", "--fast"],
        &["time", "--repeats", "0"],
        &["count", "--repeats", "3"],
        &["time", "--only", "larger.xml"],
        &["memory", "extra"],
    ] {
        let output = workload(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.starts_with("workload: ") && stderr.contains("\nusage: "),
            "{stderr}"
        );
    }
    let output = Command::new(env!("CARGO_BIN_EXE_workload"))
        .args(["memory", "--enable"])
        .env("CODETAG", "never")
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.starts_with("workload: profiling cannot be enabled: ")
            && stderr.lines().count() == 1,
        "{stderr}"
    );
}

#[test]
fn a_timed_pattern_has_each_line() {
    let lines = lines(&[
        "time",
        "--quick",
        "--only",
        "small.batch100",
        "--repeats",
        "1",
    ]);
    for size in (8..=240).step_by(8) {
        assert!(number(&lines, &format!("ns:small.batch100:{size}")) > 0.0);
    }
    for key in ["hdr", "unit", "check"] {
        assert!(
            lines.contains_key(&format!("{key}:small.batch100")),
            "{key}"
        );
    }
    if cfg!(target_os = "linux") {
        // At least what is held; at most what no run of one pattern takes.
        let peak = number(&lines, "peak_rss_bytes");
        assert!((1e6..1e9).contains(&peak), "{peak}");
    }
}

#[test]
fn the_program_says_what_it_tracks_before_and_after() {
    let off = lines(&["count", "--quick", "--only", "pages.batch100"]);
    for when in ["before", "after"] {
        assert_eq!(number(&off, &format!("tracked_objs:{when}")), 0.0);
        assert_eq!(number(&off, &format!("tracked_bytes:{when}")), 0.0);
    }
    // 20 rounds of 100 objects.
    assert_eq!(number(&off, "ops:pages.batch100"), 2_000.0);
    if has_tags(&off) {
        let on = lines(&["count", "--quick", "--enable", "--only", "pages.batch100"]);
        for when in ["before", "after"] {
            assert_eq!(off[&format!("state:{when}")], "off");
            assert_eq!(on[&format!("state:{when}")], "on");
            assert_eq!(number(&on, &format!("tracked_objs:{when}")), 1_003.0);
            let bytes = f64::from(1_000 * 24 + 3 * (256 << 10));
            assert_eq!(number(&on, &format!("tracked_bytes:{when}")), bytes);
        }
        assert_eq!(off["check:pages.batch100"], on["check:pages.batch100"]);
    }
}

#[test]
fn a_larger_workload_says_what_its_vectors_take() {
    let lines = lines(&[
        "time",
        "--quick",
        "--only",
        "larger.larson",
        "--repeats",
        "1",
    ]);
    assert!(number(&lines, "ns:larger.larson:0") > 0.0);
    let bytes = number(&lines, "obj_exts_bytes");
    assert_eq!(bytes > 0.0, has_tags(&lines));
}

#[test]
fn what_the_tables_take_is_told_by_kind() {
    let off = lines(&["memory"]);
    let is_tagged = has_tags(&off);
    let told = if is_tagged {
        lines(&["memory", "--enable"])
    } else {
        off
    };
    let tags = number(&told, "code_tags");
    // Dozens in the workloads, of 32 bytes and one relocation each.
    assert_eq!(tags >= 60.0, is_tagged, "{tags}");
    if is_tagged {
        assert_eq!(number(&told, "code_tag_bytes"), 32.0 * tags);
        assert_eq!(number(&told, "tag_reloc_bytes"), 24.0 * tags);
    }
    for key in [
        "tag_string_bytes",
        "page_ext_bytes",
        "page_ext_bytes_per_entry",
        "page_ext_bytes_per_page",
        "registry_bytes",
        "obj_exts_bytes_per_slot:8",
        "obj_exts_bytes_per_slot:240",
        "obj_exts_bytes_per_slot_max",
        "obj_exts_percent",
    ] {
        assert_eq!(number(&told, key) > 0.0, is_tagged, "{key}");
    }
    assert!(number(&told, "thread_heap_bytes") > 0.0);
    assert!(number(&told, "counters_bytes") >= 0.0);
    let classes = told.keys().filter(|key| key.starts_with("obj_exts_class:"));
    assert!(classes.count() > 30);
    // 256 KiB each: 64 pages.
    let (entry, page) = (
        number(&told, "page_ext_bytes_per_entry"),
        number(&told, "page_ext_bytes_per_page"),
    );
    assert!(
        (entry / 64.0 - page).abs() <= 0.05 * entry,
        "{entry} {page}"
    );
}

#[test]
fn the_heap_does_not_hoard_what_threads_hand_on() {
    let lines = lines(
        &["hoard", "--quick", "--enable"][..if has_tags(&lines(&["memory"])) { 3 } else { 2 }],
    );
    let bytes = |when: &str| number(&lines, &format!("heap_bytes:{when}"));
    // The heap grows by 2 MiB at a time, and how many threads have objects at once is up to the scheduler.
    let slack = f64::from(4 << 20);
    assert!(bytes("run3") <= bytes("run1") + slack, "{lines:?}");
    let more = bytes("shrunk") - bytes("start");
    assert!(more <= f64::from(2 << 20), "{lines:?}");
}
