//! The larger workloads: programs in small, of which each allocates as its kind does.
//!
//! Every function that allocates for a reason of its own is tagged.

mod documents;
mod hackbench;
mod larson;
mod server;
mod trees;
mod words;

pub(crate) use hackbench::Hackbench;

use crate::confirm::at_peak;
use crate::samples::Lane;
use crate::scale::Scale;

/// What a workload is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    /// In so many runs operations are timed.
    pub(crate) timed_runs: u32,
}

impl Setup {
    fn is_timed(&self) -> bool {
        self.timed_runs > 0
    }

    /// Room for `samples` in each timed run.
    fn lane(&self, samples: usize) -> Result<Lane, String> {
        if self.is_timed() {
            Lane::new(samples * self.timed_runs as usize)
        } else {
            Ok(Lane::off())
        }
    }

    fn lanes(&self, count: usize, samples: usize) -> Result<Vec<Lane>, String> {
        (0..count).map(|_| self.lane(samples)).collect()
    }
}

/// What a run has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Operations in the run.
    pub(crate) ops: u64,
    /// The checksum of its result.
    pub(crate) check: u64,
}

/// A workload whose input is ready. Each run does the same.
pub(crate) trait Larger {
    /// What is measured. Calls [`at_peak`] where most is alive.
    fn run(&mut self);

    /// What the last run has come to.
    ///
    /// # Errors
    ///
    /// One sentence, if that is not what it must be.
    fn outcome(&self) -> Result<Outcome, String>;

    /// The samples of all runs.
    fn lanes(&self) -> &[Lane];
}

/// Makes a workload's input. Not measured.
pub(crate) type Make = fn(Setup) -> Result<Box<dyn Larger>, String>;

/// A workload's name, what one of its operations is, and the workload itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// How often it is run where the patterns have their usual repeats: in its full size for about a second, in the
    /// quick one for a third of that.
    pub(crate) runs: Runs,
    pub(crate) make: Make,
}

/// Runs by scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    pub(crate) full: u32,
    pub(crate) quick: u32,
}

pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "larger.json",
        unit: "one element of the document's top level: parsed, walked, modified, serialised and dropped; \
               sampled in batches of 50",
        runs: Runs { full: 7, quick: 30 },
        make: |setup| Ok(Box::new(documents::Documents::new(setup)?)),
    },
    Kind {
        name: "larger.syn",
        unit: "one file: parsed, its names counted, dropped",
        runs: Runs {
            full: 20,
            quick: 30,
        },
        make: |setup| Ok(Box::new(trees::Trees::new(setup)?)),
    },
    Kind {
        name: "larger.words",
        unit: "one file: its words counted, and merged into the index",
        runs: Runs {
            full: 20,
            quick: 40,
        },
        make: |setup| Ok(Box::new(words::Words::new(setup)?)),
    },
    Kind {
        name: "larger.hackbench",
        unit: "one message: allocated, sent, received and freed; one in 64 is sampled",
        runs: Runs { full: 6, quick: 10 },
        make: |setup| Ok(Box::new(Hackbench::new(setup)?)),
    },
    Kind {
        name: "larger.larson",
        unit: "one object replaced; sampled in batches of 1,000",
        runs: Runs {
            full: 15,
            quick: 12,
        },
        make: |setup| Ok(Box::new(larson::Larson::new(setup)?)),
    },
    Kind {
        name: "larger.async",
        unit: "one request: sent, answered, and the answer read",
        runs: Runs {
            full: 30,
            quick: 40,
        },
        make: |setup| Ok(Box::new(server::Server::new(setup)?)),
    },
];

/// The result that a check wants, or a sentence.
fn expect<T: PartialEq + std::fmt::Display>(what: &str, found: T, due: T) -> Result<(), String> {
    if found == due {
        Ok(())
    } else {
        Err(format!("{what}: {found} where {due} are due"))
    }
}
