//! What reports read: every slab and every large object, while threads go on.
//!
//! # Safety model
//!
//! A slab's vector is copied while its chunk is pinned. Between two reads of the slab's generation
//! that agree and are even, the words copied were refs; otherwise the copy is discarded. The words
//! may meanwhile belong to another class's slots, and are only ever read as atomics.

use super::class::{CLASSES, Class};
use super::slab::{HEADER_BYTES, Slab};
use super::{chunk, debug, ext, inner, large, thread};
use crate::protocol::{Atomics, Place, Std};
use core::alloc::Layout;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, fence};
use std::time::{Duration, Instant};

pub(crate) use super::class::CLASSES as CLASS_COUNT;
pub(crate) use super::class::SLAB_BYTES;
pub(crate) use debug::LARGE_EXTRA_BYTES;
pub(crate) use ext::{for_each_large, has_refs, page_ext_usage};

/// Refs that a vector has at most.
const MAX_REFS: usize = SLAB_BYTES / 8;

/// What one slab said of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabView {
    pub class: usize,
    pub slot_bytes: u32,
    pub capacity: u32,
    /// Slots that the program holds.
    pub live: u32,
    /// Free slots in the owner's bin and in its list of this slab.
    pub free: u32,
    /// Slots on the remote list.
    pub remote: u32,
    pub is_current: bool,
    pub ext_bytes: u32,
    /// Whether the vector lies in the chunk's head.
    pub is_ext_outside: bool,
    /// Bytes of the slab that are neither slots nor vector.
    pub tail_bytes: u32,
    /// Refs that were copied.
    pub refs: usize,
}

/// What the chunks said of themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkTally {
    pub chunks: u64,
    /// Slabs that are not cut.
    pub free_slabs: u64,
    /// Slabs that were cut, released or cleared each time they were looked at.
    pub missed_slabs: u64,
}

/// Visits every slab that is cut, `with_refs` with its refs. Returns what the chunks said. Uses
/// 32 KiB of stack.
pub(crate) fn for_each_slab(
    with_refs: bool,
    mut visit: impl FnMut(SlabView, &[u32]),
) -> ChunkTally {
    let mut copy = [0; MAX_REFS];
    let mut tally = ChunkTally::default();
    chunk::for_each(|c| {
        tally.chunks += 1;
        tally.free_slabs += u64::from(c.free_slabs());
        for slab in (1..=chunk::SLABS).map(|i| c.slab(i)) {
            match look_again(slab, with_refs, &mut copy) {
                Look::At(view) => visit(view, &copy[..view.refs]),
                Look::NotCut => {}
                Look::Changed => tally.missed_slabs += 1,
            }
        }
    });
    tally
}

/// What a look at a slab found.
enum Look {
    At(SlabView),
    NotCut,
    /// A change was under way, or came in between.
    Changed,
}

/// Looks until nothing comes in between: a slab that is only cleared keeps its objects, and they
/// must not be missed. Whoever changes it may have lost its processor, for as long as others keep that busy;
/// only a thread that is stopped for good is given up on.
fn look_again(slab: &Slab, with_refs: bool, copy: &mut [u32]) -> Look {
    const LOOKS: u32 = 1000;
    const LONGEST: Duration = Duration::from_secs(5);
    let mut began = None;
    let mut turn = 0;
    loop {
        match look(slab, with_refs, copy) {
            Look::Changed if turn < LOOKS => turn += 1,
            Look::Changed => {
                if began.get_or_insert_with(Instant::now).elapsed() > LONGEST {
                    return Look::Changed;
                }
            }
            done => return done,
        }
        Std::relax(turn);
    }
}

fn look(slab: &Slab, with_refs: bool, copy: &mut [u32]) -> Look {
    let generation = slab.generation.load(Acquire);
    if generation & 1 == 1 {
        return Look::Changed;
    }
    if !slab.is_cut() {
        return Look::NotCut;
    }
    let occupancy = slab.occupancy();
    let capacity = slab.capacity.load(Relaxed);
    let is_current = occupancy.place() == Place::Current;
    let class = slab.class();
    let left = if is_current {
        left_in_bin(slab, class)
    } else {
        0
    };
    let remote = occupancy.remote_count();
    let used = occupancy.used();
    // In motion the words need not fit each other.
    let lost = slab.lost.load(Relaxed);
    let live = used
        .saturating_sub(left)
        .saturating_sub(remote)
        .saturating_sub(lost);
    let slot_bytes = slab.slot_bytes.load(Relaxed);
    let data_start = slab.data_start.load(Relaxed);
    let ext_bytes = slab.ext_bytes.load(Relaxed);
    let refs = if with_refs { copy_refs(slab, copy) } else { 0 };
    fence(Acquire);
    if slab.generation.load(Relaxed) != generation {
        return Look::Changed;
    }
    let inside = if data_start > 0 { ext_bytes } else { 0 };
    Look::At(SlabView {
        class: class.index(),
        slot_bytes,
        capacity,
        live,
        free: capacity.saturating_sub(used) + left + lost,
        remote,
        is_current,
        ext_bytes,
        is_ext_outside: data_start == 0,
        tail_bytes: (SLAB_BYTES as u32).saturating_sub(inside + capacity * slot_bytes),
        refs,
    })
}

