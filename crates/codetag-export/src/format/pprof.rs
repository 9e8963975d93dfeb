//! pprof: a gzipped protocol buffer (google/pprof, proto/profile.proto), read by `go tool pprof`, Pyroscope,
//! Parca, speedscope and others.
//!
//! As Go writes its heap profiles, but live figures only and not sampled: `inuse_objects/count` and
//! `inuse_space/bytes`, period 1. One sample per owner, its stack one frame: the tag. Crate, module and name
//! are labels (`-tagroot crate` makes frames of them). There are no mappings and no addresses, so that no
//! reader looks for a binary or calls a symboliser.

mod proto;

use crate::diff::Diff;
use crate::group::{BUILT_IN, qualified_function};
use crate::measure::{Measure, Sums};
use crate::profile::{Owner, Profile, Tag};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

/// Writes `profile`, as it goes; owners of nothing are no samples.
///
/// `measure` says which bytes are written beside the objects: [`Measure::Slot`] slot bytes, the others
/// requested bytes where they are known, else slot bytes.
///
/// # Errors
///
/// If `out` fails; [`InvalidInput`](io::ErrorKind::InvalidInput) if a figure has no place in 64 bits with a
/// sign.
pub fn write(profile: &Profile, measure: Measure, out: impl Write) -> io::Result<()> {
    let samples = || {
        profile
            .usages
            .iter()
            .map(|usage| (&usage.owner, Sums::from(usage)))
    };
    write_samples(samples, profile.taken_unix_ns, None, measure, out)
}

/// Writes a difference: what was added, negative where it was taken away. Owners that did not change are no
/// samples.
///
/// `taken_unix_ns` is when the profile after was taken, `duration_ns` how long after the one before.
///
/// # Errors
///
/// As [`write()`].
pub fn write_diff(
    diff: &Diff,
    taken_unix_ns: Option<u64>,
    duration_ns: Option<u64>,
    measure: Measure,
    out: impl Write,
) -> io::Result<()> {
    let samples = || {
        diff.changes
            .iter()
            .map(|change| (&change.owner, change.delta()))
    };
    write_samples(samples, taken_unix_ns, duration_ns, measure, out)
}

fn write_samples<'p, S: Iterator<Item = (&'p Owner, Sums)>>(
    samples: impl Fn() -> S,
    taken_unix_ns: Option<u64>,
    duration_ns: Option<u64>,
    measure: Measure,
    out: impl Write,
) -> io::Result<()> {
    // All figures first: after an error nothing is half written.
    for (owner, sums) in samples() {
        values(owner, &sums, measure)?;
    }
    let mut writer = Writer {
        out: GzEncoder::new(BufWriter::new(out), Compression::default()),
        buf: Vec::new(),
        strings: HashMap::new(),
        list: Vec::new(),
        functions: HashMap::new(),
        locations: HashMap::new(),
    };
    writer.string("");
    writer.head(taken_unix_ns, duration_ns, measure)?;
    for (owner, sums) in samples() {
        let values = values(owner, &sums, measure)?;
        if values != [0, 0] {
            writer.sample(owner, values)?;
        }
    }
    writer.finish()
}

/// Objects and bytes.
fn values(owner: &Owner, sums: &Sums, measure: Measure) -> io::Result<[i64; 2]> {
    let bytes = match measure {
        Measure::Slot => sums.slot_bytes,
        Measure::Bytes | Measure::Objects => sums.bytes,
    };
    match (i64::try_from(sums.live_objs), i64::try_from(bytes)) {
        (Ok(objs), Ok(bytes)) => Ok([objs, bytes]),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{owner}: a figure is too large for pprof"),
        )),
    }
}

/// Writes messages with one part each: put one after the other they are the message with all parts.
struct Writer<W: Write> {
    out: GzEncoder<BufWriter<W>>,
    buf: Vec<u8>,
    /// Indices of `list`.
    strings: HashMap<String, i64>,
    list: Vec<String>,
    /// By name and file. Ids count from 1.
    functions: HashMap<(i64, i64), u64>,
    /// By function, line and column; a column that is not known is 0, as pprof has it.
    locations: HashMap<(u64, u32, u32), u64>,
}

