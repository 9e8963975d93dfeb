//! The harness against programs whose figures and faults are known.

#![cfg(all(target_os = "linux", not(codetag_portable)))]
#![forbid(unsafe_code)]

mod project;

use codetag_overhead::callgrind::{self, Caches};
use codetag_overhead::child::{self, Capture};
use codetag_overhead::config::{BASE, Kind, ROWS, Row};
use codetag_overhead::counting::{self, Means};
use codetag_overhead::objsize;
use codetag_overhead::perf::{self, Event};
use codetag_overhead::progress::Progress;
use codetag_overhead::report;
use codetag_overhead::results::{Measured, Results};
use codetag_overhead::rounds::{self, Scale};
use codetag_overhead::workloads::{Plan, Workload};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// Set for the process that a test runs this very test in once more.
const AGAIN_ENV: &str = "CODETAG_TEST_AGAIN";

fn subject(name: &str) -> PathBuf {
    static DIR: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("subjects");
        fs::create_dir_all(&dir).expect("a place for programs");
        // Without a runtime.
        let alone = "-Cpanic=abort -Crelocation-model=static -Clink-args=-nostartfiles -Clink-args=-nostdlib -Clink-args=-static";
        for (source, options) in [("faults", alone), ("workload", "")] {
            let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
            // Renamed at the end, since tests of several processes build at a time.
            let new = dir.join(format!("{source}-{}", std::process::id()));
            let status = Command::new(rustc)
                .args(["--edition=2024", "-O"])
                .args(options.split_whitespace())
                .arg("-o")
                .arg(&new)
                .arg(format!(
                    "{}/tests/subjects/{source}.rs",
                    env!("CARGO_MANIFEST_DIR")
                ))
                .status();
            assert!(status.expect("rustc runs").success(), "{source}");
            fs::rename(new, dir.join(source)).expect("one directory");
        }
        dir
    });
    DIR.join(name)
}

/// The subject that speaks as the workload program does, under a name that tells it what to do wrong.
fn workload(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    // A program that was just written cannot be started while another thread forks with it open.
    fs::hard_link(subject("workload"), &path).expect("a link");
    path
}

fn row(key: &'static str) -> Row {
    Row {
        name: key,
        key,
        kind: Kind::Plain,
        state: "none",
        tracks: false,
        codetag: None,
        ..ROWS[0]
    }
}

fn plan() -> Plan {
    let workload = |name: &str, family: &str| Workload {
        name: name.to_owned(),
        family: family.to_owned(),
    };
    Plan {
        workloads: vec![workload("small.x", "small"), workload("larger.y", "larger")],
        units: vec!["small.".to_owned(), "larger.y".to_owned()],
    }
}

fn results(rows: &[Row], paths: impl IntoIterator<Item = PathBuf>) -> Results {
    let measured = rows.iter().zip(paths).map(|(row, path)| Measured {
        key: row.key,
        path,
        ..Measured::default()
    });
    Results(measured.collect())
}

fn scale(rounds: usize) -> Scale {
    Scale {
        rounds,
        limit: Duration::from_secs(3),
        ..Scale::quick()
    }
}

