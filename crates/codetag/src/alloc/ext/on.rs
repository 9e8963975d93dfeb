//! Tags compiled in: what each step of the allocator does about them, and the switch.
//!
//! # Safety model
//!
//! As of `path`: slots that come in are live, so their slabs are cut, and slabs are cut with refs
//! unless the state is never, in which no site is ever on.

use super::super::change::Change;
use super::super::chunk;
use super::super::class::{Class, Geometry, SMALL_MAX};
use super::super::heap::{Bin, Heap, Popped};
use super::super::path;
use super::super::slab::{Slab, ref_at};
pub(crate) use super::counters::{counted, counter_bytes};
pub(crate) use super::page_ext::{for_each as for_each_large, usage as page_ext_usage};
use super::switch::{self, Switch};
use super::{Owner, counters, obj_exts, page_ext};
use crate::control::{EnableError, StateKind};
use crate::protocol::{SpinLock, Std, Toggle, ToggleError};
use crate::tag;
use core::alloc::Layout;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};

static TOGGLE: Toggle<Std> = Toggle::from_word(AtomicU32::new(0));
/// Serialises changes. Taken before every other lock.
pub(crate) static CHANGE: SpinLock = SpinLock::new();
/// Rises when a change begins and when it ends.
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// Set before the first slab is cut, never changed after: no extension memory.
static NEVER: AtomicBool = AtomicBool::new(false);
/// Why the sites could not be flipped at the start, as the system's error number; 0 if they could.
static START_ERROR: AtomicI32 = AtomicI32::new(0);

const SITES: Switch = Switch {
    clear: clear_all,
    works,
};

fn never() -> bool {
    NEVER.load(Relaxed)
}

pub(crate) fn geometry(class: Class) -> Geometry {
    class.geometry(!never())
}

/// Clears the vector of a slab that is being cut, unless profiling is off. Returns whether it is clear.
pub(crate) fn clear_unless_off(slab: &Slab) -> bool {
    let clear = TOGGLE.must_clear();
    if clear {
        obj_exts::clear_slab(slab);
    }
    clear
}

/// Whether a slab that has just become visible must be cleared after all.
pub(crate) fn must_clear() -> bool {
    TOGGLE.must_clear()
}

/// What an allocation does with a slot that it took from the bin; returns the slot, so that the
/// rare case can be a jump.
///
/// # Safety
///
/// `slot` was taken from `bin`, one of `heap`'s, just now.
#[inline(always)]
pub(crate) unsafe fn mark_in(heap: &Heap, bin: &Bin, slot: Popped, bytes: usize) -> *mut u8 {
    if switch::alloc_site() {
        // SAFETY: a bin that had a slot has its slab's words.
        let to = unsafe { ref_at(slot.at, bin.refs(), slot.reciprocal) };
        // SAFETY: a heap that had a slot is a thread's, the running one.
        obj_exts::store(
            to,
            unsafe { obj_exts::tag_at(heap.tag_word()) },
            slot.at,
            bytes,
        )
    } else {
        slot.at
    }
}

/// The same for a slot of a known slab, from the slow path.
#[inline(always)]
pub(crate) fn mark(slab: &'static Slab, at: *mut u8, bytes: usize) -> *mut u8 {
    if switch::alloc_on() {
        // SAFETY: as in the module.
        obj_exts::store(
            unsafe { slab.ref_of(at) },
            obj_exts::current_tag(),
            at,
            bytes,
        )
    } else {
        at
    }
}

/// The first thing a free does; whether it did it.
#[inline(always)]
pub(crate) fn unmark(slab: &Slab, at: *mut u8) -> bool {
    let on = switch::free_site();
    if on {
        obj_exts::clear(slab, at);
    }
    on
}

/// A realloc that keeps its slot.
#[inline(always)]
pub(crate) fn remark(slab: &Slab, at: *mut u8, bytes: usize) {
    if switch::free_on() {
        obj_exts::renew(slab, at, bytes);
    }
}