impl<W: Write> Writer<W> {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.strings.get(text) {
            return index;
        }
        // No profile that was read has as many strings as would not fit.
        let index = i64::try_from(self.list.len()).unwrap_or(i64::MAX);
        self.strings.insert(text.to_owned(), index);
        self.list.push(text.to_owned());
        index
    }

    fn write(&mut self, part: &proto::Profile) -> io::Result<()> {
        self.buf.clear();
        part.encode(&mut self.buf).map_err(io::Error::other)?;
        self.out.write_all(&self.buf)
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> proto::ValueType {
        proto::ValueType {
            r#type: self.string(kind),
            unit: self.string(unit),
        }
    }

    fn head(
        &mut self,
        taken_unix_ns: Option<u64>,
        duration_ns: Option<u64>,
        measure: Measure,
    ) -> io::Result<()> {
        let ns = |ns: Option<u64>| ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0);
        let comment = match measure {
            Measure::Slot => "codetag: bytes are slot bytes",
            Measure::Bytes | Measure::Objects => {
                "codetag: bytes are requested bytes, slot bytes where those are not known"
            }
        };
        let head = proto::Profile {
            sample_type: vec![
                self.value_type("inuse_objects", "count"),
                self.value_type("inuse_space", "bytes"),
            ],
            time_nanos: ns(taken_unix_ns),
            duration_nanos: ns(duration_ns),
            period_type: Some(self.value_type("space", "bytes")),
            period: 1,
            comment: vec![self.string(comment)],
            default_sample_type: self.string("inuse_space"),
            ..proto::Profile::default()
        };
        self.write(&head)
    }

    fn sample(&mut self, owner: &Owner, values: [i64; 2]) -> io::Result<()> {
        let location = match owner {
            Owner::Tag(tag) => {
                let name = function_name(tag);
                self.location(&name, &tag.file, tag.line, tag.column.unwrap_or(0))?
            }
            Owner::Untagged | Owner::Untracked => self.location(&owner.to_string(), "", 0, 0)?,
        };
        let mut label = Vec::new();
        if let Owner::Tag(tag) = owner {
            let krate = tag.krate.as_deref().unwrap_or(BUILT_IN);
            let labels = [
                ("crate", Some(krate)),
                ("module", tag.module_path.as_deref()),
                ("name", tag.name.as_deref()),
            ];
            for (key, text) in labels {
                // An empty string is the number 0, which means none.
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    label.push(proto::Label {
                        key: self.string(key),
                        str: self.string(text),
                    });
                }
            }
        }
        let sample = proto::Sample {
            location_id: vec![location],
            value: values.to_vec(),
            label,
        };
        self.write(&proto::Profile {
            sample: vec![sample],
            ..proto::Profile::default()
        })
    }

    fn location(&mut self, name: &str, file: &str, line: u32, column: u32) -> io::Result<u64> {
        let (name, file) = (self.string(name), self.string(file));
        let mut part = proto::Profile::default();
        // Without a system name, which readers would take for a mangled one of C++ and cut at each `<`.
        let next = self.functions.len() as u64 + 1;
        let function_id = *self.functions.entry((name, file)).or_insert_with(|| {
            part.function.push(proto::Function {
                id: next,
                name,
                filename: file,
            });
            next
        });
        let next = self.locations.len() as u64 + 1;
        let id = *self
            .locations
            .entry((function_id, line, column))
            .or_insert_with(|| {
                part.location.push(proto::Location {
                    id: next,
                    line: vec![proto::Line {
                        function_id,
                        line: line.into(),
                        column: column.into(),
                    }],
                });
                next
            });
        self.write(&part)?;
        Ok(id)
    }

    fn finish(mut self) -> io::Result<()> {
        for text in std::mem::take(&mut self.list) {
            self.write(&proto::Profile {
                string_table: vec![text],
                ..proto::Profile::default()
            })?;
        }
        self.out.finish()?.flush()
    }
}

/// Readers put together what has one function name, so it tells functions of the same name apart: with
/// its module path or its file, and with the tag's name.
fn function_name(tag: &Tag) -> String {
    match (&tag.name, &tag.module_path, &tag.krate) {
        (Some(name), _, _) => format!("{} {{{name}}}", qualified_function(tag)),
        // A kernel's functions are known by their bare names; `-lines` tells equal ones apart.
        (None, None, None) => tag.function.clone(),
        _ => qualified_function(tag),
    }
}
