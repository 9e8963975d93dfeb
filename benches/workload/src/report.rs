//! The lines that a run prints.

use std::fmt::{Display, Write};

/// `key value` lines, written out at the end.
#[derive(Debug, Default)]
pub(crate) struct Report {
    text: String,
}

impl Report {
    pub(crate) fn line(&mut self, key: impl Display, value: impl Display) {
        // Writing to a string cannot fail.
        _ = writeln!(self.text, "{key} {value}");
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Prints the peak of this process's resident memory, where the system tells it.
///
/// # Errors
///
/// If the system has such a file and it does not say so.
pub(crate) fn peak_rss(report: &mut Report) -> Result<(), String> {
    const STATUS: &str = "/proc/self/status";
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let status = std::fs::read_to_string(STATUS).map_err(|error| format!("{STATUS}: {error}"))?;
    let kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse().ok())
        .ok_or_else(|| format!("{STATUS}: no VmHWM in kB"))?;
    report.line("peak_rss_bytes", kib << 10);
    Ok(())
}
