//! The examples as a user runs them: as processes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `cargo test` builds the examples beside the tests.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a test has a path");
    let target = test
        .parent()
        .and_then(Path::parent)
        .expect("tests are in target/PROFILE/deps");
    let path = target.join("examples").join(name);
    assert!(
        path.exists(),
        "`cargo test -p codetag-examples` builds {}",
        path.display()
    );
    let mut command = Command::new(path);
    command.env_remove("CODETAG");
    command
}

fn show_mem(args: &[&str]) -> Output {
    example("show_mem")
        .args(args)
        .output()
        .expect("the example starts")
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("the output is UTF-8")
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("the messages are UTF-8")
}

/// The two blocks above the page: the program's own answer.
fn answer(output: &Output) -> Vec<&str> {
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stderr(output).lines().count(),
        usize::from(tags_off()),
        "{}",
        stderr(output)
    );
    stdout(output)
        .split("\n\n")
        .take(2)
        .flat_map(str::lines)
        .map(str::trim_start)
        .collect()
}

/// Then each example says so in a line on stderr and goes on.
fn tags_off() -> bool {
    codetag::state().kind == codetag::StateKind::TagsOff
}

/// A folder of the test's own, removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("codetag-examples-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("the temporary folder can be written");
        Self(path)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("it is below the folder")).expect("ours to write");
        fs::write(path, contents).expect("ours to write");
    }

    fn run(&self) -> Output {
        show_mem(&[self.0.to_str().expect("the temporary folder is UTF-8")])
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_answer_is_that_of_the_files() {
    let folder = Scratch::new("answer");
    folder.write("a.txt", "The cat and the hat.");
    folder.write("deep/down/b", "the CAT");
    let expected = [
        "files: 2",
        "words: 7, 4 distinct",
        "skipped: 0 unreadable, 0 binary, 0 over 64 MiB",
        "occurrences    files  word",
        "3        2  the",
        "2        2  cat",
        "1        1  and",
        "1        1  hat",
    ];
    assert_eq!(answer(&folder.run()), expected);
}

#[test]
fn what_gitignore_names_is_left_out_and_the_rest_of_the_skipped_is_counted() {
    let folder = Scratch::new("skipped");
    folder.write(".gitignore", "secret*\n");
    folder.write("secret.txt", "hidden");
    folder.write("text", "word");
    folder.write("nul", "a\0b");
    folder.write("latin1", b"caf\xe9");
    folder.write("huge", "");
    let huge = File::options()
        .write(true)
        .open(folder.0.join("huge"))
        .expect("ours to write");
    huge.set_len((64 << 20) + 1)
        .expect("a sparse file takes no room");
    let expected = [
        "files: 1",
        "words: 1, 1 distinct",
        "skipped: 0 unreadable, 2 binary, 1 over 64 MiB",
    ];
    assert_eq!(answer(&folder.run())[..3], expected);
}

/// Reading at address 0 of a process's memory fails for every user, root too.
#[cfg(target_os = "linux")]
#[test]
fn an_unreadable_file_is_counted() {
    assert_eq!(
        answer(&show_mem(&["/proc/self/mem"]))[2],
        "skipped: 1 unreadable, 0 binary, 0 over 64 MiB"
    );
}

#[test]
fn an_empty_folder_has_no_words() {
    let folder = Scratch::new("empty");
    assert_eq!(
        answer(&folder.run())[..2],
        ["files: 0", "words: 0, 0 distinct"]
    );
}

#[test]
fn a_single_file_is_a_path_too() {
    let folder = Scratch::new("single");
    folder.write("only", "one two");
    let path = folder.0.join("only");
    let output = show_mem(&["--", path.to_str().expect("the temporary folder is UTF-8")]);
    assert_eq!(answer(&output)[..2], ["files: 1", "words: 2, 2 distinct"]);
}

#[test]
fn the_page_charges_the_index_to_the_functions_that_built_it() {
    let folder = Scratch::new("page");
    folder.write("a.txt", "The cat and the hat.");
    let output = folder.run();
    let page = stdout(&output)
        .split("\n\n")
        .skip(2)
        .collect::<Vec<_>>()
        .join("\n\n");
    assert!(page.contains("allocinfo - version: 2.0"), "{page}");
    for owner in ["func:walk", "func:count_words", "func:Index::add"] {
        assert_eq!(page.contains(owner), !tags_off(), "{owner}\n{page}");
    }
}

#[test]
fn a_missing_folder_is_one_line_and_status_1() {
    let output = show_mem(&["/nonexistent/codetag"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let last = stderr(&output).lines().last().expect("a message");
    assert!(
        last.starts_with("show_mem: /nonexistent/codetag: No such file"),
        "{last}"
    );
    assert_eq!(stderr(&output).lines().count(), 1 + usize::from(tags_off()));
}

#[test]
fn an_unknown_flag_or_a_second_path_is_usage_and_status_2() {
    for args in [&["--depth"][..], &["-x", "."], &["a", "b"]] {
        let output = show_mem(args);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""));
        assert!(
            stderr(&output).ends_with("usage: show_mem [PATH]\n"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn help_has_an_example() {
    let output = show_mem(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("example: cargo run --release --example show_mem -- crates"));
}

#[test]
fn a_reader_who_has_gone_is_no_error() {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let folder = Scratch::new("pipe");
    let mut command = example("show_mem");
    let child = command
        .arg(&folder.0)
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stderr(&output).lines().count(),
        usize::from(tags_off()),
        "{}",
        stderr(&output)
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_message_and_status_1() {
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let folder = Scratch::new("full");
    let output = example("show_mem")
        .arg(&folder.0)
        .stdout(full)
        .output()
        .expect("the example starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).ends_with("show_mem: stdout: No space left on device (os error 28)\n"));
}

/// Its exit status says whether the page agrees with the inner allocator's own count.
#[test]
fn own_inner_agrees_with_its_page() {
    let output = example("own_inner").output().expect("the example starts");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}

#[test]
fn find_a_leak_writes_profiles_that_point_at_it() {
    let folder = Scratch::new("leak");
    let output = example("find_a_leak")
        .arg(folder.0.join("deep"))
        .output()
        .expect("the example starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let profile = |name: &str| {
        let file = File::open(folder.0.join("deep").join(name)).expect("written");
        codetag_export::read(file).expect("a profile")
    };
    let diff = codetag_export::Diff::new(&profile("before.json"), &profile("after.json"));
    let of = |function: &str| {
        let is_it = |change: &&codetag_export::Change| {
            let tag = change.owner.tag();
            tag.is_some_and(|tag| tag.function == function)
        };
        diff.changes.iter().find(is_it)
    };
    let picture = fs::read_to_string(folder.0.join("deep/growth.svg")).expect("written");
    let Some(touch) = of("Service::touch") else {
        assert!(tags_off());
        return;
    };
    assert!(picture.contains("<title>Service::touch ("));
    // An entry for each of 20,000 requests, and the nodes of the tree.
    assert!(touch.delta().live_objs > 20_000);
    assert!(touch.delta().bytes * 10 > (diff.after.bytes - diff.before.bytes) * 9);
    // What is there by intention is bounded.
    for function in ["Service::login", "Service::render"] {
        let change = of(function).expect("listed");
        assert!(change.before.bytes > 0);
        assert!(
            change.delta().bytes.abs() * 100 < touch.delta().bytes,
            "{function}"
        );
    }
}

#[test]
fn find_a_leak_says_what_it_cannot_do() {
    let output = example("find_a_leak")
        .arg("/proc/nowhere")
        .output()
        .expect("the example starts");
    assert_eq!(output.status.code(), Some(1));
    let last = stderr(&output).lines().last().expect("a message");
    assert!(last.starts_with("find_a_leak: /proc/nowhere: "), "{last}");
    let output = example("find_a_leak").args(["a", "b"]).output();
    assert_eq!(output.expect("it starts").status.code(), Some(2));
}
