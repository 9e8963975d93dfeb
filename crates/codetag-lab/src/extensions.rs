//! What tagging every allocation costs in memory, on each allocator.
//!
//! Sizes of the kernel (`struct slabobj_ext`, `struct alloc_tag`, `struct alloc_tag_counters`, page_ext; 6.12) and
//! of what could stand in their place: 4-byte refs, as this project's runtime keeps, and 2-byte ids, as the kernel
//! since 6.13 keeps for pages.

use crate::allocator::{Allocator, Refs};
use crate::event::{Event, Kind, Names};
use crate::model::{Model, Usage};
use crate::page::PageAllocator;
use crate::replay::{Options, Replay, Tagging};
use crate::survey::Survey;

/// Bytes of a ref: a pointer, a ref, an id.
pub const REF_BYTES: [u32; 3] = [8, 4, 2];

/// `struct alloc_tag`: 32 of the code tag and a pointer to its counters.
pub const TAG_BYTES: u64 = 40;

/// `struct alloc_tag_counters`, per tag and CPU: bytes and calls.
pub const COUNTER_BYTES: u64 = 16;

/// An allocator with one way to keep refs, or without any.
#[derive(Debug)]
struct Run<'s> {
    allocator: String,
    refs: Refs,
    replay: Replay<'s, Box<dyn Model>>,
}

/// Replays a trace on allocators with and without refs, all at the same time.
#[derive(Debug)]
pub struct Extensions<'s> {
    survey: &'s Survey,
    runs: Vec<Run<'s>>,
    /// By [`Name::index`](crate::event::Name::index).
    is_site: Vec<bool>,
    sites: u64,
}

/// What one way of keeping refs takes on one allocator, at the end of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabCost {
    /// The allocator.
    pub allocator: String,
    /// Bytes of a ref.
    pub ref_bytes: u32,
    /// Whether a slab's vector comes with the slab; else with its first tagged object. SLOB has none: each block has
    /// its ref with it.
    pub eager: bool,
    /// Vectors.
    pub vectors: u64,
    /// Their bytes as asked for; with SLOB bytes of refs.
    pub vector_bytes: u64,
    /// Pages of the allocator without refs, and with them.
    pub pages: (u64, u64),
    /// Live objects in slabs.
    pub objs: u64,
    /// Tagged objects that got no vector.
    pub failures: u64,
}

/// What tagging takes besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherCosts {
    /// Call sites that allocate in the trace: each would be a tag.
    pub tags: u64,
    /// CPUs of the trace.
    pub cpus: u64,
    /// Bytes of tags.
    pub tag_bytes: u64,
    /// Bytes of counters of these tags on these CPUs.
    pub counter_bytes: u64,
}

/// Bytes of refs for pages: one for every page of a machine, as in page_ext.
#[must_use]
pub fn page_ref_bytes(machine_pages: u64, ref_bytes: u32) -> u64 {
    machine_pages * u64::from(ref_bytes)
}

/// Bytes of tags and counters for so many tags and CPUs.
#[must_use]
pub fn tag_and_counter_bytes(tags: u64, cpus: u64) -> (u64, u64) {
    (tags * TAG_BYTES, tags * cpus * COUNTER_BYTES)
}

impl<'s> Extensions<'s> {
    /// Ready for the first event. Each allocator is run without refs and with each size of [`REF_BYTES`], lazily
    /// and, if `eager` is set, eagerly as well.
    #[must_use]
    pub fn new(
        survey: &'s Survey,
        allocators: &[Allocator],
        tagging: Tagging,
        eager: bool,
    ) -> Self {
        let ways = if eager { &[false, true][..] } else { &[false] };
        let refs = std::iter::once(Refs::default()).chain(
            ways.iter()
                .flat_map(|&eager| REF_BYTES.map(|bytes| Refs { bytes, eager })),
        );
        let runs = allocators.iter().flat_map(|allocator| {
            refs.clone().map(move |refs| {
                let options = Options {
                    tagging,
                    other_pages: false,
                };
                let model = allocator.build(survey.cpus(), refs);
                Run {
                    allocator: allocator.to_string(),
                    refs,
                    replay: Replay::new(survey, model, PageAllocator::unlimited(), options),
                }
            })
        });
        Self {
            survey,
            runs: runs.collect(),
            is_site: Vec::new(),
            sites: 0,
        }
    }

