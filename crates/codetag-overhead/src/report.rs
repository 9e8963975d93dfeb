//! Prints the tables.

use crate::budget::{budgets, worst_size};
use crate::config::{BASE, Config, MIMALLOC, PATTERNS, binaries};
use crate::results::Results;
use codetag_cli::objsize;
use comfy_table::{CellAlignment, Table, presets};
use std::io::{self, Write};

/// What to print besides the figures.
#[derive(Debug)]
pub struct Options {
    /// Tables that a README can take.
    pub markdown: bool,
    /// Whether peers were measured.
    pub peers: bool,
    /// Sentences under the first table.
    pub notes: Vec<String>,
}

/// Writes everything.
///
/// # Errors
///
/// Those of `out`.
pub fn print(
    configs: &[Config],
    results: &Results,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "{}",
        heading(options, "Time and instructions per pair of alloc and free")
    )?;
    writeln!(out, "{}", times(configs, results, options))?;
    for note in &options.notes {
        writeln!(out, "\n{note}")?;
    }
    writeln!(
        out,
        "\n{}",
        heading(
            options,
            "Bytes of the binaries, the workload linked into each"
        )
    )?;
    writeln!(out, "{}", sizes(configs, results, options))?;
    writeln!(out, "\n{}", heading(options, "Bytes of codetag's tables"))?;
    writeln!(out, "{}", memory(configs, results, options))?;
    if options.peers {
        for (mimalloc, config) in MIMALLOC
            .into_iter()
            .filter_map(|at| Some((at, configs.get(at)?)))
        {
            writeln!(
                out,
                "\n{}",
                heading(
                    options,
                    &format!("Small objects by size: time of tags off / {}", config.name)
                )
            )?;
            writeln!(out, "{}", by_size(results, mimalloc, options))?;
        }
    }
    writeln!(out, "\n{}", heading(options, "Budgets"))?;
    writeln!(out, "{}", budget_table(results, options))?;
    for error in errors(configs, results) {
        writeln!(out, "error: {error}")?;
    }
    Ok(())
}

/// One line per cause: rows of one binary that could not be built have the same.
pub fn errors(configs: &[Config], results: &Results) -> Vec<String> {
    let mut causes: Vec<(String, &str)> = Vec::new();
    for (config, row) in configs.iter().zip(&results.0) {
        let Some(error) = row.error.as_deref() else {
            continue;
        };
        match causes.iter_mut().find(|(_, cause)| *cause == error) {
            Some((names, _)) => *names += &format!(", {}", config.name),
            None => causes.push((config.name.to_owned(), error)),
        }
    }
    causes
        .into_iter()
        .map(|(names, cause)| format!("{names}: {cause}"))
        .collect()
}

fn heading(options: &Options, text: &str) -> String {
    if options.markdown {
        format!("### {text}\n")
    } else {
        text.to_owned()
    }
}

