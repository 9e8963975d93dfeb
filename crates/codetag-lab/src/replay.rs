//! Runs a trace through a model.
//!
//! Addresses of the trace only say which free belongs to which allocation; where an object lies is the
//! model's affair. Memory grows with live objects.

use crate::event::{Alloc, Event, Free, GfpFlags, Kind, Names, Origin, Pages, ReadError, Source};
use crate::kernel::PAGE_SHIFT;
use crate::model::{CacheId, Call, Model, Obj};
use crate::page::{ORDERS, OutOfPages, PageAllocator, Pfn};
use crate::survey::Survey;
use rustc_hash::FxHashMap;

/// Which objects get a tag ref, in models that keep any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tagging {
    /// Objects allocated before so many events have passed get none: profiling that is enabled at run time.
    pub from_event: u64,
    /// Only objects that are charged to a memory cgroup get one.
    pub accounted_only: bool,
}

/// How to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which objects get a tag ref.
    pub tagging: Tagging,
    /// Also allocate the trace's pages that are no slabs, from the same arena: page tables, page cache, stacks.
    /// Slab pages are told apart by the objects in them, which needs [`Survey::page_offset`]; without it no
    /// pages of the trace are allocated.
    pub other_pages: bool,
}

/// What did not go as the trace says. All are counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// Events that were applied.
    pub events: u64,
    /// Objects allocated.
    pub allocs: u64,
    /// Objects freed.
    pub frees: u64,
    /// Frees of addresses that hold nothing: the object is older than the trace, or its allocation was lost.
    pub unmatched_frees: u64,
    /// Allocations at addresses that hold an object: its free was lost, and is made up for.
    pub missed_frees: u64,
    /// Allocations of no bytes.
    pub empty_allocs: u64,
    /// Allocations that failed for want of pages; their objects are left out.
    pub failed_allocs: u64,
    /// Page blocks that are no slabs, allocated.
    pub other_page_allocs: u64,
    /// Page blocks of the trace's own slabs, left out.
    pub slab_page_allocs: u64,
}

/// An allocation that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Which event of the trace it is, from 1.
    pub event: u64,
    /// Nanoseconds on the trace's clock.
    pub time_ns: u64,
    /// The cache, `kmalloc` or `pages`.
    pub what: String,
    /// The caller; empty for pages.
    pub call_site: String,
    /// Bytes asked for.
    pub bytes: u64,
    /// Order of the pages that were not there.
    pub order: u32,
    /// Free blocks of each order at that moment.
    pub free_blocks: [u32; ORDERS],
    /// Share of free pages that lie in blocks too small for [`order`](Self::order), 0 to 1.
    pub unusable_free_index: f64,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    obj: Obj,
    bytes: u64,
}

/// A model with the objects of a trace that are live in it.
#[derive(Debug)]
pub struct Replay<'s, M> {
    survey: &'s Survey,
    options: Options,
    model: M,
    pages: PageAllocator,
    /// By [`Name::index`](crate::event::Name::index).
    caches: Vec<Option<CacheId>>,
    live: FxHashMap<u64, Live>,
    live_bytes: u64,
    /// Blocks that are no slabs, by the first page frame in the trace.
    others: FxHashMap<u64, (Pfn, u8)>,
    other_pages: u64,
    /// A block of pages of which the next event will tell whether it is a slab.
    undecided: Option<(Event, Pages)>,
    counts: ReplayCounts,
    now_ns: u64,
    first_failure: Option<Failure>,
}

impl<'s, M: Model> Replay<'s, M> {
    /// A replay that has seen no event. `survey` is of the same trace.
    #[must_use]
    pub fn new(survey: &'s Survey, model: M, pages: PageAllocator, options: Options) -> Self {
        Self {
            survey,
            options,
            model,
            pages,
            caches: Vec::new(),
            live: FxHashMap::default(),
            live_bytes: 0,
            others: FxHashMap::default(),
            other_pages: 0,
            undecided: None,
            counts: ReplayCounts::default(),
            now_ns: 0,
            first_failure: None,
        }
    }

    /// Applies all events of `source`.
    ///
    /// # Errors
    ///
    /// If `source` cannot be read.
    pub fn run(&mut self, source: &mut dyn Source) -> Result<(), ReadError> {
        while let Some(event) = source.next_event()? {
            self.apply(&event, source.names());
        }
        self.finish();
        Ok(())
    }

