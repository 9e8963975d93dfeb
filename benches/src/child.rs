//! Child processes: started in a group of their own, killed with it when this process is told to end.

use std::io;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;

/// So much of a failed child's stderr goes into its error.
const LINES_MAX: usize = 12;

/// The group that is running now; one at a time.
static RUNNING: Mutex<Option<Pid>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on Ctrl-C, SIGTERM and SIGHUP kill the running group, its grandchildren included, and end
/// this process with status 130.
pub fn kill_on_interrupt() {
    // Fails where a handler is set already, which nobody else does.
    let _ = ctrlc::set_handler(|| {
        // Held to the end, so that no further child starts.
        let running = running();
        if let Some(group) = *running {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
        std::process::exit(130);
    });
}

/// Runs `command` to its end without input and returns all that it wrote.
///
/// # Errors
///
/// If it cannot be started, or ends with another status than 0: what matters of its stderr is in the
/// error.
pub fn run(command: &mut Command) -> io::Result<String> {
    let output = collect(command)?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(io::Error::other);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    // Compilers say what is wrong before all that follows from it; others say it last.
    let error = lines.iter().position(|line| line.starts_with("error"));
    let start = error.unwrap_or(lines.len().saturating_sub(LINES_MAX));
    let said = lines[start..]
        .iter()
        .take(LINES_MAX)
        .copied()
        .collect::<Vec<_>>()
        .join("\n");
    Err(io::Error::other(format!(
        "{} ended with {}: {said}",
        command.get_program().display(),
        output.status
    )))
}

fn collect(command: &mut Command) -> io::Result<Output> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let child = {
        let mut running = running();
        let child = command.spawn()?;
        *running = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        child
    };
    let output = child.wait_with_output();
    *running() = None;
    output
}

/// The `key value` lines of a child's output, in their order.
pub fn lines(output: &str) -> impl Iterator<Item = (&str, &str)> {
    output.lines().filter_map(|line| line.split_once(' '))
}

/// The value of one key.
pub fn value<'o>(output: &'o str, key: &str) -> Option<&'o str> {
    lines(output)
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::{run, value};
    use std::process::Command;

    #[test]
    fn a_failing_child_is_an_error_with_what_it_said() {
        let error =
            run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).expect_err("status 3");
        assert!(
            error.to_string().contains("exit status: 3") && error.to_string().ends_with("why"),
            "{error}"
        );
    }

    #[test]
    fn values_are_found_by_key() {
        let output =
            run(Command::new("sh").args(["-c", "echo a 1; echo b 2 3"])).expect("status 0");
        assert_eq!(
            (value(&output, "b"), value(&output, "c")),
            (Some("2 3"), None)
        );
    }
}