fn left_in_bin(slab: &Slab, class: Class) -> u32 {
    let bin = slab.owner_heap().bin(class);
    if bin.is_of(slab) { bin.left() } else { 0 }
}

fn copy_refs(slab: &Slab, copy: &mut [u32]) -> usize {
    let (first, n) = slab.vector();
    let n = n.min(copy.len());
    let base = slab.base();
    // A slab that is being recut may say anything; stay inside the chunk's pinned memory.
    let lowest = base.addr() & !(chunk::CHUNK_BYTES - 1);
    if first < lowest || first + 4 * n > lowest + chunk::CHUNK_BYTES {
        return 0;
    }
    for (i, to) in copy[..n].iter_mut().enumerate() {
        // SAFETY: inside the pinned chunk, as just checked, and read as an atomic.
        *to = unsafe { &*base.with_addr(first + 4 * i).cast::<AtomicU32>() }.load(Relaxed);
    }
    n
}

/// Bytes of one chunk that are neither slabs nor headers.
pub(crate) const CHUNK_SPARE_BYTES: u64 = (SLAB_BYTES - chunk::HEAD_BYTES) as u64;

/// Bytes of headers in one chunk.
pub(crate) const CHUNK_HEAD_BYTES: u64 = chunk::HEAD_BYTES as u64;

const _: () = assert!(HEADER_BYTES * (chunk::SLABS + 1) == chunk::HEAD_BYTES);

/// What is counted beside the scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    /// Bytes of the chunks that are out.
    pub chunk_bytes: u64,
    /// Large objects that are out, by the counts at their calls.
    pub large_objs: u64,
    /// Their bytes.
    pub large_bytes: u64,
    /// Bytes of free slabs whose pages are with the system.
    pub returned_bytes: u64,
    /// Empty slabs that heaps keep.
    pub cached_slabs: u64,
    /// Bytes mapped for heaps.
    pub heap_bytes: u64,
}

/// What is counted beside the scan.
pub(crate) fn counters() -> Counters {
    let (large_objs, large_bytes) = large::totals();
    Counters {
        chunk_bytes: chunk::obtained_bytes(),
        large_objs,
        large_bytes,
        returned_bytes: chunk::returned_bytes(),
        cached_slabs: thread::heaps().map(|h| u64::from(h.cached_slabs())).sum(),
        heap_bytes: thread::heap_bytes(),
    }
}

/// A number that differs if anything was allocated or freed in between; none while a change beyond
/// the fast paths is under way. What a thread is doing that is stopped among the few instructions of
/// a fast path cannot be seen; then one object may be missed.
pub(crate) fn fingerprint() -> Option<u64> {
    let mut sum = 0_u64;
    let mut mix = |word: u64| sum = sum.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word;
    for heap in thread::heaps() {
        for class in (0..CLASSES).map(Class::of_index) {
            mix(heap.bin(class).fingerprint());
        }
    }
    chunk::for_each(|c| {
        for slab in (1..=chunk::SLABS).map(|i| c.slab(i)) {
            mix(u64::from(slab.generation.load(Acquire)) << 32 | u64::from(slab.used.load(Relaxed)));
            mix(slab.remote.load(Relaxed));
            mix(slab.free.load(Relaxed).addr() as u64);
        }
    });
    let mut is_under_way = false;
    for heap in thread::heaps() {
        match heap.changes.fingerprint() {
            Some(word) => mix(word),
            None => is_under_way = true,
        }
    }
    mix(page_ext_usage().version);
    mix(ext::changes());
    (!is_under_way).then_some(sum)
}

/// Memory for a report, from the inner allocator itself; null if it has none.
pub(crate) fn alloc_scratch(layout: Layout) -> *mut u8 {
    // SAFETY: no report asks for zero bytes.
    unsafe { inner::alloc(layout, true) }
}

/// Gives the memory of a report back.
///
/// # Safety
///
/// `at` came from [`alloc_scratch`] with this layout and nobody uses it any more.
pub(crate) unsafe fn dealloc_scratch(at: *mut u8, layout: Layout) {
    // SAFETY: as the caller's.
    unsafe { inner::dealloc(at, layout) };
}

/// Slot bytes of a class.
pub(crate) fn slot_bytes(class: usize) -> u32 {
    Class::of_index(class).slot_bytes()
}
