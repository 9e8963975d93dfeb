//! The program that the benches run: allocates and frees in known patterns, and times or counts itself.
//!
//! ```text
//! workload list
//! workload time [--only PREFIX] [--quick] [--seed N] [--enable] [--repeats N]
//! workload count [--only PREFIX] [--quick] [--seed N] [--enable]
//! workload memory [--enable]
//! workload hoard [--quick] [--seed N] [--enable]
//! ```
//!
//! `list` prints the workloads. `time` prints nanoseconds per operation, the fastest of its repeats for each workload
//! and size, and a histogram of all. `count` runs each workload twice in `codetag_bench_measured`, for Callgrind to
//! count the second run. `memory` prints what codetag's tables take per object, `hoard` what the heap keeps after
//! messages went from thread to thread.
//!
//! All print `key value` lines, and among them what the allocator says of itself, how many of a known number of live
//! objects it tracked, and the peak of the resident memory. `check:NAME` is a checksum of what the workload came to:
//! the same for one seed under any allocator and any scheduling.
//!
//! The order of modules is that of reading: what a measurement is made of, the workloads, what runs them.

mod mix;
mod samples;
mod scale;

mod larger;
mod patterns;

#[cfg(allocator = "codetag")]
#[path = "confirm_codetag.rs"]
mod confirm;
#[cfg(not(allocator = "codetag"))]
#[path = "confirm_none.rs"]
mod confirm;
mod peers;
mod report;

mod args;
mod driver;
mod measured;

#[cfg(test)]
mod tests;

use std::io::Write;
use std::process::ExitCode;

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    let args = match args::parse(lexopt::Parser::from_env()) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("workload: {error}\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let done = driver::run(&args, measured::codetag_bench_measured).and_then(|report| {
        std::io::stdout()
            .write_all(report.text().as_bytes())
            .map_err(|error| format!("stdout: {error}"))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("workload: {error}");
            ExitCode::FAILURE
        }
    }
}
