//! Turning profiling on and off, and the `CODETAG` environment variable.
//!
//! `CODETAG=STATE[,WORD…]`: STATE is `never`, `0` or `1`; the only word is `exit`. Precedence:
//! never, environment, feature `enabled-by-default`, default (off).

mod grammar;
mod signal;

use crate::alloc;
use crate::sys;
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
pub use grammar::UnknownWord;
use grammar::{Setting, Wish};
pub use signal::{Action, on_signal, on_signal_polled, poll};
use std::io;

/// Why profiling could not be turned on.
#[derive(Debug)]
#[non_exhaustive]
pub enum EnableError {
    /// The tags were compiled out of this build.
    TagsOff,
    /// `CODETAG=never` is in force: no extension memory was reserved.
    Never,
    /// No `TagAlloc` has served an allocation of this program.
    NotInstalled,
    /// The program's text could not be patched; everything is as before.
    TextNotWritable {
        /// What the system said.
        source: io::Error,
    },
    /// The system has no barrier over all threads: profiling can be chosen at start only.
    NoBarrier,
    /// The self-test saw no tag after the switch; everything was undone.
    NoEffect,
}

impl fmt::Display for EnableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TagsOff => "the tags were compiled out of this build",
            Self::Never => "CODETAG=never is in force",
            Self::NotInstalled => {
                "no TagAlloc serves this program; add\n    #[global_allocator]\n    static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();"
            }
            Self::TextNotWritable { .. } => "the program's text could not be patched",
            Self::NoBarrier => {
                "the system has no membarrier, so profiling can be chosen at start only (CODETAG=1)"
            }
            Self::NoEffect => "the self-test saw no tag after the switch; profiling is off",
        })
    }
}

impl std::error::Error for EnableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::TextNotWritable { source } => Some(source),
            _ => None,
        }
    }
}

/// What the switch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateKind {
    /// Compiled out.
    TagsOff,
    /// `CODETAG=never`: cannot be turned on in this process.
    Never,
    /// Compiled in, not enabled.
    Off,
    /// Enabled.
    On,
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TagsOff => "tags off",
            Self::Never => "never",
            Self::Off => "off",
            Self::On => "on",
        })
    }
}

/// The state of profiling. `Display` prints it as the page does.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct State {
    /// The switch.
    pub kind: StateKind,
    /// How long it has been so, in nanoseconds; 0 before the first allocation.
    pub since_ns: u64,
    /// The first part of `CODETAG` that was not understood.
    pub unknown_word: Option<UnknownWord>,
    /// Why profiling could not be on from the start although it was to be, as the system's error
    /// number: the text could not be patched.
    pub start_error: Option<i32>,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (s, ms) = (
            self.since_ns / 1_000_000_000,
            self.since_ns / 1_000_000 % 1_000,
        );
        write!(f, "{}, for {s}.{ms:03} s", self.kind)?;
        match self.start_error {
            Some(number) => write!(
                f,
                "; at the start the text could not be patched (error {number})"
            ),
            None => Ok(()),
        }
    }
}

/// When the state last changed, by [`sys::now_ns`].
static SINCE_NS: AtomicU64 = AtomicU64::new(0);

fn note_change() {
    SINCE_NS.store(sys::now_ns(), Relaxed);
}

/// Runs once, before the first allocation is served. Allocates nothing.
pub(crate) fn start() {
    // Longer than any value that makes sense; what is cut off shows as an unknown word.
    let mut value = [0; 256];
    let n = sys::env_at_start(c"CODETAG", &mut value).unwrap_or(0);
    let wish = grammar::parse(&value[..n]);
    let on = match wish.setting {
        Some(setting) => setting == Setting::On,
        None => cfg!(feature = "enabled-by-default"),
    };
    alloc::start(wish.setting == Some(Setting::Never), on);
    if wish.page_at_exit {
        sys::at_exit(page_at_exit);
    }
    note_change();
}

extern "C" fn page_at_exit() {
    use io::Write;
    // Nobody is left to tell if this fails.
    let _ = write!(io::stderr(), "{}", crate::show_mem());
}

/// Turns profiling on, while the program runs.
///
/// From here on every allocation and free is tracked. What is older stays live as *untracked*.
/// Takes as long as it takes to clear the vector of every slab. Nothing to do if it is on.
///
/// On Linux x86-64 this patches the program's text, one byte at each of a handful of places, through
/// `/proc/self/mem` or else `mprotect`; both need no privilege, and a sandbox can forbid both.
///
/// # Errors
///
/// See [`EnableError`]. After an error everything is as it was.
///
/// # Examples
///
/// ```
/// #[global_allocator]
/// static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();
///
/// # if codetag::state().kind == codetag::StateKind::TagsOff { return Ok(()) }
/// codetag::enable()?;
/// assert!(codetag::is_enabled());
/// # Ok::<(), codetag::EnableError>(())
/// ```
pub fn enable() -> Result<(), EnableError> {
    if alloc::kind() == StateKind::TagsOff {
        return Err(EnableError::TagsOff);
    }
    // The program may not have allocated yet.
    drop(core::hint::black_box(Box::new(0_u64)));
    if !alloc::is_installed() {
        return Err(EnableError::NotInstalled);
    }
    alloc::enable(note_change)
}

/// Turns profiling off. What was tracked becomes untracked with the next [`enable`].
///
/// If the program's text, once patched, cannot be patched back (a sandbox that was entered
/// meanwhile), profiling stays on, as [`state`] says.
pub fn disable() {
    alloc::disable(note_change);
}

/// Whether profiling is on.
#[must_use]
pub fn is_enabled() -> bool {
    alloc::kind() == StateKind::On
}

/// The state of profiling.
#[must_use]
pub fn state() -> State {
    let since = SINCE_NS.load(Relaxed);
    State {
        kind: alloc::kind(),
        since_ns: if since == 0 {
            0
        } else {
            sys::now_ns().saturating_sub(since)
        },
        unknown_word: grammar::unknown_word(),
        start_error: Some(alloc::start_error()).filter(|&number| number != 0),
    }
}

impl Wish {
    const NONE: Self = Self {
        setting: None,
        page_at_exit: false,
    };
}
