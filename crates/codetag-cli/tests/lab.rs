//! `codetag lab` as its users call it.

#![forbid(unsafe_code)]

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codetag"));
    command.arg("lab").args(args).stdin(Stdio::null());
    command
}

fn lab(args: &[&str]) -> Output {
    command(args).output().expect("codetag runs")
}

/// With bytes on standard input. A command that stops reading early is no fault of the test.
fn lab_with(input: &[u8], args: &[&str]) -> Output {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("codetag runs");
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("codetag ends")
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("output is UTF-8")
}

/// Standard output of a command that has nothing to complain about.
fn clean(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

fn json(output: &Output) -> Value {
    serde_json::from_str(clean(output)).expect("one JSON document")
}

fn trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../codetag-lab/tests/data/traces")
        .join(format!("{name}.trace.txt.gz"))
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("paths of this test are UTF-8")
}

const OWN: &str = "codetag-trace 1\nkmalloc 1000 100 128\nalloc 2000 56 56 thing\nfree 1000\nend\n";

#[test]
fn footprint_prints_a_row_per_allocator_that_adds_up() {
    let path = trace("slub-none");
    let args = [
        "footprint",
        utf8(&path),
        "--allocators",
        "slob,slub,slab,tiny",
    ];
    let document = json(&lab(
        &[&args[..], &["--caches", "--format", "json"]].concat()
    ));
    assert_eq!(document["trace"]["traced_allocator"], "slub");
    assert_eq!(document["trace"]["events"], 25_616);
    assert_eq!(document["trace"]["names_by_event_percent"], 100.0);
    let rows = document["allocators"].as_array().expect("rows");
    let names: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["allocator"].as_str())
        .collect();
    assert_eq!(names, ["slob", "slub", "slab", "tiny"]);
    let figure = |row: &Value, name: &str| {
        row[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name} of {row}"))
    };
    for row in rows {
        assert_eq!(figure(row, "kb"), 4 * figure(row, "pages"));
        assert!(figure(row, "peak_pages") >= figure(row, "pages"));
        // The objects are those of the trace, whoever serves them.
        assert_eq!(figure(row, "live_objs"), figure(&rows[0], "live_objs"));
        assert_eq!(figure(row, "live_bytes"), figure(&rows[0], "live_bytes"));
        let beyond = (4096 * figure(row, "pages")) as f64 / figure(row, "live_bytes") as f64 - 1.0;
        let printed = row["overhead_percent"].as_f64().expect("a number");
        assert!((100.0 * beyond - printed).abs() <= 0.051, "{row}");
    }
    for allocator in ["slub", "slab", "tiny"] {
        let caches = document["caches"].as_array().expect("rows");
        let of = caches.iter().filter(|row| row["allocator"] == allocator);
        let slots: u64 = of.map(|row| figure(row, "slots")).sum();
        let row = rows.iter().find(|row| row["allocator"] == allocator);
        assert_eq!(slots, figure(row.expect("a row"), "slots"), "{allocator}");
    }

    let csv = lab(&[&args[..], &["--format", "csv"]].concat());
    let lines: Vec<&str> = clean(&csv).lines().collect();
    assert_eq!(
        lines[0],
        "allocator,pages,kb,peak_pages,peak_kb,slots,live_objs,live_bytes,overhead_percent"
    );
    let pages = |line: &str| line.split(',').nth(1).map(str::to_owned);
    for (line, row) in lines[1..].iter().zip(rows) {
        assert_eq!(pages(line), Some(row["pages"].to_string()));
    }

    let table = lab(&args);
    let table = clean(&table);
    assert!(
        table.starts_with("25616 events on 1 CPU, traced with slub: "),
        "{table}"
    );
    assert!(
        table.contains("cache names, of bytes: 100 % from the event"),
        "{table}"
    );
}