    /// Applies one event. `names` are those of its source.
    pub fn apply(&mut self, event: &Event, names: &Names) {
        if let Some((asked, pages)) = self.undecided.take() {
            if self.is_slab(pages, event) {
                self.counts.slab_page_allocs += 1;
            } else {
                self.alloc_pages(&asked, pages);
            }
        }
        self.counts.events += 1;
        if event.time_ns > self.now_ns {
            self.now_ns = event.time_ns;
            self.model.pass_time(&mut self.pages, self.now_ns);
        }
        match event.kind {
            Kind::Alloc(alloc) => self.alloc(event, &alloc, names),
            Kind::Free(free) => self.free(event.cpu, free),
            Kind::PageAlloc(pages) => {
                if self.options.other_pages && self.survey.page_offset().is_some() {
                    self.undecided = Some((*event, pages));
                }
            }
            Kind::PageFree(pages) => self.free_pages(event.cpu, pages),
        }
    }

    /// To be called after the last event: pages that wait for what follows are decided on.
    pub fn finish(&mut self) {
        if let Some((asked, pages)) = self.undecided.take() {
            self.alloc_pages(&asked, pages);
        }
    }

    fn alloc(&mut self, event: &Event, alloc: &Alloc, names: &Names) {
        let bytes = if alloc.bytes_req > 0 {
            alloc.bytes_req
        } else {
            alloc.bytes_alloc
        };
        if bytes == 0 {
            self.counts.empty_allocs += 1;
            return;
        }
        if let Some(old) = self.live.remove(&alloc.ptr) {
            self.counts.missed_frees += 1;
            self.live_bytes -= old.bytes;
            self.model.free(&mut self.pages, old.obj, event.cpu);
        }
        if !self.others.is_empty() {
            self.take_back(alloc.ptr, event.cpu);
        }
        let call = Call {
            cpu: event.cpu,
            flags: alloc.flags,
            is_tagged: self.counts.events > self.options.tagging.from_event
                && (!self.options.tagging.accounted_only || alloc.flags.has(GfpFlags::ACCOUNT)),
        };
        let got = match alloc.origin {
            Origin::Kmalloc => self.model.kmalloc(&mut self.pages, bytes, call),
            Origin::Cache { name, .. } => {
                if self.caches.len() <= name.index() {
                    self.caches.resize(name.index() + 1, None);
                }
                let known = &mut self.caches[name.index()];
                let cache = match *known {
                    Some(cache) => cache,
                    None => {
                        *known.insert(self.model.create_cache(&self.survey.spec(names.get(name))))
                    }
                };
                self.model.cache_alloc(&mut self.pages, cache, call)
            }
        };
        match got {
            Ok(obj) => {
                self.counts.allocs += 1;
                self.live_bytes += bytes;
                self.live.insert(alloc.ptr, Live { obj, bytes });
            }
            Err(OutOfPages { order }) => {
                let what = match alloc.origin {
                    Origin::Kmalloc => "kmalloc",
                    Origin::Cache { name, .. } => names.get(name),
                };
                self.fail(event, what, names.get(alloc.call_site), bytes, order);
            }
        }
    }

    fn free(&mut self, cpu: u16, free: Free) {
        if free.by_rcu {
            self.model.end_grace_period(&mut self.pages, cpu);
        }
        match self.live.remove(&free.ptr) {
            Some(live) => {
                self.counts.frees += 1;
                self.live_bytes -= live.bytes;
                self.model.free(&mut self.pages, live.obj, cpu);
            }
            None => self.counts.unmatched_frees += 1,
        }
    }

    /// Whether the block was allocated for the object that `next` allocates.
    fn is_slab(&self, pages: Pages, next: &Event) -> bool {
        let Kind::Alloc(Alloc { ptr, .. }) = next.kind else {
            return false;
        };
        self.pfn_of(ptr).is_some_and(|pfn| {
            pfn.checked_sub(pages.pfn)
                .is_some_and(|page| page >> pages.order == 0)
        })
    }

    fn pfn_of(&self, ptr: u64) -> Option<u64> {
        Some(ptr.checked_sub(self.survey.page_offset()?)? >> PAGE_SHIFT)
    }

