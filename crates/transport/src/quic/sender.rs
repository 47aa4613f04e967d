//! The sending machine: RFC 9002 around a congestion controller.
//!
//! A packet that is lost is not sent again; its bytes go out in a packet with a new number, so that an acknowledgment
//! always says which transmission arrived. Windows are counted in full-sized packets, as the controllers of this crate
//! count them. A controller that thinks in round trips is given what has been delivered for SND.UNA, and that with what
//! is in flight for SND.NXT.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

use super::intervals::{Intervals, Run};
use super::packet::{AckFrame, Datagram, HEADER_BYTES, StreamFrame};
use super::rtt::{GRANULARITY, Rtt};
use crate::tcp::congestion::{
    AckEvent, Congestion, CongestionControl, CongestionKind, LossEvent, OpenEvent, Phase, Reason, StartEvent,
    Tuning, Window,
};
use crate::tcp::{Newest, RateEstimator};

/// How a sender behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Largest UDP payload in bytes (RFC 9000 §14: at least 1200).
    pub datagram_bytes: u32,
    /// Packets of the first flight (RFC 9002 §7.2: 10).
    pub initial_window: u32,
    /// Congestion control.
    pub congestion: CongestionKind,
    /// What congestion control is told beside its name.
    pub tuning: Tuning,
    /// Space packets at 5/4 of the window a round trip (RFC 9002 §7.7) where the controller does not say how; an
    /// initial window of packets may go out at once.
    pub pacing: bool,
    /// The receiver's credit at the beginning, in bytes ([`super::ReceiverConfig::buffer`]).
    pub initial_max_data: u64,
    /// The receiver's promise (RFC 9000 §18.2: 25 ms).
    pub max_ack_delay: Nanos,
    /// Longest time between probes, backed off. RFC 9002 leaves it to the idle timeout.
    pub max_probe_timeout: Nanos,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            datagram_bytes: 1472,
            initial_window: 10,
            congestion: CongestionKind::NewReno,
            tuning: Tuning::default(),
            pacing: true,
            initial_max_data: 4 << 20,
            max_ack_delay: Nanos::from_millis(25),
            max_probe_timeout: Nanos::from_secs(60),
        }
    }
}

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent that ask for an acknowledgment.
    pub packets_sent: u64,
    /// Payload bytes sent, repetitions included.
    pub bytes_sent: u64,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Packets with payload that had been sent before.
    pub packets_retransmitted: u64,
    /// Packets taken to be lost.
    pub packets_lost: u64,
    /// Packets taken to be lost that arrived after all.
    pub spurious_losses: u64,
    /// Congestion events: times that a recovery period began.
    pub recoveries: u64,
    /// Times that the probe timer ran out.
    pub probe_timeouts: u64,
    /// Times that congestion was persistent (RFC 9002 §7.6).
    pub persistent_congestion: u64,
    /// Packets that told of a closed window (DATA_BLOCKED).
    pub blocked_sent: u64,
    /// Acknowledgments taken in.
    pub acks_received: u64,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    Acknowledged,
    Lost,
    /// It asks for no acknowledgment.
    Unwatched,
}

