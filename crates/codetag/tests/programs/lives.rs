//! The first and the last thing that a thread does.

use crate::block::{Block, layout};
use crate::figures::{assert_owned, enable, has_tags, quiet};
use crate::runner::Program;
use crate::watch::SMALL_MAX;
use codetag::__private::TagGuard;
use codetag::CodeTag;
use std::cell::RefCell;
use std::ffi::c_void;
use std::process::{self, Output};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

pub(crate) fn programs() -> Vec<Program> {
    vec![
        Program::new(
            "unlisted_tags_get_ids_at_their_first_allocations",
            unlisted_tags,
        ),
        Program::new(
            "the_first_allocation_of_200_threads_is_served_and_counted",
            first_calls,
        ),
        Program::new(
            "a_first_call_that_is_a_realloc_in_place_is_charged_to_its_scope",
            first_realloc,
        ),
        Program::new(
            "thread_locals_allocate_and_free_after_the_threads_heap_is_gone",
            late_frees,
        ),
        Program::new(
            "thread_locals_of_main_allocate_and_free_to_the_end",
            late_frees_of_main,
        )
        .checked_by(checked_at_exit),
    ]
}

/// Runs `run` on threads that are not std's, whose start allocates nothing, all at once.
fn on_raw_threads(n: usize, run: extern "C" fn(*mut c_void) -> *mut c_void) {
    let mut threads = Vec::with_capacity(n);
    for i in 0..n {
        let mut thread: libc::pthread_t = 0;
        let arg = ptr::without_provenance_mut(i);
        // SAFETY: the function takes its argument as a number.
        let status = unsafe { libc::pthread_create(&raw mut thread, ptr::null(), run, arg) };
        assert_eq!(status, 0);
        threads.push(thread);
    }
    for thread in threads {
        // SAFETY: started above, joined once.
        assert_eq!(unsafe { libc::pthread_join(thread, ptr::null_mut()) }, 0);
    }
}

#[codetag::alloc_tag]
fn first(i: usize) -> Block {
    let mut block = match i % 4 {
        0 => Block::new(layout(100, 8)).unwrap(),
        1 => Block::zeroed(layout(100, 16)).unwrap(),
        2 => Block::new(layout(100, 4096)).unwrap(),
        _ => Block::new(layout(20_000, 8)).unwrap(),
    };
    block.fill(i);
    block
}

const THREADS: usize = 200;
static SLOTS: Mutex<[Option<Block>; THREADS]> = Mutex::new([const { None }; THREADS]);
static STARTED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn first_call(i: *mut c_void) -> *mut c_void {
    STARTED.fetch_add(1, SeqCst);
    while STARTED.load(SeqCst) < THREADS {
        std::thread::yield_now();
    }
    let block = first(i.addr());
    SLOTS.lock().unwrap()[i.addr()] = Some(block);
    ptr::null_mut()
}

fn first_calls() {
    enable();
    on_raw_threads(THREADS, first_call);
    let (objs, large) = (THREADS as u64, THREADS as u64 / 4);
    assert_owned("lives::first", objs, (objs - large) * 100 + large * 20_000);
    let mut slots = SLOTS.lock().unwrap();
    for (i, slot) in slots.iter_mut().enumerate() {
        let block = slot.take().unwrap();
        block.check(i, block.size());
    }
    assert_owned("lives::first", 0, 0);
}

#[codetag::alloc_tag]
fn grow_in_place(block: &mut Block) {
    let at = block.addr();
    assert!(block.realloc(104));
    assert_eq!(block.addr(), at);
}

extern "C" fn realloc_first(i: *mut c_void) -> *mut c_void {
    grow_in_place(SLOTS.lock().unwrap()[i.addr()].as_mut().unwrap());
    ptr::null_mut()
}

fn first_realloc() {
    enable();
    for slot in SLOTS.lock().unwrap().iter_mut() {
        *slot = Some(first(0));
    }
    on_raw_threads(THREADS, realloc_first);
    assert_owned("lives::first", 0, 0);
    assert_owned("lives::grow_in_place", THREADS as u64, 104 * THREADS as u64);
    SLOTS.lock().unwrap().fill_with(|| None);
    assert_owned("lives::grow_in_place", 0, 0);
}

