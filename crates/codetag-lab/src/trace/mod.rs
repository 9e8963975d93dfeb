//! Reading and writing traces.
//!
//! [`TraceFile`] opens one, [`Events`] reads it as a [`Source`](crate::event::Source), [`Writer`] writes the
//! lab's own format, [`Synthetic`] makes traces up.

mod cache_names;
mod events;
mod file;
mod ftrace;
mod input;
mod interner;
mod line;
mod lines;
mod own;
mod synthetic;
mod write;

pub use cache_names::NameShares;
pub use events::Events;
pub use file::TraceFile;
pub use lines::LINE_BYTES_MAX;
pub use synthetic::{Synthetic, SyntheticSpec};
pub use write::Writer;

#[cfg(test)]
mod tests;
