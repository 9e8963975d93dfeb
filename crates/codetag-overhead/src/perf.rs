//! The kernel's counters, opened by this process on a child, one at a time.
//!
//! The child is a shell that waits for a line and then becomes the program: in between the counter is opened on its
//! process id, to begin with the program's start. Children and threads of the program are counted too.

use crate::child::{Capture, Child, ChildError, Ended};
use perf_event::events::{self, Cache, CacheOp, CacheResult, Hardware, Software, WhichCache};
use perf_event::{Builder, Counter};
use rustix::io::Errno;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Instructions in user mode, by the processor.
    Instructions,
    /// Reads that missed the first-level instruction cache, in user mode, by the processor.
    L1iMisses,
    /// Nanoseconds on a processor, by the kernel.
    TaskClock,
    /// Page faults in user mode, by the kernel.
    PageFaults,
}

impl Event {
    fn kind(self) -> events::Event {
        match self {
            Self::Instructions => Hardware::INSTRUCTIONS.into(),
            Self::L1iMisses => Cache {
                which: WhichCache::L1I,
                operation: CacheOp::READ,
                result: CacheResult::MISS,
            }
            .into(),
            Self::TaskClock => Software::TASK_CLOCK.into(),
            Self::PageFaults => Software::PAGE_FAULTS.into(),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instructions => "instructions",
            Self::L1iMisses => "L1 instruction cache misses",
            Self::TaskClock => "time on the processor",
            Self::PageFaults => "page faults",
        })
    }
}

/// Why nothing was counted.
#[derive(Debug)]
#[non_exhaustive]
pub enum CountError {
    /// The kernel gave no counter: a sentence that says why.
    Unavailable(String),
    /// The program was not run to its end.
    Child(ChildError),
}

impl fmt::Display for CountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => f.write_str(why),
            Self::Child(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CountError {}

impl From<ChildError> for CountError {
    fn from(error: ChildError) -> Self {
        Self::Child(error)
    }
}

/// Whether `event` can be counted here: tried on this process itself.
///
/// # Errors
///
/// [`CountError::Unavailable`].
pub fn available(event: Event) -> Result<(), CountError> {
    let built = Builder::new().kind(event.kind()).build();
    built
        .map(drop)
        .map_err(|error| CountError::Unavailable(sentence(event, &error)))
}

/// A child whose counter runs.
#[derive(Debug)]
pub struct Counting {
    /// To be waited for before the counter is read.
    pub child: Child,
    /// What counts it.
    pub reader: Reader,
}

/// The counter of a child.
#[derive(Debug)]
pub struct Reader {
    event: Event,
    counter: Counter,
}

impl Reader {
    /// What was counted so far; all of it once the child was waited for. Scaled up where the counter had to be shared.
    ///
    /// # Errors
    ///
    /// [`CountError::Unavailable`].
    pub fn read(mut self) -> Result<f64, CountError> {
        let event = self.event;
        let read = self.counter.read_count_and_time();
        let read = read.map_err(|error| CountError::Unavailable(sentence(event, &error)))?;
        scaled(read.count, read.time_enabled, read.time_running).ok_or_else(|| {
            CountError::Unavailable(format!(
                "{event} were not counted by perf: the counter was never free"
            ))
        })
    }
}

/// Starts `command` and counts `event` from the program's start on.
///
/// # Errors
///
/// See [`CountError`].
pub fn start(command: &Command, event: Event, capture: &Capture) -> Result<Counting, CountError> {
    let mut shell = Command::new("sh");
    // `exec` gives the program nothing to read, as every other child has it.
    shell.args(["-c", r#"read -r _ && exec "$@" </dev/null"#, "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(key, value),
            None => shell.env_remove(key),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        shell.current_dir(dir);
    }
    let (child, stdin) = Child::start_piped(&mut shell, capture)?;
    let child = child.named(command.get_program().to_string_lossy().into_owned());
    let counter =
        open(event, &child).map_err(|error| CountError::Unavailable(sentence(event, &error)))?;
    let go = stdin.map_or(Ok(()), |mut stdin| stdin.write_all(b"\n"));
    go.map_err(|error| CountError::Child(ChildError::Lost(error)))?;
    Ok(Counting {
        child,
        reader: Reader { event, counter },
    })
}

/// Runs `command` to its end and counts `event`.
///
/// # Errors
///
/// See [`CountError`]. Any exit status is fine: see [`Ended::success`].
pub fn count(
    command: &Command,
    event: Event,
    capture: &Capture,
    limit: Duration,
) -> Result<(f64, Ended), CountError> {
    let Counting { child, reader } = start(command, event, capture)?;
    let ended = child.wait(limit)?;
    Ok((reader.read()?, ended))
}

fn open(event: Event, child: &Child) -> io::Result<Counter> {
    let mut builder = Builder::new()
        .kind(event.kind())
        .observe_pid(child.pid().as_raw_nonzero().get())
        .any_cpu();
    builder.inherit(true).enabled(false).enable_on_exec(true);
    builder.build()
}

/// What would have been counted all the time; `None` if it was not counted at any.
fn scaled(count: u64, enabled_ns: u64, running_ns: u64) -> Option<f64> {
    match (enabled_ns, running_ns) {
        (_, 0) => None,
        (enabled, running) if enabled == running => Some(count as f64),
        (enabled, running) => Some(count as f64 * (enabled as f64 / running as f64)),
    }
}

/// What the kernel's answer means.
fn sentence(event: Event, error: &io::Error) -> String {
    let because = match Errno::from_io_error(error) {
        Some(Errno::NOENT) => {
            "this machine has no such counter (a virtual one often has none)".to_owned()
        }
        Some(Errno::NODEV | Errno::OPNOTSUPP) => {
            "the processor, or the kernel for it, has no such counter".to_owned()
        }
        Some(Errno::ACCESS) => format!(
            "the kernel lets this user count nothing{}",
            fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").map_or(
                String::new(),
                |level| format!(": /proc/sys/kernel/perf_event_paranoid is {}", level.trim())
            )
        ),
        Some(Errno::PERM) => {
            "perf_event_open is forbidden here, by a container or for want of CAP_PERFMON"
                .to_owned()
        }
        Some(Errno::NOSYS) => "the kernel has no perf_event_open".to_owned(),
        _ => error.to_string(),
    };
    format!("{event} were not counted by perf: {because}")
}

#[cfg(test)]
mod tests {
    use super::{Event, scaled, sentence};
    use rustix::io::Errno;

    #[test]
    fn a_shared_counter_is_scaled() {
        assert_eq!(scaled(100, 50, 50), Some(100.0));
        assert_eq!(scaled(100, 50, 25), Some(200.0));
        assert_eq!(scaled(0, 50, 0), None);
    }

    #[test]
    fn each_refusal_has_its_sentence() {
        let refusals = [
            Errno::NOENT,
            Errno::OPNOTSUPP,
            Errno::ACCESS,
            Errno::PERM,
            Errno::NOSYS,
        ];
        let mut sentences: Vec<String> = refusals
            .map(|errno| sentence(Event::Instructions, &errno.into()))
            .into();
        assert!(sentences.iter().all(|text| {
            text.starts_with("instructions were not counted by perf: ")
                && !text.contains("os error")
                && !text.contains('\n')
        }));
        sentences.sort();
        sentences.dedup();
        assert_eq!(sentences.len(), refusals.len());
    }
}
