//! The binary `codetag` as its users call it.

#![forbid(unsafe_code)]

mod fixture;

use fixture::TAGS;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const HEADER: &str = "   text\t   data\t    bss\t    dec\t    hex\tfilename\n";

fn codetag(args: &[&str]) -> Output {
    command(args).output().expect("codetag runs")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codetag"));
    command.args(args).stdin(Stdio::null());
    command
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("stdout is UTF-8")
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("stderr is UTF-8")
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("paths of this test are UTF-8")
}

fn json(args: &[&str]) -> Vec<serde_json::Value> {
    let output = codetag(args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("an array of rows")
}

fn figure(row: &serde_json::Value, column: &str) -> u64 {
    row[column]
        .as_u64()
        .unwrap_or_else(|| panic!("{column} of {row} is a number"))
}

#[test]
fn the_first_table_is_byte_for_byte_that_of_size() {
    let fixture = fixture::get();
    let mut files = fixture.all();
    files.push(env!("CARGO_BIN_EXE_codetag").into());
    files.push(std::env::current_exe().expect("a test has a path"));
    files.extend(
        ["/bin/sh", "/usr/bin/env"]
            .map(Into::into)
            .into_iter()
            .filter(|path: &std::path::PathBuf| path.exists()),
    );
    let Ok(theirs) = Command::new("size").args(&files).output() else {
        println!("size(1) is not installed: nothing to compare with");
        return;
    };
    let args: Vec<&str> = ["size"]
        .into_iter()
        .chain(files.iter().map(|path| utf8(path)))
        .collect();
    let ours = codetag(&args);
    let first_table = stdout(&ours).split("\n\n").next().expect("a table");
    assert_eq!(first_table.trim_end(), stdout(&theirs).trim_end());
}

/// The sums of one written-down file, worked out from its section headers by hand.
#[test]
fn sections_are_summed_by_size_s_rules() {
    let fixture = fixture::get();
    let path = fixture.write(
        "sections.o",
        &fixture::elf64(&[
            // type, flags (1 write, 2 alloc, 4 exec), bytes
            (1, 6, 100),    // .text
            (1, 2, 20),     // .rodata: text
            (1, 7, 3),      // writable code: text
            (1, 3, 5),      // .data
            (8, 3, 7_000),  // .bss
            (8, 0x403, 11), // .tbss: bss
            (8, 2, 13),     // read-only without contents: text
            (1, 0, 999),    // .comment: nowhere
        ]),
    );
    let output = codetag(&["size", utf8(&path)]);
    assert_eq!(
        stdout(&output),
        format!(
            "{HEADER}    136\t      5\t   7011\t   7152\t   1bf0\t{}\n",
            utf8(&path)
        )
    );
}

#[test]
fn tags_are_counted_in_executables_objects_and_archives() {
    let fixture = fixture::get();
    for (path, relocated) in [
        (&fixture.pie, true),
        (&fixture.fixed, false),
        (&fixture.object, true),
        (&fixture.shared, true),
        (&fixture.rlib, true),
    ] {
        let rows = json(&["size", "--format", "json", utf8(path)]);
        let sum = |column: &str| rows.iter().map(|row| figure(row, column)).sum::<u64>();
        let relocs = if relocated { TAGS.len() as u64 } else { 0 };
        let strings: usize = TAGS.iter().map(|text| text.len()).sum();
        assert_eq!(
            [
                "tags",
                "tag_section_bytes",
                "tag_relocs",
                "tag_reloc_bytes",
                "tag_string_bytes"
            ]
            .map(sum),
            [
                TAGS.len() as u64,
                32 * TAGS.len() as u64,
                relocs,
                24 * relocs,
                strings as u64
            ],
            "{}",
            path.display()
        );
    }
    let output = codetag(&["size", utf8(&fixture.pie)]);
    assert!(
        stdout(&output).contains(
            "\n\n   tags\tsection\t relocs\tstrings\tfilename\n      3\t     96\t     72\t"
        ),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_file_without_tags_has_no_second_table() {
    let output = codetag(&["size", env!("CARGO_BIN_EXE_codetag")]);
    assert_eq!(stdout(&output).lines().count(), 2);
}

#[test]
fn diff_is_signed_and_to_the_first_file() {
    let fixture = fixture::get();
    let small = fixture.write(
        "small.o",
        &fixture::elf64(&[(1, 6, 100), (1, 3, 50), (8, 3, 8)]),
    );
    let large = fixture.write(
        "large.o",
        &fixture::elf64(&[(1, 6, 356), (1, 3, 40), (8, 3, 8)]),
    );
    let output = codetag(&["size", "--diff", utf8(&small), utf8(&large)]);
    assert_eq!(
        stdout(&output),
        format!(
            "{HEADER}    100\t     50\t      8\t    158\t     9e\t{}\n   +256\t    -10\t     +0\t   +246\t    +f6\t{}\n",
            utf8(&small),
            utf8(&large)
        )
    );
    let rows = json(&[
        "size",
        "--diff",
        "--format=json",
        utf8(&small),
        utf8(&large),
    ]);
    assert_eq!(rows[0]["diff"]["text"], 0);
    assert_eq!(rows[1]["text"], 356);
    assert_eq!(rows[1]["diff"]["text"], 256);
    assert_eq!(rows[1]["diff"]["data"], -10);
}

#[test]
fn diff_sums_archives() {
    let fixture = fixture::get();
    let members = json(&["size", "--format=json", utf8(&fixture.rlib)]);
    let sums = json(&[
        "size",
        "--format=json",
        "--diff",
        utf8(&fixture.rlib),
        utf8(&fixture.rlib),
    ]);
    assert_eq!(sums.len(), 2);
    let text: u64 = members.iter().map(|row| figure(row, "text")).sum();
    assert_eq!(
        (figure(&sums[0], "text"), sums[1]["diff"]["dec"].as_i64()),
        (text, Some(0))
    );
}

#[test]
fn csv_has_one_record_per_row_and_quotes_names() {
    let fixture = fixture::get();
    let path = fixture.write("a, \"b\".o", &fixture::elf64(&[(1, 6, 100)]));
    let output = codetag(&["size", "--format=csv", "--diff", utf8(&path), utf8(&path)]);
    let mut reader = csv::Reader::from_reader(output.stdout.as_slice());
    let header = reader.headers().expect("a header").clone();
    let column = |name: &str| {
        header
            .iter()
            .position(|one| one == name)
            .unwrap_or_else(|| panic!("{name} in {header:?}"))
    };
    let records: Vec<csv::StringRecord> = reader
        .records()
        .map(|record| record.expect("equal lengths"))
        .collect();
    assert_eq!(records.len(), 2);
    assert_eq!(&records[1][column("filename")], utf8(&path));
    assert_eq!(&records[1][column("text")], "100");
    assert_eq!(&records[1][column("text_diff")], "0");
}

#[test]
fn a_dash_is_standard_input() {
    let path = env!("CARGO_BIN_EXE_codetag");
    let output = command(&["size", "-"])
        .stdin(fs::File::open(path).expect("it was built"))
        .output()
        .expect("runs");
    let by_name = codetag(&["size", path]);
    assert_eq!(stdout(&output), stdout(&by_name).replace(path, "-"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn what_cannot_be_used_is_named_in_one_line_and_the_rest_is_printed() {
    let fixture = fixture::get();
    let whole = fs::read(&fixture.pie).expect("it was built");
    let good = env!("CARGO_BIN_EXE_codetag");
    for (path, reason) in [
        (
            fixture.write("text", b"hello\nworld\n"),
            "is neither an ELF file nor an archive",
        ),
        (fixture.write("empty", b""), "is empty"),
        (
            fixture.write("cut", &whole[..whole.len() / 2]),
            "is damaged or cut short: ",
        ),
        (
            fixture.write("magic", b"\x7fELF"),
            "is neither an ELF file nor an archive",
        ),
        (
            fixture.write("archive", b"!<arch>\na header of a member that is not one"),
            "is damaged or cut short: ",
        ),
        (fixture.dir().to_path_buf(), "is a directory"),
        (fixture.dir().join("missing"), "No such file or directory"),
        (
            fixture.write("line\nbreak", b"text"),
            "is neither an ELF file nor an archive",
        ),
        ("/dev/zero".into(), "is neither an ELF file nor an archive"),
    ] {
        let output = codetag(&["size", utf8(&path), good]);
        let message = stderr(&output);
        let name = utf8(&path).replace('\n', "\\n");
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(
            message.starts_with(&format!("codetag: {name}: {reason}")),
            "{message}"
        );
        assert_eq!(stdout(&output), stdout(&codetag(&["size", good])), "{name}");
    }
    let output = codetag(&["size", "/dev/null"]);
    assert_eq!(
        (output.status.code(), stdout(&output), stderr(&output)),
        (Some(1), "", "codetag: /dev/null: is empty\n")
    );
}

/// Every byte of the headers set to every kind of nonsense, and every length.
#[test]
fn damaged_files_never_panic() {
    let fixture = fixture::get();
    let whole = fs::read(&fixture.object).expect("it was built");
    let headers = usize::from(u16::from_le_bytes([whole[0x3c], whole[0x3d]])) * 64;
    let places = (0..64)
        .step_by(3)
        .chain((whole.len() - headers..whole.len()).step_by(97));
    let mut paths = Vec::new();
    for place in places {
        let mut damaged = whole.clone();
        damaged[place] = if place % 2 == 0 {
            0xff
        } else {
            damaged[place].wrapping_add(1)
        };
        paths.push(fixture.write(&format!("byte-{place}"), &damaged));
    }
    for len in (0..whole.len()).step_by(whole.len() / 50 + 1) {
        paths.push(fixture.write(&format!("length-{len}"), &whole[..len]));
    }
    let args: Vec<&str> = ["size"]
        .into_iter()
        .chain(paths.iter().map(|path| utf8(path)))
        .collect();
    let output = codetag(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output)
            .lines()
            .all(|line| line.starts_with("codetag: /")),
        "{}",
        stderr(&output)
    );
}

#[test]
fn wrong_usage_is_status_2() {
    for args in [
        &["size"][..],
        &[],
        &["size", "--format=xml", "x"],
        &["sise"],
        &["size", "--diff", "only-one"],
    ] {
        let output = codetag(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            !output.stderr.is_empty() && output.stdout.is_empty(),
            "{args:?}"
        );
    }
}

#[test]
fn diff_without_its_base_prints_nothing() {
    let output = codetag(&[
        "size",
        "--diff",
        "/nowhere/base",
        env!("CARGO_BIN_EXE_codetag"),
    ]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
}

#[test]
fn help_has_an_example_and_no_colour() {
    for args in [&["--help"][..], &["size", "--help"]] {
        let output = codetag(args);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.contains(&0x1b), "{args:?}");
    }
    assert!(stdout(&codetag(&["size", "--help"])).contains("codetag size target/release/"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    // A small file: the command itself has 60 MB in a debug build.
    let good = utf8(&fixture::get().object);
    let args: Vec<&str> = ["size"]
        .into_iter()
        .chain(std::iter::repeat_n(good, 3_000))
        .collect();
    let mut child = command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut first = [0; 7];
    child
        .stdout
        .take()
        .expect("piped")
        .read_exact(&mut first)
        .expect("a header");
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    let Ok(full) = fs::File::options().write(true).open("/dev/full") else {
        return;
    };
    let output = command(&["size", env!("CARGO_BIN_EXE_codetag")])
        .stdout(full)
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).starts_with("codetag: standard output: "),
        "{}",
        stderr(&output)
    );
}
