//! Times of single operations, kept outside the heap that is measured.

use memmap2::MmapOptions;
use std::time::{Duration, Instant};

/// What one thread records: nanoseconds per operation, in a mapping that is there before the measurement.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// `None` where nothing is timed.
    map: Option<memmap2::MmapMut>,
    /// Samples in `map`.
    len: usize,
}

const SAMPLE_BYTES: usize = size_of::<u64>();

impl Lane {
    /// A lane for `capacity` samples; those beyond are dropped.
    ///
    /// # Errors
    ///
    /// If the system has no memory for it.
    pub(crate) fn new(capacity: usize) -> Result<Self, String> {
        MmapOptions::new()
            .len(capacity * SAMPLE_BYTES)
            // No page fault during the measurement.
            .populate()
            .map_anon()
            .map(|map| Self {
                map: Some(map),
                len: 0,
            })
            .map_err(|error| format!("no memory for {capacity} samples: {error}"))
    }

    /// A lane that records nothing and never reads the clock.
    pub(crate) fn off() -> Self {
        Self::default()
    }

    /// The time now, if it is of interest.
    #[inline]
    pub(crate) fn start(&self) -> Option<Instant> {
        self.map.as_ref().map(|_| Instant::now())
    }

    /// Records `ops` operations since `start`.
    #[inline]
    pub(crate) fn stop(&mut self, start: Option<Instant>, ops: u64) {
        if let Some(start) = start {
            self.record(start.elapsed(), ops);
        }
    }

    /// Records `ops` operations that took `time` together, as one sample.
    pub(crate) fn record(&mut self, time: Duration, ops: u64) {
        let at = self.len * SAMPLE_BYTES;
        let slot = self
            .map
            .as_mut()
            .and_then(|map| map.get_mut(at..at + SAMPLE_BYTES));
        if let Some(slot) = slot {
            let ns = time.as_secs_f64() * 1e9 / ops as f64;
            slot.copy_from_slice(&(ns.round() as u64).to_ne_bytes());
            self.len += 1;
        }
    }

    /// All samples, in nanoseconds.
    pub(crate) fn samples(&self) -> impl Iterator<Item = u64> {
        let map = self.map.as_deref().unwrap_or_default();
        let (samples, _) = map.as_chunks::<SAMPLE_BYTES>();
        samples
            .iter()
            .take(self.len)
            .map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::Lane;
    use std::time::Duration;

    #[test]
    fn a_lane_keeps_its_first_samples() {
        let mut lane = Lane::new(2).expect("memory");
        for ns in [300, 500, 700] {
            lane.record(Duration::from_nanos(ns), 100);
        }
        assert_eq!(lane.samples().collect::<Vec<_>>(), [3, 5]);
    }

    #[test]
    fn without_timing_the_clock_is_not_read() {
        let mut lane = Lane::off();
        assert_eq!(lane.start(), None);
        lane.record(Duration::from_nanos(1), 1);
        assert_eq!(lane.samples().count(), 0);
    }
}
