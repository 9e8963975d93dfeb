//! Which tag a live span has, by its id, in a few instructions.
//!
//! A table of buckets, one for most spans that are open at a time. A span that finds its bucket taken has
//! none, and is looked up in the registry each time it is entered.
//!
//! # Safety model
//!
//! A bucket's tag is the address of a `&'static CodeTag`, whatever its id is: so it may be followed at any
//! time. That it is the tag of *this* id follows from the life of a span: a bucket gets
//! an id before anyone else knows the id, keeps it until the span is closed, and whoever enters a span
//! holds it open.

use super::callsite;
use crate::scope::TagGuard;
use crate::tag::{CodeTag, UNTAGGED};
use core::fmt;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};
use tracing::Metadata;
use tracing::span::Id;

/// Buckets of a table, 16 B each.
const BUCKETS: usize = 4096;

/// No span's id: ids are never 0.
const FREE: u64 = 0;
/// Being filled. No registry gives such an id.
const BUSY: u64 = u64::MAX;

#[derive(Debug)]
struct Bucket {
    id: AtomicU64,
    tag: AtomicPtr<CodeTag>,
}

/// The live spans of one subscriber.
pub(super) struct Live {
    buckets: Box<[Bucket; BUCKETS]>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_taken = |b: &&Bucket| b.id.load(Relaxed) != FREE;
        let taken = self.buckets.iter().filter(is_taken).count();
        write!(f, "{taken} of {BUCKETS} buckets")
    }
}

impl Live {
    pub(super) fn new() -> Self {
        let _nobody = TagGuard::enter(&UNTAGGED);
        let buckets: Vec<Bucket> = (0..BUCKETS)
            .map(|_| Bucket {
                id: AtomicU64::new(FREE),
                tag: AtomicPtr::new((&raw const UNTAGGED).cast_mut()),
            })
            .collect();
        match buckets.into_boxed_slice().try_into() {
            Ok(buckets) => Self { buckets },
            Err(_) => unreachable!("as many as were made"),
        }
    }

    #[inline(always)]
    fn bucket(&self, id: u64) -> &Bucket {
        // The registry's ids count up in the low bits; its thread's number begins at bit 38. A factor
        // of 31 bits, one and a quarter times 2^30, spreads the ones and brings in some of the others.
        let mixed = id.wrapping_mul(0x4f1b_bcdd) >> 30;
        &self.buckets[mixed as usize % BUCKETS]
    }

    /// A span was made, and nobody else knows its id yet.
    pub(super) fn add(&self, id: &Id, metadata: &'static Metadata<'static>) {
        let tag = callsite::tag_of(metadata);
        let id = id.into_u64();
        let bucket = self.bucket(id);
        let found = bucket.id.load(Relaxed);
        // A span of the same id that was never closed is gone.
        let is_ours = (found == FREE || found == id)
            && bucket
                .id
                .compare_exchange(found, BUSY, Acquire, Relaxed)
                .is_ok();
        if is_ours {
            bucket.tag.store(ptr::from_ref(tag).cast_mut(), Relaxed);
            bucket.id.store(id, Release);
        }
    }

    /// Hands the tag of a live span to `found`, or calls `missed` if the span has no bucket.
    // Two closures and no `Option`, which would cost a test for null.
    #[inline(always)]
    pub(super) fn with_tag(
        &self,
        id: u64,
        found: impl FnOnce(&'static CodeTag),
        missed: impl FnOnce(),
    ) {
        let bucket = self.bucket(id);
        if bucket.id.load(Acquire) == id {
            // SAFETY: the address of a `&'static CodeTag` (see the safety model).
            found(unsafe { &*bucket.tag.load(Relaxed) });
        } else {
            missed();
        }
    }

    /// A span was closed; its id may be another's from now on.
    pub(super) fn remove(&self, id: &Id) {
        let id = id.into_u64();
        // Fails where the span had no bucket.
        let _ = self
            .bucket(id)
            .id
            .compare_exchange(id, FREE, Release, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(live: &Live, id: &Id) -> Option<&'static CodeTag> {
        let mut tag = None;
        live.with_tag(id.into_u64(), |found| tag = Some(found), || ());
        tag
    }

    // In the form of the registry's ids.
    fn ids(n: u64) -> impl Iterator<Item = Id> {
        (0..n).map(|i| Id::from_u64((i % 64 + 1) | ((i / 64) << 38)))
    }

    fn metadata() -> &'static Metadata<'static> {
        // Without a subscriber a span has none.
        tracing::subscriber::with_default(tracing_subscriber::registry(), || {
            tracing::info_span!("some").metadata().unwrap()
        })
    }

    #[test]
    fn a_span_is_found_from_add_to_remove() {
        let (live, some) = (Live::new(), metadata());
        let its = callsite::tag_of(some);
        let ids: Vec<Id> = ids(1_000).collect();
        for id in &ids {
            assert!(tag(&live, id).is_none());
            live.add(id, some);
        }
        let found = ids.iter().filter(|id| tag(&live, id).is_some()).count();
        assert!(found > 800, "{found} of 1000 spans have a bucket");
        for id in &ids {
            assert!(tag(&live, id).is_none_or(|found| ptr::eq(found, its)));
            live.remove(id);
            assert!(tag(&live, id).is_none());
        }
        assert_eq!(format!("{live:?}"), "0 of 4096 buckets");
    }

    #[test]
    fn a_taken_bucket_stays_with_its_span() {
        let (live, some) = (Live::new(), metadata());
        let first = Id::from_u64(1);
        live.add(&first, some);
        let other = (2..)
            .map(Id::from_u64)
            .find(|id| ptr::eq(live.bucket(id.into_u64()), live.bucket(1)))
            .unwrap();
        live.add(&other, some);
        assert!(tag(&live, &first).is_some() && tag(&live, &other).is_none());
        live.remove(&other);
        assert!(tag(&live, &first).is_some());
        live.remove(&first);
        live.add(&other, some);
        assert!(tag(&live, &other).is_some());
    }
}
