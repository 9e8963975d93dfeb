//! The ids: a number for each tag that is used while On, and the way back.
//!
//! # Safety model
//!
//! The table is one anonymous mapping of zeros, 65,536 pointers long, made at the first id and never
//! unmapped; the pointer to it goes from null to the mapping once. A slot goes from null to one
//! `&'static CodeTag` once and never changes again. So a non-null table may be read at any index below
//! 65,536 by any thread for ever, and a non-null slot is a `&'static CodeTag`.
//!
//! # How an id is given
//!
//! `next` is the lowest id that may be free. To take it, a thread stores its tag into the slot with a
//! compare-exchange; whoever finds the slot taken completes the work of the one who took it (the tag's
//! id word, then `next`) and tries again. `next` passes a slot only after the id word of the tag in it
//! is set, so a thread that reads `next` and *then* finds its tag without an id knows that the tag
//! holds no slot below `next`: a tag never takes two ids, and ids have no holes.

use super::{CodeTag, NO_ID, UNTAGGED};
use core::mem::size_of;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Ids are 16 bits wide; 0 is [`UNTAGGED`]'s and 0xffff says "none yet".
const LAST_ID: u32 = 0xfffe;
/// The id word of [`UNTAGGED`].
const UNTAGGED_WORD: u32 = 0;
const SLOTS: usize = 0x1_0000;
const TABLE_BYTES: usize = SLOTS * size_of::<AtomicPtr<CodeTag>>();

/// The slots of [`Ids`] and what was given so far.
pub(super) struct Ids {
    table: AtomicPtr<AtomicPtr<CodeTag>>,
    /// The lowest id that may be free: 1…[`LAST_ID`] + 1.
    next: AtomicU32,
    /// Tags that asked when no id was left (or no memory for the table).
    without_id: AtomicU64,
}

impl Ids {
    pub(super) const fn new() -> Self {
        Self {
            table: AtomicPtr::new(ptr::null_mut()),
            next: AtomicU32::new(1),
            without_id: AtomicU64::new(0),
        }
    }

