//! `TagAlloc` over an allocator of the program's own: one that counts, and refuses past a limit.
//!
//! ```text
//! cargo run --release --example own_inner
//! ```
//!
//! A refusal reaches the caller as an error of `try_reserve`, with everything as it was before; and the
//! page's `obtained` is what the inner allocator counted itself. If not, the exit status is 1.

#![deny(unsafe_code)]

use std::collections::TryReserveError;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use codetag::{Snapshot, TagAlloc};
use limited::Limited;

const LIMIT_BYTES: usize = 64 << 20;

static ROOM: limited::Room = limited::Room::new(LIMIT_BYTES);

#[global_allocator]
static ALLOC: TagAlloc<Limited> = TagAlloc::new(Limited::new(&ROOM));

#[allow(
    unsafe_code,
    reason = "`GlobalAlloc` is an unsafe trait; the rest of the program needs none"
)]
mod limited {
    //! # Safety model
    //!
    //! Every block is the system allocator's, under the layout that the caller gave. This module adds
    //! a count and never touches the memory.

    use std::alloc::{GlobalAlloc, Layout, System};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// How much may be handed out, and how much is.
    #[derive(Debug)]
    pub(crate) struct Room {
        limit_bytes: usize,
        used_bytes: AtomicUsize,
    }

    impl Room {
        pub(crate) const fn new(limit_bytes: usize) -> Self {
            Self {
                limit_bytes,
                used_bytes: AtomicUsize::new(0),
            }
        }

        /// The sum of the sizes of the layouts that are handed out.
        pub(crate) fn used_bytes(&self) -> usize {
            self.used_bytes.load(Relaxed)
        }

        fn take(&self, bytes: usize) -> bool {
            let grown = |used: usize| {
                used.checked_add(bytes)
                    .filter(|&sum| sum <= self.limit_bytes)
            };
            self.used_bytes
                .fetch_update(Relaxed, Relaxed, grown)
                .is_ok()
        }

        fn give_back(&self, bytes: usize) {
            self.used_bytes.fetch_sub(bytes, Relaxed);
        }
    }

    /// The system's allocator within a [`Room`].
    #[derive(Debug)]
    pub(crate) struct Limited {
        room: &'static Room,
    }

    impl Limited {
        pub(crate) const fn new(room: &'static Room) -> Self {
            Self { room }
        }

        /// Runs `alloc` if there is room for `bytes` and keeps the room only if it succeeds.
        fn within(&self, bytes: usize, alloc: impl FnOnce() -> *mut u8) -> *mut u8 {
            if !self.room.take(bytes) {
                return null_mut();
            }
            let block = alloc();
            if block.is_null() {
                self.room.give_back(bytes);
            }
            block
        }
    }

    // SAFETY: blocks come from `System` with the caller's own layout and go back to it with the same;
    // null is `System`'s or the refusal, which the trait allows. Nothing here panics or allocates.
    unsafe impl GlobalAlloc for Limited {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller vouches that the size is not zero.
            self.within(layout.size(), || unsafe { System.alloc(layout) })
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            // SAFETY: as in `alloc`. Forwarded, because fresh pages of the system are zero already.
            self.within(layout.size(), || unsafe { System.alloc_zeroed(layout) })
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: `block` is live and has `layout`, says the caller; `System` made it.
            unsafe { System.dealloc(block, layout) };
            self.room.give_back(layout.size());
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            // SAFETY: as in `dealloc`; the caller vouches for `new_size`. Forwarded, because the
            // system can grow a block without copying it.
            let realloc = || unsafe { System.realloc(block, layout, new_size) };
            match new_size.checked_sub(layout.size()) {
                Some(more_bytes) => self.within(more_bytes, realloc),
                None => {
                    let block = realloc();
                    if !block.is_null() {
                        self.room.give_back(layout.size() - new_size);
                    }
                    block
                }
            }
        }
    }
}

/// Asks for more than there is.
#[codetag::alloc_tag]
fn too_much() -> Result<Vec<u8>, TryReserveError> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(2 * LIMIT_BYTES)?;
    Ok(vec)
}

/// Asks for small blocks until one is refused, and returns what it got.
#[codetag::alloc_tag]
fn until_refused() -> (Vec<Vec<u8>>, TryReserveError) {
    let mut blocks = Vec::new();
    loop {
        let mut block = Vec::new();
        let got = block
            .try_reserve_exact(4_000)
            .and_then(|()| blocks.try_reserve(1));
        if let Err(refused) = got {
            return (blocks, refused);
        }
        blocks.push(block);
    }
}

fn main() -> ExitCode {
    if let Err(error) = codetag::enable() {
        eprintln!("own_inner: {error}");
        if !matches!(error, codetag::EnableError::TagsOff) {
            return ExitCode::FAILURE;
        }
    }
    match run() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            fail(format_args!("stdout: {error}"))
        }
        Ok(false) => fail(format_args!("the two counts differ")),
        _ => ExitCode::SUCCESS,
    }
}

/// Whether both counts were the same each time.
fn run() -> io::Result<bool> {
    let out = &mut io::stdout().lock();
    let refused = too_much().expect_err("it is twice the limit");
    writeln!(out, "One block of twice the limit: {refused}")?;
    let before = compare(out)?;

    let (mut blocks, refused) = until_refused();
    writeln!(
        out,
        "{} blocks of 4,000 bytes, and then: {refused}",
        blocks.len()
    )?;
    let full = compare(out)?;

    blocks.truncate(1_000);
    codetag::shrink();
    writeln!(
        out,
        "All but {} freed, and empty memory handed back:",
        blocks.len()
    )?;
    let after = compare(out)?;
    writeln!(out, "\n{}", codetag::show_mem())?;
    Ok(before && full && after)
}

/// Prints both counts.
fn compare(out: &mut impl Write) -> io::Result<bool> {
    // In one expression: the snapshot's own memory is given back before the other side is read.
    let obtained_bytes = Snapshot::take().heap().obtained_bytes;
    let used_bytes = ROOM.used_bytes() as u64;
    writeln!(
        out,
        "    obtained, says the page {obtained_bytes:>10}; the inner allocator {used_bytes:>10}"
    )?;
    Ok(obtained_bytes == used_bytes)
}

fn fail(message: fmt::Arguments<'_>) -> ExitCode {
    eprintln!("own_inner: {message}");
    ExitCode::FAILURE
}
