//! Instructions and cache misses, counted by Callgrind.
//!
//! Its cache simulator is Cachegrind's, and it can be kept to the calls of one function, which Cachegrind cannot.

use crate::cache::Geometry;
use crate::child::{self, ChildError};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What is counted of a child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Events {
    /// All threads of the process itself, not its children.
    pub instructions: f64,
    /// First-level instruction cache misses, if caches were simulated.
    pub i1_misses: Option<f64>,
}

impl Events {
    /// Misses per 1,000 instructions.
    pub fn i1_misses_per_1000(self) -> Option<f64> {
        Some(1_000.0 * self.i1_misses? / self.instructions)
    }
}

/// Whether caches are simulated, which takes twice as long, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// Instructions only.
    None,
    /// Those of this machine as Valgrind itself finds them.
    Found,
    /// These.
    Of(Geometry),
}

impl Caches {
    /// Those of this machine.
    pub fn of_this_machine() -> Self {
        Geometry::read(Path::new(crate::cache::SYSFS)).map_or(Self::Found, Self::Of)
    }
}

/// Whether there is a valgrind to be run.
///
/// # Errors
///
/// A sentence for the report.
pub fn available() -> Result<(), String> {
    let mut version = Command::new("valgrind");
    match child::run(version.arg("--version"), Duration::from_secs(60)) {
        Ok(_) => Ok(()),
        Err(ChildError::NotStarted { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Err("valgrind is not installed, so nothing was counted by Callgrind".to_owned())
        }
        Err(error) => Err(format!("nothing was counted by Callgrind: {error}")),
    }
}

/// `command` under Callgrind, which will write to `out`. With `measured` each call of the function of that name is
/// counted by itself and written to `out` with the call's number, from 1, behind a dot.
pub fn wrap(command: &Command, out: &Path, measured: Option<&str>, caches: Caches) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--tool=callgrind",
        "--quiet",
        // Nobody asks it for anything, and killed it would leave its pipes in /tmp.
        "--vgdb=no",
        // Without it valgrind runs text as it was before it was patched, and says nothing.
        "--smc-check=all",
    ]);
    let mut option = std::ffi::OsString::from("--callgrind-out-file=");
    option.push(out);
    valgrind.arg(option);
    if let Some(function) = measured {
        valgrind.args([
            format!("--zero-before={function}"),
            format!("--dump-after={function}"),
        ]);
    }
    if caches != Caches::None {
        valgrind.arg("--cache-sim=yes");
    }
    if let Caches::Of(geometry) = caches {
        valgrind.args(geometry.options());
    }
    valgrind.arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => valgrind.env(key, value),
            None => valgrind.env_remove(key),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        valgrind.current_dir(dir);
    }
    valgrind
}

/// Reads one file of Callgrind's.
///
/// # Errors
///
/// A sentence: it cannot be read, or has no totals.
pub fn read(path: &Path) -> Result<Events, String> {
    let dump = fs::read_to_string(path).map_err(|error| {
        format!(
            "Callgrind's output {} cannot be read: {error}",
            path.display()
        )
    })?;
    totals(&dump).ok_or_else(|| format!("Callgrind's output {} has no totals", path.display()))
}

fn totals(dump: &str) -> Option<Events> {
    let line = |name| dump.lines().find_map(|line| line.strip_prefix(name));
    let values: Vec<&str> = line("totals:")?.split_whitespace().collect();
    let names = line("events:")?;
    let of = |event| {
        let at = names.split_whitespace().position(|name| name == event)?;
        // Counts at the end of the line that are 0 are left out.
        values.get(at).map_or(Some(0.0), |value| value.parse().ok())
    };
    Some(Events {
        instructions: of("Ir")?,
        i1_misses: of("I1mr"),
    })
}

#[cfg(test)]
mod tests {
    use super::{Events, totals};

    #[test]
    fn the_totals_of_a_dump_are_read() {
        assert_eq!(
            totals("events: Ir\nfn=(1) x\n3 4\ntotals: 1234\n"),
            Some(Events {
                instructions: 1234.0,
                i1_misses: None
            })
        );
        let with_caches = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\ntotals: 2000 5 6 3\n";
        let events = totals(with_caches).expect("totals");
        assert_eq!(events.i1_misses_per_1000(), Some(1.5));
        let none_missed = totals("events: Ir Dr Dw I1mr\ntotals: 7 1\n").expect("totals");
        assert_eq!(none_missed.i1_misses, Some(0.0));
        assert_eq!(totals("events: Ir\n"), None);
        assert_eq!(totals("totals: 3\n"), None);
    }
}
