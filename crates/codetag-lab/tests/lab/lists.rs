//! Why SLOB with two lists, or one, takes less than with three in the boots here, and took more in 2008.

use crate::changed::{is_no_buffer, is_of, pages};
use crate::data::Recorded;
use codetag_lab::event::Kind;
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay};
use codetag_lab::slob::{Config, ListState, Slob};

const LISTS: [&str; 3] = ["slob", "slob-2list", "slob-1list"];

/// What tracefs and the trace events take at boot, and the boots of the footprint tables do not have.
const TRACEFS: [&str; 5] = [
    "inode_cache",
    "dentry",
    "ftrace_event_field",
    "trace_event_file",
    "kernfs_node_cache",
];

fn lists(recorded: &Recorded, config: Config) -> (u64, [ListState; 3]) {
    let mut replay = Replay::new(
        &recorded.survey,
        Slob::new(config),
        PageAllocator::unlimited(),
        Options::default(),
    );
    replay.run(&mut recorded.trace.events().unwrap()).unwrap();
    (replay.allocator_pages(), replay.model().lists())
}

#[test]
fn two_lists_save_what_lies_idle_in_pages_of_large_objects() {
    for recorded in Recorded::all_of("slob-") {
        let (three, three_lists) = lists(&recorded, Config::three_lists());
        let (two, two_lists) = lists(&recorded, Config::two_lists());
        // Small requests see no difference.
        assert_eq!(two_lists[0], three_lists[0], "{}", recorded.name);
        // 13 pages' worth and more is free in pages with large objects, and no medium request may have it.
        assert!(three_lists[2].free_units >= 11 * 2048, "{}", recorded.name);
        let free = |lists: [ListState; 3]| lists[1].free_units + lists[2].free_units;
        assert_eq!(
            free(three_lists) - free(two_lists),
            (three - two) * 2048,
            "{}",
            recorded.name
        );
        assert!(
            (10..=11).contains(&(three - two)),
            "{}: {three}, {two}",
            recorded.name
        );
    }
}

#[test]
fn without_large_objects_that_leave_a_third_of_their_page_it_is_all_one() {
    let recorded = Recorded::named("slob-none");
    let got = pages(&recorded, &LISTS[..2], |event, names| {
        is_no_buffer(event, names) && !is_of(event, names, &["task_struct", "sighand_cache"])
    });
    assert_eq!(got, [404, 404]);
}

#[test]
fn without_tracefs_the_three_forms_are_where_the_boots_were() {
    let recorded = Recorded::named("slob-none");
    let got = pages(&recorded, &LISTS, |event, names| {
        is_no_buffer(event, names) && !is_of(event, names, &TRACEFS)
    });
    assert_eq!(got, [71, 60, 58]);
    // Slab, in kB, of ten boots each: 302.0, 260.4, 261.2.
    for (pages, boots_kb) in got.iter().zip([302.0, 260.4, 261.2]) {
        assert!(
            (*pages as f64 * 4.0 - boots_kb).abs() < 30.0,
            "{pages} pages, {boots_kb} kB"
        );
    }
}

#[test]
fn with_objects_of_half_the_size_three_lists_lose_nothing_and_one_list_does() {
    let recorded = Recorded::named("slob-none");
    let got = pages(&recorded, &LISTS, |event, names| {
        if let Kind::Alloc(alloc) = &mut event.kind {
            alloc.bytes_req = (alloc.bytes_req / 2).next_multiple_of(4);
            alloc.bytes_alloc = (alloc.bytes_alloc / 2).next_multiple_of(4);
        }
        is_no_buffer(event, names)
    });
    assert_eq!(got, [208, 207, 252]);
}

#[test]
fn on_four_cpus_a_slub_that_loads_no_cpu_slab_lies_between_slob_and_slub() {
    let recorded = Recorded::named("slob-none");
    let mut count = 0_u64;
    let got = pages(
        &recorded,
        &["slob", "slub-nocpuslab", "slub-nocpupartial"],
        move |event, names| {
            // The CPUs take turns of 1,024 events.
            count += 1;
            event.cpu = (count / 1024 % 4) as u16;
            is_no_buffer(event, names)
        },
    );
    assert_eq!(got, [432, 484, 664]);
}