    /// An object lies in pages that were not taken for a slab: something came between the two events.
    fn take_back(&mut self, ptr: u64, cpu: u16) {
        let Some(pfn) = self.pfn_of(ptr) else { return };
        for order in 0..ORDERS as u8 {
            let first = pfn >> order << order;
            if self.others.get(&first).is_some_and(|&(_, of)| of >= order) {
                self.free_pages(cpu, Pages { pfn: first, order });
                self.counts.other_page_allocs -= 1;
                self.counts.slab_page_allocs += 1;
                return;
            }
        }
    }

    fn alloc_pages(&mut self, event: &Event, pages: Pages) {
        match self.pages.alloc(event.cpu, u32::from(pages.order)) {
            Ok(pfn) => {
                self.counts.other_page_allocs += 1;
                self.other_pages += 1 << pages.order;
                if let Some((old, order)) = self.others.insert(pages.pfn, (pfn, pages.order)) {
                    self.counts.missed_frees += 1;
                    self.other_pages -= 1 << order;
                    self.pages.free(event.cpu, old);
                }
            }
            Err(OutOfPages { order }) => self.fail(
                event,
                "pages",
                "",
                1 << (u32::from(pages.order) + PAGE_SHIFT),
                order,
            ),
        }
    }

    /// Pages that are unknown are those of slabs, or older than the trace.
    fn free_pages(&mut self, cpu: u16, pages: Pages) {
        if let Some((pfn, order)) = self.others.remove(&pages.pfn) {
            self.other_pages -= 1 << order;
            self.pages.free(cpu, pfn);
        }
    }

    fn fail(&mut self, event: &Event, what: &str, call_site: &str, bytes: u64, order: u32) {
        self.counts.failed_allocs += 1;
        if self.first_failure.is_none() {
            self.first_failure = Some(Failure {
                event: self.counts.events,
                time_ns: event.time_ns,
                what: what.to_owned(),
                call_site: call_site.to_owned(),
                bytes,
                order,
                free_blocks: self.pages.free_blocks(),
                unusable_free_index: self.pages.unusable_free_index(order),
            });
        }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The pages that it allocates from.
    #[must_use]
    pub fn pages(&self) -> &PageAllocator {
        &self.pages
    }

    /// Shrinks the model as a kernel that is short of memory does.
    pub fn shrink(&mut self) {
        self.model.shrink(&mut self.pages);
    }

    /// What did not go as the trace says.
    #[must_use]
    pub fn counts(&self) -> ReplayCounts {
        self.counts
    }

    /// The first allocation that failed.
    #[must_use]
    pub fn first_failure(&self) -> Option<&Failure> {
        self.first_failure.as_ref()
    }

    /// Live objects, those that are whole pages included.
    #[must_use]
    pub fn live_objs(&self) -> u64 {
        self.live.len() as u64
    }

    /// Bytes requested for them.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Pages of the trace that are no slabs and are allocated now.
    #[must_use]
    pub fn other_pages(&self) -> u64 {
        self.other_pages
    }

    /// Pages of the allocator now.
    #[must_use]
    pub fn allocator_pages(&self) -> u64 {
        self.pages.allocated_pages() - self.other_pages
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::allocator::{Allocator, Refs};
    use crate::event::{KnownBy, Name, ReadCounts};
    use crate::slub::{Config, Slub};

    /// A trace made by hand.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Script {
        names: Names,
        events: Vec<Event>,
        read: usize,
    }

    impl Script {
        fn push(&mut self, kind: Kind) {
            self.events.push(Event {
                time_ns: 0,
                cpu: 0,
                kind,
            });
        }

        pub(crate) fn kmalloc(&mut self, ptr: u64, bytes: u64) {
            let call_site = self.names.intern("caller");
            self.push(Kind::Alloc(Alloc {
                ptr,
                origin: Origin::Kmalloc,
                bytes_req: bytes,
                bytes_alloc: bytes,
                call_site,
                flags: GfpFlags::default(),
            }));
        }

        fn cache_alloc(&mut self, ptr: u64, cache: &str, bytes: u64) {
            let name = self.names.intern(cache);
            self.push(Kind::Alloc(Alloc {
                ptr,
                origin: Origin::Cache {
                    name,
                    known_by: KnownBy::Event,
                },
                bytes_req: bytes,
                bytes_alloc: bytes,
                call_site: Name::OTHER,
                flags: GfpFlags::default(),
            }));
        }

        pub(crate) fn free(&mut self, ptr: u64) {
            self.push(Kind::Free(Free {
                ptr,
                cache: None,
                by_rcu: false,
            }));
        }

        /// The trace from its first event on.
        pub(crate) fn source(&self) -> Self {
            Self {
                read: 0,
                ..self.clone()
            }
        }
    }

    impl Source for Script {
        fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
            self.read += 1;
            Ok(self.events.get(self.read - 1).copied())
        }

        fn names(&self) -> &Names {
            &self.names
        }

        fn counts(&self) -> ReadCounts {
            ReadCounts {
                events: self.events.len() as u64,
                ..ReadCounts::default()
            }
        }
    }

