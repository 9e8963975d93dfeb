//! Medians and their intervals. No distribution is assumed.

use std::fmt;

/// A median and the interval that holds the true one with at least 95 %, or the whole range where there
/// are too few values for that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The 50th percentile.
    pub p50: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Of at least one value; `None` for none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        if count == 0 {
            return None;
        }
        let skipped = skipped_at_each_end(count);
        Some(Self {
            p50: f64::midpoint(values[(count - 1) / 2], values[count / 2]),
            low: values[skipped],
            high: values[count - 1 - skipped],
        })
    }

    /// Half the interval's width, in per cent of the median.
    pub fn plus_minus_percent(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.p50 * 100.0
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.p50, self.low, self.high)
    }
}

/// How many of `count` sorted values may be left out at each end so that the rest still spans the median
/// with 95 %: the number of values below the median is binomial(count, 1/2).
fn skipped_at_each_end(count: usize) -> usize {
    let mut chance = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut below = 0.0;
    for skipped in 0..count / 2 {
        below += chance;
        if 2.0 * below > 0.05 {
            return skipped.saturating_sub(1);
        }
        chance *= (count - skipped) as f64 / (skipped + 1) as f64;
    }
    0
}

/// The geometric mean; not a number for no values.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| {
        (sum + value.ln(), count + 1.0)
    });
    f64::exp(sum / count)
}

#[cfg(test)]
mod tests {
    use super::{Interval, geometric_mean, skipped_at_each_end};

    /// From tables of the sign test's critical values at 5 %, two-sided.
    #[test]
    fn ranks_are_those_of_the_sign_test() {
        for (count, skipped) in [
            (1, 0),
            (5, 0),
            (6, 0),
            (8, 0),
            (9, 1),
            (12, 2),
            (20, 5),
            (25, 7),
            (41, 13),
        ] {
            assert_eq!(skipped_at_each_end(count), skipped, "{count}");
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        let interval = Interval::of([4.0, 1.0, 2.0, 3.0]).expect("values");
        assert_eq!((interval.p50, interval.low, interval.high), (2.5, 1.0, 4.0));
        assert_eq!(Interval::of([]), None);
    }

    #[test]
    fn the_mean_of_ratios_is_geometric() {
        assert!((geometric_mean([0.5, 2.0, 1.0]) - 1.0).abs() < 1e-12);
    }
}
