//! Routing protocols of mobile ad hoc networks without input or output: messages, time and link events come in; messages,
//! released packets and the time of the next timer go out. No clock, no socket, and no randomness but that of a generator
//! that the caller passes in.
//!
//! | module | what it is |
//! |---|---|
//! | [`aodv`] | ad hoc on-demand distance vector routing (RFC 3561) |
//! | [`neighbours`] | who is heard, and when HELLO messages are due; no part of AODV, so that other protocols can use it |
//! | [`pdp`] | the path density protocol: max-min shares of airtime, computed by the nodes (osipov2007 §3.3, §4.4) |
//! | [`wire`] | the messages as bytes |
//!
//! The caller keeps data packets. The machine knows them by a [`Token`].

pub mod aodv;
#[cfg(test)]
mod draws;
pub mod neighbours;
pub mod pdp;
mod sequence;
pub mod wire;

use fairhop_model::units::Nanos;
pub use sequence::Sequence;

/// An IPv4 address as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u32);

impl Address {
    /// All neighbours.
    pub const BROADCAST: Self = Self(u32::MAX);
}

/// A data packet that the caller keeps.
pub type Token = u32;

/// The caller's random generator.
pub trait Random {
    /// A whole number from 0 up to and including `max`, every one equally likely.
    fn up_to(&mut self, max: u32) -> u32;
}

/// What a machine gets with every event.
pub struct Context<'a> {
    /// The time.
    pub now: Nanos,
    /// The generator of jitter.
    pub random: &'a mut dyn Random,
    /// What the machine wants done is appended here.
    pub actions: &'a mut Vec<Action>,
}

/// The kinds of routing messages that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageKind {
    /// RREQ of the node itself.
    RequestOriginated,
    /// RREQ of another node.
    RequestForwarded,
    /// RREP, forwarded ones and gratuitous ones included.
    Reply,
    /// RREP-ACK.
    ReplyAck,
    /// RERR.
    Error,
    /// HELLO: an RREP to all neighbours.
    Hello,
}

impl MessageKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::RequestOriginated,
        Self::RequestForwarded,
        Self::Reply,
        Self::ReplyAck,
        Self::Error,
        Self::Hello,
    ];

    /// The kind's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestOriginated => "rreq_originated",
            Self::RequestForwarded => "rreq_forwarded",
            Self::Reply => "rrep",
            Self::ReplyAck => "rrep_ack",
            Self::Error => "rerr",
            Self::Hello => "hello",
        }
    }
}

/// Why a machine drops a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// There is no route, or discovery has found none.
    NoRoute,
    /// The buffer for packets without a route is full.
    BufferFull,
    /// It waited too long in that buffer.
    BufferTimeout,
}

/// What a machine wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a routing message, as the payload of a datagram from and to UDP port [`wire::PORT`].
    Send {
        /// What it is.
        kind: MessageKind,
        /// A neighbour, or [`Address::BROADCAST`].
        to: Address,
        /// Time to live of the IP packet.
        ttl: u8,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Send a packet that was buffered.
    Release {
        /// The packet.
        token: Token,
        /// Where to.
        next_hop: Address,
    },
    /// Drop a packet that was buffered.
    Drop {
        /// The packet.
        token: Token,
        /// Why.
        reason: DropReason,
    },
    /// A link is broken: packets for this neighbour leave the interface queue.
    LinkBroken {
        /// The neighbour.
        neighbour: Address,
        /// How it was noticed.
        cause: BreakCause,
        /// A route over it was in use: it carried data within the last `active_route_timeout`, or has precursors.
        in_use: bool,
    },
    /// A route has changed: it is new, has another next hop or length, or has become invalid.
    Route {
        /// Where it goes.
        destination: Address,
        /// The next hop and the hop count; none if there is no valid route any more.
        over: Option<(Address, u8)>,
    },
    /// A discovery has ended.
    Discovered {
        /// What was looked for.
        destination: Address,
        /// The time since it began.
        latency: Nanos,
        /// A route was found.
        found: bool,
    },
}

/// How a broken link was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakCause {
    /// The link layer gave up packets at its retry limit.
    Feedback,
    /// Nothing was heard from the neighbour for too long.
    Silence,
}

/// A data packet that needs a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The caller's name for it.
    pub token: Token,
    /// Who sent it.
    pub source: Address,
    /// The node of the mesh that it goes to.
    pub destination: Address,
    /// The neighbour that it came from; none if it enters the mesh here.
    pub previous: Option<Address>,
}

/// What becomes of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it to this neighbour.
    Send(Address),
    /// The machine keeps its token until [`Action::Release`] or [`Action::Drop`].
    Buffered,
    /// Drop it.
    Drop(DropReason),
}
