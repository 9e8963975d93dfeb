//! What a child says: lines of a key and a value, and nothing else.

use std::fmt;

/// Keys whose values are words; those of all other keys are numbers.
const WORDS: [&str; 4] = ["state:", "hdr:", "unit:", "check:"];

/// So much of a line that is none is quoted.
const QUOTED_CHARS: usize = 60;

/// The lines of one child.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    lines: Vec<(String, Value)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Words(String),
    Number(f64),
}

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbage {
    /// From 1.
    pub line: usize,
    /// Its start, without control characters.
    pub text: String,
}

impl fmt::Display for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} of its output is no key with a value: {}",
            self.line, self.text
        )
    }
}

impl std::error::Error for Garbage {}

impl Said {
    /// Reads the whole output of a child.
    ///
    /// # Errors
    ///
    /// The first line that is not `key value`, or whose value is no number though its key asks for one.
    pub fn parse(output: &[u8]) -> Result<Self, Garbage> {
        let mut lines = Vec::new();
        let output = output.strip_suffix(b"\n").unwrap_or(output);
        if output.is_empty() {
            return Ok(Self { lines });
        }
        for (at, bytes) in output.split(|byte| *byte == b'\n').enumerate() {
            let line = str::from_utf8(bytes).ok().and_then(line);
            lines.push(line.ok_or_else(|| Garbage {
                line: at + 1,
                text: quoted(bytes),
            })?);
        }
        Ok(Self { lines })
    }

    /// The words of `key`, which is one of those that have words.
    pub fn words(&self, key: &str) -> Option<&str> {
        self.lines.iter().find_map(|(name, value)| match value {
            Value::Words(words) if name == key => Some(words.as_str()),
            _ => None,
        })
    }

    /// The number of `key`.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.numbers("")
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    /// What follows `prefix` in each key that starts so, and its words, in the child's order.
    pub fn all_words<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s str, &'s str)> {
        self.lines
            .iter()
            .filter_map(move |(name, value)| match value {
                Value::Words(words) => Some((name.strip_prefix(prefix)?, words.as_str())),
                Value::Number(_) => None,
            })
    }

    /// What follows `prefix` in each key that starts so, and its number, in the child's order.
    pub fn numbers<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s str, f64)> {
        self.lines
            .iter()
            .filter_map(move |(name, value)| match value {
                Value::Number(number) => Some((name.strip_prefix(prefix)?, *number)),
                Value::Words(_) => None,
            })
    }
}

fn line(line: &str) -> Option<(String, Value)> {
    let (key, value) = line.split_once(' ')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_:.-".contains(c);
    if !key.starts_with(|c: char| c.is_ascii_lowercase())
        || !key.chars().all(plain)
        || value.trim() != value
        || value.is_empty()
    {
        return None;
    }
    let value = if WORDS.iter().any(|word| key.starts_with(word)) {
        Value::Words(value.to_owned())
    } else {
        let number: f64 = value.parse().ok()?;
        Value::Number(number.is_finite().then_some(number)?)
    };
    Some((key.to_owned(), value))
}

/// The start of a line that may be anything.
fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut short: String = text
        .chars()
        .take(QUOTED_CHARS)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().count() > QUOTED_CHARS {
        short.push('…');
    }
    format!("`{short}`")
}

#[cfg(test)]
mod tests {
    use super::Said;

    #[test]
    fn values_are_found_by_key() {
        let said = Said::parse(
            b"state:before on\nns:small.x:8 1.5\nns:small.x:16 2\nunit:small.x a pair of calls\n",
        )
        .expect("lines");
        assert_eq!(said.words("state:before"), Some("on"));
        assert_eq!(said.words("unit:small.x"), Some("a pair of calls"));
        assert_eq!(said.number("ns:small.x:16"), Some(2.0));
        assert_eq!(said.number("state:before"), None);
        assert_eq!(
            said.numbers("ns:").collect::<Vec<_>>(),
            [("small.x:8", 1.5), ("small.x:16", 2.0)]
        );
        assert_eq!(Said::parse(b""), Ok(Said::default()));
    }

    #[test]
    fn anything_else_is_garbage_and_named_by_its_line() {
        for (output, line, text) in [
            (&b"ops:x 3\nhello world\n"[..], 2, "`hello world`"),
            (b"ops:x 3\n\nops:y 4\n", 2, "``"),
            (b"ops:x\n", 1, "`ops:x`"),
            (b"ops:x NaN\n", 1, "`ops:x NaN`"),
            (b"ops:x 1 2\n", 1, "`ops:x 1 2`"),
            (b"\xff\x00 1\n", 1, "`\u{fffd}\\0 1`"),
            (b" ops:x 1\n", 1, "` ops:x 1`"),
        ] {
            let garbage = Said::parse(output).expect_err("garbage");
            assert_eq!((garbage.line, garbage.text.as_str()), (line, text));
        }
        let long = Said::parse("x".repeat(1_000).as_bytes()).expect_err("garbage");
        assert_eq!(long.text.chars().count(), 60 + 3);
    }
}
