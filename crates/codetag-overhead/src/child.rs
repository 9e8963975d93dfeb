//! Child processes: each started in a group of its own, which never outlives it, a time limit, or this process
//! being told to end.

use crate::quote;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wait4::Wait4;

/// Signals that come so soon behind the first are the same one: `timeout` and terminals that are closed send theirs
/// to the process and to its group.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// The exit status of a command that Ctrl-C ended.
pub const INTERRUPTED_STATUS: u8 = 130;

#[derive(Debug)]
struct Running {
    groups: Vec<Pid>,
    interrupted: Option<Instant>,
    /// See [`waits_for_others`].
    waits_for_others: bool,
    /// Where files are that nobody needs afterwards.
    scratch: Option<PathBuf>,
}

impl Running {
    /// Whether a signal at `now` ends this process at once, rather than what it measures.
    fn ends_at_once(&self, now: Instant) -> bool {
        match self.interrupted {
            Some(first) => now.duration_since(first) > ONE_SIGNAL,
            None => self.waits_for_others,
        }
    }
}

static RUNNING: Mutex<Running> = Mutex::new(Running {
    groups: Vec::new(),
    interrupted: None,
    waits_for_others: false,
    scratch: None,
});

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on Ctrl-C, SIGTERM and SIGHUP call [`interrupt`]; one that comes more than a second later, or while
/// this process [`waits_for_others`], ends it at once.
pub fn interrupt_on_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails where a handler is set already, which nobody else does.
        let _ = ctrlc::set_handler(|| {
            let mut running = running();
            if running.ends_at_once(Instant::now()) {
                if let Some(scratch) = running.scratch.take() {
                    let _ = fs::remove_dir_all(scratch);
                }
                std::process::exit(i32::from(INTERRUPTED_STATUS));
            }
            drop(running);
            interrupt();
        });
    });
}

/// Whether this process waits for somebody who may never come, as the reader of a pipe: then the first signal ends it. Not
/// where it writes a temporary file, which would be left.
pub fn waits_for_others(waits: bool) {
    running().waits_for_others = waits;
}

/// The directory that goes when a signal ends this process at once.
pub(crate) fn set_scratch(scratch: Option<PathBuf>) {
    running().scratch = scratch;
}

/// Kills every child and lets none start any more: what runs now ends with [`ChildError::Interrupted`].
pub fn interrupt() {
    let mut running = running();
    running.interrupted.get_or_insert_with(Instant::now);
    for group in &running.groups {
        // It may have ended by itself.
        let _ = kill_process_group(*group, Signal::KILL);
    }
}

/// Whether [`interrupt`] was called.
pub fn is_interrupted() -> bool {
    running().interrupted.is_some()
}

/// Where a child's output goes.
#[derive(Clone, Debug, Default)]
pub enum Capture {
    /// Into [`Ended`].
    #[default]
    Memory,
    /// Into these files.
    Files {
        /// For standard output.
        stdout: PathBuf,
        /// For standard error.
        stderr: PathBuf,
    },
}

/// Why a child has no result. One line each.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChildError {
    /// It was not started.
    NotStarted {
        /// What was to be run.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// It ended with another status than 0, or by a signal.
    Failed {
        /// What was run.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// What matters of its stderr.
        said: String,
    },
    /// It ran longer than it may and was killed.
    TimedOut {
        /// What was run.
        program: String,
        /// What it may take.
        limit: Duration,
    },
    /// This process was told to end.
    Interrupted,
    /// It was to accept connections and did not.
    NotReady {
        /// What was run.
        program: String,
        /// Where.
        address: String,
        /// How it ended, or `None` where it still ran after so long.
        end: Option<ExitStatus>,
        /// What it had for it.
        limit: Duration,
    },
    /// Its end or output could not be waited for.
    Lost(io::Error),
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { program, error } if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "there is no program {program}")
            }
            Self::NotStarted { program, error } => {
                write!(f, "{program} cannot be started: {error}")
            }
            Self::Failed {
                program,
                status,
                said,
            } => {
                match status.signal() {
                    Some(_) => write!(f, "{program} was ended by {status}")?,
                    None => write!(f, "{program} ended with {status}")?,
                }
                if said.is_empty() {
                    f.write_str(" and said nothing")
                } else {
                    write!(f, ": {said}")
                }
            }
            Self::TimedOut { program, limit } => {
                write!(f, "{program} did not end within {} s", limit.as_secs_f64())
            }
            Self::NotReady {
                program,
                address,
                end: Some(status),
                ..
            } => write!(
                f,
                "{program} ended ({status}) before {address} accepted a connection"
            ),
            Self::NotReady {
                program,
                address,
                limit,
                ..
            } => write!(
                f,
                "{address} accepted no connection within {} s of {program}'s start",
                limit.as_secs_f64()
            ),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Lost(error) => write!(f, "a child could not be waited for: {error}"),
        }
    }
}

impl std::error::Error for ChildError {}

