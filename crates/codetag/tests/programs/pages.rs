//! Pages and lists: when they can be made, what making one takes, and what they print.

use crate::block::{Block, layout};
use crate::figures::{all_figures, assert_owned, enable, has_tags, quiet};
use crate::inner::INNER;
use crate::runner::Program;
use crate::text::{HEADINGS, Text, assert_quiet, assert_whole, figure, line, section};
use crate::threads::join;
use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::panic;
use std::process::Output;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

const FIRST: &str = "a_page_can_be_made_before_the_first_allocation";

pub(crate) fn programs() -> Vec<Program> {
    let mut programs = vec![
        Program::new(
            "making_a_page_takes_one_block_and_gives_it_back",
            takes_one_block,
        ),
        Program::new("making_a_page_while_off_takes_nothing", takes_nothing),
        Program::new("a_page_can_be_made_under_never", under_never).with_codetag("never"),
        Program::new(
            "a_page_can_be_made_in_thread_local_destructors",
            in_destructors,
        ),
        Program::new("a_page_can_be_made_at_exit", at_exit).checked_by(check_at_exit),
        Program::new(
            "a_page_can_be_made_in_a_panic_hook_that_allocates",
            in_panic_hook,
        ),
        Program::new("two_threads_make_whole_pages_at_once", two_at_once),
        Program::new(
            "a_page_without_memory_for_its_tallies_has_its_heap_lines",
            without_memory,
        ),
        Program::new("every_label_of_a_page_is_explained", labels),
        Program::new("allocinfo_is_the_kernels_format_byte_for_byte", allocinfo),
    ];
    if cfg!(target_os = "linux") {
        programs.push(Program::new(FIRST, before_first));
    }
    if has_tags() {
        programs.push(Program::new(
            "the_page_lists_the_largest_tags_in_order",
            largest_tags,
        ));
    } else {
        programs.push(Program::new(
            "a_page_with_tags_off_has_the_heap_alone",
            tags_off,
        ));
    }
    programs
}

#[codetag::alloc_tag]
fn keep(size: usize) -> Block {
    Block::new(layout(size, 8)).unwrap()
}

/// Calls of the inner allocator so far, and what is out: asked, given back, blocks, bytes.
fn calls() -> [u64; 4] {
    [
        &INNER.asked,
        &INNER.given_back,
        &INNER.blocks_out,
        &INNER.bytes_out,
    ]
    .map(|n| n.load(SeqCst))
}

/// What `make` and printing took: blocks asked for and given back; nothing may be left.
fn taken_by<R: fmt::Display>(make: fn() -> R) -> (u64, u64) {
    let figures = all_figures();
    let before = calls();
    let text = Text::of(&make());
    let after = calls();
    assert!(text.as_str().lines().count() > 3);
    assert_eq!(all_figures(), figures, "the measured heap changed");
    assert_eq!(after[2..], before[2..], "something is left");
    (after[0] - before[0], after[1] - before[1])
}

fn takes_one_block() {
    enable();
    let _held = (keep(100), keep(20_000));
    let one = if has_tags() { (1, 1) } else { (0, 0) };
    assert_eq!(taken_by(codetag::show_mem), one);
    assert_eq!(taken_by(|| codetag::show_mem().top(1000)), one);
    assert_eq!(taken_by(codetag::allocinfo), one);
    assert_quiet(Text::of(&codetag::show_mem()).as_str());
}

fn takes_nothing() {
    let _held = (keep(100), keep(20_000));
    for _ in 0..2 {
        // There are no tallies to keep.
        assert_eq!(taken_by(codetag::show_mem), (0, 0));
        assert_eq!(taken_by(codetag::allocinfo), (0, 0));
        let page = Text::of(&codetag::show_mem());
        assert_quiet(page.as_str());
        assert_eq!(figure(page.as_str(), "tagged"), 0);
        assert!(figure(page.as_str(), "untracked") > 20_100);
        let state = if has_tags() {
            "off, for "
        } else {
            "tags off, for "
        };
        assert!(line(page.as_str(), "state").starts_with(state));
        enable();
        codetag::disable();
    }
}

fn under_never() {
    let held = (keep(100), keep(20_000));
    let page = Text::of(&codetag::show_mem());
    assert_quiet(page.as_str());
    if has_tags() {
        assert!(line(page.as_str(), "state").starts_with("never, for "));
    }
    for nothing in [
        "obj_exts",
        "page_ext",
        "tracked requested",
        "tracked waste",
        "tagged",
        "untagged",
    ] {
        assert_eq!(figure(page.as_str(), nothing), 0, "{nothing}");
    }
    assert_eq!(figure(page.as_str(), "large objects"), 20_000);
    assert_eq!(taken_by(codetag::show_mem), (0, 0));
    drop(held);
    assert_eq!(
        figure(Text::of(&codetag::show_mem()).as_str(), "large objects"),
        0
    );
}

