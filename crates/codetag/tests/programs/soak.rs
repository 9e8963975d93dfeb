//! Everything at once: threads that come and go, hand objects on and panic, a timer signal, a library with
//! a copy of its own that is loaded and unloaded, forks, reports and changes of the switch.
//!
//! `CODETAG_SOAK_SECONDS` says for how long.

use crate::block::{Block, layout};
use crate::figures::{enable, has_tags, owned, quiet};
use crate::forks::ended;
use crate::runner::{Program, end_at_first_panic};
use codetag::Snapshot;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, mem, ptr};

pub(crate) fn programs() -> Vec<Program> {
    if cfg!(not(target_os = "linux")) {
        return Vec::new();
    }
    vec![Program::new(
        "everything_at_once_is_exact_at_the_end",
        at_once,
    )]
}

const THREADS: usize = 64;

static END: AtomicBool = AtomicBool::new(false);
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static SHELF: [Mutex<Vec<Block>>; 8] = [const { Mutex::new(Vec::new()) }; 8];

fn seconds() -> u64 {
    let wanted = env::var("CODETAG_SOAK_SECONDS").ok();
    wanted.map_or(1, |s| s.parse().expect("seconds"))
}

#[codetag::alloc_tag]
fn made(rng: &mut fastrand::Rng) -> Block {
    let most = if rng.u32(..50) == 0 { 60_000 } else { 600 };
    let mut block = Block::new(layout(rng.usize(1..most), 8)).unwrap();
    block.fill(block.size());
    block
}

#[codetag::alloc_tag]
fn panics(rng: &mut fastrand::Rng) -> Block {
    let _dropped = made(rng);
    let _grown = [made(rng), made(rng)];
    panic::panic_any(Box::new(rng.u64(..)));
}

fn check(block: Block) {
    block.check(block.size(), block.size());
}

fn work(seed: usize) {
    let mut rng = fastrand::Rng::with_seed(seed as u64);
    let mut held: Vec<Block> = Vec::new();
    // A life of so many steps, then another thread takes over.
    for _ in 0..rng.usize(100..20_000) {
        match rng.u32(..100) {
            0..50 => held.push(made(&mut rng)),
            50..80 if !held.is_empty() => check(held.swap_remove(rng.usize(..held.len()))),
            80..90 if !held.is_empty() => {
                let block = held.swap_remove(rng.usize(..held.len()));
                SHELF[rng.usize(..8)].lock().unwrap().push(block);
            }
            90..99 => {
                let taken = SHELF[rng.usize(..8)].lock().unwrap().pop();
                taken.into_iter().for_each(check);
            }
            _ => {
                let caught = panic::catch_unwind(panic::AssertUnwindSafe(|| panics(&mut rng)));
                assert!(caught.is_err());
            }
        }
        if held.len() > 300 {
            held.truncate(100);
        }
        if END.load(Relaxed) {
            break;
        }
    }
    held.into_iter().for_each(check);
}

extern "C" fn on_timer(_: c_int) {
    SIGNALS.fetch_add(1, Relaxed);
}

/// A signal each 100 µs of the processors' time.
fn set_timer(micros: libc::suseconds_t) {
    // SAFETY: the handler only adds to an atomic.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_timer as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut()),
            0
        );
        let every = libc::timeval {
            tv_sec: 0,
            tv_usec: micros,
        };
        let timer = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        assert_eq!(
            libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut()),
            0
        );
    }
}

/// Builds the library beside this program.
fn plugin() -> PathBuf {
    let program = env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap().join("plugin");
    let cargo = env::var_os("CARGO").unwrap_or("cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--manifest-path"])
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/subjects/plugin/Cargo.toml"
        ))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .unwrap();
    assert!(status.success());
    target.join("debug/libcodetag_subject_plugin.so")
}

/// Loads the library, runs it on a thread that ends, and unloads it.
fn load_and_unload(plugin: &Path, n: usize) {
    let path = CString::new(plugin.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library's own code, by its own signature; nothing of it is kept.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null());
        let run = libc::dlsym(library, c"codetag_subject_plugin_run".as_ptr());
        assert!(!run.is_null());
        let run: extern "C" fn(usize) -> u32 = mem::transmute(run);
        let said = thread::spawn(move || run(n)).join().unwrap();
        assert_eq!(said, 0, "what the library says of its figures");
        assert_eq!(libc::dlclose(library), 0);
    }
}

/// The child looks at its heap; the parent is told by the status.
fn fork() {
    // SAFETY: the child leaves by `_exit`.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0);
        if pid == 0 {
            libc::alarm(120);
            let s = Snapshot::take();
            let whole = s.is_quiet() && s.heap().unaccounted_bytes == 0;
            libc::_exit(i32::from(!whole));
        }
        let mut status = 0;
        while libc::waitpid(pid, &raw mut status, 0) != pid {}
        assert_eq!(status, 0, "the child's status");
    }
}

fn at_once() {
    let plugin = plugin();
    let until = Instant::now() + Duration::from_secs(seconds());
    end_at_any_other_panic();
    set_timer(100);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for t in 0..THREADS {
            threads.push(scope.spawn(move || {
                for life in 0.. {
                    if END.load(SeqCst) {
                        break;
                    }
                    thread::spawn(move || work(life * THREADS + t))
                        .join()
                        .unwrap();
                }
            }));
        }
        let mut on = false;
        let mut turns = 0;
        while Instant::now() < until || turns < 4 {
            for _ in 0..10 {
                on = !on;
                if on {
                    enable();
                } else {
                    codetag::disable();
                }
                let s = Snapshot::take();
                assert!(!s.is_quiet() || s.heap().unaccounted_bytes == 0);
            }
            codetag::shrink();
            fork();
            if turns % 10 == 0 {
                load_and_unload(&plugin, 1 + turns % 700);
            }
            turns += 1;
        }
        END.store(true, SeqCst);
        ended(threads);
        println!("{turns} turns, {} signals", SIGNALS.load(SeqCst));
    });
    set_timer(0);
    assert!(SIGNALS.load(SeqCst) > 0);
    for shelf in &SHELF {
        mem::take(&mut *shelf.lock().unwrap())
            .into_iter()
            .for_each(check);
    }
    enable();
    let s = quiet();
    if has_tags() {
        assert_eq!(owned(&s, "soak::made"), (0, 0));
        assert_eq!(owned(&s, "soak::panics"), (0, 0));
    }
    drop(s);
    codetag::shrink();
    drop(quiet());
}

/// The panics that are caught on purpose print nothing and go on; any other ends the program.
fn end_at_any_other_panic() {
    end_at_first_panic();
    let ends = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Box<u64>>() {
            ends(info);
        }
    }));
}
