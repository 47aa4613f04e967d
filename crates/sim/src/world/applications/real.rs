//! Real traffic: packets that come from outside the simulator and leave it again.
//!
//! A packet belongs to the flow of its addresses, ports and protocol, which is made with its first packet. What arrives is
//! kept with the fields that the network has rewritten ([`crate::ip`]) until the caller of the World takes it.
//!
//! Goodput is payload that arrived, and for TCP the bytes that the receiver's ACKs cover when they enter the network: in
//! order and once. A UDP flow of which nine packets in ten are RTP of a known payload type is a call.
//!
//! Calls are also judged by the observer of `fairhop_control`, as a gateway would ([`Observed`]). Where gateways control, by
//! theirs, which see packets when they leave the pacers. Otherwise by one of its own: by what passes one end of the flow,
//! that without a radio, or at a gateway node, or else the end whose packet came first.
//!
//! Left out: calls whose payload type is dynamic (96 to 127), and flows of later fragments, which have no ports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fairhop_control::digest::{Digest, Direction, PROTOCOL_TCP, PROTOCOL_UDP, Payload, tcp_flag};
use fairhop_control::observer::{CallNow, Quality};
use fairhop_control::{Address, Observer, ObserverConfig};
use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec};

use super::flow::{Flow, FlowKind, payload_bytes};
use super::{AppContext, Application, Applications};
use crate::ip;
use crate::mac::BROADCAST;
use crate::packet::{Body, Dscp, Header, ImageId, NodeId, Packet, flow_of, stream};
use crate::results::ACCEPTABLE_MOS;
use crate::world::core::Core;

/// Maximum number of flows, of about 14 kB each. Packets of later ones share one flow.
const MAX_FLOWS: usize = 1000;
/// A call has at least this many RTP packets.
const MIN_RTP_PACKETS: u64 = 10;

/// Why a packet from outside does not enter the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rejected {
    /// It has no whole IP header, or another length than its header says.
    Malformed,
    /// It does not fit into an 802.11 frame.
    Oversized,
    /// Its time to live is 0.
    Ttl,
    /// It is an IP multicast or broadcast, which routers do not forward.
    Multicast,
    /// No attached place has its destination address.
    UnknownDestination,
    /// The place where it was injected does not exist.
    UnknownSource,
    /// An Ethernet frame whose source address is not that of the sending node.
    ForeignSource,
}

impl Rejected {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Malformed,
        Self::Oversized,
        Self::Ttl,
        Self::Multicast,
        Self::UnknownDestination,
        Self::UnknownSource,
        Self::ForeignSource,
    ];

    /// The reason's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Oversized => "oversized",
            Self::Ttl => "ttl",
            Self::Multicast => "multicast",
            Self::UnknownDestination => "unknown_destination",
            Self::UnknownSource => "unknown_source",
            Self::ForeignSource => "foreign_source",
        }
    }
}

/// A packet that has arrived at an attached place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The place.
    pub node: NodeId,
    /// When it arrived.
    pub at: Nanos,
    /// The IP packet or Ethernet frame.
    pub bytes: Vec<u8>,
}

/// Counters of real traffic over the whole run, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RealCounts {
    /// Packets that entered the network.
    pub injected: u64,
    /// Packets that arrived; of a broadcast, receptions.
    pub delivered: u64,
    /// Packets that did not enter, by reason.
    pub rejected: [u64; Rejected::ALL.len()],
}

/// What a real flow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealClass {
    /// Voice in RTP.
    Call(Codec),
    /// TCP.
    Tcp,
    /// Other UDP.
    Udp,
    /// Anything else, such as ICMP, later fragments or Ethernet frames.
    Other,
}

/// The ends of a flow as its first packet has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Ip {
        protocol: u8,
        source: (Address, u16),
        destination: (Address, u16),
    },
    /// Ethernet frames of a node to one neighbour at a time, or to all.
    Frames {
        node: NodeId,
        broadcast: bool,
    },
    /// All beyond [`MAX_FLOWS`].
    Others,
}

