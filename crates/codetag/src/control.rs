//! Turning profiling on and off, and the CODETAG environment variable.

use core::fmt;
use std::io;

/// Why profiling could not be turned on.
#[derive(Debug)]
#[non_exhaustive]
pub enum EnableError {
    /// The tags were compiled out of this build.
    TagsOff,
    /// `CODETAG=never` is in force.
    Never,
    /// No `TagAlloc` has served an allocation of this program.
    NotInstalled,
    /// The program's text could not be patched.
    TextNotWritable {
        /// What the system said.
        source: io::Error,
    },
    /// The system has no membarrier: profiling can be chosen at start only.
    NoBarrier,
    /// The self-test saw no tag after the switch; everything was undone.
    NoEffect,
}

impl fmt::Display for EnableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot be turned on")
    }
}
impl std::error::Error for EnableError {}

/// What the switch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateKind {
    /// Compiled out.
    TagsOff,
    /// `CODETAG=never`.
    Never,
    /// Compiled in, not enabled.
    Off,
    /// Enabled.
    On,
}

/// The state of profiling. `Display` prints it as the page does.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct State {
    /// The switch.
    pub kind: StateKind,
}

/// Turns profiling on.
pub fn enable() -> Result<(), EnableError> {
    Ok(())
}
/// Turns profiling off.
pub fn disable() {}
/// Whether profiling is on.
pub fn is_enabled() -> bool {
    false
}
/// The state of profiling.
pub fn state() -> State {
    State { kind: StateKind::Off }
}
