//! A progress bar on stderr, where that is a terminal.

use codetag_lab::event::{Event, Names, ReadCounts, ReadError, Source};
use indicatif::{ProgressBar, ProgressStyle};

/// Events between two updates: drawing must cost nothing beside reading.
const STEP_EVENTS: u64 = 1 << 13;

/// A bar over `length` steps of any kind, gone when it is dropped.
pub(super) fn bar(what: &'static str, length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length).with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta}") {
        bar.set_style(style);
    }
    bar
}

/// A source that moves a bar as its file is read.
#[derive(Debug)]
pub(super) struct WithBar<S> {
    pub(super) inner: S,
    bar: ProgressBar,
    events: u64,
}

impl<S: Source> WithBar<S> {
    pub(super) fn new(inner: S, what: &'static str, stored_bytes: u64) -> Self {
        Self {
            inner,
            bar: bar(what, stored_bytes),
            events: 0,
        }
    }
}

impl<S: Source> Source for WithBar<S> {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        self.events += 1;
        if self.events.is_multiple_of(STEP_EVENTS) {
            self.bar.set_position(self.inner.position_bytes());
        }
        self.inner.next_event()
    }

    fn names(&self) -> &Names {
        self.inner.names()
    }

    fn counts(&self) -> ReadCounts {
        self.inner.counts()
    }

    fn position_bytes(&self) -> u64 {
        self.inner.position_bytes()
    }
}

impl<S> Drop for WithBar<S> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
