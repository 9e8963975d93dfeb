//! The heap at one moment, in figures.

use super::heap_totals::{ClassUsage, HeapTotals, no_classes};
use super::scratch::{Scratch, Tally};
use crate::alloc::scan::{self, Counters, SlabView};
use crate::control::{State, state};
use crate::tag::{self, CodeTag};

/// Ids that may be given while a scan runs and are still told apart.
const SLACK_IDS: usize = 64;

/// What is live of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Live objects.
    pub live_objs: u64,
    /// Bytes that were requested for them.
    pub live_bytes: u64,
    /// Bytes that their slots take.
    pub slot_bytes: u64,
}

/// What one tag owns.
#[derive(Clone, Copy, Debug)]
pub struct TagUsage {
    /// The tag.
    pub tag: &'static CodeTag,
    /// Live objects.
    pub live_objs: u64,
    /// Bytes that were requested for them.
    pub live_bytes: u64,
    /// Bytes that their slots take.
    pub slot_bytes: u64,
}

/// What is live without a tag ref: older than the last [`enable`](crate::enable), or allocated
/// while profiling was not on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untracked {
    /// Live objects.
    pub live_objs: u64,
    /// Bytes that their slots take. What was requested is not known.
    pub slot_bytes: u64,
}

/// The heap at one moment.
///
/// At a quiet point, when nothing is allocated or freed since the scan began, every figure is
/// exact. In motion an object that lives throughout, and is not reallocated, is counted exactly
/// once, one that was freed before never; no figure is negative.
///
/// Holds one block of the inner allocator's until dropped.
#[derive(Debug)]
pub struct Snapshot {
    tallies: Scratch,
    pub(super) classes: [ClassUsage; scan::CLASS_COUNT],
    pub(super) heap: HeapTotals,
    pub(super) state: State,
    untracked: Untracked,
    is_quiet: bool,
}

impl Snapshot {
    /// Scans the heap. Costs a walk over all chunks and 40 KiB of stack, so that a thread
    /// needs at least 64 KiB; stops nobody.
    #[must_use]
    pub fn take() -> Self {
        let before = scan::fingerprint();
        // Once: profiling may be turned off while the scan runs.
        let with_refs = scan::has_refs();
        let len = if with_refs {
            usize::from(tag::max_id()) + 1 + SLACK_IDS
        } else {
            0
        };
        let mut snapshot = Self {
            tallies: Scratch::new(len),
            classes: no_classes(),
            heap: HeapTotals::default(),
            state: state(),
            untracked: Untracked::default(),
            is_quiet: false,
        };
        let counted = scan::counters();
        let missed_slabs = snapshot.scan_slabs(with_refs);
        snapshot.scan_large(with_refs, &counted);
        snapshot.note_counters(&counted);
        snapshot.heap.close();
        snapshot.mark_listed();
        snapshot.is_quiet = missed_slabs == 0 && before.is_some() && scan::fingerprint() == before;
        snapshot
    }

