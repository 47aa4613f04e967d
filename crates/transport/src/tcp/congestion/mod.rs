//! Congestion control: the events a variant receives, what it decides, and the closed set of variants.
//!
//! The window is counted in segments, as in Linux, and not in bytes as in RFC 5681. A variant then uses the same integer
//! arithmetic as its Linux original, and a trace of `cwnd` can be compared with one of a real kernel. Segments of bulk
//! data are full-sized; a short one counts as a whole one, which is conservative.
//!
//! A variant decides how far the window falls when data are lost and how it grows when data arrive. The sender decides
//! everything else: which segments are lost, what is sent next, and that the window does not grow while it is not used
//! (RFC 7661; done as in Linux, see `Sender`).

mod bbr;
mod compound;
mod cubic;
mod hystart;
mod newreno;
mod round_trips;
mod vegas;
mod veno;
mod westwood;

pub use bbr::Bbr;
pub use compound::{Compound, CompoundParameters};
pub use cubic::Cubic;
use fairhop_model::units::Nanos;
pub use newreno::NewReno;
pub use vegas::Vegas;
pub use veno::Veno;
pub use westwood::{Westwood, WestwoodPlus};

/// A congestion-control variant by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionKind {
    /// The window of [`NewReno`]. Where both sides have SACK, this is what Linux calls `reno`, and the same as
    /// `NewReno`. Without SACK, fast recovery is that of RFC 5681 §3.2 (ns-2's Reno): the first acknowledgment of new
    /// data ends it, and a second loss in the same window mostly waits for the timer.
    Reno,
    /// RFC 5681 with the fast recovery of RFC 6582: [`NewReno`].
    #[default]
    NewReno,
    /// Brakmo and Peterson's, as in Linux: [`Vegas`].
    Vegas,
    /// Fu and Liew's, as in Linux: [`Veno`].
    Veno,
    /// The original Westwood: [`Westwood`].
    Westwood,
    /// Linux's `westwood`: [`WestwoodPlus`].
    WestwoodPlus,
    /// Tan et al.'s: [`Compound`].
    Compound,
    /// RFC 9438, as in Linux: [`Cubic`].
    Cubic,
    /// Cardwell et al.'s, version 1 as in Linux: [`Bbr`].
    Bbr,
}

impl CongestionKind {
    /// Every variant.
    pub const ALL: [Self; 9] = [
        Self::Reno,
        Self::NewReno,
        Self::Vegas,
        Self::Veno,
        Self::Westwood,
        Self::WestwoodPlus,
        Self::Compound,
        Self::Cubic,
        Self::Bbr,
    ];
}

/// Options of some variants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// How CUBIC ends slow start before the queue is full.
    pub hystart: HyStart,
    /// Seed of the variant's random choices (the first phase of BBR's gain cycle). Flows that start together should have
    /// different seeds.
    pub seed: u64,
}

/// How slow start finds its end before a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HyStart {
    /// Slow start ends with a loss.
    Off,
    /// Ha and Rhee's, as in Linux: a train of acknowledgments as long as half a round trip, or an increased delay.
    #[default]
    Classic,
    /// HyStart++ (RFC 9406): an increased delay leads to conservative slow start first.
    PlusPlus,
}

/// Congestion window and slow-start threshold, in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd: u32,
    /// Slow-start threshold; [`Window::UNKNOWN`] until the first loss.
    pub ssthresh: u32,
}

impl Window {
    /// No loss has been seen: slow start has no end.
    pub const UNKNOWN: u32 = u32::MAX;

    /// Whether the window is in slow start (RFC 5681 §3.1). At `cwnd = ssthresh` the RFC allows both; this is congestion
    /// avoidance, as in Linux.
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// RFC 5681 §3.1: grows by the delivered segments up to the threshold; returns how many of `delivered` are left
    /// (Linux's `tcp_slow_start`).
    pub fn slow_start(&mut self, delivered: u32) -> u32 {
        let grown = self.cwnd.saturating_add(delivered).min(self.ssthresh);
        let left = delivered - (grown - self.cwnd);
        self.cwnd = grown;
        left
    }

    /// Half of the window, at least two segments (Linux's `tcp_reno_ssthresh`).
    pub fn half(&self) -> u32 {
        (self.cwnd / 2).max(2)
    }

    /// Raises the threshold to at least three quarters of the window (Linux's `tcp_current_ssthresh`).
    pub fn keep_three_quarters(&mut self) {
        self.ssthresh = self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2));
    }
}

/// Growth by one segment per number of segments delivered (Linux's `tcp_cong_avoid_ai`, RFC 5681 §3.1, RFC 3465).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdditiveIncrease {
    /// Segments delivered since the window last grew.
    pub credit: u32,
}

