//! A small service with a slow leak, and the two profiles that find it.
//!
//! ```text
//! cargo run --release --example find_a_leak -- target/leak
//! cargo run --release -p codetag-cli -- diff target/leak/before.json target/leak/after.json
//! ```
//!
//! Writes a profile after 1,000 requests and one after 21,000, and the difference as a flame graph. What it keeps
//! by intention, sessions and a cache, is bounded; one thing is not. The exit status is 1 if the profiles do not
//! point at it.

#![forbid(unsafe_code)]

use codetag_export::{Change, Diff, Measure, Owner, Profile, json, save, svg};
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

const USAGE: &str = "usage: find_a_leak [FOLDER]";

/// Sessions that are open at once.
const SESSIONS: usize = 200;
/// Pages that are kept for who asks again.
const PAGES: usize = 500;

/// Serves pages to users who log in, read one and leave.
#[derive(Default)]
struct Service {
    sessions: BTreeMap<u64, Session>,
    pages: VecDeque<String>,
    last_seen: BTreeMap<u64, String>,
    requests: u64,
}

/// What is known of somebody who is logged in.
struct Session {
    user: String,
    basket: Vec<u32>,
}

#[codetag::alloc_tag]
impl Service {
    /// One request of somebody new. Who came first has to leave if there are too many.
    #[alloc_tag(skip)]
    fn serve(&mut self) {
        self.requests += 1;
        let id = self.requests;
        self.login(id);
        self.touch(id);
        self.render(id);
        if self.sessions.len() > SESSIONS
            && let Some(&oldest) = self.sessions.keys().next()
        {
            self.logout(oldest);
        }
    }

    fn login(&mut self, id: u64) {
        let session = Session {
            user: format!("user {}", id % 997),
            basket: vec![0; 16],
        };
        self.sessions.insert(id, session);
    }

    fn render(&mut self, id: u64) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let goods = session.basket.len();
        let page = format!("<p>{} has {goods} goods</p>", session.user).repeat(8);
        self.pages.push_back(page);
        if self.pages.len() > PAGES {
            self.pages.pop_front();
        }
    }

    /// Notes when a session was used last.
    fn touch(&mut self, id: u64) {
        let entry = format!("request {} of session {id}", self.requests);
        self.last_seen.insert(id, entry);
    }

    /// Forgets the session, and forgets to forget when it was used last.
    fn logout(&mut self, id: u64) {
        self.sessions.remove(&id);
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let folder = args
        .next()
        .map_or_else(|| "target/leak".into(), PathBuf::from);
    if args.next().is_some() || folder.as_os_str().as_encoded_bytes().starts_with(b"-") {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    if let Err(error) = codetag::enable() {
        eprintln!("find_a_leak: {error}");
        if !matches!(error, codetag::EnableError::TagsOff) {
            return ExitCode::FAILURE;
        }
    }
    match run(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("find_a_leak: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let out = &mut io::stdout().lock();
    fs::create_dir_all(folder)?;
    let (before, after) = (folder.join("before.json"), folder.join("after.json"));
    let mut service = Service::default();
    for (requests, path) in [(1_000, &before), (20_000, &after)] {
        (0..requests).for_each(|_| service.serve());
        write_profile(path)?;
        writeln!(
            out,
            "{:>5} requests, {} sessions, {} pages: {}",
            service.requests,
            service.sessions.len(),
            service.pages.len(),
            path.display()
        )?;
    }

    let diff = Diff::new(&read_profile(&before)?, &read_profile(&after)?);
    let picture = folder.join("growth.svg");
    save(&picture, |file| {
        let title = "From before.json to after.json: live bytes";
        svg::write_diff(&diff, title, Measure::Bytes, file).map(drop)
    })?;
    writeln!(out, "what has grown, in red: {}", picture.display())?;
    let largest = diff.by_size(Measure::Bytes);
    let Some(first) = largest.first() else {
        return Ok(());
    };
    let delta = first.delta();
    let (objs, bytes) = (delta.live_objs, delta.bytes);
    writeln!(
        out,
        "grown most: {}, by {bytes} bytes in {objs} objects",
        first.owner
    )?;
    if codetag::state().kind == codetag::StateKind::On && !is_leak(first) {
        return Err("something else has grown more than the leak".into());
    }
    Ok(())
}

fn is_leak(change: &Change) -> bool {
    match &change.owner {
        Owner::Tag(tag) => tag.function == "Service::touch",
        Owner::Untagged | Owner::Untracked => false,
    }
}

/// Scans the heap and writes what it found. The profile itself is gone again when the next one is taken.
fn write_profile(path: &Path) -> io::Result<()> {
    let profile = Profile::from_snapshot(&codetag::Snapshot::take());
    save(path, |file| json::write(&profile, file))
}

fn read_profile(path: &Path) -> Result<Profile, Box<dyn Error>> {
    Ok(codetag_export::read(File::open(path)?)?)
}
