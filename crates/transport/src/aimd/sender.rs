//! The sending machine: window, loss rule and timeout (cai2005, section II).

use fairhop_model::outage::tcp_friendly_alpha;
use fairhop_model::units::Nanos;

use super::{Ack, Datagram, LOSS_THRESHOLD, RelativeDelay, Seq, VECTOR_BITS, clock_us};
use crate::tcp::rtt::{RttConfig, RttEstimator};

/// How a sender behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderConfig {
    /// α: by how many packets the window grows in a round trip of congestion avoidance.
    pub alpha: f64,
    /// β: the part of the outstanding packets that the window falls to.
    pub beta: f64,
    /// Window at the beginning, after a timeout and after an idle time, in packets.
    pub initial_window: u32,
    /// Most packets outstanding, whatever the receiver allows. It is what memory is kept for.
    pub max_window: u16,
    /// The timer.
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
    /// The default with a β, and the α with which it is friendly to TCP.
    pub fn tcp_friendly(beta: f64) -> Self {
        Self { alpha: tcp_friendly_alpha(beta), beta, ..Self::default() }
    }
}

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent.
    pub sent: u64,
    /// Packets known to have arrived.
    pub acked: u64,
    /// Packets taken as lost, by the rule of three or by a timeout; those that turned out to have arrived are not
    /// among them any more.
    pub lost: u64,
    /// Packets that no acknowledgment told anything of.
    pub unreported: u64,
    /// Packets that were taken as lost and had arrived.
    pub spurious: u64,
    /// Times that the window fell by β.
    pub backoffs: u64,
    /// Times that the timer ran out.
    pub timeouts: u64,
    /// Acknowledgments taken in.
    pub acks: u64,
    /// Acknowledgments of packets that were never sent, or so long ago that nobody remembers.
    pub strange_acks: u64,
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    /// Outstanding, and nothing is known.
    #[default]
    Unknown,
    /// Outstanding, and an acknowledgment showed it missing.
    Missing,
    /// Arrived.
    Acked,
    /// Taken as lost.
    Lost,
    /// Out of the reach of every acknowledgment to come.
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
    /// Packets outstanding when the application could last send, and whether the window was what kept it from sending
    /// more. Acknowledgments that come in one batch are judged by this, as if they had come one by one.
    flight: u32,
    limited: bool,
    /// The three largest numbers known to have arrived, the largest first.
    top: [Option<u64>; LOSS_THRESHOLD],
    /// Losses of packets before this number have been answered by a backoff.
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
    /// What the application has offered and is not sent yet; `u64::MAX` is a stream without end.
    backlog: u64,
    stats: SenderStats,
}

impl Sender {
    /// A sender with nothing to send. Parameters that make no sense are taken as the nearest that do: α is not negative,
    /// β within 0 and 1, windows at least one.
    pub fn new(config: SenderConfig) -> Self {
        /// Beyond the window, so that late acknowledgments find their packet.
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

    /// The application has so many packets more; `u64::MAX` is a stream without end.
    pub fn offer(&mut self, packets: u64) {
        self.backlog = self.backlog.saturating_add(packets);
    }

    /// The application takes back up to so many of the packets that are not sent yet.
    pub fn withdraw(&mut self, packets: u64) {
        self.backlog = self.backlog.saturating_sub(packets);
    }

    /// Packets that were offered and are not sent yet.
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Whether nothing is left to be sent and nothing outstanding.
    pub fn is_idle(&self) -> bool {
        self.backlog == 0 && self.outstanding == 0
    }

    /// The next packet, if there is one and the window has room. Ask after every acknowledgment and timer, or after a
    /// batch of them, until it gives nothing.
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

    /// Who has been idle for a timeout knows nothing of the network any more (RFC 5681 §4.1).
    fn restart_after_idle(&mut self, now: Nanos) {
        let idle = now.saturating_sub(self.last_sent);
        if self.outstanding == 0 && self.stats.sent > 0 && idle > self.rtt.rto() {
            self.cwnd = self.cwnd.min(self.initial_window);
        }
    }

    /// An acknowledgment came. One of packets that were never sent changes nothing.
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
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
            self.latest_delay = Some(self.delay.on_transit(ack.transit_us));
        }
        if self.limited {
            self.grow(acked);
        }
        if self.give_up_lost() {
            self.back_off();
        }
        if acked > 0 || self.outstanding == 0 {
            self.arm(now);
        }
    }

    /// Takes a packet as arrived. Tells whether it had been outstanding.
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

    /// Slow start doubles the window in a round trip, congestion avoidance adds α to it.
    fn grow(&mut self, acked: u32) {
        for _ in 0..acked {
            self.cwnd += if self.cwnd < self.ssthresh { 1.0 } else { self.alpha / self.cwnd };
        }
    }

    /// Goes through the packets that later ones have overtaken: one is lost if it was shown missing and three later ones
    /// have arrived, and forgotten if no acknowledgment can tell of it any more. Tells whether a loss calls for a
    /// backoff.
    fn give_up_lost(&mut self) -> bool {
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

    /// When [`Sender::on_timer`] wants to be called, if at all. Ask after the last [`Sender::poll_transmit`].
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timer
    }

    /// Time has passed. Before the time of [`Sender::next_timer`] this does nothing.
    pub fn on_timer(&mut self, now: Nanos) {
        if self.timer.is_none_or(|at| now < at) {
            return;
        }
        /// RFC 5681 §3.1 (4): two segments.
        const LEAST_SSTHRESH: f64 = 2.0;
        self.stats.timeouts += 1;
        let window = f64::from(self.window());
        self.ssthresh = (self.ssthresh.min(window) / 2.0).max(LEAST_SSTHRESH);
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

    /// The entry of a packet. The ring is longer than the window, so that no outstanding packet is overwritten.
    fn slot(&mut self, number: u64) -> &mut Sent {
        let mask = self.ring.len() - 1;
        &mut self.ring[number as usize & mask]
    }

    /// W = min(cwnd, rwnd) in packets that may be outstanding, at least one.
    pub fn window(&self) -> u32 {
        self.cwnd.min(self.rwnd).min(self.max_window) as u32
    }

    /// The congestion window in packets.
    pub fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// The slow start threshold in packets; none until the first loss.
    pub fn ssthresh(&self) -> Option<f64> {
        self.ssthresh.is_finite().then_some(self.ssthresh)
    }

    /// The window that the receiver advertised last, in packets.
    pub fn rwnd(&self) -> Option<u32> {
        self.rwnd.is_finite().then_some(self.rwnd as u32)
    }

    /// Packets outstanding.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The number of the next packet, which ends the stream if no more comes.
    pub fn end(&self) -> Seq {
        Seq::of(self.next)
    }

    /// Smoothed round-trip time, once there is a sample.
    pub fn srtt(&self) -> Option<Nanos> {
        self.rtt.srtt()
    }

    /// Shortest round-trip time, once there is a sample.
    pub fn min_rtt(&self) -> Option<Nanos> {
        self.min_rtt
    }

    /// The last round-trip time measured.
    pub fn latest_rtt(&self) -> Option<Nanos> {
        self.latest_rtt
    }

    /// The last one-way delay that the receiver told of, over the shortest so far.
    pub fn latest_delay(&self) -> Option<Nanos> {
        self.latest_delay
    }

    /// The timeout, backed off.
    pub fn rto(&self) -> Nanos {
        self.rtt.rto()
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }
}
