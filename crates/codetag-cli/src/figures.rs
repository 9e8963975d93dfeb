//! How figures, and tables of them, are printed.

use crate::output::Format;
use codetag_export::{By, Measure, Profile};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use jiff::Timestamp;
use std::fmt;
use std::path::Path;

/// Lines of a table unless told otherwise, as in the kernel's `show_mem`.
const TOP: usize = 10;

/// What `show` and `diff` list, and how.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Listing {
    /// List the N largest, 0 for all [default: 10 in a table, else all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Put together what has the same
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    by: Group,

    /// The figure that decides which are the largest
    #[arg(long, value_enum, default_value_t, value_name = "FIGURE")]
    sort: Figure,

    /// Print bytes as numbers, not as KiB, MiB, GiB
    #[arg(long)]
    exact: bool,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Group {
    /// Each tag by itself
    #[default]
    Tag,
    /// Function, with its module path
    Function,
    /// Module path
    Module,
    /// Source file
    File,
    /// Crate; of a kernel the module
    Crate,
}

/// One figure of an owner.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(crate) enum Figure {
    /// Requested bytes where they are known, else slot bytes
    #[default]
    Bytes,
    /// Live objects
    Objects,
    /// Bytes that the objects really take
    Slot,
}

impl From<Figure> for Measure {
    fn from(figure: Figure) -> Self {
        match figure {
            Figure::Bytes => Self::Bytes,
            Figure::Objects => Self::Objects,
            Figure::Slot => Self::Slot,
        }
    }
}

impl Listing {
    pub(crate) fn by(&self) -> By {
        match self.by {
            Group::Tag => By::Tag,
            Group::Function => By::Function,
            Group::Module => By::Module,
            Group::File => By::File,
            Group::Crate => By::Crate,
        }
    }

    /// The heading of the column with the labels.
    pub(crate) fn heading(&self) -> &'static str {
        match self.by {
            Group::Tag => "tag",
            Group::Function => "function",
            Group::Module => "module",
            Group::File => "file",
            Group::Crate => "crate",
        }
    }

    pub(crate) fn measure(&self) -> Measure {
        self.sort.into()
    }

    /// How many lines to print.
    pub(crate) fn limit(&self, format: Format) -> usize {
        match (self.top, format) {
            (Some(0), _) | (None, Format::Json | Format::Csv) => usize::MAX,
            (Some(top), _) => top,
            (None, Format::Table) => TOP,
        }
    }

    pub(crate) fn bytes(&self, bytes: i128) -> String {
        if self.exact {
            bytes.to_string()
        } else {
            Bytes(bytes).to_string()
        }
    }

    /// With a sign, as differences have.
    pub(crate) fn signed_bytes(&self, bytes: i128) -> String {
        let sign = if bytes > 0 { "+" } else { "" };
        format!("{sign}{}", self.bytes(bytes))
    }
}

/// A table without lines, its first `numbers` columns aligned to the right.
pub(crate) fn table(numbers: usize, header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.to_vec())
        .add_rows(rows);
    for (position, column) in table.column_iter_mut().enumerate() {
        if position < numbers {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// What a profile says about itself, in one line.
pub(crate) fn heading(path: &Path, profile: &Profile) -> String {
    let mut line = format!("{}: {}", path.display(), profile.source);
    if let Some(program) = &profile.program {
        line += &format!(" of {program}");
    }
    if let Some(time) = profile.taken_unix_ns.map(i128::from) {
        let seconds = Timestamp::from_nanosecond(time - time % 1_000_000_000);
        if let Ok(seconds) = seconds {
            line += &format!(", {seconds}");
        }
    }
    if profile.is_quiet == Some(false) {
        line += ", taken in motion";
    }
    crate::output::one_line(&line)
}

/// Bytes in three significant digits, as codetag's page and the kernel's `string_get_size` print them.
struct Bytes(i128);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 9] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"];
        let sign = if self.0 < 0 { "-" } else { "" };
        let (mut whole, mut rest, mut unit) = (self.0.unsigned_abs(), 0, 0);
        while whole >= 1024 && unit + 1 < UNITS.len() {
            rest = whole % 1024;
            whole /= 1024;
            unit += 1;
        }
        let digits = match whole {
            _ if unit == 0 => 0,
            0..10 => 2,
            10..100 => 1,
            _ => 0,
        };
        // Thousandths, rounded to the digits shown.
        let mut thousandths = rest * 1_000 / 1_024 + [500, 50, 5][digits];
        if unit > 0 && thousandths >= 1_000 {
            thousandths -= 1_000;
            whole += 1;
        }
        let unit = UNITS[unit];
        match digits {
            0 => write!(f, "{sign}{whole} {unit}"),
            1 => write!(f, "{sign}{whole}.{} {unit}", thousandths / 100),
            _ => write!(f, "{sign}{whole}.{:02} {unit}", thousandths / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn bytes_are_printed_as_on_the_page() {
        for (bytes, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.00 KiB"),
            (-4_096, "-4.00 KiB"),
            (9_891_840, "9.43 MiB"),
            (79_790_096, "76.1 MiB"),
            (1_048_575, "1024 KiB"),
            (i128::from(i64::MAX), "8.00 EiB"),
            (i128::MAX, "140737488355328 YiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