/// A child that has ended.
#[derive(Debug)]
pub struct Ended {
    /// All that it wrote, unless files took it.
    pub stdout: Vec<u8>,
    /// As `stdout`.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub status: ExitStatus,
    /// From before its start to its end.
    pub wall: Duration,
    /// User and system time, its own and that of the children that it waited for.
    pub cpu: Duration,
    /// The most memory that it had at a time. Linux starts this figure at what *this* process has when it starts a
    /// child, so that smaller children cannot be told from it.
    pub peak_rss_bytes: u64,
    program: String,
}

impl Ended {
    /// With what a file took of its stderr.
    #[must_use]
    pub fn with_stderr(self, stderr: Vec<u8>) -> Self {
        Self { stderr, ..self }
    }

    /// This child, if its exit status is 0.
    ///
    /// # Errors
    ///
    /// [`ChildError::Failed`].
    pub fn success(self) -> Result<Self, ChildError> {
        if self.status.success() {
            return Ok(self);
        }
        Err(ChildError::Failed {
            said: quote::in_short(&self.stderr),
            program: self.program,
            status: self.status,
        })
    }
}

/// A child that runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Child {
    // `None` once it is waited for.
    child: Option<std::process::Child>,
    group: Pid,
    program: String,
    start: Instant,
    ended: Receiver<io::Result<()>>,
    readers: [Option<JoinHandle<io::Result<Vec<u8>>>>; 2],
}

impl Child {
    /// Starts `command` with nothing as its standard input.
    ///
    /// # Errors
    ///
    /// [`ChildError::NotStarted`] or [`ChildError::Interrupted`].
    pub fn start(command: &mut Command, capture: &Capture) -> Result<Self, ChildError> {
        Self::start_with(command, capture, Stdio::null())
    }

    /// Starts `command` with a pipe as its standard input.
    ///
    /// # Errors
    ///
    /// As [`Child::start`].
    pub fn start_piped(
        command: &mut Command,
        capture: &Capture,
    ) -> Result<(Self, Option<ChildStdin>), ChildError> {
        let mut child = Self::start_with(command, capture, Stdio::piped())?;
        let stdin = child.child.as_mut().and_then(|child| child.stdin.take());
        Ok((child, stdin))
    }

    fn start_with(
        command: &mut Command,
        capture: &Capture,
        stdin: Stdio,
    ) -> Result<Self, ChildError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let not_started = |error| ChildError::NotStarted {
            program: program.clone(),
            error,
        };
        let (stdout, stderr) = match capture {
            Capture::Memory => (Stdio::piped(), Stdio::piped()),
            Capture::Files { stdout, stderr } => (
                File::create(stdout).map_err(ChildError::Lost)?.into(),
                File::create(stderr).map_err(ChildError::Lost)?.into(),
            ),
        };
        command
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0);
        // Held until the group is on the list, so that none is missed by an interrupt.
        let mut running = running();
        if running.interrupted.is_some() {
            return Err(ChildError::Interrupted);
        }
        let start = Instant::now();
        let mut child = command.spawn().map_err(not_started)?;
        let group = i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| ChildError::Lost(io::Error::other("it has no process id")))?;
        running.groups.push(group);
        drop(running);
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            // The child stays a zombie, so that its number and its group's are nobody else's.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let end = loop {
                match waitid(WaitId::Pid(group), options) {
                    Err(rustix::io::Errno::INTR) => {}
                    other => break other.map(drop).map_err(io::Error::from),
                }
            };
            // Nobody listens any more where the child was killed.
            let _ = sender.send(end);
        });
        let readers = [
            child.stdout.take().map(|pipe| read_all(Box::new(pipe))),
            child.stderr.take().map(|pipe| read_all(Box::new(pipe))),
        ];
        Ok(Self {
            child: Some(child),
            group,
            program,
            start,
            ended,
            readers,
        })
    }

    /// Names it in errors, where it is to become another program than the one that was started.
    #[must_use]
    pub fn named(mut self, program: String) -> Self {
        self.program = program;
        self
    }

    /// Its process id, and that of its group.
    pub fn pid(&self) -> Pid {
        self.group
    }

    /// Whether it has ended within `time` from now.
    pub fn has_ended_within(&self, time: Duration) -> bool {
        // What was received here is not received again, but the child stays a zombie until it is waited for.
        !matches!(
            self.ended.recv_timeout(time),
            Err(RecvTimeoutError::Timeout)
        )
    }

    /// Sends a signal to the child and all of its group.
    pub fn signal(&self, signal: Signal) {
        // It may have ended by itself.
        let _ = kill_process_group(self.group, signal);
    }

    /// Waits for the end, at most `limit` from the start. What is left of the group is killed.
    ///
    /// # Errors
    ///
    /// All but those of starting. Any exit status is fine: see [`Ended::success`].
    pub fn wait(mut self, limit: Duration) -> Result<Ended, ChildError> {
        let left = limit.saturating_sub(self.start.elapsed());
        let has_timed_out = !self.has_ended_within(left);
        let wall = self.start.elapsed();
        let Some(child) = self.forget() else {
            return Err(ChildError::Lost(io::Error::other(
                "it was waited for before",
            )));
        };
        let end = child.wait4().map_err(ChildError::Lost)?;
        let [stdout, stderr] = std::mem::take(&mut self.readers).map(|reader| {
            let read = reader.map_or(Ok(Ok(Vec::new())), JoinHandle::join);
            read.unwrap_or_else(|_| Err(io::Error::other("its reader ended early")))
        });
        if is_interrupted() {
            return Err(ChildError::Interrupted);
        }
        let program = std::mem::take(&mut self.program);
        if has_timed_out {
            return Err(ChildError::TimedOut { program, limit });
        }
        Ok(Ended {
            stdout: stdout.map_err(ChildError::Lost)?,
            stderr: stderr.map_err(ChildError::Lost)?,
            status: end.status,
            wall,
            cpu: end.rusage.utime + end.rusage.stime,
            peak_rss_bytes: end.rusage.maxrss,
            program,
        })
    }

    /// Takes the group off the list and kills what is left of it; the child itself is a zombie still, or killed
    /// with the rest.
    fn forget(&mut self) -> Option<std::process::Child> {
        let child = self.child.take()?;
        let mut running = running();
        running.groups.retain(|group| *group != self.group);
        let _ = kill_process_group(self.group, Signal::KILL);
        Some(child)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(mut child) = self.forget() {
            // It was killed: there is nothing more to be known.
            let _ = child.wait();
        }
    }
}

