//! The page.

use super::size::{SignedSize, Size};
use super::snapshot::Snapshot;
use super::top;
use crate::control::StateKind;
use crate::tag::{self, CodeTag};
use core::fmt;

/// Tags that the page lists unless told otherwise, as the kernel's `show_mem` does.
const TOP: usize = 10;

/// The page that [`show_mem`] makes; `Display` prints it.
#[derive(Debug)]
pub struct ShowMem {
    snapshot: Snapshot,
    top: usize,
}

/// Scans the heap and makes the page: where every byte is, and which code owns it.
///
/// # Examples
///
/// ```
/// #[global_allocator]
/// static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();
///
/// eprint!("{}", codetag::show_mem().top(3));
/// ```
#[must_use]
pub fn show_mem() -> ShowMem {
    ShowMem {
        snapshot: Snapshot::take(),
        top: TOP,
    }
}

impl ShowMem {
    /// Lists the `n` tags with the most requested bytes.
    #[must_use]
    pub fn top(self, n: usize) -> Self {
        Self { top: n, ..self }
    }

    /// The figures that the page prints.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn heap_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heap = self.snapshot.heap();
        writeln!(f, "Heap:")?;
        line(f, "obtained", heap.obtained_bytes)?;
        for (label, bytes) in heap.parts() {
            line(f, label, bytes)?;
        }
        let unaccounted = heap.unaccounted_bytes;
        writeln!(
            f,
            "{:>24}: {:>12} ({unaccounted})",
            "unaccounted",
            SignedSize(unaccounted)
        )?;
        line(f, "returned", heap.returned_bytes)?;
        writeln!(f, "Metadata outside the heap:")?;
        for (label, bytes) in heap.metadata() {
            line(f, label, bytes)?;
        }
        if heap.page_ext_missed_objs > 0 {
            writeln!(
                f,
                "{:>24}: {:>12}",
                "page_ext missed", heap.page_ext_missed_objs
            )?;
        }
        Ok(())
    }

    fn state_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = &self.snapshot.state;
        let motion = if self.snapshot.is_quiet() {
            ""
        } else {
            "; taken in motion"
        };
        writeln!(f, "Profiling:")?;
        writeln!(f, "{:>24}: {state}{motion}", "state")?;
        let without = tag::tags_without_id();
        write!(f, "{:>24}: {}", "ids left", tag::ids_left())?;
        if without > 0 {
            write!(f, "; {without} tags have none and count as untagged")?;
        }
        writeln!(f)?;
        write!(f, "{:>24}: ", "unknown words")?;
        match state.unknown_word {
            Some(word) => writeln!(f, "{word}"),
            None => writeln!(f, "none"),
        }
    }

    /// Whether profiling is on and there was no memory to add up what each tag owns.
    fn lacks_memory(&self) -> bool {
        self.snapshot.state.kind == StateKind::On && !self.snapshot.has_tallies()
    }

    fn coverage_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (untagged, untracked) = (self.snapshot.untagged(), self.snapshot.untracked());
        let (mut objs, mut bytes) = (0, 0);
        for usage in self.snapshot.usages() {
            objs += usage.live_objs;
            bytes += usage.live_bytes;
        }
        writeln!(f, "Coverage:")?;
        if self.lacks_memory() {
            return writeln!(f, "no memory for per-tag figures");
        }
        counted(f, "tagged", bytes, objs, "requested")?;
        counted(
            f,
            "untagged",
            untagged.live_bytes,
            untagged.live_objs,
            "requested",
        )?;
        counted(
            f,
            "untracked",
            untracked.slot_bytes,
            untracked.live_objs,
            "in slots",
        )
    }

    fn tag_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Memory allocations:")?;
        if self.lacks_memory() {
            return writeln!(f, "no memory for per-tag figures");
        }
        for usage in top::top(&self.snapshot, self.top) {
            write!(f, "{:>12} {:>8} ", Size(usage.live_bytes), usage.live_objs)?;
            place(f, usage.tag)?;
            writeln!(f)?;
        }
        Ok(())
    }

    fn class_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Slab info:")?;
        writeln!(
            f,
            "{:>6} {:>8} {:>10} {:>10} {:>10} {:>10} {:>12}",
            "size", "slabs", "slots", "live", "tracked", "free", "obj_exts"
        )?;
        for c in self.snapshot.classes() {
            writeln!(
                f,
                "{:>6} {:>8} {:>10} {:>10} {:>10} {:>10} {:>12}",
                c.slot_bytes,
                c.slabs,
                c.slots,
                c.live_objs,
                c.tracked_objs,
                c.free_objs,
                c.obj_exts_bytes
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for ShowMem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.heap_lines(f)?;
        self.state_lines(f)?;
        self.coverage_lines(f)?;
        self.tag_lines(f)?;
        self.class_lines(f)
    }
}

fn line(f: &mut fmt::Formatter<'_>, label: &str, bytes: u64) -> fmt::Result {
    writeln!(f, "{label:>24}: {:>12} ({bytes})", Size(bytes))
}

fn counted(
    f: &mut fmt::Formatter<'_>,
    label: &str,
    bytes: u64,
    objs: u64,
    what: &str,
) -> fmt::Result {
    writeln!(
        f,
        "{label:>24}: {:>12} ({bytes}) {what}, {objs} objects",
        Size(bytes)
    )
}

/// `FILE:LINE [CRATE] func:FUNC`, with the name behind it if the tag has one.
pub(super) fn place(f: &mut fmt::Formatter<'_>, tag: &CodeTag) -> fmt::Result {
    write!(f, "{}:{} [{}]", tag.file(), tag.line(), tag.krate())?;
    value(f, "func", tag.function())?;
    tag.name().map_or(Ok(()), |name| value(f, "name", name))
}

/// ` KEY:VALUE`, the spaces of the value, which would end it, as `_`.
fn value(f: &mut fmt::Formatter<'_>, key: &str, value: &str) -> fmt::Result {
    write!(f, " {key}:")?;
    let mut words = value.split_whitespace();
    f.write_str(words.next().unwrap_or_default())?;
    words.try_for_each(|word| write!(f, "_{word}"))
}
