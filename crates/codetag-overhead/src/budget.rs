//! What was asked, what was measured, and whether that is met.

use crate::config::{BASE, DEFAULT_OFF, ENABLED, Kind, MIMALLOC, ROWS};
use crate::results::{Measured, Results};
use crate::stats::Interval;
use crate::text::Pair;
use crate::workloads::{LARGER, Plan};
use serde::Serialize;
use std::fmt;

/// What became of a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
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
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Met => f.write_str("met"),
            Self::Missed => f.write_str("missed"),
            Self::MetByInstructions => f.write_str("met by instructions"),
            Self::MissedByInstructions => f.write_str("missed by instructions"),
            Self::NotResolved(percent) => write!(f, "not resolved at ±{percent:.1} %"),
        }
    }
}

/// A measured figure.
#[derive(Clone, Copy, Debug)]
enum Measure {
    /// A ratio of times, and that of the instructions where it is known.
    Time(Interval, Option<f64>),
    /// Counted, hence exact.
    Exact(f64),
}

impl Measure {
    fn judge(self, limit: f64) -> Verdict {
        match self {
            Self::Exact(figure) if figure <= limit => Verdict::Met,
            Self::Exact(_) => Verdict::Missed,
            Self::Time(interval, instructions) => judge(interval, instructions, limit),
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

/// One line of the list.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// What is measured, with its unit.
    pub what: String,
    /// What the kernel's own feature takes, in words; empty where it has no such figure.
    pub kernel: &'static str,
    /// The figure, if there is one.
    pub value: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// What it must be within.
    pub at_most: f64,
    /// In words, and why where it was not measured.
    pub verdict: String,
}

impl Judged {
    /// Of the table.
    pub fn cells(&self) -> Vec<String> {
        let measured = match (self.value, self.low.zip(self.high)) {
            (None, _) => "–".to_owned(),
            (Some(value), None) => format!("{value:.2}"),
            (Some(value), Some((low, high))) => format!("{value:.3} [{low:.3}, {high:.3}]"),
        };
        vec![
            self.what.clone(),
            self.kernel.to_owned(),
            measured,
            format!("{:.2}", self.at_most),
            self.verdict.clone(),
        ]
    }
}

#[derive(Debug, Default)]
struct List(Vec<Judged>);

impl List {
    /// `measure` is the figure, or why there is none.
    fn add(
        &mut self,
        what: impl Into<String>,
        kernel: &'static str,
        measure: Result<Measure, String>,
        at_most: f64,
    ) {
        let interval = match measure {
            Ok(Measure::Time(interval, _)) => Some(interval),
            _ => None,
        };
        self.0.push(Judged {
            what: what.into(),
            kernel,
            value: match measure {
                Ok(Measure::Exact(value)) => Some(value),
                _ => interval.map(|interval| interval.p50),
            },
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            at_most,
            verdict: match measure {
                Ok(measure) => measure.judge(at_most).to_string(),
                Err(why) => format!("not measured: {why}"),
            },
        });
    }
}

/// The figures that the budgets are about.
#[derive(Debug)]
pub struct Input<'a> {
    /// Of the rows.
    pub results: &'a Results,
    /// Of the workloads.
    pub plan: &'a Plan,
    /// Of the generated functions.
    pub pairs: &'a [Pair],
}

/// The whole list.
pub fn budgets(input: &Input<'_>) -> Vec<Judged> {
    let mut list = List::default();
    input.instructions(&mut list);
    input.times(&mut list);
    input.peers(&mut list);
    input.i1_misses(&mut list);
    input.text(&mut list);
    input.memory(&mut list);
    input.peak_rss(&mut list);
    list.0
}

impl Input<'_> {
    /// Why something of these rows and this family is not there.
    fn why(&self, keys: &[&str], family: &str) -> String {
        if self.plan.family(family).next().is_none() {
            return format!("no workload {family} was run");
        }
        for key in keys {
            match self.results.row(key) {
                None => return format!("row {key} was not run"),
                Some(row) if !row.errors.is_empty() => return format!("row {key} has an error"),
                Some(_) => {}
            }
        }
        "there are no figures".to_owned()
    }

    /// All sizes and patterns of a family.
    fn ratio(
        &self,
        of: &str,
        to: &str,
        family: &str,
        by_instructions: bool,
    ) -> Result<Measure, String> {
        let prefix = format!("{family}.");
        let interval = self
            .results
            .ratio(of, to, |name, _| name.starts_with(&prefix));
        let interval = interval.ok_or_else(|| self.why(&[of, to], family))?;
        let instructions = by_instructions
            .then(|| {
                self.results
                    .instruction_ratio(of, to, self.plan.family(family))
            })
            .flatten();
        Ok(Measure::Time(interval, instructions))
    }

