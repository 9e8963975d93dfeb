//! Names of caches that allocations do not have.

use super::{caches, read_file};
use crate::event::Source;
use crate::trace::NameShares;
use std::fmt::Write;

fn alloc(ptr: u64, site: &str, bytes: u64) -> String {
    format!(
        "a-1 [000] d.... 0.1: kmem_cache_alloc: call_site={site} ptr={ptr:x} bytes_req={bytes} bytes_alloc={bytes} gfp_flags=GFP_KERNEL node=-1 accounted=false\n"
    )
}

fn free(ptr: u64, cache: &str) -> String {
    format!("a-1 [000] d.... 0.1: kmem_cache_free: call_site=g+0x1/0x2 ptr={ptr:x} name={cache}\n")
}

#[test]
fn a_site_s_frees_name_all_its_objects() {
    let text = [
        alloc(0x10, "f+0x1/0x9", 192),
        alloc(0x20, "f+0x1/0x9", 192),
        free(0x10, "dentry"),
        alloc(0x10, "f+0x1/0x9", 192),
        alloc(0x30, "f+0x1/0x9", 200),
    ]
    .concat();
    let (events, reader) = read_file(text.as_bytes());
    assert_eq!(
        caches(&events, reader.names()),
        ["dentry", "dentry", "dentry", "f+0x1/0x9:200"]
    );
    assert_eq!(
        reader.name_shares(),
        NameShares {
            event_bytes: 0,
            free_bytes: 192,
            sibling_bytes: 384,
            site_bytes: 200
        }
    );
    assert_eq!(reader.name_shares().total_bytes(), 776);
}

#[test]
fn an_object_s_own_free_decides_where_a_site_has_several_caches() {
    let text = [
        alloc(0x10, "pool+0x1/0x9", 64),
        alloc(0x20, "pool+0x1/0x9", 64),
        alloc(0x30, "pool+0x1/0x9", 64),
        alloc(0x40, "pool+0x1/0x9", 64),
        free(0x20, "bio"),
        free(0x30, "io"),
        // The same address again, from the other cache.
        alloc(0x20, "pool+0x1/0x9", 64),
        free(0x10, "bio"),
        free(0x20, "io"),
        alloc(0x30, "pool+0x1/0x9", 64),
        free(0x30, "bio"),
    ]
    .concat();
    let (events, reader) = read_file(text.as_bytes());
    assert_eq!(events.len(), 11);
    // 0x40 lives on: the name that most of its siblings' bytes have.
    assert_eq!(
        caches(&events, reader.names()),
        ["bio", "bio", "io", "bio", "io", "bio"]
    );
    assert_eq!(reader.counts().events, 11);
}

#[test]
fn a_hold_that_is_full_lets_the_oldest_go() {
    let mut text = String::new();
    let objects = 70_000;
    for ptr in 1..=objects {
        text.push_str(&alloc(ptr << 6, "pool+0x1/0x9", 64));
    }
    for ptr in (1..=objects).rev() {
        text.push_str(&free(ptr << 6, if ptr % 4 == 0 { "io" } else { "bio" }));
    }
    let (events, reader) = read_file(text.as_bytes());
    assert_eq!(events.len() as u64, 2 * objects);
    let caches = caches(&events, reader.names());
    // The frees of the first objects come too late for the hold, those of the last ones in time.
    assert_eq!(caches[3], "bio");
    assert_eq!(caches[69_999], "io");
    assert_eq!(caches[69_998], "bio");
}

#[test]
fn frees_without_names_leave_made_up_ones() {
    let mut text = String::new();
    for ptr in 1..4 {
        text.push_str(&alloc(ptr, "f+0x1/0x9", 192));
        writeln!(
            text,
            "a-1 [000] d.... 0.1: kmem_cache_free: call_site=g ptr={ptr:x}"
        )
        .expect("strings grow");
    }
    let (events, reader) = read_file(text.as_bytes());
    assert_eq!(caches(&events, reader.names()), ["f+0x1/0x9:192"; 3]);
    assert_eq!(reader.name_shares().site_bytes, 3 * 192);
}

#[test]
fn a_kmalloc_at_the_address_ends_an_object_whose_free_was_lost() {
    let text = [
        alloc(0x10, "f+0x1/0x9", 192),
        "a-1 [000] d.... 0.1: kmalloc: call_site=h ptr=10 bytes_req=8 bytes_alloc=8 gfp_flags=GFP_KERNEL\n".to_owned(),
        free(0x10, "kmalloc-8"),
    ]
    .concat();
    let (events, reader) = read_file(text.as_bytes());
    assert_eq!(
        caches(&events, reader.names()),
        ["f+0x1/0x9:192", "kmalloc"]
    );
}
