//! What a program loads and unloads while it runs: a copy of codetag of its own, over a heap of its own.

#![allow(unsafe_code, reason = "a function for dlsym must not be mangled")]

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

#[codetag::alloc_tag]
fn rows(n: usize) -> Vec<Box<[u8]>> {
    (0..n).map(|i| vec![7; 1 + i % 500].into()).collect()
}

/// Allocates `n` rows and frees them, on and off. Returns 0 if this copy's figures were right.
// SAFETY: no other symbol of the programs that load this has the name.
#[unsafe(no_mangle)]
pub extern "C" fn codetag_subject_plugin_run(n: usize) -> u32 {
    let has_tags = codetag::state().kind != codetag::StateKind::TagsOff;
    if codetag::enable().is_ok() != has_tags {
        return 1;
    }
    let held = rows(n);
    let owned = || -> u64 {
        let s = codetag::Snapshot::take();
        s.usages().map(|u| u.live_objs).sum()
    };
    // The rows and their Vec.
    let due = if has_tags { n as u64 + 1 } else { 0 };
    if owned() != due {
        return 2;
    }
    drop(held);
    if owned() != 0 {
        return 3;
    }
    codetag::disable();
    drop(rows(n));
    codetag::shrink();
    0
}
