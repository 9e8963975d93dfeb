//! One page of SLOB: its free blocks in the order of their addresses.

use crate::kernel::PAGE_BYTES;
use crate::page::Pfn;

/// The unit of SLOB, on machines with pages of up to 64 KiB.
pub(super) const UNIT_BYTES: u32 = 2;

/// Units of a page.
pub(super) const PAGE_UNITS: u16 = (PAGE_BYTES / UNIT_BYTES as u64) as u16;

/// Units that hold `bytes`.
pub(super) fn units(bytes: u32) -> u16 {
    bytes.div_ceil(UNIT_BYTES) as u16
}

/// A block of free units, from its offset in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    start: u16,
    units: u16,
}

impl Block {
    fn end(self) -> u16 {
        self.start + self.units
    }
}

#[derive(Clone, Debug)]
pub(super) struct SlobPage {
    pub(super) pfn: Pfn,
    /// All free units.
    pub(super) free_units: u16,
    /// No block is larger. Often more than the largest: it is set right when a search fails.
    largest_units: u16,
    /// Ascending, no two touch each other.
    blocks: Vec<Block>,
    /// Neighbours on the page's list, and which list.
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) list: Option<u8>,
}

impl SlobPage {
    /// A page that is free as a whole.
    pub(super) fn new(pfn: Pfn) -> Self {
        Self {
            pfn,
            free_units: PAGE_UNITS,
            largest_units: PAGE_UNITS,
            blocks: vec![Block {
                start: 0,
                units: PAGE_UNITS,
            }],
            next: 0,
            prev: 0,
            list: None,
        }
    }

    /// Whether [`alloc`](Self::alloc) may succeed.
    pub(super) fn may_hold(&self, units: u16) -> bool {
        self.largest_units >= units && self.free_units >= units
    }

    /// `slob_page_alloc`: the first block with room at an offset that, with `align_offset` bytes added, is a
    /// multiple of `align`. What lies before that offset stays a free block.
    pub(super) fn alloc(&mut self, units: u16, align: u32, align_offset: u32) -> Option<u16> {
        let mut largest = 0;
        for (index, block) in self.blocks.iter().enumerate() {
            let from = u32::from(block.start) * UNIT_BYTES;
            let aligned = (from + align_offset).next_multiple_of(align) - align_offset;
            let skipped = ((aligned - from) / UNIT_BYTES) as u16;
            if u32::from(block.units) < u32::from(units) + u32::from(skipped) {
                largest = largest.max(block.units);
                continue;
            }
            let (block, start) = (*block, block.start + skipped);
            let after = Block {
                start: start + units,
                units: block.end() - start - units,
            };
            match (skipped, after.units) {
                (0, 0) => {
                    self.blocks.remove(index);
                }
                (0, _) => self.blocks[index] = after,
                (_, 0) => self.blocks[index].units = skipped,
                _ => {
                    self.blocks[index].units = skipped;
                    self.blocks.insert(index + 1, after);
                }
            }
            self.free_units -= units;
            return Some(start);
        }
        self.largest_units = largest;
        None
    }

    /// The units come back and join with their neighbours.
    pub(super) fn free(&mut self, start: u16, units: u16) {
        let index = self.blocks.partition_point(|block| block.start < start);
        let end = start + units;
        debug_assert!(index == 0 || self.blocks[index - 1].end() <= start);
        debug_assert!(self.blocks.get(index).is_none_or(|next| next.start >= end));
        let joins_previous = index > 0 && self.blocks[index - 1].end() == start;
        let joins_next = self.blocks.get(index).is_some_and(|next| next.start == end);
        let joined = match (joins_previous, joins_next) {
            (true, true) => {
                let next = self.blocks.remove(index);
                self.blocks[index - 1].units += units + next.units;
                self.blocks[index - 1].units
            }
            (true, false) => {
                self.blocks[index - 1].units += units;
                self.blocks[index - 1].units
            }
            (false, true) => {
                self.blocks[index].start = start;
                self.blocks[index].units += units;
                self.blocks[index].units
            }
            (false, false) => {
                self.blocks.insert(index, Block { start, units });
                units
            }
        };
        self.free_units += units;
        self.largest_units = self.largest_units.max(joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> SlobPage {
        SlobPage::new(Pfn::from_index(0))
    }

    fn fill(bytes: u32, align: u32, align_offset: u32) -> Vec<u32> {
        let mut page = page();
        std::iter::from_fn(|| page.alloc(units(bytes), align, align_offset))
            .map(|start| u32::from(start) * UNIT_BYTES)
            .collect()
    }

    #[test]
    fn kmalloc_64_leaves_holes_of_its_own_size() {
        // A header of 8, the object on a multiple of 64.
        let offsets = fill(72, 64, 8);
        assert_eq!(offsets.len(), 32);
        assert_eq!(offsets[..3], [56, 184, 312]);
        let mut page = page();
        for _ in 0..32 {
            page.alloc(units(72), 64, 8);
        }
        // 32 holes of 56 bytes, each for one kmalloc(48).
        assert_eq!(page.free_units, 32 * 28);
        assert_eq!(
            std::iter::from_fn(|| page.alloc(units(56), 8, 8)).count(),
            32
        );
    }

    #[test]
    fn other_sizes_follow_each_other() {
        let offsets = fill(108, 8, 8);
        assert_eq!(offsets.len(), 36);
        assert_eq!(offsets[..3], [0, 112, 224]);
        assert_eq!(fill(64, 8, 0).len(), 64);
        assert_eq!(fill(56, 8, 8).len(), 73);
    }

    #[test]
    fn neighbours_join_again() {
        let mut page = page();
        let starts: Vec<u16> = (0..4).map(|_| page.alloc(8, 2, 0).unwrap()).collect();
        page.free(starts[0], 8);
        page.free(starts[2], 8);
        assert_eq!(page.blocks.len(), 3);
        page.free(starts[1], 8);
        assert_eq!(page.blocks.len(), 2);
        page.free(starts[3], 8);
        assert_eq!(
            page.blocks,
            [Block {
                start: 0,
                units: PAGE_UNITS
            }]
        );
    }

    #[test]
    fn a_failed_search_remembers_the_largest_block() {
        let mut page = page();
        page.alloc(PAGE_UNITS - 10, 2, 0).unwrap();
        assert!(page.may_hold(10) && !page.may_hold(11));
        page.alloc(4, 2, 0).unwrap();
        assert_eq!(page.alloc(6, 16, 0), None);
        assert!(page.may_hold(6) && !page.may_hold(7));
    }
}
