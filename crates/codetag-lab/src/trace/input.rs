//! From a file to bytes of text: gzip and plain, told apart by their content.

use crate::event::ReadError;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BUFFER_BYTES: usize = 128 * 1024;

/// What the first bytes of files are that hold traces in another form, and what to do about it.
const OTHERS: [(&[u8], &str); 6] = [
    (
        b"\x17\x08Dtracing",
        "a binary trace.dat; write its text by `trace-cmd report`",
    ),
    (
        b"PERFILE2",
        "a binary perf.data; write its text by `perf script`",
    ),
    (
        b"\xfd7zXZ\0",
        "compressed by xz; gzip and plain text are read",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "compressed by zstd; gzip and plain text are read",
    ),
    (b"BZh", "compressed by bzip2; gzip and plain text are read"),
    (b"\x7fELF", "an executable, no trace"),
];

/// Text, and how many bytes of the file it took so far.
pub(crate) struct Input {
    pub(crate) text: Box<dyn BufRead + Send>,
    pub(crate) position_bytes: Arc<AtomicU64>,
    pub(crate) compressed: bool,
}

/// Reads from the start of `file`.
pub(crate) fn text(file: File) -> Result<Input, ReadError> {
    let position_bytes = Arc::new(AtomicU64::new(0));
    let mut file = BufReader::with_capacity(
        BUFFER_BYTES,
        Counted {
            inner: file,
            read_bytes: Arc::clone(&position_bytes),
        },
    );
    let head = file.fill_buf().map_err(|error| failed(&error, 0))?;
    if let Some((_, what)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(ReadError {
            line: 0,
            message: (*what).to_owned(),
        });
    }
    let compressed = head.starts_with(b"\x1f\x8b");
    let text: Box<dyn BufRead + Send> = if compressed {
        Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            MultiGzDecoder::new(file),
        ))
    } else {
        Box::new(file)
    };
    Ok(Input {
        text,
        position_bytes,
        compressed,
    })
}

pub(crate) fn failed(error: &io::Error, line: u64) -> ReadError {
    ReadError {
        line,
        message: format!("cannot be read: {error}"),
    }
}

#[derive(Debug)]
struct Counted {
    inner: File,
    read_bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        // Read for a progress bar only.
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}
