//! `codetag lab boot`: the smallest memory in which a trace runs.

use super::bar::bar;
use super::grid;
use super::input::{KB_BYTES, Summary, TraceArgs};
use crate::output::{Format, Output};
use codetag_lab::allocator::{Allocator, Refs};
use codetag_lab::boot::{Boot, BootParams, smallest_arena};
use codetag_lab::kernel::PAGE_BYTES;
use codetag_lab::replay::{Failure, Options};
use serde::Serialize;
use std::io::{self, Write};

/// Find the smallest arena of pages in which a trace runs, for each allocator.
///
/// Bisects the size of the arena. Says which allocation fails in an arena of one page less, of what order,
/// and what blocks of pages were free then.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:\n  \
    codetag lab boot boot.trace.gz\n  \
    codetag lab boot boot.trace.gz --allocators tiny,tiny-order0 --other-pages --pcp\n\n{}\n\n\
    Exit status: 0 all was done, 1 some of the trace could not be used, 2 wrong usage.", super::ALLOCATORS_HELP))]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArgs,

    /// Allocators, with commas between
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Allocator::defaults())]
    allocators: Vec<Allocator>,

    /// The arena also holds the trace's pages that are no slabs: page tables, page cache, stacks
    #[arg(long)]
    other_pages: bool,

    /// Free pages go through a list on each CPU first, as in the kernel
    #[arg(long)]
    pcp: bool,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One allocator. The fields from `failed_event` on are of the run in one page less.
#[derive(Clone, Debug, Serialize)]
struct Row {
    allocator: String,
    pages: u32,
    kb: u64,
    peak_pages: u64,
    replays: u32,
    failed_event: Option<u64>,
    failed: Option<String>,
    failed_call_site: Option<String>,
    failed_bytes: Option<u64>,
    failed_order: Option<u32>,
    /// Of the free pages, in blocks too small for the order.
    unusable_percent: Option<f64>,
    /// Of each order from 0.
    free_blocks: Option<String>,
}

/// What of it stands in the table.
#[derive(Serialize)]
struct Short<'a> {
    allocator: &'a str,
    pages: u32,
    kb: u64,
    peak_pages: u64,
    replays: u32,
}

#[derive(Serialize)]
struct Document<'a> {
    trace: &'a Summary,
    allocators: &'a [Row],
}

impl Row {
    fn new(allocator: &Allocator, boot: Boot) -> Self {
        let failure = boot.failure.as_ref();
        Self {
            allocator: allocator.to_string(),
            pages: boot.pages,
            kb: u64::from(boot.pages) * PAGE_BYTES / KB_BYTES,
            peak_pages: boot.peak_pages,
            replays: boot.replays,
            failed_event: failure.map(|failure| failure.event),
            failed: failure.map(|failure| failure.what.clone()),
            failed_call_site: failure.map(|failure| failure.call_site.clone()),
            failed_bytes: failure.map(|failure| failure.bytes),
            failed_order: failure.map(|failure| failure.order),
            unusable_percent: failure
                .map(|failure| grid::tenths(100.0 * failure.unusable_free_index)),
            free_blocks: failure.map(free_blocks),
        }
    }

    /// What happens in one page less.
    fn tell(&self, failure: &Failure, out: &mut impl Write) -> io::Result<()> {
        let site = match failure.call_site.as_str() {
            "" => String::new(),
            site => format!(" at {site}"),
        };
        let free: u64 = failure
            .free_blocks
            .iter()
            .enumerate()
            .map(|(order, &blocks)| u64::from(blocks) << order)
            .sum();
        writeln!(
            out,
            "{}: in {} pages event {} fails, {} bytes from {}{site}: no block of order {}; \
             {free} free pages, in blocks of order 0 to 10: {}",
            self.allocator,
            self.pages.saturating_sub(1),
            failure.event,
            failure.bytes,
            failure.what,
            failure.order,
            free_blocks(failure),
        )
    }
}

/// As in /proc/buddyinfo.
fn free_blocks(failure: &Failure) -> String {
    failure.free_blocks.map(|blocks| blocks.to_string()).join(" ")
}

impl Args {
    pub(super) fn run(self, out: &mut Output) -> io::Result<()> {
        let Some(input) = self.trace.open(out) else {
            return Ok(());
        };
        if self.other_pages && input.survey.page_offset().is_none() {
            out.fail(
                &input.name,
                &"--other-pages: addresses and page frames of the trace agree on no mapping, so slabs cannot be told apart",
            );
            return Ok(());
        }
        let params = BootParams {
            options: Options {
                other_pages: self.other_pages,
                ..Options::default()
            },
            pcp: self.pcp,
            refs: Refs::default(),
        };
        let mut rows = Vec::new();
        let mut failures = Vec::new();
        for allocator in &self.allocators {
            let bar = bar("bisecting", 1);
            let found = smallest_arena(
                &input.survey,
                allocator,
                params,
                || input.plain_events(),
                |done, of| {
                    bar.set_length(u64::from(of));
                    bar.set_position(u64::from(done));
                },
            );
            bar.finish_and_clear();
            match found {
                Ok(boot) => {
                    failures.push(boot.failure.clone());
                    rows.push(Row::new(allocator, boot));
                }
                Err(error) => {
                    out.fail(&input.name, &error);
                    return Ok(());
                }
            }
        }
        match self.format {
            Format::Csv => grid::csv(&rows, out),
            Format::Json => grid::json(
                &Document {
                    trace: &input.summary(None),
                    allocators: &rows,
                },
                out,
            ),
            Format::Table => {
                let short: Vec<Short<'_>> = rows
                    .iter()
                    .map(|row| Short {
                        allocator: &row.allocator,
                        pages: row.pages,
                        kb: row.kb,
                        peak_pages: row.peak_pages,
                        replays: row.replays,
                    })
                    .collect();
                grid::table(&short, out)?;
                writeln!(out)?;
                for (row, failure) in rows.iter().zip(&failures) {
                    if let Some(failure) = failure {
                        row.tell(failure, out)?;
                    }
                }
                Ok(())
            }
        }
    }
}
