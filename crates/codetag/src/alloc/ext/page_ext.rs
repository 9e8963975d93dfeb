//! The side table of large objects: address, requested bytes and id word of each that is tracked.
//!
//! Four tables by address, each with a lock of its own, open addressing with linear probing and no
//! tombstones; at most seven eighths full, at least three eighths when larger than the smallest,
//! so that an entry of 24 bytes takes at most 64. The tables are mapped beside every allocator.
//!
//! Only tracked objects have an entry: while profiling is off the tables are empty, and a free asks
//! no more than that (but for a realloc on its way through a change). What is live without an entry is known from the counts at the calls of the
//! inner allocator. An object for which the system has no memory is missed: it counts as untracked.
//!
//! # Safety model
//!
//! A table is reached under its lock only, and is as long as `capacity` says.

use super::super::fork;
use super::{Owner, counters};
use crate::protocol::SpinLock;
use crate::sys;
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

const SHARDS: usize = 4;
const MIN_CAPACITY: usize = 128;

/// Odd during a clearing pass, and another one after it: an owner that was taken out before or during
/// a pass is nobody's after it.
static EPOCH: AtomicU32 = AtomicU32::new(0);

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
    missed_objs: u64,
    version: u64,
}

struct Shard {
    lock: SpinLock,
    /// Entries, for a look without the lock: an object's entry is there before its address is known
    /// to anyone who might free it.
    len: AtomicUsize,
    table: UnsafeCell<Table>,
}

// SAFETY: the table is reached under the lock only.
unsafe impl Sync for Shard {}

impl Shard {
    const fn new() -> Self {
        Self {
            lock: SpinLock::new(),
            len: AtomicUsize::new(0),
            table: UnsafeCell::new(Table::new()),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        let _guard = self.lock.lock();
        // SAFETY: the lock is held, and `f` cannot reach the shard again.
        let table = unsafe { &mut *self.table.get() };
        let r = f(table);
        self.len.store(table.len, Relaxed);
        r
    }
}

static TABLES: [Shard; SHARDS] = [const { Shard::new() }; SHARDS];

/// Spreads addresses: large objects differ in their upper bits.
fn hash(addr: usize) -> usize {
    (addr >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn shard(hash: usize) -> &'static Shard {
    &TABLES[hash % SHARDS]
}

fn map_bytes(capacity: usize) -> usize {
    (capacity * size_of::<Entry>()).next_multiple_of(sys::PAGE_BYTES)
}

impl Table {
    const fn new() -> Self {
        Self {
            entries: ptr::null_mut(),
            capacity: 0,
            len: 0,
            missed_objs: 0,
            version: 0,
        }
    }

    /// The slot where the probing for a hash begins.
    fn home(&self, hash: usize) -> usize {
        (hash / SHARDS) & (self.capacity - 1)
    }

    fn after(&self, i: usize) -> usize {
        (i + 1) & (self.capacity - 1)
    }

    fn entry(&mut self, i: usize) -> &mut Entry {
        // SAFETY: indices are below the capacity, and zeroed entries are valid.
        unsafe { &mut *self.entries.add(i) }
    }

    fn find(&mut self, hash: usize, addr: usize) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut i = self.home(hash);
        loop {
            match self.entry(i).addr {
                0 => return None,
                a if a == addr => return Some(i),
                _ => i = self.after(i),
            }
        }
    }

    fn place(&mut self, hash: usize, new: Entry) {
        let mut i = self.home(hash);
        while self.entry(i).addr != 0 {
            i = self.after(i);
        }
        *self.entry(i) = new;
        self.len += 1;
    }

    /// Moves to a table of another size; false if the system has no memory for it.
    #[cold]
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
                self.place(hash(e.addr), e);
            }
        }
        Self::unmap(old, old_capacity);
        true
    }

    /// Gives a table's memory back; nobody reaches it any more.
    fn unmap(entries: *mut Entry, capacity: usize) {
        if !entries.is_null() {
            // SAFETY: the mapping of a table of that capacity, which the caller has let go of.
            unsafe { sys::unmap(entries.cast(), map_bytes(capacity)) };
        }
    }

    fn insert(&mut self, hash: usize, new: Entry) {
        self.version += 1;
        if (self.len + 1) * 8 > self.capacity * 7 {
            let larger = (self.capacity * 2).max(MIN_CAPACITY);
            // Up to the last free entry the old table will do.
            if !self.resize(larger) && self.len + 1 >= self.capacity {
                self.missed_objs += 1;
                return;
            }
        }
        self.place(hash, new);
        counters::large_came(new.word, new.bytes);
    }

    fn remove(&mut self, hash: usize, addr: usize) -> Option<u32> {
        let mut hole = self.find(hash, addr)?;
        self.version += 1;
        let Entry { word, bytes, .. } = *self.entry(hole);
        counters::large_goes(word, bytes);
        // Close the gap: an entry behind it moves up unless that would put it before its home.
        let mut i = hole;
        loop {
            i = self.after(i);
            let e = *self.entry(i);
            if e.addr == 0 {
                break;
            }
            let home = self.home(self::hash(e.addr));
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
        Some(word)
    }

    fn clear(&mut self) {
        self.version += 1;
        Self::unmap(self.entries, self.capacity);
        (self.entries, self.capacity, self.len) = (ptr::null_mut(), 0, 0);
    }
}

