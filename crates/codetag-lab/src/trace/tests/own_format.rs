//! The lab's own format: what is written is read.

use super::{drain, read, read_bytes};
use crate::event::{
    Alloc, Event, Free, GfpFlags, Kind, KnownBy, Name, Names, Origin, Pages, Source,
};
use crate::trace::{Events, Synthetic, SyntheticSpec, Writer};
use std::io::Cursor;

fn written(events: &[Event], names: &Names) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory can be written");
    for event in events {
        writer.write(event, names).expect("memory can be written");
    }
    writer.finish().expect("memory can be written")
}

#[test]
fn the_text_is_as_documented() {
    let mut names = Names::new();
    let cache = names.intern("my cache-%");
    let site = names.intern("f+0x1/0x2");
    let object = Alloc {
        ptr: 0xffff_8880_0323_a000,
        origin: Origin::Cache {
            name: cache,
            known_by: KnownBy::Event,
        },
        bytes_req: 100,
        bytes_alloc: 104,
        call_site: site,
        flags: GfpFlags::ACCOUNT.with(GfpFlags::RECLAIMABLE),
    };
    let events = [
        (0, 0, Kind::Alloc(object)),
        (
            5,
            1,
            Kind::Alloc(Alloc {
                origin: Origin::Kmalloc,
                call_site: Name::OTHER,
                flags: GfpFlags::default(),
                ..object
            }),
        ),
        (
            5,
            1,
            Kind::Alloc(Alloc {
                origin: Origin::Kmalloc,
                call_site: Name::OTHER,
                flags: GfpFlags::DMA,
                ..object
            }),
        ),
        (
            6,
            1,
            Kind::Free(Free {
                ptr: object.ptr,
                cache: Some(cache),
                by_rcu: false,
            }),
        ),
        (
            6,
            1,
            Kind::Free(Free {
                ptr: 1,
                cache: None,
                by_rcu: true,
            }),
        ),
        (
            7,
            0,
            Kind::PageAlloc(Pages {
                pfn: 0x2be9,
                order: 3,
            }),
        ),
        (
            7,
            0,
            Kind::PageFree(Pages {
                pfn: 0x2be9,
                order: 3,
            }),
        ),
    ]
    .map(|(time_ns, cpu, kind)| Event { time_ns, cpu, kind });
    let text = written(&events, &names);
    assert_eq!(
        str::from_utf8(&text).expect("text"),
        "\
codetag-trace 1
alloc ffff88800323a000 100 104 my%20cache-%25 f+0x1/0x2 reclaimable,account
cpu 1
@5 kmalloc ffff88800323a000 100 104
kmalloc ffff88800323a000 100 104 - dma
@6 free ffff88800323a000 my%20cache-%25
free 1 - rcu
cpu 0
@7 pages 2be9 3
unpages 2be9 3
end
"
    );
    let (again, reader, result) = read_bytes(&text);
    result.expect("a trace");
    assert!(reader.is_own_format());
    assert_eq!(again.len(), events.len());
    let names_again = reader.names();
    assert_eq!(written(&again, names_again), text);
    for (event, again) in events.iter().zip(&again) {
        assert_eq!((event.time_ns, event.cpu), (again.time_ns, again.cpu));
    }
    assert_eq!(
        (reader.counts().malformed_lines, reader.counts().truncated),
        (0, false)
    );
}

#[test]
fn a_made_up_name_is_not_written() {
    let (events, reader) = read(
        "a-1 [000] d... 0.1: kmem_cache_alloc: call_site=f+0x1/0x2 ptr=10 bytes_req=8 bytes_alloc=8 gfp_flags=GFP_KERNEL\n",
    );
    let text = written(&events, reader.names());
    assert_eq!(
        str::from_utf8(&text).expect("text").lines().nth(1),
        Some("@100000000 alloc 10 8 8 - f+0x1/0x2")
    );
    let (again, _) = read(str::from_utf8(&text).expect("text"));
    assert!(matches!(
        again[0].kind,
        Kind::Alloc(Alloc {
            origin: Origin::Cache {
                known_by: KnownBy::Site,
                ..
            },
            ..
        })
    ));
}

