//! The heap's lines.

use crate::alloc::scan;

/// What the slabs of one size class hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassUsage {
    /// Bytes of one slot.
    pub slot_bytes: u64,
    /// Slabs cut for the class.
    pub slabs: u64,
    /// Slots in them.
    pub slots: u64,
    /// Slots that the program holds.
    pub live_objs: u64,
    /// Of these, those with a tag ref.
    pub tracked_objs: u64,
    /// Slots that nobody holds.
    pub free_objs: u64,
    /// Bytes of the slabs' vectors.
    pub obj_exts_bytes: u64,
}

/// Every line of the page, in bytes. `docs/SHOW_MEM.md` explains each.
///
/// At a quiet point
/// `obtained = tracked_requested + tracked_waste + untracked_slots + free_current + free_cached +
/// free_partial + free_remote + slab_headers + obj_exts + unused_chunk + large_objects`, each measured
/// on its own; `unaccounted` is what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapTotals {
    /// Obtained from the inner allocator: the sum of the layouts given to it and not yet taken back.
    pub obtained_bytes: u64,
    /// Requested for the small objects that have a tag ref.
    pub tracked_requested_bytes: u64,
    /// What their slots take beyond that.
    pub tracked_waste_bytes: u64,
    /// Slots of small objects without a tag ref.
    pub untracked_slots_bytes: u64,
    /// Free slots of the slabs that threads allocate from now.
    pub free_current_bytes: u64,
    /// Empty slabs that threads keep.
    pub free_cached_bytes: u64,
    /// Free slots of other slabs.
    pub free_partial_bytes: u64,
    /// Slots that other threads freed and the owner has not taken back yet.
    pub free_remote_bytes: u64,
    /// Headers of chunks and slabs.
    pub slab_headers_bytes: u64,
    /// Vectors of tag refs.
    pub obj_exts_bytes: u64,
    /// Slabs that are not cut, and what no slot can use.
    pub unused_chunk_bytes: u64,
    /// Requested for large objects, tracked or not.
    pub large_objects_bytes: u64,
    /// What the lines above do not explain of `obtained_bytes`: 0 at every quiet point.
    pub unaccounted_bytes: i64,

    /// Of `unused_chunk_bytes`, what is with the operating system.
    pub returned_bytes: u64,

    /// Code tags, outside the heap like all that follows.
    pub code_tags_bytes: u64,
    /// Relocations of the code tags.
    pub tag_relocations_bytes: u64,
    /// Strings of the code tags.
    pub tag_strings_bytes: u64,
    /// The side table of tracked large objects.
    pub page_ext_bytes: u64,
    /// The table from ids to tags.
    pub registry_bytes: u64,
    /// The heaps of threads.
    pub thread_heaps_bytes: u64,

    /// Large objects, tracked or not.
    pub large_objs: u64,
    /// Tracked large objects that found no place in page_ext since the program began, because the
    /// system had no memory for it. They count as untracked.
    pub page_ext_missed_objs: u64,
}

impl HeapTotals {
    /// The lines of the equation, each under its label.
    pub(super) fn parts(&self) -> [(&'static str, u64); 11] {
        [
            ("tracked requested", self.tracked_requested_bytes),
            ("tracked waste", self.tracked_waste_bytes),
            ("untracked slots", self.untracked_slots_bytes),
            ("free in current slabs", self.free_current_bytes),
            ("free in cached slabs", self.free_cached_bytes),
            ("free in partial slabs", self.free_partial_bytes),
            ("free by other threads", self.free_remote_bytes),
            ("slab headers", self.slab_headers_bytes),
            ("obj_exts", self.obj_exts_bytes),
            ("unused chunk space", self.unused_chunk_bytes),
            ("large objects", self.large_objects_bytes),
        ]
    }

    /// Metadata outside the heap, each under its label.
    pub(super) fn metadata(&self) -> [(&'static str, u64); 6] {
        [
            ("code tags", self.code_tags_bytes),
            ("tag relocations", self.tag_relocations_bytes),
            ("tag strings", self.tag_strings_bytes),
            ("page_ext", self.page_ext_bytes),
            ("registry", self.registry_bytes),
            ("thread heaps", self.thread_heaps_bytes),
        ]
    }

    /// Sets what is left after all other lines.
    pub(super) fn close(&mut self) {
        let parts = self.parts();
        let explained = parts
            .iter()
            .fold(0_u64, |sum, &(_, bytes)| sum.wrapping_add(bytes));
        self.unaccounted_bytes = self.obtained_bytes.wrapping_sub(explained).cast_signed();
    }
}

/// Usage by class, without slabs.
pub(super) fn no_classes() -> [ClassUsage; scan::CLASS_COUNT] {
    core::array::from_fn(|class| ClassUsage {
        slot_bytes: u64::from(scan::slot_bytes(class)),
        ..ClassUsage::default()
    })
}
