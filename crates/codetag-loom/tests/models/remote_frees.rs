//! Frees by other threads while the owner allocates: each slot comes back exactly once, with its link,
//! and a slab that is in use is never released.

use codetag_loom::atomics::{AcquireChanges, Exact, Family, ReleaseChanges};
use codetag_loom::explore::{self, Preemptions};
use codetag_loom::heap::{Broken, End, FREER, OWNER, World};
use loom::thread::{self, JoinHandle};
use std::sync::Arc;

const SOME: Preemptions = Preemptions::up_to(2, 3);

fn freer<F: Family>(world: &Arc<World<F>>, slot: usize) -> JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || world.free(FREER, slot))
}

/// The owner keeps one of three objects; two threads free the others while the owner allocates.
fn two_frees_two_allocations<F: Family>() {
    let world = World::<F>::of(3, Broken::Nothing);
    let freers = [freer(&world, 1), freer(&world, 2)];
    let mut taken: Vec<usize> = (0..2).filter_map(|_| world.take(OWNER)).collect();
    for f in freers {
        f.join().unwrap();
    }
    // What came later, or went to a list, is there now.
    while let Some(slot) = world.take(OWNER) {
        taken.push(slot);
    }
    taken.sort_unstable();
    assert_eq!(taken, [1, 2], "each slot comes back once");
    assert_eq!(world.end(), End::Full);
}

#[test]
fn slots_come_back_once() {
    explore::holds("remote frees", SOME, two_frees_two_allocations::<Exact>);
}

#[test]
fn pushes_that_release_nothing_are_seen() {
    explore::fails(
        "remote frees, pushes release nothing",
        SOME,
        "Causality violation",
        two_frees_two_allocations::<AcquireChanges>,
    );
}

#[test]
fn takes_that_acquire_nothing_are_seen() {
    explore::fails(
        "remote frees, takes acquire nothing",
        SOME,
        "Causality violation",
        two_frees_two_allocations::<ReleaseChanges>,
    );
}

/// The owner frees too, and others free the rest of a slab that stays current.
#[test]
fn a_current_slab_is_never_released() {
    explore::holds("remote frees, current", SOME, || {
        let world = World::new(3);
        let freers = [freer(&world, 1), freer(&world, 2)];
        world.free(OWNER, 0);
        for f in freers {
            f.join().unwrap();
        }
        assert_eq!(world.end(), End::Current);
    });
}