static EARLY_PAGE: Mutex<Text> = Mutex::new(Text::new());
static ASKED_BEFORE_MAIN: AtomicU64 = AtomicU64::new(u64::MAX);

#[cfg(target_os = "linux")]
#[used]
// SAFETY: an entry of this section is a function that the loader calls once, before main.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

#[cfg(target_os = "linux")]
extern "C" fn before_main() {
    // SAFETY: nothing changes the environment yet, and the name ends in NUL.
    let wanted = unsafe {
        let name = libc::getenv(c"CODETAG_TEST_PROGRAM".as_ptr());
        !name.is_null() && std::ffi::CStr::from_ptr(name).to_bytes() == FIRST.as_bytes()
    };
    if wanted {
        EARLY_PAGE.lock().unwrap().print(&codetag::show_mem());
        ASKED_BEFORE_MAIN.store(INNER.asked.load(SeqCst), SeqCst);
    }
}

fn before_first() {
    assert_eq!(
        ASKED_BEFORE_MAIN.load(SeqCst),
        0,
        "something was allocated before"
    );
    let page = EARLY_PAGE.lock().unwrap();
    assert_quiet(page.as_str());
    assert_eq!(figure(page.as_str(), "obtained"), 0);
    drop(page);
    let _held = keep(100);
    assert_quiet(Text::of(&codetag::show_mem()).as_str());
}

static LATE_PAGES: Mutex<[Text; 2]> = Mutex::new([const { Text::new() }; 2]);

/// Makes a page when it is dropped, between an allocation and a free of its own.
struct PageOnDrop(usize, Option<Block>);

impl Drop for PageOnDrop {
    fn drop(&mut self) {
        let own = keep(300);
        LATE_PAGES.lock().unwrap()[self.0].print(&codetag::show_mem());
        drop((own, self.1.take()));
    }
}

thread_local! {
    // Touched before the thread's first allocation, so dropped after the allocator's own.
    static EARLIER: RefCell<Option<PageOnDrop>> = const { RefCell::new(None) };
    static LATER: RefCell<Option<PageOnDrop>> = const { RefCell::new(None) };
}

/// A thread of std's has allocated before it gets here.
extern "C" fn destructors_of_a_raw_thread(_: *mut libc::c_void) -> *mut libc::c_void {
    EARLIER.with_borrow_mut(|e| *e = Some(PageOnDrop(0, None)));
    let (small, large) = (keep(100), keep(20_000));
    LATER.with_borrow_mut(|l| *l = Some(PageOnDrop(1, Some(small))));
    EARLIER.with_borrow_mut(|e| e.as_mut().unwrap().1 = Some(large));
    std::ptr::null_mut()
}

fn in_destructors() {
    enable();
    let mut thread = 0;
    // SAFETY: the function takes nothing, and the thread is joined.
    unsafe {
        let f = destructors_of_a_raw_thread;
        assert_eq!(
            libc::pthread_create(&raw mut thread, std::ptr::null(), f, std::ptr::null_mut()),
            0
        );
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
    }
    let pages = LATE_PAGES.lock().unwrap();
    pages.iter().for_each(|p| assert_quiet(p.as_str()));
    if has_tags() {
        let owned = pages.each_ref().map(|p| figure(p.as_str(), "tagged"));
        // The thread's own block goes last.
        assert_eq!(owned, [20_000 + 300, 100 + 20_000 + 300]);
    }
    drop(pages);
    assert_owned("pages::keep", 0, 0);
}

fn at_exit() {
    extern "C" fn print() {
        let own = keep(300);
        let page = Text::of(&codetag::show_mem());
        drop(own);
        let text = page.as_str().as_bytes();
        // SAFETY: the text is as long as it says.
        let written = unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        assert_eq!(written, text.len().cast_signed());
    }
    enable();
    LATER.with_borrow_mut(|l| *l = Some(PageOnDrop(0, Some(keep(77)))));
    // SAFETY: the function may be called at any time.
    assert_eq!(unsafe { libc::atexit(print) }, 0);
}

fn check_at_exit(output: &Output) {
    let page = String::from_utf8_lossy(&output.stderr);
    assert_quiet(&page);
    if has_tags() {
        assert_eq!(
            figure(&page, "tagged"),
            300,
            "main's thread-locals are gone by then: {page}"
        );
    }
}

#[codetag::alloc_tag]
fn panics() {
    let _held = keep(1000);
    panic!("on purpose, {} B are held", 1000);
}

