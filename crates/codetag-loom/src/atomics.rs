//! The atomics that a model runs the protocols over: loom's, with two additions.
//!
//! A [`Family`] may weaken the orders that the code asks for, which is how a model shows that it would
//! see a wrong one. A word may belong to a [`Header`]; each access to it then counts as a touch of the
//! header, and a touch that is not ordered before the header's end fails the model.

use crate::tracked::Tracked;
use codetag::protocol::{Atomics, Word32, Word64};
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{self, Relaxed};
use std::sync::Arc;

/// What is done to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load of 32 bits.
    Load32,
    /// A store of 32 bits.
    Store32,
    /// A load of 64 bits.
    Load64,
    /// A store of 64 bits.
    Store64,
    /// A read-modify-write of either.
    Change,
}

/// What a model makes of the orders that the code asks for.
pub trait Family: 'static {
    /// The order to use.
    #[must_use]
    fn order(_access: Access, asked: Ordering) -> Ordering {
        asked
    }
    /// Whether a full fence does nothing.
    const NO_FENCES: bool = false;
}

/// The orders of the code.
#[derive(Debug)]
pub enum Exact {}

impl Family for Exact {}

/// Loom's atomics, with the orders that `F` makes of those asked for.
#[derive(Debug)]
pub struct Loom<F = Exact>(PhantomData<F>);

/// The header of a slab as far as its life goes: begun when made, ended once.
#[derive(Debug, Default)]
pub struct Header(Tracked<bool>);

impl Header {
    fn touch(&self) {
        assert!(!self.0.read(), "a header is touched after its slab is gone");
    }

    /// Whoever calls this has the header alone, and nobody touches it any more.
    ///
    /// # Panics
    ///
    /// It ended before.
    pub fn end(&self) {
        let gone = self.0.replace(true);
        assert!(!gone, "a slab is released twice");
    }

    /// Whether it ended. For after the threads were joined.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.read()
    }
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $trait:ident, $int:ty, $atomic:ty, $load:ident, $store:ident) => {
        $(#[$doc])*
        pub struct $name<F> {
            word: $atomic,
            header: Option<Arc<Header>>,
            family: PhantomData<fn() -> F>,
        }

        impl<F> $name<F> {
            /// A word of its own.
            #[must_use]
            pub fn new(value: $int) -> Self {
                Self { word: <$atomic>::new(value), header: None, family: PhantomData }
            }

            /// A word of a header.
            #[must_use]
            pub fn of(header: &Arc<Header>, value: $int) -> Self {
                Self { header: Some(Arc::clone(header)), ..Self::new(value) }
            }

            fn touch(&self) -> &$atomic {
                if let Some(header) = &self.header {
                    header.touch();
                }
                &self.word
            }
        }

        impl<F> fmt::Debug for $name<F> {
            // Without a look at the value, which would be a step of the model.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl<F: Family> $trait for $name<F> {
            fn load(&self, order: Ordering) -> $int {
                self.touch().load(F::order(Access::$load, order))
            }
            fn store(&self, value: $int, order: Ordering) {
                self.touch().store(value, F::order(Access::$store, order));
            }
            fn compare_exchange_weak(
                &self,
                old: $int,
                new: $int,
                ok: Ordering,
                err: Ordering,
            ) -> Result<$int, $int> {
                let ok = F::order(Access::Change, ok);
                let err = F::order(Access::$load, err);
                self.touch().compare_exchange(old, new, ok, err)
            }
            fn fetch_and(&self, mask: $int, order: Ordering) -> $int {
                self.touch().fetch_and(mask, F::order(Access::Change, order))
            }
            fn fetch_or(&self, mask: $int, order: Ordering) -> $int {
                self.touch().fetch_or(mask, F::order(Access::Change, order))
            }
        }
    };
}

word!(
    /// A word of 32 bits.
    U32,
    Word32,
    u32,
    loom::sync::atomic::AtomicU32,
    Load32,
    Store32
);
word!(
    /// A word of 64 bits.
    U64,
    Word64,
    u64,
    loom::sync::atomic::AtomicU64,
    Load64,
    Store64
);

impl<F: Family> Atomics for Loom<F> {
    type U32 = U32<F>;
    type U64 = U64<F>;

    fn fence_seq_cst() {
        if !F::NO_FENCES {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    fn relax(_turns: u32) {
        loom::thread::yield_now();
    }
}

macro_rules! families {
    ($($(#[$doc:meta])* $name:ident: $access:pat => $order:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl Family for $name {
            fn order(access: Access, asked: Ordering) -> Ordering {
                if matches!(access, $access) { $order } else { asked }
            }
        }
    )+};
}

families! {
    /// Stores of 32 bits release nothing.
    RelaxedStores: Access::Store32 => Relaxed;
    /// Loads of 32 bits acquire nothing.
    RelaxedLoads: Access::Load32 => Relaxed;
    /// Loads of 64 bits acquire nothing, nor do changes that fail.
    RelaxedLooks: Access::Load64 => Relaxed;
    /// Changes release nothing.
    AcquireChanges: Access::Change => Ordering::Acquire;
    /// Changes acquire nothing.
    ReleaseChanges: Access::Change => Ordering::Release;
}

/// Full fences do nothing.
#[derive(Debug)]
pub enum NoFences {}

impl Family for NoFences {
    const NO_FENCES: bool = true;
}
