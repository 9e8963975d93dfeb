//! Does operations and knows what each block must hold.

use super::ops::{Op, THREADS};
use super::workers::{Call, Worker};
use crate::check::{quiet_point, turn_off, turn_on};
use crate::inner::INNER;
use crate::page::quiet_texts;
use crate::slots::{Slots, slots};
use crate::watch;
use std::alloc::Layout;
use std::sync::atomic::Ordering::SeqCst;

/// Blocks that are live at most; beyond, an allocation frees one first.
const LIVE_MAX: usize = 1200;

/// Bytes that are live at most, for machines with little memory.
const LIVE_BYTES_MAX: usize = 256 << 20;

/// A block, as the model knows it.
#[derive(Clone, Copy, Debug)]
struct Held {
    at: usize,
    layout: Layout,
    /// What its bytes were made from.
    seed: u32,
    /// The slot it lies in; the block's own size for a large object.
    slot_bytes: usize,
}

/// The state of a run.
pub(super) struct Interpreter {
    slots: &'static Slots,
    held: Vec<Held>,
    held_bytes: usize,
    /// Address and end of each block, by address.
    spans: Vec<(usize, usize)>,
    workers: [Option<Worker>; THREADS as usize],
    pattern: Vec<u8>,
    ops: u64,
}

const PERIOD: usize = 64 << 10;
const OFFSETS: usize = 4096;

impl Interpreter {
    pub(super) fn new() -> Self {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut pattern = vec![0; PERIOD + OFFSETS];
        rng.fill(&mut pattern);
        Self {
            slots: slots(),
            held: Vec::with_capacity(LIVE_MAX),
            held_bytes: 0,
            spans: Vec::with_capacity(LIVE_MAX),
            workers: [const { None }; THREADS as usize],
            pattern,
            ops: 0,
        }
    }

    /// Does one operation, and checks what it did.
    pub(super) fn run(&mut self, op: Op) {
        self.ops += 1;
        match op {
            Op::Alloc {
                thread,
                label,
                size,
                align_shift,
                zeroed,
                starved,
            } => {
                let layout = Layout::from_size_align(size, 1 << align_shift).unwrap();
                while self.held.len() >= LIVE_MAX || self.held_bytes + size > LIVE_BYTES_MAX {
                    self.free(thread, self.ops as usize % self.held.len());
                }
                self.alloc(
                    thread,
                    Call::Alloc {
                        label,
                        layout,
                        zeroed,
                    },
                    layout,
                    zeroed,
                    starved,
                );
            }
            Op::Free { thread, pick } => {
                if let Some(i) = self.pick(pick) {
                    self.free(thread, i);
                }
            }
            Op::Realloc {
                thread,
                label,
                pick,
                size,
                starved,
            } => {
                if let Some(i) = self.pick(pick) {
                    self.realloc(thread, label, i, size, starved);
                }
            }
            Op::FreeMany { thread, keep } => {
                for i in (0..self.held.len()).rev() {
                    if keep == 0 || !i.is_multiple_of(usize::from(keep)) {
                        self.free(thread, i);
                    }
                }
            }
            Op::EndThread { thread } => {
                if let Some(worker) = self.workers[usize::from(thread)].take() {
                    worker.end();
                }
            }
            Op::Toggle if watch::is_on() => turn_off(),
            Op::Toggle => turn_on(),
            Op::Shrink { thread } => {
                self.call(thread, Call::Shrink);
            }
            Op::Snapshot => {
                quiet_point("a snapshot of the model");
            }
            Op::Texts => quiet_texts("a snapshot of the model"),
        }
    }

    /// Frees everything, and compares the figures a last time.
    pub(super) fn finish(mut self) {
        quiet_point("all operations done");
        while let Some(last) = self.held.len().checked_sub(1) {
            self.free((last % THREADS as usize) as u8, last);
        }
        quiet_point("all freed");
        for worker in self.workers.iter_mut().filter_map(Option::take) {
            worker.end();
        }
        quiet_point("all threads have ended");
        turn_off();
    }

    fn pick(&self, pick: u32) -> Option<usize> {
        (pick as usize).checked_rem(self.held.len())
    }

    fn call(&mut self, thread: u8, call: Call) -> usize {
        match &mut self.workers[usize::from(thread)] {
            _ if thread == 0 => call.make(),
            Some(worker) => worker.call(call),
            none => none.insert(Worker::start()).call(call),
        }
    }

    /// The same while the inner allocator has no memory.
    fn starved(&mut self, thread: u8, call: Call) -> usize {
        // A thread is not to be started now.
        if thread > 0 && self.workers[usize::from(thread)].is_none() {
            self.workers[usize::from(thread)] = Some(Worker::start());
        }
        INNER.fail_every.store(1, SeqCst);
        let at = self.call(thread, call);
        INNER.fail_every.store(0, SeqCst);
        at
    }

