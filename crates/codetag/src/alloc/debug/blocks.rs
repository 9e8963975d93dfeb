//! Which blocks there are: chunks, large objects, and the large objects that were freed last.
//!
//! Nobody but this file's lock protects it, and while it is held no chunk goes: whoever looks a pointer up
//! reads the chunk's memory under the same lock. It is taken last, in a change or by a reader, so that no
//! fork comes in between.
//!
//! # Safety model
//!
//! A table's entries are a mapping of its own, as long as `capacity` says, of words that are valid as
//! zeros. It is reached under the lock only.

use crate::protocol::{Guard, SpinLock};
use crate::sys;
use crate::tag::{CodeTag, UNTAGGED};
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ptr;

const MIN_CAPACITY: usize = 128;

/// Large objects that are remembered after their free.
const FREED: usize = 256;

/// A chunk, or a large object as it was asked for.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Block {
    /// 0 where there is none.
    pub addr: usize,
    pub bytes: usize,
    pub align: usize,
    pub allocated_by: Option<&'static CodeTag>,
}

/// A large object that is gone.
#[derive(Clone, Copy)]
pub(super) struct Freed {
    pub block: Block,
    pub freed_by: &'static CodeTag,
}

impl Block {
    const NONE: Self = Self {
        addr: 0,
        bytes: 0,
        align: 1,
        allocated_by: None,
    };

    /// A block at `addr` of this layout.
    pub(super) fn new(addr: usize, layout: Layout, by: &'static CodeTag) -> Self {
        Self {
            addr,
            bytes: layout.size(),
            align: layout.align(),
            allocated_by: Some(by),
        }
    }
}

/// Blocks by address: open addressing with linear probing and no tombstones, at most three quarters full.
pub(super) struct Table {
    entries: *mut Block,
    capacity: usize,
    len: usize,
}

/// Everything that is known.
pub(super) struct Blocks {
    pub chunks: Table,
    pub large: Table,
    freed: [Freed; FREED],
    freed_next: usize,
}

struct Locked(UnsafeCell<Blocks>);

// SAFETY: reached under the lock only.
unsafe impl Sync for Locked {}

static LOCK: SpinLock = SpinLock::new();

static BLOCKS: Locked = Locked(UnsafeCell::new(Blocks {
    chunks: Table::new(),
    large: Table::new(),
    freed: [Freed {
        block: Block::NONE,
        freed_by: &UNTAGGED,
    }; FREED],
    freed_next: 0,
}));

/// Runs `f` with the lock held. In a change, or as a reader; `f` must not come here again.
pub(super) fn locked<R>(f: impl FnOnce(&mut Blocks) -> R) -> R {
    let _guard: Guard<'_> = LOCK.lock();
    // SAFETY: the lock is held, and `f` does not come here again.
    f(unsafe { &mut *BLOCKS.0.get() })
}

impl Blocks {
    /// Remembers a large object that goes.
    pub(super) fn note_freed(&mut self, block: Block, freed_by: &'static CodeTag) {
        self.freed[self.freed_next] = Freed { block, freed_by };
        self.freed_next = (self.freed_next + 1) % FREED;
    }

    /// The object that was freed last of those that held `addr`.
    pub(super) fn freed(&self, addr: usize) -> Option<Freed> {
        (1..=FREED)
            .map(|back| self.freed[(self.freed_next + FREED - back) % FREED])
            .find(|f| f.block.holds(addr))
    }
}

impl Block {
    fn holds(&self, addr: usize) -> bool {
        self.addr != 0 && addr.wrapping_sub(self.addr) < self.bytes
    }
}