    fn instructions(&self, list: &mut List) {
        // The most of all patterns.
        let more = |of: &str| {
            let more: Option<Vec<f64>> = self
                .plan
                .family("small")
                .map(|name| {
                    Some(
                        self.results.instructions(of, name)?
                            - self.results.instructions(BASE, name)?,
                    )
                })
                .collect();
            let most = more.and_then(|all| all.into_iter().reduce(f64::max));
            most.map(Measure::Exact)
                .ok_or_else(|| self.why(&[of, BASE], "small"))
        };
        list.add(
            "default-off − tags off, small objects, instructions per pair",
            "+0.43 % time",
            more(DEFAULT_OFF),
            2.0,
        );
        let (refs, at_most) = if self.refs_are_exact() {
            ("4 B a ref", 20.0)
        } else {
            ("up to 8 B a ref", 16.0)
        };
        list.add(
            format!("enabled − tags off, small objects, {refs}, instructions per pair"),
            "+6.40 % time",
            more(ENABLED),
            at_most,
        );
    }

    /// Whether a ref takes 4 bytes in every class, no more: finding it may then take more instructions.
    fn refs_are_exact(&self) -> bool {
        let enabled = self.results.row(ENABLED);
        let most = enabled.and_then(|row| row.memory.get("obj_exts_bytes_per_slot_max"));
        most.is_some_and(|bytes| *bytes <= 4.0)
    }

    fn times(&self, list: &mut List) {
        for (what, kernel, family, at_most) in [
            ("small objects", "1.064", "small", 1.06),
            ("4 KiB pages", "1.40", "pages", 1.06),
            (
                "larger workloads, geometric mean",
                "1.013 (hackbench)",
                LARGER,
                1.02,
            ),
        ] {
            list.add(
                format!("enabled / tags off, {what}, time"),
                kernel,
                self.ratio(ENABLED, BASE, family, true),
                at_most,
            );
        }
        let ratio = self
            .results
            .instruction_ratio(ENABLED, BASE, self.plan.family(LARGER));
        list.add(
            "enabled / tags off, larger workloads, geometric mean, instructions",
            "",
            ratio
                .map(Measure::Exact)
                .ok_or_else(|| self.why(&[ENABLED, BASE], LARGER)),
            1.03,
        );
    }

    fn peers(&self, list: &mut List) {
        // The one that a program would choose for all of them. Instruction counts of different allocators say
        // little about their times.
        let plain = ROWS.iter().filter(|row| row.kind == Kind::Plain);
        let fastest = plain
            .filter_map(|row| match self.ratio(ENABLED, row.key, LARGER, false) {
                Ok(Measure::Time(interval, _)) => Some((row.name, interval)),
                _ => None,
            })
            .max_by(|(_, a), (_, b)| a.p50.total_cmp(&b.p50));
        let name = fastest.map_or(String::new(), |(name, _)| format!(" ({name})"));
        list.add(
            format!("enabled / fastest plain peer{name}, larger workloads, geometric mean"),
            "",
            fastest
                .map(|(_, interval)| Measure::Time(interval, None))
                .ok_or_else(|| match self.why(&[ENABLED], LARGER) {
                    why if why.starts_with("there") => "no plain peer has figures".to_owned(),
                    why => why,
                }),
            1.0,
        );
        for key in MIMALLOC {
            list.add(
                format!("tags off / {key}, small objects, geometric mean"),
                "",
                self.ratio(BASE, key, "small", false),
                1.0,
            );
            let worst = worst_size(self.results, key);
            let size = worst.map_or(String::new(), |(size, _)| format!(" ({size} B)"));
            list.add(
                format!("tags off / {key}, small objects, worst size{size}"),
                "",
                worst
                    .map(|(_, interval)| Measure::Time(interval, None))
                    .ok_or_else(|| self.why(&[BASE, key], "small")),
                1.15,
            );
        }
    }

