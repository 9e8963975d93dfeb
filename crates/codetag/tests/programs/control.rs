//! `CODETAG`, and turning profiling on and off.

use crate::block::{Block, layout};
use crate::figures::{assert_owned, has_tags, quiet};
use crate::runner::Program;
use crate::text::{Text, assert_quiet, figure, line};
use crate::threads::join;
use codetag::{EnableError, StateKind};
use std::error::Error;
use std::io;
use std::process::Output;
use std::sync::Arc;
use std::sync::Barrier;
use std::thread;

const EARLY: &str = "enable_before_main_counts_from_there";

pub(crate) fn programs() -> Vec<Program> {
    let mut programs = vec![
        Program::new("errors_say_what_to_do", errors),
        Program::new("nothing_is_printed_without_exit", silent).checked_by(nothing_printed),
        Program::new("unknown_words_are_kept_and_not_printed", unknown_word)
            .with_codetag("1,exti,compressed")
            .checked_by(nothing_printed),
        Program::new("an_unknown_state_leaves_the_default", unknown_state)
            .with_codetag("yes")
            .checked_by(nothing_printed),
        Program::new("a_long_and_unprintable_word_is_kept_in_part", odd_word)
            .with_codetag("0,\u{e9}123456789012345678901234567890123456789012345678901234567890")
            .checked_by(nothing_printed),
        Program::new("exit_prints_a_page_on_stderr", exit)
            .with_codetag("1,exit")
            .checked_by(page_printed),
        Program::new("exit_alone_prints_a_page_too", exit_off)
            .with_codetag(",exit")
            .checked_by(page_printed),
        Program::new("exit_under_never_prints_a_page_too", exit_never)
            .with_codetag("never,exit")
            .checked_by(page_printed),
        Program::new("unknown_words_are_on_the_page_at_exit", exit_with_word)
            .with_codetag("1,exit,later")
            .checked_by(word_printed),
    ];
    if !has_tags() {
        programs
            .push(Program::new("with_tags_off_no_state_can_be_chosen", tags_off).with_codetag("1"));
        return programs;
    }
    programs.extend([
        Program::new("unset_is_off", off),
        Program::new("zero_is_off", off).with_codetag("0"),
        Program::new("an_empty_value_is_off", off).with_codetag(""),
        Program::new("one_is_on_from_the_first_allocation", on).with_codetag("1"),
        Program::new("spaces_around_words_do_not_matter", on).with_codetag(" 1 "),
        Program::new("never_beats_enable", never).with_codetag("never"),
        Program::new("a_state_word_in_another_place_is_unknown", misplaced)
            .with_codetag("0,never,1"),
        Program::new("enable_twice_changes_nothing", enable_twice),
        Program::new("disable_twice_changes_nothing", disable_twice),
        Program::new(
            "threads_that_enable_and_disable_at_once_take_turns",
            toggle_at_once,
        ),
        Program::new("objects_across_enable_disable_enable", across),
    ]);
    if cfg!(target_os = "linux") {
        programs.push(Program::new(EARLY, early));
    }
    programs
}

#[codetag::alloc_tag]
fn keep(size: usize) -> Block {
    Block::new(layout(size, 8)).unwrap()
}

fn both() -> [Block; 2] {
    [keep(100), keep(20_000)]
}

fn silent() {
    drop(both());
}

