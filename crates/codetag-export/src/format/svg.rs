//! Flame graphs: a picture to be searched and zoomed in a browser. The width of a frame is what it owns.

use crate::diff::Diff;
use crate::format::folded::{self, LeftOut};
use crate::measure::Measure;
use crate::profile::{Profile, visible};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use std::io::{self, BufWriter, Write};

/// Draws `profile`.
///
/// Keeps the stacks in memory, for they are sorted first.
///
/// # Errors
///
/// If `out` fails; [`InvalidInput`](io::ErrorKind::InvalidInput) if nothing owns anything, or if the figures
/// sum up to more than 2⁵³.
pub fn write(
    profile: &Profile,
    title: &str,
    measure: Measure,
    out: impl Write,
) -> io::Result<LeftOut> {
    let (lines, left_out) = folded::stacks(profile, measure)?;
    let mut options = options(title, measure);
    // The same name has the same colour, in each picture.
    options.deterministic = true;
    draw(lines, &mut options, out)?;
    Ok(left_out)
}

/// Draws what there is after, the tags that have grown red, those that have shrunk blue, the more the
/// stronger.
///
/// What is gone has no width: draw the difference the other way round to see it.
///
/// # Errors
///
/// As [`write()`], with what there is after.
pub fn write_diff(
    diff: &Diff,
    title: &str,
    measure: Measure,
    out: impl Write,
) -> io::Result<LeftOut> {
    let (lines, left_out) = folded::diff_stacks(diff, measure)?;
    draw(lines, &mut options(title, measure), out)?;
    Ok(left_out)
}

fn options(title: &str, measure: Measure) -> Options<'static> {
    let mut options = Options::default();
    options.title = visible(title).to_string();
    measure.unit().clone_into(&mut options.count_name);
    "Owner:".clone_into(&mut options.name_type);
    // The beginning of a function's name says more than its end.
    options.text_truncate_direction = TextTruncateDirection::Right;
    options
}

fn draw(
    lines: impl Iterator<Item = String>,
    options: &mut Options<'_>,
    out: impl Write,
) -> io::Result<()> {
    let mut lines: Vec<String> = lines.collect();
    lines.sort_unstable();
    if lines.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "there is nothing to draw: no owner has anything",
        ));
    }
    let mut out = BufWriter::new(out);
    flamegraph::from_lines(options, lines.iter().map(String::as_str), &mut out)?;
    out.flush()
}
