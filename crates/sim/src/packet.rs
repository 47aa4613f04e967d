//! Packets and where they are kept.
//!
//! A packet is stored once, in a slab, and handled by index. Two stations may hold it at the same time: one that has
//! passed it on and waits for the acknowledgment, and one that has received it.

use fairhop_model::units::Nanos;
use fairhop_transport::aimd;
use fairhop_transport::quic;
pub use fairhop_transport::tcp::Ecn;
use fairhop_transport::tcp::Segment;

use crate::rtcp::Report;

/// The index of a packet in the [`Packets`].
pub type PacketId = u32;

/// A node's number; the Internet host comes after the wireless nodes.
pub type NodeId = u32;

/// A differentiated services codepoint (RFC 2474), 6 bits of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(u8);

impl Dscp {
    /// Best effort: the default.
    pub const BEST_EFFORT: Self = Self(0);
    /// Lower effort (RFC 8622).
    pub const LOWER_EFFORT: Self = Self(1);
    /// Expedited forwarding (RFC 3246), for voice.
    pub const EXPEDITED: Self = Self(46);

    /// A codepoint; none where the value has more than 6 bits.
    pub const fn new(value: u8) -> Option<Self> {
        if value < 64 { Some(Self(value)) } else { None }
    }

    /// The 6 bits.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// The upper three bits: the class selector, which was the precedence of RFC 791.
    pub const fn class(self) -> u8 {
        self.0 >> 3
    }
}

/// Why a queue drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no room.
    Full,
    /// The discipline drops early, to keep the queue short.
    Early,
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// A TCP segment.
    Tcp(Segment),
    /// A voice packet with its RTP fields (RFC 3550 §5.1). The sequence number and timestamp are counted from zero
    /// and are cut to 16 and 32 bits on the wire.
    Rtp {
        /// Packets since the start of the stream.
        sequence: u32,
        /// Sampling instants since the start of the stream.
        timestamp: u64,
        /// Synchronization source.
        ssrc: u32,
        /// Payload type.
        payload_type: u8,
    },
    /// What an end of a call reports. No statistic of the call counts it.
    Rtcp(Report),
    /// An AIMD datagram.
    Aimd(aimd::Datagram),
    /// An acknowledgment of AIMD datagrams.
    AimdAck(aimd::Ack),
    /// A datagram of a QUIC-like transfer.
    Quic {
        /// The low bits of its packet number.
        number: u32,
        /// Bytes of the stream in it.
        data: u32,
        /// Where the rest is ([`Packets::quic`]).
        at: u32,
    },
    /// A datagram of a source that counts its packets.
    Udp {
        /// Packets since the start of the stream.
        sequence: u32,
    },
}

/// An IP packet. What every hop looks at comes first, in one cache line of its [`Slot`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet {
    /// When it was made.
    pub created: Nanos,
    /// Which stream it belongs to.
    pub stream: u32,
    /// Where it comes from.
    pub source: NodeId,
    /// Where it goes.
    pub destination: NodeId,
    /// Size of the IP packet in bytes, IP header included.
    pub bytes: u32,
    /// The node that is nearest to where it goes among those that have it.
    pub at: NodeId,
    /// Which of its flow's TCP connections it belongs to.
    pub connection: u16,
    /// Its fate is settled: it arrived or was lost.
    pub settled: bool,
    /// How urgent it is.
    pub dscp: Dscp,
    /// Whether its transport understands congestion notification, and whether it was notified.
    pub ecn: Ecn,
    /// What it carries.
    pub body: Body,
}

impl Packet {
    /// Whether the statistics of its flow count it.
    #[inline]
    pub const fn is_counted(&self) -> bool {
        !matches!(self.body, Body::Rtcp(_))
    }
}

/// A packet and how many stations hold it.
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot {
    holders: u32,
    packet: Packet,
}

/// All packets that are under way.
#[derive(Debug, Default)]
pub struct Packets {
    slots: Vec<Slot>,
    free: Vec<PacketId>,
    given_up: Vec<(PacketId, Refused)>,
    /// What QUIC-like datagrams say, and the places that are free.
    quic: Vec<quic::Datagram>,
    quic_free: Vec<u32>,
}

impl Packets {
    /// Room for `capacity` packets before the first growth.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            slots: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            given_up: Vec::with_capacity(64),
            quic: Vec::new(),
            quic_free: Vec::new(),
        }
    }

    /// Stores a packet; whoever stores it holds it.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Slot { holders: 1, packet };
                id
            }
            None => {
                self.slots.push(Slot { holders: 1, packet });
                (self.slots.len() - 1) as PacketId
            }
        }
    }

    /// Keeps what a QUIC-like datagram says until its packet is gone; the packet's body says where.
    pub fn insert_quic(&mut self, datagram: quic::Datagram) -> u32 {
        match self.quic_free.pop() {
            Some(at) => {
                self.quic[at as usize] = datagram;
                at
            }
            None => {
                self.quic.push(datagram);
                (self.quic.len() - 1) as u32
            }
        }
    }

    /// What a QUIC-like datagram says.
    pub fn quic(&self, at: u32) -> &quic::Datagram {
        &self.quic[at as usize]
    }

    /// One more station holds the packet.
    #[inline]
    pub fn hold(&mut self, id: PacketId) {
        self.slots[id as usize].holders += 1;
    }

    /// One station fewer holds the packet; true where it was the last one. The packet can still be looked at until the
    /// next one is stored.
    #[inline]
    pub fn release(&mut self, id: PacketId) -> bool {
        let Slot { packet, holders } = &mut self.slots[id as usize];
        debug_assert!(*holders > 0, "a packet released twice");
        *holders -= 1;
        if *holders == 0 {
            self.free.push(id);
            if let Body::Quic { at, .. } = packet.body {
                self.quic_free.push(at);
            }
        }
        *holders == 0
    }

    /// The packet.
    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.slots[id as usize].packet
    }

    /// The packet, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id as usize].packet
    }

    /// Marks a packet as having met congestion; false where its transport would not understand.
    pub fn mark(&mut self, id: PacketId) -> bool {
        let ecn = &mut self.get_mut(id).ecn;
        let understands = ecn.is_capable();
        if understands {
            *ecn = Ecn::Ce;
        }
        understands
    }

    /// A queue drops a packet that it had taken. Whoever holds it is yet to be told.
    pub fn give_up(&mut self, id: PacketId, why: Refused) {
        self.given_up.push((id, why));
    }

    /// A packet that a queue has dropped and whose holder has not been told.
    #[inline]
    pub fn take_given_up(&mut self) -> Option<(PacketId, Refused)> {
        self.given_up.pop()
    }

    /// The packets that somebody holds.
    pub fn alive(&self) -> impl Iterator<Item = &Packet> {
        self.slots.iter().filter(|slot| slot.holders > 0).map(|slot| &slot.packet)
    }
}
