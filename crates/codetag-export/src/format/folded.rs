//! Folded stacks, one a line: `crate;module;function;tag WEIGHT`, what flame graphs are drawn from.
//!
//! A differential line has two weights, before and after.

use crate::diff::{Change, Diff};
use crate::group::BUILT_IN;
use crate::measure::Measure;
use crate::profile::{Owner, Profile, Tag, visible};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

/// Totals that are drawn: numbers of JavaScript are exact up to here.
const MAX_TOTAL: i128 = 1 << 53;

/// What could not be written, for a weight is not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Owners whose figure is negative.
    pub owners: usize,
    /// What they sum up to.
    pub sum: i128,
}

/// Writes `profile` as it goes; owners of nothing are no lines.
///
/// # Errors
///
/// If `out` fails; [`InvalidInput`](io::ErrorKind::InvalidInput) if the figures sum up to more than 2⁵³.
pub fn write(profile: &Profile, measure: Measure, out: impl Write) -> io::Result<LeftOut> {
    let mut out = BufWriter::new(out);
    let (lines, left_out) = stacks(profile, measure)?;
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(left_out)
}

/// Writes the two weights of each owner of a difference; owners of nothing on both sides are no lines.
///
/// # Errors
///
/// As [`write()`].
pub fn write_diff(diff: &Diff, measure: Measure, out: impl Write) -> io::Result<LeftOut> {
    let mut out = BufWriter::new(out);
    let (lines, left_out) = diff_stacks(diff, measure)?;
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(left_out)
}

type Stacks<'p> = (Box<dyn Iterator<Item = String> + 'p>, LeftOut);

/// The lines of `profile`, in its order.
pub(crate) fn stacks(profile: &Profile, measure: Measure) -> io::Result<Stacks<'_>> {
    let weights = || profile.usages.iter().map(move |usage| measure.of(usage));
    check(weights())?;
    let left_out = left_out(weights().filter(|&weight| weight < 0));
    let lines = profile.usages.iter().filter_map(move |usage| {
        let weight = measure.of(usage);
        (weight > 0).then(|| format!("{} {weight}", stack(&usage.owner)))
    });
    Ok((Box::new(lines), left_out))
}

/// The lines of `diff`, in the order of their stacks, each stack once: who reads two lines of one stack
/// takes the difference of the first for that of both.
pub(crate) fn diff_stacks(diff: &Diff, measure: Measure) -> io::Result<Stacks<'_>> {
    let pair = move |change: &Change| (change.before.get(measure), change.after.get(measure));
    let pairs = || diff.changes.iter().map(pair);
    check(pairs().map(|(before, _)| before))?;
    check(pairs().map(|(_, after)| after))?;
    let negative = pairs().filter(|&(before, after)| before < 0 || after < 0);
    let left_out = left_out(negative.map(|(before, after)| after - before));
    let mut weights: BTreeMap<String, (i128, i128)> = BTreeMap::new();
    for change in &diff.changes {
        let (before, after) = pair(change);
        if before >= 0 && after >= 0 && (before, after) != (0, 0) {
            let sum = weights.entry(stack(&change.owner)).or_default();
            *sum = (sum.0 + before, sum.1 + after);
        }
    }
    let lines = weights
        .into_iter()
        .map(|(stack, (before, after))| format!("{stack} {before} {after}"));
    Ok((Box::new(lines), left_out))
}

fn check(weights: impl Iterator<Item = i128>) -> io::Result<()> {
    let total: i128 = weights.filter(|&weight| weight > 0).sum();
    if total > MAX_TOTAL {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the figures sum up to {total}; folded stacks have at most {MAX_TOTAL}"),
        ));
    }
    Ok(())
}

fn left_out(weights: impl Iterator<Item = i128>) -> LeftOut {
    weights.fold(LeftOut::default(), |left_out, weight| LeftOut {
        owners: left_out.owners + 1,
        sum: left_out.sum + weight,
    })
}

/// Crate, module, function, tag. Where there is no module path the parts of the file's path stand for it.
/// A kernel's tag that is built in has no crate.
pub(crate) fn stack(owner: &Owner) -> String {
    let Owner::Tag(tag) = owner else {
        return frame(&owner.to_string());
    };
    let mut frames = vec![frame(tag.krate.as_deref().unwrap_or(BUILT_IN))];
    match &tag.module_path {
        Some(path) => {
            let krate = tag.krate.as_deref().unwrap_or_default();
            let inner = path.strip_prefix(krate).unwrap_or(path);
            frames.extend(inner.split("::").filter(|part| !part.is_empty()).map(frame));
        }
        None => frames.extend(
            tag.file
                .split('/')
                .filter(|part| !part.is_empty())
                .map(frame),
        ),
    }
    frames.push(frame(&tag.function));
    frames.push(place(tag));
    frames.join(";")
}

/// The last frame. It does not end in a word that is a number, which would be read as a weight.
fn place(tag: &Tag) -> String {
    let place = format!("{}:{}", tag.file, tag.line);
    match &tag.name {
        Some(name) => frame(&format!("{name} ({place})")),
        None => frame(&place),
    }
}

/// A name without what ends a frame or a line. Some readers take a line that begins with `#` for a
/// comment, and all of them trim.
fn frame(name: &str) -> String {
    let name = visible(name.trim()).to_string().replace(';', ",");
    match name.strip_prefix('#') {
        Some(rest) => format!("\u{ff03}{rest}"),
        None if name.is_empty() => "(none)".to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag() -> Tag {
        Tag {
            krate: Some("a".into()),
            module_path: Some("a::b::c".into()),
            function: "f".into(),
            file: "src/x.rs".into(),
            line: 7,
            column: None,
            name: None,
        }
    }

    #[test]
    fn frames_are_crate_modules_function_and_tag() {
        assert_eq!(stack(&Owner::Tag(tag())), "a;b;c;f;src/x.rs:7");
        assert_eq!(stack(&Owner::Untracked), "<untracked>");
        let named = Tag {
            name: Some("shard 3".into()),
            ..tag()
        };
        assert_eq!(stack(&Owner::Tag(named)), "a;b;c;f;shard 3 (src/x.rs:7)");
        let kernel = Tag {
            krate: None,
            module_path: None,
            file: "mm/slub.c".into(),
            ..tag()
        };
        assert_eq!(
            stack(&Owner::Tag(kernel)),
            "built-in;mm;slub.c;f;mm/slub.c:7"
        );
    }

    #[test]
    fn no_name_breaks_a_line_or_a_frame() {
        let hostile = Tag {
            krate: Some("# a".into()),
            module_path: Some("b;c\n1 2".into()),
            function: " <g> & ".into(),
            file: String::new(),
            ..tag()
        };
        assert_eq!(
            stack(&Owner::Tag(hostile)),
            "\u{ff03} a;b,c\\u{a}1 2;<g> &;:7"
        );
    }
}
