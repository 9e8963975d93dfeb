//! What was measured of each configuration.

use crate::stats::{Interval, geometric_mean};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Nanoseconds per pair of alloc and free, by pattern and size in bytes.
pub type Sample = BTreeMap<(String, u64), f64>;

/// One row's figures.
#[derive(Debug, Default)]
pub struct Measured {
    /// The binary, once it is built.
    pub path: PathBuf,
    /// One per round.
    pub rounds: Vec<Sample>,
    /// Instructions per pair, by pattern.
    pub instructions: BTreeMap<String, f64>,
    /// Bytes of obj_exts per slot, by requested size.
    pub obj_exts: BTreeMap<u64, f64>,
    /// The largest of these over all size classes.
    pub obj_exts_max: Option<f64>,
    /// The slot bytes of that class.
    pub obj_exts_max_slot: Option<f64>,
    /// All of obj_exts in per cent of what was obtained, with as many objects of each of 8…240 B.
    pub obj_exts_percent: Option<f64>,
    /// Bytes of page_ext per entry, with 1,000 large objects.
    pub page_ext: Option<f64>,
    /// Why this row has no figures.
    pub error: Option<String>,
}

/// All rows, in the order of the configurations.
#[derive(Debug, Default)]
pub struct Results(pub Vec<Measured>);

impl Results {
    /// The ratio of the times of rows `of` and `to` in each round: the geometric mean over all cells that
    /// `chosen` takes.
    pub fn ratio(
        &self,
        of: usize,
        to: usize,
        chosen: impl Fn(&str, u64) -> bool,
    ) -> Option<Interval> {
        let (of, to) = (self.row(of)?, self.row(to)?);
        Interval::of(of.rounds.iter().zip(&to.rounds).filter_map(|(of, to)| {
            let ratios: Vec<f64> = of
                .iter()
                .filter(|((pattern, size), _)| chosen(pattern, *size))
                .filter_map(|(cell, ns)| Some(ns / to.get(cell)?))
                .collect();
            (!ratios.is_empty()).then(|| geometric_mean(ratios))
        }))
    }

    /// Nanoseconds per pair of one pattern: the geometric mean over its sizes in each round.
    pub fn ns(&self, of: usize, pattern: &str) -> Option<Interval> {
        let rounds = self.row(of)?.rounds.iter();
        Interval::of(rounds.filter_map(|sample| {
            let times: Vec<f64> = sample
                .iter()
                .filter(|((name, _), _)| name == pattern)
                .map(|(_, ns)| *ns)
                .collect();
            (!times.is_empty()).then(|| geometric_mean(times))
        }))
    }

    /// Instructions per pair of one pattern.
    pub fn instructions(&self, of: usize, pattern: &str) -> Option<f64> {
        self.row(of)?.instructions.get(pattern).copied()
    }

    /// The ratio of instructions over several patterns: their geometric mean.
    pub fn instruction_ratio<'p>(
        &self,
        of: usize,
        to: usize,
        patterns: impl Iterator<Item = &'p str>,
    ) -> Option<f64> {
        let ratios: Option<Vec<f64>> = patterns
            .map(|pattern| Some(self.instructions(of, pattern)? / self.instructions(to, pattern)?))
            .collect();
        ratios
            .filter(|ratios| !ratios.is_empty())
            .map(geometric_mean)
    }

    /// The sizes that were measured of patterns that start with `prefix`.
    pub fn sizes(&self, prefix: &str) -> Vec<u64> {
        let cells = self
            .0
            .iter()
            .flat_map(|row| row.rounds.first())
            .flat_map(BTreeMap::keys);
        let mut sizes: Vec<u64> = cells
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(_, size)| *size)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// A row that has figures.
    pub fn row(&self, at: usize) -> Option<&Measured> {
        self.0.get(at).filter(|row| row.error.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::{Measured, Results, Sample};

    fn row(rounds: &[[f64; 2]]) -> Measured {
        let sample = |[a, b]: &[f64; 2]| {
            Sample::from([(("small.x".into(), 8), *a), (("small.x".into(), 16), *b)])
        };
        Measured {
            rounds: rounds.iter().map(sample).collect(),
            ..Measured::default()
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let results = Results(vec![
            row(&[[1.0, 1.0], [10.0, 10.0]]),
            row(&[[2.0, 0.5], [40.0, 10.0]]),
        ]);
        let both = results.ratio(1, 0, |_, _| true).expect("two rounds");
        assert_eq!((both.low, both.high), (1.0, 2.0));
        assert_eq!(
            results
                .ratio(1, 0, |_, size| size == 8)
                .expect("two rounds")
                .high,
            4.0
        );
        assert_eq!(results.ratio(2, 0, |_, _| true), None);
    }
}