/// Notes a large object of the owner `word`.
pub(crate) fn insert(at: *mut u8, bytes: usize, word: u32) {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    shard(hash).with(|t| t.insert(hash, Entry { addr, bytes, word }));
}

/// Notes a large object again, unless all owners were cleared since `was` was taken out. Returns
/// whether it did.
pub(crate) fn put_back(at: *mut u8, bytes: usize, was: Owner) -> bool {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    shard(hash).with(|t| {
        let is_current = was.epoch & 1 == 0 && was.epoch == EPOCH.load(Relaxed);
        if is_current {
            let word = was.word;
            t.insert(hash, Entry { addr, bytes, word });
        }
        is_current
    })
}

/// Takes a large object out; none if it has no entry.
pub(crate) fn remove(at: *mut u8) -> Option<Owner> {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    let shard = shard(hash);
    if shard.len.load(Relaxed) == 0 {
        return None;
    }
    shard.with(|t| {
        let word = t.remove(hash, addr)?;
        let epoch = EPOCH.load(Relaxed);
        Some(Owner { word, epoch })
    })
}

/// The id word of a large object's owner; none if it has no entry.
pub(crate) fn owner(at: *mut u8) -> Option<u32> {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    shard(hash).with(|t| t.find(hash, addr).map(|i| t.entry(i).word))
}

/// Names another owner.
pub(crate) fn set_owner(at: *mut u8, word: u32) {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    shard(hash).with(|t| {
        if let Some(i) = t.find(hash, addr) {
            let e = t.entry(i);
            counters::large_goes(e.word, e.bytes);
            counters::large_came(word, e.bytes);
            e.word = word;
        }
    });
}

/// Makes every large object untracked.
pub(crate) fn clear_all() {
    let next_epoch = || EPOCH.store(EPOCH.load(Relaxed).wrapping_add(1), Relaxed);
    next_epoch();
    for shard in &TABLES {
        shard.with(Table::clear);
    }
    next_epoch();
}

/// Calls `visit` with requested bytes and id word of every entry.
pub(crate) fn for_each(mut visit: impl FnMut(usize, u32)) {
    for shard in &TABLES {
        fork::as_reader(|| {
            shard.with(|t| {
                for i in 0..t.capacity {
                    let e = *t.entry(i);
                    if e.addr != 0 {
                        visit(e.bytes, e.word);
                    }
                }
            });
        });
    }
}

/// What page_ext takes.
pub(crate) fn usage() -> super::PageExtUsage {
    let mut sum = super::PageExtUsage::default();
    for shard in &TABLES {
        fork::as_reader(|| {
            shard.with(|t| {
                sum.table_bytes += map_bytes(t.capacity) as u64;
                sum.missed_objs += t.missed_objs;
                sum.version += t.version;
            });
        });
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn random_inserts_and_removes_agree_with_a_map() {
        let mut t = Table::new();
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
                let bytes = addr / 2;
                t.insert(
                    hash(addr),
                    Entry {
                        addr,
                        bytes,
                        word: round,
                    },
                );
                map.insert(addr, round);
            } else {
                assert_eq!(t.remove(hash(addr), addr), map.remove(&addr));
            }
            assert_eq!(t.len, map.len());
            let full = t.capacity * 7 / 8;
            assert!(t.len <= full && (t.capacity <= MIN_CAPACITY || t.len * 8 >= t.capacity * 3));
        }
        for (&addr, &word) in &map {
            let i = t.find(hash(addr), addr).unwrap();
            assert_eq!(t.entry(i).word, word);
        }
        for addr in map.keys().copied().collect::<Vec<_>>() {
            t.remove(hash(addr), addr);
        }
        assert_eq!((t.len, t.capacity), (0, MIN_CAPACITY));
        t.clear();
        assert_eq!(t.remove(hash(4096), 4096), None);
    }
}