fn in_panic_hook() {
    static DEPTH: AtomicU32 = AtomicU32::new(0);
    static RUNS: AtomicU32 = AtomicU32::new(0);
    enable();
    panic::set_hook(Box::new(|info| {
        assert_eq!(DEPTH.fetch_add(1, SeqCst), 0, "the hook ran into itself");
        let words = format!("{info}");
        let own = keep(words.len());
        LATE_PAGES.lock().unwrap()[0].print(&codetag::show_mem());
        drop(own);
        RUNS.fetch_add(1, SeqCst);
        DEPTH.fetch_sub(1, SeqCst);
    }));
    for run in 1..=3 {
        if run == 2 {
            assert!(thread::spawn(panics).join().is_err());
        } else {
            assert!(panic::catch_unwind(panics).is_err());
        }
        assert_eq!(RUNS.load(SeqCst), run);
        let page = LATE_PAGES.lock().unwrap();
        assert_quiet(page[0].as_str());
        assert!(!has_tags() || figure(page[0].as_str(), "tagged") > 1000);
        drop(page);
        assert_owned("pages::keep", 0, 0);
        // The message and what carries it are gone with the panic.
        assert_owned("pages::panics", 0, 0);
    }
    drop(panic::take_hook());
}

fn two_at_once() {
    const PAGES: u64 = 300;
    enable();
    let _held: Vec<_> = (0..500).map(|i| keep(1 + 50 * i)).collect();
    let start = Arc::new(Barrier::new(3));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let start = Arc::clone(&start);
            thread::spawn(move || {
                let mut text = Text::new();
                start.wait();
                for i in 0..PAGES {
                    text.print(&codetag::show_mem());
                    assert_whole(text.as_str());
                    if i % 16 == 0 {
                        // In between, the other one is read in motion.
                        drop(keep(40_000));
                    }
                }
            })
        })
        .collect();
    start.wait();
    join(threads);
    assert_quiet(Text::of(&codetag::show_mem()).as_str());
}

fn without_memory() {
    enable();
    let _held = (keep(100), keep(20_000));
    INNER.fail_every.store(1, SeqCst);
    let page = Text::of(&codetag::show_mem());
    let list = Text::of(&codetag::allocinfo());
    INNER.fail_every.store(0, SeqCst);
    assert_quiet(page.as_str());
    assert!(figure(page.as_str(), "large objects") >= 20_000);
    assert!(list.as_str().starts_with("allocinfo - version: 2.0\n"));
    if has_tags() {
        let tags = section(page.as_str(), "Memory allocations:");
        assert!(
            tags.eq(["no memory for per-tag figures"]),
            "{}",
            page.as_str()
        );
        assert_eq!(INNER.failed.load(SeqCst), 2);
    }
    let page = Text::of(&codetag::show_mem());
    assert!(!page.as_str().contains("no memory"));
    assert_owned("pages::keep", 2, 20_100);
}

fn labels() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SHOW_MEM.md");
    let docs = fs::read_to_string(docs).unwrap();
    enable();
    let _held = keep(100);
    let page = Text::of(&codetag::show_mem());
    let page = page.as_str();
    let mut labels = HEADINGS.to_vec();
    for heading in &HEADINGS[..4] {
        labels.extend(section(page, heading).map(|l| l.split_once(':').unwrap().0.trim_start()));
    }
    labels.extend(
        section(page, "Slab info:")
            .next()
            .unwrap()
            .split_whitespace(),
    );
    assert!(labels.len() > 35, "{labels:?}");
    for label in labels {
        assert!(
            docs.contains(&format!("`{label}`")),
            "`{label}` is not explained"
        );
    }
}

#[codetag::alloc_tag(name = "named")]
fn keep_named(size: usize) -> Block {
    keep_more(size)
}

#[codetag::alloc_tag]
fn keep_more(size: usize) -> Block {
    Block::new(layout(size, 8)).unwrap()
}

