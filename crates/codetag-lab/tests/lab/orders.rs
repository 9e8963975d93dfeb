//! One trace on every model: who takes more than whom.

use crate::data::Recorded;
use codetag_lab::allocator::{Allocator, Refs};
use codetag_lab::event::{Kind, Source};
use codetag_lab::model::Model;
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay};

type AnyReplay<'s> = Replay<'s, Box<dyn Model>>;

fn replays<'s>(
    recorded: &'s Recorded,
    names: &[&str],
    skip_site: Option<&str>,
) -> Vec<AnyReplay<'s>> {
    let start = |name: &&str| {
        let allocator: Allocator = name.parse().unwrap();
        let model = allocator.build(recorded.survey.cpus(), Refs::default());
        Replay::new(
            &recorded.survey,
            model,
            PageAllocator::unlimited(),
            Options::default(),
        )
    };
    let mut replays: Vec<AnyReplay<'s>> = names.iter().map(start).collect();
    let mut events = recorded.trace.events().unwrap();
    while let Some(event) = events.next_event().unwrap() {
        let names = events.names();
        if let (Kind::Alloc(alloc), Some(site)) = (event.kind, skip_site)
            && names.get(alloc.call_site).starts_with(site)
        {
            continue;
        }
        for replay in &mut replays {
            replay.apply(&event, names);
        }
    }
    for replay in &mut replays {
        replay.finish();
    }
    replays
}

fn pages(recorded: &Recorded, names: &[&str], skip_site: Option<&str>) -> Vec<u64> {
    replays(recorded, names, skip_site)
        .iter()
        .map(Replay::allocator_pages)
        .collect()
}

#[test]
fn table() {
    let names = [
        "slob",
        "slob-2list",
        "slob-1list",
        "slob-norotate",
        "slob-2list-norotate",
        "slob-1list-norotate",
        "slab-small",
        "slub-order1",
        "slub",
        "slub-nomerge",
        "slub-debug",
    ];
    println!("{names:?}");
    for recorded in Recorded::all_of("sl") {
        println!(
            "{} {:?} {:?}",
            recorded.name,
            pages(&recorded, &names, None),
            pages(&recorded, &names, Some("__rb_allocate_pages"))
        );
    }
}
