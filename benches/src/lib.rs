//! Builds the workload program once per configuration, runs the binaries in turn, and sets their times,
//! instructions, sizes and tables side by side.
//!
//! [`config`] says what is built and run, [`binaries`] builds, [`child`] runs and kills, [`rounds`] and
//! [`callgrind`] measure, [`stats`] turns rounds into an interval, [`report`] prints, [`budget`] judges.

#![forbid(unsafe_code)]

pub mod binaries;
pub mod budget;
pub mod callgrind;
pub mod child;
pub mod config;
pub mod report;
pub mod results;
pub mod rounds;
pub mod stats;
