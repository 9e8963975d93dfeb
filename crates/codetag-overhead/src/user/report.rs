//! The figures of a user's program.

use super::{Measured, Options, Results, STATES};
use crate::child;
use crate::figures::{Figure, Report, Section, cell, mib};
use crate::machine::Machine;
use crate::report::{object_figures, object_header, object_row};
use crate::stats::Interval;
use std::collections::BTreeMap;

pub(super) fn report(machine: Machine, options: &Options, results: Results) -> Report {
    let wall = if options.load.is_some() {
        "wall time of the load"
    } else {
        "wall time"
    };
    let mut figures = Vec::new();
    let sections = vec![
        times(wall, &results, &mut figures),
        counts(&results, &mut figures),
        memory(&results, &mut figures),
        binaries(&results, &mut figures),
        per_tag(&results, &mut figures),
    ];
    let mut notes = vec![
        format!(
            "{} rounds of all rows in turn, after a first run of each that said what state it is in. Ratios are taken \
             within a round; p50 and interval are over the rounds.",
            options.rounds
        ),
        "Instructions and L1 I-cache misses are of the whole program from its start to its end."
            .to_owned(),
    ];
    notes.extend(results.notes);
    let mut errors = results.errors;
    for (state, row) in STATES.iter().zip(&results.rows) {
        errors.extend(
            row.error
                .as_ref()
                .map(|error| format!("{}: {error}", state.name)),
        );
    }
    Report {
        machine,
        notes,
        figures,
        budgets: Vec::new(),
        errors,
        interrupted: child::is_interrupted()
            .then(|| format!("{} of {} rounds done", results.rounds_done, options.rounds)),
        sections,
    }
}

fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn ratio(of: &BTreeMap<usize, f64>, to: &BTreeMap<usize, f64>) -> Option<Interval> {
    Interval::of(
        of.iter()
            .filter_map(|(round, value)| Some(value / to.get(round)?))
            .filter(|ratio| ratio.is_finite()),
    )
}

fn times(wall: &str, results: &Results, figures: &mut Vec<Figure>) -> Section {
    let mut rows = Vec::new();
    for (state, row) in STATES.iter().zip(&results.rows) {
        let mut cells = vec![state.name.to_owned()];
        if row.error.is_some() {
            cells.push("error, see below".to_owned());
            rows.push(cells);
            continue;
        }
        let mut add = |what: &str, times: &BTreeMap<usize, f64>, base: &BTreeMap<usize, f64>| {
            let seconds = Interval::of(times.values().copied());
            let ratio = ratio(times, base);
            cells.push(cell(seconds.map(|seconds| format!("{:.4}", seconds.p50))));
            cells.push(cell(ratio.map(|ratio| format!("{:.3}", ratio.p50))));
            cells.push(cell(
                ratio.map(|ratio| format!("{:.3}…{:.3}", ratio.low, ratio.high)),
            ));
            let figure = |what: String, unit| Figure {
                table: "time",
                row: state.name.to_owned(),
                what,
                unit,
                source: "clock",
                ..Figure::default()
            };
            figures
                .extend(seconds.map(|seconds| figure(what.to_owned(), "s").of_interval(seconds)));
            figures.extend(
                ratio.map(|ratio| figure(format!("{what} / tags off"), "ratio").of_interval(ratio)),
            );
        };
        let base = &results.rows[0];
        add(wall, &row.wall, &base.wall);
        add("CPU time", &row.cpu, &base.cpu);
        rows.push(cells);
    }
    Section {
        heading: format!("Time: {wall}, and CPU time (user and system) of the program"),
        header: strings(&[
            "",
            "wall, s",
            "/ tags off, p50",
            "95 % interval",
            "CPU, s",
            "/ tags off, p50",
            "95 % interval",
        ]),
        rows,
    }
}

/// The whole range over link orders.
fn range(row: &Measured) -> Option<Interval> {
    let rates = || row.i1_misses.iter().map(|(rate, _)| *rate);
    let mut range = Interval::of(rates())?;
    range.low = rates().fold(f64::INFINITY, f64::min);
    range.high = rates().fold(0.0, f64::max);
    Some(range)
}

