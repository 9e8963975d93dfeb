//! Full slabs, claims, and slabs that change hands.
//!
//! Always: nobody touches a slab after its release, which comes at most once and with no object live;
//! a slab is on one list, in one bin, or full; no slot is lost. A slab of which nothing lives is
//! released, or listed so that the next look finds it: which of the two is said by each model.

use codetag_loom::atomics::{
    AcquireChanges, Exact, Family, RelaxedLoads, RelaxedLooks, RelaxedStores, ReleaseChanges,
};
use codetag_loom::explore::{self, Preemptions};
use codetag_loom::heap::{Broken, End, FREER, OTHER, OWNER, Thread, World};
use loom::thread::{self, JoinHandle};
use std::sync::Arc;

/// Three threads.
const SOME: Preemptions = Preemptions::up_to(2, 3);
/// Two threads.
const TWO: Preemptions = Preemptions::quick(4);

fn go<F: Family>(world: &Arc<World<F>>, what: impl FnOnce(&World<F>) + 'static) -> JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || what(&world))
}

fn freer<F: Family>(world: &Arc<World<F>>, slot: usize) -> JoinHandle<()> {
    go(world, move |w| w.free(FREER, slot))
}

fn join<const N: usize>(threads: [JoinHandle<()>; N]) {
    for t in threads {
        t.join().unwrap();
    }
}

/// A slab of `slots` that its owner has left full.
fn full<F: Family>(slots: usize, broken: Broken) -> Arc<World<F>> {
    let world = World::<F>::of(slots, broken);
    assert_eq!(world.take(OWNER), None);
    assert_eq!(world.end(), End::Full);
    world
}

/// The same, which its owner lists when it has freed two of it.
fn full_with_two_due<F: Family>(slots: usize, broken: Broken) -> Arc<World<F>> {
    let world = World::<F>::with_due(slots, 2, broken);
    assert_eq!(world.take(OWNER), None);
    assert_eq!(world.end(), End::Full);
    world
}

/// A full slab whose last objects are freed by three threads: the last one releases it.
fn freed_by_others<F: Family>(broken: Broken) {
    let world = full::<F>(3, broken);
    let freers = [freer(&world, 1), freer(&world, 2)];
    world.free(FREER, 0);
    join(freers);
    assert_eq!(world.end(), End::Released, "nobody released the slab");
}

#[test]
fn the_last_of_three_releases_a_full_slab() {
    explore::holds("full, freed by three", SOME, || {
        freed_by_others::<Exact>(Broken::Nothing);
    });
}

#[test]
fn listing_without_another_look_is_seen() {
    explore::fails("full, no second look", SOME, "nobody released", || {
        freed_by_others::<Exact>(Broken::NoSecondLook);
    });
}

#[test]
fn pushes_that_release_nothing_are_seen() {
    explore::fails(
        "full, pushes release nothing",
        SOME,
        "Causality violation",
        || {
            freed_by_others::<AcquireChanges>(Broken::Nothing);
        },
    );
}

/// The owner allocates, which leaves the slab, while others free all of it.
fn left_while_freed<F: Family>(broken: Broken) {
    let world = World::<F>::of(2, broken);
    let freers = [freer(&world, 0), freer(&world, 1)];
    let taken = world.take(OWNER);
    join(freers);
    match taken {
        None => assert_eq!(world.end(), End::Released, "nobody released the slab"),
        Some(_) => assert_eq!(world.end(), End::Current),
    }
}

#[test]
fn a_slab_that_is_left_while_it_is_freed() {
    explore::holds("left while freed", SOME, || {
        left_while_freed::<Exact>(Broken::Nothing);
    });
}

#[test]
fn a_flag_before_the_words_is_seen() {
    explore::fails(
        "left while freed, flag first",
        SOME,
        "the place is not",
        || {
            left_while_freed::<Exact>(Broken::FlagBeforeWords);
        },
    );
}

/// The owner's own free is the first or a later one of a full slab.
fn freed_by_owner_and_others<F: Family, const SLOTS: usize>(broken: Broken) {
    let world = full::<F>(SLOTS, broken);
    let freers: Vec<_> = (1..SLOTS).map(|slot| freer(&world, slot)).collect();
    world.free(OWNER, 0);
    for f in freers {
        f.join().unwrap();
    }
    // A free of the owner's that was on its way when another listed the slab is not waited for.
    world.sweep(OWNER);
    assert_eq!(world.end(), End::Released, "nobody can release the slab");
}

#[test]
fn the_owner_frees_one_of_two() {
    explore::holds("full, owner and one", TWO, || {
        freed_by_owner_and_others::<Exact, 2>(Broken::Nothing);
    });
}

#[test]
fn the_owner_frees_one_of_three() {
    explore::holds("full, owner and two", SOME, || {
        freed_by_owner_and_others::<Exact, 3>(Broken::Nothing);
    });
}

