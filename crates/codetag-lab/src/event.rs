//! What a trace holds, whichever format it was written in.
//!
//! Readers implement [`Source`], the replay consumes it, one [`Event`] at a time: nothing here grows
//! with the length of a trace. Strings (cache names, call sites) are interned in [`Names`].

use std::collections::HashMap;
use std::fmt;

/// Number of an interned string. Only meaningful together with the [`Names`] that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

impl Name {
    /// What stands for every string past [`Names::MAX`] distinct ones, and for an unknown call site.
    pub const OTHER: Self = Self(0);

    /// A dense index, 0 to [`Names::len`] − 1.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Interned strings.
#[derive(Clone, Debug)]
pub struct Names {
    strings: Vec<Box<str>>,
    ids: HashMap<Box<str>, Name>,
}

impl Names {
    /// So many distinct strings are kept; further ones become [`Name::OTHER`], which bounds what a
    /// trace with made-up names can take.
    pub const MAX: usize = 1 << 16;

    /// A table that holds [`Name::OTHER`] alone.
    #[must_use]
    pub fn new() -> Self {
        Self {
            strings: vec!["?".into()],
            ids: HashMap::from([("?".into(), Name::OTHER)]),
        }
    }

    /// The number of `string`, a new one if need be.
    pub fn intern(&mut self, string: &str) -> Name {
        if let Some(&name) = self.ids.get(string) {
            return name;
        }
        let Some(id) = u32::try_from(self.strings.len())
            .ok()
            .filter(|_| self.strings.len() < Self::MAX)
        else {
            return Name::OTHER;
        };
        self.strings.push(string.into());
        self.ids.insert(string.into(), Name(id));
        Name(id)
    }

    /// The number of `string`, if it has one.
    #[must_use]
    pub fn find(&self, string: &str) -> Option<Name> {
        self.ids.get(string).copied()
    }

    /// The string of `name`; `?` for a name of another table.
    #[must_use]
    pub fn get(&self, name: Name) -> &str {
        self.strings.get(name.index()).map_or("?", |string| string)
    }

    /// The string whose name has this [`index`](Name::index); `?` if none has.
    #[must_use]
    pub fn by_index(&self, index: usize) -> &str {
        self.strings.get(index).map_or("?", |string| string)
    }

    /// Distinct strings, [`Name::OTHER`] included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Never: [`Name::OTHER`] is always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

/// Those of the kernel's gfp flags that choose a cache or change what is charged.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct GfpFlags(u8);

impl GfpFlags {
    /// `__GFP_RECLAIMABLE`: kmalloc takes from `kmalloc-rcl-*`.
    pub const RECLAIMABLE: Self = Self(1);
    /// `__GFP_ACCOUNT` (also in `GFP_KERNEL_ACCOUNT`), or `accounted=true`: charged to a memory cgroup,
    /// kmalloc takes from `kmalloc-cg-*` where they exist.
    pub const ACCOUNT: Self = Self(2);
    /// `__GFP_DMA`: kmalloc takes from `dma-kmalloc-*`.
    pub const DMA: Self = Self(4);
    /// `__GFP_NOFAIL`: charged beyond a limit.
    pub const NOFAIL: Self = Self(8);

    const WORDS: [(&'static str, Self); 6] = [
        ("__GFP_RECLAIMABLE", Self::RECLAIMABLE),
        ("__GFP_ACCOUNT", Self::ACCOUNT),
        ("GFP_KERNEL_ACCOUNT", Self::ACCOUNT),
        ("__GFP_DMA", Self::DMA),
        ("GFP_DMA", Self::DMA),
        ("__GFP_NOFAIL", Self::NOFAIL),
    ];

    /// Both sets of flags.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// From the text of an event, `GFP_KERNEL|__GFP_ZERO`. Words that are not listed here are left out.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        text.split('|')
            .filter_map(|word| Self::WORDS.iter().find(|(known, _)| *known == word.trim()))
            .fold(Self::default(), |all, (_, flag)| all.with(*flag))
    }
}

impl fmt::Debug for GfpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for (word, flag) in [
            ("RECLAIMABLE", Self::RECLAIMABLE),
            ("ACCOUNT", Self::ACCOUNT),
            ("DMA", Self::DMA),
            ("NOFAIL", Self::NOFAIL),
        ] {
            if self.has(flag) {
                set.entry(&format_args!("{word}"));
            }
        }
        set.finish()
    }
}

/// Which function allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `kmalloc` and its kin: the class follows from the size.
    Kmalloc,
    /// `kmem_cache_alloc` from the named cache.
    Cache {
        /// The name of the cache; with merged caches that of the surviving one.
        name: Name,
        /// How the name is known.
        known_by: KnownBy,
    },
}