impl Key {
    const fn reverse(self) -> Self {
        match self {
            Self::Ip { protocol, source, destination } => {
                Self::Ip { protocol, source: destination, destination: source }
            }
            other => other,
        }
    }

    fn name(self) -> String {
        let end =
            |(address, port): (Address, u16)| match (port, address.0[..12] == Address::v4([0; 4]).0[..12]) {
                (0, _) => address.to_string(),
                (port, true) => format!("{address}:{port}"),
                (port, false) => format!("[{address}]:{port}"),
            };
        match self {
            Self::Ip { protocol, source, destination } => {
                let protocol = match protocol {
                    PROTOCOL_TCP => "tcp".to_owned(),
                    PROTOCOL_UDP => "udp".to_owned(),
                    1 => "icmp".to_owned(),
                    58 => "icmpv6".to_owned(),
                    other => format!("ip-{other}"),
                };
                format!("{protocol} {} > {}", end(source), end(destination))
            }
            Self::Frames { node, broadcast: false } => format!("frames of {node}"),
            Self::Frames { node, broadcast: true } => format!("broadcasts of {node}"),
            Self::Others => "other real traffic".to_owned(),
        }
    }
}

/// What is known of a real flow beyond the records of its streams.
#[derive(Clone, Copy, Debug)]
pub struct RealFlow {
    key: Key,
    /// The flow among all.
    flow: usize,
    packets: u64,
    rtp_packets: u64,
    /// SSRC of each direction.
    ssrc: [Option<u32>; 2],
    payload_type: u8,
    /// Highest acknowledgment number that has entered the network, by the direction of the data.
    acknowledged: [Option<u32>; 2],
    observed: Observed,
}

/// A call as a gateway sees it, in whole seconds after the warm-up. What goes into the mesh is judged by the listener's
/// reports, or inferred ([`fairhop_control::observer`]).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Seconds in which the call was seen.
    pub seconds: u64,
    /// Of these, seconds in which both known directions scored at least [`ACCEPTABLE_MOS`].
    pub clear: u64,
    /// Packets expected and those lost or late: out of the mesh, and into it.
    sums: [(f64, f64); 2],
}

impl Observed {
    fn add(&mut self, up: Option<Quality>, down: Option<Quality>, mos: f64) {
        self.seconds += 1;
        self.clear += u64::from(mos >= ACCEPTABLE_MOS);
        for (sum, quality) in self.sums.iter_mut().zip([up, down]) {
            if let Some(quality) = quality {
                let expected = f64::from(quality.expected.max(1));
                sum.0 += expected;
                sum.1 += expected * (quality.loss + quality.late).min(1.0);
            }
        }
    }

    /// The scores of the directions that are known, as those of the recorder: from the fraction of all packets that were
    /// lost or late. The delay of the fastest packet, which a gateway cannot see, is the observer's assumption.
    pub fn scores(&self, codec: Codec, playout: Nanos) -> impl Iterator<Item = f64> {
        let min_delay = ObserverConfig::default().min_delay;
        let known = self.sums.into_iter().filter(|(expected, _)| *expected > 0.0);
        known.map(move |(expected, missing)| voice::mos(codec, missing / expected, min_delay, playout))
    }
}

impl RealFlow {
    /// The call as a gateway sees it.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// What it carries, as far as its packets show.
    pub fn class(&self) -> RealClass {
        match self.key {
            Key::Ip { protocol: PROTOCOL_TCP, .. } => RealClass::Tcp,
            Key::Ip { protocol: PROTOCOL_UDP, .. } => match self.codec() {
                Some(codec) => RealClass::Call(codec),
                None => RealClass::Udp,
            },
            _ => RealClass::Other,
        }
    }

    fn codec(&self) -> Option<Codec> {
        let is_rtp = self.rtp_packets >= MIN_RTP_PACKETS && self.rtp_packets * 10 >= self.packets * 9;
        // Static payload types (RFC 3551 §6): PCMU and PCMA are both G.711.
        match self.payload_type {
            _ if !is_rtp => None,
            0 | 8 => Some(Codec::G711),
            4 => Some(Codec::G7231),
            18 => Some(Codec::G729a),
            _ => None,
        }
    }