#[test]
fn slabinfo_is_the_kernel_s_form() {
    let path = trace("slub-none");
    let output = lab(&["footprint", utf8(&path), "--allocators=slub", "--slabinfo"]);
    let lines: Vec<&str> = clean(&output).lines().collect();
    assert_eq!(lines[0], "slabinfo - version: 2.1");
    assert!(lines[1].starts_with("# name            <active_objs> <num_objs> <objsize>"));
    let dentry = lines.iter().find(|line| line.starts_with("dentry "));
    let words: Vec<&str> = dentry.expect("a line").split_whitespace().collect();
    assert_eq!(words[3..9], ["192", "21", "1", ":", "tunables", "0"]);
}

#[test]
fn names_that_the_events_lack_are_reported_by_share() {
    let text = "\
a-1 [000] d.... 0.1: kmem_cache_alloc: call_site=f+0x1/0x9 ptr=1000 bytes_req=192 bytes_alloc=192 gfp_flags=GFP_KERNEL node=-1 accounted=false
a-1 [000] d.... 0.1: kmem_cache_alloc: call_site=f+0x1/0x9 ptr=2000 bytes_req=192 bytes_alloc=192 gfp_flags=GFP_KERNEL node=-1 accounted=false
a-1 [000] d.... 0.1: kmem_cache_alloc: call_site=g+0x1/0x9 ptr=3000 bytes_req=128 bytes_alloc=128 gfp_flags=GFP_KERNEL node=-1 accounted=false
a-1 [000] d.... 0.2: kmem_cache_free: call_site=h ptr=1000 name=dentry
a-1 [000] d.... 0.2: kmem_cache_free: call_site=h ptr=9000 name=dentry
CPU:0 [LOST 7 EVENTS]
";
    let document = json(&lab_with(
        text.as_bytes(),
        &[
            "footprint",
            "-",
            "--allocators=slub",
            "--format=json",
            "--caches",
        ],
    ));
    let trace = &document["trace"];
    assert_eq!(trace["names_by_free_percent"], 37.5);
    assert_eq!(trace["names_by_sibling_percent"], 37.5);
    assert_eq!(trace["names_made_up_percent"], 25.0);
    assert_eq!(trace["lost_events"], 7);
    assert_eq!(trace["unmatched_frees"], 1);
    let caches: Vec<&str> = document["caches"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["cache"].as_str())
        .collect();
    assert!(
        caches.contains(&"dentry") && caches.contains(&"g+0x1/0x9:128"),
        "{caches:?}"
    );
}

#[test]
fn what_is_wrong_with_a_trace_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().expect("a directory");
    let line =
        "a-1 [000] d.... 0.1: kmalloc: call_site=f ptr=10 bytes_req=8 bytes_alloc=8 gfp_flags=0\n";
    let compressed = fs::read(trace("slub-none")).expect("a trace");
    let own_cut = &OWN[..OWN.len() - 4];
    for (name, bytes, message, has_result) in [
        ("empty", &b""[..], "the file is empty", false),
        (
            "prose",
            b"Lorem ipsum\n",
            "line 1: no event, no header and no comment: this is no trace",
            false,
        ),
        (
            "zeros",
            &[0; 5000],
            "line 1: binary, not text: this is no trace",
            false,
        ),
        (
            "malformed",
            format!("{line}a-1 [000] d.... 0.1: kfree: call_site=f\n??\n{line}").as_bytes(),
            "line 2: no ptr (and 1 more lines)",
            true,
        ),
        (
            "cut",
            format!("{line}{}", &line[..30]).as_bytes(),
            "line 2: the file ends in the middle of a line",
            true,
        ),
        (
            "own",
            own_cut.as_bytes(),
            "line 4: the file ends without its line `end`",
            true,
        ),
        (
            "zip",
            &compressed[..50_000],
            "the compressed data ends or is damaged",
            true,
        ),
        (
            "dat",
            b"\x17\x08Dtracing6",
            "a binary trace.dat; write its text by `trace-cmd report`",
            false,
        ),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, bytes).expect("a file");
        for subcommand in ["footprint", "boot", "extensions"] {
            let output = lab(&[subcommand, utf8(&path), "--allocators=slub", "--format=csv"]);
            assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
            let stderr = text(&output.stderr);
            assert!(
                stderr.starts_with(&format!("codetag: {}: ", utf8(&path)))
                    && stderr.contains(message),
                "{name}: {stderr}"
            );
            assert_eq!(stderr.lines().count(), 1, "{name}: {stderr}");
            assert_eq!(!output.stdout.is_empty(), has_result, "{name}: {output:?}");
        }
    }
    let output = lab(&["footprint", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("codetag: /no/such/file: cannot be read: "));
}

