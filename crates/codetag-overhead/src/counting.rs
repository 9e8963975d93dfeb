//! Instructions and instruction cache misses of the rows. Counts do not mind what else runs, so two children count
//! at a time.

use crate::callgrind::{self, Caches, Events};
use crate::child::{self, Capture};
use crate::config::{AGAIN, Row};
use crate::perf::{self, CountError, Event};
use crate::progress::Progress;
use crate::results::{Results, Source};
use crate::rounds::{self, Failure, Scale};
use crate::said::Said;
use crate::workloads::Plan;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The function of the workload program whose calls are counted: one that warms up, one that counts.
const MEASURED: &str = "codetag_bench_measured";

/// What errors of counting everything are of: times are not concerned.
const COUNTS: &str = "counts";

/// Children at a time.
const AT_A_TIME: usize = 2;

/// What can be counted here, and what stands in the way of the rest.
#[derive(Debug)]
pub struct Means {
    /// Whether there is a valgrind.
    pub has_valgrind: bool,
    /// Whether the processor counts instructions and misses.
    pub has_pmu: bool,
    /// A sentence for each that is missing.
    pub missing: Vec<String>,
}

impl Means {
    /// Tries them.
    pub fn find() -> Self {
        let valgrind = callgrind::available();
        let pmu =
            perf::available(Event::Instructions).and_then(|()| perf::available(Event::L1iMisses));
        Self {
            has_valgrind: valgrind.is_ok(),
            has_pmu: pmu.is_ok(),
            missing: [valgrind.err(), pmu.err().map(|error| error.to_string())]
                .into_iter()
                .flatten()
                .collect(),
        }
    }
}

/// One binary of one row.
#[derive(Clone, Debug)]
struct Job {
    row: usize,
    path: PathBuf,
    /// The seed of its link order; 0 is the linker's own.
    order: u32,
    caches: Caches,
}

/// What came of it.
#[derive(Debug)]
struct Done {
    job: Job,
    counts: BTreeMap<String, Counts>,
    faults: Vec<(Option<String>, String)>,
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    instructions_per_op: f64,
    source: Source,
    /// Misses per 1,000 instructions, and who counted them.
    i1_misses: Option<(f64, Source)>,
}

impl Counts {
    fn new(events: Events, ops: f64, source: Source) -> Self {
        Self {
            instructions_per_op: events.instructions / ops,
            source,
            i1_misses: events.i1_misses_per_1000().map(|rate| (rate, source)),
        }
    }
}

/// Counts all rows that have binaries. `dir` is for files that are gone afterwards.
pub fn count(
    rows: &[Row],
    plan: &Plan,
    results: &mut Results,
    scale: &Scale,
    means: &Means,
    dir: &Path,
) {
    let jobs = jobs(rows, results, means);
    let progress = Progress::new("counting instructions and cache misses", jobs.len());
    let queue = Mutex::new(jobs);
    let (sender, done) = channel();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            let sender = sender.clone();
            scope.spawn(|| work(rows, plan, scale, means, dir, &queue, sender));
        }
        drop(sender);
        for done in done {
            note(done, results);
            progress.step();
        }
    });
    copy_to_again(rows, results);
}

/// With a processor that counts, its own misses are better than simulated ones.
fn jobs(rows: &[Row], results: &Results, means: &Means) -> VecDeque<Job> {
    let mut jobs = VecDeque::new();
    if !means.has_valgrind && !means.has_pmu {
        return jobs;
    }
    let simulated = if means.has_pmu {
        Caches::None
    } else {
        Caches::of_this_machine()
    };
    for (at, (row, measured)) in rows.iter().zip(&results.0).enumerate() {
        // Both have the same binaries.
        if row.key == AGAIN
            || !row.is_counted
            || measured.errors.iter().any(|fault| fault.unit.is_none())
        {
            continue;
        }
        let job = |order, path: &Path, caches| Job {
            row: at,
            path: path.to_owned(),
            order,
            caches,
        };
        let orders = &measured.orders;
        jobs.extend(
            orders
                .iter()
                .map(|(order, path)| job(*order, path, simulated)),
        );
        let caches = if orders.is_empty() {
            simulated
        } else {
            Caches::None
        };
        jobs.push_back(job(0, &measured.path, caches));
    }
    jobs
}

fn work(
    rows: &[Row],
    plan: &Plan,
    scale: &Scale,
    means: &Means,
    dir: &Path,
    queue: &Mutex<VecDeque<Job>>,
    done: Sender<Done>,
) {
    loop {
        let next = queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let Some(job) = next else {
            return;
        };
        if child::is_interrupted() {
            return;
        }
        let result = Counter {
            row: &rows[job.row],
            job: &job,
            plan,
            scale,
            dir,
        }
        .count(means);
        if child::is_interrupted() {
            return;
        }
        let (counts, faults) = result;
        // The other end lives as long as this scope.
        let _ = done.send(Done {
            job,
            counts,
            faults,
        });
    }
}

fn note(done: Done, results: &mut Results) {
    let measured = &mut results.0[done.job.row];
    for (unit, fault) in done.faults {
        measured.fail(unit.as_deref(), fault);
    }
    for (name, counts) in done.counts {
        if let Some((rate, source)) = counts.i1_misses {
            let entry = measured.i1_misses.entry(name.clone());
            entry.or_insert_with(|| (Vec::new(), source)).0.push(rate);
        }
        if done.job.order == 0 {
            let count = (counts.instructions_per_op, counts.source);
            measured.instructions.insert(name, count);
        }
    }
}

