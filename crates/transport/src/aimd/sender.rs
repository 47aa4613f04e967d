//! The sending machine: window, loss rule and timeout (cai2005, section II).

use fairhop_model::outage::tcp_friendly_alpha;
use fairhop_model::units::Nanos;

use super::packet::clock_us;
use super::{Ack, Datagram, RelativeDelay, Seq};
use crate::tcp::rtt::{RttConfig, RttEstimator};

/// Bits of the vector of an acknowledgment.
pub const VECTOR_BITS: u32 = 8;

/// A packet is lost when this number of later ones have arrived.
pub const LOSS_THRESHOLD: usize = 3;

/// How a sender behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderConfig {
    /// α: growth of the window in packets per round trip of congestion avoidance.
    pub alpha: f64,
    /// β: window after a loss, as a fraction of the outstanding packets.
    pub beta: f64,
    /// Window at the start, after a timeout and after an idle time, in packets.
    pub initial_window: u32,
    /// Maximum number of outstanding packets, whatever the receiver allows. Memory is allocated for it.
    pub max_window: u16,
    /// Retransmission timeout.
    pub rtt: RttConfig,
    /// The number of the first packet.
    pub first: Seq,
}

impl Default for SenderConfig {
    /// The parameters of cai2005: AIMD(0.2, 0.875).
    fn default() -> Self {
        Self {
            alpha: 0.2,
            beta: 0.875,
            initial_window: 2,
            max_window: 4096,
            rtt: RttConfig::default(),
            first: Seq::of(0),
        }
    }
}

impl SenderConfig {
    /// The default with this β and the α that makes it TCP-friendly.
    pub fn tcp_friendly(beta: f64) -> Self {
        Self { alpha: tcp_friendly_alpha(beta), beta, ..Self::default() }
    }
}

/// Counts of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent.
    pub sent: u64,
    /// Packets known to have arrived.
    pub acked: u64,
    /// Packets lost by the rule of three or a timeout. Packets acknowledged later are subtracted.
    pub lost: u64,
    /// Packets out of reach of every acknowledgment.
    pub unreported: u64,
    /// Packets counted as lost and acknowledged later.
    pub spurious: u64,
    /// Multiplicative decreases of the window.
    pub backoffs: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Acknowledgments processed.
    pub acks: u64,
    /// Acknowledgments of packets that were never sent or are no longer remembered.
    pub strange_acks: u64,
}

/// State of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    /// Outstanding, not reported on.
    #[default]
    Unknown,
    /// Outstanding, shown missing by an acknowledgment.
    Missing,
    /// Arrived.
    Acked,
    /// Counted as lost.
    Lost,
    /// Out of reach of all later acknowledgments.
    Unreported,
}

impl Fate {
    fn is_outstanding(self) -> bool {
        matches!(self, Self::Unknown | Self::Missing)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    at: Nanos,
    fate: Fate,
}

/// The sending side.
#[derive(Clone, Debug)]
pub struct Sender {
    alpha: f64,
    beta: f64,
    initial_window: f64,
    max_window: f64,
    first: u64,
    /// Number of the next packet.
    next: u64,
    /// No packet before this one is outstanding.
    oldest: u64,
    /// Packets of the last numbers, by their lowest bits.
    ring: Box<[Sent]>,
    outstanding: u32,
    /// Outstanding packets when the application could last send, and whether the window limited it then. All
    /// acknowledgments of one batch use these, as if each had come alone.
    flight: u32,
    limited: bool,
    /// The three largest acknowledged numbers, the largest first.
    top: [Option<u64>; LOSS_THRESHOLD],
    /// Losses before this number cause no further backoff.
    recover: u64,
    cwnd: f64,
    ssthresh: f64,
    rwnd: f64,
    rtt: RttEstimator,
    latest_rtt: Option<Nanos>,
    min_rtt: Option<Nanos>,
    delay: RelativeDelay,
    latest_delay: Option<Nanos>,
    timer: Option<Nanos>,
    last_sent: Nanos,
    /// Packets offered and not sent yet; `u64::MAX` is an endless stream.
    backlog: u64,
    stats: SenderStats,
}

impl Sender {
    /// A sender with nothing to send. Parameters are clamped: α ≥ 0, 0 ≤ β ≤ 1, windows ≥ 1.
    pub fn new(config: SenderConfig) -> Self {
        /// Packets remembered beyond the window, for late acknowledgments.
        const REMEMBERED: usize = 64;
        let max_window = config.max_window.max(1);
        let first = u64::from(config.first.get());
        let initial_window = f64::from(config.initial_window.max(1));
        Self {
            alpha: config.alpha.max(0.0),
            beta: config.beta.clamp(0.0, 1.0),
            initial_window,
            max_window: f64::from(max_window),
            first,
            next: first,
            oldest: first,
            ring: vec![Sent::default(); (2 * usize::from(max_window) + REMEMBERED).next_power_of_two()]
                .into_boxed_slice(),
            outstanding: 0,
            flight: 0,
            limited: false,
            top: [None; LOSS_THRESHOLD],
            recover: first,
            cwnd: initial_window,
            ssthresh: f64::INFINITY,
            rwnd: f64::INFINITY,
            rtt: RttEstimator::new(config.rtt),
            latest_rtt: None,
            min_rtt: None,
            delay: RelativeDelay::default(),
            latest_delay: None,
            timer: None,
            last_sent: Nanos::ZERO,
            backlog: 0,
            stats: SenderStats::default(),
        }
    }

