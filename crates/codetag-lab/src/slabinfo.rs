//! /proc/slabinfo, version 2.1.

use crate::model::CacheUsage;
use std::fmt;

/// The two lines above the caches.
pub const HEADER: &str = "slabinfo - version: 2.1\n\
    # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> \
    : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>";

/// One cache as a line of slabinfo: `cache_show` of mm/slab_common.c \[6.1\]. As there, an object that a CPU
/// keeps for its next allocation counts as active.
#[derive(Clone, Copy, Debug)]
pub struct Line<'c>(pub &'c CacheUsage);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(cache) = self;
        write!(
            f,
            "{:<17} {:>6} {:>6} {:>6} {:>4} {:>4}",
            cache.name,
            cache.active_objs,
            cache.slots,
            cache.slot_bytes,
            cache.objs_per_slab,
            1_u64 << cache.order
        )?;
        let [limit, batchcount, shared] = cache.tunables;
        write!(f, " : tunables {limit:>4} {batchcount:>4} {shared:>4}")?;
        write!(
            f,
            " : slabdata {:>6} {:>6} {:>6}",
            cache.active_slabs, cache.slabs, cache.shared_avail
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel() {
        let cache = CacheUsage {
            name: "kernfs_iattrs_cache".into(),
            active_objs: 51,
            slots: 51,
            slot_bytes: 80,
            objs_per_slab: 51,
            active_slabs: 1,
            slabs: 1,
            ..CacheUsage::default()
        };
        assert_eq!(
            Line(&cache).to_string(),
            "kernfs_iattrs_cache     51     51     80   51    1 : tunables    0    0    0 : slabdata      1      1      0"
        );
    }
}
