//! The four calls with every pointer looked at, and the hooks.
//!
//! A small object lies in a slot of the class of its size and what `slot` puts around it. A large one
//! has a red zone of 8 B behind it, and `blocks` knows what else a record would. Any realloc moves.
//!
//! # Safety model
//!
//! Callers keep the contract of `GlobalAlloc`, or are found out: nothing is read through a pointer that
//! comes in before [`Blocks`] or the slab that it would lie in says what stands there. That is done under
//! the lock of `blocks`, under which chunks stay mapped.

use super::super::change::Change;
use super::super::chunk::CHUNK_BYTES;
use super::super::class::{Class, SLAB_BYTES};
use super::super::slab::Slab;
use super::super::{ext, large, path};
use super::blocks::{Block, Blocks, locked};
use super::page::{Fault, Kind, Object, end};
use super::slot::{
    self, Broken, Frame, POISON_END, POISON_FREE, RED_ACTIVE, RED_BYTES, State, first_wrong,
};
use crate::scope::current_tag;
use crate::tag::{self, CodeTag, UNTAGGED};
use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes of a large object's block beside the object.
pub(crate) const LARGE_EXTRA_BYTES: usize = RED_BYTES;

/// More of a large object is not poisoned: that would touch pages that the program may never have touched.
const POISON_LARGE_MAX: usize = 64 << 10;

/// A chunk is about to be listed; false if the system has no memory to note it.
pub(crate) fn chunk_came(at: *mut u8) -> bool {
    let layout = Layout::new::<u8>();
    locked(|b| b.chunks.insert(Block::new(at.addr(), layout, &UNTAGGED)))
}

/// A chunk is about to be given back.
pub(crate) fn chunk_goes(at: *mut u8) {
    locked(|b| b.chunks.remove(at.addr()));
}

/// A slab was laid out; its slots hold what another class left there.
pub(crate) fn slab_cut(slab: &Slab) {
    let slot_bytes = slab.slot_bytes.load(Relaxed) as usize;
    let first = slab
        .base()
        .wrapping_add(slab.data_start.load(Relaxed) as usize);
    for i in 0..slab.capacity.load(Relaxed) as usize {
        let frame = Frame::of(slab, first.wrapping_add(i * slot_bytes));
        if frame.is_framed() {
            frame.refresh();
        }
    }
}

/// The class whose slots hold an object and what belongs to it; none if it is a large object's.
fn class_for(layout: Layout) -> Option<Class> {
    Class::of_aligned(slot::bytes_for(layout)?, layout.align())
}

/// The block of a large object; none if there is no such layout.
fn block_for(layout: Layout) -> Option<Layout> {
    let bytes = layout.size().checked_add(LARGE_EXTRA_BYTES)?;
    Layout::from_size_align(bytes, layout.align()).ok()
}

/// # Safety
///
/// As of `GlobalAlloc::alloc`.
pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
    // SAFETY: as the caller's.
    unsafe { alloc_as(layout, false) }
}

/// # Safety
///
/// As of `GlobalAlloc::alloc_zeroed`.
pub(crate) unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
    // SAFETY: as the caller's.
    unsafe { alloc_as(layout, true) }
}

/// # Safety
///
/// As of `GlobalAlloc::alloc`.
unsafe fn alloc_as(layout: Layout, zeroed: bool) -> *mut u8 {
    if layout.size() == 0 {
        return ptr::without_provenance_mut(layout.align());
    }
    let Some(class) = class_for(layout) else {
        // SAFETY: as the caller's, and not of zero size.
        return unsafe { alloc_large(layout, zeroed) };
    };
    let slot = path::alloc_small(class, layout.size());
    if slot.is_null() {
        return slot;
    }
    // SAFETY: a slot that was just taken.
    let frame = Frame::of(unsafe { Slab::of(slot) }, slot);
    if let Some(fault) = fault_of_free(&frame) {
        end(&fault);
    }
    let object = frame.hand_out(layout, current_tag());
    if zeroed {
        // SAFETY: the object has that many bytes.
        unsafe { object.write_bytes(0, layout.size()) };
    }
    object
}

