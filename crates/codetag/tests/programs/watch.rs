//! An account of every block of the process, kept in front of the allocator under test.
//!
//! It knows nothing of slabs, refs or scopes. Of each block it has the address, the layout that the
//! caller gave, and the label that the program itself had set: so it says what every figure must be
//! by other means, for blocks of the standard library and of the tests' own containers too.
//! It lives in static memory and allocates nothing.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::fmt::{self, Write as _};
use std::process;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

/// The allocator under test, watched until [`stop`].
pub(crate) struct Watched<A>(pub(crate) A);

/// True from the first allocation of the process, so that nothing is missed.
static WATCHING: AtomicBool = AtomicBool::new(true);

/// Whether the program turned profiling on.
static ON: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whom this thread's allocations are for; 0 for nobody.
    static LABEL: Cell<u8> = const { Cell::new(0) };
}

/// One block that the program holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// 0 where there is none.
    pub(crate) addr: usize,
    pub(crate) bytes: usize,
    pub(crate) align: usize,
    /// The size that its place was chosen for: a realloc that keeps the address keeps the slot.
    pub(crate) placed_bytes: usize,
    /// Whom it is charged to; meaningful while `tracked`.
    pub(crate) label: u8,
    /// Allocated or reallocated since profiling was last turned on.
    pub(crate) tracked: bool,
}

const NO_BLOCK: Block = Block {
    addr: 0,
    bytes: 0,
    align: 0,
    placed_bytes: 0,
    label: 0,
    tracked: false,
};

/// The largest request that comes from a slab.
pub(crate) const SMALL_MAX: usize = 16 << 10;

/// Whether a request comes from a slab: rounded up to its alignment it is at most 16 KiB.
pub(crate) fn is_small(bytes: usize, align: usize) -> bool {
    bytes
        .checked_next_multiple_of(align)
        .is_some_and(|b| b <= SMALL_MAX)
}

const ROOM: usize = 1 << 14;

/// Blocks by address: open addressing, linear probing.
struct Table {
    blocks: [Block; ROOM],
    len: usize,
}

/// The table, under a lock.
struct Book {
    held: AtomicBool,
    table: UnsafeCell<Table>,
}

// SAFETY: the table is reached under the lock only.
unsafe impl Sync for Book {}

static BOOK: Book = Book {
    held: AtomicBool::new(false),
    table: UnsafeCell::new(Table {
        blocks: [NO_BLOCK; ROOM],
        len: 0,
    }),
};

impl Book {
    fn with<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        while self.held.swap(true, Acquire) {
            thread::yield_now();
        }
        // SAFETY: the lock is held, and `f` cannot come here again: it does not allocate.
        let r = f(unsafe { &mut *self.table.get() });
        self.held.store(false, Release);
        r
    }
}

fn home(addr: usize) -> usize {
    (addr >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - ROOM.trailing_zeros())
}

impl Table {
    fn put(&mut self, block: Block) {
        if self.len >= ROOM / 4 * 3 {
            fail(format_args!("more than {} blocks at once", ROOM / 4 * 3));
        }
        let mut i = home(block.addr);
        while self.blocks[i].addr != 0 {
            if self.blocks[i].addr == block.addr {
                fail(format_args!(
                    "handed out twice: {:?} and {block:?}",
                    self.blocks[i]
                ));
            }
            i = (i + 1) % ROOM;
        }
        self.blocks[i] = block;
        self.len += 1;
    }

    fn take(&mut self, addr: usize, layout: Layout) -> Block {
        let mut hole = home(addr);
        while self.blocks[hole].addr != addr {
            if self.blocks[hole].addr == 0 {
                fail(format_args!("{addr:#x} is freed and was not live"));
            }
            hole = (hole + 1) % ROOM;
        }
        let block = self.blocks[hole];
        if (block.bytes, block.align) != (layout.size(), layout.align()) {
            fail(format_args!("{block:?} is freed as {layout:?}"));
        }
        // Close the gap: an entry behind it moves up unless that would put it before its home.
        let mut i = hole;
        loop {
            i = (i + 1) % ROOM;
            let next = self.blocks[i];
            if next.addr == 0 {
                break;
            }
            let distance = |from: usize| i.wrapping_sub(from) % ROOM;
            if distance(home(next.addr)) >= distance(hole) {
                self.blocks[hole] = next;
                hole = i;
            }
        }
        self.blocks[hole] = NO_BLOCK;
        self.len -= 1;
        block
    }
}

