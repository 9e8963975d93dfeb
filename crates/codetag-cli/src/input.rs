//! Profiles that are named on the command line.

use crate::output::Output;
use codetag_export::Profile;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Files from this size on take long enough for a bar.
const BAR_BYTES: u64 = 16 << 20;

/// Reads the profile in `path`; `-` is standard input. Says what is wrong with it, if anything is.
pub(crate) fn profile(path: &Path, out: &mut Output) -> Option<Profile> {
    let read = open(path).map(codetag_export::read);
    match read {
        Ok(Ok(profile)) => Some(profile),
        Ok(Err(error)) => {
            let name = match error.line() {
                Some(line) => format!("{}:{line}", path.display()),
                None => path.display().to_string(),
            };
            out.fail(&name, &error.message());
            None
        }
        Err(error) => {
            out.fail(&path.display().to_string(), &error);
            None
        }
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if is_stdin(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() >= BAR_BYTES {
        let bar = ProgressBar::new(metadata.len()).with_finish(indicatif::ProgressFinish::AndClear);
        return Ok(Box::new(bar.wrap_read(file)));
    }
    Ok(Box::new(file))
}

/// Whether `path` stands for standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Standard input can be read once. Says so and returns false if `paths` have it more often.
pub(crate) fn is_read_once<'p>(
    paths: impl IntoIterator<Item = &'p Path>,
    out: &mut Output,
) -> bool {
    let is_once = paths.into_iter().filter(|path| is_stdin(path)).count() < 2;
    if !is_once {
        out.misuse("-", &"standard input can be read once only");
    }
    is_once
}
