//! The heap of a thread: one bin per class, and the slabs that it owns.
//!
//! # Safety model
//!
//! Heaps are mapped once and never unmapped, so `&'static Heap` is always good. What a bin holds
//! and its slab's own free list belong to the thread that owns the heap (for [`SHARED`], to the
//! holder of [`SHARED_OWNER`]); others only read the words. The partial lists, the cache and the
//! `heap` field of the slabs on them are protected by `lock`. A free slot belongs to the list that
//! it is on.

mod after_fork;
mod bin;

pub(crate) use bin::{Bin, Popped};

use super::change::{Change, Changes};
use super::chunk;
use super::class::{CLASSES, Class};
use super::fork;
use super::slab::{List, Slab, Slot, append, link_slots};
use crate::protocol::{Guard, MarkFull, Place, Pushed, SpinLock, Taken, WhollyFree};
use crate::sys::{self, HotWords};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

/// Empty slabs that a heap keeps for its next class: with a slab of 64 KiB, 256 KiB.
const CACHE_SLABS: usize = 4;

/// Slots are linked up to the end of a page when a slab is new, since links touch memory; to that of the next
/// one where fewer bytes than this are left.
const CARVE_LEFT_BYTES: u32 = 2 << 10;

/// At least so many slots are linked at once, else large slots would take the slow path each time.
const CARVE_OBJS: u32 = 8;

/// How many slots to link from an offset in the slab on.
fn carve(start: u32, slot_bytes: u32) -> u32 {
    const PAGE: u32 = sys::PAGE_BYTES as u32;
    let end = (start + CARVE_LEFT_BYTES).next_multiple_of(PAGE);
    ((end - start) / slot_bytes).max(CARVE_OBJS)
}

/// How many slots of a slab that it left full an owner frees before it lists the slab: a sixteenth.
fn due(slab: &Slab) -> u32 {
    slab.capacity.load(Relaxed) / 16
}

/// Number of the heap that threads without one share.
pub(crate) const SHARED_NUMBER: u64 = 1;

/// The heap of one thread.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Heap {
    pub(super) bins: [Bin; CLASSES],
    /// By class: slabs with free slots, beside the bin's. Under the lock.
    partial: [AtomicPtr<Slab>; CLASSES],
    /// Never used twice; 0 while no thread has the heap. Changes under the lock.
    number: AtomicU64,
    /// See [`sys::hot_tag_word`]: that of the thread that has the heap.
    pub(super) tag_word: AtomicUsize,
    lock: SpinLock,
    cached_slabs: AtomicU32,
    /// Empty slabs. Under the lock.
    cache: AtomicPtr<Slab>,
    /// Large objects and bytes that this heap's threads allocated less those they freed; wraps.
    pub large_objs: AtomicU64,
    /// See `large_objs`.
    pub large_bytes: AtomicU64,
    /// Changes beyond the fast paths of this heap's threads.
    pub changes: Changes,
    /// The hot words of the thread that has the heap. Changes in its changes.
    hot: AtomicPtr<HotWords>,
    /// By class, what a fork notes of a bin: how many slots, and the one behind the head.
    noted_left: [AtomicU32; CLASSES],
    noted_behind: [AtomicPtr<Slot>; CLASSES],
    /// All heaps ever mapped, newest first. Set before the heap is visible.
    pub next: AtomicPtr<Heap>,
    /// Heaps that no thread has.
    pub next_idle: AtomicPtr<Heap>,
}

/// The heap of a thread that has none: all its bins are empty, and nobody ever writes to it.
pub(crate) static NO_HEAP: Heap = Heap::new(0);

/// The heap of threads at the two ends of their lives, and of slabs whose owner is gone.
pub(crate) static SHARED: Heap = Heap::new(SHARED_NUMBER);

/// Held by the thread that acts as the owner of [`SHARED`]. Taken before any heap's lock.
pub(crate) static SHARED_OWNER: SpinLock = SpinLock::new();

