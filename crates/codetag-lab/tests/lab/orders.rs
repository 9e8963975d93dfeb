//! One trace on every model: who takes more than whom.

use crate::changed::{is_no_buffer, pages};
use crate::data::Recorded;
use std::collections::HashMap;

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

fn table(trace: &str, with_buffer: bool) -> HashMap<&'static str, u64> {
    let recorded = Recorded::named(trace);
    let pages = pages(&recorded, &MODELS, |event, names| {
        with_buffer || is_no_buffer(event, names)
    });
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
    let with_buffer = table("slob-none", true);
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
    let table = table("slob-none", false);
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
    let table = table("slub-none", true);
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
