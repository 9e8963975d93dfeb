//! The smallest arena that holds a whole boot, slabs and everything else.

use crate::data::Recorded;
use codetag_lab::boot::{BootParams, smallest_arena};
use codetag_lab::page::ORDERS;
use codetag_lab::replay::Options;

#[test]
fn a_boot_with_all_its_pages() {
    let recorded = Recorded::named("slub-none");
    let params = BootParams {
        options: Options {
            other_pages: true,
            ..Options::default()
        },
        ..BootParams::default()
    };
    for (name, pages) in [
        ("slob", 7594),
        ("tiny", 7518),
        ("slub-order1", 7525),
        ("slub", 7551),
        ("slub-debug", 8158),
    ] {
        let open = || recorded.trace.events();
        let boot = smallest_arena(
            &recorded.survey,
            &name.parse().unwrap(),
            params,
            open,
            |_, _| {},
        )
        .unwrap();
        // Nothing is lost to fragments: the arena holds the peak, and one page less does not.
        assert_eq!(
            (boot.pages, boot.peak_pages),
            (pages, u64::from(pages)),
            "{name}"
        );
        let failure = boot.failure.unwrap();
        assert_eq!(
            (failure.what.as_str(), failure.order),
            ("pages", 0),
            "{name}"
        );
        assert_eq!(failure.free_blocks, [0; ORDERS], "{name}");
    }
}
