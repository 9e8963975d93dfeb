//! From the figures of the running program.

use crate::profile::{Owner, Profile, Source, Tag, Usage};
use codetag::{CodeTag, HeapTotals, Snapshot, TagUsage};
use std::collections::HashMap;
use std::ptr;
use std::time::{SystemTime, UNIX_EPOCH};

impl Profile {
    /// The figures of `snapshot`, with every tag of the program: those that own nothing too.
    ///
    /// Allocates from the measured heap, but the snapshot was taken before and is not disturbed. The
    /// time is that of this call, the program's name that of its executable.
    ///
    /// # Examples
    ///
    /// ```
    /// let profile = codetag_export::Profile::from_snapshot(&codetag::Snapshot::take());
    /// # let path = std::env::temp_dir().join(format!("codetag-doc-{}.json", std::process::id()));
    /// codetag_export::save(&path, |file| codetag_export::json::write(&profile, file))?;
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let mut owned: HashMap<*const CodeTag, TagUsage> = snapshot
            .usages()
            .map(|usage| (ptr::from_ref(usage.tag), usage))
            .collect();
        let mut usages = Vec::new();
        for tag in codetag::tags() {
            usages.push(match owned.remove(&ptr::from_ref(tag)) {
                Some(usage) => of_tag(&usage),
                None => of_tag(&TagUsage {
                    tag,
                    live_objs: 0,
                    live_bytes: 0,
                    slot_bytes: 0,
                }),
            });
        }
        // Tags that the linker does not list, in the order of their ids.
        usages.extend(
            snapshot
                .usages()
                .filter(|usage| owned.contains_key(&ptr::from_ref(usage.tag)))
                .map(|usage| of_tag(&usage)),
        );
        let (untagged, untracked) = (snapshot.untagged(), snapshot.untracked());
        usages.push(Usage {
            owner: Owner::Untagged,
            live_objs: untagged.live_objs,
            requested_bytes: Some(signed(untagged.live_bytes)),
            slot_bytes: signed(untagged.slot_bytes),
            is_accurate: true,
            extra: Vec::new(),
        });
        usages.push(Usage {
            owner: Owner::Untracked,
            live_objs: untracked.live_objs,
            requested_bytes: None,
            slot_bytes: signed(untracked.slot_bytes),
            is_accurate: false,
            extra: Vec::new(),
        });
        Self {
            source: Source::Snapshot,
            program: program(),
            taken_unix_ns: now_unix_ns(),
            is_quiet: Some(snapshot.is_quiet()),
            heap: heap_lines(snapshot.heap()),
            usages,
        }
    }
}

fn of_tag(usage: &TagUsage) -> Usage {
    Usage {
        owner: Owner::Tag(Tag::from(usage.tag)),
        live_objs: usage.live_objs,
        requested_bytes: Some(signed(usage.live_bytes)),
        slot_bytes: signed(usage.slot_bytes),
        is_accurate: true,
        extra: Vec::new(),
    }
}

impl From<&CodeTag> for Tag {
    fn from(tag: &CodeTag) -> Self {
        Self {
            krate: Some(tag.krate().to_owned()),
            module_path: Some(tag.module_path().to_owned()),
            function: tag.function().to_owned(),
            file: tag.file().to_owned(),
            line: tag.line(),
            column: Some(tag.column()),
            name: tag.name().map(str::to_owned),
        }
    }
}

/// No address space holds as much as is cut off here.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn program() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn now_unix_ns() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

fn heap_lines(heap: &HeapTotals) -> Vec<(String, i64)> {
    let mut lines: Vec<(String, i64)> = [
        ("obtained_bytes", heap.obtained_bytes),
        ("tracked_requested_bytes", heap.tracked_requested_bytes),
        ("tracked_waste_bytes", heap.tracked_waste_bytes),
        ("untracked_slots_bytes", heap.untracked_slots_bytes),
        ("free_current_bytes", heap.free_current_bytes),
        ("free_cached_bytes", heap.free_cached_bytes),
        ("free_partial_bytes", heap.free_partial_bytes),
        ("free_remote_bytes", heap.free_remote_bytes),
        ("slab_headers_bytes", heap.slab_headers_bytes),
        ("obj_exts_bytes", heap.obj_exts_bytes),
        ("unused_chunk_bytes", heap.unused_chunk_bytes),
        ("large_objects_bytes", heap.large_objects_bytes),
        ("returned_bytes", heap.returned_bytes),
        ("code_tags_bytes", heap.code_tags_bytes),
        ("tag_relocations_bytes", heap.tag_relocations_bytes),
        ("tag_strings_bytes", heap.tag_strings_bytes),
        ("page_ext_bytes", heap.page_ext_bytes),
        ("registry_bytes", heap.registry_bytes),
        ("thread_heaps_bytes", heap.thread_heaps_bytes),
        ("large_objs", heap.large_objs),
        ("page_ext_missed_objs", heap.page_ext_missed_objs),
    ]
    .map(|(name, value)| (name.to_owned(), signed(value)))
    .into();
    lines.push(("unaccounted_bytes".to_owned(), heap.unaccounted_bytes));
    lines
}
