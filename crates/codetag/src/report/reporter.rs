//! Reports at intervals.

use super::emit::emit;
use std::io;
use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::dispatcher;

/// A thread that [emits](emit) a report at intervals, until it is stopped or dropped.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// #[global_allocator]
/// static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();
///
/// let reporter = codetag::report::Reporter::start(Duration::from_secs(60), 10)?;
/// // …
/// reporter.stop();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the reporter stops at once when it is dropped"]
pub struct Reporter {
    // Dropped to stop the thread. Both are there until then.
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Reporter {
    /// Starts the thread: a report of the `n` largest tags each time `every` has passed, the first after
    /// that time, to the subscriber that is current here and now. The thread, `codetag-report`, is in no
    /// scope: what the subscriber allocates for it is untagged.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn start(every: Duration, n: usize) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let subscriber = dispatcher::get_default(Clone::clone);
        let thread = thread::Builder::new()
            .name("codetag-report".to_owned())
            .spawn(move || {
                dispatcher::with_default(&subscriber, || {
                    while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                        emit(n);
                    }
                });
            })?;
        Ok(Self {
            running: Some((stop, thread)),
        })
    }

    /// Stops the thread and waits for it; a report that it has begun is finished first. Dropping does the
    /// same.
    ///
    /// # Panics
    ///
    /// The subscriber panicked, which ended the thread: passed on. Dropping does not.
    pub fn stop(mut self) {
        if let Err(panicked) = self.end() {
            panic::resume_unwind(panicked);
        }
    }

    /// Whether the thread has ended by itself: the subscriber panicked.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.running
            .as_ref()
            .is_none_or(|(_, thread)| thread.is_finished())
    }

    fn end(&mut self) -> thread::Result<()> {
        match self.running.take() {
            Some((stop, thread)) => {
                drop(stop);
                thread.join()
            }
            None => Ok(()),
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // Whoever wants to know of a panic calls `stop`.
        let _ = self.end();
    }
}
