//! A heap of more than 32 MiB over the system's allocator is of huge pages beyond them, where the system has any; memory
//! that was given back does not come again by way of one.

#![cfg(all(target_os = "linux", not(codetag_portable)))]

use codetag::{Snapshot, TagAlloc};
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

#[global_allocator]
static ALLOC: TagAlloc = TagAlloc::system();

const CHUNK_BYTES: u64 = 2 << 20;
/// Of two threads, the test's and the one that waits for it: 16, and 8 for the second.
const SMALL_PAGE_CHUNKS: u64 = 24;

/// Bytes of this process's mappings that have a flag of `/proc/PID/smaps`.
fn bytes_flagged(flag: &str) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").expect("a process can read its mappings");
    let mut bytes = 0;
    let mut kib = 0;
    for line in maps.lines() {
        if let Some(size) = line.strip_prefix("Size:") {
            let size = size.trim().strip_suffix(" kB").expect("a size in kB");
            kib = size.parse().expect("a number");
        }
        if let Some(flags) = line.strip_prefix("VmFlags:")
            && flags.split_whitespace().any(|f| f == flag)
        {
            bytes += kib * 1024;
        }
    }
    bytes
}

fn chunks() -> u64 {
    let heap = *Snapshot::take().heap();
    // The rest is large objects, of which the test holds none that is larger than a chunk.
    heap.obtained_bytes.saturating_sub(heap.large_objects_bytes) / CHUNK_BYTES
}

/// Slabs of which little is touched stay so.
fn many_threads_with_many_classes_have_none() {
    const THREADS: usize = 48;
    let gate = &Barrier::new(THREADS + 1);
    let seen = thread::scope(|scope| {
        let run = || {
            let held: Vec<Vec<u8>> = (1..=40).map(|n| Vec::with_capacity(n * 24)).collect();
            gate.wait();
            gate.wait();
            drop(held);
        };
        let threads = [(); THREADS].map(|()| scope.spawn(run));
        gate.wait();
        // Asserted when nobody waits any more.
        let seen = (chunks(), bytes_flagged("hg"));
        gate.wait();
        // The scope waits for what its threads run; only a join waits for the end of their heaps.
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        seen
    });
    codetag::shrink();
    assert!(seen.0 > SMALL_PAGE_CHUNKS, "{} chunks", seen.0);
    assert_eq!(seen.1, 0);
}

#[test]
fn a_large_heap_is_of_huge_pages_until_it_is_shrunk() {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        println!("this system has no huge pages to ask for");
        return;
    }
    many_threads_with_many_classes_have_none();
    let few: Vec<_> = (0..4_000).map(|n| Box::new([n; 256])).collect();
    assert!(chunks() < SMALL_PAGE_CHUNKS);
    assert_eq!(bytes_flagged("hg"), 0);
    let mut many: Vec<_> = (0..120_000).map(|n| Box::new([n; 256])).collect();
    let chunks_before = chunks();
    assert!(chunks_before > 2 * SMALL_PAGE_CHUNKS, "{chunks_before}");
    assert_eq!(
        bytes_flagged("hg"),
        (chunks_before - SMALL_PAGE_CHUNKS) * CHUNK_BYTES
    );
    // One object of each chunk stays, so that the chunks do.
    let mut n = 0;
    many.retain(|_| {
        n += 1;
        n % 500 == 0
    });
    codetag::shrink();
    assert!(chunks() > 2 * SMALL_PAGE_CHUNKS);
    assert_eq!(
        bytes_flagged("hg"),
        0,
        "huge pages that give-backs would undo"
    );
    assert_eq!(few[3_999][255], 3_999);
    assert_eq!(many[0][0], 499);
}
