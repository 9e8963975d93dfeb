//! Chunks: aligned blocks from the inner allocator, cut into slabs.
//!
//! ```text
//! offset 0        4 KiB                      62 KiB   64 KiB      128 KiB            2 MiB
//! | head, 31 slab headers | refs of slabs that | unused | slab 1    | slab 2 | … | slab 31 |
//! | 128 B each            | keep them outside  |        |
//! ```
//!
//! # Safety model
//!
//! A chunk is the allocator's own from [`obtain`] to [`release`]. The lists of
//! chunks, the masks and the pins are protected by the lock of [`CHUNKS`]. A slab whose bit is
//! clear in `free_mask` belongs to whoever cut it; one whose bit is set belongs to the chunk. A
//! pinned chunk stays mapped: its last unpin gives it back if that was due.

use super::change::{self, Change};
use super::class::{Class, OUTSIDE_REFS, SLAB_BYTES, is_outside};
use super::debug;
use super::ext;
use super::fork;
use super::heap::Heap;
use super::inner;
use super::slab::{HEADER_BYTES, Slab};
use super::thread;
use crate::protocol::{Place, SpinLock};
use crate::sys;
use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// A chunk: this many bytes, aligned to as many.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;

/// Slab indices of a chunk are at most this; 0 stands for the chunk's own head.
pub(crate) const SLAB_INDEX_MASK: usize = CHUNK_BYTES / SLAB_BYTES - 1;

/// Slabs that a chunk is cut into.
pub(crate) const SLABS: usize = SLAB_INDEX_MASK;

/// Bytes of a chunk's head and its slab headers.
pub(crate) const HEAD_BYTES: usize = (SLABS + 1) * HEADER_BYTES;

const ALL_FREE: u32 = !1;
const LAYOUT: Layout = match Layout::from_size_align(CHUNK_BYTES, CHUNK_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

const _: () = assert!(HEAD_BYTES + (SLABS + 1) * OUTSIDE_REFS * 4 <= SLAB_BYTES && SLABS == 31);

/// The head of a chunk.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Chunk {
    /// All chunks.
    next: AtomicPtr<Chunk>,
    prev: AtomicPtr<Chunk>,
    /// Chunks with a free slab.
    open_next: AtomicPtr<Chunk>,
    open_prev: AtomicPtr<Chunk>,
    /// Bit `i`: slab `i` is not cut.
    free_mask: AtomicU32,
    /// Bit `i`: the pages of the free slab `i` are with the system.
    returned_mask: AtomicU32,
    /// Readers inside.
    pins: AtomicU32,
    /// Off the open list, to be given back by the last unpin.
    doomed: AtomicU32,
}

const _: () = assert!(size_of::<Chunk>() <= HEADER_BYTES);

/// All chunks of the process.
struct Chunks {
    lock: SpinLock,
    all: AtomicPtr<Chunk>,
    open: AtomicPtr<Chunk>,
    /// Number of chunks.
    count: AtomicU32,
    /// Chunks none of whose slabs is cut.
    empty: AtomicU32,
    /// Bytes of free slabs whose pages are with the system.
    returned_bytes: AtomicU64,
    /// Sum of the layouts of the chunks on the list.
    obtained_bytes: AtomicU64,
}

static CHUNKS: Chunks = Chunks {
    lock: SpinLock::new(),
    all: AtomicPtr::new(ptr::null_mut()),
    open: AtomicPtr::new(ptr::null_mut()),
    count: AtomicU32::new(0),
    empty: AtomicU32::new(0),
    returned_bytes: AtomicU64::new(0),
    obtained_bytes: AtomicU64::new(0),
};

type Links = fn(&Chunk) -> (&AtomicPtr<Chunk>, &AtomicPtr<Chunk>);

fn all_links(c: &Chunk) -> (&AtomicPtr<Chunk>, &AtomicPtr<Chunk>) {
    (&c.next, &c.prev)
}

fn open_links(c: &Chunk) -> (&AtomicPtr<Chunk>, &AtomicPtr<Chunk>) {
    (&c.open_next, &c.open_prev)
}

fn chunk_at(at: &AtomicPtr<Chunk>) -> Option<&'static Chunk> {
    // SAFETY: chunks on a list are mapped; the lists change under the lock that the callers hold.
    unsafe { at.load(Relaxed).as_ref() }
}

fn push(head: &AtomicPtr<Chunk>, links: Links, chunk: &'static Chunk) {
    let at = ptr::from_ref(chunk).cast_mut();
    let (next, prev) = links(chunk);
    next.store(head.load(Relaxed), Relaxed);
    prev.store(ptr::null_mut(), Relaxed);
    if let Some(old) = chunk_at(head) {
        links(old).1.store(at, Relaxed);
    }
    head.store(at, Relaxed);
}

