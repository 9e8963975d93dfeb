//! Opens a trace, looks through it once, and says what is wrong with it.

use super::bar::WithBar;
use crate::output::Output;
use codetag_lab::allocator::{Allocator, Refs};
use codetag_lab::event::{ReadCounts, ReadError, Source};
use codetag_lab::model::Model;
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay, ReplayCounts};
use codetag_lab::survey::{Survey, Traced};
use codetag_lab::trace::{Events, NameShares, TraceFile};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// Bytes of what the kernel's files call kB.
pub(super) const KB_BYTES: u64 = 1024;

/// What every subcommand says that replays a trace.
#[derive(Debug, clap::Args)]
pub(super) struct TraceArgs {
    /// ftrace text of kmem events or the lab's own format, plain or gzip; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Model a machine of so many CPUs, at least those that the trace has events of
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: Option<u16>,
}

/// A trace that can be replayed.
#[derive(Debug)]
pub(super) struct Input {
    /// The file, as it was named.
    pub(super) name: String,
    file: TraceFile,
    pub(super) survey: Survey,
    counts: ReadCounts,
    shares: NameShares,
}

impl TraceArgs {
    /// Reads the trace once. What is wrong with it, or with the arguments, goes to stderr; `None` if nothing can be done.
    pub(super) fn open(self, out: &mut Output) -> Option<Input> {
        let name = self.trace.display().to_string();
        match self.read(&name, out) {
            Ok(input) => input,
            Err(error) => {
                out.fail(&name, &error);
                None
            }
        }
    }

    fn read(&self, name: &str, out: &mut Output) -> Result<Option<Input>, ReadError> {
        let file = TraceFile::open(&self.trace)?;
        let mut source = WithBar::new(file.events()?, "reading", file.stored_bytes());
        let survey = Survey::of(&mut source)?;
        let survey = match self.cpus {
            Some(cpus) if cpus < survey.cpus() => {
                out.misuse(
                    "--cpus",
                    &format!("the trace has events of {} CPUs", survey.cpus()),
                );
                return Ok(None);
            }
            Some(cpus) => survey.with_cpus(cpus),
            None => survey,
        };
        let events = &source.inner;
        report(name, events, out);
        Ok(Some(Input {
            name: name.to_owned(),
            counts: events.counts(),
            shares: events.name_shares(),
            survey,
            file,
        }))
    }
}

/// Says on stderr what could not be used of a trace that was read to its end.
pub(super) fn report(name: &str, events: &Events, out: &mut Output) {
    if let Some(first) = events.malformed() {
        match events.counts().malformed_lines - 1 {
            0 => out.fail(name, first),
            more => out.fail(name, &format!("{first} (and {more} more lines)")),
        }
    }
    if let Some(cut) = events.truncated() {
        out.fail(name, cut);
    }
}

impl Input {
    /// Starts another pass.
    pub(super) fn plain_events(&self) -> Result<Events, ReadError> {
        self.file.events()
    }

    /// Starts another pass, with a bar that says `what` is done.
    pub(super) fn events(&self, what: &'static str) -> Result<WithBar<Events>, ReadError> {
        Ok(WithBar::new(
            self.file.events()?,
            what,
            self.file.stored_bytes(),
        ))
    }

    /// A replay of this trace that has seen no event, on as many pages as it wants.
    pub(super) fn replay(
        &self,
        allocator: &Allocator,
        refs: Refs,
    ) -> Replay<'_, Box<dyn Model>> {
        let model = allocator.build(self.survey.cpus(), refs);
        Replay::new(
            &self.survey,
            model,
            PageAllocator::unlimited(),
            Options::default(),
        )
    }

    /// What was read, and what did not go as the trace says if it was replayed to its end, on any allocator.
    pub(super) fn summary(&self, replayed: Option<ReplayCounts>) -> Summary {
        let inferred = self.survey.inferred();
        let percent = |part: u64, whole: u64| {
            super::grid::tenths(100.0 * part as f64 / whole.max(1) as f64)
        };
        let bytes = self.shares.total_bytes();
        let allocs = inferred.cache_allocs;
        Summary {
            trace: self.name.clone(),
            traced_allocator: match self.survey.traced() {
                Traced::Slub => "slub",
                Traced::Slab => "slab",
                Traced::Slob => "slob",
                Traced::Unknown => "unknown",
            },
            cpus: self.survey.cpus(),
            events: self.counts.events,
            null_frees: self.counts.null_frees,
            lost_events: self.counts.lost_events,
            malformed_lines: self.counts.malformed_lines,
            truncated: self.counts.truncated,
            replay: replayed.map(|counts| Replayed {
                allocs: counts.allocs,
                frees: counts.frees,
                unmatched_frees: counts.unmatched_frees,
                missed_frees: counts.missed_frees,
            }),
            names_by_event_percent: percent(self.shares.event_bytes, bytes),
            names_by_free_percent: percent(self.shares.free_bytes, bytes),
            names_by_sibling_percent: percent(self.shares.sibling_bytes, bytes),
            names_made_up_percent: percent(self.shares.site_bytes, bytes),
            size_from_slot_percent: percent(inferred.size_from_slot, allocs),
            align_from_address_percent: percent(inferred.align_from_address, allocs),
            unknown_flags_percent: percent(inferred.unknown_flags, allocs),
        }
    }
}

/// What a trace was and how much of its replay is inferred. Names are in per cent of the bytes that
/// `kmem_cache_alloc` took, the rest in per cent of its calls.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    trace: String,
    traced_allocator: &'static str,
    cpus: u16,
    events: u64,
    null_frees: u64,
    lost_events: u64,
    malformed_lines: u64,
    truncated: bool,
    #[serde(flatten)]
    replay: Option<Replayed>,
    names_by_event_percent: f64,
    names_by_free_percent: f64,
    names_by_sibling_percent: f64,
    names_made_up_percent: f64,
    size_from_slot_percent: f64,
    align_from_address_percent: f64,
    unknown_flags_percent: f64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Replayed {
    allocs: u64,
    frees: u64,
    /// Frees of what is not live: allocated before the trace, or the allocation was lost.
    unmatched_frees: u64,
    /// Allocations at live addresses: the free was lost.
    missed_frees: u64,
}

impl Summary {
    /// A few lines for people.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let replay = self.replay.unwrap_or_default();
        writeln!(
            out,
            "{} events on {} CPU{}, traced with {}: {} allocations, {} frees",
            self.events,
            self.cpus,
            if self.cpus == 1 { "" } else { "s" },
            self.traced_allocator,
            replay.allocs,
            replay.frees,
        )?;
        let odd: Vec<String> = [
            (self.lost_events, "lost events"),
            (replay.unmatched_frees, "frees of nothing live"),
            (replay.missed_frees, "allocations at live addresses"),
            (self.malformed_lines, "lines that could not be read"),
            (u64::from(self.truncated), "end that is missing"),
        ]
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        if !odd.is_empty() {
            writeln!(out, "not as it should be: {}", odd.join(", "))?;
        }
        writeln!(
            out,
            "cache names, of bytes: {} % from the event, {} % from the object's free, {} % from others of its call site, {} % made up",
            self.names_by_event_percent,
            self.names_by_free_percent,
            self.names_by_sibling_percent,
            self.names_made_up_percent,
        )?;
        writeln!(
            out,
            "inferred, of cache allocations: {} % the size, {} % the alignment, {} % the flags",
            self.size_from_slot_percent,
            self.align_from_address_percent,
            self.unknown_flags_percent,
        )
    }
}
