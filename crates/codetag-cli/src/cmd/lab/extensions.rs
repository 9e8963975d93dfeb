//! `codetag lab extensions`: what tagging every allocation of a trace costs in memory.

use super::grid;
use super::input::{Input, Summary, TraceArgs};
use crate::output::{Format, Output};
use codetag_lab::allocator::Allocator;
use codetag_lab::event::{ReadError, Source};
use codetag_lab::extensions::{
    Extensions, REF_BYTES, SlabCost, page_ref_bytes, tag_and_counter_bytes,
};
use codetag_lab::kernel::PAGE_BYTES;
use codetag_lab::replay::Tagging;
use serde::Serialize;
use std::io::{self, Write};

/// Replay a trace with a tag ref for each object, and print what the refs take.
///
/// Refs are pointers of 8 bytes, as the kernel keeps them, refs of 4 bytes, or ids of 2 bytes; in a vector per slab
/// that is made with the slab's first tagged object or with the slab, in SLOB in each block. Beside them stand
/// the tags, their counters on each CPU, and refs for the pages of the machine.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:\n  \
    codetag lab extensions boot.trace.gz --allocators slob,slub,tiny\n  \
    codetag lab extensions boot.trace.gz --memory 8 --tags 4000 --cpus 2 --from-event 20000\n\n{}\n\n\
    Exit status: 0 all was done, 1 some of the trace could not be used, 2 wrong usage.", super::ALLOCATORS_HELP))]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArgs,

    /// Allocators, with commas between
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "slob,slab,slub,tiny")]
    allocators: Vec<Allocator>,

    /// Objects before this event, counted from 1, get no ref: profiling that is enabled at run time
    #[arg(long, value_name = "N", default_value_t = 0)]
    from_event: u64,

    /// Only objects that are charged to a memory cgroup get a ref
    #[arg(long)]
    accounted_only: bool,

    /// Tags, for their own size and that of their counters; the call sites of the trace otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1 << 32))]
    tags: Option<u64>,

    /// Memory of the machine in MiB, for the refs of its pages
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    memory: u64,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One way to keep refs on one allocator.
#[derive(Clone, Debug, Serialize)]
struct Row {
    allocator: String,
    ref_bytes: u32,
    made: &'static str,
    objs: u64,
    vectors: u64,
    vector_bytes: u64,
    /// Bytes of refs for each page that the allocator takes without them.
    bytes_per_page: f64,
    pages_without: u64,
    pages_with: u64,
    more_percent: f64,
    failures: u64,
}

/// What does not depend on the allocator.
#[derive(Clone, Debug, Serialize)]
struct Others {
    tags: u64,
    cpus: u64,
    tag_bytes: u64,
    counter_bytes: u64,
    machine_pages: u64,
    page_ref_bytes: [u64; REF_BYTES.len()],
}

#[derive(Serialize)]
struct Document<'a> {
    trace: &'a Summary,
    slabs: &'a [Row],
    others: &'a Others,
}

impl Row {
    fn new(cost: SlabCost) -> Self {
        let (without, with) = cost.pages;
        let per_page = |value: f64| grid::tenths(value / without.max(1) as f64);
        Self {
            allocator: cost.allocator,
            ref_bytes: cost.ref_bytes,
            made: if cost.eager { "with the slab" } else { "when tagged" },
            objs: cost.objs,
            vectors: cost.vectors,
            vector_bytes: cost.vector_bytes,
            bytes_per_page: per_page(cost.vector_bytes as f64),
            pages_without: without,
            pages_with: with,
            more_percent: per_page(100.0 * (with as f64 - without as f64)),
            failures: cost.failures,
        }
    }
}

impl Args {
    pub(super) fn run(self, out: &mut Output) -> io::Result<()> {
        let tagging = Tagging {
            from_event: self.from_event,
            accounted_only: self.accounted_only,
        };
        let Some(input) = self.trace.open(out) else {
            return Ok(());
        };
        let extensions = match replay(&input, &self.allocators, tagging) {
            Ok(extensions) => extensions,
            Err(error) => {
                out.fail(&input.name, &error);
                return Ok(());
            }
        };
        let rows: Vec<Row> = extensions.costs().into_iter().map(Row::new).collect();
        let counted = extensions.others();
        let tags = self.tags.unwrap_or(counted.tags);
        let (tag_bytes, counter_bytes) = tag_and_counter_bytes(tags, counted.cpus);
        let machine_pages = (self.memory << 20) / PAGE_BYTES;
        let others = Others {
            tags,
            cpus: counted.cpus,
            tag_bytes,
            counter_bytes,
            machine_pages,
            page_ref_bytes: REF_BYTES.map(|bytes| page_ref_bytes(machine_pages, bytes)),
        };
        match self.format {
            Format::Csv => grid::csv(&rows, out),
            Format::Json => grid::json(
                &Document {
                    trace: &input.summary(None),
                    slabs: &rows,
                    others: &others,
                },
                out,
            ),
            Format::Table => {
                grid::table(&rows, out)?;
                others.tell(out)
            }
        }
    }
}

impl Others {
    fn tell(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "\n{} tags: {} bytes; their counters on {} CPU{}: {} bytes",
            self.tags,
            self.tag_bytes,
            self.cpus,
            if self.cpus == 1 { "" } else { "s" },
            self.counter_bytes
        )?;
        let refs: Vec<String> = REF_BYTES
            .iter()
            .zip(self.page_ref_bytes)
            .map(|(size, bytes)| format!("{bytes} of {size}"))
            .collect();
        writeln!(
            out,
            "refs of {} pages, in bytes: {}",
            self.machine_pages,
            refs.join(", ")
        )
    }
}

fn replay<'s>(
    input: &'s Input,
    allocators: &[Allocator],
    tagging: Tagging,
) -> Result<Extensions<'s>, ReadError> {
    let mut extensions = Extensions::new(&input.survey, allocators, tagging, true);
    let mut events = input.events("replaying")?;
    while let Some(event) = events.next_event()? {
        extensions.apply(&event, events.names());
    }
    Ok(extensions)
}
