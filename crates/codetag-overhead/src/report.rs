//! The figures and tables of the project's own workloads.

use crate::budget::worst_size;
use crate::config::{BASE, MIMALLOC, Row, builds};
use crate::figures::{Figure, Section, cell, mib, significant};
use crate::results::{Measured, Results};
use crate::text::Pair;
use crate::workloads::Plan;
use std::path::Path;

mod objects;

pub(crate) use objects::{object_figures, object_header, object_row, sizes};

/// What the tables are made of.
#[derive(Debug)]
pub struct Input<'a> {
    /// In the order of the results.
    pub rows: &'a [Row],
    /// Of the rows.
    pub results: &'a Results,
    /// Of the workloads.
    pub plan: &'a Plan,
    /// Of the generated functions.
    pub pairs: &'a [Pair],
}

/// Figures and tables together, so that neither has what the other lacks.
#[derive(Debug, Default)]
pub struct Output {
    /// For machines.
    pub figures: Vec<Figure>,
    /// For people.
    pub sections: Vec<Section>,
}

fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Everything but the budgets.
pub fn output(input: &Input<'_>) -> Output {
    let mut output = Output::default();
    input.times(&mut output);
    input.tails(&mut output);
    input.counts(&mut output);
    input.binaries(&mut output);
    objects::text(input.pairs, &mut output);
    input.tables(&mut output);
    input.slots(&mut output);
    input.peak_rss(&mut output);
    for mimalloc in MIMALLOC {
        input.by_size(mimalloc, &mut output);
    }
    output
}

/// One line per cause: rows of one binary that could not be built have the same.
pub fn errors(rows: &[Row], results: &Results) -> Vec<String> {
    let mut causes: Vec<(String, String)> = Vec::new();
    for (row, measured) in rows.iter().zip(&results.0) {
        for fault in &measured.errors {
            let cause = match &fault.unit {
                Some(unit) => format!("{}: {}", unit.trim_end_matches('.'), fault.what),
                None => fault.what.clone(),
            };
            match causes.iter_mut().find(|(_, known)| *known == cause) {
                Some((names, _)) => *names += &format!(", {}", row.name),
                None => causes.push((row.name.to_owned(), cause)),
            }
        }
    }
    causes
        .into_iter()
        .map(|(names, cause)| format!("{names}: {cause}"))
        .collect()
}

