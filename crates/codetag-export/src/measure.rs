//! Which of an owner's figures is meant.

use crate::profile::Usage;

/// One figure of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Requested bytes where they are known, else slot bytes.
    #[default]
    Bytes,
    /// Bytes that the objects really take.
    Slot,
    /// Live objects.
    Objects,
}

impl Measure {
    /// The figure of `usage`.
    #[must_use]
    pub fn of(self, usage: &Usage) -> i128 {
        match self {
            Self::Bytes => usage.bytes().into(),
            Self::Slot => usage.slot_bytes.into(),
            Self::Objects => usage.live_objs.into(),
        }
    }

    /// `bytes` or `objects`.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Bytes | Self::Slot => "bytes",
            Self::Objects => "objects",
        }
    }
}

/// Sums of figures: wider than any one of them, so that no input makes them overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Requested bytes where they are known, else slot bytes.
    pub bytes: i128,
    /// Bytes that the objects really take.
    pub slot_bytes: i128,
    /// Live objects.
    pub live_objs: i128,
}

impl Sums {
    /// The sum that `measure` means.
    #[must_use]
    pub fn get(&self, measure: Measure) -> i128 {
        match measure {
            Measure::Bytes => self.bytes,
            Measure::Slot => self.slot_bytes,
            Measure::Objects => self.live_objs,
        }
    }

    /// Whether all are zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// These less `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes - other.bytes,
            slot_bytes: self.slot_bytes - other.slot_bytes,
            live_objs: self.live_objs - other.live_objs,
        }
    }
}

impl From<&Usage> for Sums {
    fn from(usage: &Usage) -> Self {
        Self {
            bytes: usage.bytes().into(),
            slot_bytes: usage.slot_bytes.into(),
            live_objs: usage.live_objs.into(),
        }
    }
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.slot_bytes += other.slot_bytes;
        self.live_objs += other.live_objs;
    }
}

impl std::iter::Sum for Sums {
    fn sum<I: Iterator<Item = Self>>(sums: I) -> Self {
        sums.fold(Self::default(), |mut sum, item| {
            sum += item;
            sum
        })
    }
}
