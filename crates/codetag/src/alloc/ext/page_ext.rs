//! The side table of large objects: address, requested bytes and id word of each.
//!
//! Four tables by address, each with a lock of its own, open addressing with linear probing and no
//! tombstones; at most seven eighths full, at least three eighths when larger than the smallest,
//! so that an entry of 24 bytes takes at most 64. The tables are mapped beside every allocator.
//! An object that finds no place, because the system has no memory for a larger table, is counted
//! as lost, and its free takes it off that count.
//!
//! # Safety model
//!
//! A table is reached under its lock only, and is as long as `capacity` says.

use super::{LargeEntry, UNTRACKED};
use crate::protocol::SpinLock;
use crate::sys;
use core::cell::UnsafeCell;
use core::ptr;

const SHARDS: usize = 4;
const MIN_CAPACITY: usize = 128;

#[derive(Clone, Copy)]
struct Entry {
    /// 0 where there is none.
    addr: usize,
    bytes: usize,
    word: u32,
}

struct Table {
    entries: *mut Entry,
    capacity: usize,
    len: usize,
    lost_objs: u64,
    lost_bytes: u64,
    version: u64,
}

struct Shard {
    lock: SpinLock,
    table: UnsafeCell<Table>,
}

// SAFETY: the table is reached under the lock only.
unsafe impl Sync for Shard {}

