//! The same for somebody's own program: built with tags compiled out and in, run in each state.
//!
//! `builds` builds it, `page` reads what codetag prints when it exits, `runs` runs it, alone or under a load, and
//! `report` has the figures.

mod builds;
mod page;
mod report;
mod runs;

pub use builds::{Package, Target};
pub use runs::Load;

use crate::child::{self, ChildError};
use crate::counting::Means;
use crate::figures::Report;
use crate::machine::Machine;
use crate::objsize::Measured as Object;
use crate::progress::Progress;
use crate::results::Source;
use builds::Built;
use runs::Runner;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is built.
    pub package: Package,
    /// What the program is run with.
    pub args: Vec<OsString>,
    /// Rounds of all rows.
    pub rounds: usize,
    /// Link orders for instruction cache misses; 0 is the one that the linker chooses.
    pub orders: u32,
    /// What runs while the program does, if it does not end by itself.
    pub load: Option<Load>,
    /// One run is killed after so long; twenty times that under Callgrind.
    pub limit: Duration,
    /// As somebody would type it.
    pub command: String,
}

/// Why there is no table at all. One line each.
#[derive(Debug)]
#[non_exhaustive]
pub enum UserError {
    /// It cannot be built: what cargo says.
    Build(String),
    /// It has no tags and no allocator of codetag's.
    NoCodetag {
        /// The program.
        path: PathBuf,
    },
    /// Files cannot be kept.
    Files(String),
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => write!(f, "cannot be built: {error}"),
            Self::NoCodetag { path } => write!(
                f,
                "{} does not use codetag: add `#[global_allocator] static ALLOC: codetag::TagAlloc = \
                 codetag::TagAlloc::system();` and `#[codetag::alloc_tag]` on the functions that you want to see, and \
                 the dependency codetag to its Cargo.toml",
                path.display()
            ),
            Self::Files(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for UserError {}

/// One way to run the program.
#[derive(Clone, Copy, Debug)]
struct State {
    name: &'static str,
    is_tags_off: bool,
    /// The value of `CODETAG`.
    codetag: &'static str,
    /// What the page must say.
    state: &'static str,
}

const STATES: [State; 4] = [
    State {
        name: "tags off",
        is_tags_off: true,
        codetag: "0",
        state: "tags off",
    },
    State {
        name: "tags off again (A/A)",
        is_tags_off: true,
        codetag: "0",
        state: "tags off",
    },
    State {
        name: "default-off",
        is_tags_off: false,
        codetag: "0",
        state: "off",
    },
    State {
        name: "enabled",
        is_tags_off: false,
        codetag: "1",
        state: "on",
    },
];

/// What was measured of one state.
#[derive(Debug, Default)]
struct Measured {
    /// Seconds, by round.
    wall: BTreeMap<usize, f64>,
    /// Seconds of user and system time, by round.
    cpu: BTreeMap<usize, f64>,
    /// Bytes, by round.
    peak_rss: Vec<f64>,
    instructions: Option<(f64, Source)>,
    i1_misses: Vec<(f64, Source)>,
    /// At the end of the first run, tagged or not.
    tracked_objs: Option<u64>,
    /// Where the first run's output is.
    output: Option<PathBuf>,
    error: Option<String>,
}

/// Everything.
#[derive(Debug)]
struct Results {
    rows: [Measured; STATES.len()],
    /// Tags off, tags.
    objects: [Object; 2],
    /// What this process had at its peak, once all had run: children that had no more cannot be told from it.
    own_peak_rss_bytes: f64,
    rounds_done: usize,
    notes: Vec<String>,
    /// What is of one figure: a row's own ends all of its.
    errors: Vec<String>,
}

/// Builds, runs and measures.
///
/// # Errors
///
/// See [`UserError`]. A state whose runs fail is an error in the report.
pub fn measure(options: &Options) -> Result<Report, UserError> {
    let machine = Machine::here(&options.command);
    let built = builds::build(options)?;
    let runner = Runner::new(options, &built)?;
    let mut results = Results {
        rows: Default::default(),
        objects: built.objects.clone(),
        own_peak_rss_bytes: 0.0,
        rounds_done: 0,
        notes: built.notes.clone(),
        errors: Vec::new(),
    };
    first_runs(&runner, &built, &mut results)?;
    time(&runner, options, &mut results);
    results.own_peak_rss_bytes = runs::own_peak_rss();
    count(&runner, &built, options, &mut results);
    Ok(report::report(machine, options, results))
}

/// Each state says what it is, and what it prints is kept.
fn first_runs(runner: &Runner<'_>, built: &Built, results: &mut Results) -> Result<(), UserError> {
    let mut pages = [false; STATES.len()];
    for (at, state) in STATES.iter().enumerate() {
        let row = &mut results.rows[at];
        match runner.first(state, at) {
            Err(ChildError::Interrupted) => return Ok(()),
            Err(error) => row.error = Some(error.to_string()),
            Ok(first) => {
                row.output = Some(first.stdout);
                pages[at] = first.page.is_some();
                match first
                    .page
                    .ok_or(first.why_none)
                    .and_then(|page| page.confirm(state.state))
                {
                    Ok(objs) => row.tracked_objs = Some(objs),
                    Err(error) => row.error = Some(format!("not confirmed: {error}")),
                }
            }
        }
    }
    let has_tags = built.objects[1].tags.tags > 0;
    let has_run = results.rows.iter().any(|row| row.output.is_some());
    if !has_tags && has_run && !pages.contains(&true) {
        return Err(UserError::NoCodetag {
            path: built.paths[1].clone(),
        });
    }
    if !has_tags {
        results.notes.push(
            "The program has no tags, so this is what the allocator alone costs: put #[codetag::alloc_tag] on functions."
                .to_owned(),
        );
    }
    results.notes.extend(runner.compare(&results.rows));
    Ok(())
}

/// In turn, with an order that turns by one and runs backwards in every second round; the first runs have warmed up.
fn time(runner: &Runner<'_>, options: &Options, results: &mut Results) {
    let count = STATES.len();
    let progress = Progress::new("timing", options.rounds * count);
    for round in 1..=options.rounds {
        let mut order: Vec<usize> = (0..count).map(|at| (at + round) % count).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let row = &mut results.rows[at];
            if row.error.is_none() {
                match runner.timed(&STATES[at]) {
                    Err(ChildError::Interrupted) => return,
                    Err(error) => row.error = Some(error.to_string()),
                    Ok(sample) => {
                        row.wall.insert(round, sample.wall.as_secs_f64());
                        row.cpu.insert(round, sample.cpu.as_secs_f64());
                        row.peak_rss.push(sample.peak_rss_bytes as f64);
                    }
                }
            }
            progress.step();
        }
        results.rounds_done = round;
    }
}

fn count(runner: &Runner<'_>, built: &Built, options: &Options, results: &mut Results) {
    if child::is_interrupted() {
        return;
    }
    let means = Means::find();
    results.notes.extend(means.missing.iter().cloned());
    if !means.has_pmu && !means.has_valgrind {
        return;
    }
    let orders = built.orders.len();
    let progress = Progress::new("counting instructions", STATES.len() * (1 + orders));
    for (at, state) in STATES.iter().enumerate() {
        // The second one has the same binary.
        let is_again = at == 1;
        if is_again || results.rows[at].error.is_some() {
            continue;
        }
        let own = &built.paths[usize::from(!state.is_tags_off)];
        let relinked = built
            .orders
            .iter()
            .map(|paths| &paths[usize::from(!state.is_tags_off)]);
        for (nth, path) in [own].into_iter().chain(relinked).enumerate() {
            // The linker's own order stands for all only where there are no others.
            let with_caches = nth > 0 || orders == 0;
            match runner.counted(state, path, with_caches, &means) {
                Err(error) if child::is_interrupted() => {
                    drop(error);
                    return;
                }
                Err(error) => {
                    results
                        .errors
                        .push(format!("{}: nothing was counted: {error}", state.name));
                    break;
                }
                Ok(counted) => {
                    let row = &mut results.rows[at];
                    if nth == 0 {
                        row.instructions = counted.instructions;
                    }
                    row.i1_misses.extend(counted.i1_misses);
                }
            }
            progress.step();
        }
    }
    if options.load.is_none() {
        let (instructions, i1_misses) = (
            results.rows[0].instructions,
            results.rows[0].i1_misses.clone(),
        );
        let again = &mut results.rows[1];
        (again.instructions, again.i1_misses) = (instructions, i1_misses);
    }
}
