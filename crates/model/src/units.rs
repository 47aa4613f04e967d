//! Units as types: whole nanoseconds, bits per second, decibels and received power.
//!
//! Inside the program a quantity is one of these types; outside (TOML, JSON, tables) it is a plain number whose
//! name carries the unit (`delay_ms`, `rate_mbps`).

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Rem, Sub, SubAssign};

/// A time or a duration in whole nanoseconds. Reaches 584 years.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of time and the empty duration.
    pub const ZERO: Self = Self(0);
    /// Later than any event.
    pub const MAX: Self = Self(u64::MAX);

    /// Whole microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// Whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// Whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// Seconds, rounded to the nearest nanosecond; negative and NaN become zero, too large values [`Nanos::MAX`].
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round() as u64)
    }

    /// Milliseconds, rounded to the nearest nanosecond.
    pub fn from_millis_f64(ms: f64) -> Self {
        Self((ms * 1e6).round() as u64)
    }

    /// This time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This time in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// This time in microseconds.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// `self − other`, or zero if `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or [`Nanos::MAX`] if that is out of range.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Number of whole `step`s in this duration; [`u64::MAX`] for a step of zero.
    pub const fn div_floor(self, step: Self) -> u64 {
        match self.0.checked_div(step.0) {
            Some(steps) => steps,
            None => u64::MAX,
        }
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl Rem for Nanos {
    type Output = Self;
    fn rem(self, other: Self) -> Self {
        Self(self.0 % other.0)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A data rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(pub u64);

impl BitRate {
    /// Megabits per second (10⁶ bit/s), rounded to whole bits per second.
    pub fn from_mbps(mbps: f64) -> Self {
        Self((mbps * 1e6).round() as u64)
    }

    /// This rate in megabits per second.
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Transmission time of `bytes`, rounded up to the nanosecond. [`Nanos::MAX`] for a rate of zero.
    pub fn time_for(self, bytes: u64) -> Nanos {
        if self.0 == 0 {
            return Nanos::MAX;
        }
        let nanos = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A ratio in decibels.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Db(pub f64);

impl Db {
    /// The ratio as a plain factor.
    pub fn as_ratio(self) -> f64 {
        libm::exp10(self.0 / 10.0)
    }

    /// A factor in decibels.
    pub fn from_ratio(ratio: f64) -> Self {
        Self(10.0 * libm::log10(ratio))
    }
}

/// A power in decibels relative to one milliwatt.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Dbm(pub f64);

impl Sub<Db> for Dbm {
    type Output = Self;
    fn sub(self, loss: Db) -> Self {
        Self(self.0 - loss.0)
    }
}

impl Add<Db> for Dbm {
    type Output = Self;
    fn add(self, gain: Db) -> Self {
        Self(self.0 + gain.0)
    }
}

/// A received power in units of 10⁻¹⁹ W, so that sums of signals are exact and do not depend on their order.
///
/// From −150 dBm (10 units) to +2.5 dBm, far above any received power. Stronger signals are clamped, so that 1024 of the
/// strongest signals add up without overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Power(pub u64);

impl Power {
    /// No power at all.
    pub const ZERO: Self = Self(0);

    /// Power units in a milliwatt.
    const PER_MILLIWATT: f64 = 1e16;

    /// The strongest power: 1.8 mW.
    const STRONGEST: u64 = u64::MAX / 1024;

    /// A power in dBm, clamped to +2.5 dBm; below −163 dBm it is zero.
    pub fn from_dbm(dbm: Dbm) -> Self {
        Self(((Db(dbm.0).as_ratio() * Self::PER_MILLIWATT).round() as u64).min(Self::STRONGEST))
    }

    /// This power in dBm; zero is −∞.
    pub fn as_dbm(self) -> Dbm {
        Dbm(Db::from_ratio(self.0 as f64 / Self::PER_MILLIWATT).0)
    }

    /// `self / other` as a factor: infinite if `other` is zero, NaN if both are.
    pub fn ratio(self, other: Self) -> f64 {
        self.0 as f64 / other.0 as f64
    }
}

impl Add for Power {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Power {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn time_for_rounds_up_and_survives_its_extremes() {
        // 1500 B at 12 Mb/s: 1 ms; 1 B at 3 b/s: 8/3 s.
        assert_eq!(BitRate(12_000_000).time_for(1500), Nanos::from_millis(1));
        assert_eq!(BitRate(3).time_for(1), Nanos(2_666_666_667));
        assert_eq!(BitRate(0).time_for(1), Nanos::MAX);
        assert_eq!(BitRate(1).time_for(u64::MAX), Nanos::MAX);
        assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(1e300), Nanos::MAX);
        assert_eq!(Nanos::from_secs(3).as_secs_f64(), 3.0);
        assert_eq!(Nanos(1).div_floor(Nanos::ZERO), u64::MAX);
    }

    #[test]
    fn power_of_a_milliwatt_is_zero_dbm_and_the_strongest_add_up() {
        assert_eq!(Power::from_dbm(Dbm(0.0)), Power(10_000_000_000_000_000));
        assert_eq!(Power::from_dbm(Dbm(-150.0)), Power(10));
        assert_eq!(Power::ZERO.as_dbm(), Dbm(f64::NEG_INFINITY));
        let strongest = Power::from_dbm(Dbm(40.0));
        assert!((strongest.as_dbm().0 - 2.556).abs() < 0.001);
        assert_eq!((0..1024).fold(Power::ZERO, |sum, _| sum + strongest).0, strongest.0 * 1024);
    }

    proptest! {
        #[test]
        fn powers_keep_their_decibels(dbm in -110.0..0.0_f64) {
            prop_assert!((Power::from_dbm(Dbm(dbm)).as_dbm().0 - dbm).abs() < 1e-4);
        }
    }
}
