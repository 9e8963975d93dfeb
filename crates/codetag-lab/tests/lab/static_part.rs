//! What follows from sizes alone, against every slabinfo and every directory of caches that a kernel wrote.

use crate::data::{files, text};
use crate::snapshot;
use codetag_lab::kmalloc::{CLASSES, KmallocAlign, cache_align_of_class};
use codetag_lab::known::known_cache;
use codetag_lab::model::CacheFlags;
use codetag_lab::slab::{GeometryParams, geometry, tunables};
use codetag_lab::slub::{
    DebugFlags, LayoutParams, OrderParams, calculate_order, cpu_partial_objs, layout, min_partial,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The one object whose slot is larger and matters: 64 indices do not fit into it. As in traces of this kernel.
const FS_CACHE_BYTES: u32 = 48;

/// The columns that do not depend on what is allocated.
struct Line<'t> {
    name: &'t str,
    slot_bytes: u32,
    objs: u32,
    pages: u32,
    tunables: [u32; 3],
}

fn slabinfo_lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (columns, rest) = line.split_once(" : tunables ")?;
            let (tunables, _) = rest.split_once(" : slabdata ")?;
            // From the right: some lines stand behind the number of a sample.
            let mut words = columns.split_whitespace().rev();
            let mut number = || words.next()?.parse().ok();
            let (pages, objs, slot_bytes) = (number()?, number()?, number()?);
            let name = words.nth(2)?;
            let tunables: Vec<u32> = tunables
                .split_whitespace()
                .map(|word| word.parse().unwrap())
                .collect();
            Some(Line {
                name,
                slot_bytes,
                objs,
                pages,
                tunables: tunables.try_into().unwrap(),
            })
        })
}

/// `SLUB: HWalign=64, Order=0-3, MinObjects=0, CPUs=2, Nodes=1`; the files without this line are of one CPU.
fn cpus(text: &str) -> u32 {
    let printed = text
        .split_once("SLUB: HWalign=")
        .and_then(|(_, rest)| rest.split_once("CPUs="));
    printed.map_or(1, |(_, rest)| {
        rest.split(',').next().unwrap().parse().unwrap()
    })
}

fn all_files() -> Vec<PathBuf> {
    let end_states = files("traces")
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(".end-state."));
    files("slabinfo").into_iter().chain(end_states).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn order_and_objects_of_every_slabinfo_line() {
    let (mut slub_lines, mut slab_lines, mut with_lines) = (0, 0, 0);
    for path in all_files() {
        let text = text(&path);
        let file = name_of(&path);
        // All these boots have 32 MB or less.
        let is_slab = file.contains("-slab.");
        let before = slub_lines + slab_lines;
        for line in slabinfo_lines(&text) {
            let at = format!("{file}: {}", line.name);
            if is_slab {
                let known = known_cache(line.name);
                assert!(
                    known.is_some() || line.name.starts_with("kmalloc-"),
                    "{at} is not known"
                );
                let flags = known.map_or_else(CacheFlags::default, |known| known.flags);
                let cut = geometry(GeometryParams {
                    object_bytes: if line.name == "fs_cache" {
                        FS_CACHE_BYTES
                    } else {
                        line.slot_bytes
                    },
                    align: if line.name == "fs_cache" { 64 } else { 8 },
                    keeps_objects: flags.ctor || flags.rcu,
                    reclaim: flags.reclaim,
                    max_order: 0,
                });
                assert_eq!(
                    (cut.slot_bytes, cut.objs, 1 << cut.order),
                    (line.slot_bytes, line.objs, line.pages),
                    "{at}"
                );
                let of = tunables(line.slot_bytes, 1);
                assert_eq!([of.limit, of.batchcount, of.shared], line.tunables, "{at}");
                slab_lines += 1;
            } else {
                let steps = calculate_order(line.slot_bytes, OrderParams::new(cpus(&text)));
                assert_eq!(
                    (steps.objs, 1 << steps.order),
                    (line.objs, line.pages),
                    "{at}"
                );
                assert_eq!(line.tunables, [0; 3], "{at}");
                slub_lines += 1;
            }
        }
        with_lines += usize::from(slub_lines + slab_lines > before);
    }
    // 89 files and the end states of four traces of SLUB; SLOB has no slabinfo.
    assert_eq!((with_lines, slab_lines, slub_lines), (93, 1000, 5831));
}

