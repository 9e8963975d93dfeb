//! What was current before each span that a thread has entered.
//!
//! Spans are usually left in the reverse order, which is the fast path. A span that is left while others
//! are entered above it gives the tag that was current before it to the one above.
//!
//! The stack of a thread lies in its thread-locals, without drop, so that spans can be entered and left
//! for as long as the thread runs; what is deeper than [`INLINE`] goes to the heap.
//!
//! # Safety model
//!
//! `top` points to [`NOBODY`], which is never written, or into the `slots` of the thread's own stack, which
//! lie where they lie for as long as the thread runs; nobody else has their address. `end` is null unless
//! `top` points into `slots`, and then the last of them: so below `end` there is a slot behind `top`. No
//! span has the id of [`NOBODY`] and of the first slot, so where an id matches there is a slot before.

use crate::scope::{TagGuard, current_tag, set_current, swap_current};
use crate::tag::{CodeTag, UNTAGGED};
use core::cell::{Cell, RefCell};
use core::ptr;

/// Spans of a thread that need no heap, 24 B each.
const INLINE: usize = 32;

/// A span that was entered.
#[derive(Clone, Copy)]
struct Entry {
    /// What was current before.
    outer: &'static CodeTag,
    tag: &'static CodeTag,
    id: u64,
}

const NONE: Entry = Entry {
    outer: &UNTAGGED,
    tag: &UNTAGGED,
    id: 0,
};

#[repr(transparent)]
struct Slot(Cell<Entry>);

// SAFETY: of the slots that threads share there is one, `NOBODY`, which is never written.
unsafe impl Sync for Slot {}

static NOBODY: Slot = Slot(Cell::new(NONE));

struct Stack {
    /// The span entered last.
    top: Cell<*const Slot>,
    /// Where the fast path ends.
    end: Cell<*const Slot>,
    /// Entries of [`DEEP`].
    deep_len: Cell<usize>,
    /// The first stays empty.
    slots: [Slot; INLINE + 1],
}

