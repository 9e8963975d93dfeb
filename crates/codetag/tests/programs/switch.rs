//! The switch where the system does not let it be turned, and what must be as before then.

use crate::block::{Block, layout};
use crate::figures::{has_tags, owned, quiet};
use crate::runner::{Program, command};
use crate::sandbox::{Denied, deny};
use crate::sites::{self, PATCHED};
use codetag::{EnableError, Snapshot, StateKind};
use std::os::unix::process::CommandExt;

const WRITE_AND_EXEC: u64 = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
const NO_PWRITE: Denied = Denied::always(libc::SYS_pwrite64);
const NO_WRITABLE_TEXT: Denied = Denied::with(libc::SYS_mprotect, 2, WRITE_AND_EXEC);
const NO_BARRIER: Denied = Denied::always(libc::SYS_membarrier);

pub(crate) fn programs() -> Vec<Program> {
    if !has_tags() || !cfg!(all(target_os = "linux", not(codetag_portable))) {
        return Vec::new();
    }
    let mut all = vec![
        Program::new("without_a_barrier_nothing_is_touched", no_barrier),
        Program::new(
            "without_a_barrier_profiling_is_chosen_at_the_start",
            no_barrier_at_start,
        ),
        Program::new(
            "large_objects_without_room_in_page_ext_are_untracked_and_counted",
            no_room_in_page_ext,
        ),
    ];
    if PATCHED {
        all.extend([
            Program::new("eight_sites_at_most_and_all_are_flipped", few_sites),
            Program::new("text_is_patched_in_place_where_proc_is_denied", in_place),
            Program::new("text_that_cannot_be_written_is_an_error", unwritable),
            Program::new("text_under_mdwe_cannot_be_written", under_mdwe),
            Program::new("a_site_that_cannot_be_written_undoes_the_others", roll_back),
            Program::new("text_that_cannot_be_patched_back_stays_on", stays_on),
            Program::new("a_start_that_cannot_patch_is_off_and_says_so", start_fails),
            Program::new("where_patching_has_no_effect_enable_says_so", no_effect),
        ]);
    }
    all
}

#[codetag::alloc_tag]
fn kept(size: usize) -> Block {
    Block::new(layout(size, 8)).unwrap()
}

/// Whether allocations and frees are tracked, by a real one of each kind.
fn assert_tracks(on: bool) {
    let [mut small, large] = [kept(100), kept(50_000)];
    assert!(small.realloc(104));
    let due = if on { (2, 50_104) } else { (0, 0) };
    assert_eq!(owned(&quiet(), "switch::kept"), due);
    drop((small, large));
    assert_eq!(owned(&quiet(), "switch::kept"), (0, 0));
}

fn assert_off_as_before(bytes: &[u8]) {
    if PATCHED {
        assert_eq!(sites::bytes(), bytes);
        assert!(sites::sites().iter().all(|s| !s.is_on()), "{bytes:x?}");
    }
    assert_eq!(codetag::state().kind, StateKind::Off);
    assert_tracks(false);
}

fn bytes_now() -> Vec<u8> {
    if PATCHED { sites::bytes() } else { Vec::new() }
}

fn no_room_in_page_ext() {
    const OBJS: u64 = 20;
    codetag::enable().unwrap();
    let before = quiet();
    let untracked = before.untracked();
    drop(before);
    // The tables are mapped; the inner allocator has memory for objects of this size without.
    deny(&[Denied::always(libc::SYS_mmap)]).unwrap();
    let held = [(); OBJS as usize].map(|()| kept(20_000));
    let s = Snapshot::take();
    assert!(s.is_quiet());
    assert_eq!(s.heap().unaccounted_bytes, 0, "{:?}", s.heap());
    assert_eq!(s.heap().page_ext_missed_objs, OBJS);
    assert_eq!(owned(&s, "switch::kept"), (0, 0));
    assert_eq!(s.untracked().live_objs, untracked.live_objs + OBJS);
    drop((s, held));
    // Small objects need no such room.
    let small = kept(100);
    let s = Snapshot::take();
    assert_eq!(s.untracked(), untracked);
    assert_eq!(owned(&s, "switch::kept"), (1, 100));
    drop((s, small));
}

fn few_sites() {
    let sites = sites::sites();
    assert!((3..=8).contains(&sites.len()), "{sites:x?}");
    assert!(sites.iter().any(|s| s.is_alloc) && sites.iter().any(|s| !s.is_alloc));
    for _ in 0..3 {
        assert!(sites.iter().all(|s| !s.is_on()));
        codetag::enable().unwrap();
        assert!(sites.iter().all(|s| s.is_on()));
        assert_tracks(true);
        codetag::disable();
    }
    assert_off_as_before(&sites::bytes());
}

