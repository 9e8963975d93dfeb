//! Texts within a line that spaces and colons divide.
//!
//! The kernel escapes nothing, and most of what a compiler names needs no escape. If anything in a
//! profile does, all its texts are percent-escaped and the second line says `escaped:percent`.

use crate::profile::{Owner, Profile, Tag};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Whether `profile` can only be read back if its texts are escaped.
pub(super) fn is_needed(profile: &Profile) -> bool {
    let pair = |(key, value): &(String, String)| !is_plain_key(key) || !is_plain_value(value);
    let tag = |tag: &Tag| {
        let values = [&tag.krate, &tag.module_path, &tag.name];
        !is_plain(&tag.file)
            || !is_plain(&tag.function)
            || values
                .into_iter()
                .flatten()
                .any(|value| !is_plain_value(value))
    };
    profile.program.as_ref().is_some_and(|text| !is_plain(text))
        || profile.heap.iter().any(|(name, _)| !is_plain_key(name))
        || profile.usages.iter().any(|usage| {
            usage.extra.iter().any(pair)
                || match &usage.owner {
                    Owner::Tag(owner) => tag(owner),
                    Owner::Untagged | Owner::Untracked => false,
                }
        })
}

fn is_special(byte: u8) -> bool {
    byte <= b' ' || byte == b'%' || byte == 0x7f
}

fn is_plain(text: &str) -> bool {
    !text.bytes().any(is_special)
}

/// A value that begins with a colon looks like the second half of a path, `a::b`.
fn is_plain_value(value: &str) -> bool {
    is_plain(value) && !value.starts_with(':')
}

/// Whether a word that begins with `key:` can only be a pair.
pub(super) fn is_plain_key(key: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    !key.is_empty() && key.bytes().all(is_word)
}

/// `text` as it is, or with what would end it as `%XX`.
#[derive(Debug)]
pub(super) struct Escaped<'t> {
    pub(super) text: &'t str,
    pub(super) is_escaped: bool,
    /// Whether it stands before a colon.
    pub(super) is_key: bool,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_escaped {
            return f.write_str(self.text);
        }
        self.text.chars().try_for_each(|c| match u8::try_from(c) {
            Ok(byte) if is_special(byte) || (self.is_key && byte == b':') => {
                write!(f, "%{byte:02X}")
            }
            _ => f.write_char(c),
        })
    }
}

/// The inverse of [`Escaped`]; `None` if a percent sign stands without two digits, or if what comes out
/// is not UTF-8.
pub(super) fn unescape(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            u8::try_from(digit()? * 16 + digit()?).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(plain).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_comes_back() {
        for text in ["", "plain", "dyn A::b", "100%", "a\nb\tc\u{7f}", "ü:ö %41"] {
            for is_key in [false, true] {
                let escaped = Escaped {
                    text,
                    is_escaped: true,
                    is_key,
                }
                .to_string();
                assert!(!escaped.contains([' ', '\n']), "{escaped}");
                assert!(!is_key || !escaped.contains(':'), "{escaped}");
                assert_eq!(unescape(&escaped).as_deref(), Some(text));
            }
        }
        for wrong in ["%", "%4", "%zz", "a%ff"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }
}
