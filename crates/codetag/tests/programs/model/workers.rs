//! Threads that make one call of the allocator at a time, as they are told.
//!
//! What goes to and fro allocates nothing, so that a thread that has answered is quiet.

use crate::labels::within;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Alloc {
        label: u8,
        layout: Layout,
        zeroed: bool,
    },
    Free {
        at: usize,
        layout: Layout,
    },
    Realloc {
        label: u8,
        at: usize,
        layout: Layout,
        size: usize,
    },
    Shrink,
}

impl Call {
    /// Makes the call on this thread; returns the address of the block, 0 for none.
    pub(crate) fn make(self) -> usize {
        let block = |at| ptr::with_exposed_provenance_mut::<u8>(at);
        match self {
            Self::Alloc {
                label,
                layout,
                zeroed,
            } => {
                let alloc = if zeroed { alloc_zeroed } else { alloc };
                // SAFETY: no operation asks for zero bytes.
                within(label, || unsafe { alloc(layout) }).expose_provenance()
            }
            Self::Free { at, layout } => {
                // SAFETY: a block of the interpreter's, which it has let go of.
                unsafe { dealloc(block(at), layout) };
                0
            }
            Self::Realloc {
                label,
                at,
                layout,
                size,
            } => {
                // SAFETY: a block of the interpreter's; not to zero bytes.
                let to = within(label, || unsafe { realloc(block(at), layout, size) });
                to.expose_provenance()
            }
            Self::Shrink => {
                codetag::shrink();
                0
            }
        }
    }
}

enum Mail {
    Nothing,
    Call(Call),
    Answer(usize),
    End,
}

struct Mailbox {
    mail: Mutex<Mail>,
    changed: Condvar,
}

impl Mailbox {
    fn put(&self, mail: Mail) {
        *self.mail.lock().unwrap() = mail;
        self.changed.notify_all();
    }

    /// Waits until `wanted` takes what is there.
    fn take<R>(&self, mut wanted: impl FnMut(&Mail) -> Option<R>) -> R {
        let mut mail = self.mail.lock().unwrap();
        loop {
            if let Some(r) = wanted(&mail) {
                *mail = Mail::Nothing;
                return r;
            }
            mail = self.changed.wait(mail).unwrap();
        }
    }
}

/// A thread that waits for calls.
pub(crate) struct Worker {
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

impl Worker {
    pub(crate) fn start() -> Self {
        let mailbox = Arc::new(Mailbox {
            mail: Mutex::new(Mail::Nothing),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&mailbox);
        let thread = thread::spawn(move || {
            let next = |mail: &Mail| match mail {
                Mail::Call(call) => Some(Some(*call)),
                Mail::End => Some(None),
                _ => None,
            };
            while let Some(call) = theirs.take(next) {
                let answer = call.make();
                theirs.put(Mail::Answer(answer));
            }
        });
        let worker = Self { mailbox, thread };
        // Starting may still allocate; what answers has started.
        worker.call(Call::Shrink);
        worker
    }

    /// Makes the call there, and waits for the answer.
    pub(crate) fn call(&self, call: Call) -> usize {
        self.mailbox.put(Mail::Call(call));
        self.mailbox.take(|mail| match mail {
            Mail::Answer(answer) => Some(*answer),
            _ => None,
        })
    }

    /// Lets the thread end, to its last thread-local.
    pub(crate) fn end(self) {
        self.mailbox.put(Mail::End);
        self.thread.join().unwrap();
    }
}