/// A new block for whoever the running thread allocates for.
fn fresh(at: *mut u8, layout: Layout) -> Block {
    if !at.addr().is_multiple_of(layout.align()) {
        fail(format_args!("{at:?} is not aligned for {layout:?}"));
    }
    Block {
        addr: at.addr(),
        bytes: layout.size(),
        align: layout.align(),
        placed_bytes: layout.size(),
        label: LABEL.get(),
        tracked: ON.load(Relaxed),
    }
}

/// What a realloc made of `was`: charged to the current label; without one the owner stays.
fn moved(was: Block, to: *mut u8, new_bytes: usize) -> Block {
    let layout = match Layout::from_size_align(new_bytes, was.align) {
        Ok(layout) => layout,
        Err(e) => fail(format_args!("{e}: {new_bytes} bytes for {was:?}")),
    };
    let mut block = fresh(to, layout);
    if block.label == 0 && was.tracked {
        block.label = was.label;
    }
    let (before, after) = (
        is_small(was.bytes, was.align),
        is_small(new_bytes, was.align),
    );
    if to.addr() == was.addr {
        if before != after {
            fail(format_args!(
                "{was:?} kept its place across the border to large objects"
            ));
        }
        if before {
            block.placed_bytes = was.placed_bytes;
        }
    }
    block
}

impl<A: GlobalAlloc> Watched<A> {
    fn came(at: *mut u8, layout: Layout) -> *mut u8 {
        if WATCHING.load(Relaxed) && !at.is_null() && layout.size() > 0 {
            let block = fresh(at, layout);
            BOOK.with(|book| book.put(block));
        }
        at
    }
}

// SAFETY: every call goes to the allocator under test, with the caller's promises.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Watched<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        Self::came(unsafe { self.0.alloc(layout) }, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        Self::came(unsafe { self.0.alloc_zeroed(layout) }, layout)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if WATCHING.load(Relaxed) && layout.size() > 0 {
            // Before the call: another thread may get the address at once.
            BOOK.with(|book| book.take(at.addr(), layout));
        }
        // SAFETY: as the caller's.
        unsafe { self.0.dealloc(at, layout) };
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if !WATCHING.load(Relaxed) {
            // SAFETY: as the caller's.
            return unsafe { self.0.realloc(at, layout, new_bytes) };
        }
        let was = BOOK.with(|book| book.take(at.addr(), layout));
        // SAFETY: as the caller's.
        let to = unsafe { self.0.realloc(at, layout, new_bytes) };
        let now = if to.is_null() {
            was
        } else {
            moved(was, to, new_bytes)
        };
        BOOK.with(|book| book.put(now));
        to
    }
}

/// Stops watching, for good: for programs that count by themselves, and for the parent.
pub(crate) fn stop() {
    WATCHING.store(false, Relaxed);
}

/// Profiling has just been turned on, at a quiet point: what is older is untracked. With `since_start`
/// it has been on since the first allocation.
pub(crate) fn turned_on(since_start: bool) {
    BOOK.with(|book| {
        for block in &mut book.blocks {
            (block.tracked, block.label) = (since_start, 0);
        }
    });
    ON.store(true, Relaxed);
}

/// Profiling is about to be turned off.
pub(crate) fn turned_off() {
    ON.store(false, Relaxed);
}

/// Whether the program turned profiling on.
pub(crate) fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Runs `f` with what the thread allocates put down to `label`, as a scope would.
pub(crate) fn labelled<R>(label: u8, f: impl FnOnce() -> R) -> R {
    struct Restore(u8);
    impl Drop for Restore {
        fn drop(&mut self) {
            LABEL.set(self.0);
        }
    }
    let _outer = Restore(LABEL.replace(label));
    f()
}

/// Calls `visit` with each block. It must not allocate.
pub(crate) fn for_each(mut visit: impl FnMut(&Block)) {
    BOOK.with(|book| {
        book.blocks
            .iter()
            .filter(|b| b.addr != 0)
            .for_each(&mut visit);
    });
}

/// Ends the process with a sentence on stderr. Allocates nothing: it may be the allocator that fails.
pub(crate) fn fail(what: fmt::Arguments<'_>) -> ! {
    struct Line {
        text: [u8; 512],
        len: usize,
    }
    impl fmt::Write for Line {
        fn write_str(&mut self, s: &str) -> fmt::Result {
            let n = s.len().min(self.text.len() - self.len);
            self.text[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
            self.len += n;
            Ok(())
        }
    }
    let mut line = Line {
        text: [0; 512],
        len: 0,
    };
    let _ = writeln!(line, "watch: {what}");
    // SAFETY: the bytes are there; what the call returns changes nothing.
    unsafe { libc::write(2, line.text.as_ptr().cast(), line.len) };
    process::abort()
}
