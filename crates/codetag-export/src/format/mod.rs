//! The formats, one a file.

pub mod allocinfo;
pub mod csv;
pub mod folded;
pub mod json;
#[cfg(feature = "pprof")]
pub mod pprof;
#[cfg(feature = "svg")]
pub mod svg;
