//! Traces of SLOB replayed on SLOB.

use crate::data::Recorded;
use crate::snapshot;
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay};
use codetag_lab::slob::{Config, Slob};
use codetag_lab::survey::Traced;

#[test]
fn pages_and_lists_end_as_in_the_kernel() {
    let traces = Recorded::all_of("slob-");
    assert_eq!(traces.len(), 4);
    for recorded in traces {
        assert_eq!(recorded.survey.traced(), Traced::Slob);
        let model = Slob::new(Config::three_lists());
        let mut replay = Replay::new(
            &recorded.survey,
            model,
            PageAllocator::unlimited(),
            Options::default(),
        );
        replay.run(&mut recorded.trace.events().unwrap()).unwrap();
        let real = snapshot::slob(&recorded.end_state);
        let model = replay.model().lists();
        println!(
            "{} {:?} kernel {}",
            recorded.name,
            replay.allocator_pages(),
            snapshot::counter(&recorded.end_state, "nr_slab_unreclaimable")
        );
        for (m, r) in model.iter().zip(&real) {
            println!("  {m:?} {} {}", r.pages, r.free_units);
        }
        for (i, r) in real.iter().enumerate() {
            let mine: Vec<u16> = replay.model().list_pages(i).collect();
            println!("   M{i} {mine:?}");
            println!("   K{i} {:?}", r.page_units);
        }
    }
}
