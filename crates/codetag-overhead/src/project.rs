//! The whole table for the project's own workloads.

use crate::budget;
use crate::cargo;
use crate::child;
use crate::config::{BASE, COUNTERS_KEY, Kind, Row, builds, rows};
use crate::counting::{self, Means};
use crate::figures::Report;
use crate::machine::Machine;
use crate::progress::Progress;
use crate::report;
use crate::results::{Measured, Results};
use crate::rounds::{self, Scale};
use crate::text::{self, Pair};
use crate::tree::Tree;
use crate::turn::{Scratch, Turn};
use crate::workloads::Plan;
use std::path::PathBuf;

/// What errors of linking are of: no children are.
const LINK_ORDERS: &str = "link orders, which take the linker lld";

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub tree: Tree,
    /// Only workloads whose names start so.
    pub only: String,
    /// The keys of rows; all for none.
    pub rows: Vec<String>,
    /// How much.
    pub scale: Scale,
    /// Whether [`text`] is measured too.
    pub with_text: bool,
    /// As somebody would type it.
    pub command: String,
}

/// All that is needed to measure.
#[derive(Debug)]
pub struct Prepared {
    rows: Vec<Row>,
    results: Results,
    plan: Plan,
    pairs: Vec<Pair>,
    errors: Vec<String>,
    notes: Vec<String>,
    machine: Machine,
    /// Nobody else builds or measures here.
    turn: Turn,
}

impl Prepared {
    /// Each build with its binary.
    pub fn binaries(&self) -> Vec<(&'static str, PathBuf)> {
        let binary = |build: &crate::config::Build| {
            let at = self.rows.iter().position(|row| row.build == *build)?;
            let path = self.results.0[at].path.clone();
            (path != PathBuf::new()).then_some((build.name, path))
        };
        builds(&self.rows).iter().filter_map(binary).collect()
    }

    /// What could not be built.
    pub fn errors(&self) -> Vec<String> {
        let mut errors = report::errors(&self.rows, &self.results);
        errors.extend(self.errors.iter().cloned());
        errors
    }
}

/// Builds everything. What cannot be built is an error of its rows.
///
/// # Errors
///
/// A sentence, if nothing can be measured at all: no such row or workload, or not even the base can be built.
pub fn prepare(options: &Options) -> Result<Prepared, String> {
    let rows = rows(&options.rows)?;
    let turn = Turn::wait(&options.tree.target)?;
    let machine = Machine::here(&options.command);
    let mut results = Results(
        rows.iter()
            .map(|row| Measured {
                key: row.key,
                ..Measured::default()
            })
            .collect(),
    );
    let plan = build_all(options, &rows, &mut results)?;
    let (mut pairs, mut errors) = (Vec::new(), Vec::new());
    if options.with_text && !child::is_interrupted() {
        let profiles: Vec<_> = text::profiles().collect();
        let progress = Progress::new("building", text::steps(&profiles));
        (pairs, errors) = text::measure(&options.tree, &profiles, &progress);
    }
    let notes = notes(options, &rows);
    Ok(Prepared {
        rows,
        results,
        plan,
        pairs,
        errors,
        notes,
        machine,
        turn,
    })
}

/// One build per binary, and one more link per order; rows share the path or the error.
fn build_all(options: &Options, rows: &[Row], results: &mut Results) -> Result<Plan, String> {
    let (tree, scale) = (&options.tree, &options.scale);
    let orders = |build| {
        let of = rows.iter().filter(|row| row.build == build);
        of.map(|row| scale.orders_of(row)).max().unwrap_or(0)
    };
    let builds = builds(rows);
    let steps: u32 = builds.iter().map(|build| 1 + orders(*build)).sum();
    let progress = Progress::new("building", steps as usize);
    let mut plan = None;
    for build in builds {
        progress.say(&format!("building {}", build.name));
        let built = cargo::build(tree, &build);
        progress.step();
        let mut linked = Vec::new();
        if built.is_ok() {
            for seed in 1..=orders(build) {
                progress.say(&format!("linking {} in order {seed}", build.name));
                let path = cargo::relink(tree, &build, seed);
                let has_failed = path.is_err();
                linked.push((seed, path));
                progress.step();
                if has_failed {
                    break;
                }
            }
        }
        for (row, measured) in rows
            .iter()
            .zip(&mut results.0)
            .filter(|(row, _)| row.build == build)
        {
            match &built {
                Ok(path) => measured.path.clone_from(path),
                Err(error) => measured.fail(None, format!("cannot be built: {error}")),
            }
            for (seed, linked) in linked.iter().take(scale.orders_of(row) as usize) {
                match linked {
                    Ok(path) => measured.orders.push((*seed, path.clone())),
                    // It is measured in the linker's own order all the same.
                    Err(error) => measured.fail(Some(LINK_ORDERS), error.clone()),
                }
            }
        }
        // Before the rest is built, so that a wrong name is told at once.
        if let (None, Ok(path)) = (&plan, &built) {
            plan = Some(Plan::ask(path, &options.only)?);
        }
        if child::is_interrupted() {
            break;
        }
    }
    plan.ok_or_else(
        || match results.row(BASE).and_then(|row| row.errors.first()) {
            Some(fault) => format!("the workloads {}", fault.what),
            None => "no workload was built".to_owned(),
        },
    )
}

