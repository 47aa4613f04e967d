//! Flows and their streams: what applications of all kinds have in common.

use fairhop_model::headers;
use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;

use super::aimd::DATA_HEADERS;
use crate::packet::{Body, Dscp, NodeId, Packet, stream};

/// What kind of flow it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// A call, measured both ways.
    Call(Codec),
    /// A TCP transfer; the index of its machines.
    Bulk(usize),
    /// AIMD datagrams; the index of its machines.
    Aimd(usize),
    /// A transfer over QUIC-like datagrams; the index of its machines.
    Quic(usize),
    /// Datagrams at a constant rate.
    Cbr,
    /// Datagrams in bursts.
    Burst,
    /// Echo requests and their replies, which are one stream: a packet is delivered when its reply has come back.
    Ping,
    /// Pages; the index of the session.
    Web(usize),
    /// Requests and responses; the index of the session.
    Request(usize),
    /// Video; its index.
    Video(usize),
    /// Packets of programs outside the simulator; the index of what is known of them.
    Real(usize),
}

impl FlowKind {
    /// The word for it in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            Self::Bulk(_) => "bulk",
            Self::Aimd(_) => "aimd",
            Self::Quic(_) => "quic",
            Self::Cbr => "cbr",
            Self::Burst => "burst",
            Self::Ping => "ping",
            Self::Web(_) => "web",
            Self::Request(_) => "request",
            Self::Video(_) => "video",
            Self::Real(_) => "real",
        }
    }
}

/// A flow: one call, transfer or stream of datagrams.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name in results.
    pub name: String,
    /// The entry of the scenario's traffic that it comes from.
    pub entry: usize,
    /// What it is.
    pub kind: FlowKind,
    /// One end: the sender of data, where only one end does.
    pub from: NodeId,
    /// The other end.
    pub to: NodeId,
    /// How urgent its packets are, both ways.
    pub dscp: Dscp,
    /// A packet that comes later than this after the fastest one is an outage.
    pub delay_bound: Option<Nanos>,
    /// When it may start.
    pub start: Nanos,
    /// When it stops.
    pub stop: Nanos,
}

/// The stream of a flow's data. That of a request flow is the one from the answering end.
pub(in crate::world) fn data_stream(kind: FlowKind, flow: usize) -> u32 {
    stream(flow, matches!(kind, FlowKind::Request(_)))
}

/// Bytes of application data in a packet.
pub(in crate::world) fn payload_bytes(packet: &Packet) -> u32 {
    match packet.body {
        Body::Tcp(segment) => segment.len,
        Body::Rtp { .. } => packet.bytes - headers::IP_UDP_RTP,
        // The header of an echo has as many bytes as that of UDP.
        Body::Udp { .. } | Body::Echo { .. } => packet.bytes - headers::IP_UDP,
        Body::Aimd(_) => packet.bytes - DATA_HEADERS,
        Body::AimdAck(_) | Body::Rtcp(_) | Body::Routing => 0,
        Body::Quic { data, .. } => data,
        Body::Real { headers, .. } => packet.bytes.saturating_sub(u32::from(headers)),
    }
}