    /// Learns from a packet that enters; the bytes of data that it acknowledges for the first time, and whether they
    /// belong to the backward stream.
    fn observe(&mut self, digest: &Digest, back: bool) -> Option<(bool, u64)> {
        self.packets += 1;
        match digest.payload {
            Payload::Rtp(rtp) => {
                let ssrc = &mut self.ssrc[usize::from(back)];
                if ssrc.is_none_or(|known| known == rtp.ssrc) && (0..=34).contains(&rtp.payload_type) {
                    self.rtp_packets += 1;
                    self.payload_type = rtp.payload_type;
                }
                *ssrc = Some(rtp.ssrc);
                None
            }
            Payload::Tcp(tcp) if tcp.has(tcp_flag::ACK) && !tcp.has(tcp_flag::RST) => {
                let highest = &mut self.acknowledged[usize::from(!back)];
                let news = highest.map_or(0, |highest| tcp.ack.wrapping_sub(highest));
                // Sequence numbers wrap (RFC 9293 §3.4): the upper half is behind.
                if highest.is_none() || (news > 0 && news < 1 << 31) {
                    *highest = Some(tcp.ack);
                    return (news > 0).then_some((!back, u64::from(news)));
                }
                None
            }
            _ => None,
        }
    }
}

/// All real traffic.
#[derive(Debug, Default)]
pub struct RealFlows {
    known: BTreeMap<Key, usize>,
    flows: Vec<RealFlow>,
    delivered: VecDeque<Delivered>,
    counts: RealCounts,
    /// Owners of addresses.
    addresses: BTreeMap<Address, NodeId>,
    /// The place for all other addresses.
    default: Option<NodeId>,
    playout: Nanos,
    /// Places without radio begin with this number.
    hosts: NodeId,
    gateways: BTreeSet<NodeId>,
    /// Calls are judged by the observers of gateways, and not here.
    is_judged_by_gateways: bool,
    /// Made with the first flow.
    observer: Option<Box<Observer>>,
    /// Seconds that the observer was asked about.
    seconds: u64,
    /// Ends between which packets may travel.
    pub(in crate::world) ends: Vec<(NodeId, NodeId)>,
}

/// The time over which calls are judged.
pub(in crate::world) const SECOND: Nanos = Nanos::from_secs(1);

impl RealFlows {
    /// Real traffic between places with these addresses. Packets to any other address go to `default`.
    pub(in crate::world) fn new(
        addresses: BTreeMap<Address, NodeId>,
        default: Option<NodeId>,
        ends: Vec<(NodeId, NodeId)>,
        playout: Nanos,
    ) -> Self {
        Self { addresses, default, ends, playout, hosts: NodeId::MAX, ..Self::default() }
    }

    /// Where flows are observed: at places without radio, which begin with the number `hosts`, and at gateways.
    pub(in crate::world) fn observe_at(mut self, hosts: NodeId, gateways: &[NodeId]) -> Self {
        (self.hosts, self.gateways) = (hosts, gateways.iter().copied().collect());
        self
    }

    /// Leaves the observation to gateways under control, whose World calls [`RealFlows::judge`].
    pub(in crate::world) fn leave_to_gateways(&mut self) {
        self.is_judged_by_gateways = true;
    }

    /// Counts the last second of calls, as an observer sees them.
    pub(in crate::world) fn judge(&mut self, calls: impl Iterator<Item = CallNow>) {
        for call in calls {
            let key = Key::Ip {
                protocol: call.key.protocol,
                source: (call.key.wired, call.key.wired_port),
                destination: (call.key.mesh, call.key.mesh_port),
            };
            let index = self.known.get(&key).or_else(|| self.known.get(&key.reverse()));
            if let (Some(&index), Some(mos)) = (index, call.mos()) {
                self.flows[index].observed.add(call.up, call.down, mos);
            }
        }
    }

