//! `codetag diff`: what changed between two profiles.

use crate::cmd::export::{Drawing, file_name, note_left_out};
use crate::figures::{self, Listing};
use crate::output::{self, Output};
use crate::{input, sink};
use codetag_export::{ChangeGroup, Diff, Match, Profile, Sums, Trend, folded, pprof, svg};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// List what has grown and shrunk between two profiles.
///
/// Tags are matched by crate, module path, function and name, so that two builds can be compared although lines have
/// moved; profiles without module paths, as the kernel's, by file in their place. svg is a flame graph of AFTER, red
/// where it has grown and blue where it has shrunk; pprof has negative figures.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    codetag diff monday.json friday.json\n  \
    codetag diff --by module old-release.json new-release.json\n  \
    codetag diff monday.json friday.json --format svg -o growth.svg\n\n\
    Exit status: 0 all was done, 1 a file could not be used or written, 2 wrong usage.")]
pub(crate) struct Args {
    /// The profile to compare with: json or allocinfo, gzipped or not; `-` is standard input
    before: PathBuf,

    /// The profile to compare
    after: PathBuf,

    #[command(flatten)]
    listing: Listing,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Write this file, whole or not at all; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    #[command(flatten)]
    drawing: Drawing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Columns for people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// Comma-separated values with a header line
    Csv,
    /// Stacks with two weights
    Folded,
    /// A differential flame graph
    Svg,
    /// A gzipped profile of the difference for `go tool pprof`
    Pprof,
}

/// One line in json and csv, whose columns are the names of the fields.
#[derive(Serialize)]
struct Row<'d> {
    label: &'d str,
    trend: &'static str,
    matched: &'static str,
    owners: usize,
    bytes_before: i128,
    bytes_after: i128,
    bytes_diff: i128,
    slot_bytes_before: i128,
    slot_bytes_after: i128,
    slot_bytes_diff: i128,
    live_objs_before: i128,
    live_objs_after: i128,
    live_objs_diff: i128,
    accurate: bool,
}

#[derive(Serialize)]
struct Document<'d> {
    before: String,
    after: String,
    moved: usize,
    total: Row<'d>,
    rows: Vec<Row<'d>>,
}

/// The profiles and what was found out about them.
struct Compared {
    before: Profile,
    after: Profile,
    diff: Diff,
}

