//! Lines of bounded length, with their numbers.

use std::io::{self, BufRead, ErrorKind};

/// The longest line that is looked at, in bytes without its end. The longest line of a kernel's trace is a tenth
/// of it: a page holds one event.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// What stands between two line ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A line, without its end.
    Whole(&'a [u8]),
    /// The last line, with no line end after it: the file may have been cut here.
    Unended(&'a [u8]),
    /// More than [`LINE_BYTES_MAX`] bytes; what was read of it is gone.
    TooLong,
}

/// Reads lines; holds at most [`LINE_BYTES_MAX`] bytes beside the buffer of `R`, however long a line is.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    inner: R,
    /// The start of a line whose end was not in the buffer yet.
    carry: Vec<u8>,
    /// Bytes of the buffer that the last call returned.
    returned: usize,
    number: u64,
    /// A line too long was reported and its end is still to come.
    skipping: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            carry: Vec::new(),
            returned: 0,
            number: 0,
            skipping: false,
        }
    }

    /// The number of the line that was returned last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, or `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.inner.consume(std::mem::take(&mut self.returned));
        self.carry.clear();
        if self.skipping {
            self.skip()?;
        }
        loop {
            let buffer = match self.inner.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    // What was read of a line counts as one, so that the error has its number.
                    self.number += u64::from(!self.carry.is_empty());
                    return Err(error);
                }
            };
            let seen = buffer.len();
            if seen == 0 {
                if self.carry.is_empty() {
                    return Ok(None);
                }
                self.number += 1;
                return Ok(Some(Line::Unended(&self.carry)));
            }
            let end = memchr::memchr(b'\n', buffer);
            if self.carry.len() + end.unwrap_or(seen) > LINE_BYTES_MAX {
                self.number += 1;
                self.skipping = true;
                return Ok(Some(Line::TooLong));
            }
            match end {
                Some(end) if self.carry.is_empty() => {
                    self.number += 1;
                    self.returned = end + 1;
                    // Borrowed anew: the loop may not hold on to the buffer of an earlier turn.
                    let buffer = self.inner.fill_buf()?;
                    return Ok(Some(Line::Whole(without_return(&buffer[..end]))));
                }
                Some(end) => {
                    self.carry.extend_from_slice(&buffer[..end]);
                    self.returned = end + 1;
                    self.number += 1;
                    return Ok(Some(Line::Whole(without_return(&self.carry))));
                }
                None => {
                    self.carry.extend_from_slice(buffer);
                    self.inner.consume(seen);
                }
            }
        }
    }

    /// To behind the end of a line that was too long.
    fn skip(&mut self) -> io::Result<()> {
        loop {
            let buffer = match self.inner.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let seen = buffer.len();
            let end = memchr::memchr(b'\n', buffer);
            self.inner.consume(end.map_or(seen, |end| end + 1));
            if seen == 0 || end.is_some() {
                self.skipping = false;
                return Ok(());
            }
        }
    }
}

/// Files that went through other systems end their lines in two characters.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn all(text: &[u8], buffer_bytes: usize) -> Vec<(u64, String)> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer_bytes, text));
        let mut out = Vec::new();
        while let Some(line) = lines.next().expect("memory can be read") {
            let text = match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::Unended(line) => format!("{}…", String::from_utf8_lossy(line)),
                Line::TooLong => "too long".to_owned(),
            };
            out.push((lines.number(), text));
        }
        out
    }

    #[test]
    fn lines_are_the_same_whatever_the_buffer() {
        let text = b"one\n\ntwo and more\r\nlast";
        for buffer_bytes in 1..40 {
            assert_eq!(
                all(text, buffer_bytes),
                [
                    (1, "one".to_owned()),
                    (2, String::new()),
                    (3, "two and more".to_owned()),
                    (4, "last…".to_owned()),
                ],
                "buffer of {buffer_bytes} bytes"
            );
        }
        assert_eq!(all(b"", 8), []);
    }

    #[test]
    fn a_line_too_long_is_skipped_and_counted_as_one() {
        let mut text = vec![b'x'; LINE_BYTES_MAX];
        text.extend(b"\nnext\n");
        text.extend(vec![b'y'; 5 * LINE_BYTES_MAX]);
        text.extend(b"\nlast\n");
        for buffer_bytes in [1, 4096, 1 << 20] {
            let lines = all(&text, buffer_bytes);
            assert_eq!(lines[0].1.len(), LINE_BYTES_MAX);
            assert_eq!(
                lines[1..],
                [
                    (2, "next".to_owned()),
                    (3, "too long".to_owned()),
                    (4, "last".to_owned()),
                ]
            );
        }
        assert_eq!(
            all(&vec![b'z'; LINE_BYTES_MAX + 1], 4096),
            [(1, "too long".to_owned())]
        );
    }
}