#[codetag::alloc_tag]
fn held_to_the_end(n: usize) -> Vec<Box<[u8]>> {
    (1..=n)
        .map(|i| vec![i as u8; 200 * i].into_boxed_slice())
        .collect()
}

#[codetag::alloc_tag]
fn left_behind() -> Box<[u8]> {
    vec![9; 123].into_boxed_slice()
}

static LEFT: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

/// Frees, allocates and frees when it is dropped, and leaves one box behind.
struct Late(Vec<Box<[u8]>>);

impl Drop for Late {
    fn drop(&mut self) {
        assert!(self.0.iter().all(|b| b.iter().all(|&x| x == b[0])));
        self.0 = held_to_the_end(100);
        self.0.truncate(90);
        let mut grown = Block::new(layout(10, 8)).unwrap();
        for size in [500, 5_000, 50_000, 500_000, 50] {
            assert!(grown.realloc(size));
        }
        LEFT.lock().unwrap().push(left_behind());
    }
}

thread_local! {
    // Touched before the thread's first allocation, so dropped after the allocator's own.
    static EARLIER: RefCell<Option<Late>> = const { RefCell::new(None) };
    static LATER: RefCell<Option<Late>> = const { RefCell::new(None) };
}

extern "C" fn hold(_: *mut c_void) -> *mut c_void {
    EARLIER.with_borrow_mut(|e| *e = Some(Late(Vec::new())));
    LATER.with_borrow_mut(|l| *l = Some(Late(held_to_the_end(50))));
    EARLIER.with_borrow_mut(|e| e.as_mut().unwrap().0 = held_to_the_end(90));
    ptr::null_mut()
}

fn late_frees() {
    enable();
    LEFT.lock().unwrap().reserve(4 * THREADS);
    for round in 1..=2 {
        on_raw_threads(THREADS, hold);
        assert_owned("lives::held_to_the_end", 0, 0);
        let left = round * 2 * THREADS as u64;
        assert_owned("lives::left_behind", left, left * 123);
    }
    LEFT.lock().unwrap().clear();
    assert_owned("lives::left_behind", 0, 0);
    let s = quiet();
    assert_eq!(
        s.heap().large_objs,
        u64::from(4 * THREADS * size_of::<Box<[u8]>>() > 16 << 10)
    );
}

fn late_frees_of_main() {
    /// Runs after the thread-locals of the main thread are gone.
    extern "C" fn check() {
        let checked = std::panic::catch_unwind(|| {
            assert_owned("lives::held_to_the_end", 0, 0);
            assert_owned("lives::left_behind", 2, 2 * 123);
            let late = Late(held_to_the_end(20));
            assert!(!has_tags() || quiet().usages().count() >= 2);
            drop(late);
            assert_owned("lives::held_to_the_end", 0, 0);
            assert_owned("lives::left_behind", 3, 3 * 123);
        });
        if checked.is_err() {
            process::abort();
        }
        eprintln!("checked");
    }
    enable();
    hold(ptr::null_mut());
    // SAFETY: the function may be called at any time.
    assert_eq!(unsafe { libc::atexit(check) }, 0);
}

fn checked_at_exit(output: &Output) {
    assert_eq!(String::from_utf8_lossy(&output.stderr), "checked\n");
}

/// As those of another dynamic library: on no list, so without ids when profiling is turned on.
static UNLISTED: [CodeTag; 5] = [const { CodeTag::__new("lives\0unlisted\0lives.rs\0", 1, 1) }; 5];

fn unlisted_tags() {
    enable();
    for (tag, bytes) in UNLISTED.iter().zip([1, 8, 100, 1_000, SMALL_MAX]) {
        // Now the thread has slots of this size ready.
        drop(Block::new(layout(bytes, 1)));
        let held = {
            let _scope = TagGuard::enter(tag);
            Block::new(layout(bytes, 1))
        };
        let s = quiet();
        let usage = s.usages().find(|usage| ptr::eq(usage.tag, tag));
        let figures = usage.map(|usage| (usage.live_objs, usage.live_bytes));
        assert_eq!(figures, has_tags().then_some((1, bytes as u64)));
        drop((s, held));
    }
}