impl Heap {
    const fn new(number: u64) -> Self {
        Self {
            bins: [const { Bin::empty() }; CLASSES],
            partial: [const { AtomicPtr::new(ptr::null_mut()) }; CLASSES],
            number: AtomicU64::new(number),
            tag_word: AtomicUsize::new(0),
            lock: SpinLock::new(),
            cached_slabs: AtomicU32::new(0),
            cache: AtomicPtr::new(ptr::null_mut()),
            large_objs: AtomicU64::new(0),
            large_bytes: AtomicU64::new(0),
            changes: Changes::new(),
            hot: AtomicPtr::new(ptr::null_mut()),
            noted_left: [const { AtomicU32::new(0) }; CLASSES],
            noted_behind: [const { AtomicPtr::new(ptr::null_mut()) }; CLASSES],
            next: AtomicPtr::new(ptr::null_mut()),
            next_idle: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The bin of a class.
    #[inline(always)]
    pub(crate) fn bin(&self, class: Class) -> &Bin {
        // SAFETY: a class's index is below CLASSES, and each bin has BIN_BYTES.
        unsafe { &*self.bins.as_ptr().byte_add(class.bin_offset()) }
    }

    /// See [`sys::hot_tag_word`].
    #[inline(always)]
    pub(crate) fn tag_word(&self) -> usize {
        self.tag_word.load(Relaxed)
    }

    /// The partial list of a class. For a look at its head, or under the lock.
    fn partial(&self, class: Class) -> List<'_> {
        // SAFETY: a class's index is below CLASSES.
        List(unsafe { self.partial.get_unchecked(class.index()) })
    }

    /// Whether it is [`SHARED`].
    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        self.is(&raw const SHARED)
    }

    #[inline(always)]
    fn is(&self, other: *const Self) -> bool {
        ptr::eq(self, other)
    }

    /// Makes the heap that of the calling thread.
    pub(crate) fn begin(&self, number: u64, tag_word: usize, hot: &'static HotWords) {
        let _guard = self.lock.lock();
        self.number.store(number, Relaxed);
        self.tag_word.store(tag_word, Relaxed);
        self.hot.store(ptr::from_ref(hot).cast_mut(), Relaxed);
    }

    /// Takes a slot of `class`, getting more as needed; none if that needs another chunk. The caller
    /// owns the heap. Calls nobody.
    #[inline(always)]
    pub(crate) fn take(&'static self, class: Class) -> Option<*mut u8> {
        let bin = self.bin(class);
        loop {
            if let Ok(slot) = bin.pop() {
                return Some(slot.at);
            }
            let filled = bin.slab().is_some_and(|slab| Self::refill(bin, slab));
            if !filled && !self.change_slab(class) {
                return None;
            }
        }
    }

    /// Leaves the slab of an empty bin, which has nothing to give, for another; false if that needs another chunk.
    #[inline(never)]
    fn change_slab(&'static self, class: Class) -> bool {
        let bin = self.bin(class);
        if let Some(slab) = bin.slab() {
            match slab.occupancy().mark_full(due(slab)) {
                MarkFull::Done => fork::note(slab),
                // Slots came back meanwhile.
                MarkFull::Pending => return true,
                MarkFull::Claimed => self.list(slab, chunk::put),
            }
        }
        let next = self.next_slab(class);
        bin.set_slab(next);
        next.is_some()
    }

    /// Takes a slot of the bin's slab that the owner has freed itself; none in every other case. Calls nothing. `empty`
    /// is the word of the bin that was found empty.
    #[inline(always)]
    pub(crate) fn take_own(&self, class: Class, empty: u64) -> Option<Popped> {
        let bin = self.bin(class);
        let slab = bin.slab()?;
        let head = slab.free.load(Relaxed);
        // A thread that forked may have taken this one's bins away for a moment; then that was not this bin.
        if head.is_null() || !bin.is_still(empty) {
            return None;
        }
        let carved = slab.carved.load(Relaxed);
        let n = carved - slab.occupancy().used_of_current();
        slab.free.store(ptr::null_mut(), Relaxed);
        slab.occupancy().take_local(carved);
        // SAFETY: the list has `n` free slots, which the owner has.
        let next = unsafe { (*head).next };
        Some(bin.fill_behind(empty, head, next, n - 1))
    }

