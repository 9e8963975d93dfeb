//! Standard error without a lock and without an allocation. Who is told that it failed could not say so
//! anywhere.
//!
//! # Safety model
//!
//! As in the parent module.

/// Writes the bytes as they are.
#[cfg(unix)]
pub(crate) fn write_stderr(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: that many bytes can be read there.
        let n = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(n) {
            Ok(n) if n > 0 => bytes = &bytes[n..],
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// As on a Unix, by what `std` offers.
#[cfg(not(unix))]
pub(crate) fn write_stderr(bytes: &[u8]) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(bytes);
}
