//! Runs a user's program, alone or while a load runs.

use super::builds::Built;
use super::page::{Page, before_page};
use super::{Measured, Options, State, UserError};
use crate::callgrind::{self, Caches};
use crate::child::{self, Capture, Child, ChildError, Ended};
use crate::counting::Means;
use crate::perf::{self, Counting, Event};
use crate::results::Source;
use crate::turn::Scratch;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Between two tries to connect.
const RETRY: Duration = Duration::from_millis(20);

/// How much slower a program is under Callgrind, at most.
const COUNTING_TIMES: u32 = 20;

/// What runs while the program does.
#[derive(Clone, Debug)]
pub struct Load {
    /// For a shell. Its wall time is what is measured; afterwards the program is told to end.
    pub command: String,
    /// The address, as `HOST:PORT`, that accepts connections once the program is ready.
    pub ready: Option<String>,
    /// What tells it to end.
    pub stop: Signal,
}

/// The most memory that this process had so far, in bytes.
pub(super) fn own_peak_rss() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<f64> =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(0.0, |kib| kib * 1_024.0)
}

/// One run.
#[derive(Debug)]
pub(super) struct Run {
    /// Of the program, or of the load.
    pub(super) wall: Duration,
    /// Of the program.
    pub(super) cpu: Duration,
    pub(super) peak_rss_bytes: u64,
    ended: Ended,
}

/// The run that says what state the program is in.
#[derive(Debug)]
pub(super) struct First {
    pub(super) stdout: PathBuf,
    pub(super) page: Option<Page>,
    pub(super) why_none: String,
}

/// What was counted of a run.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) instructions: Option<(f64, Source)>,
    /// Per 1,000 instructions.
    pub(super) i1_misses: Option<(f64, Source)>,
}

#[derive(Debug)]
pub(super) struct Runner<'a> {
    options: &'a Options,
    built: &'a Built,
    /// Where outputs of first runs stay.
    kept: PathBuf,
    scratch: Scratch,
}

impl<'a> Runner<'a> {
    pub(super) fn new(options: &'a Options, built: &'a Built) -> Result<Self, UserError> {
        let kept = built.dir.join("output");
        let scratch =
            fs::create_dir_all(&kept).and_then(|()| Scratch::new(&built.turn, &built.dir));
        let scratch = scratch
            .map_err(|error| UserError::Files(format!("{}: {error}", built.dir.display())))?;
        Ok(Self {
            options,
            built,
            kept,
            scratch,
        })
    }

    fn path(&self, state: &State) -> &Path {
        &self.built.paths[usize::from(!state.is_tags_off)]
    }

    fn command(&self, path: &Path, codetag: &str) -> Command {
        let mut command = Command::new(path);
        command.args(&self.options.args).env("CODETAG", codetag);
        command
    }

    /// Files of runs whose output nobody looks at.
    fn unseen(&self) -> Capture {
        Capture::Files {
            stdout: self.scratch.path().join("stdout"),
            stderr: self.scratch.path().join("stderr"),
        }
    }

    /// Its output is kept, and codetag prints its page behind what the program has on stderr.
    pub(super) fn first(&self, state: &State, at: usize) -> Result<First, ChildError> {
        let name = format!("{}-{}", self.options.package.target.name(), at + 1);
        let [stdout, stderr] =
            ["stdout", "stderr"].map(|of| self.kept.join(format!("{name}.{of}")));
        let capture = Capture::Files {
            stdout: stdout.clone(),
            stderr: stderr.clone(),
        };
        let mut command = self.command(self.path(state), &format!("{},exit", state.codetag));
        let child = Child::start(&mut command, &capture)?;
        let run = self.drive(child, self.options.limit, &stderr)?;
        let said = fs::read(&stderr).map_err(ChildError::Lost)?;
        let why_none = match run.ended.status.signal() {
            Some(_) => format!("it was ended by {} and printed no page", run.ended.status),
            None => "it printed no page when it ended: is codetag::TagAlloc its global allocator?"
                .to_owned(),
        };
        Ok(First {
            stdout,
            page: Page::find(&said),
            why_none,
        })
    }

    pub(super) fn timed(&self, state: &State) -> Result<Run, ChildError> {
        let mut command = self.command(self.path(state), state.codetag);
        let child = Child::start(&mut command, &self.unseen())?;
        self.drive(
            child,
            self.options.limit,
            &self.scratch.path().join("stderr"),
        )
    }

