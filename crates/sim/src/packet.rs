//! Packets, and the image of a packet that each hop holds.
//!
//! A [`Packet`] is what does not change between source and destination: its ends, size and content. An *image* is one
//! node's copy of its header: what routers rewrite ([`Header`]: TTL, ECN, window) and a handle to payload bytes where
//! there are any. Two nodes hold images of the same packet while the sender waits for the acknowledgment of the receiver;
//! what the receiver rewrites does not reach a retransmission of the sender. Both kinds live in slabs and are handled by
//! index.

use std::num::NonZeroU32;

use fairhop_model::units::Nanos;
use fairhop_transport::aimd;
use fairhop_transport::quic;
pub use fairhop_transport::tcp::Ecn;
use fairhop_transport::tcp::Segment;

use crate::rtcp::Report;

/// The index of an image in the [`Packets`].
pub type ImageId = u32;

/// The index of payload bytes in the [`Packets`], counted from one, so that none takes no space.
pub type PayloadId = NonZeroU32;

/// A node's number; the Internet host comes after the wireless nodes.
pub type NodeId = u32;

/// The number of a flow's stream: of its data, or of the packets in the other direction.
pub const fn stream(flow: usize, back: bool) -> u32 {
    (flow * 2 + back as usize) as u32
}

/// The flow that a stream belongs to.
pub const fn flow_of(stream: u32) -> usize {
    stream as usize / 2
}

/// Whether a stream is that of the packets in the other direction.
pub const fn is_back(stream: u32) -> bool {
    !stream.is_multiple_of(2)
}

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
        /// Marker: the first packet after a pause of a speaker whose silence is suppressed.
        marker: bool,
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
        /// Index of the rest ([`Packets::quic`]).
        at: u32,
    },
    /// A datagram of a source that counts its packets.
    Udp {
        /// Packets since the start of the stream.
        sequence: u32,
    },
    /// An echo request, or its reply (RFC 792).
    Echo {
        /// Requests since the start of the stream.
        sequence: u32,
        /// It answers a request.
        is_reply: bool,
        /// Time between the requests of a probe in ms; 0 for an ordinary ping.
        probe_ms: u16,
    },
    /// An IP packet or an Ethernet frame from outside the simulator. Its bytes, with all headers, are the payload of its
    /// images ([`Packets::payload`]); [`Packet::bytes`] does not count the Ethernet header.
    Real {
        /// Bytes before the application's data, Ethernet header excluded.
        headers: u16,
        /// An Ethernet frame, for one radio hop.
        is_frame: bool,
    },
    /// A message of a routing protocol over UDP, whose bytes are the payload of its images. It belongs to no flow.
    Routing,
}

/// An IP packet without the fields that routers rewrite.
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
    /// Which of its flow's TCP connections it belongs to.
    pub connection: u16,
    /// Its precedence at queues and access categories.
    pub dscp: Dscp,
    /// What it carries, as its source wrote it.
    pub body: Body,
}

impl Packet {
    /// Whether the statistics of its flow count it.
    #[inline]
    pub const fn is_counted(&self) -> bool {
        !matches!(self.body, Body::Rtcp(_) | Body::Routing)
    }

    /// Whether they count its sending: an echo request and its reply are one packet there.
    #[inline]
    pub const fn counts_sent(&self) -> bool {
        self.is_counted() && !matches!(self.body, Body::Echo { is_reply: true, .. })
    }

    /// Whether they count its arrival.
    #[inline]
    pub const fn counts_arrived(&self) -> bool {
        self.is_counted() && !matches!(self.body, Body::Echo { is_reply: false, .. })
    }
}

/// The header fields that differ from hop to hop, and the handle to payload bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Time to live (RFC 791 §3.1): a node that forwards the packet sends it with one less.
    pub ttl: u8,
    /// Whether its transport supports congestion notification, and whether a queue has marked it (RFC 3168 §5).
    pub ecn: Ecn,
    /// Window field of a TCP segment, unscaled, which a gateway may lower; 0 for others.
    pub window: u16,
    /// The bytes behind the headers, where somebody outside the simulator made them.
    pub payload: Option<PayloadId>,
}