fn remove(head: &AtomicPtr<Chunk>, links: Links, chunk: &'static Chunk) {
    let (next, prev) = links(chunk);
    if let Some(n) = chunk_at(next) {
        links(n).1.store(prev.load(Relaxed), Relaxed);
    }
    match chunk_at(prev) {
        Some(p) => links(p).0.store(next.load(Relaxed), Relaxed),
        None => head.store(next.load(Relaxed), Relaxed),
    }
}

impl Chunk {
    fn at(&self) -> *mut u8 {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// The header of slab `index`, 1 to [`SLABS`].
    pub(crate) fn slab(&self, index: usize) -> &'static Slab {
        // SAFETY: the headers lie behind the chunk's head, which is mapped while `self` is.
        unsafe { &*self.at().wrapping_add(index * HEADER_BYTES).cast::<Slab>() }
    }

    fn outside_refs(&self, index: usize) -> usize {
        self.at().addr() + HEAD_BYTES + index * OUTSIDE_REFS * 4
    }

    /// The headers of all slabs.
    pub(crate) fn slabs(&self) -> impl Iterator<Item = &'static Slab> {
        (1..=SLABS).map(|i| self.slab(i))
    }

    /// Slabs that are not cut, as of now.
    pub(crate) fn free_slabs(&self) -> u32 {
        self.free_mask.load(Relaxed).count_ones()
    }
}

/// With so many chunks, 32 MiB, further ones are of huge pages: one page fault for 512, and fewer misses of the TLB, for a
/// sixteenth more memory.
const HUGE_FROM: usize = 16;

/// And so many more for each further thread that has a heap: a slab is cut for each class that the thread uses, most of
/// them hardly touched, and in a huge page they would be in memory whole.
const HUGE_PER_HEAP: usize = 8;

fn is_to_be_huge() -> bool {
    let chunks = CHUNKS.count.load(Relaxed) as usize;
    // The walk over the heaps is not for small programs.
    chunks >= HUGE_FROM && {
        // The first one is the shared one.
        let own = thread::heaps().skip(1);
        let heaps = own.filter(|heap| heap.number() != 0).count();
        chunks >= HUGE_FROM + HUGE_PER_HEAP * heaps.saturating_sub(1)
    }
}

/// Gets a chunk from the inner allocator and lists it.
fn obtain() -> Option<&'static Chunk> {
    let in_huge_pages = is_to_be_huge();
    // SAFETY: a chunk's layout is not of zero size.
    let at = change::outside(|| unsafe { inner::alloc_chunk(LAYOUT, in_huge_pages) });
    if at.is_null() {
        return None;
    }
    // Headers are found by arithmetic on the addresses of objects.
    let _ = at.expose_provenance();
    // SAFETY: the chunk is ours alone; its head and headers are valid as zeros.
    let chunk = unsafe {
        at.write_bytes(0, HEAD_BYTES);
        &*at.cast::<Chunk>()
    };
    chunk.free_mask.store(ALL_FREE, Relaxed);
    if !debug::chunk_came(at) {
        release(chunk);
        return None;
    }
    Some(chunk)
}

/// Lists another chunk from the inner allocator; false if it has none. The inner allocator may be
/// slow, and is nobody we know: no lock may be held.
pub(crate) fn fetch() -> bool {
    let Some(chunk) = obtain() else { return false };
    fork::register();
    let _guard = CHUNKS.lock.lock();
    push(&CHUNKS.all, all_links, chunk);
    push(&CHUNKS.open, open_links, chunk);
    CHUNKS.obtained_bytes.fetch_add(CHUNK_BYTES as u64, Relaxed);
    CHUNKS.count.store(CHUNKS.count.load(Relaxed) + 1, Relaxed);
    CHUNKS.empty.store(CHUNKS.empty.load(Relaxed) + 1, Relaxed);
    true
}