/// Measures what was prepared.
pub fn measure(mut prepared: Prepared, options: &Options) -> Report {
    let scale = &options.scale;
    let Prepared {
        rows,
        results,
        plan,
        notes,
        turn,
        ..
    } = &mut prepared;
    for (row, measured) in rows.iter().zip(&mut results.0) {
        // Others have no tables.
        if row.kind == Kind::Own
            && !measured.has_failed("memory")
            && let Err(error) = rounds::memory(row, measured, scale)
        {
            let is_row = row.key == COUNTERS_KEY;
            measured.fail((!is_row).then_some("memory"), error);
        }
    }
    let steps = (scale.rounds + 1) * rows.len() * plan.units.len();
    let progress = Progress::new("timing", steps);
    let done = rounds::time(rows, plan, results, scale, &progress);
    drop(progress);

    let means = Means::find();
    notes.extend(means.missing.iter().cloned());
    match Scratch::new(turn, &options.tree.target) {
        Ok(scratch) => counting::count(rows, plan, results, scale, &means, scratch.path()),
        Err(error) => prepared.errors.push(format!(
            "nothing was counted: no place for files in {}: {error}",
            options.tree.target.display()
        )),
    }
    finish(prepared, done, scale)
}

fn finish(prepared: Prepared, done: usize, scale: &Scale) -> Report {
    let errors = prepared.errors();
    let Prepared {
        rows,
        results,
        plan,
        pairs,
        notes,
        machine,
        ..
    } = prepared;
    let output = report::output(&report::Input {
        rows: &rows,
        results: &results,
        plan: &plan,
        pairs: &pairs,
    });
    Report {
        machine,
        notes,
        figures: output.figures,
        budgets: budget::budgets(&budget::Input {
            results: &results,
            plan: &plan,
            pairs: &pairs,
        }),
        errors,
        interrupted: child::is_interrupted()
            .then(|| format!("{done} of {} rounds done", scale.rounds)),
        sections: output.sections,
    }
}

/// How it was measured.
fn notes(options: &Options, rows: &[Row]) -> Vec<String> {
    let scale = &options.scale;
    let [own, plain, profiler] = scale.orders;
    let orders = |orders| match orders {
        0 => "the linker's own order".to_owned(),
        orders => format!("{orders} orders"),
    };
    let mut notes = vec![
        format!(
            "{} rounds of all rows in turn{}, in each the fastest of {} repeats per workload and size, and another link \
             order. Ratios are taken within a round (over sizes their geometric mean); p50 and interval are over the \
             rounds.",
            scale.rounds,
            if rows.iter().any(|row| row.kind == Kind::Profiler) {
                format!(
                    ", profilers in one of {} with {} repeats",
                    scale.profilers_every, scale.profiler_repeats
                )
            } else {
                String::new()
            },
            scale.repeats
        ),
        "Instructions include those of the loop around the calls, about 25 per pair of small objects. For large \
         objects a pair is the life of one object; for those grown it includes six reallocations."
            .to_owned(),
        format!(
            "Counts are of the smaller inputs. L1 I-cache misses by Valgrind's simulator, with this machine's caches, \
             are medians and ranges over link orders by seeds 1, 2, …: codetag's rows in {}, other allocators in {}, \
             profilers in {}. Times are of these and the linker's own.",
            orders(own),
            orders(plain),
            orders(profiler)
        ),
        "Each child said, before and after its measurement, that it is in the state of its row and tracks exactly \
         the objects that this state asks for."
            .to_owned(),
    ];
    let uncounted = rows
        .iter()
        .filter(|row| !row.is_counted)
        .map(|row| row.name);
    notes.extend(
        uncounted.map(|name| format!("{name} is not counted: under Valgrind it would take hours.")),
    );
    if scale.quick {
        notes.push(
            "Quick: smaller inputs, fewer rounds and fewer link orders than without --quick."
                .to_owned(),
        );
    }
    notes
}