impl AdditiveIncrease {
    /// Counts `delivered` segments; the window grows by one for every `per_segment`.
    pub fn grow(&mut self, window: &mut Window, per_segment: u32, delivered: u32) {
        let per_segment = per_segment.max(1);
        if self.credit >= per_segment {
            self.credit = 0;
            window.cwnd = window.cwnd.saturating_add(1);
        }
        self.credit = self.credit.saturating_add(delivered);
        if self.credit >= per_segment {
            let steps = self.credit / per_segment;
            self.credit -= steps * per_segment;
            window.cwnd = window.cwnd.saturating_add(steps);
        }
    }

    /// Slow start and congestion avoidance of Reno, while the window is in use (Linux's `tcp_reno_cong_avoid`).
    pub fn grow_as_reno(&mut self, window: &mut Window, ack: &AckEvent) {
        if !ack.cwnd_limited {
            return;
        }
        let mut delivered = ack.growth_credit;
        if window.in_slow_start() {
            delivered = window.slow_start(delivered);
        }
        if delivered > 0 {
            self.grow(window, window.cwnd, delivered);
        }
    }
}

/// State of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No known loss.
    Open,
    /// The window is being reduced because the network marked a packet (RFC 3168); nothing is known to be lost.
    Cwr,
    /// Fast recovery (RFC 6582, RFC 6675, RFC 8985).
    Recovery,
    /// The timer expired, and the data then in flight are being retransmitted (RFC 5681 §3.1).
    Loss,
}

/// Delivery rate (draft-cheng-iccrg-delivery-rate-estimation, Linux's `tcp_rate.c`) over the interval that began when the
/// newest segment reported by this acknowledgment was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered in the interval.
    pub delivered: u32,
    /// Segments delivered since the connection began when that newest one was sent.
    pub prior_delivered: u64,
    /// The longer of the time over which they were sent and the time over which they were acknowledged.
    pub interval: Nanos,
    /// The application limited the rate when that segment was sent.
    pub app_limited: bool,
    /// That segment was a retransmission.
    pub retransmitted: bool,
}

/// Data arrived at the other side.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent {
    /// Arrival time of the acknowledgment.
    pub now: Nanos,
    /// Segments newly reported as arrived, cumulatively or selectively.
    pub newly_delivered: u32,
    /// Segments newly covered by the cumulative acknowledgment, SACKed before or not (Linux's `pkts_acked`).
    pub newly_acked: u32,
    /// Bytes newly covered by the cumulative acknowledgment.
    pub acked_bytes: u64,
    /// Segments declared lost because of this acknowledgment.
    pub newly_lost: u32,
    /// Segments that count for growth: all newly delivered with byte counting (RFC 3465, as in Linux), otherwise one
    /// (RFC 5681 §3.1, as in ns-2 and ns-3).
    pub growth_credit: u32,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// Segments declared lost since the connection began; one that is lost twice counts twice.
    pub lost: u64,
    /// Earliest time of the next packet, if the sender paces.
    pub release: Nanos,
    /// SND.UNA and SND.NXT as stream offsets. Variants that count round trips end one when `una` passes the `nxt` of its
    /// start.
    pub una: u64,
    /// See `una`.
    pub nxt: u64,
    /// The cumulative acknowledgment moved.
    pub advanced: bool,
    /// A round-trip time, if this acknowledgment gives one: that of the segment SACKed last, else of the last one covered,
    /// so that delayed acknowledgments add little.
    pub rtt: Option<Nanos>,
    /// Smoothed round-trip time, with this sample.
    pub srtt: Option<Nanos>,
    /// Shortest round-trip time so far.
    pub min_rtt: Option<Nanos>,
    /// The acknowledgment covers a single segment, so that the receiver may have delayed it.
    pub maybe_delayed: bool,
    /// Delivery rate; none if it is unknown, and always none unless [`CongestionControl::needs_rate`].
    pub rate: Option<RateSample>,
    /// Segments in flight before this acknowledgment.
    pub prior_in_flight: u32,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// The congestion window limited the sender, and not the application or the receiver.
    pub cwnd_limited: bool,
    /// The receiver echoes a mark of the network (RFC 3168).
    pub ece: bool,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// State of loss recovery after it.
    pub phase: Phase,
    /// Segments have arrived past a hole that is not filled. With [`Phase::Open`] this is Linux's state Disorder
    /// (`TCP_CA_Disorder`): a loss is possible but not established.
    pub disordered: bool,
}