impl Args {
    pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
        let to = self.output.as_deref();
        let paths = [&*self.before, &*self.after];
        if !input::is_read_once(paths, out)
            || self.format == Format::Pprof && !sink::takes_binary(to, out)
        {
            return Ok(());
        }
        let [before, after] = paths.map(|path| input::profile(path, out));
        let (Some(before), Some(after)) = (before, after) else {
            return Ok(());
        };
        let diff = Diff::new(&before, &after);
        let compared = Compared {
            before,
            after,
            diff,
        };
        let name = self.after.display().to_string();
        let left_out = sink::write(to, &name, out, |file| self.write(&compared, file))?;
        note_left_out(left_out.flatten(), &name);
        Ok(())
    }

    fn write(
        &self,
        compared: &Compared,
        mut out: &mut dyn Write,
    ) -> io::Result<Option<folded::LeftOut>> {
        let measure = self.drawing.measure();
        let diff = &compared.diff;
        match self.format {
            Format::Table => self.table(compared, out).map(|()| None),
            Format::Json => self.json(diff, out).map(|()| None),
            Format::Csv => self.csv(diff, out).map(|()| None),
            Format::Folded => folded::write_diff(diff, measure, &mut out).map(Some),
            Format::Svg => {
                let [before, after] = [&self.before, &self.after].map(|path| file_name(path));
                let title = format!("From {before} to {after}: live {}", measure.unit());
                svg::write_diff(diff, &self.drawing.title_or(title), measure, &mut out).map(Some)
            }
            Format::Pprof => {
                let (before, after) = (&compared.before, &compared.after);
                let times = after.taken_unix_ns.zip(before.taken_unix_ns);
                let duration_ns = times.and_then(|(after, before)| after.checked_sub(before));
                pprof::write_diff(diff, after.taken_unix_ns, duration_ns, measure, &mut out).map(|()| None)
            }
        }
    }

    /// What is listed, the largest first.
    fn groups(&self, diff: &Diff) -> Vec<ChangeGroup> {
        diff.groups(self.listing.by(), self.listing.measure())
    }

    fn table(&self, compared: &Compared, out: &mut dyn Write) -> io::Result<()> {
        let Compared {
            before,
            after,
            diff,
        } = compared;
        let mut groups = self.groups(diff);
        groups.retain(|group| !group.delta().is_zero());
        let changed = groups.len();
        groups.truncate(self.listing.limit(output::Format::Table));
        let mut rows: Vec<Vec<String>> = groups
            .iter()
            .map(|group| {
                let mut label = group.label.clone();
                if let Some(Match::Merged { before, after }) = group.matched {
                    label += &format!(" and others, {before} before, {after} after");
                }
                if !group.is_accurate {
                    label += " accurate:no";
                }
                let trend = trend(group.trend(self.listing.measure()));
                self.line(&group.before, &group.after, trend, label)
            })
            .collect();
        let label = format!("all; {changed} changed, {} of these are listed", groups.len());
        rows.push(self.line(&diff.before, &diff.after, "", label));

        writeln!(out, "before: {}", figures::heading(&self.before, before))?;
        writeln!(out, "after:  {}", figures::heading(&self.after, after))?;
        let header = ["change", "before", "after", "slot", "objects", "trend", self.listing.heading()];
        writeln!(out, "{}", figures::table(5, &header, rows))?;
        if diff.moved() > 0 {
            let path = if is_known_by_path(before) && is_known_by_path(after) { "module path" } else { "file" };
            writeln!(
                out,
                "tags on other lines than before: {}; matched by crate, {path}, function and name",
                diff.moved()
            )?;
        }
        Ok(())
    }

    fn line(&self, before: &Sums, after: &Sums, trend: &str, label: String) -> Vec<String> {
        let delta = after.minus(before);
        vec![
            self.listing.signed_bytes(delta.bytes),
            self.listing.bytes(before.bytes),
            self.listing.bytes(after.bytes),
            self.listing.signed_bytes(delta.slot_bytes),
            format!("{:+}", delta.live_objs),
            trend.to_owned(),
            label,
        ]
    }

    fn json(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let groups = self.groups(diff);
        let shown = groups.len().min(self.listing.limit(output::Format::Json));
        let name = |path: &Path| path.display().to_string();
        let document = Document {
            before: name(&self.before),
            after: name(&self.after),
            moved: diff.moved(),
            total: Row::new("total", "", "", diff.changes.len(), &diff.before, &diff.after, true),
            rows: groups[..shown].iter().map(|group| self.row(group)).collect(),
        };
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)
    }

    fn csv(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let groups = self.groups(diff);
        let shown = groups.len().min(self.listing.limit(output::Format::Csv));
        let mut writer = csv::Writer::from_writer(out);
        for group in &groups[..shown] {
            writer.serialize(self.row(group))?;
        }
        writer.flush()
    }

    fn row<'d>(&self, group: &'d ChangeGroup) -> Row<'d> {
        let trend = trend(group.trend(self.listing.measure()));
        let matched = match group.matched {
            None | Some(Match::Same) => "same",
            Some(Match::Moved) => "moved",
            Some(Match::Merged { .. }) => "merged",
            Some(Match::OnlyAfter) => "only-after",
            Some(Match::OnlyBefore) => "only-before",
        };
        Row::new(&group.label, trend, matched, group.owners, &group.before, &group.after, group.is_accurate)
    }
}

impl<'d> Row<'d> {
    fn new(
        label: &'d str,
        trend: &'static str,
        matched: &'static str,
        owners: usize,
        before: &Sums,
        after: &Sums,
        accurate: bool,
    ) -> Self {
        let diff = after.minus(before);
        Self {
            label,
            trend,
            matched,
            owners,
            bytes_before: before.bytes,
            bytes_after: after.bytes,
            bytes_diff: diff.bytes,
            slot_bytes_before: before.slot_bytes,
            slot_bytes_after: after.slot_bytes,
            slot_bytes_diff: diff.slot_bytes,
            live_objs_before: before.live_objs,
            live_objs_after: after.live_objs,
            live_objs_diff: diff.live_objs,
            accurate,
        }
    }
}

fn trend(trend: Trend) -> &'static str {
    match trend {
        Trend::New => "new",
        Trend::Gone => "gone",
        Trend::Grown => "grown",
        Trend::Shrunk => "shrunk",
        Trend::Same => "same",
    }
}

fn is_known_by_path(profile: &Profile) -> bool {
    let mut tags = profile.usages.iter().filter_map(|usage| usage.owner.tag());
    tags.all(|tag| tag.module_path.is_some())
}