    /// Fills the bin from its slab; false if the slab has nothing to give.
    #[inline(never)]
    fn refill(bin: &Bin, slab: &'static Slab) -> bool {
        let occupancy = slab.occupancy();
        let free = slab.free.load(Relaxed);
        let (carved, used) = (slab.carved.load(Relaxed), occupancy.used_of_current());
        if !free.is_null() {
            slab.free.store(ptr::null_mut(), Relaxed);
            bin.fill(free, carved - used);
            occupancy.take_local(carved);
            return true;
        }
        if let Taken::List { head, count } = occupancy.take_remote() {
            fork::note(slab);
            bin.fill(slab.base().wrapping_add(head as usize).cast(), count);
            return true;
        }
        let capacity = slab.capacity.load(Relaxed);
        if carved == capacity {
            return false;
        }
        let bytes = slab.slot_bytes.load(Relaxed);
        let start = slab.data_start.load(Relaxed) + carved * bytes;
        let n = carve(start, bytes).min(capacity - carved);
        let first = slab.base().wrapping_add(start as usize);
        link_slots(first, bytes as usize, n);
        slab.carved.store(carved + n, Relaxed);
        bin.fill(first.cast(), n);
        occupancy.take_local(used + n);
        true
    }

    /// A slab with free slots for `class`, made current: a partial one of ours, one whose owner is
    /// gone, an empty one of ours, or a new one.
    fn next_slab(&'static self, class: Class) -> Option<&'static Slab> {
        let number = self.number.load(Relaxed);
        if let Some(slab) = self.first_partial(class, self, number) {
            return Some(slab);
        }
        if !self.is_shared()
            && let Some(slab) = SHARED.first_partial(class, self, number)
        {
            return Some(slab);
        }
        match self.take_cached() {
            Some(slab) => {
                chunk::recut(slab, class, self, number);
                Some(slab)
            }
            None => chunk::cut(class, self, number),
        }
    }

    /// A slab of the partial list, made current for `heap`; none if there is none that is not claimed.
    fn first_partial(
        &self,
        class: Class,
        heap: &'static Self,
        number: u64,
    ) -> Option<&'static Slab> {
        let partial = self.partial(class);
        // A hint, read without the lock: a slab that comes a moment later is found next time.
        if partial.0.load(Relaxed).is_null() {
            return None;
        }
        let _guard = self.lock.lock();
        let slab = first_unclaimed(&partial)?;
        partial.remove(slab);
        slab.occupancy().make_current();
        slab.set_owner(heap, number);
        Some(slab)
    }

