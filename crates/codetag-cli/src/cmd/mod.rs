//! The subcommands. A new one is a file here that has an `Args` with a `run`, and a line in the table.

use crate::output::Output;
use std::io;

/// Declares the modules and the enum that clap reads the subcommands' names from.
macro_rules! table {
    ($($(#[$when:meta])* $name:ident => $module:ident,)+) => {
        $($(#[$when])* mod $module;)+

        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $($(#[$when])* $name($module::Args),)+
        }

        impl Command {
            pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
                match self {
                    $($(#[$when])* Self::$name(args) => args.run(out),)+
                }
            }
        }
    };
}

table! {
    Lab => lab,
    Size => size,
    #[cfg(all(target_os = "linux", not(codetag_portable)))]
    Overhead => overhead,
    Show => show,
    Diff => diff,
    Export => export,
    Completions => completions,
    Man => man,
}