fn counts(results: &Results, figures: &mut Vec<Figure>) -> Section {
    let mut rows = Vec::new();
    let base = results.rows[0].instructions;
    for (state, row) in STATES.iter().zip(&results.rows) {
        let ratio = row
            .instructions
            .zip(base)
            .map(|((count, _), (base, _))| count / base);
        let misses = range(row);
        let source = row.i1_misses.first().map(|(_, source)| source.cache());
        rows.push(vec![
            state.name.to_owned(),
            cell(row.instructions.map(|(count, _)| format!("{count:.0}"))),
            cell(ratio.map(|ratio| format!("{ratio:.4}"))),
            cell(
                row.instructions
                    .map(|(_, source)| source.counter().to_owned()),
            ),
            cell(misses.map(|range| format!("{:.3}", range.p50))),
            cell(misses.map(|range| format!("{:.3}…{:.3}", range.low, range.high))),
            row.i1_misses.len().to_string(),
            cell(source.map(str::to_owned)),
            cell(row.tracked_objs.map(|objs| objs.to_string())),
        ]);
        let figure = |table, what: &str, unit, source| Figure {
            table,
            row: state.name.to_owned(),
            what: what.to_owned(),
            unit,
            source,
            ..Figure::default()
        };
        figures.extend(row.instructions.map(|(value, source)| Figure {
            value,
            ..figure(
                "instructions",
                "instructions",
                "instructions",
                source.counter(),
            )
        }));
        figures.extend(ratio.map(|value| Figure {
            value,
            ..figure(
                "instructions",
                "instructions relative to tags off",
                "ratio of counts",
                "computed",
            )
        }));
        figures.extend(misses.zip(source).map(|(range, source)| {
            figure(
                "i1-misses",
                "over link orders",
                "misses per 1,000 instructions",
                source,
            )
            .of_interval(range)
        }));
        figures.extend(row.tracked_objs.map(|objs| Figure {
            value: objs as f64,
            ..figure("state", "objects tracked at exit", "objects", "codetag")
        }));
    }
    Section {
        heading: "Instructions, and L1 I-cache misses per 1,000 of them".to_owned(),
        header: strings(&[
            "",
            "instructions",
            "/ tags off",
            "source",
            "misses, median",
            "range",
            "link orders",
            "source",
            "objects tracked at exit",
        ]),
        rows,
    }
}

/// A child starts with what this process had as its peak: where that is not exceeded, it is a bound.
fn memory(results: &Results, figures: &mut Vec<Figure>) -> Section {
    let mut rows = Vec::new();
    for (state, row) in STATES.iter().zip(&results.rows) {
        let peak = Interval::of(row.peak_rss.iter().copied());
        let is_bound = peak.is_some_and(|peak| peak.p50 <= results.own_peak_rss_bytes);
        rows.push(vec![
            state.name.to_owned(),
            cell(peak.map(|peak| format!("{}{}", if is_bound { "≤ " } else { "" }, mib(peak.p50)))),
        ]);
        figures.extend(peak.map(|peak| {
            let figure = Figure {
                table: "peak-rss",
                row: state.name.to_owned(),
                what: if is_bound {
                    "peak RSS, at most"
                } else {
                    "peak RSS"
                }
                .to_owned(),
                unit: "bytes",
                source: "wait4",
                ..Figure::default()
            };
            figure.of_interval(peak)
        }));
    }
    Section {
        heading: "Peak RSS, MiB, median over rounds".to_owned(),
        header: strings(&["", "MiB"]),
        rows,
    }
}

fn binaries(results: &Results, figures: &mut Vec<Figure>) -> Section {
    let named = ["tags off", "tags"].into_iter().zip(&results.objects);
    let rows = named.map(|(name, object)| {
        figures.extend(object_figures("binary", name, object));
        object_row(name, object)
    });
    Section {
        heading: "Bytes of the binaries".to_owned(),
        rows: rows.collect(),
        header: object_header(),
    }
}

/// With what codetag's runtime takes once, which cannot be told apart here.
fn per_tag(results: &Results, figures: &mut Vec<Figure>) -> Section {
    let [off, tags] = &results.objects;
    let count = tags.tags.tags;
    let more = tags.code_section_bytes as f64 - off.code_section_bytes as f64;
    let mut rows = Vec::new();
    if count > 0 {
        let data = (tags.tags.section_bytes + tags.tags.reloc_bytes) as f64 / count as f64;
        for (what, value) in [
            (
                ".text per tag, the runtime's share with it",
                more / count as f64,
            ),
            ("section and relocation per tag, strings apart", data),
        ] {
            rows.push(vec![what.to_owned(), format!("{value:.1}")]);
            figures.push(Figure {
                table: "text",
                row: "tags − tags off".to_owned(),
                what: what.to_owned(),
                value,
                unit: "bytes",
                source: "object file",
                ..Figure::default()
            });
        }
    }
    Section {
        heading: format!("Bytes per tag, of {count} tags"),
        header: strings(&["", "bytes"]),
        rows,
    }
}
