//! `codetag completions`: completions for a shell.

use crate::output::Output;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    codetag completions bash > ~/.local/share/bash-completion/completions/codetag")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Args {
    pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
        // The generator panics if it cannot write: into memory it can.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Cli::command(), "codetag", &mut text);
        out.write_all(&text)
    }
}
