//! Measures other processes: time, instructions, cache misses, sizes and memory, per configuration of codetag and
//! beside other allocators.
//!
//! Nothing of codetag is linked. Children print `key value` lines ([`said`]), and a row whose child does not confirm
//! the state that it is to be in is an error. [`project`] is the whole table for this project's own workloads,
//! [`user`] that for somebody's program; both hand out a [`figures::Report`], which is printed as tables, JSON or CSV
//! and drawn by [`chart`]. [`objsize`] reads sizes out of object files and is of use by itself.
//!
//! All but [`objsize`] and [`stats`] is for Linux.

#![forbid(unsafe_code)]

pub mod objsize;
pub mod stats;

#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod budget;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod cache;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod callgrind;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod cargo;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod chart;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod child;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod config;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod counting;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod figures;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod machine;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod perf;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod progress;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod project;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
mod quote;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod report;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod results;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod rounds;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod said;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod text;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod tree;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
mod turn;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod user;
#[cfg(all(target_os = "linux", not(codetag_portable)))]
pub mod workloads;
