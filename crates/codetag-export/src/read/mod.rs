//! Reading profiles: which format it is says the content, never the file's name.

mod error;
mod limit;

pub use error::ReadError;
pub(crate) use error::visible;
pub(crate) use limit::{LimitedStrings, TooLarge};
pub use limit::{MAX_BYTES, MAX_PAIRS, MAX_TEXT_BYTES, MAX_USAGES};

use crate::format::{allocinfo, json};
use crate::profile::Profile;
use flate2::bufread::MultiGzDecoder;
use limit::Limited;
use std::io::{BufRead, BufReader, Cursor, Read};

const GZIP_MAGIC: &[u8] = b"\x1f\x8b";

/// Bytes that are looked at to tell the formats apart.
const HEAD_BYTES: u64 = 64;

/// Reads a profile: codetag's JSON, codetag's allocinfo text, or the kernel's `/proc/allocinfo` 1.0 and
/// 2.0, each as it is or gzipped.
///
/// Takes what it is given in pieces and keeps no more than the profile. Whatever is larger than
/// [`MAX_BYTES`] and its fellows is refused.
///
/// # Errors
///
/// If reading fails, or if it is no whole profile: the line and what is wrong with it.
///
/// # Examples
///
/// ```
/// let text = "allocinfo - version: 1.0\n        4096        1 mm/slub.c:2478 func:alloc_slab_page \n";
/// let profile = codetag_export::read(text.as_bytes())?;
/// assert_eq!(profile.usages[0].slot_bytes, 4096);
/// # Ok::<(), codetag_export::ReadError>(())
/// ```
pub fn read(input: impl Read) -> Result<Profile, ReadError> {
    let (head, input) = peek(BufReader::new(input))?;
    if !head.starts_with(GZIP_MAGIC) {
        return read_plain(&head, Limited::new(input));
    }
    let unpacked = Limited::new(MultiGzDecoder::new(input));
    let (head, unpacked) = peek(unpacked)?;
    read_plain(&head, unpacked)
}

fn read_plain(head: &[u8], input: impl Read) -> Result<Profile, ReadError> {
    if head.is_empty() {
        return Err(ReadError::new(None, "is empty"));
    }
    let text = head.trim_ascii_start();
    if text.starts_with(b"{") {
        json::read(input)
    } else if text.starts_with(b"allocinfo") {
        allocinfo::read(BufReader::new(input))
    } else {
        Err(ReadError::new(
            Some(1),
            format!("is no profile: {}", guess(head)),
        ))
    }
}

/// The first bytes, and the input with them still in it.
fn peek(mut input: impl Read) -> Result<(Vec<u8>, impl BufRead), ReadError> {
    let mut head = Vec::new();
    // More than one read, for a pipe gives what it has.
    (&mut input)
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .map_err(|error| ReadError::io(None, error))?;
    let whole = BufReader::new(Cursor::new(head.clone()).chain(input));
    Ok((head, whole))
}

/// What it is instead, for the message.
fn guess(head: &[u8]) -> &'static str {
    if head.starts_with(GZIP_MAGIC) {
        "it is gzipped twice"
    } else if head.contains(&0) || head.utf8_chunks().any(|chunk| chunk.invalid().len() > 1) {
        "it is binary"
    } else {
        "it starts neither with `{` as json nor with `allocinfo - version:`"
    }
}
