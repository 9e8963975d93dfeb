//! Spans of `tracing` as tags. Feature `tracing`.
//!
//! A span's callsite has one tag, leaked when the callsite is first seen ([`callsite`]). Entering a span
//! makes its tag the thread's current tag and notes on a stack of the thread's which was current before
//! ([`stack`]); [`live`] finds the tag of a span by its id. [`layer`] is the hooks.
//!
//! Knows nothing of allocation, as `scope` does not. What this room allocates itself (the tags, the
//! table, the end of a very deep stack) it allocates outside of every scope: no span is charged for it.

#[cfg(not(codetag_off))]
mod callsite;
#[cfg(not(codetag_off))]
mod layer;
#[cfg(not(codetag_off))]
#[allow(unsafe_code, reason = "pointers to leaked tags in atomics")]
mod live;
#[cfg(not(codetag_off))]
#[allow(unsafe_code, reason = "pointers into a stack of the thread's own")]
mod stack;

#[cfg(codetag_off)]
#[path = "span/layer_off.rs"]
mod layer;

pub use layer::TagLayer;
