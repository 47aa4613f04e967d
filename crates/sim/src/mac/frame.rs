//! Frames, and the results of events at a station: types that the DCF and EDCA share.

use fairhop_model::phy::Rate;
use fairhop_model::units::Nanos;

use super::params::MacParams;
use crate::engine::Events;
use crate::packet::{ImageId, Packets};

/// Receiver address of a frame to all neighbours.
pub const BROADCAST: u32 = u32::MAX;

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A data frame.
    Data,
    /// An acknowledgment.
    Ack,
    /// A request to send.
    Rts,
    /// A clear to send.
    Cts,
}

/// A frame on the air.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Its kind.
    pub kind: FrameKind,
    /// Whether it is a retransmission. On the air, only data frames carry this bit, RTS frames do not (9.2.4.1.6).
    pub retry: bool,
    /// User priority of a QoS data frame.
    pub user_priority: Option<u8>,
    /// Sequence number of a data frame.
    pub sequence: u16,
    /// Receiver, or [`BROADCAST`].
    pub to: u32,
    /// The packet of a data frame.
    pub packet: ImageId,
    /// Size in bytes, MAC header and FCS included.
    pub bytes: u32,
    /// Data rate.
    pub rate: Rate,
    /// Time on the air.
    pub time: Nanos,
    /// Duration field: time from the end of this frame to the end of the exchange.
    pub nav: Nanos,
}

/// A packet that the station has finished with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The packet.
    pub packet: ImageId,
    /// Whether it was acknowledged or broadcast; otherwise the retry limit was reached.
    pub delivered: bool,
}

/// Results of a frame at a station that received or lost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Whether it carries data for this station.
    pub data: Data,
    /// A packet of the station's own that this frame finishes.
    pub done: Option<Done>,
}

impl Received {
    /// Whether there are any results.
    #[inline]
    pub fn matters(&self) -> bool {
        self.data != Data::None || self.done.is_some()
    }
}

/// Whether a frame carries data for a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// No.
    #[default]
    None,
    /// Yes.
    New,
    /// Yes, but the station has received it before: its acknowledgment was lost.
    Duplicate,
}

/// What a station needs to handle an event.
pub struct Context<'a> {
    /// The event queue.
    pub events: &'a mut Events,
    /// MAC parameters.
    pub params: &'a MacParams,
    /// All packets in the network.
    pub packets: &'a mut Packets,
    /// The station's number.
    pub node: u32,
}

impl Context<'_> {
    /// The same context with other MAC parameters.
    pub(super) fn with<'a>(&'a mut self, params: &'a MacParams) -> Context<'a> {
        Context { events: self.events, params, packets: self.packets, node: self.node }
    }
}
