use super::*;
use crate::event::GfpFlags;

fn spec(name: &str, object_bytes: u32) -> CacheSpec {
    CacheSpec {
        name: name.into(),
        object_bytes,
        align: 8,
        slot_bytes: None,
        flags: CacheFlags::default(),
    }
}

fn on(cpu: u16) -> Call {
    Call {
        cpu,
        ..Call::default()
    }
}

/// A SLUB with one cache of 512-byte objects: 8 to a slab on one CPU, 16 on two.
struct Bench {
    slub: Slub,
    pages: PageAllocator,
    cache: CacheId,
}

impl Bench {
    fn new(config: Config) -> Self {
        let mut slub = Slub::new(config);
        let cache = slub.create_cache(&spec("objects", 512));
        Self {
            slub,
            pages: PageAllocator::unlimited(),
            cache,
        }
    }

    fn alloc(&mut self, cpu: u16, count: usize) -> Vec<Obj> {
        (0..count)
            .map(|_| {
                self.slub
                    .cache_alloc(&mut self.pages, self.cache, on(cpu))
                    .unwrap()
            })
            .collect()
    }

    fn free(&mut self, cpu: u16, objs: impl IntoIterator<Item = Obj>) {
        for obj in objs {
            self.slub.free(&mut self.pages, obj, cpu);
        }
    }

    fn usage(&self) -> CacheUsage {
        self.slub.usage_of(self.cache)
    }
}

fn two_cpus(partial: CpuPartial) -> Config {
    Config {
        path: Path::CpuSlab(partial),
        ..Config::slub(2)
    }
}

#[test]
fn one_survivor_pins_a_slab() {
    let mut bench = Bench::new(Config::slub(1));
    let objs = bench.alloc(0, 80);
    let (survivors, others): (Vec<_>, Vec<_>) = objs
        .into_iter()
        .enumerate()
        .partition(|(index, _)| index % 8 == 0);
    bench.free(0, others.into_iter().map(|(_, obj)| obj));
    let usage = bench.usage();
    assert_eq!((usage.slabs, usage.live_objs, usage.slots), (10, 10, 80));
    // The last slab is the CPU's; its free objects count as active.
    assert_eq!(
        (usage.partial_slabs, usage.cpu_slabs, usage.active_objs),
        (9, 1, 17)
    );
    assert_eq!(bench.pages.allocated_pages(), 10);
    drop(survivors);
}

#[test]
fn a_node_keeps_one_empty_slab_less_than_min_partial() {
    let mut bench = Bench::new(Config::slub(1));
    let objs = bench.alloc(0, 160);
    bench.free(0, objs);
    let usage = bench.usage();
    // A slab that becomes empty is on the list itself when its length is compared.
    assert_eq!(
        (usage.partial_slabs, usage.cpu_slabs, usage.slabs),
        (4, 1, 5)
    );
    bench.slub.shrink_cache(&mut bench.pages, bench.cache);
    assert_eq!(bench.usage().slabs, 0);
    assert_eq!(bench.pages.allocated_pages(), 0);
}

#[test]
fn tiny_keeps_nothing() {
    let mut bench = Bench::new(Config::tiny(1));
    let objs = bench.alloc(0, 80);
    // min_objects is 8 with one CPU: order 0.
    assert_eq!((bench.usage().slabs, bench.usage().partial_slabs), (10, 0));
    bench.free(0, objs);
    assert_eq!((bench.usage().slabs, bench.pages.allocated_pages()), (0, 0));
}

#[test]
fn a_debugged_cache_loads_no_cpu_slab() {
    let mut bench = Bench::new(Config::slub(2).with_debug(DebugFlags::FZPU));
    let objs = bench.alloc(0, 1);
    let usage = bench.usage();
    assert_eq!(
        (usage.slot_bytes, usage.cpu_slabs, usage.partial_slabs),
        (608, 0, 1)
    );
    assert_eq!(usage.active_objs, 1);
    bench.free(0, objs);
    // min_partial is kept.
    assert_eq!(bench.usage().slabs, 1);
}

