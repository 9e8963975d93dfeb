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

#[cfg(target_os = "linux")]
pub mod budget;
#[cfg(target_os = "linux")]
pub mod cache;
#[cfg(target_os = "linux")]
pub mod callgrind;
#[cfg(target_os = "linux")]
pub mod cargo;
#[cfg(target_os = "linux")]
pub mod chart;
#[cfg(target_os = "linux")]
pub mod child;
#[cfg(target_os = "linux")]
pub mod config;
#[cfg(target_os = "linux")]
pub mod counting;
#[cfg(target_os = "linux")]
pub mod figures;
#[cfg(target_os = "linux")]
pub mod machine;
#[cfg(target_os = "linux")]
pub mod perf;
#[cfg(target_os = "linux")]
pub mod progress;
#[cfg(target_os = "linux")]
pub mod project;
#[cfg(target_os = "linux")]
pub mod report;
#[cfg(target_os = "linux")]
pub mod results;
#[cfg(target_os = "linux")]
pub mod rounds;
#[cfg(target_os = "linux")]
pub mod said;
#[cfg(target_os = "linux")]
pub mod text;
#[cfg(target_os = "linux")]
pub mod tree;
#[cfg(target_os = "linux")]
pub mod user;
#[cfg(target_os = "linux")]
pub mod workloads;
