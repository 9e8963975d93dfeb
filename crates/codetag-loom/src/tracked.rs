//! Plain memory, watched: two accesses, one of them a write, that nothing orders fail the model.
//!
//! # Safety model
//!
//! The value itself is behind a mutex. The loom cell beside it holds nothing; it is only asked who
//! accesses it, and no pointer into it is ever followed.

use loom::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that threads hand to each other without a lock of their own.
#[derive(Debug)]
pub struct Tracked<T> {
    watch: UnsafeCell<()>,
    // Loom runs one thread at a time and switches at none of the mutex's steps.
    value: Mutex<T>,
}

// SAFETY: the cell is a record of accesses, kept by loom, which runs one thread at a time.
unsafe impl<T: Send> Sync for Tracked<T> {}

impl<T: Default> Default for Tracked<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Tracked<T> {
    /// Memory that holds `value`.
    pub fn new(value: T) -> Self {
        Self {
            watch: UnsafeCell::new(()),
            value: Mutex::new(value),
        }
    }

    fn value(&self) -> MutexGuard<'_, T> {
        // A model that fails unwinds through here.
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes; returns what was there.
    pub fn replace(&self, value: T) -> T {
        self.watch.with_mut(|_| ());
        core::mem::replace(&mut *self.value(), value)
    }
}

impl<T: Copy> Tracked<T> {
    /// Reads.
    pub fn read(&self) -> T {
        self.watch.with(|_| ());
        *self.value()
    }
}
