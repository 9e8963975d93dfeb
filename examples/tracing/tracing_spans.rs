//! Who owns the memory of a program that is instrumented with `tracing` and has no attribute of codetag.
//!
//! ```text
//! cargo run --release --example tracing_spans
//! ```
//!
//! Four threads serve requests against a catalogue. Each request is a span, and so are the steps in it:
//! `TagLayer` makes them tags. Sessions are kept, answers are not, and one step keeps what it should not. At
//! the end a report goes to the subscriber as events, and the figures of the innermost steps stand beside
//! what the program counted of its own data; they are the same, or the exit status is 1. (`request` and
//! `search` make further spans, and own what the registry allocates for them, once.)

#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use codetag::{Snapshot, StateKind, TagLayer};
use tracing::{info, info_span, instrument};
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

const THREADS: usize = 4;
const REQUESTS_PER_THREAD: usize = 500;

/// What the server keeps between requests.
struct Server {
    catalogue: Vec<Box<str>>,
    /// Made large enough at the start, so that the requests own the sessions and not the list.
    sessions: Mutex<Vec<Box<str>>>,
    /// Every query there ever was. Nobody reads it.
    audit: Mutex<Vec<Box<str>>>,
}

#[instrument]
fn load_catalogue() -> Vec<Box<str>> {
    (0..2_000)
        .map(|n| format!("article number {n}").into())
        .collect()
}

#[instrument(skip_all)]
fn open_session(server: &Server, user: usize) {
    let session = format!("session of user {user}").into();
    lock(&server.sessions).push(session);
}

#[instrument(skip_all)]
fn search(server: &Server, query: &str) -> Vec<String> {
    note(server, query);
    let hits = server
        .catalogue
        .iter()
        .filter(|article| article.ends_with(query));
    hits.map(ToString::to_string).collect()
}

#[instrument(skip_all)]
fn note(server: &Server, query: &str) {
    let entry = format!("searched for {query}").into();
    lock(&server.audit).push(entry);
}

#[instrument(skip_all)]
fn render(hits: &[String]) -> String {
    hits.join("\n")
}

fn request(server: &Server, n: usize) -> usize {
    let _request = info_span!("request").entered();
    if n.is_multiple_of(5) {
        open_session(server, n);
    }
    let hits = search(server, &format!("{}", n % 100));
    render(&hits).len()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn main() -> ExitCode {
    tracing_subscriber::registry()
        .with(TagLayer::new())
        .with(
            tracing_subscriber::fmt::layer()
                .with_writer(io::stdout)
                .with_ansi(false)
                .without_time(),
        )
        .init();
    if let Err(error) = codetag::enable() {
        eprintln!("tracing_spans: {error}");
        if !matches!(error, codetag::EnableError::TagsOff) {
            return ExitCode::FAILURE;
        }
    }
    let room = THREADS * REQUESTS_PER_THREAD;
    let server = Server {
        catalogue: load_catalogue(),
        sessions: Mutex::new(Vec::with_capacity(room)),
        audit: Mutex::new(Vec::with_capacity(room)),
    };
    let answered: usize = thread::scope(|s| {
        let serve = |first: usize| {
            let server = &server;
            s.spawn(move || {
                let requests = first * REQUESTS_PER_THREAD..(first + 1) * REQUESTS_PER_THREAD;
                requests.map(|n| request(server, n)).sum::<usize>()
            })
        };
        let threads: Vec<_> = (0..THREADS).map(serve).collect();
        threads.into_iter().map(|t| t.join().unwrap_or(0)).sum()
    });
    info!(answered_bytes = answered, "all requests are served");
    codetag::report::emit(5);
    print!("{}", codetag::show_mem().top(5));
    agree(&server)
}

/// Whether each span owns what the program counts of its data.
fn agree(server: &Server) -> ExitCode {
    let snapshot = Snapshot::take();
    let is_off = codetag::state().kind == StateKind::TagsOff;
    // The catalogue's own list is an object too.
    let list = server.catalogue.capacity() * size_of::<Box<str>>();
    let rows = [
        ("load_catalogue", strings(&server.catalogue), Some(list)),
        ("open_session", strings(&lock(&server.sessions)), None),
        ("note", strings(&lock(&server.audit)), None),
        ("render", (0, 0), None),
    ];
    let mut code = ExitCode::SUCCESS;
    println!("\n{:<16} {:>18} {:>18}", "span", "counted, B", "shown, B");
    for (span, (mut objs, mut bytes), list) in rows {
        objs += u64::from(list.is_some());
        bytes += list.unwrap_or(0) as u64;
        let shown = snapshot
            .usages()
            .filter(|usage| usage.tag.function() == span)
            .fold((0, 0), |(o, b), usage| {
                (o + usage.live_objs, b + usage.live_bytes)
            });
        println!(
            "{span:<16} {bytes:>10} in {objs:>4} {:>10} in {:>4}",
            shown.1, shown.0
        );
        if !is_off && shown != (objs, bytes) {
            eprintln!("tracing_spans: {span} owns something else than the program counted");
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn strings(kept: &[Box<str>]) -> (u64, u64) {
    let bytes = kept.iter().map(|s| s.len() as u64).sum();
    (kept.len() as u64, bytes)
}
