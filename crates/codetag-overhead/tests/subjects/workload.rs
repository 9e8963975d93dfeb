//! Speaks as the workload program does. What it does wrong, if anything, its file's name says.

use std::arch::asm;
use std::process::{ExitCode, abort};

/// Instructions that `extra` runs more than all others: a round of its loop takes two.
const EXTRA_INSTRUCTIONS: u64 = 10_000_000;
const OPS: u64 = 1_000;

/// Runs twice as many instructions as `rounds`.
fn spin(rounds: u64) {
    // SAFETY: counts a register down to zero and touches nothing else.
    unsafe {
        asm!("2:", "dec {0}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack));
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
fn codetag_bench_measured(rounds: u64) {
    spin(rounds);
}

fn main() -> ExitCode {
    let mut args = std::env::args();
    let path = args.next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let args: Vec<String> = args.collect();
    let value = |option: &str| {
        let at = args.iter().position(|arg| arg == option)?;
        args.get(at + 1).cloned()
    };
    let only = value("--only").unwrap_or_default();
    let chosen = ["small.x", "larger.y"].into_iter().filter(|name| name.starts_with(&only));
    match name {
        // In one workload only.
        "crash" if only.is_empty() || only.starts_with("larger") => abort(),
        "fail" => {
            eprintln!("workload: no such luck");
            return ExitCode::FAILURE;
        }
        "hang" => loop {
            std::thread::park();
        },
        "garbage" => println!("Hello, world!"),
        _ => {}
    }
    let state = if name == "liar" { "on" } else { "none" };
    let say = |when: &str| {
        println!("state:{when} {state}\ntracked_objs:{when} 0\ntracked_bytes:{when} 0");
    };
    say("before");
    for workload in chosen {
        match args.first().map(String::as_str) {
            Some("time") => {
                println!("ns:{workload}:8 5.5");
                println!("check:{workload} {}", if name == "wrong" { "bad" } else { "c0ffee" });
            }
            Some("count") => {
                let extra = if name == "extra" { EXTRA_INSTRUCTIONS / 2 } else { 0 };
                // What warms up takes more in every row.
                codetag_bench_measured(8_000_000);
                codetag_bench_measured(1_000 + extra);
                println!("ops:{workload} {OPS}");
            }
            _ => return ExitCode::from(2),
        }
    }
    println!("peak_rss_bytes 1048576");
    say("after");
    ExitCode::SUCCESS
}