fn in_place() {
    deny(&[NO_PWRITE]).unwrap();
    codetag::enable().unwrap();
    assert_tracks(true);
    codetag::disable();
    assert_off_as_before(&sites::bytes());
}

fn assert_refused(errno: i32) {
    let before = sites::bytes();
    for _ in 0..2 {
        let error = codetag::enable().unwrap_err();
        let EnableError::TextNotWritable { source } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(source.raw_os_error(), Some(errno));
        assert_eq!(error.to_string(), "the program's text could not be patched");
        assert_off_as_before(&before);
    }
}

fn unwritable() {
    deny(&[NO_PWRITE, NO_WRITABLE_TEXT]).unwrap();
    assert_refused(libc::EACCES);
}

fn under_mdwe() {
    const PR_SET_MDWE: libc::c_int = 65;
    const PR_MDWE_REFUSE_EXEC_GAIN: libc::c_ulong = 1;
    deny(&[NO_PWRITE]).unwrap();
    // SAFETY: without preconditions.
    let set = unsafe { libc::prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) };
    if set != 0 {
        // Linux before 6.3 has no such thing.
        assert_eq!(
            std::io::Error::last_os_error().raw_os_error(),
            Some(libc::EINVAL)
        );
        return;
    }
    assert_refused(libc::EACCES);
}

/// Denies the last site of a kind: those before it have been flipped by then.
fn roll_back() {
    let sites = sites::sites();
    let last_alloc = sites.iter().rfind(|s| s.is_alloc).unwrap();
    deny(&[
        Denied::with(libc::SYS_pwrite64, 3, last_alloc.addr as u64),
        NO_WRITABLE_TEXT,
    ])
    .unwrap();
    assert!(sites.iter().filter(|s| s.is_alloc).count() > 1);
    assert_refused(libc::EACCES);
}

fn stays_on() {
    codetag::enable().unwrap();
    deny(&[NO_PWRITE, NO_WRITABLE_TEXT]).unwrap();
    codetag::disable();
    assert_eq!(codetag::state().kind, StateKind::On);
    assert_tracks(true);
}

fn no_barrier() {
    let before = bytes_now();
    deny(&[NO_BARRIER]).unwrap();
    for _ in 0..2 {
        let error = codetag::enable().unwrap_err();
        assert!(matches!(error, EnableError::NoBarrier), "{error:?}");
        assert_off_as_before(&before);
    }
}

/// Under a machine that runs the text as it first saw it, which `CODETAG_TEST_NO_EFFECT=1` promises; without
/// one `enable` works.
fn no_effect() {
    let before = sites::bytes();
    assert_tracks(false);
    if std::env::var_os("CODETAG_TEST_NO_EFFECT").is_none() {
        codetag::enable().unwrap();
        return codetag::disable();
    }
    for _ in 0..2 {
        let error = codetag::enable().unwrap_err();
        assert!(matches!(error, EnableError::NoEffect), "{error:?}");
        assert_off_as_before(&before);
    }
}

/// Runs `check` in a program of its own that was started with `CODETAG=1` in a sandbox.
fn started_in_a_sandbox(name: &str, calls: &'static [Denied], check: fn()) {
    const INSIDE: &str = "CODETAG_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return check();
    }
    let mut inside = command(name);
    inside.env(INSIDE, "1").env("CODETAG", "1");
    // SAFETY: makes two system calls and allocates nothing.
    unsafe { inside.pre_exec(move || deny(calls)) };
    assert!(inside.status().unwrap().success());
}

fn no_barrier_at_start() {
    started_in_a_sandbox(
        "without_a_barrier_profiling_is_chosen_at_the_start",
        &[NO_BARRIER],
        || {
            assert_eq!(codetag::state().kind, StateKind::On);
            assert_eq!(codetag::state().start_error, None);
            assert_tracks(true);
            codetag::enable().unwrap();
            codetag::disable();
            assert_eq!(codetag::state().kind, StateKind::Off);
            assert_tracks(false);
            let error = codetag::enable().unwrap_err();
            assert!(matches!(error, EnableError::NoBarrier), "{error:?}");
            assert_tracks(false);
        },
    );
}

fn start_fails() {
    started_in_a_sandbox(
        "a_start_that_cannot_patch_is_off_and_says_so",
        &[NO_PWRITE, NO_WRITABLE_TEXT],
        || {
            assert_off_as_before(&sites::bytes());
            assert_eq!(codetag::state().start_error, Some(libc::EACCES));
            let page = codetag::show_mem().to_string();
            let says = format!(
                "; at the start the text could not be patched (error {})",
                libc::EACCES
            );
            assert!(page.contains(&says), "{page}");
        },
    );
}
