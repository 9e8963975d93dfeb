//! The page allocator: the ground that every model stands on.
//!
//! Models mm/page_alloc.c \[6.1\]: free lists by order, blocks split low half first and merged with
//! their buddy, per-CPU page lists of orders 0 to 3. One zone, one migrate type, no watermarks, no
//! reclaim: an allocation fails when no block is left, even after the per-CPU lists are drained.

mod buddy;
mod pcp;

pub use pcp::PcpLimits;

use crate::kernel::MAX_ORDER;
use buddy::Buddy;
use pcp::Pcp;
use std::fmt;

/// Number of orders, 0 to [`MAX_ORDER`].
pub const ORDERS: usize = MAX_ORDER as usize + 1;

/// Number of a page frame, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pfn(u32);

impl Pfn {
    /// The number itself.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn from_index(index: usize) -> Self {
        Self(index as u32)
    }
}

/// No block of the order is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfPages {
    /// What was asked for.
    pub order: u32,
}

impl fmt::Display for OutOfPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no free block of order {}", self.order)
    }
}

impl std::error::Error for OutOfPages {}

/// A counting page allocator.
#[derive(Clone, Debug)]
pub struct PageAllocator {
    buddy: Buddy,
    pcp: Option<Pcp>,
    allocated_pages: u64,
    peak_pages: u64,
}