    /// The workload that is worst, of those where tags off misses more than 0.1 per 1,000 instructions.
    fn i1_misses(&self, list: &mut List) {
        const ABOVE: f64 = 0.1;
        type Of = fn(Interval, Interval) -> f64;
        let default_off: Of = |of, base| of.p50 / base.high;
        let enabled: Of = |of, base| of.p50 / base.p50;
        for (what, key, compare, at_most) in [
            (
                "default-off, median / the most of tags off",
                DEFAULT_OFF,
                default_off,
                1.0,
            ),
            ("enabled / tags off, medians", ENABLED, enabled, 1.05),
        ] {
            let both = self.plan.workloads.iter().filter_map(|workload| {
                let (base, _) = self.results.i1_misses(BASE, &workload.name)?;
                let (of, _) = self.results.i1_misses(key, &workload.name)?;
                Some((workload.name.as_str(), of, base))
            });
            let both: Vec<_> = both.collect();
            let above = both.iter().filter(|(_, _, base)| base.p50 > ABOVE);
            let worst = above
                .map(|(name, of, base)| (*name, compare(*of, *base)))
                .max_by(|(_, a), (_, b)| a.total_cmp(b));
            let name = worst.map_or(String::new(), |(name, _)| format!(" ({name})"));
            let orders = |row: &str| self.results.row(row).map_or(0, |row| row.orders.len());
            list.add(
                format!("L1 I-cache misses, {what}, worst workload above {ABOVE} per 1,000{name}"),
                "not measured",
                match worst {
                    _ if both.is_empty() => Err(self.why(&[BASE, key], "small")),
                    _ if orders(BASE) < 2 => Err("one link order has no range".to_owned()),
                    None => Err(format!("no workload misses more than {ABOVE} per 1,000")),
                    Some((_, ratio)) => Ok(Measure::Exact(ratio)),
                },
                at_most,
            );
        }
    }

    fn text(&self, list: &mut List) {
        for (panic, at_most) in [("abort", 32.0), ("unwind", 64.0)] {
            let pairs = self.pairs.iter().filter(|pair| pair.profile.panic == panic);
            let most = pairs.max_by(|a, b| a.text_per_function().total_cmp(&b.text_per_function()));
            let how = most.map_or(String::new(), |pair| {
                format!(
                    " (lto {}, {} codegen units)",
                    pair.profile.lto, pair.profile.codegen_units
                )
            });
            list.add(
                format!(".text per tagged function, mean, panic {panic}, bytes{how}"),
                "37 B",
                most.map(|pair| Measure::Exact(pair.text_per_function()))
                    .ok_or_else(|| "the functions were not built".to_owned()),
                at_most,
            );
        }
        let data = self
            .pairs
            .iter()
            .filter_map(Pair::data_per_tag)
            .reduce(f64::max);
        list.add(
            "data per tag with relocation, strings apart, bytes",
            "40 B + 16 B × CPUs",
            data.map(Measure::Exact)
                .ok_or_else(|| "the functions were not built".to_owned()),
            56.0,
        );
    }

    fn memory(&self, list: &mut List) {
        let enabled = self.results.row(ENABLED);
        let said = |key| enabled.and_then(|row| row.memory.get(key)).copied();
        let measure = |value: Option<f64>| {
            value.map(Measure::Exact).ok_or_else(|| match enabled {
                None => format!("row {ENABLED} was not run"),
                Some(row) if !row.errors.is_empty() => format!("row {ENABLED} has an error"),
                Some(_) => "there are no figures".to_owned(),
            })
        };
        list.add(
            "obj_exts, mean of 8…240 B, bytes per slot",
            "8 B per object",
            measure(enabled.and_then(Measured::obj_exts_mean)),
            6.0,
        );
        let class = said("obj_exts_bytes_per_slot_max_class");
        let class = class.map_or(String::new(), |slot| format!(" (slots of {slot} B)"));
        list.add(
            format!("obj_exts, any class, bytes per slot{class}"),
            "8 B per object",
            measure(said("obj_exts_bytes_per_slot_max")),
            8.0,
        );
        list.add(
            "page_ext, bytes per large object",
            "8 B per page",
            measure(said("page_ext_bytes_per_entry")),
            64.0,
        );
    }

