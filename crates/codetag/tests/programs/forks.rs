//! Forks of a program whose threads all allocate: the child has one thread and a whole heap, and the
//! parent notices nothing.

use crate::block::{Block, layout};
use crate::check::{self, quiet_point};
use crate::figures::{enable, has_tags, owned, rounds};
use crate::runner::Program;
use codetag::Snapshot;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Barrier, Condvar, Mutex};
use std::thread::{self, ScopedJoinHandle};

pub(crate) fn programs() -> Vec<Program> {
    let mut all = vec![
        Program::new(
            "a_thousand_forks_from_one_of_eight_allocating_threads",
            among_threads,
        ),
        Program::new("a_fork_of_parked_threads_is_exact_to_the_object", of_parked).watched(),
        Program::new("vfork_and_exec_are_unharmed", spawned),
        Program::new("a_child_forks_again", generations),
    ];
    if has_tags() {
        all.push(Program::new(
            "a_childs_toggle_leaves_the_parents_text_alone",
            toggles_apart,
        ));
    }
    all
}

/// Runs `f` in a forked child; the parent waits for it. A panic there is one here.
fn in_child(f: impl FnOnce()) {
    in_child_and(f, || ());
}

/// The same; `meanwhile` runs in the parent before it waits.
fn in_child_and(f: impl FnOnce(), meanwhile: impl FnOnce()) {
    // SAFETY: the child uses what this thread owns, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        // A child that hangs is ended by the signal. It has no other way to be told.
        // SAFETY: without preconditions.
        unsafe { libc::alarm(120) };
        let status = i32::from(catch_unwind(AssertUnwindSafe(f)).is_err());
        // SAFETY: as above.
        unsafe { libc::_exit(status) };
    }
    meanwhile();
    let mut status = 0;
    // SAFETY: the child is this thread's own.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child's status");
}

/// Waits for the very end of threads: a scope only waits for their functions, not for their thread-locals.
pub(crate) fn ended<'s>(threads: impl IntoIterator<Item = ScopedJoinHandle<'s, ()>>) {
    threads.into_iter().for_each(|t| t.join().unwrap());
}

const SIZES: [usize; 12] = [
    1, 8, 24, 64, 100, 200, 500, 1000, 3000, 9000, 16_384, 40_000,
];

#[codetag::alloc_tag]
fn own(seed: usize) -> Block {
    filled(seed)
}

#[codetag::alloc_tag]
fn given(seed: usize) -> Block {
    filled(seed)
}

#[codetag::alloc_tag]
fn churned(seed: usize) -> Block {
    filled(seed)
}

#[codetag::alloc_tag]
fn childs(seed: usize) -> Block {
    filled(seed)
}

fn filled(seed: usize) -> Block {
    let mut block = Block::new(layout(SIZES[seed % SIZES.len()], 8)).unwrap();
    block.fill(seed);
    block
}

fn check_contents(blocks: &[(usize, Block)]) {
    for (seed, block) in blocks {
        block.check(*seed, block.size());
    }
}

fn sum(blocks: &[(usize, Block)]) -> (u64, u64) {
    (
        blocks.len() as u64,
        blocks.iter().map(|(_, b)| b.size() as u64).sum(),
    )
}

/// What must hold of the figures of a child, which has no other thread.
#[track_caller]
fn whole() -> Snapshot {
    let s = Snapshot::take();
    assert!(s.is_quiet());
    assert_eq!(s.heap().unaccounted_bytes, 0, "{:?}", s.heap());
    for c in s.classes() {
        assert_eq!(c.live_objs + c.free_objs, c.slots, "{c:?}");
        assert!(c.tracked_objs <= c.live_objs, "{c:?}");
    }
    s
}

