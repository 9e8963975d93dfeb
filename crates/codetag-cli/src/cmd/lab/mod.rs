//! `codetag lab`: slab allocators compared on traces. One file per subcommand; what they share is in
//! [`input`], [`allocators`], [`grid`], [`chart`] and [`bar`].

mod allocators;
mod bar;
mod chart;
mod convert;
mod footprint;
mod generate;
mod grid;
mod input;
mod order;
mod slabinfo;

use crate::output::Output;
use std::io;

/// Replay traces of the kernel's allocations on models of its slab allocators.
///
/// SLOB, SLAB, SLUB and SLUB_TINY are modelled; pages are counted, not seconds. Traces are ftrace text of kmem
/// events, or the lab's own format.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  codetag lab footprint boot.trace.gz --allocators slob,slub,slub-tiny")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Footprint(footprint::Args),
    Order(order::Args),
    Convert(convert::Args),
    Generate(generate::Args),
}

impl Args {
    pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
        match self.command {
            Command::Footprint(args) => args.run(out),
            Command::Order(args) => args.run(out),
            Command::Convert(args) => args.run(out),
            Command::Generate(args) => args.run(out),
        }
    }
}