fn allocinfo() {
    // Three objects from before, one of them large.
    let mut before: Vec<Block> = Vec::with_capacity(3);
    before.extend([keep(100), keep(200), keep(50_000)]);
    enable();
    let _held = (
        keep(100),
        keep(20_000),
        keep_named(10),
        keep_more(1_000_000),
    );
    let list = Text::of(&codetag::allocinfo());
    let s = quiet();
    let mut lines = list.as_str().split_inclusive('\n');
    assert_eq!(lines.next(), Some("allocinfo - version: 2.0\n"));
    assert_eq!(lines.next(), Some("#     <size>  <calls> <tag info>\n"));
    let mut zeros = 0;
    for tag in codetag::tags() {
        let usage = s.usages().find(|u| std::ptr::eq(u.tag, tag));
        let (slot_bytes, objs, bytes) =
            usage.map_or((0, 0, 0), |u| (u.slot_bytes, u.live_objs, u.live_bytes));
        zeros += u64::from(objs == 0);
        let place = format!(
            "{}:{} [{}] func:{}",
            tag.file(),
            tag.line(),
            tag.krate(),
            tag.function()
        );
        let name = tag
            .name()
            .map_or(String::new(), |n| format!(" name:{}", n.replace(' ', "_")));
        let line = format!("{slot_bytes:>12} {objs:>8} {place}{name} requested:{bytes} \n");
        assert_eq!(lines.next(), Some(line.as_str()));
    }
    assert!(
        !has_tags() || zeros > 10,
        "tags that own nothing are listed"
    );
    let (untagged, untracked) = (s.untagged(), s.untracked());
    let line = format!(
        "{:>12} {:>8} <untagged>:0 func:untagged requested:{} \n",
        untagged.slot_bytes, untagged.live_objs, untagged.live_bytes
    );
    assert_eq!(lines.next(), Some(line.as_str()));
    let line = format!(
        "{:>12} {:>8} <untracked>:0 func:untracked accurate:no \n",
        untracked.slot_bytes, untracked.live_objs
    );
    assert_eq!(lines.next(), Some(line.as_str()));
    assert_eq!(lines.next(), None);
    assert!(untracked.live_objs >= 4 && untracked.slot_bytes >= 50_000 + 100 + 200);
    if has_tags() {
        // 20,104 bytes of slots: a slot of 104, and a large object as it is.
        let keep = |l: &&str| {
            l.starts_with("       20104        2 ")
                && l.contains("/tests/programs/pages.rs:")
                && l.ends_with(" [programs] func:keep requested:20100 \n")
        };
        assert_eq!(list.as_str().split_inclusive('\n').filter(keep).count(), 1);
    }
}

macro_rules! owners {
    ($($owner:ident)*) => {
        $(
            #[codetag::alloc_tag]
            fn $owner(bytes: usize) -> Block {
                Block::new(layout(bytes, 8)).unwrap()
            }
        )*
        const OWNERS: &[(&str, fn(usize) -> Block)] = &[$((stringify!($owner), $owner)),*];
    };
}

owners!(ada bea cia dea eda fia gia hea ida jea kia lea);

fn largest_tags() {
    const BYTES: [(usize, &str); 12] = [
        (1, "1 B"),
        (3 << 20, "3.00 MiB"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (10 << 10, "10.0 KiB"),
        (100 << 10, "100 KiB"),
        (1536, "1.50 KiB"),
        (999_999, "977 KiB"),
        (2_000_000, "1.91 MiB"),
        (16_384, "16.0 KiB"),
        (16_385, "16.0 KiB"),
        (2, "2 B"),
    ];
    enable();
    let _held: [Block; 12] = std::array::from_fn(|i| OWNERS[i].1(BYTES[i].0));
    let mut order: [usize; 12] = std::array::from_fn(|i| i);
    order.sort_by_key(|&i| std::cmp::Reverse(BYTES[i].0));
    let expected = order.map(|i| {
        let (size, owner) = (BYTES[i].1, OWNERS[i].0);
        let tag = codetag::tags().find(|t| t.function() == owner).unwrap();
        format!(
            "{size:>12} {:>8} {}:{} [programs] func:{owner}",
            1,
            tag.file(),
            tag.line()
        )
    });
    for (page, n) in [
        (Text::of(&codetag::show_mem()), 10),
        (Text::of(&codetag::show_mem().top(12)), 12),
        (Text::of(&codetag::show_mem().top(1)), 1),
        (Text::of(&codetag::show_mem().top(0)), 0),
    ] {
        let lines = section(page.as_str(), "Memory allocations:");
        assert!(
            lines.eq(expected.iter().take(n)),
            "{n} of {expected:#?} in\n{}",
            page.as_str()
        );
    }
    let all = Text::of(&codetag::show_mem().top(usize::MAX));
    assert_eq!(section(all.as_str(), "Memory allocations:").count(), 12);
}

fn tags_off() {
    let _held = (keep(100), keep(20_000));
    let page = Text::of(&codetag::show_mem());
    let page = page.as_str();
    assert_quiet(page);
    assert!(line(page, "state").starts_with("tags off, for "));
    assert_eq!(section(page, "Memory allocations:").count(), 0);
    for nothing in [
        "obj_exts",
        "page_ext",
        "code tags",
        "tag relocations",
        "tag strings",
        "registry",
        "tagged",
    ] {
        assert_eq!(figure(page, nothing), 0, "{nothing}");
    }
    assert!(figure(page, "untracked slots") >= 100);
    assert_eq!(figure(page, "large objects"), 20_000);
    let s = quiet();
    assert_eq!((s.usages().count(), codetag::tags().count()), (0, 0));
    assert_eq!(s.untagged(), codetag::Usage::default());
}
