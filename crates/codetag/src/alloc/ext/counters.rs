//! Counters per tag on each allocation and free, the way the kernel keeps them: bytes and objects, one pair
//! of words per tag and CPU. Only under `--cfg codetag_counters`, for the bench that sets this beside the scan.
//!
//! A pair is 16 bytes, as the kernel's. The CPU is the one in the thread's area of restartable sequences (see
//! `sys/cpu.rs`): two loads. A thread may move to another CPU before it adds, so each word is added to
//! atomically (the kernel, which cannot be moved within one instruction, needs no lock prefix); sums over the
//! CPUs are exact whenever nothing moves. A free that reads its ref while a clearing pass is under way may be
//! taken off counters that the pass has zeroed: what changes of the switch under load leave is a drift, as in
//! any such scheme.
//!
//! # Safety model
//!
//! The table is one block of the inner allocator's, zeroed, got before any site is on and kept for ever. It has
//! a power of two of shards, each of 65,536 pairs; an index is a 16-bit id and a CPU under the mask, so each
//! address lies inside.

use super::super::inner;
use crate::{sys, tag};
use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Whether counters are kept.
pub(crate) const KEPT: bool = true;

/// The kernel's `struct alloc_tag_counters`.
#[repr(C, align(16))]
struct Counters {
    bytes: AtomicU64,
    calls: AtomicU64,
}

/// Ids are 16 bits wide.
const IDS: usize = 1 << 16;
const SHARD_BYTES: usize = IDS * size_of::<Counters>();
const SHARD_SHIFT: u32 = SHARD_BYTES.ilog2();
/// More CPUs share shards.
const MAX_SHARDS: usize = 1 << 10;

/// Address of the first pair of the first shard; 0 until there is one.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// Shards less one, times [`SHARD_BYTES`].
static MASK: AtomicUsize = AtomicUsize::new(0);

/// Gets the memory, once. False if the inner allocator has none.
pub(crate) fn reserve() -> bool {
    if BASE.load(Acquire) != 0 {
        return true;
    }
    let shards = sys::cpus().next_power_of_two().min(MAX_SHARDS);
    let Ok(layout) = Layout::from_size_align(shards * SHARD_BYTES, align_of::<Counters>()) else {
        return false;
    };
    // SAFETY: not of zero size.
    let at = unsafe { inner::alloc(layout, true) };
    MASK.store(layout.size() - SHARD_BYTES, Relaxed);
    BASE.store(at.expose_provenance(), Release);
    !at.is_null()
}

/// The pair of an id word in a shard, by the shard's offset.
#[inline(always)]
fn pair(word: u32, shard: usize) -> &'static Counters {
    let offset = (word >> 16) as usize * size_of::<Counters>();
    // SAFETY: inside the table, as in the module.
    unsafe { &*ptr::with_exposed_provenance(BASE.load(Relaxed) + shard + offset) }
}

/// The offset of the running CPU's shard.
#[inline(always)]
fn shard() -> usize {
    sys::current_cpu() << SHARD_SHIFT & MASK.load(Relaxed)
}

/// An object that is charged to `word`.
#[inline(always)]
fn add(word: u32, bytes: u64) {
    let counters = pair(word, shard());
    counters.calls.fetch_add(1, Relaxed);
    counters.bytes.fetch_add(bytes, Relaxed);
}

/// An object less.
#[inline(always)]
fn sub(word: u32, bytes: u64) {
    let counters = pair(word, shard());
    counters.bytes.fetch_sub(bytes, Relaxed);
    counters.calls.fetch_sub(1, Relaxed);
}

/// A small object got this ref.
#[inline(always)]
pub(crate) fn came(tag_ref: u32) {
    add(tag_ref, u64::from(tag_ref & !tag::ID_MASK));
}

/// A small object loses this ref; 0 if it had none.
#[inline(always)]
pub(crate) fn goes(tag_ref: u32) {
    if tag_ref != 0 {
        sub(tag_ref, u64::from(tag_ref & !tag::ID_MASK));
    }
}

/// A large object got an entry.
pub(crate) fn large_came(word: u32, bytes: usize) {
    if BASE.load(Acquire) != 0 {
        add(word, bytes as u64);
    }
}

/// A large object loses its entry.
pub(crate) fn large_goes(word: u32, bytes: usize) {
    if BASE.load(Acquire) != 0 {
        sub(word, bytes as u64);
    }
}

fn shards() -> impl Iterator<Item = usize> {
    (0..=MASK.load(Relaxed)).step_by(SHARD_BYTES)
}

/// Zeroes every counter.
pub(crate) fn clear_all() {
    for word in (0..=u32::from(tag::max_id())).map(|id| id << 16) {
        for counters in shards().map(|shard| pair(word, shard)) {
            counters.bytes.store(0, Relaxed);
            counters.calls.store(0, Relaxed);
        }
    }
}

/// Live bytes and objects of a tag, by its id word; none before the first `enable()`.
pub(crate) fn counted(word: u32) -> Option<(u64, u64)> {
    (BASE.load(Acquire) != 0 && word != tag::NO_ID).then(|| {
        shards()
            .map(|shard| pair(word, shard))
            .fold((0_u64, 0_u64), |(bytes, objs), c| {
                (
                    bytes.wrapping_add(c.bytes.load(Relaxed)),
                    objs.wrapping_add(c.calls.load(Relaxed)),
                )
            })
    })
}

/// Bytes of the counters of the tags that have an id, over all CPUs; none before the first `enable()`.
pub(crate) fn counter_bytes() -> Option<u64> {
    (BASE.load(Acquire) != 0).then(|| {
        let ids = u64::from(tag::max_id()) + 1;
        ids * size_of::<Counters>() as u64 * shards().count() as u64
    })
}
