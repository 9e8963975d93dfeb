//! All tags in the kernel's form: `/proc/allocinfo`, version 2.0 (Linux 6.18, lib/alloc_tag.c).

use super::show_mem::place;
use super::snapshot::{Snapshot, Usage};
use crate::tag::{self, CodeTag};
use core::fmt;

/// The list that [`allocinfo`] makes; `Display` prints it.
#[derive(Debug)]
pub struct AllocInfo {
    snapshot: Snapshot,
}

/// Scans the heap and lists every tag, those that own nothing too, in the order of the tag section.
///
/// `<size>` is slot bytes, as in the kernel; `requested:N` follows the function. What was allocated
/// without a scope, and what has no tag ref, are lines of their own.
#[must_use]
pub fn allocinfo() -> AllocInfo {
    AllocInfo {
        snapshot: Snapshot::take(),
    }
}

fn entry(f: &mut fmt::Formatter<'_>, usage: Usage, tag: &CodeTag) -> fmt::Result {
    write!(f, "{:>12} {:>8} ", usage.slot_bytes, usage.live_objs)?;
    place(f, tag)?;
    writeln!(f, " requested:{} ", usage.live_bytes)
}

impl fmt::Display for AllocInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("allocinfo - version: 2.0\n#     <size>  <calls> <tag info>\n")?;
        for tag in tag::tags().chain(self.snapshot.unlisted()) {
            entry(f, self.snapshot.usage_of(tag), tag)?;
        }
        let (untagged, untracked) = (self.snapshot.untagged(), self.snapshot.untracked());
        writeln!(
            f,
            "{:>12} {:>8} <untagged>:0 func:untagged requested:{} ",
            untagged.slot_bytes, untagged.live_objs, untagged.live_bytes
        )?;
        writeln!(
            f,
            "{:>12} {:>8} <untracked>:0 func:untracked accurate:no ",
            untracked.slot_bytes, untracked.live_objs
        )
    }
}
