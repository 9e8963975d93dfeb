//! `codetag lab`: slab allocators compared on traces. One file per subcommand; what they share is in
//! [`input`], [`grid`], [`chart`] and [`bar`].

mod bar;
mod boot;
mod chart;
mod convert;
mod extensions;
mod footprint;
mod generate;
mod grid;
mod hackbench;
mod input;
mod order;

use crate::output::Output;
use std::io;

/// Replay traces of the kernel's allocations on models of its slab allocators.
///
/// SLOB, SLAB, SLUB and SLUB_TINY are modelled; pages are counted, not seconds. Traces are ftrace text of kmem
/// events, or the lab's own format.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  codetag lab footprint boot.trace.gz --allocators slob,slub,tiny")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// Behind the examples of subcommands that take allocators.
const ALLOCATORS_HELP: &str = "\
Allocators are one of these with options behind hyphens, as slub-nomerge-order1:
  slob  1list, 2list (three otherwise), norotate
  slab  nomerge, small (32 MiB or less: order 0)
  slub  nomerge, order0 … order10 (slub_max_order), debug (slub_debug=FZPU), nocpuslab, nocpupartial,
        estimate (bound of the CPU partial lists before 5.16), memcg
  tiny  SLUB_TINY: nomerge, order0 … order10 (1 otherwise)";

#[derive(Debug, clap::Subcommand)]
enum Command {
    Footprint(footprint::Args),
    Boot(boot::Args),
    Hackbench(hackbench::Args),
    Extensions(extensions::Args),
    Order(order::Args),
    Convert(convert::Args),
    Generate(generate::Args),
}

impl Args {
    pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
        match self.command {
            Command::Footprint(args) => args.run(out),
            Command::Boot(args) => args.run(out),
            Command::Hackbench(args) => args.run(out),
            Command::Extensions(args) => args.run(out),
            Command::Order(args) => args.run(out),
            Command::Convert(args) => args.run(out),
            Command::Generate(args) => args.run(out),
        }
    }
}
