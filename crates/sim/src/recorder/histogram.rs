//! A histogram of times with fixed memory and a relative error under 1 %, like HdrHistogram: buckets of 1 µs up to 64 µs,
//! then 64 buckets per doubling.

use fairhop_model::units::Nanos;

const SUB_BITS: u32 = 6;
const SUB: u64 = 1 << SUB_BITS;
/// Doublings after the first 64 µs: up to 2³² µs, 71 minutes. Longer times fall into the last bucket.
const DOUBLINGS: u32 = 26;
const BUCKETS: usize = (SUB as usize) * (1 + DOUBLINGS as usize);

/// Counts of times by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Histogram {
    /// An empty histogram. It allocates all its memory here.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }

    fn bucket(time: Nanos) -> usize {
        let us = time.0 / 1000;
        if us < SUB {
            return us as usize;
        }
        let shift = us.ilog2() - SUB_BITS;
        let bucket = SUB * (1 + u64::from(shift)) + ((us >> shift) - SUB);
        (bucket as usize).min(BUCKETS - 1)
    }

    /// Bounds of a bucket: the first time in it, and the first one after it.
    fn bounds(bucket: usize) -> (Nanos, Nanos) {
        let (row, column) = (bucket as u64 / SUB, bucket as u64 % SUB);
        if row == 0 {
            return (Nanos::from_micros(column), Nanos::from_micros(column + 1));
        }
        let shift = row - 1;
        (Nanos::from_micros((SUB + column) << shift), Nanos::from_micros((SUB + column + 1) << shift))
    }

    /// Counts a time.
    #[inline]
    pub fn add(&mut self, time: Nanos) {
        if let Some(count) = self.counts.get_mut(Self::bucket(time)) {
            *count += 1;
            self.total += 1;
        }
    }

    /// Number of times counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The `q`-quantile (0 to 1) of the times, as the middle of its bucket. None where nothing was counted.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let rank = ((q * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut below = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            below += u64::from(count);
            if below >= rank && count > 0 {
                let (from, to) = Self::bounds(bucket);
                return Some(Nanos((from.0 + to.0) / 2));
            }
        }
        None
    }

    /// The buckets that are not empty: their bounds as in the table `delays`, and their counts.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, Nanos, u32)> {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, &count)| {
            let (from, to) = Self::bounds(bucket);
            (from, to, count)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_contains_its_time_and_is_at_most_a_64th_wide(us in 0u64..1 << 32) {
            let time = Nanos::from_micros(us);
            let (from, to) = Histogram::bounds(Histogram::bucket(time));
            prop_assert!(from <= time && time < to);
            prop_assert!(to - from <= Nanos::from_micros(1).max(Nanos(time.0 / 64)));
        }
    }

    #[test]
    fn quantiles_of_1_to_1000_ms_are_right_within_1_percent() {
        let mut histogram = Histogram::new();
        for ms in 1..=1000 {
            histogram.add(Nanos::from_millis(ms));
        }
        for (q, expected) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0), (1.0, 1000.0)] {
            let value = histogram.quantile(q).unwrap().as_millis_f64();
            assert!((value / expected - 1.0).abs() < 0.01, "{q}: {value}");
        }
        assert_eq!(Histogram::new().quantile(0.5), None);
    }

    #[test]
    fn a_time_beyond_the_range_falls_into_the_last_bucket() {
        let mut histogram = Histogram::new();
        histogram.add(Nanos::MAX);
        assert_eq!(histogram.total(), 1);
        assert!(histogram.quantile(1.0).is_some());
    }
}
