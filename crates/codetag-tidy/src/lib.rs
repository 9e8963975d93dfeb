//! House rules of this repository. What they hold for is in `lists`; `tests/tidy.rs` runs them over the tree.

#![forbid(unsafe_code)]

pub mod lists;
pub mod manifest;
pub mod safety;
pub mod source;
pub mod tree;

/// A place where a rule is broken, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// From the repository's root.
    pub path: String,
    /// From 1; 0 for the file as a whole.
    pub line: usize,
    /// A sentence that says what to edit.
    pub says: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.says),
            line => write!(f, "{}:{line}: {}", self.path, self.says),
        }
    }
}
