//! How much of each larger workload is run.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// About 400 million instructions in one run, of `larger.json` twice that.
    Full,
    /// 50 to 100 million instructions in one run.
    Quick,
    /// For tests of builds that are not optimised.
    #[cfg(test)]
    Tiny,
}

impl Scale {
    /// A count of things in a workload, by its count in the full and in the quick one.
    pub(crate) fn of(self, full: usize, quick: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => quick,
            #[cfg(test)]
            Self::Tiny => (quick / 50).max(2),
        }
    }
}