impl Header {
    /// The header of a packet with this body as its source sends it.
    pub const fn new(body: &Body, ttl: u8, ecn: Ecn) -> Self {
        let window = match body {
            Body::Tcp(segment) => segment.window,
            _ => 0,
        };
        Self { ttl, ecn, window, payload: None }
    }
}

/// A packet as one node holds it. Dereferences to the packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    /// What all images share.
    pub packet: &'a Packet,
    /// What this one has for itself.
    pub header: &'a Header,
    payloads: &'a [Payload],
}

impl std::ops::Deref for PacketView<'_> {
    type Target = Packet;

    #[inline]
    fn deref(&self) -> &Packet {
        self.packet
    }
}

impl<'a> PacketView<'a> {
    /// A packet without payload bytes.
    #[cfg(test)]
    pub(crate) const fn plain(packet: &'a Packet, header: &'a Header) -> Self {
        Self { packet, header, payloads: &[] }
    }

    /// The payload bytes; none where the simulator made the packet.
    pub fn payload(&self) -> Option<&'a [u8]> {
        Some(&self.payloads.get(index_of(self.header.payload?))?.bytes)
    }

    /// The TCP segment with the fields that this node sees; none where it carries something else.
    pub fn segment(&self) -> Option<Segment> {
        match self.packet.body {
            Body::Tcp(segment) => {
                Some(Segment { ecn: self.header.ecn, window: self.header.window, ..segment })
            }
            _ => None,
        }
    }
}

/// A packet and its fate.
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot {
    /// Images that exist; of a free slot, 0.
    images: u32,
    /// The image that is nearest to the destination; of a free slot, the next free one.
    foremost: ImageId,
    /// The fate is known: the packet arrived or was lost.
    settled: bool,
    packet: Packet,
}

/// One node's copy: 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Image {
    /// The packet; of a free image, the next free one.
    slot: u32,
    node: NodeId,
    header: Header,
}

const _: () = assert!(size_of::<Image>() == 16);

/// The end of a list of free slots or images.
const NONE: u32 = u32::MAX;

/// Payload bytes and how many images refer to them.
#[derive(Debug)]
struct Payload {
    images: u32,
    bytes: Box<[u8]>,
}

fn index_of(payload: PayloadId) -> usize {
    payload.get() as usize - 1
}

/// All packets in the network.
#[derive(Debug)]
pub struct Packets {
    slots: Vec<Slot>,
    free_slot: u32,
    images: Vec<Image>,
    free_image: ImageId,
    dropped: Vec<(ImageId, Refused)>,
    /// Time to live of a packet's first image.
    ttl: u8,
    /// Contents of QUIC-like datagrams, and the free places.
    quic: Vec<quic::Datagram>,
    quic_free: Vec<u32>,
    payloads: Vec<Payload>,
    free_payloads: Vec<PayloadId>,
}

impl Packets {
    /// Room for `capacity` packets before the first growth; packets are sent with this time to live.
    pub fn new(capacity: usize, ttl: u8) -> Self {
        Self {
            ttl,
            slots: Vec::with_capacity(capacity),
            free_slot: NONE,
            images: Vec::with_capacity(2 * capacity),
            free_image: NONE,
            dropped: Vec::with_capacity(64),
            quic: Vec::new(),
            quic_free: Vec::new(),
            payloads: Vec::new(),
            free_payloads: Vec::new(),
        }
    }

    /// Stores a packet and its first image, which `node` holds.
    #[inline(always)]
    pub fn insert(&mut self, packet: Packet, ecn: Ecn, node: NodeId) -> ImageId {
        let header = Header::new(&packet.body, self.ttl, ecn);
        let entry = Slot { images: 0, foremost: 0, settled: false, packet };
        let mut slot = self.free_slot;
        if let Some(free) = self.slots.get_mut(slot as usize) {
            self.free_slot = free.foremost;
            *free = entry;
        } else {
            slot = self.slots.len() as u32;
            self.slots.push(entry);
        }
        self.insert_image(Image { slot, node, header })
    }

    /// Another image of the same packet with the same header: the copy of the next node, which is nearer to the
    /// destination.
    #[inline(always)]
    pub fn copy(&mut self, image: ImageId, node: NodeId) -> ImageId {
        let original = self.images[image as usize];
        if let Some(payload) = original.header.payload {
            self.payloads[index_of(payload)].images += 1;
        }
        self.insert_image(Image { node, ..original })
    }

