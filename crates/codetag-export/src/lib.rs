//! Profiles of codetag as files: written by a running program, read by tools that people use.
//!
//! # From a running program
//!
//! ```
//! use codetag_export::{Profile, json, save};
//!
//! # let folder = std::env::temp_dir().join(format!("codetag-doc-lib-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("heap.json");
//! let profile = Profile::from_snapshot(&codetag::Snapshot::take());
//! save(&path, |file| json::write(&profile, file))?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The command `codetag` shows such a file, compares two of them and turns it into the other formats.
//! A [`Profile`] is owned: strings and lists of the measured heap, where they count as what the running
//! scope owns. They are made after the snapshot was taken, and so are not in its figures.
//!
//! # Formats
//!
//! | module | what it is | written | read |
//! |---|---|---|---|
//! | [`json`] | all of a profile, one owner a line | yes | yes |
//! | [`allocinfo`] | the form of the kernel's `/proc/allocinfo`; all of a profile too | yes | ours and the kernel's, 1.0 and 2.0 |
//! | [`csv`] | a table of the owners | yes | no |
//! | [`folded`] | stacks for flame graphs, of one profile or two | yes | no |
//! | [`svg`] | flame graphs, of one profile or two | yes | no |
//! | [`pprof`] | for `go tool pprof` and what reads its files, of one profile or two | yes | no |
//!
//! [`read`] tells them apart by their content. `docs/FORMATS.md` says what becomes of each field, and what
//! is lost.
//!
//! # Features
//!
//! `svg` and `pprof`, both on by default, each bring their module and the crates it needs.

#![forbid(unsafe_code)]

mod diff;
mod format;
mod from_snapshot;
mod group;
mod measure;
mod profile;
mod read;
mod save;

pub use diff::{Change, Diff, Match, Trend};
#[cfg(feature = "pprof")]
pub use format::pprof;
#[cfg(feature = "svg")]
pub use format::svg;
pub use format::{allocinfo, csv, folded, json};
pub use group::{BUILT_IN, By, ChangeGroup, Group};
pub use measure::{Measure, Sums};
pub use profile::{Owner, Profile, Source, Tag, Usage};
pub use read::{MAX_BYTES, MAX_PAIRS, MAX_TEXT_BYTES, MAX_USAGES, ReadError, read};
pub use save::save;

/// The cookbook's code, compiled and run as documentation tests.
#[cfg(all(doctest, unix))]
#[doc = include_str!("../../../docs/COOKBOOK.md")]
#[derive(Debug)]
pub struct Cookbook;
