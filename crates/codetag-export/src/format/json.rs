//! JSON: the format that keeps all of a profile. `docs/FORMATS.md` explains each field.
//!
//! One owner a line, so that a line number says which.

use crate::format::allocinfo::is_known_key;
use crate::profile::{Owner, Profile, Source, Tag, Usage};
use crate::read::{LimitedStrings, MAX_PAIRS, MAX_USAGES, ReadError, TooLarge, visible};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::error::Category;
use std::fmt;
use std::io::{self, Read, Write};

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// Writes `profile`, as it goes.
///
/// # Errors
///
/// If `out` fails.
pub fn write(profile: &Profile, out: impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    let out = &mut out;
    write!(out, "{{\"codetag_profile\":{VERSION},\n\"source\":")?;
    serde_json::to_writer(&mut *out, &profile.source.to_string())?;
    if let Some(program) = &profile.program {
        out.write_all(b",\n\"program\":")?;
        serde_json::to_writer(&mut *out, program)?;
    }
    if let Some(ns) = profile.taken_unix_ns {
        write!(out, ",\n\"taken_unix_ns\":{ns}")?;
    }
    if let Some(is_quiet) = profile.is_quiet {
        write!(out, ",\n\"is_quiet\":{is_quiet}")?;
    }
    if !profile.heap.is_empty() {
        out.write_all(b",\n\"heap\":")?;
        serde_json::to_writer(&mut *out, &Pairs(&profile.heap))?;
    }
    out.write_all(b",\n\"usages\":[")?;
    for (position, usage) in profile.usages.iter().enumerate() {
        out.write_all(if position == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &Row::from(usage))?;
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
}

/// Reads what [`write()`] wrote. Fields that it does not know are passed over.
///
/// # Errors
///
/// See [`read`](crate::read), which this is a part of.
pub(crate) fn read(input: impl Read) -> Result<Profile, ReadError> {
    let input = io::BufReader::new(LimitedStrings::new(input));
    let mut parser = serde_json::Deserializer::from_reader(input);
    let document = Document::deserialize(&mut parser).and_then(|document| {
        parser.end()?;
        Ok(document)
    });
    document.map_err(error).map(Profile::from)
}

fn error(error: serde_json::Error) -> ReadError {
    let line = Some(error.line() as u64).filter(|&line| line > 0);
    match error.classify() {
        Category::Io => ReadError::io(line, error.into()),
        Category::Eof => ReadError::new(line, "the json ends too early; it is cut off"),
        Category::Syntax | Category::Data => {
            let place = format!(" at line {} column {}", error.line(), error.column());
            let mut text = error.to_string();
            text.truncate(text.strip_suffix(&place).map_or(text.len(), str::len));
            // It quotes what it does not like, however long, and some of it as it is.
            ReadError::new(line, visible(&text, 200))
        }
    }
}

struct Pairs<'p>(&'p [(String, i64)]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Tag,
    Untagged,
    Untracked,
}

/// One owner, as it is written.
#[derive(Serialize)]
struct Row<'u> {
    #[serde(skip_serializing_if = "is_tag")]
    kind: Kind,
    #[serde(flatten)]
    tag: Option<TagRow<'u>>,
    live_objs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_bytes: Option<i64>,
    slot_bytes: i64,
    #[serde(skip_serializing_if = "is_true")]
    accurate: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    extra: &'u [(String, String)],
}

#[derive(Serialize)]
struct TagRow<'u> {
    #[serde(rename = "crate", skip_serializing_if = "Option::is_none")]
    krate: Option<&'u str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    module_path: Option<&'u str>,
    function: &'u str,
    file: &'u str,
    line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'u str>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_true(value: &bool) -> bool {
    *value
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_tag(kind: &Kind) -> bool {
    *kind == Kind::Tag
}

impl<'u> From<&'u Usage> for Row<'u> {
    fn from(usage: &'u Usage) -> Self {
        Self {
            kind: match usage.owner {
                Owner::Tag(_) => Kind::Tag,
                Owner::Untagged => Kind::Untagged,
                Owner::Untracked => Kind::Untracked,
            },
            tag: usage.owner.tag().map(|tag| TagRow {
                krate: tag.krate.as_deref(),
                module_path: tag.module_path.as_deref(),
                function: &tag.function,
                file: &tag.file,
                line: tag.line,
                column: tag.column,
                name: tag.name.as_deref(),
            }),
            live_objs: usage.live_objs,
            requested_bytes: usage.requested_bytes,
            slot_bytes: usage.slot_bytes,
            accurate: usage.is_accurate,
            extra: &usage.extra,
        }
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "codetag_profile")]
    _version: Version,
    source: SourceText,
    program: Option<String>,
    taken_unix_ns: Option<u64>,
    is_quiet: Option<bool>,
    #[serde(default)]
    heap: HeapLines,
    usages: Usages,
}

