//! Long traces: how long each model takes, and that memory does not grow with them.
//!
//! `CODETAG_LONG=1 cargo test --release -p codetag-lab --test lab long -- --nocapture` replays ten million events on
//! each model and prints the seconds of CPU time and the process's memory; without it the traces are short.

use codetag_lab::allocator::{Allocator, Refs};
use codetag_lab::event::Source;
use codetag_lab::model::Model;
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay};
use codetag_lab::survey::Survey;
use codetag_lab::trace::{Synthetic, SyntheticSpec, TraceFile, Writer};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

const LIVE_OBJS_MAX: usize = 100_000;

fn is_long() -> bool {
    std::env::var_os("CODETAG_LONG").is_some_and(|value| value == "1")
}

/// In the lab's own format.
fn write_trace(path: &Path, events: u64) {
    let mut source = Synthetic::new(SyntheticSpec {
        seed: 1,
        events,
        live_objs_max: LIVE_OBJS_MAX,
        cpus: 1,
    });
    let mut writer = Writer::new(BufWriter::new(File::create(path).unwrap())).unwrap();
    while let Some(event) = source.next_event().unwrap() {
        writer.write(&event, source.names()).unwrap();
    }
    writer.finish().unwrap();
}

/// Seconds that this thread ran on a CPU: what else the machine does is not in it.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns: f64 = stat
        .split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0.0);
    ns / 1e9
}

/// Peak resident memory of this process, in kB.
fn peak_rss_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[test]
fn every_model_replays_a_long_trace() {
    let lengths: &[u64] = if is_long() {
        &[1_000_000, 10_000_000]
    } else {
        &[5_000, 50_000]
    };
    let directory = tempfile::tempdir().unwrap();
    for &events in lengths {
        let path = directory.path().join("long.trace");
        write_trace(&path, events);
        let trace = TraceFile::open(&path).unwrap();
        let start = cpu_seconds();
        let survey = Survey::of(&mut trace.events().unwrap()).unwrap();
        println!("{events} events: survey {:.2} s", cpu_seconds() - start);
        let names = [
            "slub",
            "slub-nomerge",
            "slub-debug",
            "slub-nocpuslab",
            "tiny",
            "slab",
            "slob",
            "slob-2list",
            "slob-1list",
        ];
        for name in names {
            let allocator: Allocator = name.parse().unwrap();
            let model = allocator.build(1, Refs::default());
            let start = cpu_seconds();
            let mut replay = Replay::new(
                &survey,
                model,
                PageAllocator::unlimited(),
                Options::default(),
            );
            replay.run(&mut trace.events().unwrap()).unwrap();
            let seconds = cpu_seconds() - start;
            println!(
                "{events} events: {name} {seconds:.2} s, peak RSS {} kB",
                peak_rss_kb()
            );
            let counts = replay.counts();
            assert_eq!(counts.events, events);
            assert_eq!(
                (
                    counts.unmatched_frees,
                    counts.missed_frees,
                    counts.failed_allocs
                ),
                (0, 0, 0)
            );
            assert_eq!(counts.allocs - counts.frees, replay.live_objs());
            assert!(replay.live_objs() <= LIVE_OBJS_MAX as u64);
            let usage = replay.model().usage();
            assert_eq!(usage.pages(), replay.allocator_pages(), "{name}");
            assert!(usage.pages() * 4096 > replay.live_bytes(), "{name}");
        }
    }
}
