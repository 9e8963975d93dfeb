//! Turning the sites on and off while threads run.
//!
//! `enable()`: announce; barrier; free and realloc sites; barrier; clear every vector; barrier; alloc
//! sites; barrier; self-test. `disable()`: alloc sites; barrier; free and realloc sites. Every other order
//! leaves tag refs of objects that are gone, or takes away those of objects that live. (The first
//! barrier only asks whether there is one: nothing has been touched yet.)

use super::{Atomics, Word32};
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// What the switch can flip, and the passes between the flips.
pub trait Sites {
    /// Why a flip failed.
    type Error;
    /// Flips the sites of allocation.
    ///
    /// # Errors
    ///
    /// The sites stay as they were.
    fn set_alloc(&self, on: bool) -> Result<(), Self::Error>;
    /// Flips the sites of free and of realloc.
    ///
    /// # Errors
    ///
    /// The sites stay as they were.
    fn set_free(&self, on: bool) -> Result<(), Self::Error>;
    /// Makes every running thread pass a full barrier; false if the system has none.
    fn barrier(&self) -> bool;
    /// Clears every tag ref there is.
    fn clear(&self);
    /// Allocates, looks for the ref, frees, looks again.
    fn works(&self) -> bool;
}

/// Why [`Toggle::enable`] left everything off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToggleError<E> {
    /// A site could not be flipped.
    Site(E),
    /// There is no barrier over all threads.
    NoBarrier,
    /// The self-test failed.
    NoEffect,
}

const OFF: u32 = 0;
const CHANGING: u32 = 1;
const ON: u32 = 2;

/// The state of the switch. Changes are serialised by the caller.
pub struct Toggle<A: Atomics> {
    state: A::U32,
}

impl<A: Atomics> fmt::Debug for Toggle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toggle")
            .field("state", &self.state)
            .finish()
    }
}

impl<A: Atomics> Toggle<A> {
    /// Off, over a word that is 0.
    pub const fn from_word(state: A::U32) -> Self {
        Self { state }
    }

    /// Whether the last change ended in On.
    pub fn is_on(&self) -> bool {
        self.state.load(Acquire) == ON
    }

    /// Whether a slab that has just become visible must clear its vector. To be asked after the
    /// slab is visible: either this sees the announcement, or the clearing pass sees the slab.
    pub fn must_clear(&self) -> bool {
        A::fence_seq_cst();
        self.state.load(Relaxed) != OFF
    }

    /// On from the first allocation, before any other thread can be served.
    ///
    /// # Errors
    ///
    /// A site could not be flipped; all are off again.
    pub fn start_on<S: Sites>(&self, sites: &S) -> Result<(), ToggleError<S::Error>> {
        self.state.store(CHANGING, SeqCst);
        let flipped = sites.set_free(true).and_then(|()| sites.set_alloc(true));
        if let Err(e) = flipped {
            self.undo(sites);
            return Err(ToggleError::Site(e));
        }
        self.state.store(ON, SeqCst);
        Ok(())
    }

    /// Off to On. Nothing to do when On.
    ///
    /// # Errors
    ///
    /// Everything is off again.
    pub fn enable<S: Sites>(&self, sites: &S) -> Result<(), ToggleError<S::Error>> {
        if self.is_on() {
            return Ok(());
        }
        let outcome = self.try_enable(sites);
        match outcome {
            Ok(()) => self.state.store(ON, SeqCst),
            Err(_) => self.undo(sites),
        }
        outcome
    }

    fn try_enable<S: Sites>(&self, sites: &S) -> Result<(), ToggleError<S::Error>> {
        self.state.store(CHANGING, SeqCst);
        A::fence_seq_cst();
        if !sites.barrier() {
            return Err(ToggleError::NoBarrier);
        }
        sites.set_free(true).map_err(ToggleError::Site)?;
        if !sites.barrier() {
            return Err(ToggleError::NoBarrier);
        }
        sites.clear();
        // A thread that sees the flip must not see, after it has stored a ref, that ref cleared.
        if !sites.barrier() {
            return Err(ToggleError::NoBarrier);
        }
        sites.set_alloc(true).map_err(ToggleError::Site)?;
        if !sites.barrier() {
            return Err(ToggleError::NoBarrier);
        }
        if sites.works() {
            Ok(())
        } else {
            Err(ToggleError::NoEffect)
        }
    }

