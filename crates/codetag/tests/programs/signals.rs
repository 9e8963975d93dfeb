//! Control by signals, while the heap is in use.

use crate::block::{Block, layout};
use crate::figures::{assert_owned, enable, has_tags, quiet};
use crate::runner::Program;
use crate::text::{assert_quiet, assert_whole};
use crate::threads::join;
use codetag::{Action, on_signal, on_signal_polled, poll};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::process::Output;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) fn programs() -> Vec<Program> {
    let mut programs = vec![
        Program::new("a_signal_prints_one_page_on_stderr", one_page),
        Program::new("a_polled_signal_prints_its_page_when_polled", polled_page)
            .checked_by(one_page_printed),
        Program::new("a_toggle_that_fails_says_so_in_one_line", toggle_fails)
            .with_codetag("never")
            .checked_by(one_line_printed),
    ];
    if has_tags() {
        programs.extend([
            Program::new(
                "signals_toggle_under_load_and_figures_stay_exact",
                under_load,
            ),
            Program::new("a_signal_each_100_us_stops_no_allocation", storm),
            Program::new("polled_signals_coalesce_and_wait_for_poll", polled),
            Program::new("a_signal_from_before_the_helper_is_acted_on", came_before),
            Program::new("a_forked_child_polls_or_starts_its_own_helper", forked),
        ]);
    }
    programs
}

#[codetag::alloc_tag]
fn keep(size: usize) -> Block {
    Block::new(layout(size, 8)).unwrap()
}

fn send(signal: i32) {
    // SAFETY: to this very process, which has a handler.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
}

/// To the calling thread: it has run the handler when this returns.
fn send_here(signal: i32) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

fn wait_until_enabled(on: bool) {
    while codetag::is_enabled() != on {
        thread::yield_now();
    }
}

/// Threads that allocate, reallocate and free until told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn new() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..4)
            .map(|t| {
                let stop = Arc::clone(&stop);
                thread::spawn(move || {
                    let mut i = t;
                    while !stop.load(SeqCst) {
                        let mut block = keep(8 + i * 37 % 2000);
                        block.fill(i);
                        let old = block.size();
                        assert!(block.realloc(1 + i * 91 % 20_000));
                        block.check(i, old.min(block.size()));
                        i += 1;
                    }
                })
            })
            .collect();
        Self { stop, threads }
    }

    fn end(self) {
        self.stop.store(true, SeqCst);
        join(self.threads);
    }
}

/// What holds after all the toggling.
fn assert_exact() {
    enable();
    assert_owned("signals::keep", 0, 0);
    let held = [keep(100), keep(20_000)];
    assert_owned("signals::keep", 2, 20_100);
    drop(held);
    assert_owned("signals::keep", 0, 0);
}

fn under_load() {
    on_signal(libc::SIGUSR1, Action::Toggle).unwrap();
    let load = Load::new();
    for turn in 0..40 {
        send(libc::SIGUSR1);
        wait_until_enabled(turn % 2 == 0);
    }
    load.end();
    assert_exact();
}

fn storm() {
    on_signal(libc::SIGALRM, Action::Toggle).unwrap();
    let load = Load::new();
    let each = |us| {
        let every = libc::timeval {
            tv_sec: 0,
            tv_usec: us,
        };
        let timer = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        // SAFETY: the timer is read only.
        let status =
            unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
        assert_eq!(status, 0);
    };
    each(100);
    let start = Instant::now();
    let (mut changes, mut was_on) = (0, false);
    // The thread that the signals come to allocates as well.
    while start.elapsed() < Duration::from_secs(1) || changes < 10 {
        drop(keep(1 + changes % 500));
        let on = codetag::is_enabled();
        changes += usize::from(on != was_on);
        was_on = on;
    }
    each(0);
    load.end();
    on_signal(libc::SIGALRM, Action::ShowMem).unwrap();
    on_signal(libc::SIGUSR1, Action::Toggle).unwrap();
    // The helper may be about to act on the timer's last signal, for which it had read that it toggles. Where that
    // comes between our look and our signal, the two cancel each other out; it comes once.
    let changes = (0..3).filter(|_| {
        let on = codetag::is_enabled();
        send(libc::SIGUSR1);
        changes_within(Duration::from_secs(5), on)
    });
    assert!(changes.count() >= 2);
    assert_exact();
}

/// Whether the switch is seen in another state than `on` before so much time has passed.
fn changes_within(longest: Duration, on: bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < longest {
        if codetag::is_enabled() != on {
            return true;
        }
        thread::yield_now();
    }
    false
}

