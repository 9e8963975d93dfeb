//! Free lists by order.

use super::ORDERS;
use crate::kernel::MAX_ORDER;

const NONE: u32 = u32::MAX;
const BLOCK_PAGES: u32 = 1 << MAX_ORDER;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// First frame of a free block, on the list of its order.
    Free,
    /// First frame of an allocated block.
    Allocated,
    /// Any other frame.
    Inside,
}

/// What is known of one frame. `order` counts for first frames, the links for free ones.
#[derive(Clone, Copy, Debug)]
struct Frame {
    next: u32,
    prev: u32,
    order: u8,
    state: State,
}

impl Frame {
    const INSIDE: Self = Self {
        next: NONE,
        prev: NONE,
        order: 0,
        state: State::Inside,
    };
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    blocks: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Buddy {
    frames: Vec<Frame>,
    lists: [List; ORDERS],
    grows: bool,
}

impl Buddy {
    pub(super) fn growing() -> Self {
        Self {
            grows: true,
            ..Self::fixed(0)
        }
    }

    /// Frames 0 to `pages` − 1, freed in ascending order as memblock hands them over at boot.
    pub(super) fn fixed(pages: u32) -> Self {
        let mut buddy = Self {
            frames: vec![Frame::INSIDE; pages as usize],
            lists: [List {
                head: NONE,
                tail: NONE,
                blocks: 0,
            }; ORDERS],
            grows: false,
        };
        let mut pfn = 0;
        while pfn < pages {
            let aligned = if pfn == 0 {
                MAX_ORDER
            } else {
                pfn.trailing_zeros()
            };
            let fits = (pages - pfn).ilog2();
            let order = aligned.min(fits).min(MAX_ORDER);
            buddy.push(pfn, order, true);
            pfn += 1 << order;
        }
        buddy
    }

    pub(super) fn alloc(&mut self, order: u32) -> Option<u32> {
        if order > MAX_ORDER {
            return None;
        }
        let found = (order..=MAX_ORDER).find(|&order| self.lists[order as usize].head != NONE);
        let mut found_order = match found {
            Some(order) => order,
            None if self.grows => self.grow()?,
            None => return None,
        };
        let pfn = self.lists[found_order as usize].head;
        self.unlink(pfn, found_order);
        while found_order > order {
            found_order -= 1;
            self.push(pfn + (1 << found_order), found_order, false);
        }
        self.frames[pfn as usize] = Frame {
            order: order as u8,
            state: State::Allocated,
            ..Frame::INSIDE
        };
        Some(pfn)
    }

    fn grow(&mut self) -> Option<u32> {
        let pfn = u32::try_from(self.frames.len()).ok()?;
        let end = pfn.checked_add(BLOCK_PAGES)?;
        self.frames.resize(end as usize, Frame::INSIDE);
        self.push(pfn, MAX_ORDER, false);
        Some(MAX_ORDER)
    }

    pub(super) fn allocated_order(&self, pfn: u32) -> u32 {
        let frame = self
            .frames
            .get(pfn as usize)
            .filter(|frame| frame.state == State::Allocated);
        u32::from(
            frame
                .expect("not the first frame of an allocated block")
                .order,
        )
    }

    /// `__free_one_page`: merged with its buddy as long as that is free; at the tail of its list if a
    /// further merge is likely, so that the rest of the larger block is used later.
    pub(super) fn free(&mut self, mut pfn: u32) {
        let mut order = self.allocated_order(pfn);
        while order < MAX_ORDER && self.is_free(pfn ^ (1 << order), order) {
            let buddy = pfn ^ (1 << order);
            self.unlink(buddy, order);
            self.frames[pfn as usize] = Frame::INSIDE;
            pfn &= !(1 << order);
            order += 1;
        }
        let merge_is_likely = order + 1 < MAX_ORDER
            && self.is_free((pfn & !(1 << order)) ^ (1 << (order + 1)), order + 1);
        self.push(pfn, order, merge_is_likely);
    }

    pub(super) fn free_blocks(&self) -> [u32; ORDERS] {
        self.lists.map(|list| list.blocks)
    }

    fn is_free(&self, pfn: u32, order: u32) -> bool {
        self.frames
            .get(pfn as usize)
            .is_some_and(|frame| frame.state == State::Free && u32::from(frame.order) == order)
    }

    fn push(&mut self, pfn: u32, order: u32, at_tail: bool) {
        let list = &mut self.lists[order as usize];
        let (prev, next) = if at_tail {
            (list.tail, NONE)
        } else {
            (NONE, list.head)
        };
        self.frames[pfn as usize] = Frame {
            next,
            prev,
            order: order as u8,
            state: State::Free,
        };
        match prev {
            NONE => list.head = pfn,
            prev => self.frames[prev as usize].next = pfn,
        }
        match next {
            NONE => list.tail = pfn,
            next => self.frames[next as usize].prev = pfn,
        }
        list.blocks += 1;
    }

    fn unlink(&mut self, pfn: u32, order: u32) {
        let Frame { next, prev, .. } = self.frames[pfn as usize];
        let list = &mut self.lists[order as usize];
        match prev {
            NONE => list.head = next,
            prev => self.frames[prev as usize].next = next,
        }
        match next {
            NONE => list.tail = prev,
            next => self.frames[next as usize].prev = prev,
        }
        list.blocks -= 1;
        self.frames[pfn as usize] = Frame::INSIDE;
    }
}
