//! A server's churn, after Larson and Krishnan: threads replace objects of random sizes in random places of an array,
//! then hand the array on to another thread, which goes on with it and so frees what others allocated. Threads end
//! too, and new ones take over what is left.

use super::{Larger, Outcome, Setup, at_peak, expect};
use crate::mix;
use crate::samples::Lane;
use fastrand::Rng;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

const THREADS: usize = 2;
/// How often all threads are new ones.
const GENERATIONS: usize = 4;
/// How often a thread hands its array on.
const ROUNDS: usize = 4;
const OBJS: usize = 4_000;
const OBJ_BYTES_MIN: u64 = 8;
const OBJ_BYTES_MAX: u64 = 1_000;
/// Objects that are replaced between two readings of the clock.
const BATCH_LEN: u64 = 1_000;
/// In one round of one thread.
const FULL_BATCHES: usize = 44;
const QUICK_BATCHES: usize = 10;

pub(super) struct Larson {
    batches: u64,
    seed: u64,
    found: Result<Counts, String>,
    /// One per thread.
    lanes: Vec<Lane>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    replaced: u64,
    /// Objects whose content was not what it was made with.
    damaged: u64,
    check: u64,
}

/// What goes from thread to thread: objects, and all that decides what becomes of them.
struct Array {
    objs: Vec<Obj>,
    rng: Rng,
    counts: Counts,
}

/// Its capacity is its size; the first bytes say what that must be.
struct Obj(Vec<u8>);

impl Larson {
    pub(super) fn new(setup: Setup) -> Result<Self, String> {
        let batches = setup.scale.of(FULL_BATCHES, QUICK_BATCHES);
        Ok(Self {
            batches: batches as u64,
            seed: setup.seed,
            found: Err("was not run".to_owned()),
            lanes: setup.lanes(THREADS, GENERATIONS * ROUNDS * batches)?,
        })
    }
}

impl Larger for Larson {
    fn run(&mut self) {
        let mut arrays: Vec<Array> = (0..THREADS as u64)
            .map(|n| fill(mix::words([self.seed, n])))
            .collect();
        for _ in 0..GENERATIONS {
            match generation(arrays, self.batches, &mut self.lanes) {
                Ok(left) => arrays = left,
                Err(error) => {
                    self.found = Err(error);
                    return;
                }
            }
        }
        at_peak();
        let mut found = Counts::default();
        for array in arrays {
            found.replaced += array.counts.replaced;
            found.damaged += array.counts.damaged;
            found.check = found.check.wrapping_add(array.counts.check);
            for Obj(obj) in array.objs {
                found.check = found.check.wrapping_add(mix::spread(content(&obj)));
            }
        }
        self.found = Ok(found);
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let found = self.found.as_ref().map_err(Clone::clone)?;
        let rounds = (THREADS * GENERATIONS * ROUNDS) as u64;
        expect(
            "replaced objects",
            found.replaced,
            rounds * self.batches * BATCH_LEN,
        )?;
        expect("damaged objects", found.damaged, 0)?;
        Ok(Outcome {
            ops: found.replaced,
            check: found.check,
        })
    }

    fn lanes(&self) -> &[Lane] {
        &self.lanes
    }
}

/// An array as a thread finds it.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn fill(seed: u64) -> Array {
    let mut rng = Rng::with_seed(seed);
    Array {
        objs: (0..OBJS)
            .map(|_| obj(rng.u64(OBJ_BYTES_MIN..=OBJ_BYTES_MAX)))
            .collect(),
        rng,
        counts: Counts::default(),
    }
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn obj(bytes: u64) -> Obj {
    let mut obj = Vec::with_capacity(bytes as usize);
    obj.extend_from_slice(&bytes.to_le_bytes());
    Obj(obj)
}

fn content(obj: &[u8]) -> u64 {
    obj.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// New threads, each with an array. Each round ends with all arrays one thread further.
fn generation(arrays: Vec<Array>, batches: u64, lanes: &mut [Lane]) -> Result<Vec<Array>, String> {
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    for (sender, array) in senders.iter().zip(arrays) {
        // Its receiver is in this function.
        if sender.send(array).is_err() {
            return Err("a channel is closed".to_owned());
        }
    }
    // The thread takes from its own channel and hands on to the next one's.
    senders.rotate_left(1);
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(THREADS);
        for ((from, to), lane) in receivers.into_iter().zip(senders).zip(lanes) {
            let thread = thread::Builder::new()
                .spawn_scoped(scope, move || work(&from, &to, batches, lane))
                .map_err(|error| format!("no thread: {error}"))?;
            threads.push(thread);
        }
        threads
            .into_iter()
            .map(|thread| {
                let left = thread.join().map_err(|_| "a thread panicked")?;
                left.ok_or_else(|| "an array was lost".to_owned())
            })
            .collect()
    })
}

/// All rounds of one thread. `None` if another thread ended early.
fn work(
    from: &Receiver<Array>,
    to: &Sender<Array>,
    batches: u64,
    lane: &mut Lane,
) -> Option<Array> {
    for _ in 0..ROUNDS {
        let mut array = from.recv().ok()?;
        for _ in 0..batches {
            let start = lane.start();
            replace(&mut array);
            lane.stop(start, BATCH_LEN);
        }
        to.send(array).ok()?;
    }
    from.recv().ok()
}

/// Replaces a batch of objects.
fn replace(Array { objs, rng, counts }: &mut Array) {
    for _ in 0..BATCH_LEN {
        let at = rng.usize(..objs.len());
        let new = obj(rng.u64(OBJ_BYTES_MIN..=OBJ_BYTES_MAX));
        let Obj(old) = std::mem::replace(&mut objs[at], new);
        let bytes = content(&old);
        counts.damaged += u64::from(!(OBJ_BYTES_MIN..=old.capacity() as u64).contains(&bytes));
        counts.check = counts.check.wrapping_add(mix::spread(bytes ^ at as u64));
        counts.replaced += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Array, BATCH_LEN, OBJS, Obj, fill, replace};

    #[test]
    fn damage_is_found() {
        let mut array = fill(1);
        for Obj(obj) in &mut array.objs {
            obj[7] = 1;
        }
        replace(&mut array);
        let Array { objs, counts, .. } = array;
        assert_eq!(objs.len(), OBJS);
        assert_eq!(counts.replaced, BATCH_LEN);
        // Those that were replaced twice within the batch were sound the second time.
        assert!(counts.damaged > BATCH_LEN / 2, "{counts:?}");
    }
}
