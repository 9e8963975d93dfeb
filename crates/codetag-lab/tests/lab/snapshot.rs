//! The state of every cache that the kernel wrote down at the end of a trace.

use crate::data::section;

/// One cache of SLUB.
#[derive(Debug)]
pub(crate) struct SlubCache {
    pub(crate) name: String,
    pub(crate) active_objs: u64,
    pub(crate) slots: u64,
    pub(crate) slot_bytes: u32,
    pub(crate) objs_per_slab: u32,
    pub(crate) pages_per_slab: u32,
    pub(crate) slabs: u64,
    pub(crate) object_bytes: u32,
    pub(crate) align: u32,
    pub(crate) free_pointer_offset: u32,
    pub(crate) flags: u32,
    pub(crate) min_partial: u32,
    /// Objects on the CPU's freelist.
    pub(crate) cpu_free: u64,
    pub(crate) has_cpu_slab: bool,
    /// Objects in use and all objects of the slabs of the node's list, in its order.
    pub(crate) partial: Vec<(u32, u32)>,
}

fn field(line: &str, key: &str) -> Option<u64> {
    let rest = line.split_once(&format!(" {key}="))?.1;
    let word = rest.split([' ', '/']).next()?;
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

pub(crate) fn slub(end_state: &str) -> Vec<SlubCache> {
    section(end_state, "snap1")
        .filter(|line| line.contains(" ; object_size="))
        .map(slub_line)
        .collect()
}

fn slub_line(line: &str) -> SlubCache {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |index: usize| words[index].parse::<u64>().unwrap();
    let named = |key| field(line, key).unwrap_or_else(|| panic!("no {key} in {line}"));
    let (_, partial) = line.split_once(" ; partial ").unwrap();
    let pair = |entry: &str| {
        let (inuse, objs) = entry.split_once(':')?.1.split_once('/')?;
        Some((inuse.parse().ok()?, objs.parse().ok()?))
    };
    SlubCache {
        name: words[0].to_owned(),
        active_objs: number(1),
        slots: number(2),
        slot_bytes: number(3) as u32,
        objs_per_slab: number(4) as u32,
        pages_per_slab: number(5) as u32,
        slabs: number(6),
        object_bytes: named("object_size") as u32,
        align: named("align") as u32,
        free_pointer_offset: named("offset") as u32,
        flags: named("flags") as u32,
        min_partial: named("min_partial") as u32,
        cpu_free: field(line, "cpu_free").unwrap_or(0),
        has_cpu_slab: line.contains(" cpu pfn="),
        partial: partial.split(' ').filter_map(pair).collect(),
    }
}

/// A number from the head of the snapshot, as `nr_free_pages`.
pub(crate) fn counter(end_state: &str, key: &str) -> u64 {
    let line =
        section(end_state, "snap1").find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or_else(|| panic!("no {key}"))
}

/// One list of SLOB.
#[derive(Debug)]
pub(crate) struct SlobList {
    pub(crate) pages: u64,
    pub(crate) free_units: u64,
    /// Of each page, in the order of the list.
    pub(crate) page_units: Vec<u16>,
}

/// The lists, small ones first.
pub(crate) fn slob(end_state: &str) -> Vec<SlobList> {
    let lists = section(end_state, "snap1").filter_map(|line| {
        let (head, pages) = line.split_once(": ")?;
        let (head, free_units) = head.split_once(" free_units ")?;
        let (_, page_count) = head.split_once(" pages ")?;
        Some(SlobList {
            pages: page_count.parse().ok()?,
            free_units: free_units.parse().ok()?,
            page_units: pages
                .split(' ')
                .filter_map(|entry| entry.split_once(':')?.1.parse().ok())
                .collect(),
        })
    });
    lists.collect()
}