    /// On to Off. Nothing to do when Off.
    ///
    /// # Errors
    ///
    /// A site could not be flipped. If it was one of allocation, everything is as before; sites of
    /// free that stay on cost time and spoil nothing.
    pub fn disable<S: Sites>(&self, sites: &S) -> Result<(), ToggleError<S::Error>> {
        if !self.is_on() {
            return Ok(());
        }
        sites.set_alloc(false).map_err(ToggleError::Site)?;
        self.state.store(CHANGING, SeqCst);
        let waited = sites.barrier();
        let freed = if waited {
            sites.set_free(false)
        } else {
            Ok(())
        };
        self.state.store(OFF, SeqCst);
        freed.map_err(ToggleError::Site)
    }

    /// Back to Off from the middle of a change.
    fn undo<S: Sites>(&self, sites: &S) {
        if sites.set_alloc(false).is_ok() {
            // Without a barrier a thread may store one more ref; the next clearing pass takes it.
            // Sites that stay on clear refs that are clear.
            sites.barrier();
            let _ = sites.set_free(false);
        }
        self.state.store(OFF, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Std;
    use core::cell::{Cell, RefCell};
    use core::sync::atomic::AtomicU32;

    /// Sites that note what is done to them.
    struct Noted {
        steps: RefCell<Vec<&'static str>>,
        barriers_left: Cell<u32>,
        works: bool,
    }

    impl Noted {
        fn new(barriers: u32, works: bool) -> Self {
            Self {
                steps: RefCell::default(),
                barriers_left: Cell::new(barriers),
                works,
            }
        }

        fn note(&self, step: &'static str) {
            self.steps.borrow_mut().push(step);
        }

        fn taken(&self) -> String {
            self.steps.take().join(", ")
        }
    }

    impl Sites for Noted {
        type Error = ();

        fn set_alloc(&self, on: bool) -> Result<(), ()> {
            self.note(if on { "alloc on" } else { "alloc off" });
            Ok(())
        }

        fn set_free(&self, on: bool) -> Result<(), ()> {
            self.note(if on { "free on" } else { "free off" });
            Ok(())
        }

        fn barrier(&self) -> bool {
            self.note("barrier");
            let left = self.barriers_left.get();
            self.barriers_left.set(left.saturating_sub(1));
            left > 0
        }

        fn clear(&self) {
            self.note("clear");
        }

        fn works(&self) -> bool {
            self.note("test");
            self.works
        }
    }

    fn toggle() -> Toggle<Std> {
        Toggle::from_word(AtomicU32::new(0))
    }

    #[test]
    fn the_order_of_steps_is_the_protocols() {
        let (toggle, sites) = (toggle(), Noted::new(u32::MAX, true));
        assert!(!toggle.must_clear());
        assert_eq!(toggle.enable(&sites), Ok(()));
        assert_eq!(
            sites.taken(),
            "barrier, free on, barrier, clear, barrier, alloc on, barrier, test"
        );
        assert!(toggle.is_on() && toggle.must_clear());
        assert_eq!(toggle.enable(&sites), Ok(()));
        assert_eq!(sites.taken(), "");
        assert_eq!(toggle.disable(&sites), Ok(()));
        assert_eq!(sites.taken(), "alloc off, barrier, free off");
        assert!(!toggle.is_on() && !toggle.must_clear());
        assert_eq!(toggle.disable(&sites), Ok(()));
        assert_eq!(sites.taken(), "");
    }

    #[test]
    fn a_failed_self_test_undoes_everything() {
        let (toggle, sites) = (toggle(), Noted::new(u32::MAX, false));
        assert_eq!(toggle.enable(&sites), Err(ToggleError::NoEffect));
        assert_eq!(
            sites.taken(),
            "barrier, free on, barrier, clear, barrier, alloc on, barrier, test, alloc off, barrier, free off"
        );
        assert!(!toggle.is_on() && !toggle.must_clear());
    }

    #[test]
    fn without_a_barrier_no_allocation_is_marked() {
        let (toggle, sites) = (toggle(), Noted::new(0, true));
        assert_eq!(toggle.enable(&sites), Err(ToggleError::NoBarrier));
        assert_eq!(sites.taken(), "barrier, alloc off, barrier, free off");
        assert!(!toggle.is_on());
        // Chosen at the start it works, and is turned off with the frees still watched.
        assert_eq!(toggle.start_on(&sites), Ok(()));
        assert_eq!(sites.taken(), "free on, alloc on");
        assert_eq!(toggle.disable(&sites), Ok(()));
        assert_eq!(sites.taken(), "alloc off, barrier");
    }
}
