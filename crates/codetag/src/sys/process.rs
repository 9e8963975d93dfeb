//! What the C library of a Unix says of the process; elsewhere there is no such library.
//!
//! # Safety model
//!
//! As in the parent module.

use core::ffi::CStr;

/// Copies the first bytes of an environment variable; returns how many there are, none if it is not
/// set. Allocates nothing. Called once, before the first allocation is served: next to nothing has
/// run by then that could change the environment meanwhile.
#[cfg(unix)]
pub(crate) fn env_at_start(name: &CStr, to: &mut [u8]) -> Option<usize> {
    // SAFETY: `name` is a C string; nothing changes the environment meanwhile, as above.
    let value = unsafe {
        let at = libc::getenv(name.as_ptr());
        if at.is_null() {
            return None;
        }
        CStr::from_ptr(at).to_bytes()
    };
    let n = value.len().min(to.len());
    to[..n].copy_from_slice(&value[..n]);
    Some(n)
}

/// Runs `f` when the process exits.
#[cfg(unix)]
pub(crate) fn at_exit(f: extern "C" fn()) {
    // SAFETY: `f` is a function without preconditions; failure to register only loses the call.
    unsafe { libc::atexit(f) };
}

/// Runs `prepare` before each fork, and after it `parent` and `child` in their processes.
#[cfg(unix)]
pub(crate) fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    type Handler = unsafe extern "C" fn();
    // SAFETY: functions without preconditions; failure to register only loses the calls.
    unsafe {
        libc::pthread_atfork(
            Some(prepare as Handler),
            Some(parent as Handler),
            Some(child as Handler),
        );
    }
}

/// None: only an allocating call could tell.
#[cfg(not(unix))]
pub(crate) fn env_at_start(_name: &CStr, _to: &mut [u8]) -> Option<usize> {
    None
}

/// Nothing: there is no way to ask for it.
#[cfg(not(unix))]
pub(crate) fn at_exit(_f: extern "C" fn()) {}

/// Nothing: there is no fork.
#[cfg(not(unix))]
pub(crate) fn at_fork(_: extern "C" fn(), _: extern "C" fn(), _: extern "C" fn()) {}
