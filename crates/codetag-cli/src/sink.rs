//! Where a converted profile goes: a file that is written whole, or standard output.

use crate::output::Output;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Runs `write` on the file `to`, or on standard output without one or with `-`.
///
/// `subject` is what is converted: it is to blame if the format has no place for it. What `write` returns is
/// returned if all went well.
pub(crate) fn write<T>(
    to: Option<&Path>,
    subject: &str,
    out: &mut Output,
    write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<Option<T>> {
    let (name, result) = match to.filter(|path| !crate::input::is_stdin(path)) {
        Some(path) => {
            let mut value = None;
            let result = codetag_export::save(path, |file| {
                value = Some(write(file)?);
                Ok(())
            });
            (path.display().to_string(), result.map(|()| value))
        }
        None => match write(out) {
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => return Err(error),
            result => (String::new(), result.map(Some)),
        },
    };
    match result {
        Ok(value) => Ok(value),
        Err(error) => {
            let is_subject = error.kind() == io::ErrorKind::InvalidInput;
            out.fail(if is_subject { subject } else { &name }, &error);
            Ok(None)
        }
    }
}

/// Says so and returns false if `to` is a terminal, which has no use for binary output.
pub(crate) fn takes_binary(to: Option<&Path>, out: &mut Output) -> bool {
    let is_stdout = to.is_none_or(crate::input::is_stdin);
    let takes = !is_stdout || !io::stdout().is_terminal();
    if !takes {
        out.misuse(
            "pprof",
            &"is binary and not for a terminal; give a file with -o",
        );
    }
    takes
}
