//! The switch with one site of each kind, workers that run into the sites, and slabs whose refs the
//! clearing pass clears: what `alloc/ext/` of the runtime does around [`Toggle`], transcribed.
//!
//! # What stands for membarrier
//!
//! Each step of a worker, be it a site (an instruction that is fetched, or a flag that is read) or an
//! access to a ref, holds the worker's own lock; the barrier takes and drops the lock of each worker in
//! turn. So each worker passes the barrier between two of its steps, at a moment of its own: what it
//! did before is seen by whoever called the barrier, and what the caller did before is seen by its later
//! steps. Workers are ordered against each other by it in the order of their locks only; models run in
//! both. Without the barrier a site is a relaxed load, which may read an old value for as long as
//! nothing else orders it.

use crate::atomics::{Exact, Family, Loom, U32};
use codetag::protocol::{Atomics, Place, Sites, Toggle, Word32};
use core::convert::Infallible;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::Mutex;

/// What is done in a change, beside the barriers and words of [`Toggle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Flip the sites of allocation.
    Alloc,
    /// Flip the sites of free.
    Free,
    /// Flip the sites of realloc.
    Realloc,
    /// Clear every ref.
    Clear,
    /// A barrier more.
    Barrier,
}

/// An order of `enable()`: what is done where [`Toggle::enable`] calls `set_free`, `clear` and
/// `set_alloc`, between which it has its barriers.
pub type Order = [&'static [Step]; 3];

/// The order that ships.
pub const SHIPPED: Order = [&[Step::Free, Step::Realloc], &[Step::Clear], &[Step::Alloc]];

/// How the machine differs from the one that ships.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The order of `enable()`.
    pub order: Order,
    /// Whether the barrier does anything.
    pub has_barrier: bool,
    /// Whether the clearing pass waits for a slab that is being cut.
    pub pass_waits: bool,
    /// Whether who cuts a slab asks for the state before it is visible.
    pub cutter_asks: bool,
    /// Whether it asks again after.
    pub cutter_asks_again: bool,
}

/// What ships.
pub const RIGHT: Build = Build {
    order: SHIPPED,
    has_barrier: true,
    pass_waits: true,
    cutter_asks: true,
    cutter_asks_again: true,
};

/// The id word of the tag under which workers allocate.
pub const TAG: u32 = 7 << 16;

/// A slab of two slots as far as refs go.
#[derive(Debug)]
struct Slab<F> {
    generation: U32<F>,
    place: U32<F>,
    refs: [U32<F>; 2],
}

/// A live object.
#[derive(Clone, Copy, Debug)]
pub struct Obj {
    slab: usize,
    slot: usize,
    bytes: u32,
    /// Whether a site that stores a ref was on when it came by.
    pub was_marked: bool,
}

/// The switch, the workers, two slabs: the first is cut, the second is not; all refs hold an old value.
#[derive(Debug)]
pub struct Machine<F: Family = Exact> {
    toggle: Toggle<Loom<F>>,
    alloc: U32<F>,
    free: U32<F>,
    realloc: U32<F>,
    workers: [Mutex<()>; 2],
    slabs: [Slab<F>; 2],
    build: Build,
}

/// One of the workers.
#[derive(Debug)]
pub struct Worker<'a, F: Family> {
    machine: &'a Machine<F>,
    index: usize,
}

impl<F: Family> Machine<F> {
    /// A machine that is off.
    #[must_use]
    pub fn new(build: Build) -> Self {
        let slab = |place: Place| Slab {
            generation: U32::new(0),
            place: U32::new(place as u32),
            // Of an object that was freed while profiling was off.
            refs: [U32::new(TAG | 99), U32::new(TAG | 99)],
        };
        Self {
            toggle: Toggle::from_word(U32::new(0)),
            alloc: U32::new(0),
            free: U32::new(0),
            realloc: U32::new(0),
            workers: [Mutex::new(()), Mutex::new(())],
            slabs: [slab(Place::Current), slab(Place::Chunk)],
            build,
        }
    }

    /// `enable()`.
    ///
    /// # Panics
    ///
    /// It fails.
    pub fn enable(&self) {
        self.toggle.enable(self).expect("no step fails");
        assert!(self.toggle.is_on());
    }

    /// `disable()`.
    ///
    /// # Panics
    ///
    /// It fails.
    pub fn disable(&self) {
        self.toggle.disable(self).expect("no step fails");
    }