#[test]
fn slabs_freed_from_afar_are_parked_up_to_the_bound() {
    let mut bench = Bench::new(two_cpus(CpuPartial::Slabs));
    let objs = bench.alloc(0, 16 * 20);
    let bound = cpu_partial_slabs(512, 16);
    assert_eq!(bound, 7);
    // One object of each full slab: each comes onto the list of the CPU that frees it.
    let mut most = 0;
    for (slab, obj) in objs.iter().step_by(16).enumerate().take(19) {
        bench.free(1, [*obj]);
        let parked: Vec<u32> = bench.slub.cpu_partial(bench.cache).collect();
        assert_eq!(parked[0], 0);
        most = most.max(parked[1]);
        let expected_on_node = slab as u64 / u64::from(bound) * u64::from(bound);
        assert_eq!(bench.usage().partial_slabs, expected_on_node);
    }
    assert_eq!(most, bound);
}

#[test]
fn an_empty_parked_slab_is_not_freed_until_the_list_is_flushed() {
    let mut bench = Bench::new(two_cpus(CpuPartial::Slabs));
    let objs = bench.alloc(0, 16 * 20);
    for slab in objs.chunks(16).take(7) {
        bench.free(1, slab.iter().copied());
    }
    assert_eq!(
        (bench.usage().slabs, bench.usage().cpu_partial_slabs),
        (20, 7)
    );
    bench.free(1, [objs[16 * 7]]);
    // Of the seven empty ones the node keeps five.
    let usage = bench.usage();
    assert_eq!(
        (usage.slabs, usage.partial_slabs, usage.cpu_partial_slabs),
        (18, 5, 1)
    );
}

#[test]
fn the_estimate_lets_a_list_grow_to_one_slab_more_than_cpu_partial() {
    let mut bench = Bench::new(two_cpus(CpuPartial::Estimate));
    let objs = bench.alloc(0, 16 * 40);
    let bound = cpu_partial_estimate_objs(512) + 1;
    assert_eq!(bound, 14);
    let most = objs
        .chunks(16)
        .take(39)
        .map(|slab| {
            // All of the slab's objects go, but it counts as the one object that it had free at first.
            bench.free(1, slab.iter().copied());
            bench.slub.cpu_partial(bench.cache).max().unwrap()
        })
        .max();
    assert_eq!(most, Some(bound));
    bench.slub.shrink_cache(&mut bench.pages, bench.cache);
    assert_eq!(bench.usage().cpu_partial_slabs, 0);
}

#[test]
fn a_cpu_takes_several_slabs_from_the_node_at_a_time() {
    let mut bench = Bench::new(two_cpus(CpuPartial::Slabs));
    let objs = bench.alloc(0, 16 * 20);
    for slab in objs.chunks(16).take(14) {
        bench.free(1, [slab[0]]);
    }
    // Seven of them were flushed to the node when the eighth came.
    assert_eq!(bench.usage().partial_slabs, 7);
    bench.alloc(0, 1);
    // The first is loaded, 7 / 2 + 1 more are parked.
    assert_eq!(
        bench.slub.cpu_partial(bench.cache).collect::<Vec<_>>(),
        [4, 7]
    );
    assert_eq!(bench.usage().partial_slabs, 2);
}

#[test]
fn remote_frees_to_the_cpu_slab_come_back_to_its_cpu() {
    let mut bench = Bench::new(two_cpus(CpuPartial::Off));
    let objs = bench.alloc(0, 16);
    bench.free(1, objs[..3].iter().copied());
    assert_eq!(bench.usage().partial_slabs, 0);
    bench.alloc(0, 3);
    assert_eq!(bench.usage().slabs, 1);
    bench.alloc(0, 1);
    assert_eq!(bench.usage().slabs, 2);
}

#[test]
fn shrinking_puts_the_fullest_slabs_first() {
    let mut bench = Bench::new(Config::slub(1));
    let objs = bench.alloc(0, 40);
    for (slab, freed) in [5, 1, 7, 1, 3].into_iter().enumerate() {
        bench.free(0, objs[slab * 8..slab * 8 + freed].iter().copied());
    }
    bench.slub.shrink_cache(&mut bench.pages, bench.cache);
    let inuse: Vec<u32> = bench
        .slub
        .node_partial(bench.cache)
        .map(|slab| slab.inuse_objs)
        .collect();
    assert_eq!(inuse, [7, 7, 5, 3, 1]);
}

