//! The protocols of the runtime, as small types generic over [`Atomics`], so that a model checker
//! runs the code that ships.
//!
//! They hold no pointers and call no allocator: what a transition must do to memory is done by the
//! caller, between two calls. Not part of the stable interface.

mod atomics;
mod lock;
mod occupancy;
mod toggle;

pub use atomics::{Atomics, Std, Word32, Word64};
pub use lock::{Guard, SpinLock};
pub use occupancy::{LocalFree, MarkFull, Occupancy, Pending, Place, Pushed, Taken, WhollyFree};
pub use toggle::{Sites, Toggle, ToggleError};
