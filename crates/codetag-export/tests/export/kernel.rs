//! The kernel's `/proc/allocinfo`.

use crate::make;
use codetag_export::{Change, Diff, Measure, Owner, Profile, Source};
use flate2::read::GzDecoder;
use std::io::Read;

const BOOT: &str = "linux-6.12-after-boot.allocinfo.gz";
const LOAD: &str = "linux-6.12-under-load.allocinfo.gz";
const AFTER: &str = "linux-6.12-after-load.allocinfo.gz";

fn unpacked(name: &str) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(&*make::data(name))
        .read_to_end(&mut text)
        .expect("gzip");
    text
}

#[test]
fn version_1_is_read_without_loss() {
    // Tags, tags with bytes, bytes, calls: counted in the files with awk.
    for (name, expected) in [
        (BOOT, (955, 242, 7_718_160, 7_745)),
        (LOAD, (955, 264, 35_041_056, 29_223)),
        (AFTER, (955, 243, 19_433_152, 22_295)),
    ] {
        let profile = make::read(name);
        assert_eq!(profile.source, Source::Allocinfo { major: 1, minor: 0 });
        let with_bytes = profile.usages.iter().filter(|usage| usage.slot_bytes > 0);
        let sums = profile.sums();
        assert_eq!(
            (
                profile.usages.len(),
                with_bytes.count(),
                sums.slot_bytes,
                sums.live_objs
            ),
            expected,
            "{name}"
        );
        assert_eq!(sums.bytes, sums.slot_bytes);
        assert!(
            make::allocinfo(&profile) == unpacked(name),
            "{name} is written as it was"
        );
        let json = codetag_export::read(&*make::json(&profile)).expect("ours");
        assert_eq!(json, profile, "{name}");
    }
}

