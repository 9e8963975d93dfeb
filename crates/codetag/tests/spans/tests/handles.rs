//! The rule of who is charged for work on other threads, sentence by sentence.

#![forbid(unsafe_code)]

use codetag::{FutureExt, TagHandle};
use codetag_span_tests::{current, enable, live, tags_off};
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::{Pin, pin};
use std::sync::{Barrier, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

/// The handle of a tag named `asks`.
#[codetag::alloc_tag]
fn asks() -> TagHandle {
    codetag::current()
}

#[codetag::alloc_tag]
fn runs<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// What `current()` is under `name` with the tags compiled in.
fn is(name: &str) -> &str {
    if tags_off() { "untagged" } else { name }
}

/// "Work that was wrapped is charged to the tag that it was wrapped with, on whatever thread it runs, …"
#[test]
fn wrapped_work_runs_under_its_own_tag_on_any_thread() {
    let handle = asks();
    assert_eq!(handle.scope(current), is("asks"));
    assert_eq!(
        thread::spawn(handle.wrap(current)).join().unwrap(),
        is("asks")
    );
    thread::scope(|s| {
        assert_eq!(s.spawn(handle.wrap(current)).join().unwrap(), is("asks"));
    });
    let (send, receive) = mpsc::channel();
    rayon::spawn(handle.wrap(move || send.send(current()).unwrap()));
    assert_eq!(receive.recv().unwrap(), is("asks"));
    assert_eq!(
        rayon::join(handle.wrap(current), handle.wrap(current)),
        (is("asks"), is("asks"))
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let task = tokio::spawn(async { current() }.in_tag(handle));
        assert_eq!(task.await.unwrap(), is("asks"));
        let blocking = tokio::task::spawn_blocking(handle.wrap(current));
        assert_eq!(blocking.await.unwrap(), is("asks"));
    });
}

/// "… and whatever scope that thread is in."
#[test]
fn a_wrapped_closure_beats_the_scope_of_the_thread() {
    let handle = asks();
    assert_eq!(runs(handle.wrap(current)), is("asks"));
    assert_eq!(runs(|| handle.scope(current)), is("asks"));
    let outside = codetag::current();
    assert_eq!(runs(|| outside.scope(current)), "untagged");
    let mut future = pin!(async { current() }.in_tag(handle));
    let polled = runs(|| {
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    });
    assert_eq!(polled, Poll::Ready(is("asks")));
}

/// "Work that nobody wrapped is charged to the innermost scope of the thread that runs it: …"
#[test]
fn work_that_nobody_wrapped_is_the_running_threads() {
    let job: Box<dyn FnOnce() -> &'static str + Send> = runs(|| Box::new(current));
    assert_eq!(job(), "untagged");
    let job: Box<dyn FnOnce() -> &'static str + Send> = Box::new(current);
    assert_eq!(runs(job), is("runs"));
}

/// "… a new thread begins without one."
#[test]
fn a_new_thread_begins_without_a_scope() {
    assert_eq!(runs(|| thread::spawn(current).join().unwrap()), "untagged");
}

/// A job that a waiting thread steals runs under the scope that waits. The pool has one thread, so that it
/// is the one that waits which runs the job.
#[test]
fn a_stolen_job_is_the_thiefs() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let found = pool.install(|| {
        let (send, receive) = mpsc::channel();
        let wrapped = asks();
        let unwrapped = send.clone();
        // Queued on this thread's own queue, which it works off while it waits in `join`.
        rayon::spawn(move || unwrapped.send(("unwrapped", current())).unwrap());
        rayon::spawn(wrapped.wrap(move || send.send(("wrapped", current())).unwrap()));
        runs(
            || {
                while rayon::yield_now() == Some(rayon::Yield::Executed) {}
            },
        );
        let mut found: Vec<_> = receive.into_iter().collect();
        found.sort_unstable();
        found
    });
    assert_eq!(found, [("unwrapped", is("runs")), ("wrapped", is("asks"))]);
}

