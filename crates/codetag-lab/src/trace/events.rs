//! From lines to events: interns strings, counts what was no event, and decides what is fatal.

use super::cache_names::{CacheNames, LookAhead, NameShares};
use super::ftrace::Ftrace;
use super::input::{self, Input};
use super::interner::Interner;
use super::line::{Meaning, RawEvent, RawKind};
use super::lines::{LINE_BYTES_MAX, Line, Lines};
use super::own::{self, Own};
use crate::event::{
    Alloc, Event, Free, Kind, KnownBy, Name, Names, Origin, ReadCounts, ReadError, Source,
};
use std::io::{BufRead, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many lines in a row at the start of a file may mean nothing before it is taken for no trace at all.
const MEANINGLESS_LINES_MAX: u64 = 100;

/// The events of one trace, in one pass.
///
/// Memory does not depend on how many there are: one line, the distinct strings
/// ([`Names::MAX`] at most), and where cache names are looked up ahead a bounded number of events.
///
/// A line that cannot be read is counted and left out; the first one is kept for the message
/// ([`Events::malformed`]). A file that ends in the middle gives the events before
/// ([`Events::truncated`]). Only what is no trace at all, or a device that fails, is an error.
pub struct Events {
    lines: Lines<Box<dyn BufRead + Send>>,
    position_bytes: Arc<AtomicU64>,
    compressed: bool,
    format: Option<Format>,
    names: Names,
    interner: Interner,
    cache_names: Arc<CacheNames>,
    look_ahead: Option<LookAhead>,
    counts: ReadCounts,
    shares: NameShares,
    malformed: Option<ReadError>,
    truncated: Option<ReadError>,
    /// Some line showed that this is a trace.
    recognised: bool,
    other_events: u64,
    ended: bool,
}

/// A format of lines.
#[derive(Debug)]
enum Format {
    Ftrace(Ftrace),
    Own(Own),
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("format", &self.format)
            .field("line", &self.lines.number())
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Events {
    /// Reads `text`, plain text in either format. Cache names that an event lacks are made up
    /// ([`KnownBy::Site`]); [`TraceFile`](super::TraceFile) looks for them first.
    #[must_use]
    pub fn new(text: Box<dyn BufRead + Send>) -> Self {
        let input = Input {
            text,
            position_bytes: Arc::default(),
            compressed: false,
        };
        Self::of(input, Arc::default())
    }

    pub(crate) fn of(input: Input, cache_names: Arc<CacheNames>) -> Self {
        Self {
            lines: Lines::new(input.text),
            position_bytes: input.position_bytes,
            compressed: input.compressed,
            format: None,
            names: cache_names.names().clone(),
            interner: Interner::new(),
            look_ahead: cache_names.look_ahead(),
            cache_names,
            counts: ReadCounts::default(),
            shares: NameShares::default(),
            malformed: None,
            truncated: None,
            recognised: false,
            other_events: 0,
            ended: false,
        }
    }

    /// The first of the lines that could not be read; [`ReadCounts::malformed_lines`] says how many there are.
    #[must_use]
    pub fn malformed(&self) -> Option<&ReadError> {
        self.malformed.as_ref()
    }

    /// How it is known that the file ends in the middle, and on which line.
    #[must_use]
    pub fn truncated(&self) -> Option<&ReadError> {
        self.truncated.as_ref()
    }

    /// Where the names of caches are from, of the events so far. Which frees were of the same objects and which of
    /// others is known at the end only.
    #[must_use]
    pub fn name_shares(&self) -> NameShares {
        self.cache_names.divided(self.shares)
    }

    /// Whether the file is in the lab's own format. `false` before the first event.
    #[must_use]
    pub fn is_own_format(&self) -> bool {
        matches!(self.format, Some(Format::Own(_)))
    }

    /// The next event as it stands in the file, without looking ahead.
    fn read_event(&mut self) -> Result<Option<Event>, ReadError> {
        while !self.ended {
            let line = match self.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.ended = true;
                    self.end()?;
                    break;
                }
                Err(error) => {
                    self.ended = true;
                    // Damaged or cut compression leaves the events before it; a failing device leaves no trust.
                    let cut = self.compressed
                        && matches!(
                            error.kind(),
                            ErrorKind::UnexpectedEof
                                | ErrorKind::InvalidData
                                | ErrorKind::InvalidInput
                        );
                    let line = self.lines.number() + 1;
                    if !cut || !self.recognised {
                        return Err(input::failed(&error, line));
                    }
                    self.cut(
                        line,
                        format!("the compressed data ends or is damaged: {error}"),
                    );
                    break;
                }
            };
            let (text, whole) = match line {
                Line::Whole(text) => (text, true),
                Line::Unended(text) => (text, false),
                Line::TooLong => {
                    self.bad_line(&format!("longer than {LINE_BYTES_MAX} bytes"))?;
                    continue;
                }
            };
            let format = match &mut self.format {
                Some(format) => format,
                None => {
                    let (format, is_header) = Format::of_first_line(text)
                        .map_err(|message| ReadError { line: 1, message })?;
                    self.recognised |= is_header;
                    let format = self.format.insert(format);
                    if is_header {
                        self.counts.skipped_lines += 1;
                        continue;
                    }
                    format
                }
            };
            let meaning = match format {
                Format::Ftrace(ftrace) => ftrace.read(text),
                Format::Own(own) => own.read(text),
            };
            match meaning {
                // Half a line may read as a whole one, with a number cut short.
                Meaning::Event(_) | Meaning::Other | Meaning::Lost(_) if !whole => {
                    self.recognised = true;
                    self.cut_in_line();
                }
                Meaning::Malformed(_) if !whole && self.recognised => self.cut_in_line(),
                Meaning::Event(raw) => {
                    self.recognised = true;
                    self.counts.lost_events += raw.lost_before;
                    let own = matches!(format, Format::Own(_));
                    if let Some(event) = interned(
                        &raw,
                        own,
                        &mut self.names,
                        &mut self.interner,
                        &self.cache_names,
                    ) {
                        return Ok(Some(event));
                    }
                    self.counts.null_frees += 1;
                }
                Meaning::Lost(events) => {
                    self.recognised = true;
                    self.counts.lost_events += events;
                    self.counts.skipped_lines += 1;
                }
                Meaning::Other => {
                    self.recognised = true;
                    self.other_events += 1;
                    self.counts.skipped_lines += 1;
                }
                Meaning::Skipped => self.counts.skipped_lines += 1,
                Meaning::Malformed(reason) => self.bad_line(reason)?,
            }
        }
        Ok(None)
    }

    /// Counts a line that cannot be read; an error if the file starts with many of them.
    fn bad_line(&mut self, reason: &str) -> Result<(), ReadError> {
        self.counts.malformed_lines += 1;
        if self.malformed.is_none() {
            self.malformed = Some(ReadError {
                line: self.lines.number(),
                message: reason.to_owned(),
            });
        }
        if !self.recognised && self.counts.malformed_lines >= MEANINGLESS_LINES_MAX {
            self.ended = true;
            return Err(self.no_trace());
        }
        Ok(())
    }

    fn cut_in_line(&mut self) {
        let line = self.lines.number();
        self.cut(line, "the file ends in the middle of a line".to_owned());
    }

    fn cut(&mut self, line: u64, message: String) {
        self.counts.truncated = true;
        self.truncated.get_or_insert(ReadError { line, message });
    }

    /// At the end of the file: was it a trace, and is all of it there?
    fn end(&mut self) -> Result<(), ReadError> {
        let missing = match &self.format {
            None if self.lines.number() == 0 => {
                return Err(ReadError {
                    line: 0,
                    message: "the file is empty".to_owned(),
                });
            }
            // Each line was too long to be looked at.
            None => None,
            Some(Format::Ftrace(ftrace)) => ftrace.missing(),
            Some(Format::Own(own)) => own.missing(),
        };
        if !self.recognised {
            return Err(self.no_trace());
        }
        let seen = self.counts.events + self.counts.null_frees + self.held();
        if seen == 0 && self.other_events > 0 && !self.is_own_format() {
            return Err(ReadError {
                line: 0,
                message: format!(
                    "none of its {} events is a kmem event; record with -e kmem",
                    self.other_events
                ),
            });
        }
        if let Some(message) = missing {
            self.cut(self.lines.number(), message);
        }
        Ok(())
    }

    fn no_trace(&self) -> ReadError {
        match &self.malformed {
            Some(first) => ReadError {
                line: first.line,
                message: format!("{}: this is no trace", first.message),
            },
            None => ReadError {
                line: 0,
                message: "holds no event: this is no trace".to_owned(),
            },
        }
    }

    fn held(&self) -> u64 {
        self.look_ahead.as_ref().map_or(0, LookAhead::len)
    }
}