    /// The application offers `packets` more; `u64::MAX` is an endless stream.
    pub fn offer(&mut self, packets: u64) {
        self.backlog = self.backlog.saturating_add(packets);
    }

    /// The application withdraws up to `packets` unsent packets.
    pub fn withdraw(&mut self, packets: u64) {
        self.backlog = self.backlog.saturating_sub(packets);
    }

    /// Packets offered and not sent yet.
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Whether nothing is unsent or outstanding.
    pub fn is_idle(&self) -> bool {
        self.backlog == 0 && self.outstanding == 0
    }

    /// The next packet, if there is one and the window has room. Call it after every acknowledgment and timer, or batch
    /// of them, until it returns none.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Datagram> {
        let datagram = self.transmit(now);
        self.flight = self.outstanding;
        self.limited = self.outstanding >= self.window();
        datagram
    }

    fn transmit(&mut self, now: Nanos) -> Option<Datagram> {
        if self.backlog == 0 {
            return None;
        }
        self.restart_after_idle(now);
        if self.outstanding >= self.window() {
            return None;
        }
        if self.backlog != u64::MAX {
            self.backlog -= 1;
        }
        let number = self.next;
        *self.slot(number) = Sent { at: now, fate: Fate::Unknown };
        self.next += 1;
        self.outstanding += 1;
        self.last_sent = now;
        self.stats.sent += 1;
        if self.timer.is_none() {
            self.arm(now);
        }
        Some(Datagram { seq: Seq::of(number), sent_us: clock_us(now) })
    }

    /// After an idle time of one timeout, the window is restarted (RFC 5681 §4.1).
    fn restart_after_idle(&mut self, now: Nanos) {
        let idle = now.saturating_sub(self.last_sent);
        if self.outstanding == 0 && self.stats.sent > 0 && idle > self.rtt.rto() {
            self.cwnd = self.cwnd.min(self.initial_window);
        }
    }

    /// An acknowledgment came. One of packets never sent is only counted.
    pub fn on_ack(&mut self, now: Nanos, ack: &Ack) {
        self.stats.acks += 1;
        let Some(number) = ack.seq.nearest(self.next).filter(|&number| self.remembers(number)) else {
            self.stats.strange_acks += 1;
            return;
        };
        self.rwnd = f64::from(ack.rwnd.max(1));
        let sample =
            (self.slot(number).fate != Fate::Acked).then(|| now.saturating_sub(self.slot(number).at));
        let mut acked = u32::from(self.arrived(number));
        for back in 1..=u64::from(VECTOR_BITS) {
            let Some(number) = number.checked_sub(back).filter(|&number| self.remembers(number)) else {
                break;
            };
            if ack.vector >> (back - 1) & 1 == 1 {
                acked += u32::from(self.arrived(number));
            } else if self.slot(number).fate == Fate::Unknown {
                self.slot(number).fate = Fate::Missing;
            }
        }
        if let Some(rtt) = sample {
            self.rtt.on_sample(rtt, number, self.next);
            self.rtt.note_min(rtt);
            self.latest_rtt = Some(rtt);
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.latest_delay = Some(self.delay.on_transit(ack.transit_us));
        }
        if self.limited {
            self.grow(acked);
        }
        if self.detect_losses() {
            self.back_off();
        }
        if acked > 0 || self.outstanding == 0 {
            self.arm(now);
        }
    }

    /// Marks a packet as arrived. Returns whether it was outstanding.
    fn arrived(&mut self, number: u64) -> bool {
        let fate = self.slot(number).fate;
        if fate == Fate::Acked {
            return false;
        }
        self.slot(number).fate = Fate::Acked;
        self.stats.acked += 1;
        match fate {
            Fate::Lost => {
                self.stats.lost -= 1;
                self.stats.spurious += 1;
            }
            Fate::Unreported => self.stats.unreported -= 1,
            Fate::Unknown | Fate::Missing | Fate::Acked => self.outstanding -= 1,
        }
        let place = self.top.iter().position(|top| top.is_none_or(|top| number > top));
        if let Some(place) = place {
            self.top[place..].rotate_right(1);
            self.top[place] = Some(number);
        }
        fate.is_outstanding()
    }