#[test]
fn version_2_is_read_without_loss() {
    let text = make::data("allocinfo-2.0.txt");
    let profile = make::read("allocinfo-2.0.txt");
    assert_eq!(profile.source, Source::Allocinfo { major: 2, minor: 0 });
    let figures: Vec<(i64, u64, Option<&str>, bool)> = profile
        .usages
        .iter()
        .map(|usage| {
            let tag = usage.owner.tag().expect("a tag");
            (
                usage.slot_bytes,
                usage.live_objs,
                tag.krate.as_deref(),
                usage.is_accurate,
            )
        })
        .collect();
    assert_eq!(
        figures,
        [
            (0, 0, None, true),
            (56_373_248, 4_737, None, true),
            (-4_096, 3, None, true),
            (712_704, 28, Some("nf_tables"), false),
            (640, 10, Some("acme"), false),
        ]
    );
    let extra = [("numa", "3"), ("node.mask", "0-3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(profile.usages[4].extra, extra);
    assert!(make::allocinfo(&profile) == text, "written as it was");
}

#[test]
fn whether_a_figure_is_accurate_is_no_part_of_the_tag() {
    let before = make::read("allocinfo-2.0.txt");
    let mut after = before.clone();
    after.usages[4].is_accurate = true;
    after.usages[4].slot_bytes = 1_000;
    let diff = Diff::new(&before, &after);
    assert_eq!(diff.changes.len(), 5);
    let change = diff.by_size(Measure::Bytes)[0];
    assert_eq!((change.delta().bytes, change.is_accurate), (360, false));
    assert_eq!(change.matched, codetag_export::Match::Same);
}

fn line(change: &Change) -> (i128, i128, String) {
    let Owner::Tag(tag) = &change.owner else {
        panic!("a kernel has tags only");
    };
    let delta = change.delta();
    (
        delta.bytes,
        delta.live_objs,
        format!("{}:{} {}", tag.file, tag.line, tag.function),
    )
}

fn largest(before: &Profile, after: &Profile, expected: &[(i128, i128, &str)]) {
    let diff = Diff::new(before, after);
    assert_eq!(diff.moved(), 0);
    let lines: Vec<_> = diff
        .by_size(Measure::Bytes)
        .into_iter()
        .take(expected.len())
        .map(line)
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|&(b, c, tag)| (b, c, tag.to_owned()))
        .collect();
    assert_eq!(lines, expected);
    let total: i128 = diff.changes.iter().map(|change| change.delta().bytes).sum();
    assert_eq!(total, after.sums().bytes - before.sums().bytes);
}

/// The tables were made from the same files by another program.
#[test]
fn the_largest_differences_are_those_that_were_found_by_other_means() {
    let (boot, load, after) = (make::read(BOOT), make::read(LOAD), make::read(AFTER));
    largest(
        &boot,
        &load,
        &[
            (9_891_840, 2_415, "mm/filemap.c:1944 __filemap_get_folio"),
            (6_414_336, 945, "mm/slub.c:2478 alloc_slab_page"),
            (2_551_680, 4_430, "fs/inode.c:267 alloc_inode"),
            (1_610_280, 2_485, "fs/proc/inode.c:57 proc_alloc_inode"),
            (1_340_736, 6_983, "fs/dcache.c:1650 __d_alloc"),
            (1_241_088, 303, "mm/memory.c:1063 folio_prealloc"),
            (864_256, 211, "mm/memory.c:1065 folio_prealloc"),
            (688_128, 42, "kernel/fork.c:371 alloc_thread_stack_node"),
            (655_360, 160, "arch/x86/mm/pgtable.c:33 pte_alloc_one"),
            (495_616, 121, "mm/memory.c:6359 __pmd_alloc"),
            (425_984, 104, "mm/memory.c:6335 __pud_alloc"),
            (163_840, 40, "arch/x86/mm/pgtable.c:423 _pgd_alloc"),
        ],
    );
    largest(
        &load,
        &after,
        &[
            (-9_891_840, -2_415, "mm/filemap.c:1944 __filemap_get_folio"),
            (-1_241_088, -303, "mm/memory.c:1063 folio_prealloc"),
            (-819_200, -200, "mm/memory.c:1065 folio_prealloc"),
            (-655_360, -160, "arch/x86/mm/pgtable.c:33 pte_alloc_one"),
            (-638_976, -39, "kernel/fork.c:371 alloc_thread_stack_node"),
            (-495_616, -121, "mm/memory.c:6359 __pmd_alloc"),
            (-425_984, -104, "mm/memory.c:6335 __pud_alloc"),
            (-289_728, -503, "fs/inode.c:267 alloc_inode"),
            (-163_840, -40, "arch/x86/mm/pgtable.c:423 _pgd_alloc"),
            (-135_168, -45, "mm/slub.c:2478 alloc_slab_page"),
            (-124_992, -651, "fs/dcache.c:1650 __d_alloc"),
            (-117_312, -39, "kernel/fork.c:188 alloc_task_struct_node"),
        ],
    );
    largest(
        &boot,
        &after,
        &[
            (6_279_168, 900, "mm/slub.c:2478 alloc_slab_page"),
            (2_261_952, 3_927, "fs/inode.c:267 alloc_inode"),
            (1_558_440, 2_405, "fs/proc/inode.c:57 proc_alloc_inode"),
            (1_215_744, 6_332, "fs/dcache.c:1650 __d_alloc"),
            (143_360, 35, "mm/slub.c:2480 alloc_slab_page"),
            (136_064, 874, "mm/slub.c:2010 alloc_slab_obj_exts"),
            (49_152, 3, "kernel/fork.c:371 alloc_thread_stack_node"),
            (45_056, 11, "mm/memory.c:1065 folio_prealloc"),
            (9_024, 3, "kernel/fork.c:188 alloc_task_struct_node"),
            (4_224, 2, "kernel/fork.c:1843 copy_sighand"),
            (3_808, 28, "fs/kernfs/dir.c:624 __kernfs_new_node"),
            (2_880, 3, "kernel/fork.c:1891 copy_signal"),
        ],
    );
}