#[test]
fn caches_of_one_size_are_merged_unless_something_forbids_it() {
    let mut slub = Slub::new(Config::slub(1));
    let first = slub.create_cache(&spec("first", 60));
    assert_eq!(slub.create_cache(&spec("same", 64)), first);
    assert_ne!(slub.create_cache(&spec("larger", 72)), first);
    let with = |flags| CacheSpec {
        flags,
        ..spec("other", 64)
    };
    for flags in [
        CacheFlags {
            reclaim: true,
            ..CacheFlags::default()
        },
        CacheFlags {
            ctor: true,
            ..CacheFlags::default()
        },
        CacheFlags {
            rcu: true,
            ..CacheFlags::default()
        },
        CacheFlags {
            no_merge: true,
            ..CacheFlags::default()
        },
    ] {
        assert_ne!(slub.create_cache(&with(flags)), first, "{flags:?}");
    }
    // TINY knows no reclaimable slabs.
    let mut tiny = Slub::new(Config::tiny(1));
    let first = tiny.create_cache(&spec("first", 64));
    let reclaim = CacheFlags {
        reclaim: true,
        ..CacheFlags::default()
    };
    assert_eq!(tiny.create_cache(&with(reclaim)), first);
    let mut unmerged = Slub::new(Config::slub(1).without_merging());
    let first = unmerged.create_cache(&spec("first", 64));
    assert_ne!(unmerged.create_cache(&spec("same", 64)), first);
}

#[test]
fn a_slab_falls_back_to_the_smallest_order() {
    let mut slub = Slub::new(Config::slub(1));
    // 3 pages in all: no block of order 3.
    let mut pages = PageAllocator::with_arena(3);
    let call = Call::default();
    let first = slub.kmalloc(&mut pages, 4096, call).unwrap();
    assert_eq!(slub.usage().slab_pages, 1);
    assert_eq!(slub.usage().slots, 1);
    slub.kmalloc(&mut pages, 4096, call).unwrap();
    slub.kmalloc(&mut pages, 4096, call).unwrap();
    assert_eq!(
        slub.kmalloc(&mut pages, 4096, call),
        Err(OutOfPages { order: 0 })
    );
    slub.free(&mut pages, first, 0);
    assert_eq!(slub.usage().slab_objs, 2);
}

#[test]
fn large_requests_are_pages() {
    let mut slub = Slub::new(Config::slub(1));
    let mut pages = PageAllocator::unlimited();
    let obj = slub.kmalloc(&mut pages, 8193, Call::default()).unwrap();
    assert_eq!((slub.usage().large_pages, slub.usage().slabs), (4, 0));
    slub.free(&mut pages, obj, 0);
    assert_eq!(slub.usage().pages(), 0);
}

#[test]
fn families_have_caches_of_their_own() {
    let mut slub = Slub::new(Config::slub(1));
    let mut pages = PageAllocator::unlimited();
    let reclaimable = Call {
        flags: GfpFlags::RECLAIMABLE,
        ..Call::default()
    };
    slub.kmalloc(&mut pages, 60, reclaimable).unwrap();
    slub.kmalloc(&mut pages, 60, Call::default()).unwrap();
    let names: Vec<String> = slub.caches().into_iter().map(|cache| cache.name).collect();
    assert_eq!(names, ["kmalloc-rcl-64", "kmalloc-64"]);
}

#[test]
fn vectors_of_refs_live_and_die_with_their_slabs() {
    let mut slub = Slub::new(Config::slub(1).with_refs(8, true));
    let mut pages = PageAllocator::unlimited();
    let cache = slub.create_cache(&spec("objects", 512));
    let tagged = Call {
        is_tagged: true,
        ..Call::default()
    };
    let objs: Vec<Obj> = (0..80)
        .map(|index| {
            let call = if index < 8 { Call::default() } else { tagged };
            slub.cache_alloc(&mut pages, cache, call).unwrap()
        })
        .collect();
    // Ten slabs of eight slots; the first has no tagged object.
    assert_eq!(
        (slub.usage().ext_vectors, slub.usage().ext_bytes),
        (9, 9 * 64)
    );
    let vectors = slub.usage_of(slub.find_cache("kmalloc-no-objext-64").unwrap());
    assert_eq!((vectors.live_objs, vectors.slabs), (9, 1));
    for obj in objs {
        slub.free(&mut pages, obj, 0);
    }
    slub.shrink(&mut pages);
    assert_eq!(slub.usage(), Usage::default());
    assert_eq!(pages.allocated_pages(), 0);
}

#[test]
fn eager_vectors_come_with_the_slab() {
    let mut slub = Slub::new(Config::slub(1).with_refs(4, false));
    let mut pages = PageAllocator::unlimited();
    slub.kmalloc(&mut pages, 512, Call::default()).unwrap();
    assert_eq!((slub.usage().ext_vectors, slub.usage().ext_bytes), (1, 32));
}