    #[inline(always)]
    fn insert_image(&mut self, image: Image) -> ImageId {
        let mut id = self.free_image;
        if let Some(free) = self.images.get_mut(id as usize) {
            self.free_image = free.slot;
            *free = image;
        } else {
            id = self.images.len() as ImageId;
            self.images.push(image);
        }
        let slot = &mut self.slots[image.slot as usize];
        slot.images += 1;
        slot.foremost = id;
        id
    }

    /// Frees an image, and the packet with its last one.
    #[inline(always)]
    pub fn release(&mut self, image: ImageId) {
        let Image { slot, header, .. } = self.images[image as usize];
        self.images[image as usize].slot = std::mem::replace(&mut self.free_image, image);
        if let Some(payload) = header.payload {
            self.release_payload(payload);
        }
        let entry = &mut self.slots[slot as usize];
        debug_assert!(entry.images > 0, "an image released twice");
        entry.images -= 1;
        if entry.images == 0 {
            entry.foremost = std::mem::replace(&mut self.free_slot, slot);
            if let Body::Quic { at, .. } = entry.packet.body {
                self.quic_free.push(at);
            }
        }
    }

    /// Keeps the content of a QUIC-like datagram until its packet is freed; the packet's body has the index.
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

    /// The content of a QUIC-like datagram.
    pub fn quic(&self, at: u32) -> &quic::Datagram {
        &self.quic[at as usize]
    }

    /// Gives an image payload bytes; copies of it share them, and the last one frees them.
    pub fn attach_payload(&mut self, image: ImageId, bytes: Box<[u8]>) {
        let entry = Payload { images: 1, bytes };
        let payload = match self.free_payloads.pop() {
            Some(payload) => {
                self.payloads[index_of(payload)] = entry;
                payload
            }
            None => {
                self.payloads.push(entry);
                NonZeroU32::MIN.saturating_add(self.payloads.len() as u32 - 1)
            }
        };
        if let Some(before) = self.images[image as usize].header.payload.replace(payload) {
            self.release_payload(before);
        }
    }

    /// The payload bytes of an image; none where the simulator made the packet.
    pub fn payload(&self, image: ImageId) -> Option<&[u8]> {
        self.payload_of(&self.images[image as usize].header)
    }

    /// The payload bytes that a header refers to.
    pub fn payload_of(&self, header: &Header) -> Option<&[u8]> {
        Some(&self.payloads.get(index_of(header.payload?))?.bytes)
    }

    #[inline(never)]
    fn release_payload(&mut self, payload: PayloadId) {
        let entry = &mut self.payloads[index_of(payload)];
        entry.images -= 1;
        if entry.images == 0 {
            entry.bytes = Box::default();
            self.free_payloads.push(payload);
        }
    }

    /// The packet of an image.
    #[inline]
    pub fn get(&self, image: ImageId) -> &Packet {
        &self.slots[self.images[image as usize].slot as usize].packet
    }

    /// The packet of an image, to be changed.
    #[cfg(test)]
    pub(crate) fn get_mut(&mut self, image: ImageId) -> &mut Packet {
        &mut self.slots[self.images[image as usize].slot as usize].packet
    }

