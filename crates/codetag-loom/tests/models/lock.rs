//! The lock of slow paths: one holder at a time, who sees what the last one wrote.

use codetag::protocol::SpinLock;
use codetag_loom::atomics::{Exact, Family, Loom, RelaxedStores, U32};
use codetag_loom::explore::{self, ALL};
use codetag_loom::tracked::Tracked;
use loom::thread;
use std::sync::Arc;

fn counted_by_two<F: Family>() {
    let shared = Arc::new((
        SpinLock::<Loom<F>>::from_word(U32::new(0)),
        Tracked::new(0_u32),
    ));
    let add = |shared: &(SpinLock<Loom<F>>, Tracked<u32>)| {
        let _guard = shared.0.lock();
        shared.1.replace(shared.1.read() + 1);
    };
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            add(&shared);
            add(&shared);
        })
    };
    add(&shared);
    add(&shared);
    other.join().unwrap();
    assert_eq!(shared.1.read(), 4);
}

#[test]
fn one_holder_at_a_time() {
    explore::holds("lock", ALL, counted_by_two::<Exact>);
}

#[test]
fn an_unlock_that_releases_nothing_is_seen() {
    explore::fails(
        "lock, relaxed unlock",
        ALL,
        "Causality violation",
        counted_by_two::<RelaxedStores>,
    );
}