fn table(options: &Options, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(if options.markdown {
        presets::ASCII_MARKDOWN
    } else {
        presets::NOTHING
    });
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn times(configs: &[Config], results: &Results, options: &Options) -> Table {
    let header = [
        "",
        "time / tags off, p50",
        "95 % interval",
        "ns, p50",
        "instructions",
        "/ tags off",
    ];
    let mut table = table(options, &header);
    for (pattern, title) in PATTERNS {
        if results.ns(BASE, pattern).is_none() && results.0.iter().all(|row| row.error.is_none()) {
            continue;
        }
        table.add_row([*title]);
        // The A/A row comes first: what it is off 1 by is what this machine cannot tell apart.
        for (at, config) in configs.iter().enumerate().filter(|(at, _)| *at != BASE) {
            table.add_row(time_row(results, at, config, pattern));
        }
    }
    table
}

fn time_row(results: &Results, at: usize, config: &Config, pattern: &str) -> Vec<String> {
    let name = format!("  {}", config.name);
    if results.0[at].error.is_some() {
        return vec![name, "error, see below".to_owned()];
    }
    let ratio = results.ratio(at, BASE, |name, _| name == pattern);
    let instructions = results.instructions(at, pattern);
    let to_base = instructions.and_then(|count| Some(count / results.instructions(BASE, pattern)?));
    vec![
        name,
        cell(ratio.map(|ratio| format!("{:.3}", ratio.p50))),
        cell(ratio.map(|ratio| format!("{:.3}…{:.3}", ratio.low, ratio.high))),
        cell(results.ns(at, pattern).map(|ns| significant(ns.p50))),
        cell(instructions.map(significant)),
        cell(to_base.map(|ratio| format!("{ratio:.3}"))),
    ]
}

/// Four digits are more than a time has.
fn significant(value: f64) -> String {
    if value < 1_000.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

fn cell(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn sizes(configs: &[Config], results: &Results, options: &Options) -> Table {
    let header = [
        "",
        ".text",
        "text",
        "data",
        "bss",
        "dec",
        "code tags",
        "their section",
        "relocations",
        "strings",
    ];
    let mut table = table(options, &header);
    for binary in binaries(configs) {
        let Some(at) = configs.iter().position(|config| config.binary == binary) else {
            continue;
        };
        let name = binary.name.to_owned();
        table.add_row(
            match objsize::measure(&results.0[at].path).map(|contents| contents.objects) {
                Ok(objects) => objects.iter().fold(vec![name], |mut row, object| {
                    let (size, tags) = (object.size, object.tags);
                    row.extend(
                        [
                            object.code_section_bytes,
                            size.text_bytes,
                            size.data_bytes,
                            size.bss_bytes,
                            size.total_bytes(),
                            tags.tags,
                            tags.section_bytes,
                            tags.reloc_bytes,
                            tags.string_bytes,
                        ]
                        .map(|bytes| bytes.to_string()),
                    );
                    row
                }),
                Err(error) => vec![name, error.to_string()],
            },
        );
    }
    table
}

fn memory(configs: &[Config], results: &Results, options: &Options) -> Table {
    let header = [
        "",
        "obj_exts per slot, mean of 8…240 B",
        "any class, at most",
        "% of the heap at 8…240 B",
        "page_ext per large object",
    ];
    let mut table = table(options, &header);
    for (config, row) in configs.iter().zip(&results.0) {
        if row.page_ext.is_none() {
            continue;
        }
        let mean = row.obj_exts.values().sum::<f64>() / row.obj_exts.len() as f64;
        let mut cells = vec![config.name.to_owned()];
        let figures = [
            Some(mean),
            row.obj_exts_max,
            row.obj_exts_percent,
            row.page_ext,
        ];
        cells.extend(figures.map(|value| cell(value.map(|value| format!("{value:.2}")))));
        table.add_row(cells);
    }
    table
}

fn by_size(results: &Results, mimalloc: usize, options: &Options) -> Table {
    let patterns: Vec<&(&str, &str)> = PATTERNS
        .iter()
        .filter(|(name, _)| name.starts_with("small."))
        .collect();
    let mut table = table(
        options,
        &[
            "bytes",
            "freed at once",
            "batches of 100",
            "batches of 10,000",
            "geometric mean, 95 % interval",
        ],
    );
    let row = |label: String, chosen: &dyn Fn(u64) -> bool| {
        let mut cells = vec![label];
        cells.extend(patterns.iter().map(|(pattern, _)| {
            let ratio = results.ratio(BASE, mimalloc, |name, size| {
                name == *pattern && chosen(size)
            });
            cell(ratio.map(|ratio| format!("{:.3}", ratio.p50)))
        }));
        let all = results.ratio(BASE, mimalloc, |name, size| {
            name.starts_with("small.") && chosen(size)
        });
        cells.push(cell(all.map(|ratio| ratio.to_string())));
        cells
    };
    for size in results.sizes("small.") {
        table.add_row(row(size.to_string(), &|one| one == size));
    }
    table.add_row(row("geometric mean".to_owned(), &|_| true));
    if let Some((worst, _)) = worst_size(results, mimalloc) {
        table.add_row(row(format!("worst: {worst}"), &|one| one == worst));
    }
    table
}

fn budget_table(results: &Results, options: &Options) -> Table {
    let mut table = table(
        options,
        &[
            "",
            "measured",
            "first release, at most",
            "",
            "in the end, at most",
            "",
        ],
    );
    for budget in budgets(results, options.peers) {
        let judged = |limit: Option<f64>| {
            let limit = limit?;
            Some((format!("{limit:.2}"), budget.verdict(limit).to_string()))
        };
        let (gate, gate_verdict) = judged(budget.gate).unwrap_or_default();
        let (goal, goal_verdict) = judged(budget.goal).unwrap_or_default();
        table.add_row([
            budget.what.clone(),
            budget.measured(),
            gate,
            gate_verdict,
            goal,
            goal_verdict,
        ]);
    }
    table
}
