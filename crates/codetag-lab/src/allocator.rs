//! Allocators by name, as a command line gives them.

use crate::model::Model;
use crate::slab::{self, Slab};
use crate::slob::{self, Slob};
use crate::slub::{self, CpuPartial, DebugFlags, Path, Slub};
use std::fmt;
use std::str::FromStr;

/// How an allocator keeps tag refs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// Bytes per slot, 0 for none.
    pub bytes: u32,
    /// With every slab; else with a slab's first tagged object.
    pub eager: bool,
}

/// An allocator with its options: a base and words, joined by `-`.
///
/// | base | words |
/// |---|---|
/// | `slob` | `2list`, `1list`, `norotate` |
/// | `slab` | `nomerge`, `small` (32 MiB or less: order 0) |
/// | `slub` | `nomerge`, `order0` … `order10`, `debug`, `nocpuslab`, `nocpupartial`, `estimate`, `memcg` |
/// | `tiny` | `nomerge`, `order0` … `order10` |
///
/// ```
/// use codetag_lab::allocator::Allocator;
///
/// let allocator: Allocator = "slub-nomerge-order1".parse().unwrap();
/// assert_eq!(allocator.to_string(), "slub-nomerge-order1");
/// let wrong = "slub-order11".parse::<Allocator>().unwrap_err();
/// assert!(wrong.to_string().starts_with("slub has no option order11"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    base: Base,
    words: Vec<Word>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Slob,
    Slab,
    Slub,
    Tiny,
}

const BASES: [(&str, Base); 4] = [
    ("slob", Base::Slob),
    ("slab", Base::Slab),
    ("slub", Base::Slub),
    ("tiny", Base::Tiny),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    TwoLists,
    OneList,
    NoRotate,
    NoMerge,
    Small,
    Order(u32),
    Debug,
    NoCpuSlab,
    NoCpuPartial,
    Estimate,
    Memcg,
}

const WORDS: [(&str, Word, &[Base]); 10] = [
    ("2list", Word::TwoLists, &[Base::Slob]),
    ("1list", Word::OneList, &[Base::Slob]),
    ("norotate", Word::NoRotate, &[Base::Slob]),
    (
        "nomerge",
        Word::NoMerge,
        &[Base::Slab, Base::Slub, Base::Tiny],
    ),
    ("small", Word::Small, &[Base::Slab]),
    ("debug", Word::Debug, &[Base::Slub]),
    ("nocpuslab", Word::NoCpuSlab, &[Base::Slub]),
    ("nocpupartial", Word::NoCpuPartial, &[Base::Slub]),
    ("estimate", Word::Estimate, &[Base::Slub]),
    ("memcg", Word::Memcg, &[Base::Slub]),
];

/// A name that stands for no allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAllocator(String);

impl fmt::Display for UnknownAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownAllocator {}