/// The jobs of `join` in a scope, on the waiting thread and on another. A job that was wrapped has its tag on
/// either, one that was not the scope of the thread that runs it, and what they allocated is charged so.
#[test]
fn jobs_of_join_own_what_they_allocate() {
    #[codetag::alloc_tag]
    fn asks_in_pool() -> TagHandle {
        codetag::current()
    }
    #[codetag::alloc_tag]
    fn joins<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    enable();
    // Each job waits for the other, so that each worker runs one.
    let both = Barrier::new(2);
    let job = |bytes: usize| {
        let worker = rayon::current_thread_index();
        both.wait();
        (worker, current(), vec![1_u8; bytes])
    };
    let wrapped = pool.install(|| {
        let handle = asks_in_pool();
        joins(|| rayon::join(handle.wrap(|| job(1_001)), handle.wrap(|| job(2_002))))
    });
    assert_ne!(wrapped.0.0, wrapped.1.0);
    assert_eq!(
        (wrapped.0.1, wrapped.1.1),
        (is("asks_in_pool"), is("asks_in_pool"))
    );
    let due = |objs, bytes| if tags_off() { (0, 0) } else { (objs, bytes) };
    assert_eq!(live("asks_in_pool"), due(2, 3_003));
    assert_eq!(live("joins"), (0, 0));

    let plain = pool.install(|| joins(|| rayon::join(|| job(1_001), || job(2_002))));
    assert_ne!(plain.0.0, plain.1.0);
    // `join` runs its first job itself; the other worker, which stole the second, is in no scope.
    assert_eq!((plain.0.1, plain.1.1), (is("joins"), "untagged"));
    assert_eq!(live("joins"), due(1, 1_001));
    assert_eq!(live("asks_in_pool"), due(2, 3_003));
    drop((wrapped, plain));
    assert_eq!((live("asks_in_pool"), live("joins")), ((0, 0), (0, 0)));
}

/// "A scope is left as it was entered, also by a panic."
#[test]
fn a_panic_leaves_the_scope() {
    let handle = asks();
    let caught = panic::catch_unwind(AssertUnwindSafe(|| {
        handle.scope(|| panic::resume_unwind(Box::new(())))
    }));
    assert!(caught.is_err());
    assert_eq!(current(), "untagged");
    let mut future = Box::pin(
        async {
            panic::resume_unwind(Box::new(()));
        }
        .in_tag(handle),
    );
    let mut cx = Context::from_waker(Waker::noop());
    let caught = panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx)));
    assert!(caught.is_err());
    drop(future);
    assert_eq!(current(), "untagged");
}

/// "A future has its tag for each poll and for its drop."
#[test]
fn a_future_has_its_tag_for_each_poll_and_the_drop() {
    struct Notes(mpsc::Sender<&'static str>);
    impl Future for Notes {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            self.0.send(current()).unwrap();
            Poll::Pending
        }
    }
    impl Drop for Notes {
        fn drop(&mut self) {
            self.0.send(current()).unwrap();
        }
    }
    let (send, receive) = mpsc::channel();
    let mut future = Box::pin(Notes(send).in_tag(asks()));
    for scope in ["untagged", "runs"] {
        let mut poll = || {
            let before = current();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(future.as_mut().poll(&mut cx).is_pending());
            assert_eq!(current(), before);
        };
        if scope == "runs" {
            runs(poll);
        } else {
            poll();
        }
    }
    thread::spawn(move || drop(future)).join().unwrap();
    assert_eq!(current(), "untagged");
    assert_eq!(receive.into_iter().collect::<Vec<_>>(), [is("asks"); 3]);
}

/// Figures, not only names: who asks owns what another thread allocated for it.
#[test]
fn what_another_thread_allocates_is_the_askers() {
    #[codetag::alloc_tag]
    fn asks_elsewhere() -> Vec<u8> {
        thread::spawn(codetag::current().wrap(|| vec![0; 12_345]))
            .join()
            .unwrap()
    }
    enable();
    let bytes = asks_elsewhere();
    assert_eq!(bytes.len(), 12_345);
    if !tags_off() {
        assert_eq!(live("asks_elsewhere"), (1, 12_345));
    }
    drop(bytes);
    assert_eq!(live("asks_elsewhere"), (0, 0));
}

#[test]
fn a_handle_is_a_word_and_a_future_grows_by_one() {
    let word = if tags_off() { 0 } else { size_of::<usize>() };
    let plain = async {
        std::future::pending::<()>().await;
    };
    let bytes = size_of_val(&plain);
    assert_eq!(size_of::<TagHandle>(), word);
    assert_eq!(
        size_of_val(&plain.in_tag(asks())).div_ceil(8),
        (bytes + word).div_ceil(8)
    );
}