    pub(super) fn counted(
        &self,
        state: &State,
        path: &Path,
        with_caches: bool,
        means: &Means,
    ) -> Result<Counted, String> {
        let command = self.command(path, state.codetag);
        let stderr = self.scratch.path().join("stderr");
        if means.has_pmu {
            let count = |event| -> Result<f64, String> {
                let counting = perf::start(&command, event, &self.unseen());
                let Counting { child, reader } = counting.map_err(|error| error.to_string())?;
                self.drive(child, self.options.limit, &stderr)
                    .map_err(|error| error.to_string())?;
                reader.read().map_err(|error| error.to_string())
            };
            let instructions = count(Event::Instructions)?;
            let misses = if with_caches {
                Some(count(Event::L1iMisses)?)
            } else {
                None
            };
            return Ok(Counted {
                instructions: Some((instructions, Source::Pmu)),
                i1_misses: misses.map(|misses| (1_000.0 * misses / instructions, Source::Pmu)),
            });
        }
        let caches = if with_caches {
            Caches::of_this_machine()
        } else {
            Caches::None
        };
        let out = self.scratch.path().join("callgrind");
        let mut valgrind = callgrind::wrap(&command, &out, None, caches);
        let child =
            Child::start(&mut valgrind, &self.unseen()).map_err(|error| error.to_string())?;
        let limit = self.options.limit.saturating_mul(COUNTING_TIMES);
        self.drive(child, limit, &stderr)
            .map_err(|error| format!("under valgrind: {error}"))?;
        let events = callgrind::read(&out)?;
        Ok(Counted {
            instructions: Some((events.instructions, Source::Valgrind)),
            i1_misses: events
                .i1_misses_per_1000()
                .map(|rate| (rate, Source::Valgrind)),
        })
    }

    /// Waits for the end, or runs the load and then brings it about.
    fn drive(&self, child: Child, limit: Duration, stderr: &Path) -> Result<Run, ChildError> {
        let failed = |ended: Ended| {
            let said = fs::read(stderr).unwrap_or_default();
            ended.with_stderr(before_page(&said).to_vec()).success()
        };
        let Some(load) = &self.options.load else {
            let ended = failed(child.wait(limit)?)?;
            return Ok(Run {
                wall: ended.wall,
                cpu: ended.cpu,
                peak_rss_bytes: ended.peak_rss_bytes,
                ended,
            });
        };
        if let Some(address) = &load.ready
            && !is_ready(address, &child, limit)
        {
            let program = self.options.package.target.name().to_owned();
            let end = if child.has_ended_within(Duration::ZERO) {
                Some(failed(child.wait(limit)?)?.status)
            } else if child::is_interrupted() {
                return Err(ChildError::Interrupted);
            } else {
                None
            };
            return Err(ChildError::NotReady {
                program,
                address: address.clone(),
                end,
                limit,
            });
        }
        let loaded = child::run(Command::new("sh").args(["-c", &load.command]), limit)?;
        let is_early = child.has_ended_within(Duration::ZERO);
        child.signal(load.stop);
        let ended = child.wait(limit.saturating_mul(2))?;
        // To be ended by the signal that was sent is no failure.
        let by_stop = ended.status.signal() == Some(load.stop.as_raw());
        let ended = if by_stop && !is_early {
            ended
        } else {
            failed(ended)?
        };
        Ok(Run {
            wall: loaded.wall,
            cpu: ended.cpu,
            peak_rss_bytes: ended.peak_rss_bytes,
            ended,
        })
    }

    /// Says where outputs are, and whether they are the same.
    pub(super) fn compare(&self, rows: &[Measured]) -> Vec<String> {
        let outputs: Vec<&Path> = rows
            .iter()
            .filter_map(|row| row.output.as_deref())
            .collect();
        let Some((first, others)) = outputs.split_first() else {
            return Vec::new();
        };
        let mut notes = vec![format!(
            "What the first run of each row wrote is kept: {}.",
            self.kept
                .join(format!(
                    "{}-{{1,2,3,4}}.{{stdout,stderr}}",
                    self.options.package.target.name()
                ))
                .display()
        )];
        let differs: Vec<&Path> = others
            .iter()
            .copied()
            .filter(|other| !is_same(first, other).unwrap_or(false))
            .collect();
        let Some(other) = differs.first() else {
            return notes;
        };
        notes.push(if differs.len() == others.len() && outputs.len() == rows.len() {
            "The rows' standard outputs differ, those of tags off twice too: the program does not write the same each time."
                .to_owned()
        } else {
            format!("The rows' standard outputs differ: {} from {}.", first.display(), other.display())
        });
        notes
    }
}

/// Whether `address` accepts a connection before the child ends or its time is up.
fn is_ready(address: &str, child: &Child, limit: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        let addresses: Vec<SocketAddr> = address
            .to_socket_addrs()
            .map(Iterator::collect)
            .unwrap_or_default();
        if addresses
            .iter()
            .any(|address| TcpStream::connect_timeout(address, RETRY).is_ok())
        {
            return true;
        }
        if child.has_ended_within(RETRY) {
            return false;
        }
    }
    false
}

fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let read = one.read(&mut a)?;
        if read == 0 {
            return Ok(true);
        }
        other.read_exact(&mut b[..read])?;
        if a[..read] != b[..read] {
            return Ok(false);
        }
    }
}