impl AckEvent {
    /// Whether the window may grow: new data were acknowledged, and no reduction is under way (Linux's
    /// `tcp_may_raise_cwnd`). The variant checks whether the window was in use (`cwnd_limited`).
    pub fn may_grow(&self) -> bool {
        self.advanced && matches!(self.phase, Phase::Open | Phase::Loss)
    }
}

/// Why the window is to be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Data were lost.
    Loss,
    /// The network marked a packet (RFC 3168).
    Ecn,
}

/// Data were lost, or a packet was marked.
#[derive(Clone, Copy, Debug)]
pub struct LossEvent {
    /// When it was detected.
    pub now: Nanos,
    /// Loss or mark.
    pub reason: Reason,
    /// Segments sent and not cumulatively acknowledged (RFC 5681's FlightSize).
    pub flight: u32,
    /// Segments in flight (RFC 6675's pipe), without the lost ones.
    pub in_flight: u32,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// Segments declared lost since the connection began; one that is lost twice counts twice.
    pub lost: u64,
    /// SND.UNA and SND.NXT as stream offsets.
    pub una: u64,
    /// See `una`.
    pub nxt: u64,
    /// The smoothed and the shortest round-trip time.
    pub srtt: Option<Nanos>,
    /// See `srtt`.
    pub min_rtt: Option<Nanos>,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// State of loss recovery before.
    pub phase: Phase,
}

/// The handshake is over.
#[derive(Clone, Copy, Debug)]
pub struct OpenEvent {
    /// When.
    pub now: Nanos,
    /// Round-trip time of the handshake, if its SYN was sent once.
    pub srtt: Option<Nanos>,
    /// Payload of a full segment in bytes.
    pub mss: u32,
}

/// Data are sent after nothing was in flight.
#[derive(Clone, Copy, Debug)]
pub struct StartEvent {
    /// When.
    pub now: Nanos,
    /// Time since data were last sent.
    pub idle: Nanos,
    /// The application had nothing to send.
    pub app_limited: bool,
    /// SND.UNA and SND.NXT as stream offsets.
    pub una: u64,
    /// See `una`.
    pub nxt: u64,
}

/// A variant's reactions to events. Each changes the window in place.
pub trait CongestionControl {
    /// The connection is open.
    fn on_open(&mut self, _window: &mut Window, _open: &OpenEvent) {}

    /// Data are sent after nothing was in flight.
    fn on_start(&mut self, _window: &mut Window, _start: &StartEvent) {}

    /// An acknowledgment arrived.
    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent);

    /// Fast recovery or the reduction for a mark begins, once per window of data. Sets the threshold and the window to
    /// the values at the end of the reduction; with PRR (RFC 6937) the sender spreads the reduction over a round trip.
    fn on_enter_recovery(&mut self, window: &mut Window, loss: &LossEvent);

    /// Fast recovery or the reduction ends: all data in flight at its start have arrived.
    fn on_exit_recovery(&mut self, window: &mut Window, now: Nanos);

    /// The retransmission timer expired for a window of data without an earlier loss event. (Otherwise the sender sets
    /// the window itself and calls [`CongestionControl::on_repeated_timeout`].)
    fn on_timeout(&mut self, window: &mut Window, loss: &LossEvent);

    /// The timer expired for a window of data with an earlier loss event. The sender has set the window.
    fn on_repeated_timeout(&mut self, _window: &mut Window, _loss: &LossEvent) {}

    /// The window was reduced because the sender was idle or used only a part of it for a retransmission timeout.
    fn on_restart(&mut self, window: &mut Window, now: Nanos);

    /// The last reduction was for a spurious loss; `prior` is the window before it.
    fn on_undo(&mut self, window: &mut Window, prior: Window) {
        window.cwnd = window.cwnd.max(prior.cwnd);
        window.ssthresh = window.ssthresh.max(prior.ssthresh);
    }

    /// Pacing rate in bytes of payload per second, if the variant paces.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Whether acknowledgments need a [`RateSample`].
    fn needs_rate(&self) -> bool {
        false
    }

    /// Whether the variant currently limits the data in flight itself, so that rate samples count as limited.
    fn limits_itself(&self) -> bool {
        false
    }

    /// Whether the variant also sets the window in recovery and after idle times (Linux's `cong_control`) instead of the
    /// sender.
    fn owns_window(&self) -> bool {
        false
    }
}

/// The variants, dispatched without a virtual call.
#[derive(Clone, Debug)]
pub enum Congestion {
    /// RFC 5681 and RFC 6582.
    NewReno(NewReno),
    /// Brakmo and Peterson.
    Vegas(Vegas),
    /// Fu and Liew.
    Veno(Veno),
    /// Mascolo et al.
    Westwood(Westwood),
    /// Dell'Aera, Grieco, Mascolo.
    WestwoodPlus(WestwoodPlus),
    /// Tan et al.
    Compound(Compound),
    /// RFC 9438.
    Cubic(Cubic),
    /// Cardwell et al.; boxed, because it is several times as large as the others.
    Bbr(Box<Bbr>),
}