    /// Returns how many slabs never kept still.
    fn scan_slabs(&mut self, with_refs: bool) -> u64 {
        let Self {
            tallies,
            classes,
            heap,
            untracked,
            ..
        } = self;
        let tallies = tallies.tallies_mut();
        let mut outside_bytes = 0;
        let chunks = scan::for_each_slab(with_refs, |view, refs| {
            let tracked = count_refs(&view, refs, tallies);
            let slot_bytes = u64::from(view.slot_bytes);
            let live = u64::from(view.live);
            heap.tracked_requested_bytes += tracked.live_bytes;
            heap.tracked_waste_bytes += tracked.slot_bytes.saturating_sub(tracked.live_bytes);
            let without = live.saturating_sub(tracked.live_objs);
            untracked.live_objs += without;
            untracked.slot_bytes += without * slot_bytes;
            heap.untracked_slots_bytes += without * slot_bytes;
            let free_bytes = u64::from(view.free) * slot_bytes;
            *(if view.is_current {
                &mut heap.free_current_bytes
            } else {
                &mut heap.free_partial_bytes
            }) += free_bytes;
            heap.free_remote_bytes += u64::from(view.remote) * slot_bytes;
            heap.obj_exts_bytes += u64::from(view.ext_bytes);
            heap.unused_chunk_bytes += u64::from(view.tail_bytes);
            outside_bytes += if view.is_ext_outside {
                u64::from(view.ext_bytes)
            } else {
                0
            };

            let class = &mut classes[view.class];
            class.slabs += 1;
            class.slots += u64::from(view.capacity);
            class.live_objs += live;
            class.tracked_objs += tracked.live_objs;
            class.free_objs += u64::from(view.free + view.remote);
            class.obj_exts_bytes += u64::from(view.ext_bytes);
        });
        heap.slab_headers_bytes = chunks.chunks * scan::CHUNK_HEAD_BYTES;
        heap.unused_chunk_bytes += chunks.free_slabs * scan::SLAB_BYTES as u64;
        heap.unused_chunk_bytes +=
            (chunks.chunks * scan::CHUNK_SPARE_BYTES).saturating_sub(outside_bytes);
        chunks.missed_slabs
    }

    fn scan_large(&mut self, with_refs: bool, counted: &Counters) {
        let Self {
            tallies,
            heap,
            untracked,
            ..
        } = self;
        let tallies = tallies.tallies_mut();
        let (mut objs, mut bytes) = (0, 0);
        if with_refs {
            scan::for_each_large(|requested, word| {
                let requested = requested as u64;
                objs += 1;
                let obtained = requested + scan::LARGE_EXTRA_BYTES as u64;
                bytes += obtained;
                let usage = Usage {
                    live_objs: 1,
                    live_bytes: requested,
                    slot_bytes: obtained,
                };
                tally(tallies, word, usage);
            });
        }
        // What is out and has no entry. Entries of objects that are gone would show as unaccounted.
        let objs_without = counted.large_objs.saturating_sub(objs);
        let bytes_without = counted.large_bytes.saturating_sub(bytes);
        untracked.live_objs += objs_without;
        untracked.slot_bytes += bytes_without;
        heap.large_objs = objs + objs_without;
        heap.large_objects_bytes = bytes + bytes_without;

        let usage = scan::page_ext_usage();
        heap.page_ext_bytes = usage.table_bytes;
        heap.page_ext_missed_objs = usage.missed_objs;
    }

    fn note_counters(&mut self, counted: &Counters) {
        let metadata = tag::metadata_bytes();
        let heap = &mut self.heap;
        heap.obtained_bytes = counted.chunk_bytes.wrapping_add(counted.large_bytes);
        heap.returned_bytes = counted.returned_bytes;
        heap.free_cached_bytes = counted.cached_slabs * scan::SLAB_BYTES as u64;
        heap.thread_heaps_bytes = counted.heap_bytes;
        heap.code_tags_bytes = metadata.tags_bytes;
        heap.tag_relocations_bytes = metadata.relocations_bytes;
        heap.tag_strings_bytes = metadata.strings_bytes;
        heap.registry_bytes = metadata.registry_bytes;
    }

    fn mark_listed(&mut self) {
        let tallies = self.tallies.tallies_mut();
        for tag in tag::tags() {
            if let Some(t) = tallies.get_mut(id_of(tag.id_word())) {
                t.is_listed = true;
            }
        }
    }

