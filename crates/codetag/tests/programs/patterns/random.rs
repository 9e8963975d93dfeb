//! Random work on several threads, stopped at random points at which every figure must be exact.

use super::label;
use crate::block::{Block, layout};
use crate::check::{quiet_point, turn_off, turn_on};
use crate::labels::within;
use crate::page::quiet_texts;
use crate::runner::Program;
use fastrand::Rng;
use std::sync::{Barrier, Mutex};
use std::thread;

const POINTS: usize = 1000;
const THREADS: usize = 3;
const SHELF: usize = 600;

pub(super) fn programs() -> Vec<Program> {
    vec![Program::new(
        "a_thousand_random_quiet_points_of_several_threads_are_exact",
        points,
    )]
}

type Shelf = [Mutex<Option<Block>>];

fn size(rng: &mut Rng) -> usize {
    let most = match rng.u8(0..100) {
        0 => 1 << 20,
        1..5 => 64 << 10,
        5..25 => 16 << 10,
        25..60 => 2000,
        _ => 200,
    };
    rng.usize(1..=most)
}

/// Makes, changes or frees a block that anyone may have made.
fn work(rng: &mut Rng, shelf: &Shelf) {
    let mut place = shelf[rng.usize(..shelf.len())].lock().unwrap();
    let within_some = if rng.u8(..4) == 0 {
        0
    } else {
        label(rng.usize(..100))
    };
    match place.as_mut() {
        None => {
            let align = 1
                << if rng.u8(..50) == 0 {
                    rng.u8(5..20)
                } else {
                    rng.u8(..5)
                };
            *place = within(within_some, || Block::new(layout(size(rng), align)));
        }
        Some(block) if rng.bool() => assert!(within(within_some, || block.realloc(size(rng)))),
        Some(_) => *place = None,
    }
}

/// What a thread does between two points, strings and vectors of the library's included.
fn some_work(rng: &mut Rng, shelf: &Shelf, words: &mut Vec<String>) {
    for _ in 0..rng.u32(..60) {
        work(rng, shelf);
    }
    within(label(rng.usize(..100)), || {
        words.push("x".repeat(rng.usize(..300)));
    });
    if words.len() > 40 {
        words.drain(..rng.usize(1..40));
    }
}

fn points() {
    let seed = std::env::var("CODETAG_MODEL_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("CODETAG_MODEL_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let shelf: Vec<Mutex<Option<Block>>> = (0..SHELF).map(|_| Mutex::new(None)).collect();
    let (shelf, meet) = (&shelf[..], &Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        let worker = |t| {
            let mut rng = Rng::with_seed(seed ^ (t as u64 + 1));
            scope.spawn(move || {
                let mut words = Vec::new();
                for _ in 0..POINTS {
                    some_work(&mut rng, shelf, &mut words);
                    meet.wait();
                    meet.wait();
                }
            })
        };
        let workers: Vec<_> = (0..THREADS).map(worker).collect();
        let mut words = Vec::new();
        for point in 0..POINTS {
            some_work(&mut rng, shelf, &mut words);
            if rng.u8(..10) == 0 {
                // A thread that comes and goes; what it leaves is others'.
                let mut theirs = rng.fork();
                let short = thread::spawn(move || {
                    let mut blocks = Vec::new();
                    for _ in 0..20 {
                        blocks.push(within(7, || Block::new(layout(size(&mut theirs), 8))));
                    }
                    blocks.swap_remove(3)
                });
                let left = short.join().unwrap();
                let old = shelf[rng.usize(..SHELF)]
                    .lock()
                    .unwrap()
                    .replace(left.unwrap());
                drop(old);
            }
            meet.wait();
            change(&mut rng, point);
            quiet_point("a random point");
            if point % 100 == 0 {
                quiet_texts("a random point");
            }
            meet.wait();
        }
        // To the last thread-local, which the end of the scope does not wait for.
        for worker in workers {
            worker.join().unwrap();
        }
    });
    quiet_point("all have ended");
}

/// While all others are parked: sometimes the switch, sometimes a shrink.
fn change(rng: &mut Rng, point: usize) {
    match if point == 0 { 1 } else { rng.u8(..100) } {
        0 => turn_off(),
        1..4 => turn_on(),
        4 => {
            turn_off();
            turn_on();
        }
        5..10 => {
            codetag::shrink();
        }
        _ => {}
    }
}
