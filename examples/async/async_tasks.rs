//! Who owns the memory of async tasks that move between threads, wait, and are cancelled.
//!
//! ```text
//! cargo run --release --example async_tasks
//! ```
//!
//! Each task downloads a body, piece by piece, from a server thread and parses it. A tagged `async fn`
//! sets its tag for each poll and for its drop, on whatever thread the runtime does that, so what a
//! task keeps is charged to the function that allocated it, however often the task moved. At the end
//! the page's figures stand beside what the program counted of its own data; they are the same, or
//! the exit status is 1.

#![deny(unsafe_code)]

use std::fmt;
use std::future::pending;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use codetag::Snapshot;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

const TASKS: u32 = 200;
const PIECES_PER_BODY: u32 = 40;
const HELD_BYTES: usize = 1 << 20;

/// How often a task went on on another thread than the one it had stopped on.
static MOVES: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let profiling = codetag::enable();
    if let Err(error) = &profiling {
        eprintln!("async_tasks: {error}");
        if !matches!(error, codetag::EnableError::TagsOff) {
            return ExitCode::FAILURE;
        }
    }
    let runtime = match Builder::new_multi_thread()
        .worker_threads(4)
        .max_blocking_threads(4)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(format_args!("the runtime: {error}")),
    };
    let (pages, waiting, cancelled) = runtime.block_on(run());
    // The runtime's threads free the last parts of a task after they have handed out its result.
    // With the runtime gone nothing is in flight any more, and every figure is exact.
    drop(runtime);

    let held = Figure {
        objs: 1,
        bytes: HELD_BYTES as u64,
    };
    let rows = [
        Row {
            what: "download",
            counted: pages.iter().map(Page::of_download).sum(),
            shown: shown("download"),
        },
        Row {
            what: "parse",
            counted: pages.iter().map(Page::of_parse).sum(),
            shown: shown("parse"),
        },
        Row {
            what: "serve",
            counted: Figure::default(),
            shown: shown("serve"),
        },
        Row {
            what: "wait, waiting",
            counted: held,
            shown: waiting,
        },
        Row {
            what: "wait, cancelled",
            counted: Figure::default(),
            shown: cancelled,
        },
    ];
    match print_report(&rows) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            fail(format_args!("stdout: {error}"))
        }
        _ if profiling.is_ok() && rows.iter().any(|row| row.counted != row.shown) => {
            fail(format_args!("the page and the program's own count differ"))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// All pages, and what `wait` owned while it waited and once it was cancelled.
async fn run() -> (Vec<Page>, Figure, Figure) {
    let tasks: Vec<_> = (0..TASKS)
        .map(|id| tokio::spawn(async move { parse(download(id).await).await }))
        .collect();
    let mut pages = Vec::new();
    for task in tasks {
        pages.push(
            task.await
                .expect("nothing panics in there, and nobody cancels it"),
        );
    }

    let (holding, held) = oneshot::channel();
    let task = tokio::spawn(wait(holding));
    held.await.expect("it sends before it waits");
    let waiting = shown("wait");
    task.abort();
    task.await.expect_err("it waits until it is cancelled");
    (pages, waiting, shown("wait"))
}

/// What a task leaves behind.
struct Page {
    body: Vec<u8>,
    lines: Vec<String>,
}

impl Page {
    fn of_download(&self) -> Figure {
        Figure {
            objs: 1,
            bytes: self.body.capacity() as u64,
        }
    }

    /// The vector, and each string in it.
    fn of_parse(&self) -> Figure {
        let vector_bytes = self.lines.capacity() * size_of::<String>();
        let strings_bytes: usize = self.lines.iter().map(String::capacity).sum();
        Figure {
            objs: 1 + self.lines.len() as u64,
            bytes: (vector_bytes + strings_bytes) as u64,
        }
    }
}

/// Gathers a body. The pieces that it frees were allocated by [`serve`] on another thread; woken from
/// there, the task goes on on any thread of the runtime that is free.
#[codetag::alloc_tag]
async fn download(id: u32) -> Vec<u8> {
    let (pieces, mut received) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || serve(id, pieces));
    let mut body = Vec::new();
    let mut thread = thread::current().id();
    while let Some(piece) = received.recv().await {
        body.extend_from_slice(&piece);
        let before = std::mem::replace(&mut thread, thread::current().id());
        MOVES.fetch_add(u64::from(before != thread), Relaxed);
    }
    body
}

/// Sends the pieces of a body and keeps nothing.
#[codetag::alloc_tag]
fn serve(id: u32, pieces: mpsc::Sender<Box<[u8]>>) {
    for n in 0..PIECES_PER_BODY {
        let piece = format!("page {id}, line {n}\n")
            .into_bytes()
            .into_boxed_slice();
        if pieces.blocking_send(piece).is_err() {
            return;
        }
    }
}

/// Keeps the body, which stays charged to [`download`], and copies of its lines.
#[codetag::alloc_tag]
async fn parse(body: Vec<u8>) -> Page {
    let mut lines = Vec::new();
    for line in String::from_utf8_lossy(&body).lines() {
        lines.push(line.to_owned());
        tokio::task::yield_now().await;
    }
    Page { body, lines }
}

/// Holds memory for as long as it is not cancelled.
#[codetag::alloc_tag]
async fn wait(holding: oneshot::Sender<()>) {
    let _held = vec![0_u8; HELD_BYTES];
    // If nobody listens any more there is nobody to tell.
    let _ = holding.send(());
    pending::<()>().await;
}

/// Live objects and the bytes that were requested for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figure {
    objs: u64,
    bytes: u64,
}

impl std::iter::Sum for Figure {
    fn sum<I: Iterator<Item = Self>>(figures: I) -> Self {
        figures.fold(Self::default(), |a, b| Self {
            objs: a.objs + b.objs,
            bytes: a.bytes + b.bytes,
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} objects {:>9} bytes", self.objs, self.bytes)
    }
}

/// What codetag says that a function of this program owns now.
fn shown(function: &str) -> Figure {
    let snapshot = Snapshot::take();
    let usage = snapshot
        .usages()
        .find(|usage| usage.tag.function() == function);
    usage.map_or_else(Figure::default, |usage| Figure {
        objs: usage.live_objs,
        bytes: usage.live_bytes,
    })
}

struct Row {
    what: &'static str,
    counted: Figure,
    shown: Figure,
}

fn print_report(rows: &[Row]) -> io::Result<()> {
    let out = &mut io::stdout().lock();
    let moves = MOVES.load(Relaxed);
    writeln!(
        out,
        "{TASKS} tasks went on on another thread {moves} times.\n"
    )?;
    writeln!(
        out,
        "{:<16} {:<33}  shown by codetag",
        "", "counted by the program"
    )?;
    for Row {
        what,
        counted,
        shown,
    } in rows
    {
        writeln!(out, "{what:<16} {counted}  {shown}")?;
    }
    writeln!(out, "\n{}", codetag::show_mem().top(5))?;
    out.flush()
}

fn fail(message: fmt::Arguments<'_>) -> ExitCode {
    eprintln!("async_tasks: {message}");
    ExitCode::FAILURE
}