/// The allocator prints nothing, whatever `CODETAG` says.
fn nothing_printed(output: &Output) {
    assert_eq!(output.stdout, b"program done\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

fn page_printed(output: &Output) {
    assert_eq!(output.stdout, b"program done\n");
    assert_quiet(&String::from_utf8_lossy(&output.stderr));
}

fn word_printed(output: &Output) {
    page_printed(output);
    assert_eq!(
        line(&String::from_utf8_lossy(&output.stderr), "unknown words"),
        "later"
    );
}

/// The kind of the state, and its part of the page.
#[track_caller]
fn assert_state(kind: StateKind, word: Option<&str>) {
    let kind = if has_tags() { kind } else { StateKind::TagsOff };
    let state = codetag::state();
    assert_eq!(state.kind, kind);
    assert_eq!(codetag::is_enabled(), kind == StateKind::On);
    let page = Text::of(&codetag::show_mem());
    let since = line(page.as_str(), "state").split_once(", for ");
    let (printed, seconds) = since.expect("since when");
    assert_eq!(printed, kind.to_string());
    assert!(seconds.strip_suffix(" s").unwrap().parse::<f64>().unwrap() >= 0.0);
    assert_eq!(line(page.as_str(), "unknown words"), word.unwrap_or("none"));
    let kept = codetag::state().unknown_word.map(|w| w.to_string());
    assert_eq!(kept.as_deref(), word);
}

fn off() {
    assert_state(StateKind::Off, None);
    let _held = both();
    let s = quiet();
    assert_eq!(s.usages().count(), 0);
    assert!(s.untracked().live_objs >= 2);
    assert_eq!(
        (s.untagged().live_objs, s.heap().tracked_requested_bytes),
        (0, 0)
    );
}

fn on() {
    assert_state(StateKind::On, None);
    let held = both();
    assert_eq!(quiet().untracked().live_objs, 0, "there was nothing before");
    assert_owned("control::keep", 2, 20_100);
    drop(held);
    assert_owned("control::keep", 0, 0);
}

fn never() {
    for _ in 0..2 {
        assert!(matches!(codetag::enable(), Err(EnableError::Never)));
        assert_state(StateKind::Never, None);
        codetag::disable();
        let held: Vec<_> = (0..1000).flat_map(|_| both()).collect();
        let s = quiet();
        assert_eq!((s.heap().obj_exts_bytes, s.heap().page_ext_bytes), (0, 0));
        assert!(s.classes().all(|c| c.obj_exts_bytes == 0));
        assert_eq!(s.usages().count(), 0);
        assert!(s.untracked().live_objs > 2000 && s.untracked().slot_bytes > 20_100_000);
        assert_eq!(s.heap().large_objs, 1000 + 1);
        drop((held, s));
    }
}

fn misplaced() {
    assert_state(StateKind::Off, Some("never"));
    codetag::enable().unwrap();
    assert_state(StateKind::On, Some("never"));
}

fn unknown_word() {
    assert_state(StateKind::On, Some("exti"));
    drop(both());
}

fn unknown_state() {
    assert_state(StateKind::Off, Some("yes"));
}

fn odd_word() {
    // Two bytes that are no ASCII, and 46 of the 60 others.
    assert_state(
        StateKind::Off,
        Some("??1234567890123456789012345678901234567890123456"),
    );
}

fn exit() {
    assert_state(StateKind::On, None);
}

fn exit_off() {
    assert_state(StateKind::Off, None);
}

fn exit_never() {
    assert_state(StateKind::Never, None);
}

fn exit_with_word() {
    assert_state(StateKind::On, Some("later"));
}

fn tags_off() {
    assert!(matches!(codetag::enable(), Err(EnableError::TagsOff)));
    assert_state(StateKind::TagsOff, None);
    codetag::disable();
    let _held = both();
    assert_eq!(quiet().usages().count(), 0);
}

/// A moment that a change of the state would show as: the time it has lasted is longer than any
/// between two statements.
fn lasting() -> u64 {
    loop {
        let since_ns = codetag::state().since_ns;
        if since_ns > 5_000_000 {
            return since_ns;
        }
        thread::yield_now();
    }
}

fn enable_twice() {
    codetag::enable().unwrap();
    let _held = both();
    let since_ns = lasting();
    codetag::enable().unwrap();
    assert!(
        codetag::state().since_ns >= since_ns,
        "it has been on all the time"
    );
    assert_owned("control::keep", 2, 20_100);
    assert_state(StateKind::On, None);
}

fn disable_twice() {
    codetag::disable();
    assert_state(StateKind::Off, None);
    codetag::enable().unwrap();
    let _held = both();
    codetag::disable();
    let since_ns = lasting();
    codetag::disable();
    assert!(
        codetag::state().since_ns >= since_ns,
        "it has been off all the time"
    );
    assert_state(StateKind::Off, None);
    let s = quiet();
    assert_eq!(s.usages().count(), 0);
    assert!(
        s.untracked().live_objs >= 2,
        "what was tracked is not any more"
    );
}

fn toggle_at_once() {
    const THREADS: usize = 4;
    let start = Arc::new(Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|t| {
            let start = Arc::clone(&start);
            thread::spawn(move || {
                start.wait();
                for i in 0..200 {
                    if (i + t) % 2 == 0 {
                        codetag::enable().unwrap();
                    } else {
                        codetag::disable();
                    }
                }
            })
        })
        .collect();
    join(threads);
    codetag::disable();
    codetag::enable().unwrap();
    let _held = both();
    assert_owned("control::keep", 2, 20_100);
}

fn across() {
    let mut held: Vec<Vec<Block>> = (0..6).map(|_| Vec::with_capacity(2)).collect();
    for round in 0..3 {
        // While off, then while on; each free comes two rounds later, in the other state.
        held[2 * round].extend(both());
        let s = quiet();
        assert_eq!(
            (s.usages().count(), s.heap().tracked_requested_bytes),
            (0, 0)
        );
        drop(s);
        codetag::enable().unwrap();
        let untracked = quiet().untracked();
        held[2 * round + 1].extend(both());
        assert_owned("control::keep", 2, 20_100);
        assert_eq!(quiet().untracked(), untracked);
        if round > 0 {
            // Two from off, one from the time before that was on: none is tracked any more.
            held[2 * round - 2].clear();
            held[2 * round - 1].clear();
            assert_owned("control::keep", 2, 20_100);
            assert_eq!(quiet().untracked().live_objs, untracked.live_objs - 3);
        }
        let page = Text::of(&codetag::show_mem());
        assert_eq!(figure(page.as_str(), "tagged"), 20_100);
        codetag::disable();
        held[2 * round + 1].remove(0);
    }
    codetag::enable().unwrap();
    drop(held);
    assert_owned("control::keep", 0, 0);
    assert_eq!(quiet().heap().large_objs, 0);
}

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
        !name.is_null() && std::ffi::CStr::from_ptr(name).to_bytes() == EARLY.as_bytes()
    };
    if wanted {
        codetag::enable().expect("before main");
    }
}

