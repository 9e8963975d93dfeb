//! Code tags: static places in the source, and the registry that lists them.
//!
//! Knows nothing of allocation. A [`CodeTag`] says where; the registry says which tags there are and
//! gives each the number (its id) that a live object is marked with.
//!
//! With the tags compiled out the registry is a twin with the same signatures that lists nothing.

use core::fmt;
use core::mem::size_of;
use core::sync::atomic::{AtomicU32, Ordering};

#[cfg(not(codetag_off))]
#[allow(unsafe_code, reason = "a table of pointers in memory of its own")]
mod ids;
#[cfg(not(codetag_off))]
#[allow(unsafe_code, reason = "a slice that the linker puts together")]
mod registry;
#[cfg(codetag_off)]
#[path = "tag/registry_off.rs"]
#[allow(
    dead_code,
    reason = "the twin has every signature; who asks for ids is compiled out too"
)]
mod registry;

#[cfg(not(codetag_off))]
pub use registry::CODETAG_TAGS;
pub use registry::tags;
#[cfg_attr(
    codetag_off,
    allow(unused_imports, reason = "who asks for ids is compiled out")
)]
pub(crate) use registry::{
    assign_listed, by_id, complete_ids, ids_left, max_id, metadata_bytes, tags_without_id,
};

/// One tagged source place.
///
/// The attribute [`alloc_tag`](crate::alloc_tag) and the macro [`alloc_hooks!`](crate::alloc_hooks)
/// each make one static of this type: 32 B, and one relocation of 24 B in a position-independent
/// executable. The strings are shared with nothing and counted apart. One function has one tag,
/// however many instances of a generic function there are.
// 16 + 4 + 4 + 4 B; the rest up to the alignment of the pointer is unused.
#[repr(C)]
pub struct CodeTag {
    /// Module path, function, file and name, separated by NUL bytes: one string costs one relocation.
    text: &'static str,
    line: u32,
    column: u32,
    /// The id in the upper 16 bits, zeros below; [`NO_ID`] until one is given.
    pub(crate) id_word: AtomicU32,
}

const _: () = assert!(size_of::<CodeTag>() <= 32);

/// The id word of a tag that has no id yet: the only one that overflows when a size is added.
pub(crate) const NO_ID: u32 = u32::MAX;

/// The bits of an id word, and of a tag ref, that hold the id.
pub(crate) const ID_MASK: u32 = 0xffff_0000;

/// What the current tag is while no scope is active. Its id is 0 always.
pub(crate) static UNTAGGED: CodeTag = CodeTag {
    text: "\0untagged\0<untagged>\0",
    line: 0,
    column: 0,
    id_word: AtomicU32::new(0),
};

/// Where a part of the text stands between the NUL bytes.
const MODULE_PATH: usize = 0;
const FUNCTION: usize = 1;
const FILE: usize = 2;
const NAME: usize = 3;

impl CodeTag {
    /// Not part of the public interface: the macros build their statics with it.
    ///
    /// `text` is module path, function, file and name with one NUL byte between each two.
    #[doc(hidden)]
    #[must_use]
    pub const fn __new(text: &'static str, line: u32, column: u32) -> Self {
        Self {
            text,
            line,
            column,
            id_word: AtomicU32::new(NO_ID),
        }
    }

