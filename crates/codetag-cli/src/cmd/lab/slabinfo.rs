//! Caches in the form of /proc/slabinfo, version 2.1.

use codetag_lab::model::CacheUsage;
use std::io::{self, Write};

const HEAD: &str = "slabinfo - version: 2.1\n\
    # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> \
    : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n";

/// The two header lines and a line per cache.
pub(super) fn print(caches: &[CacheUsage], out: &mut impl Write) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    for cache in caches {
        writeln!(out, "{}", line(cache))?;
    }
    Ok(())
}

/// One cache, as the kernel's `slabinfo_show_stats` formats it.
pub(super) fn line(cache: &CacheUsage) -> String {
    let [limit, batchcount, shared] = cache.tunables;
    format!(
        "{:<17} {:>6} {:>6} {:>6} {:>4} {:>4} : tunables {:>4} {:>4} {:>4} : slabdata {:>6} {:>6} {:>6}",
        cache.name,
        cache.active_objs,
        cache.slots,
        cache.slot_bytes,
        cache.objs_per_slab,
        1_u64 << cache.order,
        limit,
        batchcount,
        shared,
        cache.active_slabs,
        cache.slabs,
        cache.shared_avail,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_kernel_s() {
        let cache = CacheUsage {
            name: "kmalloc-512".to_owned(),
            active_objs: 3552,
            slots: 3552,
            slot_bytes: 512,
            objs_per_slab: 32,
            order: 2,
            active_slabs: 111,
            slabs: 111,
            ..CacheUsage::default()
        };
        assert_eq!(
            line(&cache),
            "kmalloc-512         3552   3552    512   32    4 : tunables    0    0    0 : slabdata    111    111      0"
        );
    }
}
