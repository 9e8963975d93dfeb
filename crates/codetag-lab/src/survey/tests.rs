use super::*;
use crate::event::{Free, GfpFlags};

/// Events in a row, with names.
#[derive(Default)]
struct Events {
    names: Names,
    kinds: std::collections::VecDeque<Kind>,
}

impl Events {
    fn cache(&mut self, name: &str, ptr: u64, bytes_req: u64, bytes_alloc: u64) {
        let name = self.names.intern(name);
        let known_by = KnownBy::Event;
        self.alloc(
            Origin::Cache { name, known_by },
            ptr,
            bytes_req,
            bytes_alloc,
        );
    }

    fn alloc(&mut self, origin: Origin, ptr: u64, bytes_req: u64, bytes_alloc: u64) {
        self.kinds.push_back(Kind::Alloc(Alloc {
            ptr,
            origin,
            bytes_req,
            bytes_alloc,
            call_site: Name::OTHER,
            flags: GfpFlags::default(),
        }));
    }

    fn survey(mut self) -> Survey {
        Survey::of(&mut self).unwrap()
    }
}

impl Source for Events {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        Ok(self.kinds.pop_front().map(|kind| Event {
            time_ns: 0,
            cpu: 2,
            kind,
        }))
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn counts(&self) -> ReadCounts {
        ReadCounts::default()
    }
}

fn kmallocs(pairs: &[(u64, u64)]) -> Events {
    let mut events = Events::default();
    for (index, &(bytes_req, bytes_alloc)) in pairs.iter().enumerate() {
        events.alloc(Origin::Kmalloc, 1 + index as u64, bytes_req, bytes_alloc);
    }
    events
}

#[test]
fn what_kmalloc_took_tells_the_allocator() {
    assert_eq!(
        kmallocs(&[(5, 8), (100, 128), (90, 96)]).survey().traced(),
        Traced::Slub
    );
    assert_eq!(
        kmallocs(&[(5, 32), (100, 128), (90, 128)])
            .survey()
            .traced(),
        Traced::Slab
    );
    assert_eq!(
        kmallocs(&[(5, 13), (100, 108), (90, 98)]).survey().traced(),
        Traced::Slob
    );
    assert_eq!(
        kmallocs(&[(5, 5), (100, 100), (90, 90)]).survey().traced(),
        Traced::Unknown
    );
    assert_eq!(kmallocs(&[]).survey().traced(), Traced::Unknown);
    assert_eq!(kmallocs(&[(5, 8)]).survey().cpus(), 3);
}

#[test]
fn addresses_tell_the_alignment_in_slob() {
    let mut events = kmallocs(&[(5, 13)]);
    for index in 0..4_u64 {
        events.cache("of a line", 0x1_0000 + index * 192, 136, 136);
        events.cache("of a pointer", 0x2_0008 + index * 136, 136, 136);
        events.cache("of its size", 0x4_0000 + index * 256, 256, 256);
        events.cache("anon_vma", 0x8_0008 + index * 112, 88, 112);
        events.cache("early", 0x9_0000 + index * 64, 0, 64);
    }
    let survey = events.survey();
    let align = |name| survey.spec(name).align;
    assert_eq!(
        [
            align("of a line"),
            align("of a pointer"),
            align("of its size")
        ],
        [64, 8, 256]
    );
    assert!(survey.spec("anon_vma").flags.rcu);
    assert_eq!(survey.spec("early").object_bytes, 64);
    assert_eq!(survey.spec("of a line").slot_bytes, None);
    let inferred = survey.inferred();
    assert_eq!(
        (
            inferred.cache_allocs,
            inferred.size_from_slot,
            inferred.align_from_address
        ),
        (20, 4, 20)
    );
    assert_eq!(inferred.unknown_flags, 16);
}

#[test]
fn a_trace_of_slub_has_the_slots() {
    let mut events = kmallocs(&[(5, 8)]);
    events.cache("padded", 0x1000, 136, 192);
    events.cache("dentry", 0x2000, 192, 192);
    let survey = events.survey();
    let padded = survey.spec("padded");
    assert_eq!(
        (padded.object_bytes, padded.slot_bytes, padded.align),
        (136, Some(192), 64)
    );
    let dentry = survey.spec("dentry");
    assert_eq!(
        (dentry.align, dentry.flags.reclaim, dentry.flags.no_merge),
        (8, true, true)
    );
}

#[test]
fn pages_and_their_objects_tell_the_direct_mapping() {
    const BASE: u64 = 0xffff_8880_0000_0000;
    let page = |pfn| Kind::PageAlloc(Pages { pfn, order: 0 });
    let mut events = Events::default();
    // A buffer's pages and the objects that describe them, which lie elsewhere.
    for index in 0..200 {
        events.kinds.push_back(page(1000 + index));
        events.alloc(Origin::Kmalloc, BASE + 0x5_0000 + index * 64, 56, 64);
    }
    for pfn in 10..13 {
        events.kinds.push_back(page(pfn));
        events.cache("dentry", BASE + pfn * 4096 + 0x80, 192, 192);
        events.kinds.push_back(Kind::Free(Free {
            ptr: 1,
            cache: None,
            by_rcu: false,
        }));
    }
    let survey = events.survey();
    assert_eq!(survey.page_offset(), Some(BASE));
    assert_eq!(survey.page_allocs(), 203);
}
