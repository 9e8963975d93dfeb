//! Names of caches that allocations do not have.

use super::{caches, read_file};
use crate::event::Source;
use crate::trace::NameShares;
use flate2::read::GzDecoder;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;

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

/// A recorded boot whose events have names, read once with them and once without: what is learned is right.
#[test]
fn names_that_are_learned_are_those_of_the_kernel() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/traces/slub-none.trace.txt.gz"
    );
    let mut named = String::new();
    GzDecoder::new(File::open(path).expect("a trace"))
        .read_to_string(&mut named)
        .expect("text");
    let nameless: String = named
        .lines()
        .map(|line| match line.split_once(" name=") {
            Some((head, _)) if line.contains("kmem_cache_alloc: ") => format!("{head}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let (with, reader_with) = read_file(named.as_bytes());
    let (without, reader) = read_file(nameless.as_bytes());
    let truth = caches(&with, reader_with.names());
    let learned = caches(&without, reader.names());
    assert_eq!(truth.len(), learned.len());
    let shares = reader.name_shares();
    assert_eq!(shares.total_bytes(), reader_with.name_shares().event_bytes);
    // Boot-time objects of eight caches of which none is freed: 3.3 % of the bytes.
    assert_eq!((shares.event_bytes, shares.site_bytes), (0, 95_040));
    for (truth, learned) in truth.iter().zip(learned) {
        assert!(
            *truth == learned || learned.contains("+0x"),
            "{truth} was taken for {learned}"
        );
    }
}
