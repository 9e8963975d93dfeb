//! How many slots of a slab are taken, who may change that, and who releases the slab.
//!
//! Three words per slab:
//!
//! - `used`: slots that the owner took for its bin or handed out and that did not come back by a
//!   free of the owner's. Written by the owner only. In two halves, whose sum it is: the owner's frees
//!   count the lower one down, and do something when it comes to zero. The upper one is zero but in a
//!   slab that the owner left full, where the lower one is how many frees of its own it waits for before
//!   it lists the slab: one that came back with a single slot would be full again at the next allocation.
//! - `place`: where the slab is. Written by its owner, or by whoever holds the lock of the heap
//!   whose list it is on.
//! - `remote`: the list of slots that other threads freed and its length, two flags: FULL (the
//!   slab is on no list; whoever clears the flag lists it) and CLAIM (a thread saw that its free
//!   was the last one and is about to look under the lock), and the number of looks, so that a push
//!   that compared with an older `used` than a look fails and compares again.
//!
//! Invariants: `used >= remote.count` always, so `used == 0` leaves nothing remote and no claim.
//! `used` only falls while the slab is not its owner's current one. A thread touches the header
//! after a remote push only if the push cleared FULL or set CLAIM; while either holds, nobody else
//! releases the slab. The owner touches it after a free of its own only if that brought `used` to
//! zero or cleared FULL: else what is left may be on the remote list, and the slab be gone.

use super::{Atomics, Word32, Word64};
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const USED_APART_SHIFT: u32 = 16;
const USED_COUNTED: u32 = (1 << USED_APART_SHIFT) - 1;
const FULL: u64 = 1 << 62;
const CLAIM: u64 = 1 << 63;
const COUNT_SHIFT: u32 = 32;
const COUNT_MASK: u64 = 0xffff;
/// Looks of [`Occupancy::wholly_free`], modulo 16,384.
const LOOKS: u64 = 0x3fff << LOOK_SHIFT;
const LOOK_SHIFT: u32 = 48;

const fn count(word: u64) -> u32 {
    ((word >> COUNT_SHIFT) & COUNT_MASK) as u32
}

const fn head(word: u64) -> u32 {
    word as u32
}

/// What a word of `used` says.
const fn total(word: u32) -> u32 {
    (word & USED_COUNTED) + (word >> USED_APART_SHIFT)
}

/// Where a slab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Place {
    /// Not cut: in its chunk.
    Chunk = 0,
    /// The slab that its owner's bin takes slots from.
    Current = 1,
    /// On the partial list of its heap.
    Partial = 2,
    /// On no list; all slots taken when it was left.
    Full = 3,
    /// Empty, kept by its heap for the next class that needs a slab.
    Cached = 4,
}

impl Place {
    const fn of(word: u32) -> Self {
        match word {
            1 => Self::Current,
            2 => Self::Partial,
            3 => Self::Full,
            4 => Self::Cached,
            _ => Self::Chunk,
        }
    }
}

/// What a free by another thread came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// Nothing more to do; the slab must not be touched again.
    Quiet,
    /// The slab was on no list: list it.
    Woke,
    /// Perhaps the last object: look under the heap's lock and [`Occupancy::resolve_claim`].
    Claimed,
}

/// What a free by the owner came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalFree {
    /// Nothing more to do.
    Quiet,
    /// The last taken slot came back.
    Empty,
    /// So many slots of a slab that was left full came back that it is to be listed: see
    /// [`Occupancy::clear_full`].
    WasFull,
}

/// What the owner found on the remote list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// No slots.
    Nothing,
    /// A claim is being looked into; leave the slab alone.
    Claimed,
    /// A list that starts at offset `head` and has `count` slots.
    List {
        /// Offset of the first slot.
        head: u32,
        /// Number of slots.
        count: u32,
    },
}

/// Whether the owner could leave a slab as full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkFull {
    /// It is on no list now; the owner must not touch it again.
    Done,
    /// Slots came back meanwhile.
    Pending,
    /// A claim is being looked into.
    Claimed,
}

/// What a look under the lock said about a listed slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhollyFree {
    /// Some object lives, or the owner is about to act on the last free itself.
    No,
    /// Every taken slot is on the remote list: the looker may release the slab.
    Yes,
    /// Another thread holds the claim and will look.
    Claimed,
}