#[test]
fn the_owner_lists_a_full_slab_when_as_many_are_free_as_are_due() {
    explore::holds("full, two due", TWO, || {
        let world = full_with_two_due::<Exact>(4, Broken::Nothing);
        world.free(OWNER, 3);
        assert_eq!(world.end(), End::Full);
        world.free(OWNER, 1);
        assert_eq!(world.end(), End::Listed { wholly_free: false });
        let mut taken: Vec<_> = std::iter::from_fn(|| world.take(OWNER)).collect();
        taken.sort_unstable();
        assert_eq!(taken, [1, 3]);
        assert_eq!(world.end(), End::Full);
    });
}

/// The first `by_owner` objects of a full slab of three of which two frees of the owner's are due are freed by it,
/// the others by others.
fn freed_with_two_due<F: Family>(by_owner: usize, broken: Broken) {
    let world = full_with_two_due::<F>(3, broken);
    let freers: Vec<_> = (by_owner..3).map(|slot| freer(&world, slot)).collect();
    for slot in 0..by_owner {
        world.free(OWNER, slot);
    }
    for f in freers {
        f.join().unwrap();
    }
    world.sweep(OWNER);
    assert_eq!(world.end(), End::Released, "nobody can release the slab");
}

#[test]
fn the_owner_frees_less_than_is_due() {
    explore::holds("full, two due, owner one of three", SOME, || {
        freed_with_two_due::<Exact>(1, Broken::Nothing);
    });
}

#[test]
fn the_owner_frees_what_is_due() {
    explore::holds("full, two due, owner two of three", TWO, || {
        freed_with_two_due::<Exact>(2, Broken::Nothing);
    });
}

#[test]
fn a_free_that_was_due_and_is_counted_before_the_flag_is_seen() {
    explore::fails(
        "full, two due, counted first",
        TWO,
        "Causality violation",
        || {
            freed_with_two_due::<Exact>(2, Broken::CountedBeforeFlag);
        },
    );
}

/// Another thread lists a full slab of which the owner has freed less than was due, and the owner goes on with it.
#[test]
fn a_slab_that_another_listed_is_taken_up_again() {
    explore::holds("full, two due, taken up", TWO, || {
        let world = full_with_two_due::<Exact>(4, Broken::Nothing);
        let other = freer(&world, 3);
        world.free(OWNER, 0);
        let mut taken: Vec<_> = std::iter::from_fn(|| world.take(OWNER)).collect();
        join([other]);
        taken.extend(std::iter::from_fn(|| world.take(OWNER)));
        taken.sort_unstable();
        assert_eq!(taken, [0, 3], "each slot comes back once");
        // What it freed before counts for nothing now.
        world.free(OWNER, 0);
        assert_eq!(world.end(), End::Full);
        world.free(OWNER, 1);
        assert_eq!(world.end(), End::Listed { wholly_free: false });
    });
}

/// The owner of a full slab of which it has freed less than was due ends, while another frees an object; a third
/// thread goes on with the slab.
#[test]
fn a_full_slab_with_free_slots_changes_hands() {
    explore::holds("full, two due, owner ends", TWO, || {
        let world = full_with_two_due::<Exact>(4, Broken::Nothing);
        world.free(OWNER, 0);
        let other = freer(&world, 3);
        world.hand_over(OWNER);
        join([other]);
        let mut taken: Vec<_> = std::iter::from_fn(|| world.take(OTHER)).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 3], "each slot comes back once");
        assert_eq!(world.end(), End::Full);
    });
}

/// With the owner's free long done, nobody has to sweep.
#[test]
fn the_last_of_two_releases_a_full_slab_that_waited() {
    explore::holds("full, two due, one freed before", SOME, || {
        let world = full_with_two_due::<Exact>(3, Broken::Nothing);
        world.free(OWNER, 0);
        join([freer(&world, 1), freer(&world, 2)]);
        assert_eq!(world.end(), End::Released, "nobody released the slab");
    });
}

#[test]
fn a_free_that_is_counted_before_the_flag_is_seen() {
    explore::fails("full, counted first", SOME, "Causality violation", || {
        freed_by_owner_and_others::<Exact, 3>(Broken::CountedBeforeFlag);
    });
}

#[test]
fn stores_that_release_nothing_are_seen() {
    explore::fails(
        "full, owner's stores relaxed",
        SOME,
        "Causality violation",
        || {
            freed_by_owner_and_others::<RelaxedStores, 3>(Broken::Nothing);
        },
    );
}

#[test]
fn loads_that_acquire_nothing_are_seen() {
    explore::fails(
        "full, others' loads relaxed",
        SOME,
        "Causality violation",
        || {
            freed_by_owner_and_others::<RelaxedLoads, 3>(Broken::Nothing);
        },
    );
}

/// The owner's thread ends, with a slot in its bin and one on its own list, while another frees the last
/// object.
fn owner_ends<F: Family>(broken: Broken) {
    let world = World::<F>::of(3, broken);
    world.free(OWNER, 1);
    world.free(OWNER, 2);
    let slot = world.take(OWNER).unwrap();
    world.free(OWNER, slot);
    let other = freer(&world, 0);
    world.hand_over(OWNER);
    join([other]);
    assert_eq!(world.end(), End::Released, "nobody released the slab");
}

