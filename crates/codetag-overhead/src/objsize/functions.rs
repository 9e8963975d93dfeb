//! What functions take of `.text`, by their symbols.

use super::MeasureError;
use object::{Object, ObjectSection, ObjectSymbol, ReadCache};
use std::fs::File;
use std::path::Path;

/// Some functions of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// How many there are. Several names at one address are one.
    pub count: u64,
    /// From the start of each to that of the next function, whosever it is: with the gap that aligns the next.
    pub bytes: u64,
}

/// Sums the functions in `.text` of the linked program at `path` whose symbols `is_chosen` takes.
///
/// # Errors
///
/// If the file cannot be read, or is no object file with a section of that name.
pub fn functions(path: &Path, is_chosen: impl Fn(&str) -> bool) -> Result<Functions, MeasureError> {
    let data = ReadCache::new(File::open(path)?);
    let file = object::File::parse(&data)?;
    let text = file
        .section_by_name(".text")
        .ok_or(MeasureError::NotAnObject)?;
    let end = text.address().saturating_add(text.size());
    let mut starts: Vec<(u64, bool)> = file
        .symbols()
        .filter(|symbol| symbol.section_index() == Some(text.index()) && symbol.size() > 0)
        .map(|symbol| (symbol.address(), symbol.name().is_ok_and(&is_chosen)))
        .collect();
    // One address counts as chosen if any of its names is.
    starts.sort_unstable_by_key(|(address, chosen)| (*address, !chosen));
    starts.dedup_by_key(|(address, _)| *address);
    let nexts = starts.iter().skip(1).map(|(address, _)| *address);
    let chosen = starts.iter().zip(nexts.chain([end]));
    let sum = chosen.filter(|((_, chosen), _)| *chosen);
    Ok(
        sum.fold(Functions::default(), |sum, ((start, _), next)| Functions {
            count: sum.count + 1,
            bytes: sum.bytes + next.saturating_sub(*start),
        }),
    )
}