    /// An empty slab of the cache.
    fn take_cached(&self) -> Option<&'static Slab> {
        // Only the owner adds to it.
        if self.cache.load(Relaxed).is_null() {
            return None;
        }
        let _guard = self.lock.lock();
        let slab = List(&self.cache).first()?;
        List(&self.cache).remove(slab);
        self.cached_slabs
            .store(self.cached_slabs.load(Relaxed) - 1, Relaxed);
        Some(slab)
    }

    /// Puts a slab that is on no list on the partial list, unless it turns out to be empty: then it
    /// goes `back`. The caller may do so: it owns the slab, or cleared its FULL flag.
    fn list(&'static self, slab: &'static Slab, back: fn(&'static Slab)) {
        let guard = self.lock.lock();
        self.list_locked(slab, guard, back);
    }

    fn list_locked(&'static self, slab: &'static Slab, guard: Guard<'_>, back: fn(&'static Slab)) {
        self.partial(slab.class()).push(slab);
        slab.occupancy().set_place(Place::Partial);
        if slab.occupancy().wholly_free() == WhollyFree::Yes {
            self.release_locked(slab, guard, back);
        }
    }

    /// Takes a listed slab that is wholly free off its list and gives it `back`. Under the lock.
    fn release_locked(
        &'static self,
        slab: &'static Slab,
        guard: Guard<'_>,
        back: fn(&'static Slab),
    ) {
        self.partial(slab.class()).remove(slab);
        drop(guard);
        back(slab);
    }

    /// Whether the owner takes slots from a slab of its own now.
    #[inline(always)]
    pub(crate) fn is_taking_from(&self, slab: &Slab) -> bool {
        self.bin(slab.class()).is_of(slab)
    }

    /// The owner's free brought `used` of a slab to zero that it does not take slots from.
    #[cold]
    #[inline(never)]
    pub(crate) fn emptied(&'static self, slab: &'static Slab) {
        let guard = self.lock.lock();
        if slab.occupancy().place() != Place::Partial {
            return;
        }
        self.partial(slab.class()).remove(slab);
        let cached = self.cached_slabs.load(Relaxed);
        if (cached as usize) < CACHE_SLABS {
            slab.uncut(Place::Cached);
            List(&self.cache).push(slab);
            self.cached_slabs.store(cached + 1, Relaxed);
        } else {
            drop(guard);
            chunk::give(slab);
        }
    }

    /// The owner freed so many slots of a slab that it had left full that it lists it.
    #[cold]
    #[inline(never)]
    pub(crate) fn was_full(&'static self, slab: &'static Slab) {
        // This free was not its last: `emptied` comes later.
        let lists = slab.occupancy().clear_full();
        // Whoever lists it: a free of another thread's that cleared the flag may not have been noted.
        fork::note(slab);
        if lists {
            self.list(slab, chunk::give);
        }
    }

    /// Gives back what the owner's bin and current slab of `class` hold, and the slab if it is
    /// empty. With `leave` the slab goes to the shared heap otherwise.
    #[inline]
    fn retire_bin(&'static self, class: Class, leave: bool) {
        let bin = self.bin(class);
        if let Some(slab) = bin.slab() {
            Self::retire_slab(bin, slab, leave);
        }
    }

    fn retire_slab(bin: &Bin, slab: &'static Slab, leave: bool) {
        let left = bin.left();
        if left > 0 {
            let head = bin.head.load(Relaxed);
            append(head, left, slab.free.load(Relaxed));
            slab.free.store(head, Relaxed);
            bin.fill(ptr::null_mut(), 0);
            slab.occupancy().return_local(left);
        }
        if let Taken::List { head, count } = slab.occupancy().take_remote() {
            let head = slab.base().wrapping_add(head as usize).cast();
            append(head, count, slab.free.load(Relaxed));
            slab.free.store(head, Relaxed);
            slab.occupancy().return_local(count);
        }
        if slab.occupancy().used() == 0 {
            bin.set_slab(None);
            chunk::put(slab);
        } else if leave {
            bin.set_slab(None);
            adopt_into_shared(slab);
        }
    }

    /// The thread that owns the heap ends: everything goes to the shared heap or to the chunks.
    pub(crate) fn hand_over(&'static self) {
        {
            let _guard = self.lock.lock();
            // From here on a slab that still names this heap is an orphan.
            self.number.store(0, Relaxed);
            self.hot.store(ptr::null_mut(), Relaxed);
        }
        for class in (0..CLASSES).map(Class::of_index) {
            self.retire_bin(class, true);
            let partial = self.partial(class);
            // Without the lock: nobody lists a slab here any more.
            while !partial.0.load(Relaxed).is_null() {
                let guard = self.lock.lock();
                let Some(slab) = partial.first() else { break };
                partial.remove(slab);
                // A claimer looks for the slab under the lock of the heap that it names.
                slab.occupancy().set_place(Place::Full);
                drop(guard);
                adopt_into_shared(slab);
            }
        }
        self.drop_cache();
    }

    fn drop_cache(&self) -> u32 {
        let mut n = 0;
        while let Some(slab) = self.take_cached() {
            chunk::give(slab);
            n += 1;
        }
        n
    }

    /// What the owner can give back of its own bins.
    pub(crate) fn shrink_bins(&'static self) {
        for class in (0..CLASSES).map(Class::of_index) {
            self.retire_bin(class, false);
        }
    }

    /// What anyone may give back: cached slabs, and partial ones that are wholly free.
    pub(crate) fn shrink_lists(&'static self) {
        self.drop_cache();
        for class in (0..CLASSES).map(Class::of_index) {
            self.sweep(class);
        }
    }

    fn sweep(&'static self, class: Class) {
        loop {
            let guard = self.lock.lock();
            let mut at = self.partial(class).first();
            while let Some(slab) = at {
                if slab.occupancy().wholly_free() == WhollyFree::Yes {
                    break;
                }
                at = List::after(slab);
            }
            match at {
                Some(slab) => self.release_locked(slab, guard, chunk::give),
                None => return,
            }
        }
    }

    /// Cached slabs, as of now.
    pub(crate) fn cached_slabs(&self) -> u32 {
        self.cached_slabs.load(Relaxed)
    }
}

