//! Blocks of any layout, filled so that overlaps and lost contents show.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;

const PERIOD: usize = 512;

/// Bytes that do not repeat within a period; blocks take windows of it.
static PATTERN: [u8; 2 * PERIOD] = {
    let mut bytes = [0; 2 * PERIOD];
    let (mut i, mut x) = (0, 0x9e37_79b9_u32);
    while i < PERIOD {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes[i] = (x >> 24) as u8;
        bytes[i + PERIOD] = bytes[i];
        i += 1;
    }
    bytes
};

/// A layout.
pub(crate) fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// A block of the global allocator's, freed on drop.
pub(crate) struct Block {
    at: *mut u8,
    layout: Layout,
}

// SAFETY: the block is owned.
unsafe impl Send for Block {}

impl Block {
    /// `std::alloc::alloc`; none for null.
    pub(crate) fn new(layout: Layout) -> Option<Self> {
        assert!(layout.size() > 0);
        // SAFETY: not of zero size.
        Self::of(unsafe { alloc(layout) }, layout)
    }

    /// `std::alloc::alloc_zeroed`, checked; none for null.
    pub(crate) fn zeroed(layout: Layout) -> Option<Self> {
        assert!(layout.size() > 0);
        // SAFETY: not of zero size.
        let block = Self::of(unsafe { alloc_zeroed(layout) }, layout)?;
        assert!(
            block
                .bytes()
                .chunks(PERIOD)
                .all(|c| c == &[0; PERIOD][..c.len()])
        );
        Some(block)
    }

    fn of(at: *mut u8, layout: Layout) -> Option<Self> {
        // The compiler may leave out an allocation that nobody looks at.
        let at = black_box(at);
        assert_eq!(at.addr() % layout.align(), 0, "{layout:?}");
        // Not `then_some`: a block is freed when it is dropped, also one of nothing.
        if at.is_null() {
            None
        } else {
            Some(Self { at, layout })
        }
    }

    /// `std::alloc::realloc`; false for null, which leaves the block as it was.
    pub(crate) fn realloc(&mut self, size: usize) -> bool {
        let new = layout(size, self.layout.align());
        assert!(size > 0);
        // SAFETY: the block is live, with this layout.
        let Some(block) = Self::of(unsafe { realloc(self.at, self.layout, size) }, new) else {
            return false;
        };
        std::mem::forget(std::mem::replace(self, block));
        true
    }

    pub(crate) fn addr(&self) -> usize {
        self.at.addr()
    }

    pub(crate) fn size(&self) -> usize {
        self.layout.size()
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the block is ours; only read after it was written or zeroed.
        unsafe { std::slice::from_raw_parts(self.at, self.size()) }
    }

    /// Writes the pattern of `seed` into every byte.
    pub(crate) fn fill(&mut self, seed: usize) {
        let window = &PATTERN[seed % PERIOD..][..PERIOD];
        for start in (0..self.size()).step_by(PERIOD) {
            let n = PERIOD.min(self.size() - start);
            // SAFETY: inside the block, which is ours.
            unsafe {
                self.at
                    .add(start)
                    .copy_from_nonoverlapping(window.as_ptr(), n);
            };
        }
    }

    /// Asserts that the first `n` bytes are those of [`Block::fill`].
    #[track_caller]
    pub(crate) fn check(&self, seed: usize, n: usize) {
        let window = &PATTERN[seed % PERIOD..][..PERIOD];
        for chunk in self.bytes()[..n].chunks(PERIOD) {
            assert!(
                chunk == &window[..chunk.len()],
                "contents of {:?} were lost",
                self.layout
            );
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: live, with this layout.
        unsafe { dealloc(self.at, self.layout) };
    }
}

/// How many they are, and their bytes.
pub(crate) fn sum_of(blocks: &[Block]) -> (u64, u64) {
    (
        blocks.len() as u64,
        blocks.iter().map(|b| b.size() as u64).sum(),
    )
}
