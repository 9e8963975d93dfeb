//! Runs a model in every order that it may take.

use loom::model::Builder;
use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many times in one execution a thread may be interrupted where it could have gone on; `None` for
/// any number, which is exhaustive.
#[derive(Clone, Copy, Debug)]
pub struct Preemptions {
    /// In each run of the tests.
    pub quick: Option<usize>,
    /// With `CODETAG_LONG=1`.
    pub long: Option<usize>,
}

/// Every order, always.
pub const ALL: Preemptions = Preemptions {
    quick: None,
    long: None,
};

impl Preemptions {
    /// So many in each run of the tests, every order in the long form.
    #[must_use]
    pub const fn quick(n: usize) -> Self {
        Self {
            quick: Some(n),
            long: None,
        }
    }

    /// So many in each run of the tests, so many in the long form.
    #[must_use]
    pub const fn up_to(quick: usize, long: usize) -> Self {
        Self {
            quick: Some(quick),
            long: Some(long),
        }
    }

    fn now(self) -> Option<usize> {
        if std::env::var_os("CODETAG_LONG").is_some_and(|v| v == "1") {
            self.long
        } else {
            self.quick
        }
    }
}

/// Runs `model` in every order; returns how many there are, and prints it.
///
/// # Panics
///
/// As the model does, in the first order that fails.
pub fn holds(
    name: &str,
    preemptions: Preemptions,
    model: impl Fn() + Send + Sync + 'static,
) -> u64 {
    let (orders, outcome) = run(preemptions.now(), model);
    match outcome {
        Ok(()) => println!("{name}: {orders} orders, {}", bound(preemptions.now())),
        Err(panic) => {
            eprintln!("{name}: order {orders} fails");
            panic::resume_unwind(panic);
        }
    }
    orders
}

/// Runs a broken `model` until an order fails; returns which one.
///
/// # Panics
///
/// None fails, or one does with another message.
pub fn fails(
    name: &str,
    preemptions: Preemptions,
    message: &str,
    model: impl Fn() + Send + Sync + 'static,
) -> u64 {
    let (orders, outcome) = run(preemptions.now(), model);
    let Err(panic) = outcome else {
        panic!("{name}: all of {orders} orders pass, though the model is broken");
    };
    let said = text(panic.as_ref());
    assert!(
        said.contains(message),
        "{name}: fails with `{said}` and not with `{message}`"
    );
    println!("{name}: order {orders} fails as it must: {said}");
    orders
}

fn run(
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) -> (u64, std::thread::Result<()>) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    let orders = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&orders);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        builder.check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            model();
        });
    }));
    (orders.load(Ordering::Relaxed), outcome)
}

fn bound(preemptions: Option<usize>) -> String {
    preemptions.map_or_else(
        || "which are all".to_owned(),
        |n| format!("which are all with at most {n} preemptions"),
    )
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
}
