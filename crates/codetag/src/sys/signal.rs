//! Signals of a Unix: a handler that notes which one came and wakes a thread, and nothing else.
//!
//! # Safety model
//!
//! As in the parent module. The handler touches atomics and calls `getpid` and `write`, which a handler
//! may. The end that it writes to is never closed.

use core::ffi::c_int;
use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32};
use std::io::{self, PipeWriter};
use std::os::fd::IntoRawFd;

/// The number of a signal is below this on every Unix.
pub(crate) const SIGNALS: usize = 129;

/// Signals that came and were not acted on yet.
static CAME: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];

/// The process that has a helper, 0 while none has. A forked child must not wake its parent's.
static HELPED: AtomicI32 = AtomicI32::new(0);
/// The end of the pipe that the handler writes to. Set before `HELPED`.
static WAKE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn handler(signal: c_int) {
    let Some(came) = usize::try_from(signal).ok().and_then(|i| CAME.get(i)) else {
        return;
    };
    // One byte until the signal is acted on: the pipe is never full, and the error number stays.
    if !came.swap(true, SeqCst) && has_helper() {
        wake_helper();
    }
}

/// Notes each `signal` from now on, in place of what happened to it before.
pub(crate) fn watch_signal(signal: c_int) -> io::Result<()> {
    // A handler that returns from one of these comes back to the instruction that failed.
    const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
    let is_known = usize::try_from(signal).is_ok_and(|i| i < SIGNALS);
    if !is_known || FAULTS.contains(&signal) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: the action is whole: zeros but for what is set, with an empty mask.
    let status = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    };
    result(status)
}

/// Whether a signal came since this was last asked.
pub(crate) fn signal_came(signal: usize) -> bool {
    CAME.get(signal).is_some_and(|c| c.swap(false, SeqCst))
}

/// Whether this process, and not one that it was forked from, has a thread that waits for signals.
pub(crate) fn has_helper() -> bool {
    // SAFETY: no preconditions.
    HELPED.load(Acquire) == unsafe { libc::getpid() }
}

/// From now on a handler, in this process, writes a byte to `wake`, which stays open for ever.
pub(crate) fn set_helper(wake: PipeWriter) -> io::Result<()> {
    let end = wake.into_raw_fd();
    // What a handler cannot write at once it need not write.
    // SAFETY: the descriptor is open, and only this one's mode changes.
    result(unsafe { libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK) })?;
    WAKE.store(end, Relaxed);
    // SAFETY: no preconditions.
    HELPED.store(unsafe { libc::getpid() }, Release);
    Ok(())
}

/// Wakes the helper, as a signal would.
pub(crate) fn wake_helper() {
    // SAFETY: one byte is read.
    unsafe { libc::write(WAKE.load(Relaxed), c"!".as_ptr().cast(), 1) };
}

/// Keeps signals away from the running thread, and from those that it starts.
pub(crate) fn block_signals() -> SignalMask {
    let mut mask = SignalMask(None);
    // SAFETY: both sets are written whole before they are read.
    unsafe {
        let (mut all, mut old) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&raw mut all);
        if libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old) == 0 {
            mask.0 = Some(old);
        }
    }
    mask
}

/// The mask that the thread had; it has it again when this is dropped.
#[must_use]
pub(crate) struct SignalMask(Option<libc::sigset_t>);

impl Drop for SignalMask {
    fn drop(&mut self) {
        if let Some(old) = &self.0 {
            // SAFETY: a set that the thread had.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, ptr::null_mut()) };
        }
    }
}

fn result(status: c_int) -> io::Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
