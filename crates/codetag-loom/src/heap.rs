//! One slab and the heaps that may have it: what `alloc/heap.rs` of the runtime does between two calls
//! of [`Occupancy`], transcribed step by step. A function here has the name of its original.
//!
//! Pointers are indices of slots, a list of slabs is a flag (there is one slab), a heap's lock is loom's
//! mutex ([`SpinLock`](codetag::protocol::SpinLock) has a model of its own), and giving a slab to its
//! chunk ends its header and writes all of its memory, as the next cut would.

use crate::atomics::{Exact, Family, Header, Loom, U32, U64};
use crate::tracked::Tracked;
use codetag::protocol::{
    LocalFree, MarkFull, Occupancy, Place, Pushed, Taken, WhollyFree, Word32, Word64,
};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MIXED: u64 = 1 << 63;
const USED_APART_SHIFT: u32 = 16;
const FULL: u64 = 1 << 62;
const CLAIM: u64 = 1 << 63;

/// A thread, by the heap that it has.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    heap: usize,
    number: u64,
}

/// The thread that cut the slab.
pub const OWNER: Thread = Thread { heap: 0, number: 2 };
/// Another thread with a heap.
pub const OTHER: Thread = Thread { heap: 2, number: 3 };
/// Any thread that only frees what is not its own.
pub const FREER: Thread = Thread { heap: 1, number: 0 };
/// The heap of slabs whose owner is gone.
const SHARED: usize = 1;
const SHARED_NUMBER: u64 = 1;

/// A step done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Nothing: the order that ships.
    Nothing,
    /// Whoever lists a slab does not look again whether it is wholly free.
    NoSecondLook,
    /// Who looks does so by a load of each word.
    LookByLoad,
    /// The free that makes the owner list a full slab is counted before the flag is cleared.
    CountedBeforeFlag,
    /// A slab is marked full before the owner's words say so.
    FlagBeforeWords,
    /// A claimer does not ask whether the slab changed hands before it had the lock.
    NoSecondAddress,
    /// The owner of an adopted slab changes without the old heap's lock.
    AdoptedWithoutLock,
    /// A slab is taken from a partial list though a claimer is about to look at it.
    ClaimOverlooked,
}

#[derive(Debug, Default)]
struct Lists {
    number: u64,
    partial: bool,
}

#[derive(Debug, Default)]
struct Bin {
    slots: Vec<usize>,
    is_current: bool,
}

/// The slab and three heaps.
#[derive(Debug)]
pub struct World<F: Family = Exact> {
    header: Arc<Header>,
    used: U32<F>,
    place: U32<F>,
    remote: U64<F>,
    owner: U64<F>,
    heap: U32<F>,
    /// Each slot's first word: the next one, while it is free.
    slots: Vec<Tracked<Option<usize>>>,
    /// The owner's list.
    free: Tracked<Vec<usize>>,
    /// Each used by its heap's thread only.
    bins: [Tracked<Bin>; 3],
    lists: [Mutex<Lists>; 3],
    /// The owner's frees after which it lists the slab that it left full.
    due: u32,
    broken: Broken,
    /// Objects that the program holds, as of this moment of the execution.
    live: AtomicUsize,
}

/// What became of the slab, once no thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Given to its chunk.
    Released,
    /// On the partial list of a heap.
    Listed {
        /// Every taken slot came back: the next look releases it.
        wholly_free: bool,
    },
    /// Some heap takes slots from it.
    Current,
    /// On no list, with objects in all slots but for those that the owner may free before it lists it.
    Full,
}

impl World<Exact> {
    /// A slab of `slots`, all live, current.
    #[must_use]
    pub fn new(slots: usize) -> Arc<Self> {
        Self::of(slots, Broken::Nothing)
    }
}

impl<F: Family> World<F> {
    /// The same in another family, or with a step done wrong.
    #[must_use]
    pub fn of(slots: usize, broken: Broken) -> Arc<Self> {
        Self::with_due(slots, 1, broken)
    }