fn polled() {
    on_signal_polled(libc::SIGUSR1, Action::Toggle).unwrap();
    assert_eq!(poll(), 0);
    for on in [true, false, true] {
        send_here(libc::SIGUSR1);
        send_here(libc::SIGUSR1);
        assert_eq!(codetag::is_enabled(), !on, "nothing happens before poll");
        assert_eq!(poll(), 1, "two that came together are one");
        assert_eq!(codetag::is_enabled(), on);
        assert_eq!(poll(), 0);
    }
    assert_exact();
}

fn came_before() {
    on_signal_polled(libc::SIGUSR1, Action::Toggle).unwrap();
    send_here(libc::SIGUSR1);
    assert!(!codetag::is_enabled());
    on_signal(libc::SIGUSR1, Action::Toggle).unwrap();
    wait_until_enabled(true);
    send(libc::SIGUSR1);
    wait_until_enabled(false);
}

fn forked() {
    on_signal(libc::SIGUSR1, Action::Toggle).unwrap();
    // SAFETY: the child runs what follows and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        send_here(libc::SIGUSR1);
        assert_eq!(poll(), 1, "no helper here");
        assert!(codetag::is_enabled());
        on_signal(libc::SIGUSR1, Action::Toggle).unwrap();
        send(libc::SIGUSR1);
        wait_until_enabled(false);
        // SAFETY: no preconditions.
        unsafe { libc::_exit(7) };
    }
    let mut status = 0;
    // SAFETY: the status is written.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
        "{status:#x}"
    );
    assert!(!codetag::is_enabled(), "the child's signals are its own");
    send(libc::SIGUSR1);
    wait_until_enabled(true);
}

fn toggle_fails() {
    on_signal_polled(libc::SIGUSR1, Action::Toggle).unwrap();
    send_here(libc::SIGUSR1);
    assert_eq!(poll(), 1);
    assert!(!codetag::is_enabled());
}

fn one_line_printed(output: &Output) {
    let why = if has_tags() {
        "CODETAG=never is in force"
    } else {
        "the tags were compiled out of this build"
    };
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!("codetag: signal {}: {why}\n", libc::SIGUSR1)
    );
}

fn polled_page() {
    on_signal_polled(libc::SIGUSR2, Action::ShowMem).unwrap();
    send_here(libc::SIGUSR2);
    assert_eq!(poll(), 1);
    assert_eq!(poll(), 0);
    drop(quiet());
}

fn one_page_printed(output: &Output) {
    assert_quiet(&String::from_utf8_lossy(&output.stderr));
}

fn one_page() {
    on_signal(libc::SIGUSR2, Action::ShowMem).unwrap();
    let (mut pages, stderr) = io::pipe().unwrap();
    let load = Load::new();
    for _ in 0..3 {
        assert_whole_in_motion(&page_of_signal(&mut pages, stderr.as_raw_fd()));
    }
    load.end();
    assert_whole(&page_of_signal(&mut pages, stderr.as_raw_fd()));
    assert_eq!(waiting(&pages), 0);
}

/// The lines need not add up while others allocate.
fn assert_whole_in_motion(page: &str) {
    assert_eq!(page.matches("Heap:\n").count(), 1, "{page}");
    assert!(
        page.contains("\nSlab info:\n") && page.ends_with('\n'),
        "{page}"
    );
}

/// Sends a signal and waits for all that it prints.
fn page_of_signal(pages: &mut io::PipeReader, stderr: i32) -> String {
    let mut bytes = vec![0; 64 << 10];
    let n = redirected(stderr, || {
        send(libc::SIGUSR2);
        let first = pages.read(&mut bytes).unwrap();
        // Whoever prints a page holds it.
        drop(io::stderr().lock());
        let all = first + waiting(pages);
        pages.read_exact(&mut bytes[first..all]).unwrap();
        all
    });
    bytes.truncate(n);
    String::from_utf8(bytes).unwrap()
}

/// Runs `f` while stderr is `to`.
fn redirected<R>(to: i32, f: impl FnOnce() -> R) -> R {
    // SAFETY: descriptors of this process, which are open.
    unsafe {
        let kept = libc::dup(libc::STDERR_FILENO);
        assert!(kept >= 0 && libc::dup2(to, libc::STDERR_FILENO) >= 0);
        let r = f();
        assert!(libc::dup2(kept, libc::STDERR_FILENO) >= 0);
        libc::close(kept);
        r
    }
}

/// Bytes that can be read at once.
fn waiting(pipe: &io::PipeReader) -> usize {
    let mut n = MaybeUninit::<libc::c_int>::uninit();
    // SAFETY: the call writes a number.
    unsafe {
        assert_eq!(
            libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, n.as_mut_ptr()),
            0
        );
        usize::try_from(n.assume_init()).unwrap()
    }
}
