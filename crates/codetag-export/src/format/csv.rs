//! Comma-separated values: one owner a line, under a line of names.

use crate::profile::{Owner, Profile};
use std::borrow::Cow;
use std::io::{self, Write};

/// The first line. `docs/FORMATS.md` explains each column.
pub const COLUMNS: [&str; 13] = [
    "kind",
    "crate",
    "module_path",
    "function",
    "file",
    "line",
    "column",
    "name",
    "live_objs",
    "requested_bytes",
    "slot_bytes",
    "accurate",
    "extra",
];

/// Writes `profile`, as it goes. What is not known is an empty field.
///
/// # Errors
///
/// If `out` fails.
pub fn write(profile: &Profile, out: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(COLUMNS)?;
    for usage in &profile.usages {
        let tag = usage.owner.tag();
        let text = |text: Option<&str>| Cow::Owned(text.unwrap_or_default().to_owned());
        let number = |number: Option<i128>| match number {
            Some(number) => Cow::Owned(number.to_string()),
            None => Cow::Borrowed(""),
        };
        let extra: Vec<String> = usage
            .extra
            .iter()
            .map(|(key, value)| format!("{key}:{value}"))
            .collect();
        let record: [Cow<'_, str>; COLUMNS.len()] = [
            Cow::Borrowed(match usage.owner {
                Owner::Tag(_) => "tag",
                Owner::Untagged => "untagged",
                Owner::Untracked => "untracked",
            }),
            text(tag.and_then(|tag| tag.krate.as_deref())),
            text(tag.and_then(|tag| tag.module_path.as_deref())),
            text(tag.map(|tag| &*tag.function)),
            text(tag.map(|tag| &*tag.file)),
            number(tag.map(|tag| tag.line.into())),
            number(tag.and_then(|tag| tag.column).map(Into::into)),
            text(tag.and_then(|tag| tag.name.as_deref())),
            number(Some(usage.live_objs.into())),
            number(usage.requested_bytes.map(Into::into)),
            number(Some(usage.slot_bytes.into())),
            Cow::Borrowed(if usage.is_accurate { "yes" } else { "no" }),
            Cow::Owned(extra.join(" ")),
        ];
        writer.write_record(record.iter().map(|field| field.as_bytes()))?;
    }
    writer.flush()
}