/// The first slab of a partial list that no claimer is about to look at. Under the lock.
fn first_unclaimed(partial: &List<'_>) -> Option<&'static Slab> {
    let mut at = partial.first();
    while let Some(slab) = at {
        if slab.occupancy().wholly_free() != WhollyFree::Claimed {
            return Some(slab);
        }
        at = List::after(slab);
    }
    None
}

/// Lists a slab that is on no list, and whose owner is gone, in the shared heap.
fn adopt_into_shared(slab: &'static Slab) {
    {
        // A claimer looks under the lock of the heap that it found in the slab, and must not see
        // the slab listed elsewhere meanwhile.
        let _guard = slab.owner_heap().lock.lock();
        slab.set_owner(&SHARED, SHARED_NUMBER);
    }
    let guard = SHARED.lock.lock();
    SHARED.list_locked(slab, guard, chunk::give);
}

/// Frees a slot of a slab that another heap owns, or whose owner's frees go the same way.
///
/// # Safety
///
/// `ptr` is a live slot of `slab`, and the caller gives it up.
#[inline(never)]
pub(crate) unsafe fn free_remote(ptr: *mut u8, slab: &'static Slab) {
    if !fork::may_pass() {
        fork::wait();
    }
    let base = slab.base();
    let offset = (ptr.addr() - base.addr()) as u32;
    slab.mix_frees();
    let pushed = slab.occupancy().push_remote(offset, |next| {
        let next = next.map_or(ptr::null_mut(), |o| base.wrapping_add(o as usize).cast());
        // SAFETY: the slot is ours until the push succeeds.
        unsafe { ptr.cast::<Slot>().write(Slot { next }) };
    });
    fork::note(slab);
    match pushed {
        Pushed::Quiet => {}
        Pushed::Woke => woke(slab),
        Pushed::Claimed => settle_claim(slab),
    }
}

/// Lists a slab that this thread's push found on no list.
#[cold]
fn woke(slab: &'static Slab) {
    let _change = Change::new();
    let heap = slab.owner_heap();
    let guard = heap.lock.lock();
    if heap.number.load(Relaxed) == slab.owner_number() {
        heap.list_locked(slab, guard, chunk::give);
    } else {
        drop(guard);
        adopt_into_shared(slab);
    }
}

/// Looks whether this thread's free was the last one, and releases the slab if so.
#[cold]
fn settle_claim(slab: &'static Slab) {
    let _change = Change::new();
    loop {
        let heap = slab.owner_heap();
        let guard = heap.lock.lock();
        if !heap.is(slab.owner_heap()) {
            // It changed hands before the lock was ours.
            continue;
        }
        if slab.occupancy().resolve_claim() {
            heap.release_locked(slab, guard, chunk::give);
        }
        return;
    }
}
