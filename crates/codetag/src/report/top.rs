//! The tags with the most requested bytes.

use super::snapshot::{Snapshot, TagUsage};
use core::ptr;

/// The `n` tags with the most requested bytes, the largest first. Walks over all for each: there is no
/// list to allocate.
pub(super) fn top(snapshot: &Snapshot, n: usize) -> impl Iterator<Item = TagUsage> + '_ {
    let rank = |u: &TagUsage| (u.live_bytes, ptr::from_ref(u.tag).addr());
    let mut last = None;
    core::iter::from_fn(move || {
        let next = snapshot
            .usages()
            .filter(|u| last.is_none_or(|last| rank(u) < last))
            .max_by_key(rank)?;
        last = Some(rank(&next));
        Some(next)
    })
    .take(n)
}