    /// The same with so many frees of the owner's before it lists the slab that it left full.
    #[must_use]
    pub fn with_due(slots: usize, due: u32, broken: Broken) -> Arc<Self> {
        let header = Arc::new(Header::default());
        let world = Self {
            used: U32::of(&header, 0),
            place: U32::of(&header, 0),
            remote: U64::of(&header, 0),
            owner: U64::of(&header, OWNER.number),
            heap: U32::of(&header, OWNER.heap as u32),
            slots: (0..slots).map(|_| Tracked::new(None)).collect(),
            free: Tracked::default(),
            bins: std::array::from_fn(|_| Tracked::default()),
            lists: [OWNER.number, SHARED_NUMBER, OTHER.number].map(|number| {
                Mutex::new(Lists {
                    number,
                    partial: false,
                })
            }),
            due,
            broken,
            live: AtomicUsize::new(slots),
            header,
        };
        world.occupancy().reset(Place::Current);
        world.occupancy().take_local(slots as u32);
        world.bins[OWNER.heap].replace(Bin {
            slots: Vec::new(),
            is_current: true,
        });
        Arc::new(world)
    }

    fn occupancy(&self) -> Occupancy<'_, Loom<F>> {
        Occupancy {
            used: &self.used,
            place: &self.place,
            remote: &self.remote,
        }
    }

    fn lists(&self, heap: usize) -> MutexGuard<'_, Lists> {
        self.lists[heap]
            .lock()
            .expect("no thread panics with a lock")
    }

    fn owner_heap(&self) -> usize {
        self.heap.load(Acquire) as usize
    }

    fn set_owner(&self, heap: usize, number: u64) {
        self.owner.store(number, Relaxed);
        self.heap.store(heap as u32, Release);
    }

    /// `chunk::give` and `chunk::put`.
    fn give(&self) {
        let live = self.live.load(Ordering::Relaxed);
        assert_eq!(live, 0, "a slab with live objects is released");
        self.header.end();
        for slot in &self.slots {
            slot.replace(None);
        }
        self.free.replace(Vec::new());
    }

    /// Allocates an object in the slab, if the thread's bin and the lists lead to a slot: `Heap::take`
    /// up to where another slab would be cut.
    pub fn take(&self, me: Thread) -> Option<usize> {
        loop {
            let mut bin = self.bins[me.heap].replace(Bin::default());
            let slot = bin.slots.pop();
            let is_current = bin.is_current;
            self.bins[me.heap].replace(bin);
            if let Some(slot) = slot {
                // The program writes into its object.
                self.slots[slot].replace(None);
                self.live.fetch_add(1, Ordering::Relaxed);
                return Some(slot);
            }
            if is_current {
                if self.refill(me) {
                    continue;
                }
                match self.mark_full() {
                    MarkFull::Done => {}
                    MarkFull::Pending => continue,
                    MarkFull::Claimed => self.list(me.heap),
                }
                self.set_bin(me, Vec::new(), false);
            }
            if !self.next_slab(me) {
                return None;
            }
            self.set_bin(me, Vec::new(), true);
        }
    }

    fn set_bin(&self, me: Thread, slots: Vec<usize>, is_current: bool) {
        self.bins[me.heap].replace(Bin { slots, is_current });
    }

    fn refill(&self, me: Thread) -> bool {
        let occupancy = self.occupancy();
        let free = self.free.replace(Vec::new());
        if !free.is_empty() {
            let carved = self.slots.len() as u32;
            let n = carved - occupancy.used_of_current();
            assert_eq!(n as usize, free.len(), "the bin's count is its list's");
            self.set_bin(me, free, true);
            occupancy.take_local(carved);
            return true;
        }
        match occupancy.take_remote() {
            Taken::List { head, count } => {
                self.set_bin(me, self.chain(head, count), true);
                true
            }
            Taken::Nothing | Taken::Claimed => false,
        }
    }

    /// The slots of a list that was taken.
    fn chain(&self, head: u32, count: u32) -> Vec<usize> {
        let mut slots = Vec::new();
        let mut at = Some(head as usize);
        for _ in 0..count {
            let slot = at.expect("a list is as long as its count");
            assert!(!slots.contains(&slot), "a list comes back to a slot");
            slots.push(slot);
            at = self.slots[slot].read();
        }
        slots
    }

    fn mark_full(&self) -> MarkFull {
        if self.broken != Broken::FlagBeforeWords {
            return self.occupancy().mark_full(self.due);
        }
        let word = self.remote.load(Relaxed);
        if word & CLAIM != 0 {
            return MarkFull::Claimed;
        }
        if self
            .remote
            .compare_exchange_weak(0, FULL, AcqRel, Relaxed)
            .is_err()
        {
            return MarkFull::Pending;
        }
        let used = self.occupancy().used();
        self.used.store((used - 1) << USED_APART_SHIFT | 1, Release);
        self.occupancy().set_place(Place::Full);
        MarkFull::Done
    }

    fn next_slab(&self, me: Thread) -> bool {
        for heap in [me.heap, SHARED] {
            // The runtime looks at the shared heap's list without its lock first, as a hint only.
            let mut lists = self.lists(heap);
            if lists.partial && self.is_unclaimed() {
                lists.partial = false;
                self.occupancy().make_current();
                self.set_owner(me.heap, me.number);
                return true;
            }
        }
        false
    }

    fn is_unclaimed(&self) -> bool {
        self.broken == Broken::ClaimOverlooked
            || self.occupancy().wholly_free() != WhollyFree::Claimed
    }

    fn list(&self, heap: usize) {
        self.list_locked(self.lists(heap));
    }

    fn list_locked(&self, mut lists: MutexGuard<'_, Lists>) {
        assert!(!lists.partial, "a slab is listed twice");
        lists.partial = true;
        self.occupancy().set_place(Place::Partial);
        if self.broken != Broken::NoSecondLook && self.looks_wholly_free() {
            self.release_locked(lists);
        }
    }

    fn looks_wholly_free(&self) -> bool {
        if self.broken != Broken::LookByLoad {
            return self.occupancy().wholly_free() == WhollyFree::Yes;
        }
        let word = self.remote.load(Acquire);
        let count = (word >> 32) as u32 & 0xffff;
        word & CLAIM == 0 && count > 0 && count == self.occupancy().used()
    }

    fn release_locked(&self, mut lists: MutexGuard<'_, Lists>) {
        assert!(
            lists.partial,
            "a slab is taken off a list that it is not on"
        );
        lists.partial = false;
        drop(lists);
        self.give();
    }

    /// Frees an object of the slab: `path::free_small`.
    pub fn free(&self, me: Thread, slot: usize) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        if self.owner.load(Relaxed) != me.number {
            return self.free_remote(slot);
        }
        let mut free = self.free.replace(Vec::new());
        self.slots[slot].replace(None);
        free.push(slot);
        self.free.replace(free);
        match self.occupancy().local_free() {
            LocalFree::Quiet => {}
            LocalFree::Empty => self.emptied(me),
            LocalFree::WasFull => {
                if self.clear_full() {
                    self.list(self.owner_heap());
                }
            }
        }
    }

    fn clear_full(&self) -> bool {
        if self.broken != Broken::CountedBeforeFlag {
            return self.occupancy().clear_full();
        }
        let used = self.occupancy().used();
        self.used.store(used - 1, Release);
        self.remote.fetch_and(!FULL, AcqRel) & FULL != 0
    }

    fn emptied(&self, me: Thread) {
        let bin = self.bins[me.heap].replace(Bin::default());
        let is_current = bin.is_current;
        self.bins[me.heap].replace(bin);
        if is_current {
            return;
        }
        let lists = self.lists(self.owner_heap());
        if self.occupancy().place() == Place::Partial {
            self.release_locked(lists);
        }
    }

    fn mix_frees(&self) {
        if self.owner.load(Relaxed) & MIXED == 0 && self.occupancy().place() != Place::Current {
            self.owner.fetch_or(MIXED, Relaxed);
        }
    }

    fn free_remote(&self, slot: usize) {
        self.mix_frees();
        let pushed = self.occupancy().push_remote(slot as u32, |next| {
            self.slots[slot].replace(next.map(|n| n as usize));
        });
        match pushed {
            Pushed::Quiet => {}
            Pushed::Woke => self.woke(),
            Pushed::Claimed => self.settle_claim(),
        }
    }

    fn woke(&self) {
        let heap = self.owner_heap();
        let lists = self.lists(heap);
        if lists.number == self.owner.load(Relaxed) & !MIXED {
            self.list_locked(lists);
        } else {
            drop(lists);
            self.adopt_into_shared();
        }
    }

    fn settle_claim(&self) {
        loop {
            let heap = self.owner_heap();
            let lists = self.lists(heap);
            if self.broken != Broken::NoSecondAddress && heap != self.owner_heap() {
                continue;
            }
            if self.occupancy().resolve_claim() {
                self.release_locked(lists);
            }
            return;
        }
    }

    fn adopt_into_shared(&self) {
        if self.broken == Broken::AdoptedWithoutLock {
            self.set_owner(SHARED, SHARED_NUMBER);
        } else {
            let _lists = self.lists(self.owner_heap());
            self.set_owner(SHARED, SHARED_NUMBER);
        }
        self.list(SHARED);
    }

    fn retire_bin(&self, me: Thread) {
        let bin = self.bins[me.heap].replace(Bin::default());
        if !bin.is_current {
            return;
        }
        let mut free = self.free.replace(Vec::new());
        if !bin.slots.is_empty() {
            self.occupancy().return_local(bin.slots.len() as u32);
            free.extend(bin.slots);
        }
        if let Taken::List { head, count } = self.occupancy().take_remote() {
            free.extend(self.chain(head, count));
            self.occupancy().return_local(count);
        }
        self.free.replace(free);
        if self.occupancy().used() == 0 {
            self.give();
        } else {
            self.adopt_into_shared();
        }
    }

    /// The thread ends: `Heap::hand_over`.
    pub fn hand_over(&self, me: Thread) {
        self.lists(me.heap).number = 0;
        self.retire_bin(me);
        let mut lists = self.lists(me.heap);
        if lists.partial {
            lists.partial = false;
            self.occupancy().set_place(Place::Full);
            drop(lists);
            self.adopt_into_shared();
        }
    }

    /// Releases the slab if it is listed in `of`'s heap and wholly free: `Heap::sweep`, by any thread.
    pub fn sweep(&self, of: Thread) {
        let lists = self.lists(of.heap);
        if lists.partial && self.occupancy().wholly_free() == WhollyFree::Yes {
            self.release_locked(lists);
        }
    }

    /// What became of the slab. For when all threads are joined.
    ///
    /// # Panics
    ///
    /// Some words do not fit each other, or the slab is lost: on no list, in no bin, and not full.
    pub fn end(&self) -> End {
        let listed = (0..3).filter(|&heap| self.lists(heap).partial).count();
        if self.header.has_ended() {
            assert_eq!(listed, 0, "a released slab is listed");
            return End::Released;
        }
        let (mut current, mut in_bins) = (0, 0);
        for place in &self.bins {
            let bin = place.replace(Bin::default());
            current += usize::from(bin.is_current);
            in_bins += bin.slots.len();
            place.replace(bin);
        }
        let occupancy = self.occupancy();
        let (used, remote) = (occupancy.used() as usize, occupancy.remote_count() as usize);
        let live = self.live.load(Ordering::Relaxed);
        assert_eq!(
            used - remote,
            live + in_bins,
            "taken slots are objects or in a bin"
        );
        let free = self.free.replace(Vec::new());
        assert_eq!(
            free.len(),
            self.slots.len() - used,
            "other slots are on the owner's list"
        );
        self.free.replace(free);
        assert_eq!(self.remote.load(Acquire) & CLAIM, 0, "a claim is left");
        let place = occupancy.place();
        match (listed, current) {
            (1, 0) => {
                assert_eq!(place, Place::Partial, "the place is not where it is");
                let wholly_free = occupancy.wholly_free() == WhollyFree::Yes;
                assert_eq!(wholly_free, live == 0, "a look finds out");
                End::Listed { wholly_free }
            }
            (0, 1) => {
                assert_eq!(place, Place::Current, "the place is not where it is");
                End::Current
            }
            (0, 0)
                if self.remote.load(Acquire) & FULL != 0
                    && live > 0
                    && self.slots.len() - live < self.due as usize =>
            {
                assert_eq!(place, Place::Full, "the place is not where it is");
                End::Full
            }
            _ => panic!(
                "the slab is lost: on {listed} lists, in {current} bins, {place:?}, {live} live"
            ),
        }
    }
}
