//! Time and tables: runs the children in turn.

use crate::child::{self, ChildError};
use crate::config::{COUNTERS_KEY, Kind, Row};
use crate::progress::Progress;
use crate::results::{Cell, Measured, Results};
use crate::said::Said;
use crate::workloads::Plan;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Whether workloads take smaller inputs.
    pub quick: bool,
    /// Rounds of all rows.
    pub rounds: usize,
    /// Profilers take part in one of so many rounds.
    pub profilers_every: usize,
    /// Repeats within one child, of which the fastest counts.
    pub repeats: u32,
    /// The same for profilers, some of which are a hundred times slower.
    pub profiler_repeats: u32,
    /// Link orders of codetag's rows, the other allocators' and the other profilers'; 0 is the one order that
    /// the linker chooses.
    pub orders: [u32; 3],
    /// A child that is timed is killed after so long.
    pub limit: Duration,
    /// A child under Callgrind is.
    pub counting_limit: Duration,
}

impl Scale {
    /// With smaller inputs, for a first look.
    pub fn quick() -> Self {
        Self {
            quick: true,
            rounds: 9,
            profilers_every: 3,
            repeats: 5,
            profiler_repeats: 1,
            orders: [3, 3, 0],
            limit: Duration::from_secs(60),
            counting_limit: Duration::from_secs(240),
        }
    }

    /// For figures that are to be kept.
    pub fn full() -> Self {
        Self {
            quick: false,
            rounds: 21,
            profilers_every: 4,
            repeats: 15,
            profiler_repeats: 2,
            orders: [8, 8, 0],
            limit: Duration::from_secs(240),
            counting_limit: Duration::from_secs(900),
        }
    }

    /// The link orders of a row.
    pub fn orders_of(&self, row: &Row) -> u32 {
        let [own, plain, profiler] = self.orders;
        match row.kind {
            Kind::Own => own,
            Kind::Plain => plain,
            Kind::Profiler => profiler,
        }
    }
}

/// A command that runs the workload program at `path` in `mode`.
pub fn command(row: &Row, path: &Path, mode: &str, only: &str, is_quick: bool) -> Command {
    let mut command = Command::new(path);
    command.arg(mode);
    if !only.is_empty() {
        command.args(["--only", only]);
    }
    if is_quick {
        command.arg("--quick");
    }
    if row.enable {
        command.arg("--enable");
    }
    command.env_remove("CODETAG");
    if let Some(value) = row.codetag {
        command.env("CODETAG", value);
    }
    command
}

/// Runs all rows round by round and notes their samples; returns how many rounds are whole. The order turns by one
/// each round and runs backwards in every second one, so that no row always follows the same other. Each round takes
/// binaries in another link order: where functions come to lie is worth a tenth of the time of a pair of small objects,
/// and is nobody's merit. A first round warms up and is thrown away.
pub fn time(
    rows: &[Row],
    plan: &Plan,
    results: &mut Results,
    scale: &Scale,
    progress: &Progress,
) -> usize {
    let count = rows.len();
    let mut checks = BTreeMap::new();
    for round in 0..=scale.rounds {
        let mut order: Vec<usize> = (0..count).map(|at| (at + round) % count).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for unit in &plan.units {
            for at in &order {
                let (row, measured) = (&rows[*at], &mut results.0[*at]);
                let takes_part =
                    row.kind != Kind::Profiler || round.is_multiple_of(scale.profilers_every);
                if takes_part && !measured.has_failed(unit) {
                    match sample(row, linked(measured, turn(row, round, scale)), unit, scale) {
                        Err(error) => measured.fail(Some(unit), error),
                        Ok(None) => return round.saturating_sub(1),
                        Ok(Some(said)) => {
                            if let Err(error) =
                                note(&said, round, unit, plan, measured, &mut checks)
                            {
                                measured.fail(Some(unit), error);
                            }
                        }
                    }
                }
                progress.step();
            }
        }
    }
    scale.rounds
}

