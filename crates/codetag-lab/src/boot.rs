//! The smallest memory in which a trace runs.

use crate::allocator::{Allocator, Refs};
use crate::event::{ReadError, Source};
use crate::page::{PageAllocator, PcpLimits};
use crate::replay::{Failure, Options, Replay};
use crate::survey::Survey;

/// How to look for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootParams {
    /// How the trace is replayed. With [`Options::other_pages`] the arena also holds what is no slab.
    pub options: Options,
    /// Page lists on each CPU, with limits that follow from the arena as in the kernel.
    pub pcp: bool,
    /// How tag refs are kept.
    pub refs: Refs,
}

/// The smallest arena, and what is wrong with the next smaller one.
#[derive(Clone, Debug, PartialEq)]
pub struct Boot {
    /// Pages of the smallest arena in which no allocation fails. In a smaller one some fails, but not in every
    /// smaller one: blocks lie elsewhere in it.
    pub pages: u32,
    /// The most pages that were allocated at a time in it.
    pub peak_pages: u64,
    /// The first allocation that fails in an arena of one page less; `None` if the trace needs no page.
    pub failure: Option<Failure>,
    /// Replays that it took.
    pub replays: u32,
}

/// Bisects the arena's size.
///
/// `open` starts the trace over; `progress` is told how many replays are done and how many there will be about.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn smallest_arena<S: Source>(
    survey: &Survey,
    allocator: &Allocator,
    params: BootParams,
    mut open: impl FnMut() -> Result<S, ReadError>,
    mut progress: impl FnMut(u32, u32),
) -> Result<Boot, ReadError> {
    let mut replays = 0;
    let mut run = |pages: Option<u32>, expected: u32| {
        progress(replays, expected);
        replays += 1;
        try_arena(survey, allocator, params, pages, &mut open()?)
    };
    let unlimited = run(None, 1)?;
    // Too small, and surely enough if nothing is wasted on fragments; grown until it is.
    let peak = u32::try_from(unlimited.peak_pages).unwrap_or(u32::MAX / 2);
    let mut fails = peak.saturating_sub(1);
    let mut fits = peak;
    let mut failure = None;
    let mut best = loop {
        let tried = run(Some(fits), 12)?;
        match tried.failure {
            None => break tried.peak_pages,
            Some(failed) => {
                fails = fits;
                failure = Some(failed);
                fits = fits.saturating_add((fits / 8).max(1));
            }
        }
    };
    let steps = (fits - fails).max(1).ilog2() + 1;
    while fits - fails > 1 {
        let middle = fails + (fits - fails) / 2;
        let tried = run(Some(middle), steps + 3)?;
        match tried.failure {
            None => {
                fits = middle;
                best = tried.peak_pages;
            }
            Some(failed) => {
                fails = middle;
                failure = Some(failed);
            }
        }
    }
    // Less than the peak is too small for sure, but by which allocation is not known yet.
    if failure.is_none() && fits > 0 {
        failure = run(Some(fits - 1), steps + 3)?.failure;
    }
    Ok(Boot {
        pages: fits,
        peak_pages: best,
        failure,
        replays,
    })
}

struct Tried {
    peak_pages: u64,
    failure: Option<Failure>,
}

/// Replays up to the first failure.
fn try_arena(
    survey: &Survey,
    allocator: &Allocator,
    params: BootParams,
    pages: Option<u32>,
    source: &mut impl Source,
) -> Result<Tried, ReadError> {
    let mut arena = match pages {
        Some(pages) => PageAllocator::with_arena(pages),
        None => PageAllocator::unlimited(),
    };
    if let Some(pages) = pages.filter(|_| params.pcp) {
        arena = arena.with_pcp(survey.cpus(), PcpLimits::of_zone(pages, survey.cpus()));
    }
    let model = allocator.build(survey.cpus(), params.refs);
    let mut replay = Replay::new(survey, model, arena, params.options);
    while let Some(event) = source.next_event()? {
        replay.apply(&event, source.names());
        if replay.first_failure().is_some() {
            break;
        }
    }
    replay.finish();
    Ok(Tried {
        peak_pages: replay.pages().peak_pages(),
        failure: replay.first_failure().cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::tests::Script;

    fn boot(script: &Script, name: &str) -> Boot {
        let survey = Survey::of(&mut script.source()).unwrap();
        let allocator = name.parse().unwrap();
        smallest_arena(
            &survey,
            &allocator,
            BootParams::default(),
            || Ok(script.source()),
            |_, _| {},
        )
        .unwrap()
    }

    #[test]
    fn as_many_pages_as_slabs() {
        let mut script = Script::default();
        for ptr in 1..=80 {
            script.kmalloc(ptr, 512);
        }
        // Ten slabs of one page.
        let found = boot(&script, "slub");
        assert_eq!((found.pages, found.peak_pages), (10, 10));
        let failure = found.failure.unwrap();
        assert_eq!(
            (failure.event, failure.order, failure.what.as_str()),
            (73, 0, "kmalloc")
        );
        assert_eq!(failure.free_blocks, [0; crate::page::ORDERS]);
    }

    #[test]
    fn a_block_needs_pages_that_lie_together() {
        let mut script = Script::default();
        for ptr in 1..=4 {
            script.kmalloc(ptr, 4096);
        }
        script.free(1);
        script.free(3);
        script.kmalloc(5, 8192);
        // Four pages at most, but in five the free ones do not touch each other.
        let found = boot(&script, "slob");
        assert_eq!((found.pages, found.peak_pages), (6, 4));
        let failure = found.failure.unwrap();
        assert_eq!((failure.event, failure.order), (7, 1));
        assert_eq!(failure.free_blocks[..3], [3, 0, 0]);
        assert!((failure.unusable_free_index - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_trace_without_allocations_needs_nothing() {
        let found = boot(&Script::default(), "slub");
        assert_eq!((found.pages, found.failure), (0, None));
    }
}