    /// The packet of an image with the header of that image.
    #[inline]
    pub fn view(&self, image: ImageId) -> PacketView<'_> {
        let image = &self.images[image as usize];
        PacketView {
            packet: &self.slots[image.slot as usize].packet,
            header: &image.header,
            payloads: &self.payloads,
        }
    }

    /// The header of an image, to be changed.
    #[inline]
    pub fn header_mut(&mut self, image: ImageId) -> &mut Header {
        &mut self.images[image as usize].header
    }

    /// The node that holds an image.
    #[inline]
    pub fn node(&self, image: ImageId) -> NodeId {
        self.images[image as usize].node
    }

    /// An image goes over to another node: over a wire, where the sender keeps none.
    #[inline]
    pub fn move_to(&mut self, image: ImageId, node: NodeId) {
        self.images[image as usize].node = node;
    }

    /// Marks an image as having met congestion (RFC 3168 §5); false where its transport does not support that.
    pub fn mark(&mut self, image: ImageId) -> bool {
        let ecn = &mut self.header_mut(image).ecn;
        let supported = ecn.is_capable();
        if supported {
            *ecn = Ecn::Ce;
        }
        supported
    }

    /// The packet has arrived: losing an image of it is no loss any more.
    #[inline]
    pub fn settle(&mut self, image: ImageId) {
        let slot = self.images[image as usize].slot;
        self.slots[slot as usize].settled = true;
    }

    /// Whether the packet is lost when this image is dropped, which settles it: no image is nearer to the destination, and
    /// it has not arrived. The image remains until it is released.
    pub fn is_lost_with(&mut self, image: ImageId) -> bool {
        let slot = &mut self.slots[self.images[image as usize].slot as usize];
        slot.foremost == image && !std::mem::replace(&mut slot.settled, true)
    }

    /// A queue drops an image that it had accepted. Its owner takes it with [`Packets::take_dropped`].
    pub fn drop_queued(&mut self, image: ImageId, why: Refused) {
        self.dropped.push((image, why));
    }

    /// Whether there are images that a queue has dropped.
    #[inline]
    pub fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// An image that a queue has dropped, once.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<(ImageId, Refused)> {
        self.dropped.pop()
    }

    /// Packets whose fate is not known yet.
    pub fn unsettled(&self) -> impl Iterator<Item = &Packet> {
        self.slots.iter().filter(|slot| slot.images > 0 && !slot.settled).map(|slot| &slot.packet)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn packet(stream: u32) -> Packet {
        Packet {
            created: Nanos::ZERO,
            stream,
            source: 0,
            destination: 9,
            bytes: 60,
            connection: 0,
            dscp: Dscp::BEST_EFFORT,
            body: Body::Udp { sequence: 0 },
        }
    }

    #[test]
    fn what_one_node_rewrites_no_other_node_sees() {
        let mut packets = Packets::new(1, 64);
        let sender = packets.insert(packet(0), Ecn::Ect0, 1);
        let receiver = packets.copy(sender, 2);
        packets.header_mut(receiver).ttl -= 1;
        packets.header_mut(receiver).window = 7;
        assert!(packets.mark(receiver));
        let header = *packets.view(sender).header;
        assert_eq!((header.ttl, header.ecn, header.window), (64, Ecn::Ect0, 0));
        assert_eq!(packets.view(receiver).header.ecn, Ecn::Ce);
        assert_eq!((packets.node(sender), packets.node(receiver)), (1, 2));
    }

    #[test]
    fn a_packet_is_lost_with_its_foremost_image_alone_and_once() {
        let mut packets = Packets::new(0, 64);
        let first = packets.insert(packet(0), Ecn::NotEct, 1);
        let second = packets.copy(first, 2);
        assert!(!packets.is_lost_with(first), "the next node has it");
        packets.release(first);
        assert_eq!(packets.unsettled().count(), 1);
        assert!(packets.is_lost_with(second));
        assert!(!packets.is_lost_with(second), "lost already");
        packets.release(second);
        assert_eq!(packets.unsettled().count(), 0);
        let other = packets.insert(packet(1), Ecn::NotEct, 1);
        packets.settle(other);
        assert!(!packets.is_lost_with(other), "arrived");
        assert_eq!(packets.slots.len(), 1, "slots are used again");
    }

    #[test]
    fn payload_bytes_live_as_long_as_an_image_that_has_them() {
        let mut packets = Packets::new(0, 64);
        let first = packets.insert(packet(0), Ecn::NotEct, 1);
        packets.attach_payload(first, Box::from([1, 2, 3]));
        let second = packets.copy(first, 2);
        packets.release(first);
        assert_eq!(packets.payload(second), Some(&[1, 2, 3][..]));
        packets.attach_payload(second, Box::from([4]));
        assert_eq!(packets.payload(second), Some(&[4][..]));
        packets.release(second);
        assert!(packets.payloads.iter().all(|payload| payload.images == 0 && payload.bytes.is_empty()));
        let plain = packets.insert(packet(1), Ecn::NotEct, 1);
        assert_eq!(packets.payload(plain), None);
    }
}