#[test]
fn what_others_may_write_is_read() {
    let (events, reader) = read(
        "codetag-trace 1\r\n# a comment\n\n  kmalloc 0xAb 1 8\t-  \nfree ab\nfree 0\nlost 3\n@9 cpu 2\nunpages 5 0\nend\n# behind\n",
    );
    assert_eq!(events.len(), 3);
    assert_eq!(
        events[2],
        Event {
            time_ns: 9,
            cpu: 2,
            kind: Kind::PageFree(Pages { pfn: 5, order: 0 })
        }
    );
    let counts = reader.counts();
    assert_eq!(
        (
            counts.null_frees,
            counts.lost_events,
            counts.malformed_lines
        ),
        (1, 3, 0),
        "{:?}",
        reader.malformed()
    );
}

#[test]
fn each_fault_has_its_words() {
    for (line, message) in [
        ("alloc 10 8", "no size of the slot"),
        ("alloc 10 8 8", "no cache (`-` if unknown)"),
        ("alloc 0 8 8 c", "an object at address 0"),
        ("alloc xyz 8 8 c", "no hexadecimal address"),
        ("alloc 10 -8 8 c", "no requested size"),
        ("kmalloc 10 8 8 s new", "a flag that is not of this format"),
        (
            "kmalloc 10 8 8 s dma more",
            "more words than this kind of line has",
        ),
        ("kmalloc 10 1099511627777 8", "no requested size"),
        ("free", "no hexadecimal address"),
        ("pages 1", "no order"),
        ("pages 1 200", "an order that no kernel has"),
        ("pages ffffffffffffffff 1", "a pfn past the end of memory"),
        ("cpu 8192", "no number of a CPU below 8192"),
        ("@x free 1", "no time in nanoseconds behind @"),
        ("@1", "no word that a line of this format starts with"),
        ("freee 1", "no word that a line of this format starts with"),
    ] {
        let (events, reader) = read(&format!("codetag-trace 1\n{line}\nend\n"));
        assert_eq!(events, [], "{line}");
        assert_eq!(
            reader.malformed().map(ToString::to_string),
            Some(format!("line 2: {message}")),
            "{line}"
        );
    }
    let (_, reader) = read("codetag-trace 1\nend\nfree 1\n");
    assert_eq!(
        reader.malformed().map(ToString::to_string).as_deref(),
        Some("line 3: behind the line `end`")
    );
}

#[test]
fn made_up_traces_come_back_and_stay_below_their_bound() {
    let spec = SyntheticSpec {
        seed: 7,
        events: 50_000,
        live_objs_max: 1000,
        cpus: 3,
    };
    let mut source = Synthetic::new(spec);
    let (events, _) = drain(&mut source);
    assert_eq!(events.len(), 50_000);
    let mut live = std::collections::HashSet::new();
    let mut peak = 0;
    for event in &events {
        match event.kind {
            Kind::Alloc(alloc) => {
                assert!(live.insert(alloc.ptr), "{alloc:?} is live already");
                assert!(alloc.bytes_req <= alloc.bytes_alloc, "{alloc:?}");
            }
            Kind::Free(free) => assert!(live.remove(&free.ptr), "{free:?} is not live"),
            Kind::PageAlloc(_) | Kind::PageFree(_) => panic!("{event:?}"),
        }
        peak = peak.max(live.len());
        assert!(event.cpu < 3);
    }
    assert_eq!(peak, 1000);

    let text = written(&events, source.names());
    let mut reader = Events::new(Box::new(Cursor::new(text.clone())));
    let (again, result) = drain(&mut reader);
    result.expect("a trace");
    assert_eq!(written(&again, reader.names()), text);

    let (same, _) = drain(&mut Synthetic::new(spec));
    assert_eq!(same, events);
    let (other, _) = drain(&mut Synthetic::new(SyntheticSpec { seed: 8, ..spec }));
    assert_ne!(other, events);
}