    /// Whether nothing was allocated or freed while the scan ran, so that every figure is exact.
    ///
    /// A thread that was stopped all the while among the few instructions of an allocation or a free
    /// is not seen; its one object may then be missed.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Tags with anything live, in the order of their ids. Empty while profiling is not on.
    pub fn usages(&self) -> impl Iterator<Item = TagUsage> + '_ {
        self.by_id()
            .filter(|(_, t)| t.objs > 0)
            .filter_map(|(id, t)| {
                Some(TagUsage {
                    tag: tag::by_id(id)?,
                    live_objs: t.objs,
                    live_bytes: t.bytes,
                    slot_bytes: t.slot_bytes,
                })
            })
    }

    fn by_id(&self) -> impl Iterator<Item = (u16, &Tally)> {
        self.tallies
            .tallies()
            .iter()
            .enumerate()
            .skip(1)
            .filter_map(|(id, t)| Some((u16::try_from(id).ok()?, t)))
    }

    /// What `tag` owns; nothing if it owns nothing.
    pub(super) fn usage_of(&self, tag: &CodeTag) -> Usage {
        match self.tallies.tallies().get(id_of(tag.id_word())) {
            Some(t) if tag.id_word() != 0 => t.usage(),
            _ => Usage::default(),
        }
    }

    /// Tags that have an id but that the linker does not list.
    pub(super) fn unlisted(&self) -> impl Iterator<Item = &'static CodeTag> {
        self.by_id()
            .filter(|(_, t)| !t.is_listed)
            .filter_map(|(id, _)| tag::by_id(id))
    }

    /// Whether there was memory for figures per tag.
    pub(super) fn has_tallies(&self) -> bool {
        !self.tallies.tallies().is_empty()
    }

    /// What is tracked but was allocated while no scope was active.
    #[must_use]
    pub fn untagged(&self) -> Usage {
        self.tallies
            .tallies()
            .first()
            .map_or_else(Usage::default, Tally::usage)
    }

    /// What is live without a tag ref.
    #[must_use]
    pub fn untracked(&self) -> Untracked {
        self.untracked
    }

    /// Every line of the page, in bytes.
    #[must_use]
    pub fn heap(&self) -> &HeapTotals {
        &self.heap
    }

    /// The slabs by size class, smallest first; classes without a slab left out.
    pub fn classes(&self) -> impl Iterator<Item = &ClassUsage> {
        self.classes.iter().filter(|c| c.slabs > 0)
    }
}

impl Tally {
    fn usage(&self) -> Usage {
        Usage {
            live_objs: self.objs,
            live_bytes: self.bytes,
            slot_bytes: self.slot_bytes,
        }
    }
}

/// The index of a tag's tally; far out for a tag without an id.
fn id_of(word: u32) -> usize {
    (word >> 16) as usize
}

fn tally(tallies: &mut [Tally], word: u32, usage: Usage) {
    if let Some(t) = tallies.get_mut(id_of(word)) {
        t.objs += usage.live_objs;
        t.bytes += usage.live_bytes;
        t.slot_bytes += usage.slot_bytes;
    }
}

fn count_refs(view: &SlabView, refs: &[u32], tallies: &mut [Tally]) -> Usage {
    let slot_bytes = u64::from(view.slot_bytes);
    let (mut live_objs, mut live_bytes) = (0, 0);
    let mut count = |word: u32, objs: u64, bytes: u64| {
        live_objs += objs;
        live_bytes += bytes;
        let usage = Usage {
            live_objs: objs,
            live_bytes: bytes,
            slot_bytes: objs * slot_bytes,
        };
        tally(tallies, word, usage);
    };
    let bytes_of = |r: u32| u64::from(r & 0xffff);
    // Objects of one tag often lie side by side, and each addition to a tally waits for the one before.
    let (fours, rest) = refs.as_chunks::<4>();
    for &[a, b, c, d] in fours {
        if ((a ^ b) | (a ^ c) | (a ^ d)) >> 16 == 0 {
            let objs = [a, b, c, d].iter().map(|&r| u64::from(r != 0)).sum();
            count(
                a,
                objs,
                bytes_of(a) + bytes_of(b) + bytes_of(c) + bytes_of(d),
            );
            continue;
        }
        for r in [a, b, c, d] {
            if r != 0 {
                count(r, 1, bytes_of(r));
            }
        }
    }
    for &r in rest {
        if r != 0 {
            count(r, 1, bytes_of(r));
        }
    }
    Usage {
        live_objs,
        live_bytes,
        slot_bytes: live_objs * slot_bytes,
    }
}