fn early() {
    assert_state(StateKind::On, None);
    assert_eq!(
        quiet().untracked().live_objs,
        0,
        "std's own start was tracked"
    );
    let _held = both();
    assert_owned("control::keep", 2, 20_100);
}

fn errors() {
    let says = |e: &EnableError, words: &[&str]| {
        let text = e.to_string();
        assert!(words.iter().all(|w| text.contains(w)), "{text}");
        assert!(!text.ends_with(['.', '\n']), "{text}");
    };
    says(
        &EnableError::NotInstalled,
        &[
            "#[global_allocator]\n",
            "static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();",
        ],
    );
    says(&EnableError::TagsOff, &["compiled out"]);
    says(&EnableError::Never, &["CODETAG=never"]);
    says(&EnableError::NoBarrier, &["membarrier", "CODETAG=1"]);
    says(&EnableError::NoEffect, &["profiling is off"]);
    let source = io::Error::from_raw_os_error(libc::EACCES);
    let patch = EnableError::TextNotWritable { source };
    says(&patch, &["text"]);
    let cause = patch.source().and_then(|s| s.downcast_ref::<io::Error>());
    assert_eq!(cause.unwrap().raw_os_error(), Some(libc::EACCES));
    assert!(EnableError::Never.source().is_none());
}
