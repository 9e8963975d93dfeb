//! `codetag show`, `diff` and `export` as their users call them.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const BOOT: &str = "linux-6.12-after-boot.allocinfo.gz";
const LOAD: &str = "linux-6.12-under-load.allocinfo.gz";

fn codetag(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codetag"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .current_dir(data());
    command
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../codetag-export/tests/data")
}

fn run(args: &[&str]) -> Output {
    codetag(args).output().expect("codetag runs")
}

fn with_stdin(args: &[&str], input: &[u8]) -> Output {
    let mut child = codetag(args)
        .stdin(Stdio::piped())
        .spawn()
        .expect("codetag runs");
    // It may end before it has read all.
    let _ = child.stdin.take().expect("piped").write_all(input);
    child.wait_with_output().expect("it ends")
}

fn ok(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The one line on stderr of a call that fails; nothing may stand on stdout.
fn fails(status: i32, output: Output) -> String {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("paths of this test are UTF-8")
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&ok(run(args))).expect("a document")
}

#[test]
fn show_lists_the_largest() {
    assert_eq!(
        ok(run(&["show", "--top", "2", "--exact", "allocinfo-2.0.txt"])),
        "allocinfo-2.0.txt: allocinfo-2.0\n \
         requested      slot  objects  tag\n         \
         -  56373248     4737  mm/slub.c:2259 func:alloc_slab_page\n         \
         -    712704       28  net/core/skbuff.c:512 [nf_tables] func:__alloc_skb accurate:no\n         \
         -  57082496     4778  all 5 owners; 4 own something, 2 of these are listed\n"
    );
    let by_objects = ok(run(&["show", "--top", "1", "--sort", "objects", BOOT]));
    assert!(
        by_objects.contains(
            "\n         -   522 KiB     3929  fs/kernfs/dir.c:624 func:__kernfs_new_node\n"
        ),
        "{by_objects}"
    );
    let by_file = ok(run(&["show", "--top", "1", "--by", "file", BOOT]));
    assert!(by_file.contains("  mm/filemap.c\n"), "{by_file}");
}

#[test]
fn show_prints_json_and_csv_of_all() {
    let documents = json(&["show", "--format", "json", BOOT, "allocinfo-2.0.txt"]);
    let boot = &documents[0];
    assert_eq!(boot["source"], "allocinfo-1.0");
    assert_eq!(boot["owners"], 955);
    assert_eq!(boot["total"]["slot_bytes"], 7_718_160);
    assert_eq!(boot["total"]["live_objs"], 7_745);
    assert_eq!(boot["total"]["requested_bytes"], serde_json::Value::Null);
    assert_eq!(
        boot["rows"].as_array().map(Vec::len),
        Some(954),
        "one place is listed twice"
    );
    let acme = &documents[1]["rows"][2];
    assert_eq!(acme["label"], "drivers/acme.c:7 [acme] func:acme_probe");
    assert_eq!(
        (&acme["accurate"], &acme["extra"]),
        (&false.into(), &"numa:3 node.mask:0-3".into())
    );

    let csv = ok(run(&[
        "show",
        "--by",
        "crate",
        "--format",
        "csv",
        "allocinfo-2.0.txt",
    ]));
    assert_eq!(
        csv,
        "file,label,owners,bytes,requested_bytes,slot_bytes,live_objs,accurate,extra\n\
         allocinfo-2.0.txt,built-in,3,56369152,,56369152,4740,yes,\n\
         allocinfo-2.0.txt,nf_tables,1,712704,,712704,28,no,\n\
         allocinfo-2.0.txt,acme,1,640,,640,10,no,numa:3 node.mask:0-3\n"
    );
}

#[test]
fn diff_lists_the_largest_differences() {
    let table = ok(run(&["diff", "--exact", "--top", "3", BOOT, LOAD]));
    let lines: Vec<&str> = table.lines().skip(3).map(str::trim_start).collect();
    assert_eq!(
        lines,
        [
            "+9891840  2162688  12054528   +9891840    +2415  grown  mm/filemap.c:1944 func:__filemap_get_folio",
            "+6414336  1748992   8163328   +6414336     +945  grown  mm/slub.c:2478 func:alloc_slab_page",
            "+2551680    38592   2590272   +2551680    +4430  grown  fs/inode.c:267 func:alloc_inode",
            "+27322896  7718160  35041056  +27322896   +21478         all; 74 changed, 3 of these are listed",
        ]
    );
    let document = json(&["diff", "--format", "json", LOAD, BOOT]);
    assert_eq!(document["total"]["bytes_diff"], -27_322_896);
    assert_eq!(document["moved"], 0);
    let first = &document["rows"][0];
    assert_eq!(
        (&first["trend"], &first["live_objs_diff"]),
        (&"shrunk".into(), &(-2_415).into())
    );
    let csv = ok(run(&[
        "diff", "--format", "csv", "--by", "crate", BOOT, LOAD,
    ]));
    assert_eq!(csv.lines().count(), 2);
    assert_eq!(
        csv.lines().nth(1),
        Some(
            "built-in,grown,same,954,7718160,35041056,27322896,7718160,35041056,27322896,7745,29223,21478,true"
        )
    );
}