#[test]
fn a_thread_ends_while_its_last_object_is_freed() {
    explore::holds("owner ends", TWO, || owner_ends::<Exact>(Broken::Nothing));
}

/// The same with the slab full, and two that free.
fn owner_of_full_ends<F: Family>(broken: Broken) {
    let world = full::<F>(2, broken);
    let freers = [freer(&world, 0), freer(&world, 1)];
    world.hand_over(OWNER);
    join(freers);
    assert_eq!(world.end(), End::Released, "nobody released the slab");
}

#[test]
fn a_thread_ends_while_its_full_slab_is_freed() {
    explore::holds("owner of a full slab ends", SOME, || {
        owner_of_full_ends::<Exact>(Broken::Nothing);
    });
}

#[test]
fn an_adoption_without_the_lock_is_seen() {
    explore::fails(
        "owner ends, no lock",
        SOME,
        "taken off a list that it is not on",
        || {
            owner_of_full_ends::<Exact>(Broken::AdoptedWithoutLock);
        },
    );
}

/// A slab that is listed in the shared heap: one free slot, one object. Another thread adopts it while
/// the object is freed.
fn adopted_while_freed<F: Family>(broken: Broken) {
    let world = full::<F>(2, broken);
    world.hand_over(OWNER);
    world.free(FREER, 1);
    let other = freer(&world, 0);
    let taken = world.take(OTHER);
    join([other]);
    match taken {
        None => assert_eq!(world.end(), End::Released, "nobody released the slab"),
        Some(_) => assert_eq!(world.end(), End::Current),
    }
}

#[test]
fn a_slab_is_adopted_while_its_last_object_is_freed() {
    explore::holds("adopted while freed", TWO, || {
        adopted_while_freed::<Exact>(Broken::Nothing);
    });
}

#[test]
fn a_claim_that_is_overlooked_is_seen() {
    explore::fails(
        "adopted while freed, claim overlooked",
        TWO,
        "maximum number of branches",
        || {
            adopted_while_freed::<Exact>(Broken::ClaimOverlooked);
        },
    );
}

/// Another thread sweeps the lists while the last object is freed.
fn swept_while_freed(owner_frees: bool) {
    let world = full::<Exact>(2, Broken::Nothing);
    world.free(FREER, 1);
    let who: Thread = if owner_frees { OWNER } else { FREER };
    let sweeper = go(&world, |w| w.sweep(OWNER));
    world.free(who, 0);
    join([sweeper]);
    assert_eq!(world.end(), End::Released, "nobody released the slab");
}

#[test]
fn a_slab_is_swept_while_its_last_object_is_freed() {
    explore::holds("swept while freed", TWO, || swept_while_freed(false));
    explore::holds("swept while the owner frees", TWO, || {
        swept_while_freed(true);
    });
}

/// Another's free claims the current slab, whose owner then takes its last slot, has it freed by another
/// thread too, and leaves the slab.
fn claimed_before_it_grows<F: Family>(broken: Broken) {
    let world = World::<F>::of(2, broken);
    world.free(OWNER, 0);
    let other = freer(&world, 1);
    let slot = world.take(OWNER).unwrap();
    world.free(FREER, slot);
    let taken = world.take(OWNER);
    join([other]);
    match taken {
        None => assert_eq!(world.end(), End::Released, "nobody released the slab"),
        Some(_) => assert_eq!(world.end(), End::Current),
    }
}

#[test]
fn a_slab_is_left_while_a_claim_is_looked_into() {
    explore::holds("claimed before it grows", TWO, || {
        claimed_before_it_grows::<Exact>(Broken::Nothing);
    });
}

#[test]
fn a_look_by_a_load_is_seen() {
    explore::fails("owner ends, look by load", TWO, "nobody released", || {
        owner_ends::<Exact>(Broken::LookByLoad);
    });
}

#[test]
fn pushes_that_do_not_acquire_the_look_are_seen() {
    explore::fails(
        "owner ends, pushes acquire no look",
        TWO,
        "nobody released",
        || {
            owner_ends::<RelaxedLooks>(Broken::Nothing);
        },
    );
}

#[test]
fn looks_that_acquire_nothing_are_seen() {
    explore::fails(
        "full, looks acquire nothing",
        TWO,
        "Causality violation",
        || {
            freed_by_owner_and_others::<ReleaseChanges, 2>(Broken::Nothing);
        },
    );
}

#[test]
fn a_claimer_that_does_not_ask_whose_slab_it_is_now_is_seen() {
    explore::fails(
        "owner ends, no second address",
        SOME,
        "taken off a list that it is not on",
        || {
            owner_of_full_ends::<Exact>(Broken::NoSecondAddress);
        },
    );
}