impl Format {
    /// And whether the line is a header that needs no further look.
    fn of_first_line(line: &[u8]) -> Result<(Self, bool), String> {
        let Some(version) = line.strip_prefix(own::MAGIC) else {
            return Ok((Self::Ftrace(Ftrace::default()), false));
        };
        if version.trim_ascii() != own::VERSION {
            return Err(format!(
                "version {} of the format; this reads version {}",
                String::from_utf8_lossy(version).trim(),
                String::from_utf8_lossy(own::VERSION),
            ));
        }
        Ok((Self::Own(Own::default()), true))
    }
}

impl Source for Events {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        let event = loop {
            let read = self.read_event()?;
            let Some(look_ahead) = &mut self.look_ahead else {
                break read;
            };
            match read {
                Some(event) => {
                    if let Some(event) = look_ahead.push(event) {
                        break Some(event);
                    }
                }
                None => break look_ahead.pop(),
            }
        };
        if let Some(Event {
            kind: Kind::Alloc(alloc),
            ..
        }) = &event
            && let Origin::Cache { known_by, .. } = alloc.origin
        {
            let sum = match known_by {
                KnownBy::Event => &mut self.shares.event_bytes,
                KnownBy::Free => &mut self.shares.free_bytes,
                KnownBy::Site => &mut self.shares.site_bytes,
            };
            *sum += alloc.bytes_alloc;
        }
        self.counts.events += u64::from(event.is_some());
        Ok(event)
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn counts(&self) -> ReadCounts {
        self.counts
    }

