//! Measures other processes: time, instructions, cache misses, sizes and memory, per configuration of codetag and
//! beside other allocators.
//!
//! Nothing of codetag is linked. Children print `key value` lines ([`said`]), and a row whose child does not confirm
//! the state that it is to be in is an error. [`workloads`] is the whole table for this project's own workloads,
//! [`user`] that for somebody's program; both hand out [`figures`], which are printed as tables, JSON or CSV.
//! [`objsize`] reads sizes out of object files and is of use by itself.

#![forbid(unsafe_code)]

pub mod objsize;
pub mod stats;

#[cfg(unix)]
pub mod child;
#[cfg(unix)]
pub mod said;

pub mod cache;
#[cfg(unix)]
pub mod callgrind;
#[cfg(target_os = "linux")]
pub mod perf;

