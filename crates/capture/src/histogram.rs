//! Quantiles of times in bounded memory.

use fairhop_model::units::Nanos;

/// Buckets per doubling: the middle of a bucket is at most 0.28 % off.
const PER_OCTAVE: u32 = 128;

/// How much memory a flow may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Quantiles within 0.3 %.
    #[default]
    Full,
    /// Quantiles within 3 %, for captures of very many flows.
    Coarse,
}

/// Times in buckets whose width grows with them. Buckets that are empty take no memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    detail: Detail,
    /// Bucket and number, in ascending order.
    buckets: Vec<(u16, u32)>,
    count: u64,
    sum: f64,
    max: Nanos,
}

/// The bucket of a time in full detail: its magnitude, and the next bits behind its highest one.
fn bucket_of(time: Nanos) -> u16 {
    let value = time.0.max(1);
    let octave = value.ilog2();
    let within = if octave >= 7 { value >> (octave - 7) } else { value << (7 - octave) } as u32 - PER_OCTAVE;
    // 64 octaves of 128 buckets.
    (octave * PER_OCTAVE + within) as u16
}

/// Where a bucket in full detail begins, in nanoseconds.
fn begin(bucket: u32) -> f64 {
    let (octave, within) = (bucket / PER_OCTAVE, bucket % PER_OCTAVE);
    f64::from(PER_OCTAVE + within) * libm::exp2(f64::from(octave)) / f64::from(PER_OCTAVE)
}

impl Detail {
    /// Buckets in full detail that are one.
    const fn shift(self) -> u32 {
        match self {
            Self::Full => 0,
            Self::Coarse => 3,
        }
    }

    fn middle(self, bucket: u16) -> Nanos {
        let (from, to) = (u32::from(bucket) << self.shift(), (u32::from(bucket) + 1) << self.shift());
        Nanos(((begin(from) + begin(to)) / 2.0).floor() as u64)
    }
}

impl Histogram {
    /// A histogram of no time.
    pub fn new(detail: Detail) -> Self {
        Self { detail, ..Self::default() }
    }

    /// Counts a time.
    pub fn add(&mut self, time: Nanos) {
        let bucket = bucket_of(time) >> self.detail.shift();
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(1),
            Err(at) => self.buckets.insert(at, (bucket, 1)),
        }
        self.count += 1;
        self.sum += time.0 as f64;
        self.max = self.max.max(time);
    }

    /// Number of times.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean; none without any.
    pub fn mean(&self) -> Option<Nanos> {
        (self.count > 0).then(|| Nanos((self.sum / self.count as f64).round() as u64))
    }

    /// The largest; none without any.
    pub fn max(&self) -> Option<Nanos> {
        (self.count > 0).then_some(self.max)
    }

    /// The time that a part of all times, from 0 to 1, does not exceed; none without any.
    pub fn quantile(&self, part: f64) -> Option<Nanos> {
        let rank = ((part.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        let found = self.buckets.iter().find(|(_, number)| {
            below += u64::from(*number);
            below >= rank
        });
        found.map(|(bucket, _)| self.detail.middle(*bucket).min(self.max))
    }

    /// Times in ascending order with the part of all times that does not exceed them.
    pub fn distribution(&self) -> impl Iterator<Item = (Nanos, f64)> {
        let count = self.count as f64;
        self.buckets.iter().scan(0_u64, move |below, (bucket, number)| {
            *below += u64::from(*number);
            Some((self.detail.middle(*bucket).min(self.max), *below as f64 / count))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_times_within_the_stated_error(
            mut times in prop::collection::vec(1_000_u64..10_000_000_000, 1..200),
            part in 0.0_f64..1.0,
            (detail, error) in prop::sample::select(vec![(Detail::Full, 0.004), (Detail::Coarse, 0.032)]),
        ) {
            let mut histogram = Histogram::new(detail);
            times.iter().for_each(|&time: &u64| histogram.add(Nanos(time)));
            times.sort_unstable();
            let exact = times[((part * times.len() as f64).ceil() as usize).max(1) - 1] as f64;
            let found = histogram.quantile(part).expect("a time").0 as f64;
            prop_assert!((found / exact - 1.0).abs() < error, "{found} {exact}");
        }

        #[test]
        fn any_time_has_a_bucket(time in any::<u64>()) {
            let mut histogram = Histogram::default();
            histogram.add(Nanos(time));
            prop_assert!(histogram.quantile(0.5).is_some());
        }
    }
}