/// The A/A row is the same binary: its counts are those of the base.
fn copy_to_again(rows: &[Row], results: &mut Results) {
    let Some(again) = rows.iter().position(|row| row.key == AGAIN) else {
        return;
    };
    let Some(base) = results.row(crate::config::BASE) else {
        return;
    };
    let copies = (base.instructions.clone(), base.i1_misses.clone());
    (results.0[again].instructions, results.0[again].i1_misses) = copies;
}

type Counted = (BTreeMap<String, Counts>, Vec<(Option<String>, String)>);

#[derive(Debug)]
struct Counter<'a> {
    row: &'a Row,
    job: &'a Job,
    plan: &'a Plan,
    scale: &'a Scale,
    dir: &'a Path,
}

impl Counter<'_> {
    /// All workloads in one child; if that fails, each unit in a child of its own, to tell which fails.
    fn count(&self, means: &Means) -> Counted {
        let mut faults = Vec::new();
        let mut counts = BTreeMap::new();
        if means.has_valgrind && (!means.has_pmu || self.job.order == 0) {
            let [first, units @ ..] = self.plan.units.as_slice() else {
                return (counts, faults);
            };
            // Without a prefix a child runs everything, also what was not chosen.
            let (whole, is_whole) = if units.is_empty() {
                (first.as_str(), true)
            } else {
                (self.common(), false)
            };
            match self.under_valgrind(whole) {
                Ok(all) => counts = all,
                Err(failure) if is_whole => faults.push((Some(whole.to_owned()), failure.what)),
                // One by one they would take as long.
                Err(failure) if failure.is_timeout => {
                    faults.push((Some(COUNTS.to_owned()), failure.what));
                }
                Err(_) => {
                    for unit in &self.plan.units {
                        match self.under_valgrind(unit) {
                            Ok(some) => counts.extend(some),
                            Err(failure) => faults.push((Some(unit.clone()), failure.what)),
                        }
                    }
                }
            }
        }
        if means.has_pmu {
            for workload in &self.plan.workloads {
                match self.by_pmu(&workload.name) {
                    Ok(None) => {}
                    Ok(Some(pmu)) => {
                        // Instructions stay those of the measured calls alone, where Callgrind counted them.
                        let counts = counts.entry(workload.name.clone()).or_insert(pmu);
                        counts.i1_misses = pmu.i1_misses;
                    }
                    Err(error) => faults.push((Some(workload.name.clone()), error)),
                }
            }
        }
        (counts, faults)
    }

    /// The longest prefix of all names.
    fn common(&self) -> &str {
        let mut names = self
            .plan
            .workloads
            .iter()
            .map(|workload| workload.name.as_str());
        let first = names.next().unwrap_or_default();
        names.fold(first, |common, name| {
            let same = common.bytes().zip(name.bytes()).take_while(|(a, b)| a == b);
            &common[..same.count()]
        })
    }

    fn under_valgrind(&self, only: &str) -> Result<BTreeMap<String, Counts>, Failure> {
        let dir = tempfile::tempdir_in(self.dir)
            .map_err(|error| format!("no place for Callgrind's output: {error}"))?;
        let out = dir.path().join("out");
        let command = rounds::command(self.row, &self.job.path, "count", only, true);
        let mut valgrind = callgrind::wrap(&command, &out, Some(MEASURED), self.job.caches);
        let limit = self.scale.counting_limit;
        let said =
            rounds::confirmed(self.row, &mut valgrind, limit).map_err(|failure| Failure {
                what: format!("under valgrind: {}", failure.what),
                ..failure
            })?;
        let Some(said) = said else {
            return Ok(BTreeMap::new());
        };
        let mut counts = BTreeMap::new();
        for (at, (name, ops)) in said.numbers("ops:").enumerate() {
            // One dump per call, numbered from 1: that of the warm-up, then that which counts.
            let file = dir.path().join(format!("out.{}", 2 * at + 2));
            let events = callgrind::read(&file)?;
            if ops <= 0.0 {
                return Err(format!("under valgrind: it did {ops} operations of {name}").into());
            }
            if self.plan.has(name) {
                counts.insert(name.to_owned(), Counts::new(events, ops, Source::Valgrind));
            }
        }
        Ok(counts)
    }

    /// The whole child, once per event: `None` where the name is a prefix of another's.
    fn by_pmu(&self, name: &str) -> Result<Option<Counts>, String> {
        let others = &self.plan.workloads;
        if others
            .iter()
            .any(|other| other.name != name && other.name.starts_with(name))
        {
            return Ok(None);
        }
        let count = |event| {
            let command = rounds::command(self.row, &self.job.path, "count", name, true);
            let counted = perf::count(&command, event, &Capture::Memory, self.scale.limit)
                .and_then(|(count, ended)| {
                    Ok((count, ended.success().map_err(CountError::Child)?))
                });
            let (count, ended) = counted.map_err(|error| error.to_string())?;
            let said = Said::parse(&ended.stdout).map_err(|garbage| garbage.to_string())?;
            self.row.confirm(&said)?;
            let ops = said.number(&format!("ops:{name}"));
            Ok::<_, String>((count, ops.ok_or_else(|| format!("it said no ops:{name}"))?))
        };
        let (instructions, ops) = count(Event::Instructions)?;
        let (misses, _) = count(Event::L1iMisses)?;
        let events = Events {
            instructions,
            i1_misses: Some(misses),
        };
        // Both calls are in the count.
        Ok(Some(Counts::new(events, 2.0 * ops, Source::Pmu)))
    }
}
