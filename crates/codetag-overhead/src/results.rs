//! What was measured of each row.

use crate::stats::{Interval, geometric_mean};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A workload and the size of its objects in bytes; 0 for larger workloads.
pub type Cell = (String, u64);

/// How a count was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The processor's counter, of the child from its start to its end.
    Pmu,
    /// Callgrind, or the simulator that it shares with Cachegrind, of the measured calls.
    Valgrind,
}

impl Source {
    /// As tables of instructions name it.
    pub fn counter(self) -> &'static str {
        match self {
            Self::Pmu => "pmu",
            Self::Valgrind => "callgrind",
        }
    }

    /// As tables of cache misses name it.
    pub fn cache(self) -> &'static str {
        match self {
            Self::Pmu => "pmu",
            Self::Valgrind => "cachegrind",
        }
    }
}

/// One row's figures.
#[derive(Debug, Default)]
pub struct Measured {
    /// As the command line names it.
    pub key: &'static str,
    /// The binary, once it is built.
    pub path: PathBuf,
    /// The same, linked in other orders, by the seed of each.
    pub orders: Vec<(u32, PathBuf)>,
    /// Nanoseconds per operation by cell, one map per round that this row took part in.
    pub rounds: BTreeMap<usize, BTreeMap<Cell, f64>>,
    /// Nanoseconds per operation of all operations, by workload.
    pub histograms: BTreeMap<String, Histogram<u64>>,
    /// Instructions per operation, by workload.
    pub instructions: BTreeMap<String, (f64, Source)>,
    /// Instruction cache misses per 1,000 instructions, by workload, one per order.
    pub i1_misses: BTreeMap<String, (Vec<f64>, Source)>,
    /// The most memory of a child, by unit, one per round.
    pub peak_rss: BTreeMap<String, Vec<f64>>,
    /// Bytes of obj_exts that children of a unit touched.
    pub obj_exts_touched: BTreeMap<String, f64>,
    /// What `memory` said.
    pub memory: BTreeMap<String, f64>,
    /// What each workload's result comes to.
    pub checks: BTreeMap<String, String>,
    /// Why this row, or a unit of it, has no figures.
    pub errors: Vec<Fault>,
}

/// Why a row has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of which children; all for `None`.
    pub unit: Option<String>,
    /// One line.
    pub what: String,
}

impl Measured {
    /// Whether the children of `unit` are not to be run (any more).
    pub fn has_failed(&self, unit: &str) -> bool {
        let hit = |fault: &Fault| fault.unit.as_deref().is_none_or(|failed| failed == unit);
        self.errors.iter().any(hit)
    }

    /// Notes an error of `unit`, or of the whole row.
    pub fn fail(&mut self, unit: Option<&str>, what: impl Into<String>) {
        let fault = Fault {
            unit: unit.map(str::to_owned),
            what: what.into(),
        };
        if !self.errors.contains(&fault) {
            self.errors.push(fault);
        }
    }

    /// A mean over the vectors of 8…240 B, in bytes per slot.
    pub fn obj_exts_mean(&self) -> Option<f64> {
        let sizes = self.memory.iter();
        let slots: Vec<f64> = sizes
            .filter(|(key, _)| key.starts_with("obj_exts_bytes_per_slot:"))
            .map(|(_, bytes)| *bytes)
            .collect();
        (!slots.is_empty()).then(|| slots.iter().sum::<f64>() / slots.len() as f64)
    }

    /// The median over rounds of the most memory that the children of `unit` had.
    pub fn peak_rss(&self, unit: &str) -> Option<f64> {
        Some(Interval::of(self.peak_rss.get(unit)?.iter().copied())?.p50)
    }
}

/// All rows.
#[derive(Debug, Default)]
pub struct Results(pub Vec<Measured>);

impl Results {
    /// The figures of the row with this key.
    pub fn row(&self, key: &str) -> Option<&Measured> {
        self.0.iter().find(|row| row.key == key)
    }

    /// The ratio of the times of rows `of` and `to` in each round that both took part in: the geometric mean over
    /// all cells that `chosen` takes. Only rounds count in which both have all these cells.
    pub fn ratio(
        &self,
        of: &str,
        to: &str,
        chosen: impl Fn(&str, u64) -> bool,
    ) -> Option<Interval> {
        let (of, to) = (self.row(of)?, self.row(to)?);
        let cells: Vec<Cell> = self.cells(|name, size| chosen(name, size));
        Interval::of(of.rounds.iter().filter_map(|(round, of)| {
            let to = to.rounds.get(round)?;
            let ratios: Option<Vec<f64>> = cells
                .iter()
                .map(|cell| Some(of.get(cell)? / to.get(cell)?))
                .collect();
            ratios
                .filter(|ratios| !ratios.is_empty())
                .map(geometric_mean)
        }))
    }

