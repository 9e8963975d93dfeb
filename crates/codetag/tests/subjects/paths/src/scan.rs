//! How long a report takes: of a GiB of 64-byte objects, and of 5,000 tags. Prints milliseconds, the fastest of its
//! turns; run it on a quiet machine, built for release.
//!
//! ```text
//! codetag-subject-scan [MIB [TURNS]]
//! codetag-subject-scan steady [MIB [TURNS]]
//! ```
//!
//! `steady` tells what a snapshot each second costs a program that goes on meanwhile: the operations that it gets
//! done in two seconds with them, to those in two seconds without, turn by turn.

use codetag::__private::{CodeTag, TagGuard};
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

const OBJECT_BYTES: usize = 64;
const TAGS: usize = 5_000;

/// One object.
type Object = Box<[u64; OBJECT_BYTES / 8]>;

/// Objects of one tag after the other, in turn: `run` of each at a time.
fn fill(objs: usize, tags: &'static [CodeTag], run: usize) -> Vec<Object> {
    let mut held = Vec::with_capacity(objs);
    for tag in tags.iter().cycle() {
        let _scope = TagGuard::enter(tag);
        for _ in 0..run.min(objs - held.len()) {
            held.push(Box::new([1; OBJECT_BYTES / 8]));
        }
        if held.len() == objs {
            break;
        }
    }
    held
}

fn tags(n: usize) -> &'static [CodeTag] {
    let tag = |i| {
        let text = format!(
            "scan::m{}\0function_{i}\0src/scan/file_{}.rs\0",
            i % 100,
            i % 300
        );
        CodeTag::__new(text.leak(), 1 + i as u32, 1)
    };
    Box::leak((0..n).map(tag).collect())
}

/// The fastest of the turns, in milliseconds.
fn fastest_ms(turns: u32, mut f: impl FnMut()) -> f64 {
    (0..turns)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e3
        })
        .fold(f64::INFINITY, f64::min)
}

/// Replaces objects of a heap of so many for two seconds; returns how many.
fn replace_for_two_seconds(held: &mut [Object]) -> u64 {
    let (start, mut done, mut at) = (Instant::now(), 0, 0);
    while start.elapsed() < Duration::from_secs(2) {
        for _ in 0..1000 {
            // Any walk that does not repeat soon.
            at = (at + 7_368_787) % held.len();
            // The old one goes after the new one came.
            let new: Object = Box::new([done; OBJECT_BYTES / 8]);
            drop(std::mem::replace(&mut held[at], new));
            done += 1;
        }
    }
    done
}

fn steady(mib: usize, turns: u32) {
    let mut held = fill((mib << 20) / OBJECT_BYTES, tags(TAGS), 100);
    let _scope = TagGuard::enter(&tags(1)[0]);
    let mut ratios: Vec<f64> = (0..turns)
        .map(|_| {
            let without = replace_for_two_seconds(&mut held);
            let (stop, stopped) = mpsc::channel::<()>();
            let reporter = std::thread::spawn(move || {
                let each = Duration::from_secs(1);
                while stopped.recv_timeout(each) == Err(mpsc::RecvTimeoutError::Timeout) {
                    drop(codetag::Snapshot::take());
                }
            });
            let with = replace_for_two_seconds(&mut held);
            drop(stop);
            reporter.join().expect("the reporter ends");
            with as f64 / without as f64
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!("steady_ratio:median {:.4}", ratios[ratios.len() / 2]);
    println!("steady_ratio:least {:.4}", ratios[0]);
}

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let is_steady = args.next_if(|arg| arg == "steady").is_some();
    let mut args = args.map_while(|arg| arg.parse().ok());
    let mib = args.next().unwrap_or(1024) as usize;
    let turns: u32 = args.next().unwrap_or(10);
    codetag::enable().expect("profiling can be turned on");
    if is_steady {
        return steady(mib, turns);
    }
    let objs = (mib << 20) / OBJECT_BYTES;
    for (name, tags, run) in [
        ("one_tag", tags(1), 1),
        ("16_tags_in_turn", tags(16), 1),
        ("5000_tags_in_runs_of_100", tags(TAGS), 100),
        ("5000_tags_in_turn", tags(TAGS), 1),
    ] {
        let held = fill(objs, tags, run);
        let mut counted = 0;
        let scan = fastest_ms(turns, || {
            counted = codetag::Snapshot::take()
                .usages()
                .map(|u| u.live_objs)
                .sum();
        });
        let page = fastest_ms(turns, || drop(codetag::show_mem().to_string()));
        let list = fastest_ms(turns, || drop(codetag::allocinfo().to_string()));
        assert!(counted >= held.len() as u64);
        println!("scan_ms:{name} {scan:.2}");
        println!("show_mem_ms:{name} {page:.2}");
        println!("allocinfo_ms:{name} {list:.2}");
        drop(held);
    }
}
