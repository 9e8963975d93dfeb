//! `codetag man`: manual pages.

use crate::output::Output;
use clap::CommandFactory;
use clap_mangen::Man;
use std::io;

/// Print the manual page of codetag, or of one of its subcommands.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  codetag man diff | man -l -")]
pub(crate) struct Args {
    /// A subcommand
    command: Option<String>,
}

impl Args {
    pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
        let mut command = crate::Cli::command();
        command.build();
        if let Some(name) = &self.command {
            let Some(subcommand) = command.find_subcommand(name) else {
                out.misuse(name, &"is no subcommand");
                return Ok(());
            };
            command = subcommand.clone();
        }
        Man::new(command).render(out)
    }
}
