//! What codetag costs: tags off, default-off, enabled, and with feature `peers` other allocators beside.
//!
//! ```text
//! cargo bench -p codetag-benches --bench modes [--features peers] -- [--quick] [--only small] [--markdown]
//! ```

#![forbid(unsafe_code)]

use clap::Parser;
use codetag_benches::config::{Config, PATTERNS, binaries, configs};
use codetag_benches::report::{self, Options};
use codetag_benches::results::{Measured, Results};
use codetag_benches::rounds::{self, Scale};
use codetag_benches::{binaries as build, callgrind, child};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Measure what codetag costs in each of its configurations.
#[derive(Debug, Parser)]
#[command(
    name = "modes",
    after_help = "Example:\n  cargo bench -p codetag-benches --bench modes -- --quick --only small"
)]
struct Args {
    /// Nine rounds instead of forty-one
    #[arg(long)]
    quick: bool,

    /// So many rounds
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    rounds: Option<usize>,

    /// Only the patterns whose names start so: small, pages, large, small.paired, …
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,

    /// Build all binaries and measure nothing
    #[arg(long)]
    build_only: bool,

    /// Print tables in Markdown
    #[arg(long)]
    markdown: bool,

    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    child::kill_on_interrupt();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever closed the pipe had read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("modes: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every row has figures.
fn run(args: &Args) -> io::Result<bool> {
    if !PATTERNS
        .iter()
        .any(|(name, _)| name.starts_with(&args.only))
    {
        let names: Vec<&str> = PATTERNS.iter().map(|(name, _)| *name).collect();
        let message = format!(
            "no pattern starts with {}: there are {}",
            args.only,
            names.join(", ")
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modes");
    let peers = cfg!(feature = "peers");
    let configs = configs(peers);
    let mut results = Results(configs.iter().map(|_| Measured::default()).collect());
    build_all(&configs, &mut results, &dir);
    if args.build_only {
        let mut out = io::stdout().lock();
        for binary in binaries(&configs) {
            if let Some(row) = (configs.iter().zip(&results.0))
                .find(|(config, row)| config.binary == binary && row.error.is_none())
            {
                writeln!(out, "{}: {}", binary.name, row.1.path.display())?;
            }
        }
        for error in report::errors(&configs, &results) {
            writeln!(out, "error: {error}")?;
        }
        return Ok(results.0.iter().all(|row| row.error.is_none()));
    }
    let scale = Scale {
        rounds: args.rounds.unwrap_or(if args.quick { 9 } else { 41 }),
        repeats: if args.quick { 5 } else { 15 },
        only: &args.only,
    };
    let mut notes = notes(&scale);
    measure(&configs, &mut results, &dir, &scale, &mut notes);
    let options = Options {
        markdown: args.markdown,
        peers,
        notes,
    };
    let mut out = io::stdout().lock();
    report::print(&configs, &results, &options, &mut out)?;
    out.flush()?;
    Ok(results.0.iter().all(|row| row.error.is_none()))
}

/// One build per binary; its rows share the path or the error.
fn build_all(configs: &[Config], results: &mut Results, dir: &Path) {
    let bar = bar(binaries(configs).len());
    for binary in binaries(configs) {
        bar.set_message(format!("building {}", binary.name));
        let built = build::build(&binary, dir).map_err(|error| error.to_string());
        for (row, _) in results
            .0
            .iter_mut()
            .zip(configs)
            .filter(|(_, config)| config.binary == binary)
        {
            match &built {
                Ok(path) => row.path.clone_from(path),
                Err(error) => row.error = Some(format!("cannot be built: {error}")),
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
}

fn measure(
    configs: &[Config],
    results: &mut Results,
    dir: &Path,
    scale: &Scale<'_>,
    notes: &mut Vec<String>,
) {
    let progress = bar((scale.rounds + 1) * configs.len());
    progress.set_message("timing");
    rounds::time(configs, results, scale, &mut || progress.inc(1));
    progress.finish_and_clear();

    let counting = callgrind::available();
    notes.extend(counting.clone().err());
    let progress = bar(configs.len());
    for (at, config) in configs.iter().enumerate() {
        progress.set_message(format!("counting {}", config.name));
        if results.0[at].error.is_some() {
            continue;
        }
        if counting.is_ok() {
            let path: PathBuf = results.0[at].path.clone();
            match callgrind::count(config, &path, &dir.join("callgrind"), scale) {
                Ok(counts) => results.0[at].instructions = counts,
                Err(error) => results.0[at].error = Some(format!("under valgrind: {error}")),
            }
        }
        if let Err(error) = rounds::memory(config, at, results, scale) {
            results.0[at].error = Some(error);
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
}

/// How it was measured, and on what.
fn notes(scale: &Scale<'_>) -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("unknown processor");
    let load = read("/proc/loadavg");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        format!(
            "{} rounds of all rows in turn, in each the fastest of {} repeats per pattern and size. Ratios are taken \
             within a round (over sizes their geometric mean); p50 and interval are over the rounds.",
            scale.rounds, scale.repeats
        ),
        "Instructions include those of the loop around the calls, about 25 per pair. For large objects a pair is the \
         life of one object; for those grown it includes six reallocations."
            .to_owned(),
        format!(
            "{} × {}, Linux {}, load before {}.",
            cpus,
            model.trim_start_matches([' ', '\t', ':']),
            read("/proc/sys/kernel/osrelease").trim(),
            load.split(' ').next().unwrap_or_default()
        ),
        "Each child said, before and after its measurement, that it is in the state of its row and tracks exactly \
         the objects that this state asks for."
            .to_owned(),
    ]
}

/// Drawn on stderr where that is a terminal, else not at all.
fn bar(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
