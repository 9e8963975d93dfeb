//! Text in the form of the kernel's `/proc/allocinfo`, versions 1.0 and 2.0 (Linux 6.10 and 6.18,
//! lib/alloc_tag.c).
//!
//! ```text
//! allocinfo - version: 2.0
//! #     <size>  <calls> <tag info>
//!         4096        1 src/x.rs:7 [my_crate] func:load requested:4000 module:my_crate::x column:8
//! ```
//!
//! What the kernel's form has no place for stands in `key:value` pairs behind the function, and behind
//! the second line: readers that count lines or columns find everything where it was.

mod escape;
mod read;
mod write;

pub(crate) use read::read;
pub use write::write;

/// Pairs that are fields of [`Usage`](crate::Usage) and [`Tag`](crate::Tag).
const KNOWN_KEYS: [&str; 5] = ["name", "requested", "module", "column", "accurate"];

pub(crate) fn is_known_key(key: &str) -> bool {
    KNOWN_KEYS.contains(&key)
}

/// What the lines of untagged and of untracked memory have in place of a file.
const UNTAGGED_FILE: &str = "<untagged>";
const UNTRACKED_FILE: &str = "<untracked>";

const VERSION_LINE: &str = "allocinfo - version: ";
const COLUMNS_LINE: &str = "#     <size>  <calls> <tag info>";

/// The pair of the second line that says that texts are escaped.
const ESCAPED: (&str, &str) = ("escaped", "percent");
