//! Names of caches that `kmem_cache_alloc` does not print.
//!
//! Stock kernels name the cache on `kmem_cache_free` only (since 5.13). A first pass learns, per call site and size,
//! which names the frees of its objects have. Nearly every call site takes from one cache: then all its objects have
//! that name, those that live at the end too. Where a site takes objects of one size from several caches, the second
//! pass holds events back until the object's own free comes or the hold is full. A site of which no object is freed
//! under a name gets a name made up from itself and the size.
//!
//! Memory: an entry per live object in the first pass, one per call site and size, and the hold.

use crate::event::{Alloc, Event, Kind, KnownBy, Name, Names, Origin, ReadError, Source};
use std::collections::{HashMap, HashSet, VecDeque};

/// So many events are held back where a name needs the object's own free.
const HOLD_EVENTS: usize = 1 << 16;

/// Call sites and sizes that are told apart; objects of further ones share a made-up name.
const KEYS_MAX: usize = Names::MAX;

type Key = (Name, u64, u64);

/// How many bytes of `kmem_cache_alloc` have their cache's name from where. In bytes of slots; an object
/// that is allocated again counts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameShares {
    /// The event itself names the cache.
    pub event_bytes: u64,
    /// The free of the same object does.
    pub free_bytes: u64,
    /// Frees of other objects from the same call site and of the same size do.
    pub sibling_bytes: u64,
    /// Nothing does: the name is made up from call site and size.
    pub site_bytes: u64,
}

impl NameShares {
    /// All bytes of `kmem_cache_alloc`.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.event_bytes + self.free_bytes + self.sibling_bytes + self.site_bytes
    }
}

/// What the first pass learned.
#[derive(Debug, Default)]
pub(crate) struct CacheNames {
    names: Names,
    sites: HashMap<Key, Site>,
    sibling_bytes: u64,
}

/// What is known of a call site and size.
#[derive(Debug, Default)]
struct Site {
    /// Names that frees had, with the bytes that were freed under each.
    names: Vec<(Name, u64)>,
    /// Bytes allocated.
    bytes: u64,
}

impl Site {
    fn freed_as(&mut self, cache: Name, bytes: u64) {
        match self.names.iter_mut().find(|(name, _)| *name == cache) {
            Some((_, sum)) => *sum += bytes,
            None => self.names.push((cache, bytes)),
        }
    }

    /// The name of most bytes, the older one of two with equal shares.
    fn likeliest(&self) -> Option<Name> {
        let most = self.names.iter().map(|(_, bytes)| bytes).max()?;
        let mut names = self.names.iter();
        names
            .find(|(_, bytes)| bytes == most)
            .map(|(name, _)| *name)
    }
}

impl CacheNames {
    /// Reads `events` up to the end; only up to the first `kmem_cache_alloc` if that has a name, as then all have.
    pub(crate) fn learn(events: &mut impl Source) -> Result<Self, ReadError> {
        let mut sites: HashMap<Key, Site> = HashMap::new();
        let mut live: HashMap<u64, Key> = HashMap::new();
        while let Some(event) = events.next_event()? {
            match event.kind {
                Kind::Alloc(alloc) => {
                    live.remove(&alloc.ptr);
                    let Some(key) = nameless(&alloc) else {
                        if alloc.origin != Origin::Kmalloc && sites.is_empty() {
                            break;
                        }
                        continue;
                    };
                    if sites.len() < KEYS_MAX || sites.contains_key(&key) {
                        sites.entry(key).or_default().bytes += alloc.bytes_alloc;
                        live.insert(alloc.ptr, key);
                    }
                }
                Kind::Free(free) => {
                    if let Some(key) = live.remove(&free.ptr)
                        && let Some(cache) = free.cache
                        && let Some(site) = sites.get_mut(&key)
                    {
                        site.freed_as(cache, key.2);
                    }
                }
                Kind::PageAlloc(_) | Kind::PageFree(_) => {}
            }
        }
        let named = sites.values().filter(|site| !site.names.is_empty());
        let sibling_bytes = named
            .map(|site| site.bytes - site.names.iter().map(|(_, bytes)| bytes).sum::<u64>())
            .sum();
        Ok(Self {
            names: events.names().clone(),
            sites,
            sibling_bytes,
        })
    }