impl Input<'_> {
    /// The rows of one workload; `cells` are without the row's name.
    fn block(
        &self,
        rows: &mut Vec<Vec<String>>,
        title: &str,
        unit: &str,
        cells: impl Fn(&Row, &Measured) -> Vec<String>,
    ) {
        rows.push(vec![title.to_owned()]);
        for (row, measured) in self.rows.iter().zip(&self.results.0) {
            let mut line = vec![format!("  {}", row.name)];
            let cells = cells(row, measured);
            // What fails when it is counted has its times all the same.
            let has_figures = cells.iter().any(|cell| cell != "–");
            if measured.has_failed(unit) && !has_figures {
                line.push("error, see below".to_owned());
            } else {
                line.extend(cells);
            }
            rows.push(line);
        }
    }

    fn unit_of<'w>(&'w self, workload: &'w str) -> &'w str {
        let mut units = self.plan.units.iter();
        units
            .find(|unit| workload.starts_with(unit.as_str()))
            .map_or(workload, String::as_str)
    }

    /// The A/A row comes first of the ratios: what it is off 1 by is what this machine cannot tell apart.
    fn times(&self, output: &mut Output) {
        let mut rows = Vec::new();
        for workload in &self.plan.workloads {
            let name = workload.name.as_str();
            let unit = self.unit_of(name);
            self.block(&mut rows, workload.title(), unit, |row, _| {
                let ratio = self.results.ratio(row.key, BASE, |one, _| one == name);
                let ns = self.results.ns(row.key, name);
                vec![
                    cell(ratio.map(|ratio| format!("{:.3}", ratio.p50))),
                    cell(ratio.map(|ratio| format!("{:.3}…{:.3}", ratio.low, ratio.high))),
                    cell(ns.map(|ns| significant(ns.p50))),
                ]
            });
            for row in self.rows {
                let figure = |what: &str, unit| Figure {
                    table: "time",
                    row: row.name.to_owned(),
                    workload: name.to_owned(),
                    what: what.to_owned(),
                    unit,
                    source: "clock",
                    ..Figure::default()
                };
                let ratio = self.results.ratio(row.key, BASE, |one, _| one == name);
                output.figures.extend(
                    ratio.map(|ratio| figure("time / tags off", "ratio").of_interval(ratio)),
                );
                let ns = self.results.ns(row.key, name);
                output
                    .figures
                    .extend(ns.map(|ns| figure("time per operation", "ns").of_interval(ns)));
            }
        }
        output.sections.push(Section {
            heading: "Time per operation".to_owned(),
            header: strings(&["", "/ tags off, p50", "95 % interval", "ns, p50"]),
            rows,
        });
    }

    fn tails(&self, output: &mut Output) {
        const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
        let mut rows = Vec::new();
        for workload in &self.plan.workloads {
            let name = workload.name.as_str();
            if self
                .results
                .0
                .iter()
                .all(|row| !row.histograms.contains_key(name))
            {
                continue;
            }
            self.block(
                &mut rows,
                workload.title(),
                self.unit_of(name),
                |_, measured| {
                    let histogram = measured.histograms.get(name);
                    let quantile = |(_, quantile)| {
                        cell(histogram.map(|all| all.value_at_quantile(quantile).to_string()))
                    };
                    let mut cells: Vec<String> = QUANTILES.map(quantile).into();
                    cells.push(cell(histogram.map(|all| all.len().to_string())));
                    cells
                },
            );
            for (row, measured) in self.rows.iter().zip(&self.results.0) {
                let Some(histogram) = measured.histograms.get(name) else {
                    continue;
                };
                output
                    .figures
                    .extend(QUANTILES.map(|(what, quantile)| Figure {
                        table: "latency",
                        row: row.name.to_owned(),
                        workload: name.to_owned(),
                        what: what.to_owned(),
                        value: histogram.value_at_quantile(quantile) as f64,
                        unit: "ns",
                        source: "clock, in the child",
                        ..Figure::default()
                    }));
            }
        }
        output.sections.push(Section {
            heading: "Single operations, over all rounds, ns".to_owned(),
            header: strings(&["", "p50", "p99", "p99.9", "samples"]),
            rows,
        });
    }

    fn counts(&self, output: &mut Output) {
        let mut rows = Vec::new();
        for workload in &self.plan.workloads {
            let name = workload.name.as_str();
            self.block(
                &mut rows,
                workload.title(),
                self.unit_of(name),
                |row, measured| {
                    let counted = measured.instructions.get(name);
                    let base = self.results.instructions(BASE, name);
                    let ratio = counted.zip(base).map(|((count, _), base)| count / base);
                    let misses = self.results.i1_misses(row.key, name);
                    vec![
                        cell(counted.map(|(count, _)| significant(*count))),
                        cell(ratio.map(|ratio| format!("{ratio:.3}"))),
                        cell(counted.map(|(_, source)| source.counter().to_owned())),
                        cell(misses.map(|(range, _)| format!("{:.3}", range.p50))),
                        cell(
                            misses.map(|(range, _)| format!("{:.3}…{:.3}", range.low, range.high)),
                        ),
                        cell(
                            measured
                                .i1_misses
                                .get(name)
                                .map(|(rates, _)| rates.len().to_string()),
                        ),
                        cell(misses.map(|(_, source)| source.cache().to_owned())),
                    ]
                },
            );
            for (row, measured) in self.rows.iter().zip(&self.results.0) {
                let figure = |table, what: &str, unit| Figure {
                    table,
                    row: row.name.to_owned(),
                    workload: name.to_owned(),
                    what: what.to_owned(),
                    unit,
                    ..Figure::default()
                };
                output
                    .figures
                    .extend(
                        measured
                            .instructions
                            .get(name)
                            .map(|(count, source)| Figure {
                                value: *count,
                                source: source.counter(),
                                ..figure(
                                    "instructions",
                                    "instructions per operation",
                                    "instructions",
                                )
                            }),
                    );
                let misses = self.results.i1_misses(row.key, name);
                output.figures.extend(misses.map(|(range, source)| {
                    Figure {
                        source: source.cache(),
                        ..figure(
                            "i1-misses",
                            "over link orders",
                            "misses per 1,000 instructions",
                        )
                        .of_interval(range)
                    }
                }));
            }
        }
        output.sections.push(Section {
            heading: "Instructions per operation, and L1 I-cache misses per 1,000 of them"
                .to_owned(),
            header: strings(&[
                "",
                "instructions",
                "/ tags off",
                "source",
                "misses, median",
                "range",
                "link orders",
                "source",
            ]),
            rows,
        });
    }

    fn binaries(&self, output: &mut Output) {
        let mut rows = Vec::new();
        for build in builds(self.rows) {
            let row = self
                .rows
                .iter()
                .zip(&self.results.0)
                .find(|(row, _)| row.build == build);
            let Some((_, measured)) = row.filter(|(_, measured)| measured.path != Path::new(""))
            else {
                rows.push(vec![build.name.to_owned(), "error, see below".to_owned()]);
                continue;
            };
            match sizes(&measured.path) {
                Ok(object) => {
                    rows.push(object_row(build.name, &object));
                    output
                        .figures
                        .extend(object_figures("binary", build.name, &object));
                }
                Err(error) => rows.push(vec![build.name.to_owned(), error]),
            }
        }
        output.sections.push(Section {
            heading: "Bytes of the binaries, the workloads linked into each".to_owned(),
            header: object_header(),
            rows,
        });
    }

    /// codetag's own memory by kind.
    fn tables(&self, output: &mut Output) {
        const KINDS: [(&str, &str, &str); 11] = [
            ("code_tag_bytes", "code tags", "bytes"),
            ("tag_reloc_bytes", "relocations", "bytes"),
            ("tag_string_bytes", "strings", "bytes"),
            ("page_ext_bytes", "page_ext", "bytes"),
            ("page_ext_bytes_per_entry", "per large object", "bytes"),
            ("page_ext_bytes_per_page", "per 4 KiB of them", "bytes"),
            ("registry_bytes", "registry", "bytes"),
            ("thread_heap_bytes", "thread heaps", "bytes"),
            ("counters_bytes", "counters × CPUs", "bytes"),
            (
                "obj_exts_bytes_per_slot_max",
                "obj_exts per slot, most",
                "bytes",
            ),
            (
                "obj_exts_percent",
                "obj_exts, % of the heap at 8…240 B",
                "per cent",
            ),
        ];
        let mut rows = Vec::new();
        for (row, measured) in self.rows.iter().zip(&self.results.0) {
            if measured.memory.is_empty() {
                continue;
            }
            let mut cells = vec![row.name.to_owned()];
            for (key, what, unit) in KINDS {
                let value = measured.memory.get(key).copied();
                cells.push(cell(value.map(|value| {
                    if value.fract() == 0.0 {
                        value.to_string()
                    } else {
                        format!("{value:.2}")
                    }
                })));
                output.figures.extend(value.map(|value| Figure {
                    table: "memory",
                    row: row.name.to_owned(),
                    what: what.to_owned(),
                    value,
                    unit,
                    source: "the allocator",
                    ..Figure::default()
                }));
            }
            cells.push(cell(
                measured.obj_exts_mean().map(|mean| format!("{mean:.2}")),
            ));
            rows.push(cells);
        }
        let mut header = strings(&[""]);
        header.extend(KINDS.map(|(_, what, _)| what.to_owned()));
        header.push("mean of 8…240 B".to_owned());
        output.sections.push(Section {
            heading: "codetag's own memory, in bytes".to_owned(),
            header,
            rows,
        });
    }

    /// By size class, as told by the row that is enabled, or else the first that says any.
    fn slots(&self, output: &mut Output) {
        let classes = |measured: &Measured| -> Vec<(u64, f64)> {
            let mut classes: Vec<(u64, f64)> = measured
                .memory
                .iter()
                .filter_map(|(key, bytes)| {
                    Some((key.strip_prefix("obj_exts_class:")?.parse().ok()?, *bytes))
                })
                .collect();
            classes.sort_by_key(|(slot, _)| *slot);
            classes
        };
        let enabled = self
            .results
            .row(crate::config::ENABLED)
            .map(classes)
            .unwrap_or_default();
        let rows = enabled.iter().map(|(slot, bytes)| {
            vec![
                slot.to_string(),
                format!("{bytes:.2}"),
                format!("{:.2}", 100.0 * bytes / *slot as f64),
            ]
        });
        output.sections.push(Section {
            heading: "obj_exts by size class".to_owned(),
            header: strings(&["slot, bytes", "obj_exts per slot, bytes", "% of the slot"]),
            rows: rows.collect(),
        });
        output
            .figures
            .extend(enabled.into_iter().map(|(slot, value)| Figure {
                table: "obj_exts",
                row: "enabled at start".to_owned(),
                workload: format!("slots of {slot} B"),
                what: "obj_exts per slot".to_owned(),
                value,
                unit: "bytes",
                source: "the allocator",
                ..Figure::default()
            }));
    }

    fn peak_rss(&self, output: &mut Output) {
        let units: Vec<&str> = self.plan.units.iter().map(String::as_str).collect();
        let mut rows = Vec::new();
        for (row, measured) in self.rows.iter().zip(&self.results.0) {
            if measured.peak_rss.is_empty() {
                continue;
            }
            let mut cells = vec![row.name.to_owned()];
            for unit in &units {
                let value = measured.peak_rss(unit);
                cells.push(cell(value.map(mib)));
                output.figures.extend(value.map(|value| Figure {
                    table: "peak-rss",
                    row: row.name.to_owned(),
                    workload: unit.trim_end_matches('.').to_owned(),
                    what: "peak RSS, median over rounds".to_owned(),
                    value,
                    unit: "bytes",
                    source: "VmHWM, in the child",
                    ..Figure::default()
                }));
            }
            rows.push(cells);
        }
        let mut header = strings(&[""]);
        header.extend(
            units
                .iter()
                .map(|unit| unit.trim_end_matches('.').to_owned()),
        );
        output.sections.push(Section {
            heading: "Peak RSS, MiB, median over rounds".to_owned(),
            header,
            rows,
        });
    }

    fn by_size(&self, mimalloc: &str, output: &mut Output) {
        let patterns: Vec<&str> = self.plan.family("small").collect();
        let sizes = self.results.sizes("small.");
        let Some((worst, _)) = worst_size(self.results, mimalloc) else {
            return;
        };
        let row = |label: String, chosen: &dyn Fn(u64) -> bool| {
            let ratio = |of: &dyn Fn(&str) -> bool| {
                self.results
                    .ratio(BASE, mimalloc, |name, size| of(name) && chosen(size))
            };
            let mut cells = vec![label];
            cells.extend(patterns.iter().map(|pattern| {
                cell(ratio(&|name| name == *pattern).map(|ratio| format!("{:.3}", ratio.p50)))
            }));
            cells.push(cell(
                ratio(&|name| name.starts_with("small.")).map(|ratio| ratio.to_string()),
            ));
            cells
        };
        let mut rows: Vec<_> = sizes
            .iter()
            .map(|size| row(size.to_string(), &|one| one == *size))
            .collect();
        rows.push(row("geometric mean".to_owned(), &|_| true));
        rows.push(row(format!("worst: {worst}"), &|one| one == worst));
        let mut header = strings(&["bytes"]);
        header.extend(
            patterns
                .iter()
                .map(|pattern| pattern.trim_start_matches("small.").to_owned()),
        );
        header.push("geometric mean, 95 % interval".to_owned());
        output.sections.push(Section {
            heading: format!("Small objects by size: time of tags off / {mimalloc}"),
            header,
            rows,
        });
        output.figures.extend(sizes.into_iter().filter_map(|size| {
            let ratio = self.results.ratio(BASE, mimalloc, |name, one| {
                name.starts_with("small.") && one == size
            })?;
            let figure = Figure {
                table: "small-by-size",
                row: mimalloc.to_owned(),
                workload: format!("{size} B"),
                what: "time of tags off / this".to_owned(),
                unit: "ratio",
                source: "clock",
                ..Figure::default()
            };
            Some(figure.of_interval(ratio))
        }));
    }
}
