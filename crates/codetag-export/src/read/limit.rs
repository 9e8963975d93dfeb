//! Bounds on what is read, so that no input takes the reader's memory.

use std::fmt;
use std::io::{self, Read};

/// Unpacked bytes of one input. A profile of every tag that can have an id, 65,534, has about 20 MiB.
pub const MAX_BYTES: u64 = 128 << 20;

/// Bytes of one text: a line of allocinfo, a string of json.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

/// Owners in one profile.
pub const MAX_USAGES: usize = 1 << 20;

/// Unknown pairs of one owner, and lines of the heap.
pub const MAX_PAIRS: usize = 256;

/// The error of an input that is over a limit.
#[derive(Debug)]
pub(crate) struct TooLarge {
    pub(crate) what: &'static str,
    pub(crate) line: Option<u64>,
}

impl TooLarge {
    /// A line of allocinfo.
    pub(crate) const LINE: &str = "the line is longer than 64 KiB";
    const STRING: &str = "has a string longer than 64 KiB";
    const INPUT: &str = "is larger than 128 MiB unpacked";
    pub(crate) const USAGES: &str = "has more than 1048576 owners";
    pub(crate) const PAIRS: &str = "has more than 256 pairs";
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for TooLarge {}

/// A reader that fails past [`MAX_BYTES`].
#[derive(Debug)]
pub(super) struct Limited<R> {
    input: R,
    left_bytes: u64,
}

impl<R> Limited<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            left_bytes: MAX_BYTES,
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buf)?;
        match self.left_bytes.checked_sub(count as u64) {
            Some(left_bytes) => self.left_bytes = left_bytes,
            None => {
                return Err(io::Error::other(TooLarge {
                    what: TooLarge::INPUT,
                    line: None,
                }));
            }
        }
        Ok(count)
    }
}

/// A reader of json that fails in a string longer than [`MAX_TEXT_BYTES`], escapes counted as written.
/// A parser would keep the whole string first.
#[derive(Debug)]
pub(crate) struct LimitedStrings<R> {
    input: R,
    line: u64,
    /// Bytes of the string that the input is in.
    string: Option<usize>,
    is_escaped: bool,
}

impl<R> LimitedStrings<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            input,
            line: 1,
            string: None,
            is_escaped: false,
        }
    }

    fn note(&mut self, byte: u8) -> Result<(), TooLarge> {
        if byte == b'\n' {
            self.line += 1;
        }
        let Some(length) = self.string.as_mut() else {
            self.string = (byte == b'"').then_some(0);
            return Ok(());
        };
        *length += 1;
        if *length > MAX_TEXT_BYTES {
            return Err(TooLarge {
                what: TooLarge::STRING,
                line: Some(self.line),
            });
        }
        if byte == b'"' && !self.is_escaped {
            self.string = None;
        }
        self.is_escaped = byte == b'\\' && !self.is_escaped;
        Ok(())
    }
}

impl<R: Read> Read for LimitedStrings<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buf)?;
        for &byte in &buf[..count] {
            self.note(byte).map_err(io::Error::other)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(text: &str) -> Result<(), Option<u64>> {
        let mut input = LimitedStrings::new(text.as_bytes());
        io::copy(&mut input, &mut io::sink())
            .map(drop)
            .map_err(|error| {
                let limit = error.get_ref().and_then(|e| e.downcast_ref::<TooLarge>());
                limit.expect("the limit").line
            })
    }

    #[test]
    fn strings_are_counted_one_by_one() {
        let fits = "x".repeat(MAX_TEXT_BYTES - 1);
        assert_eq!(strings(&format!("[\"{fits}\",\n\"{fits}\"]")), Ok(()));
        assert_eq!(
            strings(&format!("[\"{fits}\",\n\"{fits}x\"]")),
            Err(Some(2))
        );
        // An escaped quote ends no string, an escaped backslash escapes nothing.
        assert_eq!(strings(&format!("\"\\\"{fits}\"")), Err(Some(1)));
        assert_eq!(strings(&format!("\"\\\\\" {fits} {fits}")), Ok(()));
    }

    #[test]
    fn the_whole_input_is_limited() {
        let endless = Limited::new(io::repeat(b' ').take(MAX_BYTES + 1));
        let mut buf = Box::new([0; 1 << 16]);
        let mut input = endless;
        let mut sum = 0;
        let error = loop {
            match input.read(&mut buf[..]) {
                Ok(count) => sum += count as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(sum, MAX_BYTES);
        assert_eq!(error.to_string(), TooLarge::INPUT);
    }
}
