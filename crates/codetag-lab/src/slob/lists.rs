//! Circular lists of pages: the first page of a list can be any of them.

use super::page::SlobPage;

/// No page.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: u32,
    pub(super) pages: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        pages: 0,
    };

    pub(super) fn push_first(&mut self, pages: &mut [SlobPage], page: u32) {
        let at = page as usize;
        if self.first == NONE {
            (pages[at].next, pages[at].prev) = (page, page);
        } else {
            let last = pages[self.first as usize].prev;
            (pages[at].next, pages[at].prev) = (self.first, last);
            pages[last as usize].next = page;
            pages[self.first as usize].prev = page;
        }
        self.first = page;
        self.pages += 1;
    }

    pub(super) fn unlink(&mut self, pages: &mut [SlobPage], page: u32) {
        let (next, prev) = (pages[page as usize].next, pages[page as usize].prev);
        pages[prev as usize].next = next;
        pages[next as usize].prev = prev;
        if self.first == page {
            self.first = if next == page { NONE } else { next };
        }
        self.pages -= 1;
    }

    /// `list_rotate_to_front`.
    pub(super) fn rotate_to(&mut self, page: u32) {
        self.first = page;
    }

    /// The pages from the first on.
    pub(super) fn iter(self, pages: &[SlobPage]) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.first;
        (0..self.pages).map(move |_| {
            let page = next;
            next = pages[page as usize].next;
            page
        })
    }
}