    /// The end of a flow that is observed.
    fn observed_end(&self, from: NodeId, to: NodeId) -> NodeId {
        let rank = |node| if node >= self.hosts { 2 } else { u8::from(self.gateways.contains(&node)) };
        if to != BROADCAST && rank(to) > rank(from) { to } else { from }
    }

    /// A packet passes the observed end of its flow. Whole seconds that have ended are judged first.
    fn show(&mut self, digest: &Digest, warmup: Nanos) {
        if self.is_judged_by_gateways {
            return;
        }
        let playout = self.playout;
        let mut observer = self.observer.take().unwrap_or_else(|| {
            let config = ObserverConfig { flows: MAX_FLOWS, playout, ..ObserverConfig::default() };
            Box::new(Observer::new(config))
        });
        while let end = Nanos(SECOND.0 * (self.seconds + 1))
            && end <= digest.at
        {
            self.seconds += 1;
            if end >= warmup + SECOND {
                observer.survey(end);
                self.judge(observer.calls(end, SECOND));
            }
        }
        observer.on_digest(digest);
        self.observer = Some(observer);
    }

    /// What is known of a flow.
    pub fn get(&self, index: usize) -> &RealFlow {
        &self.flows[index]
    }

    /// Counters of packets from outside.
    pub fn counts(&self) -> &RealCounts {
        &self.counts
    }

    pub(in crate::world) fn count_injected(&mut self) {
        self.counts.injected += 1;
    }

    pub(in crate::world) fn count_rejected(&mut self, why: Rejected) {
        self.counts.rejected[why as usize] += 1;
    }

    pub(in crate::world) fn take_delivered(&mut self) -> Option<Delivered> {
        self.delivered.pop_front()
    }

    /// The place that has an address.
    pub(in crate::world) fn owner(&self, address: &Address) -> Option<NodeId> {
        self.addresses.get(address).copied().or(self.default)
    }
}

/// The fields of a packet from outside that its image and records need.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) struct Incoming {
    pub(in crate::world) from: NodeId,
    pub(in crate::world) to: NodeId,
    /// IP bytes, without an Ethernet header.
    pub(in crate::world) bytes: u32,
    pub(in crate::world) fields: ip::Fields,
    pub(in crate::world) dscp: Dscp,
    pub(in crate::world) is_frame: bool,
}

impl Applications {
    /// Makes the packet and its first image of bytes from outside, and counts it as sent. `digest` is that of an IP packet.
    pub(in crate::world) fn insert_real(
        &mut self,
        core: &mut Core,
        incoming: Incoming,
        digest: Option<&Digest>,
        payload: &[u8],
    ) -> ImageId {
        let Incoming { from, to, bytes, fields, dscp, is_frame } = incoming;
        let key = match digest {
            Some(digest) if !is_frame => Key::Ip {
                protocol: digest.protocol,
                source: (digest.source, digest.source_port),
                destination: (digest.destination, digest.destination_port),
            },
            _ => Key::Frames { node: from, broadcast: to == BROADCAST },
        };
        let now = core.now();
        let (index, back) = self.real_flow(core, key, (from, to));
        let flow = self.real.flows[index].flow;
        if let Some(digest) = digest.filter(|_| !is_frame)
            && self.real.observed_end(self.flows[flow].from, self.flows[flow].to) == from
        {
            self.real.show(digest, core.recorder.warmup);
        }
        if let Some(digest) = digest.filter(|_| !is_frame)
            && let Some((of_backward, bytes)) = self.real.flows[index].observe(digest, back)
        {
            let stream = stream(flow, of_backward);
            core.recorder.extend_bins(stream, now);
            core.recorder.delivered(stream, bytes, now);
        }
        let packet = Packet {
            created: now,
            stream: stream(flow, back),
            source: from,
            destination: to,
            bytes,
            connection: 0,
            dscp,
            body: Body::Real { headers: fields.headers, is_frame },
        };
        core.recorder.extend_bins(packet.stream, now);
        core.recorder.packet_sent(&packet, payload_bytes(&packet));
        let image = core.packets.insert(packet, fields.ecn, from);
        let header = core.packets.header_mut(image);
        (header.ttl, header.window) = (fields.ttl, fields.window);
        core.packets.attach_payload(image, payload.into());
        image
    }

