//! What was asked, what was measured, and whether that is met.

use crate::config::{BASE, DEFAULT_OFF, ENABLED, MIMALLOC, family};
use crate::results::Results;
use crate::stats::Interval;
use std::fmt;

/// What became of a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The upper end of the 95 % interval is within the budget, or the exact figure is.
    Met,
    /// The lower end is over it, or the exact figure is.
    Missed,
    /// The budget is within the interval, the times differ by less than 2 %, and the ratio of instructions
    /// is within the budget.
    MetByInstructions,
    /// As before, and the ratio of instructions is over it.
    MissedByInstructions,
    /// The budget is within the interval, which has this half width in per cent of the median.
    NotResolved(f64),
    /// There are no figures: not asked for, no peers, no valgrind, or an error above.
    NotMeasured,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Met => f.write_str("met"),
            Self::Missed => f.write_str("missed"),
            Self::MetByInstructions => f.write_str("met by instructions"),
            Self::MissedByInstructions => f.write_str("missed by instructions"),
            Self::NotResolved(percent) => write!(f, "not resolved at ±{percent:.1} %"),
            Self::NotMeasured => f.write_str("not measured"),
        }
    }
}

/// A measured figure.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// A ratio of times, and that of the instructions where it is known.
    Time(Interval, Option<f64>),
    /// Counted, hence exact.
    Exact(f64),
}

/// One line of the list.
#[derive(Debug)]
pub struct Budget {
    /// What is measured, with its unit.
    pub what: String,
    figure: Option<Figure>,
    /// What the first release must be within.
    pub gate: Option<f64>,
    /// What is to be reached in the end.
    pub goal: Option<f64>,
}

impl Budget {
    /// The figure in words.
    pub fn measured(&self) -> String {
        match self.figure {
            None => "–".to_owned(),
            Some(Figure::Time(interval, _)) => interval.to_string(),
            Some(Figure::Exact(figure)) => format!("{figure:.2}"),
        }
    }

    /// Against [`Budget::gate`] or [`Budget::goal`].
    pub fn verdict(&self, limit: f64) -> Verdict {
        match self.figure {
            None => Verdict::NotMeasured,
            Some(Figure::Exact(figure)) if figure <= limit => Verdict::Met,
            Some(Figure::Exact(_)) => Verdict::Missed,
            Some(Figure::Time(interval, instructions)) => judge(interval, instructions, limit),
        }
    }
}

fn judge(time: Interval, instructions: Option<f64>, limit: f64) -> Verdict {
    // Closer than this, times of different binaries say more about where their code came to lie.
    const TIMES_DECIDE_FROM: f64 = 0.02;
    if time.high <= limit {
        return Verdict::Met;
    }
    if time.low > limit {
        return Verdict::Missed;
    }
    match instructions {
        Some(ratio) if (time.p50 - 1.0).abs() < TIMES_DECIDE_FROM => {
            if ratio <= limit {
                Verdict::MetByInstructions
            } else {
                Verdict::MissedByInstructions
            }
        }
        _ => Verdict::NotResolved(time.plus_minus_percent()),
    }
}

