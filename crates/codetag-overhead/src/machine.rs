//! What a figure was measured on, when, and by which command.

use serde::Serialize;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// All that is told of a measurement besides its figures.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's own name.
    pub processor: String,
    /// How many of them this process may use.
    pub cpus: usize,
    /// The operating system and its version.
    pub system: String,
    /// The compiler that cargo uses.
    pub rustc: String,
    /// When the measurement began, in UTC.
    pub date: String,
    /// Runnable tasks over the last minute, before the measurement: more than 0 disturbs times.
    pub load: String,
    /// The command line.
    pub command: String,
}

impl Machine {
    /// This one, now.
    pub fn here(command: &str) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let info = read("/proc/cpuinfo");
        let model = info
            .lines()
            .find_map(|line| line.strip_prefix("model name"));
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let version = crate::child::run(
            Command::new(rustc).arg("--version"),
            Duration::from_secs(60),
        );
        let load = read("/proc/loadavg");
        Self {
            processor: model.map_or_else(unknown, |name| {
                name.trim_start_matches([' ', '\t', ':']).to_owned()
            }),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!(
                "{} {}",
                std::env::consts::OS,
                read("/proc/sys/kernel/osrelease").trim()
            ),
            rustc: version.map_or_else(
                |error| error.to_string(),
                |ended| String::from_utf8_lossy(&ended.stdout).trim().to_owned(),
            ),
            date: jiff::Timestamp::now()
                .strftime("%Y-%m-%d %H:%M:%S UTC")
                .to_string(),
            load: load.split(' ').next().map_or_else(unknown, str::to_owned),
            command: command.to_owned(),
        }
    }

    /// In one sentence.
    pub fn sentence(&self) -> String {
        format!(
            "{} × {}, {}, {}, {}, load before {}: `{}`.",
            self.cpus, self.processor, self.system, self.rustc, self.date, self.load, self.command
        )
    }

    /// Names and values, for formats that have no place of their own for them.
    pub fn fields(&self) -> [(&'static str, String); 7] {
        [
            ("processor", self.processor.clone()),
            ("cpus", self.cpus.to_string()),
            ("system", self.system.clone()),
            ("rustc", self.rustc.clone()),
            ("date", self.date.clone()),
            ("load", self.load.clone()),
            ("command", self.command.clone()),
        ]
    }
}
