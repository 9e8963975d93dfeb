//! Tags compiled in, an allocator, and not one tag: the section that lists them is empty.

use codetag::{Snapshot, StateKind};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // On this thread, so that no other one's allocations are in the figures.
    arguments.test_threads = Some(1);
    let name = "a_program_without_a_tag_runs_pages_and_lists";
    let trial = Trial::test(name, || {
        runs_pages_and_lists();
        Ok(())
    });
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

fn runs_pages_and_lists() {
    let has_tags = codetag::state().kind != StateKind::TagsOff;
    assert_eq!(codetag::tags().count(), 0);
    for n in [1_000, 2_000] {
        assert_eq!(codetag::enable().is_ok(), has_tags);
        assert_eq!(codetag::is_enabled(), has_tags);
        let before = Snapshot::take().untagged();
        let held: Vec<Box<[u8; 40]>> = (0..n).map(|_| Box::new([1; 40])).collect();
        let s = Snapshot::take();
        let (objs, bytes) = if has_tags {
            (n + 1, n * 40 + n * 8)
        } else {
            (0, 0)
        };
        assert_eq!(s.untagged().live_objs - before.live_objs, objs);
        assert_eq!(s.untagged().live_bytes - before.live_bytes, bytes);
        assert_eq!(s.usages().count(), 0);
        let heap = s.heap();
        assert_eq!(heap.unaccounted_bytes, 0);
        assert_eq!(
            [
                heap.code_tags_bytes,
                heap.tag_relocations_bytes,
                heap.tag_strings_bytes,
                heap.registry_bytes
            ],
            [0; 4]
        );

        let page = codetag::show_mem().to_string();
        assert!(page.contains("Memory allocations:\nSlab info:\n"), "{page}");
        assert!(page.contains("unaccounted:"), "{page}");
        let list = codetag::allocinfo().to_string();
        assert!(list.starts_with("allocinfo - version: 2.0\n"), "{list}");
        let functions = list.lines().filter_map(|line| line.split_once(" func:"));
        let functions: Vec<_> = functions.map(|(_, f)| f.split(' ').next()).collect();
        assert_eq!(functions, [Some("untagged"), Some("untracked")], "{list}");
        drop((s, held));
        codetag::disable();
        assert!(!codetag::is_enabled());
    }
}