#[test]
fn diff_says_that_lines_have_moved() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, line: u32, bytes: u32| {
        let path = folder.path().join(name);
        let text = format!(
            "allocinfo - version: 2.0\n{bytes} 1 src/a.rs:{line} [a] func:f requested:{bytes} \n"
        );
        fs::write(&path, text).expect("ours");
        path
    };
    let (before, after) = (write("before", 10, 100), write("after", 12, 150));
    let text = ok(run(&["diff", utf8(&before), utf8(&after)]));
    assert!(
        text.contains("+50 B   100 B  150 B  +50 B       +0  grown  src/a.rs:12 [a] func:f\n"),
        "{text}"
    );
    assert!(
        text.ends_with(
            "tags on other lines than before: 1; matched by crate, file, function and name\n"
        ),
        "{text}"
    );
}

#[test]
fn export_writes_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    for (format, begins) in [
        (
            "json",
            &b"{\"codetag_profile\":1,\n\"source\":\"allocinfo-1.0\""[..],
        ),
        ("allocinfo", b"allocinfo - version: 1.0\n#     <size>"),
        ("csv", b"kind,crate,module_path,"),
        ("folded", b"built-in;"),
        ("svg", b"<?xml version=\"1.0\""),
        ("pprof", b"\x1f\x8b"),
    ] {
        let path = folder.path().join(format);
        let to_file = ok(run(&[
            "export",
            BOOT,
            "--format",
            format,
            "-o",
            utf8(&path),
        ]));
        assert_eq!(to_file, "");
        let to_stdout = run(&["export", BOOT, "--format", format, "-o", "-"]);
        let written = fs::read(&path).expect("it is there");
        assert!(
            written.starts_with(begins),
            "{format}: {}",
            written[..60].escape_ascii()
        );
        assert!(
            written == to_stdout.stdout,
            "{format} is the same on standard output"
        );
    }
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), 6);
    // What was written can be read.
    for format in ["json", "allocinfo"] {
        let path = folder.path().join(format);
        let text = ok(run(&["diff", BOOT, utf8(&path)]));
        assert!(text.contains("all; 0 changed"), "{text}");
    }
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(File::open(data().join(BOOT)).expect("test data"))
        .read_to_end(&mut text)
        .expect("gzip");
    assert!(fs::read(folder.path().join("allocinfo")).expect("written") == text);
}

#[test]
fn a_profile_comes_from_standard_input_too() {
    let gz = fs::read(data().join(BOOT)).expect("test data");
    let text = ok(with_stdin(&["show", "--top", "1", "-"], &gz));
    assert!(text.starts_with("-: allocinfo-1.0\n"), "{text}");
    let text = ok(with_stdin(&["diff", "-", BOOT], &gz));
    assert!(text.contains("all; 0 changed"), "{text}");
    assert_eq!(
        fails(2, with_stdin(&["diff", "-", "-"], &gz)),
        "codetag: -: standard input can be read once only"
    );
    assert_eq!(
        fails(
            1,
            with_stdin(
                &["show", "-"],
                b"allocinfo - version: 1.0\n5 x a.c:1 func:f \n"
            )
        ),
        "codetag: -:2: `x` is no number of objects"
    );
}

