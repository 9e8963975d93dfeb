//! The one parser of `CODETAG`. Allocates nothing and never fails: what it does not understand is
//! remembered for [`state()`](crate::state) and the page.

use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicUsize};

/// What the state word asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Never,
    Off,
    On,
}

/// What the whole value asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// None if the value names no state.
    pub setting: Option<Setting>,
    /// `exit`: a page on stderr at exit.
    pub page_at_exit: bool,
}

impl Wish {
    const NONE: Self = Self {
        setting: None,
        page_at_exit: false,
    };
}

const KEPT_BYTES: usize = 48;
static UNKNOWN: [AtomicU8; KEPT_BYTES] = [const { AtomicU8::new(0) }; KEPT_BYTES];
static UNKNOWN_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Parses the value; the first part that is not understood is kept.
pub(super) fn parse(value: &[u8]) -> Wish {
    let mut wish = Wish::NONE;
    for (i, part) in value.split(|&b| b == b',').enumerate() {
        match (i, part.trim_ascii()) {
            (0, b"") => {}
            (0, b"never") => wish.setting = Some(Setting::Never),
            (0, b"0") => wish.setting = Some(Setting::Off),
            (0, b"1") => wish.setting = Some(Setting::On),
            (1.., b"exit") => wish.page_at_exit = true,
            (_, other) => keep(other),
        }
    }
    wish
}

fn keep(word: &[u8]) {
    if UNKNOWN_BYTES.load(Relaxed) > 0 {
        return;
    }
    let word: &[u8] = if word.is_empty() { b"(empty)" } else { word };
    let n = word.len().min(KEPT_BYTES);
    for (to, &from) in UNKNOWN.iter().zip(&word[..n]) {
        // The page is text; what is not printable ASCII shows as a question mark.
        to.store(if from.is_ascii_graphic() { from } else { b'?' }, Relaxed);
    }
    UNKNOWN_BYTES.store(n, Release);
}

/// A part of `CODETAG` that was not understood: its first 48 bytes, each that is not printable
/// ASCII as a question mark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UnknownWord {
    bytes: [u8; KEPT_BYTES],
    len: usize,
}

impl UnknownWord {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The first part that was not understood.
pub(super) fn unknown_word() -> Option<UnknownWord> {
    let len = UNKNOWN_BYTES.load(Acquire);
    (len > 0).then(|| UnknownWord {
        bytes: UNKNOWN.each_ref().map(|b| b.load(Relaxed)),
        len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(setting: Option<Setting>, page_at_exit: bool) -> Wish {
        Wish {
            setting,
            page_at_exit,
        }
    }

    fn unknown() -> Option<String> {
        unknown_word().map(|w| w.to_string())
    }

    #[test]
    fn states_and_words() {
        assert_eq!(parse(b""), wish(None, false));
        assert_eq!(parse(b"1"), wish(Some(Setting::On), false));
        assert_eq!(parse(b"0"), wish(Some(Setting::Off), false));
        assert_eq!(parse(b"never"), wish(Some(Setting::Never), false));
        assert_eq!(parse(b"1,exit"), wish(Some(Setting::On), true));
        assert_eq!(parse(b" never , exit "), wish(Some(Setting::Never), true));
        assert_eq!(unknown(), None);

        assert_eq!(
            parse(b"1,exit,compre\xffssed"),
            wish(Some(Setting::On), true)
        );
        assert_eq!(unknown().as_deref(), Some("compre?ssed"));
        assert_eq!(parse(b"yes"), wish(None, false));
        assert_eq!(
            unknown().as_deref(),
            Some("compre?ssed"),
            "the first one is kept"
        );
    }
}