impl Congestion {
    /// A fresh instance of a variant.
    pub fn new(kind: CongestionKind, tuning: Tuning) -> Self {
        match kind {
            CongestionKind::Reno | CongestionKind::NewReno => Self::NewReno(NewReno::default()),
            CongestionKind::Vegas => Self::Vegas(Vegas::default()),
            CongestionKind::Veno => Self::Veno(Veno::default()),
            CongestionKind::Westwood => Self::Westwood(Westwood::default()),
            CongestionKind::WestwoodPlus => Self::WestwoodPlus(WestwoodPlus::default()),
            CongestionKind::Compound => Self::Compound(Compound::default()),
            CongestionKind::Cubic => Self::Cubic(Cubic::new(tuning.hystart)),
            CongestionKind::Bbr => Self::Bbr(Box::new(Bbr::new(tuning.seed))),
        }
    }
}

/// Calls the same method of the active variant.
macro_rules! each {
    ($self:expr, $variant:ident => $call:expr) => {
        match $self {
            Congestion::NewReno($variant) => $call,
            Congestion::Vegas($variant) => $call,
            Congestion::Veno($variant) => $call,
            Congestion::Westwood($variant) => $call,
            Congestion::WestwoodPlus($variant) => $call,
            Congestion::Compound($variant) => $call,
            Congestion::Cubic($variant) => $call,
            Congestion::Bbr($variant) => $call,
        }
    };
}

impl CongestionControl for Congestion {
    fn on_open(&mut self, window: &mut Window, open: &OpenEvent) {
        each!(self, variant => variant.on_open(window, open));
    }

    fn on_start(&mut self, window: &mut Window, start: &StartEvent) {
        each!(self, variant => variant.on_start(window, start));
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        each!(self, variant => variant.on_ack(window, ack));
    }

    fn on_enter_recovery(&mut self, window: &mut Window, loss: &LossEvent) {
        each!(self, variant => variant.on_enter_recovery(window, loss));
    }

    fn on_exit_recovery(&mut self, window: &mut Window, now: Nanos) {
        each!(self, variant => variant.on_exit_recovery(window, now));
    }

    fn on_timeout(&mut self, window: &mut Window, loss: &LossEvent) {
        each!(self, variant => variant.on_timeout(window, loss));
    }

    fn on_repeated_timeout(&mut self, window: &mut Window, loss: &LossEvent) {
        each!(self, variant => variant.on_repeated_timeout(window, loss));
    }

    fn on_restart(&mut self, window: &mut Window, now: Nanos) {
        each!(self, variant => variant.on_restart(window, now));
    }

    fn on_undo(&mut self, window: &mut Window, prior: Window) {
        each!(self, variant => variant.on_undo(window, prior));
    }

    fn pacing_rate(&self) -> Option<u64> {
        each!(self, variant => variant.pacing_rate())
    }

    fn needs_rate(&self) -> bool {
        each!(self, variant => variant.needs_rate())
    }

    fn limits_itself(&self) -> bool {
        each!(self, variant => variant.limits_itself())
    }

    fn owns_window(&self) -> bool {
        each!(self, variant => variant.owns_window())
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! Events for the variants' tests.
    use super::*;

    /// An acknowledgment of `newly_delivered` segments, everything else neutral.
    pub(crate) fn ack(newly_delivered: u32) -> AckEvent {
        AckEvent {
            now: Nanos::ZERO,
            newly_delivered,
            newly_acked: newly_delivered,
            acked_bytes: 1000 * u64::from(newly_delivered),
            newly_lost: 0,
            growth_credit: newly_delivered,
            delivered: 0,
            lost: 0,
            release: Nanos::ZERO,
            una: 0,
            nxt: 0,
            advanced: true,
            rtt: None,
            srtt: None,
            min_rtt: None,
            maybe_delayed: false,
            rate: None,
            prior_in_flight: 0,
            in_flight: 0,
            cwnd_limited: true,
            ece: false,
            mss: 1000,
            phase: Phase::Open,
            disordered: false,
        }
    }

    /// A loss with `flight` segments outstanding.
    pub(crate) fn loss(flight: u32) -> LossEvent {
        LossEvent {
            now: Nanos::ZERO,
            reason: Reason::Loss,
            flight,
            in_flight: flight,
            delivered: 0,
            lost: 0,
            una: 0,
            nxt: 0,
            srtt: None,
            min_rtt: None,
            mss: 1000,
            phase: Phase::Open,
        }
    }
}