    fn replay(script: &Script, options: Options, check: impl FnOnce(&Replay<'_, Slub>)) {
        let survey = Survey::of(&mut script.source()).unwrap();
        let model = Slub::new(Config::slub(1));
        let mut replay = Replay::new(&survey, model, PageAllocator::unlimited(), options);
        replay.run(&mut script.source()).unwrap();
        check(&replay);
    }

    #[test]
    fn frees_and_allocations_that_do_not_match_are_counted() {
        let mut script = Script::default();
        script.kmalloc(1, 100);
        script.kmalloc(1, 200);
        script.free(7);
        script.kmalloc(2, 0);
        script.kmalloc(3, 50);
        script.free(3);
        replay(&script, Options::default(), |replay| {
            let expected = ReplayCounts {
                events: 6,
                allocs: 3,
                frees: 1,
                unmatched_frees: 1,
                missed_frees: 1,
                empty_allocs: 1,
                ..ReplayCounts::default()
            };
            assert_eq!(replay.counts(), expected);
            assert_eq!((replay.live_objs(), replay.live_bytes()), (1, 200));
        });
    }

    #[test]
    fn pages_with_objects_in_them_are_slabs() {
        const BASE: u64 = 0xffff_8880_0000_0000;
        let mut script = Script::default();
        let page = |pfn, order| Pages { pfn, order };
        // Four slabs, by which the direct mapping is found; the page between is a page table's.
        for pfn in 10..14 {
            script.push(Kind::PageAlloc(page(pfn, 0)));
            script.cache_alloc(BASE + pfn * 4096, "dentry", 192);
            if pfn == 12 {
                script.push(Kind::PageAlloc(page(100, 2)));
                script.kmalloc(BASE + 13 * 4096 + 192, 192);
            }
        }
        // An interrupt between a slab's pages and its first object.
        script.push(Kind::PageAlloc(page(20, 1)));
        script.push(Kind::PageAlloc(page(30, 0)));
        script.cache_alloc(BASE + 21 * 4096, "dentry", 192);
        let options = Options {
            other_pages: true,
            ..Options::default()
        };
        replay(&script, options, |replay| {
            // Blocks 100 and 30 remain.
            assert_eq!(replay.other_pages(), 5);
            assert_eq!(
                (
                    replay.counts().other_page_allocs,
                    replay.counts().slab_page_allocs
                ),
                (2, 5)
            );
            assert_eq!(replay.allocator_pages(), replay.model().usage().pages());
        });
        script.push(Kind::PageFree(page(100, 2)));
        script.push(Kind::PageFree(page(10, 0)));
        replay(&script, options, |replay| {
            assert_eq!(replay.other_pages(), 1);
        });
        replay(&script, Options::default(), |replay| {
            assert_eq!(replay.other_pages(), 0);
        });
    }

    #[test]
    fn the_first_failure_is_kept() {
        let mut script = Script::default();
        for ptr in 1..5 {
            script.kmalloc(ptr, 4096);
        }
        let survey = Survey::of(&mut script.source()).unwrap();
        let allocator: Allocator = "slob".parse().unwrap();
        let model = allocator.build(1, Refs::default());
        let mut replay = Replay::new(
            &survey,
            model,
            PageAllocator::with_arena(2),
            Options::default(),
        );
        replay.run(&mut script.source()).unwrap();
        let failure = replay.first_failure().unwrap();
        assert_eq!((failure.event, failure.bytes, failure.order), (3, 4096, 0));
        assert_eq!(failure.call_site, "caller");
        assert_eq!(replay.counts().failed_allocs, 2);
    }
}
