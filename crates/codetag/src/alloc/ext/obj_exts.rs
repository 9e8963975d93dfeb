//! The tag refs of small objects: one per slot, in the slab's vector.
//!
//! A ref is the id in the upper and the requested bytes in the lower 16 bits. It is zero for a slot
//! that is free, or untracked; never for a tracked object, whose size is at least 1.
//!
//! # Safety model
//!
//! As of `slab`: the ref of a slot is written by whoever holds its object, and by the clearing
//! pass, which has the slab's generation. Refs are atomics, so readers may come at any time. A slot
//! that comes in is a live one of its slab, which was cut with refs.

use super::super::change::Change;
use super::super::chunk;
use super::super::slab::Slab;
use super::counters;
use crate::sys;
use crate::tag::{CodeTag, ID_MASK, NO_ID};
use core::cell::Cell;
use core::ptr;
use core::slice;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// The current tag of this thread.
pub(crate) fn current_tag() -> &'static CodeTag {
    // SAFETY: the running thread's own.
    unsafe { tag_at(sys::hot_tag_word()) }
}

/// The current tag of this thread, by the address of its word.
///
/// # Safety
///
/// As [`sys::hot_tag_word`] gave it to this thread.
#[inline(always)]
pub(crate) unsafe fn tag_at(word: usize) -> &'static CodeTag {
    let word = ptr::with_exposed_provenance::<Cell<&'static CodeTag>>(word);
    // SAFETY: the address is that of this thread's current tag, or of a word that says untagged; both
    // live as long as the thread.
    unsafe { (*word).get() }
}

/// The id word of the current tag of this thread; 0 while no scope is active. Not before the thread's first
/// change: until then its hot word is not its own.
pub(crate) fn current_word() -> u32 {
    let tag = current_tag();
    let id = tag.id_word();
    if id == NO_ID { tag.assign() } else { id }
}

/// The same if the tag has an id.
#[inline(always)]
pub(crate) fn current_word_if_given() -> Option<u32> {
    let id = current_tag().id_word();
    (id != NO_ID).then_some(id)
}

/// Stores the ref of a slot that was just taken; returns the slot, so that the rare case can be a
/// jump.
#[inline(always)]
pub(crate) fn store(
    to: &'static AtomicU32,
    tag: &'static CodeTag,
    at: *mut u8,
    bytes: usize,
) -> *mut u8 {
    // One instruction makes the ref and tells whether there is an id: see `NO_ID`.
    let (word, has_none) = (bytes as u32).overflowing_add(tag.id_word());
    if has_none {
        return store_first(at, bytes, tag);
    }
    to.store(word, Relaxed);
    counters::came(word);
    at
}

/// The same for a tag that has no id yet.
#[cold]
#[inline(never)]
pub(crate) extern "C-unwind" fn store_first(
    at: *mut u8,
    bytes: usize,
    tag: &'static CodeTag,
) -> *mut u8 {
    // SAFETY: as in the module. Found anew, so that the fast path need not keep it.
    let to = unsafe { Slab::of(at).ref_of(at) };
    let tag_ref = tag.assign() | bytes as u32;
    to.store(tag_ref, Relaxed);
    counters::came(tag_ref);
    // Seen to return its argument, this would become a call in the fast path, which saves registers.
    core::hint::black_box(at)
}

/// Clears the ref of a slot that is about to be freed.
#[inline(always)]
pub(crate) fn clear(slab: &Slab, at: *mut u8) {
    // SAFETY: as in the module.
    let r = unsafe { slab.ref_of(at) };
    if counters::KEPT {
        counters::goes(r.load(Relaxed));
    }
    r.store(0, Relaxed);
}

/// Charges a slot that keeps its place to the current tag; without a scope the owner stays.
pub(crate) fn renew(slab: &Slab, at: *mut u8, bytes: usize) {
    // SAFETY: as in the module.
    let r = unsafe { slab.ref_of(at) };
    // It shows in no bin and no slab.
    let _change = Change::new();
    let word = current_word();
    let old = r.load(Relaxed);
    let kept = if word == 0 { old & ID_MASK } else { word } | bytes as u32;
    if counters::KEPT {
        counters::goes(old);
        counters::came(kept);
    }
    if word != 0 {
        return r.store(kept, Relaxed);
    }
    // The clearing pass may come in between; an owner from before it is nobody's.
    if r.compare_exchange(old, kept, Relaxed, Relaxed).is_err() {
        r.store(bytes as u32, Relaxed);
    }
}

/// The id word of a slot's owner; 0 also when it has none.
pub(crate) fn owner(slab: &Slab, at: *mut u8) -> u32 {
    // SAFETY: as in the module.
    unsafe { slab.ref_of(at) }.load(Relaxed) & ID_MASK
}

/// Names another owner of a slot that has a ref, keeping the size.
pub(crate) fn set_owner(slab: &Slab, at: *mut u8, word: u32) {
    // SAFETY: as in the module.
    let r = unsafe { slab.ref_of(at) };
    let old = r.load(Relaxed);
    if old != 0 {
        if counters::KEPT {
            counters::goes(old);
            counters::came(word | old & !ID_MASK);
        }
        // The clearing pass may come in between; then the slot has no ref to change.
        let _ = r.compare_exchange(old, word | old & !ID_MASK, Relaxed, Relaxed);
    }
}

/// The refs of a slab that is cut.
fn refs(slab: &Slab) -> &[AtomicU32] {
    let (first, n) = slab.vector();
    let at = slab.base().with_addr(first).cast::<AtomicU32>();
    // SAFETY: the vector lies inside the chunk, and whoever calls has the slab's generation.
    unsafe { slice::from_raw_parts(at, n) }
}

/// Clears a slab's vector. The caller has its generation.
pub(crate) fn clear_slab(slab: &Slab) {
    let (many, few) = refs(slab).as_chunks::<16>();
    // Written out: one instruction a ref, where a loop takes three.
    for some in many {
        for r in some {
            r.store(0, Relaxed);
        }
    }
    for r in few {
        r.store(0, Relaxed);
    }
}

/// Clears every vector there is.
pub(crate) fn clear_all() {
    chunk::for_each(|c| {
        for slab in (1..=chunk::SLABS).map(|i| c.slab(i)) {
            // Waits for a slab that is being cut, whose cutter may have read the old state.
            slab.begin_change();
            if slab.is_cut() {
                clear_slab(slab);
            }
            slab.end_change();
        }
    });
}
