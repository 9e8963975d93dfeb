//! One trace on every model: who takes more than whom.

use crate::data::Recorded;
use codetag_lab::allocator::{Allocator, Refs};
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay};

fn pages(recorded: &Recorded, name: &str) -> u64 {
    let allocator: Allocator = name.parse().unwrap();
    let model = allocator.build(recorded.survey.cpus(), Refs::default());
    let mut replay = Replay::new(
        &recorded.survey,
        model,
        PageAllocator::unlimited(),
        Options::default(),
    );
    replay.run(&mut recorded.trace.events().unwrap()).unwrap();
    replay.allocator_pages()
}

#[test]
fn table() {
    for trace in ["slob-none", "slub-none"] {
        let recorded = Recorded::named(trace);
        for a in Allocator::defaults() {
            println!("{trace} {a} {}", pages(&recorded, &a.to_string()));
        }
        for a in [
            "slub-order3",
            "tiny-order2",
            "tiny-order3",
            "slob-norotate",
            "slob-1list-norotate",
            "slob-2list-norotate",
            "slab-small",
            "slab-nomerge",
            "slub-nomerge-debug",
            "tiny-nomerge",
        ] {
            println!("{trace} {a} {}", pages(&recorded, a));
        }
        println!("{:?}", recorded.survey.inferred());
    }
}