/// The whole list.
pub fn budgets(results: &Results, peers: bool) -> Vec<Budget> {
    let mut list = Vec::new();
    let mut add = |what: &str, figure, gate, goal| {
        list.push(Budget {
            what: what.to_owned(),
            figure,
            gate,
            goal,
        });
    };
    let time = |of, to, name: &'static str| {
        let interval =
            results.ratio(of, to, |pattern, _| pattern.split('.').next() == Some(name))?;
        Some(Figure::Time(
            interval,
            results.instruction_ratio(of, to, family(name)),
        ))
    };
    add(
        "enabled / tags off, small objects, time",
        time(ENABLED, BASE, "small"),
        Some(1.25),
        Some(1.06),
    );
    add(
        "enabled / tags off, 4 KiB pages, time",
        time(ENABLED, BASE, "pages"),
        Some(1.25),
        Some(1.06),
    );
    add(
        "enabled / tags off, large objects, time",
        time(ENABLED, BASE, "large"),
        Some(1.25),
        None,
    );
    if peers {
        for (mimalloc, version) in MIMALLOC.into_iter().zip(["v3", "v2"]) {
            add(
                &format!("tags off / mimalloc {version}, small objects, geometric mean"),
                // The instruction counts of different allocators say little about their times.
                results
                    .ratio(BASE, mimalloc, is_small)
                    .map(|interval| Figure::Time(interval, None)),
                Some(1.25),
                Some(1.0),
            );
            let worst = worst_size(results, mimalloc);
            let size = worst.map_or(String::new(), |(size, _)| format!(" ({size} B)"));
            add(
                &format!("tags off / mimalloc {version}, small objects, worst size{size}"),
                worst.map(|(_, interval)| Figure::Time(interval, None)),
                None,
                Some(1.15),
            );
        }
    }
    let more_instructions = |of| {
        let more = family("small").map(|pattern| {
            Some(results.instructions(of, pattern)? - results.instructions(BASE, pattern)?)
        });
        more.collect::<Option<Vec<f64>>>()
            .and_then(|all| all.into_iter().reduce(f64::max))
            .map(Figure::Exact)
    };
    add(
        "default-off − tags off, small objects, instructions per pair",
        more_instructions(DEFAULT_OFF),
        None,
        Some(2.0),
    );
    add(
        "enabled − tags off, small objects, instructions per pair",
        more_instructions(ENABLED),
        None,
        Some(16.0),
    );
    let enabled = results.row(ENABLED);
    let vectors: Vec<f64> =
        enabled.map_or(Vec::new(), |row| row.obj_exts.values().copied().collect());
    let mean = (!vectors.is_empty()).then(|| vectors.iter().sum::<f64>() / vectors.len() as f64);
    add(
        "obj_exts, mean of 8…240 B, bytes per slot",
        mean.map(Figure::Exact),
        None,
        Some(6.0),
    );
    let class = enabled.and_then(|row| row.obj_exts_max_slot);
    let class = class.map_or(String::new(), |slot| format!(" (slots of {slot} B)"));
    add(
        &format!("obj_exts, any class, bytes per slot{class}"),
        enabled.and_then(|row| row.obj_exts_max).map(Figure::Exact),
        None,
        Some(8.0),
    );
    add(
        "page_ext, bytes per large object",
        enabled.and_then(|row| row.page_ext).map(Figure::Exact),
        None,
        Some(64.0),
    );
    list
}

fn is_small(pattern: &str, _: u64) -> bool {
    pattern.starts_with("small.")
}

/// The size whose ratio of tags off to the row `mimalloc` is highest, over the patterns of small objects.
pub fn worst_size(results: &Results, mimalloc: usize) -> Option<(u64, Interval)> {
    let of_size = |size| {
        results.ratio(BASE, mimalloc, |pattern, one| {
            is_small(pattern, one) && one == size
        })
    };
    let sizes = results.sizes("small.").into_iter();
    sizes
        .filter_map(|size| Some((size, of_size(size)?)))
        .max_by(|(_, a), (_, b)| a.p50.total_cmp(&b.p50))
}

#[cfg(test)]
mod tests {
    use super::{Verdict, judge};
    use crate::stats::Interval;

    #[test]
    fn the_interval_decides_and_close_by_the_instructions() {
        let time = |low, p50, high| Interval { p50, low, high };
        assert_eq!(judge(time(1.0, 1.02, 1.06), None, 1.06), Verdict::Met);
        assert_eq!(
            judge(time(1.07, 1.08, 1.09), Some(1.0), 1.06),
            Verdict::Missed
        );
        assert_eq!(
            judge(time(0.97, 1.01, 1.07), Some(1.04), 1.06),
            Verdict::MetByInstructions
        );
        assert_eq!(
            judge(time(0.97, 1.01, 1.07), Some(1.08), 1.06),
            Verdict::MissedByInstructions
        );
        assert_eq!(
            judge(time(0.75, 1.0, 1.25), None, 1.06),
            Verdict::NotResolved(25.0)
        );
        assert_eq!(
            judge(time(0.75, 1.25, 1.375), Some(1.0), 1.3),
            Verdict::NotResolved(25.0)
        );
    }
}
