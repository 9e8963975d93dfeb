use super::*;

fn spec(object_bytes: u32, flags: CacheFlags) -> CacheSpec {
    CacheSpec {
        name: format!("objects-{object_bytes}"),
        object_bytes,
        align: 8,
        slot_bytes: None,
        flags,
    }
}

struct Bench {
    slab: Slab,
    pages: PageAllocator,
    cache: CacheId,
}

impl Bench {
    fn new(config: Config, object_bytes: u32) -> Self {
        let mut slab = Slab::new(config);
        let cache = slab.create_cache(&spec(object_bytes, CacheFlags::default()));
        Self {
            slab,
            pages: PageAllocator::unlimited(),
            cache,
        }
    }

    fn alloc(&mut self, cpu: u16, count: usize) -> Vec<Obj> {
        let call = Call {
            cpu,
            ..Call::default()
        };
        (0..count)
            .map(|_| {
                self.slab
                    .cache_alloc(&mut self.pages, self.cache, call)
                    .unwrap()
            })
            .collect()
    }

    fn free(&mut self, cpu: u16, objs: impl IntoIterator<Item = Obj>) {
        for obj in objs {
            self.slab.free(&mut self.pages, obj, cpu);
        }
    }

    fn usage(&self) -> CacheUsage {
        self.slab.usage_of(self.cache)
    }
}

#[test]
fn an_array_takes_sixteen_first_and_a_batch_later() {
    let mut bench = Bench::new(Config::new(1), 64);
    bench.alloc(0, 1);
    // slabinfo counts what is in the array as active.
    assert_eq!(
        (bench.usage().live_objs, bench.usage().active_objs),
        (1, 16)
    );
    bench.alloc(0, 16);
    // 48 are left in the slab; the array was used, so it takes 60, of which this slab has 48.
    assert_eq!((bench.usage().slabs, bench.usage().active_objs), (1, 64));
}

#[test]
fn what_is_freed_stays_in_the_array_until_it_overflows() {
    let mut bench = Bench::new(Config::new(1), 64);
    let objs = bench.alloc(0, 640);
    assert_eq!(bench.usage().slabs, 10);
    bench.free(0, objs[..120].iter().copied());
    assert_eq!(
        (bench.usage().active_objs, bench.usage().active_slabs),
        (640, 10)
    );
    bench.free(0, [objs[120]]);
    // A batch of 60 went, all of the first slab, which held 64.
    assert_eq!(
        (bench.usage().active_objs, bench.usage().partial_slabs),
        (580, 1)
    );
}

#[test]
fn empty_slabs_go_when_more_than_the_limit_is_free() {
    let mut bench = Bench::new(Config::new(1), 64);
    let objs = bench.alloc(0, 64 * 20);
    bench.free(0, objs);
    let usage = bench.usage();
    // free_limit = 2 × 60 + 64.
    let free_objs = usage.slots - usage.active_objs;
    assert!(free_objs <= 184, "{usage:?}");
    assert_eq!((usage.live_objs, usage.slabs), (0, 4));
    bench.slab.shrink(&mut bench.pages);
    assert_eq!((bench.usage().slabs, bench.pages.allocated_pages()), (0, 0));
}

#[test]
fn cpus_share_what_overflows() {
    let mut bench = Bench::new(Config::new(2), 64);
    let objs = bench.alloc(0, 640);
    bench.free(1, objs[..121].iter().copied());
    assert_eq!(bench.usage().shared_avail, 60);
    // The other CPU refills from there.
    let before = bench.usage().slabs;
    bench.alloc(0, 60);
    assert_eq!(
        (bench.usage().shared_avail, bench.usage().slabs),
        (0, before)
    );
}

#[test]
fn reaping_empties_what_is_not_used() {
    let mut bench = Bench::new(Config::new(1), 64);
    let objs = bench.alloc(0, 640);
    bench.free(0, objs);
    let before = bench.usage();
    bench.slab.pass_time(&mut bench.pages, 1_999_999_999);
    assert_eq!(bench.usage(), before);
    for second in 1..=100 {
        bench
            .slab
            .pass_time(&mut bench.pages, second * 2_000_000_000);
    }
    assert_eq!((bench.usage().slabs, bench.pages.allocated_pages()), (0, 0));
}

#[test]
fn freelists_off_the_slab_are_kmallocs() {
    let mut slab = Slab::new(Config::new(1));
    let mut pages = PageAllocator::unlimited();
    let ctor = CacheFlags {
        ctor: true,
        ..CacheFlags::default()
    };
    let cache = slab.create_cache(&spec(512, ctor));
    assert_eq!(slab.geometry_of(cache).management, Management::OffSlab);
    let obj = slab
        .cache_alloc(&mut pages, cache, Call::default())
        .unwrap();
    let freelists = slab.usage_of(slab.find_cache("kmalloc-32").unwrap());
    assert_eq!(freelists.live_objs, 1);
    slab.free(&mut pages, obj, 0);
    slab.shrink(&mut pages);
    slab.shrink(&mut pages);
    assert_eq!(slab.usage(), Usage::default());
}

#[test]
fn slabs_start_at_colours_in_turn() {
    let mut bench = Bench::new(Config::new(1), 900);
    // 4096 − 4 × 904 = 480 bytes: seven colours of 64.
    assert_eq!(bench.slab.geometry_of(bench.cache).colours, 7);
    let colours: Vec<u32> = (0..8)
        .map(|_| {
            let next = bench.slab.next_colour_bytes(bench.cache);
            // Fewer than four objects are never left over, so that each round needs a slab.
            bench.alloc(0, 4);
            next
        })
        .collect();
    assert_eq!(colours[0], 64);
    assert!(colours.contains(&0) && colours.contains(&384));
}

#[test]
fn kmalloc_classes_start_at_32() {
    let mut slab = Slab::new(Config::new(1));
    let mut pages = PageAllocator::unlimited();
    for bytes in [8, 90, 180, 8192, 8193] {
        slab.kmalloc(&mut pages, bytes, Call::default()).unwrap();
    }
    let slots: Vec<(String, u32)> = slab
        .caches()
        .into_iter()
        .map(|cache| (cache.name, cache.slot_bytes))
        .collect();
    let expected = [
        ("kmalloc-32", 32),
        ("kmalloc-96", 128),
        ("kmalloc-192", 192),
        ("kmalloc-8k", 8192),
    ];
    assert_eq!(slots, expected.map(|(name, slot)| (name.to_owned(), slot)));
    assert_eq!(slab.usage().large_pages, 4);
}

#[test]
fn vectors_of_refs_live_and_die_with_their_slabs() {
    let mut slab = Slab::new(Config::new(1).with_refs(8, true));
    let mut pages = PageAllocator::unlimited();
    let cache = slab.create_cache(&spec(512, CacheFlags::default()));
    let tagged = Call {
        is_tagged: true,
        ..Call::default()
    };
    let objs: Vec<Obj> = (0..16)
        .map(|_| slab.cache_alloc(&mut pages, cache, tagged).unwrap())
        .collect();
    assert_eq!((slab.usage().ext_vectors, slab.usage().ext_bytes), (2, 128));
    for obj in objs {
        slab.free(&mut pages, obj, 0);
    }
    slab.shrink(&mut pages);
    slab.shrink(&mut pages);
    assert_eq!(slab.usage(), Usage::default());
}
