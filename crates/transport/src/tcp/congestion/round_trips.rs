//! Round-trip times as in Linux's delay-based variants: whole microseconds plus one, so that none is zero.

use fairhop_model::units::Nanos;

/// Minimum round-trip time of the connection; minimum and number of recent samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    /// Minimum of the connection (`baseRTT`), an estimate of the delay without queues.
    pub(super) base_us: u64,
    /// Minimum since [`RoundTrips::reset_recent`] (`minRTT`); the minimum excludes delayed acknowledgments.
    pub(super) min_us: u64,
    /// Samples since [`RoundTrips::reset_recent`], or since the start if it is never called (`cntRTT`).
    pub(super) count: u32,
}

impl RoundTrips {
    /// Linux's value for an unknown round-trip time.
    pub(super) const UNKNOWN_US: u64 = 0x7fff_ffff;

    pub(super) fn on_sample(&mut self, rtt: Nanos) {
        let rtt_us = rtt.0 / 1000 + 1;
        self.base_us = self.base_us.min(rtt_us);
        self.min_us = self.min_us.min(rtt_us);
        self.count = self.count.saturating_add(1);
    }

    pub(super) fn reset_recent(&mut self) {
        self.min_us = Self::UNKNOWN_US;
        self.count = 0;
    }

    /// Packets of `window` that are in queues, from the recent against the minimum delay.
    pub(super) fn queued(&self, window: u32) -> f64 {
        let window = f64::from(window);
        window - window * self.base_us as f64 / self.min_us as f64
    }
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self { base_us: Self::UNKNOWN_US, min_us: Self::UNKNOWN_US, count: 0 }
    }
}
