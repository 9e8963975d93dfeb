//! `codetag lab generate`: a trace that nobody recorded.

use super::bar::bar;
use super::convert;
use crate::output::Output;
use codetag_lab::trace::{Synthetic, SyntheticSpec};
use std::io;

/// Write a made-up trace to standard output, for measuring.
///
/// Allocations of sizes as kernels have them and frees in random order; the same arguments give the same
/// trace. In the lab's own format, which docs/TRACE.md describes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    codetag lab generate --events 10000000 --live 100000 > long.codetag\n  \
    codetag lab generate --events 100000 --cpus 4 --seed 7 | codetag lab footprint -\n\n\
    Exit status: 0 all was done, 2 wrong usage.")]
pub(super) struct Args {
    /// How many events
    #[arg(long, value_name = "N")]
    events: u64,

    /// At most so many objects are live at a time
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    live: u32,

    /// CPUs that the events are spread over
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: u16,

    /// Where the pseudo-random numbers start
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Args {
    pub(super) fn run(self, out: &mut Output) -> io::Result<()> {
        let mut source = Synthetic::new(SyntheticSpec {
            seed: self.seed,
            events: self.events,
            live_objs_max: self.live as usize,
            cpus: self.cpus,
        });
        let bar = bar("generating", self.events);
        // Nothing is read, so nothing can fail but the output.
        convert::write(&mut source, out)?;
        bar.finish_and_clear();
        Ok(())
    }
}
