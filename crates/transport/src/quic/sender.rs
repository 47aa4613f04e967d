//! The sending machine: RFC 9002 around a congestion controller.
//!
//! Lost bytes are sent in a packet with a new number, so that an acknowledgment always identifies the transmission that
//! arrived. Windows are counted in full-sized packets, as in the controllers of this crate. A controller that counts round
//! trips gets the delivered bytes as SND.UNA, and their sum with the bytes in flight as SND.NXT.

mod config;
mod loss;
mod transmit;

use std::collections::VecDeque;

pub use config::{SenderConfig, SenderStats};

use fairhop_model::units::Nanos;

use super::intervals::Intervals;
use super::packet::{AckFrame, Datagram, StreamFrame};
use super::rtt::Rtt;
use crate::tcp::congestion::{AckEvent, Congestion, CongestionControl, Phase, Window};
use crate::tcp::{Newest, RateEstimator};

/// State of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    Acknowledged,
    Lost,
    /// It elicits no acknowledgment and is not tracked.
    Untracked,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// None for DATA_BLOCKED, a probe without data, and an acknowledgment.
    stream: Option<StreamFrame>,
    /// Length on the wire.
    bytes: u32,
    sent_at: Nanos,
    fate: Fate,
}

/// The sending side of a transfer.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    /// End of the data that the application offered; `u64::MAX` is an endless stream.
    offered: u64,
    closing: bool,
    /// The next byte that was never sent, and whether the end of the stream was sent.
    next: u64,
    fin_sent: bool,
    fin_acked: bool,
    /// Bytes acknowledged.
    delivered_data: Intervals,
    /// Bytes to retransmit, in the order in which they were lost.
    lost_data: VecDeque<StreamFrame>,
    /// Packets from number `first` on.
    packets: VecDeque<Sent>,
    first: u64,
    /// Every packet before this number is acknowledged or lost.
    undecided: u64,
    largest_acked: Option<u64>,
    /// Ranges of the last acknowledgment, whose packets are already marked.
    known_ranges: [(u64, u64); AckFrame::MAX],
    in_flight: u32,
    bytes_in_flight: u64,
    /// Bytes and packets that arrived.
    delivered_bytes: u64,
    delivered: u64,
    window: Window,
    congestion: Congestion,
    /// Delivery rate, if the controller needs it.
    rate: Option<Box<RateEstimator>>,
    rtt: Rtt,
    phase: Phase,
    /// Packets sent before this number belong to the last congestion event.
    recovery_from: u64,
    /// Sending time of the first packet lost since the last one that arrived.
    loss_run: Option<Nanos>,
    max_data: u64,
    /// The limit in the last DATA_BLOCKED, and the number of DATA_BLOCKED frames for it.
    blocked_at: Option<u64>,
    blocked_count: u32,
    last_sent_at: Nanos,
    /// Time at which a packet is lost by the time threshold.
    loss_timer: Option<Nanos>,
    probe_timer: Option<Nanos>,
    probe_count: u32,
    probes_due: u32,
    /// Earliest time of the next packet.
    release: Nanos,
    pacing_timer: Option<Nanos>,
    /// The congestion window limits transmission.
    limited: bool,
    /// Number of a received packet to acknowledge.
    ack_due: Option<u64>,
    opened: bool,
    stats: SenderStats,
}

impl Sender {
    /// kPacketThreshold (RFC 9002 §6.1.1).
    const PACKET_THRESHOLD: u64 = 3;
    /// kPersistentCongestionThreshold (RFC 9002 §7.6.1).
    const PERSISTENT_THRESHOLD: u64 = 3;
    /// kMinimumWindow (RFC 9002 §7.2).
    const MINIMUM_WINDOW: u32 = 2;
    /// Packets per probe timeout (RFC 9002 §6.2.4: one or two).
    const PROBES: u32 = 2;
    /// Minimum of `datagram_bytes`, with room for payload beside any header.
    const MIN_DATAGRAM: u32 = 200;

    /// A sender without data. `datagram_bytes` is at least 200, the initial window at least one packet.
    pub fn new(config: SenderConfig) -> Self {
        let config = SenderConfig {
            datagram_bytes: config.datagram_bytes.max(Self::MIN_DATAGRAM),
            initial_window: config.initial_window.max(1),
            ..config
        };
        let congestion = Congestion::new(config.congestion, config.tuning);
        Self {
            config,
            offered: 0,
            closing: false,
            next: 0,
            fin_sent: false,
            fin_acked: false,
            delivered_data: Intervals::new(),
            lost_data: VecDeque::with_capacity(64),
            packets: VecDeque::with_capacity(64),
            first: 0,
            undecided: 0,
            largest_acked: None,
            known_ranges: [(1, 0); AckFrame::MAX],
            in_flight: 0,
            bytes_in_flight: 0,
            delivered_bytes: 0,
            delivered: 0,
            window: Window { cwnd: config.initial_window, ssthresh: Window::UNKNOWN },
            rate: congestion.needs_rate().then(Box::default),
            congestion,
            rtt: Rtt::default(),
            phase: Phase::Open,
            recovery_from: 0,
            loss_run: None,
            max_data: config.initial_max_data,
            blocked_at: None,
            blocked_count: 0,
            last_sent_at: Nanos::ZERO,
            loss_timer: None,
            probe_timer: None,
            probe_count: 0,
            probes_due: 0,
            release: Nanos::ZERO,
            pacing_timer: None,
            limited: false,
            ack_due: None,
            opened: false,
            stats: SenderStats::default(),
        }
    }

    /// The application has `bytes` more to send; `u64::MAX` is an endless stream. No effect after [`Sender::close`].
    pub fn offer(&mut self, bytes: u64) {
        if !self.closing {
            self.offered = self.offered.saturating_add(bytes);
        }
    }

