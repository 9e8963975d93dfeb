//! The command `codetag` as a library. `cmd` holds one file per subcommand.

#![forbid(unsafe_code)]

mod cmd;
mod figures;
mod input;
mod output;
mod sink;

use clap::Parser;
use std::process::ExitCode;

/// Which code owns the heap, and what it costs to know.
#[derive(Debug, Parser)]
#[command(name = "codetag", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 all was done, 1 some input could not be used, 2 wrong usage."
)]
struct Cli {
    #[command(subcommand)]
    command: cmd::Command,
}

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    output::run(|out| cli.command.run(out))
}