    fn part(&self, index: usize) -> &'static str {
        self.text.split('\0').nth(index).unwrap_or("")
    }

    /// The crate: the part of [`module_path`](Self::module_path) before the first `::`.
    #[must_use]
    pub fn krate(&self) -> &'static str {
        let path = self.module_path();
        path.split_once("::").map_or(path, |(krate, _)| krate)
    }

    /// The module the place stands in, as `module_path!()` gives it: `my_crate::inner`.
    #[must_use]
    pub fn module_path(&self) -> &'static str {
        self.part(MODULE_PATH)
    }

    /// The function's name.
    ///
    /// It is `Type::method` (`Trait::method`) where the attribute stands on the `impl` block, the
    /// trait or a module around them, and `method` where it stands on the method alone: an attribute
    /// sees only what it stands on. It is `alloc_hooks` for a tagged expression.
    #[must_use]
    pub fn function(&self) -> &'static str {
        self.part(FUNCTION)
    }

    /// The source file, as `file!()` gives it.
    #[must_use]
    pub fn file(&self) -> &'static str {
        self.part(FILE)
    }

    /// The line of the function's name in [`file`](Self::file), counted from 1.
    #[must_use]
    pub const fn line(&self) -> u32 {
        self.line
    }

    /// The column of the function's name, counted from 1.
    #[must_use]
    pub const fn column(&self) -> u32 {
        self.column
    }

    /// The name given with `name = "…"`, if one was given.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        Some(self.part(NAME)).filter(|name| !name.is_empty())
    }

    /// The id in the upper 16 bits, zeros below; [`NO_ID`] if the tag has none yet.
    #[inline]
    pub(crate) fn id_word(&self) -> u32 {
        self.id_word.load(Ordering::Relaxed)
    }

    /// Gives an id to a tag that has none, at its first use while On. Returns the id word: that of
    /// [`UNTAGGED`] when no ids are left.
    ///
    /// Allocates nothing, takes no lock, and may race with itself.
    #[cold]
    #[cfg_attr(
        codetag_off,
        allow(dead_code, reason = "who asks for ids is compiled out")
    )]
    pub(crate) fn assign(&'static self) -> u32 {
        registry::assign(self)
    }
}

impl fmt::Debug for CodeTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = f.debug_struct("CodeTag");
        words.field(
            "function",
            &format_args!("{}::{}", self.module_path(), self.function()),
        );
        words.field(
            "place",
            &format_args!("{}:{}:{}", self.file(), self.line, self.column),
        );
        if let Some(name) = self.name() {
            words.field("name", &name);
        }
        match self.id_word() {
            NO_ID => words.field("id", &format_args!("none yet")),
            word => words.field("id", &(word >> 16)),
        };
        words.finish()
    }
}

/// What the tags themselves cost, in bytes, apart from anything allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetadataBytes {
    /// The statics: 32 B per listed tag.
    pub(crate) tags_bytes: u64,
    /// Their relocations: 24 B per listed tag (none in a static, non-relocatable executable).
    pub(crate) relocations_bytes: u64,
    /// Module paths, functions, files and names.
    pub(crate) strings_bytes: u64,
    /// What the table from ids to tags takes for the ids given so far: 8 B each.
    pub(crate) registry_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_text() {
        let tag = CodeTag::__new("krate::deep::er\0Type::method\0src/x.rs\0the name", 3, 9);
        assert_eq!(tag.krate(), "krate");
        assert_eq!(tag.module_path(), "krate::deep::er");
        assert_eq!(tag.function(), "Type::method");
        assert_eq!(tag.file(), "src/x.rs");
        assert_eq!((tag.line(), tag.column()), (3, 9));
        assert_eq!(tag.name(), Some("the name"));

        let plain = CodeTag::__new("root\0f\0src/main.rs\0", 1, 1);
        assert_eq!((plain.krate(), plain.module_path()), ("root", "root"));
        assert_eq!(plain.name(), None);
    }

    #[test]
    fn debug_prints_words() {
        let tag = CodeTag::__new("a::b\0f\0src/x.rs\0", 3, 9);
        assert_eq!(
            format!("{tag:?}"),
            "CodeTag { function: a::b::f, place: src/x.rs:3:9, id: none yet }"
        );
        assert_eq!(
            format!("{UNTAGGED:?}"),
            "CodeTag { function: ::untagged, place: <untagged>:0:0, id: 0 }"
        );
    }

    #[test]
    fn untagged_keeps_id_zero() {
        assert_eq!(UNTAGGED.id_word(), 0);
        assert_eq!(UNTAGGED.assign(), 0);
        assert!(core::ptr::eq(by_id(0).unwrap(), &raw const UNTAGGED));
    }
}
