//! `codetag lab convert`: any trace in the lab's own format.

use super::bar::WithBar;
use super::input;
use crate::output::Output;
use codetag_lab::event::{ReadError, Source};
use codetag_lab::trace::{TraceFile, Writer};
use std::io::{self, Write};
use std::path::PathBuf;

/// Write a trace to standard output in the lab's own format, which docs/TRACE.md describes.
///
/// Names of caches that the trace has on frees only are written with the allocations. Events of other kinds,
/// failed allocations and lines that cannot be read are left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    codetag lab convert boot.trace.gz | gzip > boot.codetag.gz\n  \
    trace-cmd report | codetag lab convert -\n\n\
    Exit status: 0 all was done, 1 some of the trace could not be used, 2 wrong usage.")]
pub(super) struct Args {
    /// ftrace text of kmem events or the lab's own format, plain or gzip; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

impl Args {
    pub(super) fn run(self, out: &mut Output) -> io::Result<()> {
        let name = self.trace.display().to_string();
        let opened = TraceFile::open(&self.trace).and_then(|file| {
            Ok(WithBar::new(
                file.events()?,
                "converting",
                file.stored_bytes(),
            ))
        });
        let mut source = match opened {
            Ok(source) => source,
            Err(error) => {
                out.fail(&name, &error);
                return Ok(());
            }
        };
        if let Some(error) = write(&mut source, &mut *out)? {
            out.fail(&name, &error);
        }
        input::report(&name, &source.inner, out);
        Ok(())
    }
}

/// Writes all events of `source`, and the line that says that they are all unless it fails or was cut: that
/// is then the result.
pub(super) fn write(source: &mut impl Source, out: &mut impl Write) -> io::Result<Option<ReadError>> {
    let mut writer = Writer::new(out)?;
    let mut lost = 0;
    loop {
        let event = match source.next_event() {
            Ok(event) => event,
            Err(error) => return Ok(Some(error)),
        };
        let counts = source.counts();
        if counts.lost_events > lost {
            writer.lost(counts.lost_events - lost)?;
            lost = counts.lost_events;
        }
        match event {
            Some(event) => writer.write(&event, source.names())?,
            None if counts.truncated => return Ok(None),
            None => {
                writer.finish()?;
                return Ok(None);
            }
        }
    }
}