    fn position_bytes(&self) -> u64 {
        self.position_bytes.load(Ordering::Relaxed)
    }
}

/// `None` for `kfree(NULL)`.
fn interned(
    raw: &RawEvent<'_>,
    own: bool,
    names: &mut Names,
    interner: &mut Interner,
    cache_names: &CacheNames,
) -> Option<Event> {
    let mut intern = |string: &[u8]| interner.intern(string, own, names);
    let kind = match &raw.kind {
        RawKind::NullFree => return None,
        RawKind::Free { ptr, cache, by_rcu } => Kind::Free(Free {
            ptr: *ptr,
            cache: cache.map(intern),
            by_rcu: *by_rcu,
        }),
        RawKind::PageAlloc(pages) => Kind::PageAlloc(*pages),
        RawKind::PageFree(pages) => Kind::PageFree(*pages),
        RawKind::Alloc(alloc) => {
            let call_site = if alloc.call_site.is_empty() {
                Name::OTHER
            } else {
                intern(alloc.call_site)
            };
            let origin = match alloc.cache {
                _ if !alloc.from_cache => Origin::Kmalloc,
                Some(cache) => Origin::Cache {
                    name: intern(cache),
                    known_by: KnownBy::Event,
                },
                None => cache_names.origin(call_site, alloc.bytes_req, alloc.bytes_alloc, names),
            };
            Kind::Alloc(Alloc {
                ptr: alloc.ptr,
                origin,
                bytes_req: alloc.bytes_req,
                bytes_alloc: alloc.bytes_alloc,
                call_site,
                flags: alloc.flags,
            })
        }
    };
    Some(Event {
        time_ns: raw.time_ns,
        cpu: raw.cpu,
        kind,
    })
}
