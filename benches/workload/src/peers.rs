//! What the peers need to do their work: a profiler that runs, a tracker, a look at whether they are at it.

pub(crate) use imp::Peer;

#[cfg(allocator = "dhat")]
mod imp {
    /// dhat's heap profiler, from here to its drop. It keeps its result to itself: no file is written.
    #[derive(Debug)]
    pub(crate) struct Peer {
        _profiler: dhat::Profiler,
    }

    impl Peer {
        pub(crate) fn start() -> Result<Self, String> {
            Ok(Self {
                _profiler: dhat::Profiler::builder().testing().build(),
            })
        }

        pub(crate) fn confirm(&self) -> Result<(), String> {
            match dhat::HeapStats::get().total_blocks {
                0 => Err("dhat has seen no block".to_owned()),
                _ => Ok(()),
            }
        }
    }
}

#[cfg(allocator = "jemalloc-profiling")]
mod imp {
    use tikv_jemalloc_ctl::{Access, AsName};

    /// jemalloc's profiler, which runs from the start.
    #[derive(Debug)]
    pub(crate) struct Peer;

    impl Peer {
        pub(crate) fn start() -> Result<Self, String> {
            Ok(Self)
        }

        pub(crate) fn confirm(&self) -> Result<(), String> {
            match b"prof.active\0"[..].name().read() {
                Ok(true) => Ok(()),
                Ok(false) => Err("jemalloc's profiler is not active".to_owned()),
                Err(error) => Err(format!("jemalloc's prof.active: {error}")),
            }
        }
    }
}

#[cfg(allocator = "tracking")]
mod imp {
    use std::sync::atomic::{AtomicI64, Ordering};
    use tracking_allocator::{
        AllocationGroupId, AllocationGroupToken, AllocationGuard, AllocationRegistry,
        AllocationTracker,
    };

    /// Live bytes by group. Threads that entered none are in the root group.
    static LIVE_BYTES: [AtomicI64; 8] = [const { AtomicI64::new(0) }; 8];

    struct LiveBytes;

    fn of(group: &AllocationGroupId) -> &'static AtomicI64 {
        let last = LIVE_BYTES.len() - 1;
        &LIVE_BYTES[group.as_usize().get().min(last)]
    }

    impl AllocationTracker for LiveBytes {
        fn allocated(&self, _: usize, bytes: usize, _: usize, group: AllocationGroupId) {
            of(&group).fetch_add(bytes as i64, Ordering::Relaxed);
        }

        fn deallocated(
            &self,
            _: usize,
            bytes: usize,
            _: usize,
            source: AllocationGroupId,
            _: AllocationGroupId,
        ) {
            of(&source).fetch_sub(bytes as i64, Ordering::Relaxed);
        }
    }

    /// Tracking that is on, the main thread in a group of its own.
    pub(crate) struct Peer {
        group: AllocationGroupId,
        _guard: AllocationGuard<'static>,
    }

    impl Peer {
        pub(crate) fn start() -> Result<Self, String> {
            AllocationRegistry::set_global_tracker(LiveBytes)
                .map_err(|error| format!("the tracker: {error}"))?;
            AllocationRegistry::enable_tracking();
            let token = AllocationGroupToken::register().ok_or("no allocation group is left")?;
            // The guard borrows it, to the end of the program.
            let token = Box::leak(Box::new(token));
            Ok(Self {
                group: token.id(),
                _guard: token.enter(),
            })
        }

        pub(crate) fn confirm(&self) -> Result<(), String> {
            let held = Box::new([1_u8; 1000]);
            let with = of(&self.group).load(Ordering::Relaxed);
            drop(std::hint::black_box(held));
            match with - of(&self.group).load(Ordering::Relaxed) {
                1000 => Ok(()),
                other => Err(format!("1000 bytes were tracked as {other}")),
            }
        }
    }
}

#[cfg(not(any(
    allocator = "dhat",
    allocator = "jemalloc-profiling",
    allocator = "tracking"
)))]
mod imp {
    /// Nothing: the allocator works by itself.
    #[derive(Debug)]
    pub(crate) struct Peer;

    impl Peer {
        /// # Errors
        ///
        /// If what the allocator needs cannot be started.
        pub(crate) fn start() -> Result<Self, String> {
            Ok(Self)
        }

        /// # Errors
        ///
        /// If it is not doing what it is measured for.
        pub(crate) fn confirm(&self) -> Result<(), String> {
            Ok(())
        }
    }
}