fn hash(addr: usize) -> usize {
    (addr >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn map_bytes(capacity: usize) -> usize {
    (capacity * size_of::<Block>()).next_multiple_of(sys::PAGE_BYTES)
}

impl Table {
    const fn new() -> Self {
        Self {
            entries: ptr::null_mut(),
            capacity: 0,
            len: 0,
        }
    }

    fn slots(&self) -> &[Block] {
        if self.entries.is_null() {
            return &[];
        }
        // SAFETY: a mapping of that many entries, as in the module.
        unsafe { core::slice::from_raw_parts(self.entries, self.capacity) }
    }

    fn slots_mut(&mut self) -> &mut [Block] {
        if self.entries.is_null() {
            return &mut [];
        }
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.entries, self.capacity) }
    }

    /// Index of the entry of `addr`, or of the free place where it would stand.
    fn place(&self, addr: usize) -> usize {
        let mut i = hash(addr) & (self.capacity - 1);
        while self.slots()[i].addr != 0 && self.slots()[i].addr != addr {
            i = (i + 1) & (self.capacity - 1);
        }
        i
    }

    /// The block that begins at `addr`.
    pub(super) fn get(&self, addr: usize) -> Option<Block> {
        if self.capacity == 0 || addr == 0 {
            return None;
        }
        Some(self.slots()[self.place(addr)]).filter(|b| b.addr != 0)
    }

    /// The block that holds `addr`, by a walk over all.
    pub(super) fn holding(&self, addr: usize) -> Option<Block> {
        self.slots().iter().copied().find(|b| b.holds(addr))
    }

    /// Notes a block; false if the system has no memory for it.
    pub(super) fn insert(&mut self, block: Block) -> bool {
        if (self.len + 1) * 4 > self.capacity * 3 && !self.grow() {
            return false;
        }
        let i = self.place(block.addr);
        let slot = &mut self.slots_mut()[i];
        let is_new = slot.addr == 0;
        *slot = block;
        self.len += usize::from(is_new);
        true
    }

    /// Forgets the block that begins at `addr`.
    pub(super) fn remove(&mut self, addr: usize) {
        if self.get(addr).is_none() {
            return;
        }
        let mask = self.capacity - 1;
        let mut hole = self.place(addr);
        let mut i = hole;
        loop {
            i = (i + 1) & mask;
            let block = self.slots()[i];
            if block.addr == 0 {
                break;
            }
            // It may fill the hole if its own place is not behind it.
            let home = hash(block.addr) & mask;
            if (i.wrapping_sub(home) & mask) >= (i.wrapping_sub(hole) & mask) {
                self.slots_mut()[hole] = block;
                hole = i;
            }
        }
        self.slots_mut()[hole] = Block::NONE;
        self.len -= 1;
    }

    fn grow(&mut self) -> bool {
        let capacity = (self.capacity * 2).max(MIN_CAPACITY);
        let entries = sys::map_zeroed(map_bytes(capacity)).cast::<Block>();
        if entries.is_null() {
            return false;
        }
        let old = core::mem::replace(
            self,
            Self {
                entries,
                capacity,
                len: self.len,
            },
        );
        for block in old.slots().iter().filter(|b| b.addr != 0) {
            let i = self.place(block.addr);
            self.slots_mut()[i] = *block;
        }
        if !old.entries.is_null() {
            // SAFETY: this table's own mapping, which nothing points into any more.
            unsafe { sys::unmap(old.entries.cast(), map_bytes(old.capacity)) };
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_agrees_with_a_map() {
        let mut table = Table::new();
        let mut map = BTreeMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..20_000_usize {
            // Few addresses, so that they meet; many more inserts at first.
            let addr = 16 * random.usize(1..600);
            if random.usize(..20_000) > round {
                let layout = Layout::from_size_align(round + 1, 8).unwrap();
                assert!(table.insert(Block::new(addr, layout, &UNTAGGED)));
                map.insert(addr, round + 1);
            } else {
                table.remove(addr);
                map.remove(&addr);
            }
            assert_eq!(table.len, map.len());
            let probe = 16 * random.usize(1..600);
            assert_eq!(table.get(probe).map(|b| b.bytes), map.get(&probe).copied());
        }
        for (addr, bytes) in &map {
            assert_eq!(table.get(*addr).map(|b| b.bytes), Some(*bytes));
        }
    }

    #[test]
    fn a_block_holds_its_own_bytes() {
        let mut table = Table::new();
        let layout = Layout::from_size_align(100, 8).unwrap();
        assert!(table.insert(Block::new(4096, layout, &UNTAGGED)));
        let found = |addr| table.holding(addr).map(|b| b.addr);
        assert_eq!(
            [4095, 4096, 4195, 4196].map(found),
            [None, Some(4096), Some(4096), None]
        );
    }
}