/// What a child of a program with other threads does.
fn child(inherited: &mut Vec<(usize, Block)>, theirs: &mut Vec<(usize, Block)>, round: usize) {
    let s = whole();
    if codetag::is_enabled() {
        assert_eq!(owned(&s, "forks::own"), sum(inherited));
        let at_least = owned(&s, "forks::given");
        assert!(at_least >= sum(theirs), "{at_least:?}");
    }
    drop(s);
    check_contents(inherited);
    check_contents(theirs);
    // What is allocated now overlaps nothing that is live.
    let mine: Vec<_> = (0..500).map(|seed| (seed, childs(seed))).collect();
    check_contents(inherited);
    check_contents(theirs);
    inherited.clear();
    theirs.clear();
    let more: Vec<_> = (0..500)
        .map(|seed| (seed + round, childs(seed + round)))
        .collect();
    check_contents(&mine);
    drop(mine);
    check_contents(&more);
    drop(whole());
    if has_tags() {
        let was_on = codetag::is_enabled();
        if was_on {
            let s = whole();
            assert_eq!(owned(&s, "forks::childs"), sum(&more));
            assert_eq!(owned(&s, "forks::own"), (0, 0));
        }
        codetag::disable();
        assert_eq!(whole().usages().count(), 0);
        codetag::enable().unwrap();
        let tracked: Vec<_> = (0..300).map(|seed| (seed, childs(seed))).collect();
        let s = whole();
        assert_eq!(owned(&s, "forks::childs"), sum(&tracked));
        assert_eq!(s.usages().count(), 1);
        assert!(s.untracked().live_objs >= more.len() as u64);
        drop((s, tracked));
        assert_eq!(owned(&whole(), "forks::childs"), (0, 0));
    }
    let page = codetag::show_mem().to_string();
    assert!(page.contains("unaccounted:          0 B (0)"), "{page}");
    drop(more);
    codetag::shrink();
    drop(whole());
    // A thread of the child takes over a heap of a thread that is gone.
    thread::spawn(|| drop((0..500).map(childs).collect::<Vec<_>>()))
        .join()
        .unwrap();
    drop(whole());
}

fn among_threads() {
    const THREADS: usize = 7;
    static STOP: AtomicBool = AtomicBool::new(false);
    static QUEUE: Mutex<Vec<(usize, Block)>> = Mutex::new(Vec::new());
    // While a child runs the threads leave it the processor.
    static PAUSED: Mutex<bool> = Mutex::new(false);
    static RESUMED: Condvar = Condvar::new();
    let start = Barrier::new(THREADS + 1);
    let forks = rounds(150, 1000);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for t in 0..THREADS {
            let start = &start;
            threads.push(scope.spawn(move || {
                let mut kept = Vec::new();
                start.wait();
                let mut seed = t;
                while !STOP.load(SeqCst) {
                    drop(RESUMED.wait_while(PAUSED.lock().unwrap(), |p| *p).unwrap());
                    for _ in 0..200 {
                        seed += THREADS;
                        kept.push((seed, churned(seed)));
                        if kept.len() > 400 {
                            drop(kept.swap_remove(seed % 400));
                        }
                    }
                    let mut queue = QUEUE.lock().unwrap();
                    if queue.len() < 500 {
                        queue.push((seed, given(seed)));
                    }
                    // Others free what this thread allocated, and it what they did.
                    let left = queue.len() - (queue.len() / 2).min(3);
                    let freed = queue.split_off(left);
                    drop(queue);
                    check_contents(&freed);
                }
                check_contents(&kept);
            }));
        }
        start.wait();
        // A panic lets the threads go.
        let result = catch_unwind(|| {
            let mut held = Vec::new();
            for round in 0..forks {
                if round % 20 == 0 {
                    if round % 40 == 0 {
                        enable();
                    } else {
                        codetag::disable();
                    }
                    held.clear();
                    held.extend((0..40).map(|i| (i + round, own(i + round))));
                    // Of the state before.
                    QUEUE.lock().unwrap().clear();
                }
                let mut theirs = std::mem::take(&mut *QUEUE.lock().unwrap());
                let child = || child(&mut held, &mut theirs, round);
                in_child_and(child, || *PAUSED.lock().unwrap() = true);
                *PAUSED.lock().unwrap() = false;
                RESUMED.notify_all();
                check_contents(&theirs);
            }
            check_contents(&held);
        });
        STOP.store(true, SeqCst);
        *PAUSED.lock().unwrap() = false;
        RESUMED.notify_all();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
        ended(threads);
    });
    QUEUE.lock().unwrap().clear();
    for place in [
        "forks::own",
        "forks::given",
        "forks::churned",
        "forks::childs",
    ] {
        enable();
        crate::figures::assert_owned(place, 0, 0);
    }
}

