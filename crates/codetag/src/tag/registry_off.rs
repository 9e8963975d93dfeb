//! The twin of the registry for builds without tags: nothing is listed and nothing gets an id.

use super::{CodeTag, MetadataBytes, UNTAGGED};

/// Every listed tag of the program: none, the tags are compiled out.
pub fn tags() -> impl Iterator<Item = &'static CodeTag> {
    core::iter::empty()
}

pub(crate) fn assign_listed() {}

pub(super) fn assign(_tag: &'static CodeTag) -> u32 {
    UNTAGGED.id_word()
}

pub(crate) fn max_id() -> u16 {
    0
}

pub(crate) fn by_id(id: u16) -> Option<&'static CodeTag> {
    (id == 0).then_some(&UNTAGGED)
}

pub(crate) fn complete_ids() {}

/// None is ever given.
pub(crate) fn ids_left() -> u32 {
    0
}

pub(crate) fn tags_without_id() -> u64 {
    0
}

pub(crate) fn metadata_bytes() -> MetadataBytes {
    MetadataBytes::default()
}
