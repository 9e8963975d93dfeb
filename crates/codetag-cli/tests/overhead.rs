//! `codetag overhead` for a program of somebody's, and what it says of wrong use.

#![cfg(all(target_os = "linux", not(codetag_portable)))]
#![forbid(unsafe_code)]

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

const MANIFEST: &str = r#"
[package]
name = "app"
version = "0.0.0"
edition = "2024"

[dependencies]
codetag = { path = "CODETAG" }

[workspace]
"#;

/// Does some work; serves it; or has its parent interrupted when it runs for the sixth time.
const APP: &str = r#"
use std::io::{Read, Write};

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

#[codetag::alloc_tag]
fn work() -> Vec<String> {
    (0..1_000).map(|n| format!("word {n}")).collect()
}

unsafe extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
}

const SIGTERM: i32 = 15;
const SIG_IGN: usize = 1;

fn serve(port: &str) {
    let listener = std::net::TcpListener::bind(format!("127.0.0.1:{port}")).expect("a free port");
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let mut word = [0; 4];
        if stream.read_exact(&mut word).is_ok() {
            let words = work();
            write!(stream, "{}", words.len()).expect("it listens");
            if &word == b"quit" {
                return;
            }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words = work();
    println!("{} words, {args:?}", words.len());
    // Held to the end.
    std::mem::forget(words);
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", port] => serve(port),
        // Ends by the word alone, however early the signal comes.
        ["serve", port, "deaf"] => {
            // SAFETY: no handler of this program's is run.
            unsafe { signal(SIGTERM, SIG_IGN) };
            serve(port);
        }
        ["pid"] => println!("{}", std::process::id()),
        ["enable"] => codetag::enable().unwrap_or_else(|error| eprintln!("{error}")),
        ["remove", path] => std::fs::remove_dir_all(path).unwrap_or(()),
        ["fail"] => {
            eprintln!("{}", "x".repeat(1 << 20));
            std::process::exit(3);
        }
        ["env"] => println!("{:?}", std::env::var("CODETAG")),
        ["interrupt", calls] => {
            let mut file = std::fs::File::options().create(true).append(true).open(calls).expect("a file");
            file.write_all(b"x").expect("written");
            if file.metadata().expect("a file").len() >= 6 {
                let parent = std::os::unix::process::parent_id().to_string();
                // As `timeout` does it, twice; in a session of its own, since the first signal kills this one's.
                let kill = format!("kill -INT {parent}; kill -TERM {parent}");
                let status = std::process::Command::new("setsid").args(["sh", "-c", &kill]).status();
                assert!(status.expect("sh runs").success());
                std::thread::park();
            }
        }
        _ => {}
    }
}
"#;

const PLAIN: &str = "fn main() { println!(\"plain\"); }\n";

fn app() -> &'static Path {
    static APP_DIR: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overhead-app");
        fs::create_dir_all(dir.join("src/bin")).expect("a place for files");
        let codetag = Path::new(env!("CARGO_MANIFEST_DIR")).join("../codetag");
        let manifest = MANIFEST.replace("CODETAG", codetag.to_str().expect("UTF-8"));
        fs::write(dir.join("Cargo.toml"), manifest).expect("a manifest");
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
        fs::copy(lock, dir.join("Cargo.lock")).expect("the versions of the workspace");
        fs::write(dir.join("src/main.rs"), APP).expect("a source");
        fs::write(dir.join("src/bin/plain.rs"), PLAIN).expect("a source");
        dir
    });
    &APP_DIR
}

fn codetag(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codetag"));
    command
        .arg("overhead")
        .args(args)
        .stdin(Stdio::null())
        .current_dir(app())
        .env_remove("CARGO_TARGET_DIR");
    command
}

static ONE: Mutex<()> = Mutex::new(());

