//! The data frame that a station is sending, and its attempts.

use fairhop_model::phy::{Rate, frame};
use fairhop_model::units::Nanos;

use super::frame::{BROADCAST, Frame, FrameKind};
use super::params::MacParams;
use crate::queue::Waiting;

/// The data frame that a station is sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    /// The packet and its next hop.
    pub waiting: Waiting,
    sequence: u16,
    bytes: u32,
    rate: Rate,
    time: Nanos,
    /// Whether an RTS precedes it.
    pub protected: bool,
    sent_before: bool,
    short_retries: u32,
    long_retries: u32,
}

impl Outgoing {
    /// A frame for a packet; it takes its sequence number from `next_sequence`, which is incremented.
    pub(super) fn new(params: &MacParams, node: u32, waiting: Waiting, next_sequence: &mut u16) -> Self {
        let bytes = frame::of_ip_packet(waiting.bytes) + params.header_bytes;
        let broadcast = waiting.next_hop == BROADCAST;
        let rate = if broadcast { params.broadcast_rate } else { params.rate_of_hop(node, waiting.next_hop) };
        let sequence = *next_sequence;
        *next_sequence = (sequence + 1) & 0x0fff;
        Self {
            waiting,
            sequence,
            bytes,
            rate,
            time: params.phy.frame_duration(rate, bytes),
            protected: !broadcast && bytes > params.rts_threshold,
            sent_before: false,
            short_retries: 0,
            long_retries: 0,
        }
    }

    /// Counts a failed attempt; `no_ack` if the data frame was sent and no ACK came. True if it was the last attempt.
    pub(super) fn count_failure(&mut self, params: &MacParams, no_ack: bool) -> bool {
        if no_ack && self.protected {
            self.long_retries += 1;
            self.long_retries >= params.long_retry_limit
        } else {
            self.short_retries += 1;
            self.short_retries >= params.short_retry_limit
        }
    }

    /// Whether it goes to all neighbours.
    pub(super) fn is_broadcast(&self) -> bool {
        self.waiting.next_hop == BROADCAST
    }

    /// Duration of the exchange: from the first bit of the data frame, or of its RTS, to the last bit of the ACK.
    pub(super) fn exchange_time(&self, params: &MacParams) -> Nanos {
        let data = self.time + params.nav_of_data(self.rate);
        if self.protected {
            let rts = params.phy.frame_duration(params.control_rate_of(self.rate), frame::RTS);
            rts + params.nav_of_rts(self.rate, self.time)
        } else {
            data
        }
    }

    /// The RTS that precedes it.
    pub(super) fn rts(&self, params: &MacParams) -> Frame {
        let rate = params.control_rate_of(self.rate);
        Frame {
            kind: FrameKind::Rts,
            retry: self.short_retries > 0,
            user_priority: None,
            sequence: 0,
            to: self.waiting.next_hop,
            packet: self.waiting.packet,
            bytes: frame::RTS,
            rate,
            time: params.phy.frame_duration(rate, frame::RTS),
            nav: params.nav_of_rts(self.rate, self.time),
        }
    }

    /// The data frame itself.
    #[inline]
    pub(super) fn data(&mut self, params: &MacParams) -> Frame {
        Frame {
            kind: FrameKind::Data,
            retry: std::mem::replace(&mut self.sent_before, true),
            user_priority: None,
            sequence: self.sequence,
            to: self.waiting.next_hop,
            packet: self.waiting.packet,
            bytes: self.bytes,
            rate: self.rate,
            time: self.time,
            nav: if self.is_broadcast() { Nanos::ZERO } else { params.nav_of_data(self.rate) },
        }
    }
}
