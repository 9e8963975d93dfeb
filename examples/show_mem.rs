//! Which code owns the heap of a small real program: an inverted word index over the text files below a folder.
//!
//! ```text
//! cargo run --release --example show_mem [PATH]
//! ```
//!
//! A walker thread finds the files, reader threads read and count, and the main thread merges their
//! results into one index. So paths and words are allocated on one thread and owned, or freed, by
//! another. While the index is still alive the program prints its own answer, and then codetag's:
//! the `show_mem` page and the head of `allocinfo`.

#![deny(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fmt, fs, thread};

use codetag_examples::text::{self, Skip};
use codetag_examples::{Document, Index};
use crossbeam_channel::{Receiver, Sender, bounded};
use ignore::WalkBuilder;
use indicatif::{ProgressBar, ProgressStyle};

// The first of the three lines: every allocation of the program goes through codetag.
#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

const USAGE: &str = "usage: show_mem [PATH]";

const HELP: &str = "\
Indexes the words of the text files below PATH (a folder or a file; the current folder unless given),
then shows which code owns the memory of the index. Hidden files and those that
.gitignore names are left out.

usage: show_mem [PATH]
example: cargo run --release --example show_mem -- crates";

/// So many paths, or documents, may wait for the next thread.
const QUEUE_LEN: usize = 64;

/// So many lines of `allocinfo` are printed.
const ALLOCINFO_LINES: usize = 12;

fn main() -> ExitCode {
    // The second: from here on each allocation is charged to the innermost tagged function.
    match codetag::enable() {
        Ok(()) => {}
        Err(error @ codetag::EnableError::TagsOff) => {
            eprintln!("show_mem: {error}; the page has the heap's lines only");
        }
        Err(error) => return fail(format_args!("profiling: {error}")),
    }
    let path = match parse_args(env::args_os().skip(1)) {
        Ok(Call::Index(path)) => path,
        Ok(Call::Help) => return finish(writeln!(io::stdout(), "{HELP}")),
        Err(message) => {
            eprintln!("show_mem: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match fs::canonicalize(&path) {
        Ok(root) => {
            let (index, skipped) = index_files(&root);
            finish(print_report(&index, &skipped))
        }
        Err(error) => fail(format_args!("{}: {error}", path.display())),
    }
}

/// What the command line asks for.
enum Call {
    Index(PathBuf),
    Help,
}

fn parse_args(args: impl Iterator<Item = OsString>) -> Result<Call, String> {
    let mut path = None;
    let mut flags_end = false;
    for arg in args {
        match arg.to_str() {
            Some("--help" | "-h") if !flags_end => return Ok(Call::Help),
            Some("--") if !flags_end => flags_end = true,
            _ if !flags_end && arg.as_encoded_bytes().starts_with(b"-") => {
                return Err(format!("unknown flag {}", arg.display()));
            }
            _ if path.is_some() => return Err(format!("one PATH, not also {}", arg.display())),
            _ => path = Some(PathBuf::from(arg)),
        }
    }
    Ok(Call::Index(path.unwrap_or_else(|| ".".into())))
}

/// Runs the threads, and merges on this one what they bring.
#[codetag::alloc_tag]
fn index_files(root: &Path) -> (Index, Skipped) {
    let progress = progress_bar();
    let mut index = Index::default();
    let mut skipped = Skipped::default();
    let (path_tx, path_rx) = bounded(QUEUE_LEN);
    let (document_tx, document_rx) = bounded(QUEUE_LEN);
    thread::scope(|scope| {
        // A new thread has no scope of its own, nor that of the thread which made it: what it
        // allocates is charged to the tagged functions that it calls.
        let progress = &progress;
        scope.spawn(move || walk(root, path_tx, progress));
        for _ in 0..thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)) {
            let (paths, documents) = (path_rx.clone(), document_tx.clone());
            scope.spawn(move || read_documents(paths, documents));
        }
        // With these two gone, each queue ends when the last thread at its other end does.
        drop((path_rx, document_tx));
        for result in document_rx {
            match result {
                Ok(document) => index.add(document),
                Err(reason) => skipped.count(reason),
            }
            progress.inc(1);
        }
    });
    progress.finish_and_clear();
    (index, skipped)
}

/// Sends the path of each file at or below `root`.
#[codetag::alloc_tag]
fn walk(root: &Path, paths: Sender<Result<PathBuf, Skip>>, progress: &ProgressBar) {
    // .gitignore also counts in a folder that is no git repository, such as an unpacked archive.
    for entry in WalkBuilder::new(root).require_git(false).build() {
        let path = match entry {
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                Ok(entry.into_path())
            }
            Ok(_) => continue,
            Err(_) => Err(Skip::Unreadable),
        };
        progress.inc_length(1);
        if paths.send(path).is_err() {
            return;
        }
    }
}

/// Turns paths into documents. Not tagged: its callees are, and it keeps nothing itself.
fn read_documents(
    paths: Receiver<Result<PathBuf, Skip>>,
    documents: Sender<Result<Document, Skip>>,
) {
    for path in paths {
        let document = path.and_then(|path| {
            let counts = text::count_words(&text::read(&path)?);
            Ok(Document { path, counts })
        });
        if documents.send(document).is_err() {
            return;
        }
    }
}

/// Drawn on stderr if that is a terminal, else not at all.
fn progress_bar() -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} files").expect("both keys exist");
    ProgressBar::new(0).with_style(style)
}

/// How many files are not in the index, by reason.
#[derive(Default)]
struct Skipped {
    unreadable: u64,
    binary: u64,
    too_large: u64,
}

impl Skipped {
    fn count(&mut self, reason: Skip) {
        match reason {
            Skip::Unreadable => self.unreadable += 1,
            Skip::Binary => self.binary += 1,
            Skip::TooLarge => self.too_large += 1,
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            unreadable,
            binary,
            too_large,
        } = self;
        write!(
            f,
            "{unreadable} unreadable, {binary} binary, {too_large} over 64 MiB"
        )
    }
}

/// Prints the program's own answer, then who owns the memory that it needed for it.
fn print_report(index: &Index, skipped: &Skipped) -> io::Result<()> {
    let out = &mut BufWriter::new(io::stdout().lock());
    let (words, distinct) = (index.words(), index.distinct_words());
    writeln!(out, "  files: {}", index.files())?;
    writeln!(out, "  words: {words}, {distinct} distinct")?;
    writeln!(out, "skipped: {skipped}\n")?;
    writeln!(out, "{:>12} {:>8}  word", "occurrences", "files")?;
    for (word, count) in index.most_frequent(10) {
        // A word may be as long as its file.
        writeln!(
            out,
            "{count:>12} {:>8}  {word:.40}",
            index.find(word).count()
        )?;
    }

    // The third: the page. The index is still alive, so this is what it takes and who allocated it.
    writeln!(out, "\n{}", codetag::show_mem())?;

    let allocinfo = codetag::allocinfo().to_string();
    for line in allocinfo.lines().take(ALLOCINFO_LINES) {
        writeln!(out, "{line}")?;
    }
    let rest = allocinfo.lines().skip(ALLOCINFO_LINES).count();
    if rest > 0 {
        writeln!(out, "and {rest} more lines")?;
    }
    out.flush()
}

/// The exit status of what was printed. Whoever closed the pipe had read enough.
fn finish(printed: io::Result<()>) -> ExitCode {
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(format_args!("stdout: {error}")),
    }
}

fn fail(message: fmt::Arguments<'_>) -> ExitCode {
    eprintln!("show_mem: {message}");
    ExitCode::FAILURE
}