thread_local! {
    static STACK: Stack = const {
        Stack {
            top: Cell::new(&raw const NOBODY),
            end: Cell::new(ptr::null()),
            deep_len: Cell::new(0),
            slots: [const { Slot(Cell::new(NONE)) }; INLINE + 1],
        }
    };
    /// While it holds any, all slots are taken, and `top` is [`NOBODY`].
    static DEEP: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

/// A span is entered.
#[inline(always)]
pub(super) fn enter(id: u64, tag: &'static CodeTag) {
    STACK.with(|stack| {
        let top = stack.top.get();
        if top >= stack.end.get() {
            return stack.enter_rare(id, tag);
        }
        // SAFETY: below `end` there is another slot.
        let slot = unsafe { &*top.add(1) };
        let outer = swap_current(tag);
        slot.0.set(Entry { outer, tag, id });
        stack.top.set(slot);
    });
}

/// A span is left, by the thread that entered it.
#[inline(always)]
pub(super) fn leave(id: u64) {
    STACK.with(|stack| {
        let top = stack.top.get();
        // SAFETY: `top` always points to a slot.
        let entry = unsafe { &(*top).0 }.get();
        if entry.id != id {
            return stack.leave_any(id);
        }
        set_current(entry.outer);
        // SAFETY: the id is a span's, so this is not the first slot.
        stack.top.set(unsafe { top.sub(1) });
    });
}

/// The deep part, which only threads have that need it; none at the very end of the thread.
fn with_deep<R>(f: impl FnOnce(&mut Vec<Entry>) -> R) -> Option<R> {
    // What it allocates is nobody's.
    let _nobody = TagGuard::enter(&UNTAGGED);
    DEEP.try_with(|deep| f(&mut deep.borrow_mut())).ok()
}

impl Stack {
    /// Spans in the slots.
    fn inline_len(&self) -> usize {
        let (top, first) = (self.top.get(), self.slots.as_ptr());
        if !self.end.get().is_null() {
            (top.addr() - first.addr()) / size_of::<Slot>()
        } else if self.deep_len.get() > 0 {
            INLINE
        } else {
            0
        }
    }

    /// Makes the slots hold `n` spans, none of them deep.
    fn set_inline(&self, n: usize) {
        self.top.set(&raw const self.slots[n]);
        self.end.set(&raw const self.slots[INLINE]);
    }

    /// The first span of a thread, and those that are deep.
    #[cold]
    #[inline(never)]
    fn enter_rare(&self, id: u64, tag: &'static CodeTag) {
        let n = self.inline_len();
        let outer = current_tag();
        let entry = Entry { outer, tag, id };
        if n < INLINE {
            self.slots[n + 1].0.set(entry);
            self.set_inline(n + 1);
            set_current(tag);
        } else if with_deep(|deep| deep.push(entry)).is_some() {
            self.deep_len.set(self.deep_len.get() + 1);
            self.top.set(&raw const NOBODY);
            self.end.set(ptr::null());
            set_current(tag);
        }
        // Else the thread is all but over, and the span is passed over.
    }

    fn get(&self, at: usize) -> Option<Entry> {
        match self.slots.get(at + 1) {
            Some(slot) => Some(slot.0.get()),
            None => with_deep(|deep| deep.get(at - INLINE).copied())?,
        }
    }

    fn set(&self, at: usize, new: Entry) {
        match self.slots.get(at + 1) {
            Some(slot) => slot.0.set(new),
            None => {
                with_deep(|deep| deep[at - INLINE] = new);
            }
        }
    }

    /// Deep, out of order, or never entered as far as this thread knows.
    #[cold]
    #[inline(never)]
    fn leave_any(&self, id: u64) {
        let deep = self.deep_len.get();
        let len = self.inline_len() + deep;
        let is = |at: &usize| self.get(*at).is_some_and(|entry| entry.id == id);
        let Some(at) = (0..len).rev().find(is) else {
            return;
        };
        let Some(left) = self.get(at) else { return };
        if at + 1 == len {
            set_current(left.outer);
        } else if let Some(above) = self.get(at + 1)
            // Else a function's scope lies between, and that is what the one above restores.
            && ptr::eq(above.outer, left.tag)
        {
            let outer = left.outer;
            self.set(at + 1, Entry { outer, ..above });
        }
        for i in at + 1..len {
            if let Some(entry) = self.get(i) {
                self.set(i - 1, entry);
            }
        }
        if deep > 0 {
            with_deep(Vec::pop);
            self.deep_len.set(deep - 1);
        }
        if deep <= 1 {
            self.set_inline(len - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TAGS: [CodeTag; 3] = [
        CodeTag::__new("m\0a\0x.rs\0", 1, 1),
        CodeTag::__new("m\0b\0x.rs\0", 2, 1),
        CodeTag::__new("m\0c\0x.rs\0", 3, 1),
    ];

    fn enter_all() {
        for (id, tag) in (1..).zip(&TAGS) {
            enter(id, tag);
        }
    }

    fn leave_span(id: u64) -> &'static str {
        leave(id);
        current_tag().function()
    }

    #[test]
    fn every_order_of_leaving_restores_what_is_entered_still() {
        // The innermost span that is still entered is current.
        for (order, current) in [
            ([3, 2, 1], ["b", "a", "untagged"]),
            ([3, 1, 2], ["b", "b", "untagged"]),
            ([2, 3, 1], ["c", "a", "untagged"]),
            ([2, 1, 3], ["c", "c", "untagged"]),
            ([1, 2, 3], ["c", "c", "untagged"]),
            ([1, 3, 2], ["c", "b", "untagged"]),
        ] {
            enter_all();
            assert_eq!(order.map(leave_span), current, "{order:?}");
        }
    }

    #[test]
    fn a_span_that_was_never_entered_changes_nothing() {
        assert_eq!(leave_span(1), "untagged");
        enter(2, &TAGS[1]);
        assert_eq!(leave_span(1), "b");
        assert_eq!(leave_span(2), "untagged");
    }

    #[test]
    fn a_span_twice_on_one_thread() {
        enter(1, &TAGS[0]);
        enter(2, &TAGS[1]);
        enter(1, &TAGS[0]);
        assert_eq!(leave_span(1), "b");
        assert_eq!(leave_span(2), "a");
        assert_eq!(leave_span(1), "untagged");
    }

    #[test]
    fn deeper_than_the_thread_local_part() {
        let deep = INLINE as u64 + 40;
        let tag_of = |id: u64| &TAGS[id as usize % 3];
        for id in 1..=deep {
            enter(id, tag_of(id));
        }
        // Out of order across the border.
        let border = INLINE as u64 - 5;
        leave(border);
        for id in (1..=deep).rev().filter(|&id| id != border) {
            assert!(ptr::eq(current_tag(), tag_of(id)));
            leave(id);
        }
        assert!(ptr::eq(current_tag(), &raw const UNTAGGED));
        assert_eq!(DEEP.with(|deep| deep.borrow().len()), 0);
    }
}
