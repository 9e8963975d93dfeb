//! A server on two worker threads of tokio, its clients in the same process. A request is a line, an answer a line with
//! a length and a text of that length. What a handler allocates lives across its awaits, and so does the request.

mod handlers;

use super::{Larger, Outcome, Setup, at_peak, expect};
use crate::mix;
use crate::samples::Lane;
use fastrand::Rng;
use handlers::NAMES;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

const WORKERS: usize = 2;
const CLIENTS: usize = 16;
/// Of one client.
const FULL_REQUESTS: usize = 750;
const QUICK_REQUESTS: usize = 150;
/// What waits in one direction of a connection, before the writer does.
const PIPE_BYTES: usize = 4_096;

pub(super) struct Server {
    runtime: Runtime,
    seed: u64,
    requests: usize,
    found: Result<Counts, String>,
    /// One per client; with its client while that runs.
    lanes: Vec<Lane>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Answers that clients got.
    answers: u64,
    /// Requests that handlers met.
    handled: u64,
    check: u64,
}

/// What all connections share.
#[derive(Debug, Default)]
struct Shared {
    handled: AtomicU64,
}

/// A request as it was understood.
#[derive(Debug)]
struct Request {
    path: String,
    query: BTreeMap<String, String>,
}

impl Request {
    /// A number of the query, 0 if there is none of that name.
    fn number(&self, name: &str) -> u64 {
        self.query
            .get(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    }
}

impl Server {
    pub(super) fn new(setup: Setup) -> Result<Self, String> {
        let requests = setup.scale.of(FULL_REQUESTS, QUICK_REQUESTS);
        Ok(Self {
            runtime: Builder::new_multi_thread()
                .worker_threads(WORKERS)
                .build()
                .map_err(|error| format!("the runtime: {error}"))?,
            seed: setup.seed,
            requests,
            found: Err("was not run".to_owned()),
            lanes: setup.lanes(CLIENTS, requests)?,
        })
    }
}

impl Larger for Server {
    fn run(&mut self) {
        let lanes = std::mem::take(&mut self.lanes);
        let (found, lanes) = self
            .runtime
            .block_on(serve_all(self.seed, self.requests, lanes));
        self.found = found;
        self.lanes = lanes;
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let found = self.found.as_ref().map_err(Clone::clone)?;
        let due = (CLIENTS * self.requests) as u64;
        expect("answers", found.answers, due)?;
        expect("handled requests", found.handled, due)?;
        Ok(Outcome {
            ops: found.answers,
            check: found.check,
        })
    }

    fn lanes(&self) -> &[Lane] {
        &self.lanes
    }
}

/// All clients with a connection each, from their first request to their last answer.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn serve_all(
    seed: u64,
    requests: usize,
    lanes: Vec<Lane>,
) -> (Result<Counts, String>, Vec<Lane>) {
    let shared = Arc::new(Shared::default());
    let mut tasks = Vec::with_capacity(CLIENTS);
    for (number, lane) in (0..).zip(lanes) {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let rng = Rng::with_seed(mix::words([seed, number]));
        let client: JoinHandle<_> = tokio::spawn(run_client(near, rng, requests, lane));
        tasks.push((tokio::spawn(serve(far, Arc::clone(&shared))), client));
    }
    // All clients are being served.
    at_peak();
    let mut found = Ok(Counts::default());
    let mut lanes = Vec::with_capacity(CLIENTS);
    for (server, client) in tasks {
        match client.await {
            Ok((answers, lane)) => {
                lanes.push(lane);
                found = found.and_then(|sum| Ok(sum.with(answers?)));
            }
            Err(error) => found = found.and(Err(format!("a client: {error}"))),
        }
        match server.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => found = found.and(Err(format!("a connection: {error}"))),
            Err(error) => found = found.and(Err(format!("a connection: {error}"))),
        }
    }
    let found = found.map(|counts| Counts {
        handled: shared.handled.load(Ordering::Relaxed),
        ..counts
    });
    (found, lanes)
}

impl Counts {
    fn with(self, other: Self) -> Self {
        Self {
            answers: self.answers + other.answers,
            handled: 0,
            check: self.check.wrapping_add(other.check),
        }
    }
}

/// One connection, to its end.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn serve(stream: DuplexStream, shared: Arc<Shared>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let answer = match parse(&line) {
            Some(request) => answer(request, &shared).await,
            None => Err("400 no request".to_owned()),
        };
        let (status, text) = match &answer {
            Ok(text) => ("200", text),
            Err(text) => ("400", text),
        };
        let head = head(status, text.len());
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(text.as_bytes()).await?;
    }
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn head(status: &str, len: usize) -> String {
    format!("{status} {len}\n")
}

/// `GET /path?key=value&…`
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn parse(line: &str) -> Option<Request> {
    let target = line.trim_end().strip_prefix("GET /")?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    Some(Request {
        path: path.to_owned(),
        query,
    })
}

/// Calls the handler of the request's path.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn answer(request: Request, shared: &Shared) -> Result<String, String> {
    let answer = handlers::dispatch(&request).await;
    shared.handled.fetch_add(1, Ordering::Relaxed);
    answer.ok_or_else(|| format!("no handler for {}", request.path))
}

/// One request after the other, and what the answers come to.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn run_client(
    stream: DuplexStream,
    mut rng: Rng,
    requests: usize,
    mut lane: Lane,
) -> (Result<Counts, String>, Lane) {
    let mut stream = BufReader::new(stream);
    let mut counts = Counts::default();
    for _ in 0..requests {
        let request = request(&mut rng);
        let start = lane.start();
        match ask(&mut stream, &request).await {
            Ok(answer) => {
                lane.stop(start, 1);
                counts.answers += 1;
                let pair = mix::words([mix::bytes(request.as_bytes()), mix::bytes(&answer)]);
                counts.check = counts.check.wrapping_add(mix::spread(pair));
            }
            Err(error) => return (Err(format!("{}: {error}", request.trim_end())), lane),
        }
    }
    (Ok(counts), lane)
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn request(rng: &mut Rng) -> String {
    let name = NAMES[rng.usize(..NAMES.len())];
    let (id, rows) = (rng.u32(..100_000), rng.u32(1..12));
    format!("GET /{name}?id={id}&rows={rows}\n")
}

/// Sends a request and reads the whole answer.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn ask(stream: &mut BufReader<DuplexStream>, request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes()).await?;
    let mut head = String::new();
    stream.read_line(&mut head).await?;
    let len = head
        .trim_end()
        .strip_prefix("200 ")
        .and_then(|len| len.parse().ok())
        .ok_or_else(|| io::Error::other(format!("answered with {:?}", head.trim_end())))?;
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::{NAMES, answer, parse};
    use crate::larger::server::Shared;
    use std::collections::BTreeSet;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime")
            .block_on(future)
    }

    #[test]
    fn each_path_has_an_answer_of_its_own() {
        let shared = Shared::default();
        let answers: BTreeSet<String> = NAMES
            .iter()
            .map(|name| {
                let request = parse(&format!("GET /{name}?id=7&rows=3\n")).expect("a request");
                block_on(answer(request, &shared)).expect("a handler")
            })
            .collect();
        assert!(NAMES.len() >= 40);
        assert_eq!(answers.len(), NAMES.len());
    }

    #[test]
    fn what_is_no_request_has_no_answer() {
        assert!(parse("PUT /accounts\n").is_none());
        let request = parse("GET /nowhere?id=1\n").expect("a request");
        let error = block_on(answer(request, &Shared::default())).expect_err("no handler");
        assert_eq!(error, "no handler for nowhere");
    }
}