    /// The unit that is worst.
    fn peak_rss(&self, list: &mut List) {
        type Bytes<'f> = &'f dyn Fn(&str) -> Option<f64>;
        let worst = |of: &str, to: &str, less: Bytes<'_>| {
            let units = self.plan.units.iter().filter_map(|unit| {
                let of = self.results.row(of)?.peak_rss(unit)? - less(unit)?;
                Some((unit.as_str(), of / self.results.row(to)?.peak_rss(unit)?))
            });
            units.max_by(|(_, a), (_, b)| a.total_cmp(b))
        };
        let enabled = self.results.row(ENABLED);
        let nothing = |_: &str| Some(0.0);
        let touched = |unit: &str| enabled?.obj_exts_touched.get(unit).copied();
        let [v3, v2] = MIMALLOC;
        let lines: [(&str, &str, &str, Bytes<'_>, f64); 4] = [
            ("tags off / mimalloc v3", BASE, v3, &nothing, 1.10),
            ("tags off / mimalloc v2", BASE, v2, &nothing, 1.10),
            ("default-off / tags off", DEFAULT_OFF, BASE, &nothing, 1.02),
            (
                "(enabled − obj_exts touched) / tags off",
                ENABLED,
                BASE,
                &touched,
                1.02,
            ),
        ];
        for (what, of, to, less, at_most) in lines {
            let worst = worst(of, to, less);
            let unit = worst.map_or(String::new(), |(unit, _)| {
                format!(" ({})", unit.trim_end_matches('.'))
            });
            list.add(
                format!("peak RSS, {what}, worst workload{unit}"),
                "",
                worst
                    .map(|(_, ratio)| Measure::Exact(ratio))
                    .ok_or_else(|| self.why(&[of, to], LARGER)),
                at_most,
            );
        }
    }
}

/// The size whose ratio of tags off to the row `mimalloc` is highest, over the patterns of small objects.
pub fn worst_size(results: &Results, mimalloc: &str) -> Option<(u64, Interval)> {
    let of_size = |size| {
        results.ratio(BASE, mimalloc, |name, one| {
            name.starts_with("small.") && one == size
        })
    };
    let sizes = results.sizes("small.").into_iter();
    sizes
        .filter_map(|size| Some((size, of_size(size)?)))
        .max_by(|(_, a), (_, b)| a.p50.total_cmp(&b.p50))
}

#[cfg(test)]
mod tests {
    use super::{Input, Verdict, budgets, judge};
    use crate::config::{BASE, DEFAULT_OFF, ENABLED};
    use crate::results::{Measured, Results, Source};
    use crate::stats::Interval;
    use crate::workloads::{Plan, Workload};
    use std::collections::BTreeMap;

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

    fn row(key: &'static str, ns: f64, instructions: f64, i1_misses: &[f64]) -> Measured {
        let name = "small.paired".to_owned();
        let cells = BTreeMap::from([((name.clone(), 8), ns)]);
        Measured {
            key,
            rounds: (1..10).map(|round| (round, cells.clone())).collect(),
            instructions: BTreeMap::from([(name.clone(), (instructions, Source::Valgrind))]),
            i1_misses: BTreeMap::from([(name, (i1_misses.to_vec(), Source::Valgrind))]),
            orders: vec![(1, "a".into()), (2, "b".into())],
            ..Measured::default()
        }
    }

    #[test]
    fn each_line_has_a_verdict_or_says_why_not() {
        let results = Results(vec![
            row(BASE, 10.0, 100.0, &[0.2, 0.4]),
            row(DEFAULT_OFF, 10.1, 102.0, &[0.3, 0.4]),
            row(ENABLED, 11.0, 117.0, &[0.3, 0.36]),
        ]);
        let plan = Plan {
            workloads: vec![Workload {
                name: "small.paired".into(),
                family: "small".into(),
            }],
            units: vec!["small.".into()],
        };
        let judged = budgets(&Input {
            results: &results,
            plan: &plan,
            pairs: &[],
        });
        let verdict = |start: &str| {
            let line = judged.iter().find(|line| line.what.starts_with(start));
            line.expect("a line").verdict.clone()
        };
        assert_eq!(verdict("default-off − tags off, small"), "met");
        assert_eq!(verdict("enabled − tags off, small"), "missed");
        assert_eq!(verdict("enabled / tags off, small objects"), "missed");
        assert_eq!(verdict("L1 I-cache misses, default-off"), "met");
        assert_eq!(verdict("L1 I-cache misses, enabled"), "missed");
        assert_eq!(
            verdict("enabled / tags off, 4 KiB"),
            "not measured: no workload pages was run"
        );
        assert_eq!(
            verdict("tags off / mimalloc-v3, small"),
            "not measured: row mimalloc-v3 was not run"
        );
        assert_eq!(
            verdict(".text per tagged function"),
            "not measured: the functions were not built"
        );
        assert!(judged.len() >= 20);
    }
}
