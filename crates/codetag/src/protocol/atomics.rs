//! The atomics that the protocols are written over.

use core::fmt;
use core::sync::atomic::{self, AtomicU32, AtomicU64, Ordering};

/// A family of atomic words: the machine's, or a model checker's.
pub trait Atomics {
    /// 32 bits.
    type U32: Word32;
    /// 64 bits.
    type U64: Word64;
    /// A full fence.
    fn fence_seq_cst();
    /// Lets another thread run; called in each turn of a wait.
    fn relax(turns: u32);
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $int:ty, $atomic:ty) => {
        $(#[$doc])*
        pub trait $name: fmt::Debug {
            /// Reads.
            fn load(&self, order: Ordering) -> $int;
            /// Writes.
            fn store(&self, value: $int, order: Ordering);
            /// Replaces `old` by `new`, or says what is there. May fail spuriously.
            ///
            /// # Errors
            ///
            /// The value found.
            fn compare_exchange_weak(&self, old: $int, new: $int, ok: Ordering, err: Ordering) -> Result<$int, $int>;
            /// Clears the bits that `mask` lacks; returns the value before.
            fn fetch_and(&self, mask: $int, order: Ordering) -> $int;
            /// Sets the bits of `mask`; returns the value before.
            fn fetch_or(&self, mask: $int, order: Ordering) -> $int;
        }

        impl $name for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $int {
                self.load(order)
            }
            #[inline(always)]
            fn store(&self, value: $int, order: Ordering) {
                self.store(value, order);
            }
            #[inline(always)]
            fn compare_exchange_weak(&self, old: $int, new: $int, ok: Ordering, err: Ordering) -> Result<$int, $int> {
                self.compare_exchange_weak(old, new, ok, err)
            }
            #[inline(always)]
            fn fetch_and(&self, mask: $int, order: Ordering) -> $int {
                self.fetch_and(mask, order)
            }
            #[inline(always)]
            fn fetch_or(&self, mask: $int, order: Ordering) -> $int {
                self.fetch_or(mask, order)
            }
        }
    };
}

word!(
    /// An atomic word of 32 bits.
    Word32,
    u32,
    AtomicU32
);
word!(
    /// An atomic word of 64 bits.
    Word64,
    u64,
    AtomicU64
);

/// The machine's atomics.
#[derive(Debug)]
pub enum Std {}

impl Atomics for Std {
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    #[inline(always)]
    fn fence_seq_cst() {
        atomic::fence(Ordering::SeqCst);
    }

    fn relax(turns: u32) {
        if turns < 32 {
            core::hint::spin_loop();
        } else {
            crate::sys::yield_now();
        }
    }
}
