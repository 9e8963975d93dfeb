//! Groups of senders and receivers, as in the kernel's scheduler benchmark of that name: each sender sends to each
//! receiver of its group. A message is allocated by the one thread and freed by the other.

use super::{Larger, Outcome, Setup, at_peak, expect};
use crate::mix;
use crate::samples::Lane;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

const GROUPS: usize = 2;
const SENDERS: usize = 5;
const RECEIVERS: usize = 5;
/// Messages from each sender to each receiver.
const FULL_LOOPS: usize = 15_000;
const QUICK_LOOPS: usize = 3_000;
/// Messages that wait in one channel, before the sender does.
const CHANNEL_LEN: usize = 64;

const SAMPLED_EVERY: usize = 64;

/// Its number, when it was sent if that is of interest, and nothing: 100 bytes, as there.
type Message = Box<[u8; 100]>;

pub(crate) struct Hackbench {
    plan: Plan,
    found: Result<Counts, String>,
    /// One per receiver.
    lanes: Vec<Lane>,
}

/// What all threads know.
#[derive(Clone, Copy)]
struct Plan {
    loops: u64,
    seed: u64,
    /// When sending times are counted from, if some messages are timed.
    epoch: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    messages: u64,
    check: u64,
}

impl Counts {
    fn add(&mut self, number: u64) {
        self.messages += 1;
        self.check = self.check.wrapping_add(mix::spread(number));
    }
}

impl Hackbench {
    pub(crate) fn new(setup: Setup) -> Result<Self, String> {
        let loops = setup.scale.of(FULL_LOOPS, QUICK_LOOPS);
        let samples = SENDERS * loops.div_ceil(SAMPLED_EVERY);
        Ok(Self {
            plan: Plan {
                loops: loops as u64,
                seed: setup.seed,
                epoch: setup.is_timed().then(Instant::now),
            },
            found: Err("was not run".to_owned()),
            lanes: setup.lanes(GROUPS * RECEIVERS, samples)?,
        })
    }
}

impl Plan {
    /// The numbers of a sender's messages to a receiver. No two messages of a run have the same.
    fn numbers(self, sender: usize, receiver: usize) -> impl Iterator<Item = u64> {
        let pair = (sender * RECEIVERS + receiver) as u64;
        (0..self.loops).map(move |at| (pair << 32 | at) ^ mix::spread(self.seed))
    }

    fn due(self) -> Counts {
        let mut due = Counts::default();
        for sender in 0..GROUPS * SENDERS {
            for receiver in 0..RECEIVERS {
                self.numbers(sender, receiver)
                    .for_each(|number| due.add(number));
            }
        }
        due
    }

    /// Nanoseconds since the start for one message in [`SAMPLED_EVERY`], else 0.
    fn sent_ns(self, at: usize) -> u64 {
        match self.epoch {
            Some(epoch) if at.is_multiple_of(SAMPLED_EVERY) => epoch.elapsed().as_nanos() as u64,
            _ => 0,
        }
    }
}

impl Larger for Hackbench {
    fn run(&mut self) {
        let plan = self.plan;
        self.found = thread::scope(|scope| {
            let mut receivers = Vec::with_capacity(GROUPS * RECEIVERS);
            for (group, lanes) in self.lanes.chunks_mut(RECEIVERS).enumerate() {
                let mut channels = Vec::with_capacity(RECEIVERS);
                for lane in lanes {
                    let (sender, receiver) = sync_channel(CHANNEL_LEN);
                    channels.push(sender);
                    receivers.push(spawn(scope, move || receive(&receiver, plan, lane))?);
                }
                for sender in 0..SENDERS {
                    let channels = channels.clone();
                    let sender = group * SENDERS + sender;
                    spawn(scope, move || send(&channels, sender, plan))?;
                }
            }
            // Threads are at work, and as many messages wait as ever.
            at_peak();
            let mut found = Counts::default();
            for receiver in receivers {
                let counts = receiver.join().map_err(|_| "a receiver panicked")?;
                found.messages += counts.messages;
                found.check = found.check.wrapping_add(counts.check);
            }
            Ok(found)
        });
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let found = self.found.as_ref().map_err(Clone::clone)?;
        let due = self.plan.due();
        expect("messages", found.messages, due.messages)?;
        expect("the sum of the messages", found.check, due.check)?;
        Ok(Outcome {
            ops: found.messages,
            check: found.check,
        })
    }

    fn lanes(&self) -> &[Lane] {
        &self.lanes
    }
}

/// If there is no further thread, those that run see their channels closed, and end.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, String> {
    thread::Builder::new()
        .spawn_scoped(scope, run)
        .map_err(|error| format!("no thread: {error}"))
}

/// One message to each receiver in turn, until each has its number.
fn send(channels: &[SyncSender<Message>], sender: usize, plan: Plan) {
    let mut numbers: Vec<_> = (0..channels.len())
        .map(|receiver| plan.numbers(sender, receiver))
        .collect();
    for at in 0..plan.loops as usize {
        for (channel, numbers) in channels.iter().zip(&mut numbers) {
            let Some(number) = numbers.next() else { return };
            // Fails only if the receiver is gone, whose thread says why.
            if channel.send(message(number, plan.sent_ns(at))).is_err() {
                return;
            }
        }
    }
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn message(number: u64, sent_ns: u64) -> Message {
    let mut message = Box::new([0; 100]);
    message[..8].copy_from_slice(&number.to_le_bytes());
    message[8..16].copy_from_slice(&sent_ns.to_le_bytes());
    message
}

/// Reads and frees messages, until no sender is left.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn receive(channel: &Receiver<Message>, plan: Plan, lane: &mut Lane) -> Counts {
    let mut counts = Counts::default();
    for message in channel {
        let ([number, sent_ns, ..], _) = message.as_chunks::<8>() else {
            continue;
        };
        let sent_ns = u64::from_le_bytes(*sent_ns);
        counts.add(u64::from_le_bytes(*number));
        drop(message);
        if let (Some(epoch), 1..) = (plan.epoch, sent_ns) {
            let sent = Duration::from_nanos(sent_ns);
            lane.record(epoch.elapsed().saturating_sub(sent), 1);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::{Plan, message};
    use std::collections::BTreeSet;

    #[test]
    fn no_two_messages_have_one_number() {
        let plan = Plan {
            loops: 3,
            seed: 7,
            epoch: None,
        };
        let numbers: BTreeSet<u64> = (0..10)
            .flat_map(|sender| (0..5).flat_map(move |receiver| plan.numbers(sender, receiver)))
            .collect();
        assert_eq!(numbers.len(), 150);
        assert_eq!(plan.due().messages, 150);
    }

    #[test]
    fn a_message_takes_100_bytes() {
        assert_eq!(size_of_val(&*message(1, 0)), 100);
    }
}
