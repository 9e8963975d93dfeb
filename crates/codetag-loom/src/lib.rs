//! The protocols of codetag's runtime under [loom](https://docs.rs/loom), a model checker: it runs a
//! model in every order of steps, and with every stale value, that the memory model allows.
//!
//! [`atomics`] is the family of atomics that the protocols of `codetag::protocol`, the types that ship,
//! are run over; [`tracked`] is plain memory between threads; [`explore`] runs a model and counts the
//! orders. What a thread's heap does between two calls of a protocol is transcribed in [`heap`], what a
//! worker does at a site of the switch in [`sites`]. The models themselves are the tests, each with a
//! broken twin that must be seen to fail.
//!
//! # What was explored
//!
//! A model prints how many orders it has: `cargo test -p codetag-loom -- --nocapture`. `CODETAG_LONG=1`
//! raises the bound on preemptions, for most models of two threads to none; it takes 20 minutes of one core,
//! the quick form half a minute. A broken twin ends at the first order that fails.
//!
//! | model | threads | orders, quick (preemptions) | orders, long |
//! |---|--:|--:|--:|
//! | lock | 2 | 1,513 (all) | 1,513 (all) |
//! | remote frees while the owner allocates | 3 | 35,871 (2) | 247,182 (3) |
//! | remote frees, the slab stays current | 3 | 168 (2) | 471 (3) |
//! | full slab, freed by three | 3 | 26,204 (2) | 179,319 (3) |
//! | full slab, freed by its owner and one | 2 | 531 (4) | 1,064 (all) |
//! | full slab, freed by its owner and two | 3 | 16,460 (2) | 108,738 (3) |
//! | slab left by its owner while it is freed | 3 | 18,976 (2) | 168,717 (3) |
//! | the same after a claim, by one | 2 | 1,197 (4) | 29,567 (all) |
//! | owner ends while its last object is freed | 2 | 2,625 (4) | 13,972 (all) |
//! | owner of a full slab ends | 3 | 4,304 (2) | 26,957 (3) |
//! | slab adopted while its last object is freed | 2 | 14,282 (4) | 1,574,606 (all) |
//! | slab swept while its last object is freed | 2 | 19 (4) | 19 (all) |
//! | switch: an object that another thread frees | 3 | 1,547 (3) | 21,258 (5) |
//! | switch: on, off, on, with sites read before | 2 | 6,367 (4) | 568,042 (all) |
//! | switch: a slab cut meanwhile | 2 | 1,230 (4) | 27,205 (all) |
//!
//! # Limits
//!
//! Loom has no spurious failure of a weak compare-exchange, takes `SeqCst` accesses for `AcqRel`
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
