//! Writing a byte of the program's own text.
//!
//! # Safety model
//!
//! As in the parent module. `/proc/self/mem` is opened for each byte and closed after it: a file that
//! stayed open would let a forked child write to its parent. What is written is a private copy of the
//! page, so neither the file on disk nor another process changes.

use super::PAGE_BYTES;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

/// What the system said, as its error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextError(i32);

impl TextError {
    /// The system's error number.
    pub(crate) fn number(self) -> i32 {
        self.0
    }

    fn last() -> Self {
        // SAFETY: the address is that of the running thread's own error number.
        Self(unsafe { *libc::__errno_location() })
    }
}

/// Writes one byte of text, through `/proc/self/mem`, else by making the page writable for a moment.
///
/// # Safety
///
/// `at` lies in mapped text, and what stands there is right code before and after, also for a thread
/// that runs through it meanwhile.
pub(crate) unsafe fn write_text(at: *mut u8, byte: u8) -> Result<(), TextError> {
    // SAFETY: as the caller's.
    unsafe {
        if write_through_mem(at, byte) {
            Ok(())
        } else {
            write_in_place(at, byte)
        }
    }
}

/// # Safety
///
/// As of [`write_text`].
unsafe fn write_through_mem(at: *mut u8, byte: u8) -> bool {
    // SAFETY: the file is this call's own; a write of one byte changes that byte or nothing.
    unsafe {
        let file = libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if file < 0 {
            return false;
        }
        let source = (&raw const byte).cast();
        let n = libc::pwrite(file, source, 1, at.addr() as libc::off_t);
        libc::close(file);
        n == 1
    }
}

/// # Safety
///
/// As of [`write_text`].
unsafe fn write_in_place(at: *mut u8, byte: u8) -> Result<(), TextError> {
    const EXEC: libc::c_int = libc::PROT_READ | libc::PROT_EXEC;
    let page = at.map_addr(|a| a & !(PAGE_BYTES - 1)).cast();
    // SAFETY: the page is text and stays executable all the time; the byte is the caller's.
    unsafe {
        if libc::mprotect(page, PAGE_BYTES, EXEC | libc::PROT_WRITE) != 0 {
            return Err(TextError::last());
        }
        let before = AtomicU8::from_ptr(at).swap(byte, Relaxed);
        if libc::mprotect(page, PAGE_BYTES, EXEC) != 0 {
            let error = TextError::last();
            // What cannot be protected again at least says what it said.
            AtomicU8::from_ptr(at).store(before, Relaxed);
            return Err(error);
        }
    }
    Ok(())
}