    /// The flow of a packet, made where it is new, and whether the packet goes backward in it.
    fn real_flow(&mut self, core: &mut Core, key: Key, ends: (NodeId, NodeId)) -> (usize, bool) {
        if let Some(&index) = self.real.known.get(&key) {
            return (index, false);
        }
        if let Some(&index) = self.real.known.get(&key.reverse()) {
            return (index, true);
        }
        let is_full = self.real.flows.len() >= MAX_FLOWS;
        if is_full && key != Key::Others {
            return self.real_flow(core, Key::Others, ends);
        }
        let (index, flow) = (self.real.flows.len(), self.flows.len());
        let now = core.now();
        self.flows.push(Flow {
            name: key.name(),
            entry: usize::MAX,
            kind: FlowKind::Real(index),
            from: ends.0,
            to: ends.1,
            dscp: Dscp::BEST_EFFORT,
            delay_bound: None,
            start: now,
            stop: Nanos::MAX,
        });
        for _ in 0..2 {
            core.recorder.add_stream(self.real.playout, now);
        }
        self.real.known.insert(key, index);
        self.real.flows.push(RealFlow {
            key,
            flow,
            packets: 0,
            rtp_packets: 0,
            ssrc: [None; 2],
            payload_type: 0,
            acknowledged: [None; 2],
            observed: Observed::default(),
        });
        (index, false)
    }
}

impl Application for RealFlows {
    fn on_source(&mut self, _ctx: &mut AppContext<'_>, _index: usize, _source: u32) {}

    fn on_packet(&mut self, ctx: &mut AppContext<'_>, packet: &Packet, header: &Header) {
        self.arrive(ctx, packet.destination, packet, header);
    }
}

impl RealFlows {
    /// A packet has arrived at `node`, which is one of several where it is a broadcast.
    pub(super) fn arrive(
        &mut self,
        ctx: &mut AppContext<'_>,
        node: NodeId,
        packet: &Packet,
        header: &Header,
    ) {
        let Body::Real { is_frame, .. } = packet.body else { return };
        let FlowKind::Real(index) = ctx.flow(flow_of(packet.stream)).kind else { return };
        // What TCP has delivered, its ACKs say.
        if self.flows[index].class() != RealClass::Tcp {
            ctx.delivered(packet.stream, u64::from(payload_bytes(packet)));
        }
        let Some(bytes) = ctx.core.packets.payload_of(header) else { return };
        let mut bytes = bytes.to_vec();
        match is_frame {
            false => ip::rewrite(&mut bytes, header),
            true => ip::rewrite_frame(&mut bytes, header),
        }
        let Flow { from, to, .. } = *ctx.flow(flow_of(packet.stream));
        if !is_frame
            && self.observed_end(from, to) == node
            && let Some(digest) = Digest::read(ctx.now(), Direction::FromMesh, &bytes)
        {
            self.show(&digest, ctx.warmup());
        }
        self.counts.delivered += 1;
        self.delivered.push_back(Delivered { node, at: ctx.now(), bytes });
    }
}

/// The digest of an IP packet that enters the network.
pub(in crate::world) fn digest_of(at: Nanos, packet: &[u8]) -> Option<Digest> {
    Digest::read(at, Direction::ToMesh, packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_flows_are_those_of_their_first_packet() {
        let v4 = |last, port| (Address::v4([10, 77, 0, last]), port);
        let key = Key::Ip { protocol: PROTOCOL_TCP, source: v4(1, 40_000), destination: v4(2, 5201) };
        assert_eq!(key.name(), "tcp 10.77.0.1:40000 > 10.77.0.2:5201");
        assert_eq!(key.reverse().name(), "tcp 10.77.0.2:5201 > 10.77.0.1:40000");
        let v6 = |last| (Address::v6([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]), 0);
        assert_eq!(
            Key::Ip { protocol: 58, source: v6(1), destination: v6(2) }.name(),
            "icmpv6 fd77::1 > fd77::2"
        );
    }
}