/// Whether a slot has a ref.
pub(crate) fn is_marked(slab: &Slab, at: *mut u8) -> bool {
    // SAFETY: the caller has a slot of the slab; a state of never has no refs, and no site was ever on.
    !never() && unsafe { slab.ref_of(at) }.load(Relaxed) != 0
}

/// The id of a slot's owner; none if the slot has no ref.
#[cfg_attr(
    not(feature = "debug"),
    allow(dead_code, reason = "only the page of a fault asks")
)]
pub(crate) fn owner_id(slab: &Slab, at: *mut u8) -> Option<u16> {
    is_marked(slab, at).then(|| (obj_exts::owner(slab, at) >> 16) as u16)
}

/// A realloc that moved: without a scope the owner stays.
#[inline(always)]
pub(crate) fn inherit(from: *mut u8, from_large: bool, to: *mut u8, to_large: bool) {
    if switch::free_on() && obj_exts::current_word() == 0 {
        inherit_owner(from, from_large, to, to_large);
    }
}

#[inline(never)]
fn inherit_owner(from: *mut u8, from_large: bool, to: *mut u8, to_large: bool) {
    let _change = Change::new();
    let word = if from_large {
        page_ext::owner(from)
    } else {
        // SAFETY: a live small block's slab is cut.
        Some(obj_exts::owner(unsafe { Slab::of(from) }, from))
    };
    match word {
        None | Some(0) => {}
        Some(word) if to_large => page_ext::set_owner(to, word),
        // SAFETY: as above.
        Some(word) => obj_exts::set_owner(unsafe { Slab::of(to) }, to, word),
    }
}

/// Whether a large object that goes may have been noted. In every state: an entry must not outlive its
/// object.
#[inline(always)]
pub(crate) fn noted_large() -> bool {
    page_ext::is_used()
}

/// A large object came, in the usual case, without a call; false if nothing has been noted.
#[inline(always)]
pub(crate) fn try_large_allocated(at: *mut u8, bytes: usize) -> bool {
    obj_exts::current_word_if_given().is_some_and(|word| page_ext::try_insert(at, bytes, word))
}

/// A large object is about to go, in the usual case, without a call; false if its entry may still be there.
#[inline(always)]
pub(crate) fn try_large_remove(at: *mut u8) -> bool {
    page_ext::try_remove(at)
}

/// A large object came.
pub(crate) fn large_allocated(at: *mut u8, bytes: usize) {
    if switch::alloc_on() {
        page_ext::insert(at, bytes, obj_exts::current_word());
    }
}

/// A large object came back from a realloc, which had taken out its entry if it had one.
pub(crate) fn large_moved(at: *mut u8, bytes: usize, was: Option<Owner>) {
    if !switch::free_on() {
        return;
    }
    match (obj_exts::current_word(), was) {
        // Without a scope the owner stays.
        (0, Some(was)) if page_ext::put_back(at, bytes, was) => {}
        (word, _) => page_ext::insert(at, bytes, word),
    }
}

/// A large object is about to go.
pub(crate) fn large_remove(at: *mut u8) {
    let _ = large_take(at);
}

/// A large object is about to be reallocated.
#[inline(always)]
pub(crate) fn large_take(at: *mut u8) -> Option<Owner> {
    if page_ext::is_used() {
        page_ext::take(at)
    } else {
        None
    }
}

/// The realloc of a large object failed.
pub(crate) fn large_put_back(at: *mut u8, bytes: usize, was: Option<Owner>) {
    if let Some(was) = was {
        // Cleared meanwhile, it is untracked like everything that old.
        let _ = page_ext::put_back(at, bytes, was);
    }
}

fn clear_all() {
    obj_exts::clear_all();
    page_ext::clear_all();
    counters::clear_all();
}

/// The self-test: a block gets a ref of its own size from a real allocation, and loses it by a real
/// free. What a slab that is recut meanwhile says of its ref says nothing of the switch.
fn works() -> bool {
    const TURNS: usize = 16;
    // Most come from the bin, where the site is that of nearly every allocation.
    (0..TURNS).filter(|_| works_once()).count() > TURNS / 2
}

