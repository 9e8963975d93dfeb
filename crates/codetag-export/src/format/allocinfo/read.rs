//! Reading allocinfo.

use super::escape::{is_plain_key, unescape};
use super::{COLUMNS_LINE, ESCAPED, UNTAGGED_FILE, UNTRACKED_FILE, VERSION_LINE, is_known_key};
use crate::profile::{Owner, Profile, Source, Tag, Usage};
use crate::read::{MAX_PAIRS, MAX_TEXT_BYTES, MAX_USAGES, ReadError, TooLarge, visible};
use std::io::{BufRead, Read};
use std::str::FromStr;

/// What is wrong with a line.
type Fault = String;

/// Reads codetag's and the kernel's allocinfo.
///
/// # Errors
///
/// See [`read`](crate::read), which this is a part of.
pub(crate) fn read(input: impl BufRead) -> Result<Profile, ReadError> {
    let mut lines = Lines {
        input,
        line: Vec::new(),
        number: 0,
    };
    let first = lines.next()?.unwrap_or_default();
    let mut profile = Profile {
        source: version(first).map_err(|fault| lines.error(fault))?,
        ..Profile::default()
    };
    let mut is_escaped = false;
    while let Some(line) = lines.next()? {
        let done = if let Some(pairs) = line.strip_prefix(COLUMNS_LINE) {
            header(pairs, &mut profile).map(|escaped| is_escaped = escaped)
        } else if line.starts_with('#') {
            Ok(())
        } else if profile.usages.len() == MAX_USAGES {
            Err(TooLarge::USAGES.to_owned())
        } else {
            usage(line, is_escaped).map(|usage| profile.usages.push(usage))
        };
        done.map_err(|fault| lines.error(fault))?;
    }
    Ok(profile)
}

struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The next line without its line break and the spaces before it.
    fn next(&mut self) -> Result<Option<&str>, ReadError> {
        self.line.clear();
        self.number += 1;
        let number = Some(self.number);
        (&mut self.input)
            .take(MAX_TEXT_BYTES as u64 + 1)
            .read_until(b'\n', &mut self.line)
            .map_err(|error| ReadError::io(number, error))?;
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.pop() != Some(b'\n') {
            let fault = if self.line.len() >= MAX_TEXT_BYTES {
                TooLarge::LINE
            } else {
                "the last line has no line break; the text is cut off"
            };
            return Err(ReadError::new(number, fault));
        }
        match str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line.trim_end_matches([' ', '\r']))),
            Err(_) => Err(ReadError::new(number, "is not UTF-8")),
        }
    }

    fn error(&self, fault: Fault) -> ReadError {
        ReadError::new(Some(self.number), fault)
    }
}

fn version(line: &str) -> Result<Source, Fault> {
    let Some(version) = line.strip_prefix(VERSION_LINE) else {
        return Err(format!("does not begin with `{VERSION_LINE}`"));
    };
    version
        .split_once('.')
        .and_then(|(major, minor)| Source::allocinfo(major, minor))
        .ok_or_else(|| {
            format!(
                "is of version {} of allocinfo, and this codetag reads 1 and 2",
                quoted(version)
            )
        })
}

/// What a profile has besides its owners. Returns whether texts are escaped.
fn header(pairs: &str, profile: &mut Profile) -> Result<bool, Fault> {
    let words = || pairs.split(' ').filter(|word| !word.is_empty());
    let is_escaped = words().any(|word| word.split_once(':') == Some(ESCAPED));
    for word in words() {
        let Some((key, value)) = word.split_once(':') else {
            continue;
        };
        match key {
            "source" => {
                profile.source = Source::parse(value)
                    .ok_or_else(|| format!("{} is no source", quoted(value)))?;
            }
            "program" => profile.program = Some(text(value, is_escaped)?),
            "taken_unix_ns" => profile.taken_unix_ns = Some(number(value, "time")?),
            "quiet" => profile.is_quiet = Some(yes_or_no(key, value)?),
            _ => {
                if let Some(name) = key.strip_prefix("heap.") {
                    if profile.heap.len() == MAX_PAIRS {
                        return Err(TooLarge::PAIRS.to_owned());
                    }
                    let line = (text(name, is_escaped)?, number(value, "number")?);
                    profile.heap.push(line);
                }
            }
        }
    }
    Ok(is_escaped)
}

