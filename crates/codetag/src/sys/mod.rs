//! Everything that asks the operating system or names a platform.
//!
//! # Safety model
//!
//! Each function is a thin contract over one system call. No pointer given out here is kept here.
//! Two implementations stand behind one set of signatures: `linux` (x86-64) and `portable`, which
//! uses `std` only where it can and says "no" where it cannot. `--cfg codetag_portable` chooses the
//! second on any platform, which is how it is tested.

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(codetag_portable)))]
mod linux;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(codetag_portable)))]
pub(crate) use linux::*;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(codetag_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(codetag_portable))))]
pub(crate) use portable::*;

// For the switch that patches: see `alloc/ext/switch`.
#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(codetag_portable),
    not(codetag_flag_switch),
    not(codetag_off)
))]
mod text;
#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(codetag_portable),
    not(codetag_flag_switch),
    not(codetag_off)
))]
pub(crate) use text::{TextError, write_text};

#[cfg(all(codetag_counters, not(codetag_off)))]
mod cpu;
#[cfg(all(codetag_counters, not(codetag_off)))]
pub(crate) use cpu::{cpus, current_cpu};

mod hot;
mod process;
pub(crate) use hot::HotWords;
pub(crate) use process::{at_exit, at_fork, env_at_start};

#[cfg(feature = "debug")]
mod stderr;
#[cfg(feature = "debug")]
pub(crate) use stderr::write_stderr;

#[cfg(unix)]
mod signal;
#[cfg(unix)]
pub(crate) use signal::*;
#[cfg(not(unix))]
mod signal_none;
#[cfg(not(unix))]
pub(crate) use signal_none::*;

/// The size of a page that [`release_pages`] works in, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;