fn works_once() -> bool {
    const BYTES: usize = 24;
    const { assert!(BYTES <= SMALL_MAX) };
    let layout = Layout::new::<[u8; BYTES]>();
    // SAFETY: the layout is not of zero size, and the block is freed below.
    let at = unsafe { path::alloc(layout) };
    // Without memory there is nothing to be wrong about.
    at.is_null()
        // SAFETY: a live small block's slab is cut with refs, and its chunk is pinned by then.
        || chunk::pinned(at, || unsafe { loses_its_ref(at, layout, BYTES as u32) })
}

/// Frees a block and says whether it had a ref before, and none after.
///
/// # Safety
///
/// `at` is a live small block of this layout, which the caller gives up; its slab was cut with refs,
/// and its chunk stays mapped.
unsafe fn loses_its_ref(at: *mut u8, layout: Layout, bytes: u32) -> bool {
    // SAFETY: as the caller's.
    let slab = unsafe { Slab::of(at) };
    // SAFETY: as the caller's.
    let r = unsafe { slab.ref_of(at) };
    let marked = r.load(Relaxed) & !tag::ID_MASK == bytes;
    // SAFETY: as the caller's.
    unsafe { path::dealloc(at, layout) };
    marked && r.load(Relaxed) == 0
}

/// Before the first allocation is served.
pub(crate) fn start(never: bool, on: bool) {
    NEVER.store(never, Relaxed);
    if on && !never {
        tag::assign_listed();
        page_ext::begin();
        if !counters::reserve() {
            START_ERROR.store(libc::ENOMEM, Relaxed);
            return;
        }
        if let Err(ToggleError::Site(e)) = TOGGLE.start_on(&SITES) {
            START_ERROR.store(e.number(), Relaxed);
        }
    }
}

/// Off to On; calls `changed` if it was not on. Changes take turns.
pub(crate) fn enable(changed: impl FnOnce()) -> Result<(), EnableError> {
    if never() {
        return Err(EnableError::Never);
    }
    let _change = CHANGE.lock();
    if TOGGLE.is_on() {
        return Ok(());
    }
    if !counters::reserve() {
        return Err(EnableError::NoEffect);
    }
    CHANGES.fetch_add(1, SeqCst);
    tag::assign_listed();
    page_ext::begin();
    let outcome = TOGGLE.enable(&SITES);
    CHANGES.fetch_add(1, SeqCst);
    outcome.map_err(|e| match e {
        ToggleError::Site(e) => EnableError::TextNotWritable {
            source: std::io::Error::from_raw_os_error(e.number()),
        },
        ToggleError::NoBarrier => EnableError::NoBarrier,
        ToggleError::NoEffect => EnableError::NoEffect,
    })?;
    changed();
    Ok(())
}

/// On to Off; calls `changed` if it was on.
pub(crate) fn disable(changed: impl FnOnce()) {
    let _change = CHANGE.lock();
    if TOGGLE.is_on() {
        CHANGES.fetch_add(1, SeqCst);
        // If the sites of allocation cannot be flipped any more, all stays as it is.
        let _ = TOGGLE.disable(&SITES);
        if !TOGGLE.is_on() {
            // Nobody asks for them before the next clearing pass.
            page_ext::clear_all();
            changed();
        }
        CHANGES.fetch_add(1, SeqCst);
    }
}

/// What the switch says.
pub(crate) fn kind() -> StateKind {
    if never() {
        StateKind::Never
    } else if TOGGLE.is_on() {
        StateKind::On
    } else {
        StateKind::Off
    }
}

/// The system's error number for a start that failed; 0 for one that did not.
pub(crate) fn start_error() -> i32 {
    START_ERROR.load(Relaxed)
}

/// Changes of the switch so far.
pub(crate) fn changes() -> u64 {
    CHANGES.load(Relaxed)
}

/// Whether refs say anything now.
pub(crate) fn has_refs() -> bool {
    TOGGLE.is_on()
}
