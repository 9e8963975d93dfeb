//! Models of the kernel's slab allocators that count pages, not seconds.
//!
//! A trace of a running system ([`event`]) is replayed on models of SLOB, SLAB, SLUB and SLUB_TINY,
//! to see what memory each of them would take for the same objects.

#![forbid(unsafe_code)]

pub mod event;
pub mod trace;

pub mod kernel;
pub mod kmalloc;
pub mod page;
mod random;

pub mod model;
pub mod slab;
pub mod slob;
pub mod slub;

pub mod allocator;
pub mod boot;
pub mod extensions;
pub mod hackbench;
pub mod memcg;

pub mod known;
pub mod replay;
pub mod slabinfo;
pub mod survey;