    /// Slow start doubles the window per round trip, congestion avoidance adds α.
    fn grow(&mut self, acked: u32) {
        for _ in 0..acked {
            self.cwnd += if self.cwnd < self.ssthresh { 1.0 } else { self.alpha / self.cwnd };
        }
    }

    /// Goes through the packets before the latest arrival. One is lost if it was shown missing and three later ones have
    /// arrived, and unreported if no later acknowledgment can cover it. Returns whether a loss calls for a backoff.
    fn detect_losses(&mut self) -> bool {
        let Some(latest) = self.top[0] else { return false };
        let third = self.top[LOSS_THRESHOLD - 1];
        let mut congested = false;
        for number in self.oldest..latest {
            let fate = match self.slot(number).fate {
                Fate::Missing if third.is_some_and(|third| number < third) => Fate::Lost,
                Fate::Unknown if latest - number > u64::from(VECTOR_BITS) => Fate::Unreported,
                _ => continue,
            };
            self.slot(number).fate = fate;
            self.outstanding -= 1;
            match fate {
                Fate::Lost => {
                    self.stats.lost += 1;
                    congested |= number >= self.recover;
                }
                _ => self.stats.unreported += 1,
            }
        }
        while self.oldest < self.next && !self.slot(self.oldest).fate.is_outstanding() {
            self.oldest += 1;
        }
        congested
    }

    fn back_off(&mut self) {
        self.cwnd = (self.beta * f64::from(self.flight)).max(1.0);
        self.ssthresh = self.cwnd;
        self.recover = self.next;
        self.stats.backoffs += 1;
    }

    /// When [`Sender::on_timer`] has to be called, if at all. Valid after the last [`Sender::poll_transmit`].
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timer
    }

    /// Time has passed. Does nothing before [`Sender::next_timer`].
    pub fn on_timer(&mut self, now: Nanos) {
        if self.timer.is_none_or(|at| now < at) {
            return;
        }
        /// RFC 5681 §3.1 (4): two segments.
        const MIN_SSTHRESH: f64 = 2.0;
        self.stats.timeouts += 1;
        let window = f64::from(self.window());
        self.ssthresh = (self.ssthresh.min(window) / 2.0).max(MIN_SSTHRESH);
        self.cwnd = self.initial_window;
        for number in self.oldest..self.next {
            let sent = self.slot(number);
            if sent.fate.is_outstanding() {
                sent.fate = Fate::Lost;
                self.stats.lost += 1;
            }
        }
        self.outstanding = 0;
        self.oldest = self.next;
        self.recover = self.next;
        self.rtt.back_off();
        self.timer = None;
    }

    fn arm(&mut self, now: Nanos) {
        self.timer = (self.outstanding > 0).then(|| now.saturating_add(self.rtt.rto()));
    }

    fn remembers(&self, number: u64) -> bool {
        number >= self.first && number < self.next && self.next - number <= self.ring.len() as u64
    }

    /// The entry of a packet. The ring is longer than the window, so no outstanding packet is overwritten.
    fn slot(&mut self, number: u64) -> &mut Sent {
        let mask = self.ring.len() - 1;
        &mut self.ring[number as usize & mask]
    }

    /// W = min(cwnd, rwnd) in packets, at least one.
    pub fn window(&self) -> u32 {
        self.cwnd.min(self.rwnd).min(self.max_window) as u32
    }

    /// The congestion window in packets.
    pub fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// The slow start threshold in packets; none before the first loss.
    pub fn ssthresh(&self) -> Option<f64> {
        self.ssthresh.is_finite().then_some(self.ssthresh)
    }

    /// The last advertised window, in packets.
    pub fn rwnd(&self) -> Option<u32> {
        self.rwnd.is_finite().then_some(self.rwnd as u32)
    }

    /// Packets outstanding.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The number of the next packet, for the end of the stream.
    pub fn end(&self) -> Seq {
        Seq::of(self.next)
    }

    /// Smoothed round-trip time, after the first sample.
    pub fn srtt(&self) -> Option<Nanos> {
        self.rtt.srtt()
    }

    /// Minimum round-trip time, after the first sample.
    pub fn min_rtt(&self) -> Option<Nanos> {
        self.min_rtt
    }

    /// The last round-trip time measured.
    pub fn latest_rtt(&self) -> Option<Nanos> {
        self.latest_rtt
    }

    /// The last one-way delay reported by the receiver, above the minimum so far.
    pub fn latest_delay(&self) -> Option<Nanos> {
        self.latest_delay
    }

    /// The retransmission timeout, with backoff.
    pub fn rto(&self) -> Nanos {
        self.rtt.rto()
    }

    /// Counts since the start.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }
}
