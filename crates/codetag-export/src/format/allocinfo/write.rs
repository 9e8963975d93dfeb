//! Writing allocinfo.

use super::escape::{self, Escaped};
use super::{COLUMNS_LINE, ESCAPED, UNTAGGED_FILE, UNTRACKED_FILE, VERSION_LINE, is_known_key};
use crate::profile::{Owner, Profile, Source, Usage};
use std::fmt::Display;
use std::io::{self, BufWriter, Write};

/// Writes `profile`, as it goes, with nothing left out.
///
/// A kernel's text that was read is written as it was, byte for byte, up to the order of its pairs.
///
/// # Errors
///
/// If `out` fails; [`InvalidInput`](io::ErrorKind::InvalidInput) if an extra pair has the key of a field.
pub fn write(profile: &Profile, out: impl Write) -> io::Result<()> {
    check(profile)?;
    let mut lines = Lines {
        out: BufWriter::new(out),
        is_escaped: escape::is_needed(profile),
    };
    lines.header(profile)?;
    for usage in &profile.usages {
        lines.usage(usage)?;
    }
    lines.out.flush()
}

fn check(profile: &Profile) -> io::Result<()> {
    let mut keys = profile
        .usages
        .iter()
        .flat_map(|usage| &usage.extra)
        .map(|(key, _)| key);
    match keys.find(|key| is_known_key(key)) {
        Some(key) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{key}` is no extra pair"),
        )),
        None => Ok(()),
    }
}

struct Lines<W: Write> {
    out: BufWriter<W>,
    is_escaped: bool,
}

impl<W: Write> Lines<W> {
    fn header(&mut self, profile: &Profile) -> io::Result<()> {
        // Version 1 knows no pairs.
        let (major, minor) = match profile.source {
            Source::Allocinfo { major, minor }
                if major > 1 || !profile.usages.iter().any(has_pairs) =>
            {
                (major, minor)
            }
            _ => (2, 0),
        };
        write!(self.out, "{VERSION_LINE}{major}.{minor}\n{COLUMNS_LINE}")?;
        if self.is_escaped {
            write!(self.out, " {}:{}", ESCAPED.0, ESCAPED.1)?;
        }
        if profile.source != (Source::Allocinfo { major, minor }) {
            self.pair("source", &profile.source)?;
        }
        if let Some(program) = &profile.program {
            self.pair("program", &self.text(program))?;
        }
        if let Some(ns) = profile.taken_unix_ns {
            self.pair("taken_unix_ns", &ns)?;
        }
        if let Some(is_quiet) = profile.is_quiet {
            self.pair("quiet", &yes_no(is_quiet))?;
        }
        for (name, value) in &profile.heap {
            write!(self.out, " heap.{}:{value}", self.key(name))?;
        }
        self.out.write_all(b"\n")
    }

    fn usage(&mut self, usage: &Usage) -> io::Result<()> {
        write!(self.out, "{:>12} {:>8} ", usage.slot_bytes, usage.live_objs)?;
        match &usage.owner {
            Owner::Tag(tag) => {
                write!(self.out, "{}:{}", self.text(&tag.file), tag.line)?;
                if let Some(krate) = &tag.krate {
                    write!(self.out, " [{}]", self.text(krate))?;
                }
                write!(self.out, " func:{}", self.text(&tag.function))?;
                if let Some(name) = &tag.name {
                    self.pair("name", &self.text(name))?;
                }
            }
            Owner::Untagged => write!(self.out, "{UNTAGGED_FILE}:0 func:untagged")?,
            Owner::Untracked => write!(self.out, "{UNTRACKED_FILE}:0 func:untracked")?,
        }
        if let Some(bytes) = usage.requested_bytes {
            self.pair("requested", &bytes)?;
        }
        if let Some(tag) = usage.owner.tag() {
            if let Some(path) = &tag.module_path {
                self.pair("module", &self.text(path))?;
            }
            if let Some(column) = tag.column {
                self.pair("column", &column)?;
            }
        }
        if !usage.is_accurate {
            self.pair("accurate", &"no")?;
        }
        for (key, value) in &usage.extra {
            write!(self.out, " {}:{}", self.key(key), self.text(value))?;
        }
        self.out.write_all(b" \n")
    }

    fn pair(&mut self, key: &str, value: &dyn Display) -> io::Result<()> {
        write!(self.out, " {key}:{value}")
    }

    fn text<'t>(&self, text: &'t str) -> Escaped<'t> {
        Escaped {
            text,
            is_escaped: self.is_escaped,
            is_key: false,
        }
    }

    fn key<'t>(&self, text: &'t str) -> Escaped<'t> {
        Escaped {
            is_key: true,
            ..self.text(text)
        }
    }
}

fn has_pairs(usage: &Usage) -> bool {
    let of_tag = usage
        .owner
        .tag()
        .is_some_and(|tag| tag.name.is_some() || tag.module_path.is_some() || tag.column.is_some());
    of_tag || usage.requested_bytes.is_some() || !usage.is_accurate || !usage.extra.is_empty()
}

pub(super) fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}
