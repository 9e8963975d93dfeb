//! A trace in a file, which can be read several times.

use super::cache_names::CacheNames;
use super::events::Events;
use super::input::{self, failed};
use crate::event::ReadError;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A trace in a file: in the kernel's text or in the lab's own, plain or gzip.
///
/// What cannot be read twice, as a pipe, is copied to a temporary file first. Memory does not grow with the
/// length of the trace; see [`Events`], and for names of caches the number of live objects.
#[derive(Debug)]
pub struct TraceFile {
    stored: Stored,
    cache_names: Arc<CacheNames>,
    stored_bytes: u64,
}

#[derive(Debug)]
enum Stored {
    Path(PathBuf),
    /// A copy without a name, gone when this is dropped.
    Copy(File),
}

impl TraceFile {
    /// Opens the file at `path`; `-` is standard input. If its events name no caches, it is read once to learn them
    /// from its frees.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or read, is empty, or is no trace.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let stored = if path == Path::new("-") {
            copied(io::stdin().lock())
        } else {
            File::open(path).and_then(|file| {
                let kind = file.metadata()?;
                if kind.is_dir() {
                    Err(io::ErrorKind::IsADirectory.into())
                } else if kind.is_file() {
                    Ok(Stored::Path(path.to_owned()))
                } else {
                    copied(file)
                }
            })
        };
        let mut trace = Self {
            stored: stored.map_err(|error| failed(&error, 0))?,
            cache_names: Arc::default(),
            stored_bytes: 0,
        };
        let file = trace.file()?;
        trace.stored_bytes = file.metadata().map_err(|error| failed(&error, 0))?.len();
        let learned = CacheNames::learn(&mut trace.events()?)?;
        trace.cache_names = Arc::new(learned);
        Ok(trace)
    }

    /// Starts reading at the first event.
    ///
    /// # Errors
    ///
    /// The file is gone or cannot be read.
    pub fn events(&self) -> Result<Events, ReadError> {
        let input = input::text(self.file()?)?;
        Ok(Events::of(input, Arc::clone(&self.cache_names)))
    }

    /// The length of the file as stored, to which [`position_bytes`](crate::event::Source::position_bytes) counts.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    fn file(&self) -> Result<File, ReadError> {
        match &self.stored {
            Stored::Path(path) => File::open(path),
            Stored::Copy(copy) => copy.try_clone().and_then(|mut copy| {
                copy.rewind()?;
                Ok(copy)
            }),
        }
        .map_err(|error| failed(&error, 0))
    }
}

fn copied(mut from: impl io::Read) -> io::Result<Stored> {
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut from, &mut copy)?;
    Ok(Stored::Copy(copy))
}
