//! The allocator under the heap in these tests: the system's, counted, with faults on demand.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread;

/// The one under the heap of these programs.
pub(crate) static INNER: TestInner = TestInner::new();

/// Counts each call and what is out.
pub(crate) struct TestInner {
    /// Calls that asked for memory (alloc, alloc_zeroed, realloc).
    pub(crate) asked: AtomicU64,
    /// Of these, calls of `alloc_zeroed`.
    pub(crate) asked_zeroed: AtomicU64,
    /// Of these, calls of `realloc`.
    pub(crate) asked_realloc: AtomicU64,
    /// Blocks given back.
    pub(crate) given_back: AtomicU64,
    /// Blocks that are out.
    pub(crate) blocks_out: AtomicU64,
    /// Bytes that are out, by layout.
    pub(crate) bytes_out: AtomicU64,
    /// Every n-th call that asks for memory returns null; 0 for none.
    pub(crate) fail_every: AtomicU64,
    /// Calls counted towards `fail_every`.
    pub(crate) towards_failure: AtomicU64,
    /// Null was returned so often.
    pub(crate) failed: AtomicU64,
    /// Hands the most recently freed block of the same layout to the next caller, before the call
    /// that frees it returns; `realloc` moves, and frees the old block on the way.
    pub(crate) reuses: AtomicBool,
    /// Called before a block of 100,000 bytes or more is freed or reallocated.
    pub(crate) before_large_goes: OnceLock<fn()>,
    /// Fills what it hands out, and what it takes back, with 0xA5; not what is asked for zeroed.
    pub(crate) poisons: AtomicBool,
    freed: FreedBlocks,
}

/// Blocks kept back for the next caller, most recent last.
struct FreedBlocks {
    lock: AtomicBool,
    len: AtomicUsize,
    blocks: UnsafeCell<[(*mut u8, usize, usize); 64]>,
}

// SAFETY: the blocks are reached under the lock only.
unsafe impl Sync for FreedBlocks {}

impl FreedBlocks {
    fn locked<R>(
        &self,
        f: impl FnOnce(&mut [(*mut u8, usize, usize); 64], &AtomicUsize) -> R,
    ) -> R {
        while self.lock.swap(true, SeqCst) {
            std::hint::spin_loop();
        }
        // SAFETY: the lock is held.
        let r = f(unsafe { &mut *self.blocks.get() }, &self.len);
        self.lock.store(false, SeqCst);
        r
    }

    fn take(&self, layout: Layout) -> Option<*mut u8> {
        self.locked(|blocks, len| {
            let n = len.load(SeqCst);
            let at = blocks[..n]
                .iter()
                .rposition(|&(_, size, align)| (size, align) == (layout.size(), layout.align()))?;
            let block = blocks[at].0;
            blocks.copy_within(at + 1..n, at);
            len.store(n - 1, SeqCst);
            Some(block)
        })
    }

    fn put(&self, at: *mut u8, layout: Layout) -> bool {
        self.locked(|blocks, len| {
            let n = len.load(SeqCst);
            let Some(free) = blocks.get_mut(n) else {
                return false;
            };
            *free = (at, layout.size(), layout.align());
            len.store(n + 1, SeqCst);
            true
        })
    }
}

impl TestInner {
    pub(crate) const fn new() -> Self {
        Self {
            asked: AtomicU64::new(0),
            asked_zeroed: AtomicU64::new(0),
            asked_realloc: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            blocks_out: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            fail_every: AtomicU64::new(0),
            towards_failure: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            reuses: AtomicBool::new(false),
            before_large_goes: OnceLock::new(),
            poisons: AtomicBool::new(false),
            freed: FreedBlocks {
                lock: AtomicBool::new(false),
                len: AtomicUsize::new(0),
                blocks: UnsafeCell::new([(ptr::null_mut(), 0, 0); 64]),
            },
        }
    }