/// Cuts a slab of `class` for `heap`; none if no chunk has a free one: then [`fetch`].
pub(crate) fn cut(class: Class, heap: &'static Heap, number: u64) -> Option<&'static Slab> {
    let guard = CHUNKS.lock.lock();
    let chunk = chunk_at(&CHUNKS.open)?;
    let mask = chunk.free_mask.load(Relaxed);
    let index = mask.trailing_zeros() as usize;
    let bit = 1 << index;
    if mask == ALL_FREE {
        CHUNKS.empty.store(CHUNKS.empty.load(Relaxed) - 1, Relaxed);
    }
    chunk.free_mask.store(mask & !bit, Relaxed);
    if mask == bit {
        remove(&CHUNKS.open, open_links, chunk);
    }
    let returned = chunk.returned_mask.load(Relaxed);
    if returned & bit != 0 {
        chunk.returned_mask.store(returned & !bit, Relaxed);
        CHUNKS.returned_bytes.fetch_sub(SLAB_BYTES as u64, Relaxed);
    }
    drop(guard);
    let slab = chunk.slab(index);
    recut(slab, class, heap, number);
    Some(slab)
}

/// Makes an empty slab, which the caller has alone, one of `class`.
#[inline(always)]
pub(crate) fn recut(slab: &'static Slab, class: Class, heap: &'static Heap, number: u64) {
    let geometry = ext::geometry(class);
    let at = ptr::from_ref(slab).addr();
    let index = (at / HEADER_BYTES) & SLAB_INDEX_MASK;
    let outside = if geometry.ext_bytes > 0 && is_outside(geometry.slot_bytes) {
        // SAFETY: the chunk's head is where the header's address rounds down to.
        let chunk = unsafe {
            &*ptr::from_ref(slab)
                .map_addr(|a| a & !(CHUNK_BYTES - 1))
                .cast::<Chunk>()
        };
        chunk.outside_refs(index)
    } else {
        0
    };
    slab.begin_change();
    slab.lay_out(class, geometry, outside, heap, number);
    debug::slab_cut(slab);
    let cleared = ext::clear_unless_off(slab);
    slab.end_change();
    // The announcement of a change may have come in between.
    if !cleared && ext::must_clear() {
        slab.begin_change();
        ext::clear_unless_off(slab);
        slab.end_change();
    }
}

/// Takes back an empty slab, which the caller has alone, and gives its chunk to the inner allocator
/// when too many are empty. No lock may be held.
pub(crate) fn give(slab: &'static Slab) {
    take_back(slab, true);
}

/// Takes back an empty slab, which the caller has alone, and calls nobody.
pub(crate) fn put(slab: &'static Slab) {
    take_back(slab, false);
}

fn take_back(slab: &'static Slab, trims: bool) {
    slab.uncut(Place::Chunk);
    let at = ptr::from_ref(slab);
    let bit = 1 << ((at.addr() / HEADER_BYTES) & SLAB_INDEX_MASK);
    // SAFETY: the chunk's head is where the header's address rounds down to; it is mapped, since
    // the slab's bit is clear.
    let chunk = unsafe { &*at.map_addr(|a| a & !(CHUNK_BYTES - 1)).cast::<Chunk>() };
    let guard = CHUNKS.lock.lock();
    let mask = chunk.free_mask.load(Relaxed) | bit;
    chunk.free_mask.store(mask, Relaxed);
    if mask == bit {
        push(&CHUNKS.open, open_links, chunk);
    }
    if mask != ALL_FREE {
        return;
    }
    let empty = CHUNKS.empty.load(Relaxed) + 1;
    CHUNKS.empty.store(empty, Relaxed);
    // A few empty chunks are kept: a program that fills and empties one would fetch it each time.
    if trims && empty > 2 + CHUNKS.count.load(Relaxed) / 4 {
        let gone = doom(chunk);
        drop(guard);
        if gone {
            release(chunk);
        }
    }
}

/// Takes an empty chunk off the open list, and off the other too unless it is pinned. Returns
/// whether the caller must [`release`] it. Under the lock.
fn doom(chunk: &'static Chunk) -> bool {
    CHUNKS.empty.store(CHUNKS.empty.load(Relaxed) - 1, Relaxed);
    CHUNKS.count.store(CHUNKS.count.load(Relaxed) - 1, Relaxed);
    remove(&CHUNKS.open, open_links, chunk);
    let returned = chunk.returned_mask.swap(0, Relaxed).count_ones() as usize;
    CHUNKS
        .returned_bytes
        .fetch_sub((returned * SLAB_BYTES) as u64, Relaxed);
    if chunk.pins.load(Relaxed) > 0 {
        chunk.doomed.store(1, Relaxed);
        return false;
    }
    unlist(chunk);
    true
}

/// Takes a chunk that is to be released off the list of all. Under the lock.
fn unlist(chunk: &'static Chunk) {
    debug::chunk_goes(chunk.at());
    remove(&CHUNKS.all, all_links, chunk);
    CHUNKS.obtained_bytes.fetch_sub(CHUNK_BYTES as u64, Relaxed);
}

/// Gives a chunk that is on no list back. Not under the lock, and in a change.
fn release(chunk: &'static Chunk) {
    // SAFETY: off all lists, unpinned, no slab cut: nobody can reach it.
    change::outside(|| unsafe { inner::dealloc_chunk(chunk.at(), LAYOUT) });
}

/// Gives back every empty chunk and the pages of every free slab. Returns the bytes.
pub(crate) fn shrink() -> usize {
    let mut bytes = 0;
    for_each(|chunk| {
        let guard = CHUNKS.lock.lock();
        let free = chunk.free_mask.load(Relaxed);
        if chunk.doomed.load(Relaxed) == 0 && free == ALL_FREE {
            bytes +=
                CHUNK_BYTES - chunk.returned_mask.load(Relaxed).count_ones() as usize * SLAB_BYTES;
            // Pinned by this very walk: released when the walk leaves it.
            doom(chunk);
        } else if chunk.doomed.load(Relaxed) == 0 {
            bytes += return_pages(chunk, free & !chunk.returned_mask.load(Relaxed));
        }
        drop(guard);
    });
    bytes
}

/// Gives the pages of the slabs in `mask` to the system. Under the lock, so that none is cut.
fn return_pages(chunk: &Chunk, mut mask: u32) -> usize {
    let mut bytes = 0;
    if mask != 0 {
        // Else the system may make huge pages of what is left, and give back what was taken.
        // SAFETY: the chunk is mapped.
        unsafe { inner::forgo_huge_pages(chunk.at(), CHUNK_BYTES) };
    }
    while mask != 0 {
        let first = mask.trailing_zeros();
        let run = (mask >> first).trailing_ones();
        let bits = ((1_u64 << run) - 1) << first;
        mask &= !(bits as u32);
        let len = run as usize * SLAB_BYTES;
        // SAFETY: free slabs hold nothing, and nobody can cut them meanwhile.
        if unsafe { sys::release_pages(chunk.at().wrapping_add(first as usize * SLAB_BYTES), len) }
        {
            chunk.returned_mask.fetch_or(bits as u32, Relaxed);
            CHUNKS.returned_bytes.fetch_add(len as u64, Relaxed);
            bytes += len;
        }
    }
    bytes
}

/// One more reader. Under the lock.
fn pin(chunk: &Chunk) {
    chunk.pins.store(chunk.pins.load(Relaxed) + 1, Relaxed);
}

/// One reader less; returns whether the caller must [`release`] the chunk. Under the lock.
fn unpin(chunk: &'static Chunk) -> bool {
    let pins = chunk.pins.load(Relaxed) - 1;
    chunk.pins.store(pins, Relaxed);
    let gone = pins == 0 && chunk.doomed.load(Relaxed) == 1;
    if gone {
        unlist(chunk);
    }
    gone
}

/// Visits every chunk that was there at the start, pinned during its own visit. No lock is held
/// while `visit` runs.
pub(crate) fn for_each(mut visit: impl FnMut(&'static Chunk)) {
    let mut at = fork::as_reader(|| {
        let _guard = CHUNKS.lock.lock();
        chunk_at(&CHUNKS.all).inspect(|c| pin(c))
    });
    while let Some(chunk) = at {
        visit(chunk);
        let gone;
        (at, gone) = fork::as_reader(|| {
            let _guard = CHUNKS.lock.lock();
            let next = chunk_at(&chunk.next).inspect(|c| pin(c));
            (next, unpin(chunk))
        });
        if gone {
            let _change = Change::new();
            release(chunk);
        }
    }
}

/// Runs `f` while the chunk that the live small block `at` lies in stays mapped. During a change of the
/// switch, so that no fork comes in between.
pub(crate) fn pinned<R>(at: *mut u8, f: impl FnOnce() -> R) -> R {
    // SAFETY: a live small block lies in a chunk, whose head is where its address rounds down to.
    let chunk = unsafe { &*at.map_addr(|a| a & !(CHUNK_BYTES - 1)).cast::<Chunk>() };
    let guard = CHUNKS.lock.lock();
    pin(chunk);
    drop(guard);
    let r = f();
    let guard = CHUNKS.lock.lock();
    let gone = unpin(chunk);
    drop(guard);
    if gone {
        let _change = Change::new();
        release(chunk);
    }
    r
}

/// Visits every chunk; nobody else may be there.
pub(crate) fn for_each_alone(mut visit: impl FnMut(&'static Chunk)) {
    let mut at = chunk_at(&CHUNKS.all);
    while let Some(chunk) = at {
        visit(chunk);
        at = chunk_at(&chunk.next);
    }
}

/// In a forked child: the readers are gone. What only they kept stays until the next `shrink`.
pub(crate) fn unpin_all() {
    for_each_alone(|c| {
        c.pins.store(0, Relaxed);
        if c.doomed.load(Relaxed) == 1 {
            c.doomed.store(0, Relaxed);
            push(&CHUNKS.open, open_links, c);
            CHUNKS.count.store(CHUNKS.count.load(Relaxed) + 1, Relaxed);
            CHUNKS.empty.store(CHUNKS.empty.load(Relaxed) + 1, Relaxed);
        }
    });
}

/// Bytes of the chunks that are out.
pub(crate) fn obtained_bytes() -> u64 {
    CHUNKS.obtained_bytes.load(Relaxed)
}

/// Bytes of free slabs whose pages are with the system.
pub(crate) fn returned_bytes() -> u64 {
    CHUNKS.returned_bytes.load(Relaxed)
}