/// How the reader knows a cache's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// The event has it.
    Event,
    /// A later free of the same pointer has it.
    Free,
    /// It is made up from call site and size; objects of one cache may fall apart into several.
    Site,
}

/// An object is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alloc {
    /// Its address, or any number that no other live object has. Never 0.
    pub ptr: u64,
    /// Who was asked.
    pub origin: Origin,
    /// What was asked for; the object size with caches. 0 where the kernel did not know yet.
    pub bytes_req: u64,
    /// What the traced kernel's allocator took for it: the slot with SLUB, with the header in SLOB.
    pub bytes_alloc: u64,
    /// The caller.
    pub call_site: Name,
    /// The flags of the call.
    pub flags: GfpFlags,
}

/// An object is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Its address. Never 0: readers leave out `kfree(NULL)`.
    pub ptr: u64,
    /// The cache that the event names; `None` for `kfree`.
    pub cache: Option<Name>,
    /// Whether it was freed from the end of an RCU grace period. `false` where that is not known.
    pub by_rcu: bool,
}

/// 2^`order` pages are allocated from, or given back to, the page allocator.
///
/// Slab pages are among them: the replay tells them apart by the objects that lie in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Number of the first page frame.
    pub pfn: u64,
    /// Power of two of the number of pages.
    pub order: u8,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An object was allocated.
    Alloc(Alloc),
    /// An object was freed.
    Free(Free),
    /// Pages were allocated.
    PageAlloc(Pages),
    /// Pages were freed.
    PageFree(Pages),
}

/// One event of a trace, in the order of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds on the trace's own clock; 0 where the event has no time.
    pub time_ns: u64,
    /// The CPU that it happened on, from 0.
    pub cpu: u16,
    /// What happened.
    pub kind: Kind,
}

/// What a reader saw, besides the events that it handed on. All are counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Events handed on.
    pub events: u64,
    /// Lines that are events of other kinds, comments and headers.
    pub skipped_lines: u64,
    /// Lines that look like an event of a known kind and could not be read.
    pub malformed_lines: u64,
    /// Events that the kernel says it lost.
    pub lost_events: u64,
    /// `kfree(NULL)`.
    pub null_frees: u64,
    /// Whether the file ends in the middle.
    pub truncated: bool,
}

/// A stream of events.
pub trait Source {
    /// The next event; `None` at the end.
    ///
    /// # Errors
    ///
    /// What cannot be read at all. Single lines that cannot be read are counted, not an error.
    fn next_event(&mut self) -> Result<Option<Event>, ReadError>;

    /// The strings of the events handed on so far.
    fn names(&self) -> &Names;

    /// What was seen so far; whole once [`next_event`](Self::next_event) returned `None`.
    fn counts(&self) -> ReadCounts;

    /// How far the reading got, in bytes of the file as stored, for a progress bar.
    fn position_bytes(&self) -> u64 {
        0
    }
}

/// Why a trace could not be read.
#[derive(Debug)]
pub struct ReadError {
    /// From 1; 0 where no line is at fault.
    pub line: u64,
    /// A sentence without the file's name and without a full stop.
    pub message: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str(&self.message)
        } else {
            write!(f, "line {}: {}", self.line, self.message)
        }
    }
}

impl std::error::Error for ReadError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_has_one_name() {
        let mut names = Names::new();
        let dentry = names.intern("dentry");
        assert_eq!(names.intern("dentry"), dentry);
        assert_eq!(names.find("dentry"), Some(dentry));
        assert_eq!(names.get(dentry), "dentry");
        assert_eq!(names.get(Name::OTHER), "?");
        assert_eq!(names.len(), 2);
    }

    #[test]
    fn distinct_names_are_bounded() {
        let mut names = Names::new();
        for i in 1..Names::MAX {
            assert_ne!(names.intern(&format!("site{i}")), Name::OTHER);
        }
        assert_eq!(names.intern("one more"), Name::OTHER);
        assert_eq!(names.len(), Names::MAX);
    }

    #[test]
    fn flags_are_read_by_words() {
        let flags = GfpFlags::from_text("GFP_KERNEL_ACCOUNT|__GFP_ZERO|__GFP_RECLAIMABLE");
        assert_eq!(flags, GfpFlags::ACCOUNT.with(GfpFlags::RECLAIMABLE));
        assert_eq!(GfpFlags::from_text("GFP_KERNEL"), GfpFlags::default());
        assert_eq!(GfpFlags::from_text("GFP_DMA32"), GfpFlags::default());
        assert_eq!(format!("{flags:?}"), "{RECLAIMABLE, ACCOUNT}");
    }
}
