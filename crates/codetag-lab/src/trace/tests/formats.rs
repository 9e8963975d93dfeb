//! Lines as kernels and tools of different versions write them.

use super::read;
use crate::event::{Alloc, Event, Free, GfpFlags, Kind, KnownBy, Origin, Pages, Source};

/// The one event of a line.
fn event(line: &str) -> (Event, super::Events) {
    let (events, reader) = read(&format!("{line}\n"));
    assert_eq!(events.len(), 1, "{line}: {:?}", reader.malformed());
    (events[0], reader)
}

fn alloc(line: &str) -> (Alloc, u64, u16, super::Events) {
    let (event, reader) = event(line);
    let Kind::Alloc(alloc) = event.kind else {
        panic!("{line}: {event:?}")
    };
    (alloc, event.time_ns, event.cpu, reader)
}

#[test]
fn allocations_of_all_kernels_are_the_same_event() {
    let expected = |alloc: &Alloc| (alloc.ptr, alloc.bytes_req, alloc.bytes_alloc);
    let cases = [
        // 2.6.3x: two digits of CPU, no flags, an address as the call site, flags without underscores.
        (
            "    bash-4251  [03] 10152.583854: kmalloc: call_site=ffffffff8110a5c4 ptr=ffff88007a9f2c00 bytes_req=40 bytes_alloc=64 gfp_flags=GFP_KERNEL|GFP_ZERO",
            "ffffffff8110a5c4",
        ),
        // 4.x.
        (
            "    <...>-39771 [003] .... 10152.583854: kmalloc: call_site=ffffffff8110a5c4 ptr=ffff88007a9f2c00 bytes_req=40 bytes_alloc=64 gfp_flags=GFP_KERNEL|__GFP_ZERO",
            "ffffffff8110a5c4",
        ),
        // 5.4 to 6.0, on a node.
        (
            "    bash-4251    [003] ..... 10152.583854: kmalloc_node: call_site=__d_alloc+0x56/0x16f ptr=ffff88007a9f2c00 bytes_req=40 bytes_alloc=64 gfp_flags=GFP_KERNEL node=1",
            "__d_alloc+0x56/0x16f",
        ),
        // 6.1, from a module, with the thread group.
        (
            "    bash-4251    (   4251) [003] d..2. 10152.583854: kmalloc: call_site=ext4_find_extent+0x2e8/0x350 [ext4] ptr=ffff88007a9f2c00 bytes_req=40 bytes_alloc=64 gfp_flags=GFP_NOFS|__GFP_ZERO node=-1 accounted=false",
            "ext4_find_extent+0x2e8/0x350",
        ),
        // trace-cmd report: wide column, resolved symbol in front, 0x.
        (
            "            bash-4251  [003] 10152.583854: kmalloc:              (__d_alloc+0x56) call_site=ffffffff8110a5c4 ptr=0xffff88007a9f2c00 bytes_req=40 bytes_alloc=64 gfp_flags=GFP_KERNEL",
            "__d_alloc+0x56",
        ),
        // perf script.
        (
            "bash  4251 [003] 10152.583854: kmem:kmalloc: call_site=0xffffffff8110a5c4 ptr=0xffff88007a9f2c00 bytes_req=40 bytes_alloc=64 gfp_flags=GFP_KERNEL",
            "0xffffffff8110a5c4",
        ),
        // A comm with spaces, colons and brackets; dumped on a serial console.
        (
            "[   12.345678]   a: b [7] c-9  [003] d..1. 10152.583854: kmalloc: call_site=f+0x1/0x2 ptr=ffff88007a9f2c00 bytes_req=40 bytes_alloc=64 gfp_flags=0x80cc0\r",
            "f+0x1/0x2",
        ),
    ];
    for (line, site) in cases {
        let (alloc, time_ns, cpu, reader) = alloc(line);
        assert_eq!(expected(&alloc), (0xffff_8800_7a9f_2c00, 40, 64), "{line}");
        assert_eq!((time_ns, cpu), (10_152_583_854_000, 3), "{line}");
        assert_eq!(alloc.origin, Origin::Kmalloc, "{line}");
        assert_eq!(reader.names().get(alloc.call_site), site, "{line}");
        assert_eq!(alloc.flags, GfpFlags::default(), "{line}");
    }
}

