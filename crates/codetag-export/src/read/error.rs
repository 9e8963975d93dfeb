//! What is wrong with an input, and where.

use super::limit::TooLarge;
use std::borrow::Cow;
use std::fmt;
use std::io;

/// Why a profile could not be read.
#[derive(Debug)]
pub struct ReadError {
    line: Option<u64>,
    message: Cow<'static, str>,
    source: Option<io::Error>,
}

impl ReadError {
    pub(crate) fn new(line: Option<u64>, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            line,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn io(line: Option<u64>, error: io::Error) -> Self {
        if let Some(limit) = error.get_ref().and_then(|e| e.downcast_ref::<TooLarge>()) {
            return Self::new(limit.line.or(line), limit.what);
        }
        let message = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the gzip data is cut off".into(),
            _ => error.to_string().into(),
        };
        Self {
            line,
            message,
            source: Some(error),
        }
    }

    /// The line it is in, counted from 1 in the unpacked text; `None` if it is in none.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// What is wrong, without the line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.source {
            Some(error) => Some(error),
            None => None,
        }
    }
}

/// A text of the input as a message shows it: what a terminal would obey or hide is escaped, and what is longer
/// than `limit` characters then is cut off.
pub(crate) fn visible(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    let mut length = 0;
    for c in text.chars() {
        let escaped = c.escape_debug();
        let is_shown = !c.is_control() && escaped.len() <= 2;
        length += if is_shown { 1 } else { escaped.len() };
        if length > limit {
            shown.push('…');
            break;
        }
        if is_shown {
            shown.push(c);
        } else {
            shown.extend(escaped);
        }
    }
    shown
}