impl Allocator {
    /// What is compared if nothing is asked for.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        let names = [
            "slob",
            "slob-2list",
            "slob-1list",
            "slab",
            "slub",
            "slub-nomerge",
            "slub-order0",
            "slub-order1",
            "slub-order2",
            "slub-debug",
            "slub-nocpuslab",
            "tiny",
            "tiny-order0",
        ];
        names
            .into_iter()
            .map(|name| name.parse().expect("the defaults are names of allocators"))
            .collect()
    }

    /// An empty one on `cpus` CPUs.
    #[must_use]
    pub fn build(&self, cpus: u16, refs: Refs) -> Box<dyn Model> {
        match self.base {
            Base::Slob => Box::new(Slob::new(self.slob(refs))),
            Base::Slab => Box::new(Slab::new(self.slab(cpus, refs))),
            Base::Slub => Box::new(Slub::new(self.slub(slub::Config::slub(cpus), refs))),
            Base::Tiny => Box::new(Slub::new(self.slub(slub::Config::tiny(cpus), refs))),
        }
    }

    fn slob(&self, refs: Refs) -> slob::Config {
        let start = slob::Config::three_lists();
        let config = self.words.iter().fold(start, |config, word| match word {
            Word::TwoLists => slob::Config {
                rotate: config.rotate,
                ..slob::Config::two_lists()
            },
            Word::OneList => slob::Config {
                rotate: config.rotate,
                ..slob::Config::one_list()
            },
            Word::NoRotate => config.without_rotation(),
            _ => config,
        });
        config.with_refs(refs.bytes)
    }

    fn slab(&self, cpus: u16, refs: Refs) -> slab::Config {
        let config = self
            .words
            .iter()
            .fold(slab::Config::new(cpus), |config, word| match word {
                Word::NoMerge => config.without_merging(),
                Word::Small => slab::Config {
                    max_order: 0,
                    ..config
                },
                _ => config,
            });
        config.with_refs(refs.bytes, !refs.eager)
    }

    fn slub(&self, start: slub::Config, refs: Refs) -> slub::Config {
        let config = self.words.iter().fold(start, |config, word| match *word {
            Word::NoMerge => config.without_merging(),
            Word::Order(order) => config.with_max_order(order),
            Word::Debug => config.with_debug(DebugFlags::FZPU),
            Word::NoCpuSlab => slub::Config {
                path: Path::Node,
                ..config
            },
            Word::NoCpuPartial => slub::Config {
                path: Path::CpuSlab(CpuPartial::Off),
                ..config
            },
            Word::Estimate => slub::Config {
                path: Path::CpuSlab(CpuPartial::Estimate),
                ..config
            },
            Word::Memcg => slub::Config {
                memcg: true,
                ..config
            },
            _ => config,
        });
        config.with_refs(refs.bytes, !refs.eager)
    }
}

impl FromStr for Allocator {
    type Err = UnknownAllocator;

    fn from_str(name: &str) -> Result<Self, UnknownAllocator> {
        let mut parts = name.split('-');
        let first = parts.next().unwrap_or_default();
        let Some(&(base_name, base)) = BASES.iter().find(|(known, _)| *known == first) else {
            let bases = BASES.map(|(known, _)| known).join(", ");
            return Err(UnknownAllocator(format!(
                "no allocator is called {name}; there are {bases}, with options"
            )));
        };
        let words =
            parts.map(|word| Word::of(base, word).ok_or_else(|| no_option(base_name, base, word)));
        Ok(Self {
            base,
            words: words.collect::<Result<_, _>>()?,
        })
    }
}

impl Word {
    fn of(base: Base, word: &str) -> Option<Self> {
        if let Some(order) = word.strip_prefix("order").filter(|_| takes_orders(base)) {
            let order = order
                .parse()
                .ok()
                .filter(|&order| order <= crate::kernel::MAX_ORDER);
            return order.map(Self::Order);
        }
        let known = WORDS
            .iter()
            .find(|(known, _, bases)| *known == word && bases.contains(&base));
        known.map(|&(_, word, _)| word)
    }
}

fn takes_orders(base: Base) -> bool {
    matches!(base, Base::Slub | Base::Tiny)
}

fn no_option(base_name: &str, base: Base, word: &str) -> UnknownAllocator {
    let mut words: Vec<&str> = WORDS
        .iter()
        .filter(|(_, _, bases)| bases.contains(&base))
        .map(|(known, _, _)| *known)
        .collect();
    if takes_orders(base) {
        words.push("order0 to order10");
    }
    UnknownAllocator(format!(
        "{base_name} has no option {word}; it has {}",
        words.join(", ")
    ))
}

