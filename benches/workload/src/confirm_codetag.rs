//! What codetag says of itself: its state, a known number of live objects, and what its tables take.

use crate::report::Report;
use codetag::{ClassUsage, HeapTotals, Snapshot, StateKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Live objects of a known number, from before the measurement to after it.
#[derive(Debug)]
pub(crate) struct Held {
    _small: Vec<Vec<u64>>,
    _large: Vec<Vec<u8>>,
}

const SMALL_OBJS: usize = 1_000;
const LARGE_OBJS: usize = 3;
const LARGE_BYTES: usize = 256 << 10;

/// What [`print_memory`] allocates.
const LARGER_OBJS: usize = 256;
const LARGE_OBJS_COUNTED: usize = 1_000;

const PAGE_BYTES: u64 = 4_096;

impl Held {
    pub(crate) fn new() -> Self {
        // The two vectors' own memory is not to be charged to the tag.
        let (mut small, mut large) = (
            Vec::with_capacity(SMALL_OBJS),
            Vec::with_capacity(LARGE_OBJS),
        );
        held(&mut small, &mut large);
        Self {
            _small: small,
            _large: large,
        }
    }

    pub(crate) fn print(&self, when: &str, report: &mut Report) {
        let state = match codetag::state().kind {
            StateKind::TagsOff => "tags-off",
            StateKind::Never => "never",
            StateKind::Off => "off",
            StateKind::On => "on",
            _ => "unknown",
        };
        let snapshot = Snapshot::take();
        let usage = snapshot
            .usages()
            .find(|usage| usage.tag.function() == "held");
        report.line(format_args!("state:{when}"), state);
        let (objs, bytes) = usage.map_or((0, 0), |usage| (usage.live_objs, usage.live_bytes));
        report.line(format_args!("tracked_objs:{when}"), objs);
        report.line(format_args!("tracked_bytes:{when}"), bytes);
    }
}

/// 1,000 objects of 24 B and 3 of 256 KiB.
#[codetag::alloc_tag]
fn held(small: &mut Vec<Vec<u64>>, large: &mut Vec<Vec<u8>>) {
    small.extend((0..SMALL_OBJS as u64).map(|n| vec![n; 3]));
    large.extend((0..LARGE_OBJS).map(|_| Vec::with_capacity(LARGE_BYTES)));
}

pub(crate) fn enable() -> Result<(), codetag::EnableError> {
    codetag::enable()
}

/// Bytes of the tables, per slot of each class and per large object, with some of every size alive.
pub(crate) fn print_memory(report: &mut Report) {
    const OBJS: usize = 5_000;
    let sizes = || (8..=240_usize).step_by(8);
    let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(30 * OBJS + LARGER_OBJS + LARGE_OBJS_COUNTED);
    for size in sizes() {
        blocks.extend((0..OBJS).map(|_| Vec::with_capacity(size)));
    }
    let snapshot = Snapshot::take();
    for size in sizes() {
        let class = snapshot
            .classes()
            .find(|class| class.slot_bytes >= size as u64);
        report.line(
            format_args!("obj_exts_bytes_per_slot:{size}"),
            format_args!("{:.3}", class.map_or(0.0, per_slot)),
        );
    }
    let heap = snapshot.heap();
    report.line(
        "obj_exts_percent",
        format_args!(
            "{:.3}",
            100.0 * per(heap.obj_exts_bytes, heap.obtained_bytes)
        ),
    );

    // All other classes, up to sizes that have none.
    blocks.extend((1..=LARGER_OBJS).map(|n| Vec::with_capacity(256 * n)));
    let snapshot = Snapshot::take();
    for class in snapshot.classes() {
        report.line(
            format_args!("obj_exts_class:{}", class.slot_bytes),
            format_args!("{:.3}", per_slot(class)),
        );
    }
    if let Some(most) = snapshot
        .classes()
        .max_by(|a, b| per_slot(a).total_cmp(&per_slot(b)))
    {
        report.line(
            "obj_exts_bytes_per_slot_max",
            format_args!("{:.3}", per_slot(most)),
        );
        report.line("obj_exts_bytes_per_slot_max_class", most.slot_bytes);
    }

    blocks.extend((0..LARGE_OBJS_COUNTED).map(|_| Vec::with_capacity(LARGE_BYTES)));
    let snapshot = Snapshot::take();
    let heap = snapshot.heap();
    report.line(
        "page_ext_bytes_per_entry",
        format_args!("{:.3}", per(heap.page_ext_bytes, heap.large_objs)),
    );
    report.line(
        "page_ext_bytes_per_page",
        format_args!(
            "{:.3}",
            per(heap.page_ext_bytes, heap.large_objects_bytes / PAGE_BYTES)
        ),
    );
    print_metadata(heap, report);
}

/// What lies outside the heap, by kind.
fn print_metadata(heap: &HeapTotals, report: &mut Report) {
    report.line("code_tags", codetag::tags().count());
    report.line("code_tag_bytes", heap.code_tags_bytes);
    report.line("tag_reloc_bytes", heap.tag_relocations_bytes);
    report.line("tag_string_bytes", heap.tag_strings_bytes);
    report.line("page_ext_bytes", heap.page_ext_bytes);
    report.line("registry_bytes", heap.registry_bytes);
    report.line("thread_heap_bytes", heap.thread_heaps_bytes);
    report.line("counters_bytes", counters_bytes());
}

/// Counters per tag and CPU are kept in one configuration, for the bench alone.
#[cfg(codetag_counters)]
fn counters_bytes() -> u64 {
    codetag::__private::counter_bytes().unwrap_or(0)
}

#[cfg(not(codetag_counters))]
fn counters_bytes() -> u64 {
    0
}

fn per_slot(class: &ClassUsage) -> f64 {
    per(class.obj_exts_bytes, class.slots)
}

fn per(bytes: u64, count: u64) -> f64 {
    bytes as f64 / count.max(1) as f64
}

/// Whether [`at_peak`] looks at the heap.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
/// The most that the vectors took so far.
static OBJ_EXTS_BYTES_MAX: AtomicU64 = AtomicU64::new(0);

/// A workload calls this where it has most alive.
pub(crate) fn at_peak() {
    if IS_WATCHED.load(Ordering::Relaxed) {
        let bytes = Snapshot::take().heap().obj_exts_bytes;
        OBJ_EXTS_BYTES_MAX.fetch_max(bytes, Ordering::Relaxed);
    }
}

/// Runs a workload once and prints what its vectors took at most.
pub(crate) fn watch_peak(run: &mut dyn FnMut(), report: &mut Report) {
    OBJ_EXTS_BYTES_MAX.store(0, Ordering::Relaxed);
    IS_WATCHED.store(true, Ordering::Relaxed);
    run();
    IS_WATCHED.store(false, Ordering::Relaxed);
    report.line("obj_exts_bytes", OBJ_EXTS_BYTES_MAX.load(Ordering::Relaxed));
}

/// What the heap has from the system now.
pub(crate) fn print_heap(when: &str, report: &mut Report) -> Result<(), String> {
    let snapshot = Snapshot::take();
    let heap = snapshot.heap();
    report.line(
        format_args!("heap_bytes:{when}"),
        heap.obtained_bytes.saturating_sub(heap.returned_bytes),
    );
    Ok(())
}

pub(crate) fn shrink() {
    codetag::shrink();
}