/// What is wrong with a slot that comes from a free list.
fn fault_of_free(frame: &Frame) -> Option<Fault> {
    let kind = match frame.state() {
        State::Fresh => return None,
        // SAFETY: the slot is the caller's, and free by its record.
        State::Free => Kind::Broken(unsafe { frame.check_free() }?),
        State::Live => Kind::FreeListLost,
        State::Lost => Kind::RecordLost,
    };
    let object = object_of(frame, None);
    Some(Fault {
        kind,
        pointer: object.at,
        object: Some(object),
    })
}

/// # Safety
///
/// As of `GlobalAlloc::alloc`; `layout` is that of a large object.
unsafe fn alloc_large(layout: Layout, zeroed: bool) -> *mut u8 {
    let Some(block) = block_for(layout) else {
        return ptr::null_mut();
    };
    // SAFETY: as the caller's.
    let at = unsafe { large::alloc(block, zeroed) };
    if at.is_null() {
        return at;
    }
    // SAFETY: behind the object's bytes there are as many more.
    unsafe {
        at.add(layout.size())
            .write_bytes(RED_ACTIVE, LARGE_EXTRA_BYTES);
    };
    let known = {
        let _change = Change::new();
        let by = current_tag();
        locked(|b| b.large.insert(Block::new(at.addr(), layout, by)))
    };
    if known {
        at
    } else {
        // SAFETY: just allocated, and nobody's yet.
        unsafe { large::dealloc(at, block) };
        ptr::null_mut()
    }
}

/// Where a pointer that comes in leads.
#[derive(Clone, Copy)]
enum Place {
    Slot(Frame),
    Large(Block),
}

/// # Safety
///
/// As of `GlobalAlloc::dealloc`.
pub(crate) unsafe fn dealloc(at: *mut u8, layout: Layout) {
    if layout.size() == 0 {
        return;
    }
    let by = current_tag();
    let found = {
        let _change = Change::new();
        locked(|b| {
            let place = look_up(b, at, layout)?;
            match place {
                Place::Slot(frame) => frame.take_back(by),
                Place::Large(block) => {
                    b.large.remove(block.addr);
                    b.note_freed(block, by);
                }
            }
            Ok(place)
        })
    };
    match found {
        Err(fault) => end(&fault),
        Ok(Place::Slot(frame)) => {
            frame.poison();
            // SAFETY: a live slot until just now, and this is the only call that took it back.
            unsafe { path::free_small(frame.slot) };
        }
        Ok(Place::Large(_)) => {
            let bytes = layout.size().min(POISON_LARGE_MAX);
            // SAFETY: the object is ours now, and has the layout that it was asked for with.
            unsafe {
                at.write_bytes(POISON_FREE, bytes - 1);
                at.add(bytes - 1).write(POISON_END);
                // What could be asked for can be named.
                if let Some(block) = block_for(layout) {
                    large::dealloc(at, block);
                }
            }
        }
    }
}

/// # Safety
///
/// As of `GlobalAlloc::realloc`.
pub(crate) unsafe fn realloc(at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
    // SAFETY: the caller's contract bounds the new size.
    let new = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
    if layout.size() == 0 {
        // SAFETY: a block of no bytes is no block.
        return unsafe { alloc(new) };
    }
    let found = {
        let _change = Change::new();
        locked(|b| look_up(b, at, layout))
    };
    if let Err(fault) = found {
        end(&fault);
    }
    // SAFETY: the object is live and has this layout.
    let to = unsafe { alloc(new) };
    if new_bytes > 0 && !to.is_null() {
        let (from_slot, from_large) = slot_of(at, layout);
        let (to_slot, to_large) = slot_of(to, new);
        ext::inherit(from_slot, from_large, to_slot, to_large);
        // SAFETY: two objects with that many bytes each.
        unsafe { ptr::copy_nonoverlapping(at, to, layout.size().min(new_bytes)) };
    }
    if !to.is_null() {
        // SAFETY: as the caller's.
        unsafe { dealloc(at, layout) };
    }
    to
}

/// What `ext` knows a live object by, and whether it is a large one.
fn slot_of(at: *mut u8, layout: Layout) -> (*mut u8, bool) {
    match class_for(layout) {
        Some(_) => (slot::slot_before(at, layout), false),
        None => (at, true),
    }
}