    /// The strings of the first pass. The second one starts with them, so that their numbers agree.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// For an event that names no cache.
    pub(crate) fn origin(
        &self,
        call_site: Name,
        bytes_req: u64,
        bytes_alloc: u64,
        names: &mut Names,
    ) -> Origin {
        let site = self.sites.get(&(call_site, bytes_req, bytes_alloc));
        match site.and_then(Site::likeliest) {
            Some(name) => Origin::Cache {
                name,
                known_by: KnownBy::Free,
            },
            None => Origin::Cache {
                name: names.intern(&format!("{}:{bytes_req}", names.get(call_site))),
                known_by: KnownBy::Site,
            },
        }
    }

    /// The shares of what was handed on, of which those by frees are not divided yet.
    pub(crate) fn divided(&self, mut shares: NameShares) -> NameShares {
        shares.sibling_bytes = self.sibling_bytes.min(shares.free_bytes);
        shares.free_bytes -= shares.sibling_bytes;
        shares
    }

    /// What the second pass needs beside, if some call site takes from several caches.
    pub(crate) fn look_ahead(&self) -> Option<LookAhead> {
        let several: HashSet<Key> = self
            .sites
            .iter()
            .filter(|(_, site)| site.names.len() > 1)
            .map(|(key, _)| *key)
            .collect();
        (!several.is_empty()).then(|| LookAhead {
            several,
            hold: VecDeque::new(),
            popped: 0,
            waiting: HashMap::new(),
        })
    }
}

/// The key of an allocation whose event names no cache.
fn nameless(alloc: &Alloc) -> Option<Key> {
    match alloc.origin {
        Origin::Kmalloc
        | Origin::Cache {
            known_by: KnownBy::Event,
            ..
        } => None,
        Origin::Cache { .. } => Some((alloc.call_site, alloc.bytes_req, alloc.bytes_alloc)),
    }
}

/// Holds events back until the free of an object says which of several caches it is from.
#[derive(Debug)]
pub(crate) struct LookAhead {
    several: HashSet<Key>,
    hold: VecDeque<Event>,
    /// Events that left the hold.
    popped: u64,
    /// Objects whose allocation is in the hold and wants a name, with the number of its event.
    waiting: HashMap<u64, u64>,
}

impl LookAhead {
    /// Takes an event, gives one if the hold is full.
    pub(crate) fn push(&mut self, event: Event) -> Option<Event> {
        match event.kind {
            Kind::Alloc(alloc) => {
                self.waiting.remove(&alloc.ptr);
                if nameless(&alloc).is_some_and(|key| self.several.contains(&key)) {
                    let number = self.popped + self.hold.len() as u64;
                    self.waiting.insert(alloc.ptr, number);
                }
            }
            Kind::Free(free) => {
                if let Some(number) = self.waiting.remove(&free.ptr)
                    && let Some(cache) = free.cache
                    && let Ok(position) = usize::try_from(number - self.popped)
                    && let Some(held) = self.hold.get_mut(position)
                    && let Kind::Alloc(alloc) = &mut held.kind
                    && let Origin::Cache { name, .. } = &mut alloc.origin
                {
                    *name = cache;
                }
            }
            Kind::PageAlloc(_) | Kind::PageFree(_) => {}
        }
        self.hold.push_back(event);
        if self.hold.len() > HOLD_EVENTS {
            self.pop()
        } else {
            None
        }
    }

    /// The oldest event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let event = self.hold.pop_front()?;
        if let Kind::Alloc(alloc) = event.kind
            && self.waiting.get(&alloc.ptr) == Some(&self.popped)
        {
            self.waiting.remove(&alloc.ptr);
        }
        self.popped += 1;
        Some(event)
    }

    /// Events held.
    pub(crate) fn len(&self) -> u64 {
        self.hold.len() as u64
    }
}
