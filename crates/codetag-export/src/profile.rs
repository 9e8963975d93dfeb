//! A profile: what each tag owned at one moment, owned and independent of the program it is about.

use std::fmt;

/// Who owned how much of a heap at one moment.
///
/// Made from a [`Snapshot`](codetag::Snapshot) by [`from_snapshot`](Self::from_snapshot), or read from
/// a file by [`read`](crate::read).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// What the figures come from.
    pub source: Source,
    /// The program's file name, without its directory.
    pub program: Option<String>,
    /// When the figures were taken, in nanoseconds since 1970-01-01 00:00 UTC.
    pub taken_unix_ns: Option<u64>,
    /// Whether nothing was allocated or freed meanwhile, so that every figure is exact.
    pub is_quiet: Option<bool>,
    /// The lines of the page that `codetag::show_mem()` prints, by the names of the fields of
    /// [`HeapTotals`](codetag::HeapTotals): the end of a name is its unit. Empty if not known.
    pub heap: Vec<(String, i64)>,
    /// What each owner had, in the order of the source. An owner may stand here more than once: the
    /// kernel lists an inlined function once per place that it was inlined in.
    pub usages: Vec<Usage>,
}

/// What the figures of a [`Profile`] come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// A [`Snapshot`](codetag::Snapshot).
    #[default]
    Snapshot,
    /// Text in the form of `/proc/allocinfo`, of this version.
    Allocinfo {
        /// 1 or 2.
        major: u8,
        /// 0 so far.
        minor: u8,
    },
}

/// What one owner had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Whose it is.
    pub owner: Owner,
    /// Live objects; the kernel's *calls*.
    pub live_objs: u64,
    /// Bytes that were requested for them. `None` where the source does not know: the kernel's text, and
    /// untracked objects.
    pub requested_bytes: Option<i64>,
    /// Bytes that the objects really take; the kernel's *size*. Signed, because the kernel prints it so.
    pub slot_bytes: i64,
    /// `false` if the source says that the figure is not exact. No part of the owner's identity.
    pub is_accurate: bool,
    /// Pairs that this version does not know, in their order.
    pub extra: Vec<(String, String)>,
}

/// Whose memory it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A code tag's.
    Tag(Tag),
    /// Tracked, but allocated while no scope was active.
    Untagged,
    /// Allocated before profiling was last turned on, or while it was not on.
    Untracked,
}

/// One tagged source place. The same as [`CodeTag`](codetag::CodeTag), but owned, and read from a file
/// perhaps, which may not know all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// The crate; of a kernel's tag the module, `None` if it is built in.
    pub krate: Option<String>,
    /// The module the place stands in: `my_crate::inner`. The allocinfo text of a running program and of
    /// the kernel has none.
    pub module_path: Option<String>,
    /// The function's name.
    pub function: String,
    /// The source file.
    pub file: String,
    /// The line in the file, counted from 1.
    pub line: u32,
    /// The column, counted from 1.
    pub column: Option<u32>,
    /// The name given to the tag.
    pub name: Option<String>,
}

impl Usage {
    /// Requested bytes where they are known, else slot bytes: what *bytes* means wherever one figure has
    /// to stand for both.
    #[must_use]
    pub fn bytes(&self) -> i64 {
        self.requested_bytes.unwrap_or(self.slot_bytes)
    }
}

impl From<Tag> for Owner {
    fn from(tag: Tag) -> Self {
        Self::Tag(tag)
    }
}

impl Owner {
    /// The tag, if it is one.
    #[must_use]
    pub fn tag(&self) -> Option<&Tag> {
        match self {
            Self::Tag(tag) => Some(tag),
            Self::Untagged | Self::Untracked => None,
        }
    }
}

/// In the form of allocinfo: `FILE:LINE [CRATE] func:FUNCTION name:NAME`. Control characters are escaped.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => tag.fmt(f),
            Self::Untagged => f.write_str("<untagged>"),
            Self::Untracked => f.write_str("<untracked>"),
        }
    }
}

/// In the form of allocinfo: `FILE:LINE [CRATE] func:FUNCTION name:NAME`. Control characters are escaped.
impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", visible(&self.file), self.line)?;
        if let Some(krate) = &self.krate {
            write!(f, " [{}]", visible(krate))?;
        }
        write!(f, " func:{}", visible(&self.function))?;
        match &self.name {
            Some(name) => write!(f, " name:{}", visible(name)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot => f.write_str("snapshot"),
            Self::Allocinfo { major, minor } => write!(f, "allocinfo-{major}.{minor}"),
        }
    }
}

impl Source {
    /// The inverse of `Display`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "snapshot" {
            return Some(Self::Snapshot);
        }
        let (major, minor) = text.strip_prefix("allocinfo-")?.split_once('.')?;
        Self::allocinfo(major, minor)
    }

    /// A version that this crate can read: 1 or 2, whatever follows the point.
    pub(crate) fn allocinfo(major: &str, minor: &str) -> Option<Self> {
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(major) || !is_number(minor) {
            return None;
        }
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        (1..=2)
            .contains(&major)
            .then_some(Self::Allocinfo { major, minor })
    }
}

/// Text with its control characters as escapes: nothing that moves a terminal's cursor or ends a line.
pub(crate) fn visible(text: &str) -> impl fmt::Display + '_ {
    struct Visible<'t>(&'t str);
    impl fmt::Display for Visible<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            use fmt::Write;
            self.0.chars().try_for_each(|c| match c {
                c if c.is_control() || is_invisible(c) => write!(f, "{}", c.escape_unicode()),
                c => f.write_char(c),
            })
        }
    }
    Visible(text)
}

/// Characters that XML 1.0 forbids, that break lines, or that turn the direction of the text around them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_print_as_lines_of_allocinfo() {
        let tag = Tag {
            krate: Some("my_crate".into()),
            module_path: Some("my_crate::deep".into()),
            function: "Type::f".into(),
            file: "src/x.rs".into(),
            line: 7,
            column: Some(3),
            name: Some("two words".into()),
        };
        assert_eq!(
            Owner::Tag(tag).to_string(),
            "src/x.rs:7 [my_crate] func:Type::f name:two words"
        );
        let hostile = Tag {
            function: "a\n\u{1b}[31m\u{202e}ü".into(),
            ..Tag::default()
        };
        assert_eq!(hostile.to_string(), ":0 func:a\\u{a}\\u{1b}[31m\\u{202e}ü");
        assert_eq!(Owner::Untracked.to_string(), "<untracked>");
    }

    #[test]
    fn sources_are_read_as_they_are_printed() {
        for source in [
            Source::Snapshot,
            Source::Allocinfo { major: 1, minor: 0 },
            Source::Allocinfo { major: 2, minor: 7 },
        ] {
            assert_eq!(Source::parse(&source.to_string()), Some(source));
        }
        for text in [
            "",
            "allocinfo-3.0",
            "allocinfo-0.9",
            "allocinfo-2",
            "allocinfo-+1.0",
            "x",
        ] {
            assert_eq!(Source::parse(text), None, "{text}");
        }
    }
}
