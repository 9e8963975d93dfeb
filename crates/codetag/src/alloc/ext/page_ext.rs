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
use crate::protocol::{Guard, SpinLock};
use crate::sys;
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

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
    /// Entries that there is room for less one; 0 without a table.
    mask: usize,
    /// 64 less the binary logarithm of the capacity.
    shift: u32,
    /// With so many entries the table grows before the next.
    grow_at: usize,
    /// With fewer it shrinks.
    shrink_at: usize,
    missed_objs: u64,
    version: u64,
}

/// On lines of its own: threads that allocate at once want different ones.
#[repr(align(128))]
struct Shard {
    lock: SpinLock,
    /// Entries. Written under the lock; for a look without it: an object's entry is there before its address is
    /// known to anyone who might free it.
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

    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut Table, &mut usize) -> R) -> R {
        self.with_lock(self.lock.lock(), f)
    }

    /// The same if nobody has the lock; false if somebody does, or `f` says so.
    #[inline(always)]
    fn try_with(&self, f: impl FnOnce(&mut Table, &mut usize) -> bool) -> bool {
        match self.lock.try_lock() {
            Some(guard) => self.with_lock(guard, f),
            None => false,
        }
    }

    #[inline(always)]
    fn with_lock<R>(&self, _guard: Guard<'_>, f: impl FnOnce(&mut Table, &mut usize) -> R) -> R {
        // SAFETY: the lock is held, and `f` cannot reach the shard again.
        let table = unsafe { &mut *self.table.get() };
        let mut len = self.len.load(Relaxed);
        let r = f(table, &mut len);
        self.len.store(len, Relaxed);
        r
    }
}

static TABLES: [Shard; SHARDS] = [const { Shard::new() }; SHARDS];

/// Whether anything was ever tracked: until then a free asks no more.
static USED: AtomicBool = AtomicBool::new(false);

/// Before the first site is on.
pub(crate) fn begin() {
    USED.store(true, Relaxed);
}

/// Whether there may be entries.
#[inline(always)]
pub(crate) fn is_used() -> bool {
    // An entry is made by who saw a site on, and found by who got the object from there.
    USED.load(Relaxed)
}

/// Spreads addresses over the upper bits: large objects differ in their upper bits.
#[inline(always)]
fn hash(addr: usize) -> u64 {
    (addr as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// By the upmost bits; those below them say where in the table.
#[inline(always)]
fn shard(hash: u64) -> &'static Shard {
    &TABLES[(hash >> (u64::BITS - SHARDS.ilog2())) as usize % SHARDS]
}

fn map_bytes(capacity: usize) -> usize {
    (capacity * size_of::<Entry>()).next_multiple_of(sys::PAGE_BYTES)
}

impl Table {
    const fn new() -> Self {
        Self {
            entries: ptr::null_mut(),
            mask: 0,
            shift: u64::BITS,
            grow_at: 0,
            shrink_at: 0,
            missed_objs: 0,
            version: 0,
        }
    }

    /// The same, with a table of `capacity` entries, a power of two.
    fn with_entries(&self, entries: *mut Entry, capacity: usize) -> Self {
        Self {
            entries,
            mask: capacity - 1,
            shift: u64::BITS - capacity.ilog2(),
            grow_at: capacity / 8 * 7,
            shrink_at: if capacity > MIN_CAPACITY {
                capacity / 8 * 3
            } else {
                0
            },
            ..*self
        }
    }

    fn capacity(&self) -> usize {
        if self.entries.is_null() {
            0
        } else {
            self.mask + 1
        }
    }

    /// The slot where the probing for a hash begins.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (hash << SHARDS.ilog2()).wrapping_shr(self.shift) as usize
    }

    #[inline(always)]
    fn after(&self, i: usize) -> usize {
        (i + 1) & self.mask
    }

    #[inline(always)]
    fn entry(&mut self, i: usize) -> &mut Entry {
        // SAFETY: there is a table, indices are below its capacity, and zeroed entries are valid.
        unsafe { &mut *self.entries.add(i) }
    }

    #[inline(always)]
    fn find(&mut self, len: usize, hash: u64, addr: usize) -> Option<usize> {
        if len == 0 {
            return None;
        }
        let mut i = self.home(hash);
        loop {
            match self.entry(i).addr {
                a if a == addr => return Some(i),
                0 => return None,
                _ => i = self.after(i),
            }
        }
    }

    #[inline(always)]
    fn place(&mut self, hash: u64, new: Entry) {
        let mut i = self.home(hash);
        while self.entry(i).addr != 0 {
            i = self.after(i);
        }
        *self.entry(i) = new;
    }

    /// Moves to a table of another size; false if the system has no memory for it.
    #[cold]
    #[inline(never)]
    fn resize(&mut self, capacity: usize) -> bool {
        let at = sys::map_zeroed(map_bytes(capacity)).cast::<Entry>();
        if at.is_null() {
            return false;
        }
        let (old, old_capacity) = (self.entries, self.capacity());
        *self = self.with_entries(at, capacity);
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

    /// Makes room for one more; false if there is none.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize) -> bool {
        let larger = (self.capacity() * 2).max(MIN_CAPACITY);
        // Up to the last free entry the old table will do.
        let has_room = self.resize(larger) || len + 1 < self.capacity();
        self.missed_objs += u64::from(!has_room);
        has_room
    }

    fn insert(&mut self, len: &mut usize, hash: u64, new: Entry) {
        if *len < self.grow_at || self.grow(*len) {
            self.insert_with_room(len, hash, new);
        } else {
            self.version += 1;
        }
    }

    #[inline(always)]
    fn insert_with_room(&mut self, len: &mut usize, hash: u64, new: Entry) {
        self.version += 1;
        self.place(hash, new);
        *len += 1;
        counters::large_came(new.word, new.bytes);
    }

    fn remove(&mut self, len: &mut usize, hash: u64, addr: usize) -> Option<u32> {
        let hole = self.find(*len, hash, addr)?;
        let word = self.entry(hole).word;
        self.empty(len, hole);
        self.close_gap(hole);
        if *len < self.shrink_at {
            // Without memory for the smaller table the larger one stays.
            self.resize(self.capacity() / 2);
        }
        Some(word)
    }

    /// Removes an entry, if there is one, that leaves no gap behind and no table that is too large; false, and
    /// nothing has changed, for another.
    #[inline(always)]
    fn remove_simply(&mut self, len: &mut usize, hash: u64, addr: usize) -> bool {
        let Some(hole) = self.find(*len, hash, addr) else {
            return true;
        };
        let next = self.after(hole);
        let is_simple = self.entry(next).addr == 0 && *len > self.shrink_at;
        if is_simple {
            self.empty(len, hole);
        }
        is_simple
    }

    #[inline(always)]
    fn empty(&mut self, len: &mut usize, hole: usize) {
        self.version += 1;
        let e = self.entry(hole);
        counters::large_goes(e.word, e.bytes);
        e.addr = 0;
        *len -= 1;
    }

    /// An entry behind the hole moves up unless that would put it before its home.
    fn close_gap(&mut self, mut hole: usize) {
        let mut i = hole;
        loop {
            i = self.after(i);
            let e = *self.entry(i);
            if e.addr == 0 {
                return;
            }
            let home = self.home(self::hash(e.addr));
            let distance = |from: usize| i.wrapping_sub(from) & self.mask;
            if distance(home) >= distance(hole) {
                *self.entry(hole) = e;
                self.entry(i).addr = 0;
                hole = i;
            }
        }
    }

    fn clear(&mut self, len: &mut usize) {
        Self::unmap(self.entries, self.capacity());
        *self = Self {
            missed_objs: self.missed_objs,
            version: self.version + 1,
            ..Self::new()
        };
        *len = 0;
    }
}

