//! Has codetag, its heap and its sites from a dynamic library, and tags on both sides. Checks what is said
//! of them and prints `ok`. `.ci/dylib` links it so and runs it.

#![allow(unsafe_code, reason = "an inner allocator, and a fork")]

use codetag::{FutureExt, Snapshot, TagAlloc};
use codetag_subject_dylib::{bytes_from_here, copies, of_the_dylib};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

/// An inner allocator that only the program knows, so that the four calls are instantiated in the program.
struct Own;

// SAFETY: every call is passed on.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(at, layout) }
    }
}

/// A second instance, which passes calls on and is not counted.
static BYSTANDER: TagAlloc<Own> = TagAlloc::new(Own);

/// `n` objects of 100 B and their Vec, charged to a tag of the program.
#[codetag::alloc_tag]
fn of_the_program(n: usize) -> Vec<Box<[u8]>> {
    (0..n).map(|_| vec![1; 100].into()).collect()
}

/// Charged while it is polled.
#[codetag::alloc_tag]
async fn of_a_future(n: usize) -> Vec<u8> {
    // Nobody reads it, so that the compiler could do without.
    black_box(vec![1; n])
}

/// Nobody calls it.
#[codetag::alloc_tag]
#[allow(dead_code, reason = "its tag must not be met")]
fn never_called() -> Vec<u8> {
    vec![1]
}

/// Function, objects and bytes of each row, by function.
fn rows() -> Vec<(&'static str, u64, u64)> {
    let s = Snapshot::take();
    assert_eq!(s.heap().unaccounted_bytes, 0);
    let mut rows: Vec<_> = s
        .usages()
        .map(|u| (u.tag.function(), u.live_objs, u.live_bytes))
        .collect();
    rows.sort_unstable();
    rows
}

/// Functions of tags that the list names, by name.
fn listed() -> Vec<String> {
    let text = codetag::allocinfo().to_string();
    let functions = text.lines().filter_map(|line| {
        let (place, rest) = line.split_once(" func:")?;
        let function = rest.split(' ').next()?;
        // Beside the tags it has a line for what is untagged and one for what is untracked.
        place.contains(".rs:").then(|| function.to_owned())
    });
    let mut functions: Vec<_> = functions.collect();
    functions.sort_unstable();
    functions
}

fn poll_ready<R>(future: impl Future<Output = R>) -> R {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("it waits for nothing"),
    }
}

/// Objects of both sides, here, on another thread and in a future; then their figures.
fn round(n: usize) {
    let held = (of_the_program(n), of_the_dylib(2 * n));
    let generic = (bytes_from_here(50), copies(&1_u8, 60), copies(&1_u64, 10));
    let future = poll_ready(of_a_future(300));
    let handle = of_handles();
    let wrapped = thread::spawn(handle.wrap(|| black_box(vec![1_u8; 40])))
        .join()
        .unwrap();
    let polled = poll_ready(async { black_box(vec![1_u8; 41]) }.in_tag(handle));
    let n = n as u64;
    let due = [
        ("copies", 3, 190),
        ("of_a_future", 1, 300),
        ("of_handles", 2, 81),
        ("of_the_dylib", 2 * n + 1, 2 * n * (64 + 8)),
        ("of_the_program", n + 1, n * (100 + 16)),
    ];
    assert_eq!(rows(), due);

    // Another thread frees what this one allocated.
    thread::spawn(move || drop(held)).join().unwrap();
    assert_eq!(rows(), due[..3]);
    drop((generic, future, wrapped, polled));
    assert_eq!(rows(), []);
}

#[codetag::alloc_tag]
fn of_handles() -> codetag::TagHandle {
    codetag::current()
}

/// The four calls, as code of the program.
fn calls() {
    let layout = Layout::new::<[u64; 8]>();
    let before = rows();
    // SAFETY: the block is of that layout, grows to twice its size and is freed; the other is freed too.
    unsafe {
        let at = BYSTANDER.alloc(layout);
        assert!(!at.is_null());
        at.write_bytes(7, layout.size());
        let at = BYSTANDER.realloc(at, layout, 128);
        assert_eq!((at.read(), at.add(63).read()), (7, 7));
        BYSTANDER.dealloc(at, Layout::new::<[u64; 16]>());
        let zeroed = BYSTANDER.alloc_zeroed(layout);
        assert_eq!(zeroed.read(), 0);
        assert_eq!(rows(), before);
        BYSTANDER.dealloc(zeroed, layout);
    }
}

/// The child sees what it inherits, toggles, and allocates on both sides.
fn forks() {
    let held = (of_the_program(5), of_the_dylib(5));
    let before = rows();
    // SAFETY: the child uses what this thread owns, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let run = || {
            assert_eq!(rows(), before);
            codetag::disable();
            drop(held);
            assert_eq!(rows(), []);
            codetag::enable().unwrap();
            round(7);
        };
        let status = i32::from(catch_unwind(AssertUnwindSafe(run)).is_err());
        // SAFETY: without preconditions.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the child is this thread's own.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child's status");
    assert_eq!(rows(), before);
    drop(held);
}

fn main() {
    let functions: Vec<_> = codetag::tags().map(codetag::CodeTag::function).collect();
    assert!(
        !functions.contains(&"of_the_program"),
        "the program has a codetag of its own; build it with -Cprefer-dynamic"
    );
    assert!(functions.contains(&"of_the_dylib") && functions.contains(&"copies"));

    codetag::enable().unwrap();
    assert_eq!(listed(), ["copies", "of_the_dylib"]);
    round(10);
    let all = [
        "copies",
        "of_a_future",
        "of_handles",
        "of_the_dylib",
        "of_the_program",
    ];
    assert_eq!(listed(), all);
    for n in [100, 1_000] {
        codetag::disable();
        let older = (of_the_program(n), of_the_dylib(n));
        assert_eq!(rows(), []);
        codetag::enable().unwrap();
        assert_eq!(rows(), []);
        round(n);
        drop(older);
        assert_eq!(rows(), []);
    }
    calls();
    forks();
    assert_eq!(rows(), []);
    assert_eq!(listed(), all);
    println!("ok");
}
