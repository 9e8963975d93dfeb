//! Where a subcommand's results and errors go, and what exit status comes of them.

use clap::ValueEnum;
use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::process::ExitCode;

/// How a table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// Comma-separated values with a header line.
    Csv,
}

/// Buffered standard output, and whether anything failed so far.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    status: u8,
}

impl Output {
    /// Says in one line on stderr what is wrong with `subject` (a file, mostly). The command goes on and
    /// will end with status 1.
    pub(crate) fn fail(&mut self, subject: &str, error: &dyn Display) {
        self.report(1, subject, error);
    }

    /// As [`Output::fail`], for arguments that make no sense together: status 2.
    pub(crate) fn misuse(&mut self, subject: &str, error: &dyn Display) {
        self.report(2, subject, error);
    }

    /// The command will end with status 1, for what it has said already.
    #[cfg(all(target_os = "linux", not(codetag_portable)))]
    pub(crate) fn incomplete(&mut self) {
        self.status = self.status.max(1);
    }

    /// The command was told to end by Ctrl-C or a signal like it, and will end with status 130.
    #[cfg(all(target_os = "linux", not(codetag_portable)))]
    pub(crate) fn interrupted(&mut self) {
        self.status = 130;
    }

    fn report(&mut self, status: u8, subject: &str, error: &dyn Display) {
        self.status = self.status.max(status);
        // Nothing is left to be done where stderr is closed.
        let _ = writeln!(
            io::stderr(),
            "codetag: {}: {}",
            one_line(subject),
            one_line(&error.to_string())
        );
    }
}

impl Write for Output {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stdout.write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Runs one subcommand. A reader that went away (`| head`) is no error; any other failure to write is.
pub(crate) fn run(command: impl FnOnce(&mut Output) -> io::Result<()>) -> ExitCode {
    let mut out = Output {
        stdout: BufWriter::new(io::stdout().lock()),
        status: 0,
    };
    if let Err(error) = command(&mut out).and_then(|()| out.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        out.fail("standard output", &error);
    }
    let status = out.status;
    // What could not be flushed above must not be tried again by drop.
    let _ = out.stdout.into_parts();
    ExitCode::from(status)
}

/// Control characters as escapes, so that a file's name cannot break a line in two.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut line, c| {
            if c.is_control() {
                line.extend(c.escape_default());
            } else {
                line.push(c);
            }
            line
        })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_with_a_line_break_stays_on_one_line() {
        assert_eq!(super::one_line("a\nb\u{1b}[31mü"), "a\\nb\\u{1b}[31mü");
    }
}
