//! What applications see: transactions and video frames.

use fairhop_model::units::Nanos;

use super::Histogram;

/// Pages, or requests with their responses. Those that began before the end of the warm-up do not count.
#[derive(Clone, Debug)]
pub struct TransactionRecord {
    /// How many began.
    pub begun: u64,
    /// How many were complete.
    pub finished: u64,
    /// How many the connection gave up.
    pub failed: u64,
    /// Sum of the times of those that were complete.
    pub time_sum: Nanos,
    /// The shortest of them.
    pub time_min: Nanos,
    /// The longest of them.
    pub time_max: Nanos,
    /// All of them.
    pub times: Histogram,
}

impl Default for TransactionRecord {
    fn default() -> Self {
        Self {
            begun: 0,
            finished: 0,
            failed: 0,
            time_sum: Nanos::ZERO,
            time_min: Nanos::MAX,
            time_max: Nanos::ZERO,
            times: Histogram::new(),
        }
    }
}

impl TransactionRecord {
    /// One has begun.
    pub fn began(&mut self, counts: bool) {
        self.begun += u64::from(counts);
    }

    /// One is complete.
    pub fn finished(&mut self, time: Nanos, counts: bool) {
        if counts {
            self.finished += 1;
            self.time_sum += time;
            self.time_min = self.time_min.min(time);
            self.time_max = self.time_max.max(time);
            self.times.add(time);
        }
    }

    /// One was given up.
    pub fn failed(&mut self, counts: bool) {
        self.failed += u64::from(counts);
    }
}

/// Frames of a video. Those made before the end of the warm-up do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRecord {
    /// Frames sent.
    pub frames: u64,
    /// Frames that were complete in time.
    pub complete: u64,
    /// Frames that were complete after the deadline.
    pub late: u64,
    /// Frames that lost a packet.
    pub lost: u64,
}

impl FrameRecord {
    /// The fate of every packet of a frame is known, `age` after it was made.
    pub fn settled(&mut self, lost: bool, age: Nanos, deadline: Nanos, counts: bool) {
        let place = match (lost, age > deadline) {
            (true, _) => &mut self.lost,
            (false, true) => &mut self.late,
            (false, false) => &mut self.complete,
        };
        *place += u64::from(counts);
    }
}
