//! `codetag lab footprint`: what a trace takes on each allocator.

use super::chart::{self, Chart, Sampler};
use super::grid;
use super::input::{Input, KB_BYTES, Summary, TraceArgs};
use crate::output::{Format, Output};
use codetag_lab::allocator::{Allocator, Refs};
use codetag_lab::event::{ReadError, Source};
use codetag_lab::kernel::PAGE_BYTES;
use codetag_lab::model::{CacheUsage, Model};
use codetag_lab::replay::Replay;
use codetag_lab::slabinfo;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replay a trace on several allocators and print the pages that each takes.
///
/// A line per allocator: pages and kB (1,024 bytes) at the end of the trace and at the peak, slots, live
/// objects and bytes requested for them, and what is taken beyond those bytes, in per cent of them.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:\n  \
    codetag lab footprint boot.trace.gz\n  \
    codetag lab footprint boot.trace.gz --allocators slub-order0,slub-order1,tiny --caches\n  \
    codetag lab footprint boot.trace.gz --chart footprint.svg\n\n{}\n\n\
    Exit status: 0 all was done, 1 some of the trace could not be used, 2 wrong usage.", super::ALLOCATORS_HELP))]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArgs,

    /// Allocators, with commas between
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Allocator::defaults())]
    allocators: Vec<Allocator>,

    /// Also print each cache of each allocator (in csv: instead)
    #[arg(long)]
    caches: bool,

    /// Print the caches in the form of /proc/slabinfo, and nothing else
    #[arg(long, conflicts_with_all = ["caches", "format"])]
    slabinfo: bool,

    /// Draw the footprint over the events of the trace, a line per allocator, into an SVG file
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One allocator.
#[derive(Clone, Debug, Serialize)]
struct Row {
    allocator: String,
    pages: u64,
    kb: u64,
    peak_pages: u64,
    peak_kb: u64,
    slots: u64,
    live_objs: u64,
    live_bytes: u64,
    overhead_percent: f64,
}

/// One cache of one allocator.
#[derive(Clone, Debug, Serialize)]
struct CacheRow {
    allocator: String,
    cache: String,
    object_bytes: u32,
    slot_bytes: u32,
    objs_per_slab: u32,
    order: u32,
    slabs: u64,
    partial_slabs: u64,
    pages: u64,
    slots: u64,
    live_objs: u64,
    /// Slots that hold a live object.
    used_percent: f64,
}

#[derive(Serialize)]
struct Document<'a> {
    trace: &'a Summary,
    allocators: &'a [Row],
    #[serde(skip_serializing_if = "Option::is_none")]
    caches: Option<&'a [CacheRow]>,
}

impl Row {
    fn new(allocator: &Allocator, replay: &Replay<'_, Box<dyn Model>>) -> Self {
        let (pages, peak_pages) = (replay.allocator_pages(), replay.pages().peak_pages());
        let (bytes, live_bytes) = (pages * PAGE_BYTES, replay.live_bytes());
        let beyond = bytes as f64 - live_bytes as f64;
        Self {
            allocator: allocator.to_string(),
            pages,
            kb: bytes / KB_BYTES,
            peak_pages,
            peak_kb: peak_pages * PAGE_BYTES / KB_BYTES,
            slots: replay.model().usage().slots,
            live_objs: replay.live_objs(),
            live_bytes,
            overhead_percent: grid::tenths(100.0 * beyond / live_bytes.max(1) as f64),
        }
    }
}

impl CacheRow {
    fn new(allocator: &Allocator, cache: CacheUsage) -> Self {
        Self {
            allocator: allocator.to_string(),
            used_percent: grid::tenths(100.0 * cache.live_objs as f64 / cache.slots.max(1) as f64),
            cache: cache.name,
            object_bytes: cache.object_bytes,
            slot_bytes: cache.slot_bytes,
            objs_per_slab: cache.objs_per_slab,
            order: cache.order,
            slabs: cache.slabs,
            partial_slabs: cache.partial_slabs,
            pages: cache.pages,
            slots: cache.slots,
            live_objs: cache.live_objs,
        }
    }
}

impl Args {
    pub(super) fn run(self, out: &mut Output) -> io::Result<()> {
        if let Some(path) = &self.chart
            && let Err(error) = chart::check(path)
        {
            out.fail(&path.display().to_string(), &error);
            return Ok(());
        }
        let Some(input) = self.trace.open(out) else {
            return Ok(());
        };
        let (replays, chart) = match replay_all(&input, &self.allocators) {
            Ok(replayed) => replayed,
            Err(error) => {
                out.fail(&input.name, &error);
                return Ok(());
            }
        };
        if let Some(path) = &self.chart
            && let Err(error) = chart.write(path)
        {
            out.fail(&path.display().to_string(), &error);
        }
        let all = || self.allocators.iter().zip(&replays);
        if self.slabinfo {
            for (allocator, replay) in all() {
                if self.allocators.len() > 1 {
                    writeln!(out, "# {allocator}")?;
                }
                writeln!(out, "{}", slabinfo::HEADER)?;
                for cache in &replay.model().caches() {
                    writeln!(out, "{}", slabinfo::Line(cache))?;
                }
            }
            return Ok(());
        }
        let rows: Vec<Row> = all().map(|(allocator, replay)| Row::new(allocator, replay)).collect();
        let caches: Vec<CacheRow> = if self.caches {
            all()
                .flat_map(|(allocator, replay)| {
                    let caches = replay.model().caches().into_iter();
                    caches.map(|cache| CacheRow::new(allocator, cache))
                })
                .collect()
        } else {
            Vec::new()
        };
        let counts = replays.first().map(Replay::counts);
        let summary = input.summary(counts);
        match self.format {
            Format::Table => {
                summary.print(out)?;
                writeln!(out)?;
                grid::table(&rows, out)?;
                if self.caches {
                    writeln!(out)?;
                    grid::table(&caches, out)?;
                }
                Ok(())
            }
            Format::Csv if self.caches => grid::csv(&caches, out),
            Format::Csv => grid::csv(&rows, out),
            Format::Json => grid::json(
                &Document {
                    trace: &summary,
                    allocators: &rows,
                    caches: self.caches.then_some(&caches),
                },
                out,
            ),
        }
    }
}

type Replays<'s> = Vec<Replay<'s, Box<dyn Model>>>;

/// All allocators in one pass over the trace.
fn replay_all<'s>(
    input: &'s Input,
    allocators: &[Allocator],
) -> Result<(Replays<'s>, Chart), ReadError> {
    let mut replays: Replays<'s> = allocators
        .iter()
        .map(|allocator| input.replay(allocator, Refs::default()))
        .collect();
    let mut samplers: Vec<Sampler> = replays
        .iter()
        .map(|_| Sampler::new(input.survey.events()))
        .collect();
    let mut events = input.events("replaying")?;
    let mut number = 0;
    while let Some(event) = events.next_event()? {
        number += 1;
        for (replay, sampler) in replays.iter_mut().zip(&mut samplers) {
            replay.apply(&event, events.names());
            sampler.note(number, replay.allocator_pages() * PAGE_BYTES / KB_BYTES);
        }
    }
    for replay in &mut replays {
        replay.finish();
    }
    let lines = samplers
        .into_iter()
        .zip(allocators)
        .map(|(sampler, allocator)| sampler.line(allocator.to_string()))
        .collect();
    let file = Path::new(&input.name).file_name();
    let chart = Chart {
        title: format!(
            "Footprint of {}",
            file.unwrap_or_default().to_string_lossy()
        ),
        x: "events",
        y: "kB",
        lines,
    };
    Ok((replays, chart))
}
