//! The switch. With profiling on and nothing in motion: the ref of a slot that is free is zero; that of
//! an object is its own, tag and size, or zero if the object is older than the change; an object whose
//! allocation stored a ref during the only change there is has it still.

use codetag_loom::atomics::{Exact, Family, NoFences};
use codetag_loom::explore::{self, Preemptions};
use codetag_loom::sites::{Build, Machine, Obj, Order, RIGHT, Step, TAG};
use loom::sync::Mutex;
use loom::thread;
use std::sync::Arc;

/// Three threads.
const HANDED: Preemptions = Preemptions::up_to(3, 5);
/// Two threads.
const TWICE: Preemptions = Preemptions::quick(4);
/// Two threads, one of them short.
const CUT: Preemptions = Preemptions::quick(4);

const ALLOC_FREE: Order = [&[Step::Alloc], &[], &[Step::Free, Step::Realloc]];
const CLEAR_ALLOC_FREE: Order = [
    &[Step::Clear, Step::Alloc],
    &[],
    &[Step::Free, Step::Realloc],
];
const CLEAR_FREE_ALLOC: Order = [
    &[Step::Clear, Step::Free, Step::Realloc],
    &[],
    &[Step::Alloc],
];
const FREE_ALLOC_CLEAR: Order = [
    &[Step::Free, Step::Realloc, Step::Barrier, Step::Alloc],
    &[Step::Clear],
    &[],
];
const FREE_CLEAR_REALLOC_ALLOC: Order = [
    &[Step::Free],
    &[Step::Clear],
    &[Step::Realloc, Step::Barrier, Step::Alloc],
];

const fn ordered(order: Order) -> Build {
    Build { order, ..RIGHT }
}

const PHANTOM: &str = "a free slot has a ref";

/// Off to On, while one worker allocates and hands the object to another, which frees it.
fn handed_over(build: Build, allocates: usize) {
    let machine = Arc::new(Machine::<Exact>::new(build));
    let mailbox = Arc::new(Mutex::new(None::<Obj>));
    let sender = {
        let (machine, mailbox) = (Arc::clone(&machine), Arc::clone(&mailbox));
        thread::spawn(move || {
            let obj = machine.worker(allocates).alloc(0, 0, 1);
            *mailbox.lock().unwrap() = Some(obj);
        })
    };
    let receiver = {
        let (machine, mailbox) = (Arc::clone(&machine), Arc::clone(&mailbox));
        thread::spawn(move || {
            let obj = mailbox.lock().unwrap().take();
            if let Some(obj) = obj {
                machine.worker(1 - allocates).free(obj);
            }
        })
    };
    machine.enable();
    sender.join().unwrap();
    receiver.join().unwrap();
    let left = mailbox.lock().unwrap().take();
    let [first, second] = machine.refs(0);
    assert_eq!(second, 0, "{PHANTOM}");
    match left {
        None => assert_eq!(first, 0, "{PHANTOM}"),
        Some(obj) => machine.check(obj, obj.was_marked),
    }
}

#[test]
fn an_object_that_another_frees() {
    explore::holds("handed over", HANDED, || handed_over(RIGHT, 0));
    explore::holds("handed over, locks reversed", HANDED, || {
        handed_over(RIGHT, 1);
    });
}

#[test]
fn no_barrier_is_seen() {
    let build = Build {
        has_barrier: false,
        ..RIGHT
    };
    explore::fails("handed over, no barrier", HANDED, PHANTOM, move || {
        handed_over(build, 0);
    });
}

#[test]
fn alloc_before_free_is_seen() {
    explore::fails("alloc, free", HANDED, PHANTOM, || {
        handed_over(ordered(ALLOC_FREE), 0);
    });
    explore::fails("clear, alloc, free", HANDED, PHANTOM, || {
        handed_over(ordered(CLEAR_ALLOC_FREE), 0);
    });
}

#[test]
fn clear_after_alloc_is_seen() {
    explore::fails(
        "free, alloc, clear",
        HANDED,
        "a live object lost its tag",
        || {
            handed_over(ordered(FREE_ALLOC_CLEAR), 0);
        },
    );
}