impl PageAllocator {
    /// An arena that grows by a block of the largest order whenever it is used up.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::on(Buddy::growing())
    }

    /// An arena of so many pages, and no more.
    #[must_use]
    pub fn with_arena(pages: u32) -> Self {
        Self::on(Buddy::fixed(pages))
    }

    fn on(buddy: Buddy) -> Self {
        Self {
            buddy,
            pcp: None,
            allocated_pages: 0,
            peak_pages: 0,
        }
    }

    /// The same arena with page lists on each of `cpus` CPUs.
    ///
    /// # Panics
    ///
    /// If pages were allocated already.
    #[must_use]
    pub fn with_pcp(mut self, cpus: u16, limits: PcpLimits) -> Self {
        assert_eq!(
            self.allocated_pages, 0,
            "the lists have to be there from the first allocation on"
        );
        self.pcp = Some(Pcp::new(cpus, limits));
        self
    }

    /// The first frame of a block of 2^`order` pages.
    ///
    /// # Errors
    ///
    /// When the arena has no such block, free pages on CPU lists included.
    pub fn alloc(&mut self, cpu: u16, order: u32) -> Result<Pfn, OutOfPages> {
        let taken = match &mut self.pcp {
            Some(pcp) => pcp.alloc(&mut self.buddy, cpu, order),
            None => self.buddy.alloc(order),
        };
        let pfn = taken.ok_or(OutOfPages { order })?;
        self.allocated_pages += 1 << order;
        self.peak_pages = self.peak_pages.max(self.allocated_pages);
        Ok(Pfn(pfn))
    }

    /// Gives a block back.
    ///
    /// # Panics
    ///
    /// If `pfn` is not the first frame of an allocated block.
    pub fn free(&mut self, cpu: u16, pfn: Pfn) {
        let order = self.buddy.allocated_order(pfn.0);
        self.allocated_pages -= 1 << order;
        match &mut self.pcp {
            Some(pcp) => pcp.free(&mut self.buddy, cpu, pfn.0, order),
            None => self.buddy.free(pfn.0),
        }
    }

    /// Order of an allocated block.
    ///
    /// # Panics
    ///
    /// If `pfn` is not its first frame.
    #[must_use]
    pub fn order_of(&self, pfn: Pfn) -> u32 {
        self.buddy.allocated_order(pfn.0)
    }

    /// Pages that are allocated now. Pages on CPU lists are not among them.
    #[must_use]
    pub fn allocated_pages(&self) -> u64 {
        self.allocated_pages
    }

    /// The most pages that were allocated at a time.
    #[must_use]
    pub fn peak_pages(&self) -> u64 {
        self.peak_pages
    }

    /// Pages that lie on CPU lists: free, but in no block of [`free_blocks`](Self::free_blocks).
    #[must_use]
    pub fn pcp_pages(&self) -> u64 {
        self.pcp.as_ref().map_or(0, Pcp::pages)
    }

    /// Free blocks of each order, as in /proc/buddyinfo.
    #[must_use]
    pub fn free_blocks(&self) -> [u32; ORDERS] {
        self.buddy.free_blocks()
    }

    /// Free pages, those on CPU lists apart.
    #[must_use]
    pub fn free_pages(&self) -> u64 {
        (0..ORDERS)
            .map(|order| u64::from(self.free_blocks()[order]) << order)
            .sum()
    }

    /// Share of the free pages that lie in blocks too small for `order`, 0 to 1: the kernel's unusable
    /// free space index (mm/vmstat.c). 1 when nothing is free.
    #[must_use]
    pub fn unusable_free_index(&self, order: u32) -> f64 {
        let blocks = self.free_blocks();
        let usable: u64 = (order as usize..ORDERS)
            .map(|order| u64::from(blocks[order]) << order)
            .sum();
        match self.free_pages() {
            0 => 1.0,
            free => (free - usable) as f64 / free as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(pairs: &[(usize, u32)]) -> [u32; ORDERS] {
        let mut blocks = [0; ORDERS];
        for &(order, count) in pairs {
            blocks[order] = count;
        }
        blocks
    }

    #[test]
    fn a_page_splits_a_block_and_its_buddy_mends_it() {
        let mut pages = PageAllocator::with_arena(16);
        let first = pages.alloc(0, 0).unwrap();
        assert_eq!(first.index(), 0);
        assert_eq!(
            pages.free_blocks(),
            blocks(&[(0, 1), (1, 1), (2, 1), (3, 1)])
        );
        assert_eq!(pages.free_pages(), 15);
        pages.free(0, first);
        assert_eq!(pages.free_blocks(), blocks(&[(4, 1)]));
        assert_eq!((pages.allocated_pages(), pages.peak_pages()), (0, 1));
    }

    #[test]
    fn an_arena_of_any_size_is_cut_into_aligned_blocks() {
        let pages = PageAllocator::with_arena(1024 + 512 + 3);
        assert_eq!(
            pages.free_blocks(),
            blocks(&[(10, 1), (9, 1), (1, 1), (0, 1)])
        );
    }

    #[test]
    fn free_pages_of_the_wrong_shape_are_of_no_use() {
        let mut pages = PageAllocator::with_arena(8);
        let all: Vec<Pfn> = (0..8).map(|_| pages.alloc(0, 0).unwrap()).collect();
        for pfn in all.iter().step_by(2) {
            pages.free(0, *pfn);
        }
        assert_eq!(pages.free_pages(), 4);
        assert_eq!(pages.alloc(0, 1), Err(OutOfPages { order: 1 }));
        assert!((pages.unusable_free_index(1) - 1.0).abs() < f64::EPSILON);
        assert!(pages.unusable_free_index(0).abs() < f64::EPSILON);
    }

    #[test]
    fn an_unlimited_arena_grows_by_the_largest_block() {
        let mut pages = PageAllocator::unlimited();
        for _ in 0..3 {
            pages.alloc(0, MAX_ORDER).unwrap();
        }
        assert_eq!(pages.allocated_pages(), 3 << MAX_ORDER);
        assert_eq!(pages.free_pages(), 0);
    }

    #[test]
    #[should_panic(expected = "not the first frame of an allocated block")]
    fn a_double_free_is_found() {
        let mut pages = PageAllocator::with_arena(4);
        let pfn = pages.alloc(0, 0).unwrap();
        pages.free(0, pfn);
        pages.free(0, pfn);
    }

    #[test]
    fn random_work_loses_no_page() {
        let mut pages =
            PageAllocator::with_arena(300).with_pcp(2, PcpLimits { batch: 7, high: 40 });
        let mut live = Vec::new();
        let mut seed = 12_345_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let dice = (seed >> 33) as u32;
            let cpu = (dice & 1) as u16;
            if dice & 6 != 0 {
                live.extend(pages.alloc(cpu, (dice >> 4) % 5));
            }
            if dice & 24 != 0 && !live.is_empty() {
                let pfn = live.swap_remove((dice >> 8) as usize % live.len());
                pages.free(cpu, pfn);
            }
            assert_eq!(
                pages.allocated_pages() + pages.pcp_pages() + pages.free_pages(),
                300
            );
        }
        for pfn in live {
            pages.free(0, pfn);
        }
        assert_eq!(pages.allocated_pages(), 0);
    }
}
