//! Counters of applications: transactions and video frames.

use fairhop_model::units::Nanos;

use super::Histogram;

/// Transactions: pages, or requests with their responses. Those that began during the warm-up do not count.
#[derive(Clone, Debug)]
pub struct TransactionRecord {
    /// Transactions that began.
    pub begun: u64,
    /// Transactions that finished.
    pub finished: u64,
    /// Transactions whose connection failed.
    pub failed: u64,
    /// Sum of the times of finished transactions.
    pub time_sum: Nanos,
    /// Shortest time of a finished transaction; [`Nanos::MAX`] where there is none.
    pub time_min: Nanos,
    /// Longest time of a finished transaction.
    pub time_max: Nanos,
    /// Times of finished transactions.
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
    /// Records the start of a transaction; `counts` is false for those that began during the warm-up.
    pub fn began(&mut self, counts: bool) {
        self.begun += u64::from(counts);
    }

    /// Records the end of a transaction.
    pub fn finished(&mut self, time: Nanos, counts: bool) {
        if counts {
            self.finished += 1;
            self.time_sum += time;
            self.time_min = self.time_min.min(time);
            self.time_max = self.time_max.max(time);
            self.times.add(time);
        }
    }

    /// Records the failure of a transaction's connection.
    pub fn failed(&mut self, counts: bool) {
        self.failed += u64::from(counts);
    }
}

/// Frames of a video. Those made during the warm-up do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRecord {
    /// Frames sent.
    pub frames: u64,
    /// Frames complete by their deadline.
    pub complete: u64,
    /// Frames complete after their deadline.
    pub late: u64,
    /// Frames that lost a packet.
    pub lost: u64,
}

impl FrameRecord {
    /// Records a frame of which every packet has arrived or is lost, at the frame's age `age`.
    pub fn settled(&mut self, lost: bool, age: Nanos, deadline: Nanos, counts: bool) {
        let place = match (lost, age > deadline) {
            (true, _) => &mut self.lost,
            (false, true) => &mut self.late,
            (false, false) => &mut self.complete,
        };
        *place += u64::from(counts);
    }
}