fn of_parked() {
    use crate::labels::within;
    const THREADS: usize = 4;
    let (done, go) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    check::turn_on();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for t in 0..THREADS {
            let (done, go) = (&done, &go);
            threads.push(scope.spawn(move || {
                let mut blocks: Vec<_> = (0..3000)
                    .map(|i| within((1 + t % 3) as u8, || Some(filled(i * 7 + t))))
                    .collect();
                // Bins, lists of slots and partial slabs of every kind stay behind.
                for i in (0..3000).filter(|i| i % 3 != 0) {
                    blocks[i] = None;
                }
                done.wait();
                go.wait();
            }));
        }
        done.wait();
        quiet_point("before the fork");
        in_child(|| {
            quiet_point("in the child");
            let more: Vec<_> = (0..2000).map(|i| within(4, || filled(i))).collect();
            quiet_point("with the child's own");
            check::turn_off();
            drop(more);
            quiet_point("off");
            check::turn_on();
            let more: Vec<_> = (0..2000).map(|i| within(5, || filled(i))).collect();
            quiet_point("on again");
            drop(more);
            codetag::shrink();
            quiet_point("after all");
        });
        quiet_point("after the fork");
        go.wait();
        ended(threads);
    });
    quiet_point("after the threads");
}

fn toggles_apart() {
    codetag::enable().unwrap();
    in_child(|| {
        codetag::disable();
        assert!(!codetag::is_enabled());
        let _untracked = own(1);
        assert_eq!(whole().usages().count(), 0);
    });
    // The parent's sites are on as before.
    assert!(codetag::is_enabled());
    let tracked = own(3);
    assert_eq!(owned(&whole(), "forks::own"), (1, tracked.size() as u64));
    drop(tracked);
    codetag::disable();
    in_child(|| {
        codetag::enable().unwrap();
        let tracked = own(2);
        assert_eq!(owned(&whole(), "forks::own"), (1, tracked.size() as u64));
    });
    assert!(!codetag::is_enabled());
    let _untracked = own(5);
    codetag::enable().unwrap();
    assert_eq!(owned(&whole(), "forks::own"), (0, 0));
}

fn spawned() {
    static STOP: AtomicBool = AtomicBool::new(false);
    enable();
    let others: Vec<_> = (0..3)
        .map(|t| {
            thread::spawn(move || {
                let mut seed = t;
                while !STOP.load(SeqCst) {
                    seed += 1;
                    drop((churned(seed), churned(seed + 5)));
                }
            })
        })
        .collect();
    let held = own(4);
    for round in 0..100 {
        let mut command = Command::new("/bin/echo");
        command.arg(round.to_string()).stdout(Stdio::piped());
        if round % 2 == 0 {
            use std::os::unix::process::CommandExt;
            // SAFETY: allocates and frees, which a forked child may. With it std forks; without, the
            // C library spawns, which shares the memory as vfork does.
            unsafe {
                command.pre_exec(|| {
                    drop(childs(7));
                    Ok(())
                });
            };
        }
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(said, format!("{round}\n"));
    }
    // SAFETY: the child touches nothing and leaves by `_exit`.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(7);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
        assert_eq!(libc::WEXITSTATUS(status), 7);
    }
    STOP.store(true, SeqCst);
    others.into_iter().for_each(|t| t.join().unwrap());
    crate::figures::assert_owned("forks::own", 1, held.size() as u64);
    crate::figures::assert_owned("forks::churned", 0, 0);
}

fn generations() {
    fn descend(depth: usize, mut held: Vec<(usize, Block)>) {
        if depth == 0 {
            return;
        }
        held.extend((0..200).map(|i| (i + depth, own(i + depth))));
        // A thread that is gone in the next generation.
        let (ready, go) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kept: Vec<_> = (0..300).map(given).collect();
                ready.wait();
                go.wait();
                drop(kept);
            });
            ready.wait();
            let s = whole();
            if has_tags() {
                assert_eq!(owned(&s, "forks::own"), sum(&held));
                // One such thread a generation, none of which can free any more.
                let (objs, _) = owned(&s, "forks::given");
                assert_eq!(objs, 300 * (6 - depth as u64));
            }
            drop(s);
            check_contents(&held);
            in_child(|| descend(depth - 1, std::mem::take(&mut held)));
            go.wait();
            ended([thread]);
        });
        check_contents(&held);
    }
    enable();
    descend(5, Vec::new());
    drop(whole());
}