fn read_all(mut pipe: Box<dyn Read + Send>) -> JoinHandle<io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

/// Runs `command` to its end, without input.
///
/// # Errors
///
/// Every [`ChildError`]; an exit status other than 0 is one.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ended, ChildError> {
    Child::start(command, &Capture::Memory)?
        .wait(limit)?
        .success()
}

#[cfg(test)]
mod tests {
    use super::{Capture, Child, ONE_SIGNAL, Running, run};
    use std::io::Write;
    use std::process::Command;
    use std::time::{Duration, Instant};

    const LONG: Duration = Duration::from_secs(60);

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn error(command: &mut Command, limit: Duration) -> String {
        run(command, limit).expect_err("no success").to_string()
    }

    #[test]
    fn an_end_is_told_in_one_line() {
        assert_eq!(
            error(&mut sh("echo why >&2; exit 3"), LONG),
            "sh ended with exit status: 3: why"
        );
        assert_eq!(
            error(&mut sh("exit 1"), LONG),
            "sh ended with exit status: 1 and said nothing"
        );
        assert!(error(&mut sh("kill -SEGV $$"), LONG).starts_with("sh was ended by signal: 11"));
        assert_eq!(
            error(&mut Command::new("/no/such/program"), LONG),
            "there is no program /no/such/program"
        );
    }

    #[test]
    fn one_that_hangs_is_killed_with_its_children() {
        let start = std::time::Instant::now();
        // The grandchild holds the pipe of its output open for as long as it lives, and the pipe is read to its end.
        assert_eq!(
            error(&mut sh("sleep 1000 & sleep 1000"), Duration::from_secs(1)),
            "sh did not end within 1 s"
        );
        assert!(start.elapsed() < LONG);
    }

    #[test]
    fn what_a_child_leaves_behind_does_not_hold_it_up() {
        let ended = run(&mut sh("echo said; sleep 1000 &"), LONG).expect("status 0");
        assert_eq!(ended.stdout, b"said\n");
        assert!(ended.wall < LONG && ended.peak_rss_bytes > 0);
    }

    #[test]
    fn input_and_files_reach_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let capture = Capture::Files {
            stdout: dir.path().join("out"),
            stderr: dir.path().join("err"),
        };
        let (child, stdin) =
            Child::start_piped(&mut sh("cat; echo e >&2"), &capture).expect("started");
        stdin.expect("a pipe").write_all(b"in").expect("it reads");
        let ended = child.wait(LONG).expect("an end");
        assert!(ended.status.success() && ended.stdout.is_empty());
        assert_eq!(
            std::fs::read(dir.path().join("out")).expect("a file"),
            b"in"
        );
        assert_eq!(
            std::fs::read(dir.path().join("err")).expect("a file"),
            b"e\n"
        );
    }

    #[test]
    fn signals_of_one_second_are_one() {
        let first = Instant::now();
        let running = |interrupted, waits_for_others| Running {
            groups: Vec::new(),
            interrupted,
            waits_for_others,
            scratch: None,
        };
        for waits_for_others in [false, true] {
            let running = running(Some(first), waits_for_others);
            assert!(!running.ends_at_once(first));
            assert!(!running.ends_at_once(first + ONE_SIGNAL));
            assert!(running.ends_at_once(first + 2 * ONE_SIGNAL));
        }
        assert!(!running(None, false).ends_at_once(first));
        assert!(running(None, true).ends_at_once(first));
    }
}
