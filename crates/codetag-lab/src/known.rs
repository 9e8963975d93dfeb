//! What the source of 6.1 says of caches and no trace shows: flags and alignment.
//!
//! From the `kmem_cache_create` calls of each cache's own file. A cache that is not listed is taken to
//! have no flags, which lets it merge with others of its size. With `MEMCG_KMEM=n`, as on small systems,
//! `SLAB_ACCOUNT` is 0; a model without memcg does not look at it.

use crate::kernel::cache_align;
use crate::model::CacheFlags;

/// What is known of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCache {
    /// `SLAB_HWCACHE_ALIGN`.
    pub hwcache_align: bool,
    /// The alignment that the call asks for, 0 for none.
    pub align: u32,
    /// Its flags.
    pub flags: CacheFlags,
}

impl KnownCache {
    /// The alignment of its objects.
    #[must_use]
    pub fn align_of(&self, object_bytes: u32) -> u32 {
        cache_align(object_bytes, self.hwcache_align, self.align)
    }
}

/// What the letters of [`TABLE`] mean: `h` cache line, `r` reclaimable, `c` constructor, `t` typesafe by
/// RCU, `a` accounted, `u` usercopy region (which forbids merging), `b` made by the allocator itself at boot.
const TABLE: &[(&str, &str, u32)] = &[
    ("TCP", "ht", 0),
    ("UDP", "ht", 0),
    ("UNIX", "ha", 0),
    ("anon_vma", "tca", 0),
    ("anon_vma_chain", "a", 0),
    ("bdev_cache", "hrca", 0),
    ("buffer_head", "r", 0),
    ("cred_jar", "ha", 0),
    ("dentry", "rau", 0),
    ("ext4_inode_cache", "rcau", 0),
    ("fasync_cache", "", 0),
    ("file_lock_cache", "", 0),
    ("file_lock_ctx", "", 0),
    ("files_cache", "ha", 0),
    ("filp", "ha", 0),
    ("fs_cache", "ha", 0),
    ("ftrace_event_field", "", 0),
    ("inode_cache", "rca", 0),
    ("kernfs_iattrs_cache", "", 0),
    ("kernfs_node_cache", "", 0),
    ("kmem_cache", "hb", 0),
    ("kmem_cache_node", "hb", 0),
    ("maple_node", "", 256),
    ("mm_struct", "hau", 0),
    ("mnt_cache", "ha", 0),
    ("names_cache", "hu", 0),
    ("nsproxy", "a", 0),
    ("pde_opener", "a", 0),
    ("perf_event", "", 0),
    ("pid", "ha", 0),
    ("pool_workqueue", "", 256),
    ("posix_timers_cache", "a", 0),
    ("proc_dir_entry", "u", 0),
    ("proc_inode_cache", "rca", 0),
    ("radix_tree_node", "rc", 0),
    ("seq_file", "a", 0),
    ("shmem_inode_cache", "ca", 0),
    ("sighand_cache", "htca", 0),
    ("signal_cache", "ha", 0),
    ("sigqueue", "a", 0),
    ("skbuff_fclone_cache", "h", 0),
    ("skbuff_head_cache", "hu", 0),
    ("sock_inode_cache", "hrca", 0),
    ("task_struct", "au", 64),
    ("trace_event_file", "", 0),
    ("uid_cache", "h", 0),
    ("vm_area_struct", "a", 0),
    ("vmap_area", "", 0),
];

/// What is known of the cache `name`.
#[must_use]
pub fn known_cache(name: &str) -> Option<KnownCache> {
    let index = TABLE
        .binary_search_by_key(&name, |(name, _, _)| name)
        .ok()?;
    let (_, letters, align) = TABLE[index];
    let has = |letter| letters.contains(letter);
    Some(KnownCache {
        hwcache_align: has('h'),
        align,
        flags: CacheFlags {
            reclaim: has('r'),
            rcu: has('t'),
            ctor: has('c'),
            account: has('a'),
            no_merge: has('u') || has('b'),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn alignment_follows_from_flags() {
        let align = |name: &str, bytes| known_cache(name).unwrap().align_of(bytes);
        assert_eq!(align("filp", 192), 64);
        assert_eq!(align("dentry", 192), 8);
        assert_eq!(align("maple_node", 256), 256);
        assert_eq!(align("task_struct", 2624), 64);
        assert_eq!(known_cache("no such cache"), None);
    }
}
