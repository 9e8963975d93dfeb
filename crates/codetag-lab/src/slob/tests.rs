use super::*;
use crate::model::CacheFlags;

struct Bench {
    slob: Slob,
    pages: PageAllocator,
}

impl Bench {
    fn new(config: Config) -> Self {
        Self {
            slob: Slob::new(config),
            pages: PageAllocator::unlimited(),
        }
    }

    fn kmalloc(&mut self, bytes: u64) -> Obj {
        self.slob
            .kmalloc(&mut self.pages, bytes, Call::default())
            .unwrap()
    }

    fn free(&mut self, obj: Obj) {
        self.slob.free(&mut self.pages, obj, 0);
    }

    fn list_pages(&self) -> [u64; 3] {
        self.slob.lists().map(|list| list.pages)
    }
}

#[test]
fn an_object_keeps_what_it_is_packed_with() {
    let used = Used {
        page: (1 << 28) - 1,
        start: 2047,
        bytes: 4095,
        cache: 2047,
    };
    assert_eq!(Used::unpack(used.pack()), used);
    assert_eq!(used.pack().as_large(), None);
}

#[test]
fn golden_pages() {
    for (bytes, per_page) in [(64, 32), (100, 36), (48, 73)] {
        let mut bench = Bench::new(Config::three_lists());
        for _ in 0..per_page {
            bench.kmalloc(bytes);
        }
        assert_eq!(bench.slob.usage().slab_pages, 1, "kmalloc({bytes})");
        bench.kmalloc(bytes);
        assert_eq!(bench.slob.usage().slab_pages, 2, "kmalloc({bytes})");
    }
}

#[test]
fn lists_go_by_the_size_with_its_header() {
    let mut bench = Bench::new(Config::three_lists());
    bench.kmalloc(247);
    assert_eq!(bench.list_pages(), [1, 0, 0]);
    bench.kmalloc(249);
    assert_eq!(bench.list_pages(), [1, 1, 0]);
    bench.kmalloc(1017);
    assert_eq!(bench.list_pages(), [1, 1, 1]);
    let mut one = Bench::new(Config::one_list());
    one.kmalloc(9);
    one.kmalloc(2000);
    assert_eq!(one.list_pages(), [0, 0, 1]);
}

#[test]
fn a_full_page_comes_back_on_the_list_of_what_is_freed() {
    let mut bench = Bench::new(Config::three_lists());
    let cache = bench.slob.create_cache(&CacheSpec {
        name: "blocks".into(),
        object_bytes: 256,
        align: 8,
        slot_bytes: None,
        flags: CacheFlags::default(),
    });
    let call = Call::default();
    let blocks: Vec<Obj> = (0..16)
        .map(|_| {
            bench
                .slob
                .cache_alloc(&mut bench.pages, cache, call)
                .unwrap()
        })
        .collect();
    // Full pages are on no list.
    assert_eq!(bench.list_pages(), [0, 0, 0]);
    bench.free(blocks[7]);
    assert_eq!(bench.list_pages(), [0, 1, 0]);
    // The page serves no small request.
    bench.kmalloc(8);
    assert_eq!(bench.list_pages(), [1, 1, 0]);
}

#[test]
fn the_page_of_the_last_hit_is_searched_first() {
    for (config, expected) in [
        (Config::three_lists(), [82, 32, 32]),
        (Config::three_lists().without_rotation(), [32, 82, 32]),
    ] {
        let mut bench = Bench::new(config);
        // Three pages of four blocks of 1,008 bytes, the newest first, each with 64 bytes left.
        let objs: Vec<Obj> = (0..12).map(|_| bench.kmalloc(1000)).collect();
        bench.free(objs[5]);
        let free_units = |bench: &Bench| bench.slob.list_pages(1).collect::<Vec<u16>>();
        assert_eq!(free_units(&bench), [32, 536, 32]);
        // 908 bytes fit into the second page only.
        bench.kmalloc(900);
        assert_eq!(free_units(&bench), expected);
    }
}

#[test]
fn rcu_objects_wait_for_a_grace_period() {
    let mut bench = Bench::new(Config::three_lists());
    let cache = bench.slob.create_cache(&CacheSpec {
        name: "sighand_cache".into(),
        object_bytes: 2072,
        align: 64,
        slot_bytes: None,
        flags: CacheFlags {
            rcu: true,
            ..CacheFlags::default()
        },
    });
    let obj = bench
        .slob
        .cache_alloc(&mut bench.pages, cache, Call::default())
        .unwrap();
    bench.free(obj);
    assert_eq!(
        (bench.slob.waiting(), bench.slob.usage().slab_pages),
        ((1, 1048), 1)
    );
    bench.slob.end_grace_period(&mut bench.pages, 0);
    assert_eq!(
        (bench.slob.waiting(), bench.slob.usage().slab_pages),
        ((0, 0), 0)
    );
    // Where no grace period shows, the oldest go in the end.
    for _ in 0..=WAITING_MAX {
        let obj = bench
            .slob
            .cache_alloc(&mut bench.pages, cache, Call::default())
            .unwrap();
        bench.free(obj);
    }
    assert_eq!(bench.slob.waiting().0, WAITING_MAX as u64);
}

#[test]
fn an_empty_page_goes_at_once() {
    let mut bench = Bench::new(Config::three_lists());
    let objs: Vec<Obj> = (0..100).map(|_| bench.kmalloc(100)).collect();
    for obj in objs {
        bench.free(obj);
    }
    assert_eq!(bench.slob.usage(), Usage::default());
    assert_eq!(
        (bench.list_pages(), bench.pages.allocated_pages()),
        ([0; 3], 0)
    );
}

#[test]
fn large_requests_are_pages() {
    let mut bench = Bench::new(Config::three_lists());
    bench.kmalloc(4087);
    assert_eq!(bench.slob.usage().large_pages, 0);
    bench.kmalloc(4088);
    bench.kmalloc(4097);
    assert_eq!(bench.slob.usage().large_pages, 3);
}

#[test]
fn rcu_takes_24_bytes_more() {
    let mut bench = Bench::new(Config::three_lists());
    let cache = bench.slob.create_cache(&CacheSpec {
        name: "anon_vma".into(),
        object_bytes: 88,
        align: 8,
        slot_bytes: None,
        flags: CacheFlags {
            rcu: true,
            ..CacheFlags::default()
        },
    });
    bench
        .slob
        .cache_alloc(&mut bench.pages, cache, Call::default())
        .unwrap();
    assert_eq!(bench.slob.usage().slot_bytes, 112);
}