    /// The id word of `tag`, given now if it has none. 0 when none is left.
    pub(super) fn assign(&self, tag: &'static CodeTag) -> u32 {
        loop {
            let id = self.next.load(Ordering::Acquire);
            let word = tag.id_word.load(Ordering::Acquire);
            if word != NO_ID {
                return word;
            }
            let slot = if id <= LAST_ID {
                self.slot_or_map(id)
            } else {
                None
            };
            let Some(slot) = slot else {
                return self.refuse(tag);
            };
            let mine = ptr::from_ref(tag).cast_mut();
            let holder = match slot.compare_exchange(
                ptr::null_mut(),
                mine,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => tag,
                // SAFETY: a slot that is not null is a `&'static CodeTag`.
                Err(other) => unsafe { &*other },
            };
            // A failure of either means that somebody else completed the same step.
            let _ = holder.id_word.compare_exchange(
                NO_ID,
                id << 16,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            let _ = self
                .next
                .compare_exchange(id, id + 1, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Makes `tag` count as untagged for good, and counts it once.
    fn refuse(&self, tag: &'static CodeTag) -> u32 {
        match tag.id_word.compare_exchange(
            NO_ID,
            UNTAGGED_WORD,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => {
                self.without_id.fetch_add(1, Ordering::Relaxed);
                UNTAGGED_WORD
            }
            Err(word) => word,
        }
    }

    fn slot_or_map(&self, id: u32) -> Option<&AtomicPtr<CodeTag>> {
        if self.table.load(Ordering::Acquire).is_null() {
            let fresh = crate::sys::map_zeroed(TABLE_BYTES);
            if fresh.is_null() {
                // Unless another thread had more luck meanwhile.
                return self.slot(id);
            }
            let made = self.table.compare_exchange(
                ptr::null_mut(),
                fresh.cast(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if made.is_err() {
                // SAFETY: `fresh` was mapped above with this length and nobody else has seen it.
                unsafe { crate::sys::unmap(fresh, TABLE_BYTES) };
            }
        }
        self.slot(id)
    }

    fn slot(&self, id: u32) -> Option<&AtomicPtr<CodeTag>> {
        let table = self.table.load(Ordering::Acquire);
        if table.is_null() || id as usize >= SLOTS {
            return None;
        }
        // SAFETY: the mapping has SLOTS slots, all zero or written as atomics, is aligned to a page,
        // and stays for ever.
        Some(unsafe { &*table.add(id as usize) })
    }

    pub(super) fn by_id(&self, id: u16) -> Option<&'static CodeTag> {
        if id == 0 {
            return Some(&UNTAGGED);
        }
        let tag = self.slot(id.into())?.load(Ordering::Acquire);
        // SAFETY: a slot that is not null is a `&'static CodeTag`.
        unsafe { tag.as_ref() }
    }

    /// The highest id that any id word may hold now.
    pub(super) fn max_id(&self) -> u16 {
        let mut next = self.next.load(Ordering::Acquire);
        // A tag's id word is set before `next` moves on.
        while next <= LAST_ID
            && self
                .slot(next)
                .is_some_and(|slot| !slot.load(Ordering::Acquire).is_null())
        {
            next += 1;
        }
        u16::try_from(next - 1).unwrap_or(u16::MAX)
    }

    /// In a forked child: completes what threads that are gone were doing. The pages of the parent were
    /// copied one after the other, so a tag may lack the id that its slot gives it.
    pub(super) fn complete(&self) {
        for id in 1..=LAST_ID {
            let tag = self.slot(id).map(|slot| slot.load(Ordering::Acquire));
            // SAFETY: a slot that is not null is a `&'static CodeTag`.
            let Some(tag) = tag.and_then(|tag| unsafe { tag.as_ref() }) else {
                break;
            };
            let _ =
                tag.id_word
                    .compare_exchange(NO_ID, id << 16, Ordering::AcqRel, Ordering::Acquire);
            self.next.fetch_max(id + 1, Ordering::AcqRel);
        }
    }

    pub(super) fn ids_left(&self) -> u32 {
        LAST_ID - u32::from(self.max_id())
    }

    pub(super) fn tags_without_id(&self) -> u64 {
        self.without_id.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread;

    fn leaked(n: usize) -> &'static [CodeTag] {
        Box::leak(
            (0..n)
                .map(|_| CodeTag::__new("m\0f\0x.rs\0", 1, 1))
                .collect(),
        )
    }

    #[test]
    fn ids_are_given_in_turn_and_once() {
        let ids = Ids::new();
        let tags = leaked(3);
        assert_eq!((ids.max_id(), ids.ids_left()), (0, 65_534));
        assert!(ids.by_id(1).is_none());
        for (i, tag) in (1u32..).zip(tags) {
            assert_eq!(ids.assign(tag), i << 16);
            assert_eq!(ids.assign(tag), i << 16);
            assert!(ptr::eq(ids.by_id(i as u16).unwrap(), tag));
        }
        assert_eq!(
            (ids.max_id(), ids.ids_left(), ids.tags_without_id()),
            (3, 65_531, 0)
        );
    }

    #[test]
    fn racing_threads_agree_and_leave_no_holes() {
        const TAGS: usize = 4_000;
        const THREADS: usize = 8;
        let ids = Ids::new();
        let tags = leaked(TAGS);
        let start = Barrier::new(THREADS);
        let given: Vec<Vec<u32>> = thread::scope(|s| {
            let run = || {
                start.wait();
                tags.iter().map(|tag| ids.assign(tag)).collect()
            };
            let threads: Vec<_> = (0..THREADS).map(|_| s.spawn(run)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(given.iter().all(|g| g == &given[0]));
        let distinct: HashSet<u32> = given[0].iter().copied().collect();
        assert_eq!(distinct.len(), TAGS);
        assert_eq!(usize::from(ids.max_id()), TAGS);
        for (tag, word) in tags.iter().zip(&given[0]) {
            assert!(ptr::eq(ids.by_id((word >> 16) as u16).unwrap(), tag));
        }
    }

    #[test]
    fn past_the_last_id_tags_count_as_untagged() {
        let ids = Ids::new();
        let tags = leaked(65_540);
        for tag in &tags[..65_534] {
            assert_ne!(ids.assign(tag), 0);
        }
        assert_eq!(
            (ids.max_id(), ids.ids_left(), ids.tags_without_id()),
            (65_534, 0, 0)
        );
        for tag in &tags[65_534..] {
            assert_eq!(ids.assign(tag), 0);
            assert_eq!(ids.assign(tag), 0);
            assert_eq!(tag.id_word(), 0);
        }
        assert_eq!(ids.tags_without_id(), 6);
        assert!(ids.by_id(65_535).is_none());
    }
}
