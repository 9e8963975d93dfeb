//! The list of all tags, in a section that the linker puts together.
//!
//! # Safety model
//!
//! The only unsafe code here is linkme's: the section `linkme_CODETAG_TAGS` holds values of `CodeTag`
//! and nothing else, which linkme checks at each element. The section is read for reports and when
//! profiling is enabled, never while memory is allocated: with codetag in a Rust dylib the program's
//! own tags lie outside it.

use super::ids::Ids;
use super::{CodeTag, MetadataBytes};
use core::mem::size_of;

/// Every tag of the program. Not part of the public interface: the macros add to it.
#[doc(hidden)]
#[linkme::distributed_slice]
pub static CODETAG_TAGS: [CodeTag];

static IDS: Ids = Ids::new();

/// One `R_X86_64_RELATIVE` entry in `.rela.dyn`.
const RELOCATION_BYTES: usize = 24;

/// Every listed tag of the program, hit or not, in the order of the section.
///
/// Listed are the tags of the executable and of all crates linked into it, also those of functions that
/// are never called and of generic functions that are never instantiated. With codetag in a Rust
/// dylib, the tags of other objects are not listed; their figures are exact all the same. With the tags
/// compiled out the list is empty.
///
/// # Examples
///
/// ```
/// #[codetag::alloc_tag]
/// fn load() -> Vec<u8> {
///     vec![0; 100]
/// }
///
/// for tag in codetag::tags().filter(|tag| tag.function() == "load") {
///     println!("{}:{} in {}", tag.file(), tag.line(), tag.krate());
/// }
/// ```
pub fn tags() -> impl Iterator<Item = &'static CodeTag> {
    CODETAG_TAGS.static_slice().iter()
}

/// Gives ids to all listed tags that have none, in the order of the section. May race with itself.
pub(crate) fn assign_listed() {
    for tag in tags() {
        IDS.assign(tag);
    }
}

pub(super) fn assign(tag: &'static CodeTag) -> u32 {
    IDS.assign(tag)
}

/// The highest id given so far; 0 if none. Tags that are hit later may get higher ones at any time.
pub(crate) fn max_id() -> u16 {
    IDS.max_id()
}

/// The tag of an id. 0 is always the untagged one; `None` for an id that was not given yet.
pub(crate) fn by_id(id: u16) -> Option<&'static CodeTag> {
    IDS.by_id(id)
}

/// In a forked child: completes what threads that are gone were doing.
pub(crate) fn complete_ids() {
    IDS.complete();
}

/// How many more tags can get an id.
pub(crate) fn ids_left() -> u32 {
    IDS.ids_left()
}

/// How many tags asked for an id when none was left; what they own counts as untagged.
pub(crate) fn tags_without_id() -> u64 {
    IDS.tags_without_id()
}

/// What the listed tags cost.
pub(crate) fn metadata_bytes() -> MetadataBytes {
    let listed = CODETAG_TAGS.static_slice();
    let tags = listed.len() as u64;
    MetadataBytes {
        tags_bytes: tags * size_of::<CodeTag>() as u64,
        relocations_bytes: tags * RELOCATION_BYTES as u64,
        strings_bytes: listed.iter().map(|tag| tag.text.len() as u64).sum(),
        registry_bytes: u64::from(max_id()) * size_of::<*const CodeTag>() as u64,
    }
}