    fn alloc(&mut self, thread: u8, call: Call, layout: Layout, zeroed: bool, starved: bool) {
        let at = if starved {
            self.starved(thread, call)
        } else {
            self.call(thread, call)
        };
        let slot = self.slots.serving(layout.size(), layout.align());
        if at == 0 {
            assert!(starved, "{call:?}: null while there is memory");
            return;
        }
        assert!(
            slot.is_some() || !starved,
            "{call:?}: a large object from nothing"
        );
        if zeroed {
            let zeros = bytes_at(at, layout.size()).iter().all(|&b| b == 0);
            assert!(zeros, "{call:?}: not zero");
        }
        let slot_bytes = slot.map_or(layout.size(), |(_, s)| s);
        self.hold(at, layout, slot_bytes);
    }

    fn hold(&mut self, at: usize, layout: Layout, slot_bytes: usize) {
        assert_eq!(at % layout.align(), 0, "alignment of {layout:?} at {at:#x}");
        let seed = self.ops as u32;
        let held = Held {
            at,
            layout,
            seed,
            slot_bytes,
        };
        let span = (at, at + slot_bytes);
        let i = self.spans.partition_point(|s| *s < span);
        let before = i.checked_sub(1).map(|i| self.spans[i]);
        assert!(
            before.is_none_or(|b| b.1 <= span.0),
            "{held:?} overlaps {before:x?}"
        );
        let behind = self.spans.get(i);
        assert!(
            behind.is_none_or(|b| span.1 <= b.0),
            "{held:?} overlaps {behind:x?}"
        );
        self.spans.insert(i, span);
        self.held_bytes += layout.size();
        self.held.push(held);
        self.fill(&held);
    }

    /// Lets go of a block, whose contents must be whole.
    fn let_go(&mut self, i: usize) -> Held {
        let held = self.held.swap_remove(i);
        self.held_bytes -= held.layout.size();
        let at = self
            .spans
            .binary_search(&(held.at, held.at + held.slot_bytes));
        self.spans.remove(at.expect("a span per block"));
        self.assert_contents(&held, held.at, held.layout.size());
        held
    }

    fn free(&mut self, thread: u8, i: usize) {
        let held = self.let_go(i);
        self.call(
            thread,
            Call::Free {
                at: held.at,
                layout: held.layout,
            },
        );
    }

    fn realloc(&mut self, thread: u8, label: u8, i: usize, size: usize, starved: bool) {
        let held = self.let_go(i);
        let call = Call::Realloc {
            label,
            at: held.at,
            layout: held.layout,
            size,
        };
        let to = if starved {
            self.starved(thread, call)
        } else {
            self.call(thread, call)
        };
        if to == 0 {
            assert!(starved, "{call:?}: null while there is memory");
            self.assert_contents(&held, held.at, held.layout.size());
            self.hold(held.at, held.layout, held.slot_bytes);
            return;
        }
        self.assert_contents(&held, to, held.layout.size().min(size));
        let layout = Layout::from_size_align(size, held.layout.align()).unwrap();
        let old = self
            .slots
            .serving(held.layout.size(), layout.align())
            .map(|_| held.slot_bytes);
        let new = self.slots.serving(size, layout.align()).map(|(_, s)| s);
        let slot_bytes = match (old, new) {
            (Some(old), Some(new)) => {
                // It stays unless the new size needs a larger slot, or at most half of this one.
                let stays = new <= old && new > old / 2;
                assert_eq!(
                    to == held.at,
                    stays,
                    "{call:?} from a slot of {old} to one of {new}"
                );
                if stays { old } else { new }
            }
            (None, None) => size,
            _ => {
                assert_ne!(to, held.at, "{call:?} stayed across the border");
                new.unwrap_or(size)
            }
        };
        self.hold(to, layout, slot_bytes);
    }

    fn windows(&self, seed: u32) -> &[u8] {
        let offset = seed as usize * 61 % OFFSETS;
        &self.pattern[offset..offset + PERIOD]
    }

    fn fill(&self, held: &Held) {
        let window = self.windows(held.seed);
        for chunk in bytes_at_mut(held.at, held.layout.size()).chunks_mut(PERIOD) {
            chunk.copy_from_slice(&window[..chunk.len()]);
        }
    }

    fn assert_contents(&self, held: &Held, at: usize, n: usize) {
        let window = self.windows(held.seed);
        for chunk in bytes_at(at, n).chunks(PERIOD) {
            assert!(
                chunk == &window[..chunk.len()],
                "contents of {held:?}, now at {at:#x}"
            );
        }
    }
}

/// The bytes of a block that the interpreter holds.
fn bytes_at<'b>(at: usize, n: usize) -> &'b [u8] {
    // SAFETY: the block is live and as long, and only this thread touches it now.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at), n) }
}

/// The same, to write.
fn bytes_at_mut<'b>(at: usize, n: usize) -> &'b mut [u8] {
    // SAFETY: as above; no other reference to it exists.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(at), n) }
}