/// Notes a large object in the usual case, without a call; false if nothing has been noted.
#[inline(always)]
pub(crate) fn try_insert(at: *mut u8, bytes: usize, word: u32) -> bool {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    shard(hash).try_with(|t, len| {
        let has_room = *len < t.grow_at;
        if has_room {
            t.insert_with_room(len, hash, Entry { addr, bytes, word });
        }
        has_room
    })
}

/// Takes a large object out in the usual case, without a call; false if its entry may still be there.
#[inline(always)]
pub(crate) fn try_remove(at: *mut u8) -> bool {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    let shard = shard(hash);
    shard.len.load(Relaxed) == 0 || shard.try_with(|t, len| t.remove_simply(len, hash, addr))
}

/// Notes a large object of the owner `word`.
pub(crate) fn insert(at: *mut u8, bytes: usize, word: u32) {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    shard(hash).with(|t, len| t.insert(len, hash, Entry { addr, bytes, word }));
}

/// Notes a large object again, unless all owners were cleared since `was` was taken out. Returns
/// whether it did.
pub(crate) fn put_back(at: *mut u8, bytes: usize, was: Owner) -> bool {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    shard(hash).with(|t, len| {
        let is_current = was.epoch & 1 == 0 && was.epoch == EPOCH.load(Relaxed);
        if is_current {
            let word = was.word;
            t.insert(len, hash, Entry { addr, bytes, word });
        }
        is_current
    })
}

/// Takes a large object out; none if it has no entry.
pub(crate) fn take(at: *mut u8) -> Option<Owner> {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    let shard = shard(hash);
    if shard.len.load(Relaxed) == 0 {
        return None;
    }
    shard.with(|t, len| {
        let word = t.remove(len, hash, addr)?;
        let epoch = EPOCH.load(Relaxed);
        Some(Owner { word, epoch })
    })
}

/// The id word of a large object's owner; none if it has no entry.
pub(crate) fn owner(at: *mut u8) -> Option<u32> {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    shard(hash).with(|t, len| t.find(*len, hash, addr).map(|i| t.entry(i).word))
}

/// Names another owner.
pub(crate) fn set_owner(at: *mut u8, word: u32) {
    let (addr, hash) = (at.addr(), hash(at.addr()));
    shard(hash).with(|t, len| {
        if let Some(i) = t.find(*len, hash, addr) {
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
            shard.with(|t, _| {
                for i in 0..t.capacity() {
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
            shard.with(|t, _| {
                sum.table_bytes += map_bytes(t.capacity()) as u64;
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
        let (mut t, mut len) = (Table::new(), 0);
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
                    &mut len,
                    hash(addr),
                    Entry {
                        addr,
                        bytes,
                        word: round,
                    },
                );
                map.insert(addr, round);
            } else if round % 3 == 0 && t.remove_simply(&mut len, hash(addr), addr) {
                map.remove(&addr);
            } else {
                assert_eq!(t.remove(&mut len, hash(addr), addr), map.remove(&addr));
            }
            assert_eq!(len, map.len());
            let full = t.capacity() * 7 / 8;
            assert!(len <= full && (t.capacity() <= MIN_CAPACITY || len * 8 >= t.capacity() * 3));
        }
        for (&addr, &word) in &map {
            let i = t.find(len, hash(addr), addr).unwrap();
            assert_eq!(t.entry(i).word, word);
        }
        for addr in map.keys().copied().collect::<Vec<_>>() {
            t.remove(&mut len, hash(addr), addr);
        }
        assert_eq!((len, t.capacity()), (0, MIN_CAPACITY));
        t.clear(&mut len);
        assert_eq!(t.remove(&mut len, hash(4096), 4096), None);
    }
}
