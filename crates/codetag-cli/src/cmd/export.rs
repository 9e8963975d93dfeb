//! `codetag export`: a profile in another format.

use crate::figures::Figure;
use crate::output::Output;
use crate::{input, sink};
use codetag_export::folded::LeftOut;
use codetag_export::{Profile, allocinfo, csv, folded, json, pprof, svg};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Convert a profile to another format.
///
/// json and allocinfo keep all of it. folded, svg and pprof have one frame per crate, module, function and tag, or
/// labels for them. docs/FORMATS.md says what each format has and loses.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    codetag export heap.json --format svg -o heap.svg\n  \
    codetag export heap.json --format pprof -o heap.pb.gz && go tool pprof -top heap.pb.gz\n  \
    codetag export /proc/allocinfo --format folded | inferno-flamegraph > kernel.svg\n\n\
    Exit status: 0 all was done, 1 the file could not be used or written, 2 wrong usage.")]
pub(crate) struct Args {
    /// A profile: json or allocinfo, gzipped or not; `-` is standard input
    file: PathBuf,

    /// The format to write
    #[arg(long, value_enum)]
    format: Format,

    /// Write this file, whole or not at all; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    #[command(flatten)]
    drawing: Drawing,
}

/// What the formats with one figure per owner are told.
#[derive(Debug, clap::Args)]
pub(crate) struct Drawing {
    /// The figure in folded and svg, and the bytes in pprof
    #[arg(long, value_enum, default_value_t, value_name = "FIGURE")]
    weight: Figure,

    /// The title of an svg
    #[arg(long)]
    title: Option<String>,
}

impl Drawing {
    pub(crate) fn measure(&self) -> codetag_export::Measure {
        self.weight.into()
    }

    pub(crate) fn title_or(&self, default: String) -> String {
        self.title.clone().unwrap_or(default)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// All of the profile, one owner a line
    Json,
    /// The form of the kernel's /proc/allocinfo, with all of the profile
    Allocinfo,
    /// A table of the owners
    Csv,
    /// Stacks for flame graphs
    Folded,
    /// A flame graph
    Svg,
    /// A gzipped profile for `go tool pprof`
    Pprof,
}

impl Args {
    pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
        let to = self.output.as_deref();
        if self.format == Format::Pprof && !sink::takes_binary(to, out) {
            return Ok(());
        }
        let Some(profile) = input::profile(&self.file, out) else {
            return Ok(());
        };
        let name = self.file.display().to_string();
        let left_out = sink::write(to, &name, out, |file| self.write(&profile, file))?;
        note_left_out(left_out.flatten(), &name);
        Ok(())
    }

    fn write(&self, profile: &Profile, mut out: &mut dyn Write) -> io::Result<Option<LeftOut>> {
        let measure = self.drawing.measure();
        match self.format {
            Format::Json => json::write(profile, &mut out).map(|()| None),
            Format::Allocinfo => allocinfo::write(profile, &mut out).map(|()| None),
            Format::Csv => csv::write(profile, &mut out).map(|()| None),
            Format::Folded => folded::write(profile, measure, &mut out).map(Some),
            Format::Svg => {
                let of = match &profile.program {
                    Some(program) => program.clone(),
                    None => file_name(&self.file),
                };
                let title = format!("Heap of {of}: live {}", measure.unit());
                let title = self.drawing.title_or(title);
                svg::write(profile, &title, measure, &mut out).map(Some)
            }
            Format::Pprof => pprof::write(profile, measure, &mut out).map(|()| None),
        }
    }
}

/// Short enough for a title.
pub(crate) fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// A note, and no error: the file is as good as it can be.
pub(crate) fn note_left_out(left_out: Option<LeftOut>, name: &str) {
    let Some(LeftOut { owners, sum }) = left_out.filter(|left_out| left_out.owners > 0) else {
        return;
    };
    // Nothing is left to be done where stderr is closed.
    let _ = writeln!(
        io::stderr(),
        "codetag: {}: note: owners with negative figures are left out: {owners}, {sum} in all",
        crate::output::one_line(name)
    );
}
