//! Traces of SLUB replayed on SLUB: the state at the end is the kernel's, list by list.

use crate::data::Recorded;
use crate::snapshot::{self, SlubCache};
use codetag_lab::model::Model;
use codetag_lab::page::PageAllocator;
use codetag_lab::replay::{Options, Replay};
use codetag_lab::slub::{Config, Slub};
use codetag_lab::survey::Traced;

fn replayed(recorded: &Recorded) -> Replay<'_, Slub> {
    let model = Slub::new(Config::slub(recorded.survey.cpus()));
    let mut replay = Replay::new(
        &recorded.survey,
        model,
        PageAllocator::unlimited(),
        Options::default(),
    );
    replay.run(&mut recorded.trace.events().unwrap()).unwrap();
    replay
}

/// What differs between the model and the kernel, empty if nothing does.
fn differences(replay: &Replay<'_, Slub>, real: &SlubCache) -> Vec<String> {
    let slub = replay.model();
    let Some(cache) = slub.find_cache(&real.name) else {
        return vec!["not in the model".into()];
    };
    let usage = slub.usage_of(cache);
    let partial: Vec<(u32, u32)> = slub
        .node_partial(cache)
        .map(|slab| (slab.inuse_objs, slab.objs))
        .collect();
    let mut differences = Vec::new();
    let mut compare = |what: &str, model: String, kernel: String| {
        if model != kernel {
            differences.push(format!("{what}: {model}, in the kernel {kernel}"));
        }
    };
    compare(
        "live objects",
        usage.live_objs.to_string(),
        (real.active_objs - real.cpu_free).to_string(),
    );
    compare(
        "active objects",
        usage.active_objs.to_string(),
        real.active_objs.to_string(),
    );
    compare("slabs", usage.slabs.to_string(), real.slabs.to_string());
    compare("slots", usage.slots.to_string(), real.slots.to_string());
    compare(
        "slot bytes",
        usage.slot_bytes.to_string(),
        real.slot_bytes.to_string(),
    );
    compare(
        "objects per slab",
        usage.objs_per_slab.to_string(),
        real.objs_per_slab.to_string(),
    );
    compare(
        "pages per slab",
        (1 << usage.order).to_string(),
        real.pages_per_slab.to_string(),
    );
    compare(
        "CPU slabs",
        usage.cpu_slabs.to_string(),
        u64::from(real.has_cpu_slab).to_string(),
    );
    compare(
        "partial list",
        format!("{partial:?}"),
        format!("{:?}", real.partial),
    );
    differences
}

#[test]
fn every_cache_ends_as_in_the_kernel() {
    let traces = Recorded::all_of("slub-");
    assert_eq!(traces.len(), 4);
    for recorded in traces {
        assert_eq!(recorded.survey.traced(), Traced::Slub);
        let replay = replayed(&recorded);
        let counts = replay.counts();
        assert_eq!(
            (
                counts.unmatched_frees,
                counts.missed_frees,
                counts.failed_allocs
            ),
            (0, 0, 0)
        );
        let caches: Vec<SlubCache> = snapshot::slub(&recorded.end_state)
            .into_iter()
            .filter(|cache| cache.slabs > 0)
            .collect();
        assert_eq!(caches.len(), 39, "{}", recorded.name);
        let wrong: Vec<String> = caches
            .iter()
            .flat_map(|cache| {
                differences(&replay, cache)
                    .into_iter()
                    .map(move |line| format!("{}: {line}", cache.name))
            })
            .collect();
        assert!(wrong.is_empty(), "{}:\n{}", recorded.name, wrong.join("\n"));
        // Nothing is in the model that the kernel did not have, and the pages add up.
        assert_eq!(replay.model().caches().len(), 39);
        let slab_pages = snapshot::counter(&recorded.end_state, "nr_slab_reclaimable")
            + snapshot::counter(&recorded.end_state, "nr_slab_unreclaimable");
        assert_eq!(
            replay.pages().allocated_pages(),
            slab_pages,
            "{}",
            recorded.name
        );
    }
}