#[test]
fn what_cannot_be_used_is_one_line_with_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.svg");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("ours");
        path
    };
    let gz = fs::read(data().join(BOOT)).expect("test data");
    for (name, bytes, message) in [
        ("empty", &b""[..], ": is empty"),
        ("cut.gz", &gz[..9_000], ": the gzip data is cut off"),
        ("binary", b"\0\x01\x02", ":1: is no profile: it is binary"),
        (
            "bad",
            b"allocinfo - version: 1.0\n 1e3 1 a.c:1 func:f \n",
            ":2: `1e3` is no number of bytes",
        ),
        (
            "cut.json",
            b"{\"codetag_profile\":1,\n",
            ":2: the json ends too early; it is cut off",
        ),
        (
            "zero",
            b"allocinfo - version: 1.0\n0 0 a.c:1 func:f \n",
            ": there is nothing to draw: no owner has anything",
        ),
    ] {
        let path = write(name, bytes);
        let args = ["export", utf8(&path), "--format", "svg", "-o", utf8(&out)];
        let line = fails(1, run(&args));
        // In which line the text of a gzip file is cut off is the decoder's affair.
        let start = format!("codetag: {}:", path.display());
        assert!(
            line.starts_with(&start) && line.ends_with(message),
            "{line}"
        );
        assert!(!out.exists(), "{name}");
        fs::write(&out, "old").expect("ours");
        fails(1, run(&args));
        assert_eq!(fs::read(&out).expect("there"), b"old", "{name}");
        fs::remove_file(&out).expect("ours");
    }
    let line = fails(
        1,
        run(&[
            "export",
            BOOT,
            "--format",
            "svg",
            "-o",
            "/nonexistent/out.svg",
        ]),
    );
    assert!(
        line.starts_with("codetag: /nonexistent/out.svg: No such file"),
        "{line}"
    );
    let line = fails(1, run(&["show", utf8(folder.path())]));
    assert!(line.ends_with(": Is a directory (os error 21)"), "{line}");
    // A file that cannot be used does not hide those that can.
    let output = run(&["show", "nonexistent", BOOT]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("alloc_slab_page"));
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let text = "{\"codetag_profile\":1,\"source\":\"snapshot\",\"program\":\"\\u001b[2J\",\"usages\":[\
        {\"function\":\"a\\nb\\u001b[31m\",\"file\":\"f\",\"line\":1,\"live_objs\":1,\"slot_bytes\":8,\
        \"extra\":[[\"k\\n\",\"\\u0007\"]]}]}";
    let shown = ok(with_stdin(&["show", "-"], text.as_bytes()));
    assert_eq!(shown.lines().count(), 4, "{shown}");
    assert!(
        shown.chars().all(|c| c == '\n' || !c.is_control()),
        "{shown:?}"
    );
    assert!(
        shown.contains("f:1 func:a\\u{a}b\\u{1b}[31m k\\n:\\u{7}"),
        "{shown}"
    );
}

#[test]
fn negative_figures_are_left_out_of_a_picture_and_told() {
    let output = run(&["export", "allocinfo-2.0.txt", "--format", "folded"]);
    assert_eq!(output.status.code(), Some(0));
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(
        lines,
        "built-in;mm;slub.c;alloc_slab_page;mm/slub.c:2259 56373248\n\
         nf_tables;net;core;skbuff.c;__alloc_skb;net/core/skbuff.c:512 712704\n\
         acme;drivers;acme.c;acme_probe;drivers/acme.c:7 640\n"
    );
    assert_eq!(
        String::from_utf8(output.stderr).expect("UTF-8"),
        "codetag: allocinfo-2.0.txt: note: owners with negative figures are left out: 1, -4096 in all\n"
    );
}

#[test]
fn wrong_usage_is_status_2() {
    for args in [
        &["show"][..],
        &["diff", "one"],
        &["export", BOOT],
        &["show", "--by", "colour", BOOT],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    assert_eq!(
        fails(2, run(&["man", "cook"])),
        "codetag: cook: is no subcommand"
    );
}

#[test]
fn a_reader_who_has_gone_is_no_error_and_a_full_disk_is() {
    for args in [
        &["show", "--top", "0", BOOT][..],
        &["export", BOOT, "--format", "json"],
    ] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let output = codetag(args).stdout(writer).output().expect("codetag runs");
        assert_eq!(
            (output.status.code(), output.stderr.len()),
            (Some(0), 0),
            "{args:?}"
        );
        if cfg!(target_os = "linux") {
            let full = File::options()
                .write(true)
                .open("/dev/full")
                .expect("Linux has it");
            let output = codetag(args).stdout(full).output().expect("codetag runs");
            assert_eq!(
                fails(1, output),
                "codetag: standard output: No space left on device (os error 28)"
            );
        }
    }
}

#[test]
fn every_subcommand_has_an_example_a_manual_page_and_completions() {
    let help = ok(run(&["--help"]));
    let subcommands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter_map(|line| line.split(' ').next().filter(|word| !word.is_empty()))
        .filter(|name| *name != "help")
        .collect();
    assert!(
        ["size", "show", "diff", "export"]
            .iter()
            .all(|name| subcommands.contains(name)),
        "{subcommands:?}"
    );
    let completions: Vec<(&str, String)> = ["bash", "zsh", "fish", "elvish", "powershell"]
        .map(|shell| (shell, ok(run(&["completions", shell]))))
        .into();
    let all = ok(run(&["man"]));
    for name in subcommands {
        let help = ok(run(&[name, "--help"]));
        assert!(help.contains("Example"), "{name}");
        let page = ok(run(&["man", name]));
        assert!(page.contains(&format!(".TH codetag-{name} 1")), "{page}");
        assert!(page.contains("Example"), "{page}");
        assert!(all.contains(&format!("codetag\\-{name}(1)")), "{all}");
        for (shell, text) in &completions {
            assert!(text.contains(name), "{shell} knows {name}");
        }
    }
}