    /// Ends the stream after the offered data; an endless stream ends after the data already sent.
    pub fn close(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        if self.offered == u64::MAX {
            self.offered = self.next;
        }
    }

    /// Whether the other side has acknowledged the whole stream.
    pub fn is_finished(&self) -> bool {
        self.fin_acked && self.bytes_acked() == self.offered
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Congestion window in packets.
    pub fn cwnd_packets(&self) -> u32 {
        self.window.cwnd
    }

    /// Slow-start threshold in packets; none before the first loss.
    pub fn ssthresh_packets(&self) -> Option<u32> {
        (self.window.ssthresh != Window::UNKNOWN).then_some(self.window.ssthresh)
    }

    /// Smoothed round-trip time, once there is a sample.
    pub fn srtt(&self) -> Option<Nanos> {
        self.rtt.smoothed()
    }

    /// Packets in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// State of loss recovery.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Bytes of the stream acknowledged without a gap.
    pub fn bytes_acked(&self) -> u64 {
        self.delivered_data.prefix()
    }

    /// Time at which to call [`Sender::on_timer`], if any. Valid after [`Sender::poll_transmit`] has returned none.
    pub fn next_timer(&self) -> Option<Nanos> {
        let recovery = self.loss_timer.or(self.probe_timer);
        match (recovery, self.pacing_timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The time is `now`. No effect before [`Sender::next_timer`].
    pub fn on_timer(&mut self, now: Nanos) {
        if self.pacing_timer.is_some_and(|at| now >= at) {
            self.pacing_timer = None;
        }
        if let Some(at) = self.loss_timer {
            if now >= at {
                self.detect_losses(now);
                self.set_recovery_timer(now);
            }
            return;
        }
        if self.probe_timer.is_some_and(|at| now >= at) {
            // RFC 9002 §6.2.4: a probe timeout does not indicate congestion.
            self.stats.probe_timeouts += 1;
            self.probe_count = (self.probe_count + 1).min(u64::BITS - 1);
            self.probes_due = Self::PROBES;
            self.probe_timer = None;
            if self.in_flight == 0 {
                // Only credit is missing: DATA_BLOCKED is sent again.
                self.blocked_at = None;
                self.probes_due = 0;
            }
        }
    }

    /// A datagram arrived from the receiver.
    pub fn on_datagram(&mut self, now: Nanos, datagram: &Datagram) {
        if let Some(limit) = datagram.max_data.filter(|&limit| limit > self.max_data) {
            self.max_data = limit;
            self.blocked_at = None;
            self.blocked_count = 0;
            if self.in_flight == 0 {
                self.probe_timer = None;
                self.probe_count = 0;
            }
        }
        if datagram.ping {
            self.ack_due = Some(datagram.number);
        }
        if let Some(ack) = datagram.ack {
            self.on_ack(now, &ack);
        }
    }

    /// RFC 9002 Appendix A.7.
    fn on_ack(&mut self, now: Nanos, ack: &AckFrame) {
        let past_last = self.first + self.packets.len() as u64;
        if ack.largest() >= past_last {
            // RFC 9000 §13.1: acknowledges a packet that was never sent.
            return;
        }
        self.stats.acks_received += 1;
        let prior_in_flight = self.in_flight;
        self.largest_acked = self.largest_acked.max(Some(ack.largest()));
        let newly = self.take_ranges(ack);
        if newly.packets == 0 && newly.late == 0 {
            return;
        }
        let rtt = newly.largest_sent_at.filter(|_| newly.largest == Some(ack.largest())).map(|sent_at| {
            let rtt = now.saturating_sub(sent_at);
            let delay = Nanos::from_micros(u64::from(ack.delay_us)).min(self.config.max_ack_delay);
            self.rtt.on_sample(now, rtt, delay);
            rtt
        });
        // RFC 9002 §7.3.2: a packet sent in recovery ends it.
        if self.phase != Phase::Open && newly.largest.is_some_and(|largest| largest >= self.recovery_from) {
            self.phase = Phase::Open;
            self.congestion.on_exit_recovery(&mut self.window, now);
        }
        let lost = self.detect_losses(now);
        self.probe_count = 0;
        let newest = newly.largest.zip(newly.largest_sent_at);
        let newest = newest.map(|(number, sent_at)| Newest { number, sent_at, end: 0, ambiguous: false });
        let rate = self.rate.as_mut().and_then(|rate| {
            rate.on_ack(now, newest, newly.packets, self.delivered, self.first, self.rtt.min_rtt())
        });
        let cwnd_limited = self.limited
            || (self.window.in_slow_start() && self.window.cwnd < prior_in_flight.saturating_mul(2));
        let event = AckEvent {
            now,
            newly_delivered: newly.packets,
            newly_acked: newly.packets,
            acked_bytes: newly.bytes,
            newly_lost: lost,
            growth_credit: newly.packets,
            delivered: self.delivered,
            lost: self.stats.packets_lost,
            release: self.release,
            una: self.delivered_bytes,
            nxt: self.delivered_bytes + self.bytes_in_flight,
            advanced: newly.packets > 0,
            rtt,
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min_rtt(),
            maybe_delayed: newly.packets == 1,
            rate,
            prior_in_flight,
            in_flight: self.in_flight,
            cwnd_limited,
            ece: false,
            mss: self.config.datagram_bytes,
            phase: self.phase,
            // A packet below the largest one acknowledged has neither arrived nor been declared lost.
            disordered: self.loss_timer.is_some(),
        };
        self.congestion.on_ack(&mut self.window, &event);
        if let Some(rate) = self.rate.as_deref_mut().filter(|_| self.congestion.limits_itself()) {
            rate.limit(self.delivered, self.in_flight);
        }
        self.set_recovery_timer(now);
    }
}
