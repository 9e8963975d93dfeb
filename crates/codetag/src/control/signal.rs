//! Control by signals: a program that was built with nothing but one line can be asked for its page, or be
//! switched, from a shell.
//!
//! The handler notes the signal and no more. A thread of this file's, or [`poll`] in one of the
//! program's, acts on it.

use super::{disable, enable, is_enabled};
use crate::sys;
use core::fmt::Write as _;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::io::{self, Read as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Turns profiling on if it is off, and off if it is on. If it cannot be turned on, one line on stderr says
    /// why.
    Toggle,
    /// Prints the page of [`show_mem`](crate::show_mem()) on stderr.
    ShowMem,
}

const NONE: u8 = 0;
const TOGGLE: u8 = 1;
const SHOW_MEM: u8 = 2;

impl Action {
    fn to_byte(self) -> u8 {
        match self {
            Self::Toggle => TOGGLE,
            Self::ShowMem => SHOW_MEM,
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            TOGGLE => Some(Self::Toggle),
            SHOW_MEM => Some(Self::ShowMem),
            _ => None,
        }
    }
}

/// What each signal asks for.
static ACTIONS: [AtomicU8; sys::SIGNALS] = [const { AtomicU8::new(NONE) }; sys::SIGNALS];

/// Room for a page, which takes 40 KiB of it.
const STACK_BYTES: usize = 256 << 10;

/// Acts on `signal` from now on, in a thread of codetag's own.
///
/// `signal` is its number, such as `libc::SIGUSR1`. The first call starts the thread (with a stack of
/// 256 KiB and the name `codetag-signal`, in which all signals are blocked); its handful of allocations count
/// like any other, charged to the current tag. The handler itself stores a flag and wakes that thread, so it
/// may come in the middle of an allocation.
///
/// # Limits
///
/// - The handler that the signal had is replaced, and not called any more. It is never put back. System calls that
///   the signal interrupts are restarted where the system does that (`SA_RESTART`).
/// - Signals coalesce, as signals do: of those that come before the first is acted on, one is seen. Two
///   quick ones for [`Action::Toggle`] may be one toggle.
/// - A second call for the same signal replaces its action.
/// - After `fork` the child has the handlers and not the thread. There [`poll`] acts on signals, or a call
///   of this function starts a thread for the child. A signal that the parent had not acted on at the fork is
///   seen by both. `exec` removes the handlers.
///
/// # Errors
///
/// What the system says: no such signal, or one that cannot be caught (`SIGKILL`, `SIGSTOP`); no thread or pipe to
/// be had. `SIGSEGV`, `SIGBUS`, `SIGFPE` and `SIGILL` are refused. Elsewhere than on Unix always
/// [`Unsupported`](io::ErrorKind::Unsupported). After an error no action was changed.
///
/// # Examples
///
/// ```
/// # #[cfg(unix)] {
/// #[global_allocator]
/// static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();
///
/// codetag::on_signal(libc::SIGUSR1, codetag::Action::Toggle)?;
/// codetag::on_signal(libc::SIGUSR2, codetag::Action::ShowMem)?;
/// // From a shell: kill -USR1 PID; sleep 60; kill -USR2 PID
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn on_signal(signal: i32, action: Action) -> io::Result<()> {
    start_helper()?;
    on_signal_polled(signal, action)?;
    // It may have come before, while nobody waited for it.
    sys::wake_helper();
    Ok(())
}

/// Acts on `signal` from now on, whenever the program calls [`poll`]; no thread is started.
///
/// The limits are those of [`on_signal`].
///
/// # Errors
///
/// As of [`on_signal`].
///
/// # Examples
///
/// ```
/// # #[cfg(unix)] {
/// codetag::on_signal_polled(libc::SIGUSR2, codetag::Action::ShowMem)?;
/// # let events = [(); 3];
/// for event in events {
///     codetag::poll();
///     // …
/// }
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn on_signal_polled(signal: i32, action: Action) -> io::Result<()> {
    let entry = usize::try_from(signal).ok().and_then(|i| ACTIONS.get(i));
    let Some(entry) = entry else {
        // Which says why there is no such signal.
        return sys::watch_signal(signal);
    };
    // Before the handler: no signal may come that means nothing.
    let before = entry.swap(action.to_byte(), Release);
    sys::watch_signal(signal).inspect_err(|_| entry.store(before, Release))
}

/// Acts on the signals that came since they were last acted on; returns how many.
///
/// The actions are those given to [`on_signal`] and [`on_signal_polled`]. They run in the calling thread, which
/// needs 64 KiB of stack for a page. Not for a signal handler. While nothing came it costs an atomic load per possible
/// signal, about a hundred.
pub fn poll() -> usize {
    let mut acted = 0;
    for (signal, entry) in ACTIONS.iter().enumerate() {
        let Some(action) = Action::of_byte(entry.load(Acquire)) else {
            continue;
        };
        if sys::signal_came(signal) {
            act(signal, action);
            acted += 1;
        }
    }
    acted
}

/// Starts the thread of this process, unless it has one.
fn start_helper() -> io::Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if sys::has_helper() {
        return Ok(());
    }
    let (mut woken, wake) = io::pipe()?;
    // The thread inherits the mask.
    let mask = sys::block_signals();
    let thread = thread::Builder::new()
        .name("codetag-signal".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let mut bytes = [0; 64];
            loop {
                match woken.read(&mut bytes) {
                    Ok(0) => return,
                    Ok(_) => {
                        poll();
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
    drop(mask);
    thread?;
    sys::set_helper(wake)
}

fn act(signal: usize, action: Action) {
    match action {
        Action::Toggle if is_enabled() => disable(),
        Action::Toggle => {
            if let Err(error) = enable() {
                say(signal, &error);
            }
        }
        Action::ShowMem => {
            // Nobody is left to tell if this fails. Locked, so that other lines do not come in between.
            let _ = write!(io::stderr().lock(), "{}", crate::show_mem());
        }
    }
}

/// One line, whatever the error's own text.
fn say(signal: usize, error: &super::EnableError) {
    let mut line = format!("codetag: signal {signal}: {error}");
    if let Some(source) = std::error::Error::source(error) {
        // A string takes anything.
        let _ = write!(line, ": {source}");
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let _ = writeln!(io::stderr(), "{}", words.join(" "));
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn signals_that_cannot_be_caught_are_refused() {
        for signal in [
            0,
            -1,
            1000,
            libc::SIGKILL,
            libc::SIGSTOP,
            libc::SIGSEGV,
            libc::SIGFPE,
        ] {
            let error = on_signal_polled(signal, Action::ShowMem).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{signal}");
        }
        assert!(ACTIONS.iter().all(|a| a.load(Acquire) == NONE));
    }
}
