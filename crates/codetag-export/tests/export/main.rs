//! Profiles read, written and compared.

#![forbid(unsafe_code)]
#![cfg(all(feature = "pprof", feature = "svg"))]

mod compared;
mod graphs;
mod hostile;
mod kernel;
mod make;
mod pprof;
mod roundtrip;
mod snapshot;
