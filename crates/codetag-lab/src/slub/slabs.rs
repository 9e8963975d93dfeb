//! The slabs of all caches, and lists of them.

use crate::model::Obj;
use crate::page::Pfn;

/// No slab.
pub(super) const NONE: u32 = u32::MAX;

/// Where a slab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A CPU allocates from it.
    Cpu(u16),
    /// On a CPU's partial list.
    CpuPartial,
    /// On the node's partial list.
    NodePartial,
    /// On no list: full.
    Full,
}

/// One slab. Objects on a CPU's own freelist are not among `free_objs`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slab {
    pub(super) pfn: Pfn,
    pub(super) cache: u32,
    pub(super) objs: u32,
    /// Objects on the slab's freelist.
    pub(super) free_objs: u32,
    pub(super) order: u8,
    pub(super) place: Place,
    pub(super) next: u32,
    pub(super) prev: u32,
    /// Slabs of the CPU partial list from here on, and free objects as they were estimated when
    /// each was added: what the kernel keeps in the first slab of the list.
    pub(super) list_slabs: u32,
    pub(super) list_objs: u32,
    /// Its vector of tag refs.
    pub(super) vector: Option<Obj>,
}

impl Slab {
    /// Objects that are not free in the slab: live, or on the freelist of its CPU.
    pub(super) fn inuse(&self) -> u32 {
        self.objs - self.free_objs
    }
}

/// Slabs by number; numbers of those that are gone are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Slabs {
    all: Vec<Slab>,
    unused: Vec<u32>,
}

impl Slabs {
    pub(super) fn add(&mut self, slab: Slab) -> u32 {
        if let Some(id) = self.unused.pop() {
            self.all[id as usize] = slab;
            return id;
        }
        self.all.push(slab);
        self.all.len() as u32 - 1
    }

    pub(super) fn remove(&mut self, id: u32) -> Slab {
        self.unused.push(id);
        self.all[id as usize]
    }
}

impl std::ops::Index<u32> for Slabs {
    type Output = Slab;

    fn index(&self, id: u32) -> &Slab {
        &self.all[id as usize]
    }
}

impl std::ops::IndexMut<u32> for Slabs {
    fn index_mut(&mut self, id: u32) -> &mut Slab {
        &mut self.all[id as usize]
    }
}

/// A node's partial list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: u32,
    tail: u32,
    pub(super) len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        len: 0,
    };

    pub(super) fn push_head(&mut self, slabs: &mut Slabs, id: u32) {
        slabs[id].prev = NONE;
        slabs[id].next = self.head;
        match self.head {
            NONE => self.tail = id,
            head => slabs[head].prev = id,
        }
        self.head = id;
        self.len += 1;
        slabs[id].place = Place::NodePartial;
    }

    pub(super) fn push_tail(&mut self, slabs: &mut Slabs, id: u32) {
        slabs[id].next = NONE;
        slabs[id].prev = self.tail;
        match self.tail {
            NONE => self.head = id,
            tail => slabs[tail].next = id,
        }
        self.tail = id;
        self.len += 1;
        slabs[id].place = Place::NodePartial;
    }

    /// Takes `id` off; the caller says where it goes.
    pub(super) fn unlink(&mut self, slabs: &mut Slabs, id: u32) {
        let Slab { next, prev, .. } = slabs[id];
        match prev {
            NONE => self.head = next,
            prev => slabs[prev].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => slabs[next].prev = prev,
        }
        self.len -= 1;
        slabs[id].place = Place::Full;
    }

    pub(super) fn ids(self, slabs: &Slabs) -> impl Iterator<Item = u32> + '_ {
        let step = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(step(self.head), move |&id| step(slabs[id].next))
    }
}