/// How often a row took part so far, this round included.
fn turn(row: &Row, round: usize, scale: &Scale) -> usize {
    match row.kind {
        Kind::Profiler => round / scale.profilers_every,
        Kind::Own | Kind::Plain => round,
    }
}

/// The binary of a row for its turn: the linker's own order and the others one after the other.
fn linked(measured: &Measured, turn: usize) -> &Path {
    match turn.saturating_sub(1) % (measured.orders.len() + 1) {
        0 => &measured.path,
        n => &measured.orders[n - 1].1,
    }
}

/// `None` if this process is to end.
fn sample(row: &Row, path: &Path, unit: &str, scale: &Scale) -> Result<Option<Said>, String> {
    let mut command = command(row, path, "time", unit, scale.quick);
    let repeats = match row.kind {
        Kind::Profiler => scale.profiler_repeats,
        Kind::Own | Kind::Plain => scale.repeats,
    };
    command.args(["--repeats", &repeats.to_string()]);
    confirmed(row, &mut command, scale.limit).map_err(|failure| failure.what)
}

/// Why a child's figures are not to be had.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) what: String,
    /// Whether it only took too long.
    pub(crate) is_timeout: bool,
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self {
            what,
            is_timeout: false,
        }
    }
}

/// Runs a child and reads and confirms what it says; `None` if this process is to end.
pub(crate) fn confirmed(
    row: &Row,
    command: &mut Command,
    limit: Duration,
) -> Result<Option<Said>, Failure> {
    let ended = match child::run(command, limit) {
        Err(ChildError::Interrupted) => return Ok(None),
        Err(error) => {
            return Err(Failure {
                what: error.to_string(),
                is_timeout: matches!(error, ChildError::TimedOut { .. }),
            });
        }
        Ok(ended) => ended,
    };
    let said = Said::parse(&ended.stdout).map_err(|garbage| garbage.to_string())?;
    row.confirm(&said)?;
    Ok(Some(said))
}

/// Reads a child's figures. `checks` has the results of the first row that told each.
fn note(
    said: &Said,
    round: usize,
    unit: &str,
    plan: &Plan,
    measured: &mut Measured,
    checks: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    for (name, check) in said.all_words("check:") {
        let first = checks
            .entry(name.to_owned())
            .or_insert_with(|| check.to_owned());
        if first != check {
            return Err(format!(
                "its result of {name} is {check}, and that of the first row is {first}"
            ));
        }
        measured.checks.insert(name.to_owned(), check.to_owned());
    }
    let mut cells = BTreeMap::new();
    for (key, ns) in said.numbers("ns:") {
        let cell: Option<Cell> = key
            .rsplit_once(':')
            .and_then(|(name, size)| Some((name.to_owned(), size.parse().ok()?)));
        let cell = cell.ok_or_else(|| format!("its key ns:{key} has no size"))?;
        if plan.has(&cell.0) {
            cells.insert(cell, ns);
        }
    }
    if cells.is_empty() {
        return Err("it printed no times".to_owned());
    }
    // The first one warmed up.
    if round == 0 {
        return Ok(());
    }
    for (name, text) in said.all_words("hdr:").filter(|(name, _)| plan.has(name)) {
        let read =
            histogram(text).ok_or_else(|| format!("its histogram of {name} cannot be read"))?;
        match measured.histograms.get_mut(name) {
            None => {
                measured.histograms.insert(name.to_owned(), read);
            }
            Some(all) => all
                .add(&read)
                .map_err(|error| format!("its histograms of {name} do not add up: {error}"))?,
        }
    }
    measured.rounds.entry(round).or_default().extend(cells);
    if let Some(bytes) = said.number("peak_rss_bytes") {
        measured
            .peak_rss
            .entry(unit.to_owned())
            .or_default()
            .push(bytes);
    }
    if let Some(bytes) = said.number("obj_exts_bytes") {
        measured.obj_exts_touched.insert(unit.to_owned(), bytes);
    }
    Ok(())
}

/// Version 2, deflated, in base64.
fn histogram(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    let mut histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
    histogram.auto(true);
    Some(histogram)
}

