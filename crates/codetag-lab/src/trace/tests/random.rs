//! Whatever bytes come, nothing panics, and each line is counted once. The fuzz target `lab_trace` checks the same
//! without an end.

use super::{drain, file_of, read_bytes};
use crate::event::Source;
use crate::trace::TraceFile;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// One of each kind that the readers know.
const LINES: [&str; 22] = [
    "# entries 3 lost 0",
    "0 mm_page_free: pfn=0x100 order=8",
    "1 kmem_cache_alloc: call_site=create_boot_cache+0x55/0x78 ptr=ffff888000140000 bytes_req=56 bytes_alloc=64 gfp_flags=GFP_NOWAIT name=kmem_cache_node",
    "@@EARLY_END",
    "# entries-in-buffer/entries-written: 12/13   #P:1",
    "          <idle>-0       [000] d....     0.067382: kmalloc: call_site=allocate_probes+0x29/0x33 ptr=ffff888002bb28c0 bytes_req=64 bytes_alloc=64 gfp_flags=GFP_KERNEL node=-1 accounted=false",
    "          <idle>-0       [000] d....     0.068322: mm_page_alloc: page=ffff888007aafa40 pfn=0x2be9 order=0 migratetype=0 gfp_flags=__GFP_NOWARN|__GFP_NORETRY",
    "    kworker/u2:2-14      [000] .....     0.430418: mm_page_free: page=ffff888007ac2100 pfn=0x3084 order=2",
    "            init-1       [000] .....     0.389783: kfree: call_site=kobject_uevent_env+0x2a0/0x2b3 ptr=ffff888003010000",
    "            init-1       [000] .....     0.389783: kfree: call_site=kobject_uevent_env+0x2a0/0x2b3 ptr=          (null)",
    "            init-1       [000] .....     1.335906: kmem_cache_alloc: call_site=__alloc_file+0x21/0x78 ptr=ffff888003086e40 bytes_req=192 bytes_alloc=192 gfp_flags=GFP_KERNEL|__GFP_ZERO node=-1 accounted=false",
    "            init-1       [000] .....     1.336130: kmem_cache_free: call_site=do_sys_openat2+0xab/0xb9 ptr=ffff888003086e40 name=cred_jar",
    "CPU:0 [LOST 12 EVENTS]",
    "codetag-trace 1",
    "alloc ffff888003086e40 192 192 cred_jar __alloc_file+0x21/0x78 account",
    "@77 kmalloc 10 8 8",
    "free ffff888003086e40 cred%20jar",
    "pages 2be9 0",
    "unpages 2be9 0",
    "cpu 1",
    "lost 4",
    "end",
];

/// A change to a text of bytes; positions are relative to its length.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Remove(Index, usize),
    Insert(Index, Vec<u8>),
    Cut(Index),
    Repeat(Index, Index, usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Set(at, byte) => *at.get_mut(bytes) = *byte,
            Self::Remove(at, count) => {
                let at = at.index(bytes.len());
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Self::Insert(at, more) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, more.iter().copied());
            }
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Repeat(a, b, times) => {
                let (a, b) = (a.index(bytes.len()), b.index(bytes.len()));
                let part = bytes[a.min(b)..a.max(b)].repeat(*times);
                bytes.splice(a..a, part);
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    // Characters that mean something are likelier to get past the first look than others.
    let byte = prop_oneof![select(&b"\n\r\t =:[]()/|+-@#%0fx\0\xff"[..]), any::<u8>()];
    prop_oneof![
        (any::<Index>(), byte.clone()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<Index>(), 1_usize..20).prop_map(|(at, count)| Change::Remove(at, count)),
        (any::<Index>(), vec(byte, 1..8)).prop_map(|(at, more)| Change::Insert(at, more)),
        any::<Index>().prop_map(Change::Cut),
        (any::<Index>(), any::<Index>(), 1_usize..4)
            .prop_map(|(a, b, times)| Change::Repeat(a, b, times)),
    ]
}

/// Each line is an event, a `kfree(NULL)`, skipped, malformed, or the half line at the end.
fn each_line_is_counted_once(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (events, reader, result) = read_bytes(bytes);
    let counts = reader.counts();
    prop_assert_eq!(counts.events, events.len() as u64);
    if let Err(error) = result {
        prop_assert!(
            !error.message.is_empty() && !error.message.contains('\n'),
            "{}",
            error
        );
        return Ok(());
    }
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
    let counted = counts.events + counts.null_frees + counts.skipped_lines + counts.malformed_lines;
    prop_assert!(
        counted == lines || (counted == lines + 1 && !bytes.ends_with(b"\n")),
        "{} lines, {:?}",
        lines,
        counts
    );
    prop_assert_eq!(counts.malformed_lines > 0, reader.malformed().is_some());
    prop_assert_eq!(counts.truncated, reader.truncated().is_some());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..2000)) {
        each_line_is_counted_once(&bytes)?;
    }

    #[test]
    fn lines_with_changes(
        lines in vec(select(&LINES[..]), 1..40),
        own in any::<bool>(),
        changes in vec(change(), 0..6),
    ) {
        let mut bytes = if own { b"codetag-trace 1\n".to_vec() } else { Vec::new() };
        for line in lines {
            bytes.extend(line.bytes());
            bytes.push(b'\n');
        }
        for change in &changes {
            change.apply(&mut bytes);
        }
        each_line_is_counted_once(&bytes)?;
        // The two passes over a file agree with each other.
        let file = file_of(&bytes);
        if let Ok(trace) = TraceFile::open(file.path()) {
            let passes = [0, 1].map(|_| {
                let mut reader = trace.events().expect("opened before");
                let (events, result) = drain(&mut reader);
                (events, result.map_err(|error| error.to_string()), reader.counts(), reader.name_shares())
            });
            prop_assert_eq!(&passes[0], &passes[1]);
        }
    }
}
