//! The readers as their callers see them.

mod damage;
mod formats;
mod names;
mod own_format;
mod random;

use super::{Events, TraceFile};
use crate::event::{Event, Kind, Names, Origin, ReadError, Source};
use std::io::{Cursor, Write};

/// Events of a text, and the reader as it is at the end.
fn read(text: &str) -> (Vec<Event>, Events) {
    let (events, reader, result) = read_bytes(text.as_bytes());
    assert!(result.is_ok(), "{result:?} of {text:?}");
    (events, reader)
}

fn read_bytes(text: &[u8]) -> (Vec<Event>, Events, Result<(), ReadError>) {
    let mut reader = Events::new(Box::new(Cursor::new(text.to_vec())));
    let (events, result) = drain(&mut reader);
    (events, reader, result)
}

fn drain(source: &mut impl Source) -> (Vec<Event>, Result<(), ReadError>) {
    let mut events = Vec::new();
    loop {
        match source.next_event() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, Ok(())),
            Err(error) => return (events, Err(error)),
        }
    }
}

fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("temporary files can be made");
    file.write_all(bytes).expect("and written");
    file
}

/// Reads a text through a file, with the pass that learns names.
fn read_file(bytes: &[u8]) -> (Vec<Event>, Events) {
    let file = file_of(bytes);
    let trace = TraceFile::open(file.path()).expect("a trace");
    let mut reader = trace.events().expect("a second pass");
    let (events, result) = drain(&mut reader);
    result.expect("no device that fails");
    (events, reader)
}

/// The caches of the allocations, in order.
fn caches<'a>(events: &[Event], names: &'a Names) -> Vec<&'a str> {
    events
        .iter()
        .filter_map(|event| match event.kind {
            Kind::Alloc(alloc) => Some(match alloc.origin {
                Origin::Kmalloc => "kmalloc",
                Origin::Cache { name, .. } => names.get(name),
            }),
            _ => None,
        })
        .collect()
}