#[test]
fn a_cache_s_name_is_the_rest_of_the_line() {
    let (alloc, _, _, reader) = alloc(
        "init-1 [000] ..... 0.796028: kmem_cache_alloc: call_site=f+0x1/0x2 ptr=ffff888003006e40 bytes_req=192 bytes_alloc=192 gfp_flags=GFP_KERNEL node=-1 accounted=true name=dentry(7:a group)",
    );
    let Origin::Cache { name, known_by } = alloc.origin else {
        panic!("{alloc:?}")
    };
    assert_eq!(reader.names().get(name), "dentry(7:a group)");
    assert_eq!(known_by, KnownBy::Event);
    assert_eq!(alloc.flags, GfpFlags::ACCOUNT);

    let (event, reader) = event(
        "init-1 [000] ..... 1.336130: kmem_cache_free: call_site=f+0x1/0x2 ptr=00000000a0b1c2d3 name=names_cache",
    );
    let Kind::Free(free) = event.kind else {
        panic!("{event:?}")
    };
    assert_eq!(free.ptr, 0xa0b1_c2d3);
    assert_eq!(
        free.cache.map(|name| reader.names().get(name)),
        Some("names_cache")
    );
}

#[test]
fn flags_are_words_of_any_version_or_bits() {
    let flags = |text: &str| {
        alloc(&format!(
            "1.0: kmalloc: call_site=1 ptr=2 bytes_req=3 bytes_alloc=8 gfp_flags={text}"
        ))
        .0
        .flags
    };
    assert_eq!(
        flags("GFP_KERNEL_ACCOUNT|__GFP_RECLAIMABLE"),
        GfpFlags::ACCOUNT.with(GfpFlags::RECLAIMABLE)
    );
    assert_eq!(flags("GFP_TEMPORARY"), GfpFlags::RECLAIMABLE);
    assert_eq!(flags("GFP_NOFS|GFP_RECLAIMABLE"), GfpFlags::RECLAIMABLE);
    assert_eq!(
        flags("__GFP_DMA|__GFP_NOFAIL"),
        GfpFlags::DMA.with(GfpFlags::NOFAIL)
    );
    assert_eq!(
        flags("0x400cd0"),
        GfpFlags::ACCOUNT.with(GfpFlags::RECLAIMABLE)
    );
    assert_eq!(flags("0"), GfpFlags::default());
}

#[test]
fn pages_have_numbers_in_both_bases() {
    let pages = |line: &str| event(line).0.kind;
    let expected = Pages {
        pfn: 0x2be9,
        order: 3,
    };
    assert_eq!(
        pages(
            "a-1 [000] d.... 0.068322: mm_page_alloc: page=ffff888007aafa40 pfn=0x2be9 order=3 migratetype=0 gfp_flags=GFP_KERNEL"
        ),
        Kind::PageAlloc(expected)
    );
    assert_eq!(
        pages(
            "a-1 [000] d... 0.068322: mm_page_alloc: page=ffffea0003db9f40 pfn=11241 order=3 migratetype=0 nr_free=3650 gfp_flags=GFP_KERNEL"
        ),
        Kind::PageAlloc(expected)
    );
    assert_eq!(
        pages("a-1 [000] d.... 0.068322: mm_page_free: page=ffff888007aafa40 pfn=0x2be9 order=3"),
        Kind::PageFree(expected)
    );
    assert_eq!(
        pages(
            "a-1 [000] 4415.246466: mm_page_free_direct: page=ffffea0003db9f40 pfn=11241 order=3"
        ),
        Kind::PageFree(expected)
    );
}