/// Runs `test` alone in a process of its own and returns that one's status and output.
fn again(test: &str, path: &str) -> (Option<i32>, String) {
    let output = Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", test, "--nocapture"])
        .env(AGAIN_ENV, "1")
        .env("PATH", path)
        .output()
        .expect("this test runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), text)
}

fn is_again() -> bool {
    std::env::var_os(AGAIN_ENV).is_some()
}

#[test]
fn rows_that_fail_say_why_in_one_line_and_the_others_go_on() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let names = [
        "tags-off", "crash", "fail", "hang", "garbage", "liar", "wrong", "fine",
    ];
    let mut rows = names.map(row).to_vec();
    let mut paths = names.map(|name| workload(dir.path(), name)).to_vec();
    rows.push(row("missing"));
    paths.push(dir.path().join("missing"));
    let mut results = results(&rows, paths);
    let done = rounds::time(
        &rows,
        &plan(),
        &mut results,
        &scale(2),
        &Progress::new("", 0),
    );
    assert_eq!(done, 2);

    let path = |name: &str| dir.path().join(name).display().to_string();
    let faults = |key: &str| -> Vec<(String, String)> {
        let row = results.row(key).expect("a row");
        let faults = row.errors.iter();
        faults
            .map(|fault| (fault.unit.clone().unwrap_or_default(), fault.what.clone()))
            .collect()
    };
    for key in ["tags-off", "fine"] {
        assert_eq!(faults(key), []);
        let row = results.row(key).expect("a row");
        assert!(row.rounds.len() == 2 && row.rounds.values().all(|cells| cells.len() == 2));
        assert_eq!(row.peak_rss("larger.y"), Some(1_048_576.0));
    }
    assert_eq!(results.ns("fine", "small.x").expect("times").p50, 5.5);

    let crashed = faults("crash");
    assert_eq!(crashed.len(), 1, "{crashed:?}");
    assert_eq!(crashed[0].0, "larger.y");
    assert!(
        crashed[0].1.starts_with(&format!(
            "{} was ended by signal: 6 (SIGABRT)",
            path("crash")
        )),
        "{crashed:?}"
    );
    assert_eq!(results.row("crash").expect("a row").rounds[&2].len(), 1);

    let both = |what: &str| ["small.", "larger.y"].map(|unit| (unit.to_owned(), what.to_owned()));
    assert_eq!(
        faults("fail"),
        both(&format!(
            "{} ended with exit status: 1: workload: no such luck",
            path("fail")
        ))
    );
    assert_eq!(
        faults("hang"),
        both(&format!("{} did not end within 3 s", path("hang")))
    );
    assert_eq!(
        faults("garbage"),
        both("line 1 of its output is no key with a value: `Hello, world!`")
    );
    assert_eq!(
        faults("liar"),
        both("its state before the measurement was on, and none was due")
    );
    assert_eq!(
        faults("missing"),
        both(&format!("there is no program {}", path("missing")))
    );
    let wrong = |name| format!("its result of {name} is bad, and that of the first row is c0ffee");
    assert_eq!(
        faults("wrong"),
        [
            ("small.".to_owned(), wrong("small.x")),
            ("larger.y".to_owned(), wrong("larger.y"))
        ]
    );

    let errors = report::errors(&rows, &results);
    assert_eq!(errors.len(), 13);
    assert!(
        errors.iter().all(|error| !error.contains('\n')),
        "{errors:?}"
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn ten_million_instructions_are_counted() {
    if let Err(why) = callgrind::available() {
        println!("{why}");
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let rows = [row(BASE), row("extra"), row("crash")];
    let mut results = results(
        &rows,
        ["base", "extra", "crash"].map(|name| workload(dir.path(), name)),
    );
    let means = Means {
        has_valgrind: true,
        has_pmu: false,
        missing: Vec::new(),
    };
    counting::count(&rows, &plan(), &mut results, &scale(1), &means, dir.path());
    for workload in ["small.x", "larger.y"] {
        let count = |key| 1_000.0 * results.instructions(key, workload).expect("counted");
        let extra = count("extra") - count(BASE);
        assert!((extra - 1e7).abs() <= 1e4, "{extra} in {workload}");
        let (misses, source) = results.i1_misses(BASE, workload).expect("simulated");
        assert!(
            misses.p50 < 50.0 && source.cache() == "cachegrind",
            "{misses}"
        );
    }
    // One unit of it crashes, and the other is counted.
    let crashed = results.row("crash").expect("a row");
    assert!(crashed.instructions.contains_key("small.x"), "{crashed:?}");
    assert_eq!(crashed.errors.len(), 1);
    assert!(
        crashed.errors[0]
            .what
            .starts_with("under valgrind: valgrind was ended by signal: 6"),
        "{crashed:?}"
    );
    assert_eq!(crashed.errors[0].unit.as_deref(), Some("larger.y"));

    // The whole of a program, without simulation.
    let whole = |name: &str| {
        let out = dir.path().join(format!("{name}.callgrind"));
        let mut command = Command::new(dir.path().join(name));
        command.args(["count", "--only", "small"]);
        child::run(
            &mut callgrind::wrap(&command, &out, None, Caches::None),
            LIMIT,
        )
        .expect("counted");
        callgrind::read(&out).expect("totals").instructions
    };
    let extra = whole("extra") - whole("base");
    assert!((extra - 1e7).abs() <= 1e4, "{extra}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn page_faults_are_counted_exactly() {
    if let Err(why) = perf::available(Event::PageFaults) {
        println!("{why}");
        return;
    }
    let faults = |pages: u32| {
        let mut command = Command::new(subject("faults"));
        command.arg(pages.to_string());
        let counted = perf::count(&command, Event::PageFaults, &Capture::Memory, LIMIT);
        let (count, ended) = counted.expect("counted");
        ended.success().expect("status 0");
        count
    };
    let base = faults(0);
    for pages in [1, 1_000, 3_000] {
        assert_eq!(faults(pages) - base, f64::from(pages));
    }
}

#[test]
fn time_on_the_processor_is_counted_and_a_missing_counter_says_so() {
    let mut command = Command::new("sh");
    command.args(["-c", "read -r line; echo \"<$line>\"; exit 3"]);
    match perf::count(&command, Event::TaskClock, &Capture::Memory, LIMIT) {
        Err(why) => println!("{why}"),
        Ok((ns, ended)) => {
            assert!(ns > 0.0 && ns < 60e9, "{ns}");
            // The line that started it was not for it.
            assert_eq!(ended.stdout, b"<>\n");
            assert_eq!(ended.status.code(), Some(3));
        }
    }
    if let Err(why) = perf::available(Event::Instructions) {
        let counted = perf::count(&command, Event::Instructions, &Capture::Memory, LIMIT);
        assert_eq!(
            counted.expect_err("no counter").to_string(),
            why.to_string()
        );
        assert!(
            why.to_string()
                .starts_with("instructions were not counted by perf: ")
        );
    }
}

#[test]
fn without_valgrind_and_counters_the_table_says_so() {
    if !is_again() {
        let test = "without_valgrind_and_counters_the_table_says_so";
        let (status, output) = again(test, "/nonexistent");
        assert_eq!(status, Some(0), "{output}");
        assert!(
            output.contains("valgrind is not installed, so nothing was counted by Callgrind\n"),
            "{output}"
        );
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let rows = [row(BASE)];
    // The first process has built it, and here is no compiler.
    let path = dir.path().join("base");
    fs::hard_link(
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("subjects/workload"),
        &path,
    )
    .expect("a link");
    let mut results = results(&rows, [path]);
    let mut means = Means::find();
    assert!(!means.has_valgrind);
    means.has_pmu = false;
    rounds::time(
        &rows,
        &plan(),
        &mut results,
        &scale(2),
        &Progress::new("", 0),
    );
    counting::count(&rows, &plan(), &mut results, &scale(2), &means, dir.path());
    println!("{}", means.missing.join("\n"));
    let output = report::output(&report::Input {
        rows: &rows,
        results: &results,
        plan: &plan(),
        pairs: &[],
    });
    let counts = output
        .sections
        .iter()
        .find(|section| section.heading.starts_with("Instructions"));
    let line = &counts.expect("a section").rows[1];
    assert_eq!(line[1..], ["–"; 7]);
    let times = output
        .sections
        .iter()
        .find(|section| section.heading.starts_with("Time"));
    assert_eq!(times.expect("a section").rows[1][3], "5.50");
}

#[test]
fn an_interrupt_keeps_the_rounds_that_are_done() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interrupt");
    if !is_again() {
        let _ = subject("workload");
        // It may be there from the last time.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        workload(&dir, "base");
        // From the 5th call on it has this process ended: in the second round that counts.
        let script = format!(
            "#!/bin/sh\necho x >> {0}/calls\nif [ $(wc -l < {0}/calls) -ge 5 ]; then kill -INT $PPID; exec sleep 1000; \
             fi\nexec {0}/base \"$@\"\n",
            dir.display()
        );
        let interrupter = dir.join("interrupter");
        fs::write(&interrupter, script).expect("a script");
        fs::set_permissions(&interrupter, fs::Permissions::from_mode(0o755)).expect("ours");
        let path = std::env::var("PATH").unwrap_or_default();
        let (status, output) = again("an_interrupt_keeps_the_rounds_that_are_done", &path);
        assert_eq!(status, Some(0), "{output}");
        assert!(
            output.contains("1 of 9 rounds, 1 noted, no faults\n"),
            "{output}"
        );
        return;
    }
    child::interrupt_on_signals();
    let rows = [row(BASE), row("interrupter")];
    let mut results = results(&rows, [dir.join("base"), dir.join("interrupter")]);
    let scale = Scale {
        limit: LIMIT,
        ..scale(9)
    };
    let done = rounds::time(&rows, &plan(), &mut results, &scale, &Progress::new("", 0));
    assert!(child::is_interrupted());
    // Nothing starts any more.
    assert!(child::run(&mut Command::new("true"), LIMIT).is_err());
    let faults: usize = results.0.iter().map(|row| row.errors.len()).sum();
    let noted = results.row("interrupter").expect("a row").rounds.len();
    assert_eq!(faults, 0);
    println!("\n{done} of 9 rounds, {noted} noted, no faults");
}

#[test]
fn functions_add_up_to_their_section() {
    let path = subject("workload");
    let functions =
        |chosen: &dyn Fn(&str) -> bool| objsize::functions(&path, chosen).expect("a program");
    let measured = functions(&|name| name == "codetag_bench_measured");
    let (all, others) = (
        functions(&|_| true),
        functions(&|name| name != "codetag_bench_measured"),
    );
    assert_eq!(measured.count, 1);
    assert_eq!(all.count, others.count + 1);
    assert_eq!(all.bytes, others.bytes + measured.bytes);
    // A loop of two instructions and a return.
    assert!((6..=32).contains(&measured.bytes), "{measured:?}");
    let object = &objsize::measure(&path).expect("a program").objects[0];
    assert!(all.bytes <= object.code_section_bytes && all.bytes > object.code_section_bytes / 2);
}

#[test]
fn sections_are_those_of_size() {
    let path = subject("workload");
    let Ok(theirs) = Command::new("size").arg("-A").arg(&path).output() else {
        println!("size(1) is not installed: nothing to compare with");
        return;
    };
    let theirs = String::from_utf8(theirs.stdout).expect("text");
    let bytes = |section: &str| -> u64 {
        let lines = theirs.lines().map(str::split_whitespace);
        let line = lines
            .map(Iterator::collect::<Vec<_>>)
            .find(|words| words.first() == Some(&section));
        line.map_or(0, |words| words[1].parse().expect("a number"))
    };
    let ours = objsize::measure(&path).expect("a program").objects[0].sections;
    assert_eq!(ours.eh_frame_bytes, bytes(".eh_frame"));
    assert_eq!(ours.gcc_except_table_bytes, bytes(".gcc_except_table"));
    assert_eq!(ours.rodata_bytes, bytes(".rodata"));
    assert_eq!(ours.rela_dyn_bytes, bytes(".rela.dyn"));
    assert!(ours.eh_frame_bytes > 0 && ours.rodata_bytes > 0 && ours.rela_dyn_bytes > 0);
}
