//! Instructions per pair of alloc and free, counted by Callgrind.

use crate::child;
use crate::config::Config;
use crate::rounds::{Scale, command, confirm};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The function whose calls are counted.
const MEASURED: &str = "codetag_bench_measured";

/// Whether valgrind is there.
///
/// # Errors
///
/// A sentence for the report.
pub fn available() -> Result<(), String> {
    match child::run(Command::new("valgrind").arg("--version")) {
        Ok(_) => Ok(()),
        Err(_) => Err("instructions were not counted: valgrind is not installed".to_owned()),
    }
}

/// Counts all patterns of one configuration in one run. `dir` is emptied.
///
/// # Errors
///
/// A sentence: what valgrind or the child said, or what is not as expected.
pub fn count(
    config: &Config,
    path: &Path,
    dir: &Path,
    scale: &Scale<'_>,
) -> Result<BTreeMap<String, f64>, String> {
    let io = |error: std::io::Error| error.to_string();
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(io)?;
    }
    fs::create_dir_all(dir).map_err(io)?;
    let valgrind = [
        "valgrind".to_owned(),
        "--tool=callgrind".to_owned(),
        // Without it valgrind runs text as it was before it was patched, and says nothing.
        "--smc-check=all".to_owned(),
        format!("--callgrind-out-file={}", dir.join("out").display()),
        format!("--zero-before={MEASURED}"),
        format!("--dump-after={MEASURED}"),
    ];
    let output = child::run(&mut command(config, path, &valgrind, "count", scale)).map_err(io)?;
    confirm(config, &output)?;
    let mut counts = BTreeMap::new();
    for (position, (pattern, pairs)) in child::lines(&output)
        .filter_map(|(key, value)| Some((key.strip_prefix("pairs:")?, value)))
        .enumerate()
    {
        // One dump per call, numbered from 1: that of the warm-up, then that which counts.
        let dump = fs::read_to_string(dir.join(format!("out.{}", 2 * position + 2))).map_err(io)?;
        let instructions = total(&dump).ok_or("a dump of Callgrind has no total")?;
        let pairs: f64 = pairs
            .parse()
            .map_err(|_| format!("{pairs} is no number of pairs"))?;
        counts.insert(pattern.to_owned(), instructions / pairs);
    }
    Ok(counts)
}

/// The instructions of one dump, whose only event is Ir.
fn total(dump: &str) -> Option<f64> {
    dump.lines()
        .find_map(|line| line.strip_prefix("totals: "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_total_of_a_dump_is_read() {
        assert_eq!(
            super::total("events: Ir\nfn=(1) x\n3 4\ntotals: 1234\n"),
            Some(1234.0)
        );
        assert_eq!(super::total("events: Ir\n"), None);
    }
}
