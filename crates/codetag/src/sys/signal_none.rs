//! The twin for systems without a Unix's signals: none can be watched, and none comes.
//!
//! # Safety model
//!
//! No unsafe code.

use std::io::{self, PipeWriter};

/// No signal has a number here.
pub(crate) const SIGNALS: usize = 129;

pub(crate) fn watch_signal(_signal: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn signal_came(_signal: usize) -> bool {
    false
}

pub(crate) fn has_helper() -> bool {
    false
}

pub(crate) fn set_helper(_wake: PipeWriter) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn wake_helper() {}

/// Nothing to put back.
pub(crate) struct SignalMask;

pub(crate) fn block_signals() -> SignalMask {
    SignalMask
}
