//! A lock for slow paths: one word, never allocates, yields while it waits.

use super::{Atomics, Std, Word32};
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// A lock that protects what the caller says it protects.
///
/// `std`'s mutex may allocate on some platforms, so the allocator cannot use it.
pub struct SpinLock<A: Atomics = Std> {
    held: A::U32,
}

impl SpinLock<Std> {
    /// An open lock.
    pub const fn new() -> Self {
        Self {
            held: AtomicU32::new(0),
        }
    }
}

impl Default for SpinLock<Std> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics> fmt::Debug for SpinLock<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock")
            .field("held", &self.held)
            .finish()
    }
}

impl<A: Atomics> SpinLock<A> {
    /// A lock over a word of the family's own, which starts at 0.
    pub const fn from_word(held: A::U32) -> Self {
        Self { held }
    }

    /// Waits until the lock is open, and takes it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, A> {
        if !self.try_take() {
            self.wait();
        }
        Guard { lock: self }
    }

    /// Takes the lock if it is open; may say no all the same.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<Guard<'_, A>> {
        self.try_take().then(|| Guard { lock: self })
    }

    #[inline(always)]
    fn try_take(&self) -> bool {
        self.held
            .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the lock when it is open.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut turns = 0;
        // A look first: an exchange takes the word from whoever holds the lock, also in vain.
        while self.held.load(Ordering::Relaxed) != 0 || !self.try_take() {
            turns += 1;
            A::relax(turns);
        }
    }

    /// Opens the lock of a guard that was forgotten, so that it could be held across a fork.
    pub fn release(&self) {
        self.held.store(0, Ordering::Release);
    }
}

/// Holds a [`SpinLock`] until dropped.
#[must_use]
pub struct Guard<'a, A: Atomics = Std> {
    lock: &'a SpinLock<A>,
}

impl<A: Atomics> fmt::Debug for Guard<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

impl<A: Atomics> Drop for Guard<'_, A> {
    fn drop(&mut self) {
        self.lock.held.store(0, Ordering::Release);
    }
}
