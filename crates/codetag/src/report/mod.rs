//! Reports. They read and never write.
use crate::tag::CodeTag;
use core::fmt;

/// What is live of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Live objects.
    pub live_objs: u64,
    /// Requested bytes of the live objects.
    pub live_bytes: u64,
    /// Bytes that their slots really take.
    pub slot_bytes: u64,
}
/// What one tag owns.
#[derive(Clone, Copy, Debug)]
pub struct TagUsage {
    /// The tag.
    pub tag: &'static CodeTag,
    /// Live objects.
    pub live_objs: u64,
    /// Requested bytes.
    pub live_bytes: u64,
    /// Slot bytes.
    pub slot_bytes: u64,
}
/// What is live and older than the last `enable()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untracked {
    /// Live objects.
    pub live_objs: u64,
    /// Slot bytes.
    pub slot_bytes: u64,
}
/// Every line of the page, in bytes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HeapTotals {
    /// Obtained from the inner allocator: the sum of the layouts given to it.
    pub obtained_bytes: u64,
    /// Vectors of tag refs.
    pub obj_exts_bytes: u64,
    /// The side table of large objects.
    pub page_ext_bytes: u64,
}
/// The heap at one moment.
#[derive(Debug)]
pub struct Snapshot {
    heap: HeapTotals,
}
impl Snapshot {
    /// Scans the heap.
    pub fn take() -> Self {
        Self { heap: HeapTotals::default() }
    }
    /// Whether nothing moved during the scan.
    pub fn is_quiet(&self) -> bool {
        true
    }
    /// Tags with anything live.
    pub fn usages(&self) -> impl Iterator<Item = TagUsage> + '_ {
        core::iter::empty()
    }
    /// Tracked, but allocated with no scope active.
    pub fn untagged(&self) -> Usage {
        Usage::default()
    }
    /// Older than the last `enable()`.
    pub fn untracked(&self) -> Untracked {
        Untracked::default()
    }
    /// The heap's lines.
    pub fn heap(&self) -> &HeapTotals {
        &self.heap
    }
}
/// The page.
#[derive(Debug)]
pub struct ShowMem(());
impl ShowMem {
    /// How many tags the page lists (10 unless told).
    #[must_use]
    pub fn top(self, _n: usize) -> Self {
        self
    }
}
impl fmt::Display for ShowMem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("page\n")
    }
}
/// Scans and makes the page.
pub fn show_mem() -> ShowMem {
    ShowMem(())
}
/// The kernel's allocinfo form.
#[derive(Debug)]
pub struct AllocInfo(());
impl fmt::Display for AllocInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("allocinfo - version: 2.0\n")
    }
}
/// Scans and makes the list of all tags.
pub fn allocinfo() -> AllocInfo {
    AllocInfo(())
}
