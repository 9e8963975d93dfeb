//! The command `codetag`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    codetag_cli::main()
}