/// For the app, in few rounds. One at a time, since what a program writes is kept under its name.
fn measure(bin: &str, args: &[&str]) -> Output {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let all = [
        &[
            "--manifest-path",
            "Cargo.toml",
            "--profile",
            "dev",
            "--quick",
            "--bin",
            bin,
        ],
        args,
    ]
    .concat();
    let output = codetag(&all).output().expect("codetag runs");
    // No temporary file is left beside builds and outputs, however it ended.
    for entry in fs::read_dir(app().join("target/codetag-overhead"))
        .into_iter()
        .flatten()
    {
        let name = entry.expect("an entry").file_name();
        let is_known = ["bin", "output", "tags", "tags-off"]
            .iter()
            .any(|known| name == *known);
        assert!(is_known, "{}", name.display());
    }
    output
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn figure(report: &Value, table: &str, row: &str, what: &str) -> f64 {
    let figures = report["figures"].as_array().expect("figures");
    let it = figures
        .iter()
        .find(|figure| figure["table"] == table && figure["row"] == row && figure["what"] == what);
    it.unwrap_or_else(|| panic!("{table}, {row}, {what}: {report}"))["value"]
        .as_f64()
        .expect("a number")
}

fn errors(report: &Value) -> Vec<&str> {
    let errors = report["errors"].as_array().expect("errors");
    errors
        .iter()
        .map(|error| error.as_str().expect("text"))
        .collect()
}

#[test]
fn a_program_is_built_and_run_in_each_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let [chart, file] =
        ["chart.svg", "report.json"].map(|name| dir.path().join(name).display().to_string());
    let args = [
        "--rounds",
        "3",
        "--format",
        "json",
        "-o",
        &file,
        "--chart",
        &chart,
        "--",
        "one",
        "two words",
    ];
    let output = measure("app", &args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}"
    );
    let report: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
    assert_eq!(errors(&report), [] as [&str; 0]);
    let command = report["machine"]["command"].as_str().expect("text");
    assert!(command.ends_with("-- one 'two words'"), "{command}");
    for row in ["tags off", "tags off again (A/A)", "default-off", "enabled"] {
        assert!(figure(&report, "time", row, "wall time") > 0.0);
        assert!(figure(&report, "time", row, "CPU time / tags off") > 0.0);
    }
    assert_eq!(
        figure(&report, "state", "default-off", "objects tracked at exit"),
        0.0
    );
    assert!(figure(&report, "state", "enabled", "objects tracked at exit") >= 1_001.0);
    assert_eq!(figure(&report, "binary", "tags off", "code tags"), 0.0);
    assert_eq!(figure(&report, "binary", "tags", "code tags"), 1.0);
    assert_eq!(
        figure(
            &report,
            "text",
            "tags − tags off",
            "section and relocation per tag, strings apart"
        ),
        56.0
    );
    if Command::new("valgrind").arg("--version").output().is_ok() {
        let count = |row| figure(&report, "instructions", row, "instructions");
        assert!(count("enabled") > count("default-off") && count("default-off") > 100_000.0);
        assert!(figure(&report, "i1-misses", "enabled", "over link orders") > 0.0);
    }
    let svg = fs::read_to_string(&chart).expect("a chart");
    assert!(svg.starts_with("<svg ") && svg.contains("default-off"));
    // What it wrote is kept, the page with it.
    let notes = report["notes"].to_string();
    let kept = notes
        .split("is kept: ")
        .nth(1)
        .expect("a note")
        .split("app-{")
        .next()
        .expect("a path");
    for (at, state) in [(1, "tags off"), (3, "off"), (4, "on")] {
        let read = |of| fs::read_to_string(format!("{kept}app-{at}.{of}")).expect("it is kept");
        assert_eq!(read("stdout"), "1000 words, [\"one\", \"two words\"]\n");
        assert!(read("stderr").contains(&format!("state: {state}, for ")));
    }
    assert!(!notes.contains("outputs differ"), "{notes}");
}

#[test]
fn other_outputs_of_other_rows_are_said() {
    for (mode, due) in [
        (
            "pid",
            "standard outputs differ, those of tags off twice too",
        ),
        ("env", "app-4.stdout.\""),
    ] {
        let report = json(&measure(
            "app",
            &["--rounds", "1", "--format", "json", "--", mode],
        ));
        let notes = report["notes"].to_string();
        assert!(
            notes.contains("outputs differ") && notes.contains(due),
            "{notes}"
        );
    }
}