    /// Nanoseconds per operation of one workload: the geometric mean over its sizes in each round.
    pub fn ns(&self, of: &str, workload: &str) -> Option<Interval> {
        let rounds = self.row(of)?.rounds.values();
        Interval::of(rounds.filter_map(|sample| {
            let times: Vec<f64> = sample
                .iter()
                .filter(|((name, _), _)| name == workload)
                .map(|(_, ns)| *ns)
                .collect();
            (!times.is_empty()).then(|| geometric_mean(times))
        }))
    }

    /// Instructions per operation of one workload.
    pub fn instructions(&self, of: &str, workload: &str) -> Option<f64> {
        Some(self.row(of)?.instructions.get(workload)?.0)
    }

    /// The ratio of instructions over several workloads: their geometric mean.
    pub fn instruction_ratio<'w>(
        &self,
        of: &str,
        to: &str,
        workloads: impl IntoIterator<Item = &'w str>,
    ) -> Option<f64> {
        let ratios: Option<Vec<f64>> = workloads
            .into_iter()
            .map(|workload| {
                Some(self.instructions(of, workload)? / self.instructions(to, workload)?)
            })
            .collect();
        ratios
            .filter(|ratios| !ratios.is_empty())
            .map(geometric_mean)
    }

    /// Instruction cache misses per 1,000 instructions over the link orders: the median, the least and the most.
    pub fn i1_misses(&self, of: &str, workload: &str) -> Option<(Interval, Source)> {
        let (rates, source) = self.row(of)?.i1_misses.get(workload)?;
        let mut range = Interval::of(rates.iter().copied())?;
        range.low = rates.iter().copied().fold(f64::INFINITY, f64::min);
        range.high = rates.iter().copied().fold(0.0, f64::max);
        Some((range, *source))
    }

    /// The cells that any row has and `chosen` takes.
    pub fn cells(&self, chosen: impl Fn(&str, u64) -> bool) -> Vec<Cell> {
        let samples = self.0.iter().flat_map(|row| row.rounds.values());
        let mut cells: Vec<Cell> = samples
            .flat_map(BTreeMap::keys)
            .filter(|(name, size)| chosen(name, *size))
            .cloned()
            .collect();
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    /// The sizes that were measured of workloads that start with `prefix`.
    pub fn sizes(&self, prefix: &str) -> Vec<u64> {
        let cells = self.cells(|name, _| name.starts_with(prefix));
        let mut sizes: Vec<u64> = cells.into_iter().map(|(_, size)| size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::{Measured, Results, Source};
    use std::collections::BTreeMap;

    fn row(key: &'static str, rounds: &[(usize, [f64; 2])]) -> Measured {
        let sample = |(round, [a, b]): &(usize, [f64; 2])| {
            let cells = [(("small.x".into(), 8), *a), (("small.x".into(), 16), *b)];
            (*round, BTreeMap::from(cells))
        };
        Measured {
            key,
            rounds: rounds.iter().map(sample).collect(),
            ..Measured::default()
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let results = Results(vec![
            row(
                "base",
                &[(1, [1.0, 1.0]), (2, [10.0, 10.0]), (3, [1.0, 1.0])],
            ),
            row("other", &[(1, [2.0, 0.5]), (2, [40.0, 10.0])]),
            row("seldom", &[(3, [2.0, 2.0])]),
        ]);
        let both = results
            .ratio("other", "base", |_, _| true)
            .expect("two rounds");
        assert_eq!((both.low, both.high), (1.0, 2.0));
        let one = results.ratio("other", "base", |_, size| size == 8);
        assert_eq!(one.expect("two rounds").high, 4.0);
        let seldom = results.ratio("seldom", "base", |_, _| true);
        assert_eq!(seldom.expect("one round").p50, 2.0);
        assert_eq!(results.ratio("seldom", "other", |_, _| true), None);
        assert_eq!(results.ratio("none", "base", |_, _| true), None);
    }

    #[test]
    fn the_range_of_link_orders_is_whole() {
        let mut row = row("base", &[]);
        let rates = vec![3.0, 1.0, 2.0, 9.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        row.i1_misses.insert("x".into(), (rates, Source::Valgrind));
        let (range, source) = Results(vec![row]).i1_misses("base", "x").expect("rates");
        assert_eq!((range.low, range.p50, range.high), (1.0, 5.0, 9.0));
        assert_eq!(source.cache(), "cachegrind");
    }

    #[test]
    fn a_failed_unit_does_not_stop_the_others() {
        let mut row = row("base", &[]);
        row.fail(Some("larger.json"), "why");
        assert!(row.has_failed("larger.json") && !row.has_failed("small."));
        row.fail(None, "why");
        assert!(row.has_failed("small."));
    }
}
