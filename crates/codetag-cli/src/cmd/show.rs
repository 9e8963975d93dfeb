//! `codetag show`: who owns the heap, by a profile.

use crate::figures::{self, Listing};
use crate::input;
use crate::output::{Format, Output};
use codetag_export::{Group, Profile, Sums};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// List the largest owners in profiles.
///
/// Reads codetag's json and allocinfo, and the kernel's /proc/allocinfo, gzipped or not; which it is, the content
/// says. A requested figure that is not known is `-`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    codetag show heap.json\n  \
    codetag show --by crate --sort objects heap.json.gz\n  \
    sudo cat /proc/allocinfo | codetag show --top 20 -\n\n\
    Exit status: 0 all was done, 1 some file could not be used, 2 wrong usage.")]
pub(crate) struct Args {
    /// Profiles; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    listing: Listing,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One profile in json.
#[derive(Serialize)]
struct Document<'p> {
    file: String,
    source: String,
    program: Option<&'p str>,
    taken_unix_ns: Option<u64>,
    is_quiet: Option<bool>,
    owners: usize,
    total: Figures,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Figures {
    bytes: i128,
    requested_bytes: Option<i128>,
    slot_bytes: i128,
    live_objs: i128,
}

/// One line in json and csv, whose columns are the names of the fields.
#[derive(Serialize)]
struct Row {
    label: String,
    owners: usize,
    #[serde(flatten)]
    figures: Figures,
    accurate: bool,
    extra: String,
}

impl From<&Group> for Row {
    fn from(group: &Group) -> Self {
        Self {
            label: group.label.clone(),
            owners: group.owners,
            figures: Figures::new(&group.sums, group.requested_bytes),
            accurate: group.is_accurate,
            extra: pairs(group),
        }
    }
}

impl Figures {
    fn new(sums: &Sums, requested_bytes: Option<i128>) -> Self {
        Self {
            bytes: sums.bytes,
            requested_bytes,
            slot_bytes: sums.slot_bytes,
            live_objs: sums.live_objs,
        }
    }
}

fn pairs(group: &Group) -> String {
    let pairs = group.extra.iter().map(|(key, value)| format!("{key}:{value}"));
    crate::output::one_line(&pairs.collect::<Vec<_>>().join(" "))
}

impl Args {
    pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
        if !input::is_read_once(self.files.iter().map(PathBuf::as_path), out) {
            return Ok(());
        }
        // json is one document, so the list has to be complete; tables come file by file.
        let mut documents = Vec::new();
        let mut has_printed = false;
        for path in &self.files {
            let Some(profile) = input::profile(path, out) else {
                continue;
            };
            let groups = profile.groups(self.listing.by(), self.listing.measure());
            let groups = &groups[..groups.len().min(self.listing.limit(self.format))];
            match self.format {
                Format::Table => {
                    if has_printed {
                        writeln!(out)?;
                    }
                    self.table(path, &profile, groups, out)?;
                }
                Format::Json => documents.push(serde_json::to_value(document(path, &profile, groups))?),
                Format::Csv => csv(path, groups, !has_printed, out)?,
            }
            has_printed = true;
        }
        if self.format == Format::Json {
            serde_json::to_writer_pretty(&mut *out, &documents)?;
            writeln!(out)?;
        }
        Ok(())
    }

    fn table(
        &self,
        path: &Path,
        profile: &Profile,
        groups: &[Group],
        out: &mut Output,
    ) -> io::Result<()> {
        let listing = &self.listing;
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut shown = 0;
        for group in groups.iter().filter(|group| !group.sums.is_zero()) {
            let mut label = group.label.clone();
            if !group.is_accurate {
                label += " accurate:no";
            }
            if !group.extra.is_empty() {
                label += " ";
                label += &pairs(group);
            }
            shown += group.owners;
            rows.push(self.row(&Figures::new(&group.sums, group.requested_bytes), label));
        }
        let known = profile.usages.iter().filter_map(|usage| usage.requested_bytes);
        let total = Figures {
            requested_bytes: known.map(i128::from).fold(None, |sum, n| Some(sum.unwrap_or(0) + n)),
            ..Figures::new(&profile.sums(), None)
        };
        let live = profile.usages.iter().filter(|usage| !Sums::from(*usage).is_zero()).count();
        let owners = profile.usages.len();
        let label = format!("all {owners} owners; {live} own something, {} of these are listed", shown.min(live));
        rows.push(self.row(&total, label));
        writeln!(out, "{}", figures::heading(path, profile))?;
        let header = ["requested", "slot", "objects", listing.heading()];
        writeln!(out, "{}", figures::table(3, &header, rows))
    }

    fn row(&self, figures: &Figures, label: String) -> Vec<String> {
        vec![
            figures
                .requested_bytes
                .map_or_else(|| "-".to_owned(), |bytes| self.listing.bytes(bytes)),
            self.listing.bytes(figures.slot_bytes),
            figures.live_objs.to_string(),
            label,
        ]
    }
}

fn document<'p>(path: &Path, profile: &'p Profile, groups: &[Group]) -> Document<'p> {
    let requested = profile.usages.iter().map(|usage| usage.requested_bytes.map(i128::from));
    Document {
        file: path.display().to_string(),
        source: profile.source.to_string(),
        program: profile.program.as_deref(),
        taken_unix_ns: profile.taken_unix_ns,
        is_quiet: profile.is_quiet,
        owners: profile.usages.len(),
        total: Figures::new(&profile.sums(), requested.sum()),
        rows: groups.iter().map(Row::from).collect(),
    }
}

fn csv(path: &Path, groups: &[Group], is_first: bool, out: &mut Output) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(&mut *out);
    if is_first {
        writer.write_record([
            "file", "label", "owners", "bytes", "requested_bytes", "slot_bytes", "live_objs", "accurate", "extra",
        ])?;
    }
    for row in groups.iter().map(Row::from) {
        let requested = row.figures.requested_bytes;
        writer.write_record([
            path.display().to_string(),
            row.label,
            row.owners.to_string(),
            row.figures.bytes.to_string(),
            requested.map_or_else(String::new, |bytes| bytes.to_string()),
            row.figures.slot_bytes.to_string(),
            row.figures.live_objs.to_string(),
            if row.accurate { "yes" } else { "no" }.to_owned(),
            row.extra,
        ])?;
    }
    writer.flush()
}
