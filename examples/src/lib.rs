//! What the `show_mem` example is made of: reading text, cutting it into words, and an inverted index.
//!
//! Each function that allocates is tagged, so the page says which of them owns the memory.

pub mod index;
pub mod text;

pub use index::{Document, Index};
