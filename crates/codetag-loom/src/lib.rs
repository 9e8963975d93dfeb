//! The protocols of codetag's runtime under [loom](https://docs.rs/loom), a model checker: it runs a
//! model in every order of steps, and with every stale value, that the memory model allows.
//!
//! [`atomics`] is the family of atomics that the protocols of `codetag::protocol`, the types that ship,
//! are run over; [`tracked`] is plain memory between threads; [`explore`] runs a model and counts the
//! orders. What a thread's heap does between two calls of a protocol is transcribed in [`heap`], what a
//! worker does at a site of the switch in [`sites`]. The models themselves are the tests, each with a
//! broken twin that must be seen to fail.
//!
//! Limits. Loom has no spurious failure of a weak compare-exchange, takes `SeqCst` accesses for `AcqRel`
//! (the protocols rely on fences only), and knows no value out of thin air. A model has at most four
//! threads, one or two slabs and two or three slots. Where a bound on preemptions is given, orders with
//! more are not looked at; `CODETAG_LONG=1` raises it.

#![deny(unsafe_code)]

pub mod atomics;
pub mod explore;
pub mod heap;
pub mod sites;

#[allow(unsafe_code, reason = "a record of accesses that threads share")]
pub mod tracked;