/// Finds the live object that `at` must be, with this layout and whole zones.
fn look_up(blocks: &Blocks, at: *mut u8, layout: Layout) -> Result<Place, Fault> {
    let fault = |kind, object| Fault {
        kind,
        pointer: at.addr(),
        object,
    };
    if let Some(block) = blocks.large.get(at.addr()) {
        let object = Some(object_of_block(&block, None));
        if (block.bytes, block.align) != (layout.size(), layout.align()) {
            return Err(fault(Kind::WrongLayout(layout), object));
        }
        let behind = at.wrapping_add(block.bytes);
        // SAFETY: the block is known, and has so many bytes behind the object.
        return match unsafe { first_wrong(behind, LARGE_EXTRA_BYTES, RED_ACTIVE, at) } {
            Some(wrong) => Err(fault(Kind::Broken(Broken::Behind(wrong)), object)),
            None => Ok(Place::Large(block)),
        };
    }
    let chunk = at.addr() & !(CHUNK_BYTES - 1);
    if blocks.chunks.get(chunk).is_none() {
        return Err(if let Some(freed) = blocks.freed(at.addr()) {
            let kind = if freed.block.addr == at.addr() {
                Kind::DoubleFree
            } else {
                Kind::Interior
            };
            fault(
                kind,
                Some(object_of_block(&freed.block, Some(freed.freed_by))),
            )
        } else if let Some(block) = blocks.large.holding(at.addr()) {
            fault(Kind::Interior, Some(object_of_block(&block, None)))
        } else {
            fault(Kind::Foreign, None)
        });
    }
    let Some((frame, slab)) = frame_around(at, chunk) else {
        return Err(fault(Kind::Foreign, None));
    };
    let state = frame.state();
    let object = || Some(object_of(&frame, slab));
    match state {
        State::Lost if slab.is_some() => Err(fault(Kind::RecordLost, object())),
        State::Live if slab.is_some() => {
            if frame.object() != at {
                return Err(fault(Kind::Interior, object()));
            }
            if (frame.bytes(), frame.align()) != (layout.size(), layout.align()) {
                return Err(fault(Kind::WrongLayout(layout), object()));
            }
            // SAFETY: the object is live, and the caller's to free.
            match unsafe { frame.check_live() } {
                Some(broken) => Err(fault(Kind::Broken(broken), object())),
                None => Ok(Place::Slot(frame)),
            }
        }
        State::Free if frame.object() == at => Err(fault(Kind::DoubleFree, object())),
        State::Free => Err(fault(Kind::Interior, object())),
        State::Fresh | State::Live | State::Lost => Err(fault(Kind::Foreign, None)),
    }
}

/// The slot that `at`, in a chunk that is known, points into, and its slab if that is cut. Of one that is not,
/// the slots are those of its last class.
fn frame_around(at: *mut u8, chunk: usize) -> Option<(Frame, Option<&'static Slab>)> {
    if at.addr() - chunk < SLAB_BYTES {
        return None;
    }
    // SAFETY: the headers of a known chunk are mapped, and valid also if the slab was never cut.
    let slab = unsafe { Slab::of(at) };
    let slot_bytes = slab.slot_bytes.load(Relaxed) as usize;
    let first = slab.data_start.load(Relaxed) as usize;
    let offset = (at.addr() & (SLAB_BYTES - 1)).checked_sub(first)?;
    let index = offset.checked_div(slot_bytes)?;
    if first + (index + 1) * slot_bytes > SLAB_BYTES {
        return None;
    }
    let slot = slab.base().wrapping_add(first + index * slot_bytes);
    let frame = Frame::of(slab, slot);
    frame
        .is_framed()
        .then_some((frame, slab.is_cut().then_some(slab)))
}

fn object_of_block(block: &Block, freed_by: Option<&'static CodeTag>) -> Object {
    Object {
        at: block.addr,
        layout: Some((block.bytes, block.align)),
        allocated_by: block.allocated_by,
        freed_by,
    }
}

/// What a slot says of its object; if its record is lost, what the tag ref in `slab` says.
fn object_of(frame: &Frame, slab: Option<&'static Slab>) -> Object {
    if frame.state() != State::Lost {
        return Object {
            at: frame.object().addr(),
            layout: Some((frame.bytes(), frame.align())),
            allocated_by: frame.allocated_by(),
            freed_by: frame.freed_by(),
        };
    }
    let id = slab.and_then(|slab| ext::owner_id(slab, frame.slot));
    Object {
        at: frame.slot.addr(),
        layout: None,
        allocated_by: id.and_then(tag::by_id),
        freed_by: None,
    }
}
