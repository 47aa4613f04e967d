//! Round-trip times as Linux's delay-based variants keep them: whole microseconds and one more, so that none is zero.

use fairhop_model::units::Nanos;

/// The least round-trip time ever, and the least and the number of those of late.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    /// The least of the connection (`baseRTT`): the delay of the path with its queues empty, it is hoped.
    pub(super) base_us: u64,
    /// The least since [`RoundTrips::forget_recent`] (`minRTT`): least, so that ACKs which were held back do not count.
    pub(super) least_us: u64,
    /// Samples since [`RoundTrips::forget_recent`] or, for those that do not ask for it, ever (`cntRTT`).
    pub(super) count: u32,
}

impl RoundTrips {
    /// What Linux takes a round-trip time to be that is not known yet.
    pub(super) const UNKNOWN_US: u64 = 0x7fff_ffff;

    pub(super) fn take(&mut self, rtt: Nanos) {
        let rtt_us = rtt.0 / 1000 + 1;
        self.base_us = self.base_us.min(rtt_us);
        self.least_us = self.least_us.min(rtt_us);
        self.count = self.count.saturating_add(1);
    }

    pub(super) fn forget_recent(&mut self) {
        self.least_us = Self::UNKNOWN_US;
        self.count = 0;
    }

    /// `window` packets at the present delay are so many more than at the least one: those that wait in queues.
    pub(super) fn waiting(&self, window: u32) -> f64 {
        let window = f64::from(window);
        window - window * self.base_us as f64 / self.least_us as f64
    }
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self { base_us: Self::UNKNOWN_US, least_us: Self::UNKNOWN_US, count: 0 }
    }
}
