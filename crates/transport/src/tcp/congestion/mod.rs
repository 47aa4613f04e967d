//! Congestion control: what a variant is told, what it decides, and the closed set of variants.
//!
//! The window is counted in segments, as Linux counts it, and not in bytes as RFC 5681 writes it: a variant then does
//! the same integer arithmetic as its Linux original, and a trace of `cwnd` can be laid over one of a real kernel.
//! Segments of bulk data are full-sized; a short one counts as a whole one, which is on the safe side.
//!
//! A variant decides how far the window falls when data are lost and how it grows when data arrive. Everything else
//! is the sender's: which segments are lost, what is sent next, and that the window does not grow while it is not used
//! (RFC 7661's concern, done as Linux does it; see `Sender`).

mod newreno;

use fairhop_model::units::Nanos;
pub use newreno::NewReno;

/// A congestion-control variant by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionKind {
    /// RFC 5681 and RFC 6582: [`NewReno`].
    #[default]
    NewReno,
}

/// What the sender may have in flight, in segments.
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

    /// Whether the window is still looking for its size (RFC 5681 §3.1; at `cwnd = ssthresh` either is allowed, Linux
    /// and this take congestion avoidance).
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// Where loss recovery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery (RFC 6582, RFC 6675).
    Recovery,
    /// What was in flight when the timer ran out is being repeated (RFC 5681 §3.1).
    Loss,
}

/// Data arrived at the other side.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent {
    /// When the acknowledgment came.
    pub now: Nanos,
    /// Segments that this acknowledgment newly says to have arrived, cumulatively or selectively.
    pub newly_delivered: u32,
    /// For how many segments this acknowledgment lets the window grow: as many as it delivers with byte counting
    /// (RFC 3465, as in Linux), otherwise one (RFC 5681 §3.1, as in ns-2 and ns-3).
    pub growth_credit: u32,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// The cumulative acknowledgment moved.
    pub advanced: bool,
    /// A round-trip time, where this acknowledgment gives one: of the last segment that it covers, so that the time
    /// which an ACK was held back counts little.
    pub rtt: Option<Nanos>,
    /// Shortest round-trip time so far.
    pub min_rtt: Option<Nanos>,
    /// Segments in flight before this acknowledgment.
    pub prior_in_flight: u32,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// The window, and not the application or the receiver, was what held the sender back.
    pub cwnd_limited: bool,
    /// Where loss recovery stands after it.
    pub phase: Phase,
}

/// Data were lost.
#[derive(Clone, Copy, Debug)]
pub struct LossEvent {
    /// When it was noticed.
    pub now: Nanos,
    /// Segments sent and not cumulatively acknowledged (RFC 5681's FlightSize).
    pub flight: u32,
    /// Segments delivered since the connection began.
    pub delivered: u64,
}

/// What a variant does at each event. Each verb changes the window in place.
pub trait CongestionControl {
    /// An acknowledgment brought news.
    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent);

    /// Fast recovery begins: once per window of data.
    fn on_enter_recovery(&mut self, window: &mut Window, loss: &LossEvent);

    /// Everything that was in flight when fast recovery began has arrived.
    fn on_exit_recovery(&mut self, window: &mut Window, now: Nanos);

    /// The retransmission timer ran out on a window of data whose loss the variant has not been told of. (Else the
    /// sender falls to one segment without asking.)
    fn on_timeout(&mut self, window: &mut Window, loss: &LossEvent);

    /// The sender was idle or used less than its window for a retransmission timeout, and the window was cut to fit.
    fn on_restart(&mut self, window: &mut Window, now: Nanos);
}

/// The variants, dispatched without a virtual call.
#[derive(Clone, Debug)]
pub enum Congestion {
    /// RFC 5681 and RFC 6582.
    NewReno(NewReno),
}

impl Congestion {
    /// A fresh instance of a variant.
    pub fn new(kind: CongestionKind) -> Self {
        match kind {
            CongestionKind::NewReno => Self::NewReno(NewReno::default()),
        }
    }
}

impl CongestionControl for Congestion {
    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        match self {
            Self::NewReno(variant) => variant.on_ack(window, ack),
        }
    }

    fn on_enter_recovery(&mut self, window: &mut Window, loss: &LossEvent) {
        match self {
            Self::NewReno(variant) => variant.on_enter_recovery(window, loss),
        }
    }

    fn on_exit_recovery(&mut self, window: &mut Window, now: Nanos) {
        match self {
            Self::NewReno(variant) => variant.on_exit_recovery(window, now),
        }
    }

    fn on_timeout(&mut self, window: &mut Window, loss: &LossEvent) {
        match self {
            Self::NewReno(variant) => variant.on_timeout(window, loss),
        }
    }

    fn on_restart(&mut self, window: &mut Window, now: Nanos) {
        match self {
            Self::NewReno(variant) => variant.on_restart(window, now),
        }
    }
}