    /// Applies one event to all.
    pub fn apply(&mut self, event: &Event, names: &Names) {
        if let Kind::Alloc(alloc) = event.kind {
            let site = alloc.call_site.index();
            if self.is_site.len() <= site {
                self.is_site.resize(site + 1, false);
            }
            self.sites += u64::from(!std::mem::replace(&mut self.is_site[site], true));
        }
        for run in &mut self.runs {
            run.replay.apply(event, names);
        }
    }

    /// The costs after the last event, in the order of the allocators.
    #[must_use]
    pub fn costs(&self) -> Vec<SlabCost> {
        let mut pages_without = 0;
        let mut costs = Vec::new();
        for run in &self.runs {
            let Usage {
                slab_objs,
                ext_vectors,
                ext_bytes,
                ext_failures,
                ..
            } = run.replay.model().usage();
            let pages = run.replay.allocator_pages();
            if run.refs.bytes == 0 {
                pages_without = pages;
                continue;
            }
            costs.push(SlabCost {
                allocator: run.allocator.clone(),
                ref_bytes: run.refs.bytes,
                eager: run.refs.eager,
                vectors: ext_vectors,
                vector_bytes: ext_bytes,
                pages: (pages_without, pages),
                objs: slab_objs,
                failures: ext_failures,
            });
        }
        costs
    }

    /// What does not depend on the allocator.
    #[must_use]
    pub fn others(&self) -> OtherCosts {
        let cpus = u64::from(self.survey.cpus());
        let (tag_bytes, counter_bytes) = tag_and_counter_bytes(self.sites, cpus);
        OtherCosts {
            tags: self.sites,
            cpus,
            tag_bytes,
            counter_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Source;
    use crate::replay::tests::Script;

    #[test]
    fn published_sizes() {
        // 128 GiB of pages: the 262,144 kB of page_ext that the kernel's list saw.
        assert_eq!(page_ref_bytes(128 << 18, 8), 262_144 << 10);
        // 955 tags of a kernel of ours: 38,200 bytes of alloc_tags, 15,280 of counters on one CPU.
        assert_eq!(tag_and_counter_bytes(955, 1), (38_200, 15_280));
    }

    fn costs(tagging: Tagging, eager: bool) -> (Vec<SlabCost>, OtherCosts) {
        let mut script = Script::default();
        for ptr in 1..=640 {
            script.kmalloc(ptr, 64);
        }
        let survey = Survey::of(&mut script.source()).unwrap();
        let allocators = ["slub", "slob"].map(|name| name.parse().unwrap());
        let mut extensions = Extensions::new(&survey, &allocators, tagging, eager);
        let mut source = script.source();
        while let Some(event) = source.next_event().unwrap() {
            extensions.apply(&event, source.names());
        }
        (extensions.costs(), extensions.others())
    }

    #[test]
    fn a_vector_per_slab_or_a_ref_per_block() {
        let (costs, others) = costs(Tagging::default(), false);
        let slub: Vec<_> = costs
            .iter()
            .filter(|cost| cost.allocator == "slub")
            .collect();
        // Ten slabs of 64 slots; vectors of 512, 256 and 128 bytes come 8, 16 and 32 to a page.
        let figures: Vec<_> = slub
            .iter()
            .map(|cost| (cost.ref_bytes, cost.vectors, cost.vector_bytes, cost.pages))
            .collect();
        assert_eq!(
            figures,
            [
                (8, 10, 5120, (10, 12)),
                (4, 10, 2560, (10, 11)),
                (2, 10, 1280, (10, 11))
            ]
        );
        let slob = costs.iter().find(|cost| cost.allocator == "slob").unwrap();
        // A header of 16 instead of 8 before each multiple of 64: the holes take it.
        assert_eq!(
            (slob.vectors, slob.vector_bytes, slob.pages),
            (0, 5120, (20, 20))
        );
        assert_eq!(
            (others.tags, others.tag_bytes, others.counter_bytes),
            (1, 40, 16)
        );
    }

    #[test]
    fn profiling_enabled_late_makes_vectors_late() {
        let late = Tagging {
            from_event: 320,
            accounted_only: false,
        };
        let (costs, _) = costs(late, true);
        let of = |eager| {
            costs
                .iter()
                .find(|cost| cost.allocator == "slub" && cost.ref_bytes == 8 && cost.eager == eager)
                .unwrap()
        };
        assert_eq!((of(false).vectors, of(true).vectors), (5, 10));
    }
}