#[test]
fn wrong_usage_is_status_2() {
    let path = trace("slub-none");
    let path = utf8(&path);
    for args in [
        &["footprint"][..],
        &["footprint", path, "--allocators", "slub,slib"],
        &["footprint", path, "--cpus", "0"],
        &["footprint", path, "--slabinfo", "--caches"],
        &["hackbench", "--cpu-partial", "some"],
        &["hackbench", "--adversary", "5", "--groups", "3"],
        &["order", "--size", "704"],
        &["order", "--size", "0", "--cpus", "1"],
        &["order", "--size", "8", "--cpus", "1", "--max-order", "11"],
        &["generate"],
        &["nonsense"],
    ] {
        let output = lab(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
    let two_cpus = "codetag-trace 1\ncpu 1\nfree 10\nend\n";
    let output = lab_with(two_cpus.as_bytes(), &["footprint", "-", "--cpus", "1"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(
        text(&output.stderr),
        "codetag: --cpus: the trace has events of 2 CPUs\n"
    );
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn order_shows_its_steps() {
    let document = json(&lab(&[
        "order",
        "--size=5888",
        "--cpus=4",
        "--max-order=1",
        "--format=json",
    ]));
    assert_eq!(
        (&document["order"], &document["objs"]),
        (&1.into(), &1.into())
    );
    assert_eq!(document["tries"].as_array().map(Vec::len), Some(4));
    let output = lab(&["order", "--size", "704", "--cpus", "4"]);
    assert_eq!(
        clean(&output),
        "\
objects wanted: 4 * (fls(4) + 1) = 16
the largest slab, of order 3, holds 46: at least 16
they take 11264 bytes: start at order 2

fraction  order  slab bytes  objs  leftover bytes  allowed bytes  fits
1/16          2       16384    23             192           1024  true

the first that fits is taken
order 2: 4 pages, 23 objects of 704 bytes, 192 bytes unused
"
    );
}

#[test]
fn boot_finds_the_arena_below_which_the_trace_fails() {
    // Three live pages of kmalloc-4k, a page each at order 0.
    let text = "codetag-trace 1\nkmalloc 1000 4096 4096\nkmalloc 2000 4096 4096\nkmalloc 3000 4096 4096 f\nend\n";
    let args = ["boot", "-", "--allocators=slub-order0"];
    let document = json(&lab_with(
        text.as_bytes(),
        &[&args[..], &["--format=json"]].concat(),
    ));
    let row = &document["allocators"][0];
    assert_eq!((&row["pages"], &row["kb"]), (&3.into(), &12.into()));
    assert_eq!(
        (&row["failed_event"], &row["failed_order"]),
        (&3.into(), &0.into())
    );
    assert_eq!(
        (&row["failed"], &row["failed_call_site"]),
        (&"kmalloc".into(), &"f".into())
    );
    let output = lab_with(text.as_bytes(), &args);
    assert!(
        clean(&output).ends_with(
            "\nslub-order0: in 2 pages event 3 fails, 4096 bytes from kmalloc at f: no block of order 0; \
             0 free pages, in blocks of order 0 to 10: 0 0 0 0 0 0 0 0 0 0 0\n"
        ),
        "{output:?}"
    );
}

/// Everything that the kernel took, in one arena: a machine that boots has more pages than slabs take.
#[test]
fn boot_with_other_pages_needs_more() {
    let path = trace("slub-none");
    let args = ["boot", utf8(&path), "--allocators=slub", "--format=json"];
    let pages = |more: &[&str]| {
        let document = json(&lab(&[&args[..], more].concat()));
        document["allocators"][0]["pages"]
            .as_u64()
            .expect("a number")
    };
    let (slabs, all) = (pages(&[]), pages(&["--other-pages"]));
    // The trace allocates 6,144 pages for its own buffer.
    assert!(all > slabs + 6144, "{slabs} {all}");
}

#[test]
fn extensions_has_a_row_per_size_of_ref() {
    let path = trace("slub-none");
    let output = lab(&[
        "extensions",
        utf8(&path),
        "--allocators=slub",
        "--format=json",
        "--tags=1000",
        "--cpus=4",
        "--memory=16",
    ]);
    let document = json(&output);
    let rows = document["slabs"].as_array().expect("rows");
    let sizes: Vec<u64> = rows
        .iter()
        .filter_map(|row| row["ref_bytes"].as_u64())
        .collect();
    assert_eq!(sizes, [8, 4, 2, 8, 4, 2]);
    for row in rows {
        assert!(
            row["pages_with"].as_u64() > row["pages_without"].as_u64(),
            "{row}"
        );
    }
    let others = &document["others"];
    assert_eq!(others["tag_bytes"], 40_000);
    assert_eq!(others["counter_bytes"], 16 * 4 * 1000);
    assert_eq!(
        others["page_ref_bytes"],
        serde_json::json!([32_768, 16_384, 8192])
    );
}

#[test]
fn hackbench_has_a_line_per_stage() {
    let args = [
        "hackbench",
        "--groups=2",
        "--runs=2",
        "--loops=20",
        "--cpus=2",
    ];
    let output = lab(&[&args[..], &["--format=json"]].concat());
    let rows = json(&output);
    let stages: Vec<&str> = rows
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["stage"].as_str())
        .collect();
    assert_eq!(
        stages,
        ["before", "after run 1", "after run 2", "after shrink"]
    );
    assert_eq!(rows[0]["num_slabs"], rows[3]["num_slabs"]);
    let same = lab(&[&args[..], &["--format=json"]].concat());
    assert_eq!(output.stdout, same.stdout);
    let table = lab(&args);
    let lines = clean(&table)
        .lines()
        .filter(|line| line.starts_with("kmalloc-512 "));
    assert_eq!(lines.count(), 4);

    let off = json(&lab(
        &[&args[..], &["--cpu-partial=off", "--format=json"]].concat()
    ));
    for row in off.as_array().expect("rows") {
        assert_eq!(row["peak_cpu_partial_slabs"], 0, "{row}");
    }
}

#[test]
fn what_is_generated_or_converted_is_read_again() {
    let args = [
        "generate",
        "--events=20000",
        "--live=500",
        "--cpus=3",
        "--seed=5",
    ];
    let generated = lab(&args);
    let own = clean(&generated).to_owned();
    assert_eq!(clean(&lab(&args)), own);
    assert_eq!(clean(&lab_with(own.as_bytes(), &["convert", "-"])), own);
    let document = json(&lab_with(
        own.as_bytes(),
        &["footprint", "-", "--allocators=slub", "--format=json"],
    ));
    assert_eq!(
        (&document["trace"]["events"], &document["trace"]["cpus"]),
        (&20_000.into(), &3.into())
    );

    // The same figures from a kernel's text as from its conversion.
    let path = trace("slob-none");
    let converted = lab(&["convert", utf8(&path)]);
    let footprint = [
        "footprint",
        "-",
        "--format=csv",
        "--allocators=slob,slub,tiny",
    ];
    let from_own = lab_with(&converted.stdout, &footprint);
    let mut from_text = footprint;
    from_text[1] = utf8(&path);
    assert_eq!(clean(&from_own), clean(&lab(&from_text)));
    assert_eq!(clean(&from_own).lines().count(), 4);
}

#[test]
fn a_chart_has_a_line_per_allocator() {
    let dir = tempfile::tempdir().expect("a directory");
    let chart = dir.path().join("chart.svg");
    let path = trace("slub-none");
    let output = lab(&[
        "footprint",
        utf8(&path),
        "--allocators=slob,slub",
        "--chart",
        utf8(&chart),
    ]);
    clean(&output);
    let svg = fs::read_to_string(&chart).expect("a chart");
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    for allocator in ["slob", "slub"] {
        assert_eq!(
            svg.matches(&format!("\n{allocator}\n")).count(),
            1,
            "{allocator}"
        );
    }
    let nowhere = dir.path().join("missing/chart.svg");
    let output = lab(&["footprint", utf8(&path), "--chart", utf8(&nowhere)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with(&format!("codetag: {}: ", utf8(&nowhere))));
}

/// A trace that cannot be used leaves an older chart as it was, and an interrupted command leaves nothing.
#[cfg(unix)]
#[test]
fn a_chart_is_written_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let chart = dir.path().join("chart.svg");
    let mut child = command(&["footprint", "-", "--chart", utf8(&chart)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("codetag runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // Larger than a pipe: the command is reading when this returns.
    stdin
        .write_all(OWN.repeat(3000).as_bytes())
        .expect("it reads");
    let kill = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill is there").success());
    let status = child.wait().expect("it ends");
    drop(stdin);
    assert_eq!(status.code(), None, "ended by the signal");
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0);

    fs::write(&chart, "old").expect("a file");
    let output = lab_with(b"nonsense\n", &["footprint", "-", "--chart", utf8(&chart)]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(&chart).expect("a file"), "old");
}

/// Under a limit of address space that holds the program, but neither the line nor the events.
/// `CODETAG_LONG=1`: a line of 2 GB, and 10 million events.
#[cfg(target_os = "linux")]
#[test]
fn memory_grows_neither_with_a_line_nor_with_the_trace() {
    let is_long = std::env::var_os("CODETAG_LONG").is_some_and(|value| value == "1");
    let (line_mb, events) = if is_long {
        (2048, 10_000_000)
    } else {
        (128, 50_000)
    };
    let limited = |script: &str| {
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("set -e; ulimit -v 160000; {script}"))
            .env("CODETAG", env!("CARGO_BIN_EXE_codetag"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output();
        output.expect("a shell")
    };
    // In the middle of a trace it is left out; the events around it count.
    let output = limited(&format!(
        "{{ printf 'codetag-trace 1\\nkmalloc 1000 8 8\\n'; head -c {line_mb}M /dev/zero | tr '\\0' x; \
         printf '\\nkmalloc 2000 8 8\\nend\\n'; }} | \"$CODETAG\" lab footprint - --allocators=slub --format=csv"
    ));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(
        text(&output.stderr),
        "codetag: -: line 3: longer than 65536 bytes\n"
    );
    assert!(
        text(&output.stdout).contains("\nslub,1,4,1,4,512,2,16,"),
        "{output:?}"
    );

    let output = limited(&format!(
        "\"$CODETAG\" lab generate --events {events} --live 1000 | \
         \"$CODETAG\" lab footprint - --allocators=slub --format=json"
    ));
    let document = json(&output);
    assert_eq!(document["trace"]["events"], events);
}

#[test]
fn every_help_has_an_example() {
    for subcommand in [
        "footprint",
        "boot",
        "hackbench",
        "extensions",
        "order",
        "convert",
        "generate",
    ] {
        let output = lab(&[subcommand, "--help"]);
        let help = clean(&output);
        assert!(
            help.contains(&format!("  codetag lab {subcommand} ")),
            "{help}"
        );
        assert!(help.contains("Exit status: 0"), "{help}");
    }
    assert!(clean(&lab(&["--help"])).contains("\nExample:\n  codetag lab footprint "));
}