/// A packet that went out.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Without payload: what told of a closed window, a probe, or an acknowledgment.
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
    /// End of what the application offered; `u64::MAX` is a stream without end.
    offered: u64,
    closing: bool,
    /// The next byte that was never sent, and whether the end of the stream was said.
    next: u64,
    fin_sent: bool,
    fin_acked: bool,
    /// Bytes known to have arrived.
    delivered_data: Intervals,
    /// Bytes to send again, in the order in which they were lost.
    lost_data: VecDeque<StreamFrame>,
    /// Packets from number `first` on.
    packets: VecDeque<Sent>,
    first: u64,
    /// Every packet before this number is acknowledged or lost.
    undecided: u64,
    largest_acked: Option<u64>,
    /// Ranges of the last acknowledgment, which need no second walk.
    walked: [(u64, u64); AckFrame::MOST],
    in_flight: u32,
    bytes_in_flight: u64,
    /// Bytes and packets that arrived.
    delivered_bytes: u64,
    delivered: u64,
    window: Window,
    congestion: Congestion,
    /// How fast packets arrive, where the controller wants to know.
    rate: Option<Box<RateEstimator>>,
    rtt: Rtt,
    phase: Phase,
    /// Packets sent before this number belong to the last congestion event.
    recovery_from: u64,
    /// When the first of the packets was sent that were lost since the last one that arrived.
    loss_run: Option<Nanos>,
    max_data: u64,
    /// The limit at which DATA_BLOCKED was last said, and how often it was said.
    blocked_at: Option<u64>,
    blocked_count: u32,
    last_sent_at: Nanos,
    /// A packet counts as lost then, if nothing is heard.
    loss_timer: Option<Nanos>,
    probe_timer: Option<Nanos>,
    probe_count: u32,
    probes_due: u32,
    /// The pacer allows a packet from then on.
    release: Nanos,
    pacing_timer: Option<Nanos>,
    /// The window is what holds transmission back.
    limited: bool,
    /// A packet of the receiver to acknowledge.
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
    /// Packets of a probe (RFC 9002 §6.2.4: one or two).
    const PROBES: u32 = 2;
    /// Room for payload that is left in every case.
    const LEAST_DATAGRAM: u32 = 200;

    /// A sender with nothing to send. Datagrams of less than 200 bytes are taken as that long, a window of zero as one.
    pub fn new(config: SenderConfig) -> Self {
        let config = SenderConfig {
            datagram_bytes: config.datagram_bytes.max(Self::LEAST_DATAGRAM),
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
            walked: [(1, 0); AckFrame::MOST],
            in_flight: 0,
            bytes_in_flight: 0,
            delivered_bytes: 0,
            delivered: 0,
            window: Window { cwnd: config.initial_window, ssthresh: Window::UNKNOWN },
            rate: congestion.wants_rate().then(Box::default),
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

    /// The application has `bytes` more to send; `u64::MAX` is a stream without end. Without effect after
    /// [`Sender::close`].
    pub fn offer(&mut self, bytes: u64) {
        if !self.closing {
            self.offered = self.offered.saturating_add(bytes);
        }
    }

    /// No more comes after what was offered; a stream without end stops at what has been sent.
    pub fn close(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        if self.offered == u64::MAX {
            self.offered = self.next;
        }
    }

    /// Whether the other side has said that it has the whole stream.
    pub fn is_finished(&self) -> bool {
        self.fin_acked && self.bytes_acked() == self.offered
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Congestion window in packets.
    pub fn cwnd_packets(&self) -> u32 {
        self.window.cwnd
    }

    /// Slow-start threshold in packets; none until the first loss.
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

    /// Where loss recovery stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Bytes of the stream that the other side has without a gap.
    pub fn bytes_acked(&self) -> u64 {
        self.delivered_data.prefix()
    }

    /// When [`Sender::on_timer`] wants to be called, if at all. Ask after the last [`Sender::poll_transmit`].
    pub fn next_timer(&self) -> Option<Nanos> {
        let recovery = self.loss_timer.or(self.probe_timer);
        match (recovery, self.pacing_timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Time has come to `now`; without effect before the time that [`Sender::next_timer`] says.
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
            // RFC 9002 §6.2.4. Probes say nothing of congestion.
            self.stats.probe_timeouts += 1;
            self.probe_count = (self.probe_count + 1).min(u64::BITS - 1);
            self.probes_due = Self::PROBES;
            self.probe_timer = None;
            if self.in_flight == 0 {
                // Nothing but a closed window is left to ask about.
                self.blocked_at = None;
                self.probes_due = 0;
            }
        }
    }

    /// A datagram came from the receiver.
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
            // RFC 9000 §13.1: never sent, an error of the other side.
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
            rate.on_ack(now, newest, newly.packets, self.delivered, self.first, self.rtt.least())
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
            min_rtt: self.rtt.least(),
            maybe_delayed: newly.packets == 1,
            rate,
            prior_in_flight,
            in_flight: self.in_flight,
            cwnd_limited,
            ece: false,
            mss: self.config.datagram_bytes,
            phase: self.phase,
        };
        self.congestion.on_ack(&mut self.window, &event);
        if let Some(rate) = self.rate.as_deref_mut().filter(|_| self.congestion.holds_back()) {
            rate.limit(self.delivered, self.in_flight);
        }
        self.set_recovery_timer(now);
    }

    /// Marks what an acknowledgment names; what the last one named too is not looked at again.
    fn take_ranges(&mut self, ack: &AckFrame) -> Newly {
        let mut newly = Newly::default();
        let walked = std::mem::replace(&mut self.walked, [(1, 0); AckFrame::MOST]);
        for (i, (first, last)) in ack.ranges().enumerate() {
            self.walked[i] = (first, last);
            match walked.iter().find(|old| old.0 <= old.1 && first <= old.0 && old.1 <= last) {
                Some(&(old_first, old_last)) => {
                    self.take_range(old_last + 1, last, &mut newly);
                    if old_first > first {
                        self.take_range(first, old_first - 1, &mut newly);
                    }
                }
                None => self.take_range(first, last, &mut newly),
            }
        }
        self.forget_decided();
        newly
    }

    fn take_range(&mut self, first: u64, last: u64, newly: &mut Newly) {
        for number in (first.max(self.first)..=last).rev() {
            let Some(packet) = self.packets.get_mut((number - self.first) as usize) else { continue };
            let fate = std::mem::replace(&mut packet.fate, Fate::Acknowledged);
            let packet = *packet;
            if matches!(fate, Fate::Acknowledged | Fate::Unwatched) {
                continue;
            }
            if let Some(frame) = packet.stream {
                self.delivered_data.insert(Run { start: frame.offset, end: frame.end() });
                self.fin_acked |= frame.fin;
            }
            if fate == Fate::Lost {
                self.stats.spurious_losses += 1;
                newly.late += 1;
            } else {
                self.in_flight -= 1;
                self.bytes_in_flight -= u64::from(packet.bytes);
                newly.packets += 1;
                newly.bytes += u64::from(packet.bytes);
            }
            self.delivered += 1;
            self.delivered_bytes += u64::from(packet.bytes);
            if newly.largest.is_none() {
                newly.largest = Some(number);
                newly.largest_sent_at = Some(packet.sent_at);
            }
        }
    }

    /// What is decided leaves the ring; what is lost stays for a while, as it may be late only.
    fn forget_decided(&mut self) {
        const KEPT_LOST: u64 = 64;
        while let Some(packet) = self.packets.front() {
            let late = packet.fate == Fate::Lost && self.first + KEPT_LOST >= self.undecided;
            if packet.fate == Fate::InFlight || late {
                break;
            }
            if packet.fate == Fate::Acknowledged && self.first >= self.undecided {
                self.loss_run = None;
            }
            self.packets.pop_front();
            self.first += 1;
        }
        self.undecided = self.undecided.max(self.first);
    }

    /// RFC 9002 §6.1; returns how many packets are newly lost.
    fn detect_losses(&mut self, now: Nanos) -> u32 {
        self.loss_timer = None;
        let Some(largest) = self.largest_acked else { return 0 };
        let threshold = self.rtt.time_threshold();
        let (mut lost, mut persistent, mut newest) = (0, false, None);
        while self.undecided < largest {
            let Some(packet) = self.packets.get((self.undecided - self.first) as usize).copied() else {
                break;
            };
            match packet.fate {
                Fate::InFlight => {
                    let due = packet.sent_at.saturating_add(threshold);
                    if self.undecided + Self::PACKET_THRESHOLD > largest && now < due {
                        self.loss_timer = Some(due);
                        break;
                    }
                    lost += 1;
                    newest = Some(self.undecided);
                    persistent |= self.lose(self.undecided);
                }
                Fate::Acknowledged => self.loss_run = None,
                Fate::Lost | Fate::Unwatched => {}
            }
            self.undecided += 1;
        }
        if let Some(newest) = newest {
            self.react_to_loss(now, newest, persistent);
        }
        self.forget_decided();
        lost
    }

    /// A packet is lost. Returns whether packets have been lost without a break for so long that congestion is persistent
    /// (RFC 9002 §7.6.1 and §7.6.2).
    fn lose(&mut self, number: u64) -> bool {
        let Some(packet) = self.packets.get_mut((number - self.first) as usize) else { return false };
        packet.fate = Fate::Lost;
        let packet = *packet;
        self.in_flight -= 1;
        self.bytes_in_flight -= u64::from(packet.bytes);
        self.stats.packets_lost += 1;
        if let Some(frame) = packet.stream {
            self.lost_data.push_back(frame);
        } else {
            self.blocked_at = None;
        }
        // Only packets sent after the first sample count.
        if self.rtt.first_at().is_none_or(|at| packet.sent_at <= at) {
            return false;
        }
        let begin = *self.loss_run.get_or_insert(packet.sent_at);
        let long = self.rtt.probe_timeout(self.config.max_ack_delay) * Self::PERSISTENT_THRESHOLD;
        packet.sent_at.saturating_sub(begin) >= long
    }

    /// RFC 9002 §7.3.1 and §7.6.2.
    fn react_to_loss(&mut self, now: Nanos, newest: u64, persistent: bool) {
        let event = LossEvent {
            now,
            reason: Reason::Loss,
            // RFC 9002 §7.3.2 reduces the window, and not what is in flight.
            flight: self.in_flight.max(self.window.cwnd),
            in_flight: self.in_flight,
            delivered: self.delivered,
            lost: self.stats.packets_lost,
            una: self.delivered_bytes,
            nxt: self.delivered_bytes + self.bytes_in_flight,
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.least(),
            mss: self.config.datagram_bytes,
            phase: self.phase,
        };
        let fresh = newest >= self.recovery_from;
        if fresh {
            self.stats.recoveries += 1;
            self.recovery_from = self.first + self.packets.len() as u64;
        }
        if persistent {
            self.stats.persistent_congestion += 1;
            self.loss_run = None;
            let ssthresh = self.window.ssthresh;
            self.congestion.on_timeout(&mut self.window, &event);
            if !fresh {
                // The threshold has answered for it already.
                self.window.ssthresh = ssthresh;
            }
            self.window.cwnd = Self::MINIMUM_WINDOW;
            self.phase = Phase::Loss;
        } else if fresh {
            self.congestion.on_enter_recovery(&mut self.window, &event);
            self.window.cwnd = self.window.cwnd.max(Self::MINIMUM_WINDOW);
            self.phase = Phase::Recovery;
        }
    }

    /// RFC 9002 §6.2.1: from the last packet that was sent. With nothing in flight it runs while a closed window is
    /// asked about (RFC 9000 §4.1).
    fn set_recovery_timer(&mut self, now: Nanos) {
        self.probe_timer = None;
        let waiting = self.in_flight == 0 && self.blocked_at.is_some();
        if self.in_flight == 0 && !waiting {
            return;
        }
        let timeout = self.rtt.probe_timeout(self.config.max_ack_delay);
        let backoff = if waiting { self.blocked_count } else { self.probe_count };
        let backed_off = u128::from(timeout.0) << backoff;
        let timeout = Nanos(u64::try_from(backed_off).unwrap_or(u64::MAX)).min(self.config.max_probe_timeout);
        let from = if waiting { now } else { self.last_sent_at };
        self.probe_timer = Some(from.saturating_add(timeout).max(now));
    }

    /// The next datagram to send, if there is one. To be called until there is none, after every other call.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Datagram> {
        if !self.opened {
            self.opened = true;
            let open = OpenEvent { now, srtt: None, mss: self.config.datagram_bytes };
            self.congestion.on_open(&mut self.window, &open);
        }
        self.pacing_timer = None;
        if self.probes_due > 0 {
            self.probes_due -= 1;
            return Some(self.send_probe(now));
        }
        if self.in_flight >= self.window.cwnd {
            self.limited = true;
            return self.send_bare_ack(now);
        }
        if now < self.release && self.has_data() {
            self.pacing_timer = Some(self.release);
            return self.send_bare_ack(now);
        }
        let frame = self
            .next_lost_data()
            .map(|frame| (frame, true))
            .or_else(|| self.next_new_data().map(|frame| (frame, false)));
        if let Some((frame, again)) = frame {
            return Some(self.send_stream(now, frame, again));
        }
        self.limited = false;
        if let Some(rate) = self.rate.as_deref_mut() {
            rate.limit(self.delivered, self.in_flight);
        }
        if self.is_blocked() && self.blocked_at != Some(self.max_data) {
            self.blocked_at = Some(self.max_data);
            self.blocked_count = (self.blocked_count + 1).min(u64::BITS - 1);
            self.stats.blocked_sent += 1;
            let blocked = Datagram { data_blocked: Some(self.max_data), ..Datagram::default() };
            return Some(self.send(now, blocked));
        }
        self.send_bare_ack(now)
    }

    fn has_data(&self) -> bool {
        !self.lost_data.is_empty() || self.next_new_data().is_some()
    }

    /// Something waits that the receiver's credit does not cover.
    fn is_blocked(&self) -> bool {
        self.next == self.max_data && self.offered > self.next
    }

    /// Bytes of payload that fit into a packet from `offset` on.
    fn room(&self, offset: u64) -> u32 {
        let frame = StreamFrame { offset, len: self.config.datagram_bytes, fin: false };
        let ack = self.ack_frame().map_or(0, |ack| ack.wire_bytes());
        self.config.datagram_bytes.saturating_sub(HEADER_BYTES + ack + frame.header_bytes()).max(1)
    }

    fn ack_frame(&self) -> Option<AckFrame> {
        self.ack_due.and_then(|number| AckFrame::of(number, number))
    }

    /// The oldest lost bytes that have not arrived after all.
    fn next_lost_data(&mut self) -> Option<StreamFrame> {
        while let Some(frame) = self.lost_data.front_mut() {
            let run = Run { start: frame.offset, end: frame.end() };
            let missing = self.delivered_data.first_missing(run);
            if missing.is_none() && (!frame.fin || self.fin_acked) {
                self.lost_data.pop_front();
                continue;
            }
            // An end without payload stays where it is.
            let missing = missing.unwrap_or(Run { start: run.end, end: run.end });
            let frame = *frame;
            let len = u64::from(self.room(missing.start)).min(missing.end - missing.start) as u32;
            let end = missing.start + u64::from(len);
            let fin = frame.fin && end == frame.end();
            if end == frame.end() {
                self.lost_data.pop_front();
            } else if let Some(rest) = self.lost_data.front_mut() {
                rest.len = (frame.end() - end) as u32;
                rest.offset = end;
            }
            return Some(StreamFrame { offset: missing.start, len, fin });
        }
        None
    }

    fn next_new_data(&self) -> Option<StreamFrame> {
        let open = self.offered.min(self.max_data).saturating_sub(self.next);
        let len = open.min(u64::from(self.room(self.next))) as u32;
        let fin = self.closing && !self.fin_sent && self.next + u64::from(len) == self.offered;
        (len > 0 || fin).then_some(StreamFrame { offset: self.next, len, fin })
    }

    fn send_stream(&mut self, now: Nanos, frame: StreamFrame, again: bool) -> Datagram {
        self.stats.bytes_sent += u64::from(frame.len);
        if again {
            self.stats.bytes_retransmitted += u64::from(frame.len);
            self.stats.packets_retransmitted += 1;
        } else {
            self.next = frame.end();
            self.fin_sent |= frame.fin;
        }
        self.send(now, Datagram { stream: Some(frame), ..Datagram::default() })
    }

    /// RFC 9002 §6.2.4: new data if there are some, else those of the oldest packet in flight, else a PING. Neither the
    /// window nor the pacer holds it back.
    fn send_probe(&mut self, now: Nanos) -> Datagram {
        if let Some(frame) = self.next_lost_data() {
            return self.send_stream(now, frame, true);
        }
        if let Some(frame) = self.next_new_data() {
            return self.send_stream(now, frame, false);
        }
        let oldest = self.packets.iter().find(|packet| packet.fate == Fate::InFlight);
        match oldest.and_then(|packet| packet.stream) {
            Some(frame) => self.send_stream(now, frame, true),
            None => self.send(now, Datagram { ping: true, ..Datagram::default() }),
        }
    }

    /// A packet that asks for an acknowledgment goes out.
    fn send(&mut self, now: Nanos, datagram: Datagram) -> Datagram {
        if self.in_flight == 0 {
            let start = StartEvent {
                now,
                idle: now.saturating_sub(self.last_sent_at),
                app_limited: self.rate.as_deref().is_some_and(RateEstimator::is_limited),
                una: self.delivered_bytes,
                nxt: self.delivered_bytes,
            };
            self.congestion.on_start(&mut self.window, &start);
        }
        let datagram = self.numbered(now, datagram);
        let bytes = datagram.wire_bytes();
        self.packets.push_back(Sent { stream: datagram.stream, bytes, sent_at: now, fate: Fate::InFlight });
        self.in_flight += 1;
        self.bytes_in_flight += u64::from(bytes);
        self.last_sent_at = now;
        self.stats.packets_sent += 1;
        self.limited = self.in_flight >= self.window.cwnd;
        self.pace(now, bytes);
        self.set_recovery_timer(now);
        datagram
    }

    fn numbered(&mut self, now: Nanos, datagram: Datagram) -> Datagram {
        let ack = self.ack_frame();
        self.ack_due = None;
        let number = self.first + self.packets.len() as u64;
        if let Some(rate) = self.rate.as_deref_mut() {
            rate.on_sent(number, now, self.delivered, self.in_flight == 0);
        }
        Datagram { number, ack, ..datagram }
    }

    /// An acknowledgment for which no packet with data is going out.
    fn send_bare_ack(&mut self, now: Nanos) -> Option<Datagram> {
        self.ack_due?;
        let datagram = self.numbered(now, Datagram::default());
        // Its number is used up; that it arrives is nobody's concern.
        self.packets.push_back(Sent { stream: None, bytes: 0, sent_at: Nanos::ZERO, fate: Fate::Unwatched });
        Some(datagram)
    }

    /// RFC 9002 §7.7, or as the controller says.
    fn pace(&mut self, now: Nanos, bytes: u32) {
        let own = self.congestion.pacing_rate();
        let burst = if own.is_some() { 1 } else { u64::from(self.config.initial_window) };
        let usual = || {
            let srtt = self.rtt.smoothed().filter(|srtt| *srtt > GRANULARITY && self.config.pacing)?;
            let window = u128::from(self.window.cwnd) * u128::from(self.config.datagram_bytes);
            u64::try_from(window * 1_000_000_000 * 5 / 4 / u128::from(srtt.0)).ok()
        };
        let Some(rate) = own.or_else(usual).filter(|&rate| rate > 0) else {
            self.release = Nanos::ZERO;
            return;
        };
        let time = |bytes: u64| {
            Nanos((u128::from(bytes) * 1_000_000_000 / u128::from(rate)).min(u128::from(u64::MAX)) as u64)
        };
        let allowance = time(u64::from(self.config.datagram_bytes) * (burst - 1));
        self.release = self.release.max(now.saturating_sub(allowance)).saturating_add(time(u64::from(bytes)));
    }
}

/// What an acknowledgment says that was not known.
#[derive(Clone, Copy, Debug, Default)]
struct Newly {
    packets: u32,
    bytes: u64,
    /// Packets that had been taken to be lost.
    late: u32,
    largest: Option<u64>,
    largest_sent_at: Option<Nanos>,
}
