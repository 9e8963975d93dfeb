//! Traces of SLOB replayed on SLOB: the pages at the end, and on each list, are the kernel's.

use crate::data::Recorded;
use crate::snapshot;
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay};
use codetag_lab::slob::{Config, Slob};
use codetag_lab::survey::Traced;

fn replayed(recorded: &Recorded) -> Replay<'_, Slob> {
    let model = Slob::new(Config::three_lists());
    let mut replay = Replay::new(
        &recorded.survey,
        model,
        PageAllocator::unlimited(),
        Options::default(),
    );
    replay.run(&mut recorded.trace.events().unwrap()).unwrap();
    replay
}

#[test]
fn pages_and_lists_end_as_in_the_kernel() {
    let traces = Recorded::all_of("slob-");
    assert_eq!(traces.len(), 4);
    for recorded in traces {
        let name = &recorded.name;
        assert_eq!(recorded.survey.traced(), Traced::Slob, "{name}");
        let replay = replayed(&recorded);
        let counts = replay.counts();
        assert_eq!(
            (
                counts.unmatched_frees,
                counts.missed_frees,
                counts.failed_allocs
            ),
            (0, 0, 0),
            "{name}"
        );
        let kernel = snapshot::slob(&recorded.end_state);
        let pages = snapshot::counter(&recorded.end_state, "nr_slab_unreclaimable");
        assert_eq!(replay.allocator_pages(), pages, "{name}");
        for (index, (model, kernel)) in replay.model().lists().iter().zip(&kernel).enumerate() {
            let state = (model.pages, model.free_units);
            assert_eq!(
                state,
                (kernel.pages, kernel.free_units),
                "{name}, {} list",
                model.name
            );
            // Which page has which blocks: exact but where a grace period ended in the middle of frees.
            let units: Vec<u16> = replay.model().list_pages(index).collect();
            let is_exact = units == kernel.page_units;
            let may_differ = index == 0 && matches!(name.as_str(), "slob-files" | "slob-fork");
            assert_eq!(is_exact, !may_differ, "{name}, {} list", model.name);
        }
        // Freed in the trace and still there in the kernel: what waits for a grace period.
        let expected = if name == "slob-files" { 1328 } else { 0 };
        assert_eq!(replay.model().waiting().1, expected, "{name}");
    }
}
