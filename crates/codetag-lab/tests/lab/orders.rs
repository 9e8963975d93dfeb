//! One trace on every model: who takes more than whom.

use crate::data::Recorded;
use codetag_lab::allocator::{Allocator, Refs};
use codetag_lab::event::{Kind, Source};
use codetag_lab::model::Model;
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay};
use std::collections::HashMap;

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

/// The models of the table in docs/LAB.md, in its order.
const MODELS: [&str; 15] = [
    "slob-2list",
    "slob",
    "slob-1list",
    "tiny",
    "tiny-order0",
    "tiny-order2",
    "tiny-order3",
    "slab-small",
    "slub-order1",
    "slub-order0",
    "slub-order2",
    "slub",
    "slub-nomerge",
    "slub-nocpuslab",
    "slub-debug",
];

/// Allocates the objects of a 24 MB trace buffer, which the boots of the footprint tables did not have.
const TRACE_BUFFER: &str = "__rb_allocate_pages";

fn table(trace: &str, skip_site: Option<&str>) -> HashMap<&'static str, u64> {
    let recorded = Recorded::named(trace);
    let pages = pages(&recorded, &MODELS, skip_site);
    MODELS.into_iter().zip(pages).collect()
}

/// Whether each takes less than the next.
fn ascends(table: &HashMap<&str, u64>, names: &[&str]) -> bool {
    names.is_sorted_by(|a, b| table[a] < table[b])
}

fn assert_table(table: &HashMap<&str, u64>, expected: [u64; MODELS.len()]) {
    let got = MODELS.map(|name| table[name]);
    assert_eq!(got, expected, "{MODELS:?}");
}

#[test]
fn a_boot_of_slob_on_every_model() {
    let with_buffer = table("slob-none", None);
    assert_table(
        &with_buffer,
        [
            615, 625, 625, 546, 548, 550, 558, 560, 559, 561, 567, 579, 584, 579, 1095,
        ],
    );
    assert!(ascends(
        &with_buffer,
        &["tiny", "slub", "slub-nomerge", "slub-debug"]
    ));
    // Without the objects of the trace buffer the order is that of the boots without tracing (6.1, mem=32M).
    let table = table("slob-none", Some(TRACE_BUFFER));
    assert_table(
        &table,
        [
            422, 432, 433, 450, 452, 454, 462, 464, 463, 465, 471, 483, 488, 483, 709,
        ],
    );
    assert!(ascends(
        &table,
        &[
            "slob-2list",
            "slob",
            "slub-order1",
            "slab-small",
            "slub",
            "slub-nomerge",
            "slub-debug"
        ]
    ));
    assert!(ascends(
        &table,
        &["slub-order1", "slub-order0", "slub-order2", "slub"]
    ));
    assert!(ascends(
        &table,
        &["tiny", "tiny-order0", "tiny-order2", "tiny-order3", "slub"]
    ));
}

#[test]
fn a_boot_of_slub_on_every_model() {
    let table = table("slub-none", None);
    assert_table(
        &table,
        [
            679, 690, 663, 611, 613, 615, 627, 626, 623, 626, 629, 649, 649, 649, 1256,
        ],
    );
    assert!(ascends(
        &table,
        &["slub-order1", "slub-order0", "slub-order2", "slub"]
    ));
    // Its names are merged already.
    assert_eq!(table["slub"], table["slub-nomerge"]);
}