fn usage(line: &str, is_escaped: bool) -> Result<Usage, Fault> {
    let (size, rest) = word(line);
    let (calls, rest) = word(rest);
    let slot_bytes = number(size, "number of bytes")?;
    let live_objs = number(calls, "number of objects")?;
    let rest = rest.trim_start_matches(' ');
    let Some((place, function)) = rest.split_once(" func:") else {
        return Err("has no ` func:` behind its place; is it cut off?".to_owned());
    };
    let (function, pairs) = function_and_pairs(function, is_escaped);
    let mut usage = Usage {
        owner: owner(place, function, is_escaped)?,
        live_objs,
        requested_bytes: None,
        slot_bytes,
        is_accurate: true,
        extra: Vec::new(),
    };
    let mut seen: Vec<&str> = Vec::new();
    for pair in pairs.split(' ').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once(':') else {
            return Err(format!("{} is no `key:value`", quoted(pair)));
        };
        if is_known_key(key) {
            if seen.contains(&key) {
                return Err(format!("has two pairs `{key}`"));
            }
            seen.push(key);
        }
        add_pair(&mut usage, key, value, is_escaped)?;
    }
    Ok(usage)
}

/// The next word, and what follows it.
fn word(line: &str) -> (&str, &str) {
    let line = line.trim_start_matches(' ');
    line.split_once(' ').unwrap_or((line, ""))
}

/// A function's name may have spaces, as that of `dyn Trait::f`: it ends where the first pair begins.
/// Behind it stands nothing but pairs.
fn function_and_pairs(text: &str, is_escaped: bool) -> (&str, &str) {
    let mut end = 0;
    for word in text.split(' ') {
        if end > 0 || word.is_empty() {
            let is_pair = word
                .split_once(':')
                .is_some_and(|(key, value)| is_plain_key(key) && !value.starts_with(':'));
            if is_escaped || is_pair || word.is_empty() {
                break;
            }
            end += 1;
        }
        end += word.len();
    }
    text.split_at(end)
}

/// `FILE:LINE` or `FILE:LINE [CRATE]`.
fn owner(place: &str, function: &str, is_escaped: bool) -> Result<Owner, Fault> {
    let (place, krate) = match place.strip_suffix(']').and_then(|p| p.rsplit_once(" [")) {
        Some((place, krate)) => (place, Some(text(krate, is_escaped)?)),
        None => (place, None),
    };
    let Some((file, line)) = place.rsplit_once(':') else {
        return Err(format!("{} is no `file:line`", quoted(place)));
    };
    let line = number(line, "line number")?;
    Ok(match (file, line, function, &krate) {
        (UNTAGGED_FILE, 0, "untagged", None) => Owner::Untagged,
        (UNTRACKED_FILE, 0, "untracked", None) => Owner::Untracked,
        _ => Owner::Tag(Tag {
            krate,
            module_path: None,
            function: text(function, is_escaped)?,
            file: text(file, is_escaped)?,
            line,
            column: None,
            name: None,
        }),
    })
}

fn add_pair(usage: &mut Usage, key: &str, value: &str, is_escaped: bool) -> Result<(), Fault> {
    match (key, &mut usage.owner) {
        ("requested", _) => usage.requested_bytes = Some(number(value, "number of bytes")?),
        ("accurate", _) => usage.is_accurate = yes_or_no(key, value)?,
        ("name", Owner::Tag(tag)) => tag.name = Some(text(value, is_escaped)?),
        ("module", Owner::Tag(tag)) => tag.module_path = Some(text(value, is_escaped)?),
        ("column", Owner::Tag(tag)) => tag.column = Some(number(value, "column number")?),
        _ if is_known_key(key) => return Err(format!("`{key}` belongs to a tag")),
        _ if usage.extra.len() == MAX_PAIRS => return Err(TooLarge::PAIRS.to_owned()),
        _ => {
            let pair = (text(key, is_escaped)?, text(value, is_escaped)?);
            // A key that was escaped for no reason could be a field's now.
            if is_known_key(&pair.0) {
                return Err(format!("`{}` is no extra pair", pair.0));
            }
            usage.extra.push(pair);
        }
    }
    Ok(())
}

fn yes_or_no(key: &str, value: &str) -> Result<bool, Fault> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{key} is {}, neither yes nor no", quoted(value))),
    }
}

fn text(text: &str, is_escaped: bool) -> Result<String, Fault> {
    if !is_escaped {
        return Ok(text.to_owned());
    }
    match unescape(text) {
        Some(plain) => Ok(plain.into_owned()),
        None => Err(format!("{} is not percent-escaped", quoted(text))),
    }
}

fn number<N: FromStr>(text: &str, what: &str) -> Result<N, Fault> {
    text.parse()
        .ok()
        .filter(|_| !text.starts_with('+'))
        .ok_or_else(|| format!("{} is no {what}", quoted(text)))
}

/// A piece of the input for a message.
fn quoted(text: &str) -> String {
    format!("`{}`", visible(text, 60))
}