    /// The worker of that index.
    pub fn worker(&self, index: usize) -> Worker<'_, F> {
        Worker {
            machine: self,
            index,
        }
    }

    fn do_steps(&self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Alloc => self.alloc.store(1, Relaxed),
                Step::Free => self.free.store(1, Relaxed),
                Step::Realloc => self.realloc.store(1, Relaxed),
                Step::Clear => self.clear_all(),
                Step::Barrier => assert!(self.barrier()),
            }
        }
    }

    fn begin_change(&self, slab: &Slab<F>) {
        let mut turns = 0;
        loop {
            let g = slab.generation.load(Relaxed);
            let odd = slab
                .generation
                .compare_exchange_weak(g & !1, g | 1, AcqRel, Relaxed);
            if odd.is_ok() {
                return;
            }
            turns += 1;
            Loom::<F>::relax(turns);
        }
    }

    fn end_change(&self, slab: &Slab<F>) {
        let next = slab.generation.load(Relaxed).wrapping_add(1);
        slab.generation.store(next, Release);
    }

    /// `obj_exts::clear_all`.
    fn clear_all(&self) {
        for slab in &self.slabs {
            if !self.build.pass_waits && slab.generation.load(Acquire) & 1 == 1 {
                continue;
            }
            self.begin_change(slab);
            if slab.place.load(Acquire) != Place::Chunk as u32 {
                Self::clear_slab(slab);
            }
            self.end_change(slab);
        }
    }

    fn clear_slab(slab: &Slab<F>) {
        for r in &slab.refs {
            r.store(0, Relaxed);
        }
    }

    /// The refs of a slab. For when all threads are joined.
    pub fn refs(&self, slab: usize) -> [u32; 2] {
        [0, 1].map(|slot| self.slabs[slab].refs[slot].load(Acquire))
    }

    /// Checks an object that lives at the end, with profiling on: its ref is its own or none, and not
    /// none if it `must` have one.
    ///
    /// # Panics
    ///
    /// It is not.
    pub fn check(&self, obj: Obj, must: bool) {
        let found = self.refs(obj.slab)[obj.slot];
        if found == 0 {
            assert!(!must, "a live object lost its tag");
        } else {
            assert_eq!(found & 0xffff, obj.bytes, "an old size is kept");
            assert_eq!(found, TAG | obj.bytes);
        }
    }
}

impl<F: Family> Sites for Machine<F> {
    type Error = Infallible;

    fn set_alloc(&self, on: bool) -> Result<(), Infallible> {
        if on {
            self.do_steps(self.build.order[2]);
        } else {
            self.alloc.store(0, Relaxed);
        }
        Ok(())
    }

    fn set_free(&self, on: bool) -> Result<(), Infallible> {
        if on {
            self.do_steps(self.build.order[0]);
        } else {
            self.free.store(0, Relaxed);
            self.realloc.store(0, Relaxed);
        }
        Ok(())
    }

    fn barrier(&self) -> bool {
        if self.build.has_barrier {
            for worker in &self.workers {
                drop(worker.lock());
            }
        }
        true
    }

    fn clear(&self) {
        self.do_steps(self.build.order[1]);
    }

    // The thread that changes the switch sees its own flips.
    fn works(&self) -> bool {
        true
    }
}

impl<F: Family> Worker<'_, F> {
    fn step<R>(&self, f: impl FnOnce() -> R) -> R {
        let _fetch = self
            .machine
            .build
            .has_barrier
            .then(|| self.machine.workers[self.index].lock());
        f()
    }

    fn is_on(&self, site: &U32<F>) -> bool {
        self.step(|| site.load(Relaxed) != 0)
    }

    fn store(&self, obj: Obj, value: u32) {
        let r = &self.machine.slabs[obj.slab].refs[obj.slot];
        self.step(|| r.store(value, Relaxed));
    }

    /// Allocates in a slot that is this worker's to give.
    #[must_use]
    pub fn alloc(&self, slab: usize, slot: usize, bytes: u32) -> Obj {
        let was_marked = self.is_on(&self.machine.alloc);
        let obj = Obj {
            slab,
            slot,
            bytes,
            was_marked,
        };
        if was_marked {
            self.store(obj, TAG | bytes);
        }
        obj
    }

    /// Frees.
    pub fn free(&self, obj: Obj) {
        if self.is_on(&self.machine.free) {
            self.store(obj, 0);
        }
    }

    /// Reallocates in place, in a scope.
    #[must_use]
    pub fn realloc(&self, obj: Obj, bytes: u32) -> Obj {
        let is_on = self.is_on(&self.machine.realloc);
        let obj = Obj {
            bytes,
            was_marked: obj.was_marked || is_on,
            ..obj
        };
        if is_on {
            self.store(obj, TAG | bytes);
        }
        obj
    }

    /// Reallocates in place while no scope is active: the owner stays. `obj_exts::renew`.
    #[must_use]
    pub fn realloc_unscoped(&self, obj: Obj, bytes: u32) -> Obj {
        if !self.is_on(&self.machine.realloc) {
            return Obj { bytes, ..obj };
        }
        let r = &self.machine.slabs[obj.slab].refs[obj.slot];
        let old = self.step(|| r.load(Relaxed));
        let kept = old & 0xffff_0000 | bytes;
        let swapped = self.step(|| r.compare_exchange_weak(old, kept, Relaxed, Relaxed));
        if swapped.is_err() {
            self.step(|| r.store(bytes, Relaxed));
        }
        Obj {
            bytes,
            was_marked: true,
            ..obj
        }
    }

    /// Cuts the second slab: `chunk::recut`.
    pub fn cut(&self) {
        let (machine, slab) = (self.machine, &self.machine.slabs[1]);
        machine.begin_change(slab);
        slab.place.store(Place::Current as u32, Release);
        let cleared = self.clear_unless_off(slab);
        machine.end_change(slab);
        if !cleared && machine.build.cutter_asks_again && machine.toggle.must_clear() {
            machine.begin_change(slab);
            Machine::clear_slab(slab);
            machine.end_change(slab);
        }
    }

    fn clear_unless_off(&self, slab: &Slab<F>) -> bool {
        let clear = self.machine.build.cutter_asks && self.machine.toggle.must_clear();
        if clear {
            Machine::clear_slab(slab);
        }
        clear
    }
}
