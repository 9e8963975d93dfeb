//! Recorded traces with something changed, to see what a result hangs on.

use crate::data::Recorded;
use codetag_lab::allocator::{Allocator, Refs};
use codetag_lab::event::{Event, Kind, Names, Origin, ReadCounts, ReadError, Source};
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay};
use codetag_lab::survey::Survey;
use codetag_lab::trace::Events;

/// Events that a function keeps, as it changed them.
struct Changed<F> {
    events: Events,
    keep: F,
}

impl<F: FnMut(&mut Event, &Names) -> bool> Source for Changed<F> {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        while let Some(mut event) = self.events.next_event()? {
            if (self.keep)(&mut event, self.events.names()) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn names(&self) -> &Names {
        self.events.names()
    }

    fn counts(&self) -> ReadCounts {
        self.events.counts()
    }
}

/// Pages at the end of the changed trace, for each allocator.
pub(crate) fn pages(
    recorded: &Recorded,
    allocators: &[&str],
    keep: impl FnMut(&mut Event, &Names) -> bool + Clone,
) -> Vec<u64> {
    let source = || Changed {
        events: recorded.trace.events().unwrap(),
        keep: keep.clone(),
    };
    let survey = Survey::of(&mut source()).unwrap();
    let mut replays: Vec<_> = allocators
        .iter()
        .map(|name| {
            let allocator: Allocator = name.parse().unwrap();
            let model = allocator.build(survey.cpus(), Refs::default());
            Replay::new(
                &survey,
                model,
                PageAllocator::unlimited(),
                Options::default(),
            )
        })
        .collect();
    let mut events = source();
    while let Some(event) = events.next_event().unwrap() {
        for replay in &mut replays {
            replay.apply(&event, events.names());
        }
    }
    replays.iter_mut().for_each(Replay::finish);
    replays.iter().map(Replay::allocator_pages).collect()
}

/// Whether the event is none of the 6,144 objects that describe the pages of a 24 MB trace buffer, which systems
/// that are not traced do not have.
pub(crate) fn is_no_buffer(event: &Event, names: &Names) -> bool {
    let site = |alloc: &codetag_lab::event::Alloc| {
        names
            .get(alloc.call_site)
            .starts_with("__rb_allocate_pages")
    };
    !matches!(&event.kind, Kind::Alloc(alloc) if site(alloc))
}

/// Whether the event allocates from one of `caches`.
pub(crate) fn is_of(event: &Event, names: &Names, caches: &[&str]) -> bool {
    match event.kind {
        Kind::Alloc(alloc) => match alloc.origin {
            Origin::Cache { name, .. } => caches.contains(&names.get(name)),
            Origin::Kmalloc => false,
        },
        _ => false,
    }
}