/// On to Off to On again, while a worker allocates, reallocates and perhaps frees: its sites may have
/// been read in the first On and act in the second.
fn twice(build: Build, scoped: bool, frees: bool) {
    let machine = Arc::new(Machine::<Exact>::new(build));
    machine.enable();
    let worker = {
        let machine = Arc::clone(&machine);
        thread::spawn(move || {
            let worker = machine.worker(0);
            let mut obj = worker.alloc(0, 0, 1);
            obj = if scoped {
                worker.realloc(obj, 2)
            } else {
                worker.realloc_unscoped(obj, 2)
            };
            if frees {
                worker.free(obj);
            }
            (!frees).then_some(obj)
        })
    };
    machine.disable();
    machine.enable();
    let left = worker.join().unwrap();
    let [first, second] = machine.refs(0);
    assert_eq!(second, 0, "{PHANTOM}");
    match left {
        None => assert_eq!(first, 0, "{PHANTOM}"),
        Some(obj) if scoped => machine.check(obj, false),
        // Also untagged: the owner stays only if there is one.
        Some(_) => assert!(
            [0, 2, TAG | 2].contains(&first),
            "an old size is kept: {first:#x}"
        ),
    }
}

#[test]
fn a_site_that_was_read_in_an_earlier_on() {
    for (name, scoped) in [("twice, scoped", true), ("twice, unscoped", false)] {
        explore::holds(name, TWICE, move || twice(RIGHT, scoped, false));
        explore::holds(name, TWICE, move || twice(RIGHT, scoped, true));
    }
}

#[test]
fn clear_before_free_is_seen() {
    explore::fails("clear, free, alloc", TWICE, PHANTOM, || {
        twice(ordered(CLEAR_FREE_ALLOC), true, true);
    });
}

#[test]
fn realloc_after_clear_is_seen() {
    explore::fails(
        "free, clear, realloc, alloc",
        TWICE,
        "an old size is kept",
        || {
            twice(ordered(FREE_CLEAR_REALLOC_ALLOC), true, false);
        },
    );
}

/// Off to On while a worker cuts a slab, whose memory holds old refs, and allocates in it.
fn cut_meanwhile<F: Family>(build: Build) {
    let machine = Arc::new(Machine::<F>::new(build));
    let worker = {
        let machine = Arc::clone(&machine);
        thread::spawn(move || {
            let worker = machine.worker(0);
            worker.cut();
            worker.alloc(1, 0, 1)
        })
    };
    machine.enable();
    let obj = worker.join().unwrap();
    assert_eq!(machine.refs(1)[1], 0, "{PHANTOM}");
    machine.check(obj, obj.was_marked);
}

const NO_WAIT: Build = Build {
    pass_waits: false,
    ..RIGHT
};

#[test]
fn a_slab_that_is_cut_meanwhile() {
    explore::holds("cut meanwhile", CUT, || cut_meanwhile::<Exact>(RIGHT));
}

/// A pass that waits and a cutter that asks again after a full fence each do alone.
#[test]
fn either_way_of_meeting_a_slab_does() {
    explore::holds("cut meanwhile, no wait", CUT, || {
        cut_meanwhile::<Exact>(NO_WAIT);
    });
    explore::holds("cut meanwhile, no fence", CUT, || {
        cut_meanwhile::<NoFences>(RIGHT);
    });
    let build = Build {
        cutter_asks_again: false,
        ..RIGHT
    };
    explore::holds("cut meanwhile, asked once", CUT, move || {
        cut_meanwhile::<Exact>(build);
    });
}

#[test]
fn neither_wait_nor_fence_is_seen() {
    explore::fails("cut meanwhile, no wait, no fence", CUT, PHANTOM, || {
        cut_meanwhile::<NoFences>(NO_WAIT);
    });
}

#[test]
fn neither_wait_nor_second_look_is_seen() {
    let build = Build {
        cutter_asks_again: false,
        ..NO_WAIT
    };
    explore::fails(
        "cut meanwhile, no wait, asked once",
        CUT,
        PHANTOM,
        move || {
            cut_meanwhile::<Exact>(build);
        },
    );
}

#[test]
fn a_cutter_that_does_not_ask_is_seen() {
    let build = Build {
        cutter_asks: false,
        cutter_asks_again: false,
        ..RIGHT
    };
    explore::fails("cut meanwhile, not asked", CUT, PHANTOM, move || {
        cut_meanwhile::<Exact>(build);
    });
}
