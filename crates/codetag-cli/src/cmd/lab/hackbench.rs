//! `codetag lab hackbench`: a cache of SLUB under messages that are freed on other CPUs.

use super::bar::bar;
use super::grid;
use crate::output::{Format, Output};
use clap::ValueEnum;
use codetag_lab::hackbench::{HackbenchParams, Stage, adversary, hackbench};
use codetag_lab::slabinfo;
use codetag_lab::slub::CpuPartial;
use serde::Serialize;
use std::io::{self, Write};

/// Run the pattern of hackbench on a model of SLUB and print the cache's line of slabinfo at each stage.
///
/// Groups of 20 senders and 20 receivers exchange messages; a message is allocated on the sender's CPU and freed on
/// the receiver's. The line is printed before, after each run, and after the cache was shrunk. Which task runs
/// where is made up, from the seed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    codetag lab hackbench --groups 80 --runs 3 --cpus 8 --cpu-partial estimate\n  \
    codetag lab hackbench --cpus 2 --adversary 1000\n\n\
    Exit status: 0 all was done, 2 wrong usage.")]
pub(super) struct Args {
    /// Groups of 40 tasks
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    groups: u32,

    /// Runs, one after the other
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Messages from each sender to each receiver of its group, in one run
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    loops: u32,

    /// CPUs
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: u16,

    /// How the slabs that a CPU keeps are bounded: not at all kept, in slabs (since 5.16), by an estimate (before)
    #[arg(long, value_enum, default_value_t = Bound::Slabs)]
    cpu_partial: Bound,

    /// Bytes of a message's object
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = clap::value_parser!(u32).range(8..=8192))]
    size: u32,

    /// Where the pseudo-random numbers start
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Instead of messages the worst case: one CPU fills so many slabs, the last one frees them, slab by slab
    #[arg(long, value_name = "SLABS", conflicts_with_all = ["groups", "runs", "loops"], value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    adversary: Option<u32>,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Bound {
    Off,
    Slabs,
    Estimate,
}

impl From<Bound> for CpuPartial {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::Off => Self::Off,
            Bound::Slabs => Self::Slabs,
            Bound::Estimate => Self::Estimate,
        }
    }
}

/// The cache at one stage.
#[derive(Clone, Debug, Serialize)]
struct Row {
    stage: String,
    cache: String,
    active_objs: u64,
    num_objs: u64,
    slot_bytes: u32,
    objs_per_slab: u32,
    order: u32,
    num_slabs: u64,
    live_objs: u64,
    node_partial_slabs: u64,
    cpu_partial_slabs: u64,
    /// The most that were on one CPU's list since the last stage.
    peak_cpu_partial_slabs: u32,
    /// The most slots since the last stage.
    peak_objs: u64,
}

impl Row {
    fn new(stage: &Stage) -> Self {
        let usage = &stage.usage;
        Self {
            stage: stage.when.clone(),
            cache: usage.name.clone(),
            active_objs: usage.active_objs,
            num_objs: usage.slots,
            slot_bytes: usage.slot_bytes,
            objs_per_slab: usage.objs_per_slab,
            order: usage.order,
            num_slabs: usage.slabs,
            live_objs: usage.live_objs,
            node_partial_slabs: usage.partial_slabs,
            cpu_partial_slabs: stage.cpu_partial.iter().copied().map(u64::from).sum(),
            peak_cpu_partial_slabs: stage.peak_cpu_partial,
            peak_objs: stage.peak_slots,
        }
    }
}

/// What does not fit into a line of slabinfo.
#[derive(Serialize)]
struct Beside<'a> {
    stage: &'a str,
    live_objs: u64,
    node_partial_slabs: u64,
    cpu_partial_slabs: u64,
    peak_cpu_partial_slabs: u32,
    peak_objs: u64,
}

impl Args {
    pub(super) fn run(self, out: &mut Output) -> io::Result<()> {
        let params = HackbenchParams {
            groups: self.groups as usize,
            loops: self.loops as usize,
            runs: self.runs as usize,
            cpus: self.cpus,
            cpu_partial: self.cpu_partial.into(),
            object_bytes: self.size,
            seed: self.seed,
            ..HackbenchParams::default()
        };
        let stages = match self.adversary {
            Some(slabs) => adversary(params, slabs as usize),
            None => {
                let bar = bar("running", 1);
                let stages = hackbench(params, |received, of| {
                    bar.set_length(of);
                    bar.set_position(received);
                });
                bar.finish_and_clear();
                stages
            }
        };
        let stages = match stages {
            Ok(stages) => stages,
            Err(error) => {
                out.fail("hackbench", &error);
                return Ok(());
            }
        };
        let rows: Vec<Row> = stages.iter().map(Row::new).collect();
        match self.format {
            Format::Json => grid::json(&rows, out),
            Format::Csv => grid::csv(&rows, out),
            Format::Table => {
                writeln!(out, "{}", slabinfo::HEADER)?;
                for stage in &stages {
                    writeln!(out, "{}  # {}", slabinfo::Line(&stage.usage), stage.when)?;
                }
                let beside: Vec<Beside<'_>> = rows
                    .iter()
                    .map(|row| Beside {
                        stage: &row.stage,
                        live_objs: row.live_objs,
                        node_partial_slabs: row.node_partial_slabs,
                        cpu_partial_slabs: row.cpu_partial_slabs,
                        peak_cpu_partial_slabs: row.peak_cpu_partial_slabs,
                        peak_objs: row.peak_objs,
                    })
                    .collect();
                writeln!(out)?;
                grid::table(&beside, out)
            }
        }
    }
}