impl fmt::Display for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = BASES.iter().find(|(_, base)| *base == self.base);
        f.write_str(base.map_or("", |(name, _)| name))?;
        for word in &self.words {
            match word {
                Word::Order(order) => write!(f, "-order{order}")?,
                word => {
                    let known = WORDS.iter().find(|(_, known, _)| known == word);
                    write!(f, "-{}", known.map_or("", |(name, _, _)| name))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for name in [
            "slob",
            "slob-1list-norotate",
            "slab-small",
            "slub-debug",
            "tiny-order2-nomerge",
            "slub-estimate-memcg",
        ] {
            assert_eq!(name.parse::<Allocator>().unwrap().to_string(), name);
        }
        assert_eq!(Allocator::defaults().len(), 13);
    }

    #[test]
    fn wrong_names_tell_what_there_is() {
        let error = |name: &str| name.parse::<Allocator>().unwrap_err().to_string();
        assert_eq!(
            error("slurp"),
            "no allocator is called slurp; there are slob, slab, slub, tiny, with options"
        );
        assert_eq!(
            error("slob-nomerge"),
            "slob has no option nomerge; it has 2list, 1list, norotate"
        );
        assert_eq!(
            error("tiny-order11"),
            "tiny has no option order11; it has nomerge, order0 to order10"
        );
        assert_eq!(
            error("slob-order1"),
            "slob has no option order1; it has 2list, 1list, norotate"
        );
    }
    /// Objects of three caches and of kmalloc, on three CPUs, come and go at random; then all go.
    fn random_work(name: &str, refs: Refs, memory_pages: Option<u32>) {
        use crate::model::{CacheFlags, CacheSpec, Call};
        use crate::page::PageAllocator;
        use crate::random::SplitMix64;

        let mut model = name.parse::<Allocator>().unwrap().build(3, refs);
        let mut pages =
            memory_pages.map_or_else(PageAllocator::unlimited, PageAllocator::with_arena);
        let caches = [(40, false), (544, true), (2624, false)].map(|(object_bytes, ctor)| {
            model.create_cache(&CacheSpec {
                name: format!("cache of {object_bytes}"),
                object_bytes,
                align: 8,
                slot_bytes: None,
                flags: CacheFlags {
                    ctor,
                    ..CacheFlags::default()
                },
            })
        });
        let mut random = SplitMix64::new(3);
        let mut live = Vec::new();
        for round in 0..20_000_u64 {
            let cpu = random.below(3) as u16;
            let grows = round / 2000 % 2 == 0;
            if live.is_empty() || random.below(10) < if grows { 7 } else { 3 } {
                let call = Call {
                    cpu,
                    is_tagged: random.below(3) > 0,
                    ..Call::default()
                };
                let got = match random.below(4) {
                    3 => {
                        let most = 2 << random.below(14);
                        let bytes = 1 + random.below(most);
                        model.kmalloc(&mut pages, bytes, call)
                    }
                    cache => model.cache_alloc(&mut pages, caches[cache as usize], call),
                };
                live.extend(got);
            } else {
                let obj = live.swap_remove(random.below(live.len() as u64) as usize);
                model.free(&mut pages, obj, cpu);
            }
            model.pass_time(&mut pages, round * 1_000_000);
            if round % 100 == 0 {
                let usage = model.usage();
                assert_eq!(usage.pages(), pages.allocated_pages(), "{name} {refs:?}");
                assert!(
                    usage.slots == 0 || usage.slots >= usage.slab_objs,
                    "{name} {refs:?}"
                );
            }
        }
        for obj in live {
            model.free(&mut pages, obj, 0);
        }
        // The first time frees what belongs to slabs, into the caches that it came from.
        model.shrink(&mut pages);
        model.shrink(&mut pages);
        assert_eq!(
            (model.usage().pages(), pages.allocated_pages()),
            (0, 0),
            "{name} {refs:?}"
        );
        assert_eq!(model.usage().slab_objs, 0, "{name} {refs:?}");
    }

    #[test]
    fn every_allocator_gives_back_every_page() {
        let names = Allocator::defaults()
            .into_iter()
            .map(|allocator| allocator.to_string());
        for name in names.chain(
            [
                "slub-estimate",
                "slub-nocpupartial",
                "slab-small",
                "tiny-nomerge",
            ]
            .map(str::to_owned),
        ) {
            for (bytes, eager) in [(0, false), (8, false), (8, true)] {
                random_work(&name, Refs { bytes, eager }, None);
                random_work(&name, Refs { bytes, eager }, Some(150));
            }
        }
    }
}