    /// Counts a call that asks for memory; whether it must fail.
    fn asks(&self) -> bool {
        self.asked.fetch_add(1, SeqCst);
        let every = self.fail_every.load(SeqCst);
        if every == 0 {
            return false;
        }
        let fails = (self.towards_failure.fetch_add(1, SeqCst) + 1).is_multiple_of(every);
        self.failed.fetch_add(u64::from(fails), SeqCst);
        fails
    }

    fn went_out(&self, at: *mut u8, layout: Layout) -> *mut u8 {
        if !at.is_null() {
            self.blocks_out.fetch_add(1, SeqCst);
            self.bytes_out.fetch_add(layout.size() as u64, SeqCst);
        }
        at
    }

    fn came_back(&self, layout: Layout) {
        self.given_back.fetch_add(1, SeqCst);
        self.blocks_out.fetch_sub(1, SeqCst);
        self.bytes_out.fetch_sub(layout.size() as u64, SeqCst);
    }
}

impl TestInner {
    fn is_going(&self, layout: Layout) {
        if layout.size() >= 100_000
            && let Some(look) = self.before_large_goes.get()
        {
            look();
        }
    }

    fn poison(&self, at: *mut u8, bytes: usize) {
        if !at.is_null() && self.poisons.load(SeqCst) {
            // SAFETY: the block is nobody's: about to be handed out, or just taken back.
            unsafe { at.write_bytes(0xa5, bytes) };
        }
    }

    /// # Safety
    ///
    /// As of `GlobalAlloc::alloc`.
    unsafe fn get(&self, layout: Layout) -> *mut u8 {
        let kept = if self.reuses.load(SeqCst) {
            self.freed.take(layout)
        } else {
            None
        };
        // SAFETY: as the caller's.
        let at = kept.unwrap_or_else(|| unsafe { System.alloc(layout) });
        self.poison(at, layout.size());
        self.went_out(at, layout)
    }
}

// SAFETY: blocks are the system's; a block kept back is handed out again with its own layout only.
unsafe impl GlobalAlloc for TestInner {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.asks() {
            return ptr::null_mut();
        }
        // SAFETY: as the caller's.
        unsafe { self.get(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.asked_zeroed.fetch_add(1, SeqCst);
        if self.asks() {
            return ptr::null_mut();
        }
        // SAFETY: as the caller's.
        self.went_out(unsafe { System.alloc_zeroed(layout) }, layout)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.is_going(layout);
        self.came_back(layout);
        self.poison(at, layout.size());
        if self.reuses.load(SeqCst) && self.freed.put(at, layout) {
            // Slow to return: the block may be someone else's before the caller goes on.
            thread::yield_now();
        } else {
            // SAFETY: as the caller's.
            unsafe { System.dealloc(at, layout) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.asked_realloc.fetch_add(1, SeqCst);
        self.is_going(layout);
        if self.asks() {
            return ptr::null_mut();
        }
        if self.reuses.load(SeqCst) {
            // SAFETY: the caller's contract bounds the new size.
            let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
            // SAFETY: as the caller's.
            let to = unsafe { self.get(new) };
            if !to.is_null() {
                // SAFETY: two blocks of at least that many bytes each.
                unsafe { ptr::copy_nonoverlapping(at, to, layout.size().min(new_size)) };
                // SAFETY: as the caller's.
                unsafe { self.dealloc(at, layout) };
            }
            return to;
        }
        // SAFETY: as the caller's.
        let to = unsafe { System.realloc(at, layout, new_size) };
        if !to.is_null() {
            self.bytes_out.fetch_add(new_size as u64, SeqCst);
            self.bytes_out.fetch_sub(layout.size() as u64, SeqCst);
        }
        to
    }
}

// SAFETY: passes each call to the allocator behind it.
unsafe impl GlobalAlloc for &'static TestInner {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe { (**self).alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe { (**self).alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { (**self).dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe { (**self).realloc(at, layout, new_size) }
    }
}