/// What a thread was about to do to a slab that it had woken or claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The slab is on no list, and the flag that said so is cleared.
    pub must_be_listed: bool,
    /// Somebody has to look whether the slab is wholly free.
    pub is_claimed: bool,
}

/// A view of the three words of one slab.
pub struct Occupancy<'a, A: Atomics> {
    /// See the module.
    pub used: &'a A::U32,
    /// See the module.
    pub place: &'a A::U32,
    /// See the module.
    pub remote: &'a A::U64,
}

impl<A: Atomics> fmt::Debug for Occupancy<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Occupancy")
            .field("used", &self.used())
            .field("place", &self.place())
            .field("remote", &self.remote_count())
            .finish()
    }
}

impl<A: Atomics> Occupancy<'_, A> {
    /// Slots taken, those on the remote list included.
    #[inline]
    pub fn used(&self) -> u32 {
        total(self.used.load(Acquire))
    }

    /// Slots on the remote list.
    #[inline]
    pub fn remote_count(&self) -> u32 {
        count(self.remote.load(Acquire))
    }

    /// Where the slab is.
    #[inline]
    pub fn place(&self) -> Place {
        Place::of(self.place.load(Acquire))
    }

    /// Moves the slab. The caller owns the slab or holds the lock of its heap.
    #[inline]
    pub fn set_place(&self, place: Place) {
        self.place.store(place as u32, Release);
    }

    /// The owner takes its slots from this slab from now on.
    pub fn make_current(&self) {
        self.used.store(total(self.used.load(Relaxed)), Release);
        self.set_place(Place::Current);
    }

    /// Slots taken of the slab that the owner takes its slots from, as only the owner may ask.
    #[inline(always)]
    pub fn used_of_current(&self) -> u32 {
        // Nothing stands apart.
        self.used.load(Relaxed)
    }

    /// Nothing taken, nothing remote. The caller owns the slab alone.
    pub fn reset(&self, place: Place) {
        self.remote.store(0, Relaxed);
        self.used.store(0, Relaxed);
        self.set_place(place);
    }

    /// The owner took more slots of its current slab for its bin: `used` of them are taken now.
    #[inline(always)]
    pub fn take_local(&self, used: u32) {
        self.used.store(used, Release);
    }

    /// The owner gives back `n` slots that were never handed out.
    pub fn return_local(&self, n: u32) {
        self.used
            .store(total(self.used.load(Relaxed)).wrapping_sub(n), Release);
    }

    /// The owner freed one slot and linked it into its own list. [`LocalFree::WasFull`] is not
    /// counted yet: [`Occupancy::clear_full`] does that.
    #[inline(always)]
    pub fn local_free(&self) -> LocalFree {
        let word = self.used.load(Relaxed).wrapping_sub(1);
        // One test for both rare cases.
        if word & USED_COUNTED != 0 {
            self.used.store(word, Release);
            LocalFree::Quiet
        } else if word == 0 {
            self.used.store(word, Release);
            LocalFree::Empty
        } else {
            LocalFree::WasFull
        }
    }

    /// Another thread freed the slot at `offset`. `link` is told which offset must stand in the
    /// slot as the next one, perhaps several times; the last word counts.
    #[inline]
    pub fn push_remote(&self, offset: u32, mut link: impl FnMut(Option<u32>)) -> Pushed {
        // Acquires what a looker wrote before its look: its `used` is the one to compare with.
        let mut word = self.remote.load(Acquire);
        loop {
            let n = count(word);
            link((n > 0).then(|| head(word)));
            let list = u64::from(offset) | (u64::from(n) + 1) << COUNT_SHIFT;
            let (flags, outcome) = if word & FULL != 0 {
                (0, Pushed::Woke)
            } else if word & CLAIM == 0 && n + 1 == self.used() {
                (CLAIM, Pushed::Claimed)
            } else {
                (word & CLAIM, Pushed::Quiet)
            };
            match self.remote.compare_exchange_weak(
                word,
                list | flags | word & LOOKS,
                AcqRel,
                Acquire,
            ) {
                Ok(_) => return outcome,
                Err(now) => word = now,
            }
        }
    }

    /// The owner takes the remote list; the slots stay counted as used.
    pub fn take_remote(&self) -> Taken {
        let mut word = self.remote.load(Relaxed);
        loop {
            if word & CLAIM != 0 {
                return Taken::Claimed;
            }
            if count(word) == 0 {
                return Taken::Nothing;
            }
            match self
                .remote
                .compare_exchange_weak(word, word & (FULL | LOOKS), AcqRel, Relaxed)
            {
                Ok(_) => {
                    return Taken::List {
                        head: head(word),
                        count: count(word),
                    };
                }
                Err(now) => word = now,
            }
        }
    }

    /// The owner leaves its current slab, all of whose slots are taken. It lists the slab when it has freed `due`
    /// of them, another thread as soon as it frees one.
    pub fn mark_full(&self, due: u32) -> MarkFull {
        let used = total(self.used.load(Relaxed));
        // One stays behind: the free that lists the slab is not its last.
        let due = due.min(used.saturating_sub(1)).max(1);
        // Before the flag: whoever clears it lists the slab at once.
        self.used
            .store((used - due) << USED_APART_SHIFT | due, Release);
        self.set_place(Place::Full);
        let mut word = self.remote.load(Relaxed);
        loop {
            let failed = if word & CLAIM != 0 {
                MarkFull::Claimed
            } else if count(word) != 0 {
                MarkFull::Pending
            } else {
                match self
                    .remote
                    .compare_exchange_weak(word, FULL | word & LOOKS, AcqRel, Relaxed)
                {
                    Ok(_) => return MarkFull::Done,
                    Err(now) => {
                        word = now;
                        continue;
                    }
                }
            };
            self.used.store(used, Release);
            self.set_place(Place::Current);
            return failed;
        }
    }

    /// The owner saw [`LocalFree::WasFull`]; counts that free. Returns whether the owner must list
    /// the slab. If not, another thread has listed it or is about to, and the slab must not be
    /// touched again: with the free counted, anyone may find it wholly free and release it.
    pub fn clear_full(&self) -> bool {
        // First the flag: as long as the free is not counted the slab cannot be released.
        let lists = self.remote.fetch_and(!FULL, AcqRel) & FULL != 0;
        let used = total(self.used.load(Relaxed));
        self.used.store(used.wrapping_sub(1), Release);
        lists
    }

    /// Looks, under the lock of the heap that lists the slab, whether every taken slot came back
    /// through the remote list. Changes the word: a push that comes later sees all that the caller
    /// wrote before, also one that had read the words already.
    pub fn wholly_free(&self) -> WhollyFree {
        let mut word = self.remote.load(Relaxed);
        loop {
            let looked = word & !LOOKS | word.wrapping_add(1 << LOOK_SHIFT) & LOOKS;
            match self
                .remote
                .compare_exchange_weak(word, looked, AcqRel, Relaxed)
            {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word & CLAIM != 0 {
            WhollyFree::Claimed
        } else if count(word) > 0 && count(word) == self.used() {
            WhollyFree::Yes
        } else {
            WhollyFree::No
        }
    }

    /// In a forked child, of a slab whose owner is gone: what was noted of the words before the fork holds.
    /// No flag is left, nor a claim; the caller finds the slab a place.
    pub fn go_back_and_leave_lists(&self, used: u32, remote: u64) {
        self.used.store(total(used), Relaxed);
        self.remote.store(remote & !(FULL | CLAIM), Relaxed);
    }

    /// In a forked child, of a slab whose owner is there: what was noted of the remote list before the fork
    /// holds. Says what threads that are gone were about to do.
    pub fn go_back_remote(&self, remote: u64) -> Pending {
        self.remote.store(remote, Relaxed);
        Pending {
            must_be_listed: self.place() == Place::Full && remote & FULL == 0,
            is_claimed: remote & CLAIM != 0,
        }
    }

    /// The claimer looks, under the lock of the slab's heap. True: the slab is listed and wholly
    /// free, and the caller's to release. False: the claim is given up and the slab must not be
    /// touched again.
    pub fn resolve_claim(&self) -> bool {
        let mut word = self.remote.load(Acquire);
        loop {
            if self.place() == Place::Partial && count(word) == self.used() {
                return true;
            }
            // Exactly this word: a push in between was not looked at, and did not claim.
            match self
                .remote
                .compare_exchange_weak(word, word & !CLAIM, AcqRel, Acquire)
            {
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Std;
    use core::sync::atomic::{AtomicU32, AtomicU64};

    #[derive(Default)]
    struct Words {
        used: AtomicU32,
        place: AtomicU32,
        remote: AtomicU64,
    }

    impl Words {
        /// A slab of `slots`, all taken, that its owner has left.
        fn full(slots: u32) -> Self {
            let words = Self::default();
            words.view().reset(Place::Current);
            words.view().take_local(slots);
            assert_eq!(words.view().mark_full(1), MarkFull::Done);
            words
        }

        fn view(&self) -> Occupancy<'_, Std> {
            Occupancy {
                used: &self.used,
                place: &self.place,
                remote: &self.remote,
            }
        }
    }

    #[test]
    fn the_owners_first_free_of_a_full_slab_holds_it_until_counted() {
        let words = Words::full(4);
        let slab = words.view();
        assert_eq!(slab.push_remote(0, |_| ()), Pushed::Woke);
        slab.set_place(Place::Partial);
        assert_eq!(slab.wholly_free(), WhollyFree::No);
        assert_eq!(slab.local_free(), LocalFree::WasFull);
        // The owner is about to touch the slab: no other free may come out as the last one.
        assert_eq!(slab.push_remote(16, |_| ()), Pushed::Quiet);
        assert_eq!(slab.push_remote(32, |_| ()), Pushed::Quiet);
        assert_eq!(slab.wholly_free(), WhollyFree::No);
        assert!(!slab.clear_full(), "the other thread listed it");
        assert_eq!(slab.wholly_free(), WhollyFree::Yes);
    }

    #[test]
    fn the_owners_first_free_lists_a_full_slab_that_nobody_else_woke() {
        let words = Words::full(3);
        let slab = words.view();
        assert_eq!(slab.local_free(), LocalFree::WasFull);
        assert!(slab.clear_full());
        assert_eq!(slab.used(), 2);
        assert_eq!(slab.push_remote(0, |_| ()), Pushed::Quiet);
        // The last free, but the slab is on no list yet: the claim is given up.
        assert_eq!(slab.push_remote(16, |_| ()), Pushed::Claimed);
        assert!(!slab.resolve_claim());
        slab.set_place(Place::Partial);
        assert_eq!(slab.wholly_free(), WhollyFree::Yes);
    }

    #[test]
    fn the_owner_lists_a_full_slab_when_so_many_are_free_as_are_due() {
        for (slots, due, passing) in [(40, 3, 2), (40, 0, 0), (4, 9, 2), (2, 5, 0)] {
            let words = Words::default();
            let slab = words.view();
            slab.reset(Place::Current);
            slab.take_local(slots);
            assert_eq!(slab.mark_full(due), MarkFull::Done);
            for n in 1..=passing {
                assert_eq!(slab.local_free(), LocalFree::Quiet, "{n} of {due}");
                assert_eq!((slab.used(), slab.place()), (slots - n, Place::Full));
            }
            assert_eq!(slab.local_free(), LocalFree::WasFull);
            assert_eq!(slab.used(), slots - passing, "counted by the next call");
            assert!(slab.clear_full());
            assert_eq!(slab.used(), slots - passing - 1);
            for _ in 2..slots - passing {
                assert_eq!(slab.local_free(), LocalFree::Quiet);
            }
            assert_eq!(slab.local_free(), LocalFree::Empty);
        }
    }

    #[test]
    fn a_slab_that_is_taken_up_again_counts_as_before() {
        let words = Words::default();
        let slab = words.view();
        slab.reset(Place::Current);
        slab.take_local(8);
        assert_eq!(slab.mark_full(4), MarkFull::Done);
        assert_eq!(slab.local_free(), LocalFree::Quiet);
        assert_eq!(slab.push_remote(0, |_| ()), Pushed::Woke);
        slab.set_place(Place::Partial);
        slab.make_current();
        assert_eq!(slab.used_of_current(), 7);
        for _ in 0..6 {
            assert_eq!(slab.local_free(), LocalFree::Quiet);
        }
        assert_eq!(slab.local_free(), LocalFree::Empty);
    }

    #[test]
    fn the_last_remote_free_of_a_listed_slab_releases_it() {
        let words = Words::full(2);
        let slab = words.view();
        assert_eq!(slab.push_remote(0, |_| ()), Pushed::Woke);
        slab.set_place(Place::Partial);
        assert_eq!(slab.push_remote(16, |_| ()), Pushed::Claimed);
        assert_eq!(slab.wholly_free(), WhollyFree::Claimed);
        assert_eq!(slab.take_remote(), Taken::Claimed);
        assert!(slab.resolve_claim());
    }
}