impl Shard {
    const fn new() -> Self {
        let table = Table {
            entries: ptr::null_mut(),
            capacity: 0,
            len: 0,
            lost_objs: 0,
            lost_bytes: 0,
            version: 0,
        };
        Self {
            lock: SpinLock::new(),
            table: UnsafeCell::new(table),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        let _guard = self.lock.lock();
        // SAFETY: the lock is held, and `f` cannot reach the shard again.
        f(unsafe { &mut *self.table.get() })
    }
}

static TABLES: [Shard; SHARDS] = [const { Shard::new() }; SHARDS];

/// Spreads addresses: large objects differ in their upper bits.
fn hash(addr: usize) -> usize {
    (addr >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn shard(addr: usize) -> &'static Shard {
    &TABLES[hash(addr) % SHARDS]
}

fn map_bytes(capacity: usize) -> usize {
    (capacity * size_of::<Entry>()).next_multiple_of(sys::PAGE_BYTES)
}

impl Table {
    /// Where the probing for an address begins.
    fn home(&self, addr: usize) -> usize {
        (hash(addr) / SHARDS) & (self.capacity - 1)
    }

    fn entry(&mut self, i: usize) -> &mut Entry {
        // SAFETY: indices are taken modulo the capacity, and zeroed entries are valid.
        unsafe { &mut *self.entries.add(i & (self.capacity - 1)) }
    }

    fn find(&mut self, addr: usize) -> Option<usize> {
        if self.capacity == 0 {
            return None;
        }
        let mut i = self.home(addr);
        loop {
            match self.entry(i).addr {
                0 => return None,
                a if a == addr => return Some(i & (self.capacity - 1)),
                _ => i += 1,
            }
        }
    }

    fn place(&mut self, new: Entry) {
        let mut i = self.home(new.addr);
        while self.entry(i).addr != 0 {
            i += 1;
        }
        *self.entry(i) = new;
        self.len += 1;
    }

    /// Moves to a table of another size; false if the system has no memory for it.
    fn resize(&mut self, capacity: usize) -> bool {
        let at = sys::map_zeroed(map_bytes(capacity)).cast::<Entry>();
        if at.is_null() {
            return false;
        }
        let (old, old_capacity) = (self.entries, self.capacity);
        (self.entries, self.capacity, self.len) = (at, capacity, 0);
        for i in 0..old_capacity {
            // SAFETY: the old table has that many entries.
            let e = unsafe { *old.add(i) };
            if e.addr != 0 {
                self.place(e);
            }
        }
        if !old.is_null() {
            // SAFETY: nobody reaches the old table any more.
            unsafe { sys::unmap(old.cast(), map_bytes(old_capacity)) };
        }
        true
    }

    fn insert(&mut self, new: Entry) {
        self.version += 1;
        if (self.len + 1) * 8 > self.capacity * 7 {
            let larger = (self.capacity * 2).max(MIN_CAPACITY);
            // Up to the last free entry the old table will do.
            if !self.resize(larger) && self.len + 1 >= self.capacity {
                self.lost_objs += 1;
                self.lost_bytes += new.bytes as u64;
                return;
            }
        }
        self.place(new);
    }

    fn remove(&mut self, addr: usize, bytes: usize) -> LargeEntry {
        self.version += 1;
        let Some(mut hole) = self.find(addr) else {
            self.lost_objs = self.lost_objs.saturating_sub(1);
            self.lost_bytes = self.lost_bytes.saturating_sub(bytes as u64);
            return LargeEntry { word: UNTRACKED };
        };
        let word = self.entry(hole).word;
        // Close the gap: an entry behind it moves up unless that would put it before its home.
        let mut i = hole;
        loop {
            i = (i + 1) & (self.capacity - 1);
            let e = *self.entry(i);
            if e.addr == 0 {
                break;
            }
            let home = self.home(e.addr);
            let distance = |from: usize| i.wrapping_sub(from) & (self.capacity - 1);
            if distance(home) >= distance(hole) {
                *self.entry(hole) = e;
                hole = i;
            }
        }
        self.entry(hole).addr = 0;
        self.len -= 1;
        if self.capacity > MIN_CAPACITY && self.len * 8 < self.capacity * 3 {
            // Without memory for the smaller table the larger one stays.
            self.resize(self.capacity / 2);
        }
        LargeEntry { word }
    }
}

/// Notes a large object.
pub(crate) fn insert(at: *mut u8, bytes: usize, word: u32) {
    let addr = at.addr();
    shard(addr).with(|t| t.insert(Entry { addr, bytes, word }));
}

/// Takes a large object out.
pub(crate) fn remove(at: *mut u8, bytes: usize) -> LargeEntry {
    shard(at.addr()).with(|t| t.remove(at.addr(), bytes))
}

/// The id word of a large object, or [`UNTRACKED`].
pub(crate) fn owner(at: *mut u8) -> u32 {
    shard(at.addr()).with(|t| t.find(at.addr()).map_or(UNTRACKED, |i| t.entry(i).word))
}

/// Names another owner.
pub(crate) fn set_owner(at: *mut u8, word: u32) {
    shard(at.addr()).with(|t| {
        if let Some(i) = t.find(at.addr()) {
            t.entry(i).word = word;
        }
    });
}

/// Makes every large object untracked.
pub(crate) fn clear_all() {
    for shard in &TABLES {
        shard.with(|t| {
            for i in 0..t.capacity {
                t.entry(i).word = UNTRACKED;
            }
        });
    }
}

/// Calls `visit` with requested bytes and id word of every large object.
pub(crate) fn for_each(mut visit: impl FnMut(usize, u32)) {
    for shard in &TABLES {
        shard.with(|t| {
            for i in 0..t.capacity {
                let e = *t.entry(i);
                if e.addr != 0 {
                    visit(e.bytes, e.word);
                }
            }
        });
    }
}

/// What page_ext takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageExtUsage {
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Objects that found no place.
    pub lost_objs: u64,
    /// Their requested bytes.
    pub lost_bytes: u64,
    /// Changes whenever an entry does.
    pub version: u64,
}

/// What page_ext takes.
pub(crate) fn usage() -> PageExtUsage {
    let mut sum = PageExtUsage::default();
    for shard in &TABLES {
        shard.with(|t| {
            sum.table_bytes += map_bytes(t.capacity) as u64;
            sum.lost_objs += t.lost_objs;
            sum.lost_bytes += t.lost_bytes;
            sum.version += t.version;
        });
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn table() -> Table {
        Table {
            entries: ptr::null_mut(),
            capacity: 0,
            len: 0,
            lost_objs: 0,
            lost_bytes: 0,
            version: 0,
        }
    }

    #[test]
    fn random_inserts_and_removes_agree_with_a_map() {
        let mut t = table();
        let mut map = HashMap::new();
        let mut seed = 7_u64;
        let mut next = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize
        };
        for round in 0..200_000_u32 {
            let grow = (round / 20_000) % 2 == 0;
            let addr = (1 + next() % 5_000) * 4096;
            if grow && !map.contains_key(&addr) {
                t.insert(Entry {
                    addr,
                    bytes: addr / 2,
                    word: round,
                });
                map.insert(addr, round);
            } else if let Some(word) = map.remove(&addr) {
                assert_eq!(t.remove(addr, addr / 2).word, word);
            }
            assert_eq!(t.len, map.len());
            let full = t.capacity * 7 / 8;
            assert!(t.len <= full && (t.capacity <= MIN_CAPACITY || t.len * 8 >= t.capacity * 3));
        }
        for (&addr, &word) in &map {
            let i = t.find(addr).unwrap();
            assert_eq!(t.entry(i).word, word);
        }
        for addr in map.keys().copied().collect::<Vec<_>>() {
            t.remove(addr, addr / 2);
        }
        assert_eq!((t.len, t.capacity), (0, MIN_CAPACITY));
    }

    #[test]
    fn a_free_of_a_lost_object_takes_it_off_the_count() {
        let mut t = table();
        t.lost_objs = 1;
        t.lost_bytes = 4096;
        assert_eq!(t.remove(8192, 4096).word, UNTRACKED);
        assert_eq!((t.lost_objs, t.lost_bytes), (0, 0));
    }
}
