//! The switch as a flag: an atomic load and a branch a site.
//!
//! # Safety model
//!
//! No unsafe code.

use super::Kind;

pub(crate) use super::{alloc_on as alloc_site, free_on as free_site};

/// None: a flag can always be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Error {}

impl Error {
    /// The system's error number.
    pub(crate) fn number(self) -> i32 {
        match self {}
    }
}

/// Nothing beside the flags.
pub(super) fn flip(_kind: Kind, _on: bool) -> Result<(), Error> {
    Ok(())
}