#[test]
fn what_is_no_allocation_is_skipped() {
    let text = "\
a-1 [000] d.... 0.1: mm_page_alloc: page=0000000000000000 pfn=0x0 order=9 migratetype=1 gfp_flags=GFP_KERNEL
a-1 [000] d.... 0.1: mm_page_alloc: page=0000000000000000 pfn=0xffffffffffffffff order=9 migratetype=1 gfp_flags=GFP_KERNEL
a-1 [000] d.... 0.2: kmalloc: call_site=f+0x1/0x2 ptr=0000000000000000 bytes_req=40 bytes_alloc=64 gfp_flags=GFP_KERNEL node=-1 accounted=false
a-1 [000] d.... 0.3: kfree: call_site=f+0x1/0x2 ptr=          (null)
a-1 [000] d.... 0.3: kfree: call_site=f+0x1/0x2 ptr=0000000000000000
a-1 [000] d.... 0.4: mm_page_free_batched: page=ffff888007aafa40 pfn=0x2be9 order=0
a-1 [000] d.... 0.5: sched_switch: prev_comm=a prev_pid=1 ptr=5 ==> next_comm=b
a-1 [000] d.... 0.6: do_it <-caller
";
    let (events, reader) = read(text);
    assert_eq!(events, []);
    let counts = reader.counts();
    assert_eq!(
        (
            counts.null_frees,
            counts.skipped_lines,
            counts.malformed_lines
        ),
        (2, 6, 0)
    );
}

#[test]
fn headers_markers_and_stacks_are_no_faults() {
    let text = "\
version = 6
cpus=2
CPU 1 is empty
# tracer: nop
#
# entries-in-buffer/entries-written: 2/9   #P:2
##### CPU 1 buffer started ####
CPU:1 [LOST 5 EVENTS]
CPU:0 [3 EVENTS DROPPED]
CPU:0 [EVENTS DROPPED]
 a-1 [001] d.... 0.1: kfree: call_site=f+0x1/0x2 ptr=00000000000000aa
 a-1 [001] d.... 0.1: <stack trace>
 => kfree
 => do_it
 a-1 [000] d.... 0.2: kfree: call_site=f+0x1/0x2 ptr=00000000000000bb
---------------------------------
";
    let (events, reader) = read(text);
    let free = |time_ns, cpu, ptr| Event {
        time_ns,
        cpu,
        kind: Kind::Free(Free {
            ptr,
            cache: None,
            by_rcu: false,
        }),
    };
    assert_eq!(
        events,
        [free(100_000_000, 1, 0xaa), free(200_000_000, 0, 0xbb)]
    );
    let counts = reader.counts();
    assert_eq!(
        (counts.lost_events, counts.malformed_lines),
        (7 + 5 + 3 + 1, 0),
        "{:?}",
        reader.malformed()
    );
    assert!(!counts.truncated);
}

#[test]
fn the_early_part_has_numbers_and_no_time() {
    let text = "\
# entries 5 lost 2
0 mm_page_free: pfn=0x100 order=8
1 kmem_cache_alloc: call_site=create_boot_cache+0x55/0x78 ptr=ffff888000140000 bytes_req=0 bytes_alloc=64 gfp_flags=GFP_NOWAIT name=kmem_cache_node
4 kfree: call_site=f+0x1/0x2 ptr=ffff888000140000
5 kfree: call_site=f+0x1/0x2 ptr=ffff888000140040
6 kfree: call_site=f+0x1/0x2 ptr=ffff888000140080
@@EARLY_END
# tracer: nop
# entries-in-buffer/entries-written: 1/1   #P:1
 <idle>-0 [000] d.... 0.067382: kfree: call_site=f+0x1/0x2 ptr=ffff888000140080
@@TRACE_END
";
    let (events, reader) = read(text);
    let times: Vec<u64> = events.iter().map(|event| event.time_ns).collect();
    assert_eq!(times, [0, 0, 0, 0, 0, 67_382_000]);
    assert_eq!(
        events[0].kind,
        Kind::PageFree(Pages {
            pfn: 0x100,
            order: 8
        })
    );
    // Two by the header, two by the jump from 1 to 4.
    assert_eq!(reader.counts().lost_events, 4);
    assert!(!reader.counts().truncated, "{:?}", reader.truncated());
}

#[test]
fn hidden_pointers_are_named_as_the_fault() {
    let (_, reader) = read(
        "a-1 [000] d... 0.1: kfree: call_site=1 ptr=(____ptrval____)\na-1 [000] d... 0.1: kfree: call_site=1 ptr=1\n",
    );
    assert_eq!(
        reader.malformed().map(ToString::to_string).as_deref(),
        Some("line 1: a hidden pointer: boot the kernel with no_hash_pointers")
    );
}