#[test]
fn min_partial_and_cpu_partial_of_every_cache_directory() {
    let mut counts = [0; 3];
    for path in all_files() {
        let text = text(&path);
        for (name, fields) in cache_directories(&text) {
            let at = format!("{}: {name}", name_of(&path));
            let field = |key: &str| fields.get(key).map(|value| value.parse::<u32>().unwrap());
            let slot_bytes = field("slab_size").unwrap();
            assert_eq!(field("min_partial"), Some(min_partial(slot_bytes)), "{at}");
            let steps = calculate_order(slot_bytes, OrderParams::new(cpus(&text)));
            assert_eq!(
                (field("order"), field("objs_per_slab")),
                (Some(steps.order), Some(steps.objs)),
                "{at}"
            );
            counts[0] += 1;
            // 0 where the kernel is built without.
            if let Some(cpu_partial) = field("cpu_partial").filter(|&objs| objs > 0) {
                assert_eq!(cpu_partial, cpu_partial_objs(slot_bytes), "{at}");
                counts[1] += 1;
            }
            if let Some(align) = field("align") {
                let object_bytes = field("object_size").unwrap();
                let params = LayoutParams {
                    object_bytes,
                    align,
                    ctor: !fields["ctor"].is_empty(),
                    rcu: field("rcu") == Some(1),
                    kmalloc: name.starts_with("kmalloc"),
                    debug: DebugFlags::default(),
                };
                assert_eq!(layout(params).size_bytes, slot_bytes, "{at}");
                counts[2] += 1;
            }
        }
    }
    assert_eq!(counts, [578, 177, 224]);
}

/// `name key=value …`, one directory of /sys/kernel/slab to a line; lines of the console may stand between.
fn cache_directories(text: &str) -> impl Iterator<Item = (&str, BTreeMap<&str, &str>)> {
    text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" object_size=")?;
        let rest = line
            .get(name.len() + 1..)
            .filter(|_| rest.contains(" slab_size="))?;
        Some((
            name,
            rest.split(' ')
                .filter_map(|pair| pair.split_once('='))
                .collect(),
        ))
    })
}

#[test]
fn slots_and_free_pointers_of_every_cache_at_the_end_of_a_trace() {
    const RCU: u32 = 0x8_0000;
    let mut caches = 0;
    for path in files("traces")
        .into_iter()
        .filter(|path| name_of(path).starts_with("slub-"))
    {
        if !name_of(&path).contains("end-state") {
            continue;
        }
        for cache in snapshot::slub(&text(&path)) {
            let is_kmalloc = cache.name.starts_with("kmalloc");
            // A constructor is not in the flags: these caches have one, and nothing else pushes the pointer out.
            let ctor = matches!(
                cache.name.as_str(),
                "inode_cache" | "proc_inode_cache" | "shmem_inode_cache" | "radix_tree_node"
            );
            let got = layout(LayoutParams {
                object_bytes: cache.object_bytes,
                align: cache.align,
                ctor,
                rcu: cache.flags & RCU != 0,
                kmalloc: is_kmalloc,
                debug: DebugFlags::default(),
            });
            assert_eq!(got.size_bytes, cache.slot_bytes, "{}", cache.name);
            // Merging may have raised the object's size after the pointer was placed.
            let is_merged = got.free_pointer_offset != cache.free_pointer_offset;
            assert!(
                !is_merged || cache.free_pointer_offset < got.free_pointer_offset,
                "{}",
                cache.name
            );
            assert_eq!(
                min_partial(cache.slot_bytes),
                cache.min_partial,
                "{}",
                cache.name
            );
            caches += 1;
        }
    }
    assert_eq!(caches, 4 * 56);
}

#[test]
fn kmalloc_slots_under_fzpu() {
    let mut lines = 0;
    for path in files("slabinfo")
        .into_iter()
        .filter(|path| name_of(path).contains("FZPU"))
    {
        for line in slabinfo_lines(&text(&path)) {
            let Some(class) = CLASSES.into_iter().find(|class| {
                let size = if *class >= 1024 {
                    format!("{}k", class / 1024)
                } else {
                    class.to_string()
                };
                line.name == format!("kmalloc-{size}") || line.name == format!("kmalloc-rcl-{size}")
            }) else {
                continue;
            };
            let got = layout(LayoutParams {
                object_bytes: class,
                align: cache_align_of_class(class, KmallocAlign::PowerOfTwo),
                ctor: false,
                rcu: false,
                kmalloc: true,
                debug: DebugFlags::FZPU,
            });
            assert_eq!(got.size_bytes, line.slot_bytes, "{}", line.name);
            lines += 1;
        }
    }
    assert_eq!(lines, 10 * 26);
}