/// What codetag's tables take, of one row.
///
/// # Errors
///
/// As of [`Row::confirm`], or what the child says.
pub fn memory(row: &Row, measured: &mut Measured, scale: &Scale) -> Result<(), String> {
    let mut command = command(row, &measured.path, "memory", "", false);
    let said = confirmed(row, &mut command, scale.limit).map_err(|failure| failure.what)?;
    let Some(said) = said else {
        return Ok(());
    };
    if row.key == COUNTERS_KEY && said.number("counters_bytes").unwrap_or(0.0) <= 0.0 {
        return Err("it did not confirm that it counts: it said no counters_bytes".to_owned());
    }
    let numbers = said.numbers("");
    measured
        .memory
        .extend(numbers.map(|(key, value)| (key.to_owned(), value)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{histogram, linked, note};
    use crate::results::Measured;
    use crate::said::Said;
    use crate::workloads::{Plan, Workload};
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
    use std::collections::BTreeMap;

    fn serialized(values: std::ops::Range<u64>) -> String {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits");
        values.for_each(|value| histogram.record(value).expect("it grows"));
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&histogram, &mut bytes)
            .expect("memory");
        STANDARD.encode(bytes)
    }

    fn plan() -> Plan {
        Plan {
            workloads: vec![Workload {
                name: "larger.x".into(),
                family: "larger".into(),
            }],
            units: vec!["larger.x".into()],
        }
    }

    #[test]
    fn histograms_are_added_up_over_rounds() {
        assert!(histogram("no base64!").is_none() && histogram("AAAA").is_none());
        let (mut measured, mut checks) = (Measured::default(), BTreeMap::new());
        for (round, values) in [(0, 1..1_000), (1, 1..51), (2, 51..101_000)] {
            let text = format!("ns:larger.x:0 5\nhdr:larger.x {}\n", serialized(values));
            let said = Said::parse(text.as_bytes()).expect("lines");
            note(
                &said,
                round,
                "larger.x",
                &plan(),
                &mut measured,
                &mut checks,
            )
            .expect("figures");
        }
        let histogram = &measured.histograms["larger.x"];
        // The round that warms up is not in it, and the range grew.
        assert_eq!(histogram.len(), 100_999);
        assert!((99_900..100_500).contains(&histogram.value_at_quantile(0.99)));
        assert_eq!(measured.rounds.len(), 2);
    }

    #[test]
    fn rounds_go_over_the_link_orders() {
        let mut measured = Measured {
            path: "own".into(),
            ..Measured::default()
        };
        let rounds = |measured: &Measured| -> Vec<String> {
            (0..6)
                .map(|round| linked(measured, round).display().to_string())
                .collect()
        };
        assert_eq!(rounds(&measured), ["own"; 6]);
        measured.orders = vec![(1, "one".into()), (2, "two".into())];
        assert_eq!(
            rounds(&measured),
            ["own", "own", "one", "two", "own", "one"]
        );
    }

    #[test]
    fn another_result_than_the_first_row_s_is_an_error() {
        let mut checks = BTreeMap::new();
        let mut say = |check: &str| {
            let said = format!("ns:larger.x:0 5\ncheck:larger.x {check}\n");
            let said = Said::parse(said.as_bytes()).expect("lines");
            note(
                &said,
                1,
                "larger.x",
                &plan(),
                &mut Measured::default(),
                &mut checks,
            )
        };
        assert_eq!(say("ab"), Ok(()));
        assert_eq!(say("ab"), Ok(()));
        assert!(
            say("ac")
                .expect_err("another")
                .contains("that of the first row is ab")
        );
    }

    #[test]
    fn times_without_a_size_or_none_at_all_are_errors() {
        for (said, error) in [("ns:larger.x 5", "no size"), ("ops:larger.x 5", "no times")] {
            let said = Said::parse(said.as_bytes()).expect("lines");
            let noted = note(
                &said,
                1,
                "u",
                &plan(),
                &mut Measured::default(),
                &mut BTreeMap::new(),
            );
            assert!(noted.expect_err("an error").contains(error));
        }
    }
}