#[test]
fn a_program_without_codetag_is_one_clear_error() {
    let output = measure("plain", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    for line in [
        "does not use codetag: add ",
        "static ALLOC: codetag::TagAlloc",
        "#[codetag::alloc_tag]",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn a_server_is_measured_under_a_load() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener
            .local_addr()
            .expect("an address")
            .port()
            .to_string()
    };
    let ready = format!("127.0.0.1:{port}");
    let serve = |word: &str, more: &[&str]| {
        let load = format!(
            "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; printf {word} >&3; read -r -N 4 said <&3; [ $said = 1000 ]'"
        );
        let args = [
            "--rounds", "1", "--format", "json", "--load", &load, "--ready", &ready, "--", "serve",
            &port,
        ];
        measure("app", &[&args[..], more].concat())
    };
    let output = serve("quit", &["deaf"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = json(&output);
    assert!(figure(&report, "time", "enabled", "wall time of the load") > 0.0);
    assert!(figure(&report, "time", "enabled", "CPU time") > 0.0);

    // Ended by the signal, it does not say what state it was in.
    let output = serve("work", &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = json(&output);
    let said = errors(&report);
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(
        said[3].starts_with(
            "enabled: not confirmed: it was ended by signal: 15 (SIGTERM) and printed no page"
        ),
        "{said:?}"
    );
}

#[test]
fn an_interrupt_prints_what_was_finished() {
    let dir = tempfile::tempdir().expect("a directory");
    let calls = dir.path().join("calls").display().to_string();
    let output = measure("app", &["--rounds", "4", "--", "interrupt", &calls]);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.ends_with("\ninterrupted: 0 of 4 rounds done\n"),
        "{said}"
    );
    assert!(said.contains("\nBytes of the binaries\n"), "{said}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_state_that_the_program_chose_itself_is_said_in_short_beside_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("report.json").display().to_string();
    let args = ["--rounds", "1", "--format", "json", "-o", &file, "--"];
    let output = measure("app", &[&args[..], &["enable"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let due = "default-off: not confirmed: its state at the end was on, and off was due: leave codetag::enable() out";
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    let missing = format!("codetag: {file}: figures are missing: {due}");
    assert!(said.starts_with(&missing), "{said}");
    let report: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
    assert_eq!(errors(&report).len(), 1);
    assert!(errors(&report)[0].starts_with(due), "{report}");

    // Each row quotes what the program said, its start alone, and not the page behind it.
    let output = measure("app", &[&args[..], &["fail"]].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let quoted = format!(
        "exit status: 3: {}… (and 3 more, in the report)\n",
        "x".repeat(200)
    );
    assert!(said.ends_with(&quoted), "{said}");
}

#[test]
fn a_report_that_cannot_be_saved_is_printed() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = dir.path().join("inner");
    fs::create_dir(&inner).expect("a directory");
    let [inner, file] = [&inner, &inner.join("report.csv")].map(|path| path.display().to_string());
    let args = [
        "--rounds", "1", "--format", "csv", "-o", &file, "--", "remove", &inner,
    ];
    let output = measure("app", &args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("report.csv: No such file"),
        "{output:?}"
    );
    assert!(
        text(&output.stdout).contains("\ntime,enabled,,wall time,"),
        "{output:?}"
    );
}

#[test]
fn a_second_measurement_says_that_it_waits() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = app().join("target/codetag-overhead");
    fs::create_dir_all(&dir).expect("a directory");
    let turn = fs::File::open(&dir).expect("it is there");
    turn.lock().expect("nobody else has it");
    let mut command = codetag(&["--manifest-path", "Cargo.toml", "--bin", "none"]);
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("codetag runs");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let first = said.next().expect("a line").expect("UTF-8");
    let waits = format!(
        "codetag: waiting for another measurement in {}",
        dir.display()
    );
    assert_eq!(first, waits);
    drop(turn);
    // It goes on, and there is no such program.
    let second = said.next().expect("a line").expect("UTF-8");
    assert!(second.contains("no bin target named `none`"), "{second}");
    assert_eq!(child.wait().expect("an end").code(), Some(1));
}

#[test]
fn what_cannot_be_built_says_why() {
    let output = measure("none", &[]);
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), said.lines().count()),
        (Some(1), 1),
        "{said}"
    );
    assert!(
        said.contains("cannot be built: ") && said.contains("error: no bin target named `none`"),
        "{said}"
    );
    let output = codetag(&["--manifest-path", "no/Cargo.toml", "--bin", "x"])
        .output()
        .expect("codetag runs");
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), said.lines().count()),
        (Some(1), 1),
        "{said}"
    );
    assert!(said.contains("no/Cargo.toml: No such file"), "{said}");
}

#[test]
fn wrong_use_is_told_before_anything_runs() {
    for (args, status, due) in [
        (&["--bin", "x"][..], 2, "--manifest-path"),
        (
            &["--manifest-path", "Cargo.toml"],
            2,
            "needs --bin NAME or --example NAME",
        ),
        (&["--load", "x"], 2, "--manifest-path"),
        (&["--rounds", "0"], 2, "0"),
        (
            &["--only", "small", "--manifest-path", "Cargo.toml"],
            2,
            "cannot be used with",
        ),
        (&["-o", "/no/such/folder/x"], 2, "No such file"),
        (&["--chart", "/"], 2, "directory"),
        (
            &["-o", "x", "--chart", "./x"],
            2,
            "x: is both the report and the chart",
        ),
        (
            &["--manifest-path", "Cargo.toml", "--bin", ""],
            2,
            "--bin <NAME>",
        ),
        (
            &[
                "--manifest-path",
                "Cargo.toml",
                "--bin",
                "app",
                "--load",
                "true",
                "--ready",
                "localhost",
            ],
            2,
            "is not HOST:PORT",
        ),
    ] {
        let output = codetag(args).output().expect("codetag runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        assert!(said.contains(due), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
    // Neither this folder nor one above is the tree of codetag.
    let dir = tempfile::tempdir().expect("a directory");
    let output = codetag(&["--quick"])
        .current_dir(dir.path())
        .output()
        .expect("codetag runs");
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), said.lines().count()),
        (Some(1), 1),
        "{said}"
    );
    assert!(
        said.contains("benches/workload/Cargo.toml: run this in codetag's own tree"),
        "{said}"
    );
}