impl From<Document> for Profile {
    fn from(document: Document) -> Self {
        Self {
            source: document.source.0,
            program: document.program,
            taken_unix_ns: document.taken_unix_ns,
            is_quiet: document.is_quiet,
            heap: document.heap.0,
            usages: document.usages.0,
        }
    }
}

/// Read first, so that a later version is told as such and not by what else is new in it.
struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            VERSION => Ok(Self),
            version => Err(D::Error::custom(format_args!(
                "is of version {version} of the format, and this codetag reads version {VERSION}"
            ))),
        }
    }
}

struct SourceText(Source);

impl<'de> Deserialize<'de> for SourceText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match Source::parse(&text) {
            Some(source) => Ok(Self(source)),
            None => Err(D::Error::custom(format_args!("unknown source `{text}`"))),
        }
    }
}

/// A list that does not grow past a limit.
fn limited<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
    mut seq: A,
    max: usize,
    what: &'static str,
) -> Result<Vec<T>, A::Error> {
    let mut list = Vec::new();
    while let Some(item) = seq.next_element()? {
        if list.len() == max {
            return Err(A::Error::custom(what));
        }
        list.push(item);
    }
    Ok(list)
}

#[derive(Default)]
struct HeapLines(Vec<(String, i64)>);

impl<'de> Deserialize<'de> for HeapLines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lines;
        impl<'de> Visitor<'de> for Lines {
            type Value = HeapLines;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the heap's lines, names with numbers")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeapLines, A::Error> {
                let mut lines = Vec::new();
                while let Some(line) = map.next_entry()? {
                    if lines.len() == MAX_PAIRS {
                        return Err(A::Error::custom(TooLarge::PAIRS));
                    }
                    lines.push(line);
                }
                Ok(HeapLines(lines))
            }
        }
        deserializer.deserialize_map(Lines)
    }
}

struct Usages(Vec<Usage>);

impl<'de> Deserialize<'de> for Usages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Usages;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of owners")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Usages, A::Error> {
                let usages: Vec<ReadUsage> = limited(seq, MAX_USAGES, TooLarge::USAGES)?;
                Ok(Usages(usages.into_iter().map(|usage| usage.0).collect()))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

#[derive(Default)]
struct Extra(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Extra {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Extra;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of pairs of strings")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Extra, A::Error> {
                limited(seq, MAX_PAIRS, TooLarge::PAIRS).map(Extra)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// One owner, as it is read.
#[derive(Deserialize)]
struct ReadRow {
    #[serde(default)]
    kind: Kind,
    #[serde(rename = "crate")]
    krate: Option<String>,
    module_path: Option<String>,
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    name: Option<String>,
    live_objs: u64,
    requested_bytes: Option<i64>,
    slot_bytes: i64,
    #[serde(default = "yes")]
    accurate: bool,
    #[serde(default)]
    extra: Extra,
}

fn yes() -> bool {
    true
}

struct ReadUsage(Usage);

impl<'de> Deserialize<'de> for ReadUsage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let row = ReadRow::deserialize(deserializer)?;
        let missing = D::Error::missing_field;
        if let Some((key, _)) = row.extra.0.iter().find(|(key, _)| is_known_key(key)) {
            return Err(D::Error::custom(format_args!("`{key}` is no extra pair")));
        }
        Ok(Self(Usage {
            owner: match row.kind {
                Kind::Untagged => Owner::Untagged,
                Kind::Untracked => Owner::Untracked,
                Kind::Tag => Owner::Tag(Tag {
                    krate: row.krate,
                    module_path: row.module_path,
                    function: row.function.ok_or_else(|| missing("function"))?,
                    file: row.file.ok_or_else(|| missing("file"))?,
                    line: row.line.ok_or_else(|| missing("line"))?,
                    column: row.column,
                    name: row.name,
                }),
            },
            live_objs: row.live_objs,
            requested_bytes: row.requested_bytes,
            slot_bytes: row.slot_bytes,
            is_accurate: row.accurate,
            extra: row.extra.0,
        }))
    }
}
