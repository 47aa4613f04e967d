//! Frames with all that the programs read, and changes to them.

use fairhop_control::digest::{Digest, Direction, Ip};
use fairhop_control::flow::{Address, FlowKey};
use fairhop_model::units::Nanos;

/// Bytes of the transport header and its payload that the programs read at most: RTCP, in a message of a TURN channel four more.
const SNAPSHOT: usize = 8 + 256;
const CHANNEL_HEADER: usize = 4;
const MAX_EXTENSIONS: usize = 8;

/// Pseudo-random numbers: splitmix64, so that a failure can be repeated from its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `times`.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

/// A frame, and the offset at which its IP header was put.
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    /// The device carries IP packets without a header of its own.
    pub(crate) is_ip: bool,
}

/// One of few flows, so that SYNs, ACKs and data of the same flow meet.
fn flow_of(random: &mut Random) -> (u8, u16) {
    (random.below(3) as u8, 5000 + random.below(4) as u16 * 2)
}

fn tcp(random: &mut Random, ports: (u16, u16)) -> Vec<u8> {
    let flags = match random.below(12) {
        0 | 1 => 0x02,
        2 | 3 => 0x12,
        4 => 0x04,
        5 => 0x11,
        6 => random.byte(),
        _ => 0x10,
    };
    let mut options = Vec::new();
    for _ in 0..random.below(6) {
        match random.below(8) {
            0 => options.extend([2, 4, random.below(8) as u8, random.byte()]),
            1 => options.extend([3, 3, random.below(18) as u8]),
            2 => options.extend([4, 2]),
            3 => {
                options.extend([5, 10]);
                options.extend(random.bytes(8));
            }
            4 | 5 => {
                options.extend([1, 1, 8, 10]);
                options.extend(random.bytes(8));
            }
            6 => options.push(random.below(2) as u8),
            _ => {
                let length = random.below(6) as u8;
                options.extend([random.byte(), length]);
                options.extend(random.bytes(usize::from(length.saturating_sub(2))));
            }
        }
    }
    options.truncate(40);
    while options.len() % 4 != 0 {
        options.push(0);
    }
    let mut header = Vec::new();
    header.extend(ports.0.to_be_bytes());
    header.extend(ports.1.to_be_bytes());
    header.extend(random.bytes(2));
    header.extend((random.below(400) as u16).to_be_bytes());
    // Acknowledgments close to each other, so that edges matter.
    let ack = 0x7fff_8000_u32.wrapping_add(random.below(1 << 17) as u32);
    header.extend(ack.to_be_bytes());
    header.push((5 + (options.len() / 4) as u8) << 4);
    header.push(flags);
    header.extend(random.bytes(2));
    header.extend(random.bytes(4));
    header.extend(&options);
    let payload = if random.one_in(2) { 0 } else { random.below(1400) as usize };
    header.extend(std::iter::repeat_n(0x55, payload));
    header
}

fn rtcp(random: &mut Random) -> Vec<u8> {
    let mut compound = Vec::new();
    for _ in 0..=random.below(4) {
        let blocks = random.below(3) as usize;
        let (kind, body) = match random.below(6) {
            0 => (200, 20 + 24 * blocks),
            1 => (201, 24 * blocks),
            2 => (207, 0),
            3 => (202, 8 * (1 + random.below(4) as usize)),
            4 => (205, 4 * random.below(6) as usize),
            _ => (random.byte(), 4 * random.below(20) as usize),
        };
        let mut body = random.bytes(body);
        if kind == 207 {
            for _ in 0..random.below(4) {
                let words = if random.one_in(2) { 8 } else { random.below(6) as u16 };
                body.push(if random.one_in(3) { random.byte() } else { 7 });
                body.push(0);
                body.extend(words.to_be_bytes());
                let rest = random.bytes(4 * usize::from(words));
                body.extend(rest);
            }
        }
        compound.push(0x80 | blocks as u8);
        compound.push(kind);
        compound.extend(((1 + body.len() / 4) as u16).to_be_bytes());
        compound.extend(random.bytes(4));
        compound.extend(body);
    }
    compound
}

fn rtp(random: &mut Random) -> Vec<u8> {
    let sources = random.below(4) as usize;
    let mut packet = vec![0x80 | sources as u8, random.byte() & 0x8f];
    packet.extend(random.bytes(10 + 4 * sources));
    if random.one_in(3) {
        packet[0] |= 0x10;
        let words = random.below(4) as u8;
        packet.extend([0xbe, 0xde, 0, words]);
        packet.extend(random.bytes(4 * usize::from(words)));
    }
    let voice = 20 + random.below(140) as usize;
    packet.extend(random.bytes(voice));
    packet
}

/// A message of a TURN channel (RFC 8656 §12.4), sometimes with padding, and sometimes with a wrong length.
fn channel(random: &mut Random, carried: Vec<u8>) -> Vec<u8> {
    let length = carried.len() as u16;
    let length = if random.one_in(10) { random.below(3000) as u16 } else { length };
    let mut message = vec![0x40 | random.byte() & 0x0f, random.byte()];
    message.extend(length.to_be_bytes());
    message.extend(carried);
    let padding = random.below(6).saturating_sub(1) as usize;
    message.extend(random.bytes(padding));
    message
}

fn udp(random: &mut Random, ports: (u16, u16)) -> Vec<u8> {
    let mut payload = match random.below(4) {
        0 => rtcp(random),
        1 | 2 => rtp(random),
        _ => {
            let length = random.below(1300) as usize;
            random.bytes(length)
        }
    };
    if random.one_in(4) {
        payload = channel(random, payload);
    }
    let length = if random.one_in(20) { random.below(3000) as u16 } else { 8 + payload.len() as u16 };
    let mut packet = Vec::new();
    packet.extend(ports.0.to_be_bytes());
    packet.extend(ports.1.to_be_bytes());
    packet.extend(if random.one_in(20) { [0; 2] } else { length.to_be_bytes() });
    packet.extend(random.bytes(2));
    packet.extend(payload);
    packet
}

/// An IP packet from the wired end to the mesh, or the other way.
fn ip(random: &mut Random, direction: Direction) -> Vec<u8> {
    let (host, port) = flow_of(random);
    let (wired, mesh) = ((443, host), (port, host + 100));
    let (from, to) = match direction {
        Direction::ToMesh => (wired, mesh),
        Direction::FromMesh => (mesh, wired),
    };
    let ports = (from.0, to.0);
    let (protocol, transport) = match random.below(8) {
        0..=4 => (6, tcp(random, ports)),
        5 | 6 => (17, udp(random, ports)),
        _ => {
            let length = random.below(60) as usize;
            (random.byte(), random.bytes(length))
        }
    };
    let mut packet = Vec::new();
    if random.one_in(2) {
        let options = if random.one_in(4) { 4 * random.below(11) as usize } else { 0 };
        let length = 20 + options + transport.len();
        let fragment: u16 = if random.one_in(20) { random.next() as u16 } else { 0x4000 };
        packet.extend([0x40 | (5 + options / 4) as u8, random.byte()]);
        packet.extend((length as u16).to_be_bytes());
        packet.extend(random.bytes(2));
        packet.extend(fragment.to_be_bytes());
        packet.extend([random.byte(), protocol]);
        packet.extend(random.bytes(2));
        packet.extend([10, 0, 0, from.1, 10, 0, 0, to.1]);
        packet.extend(random.bytes(options));
    } else {
        let mut extensions: Vec<u8> = Vec::new();
        let mut next = protocol;
        let count = if random.one_in(3) { random.below(11) } else { 0 };
        // From the last to the first: each has the number of the one after it.
        for _ in 0..count {
            let words = if random.one_in(4) { random.below(4) as usize } else { 0 };
            let mut extension = vec![next, words as u8];
            extension.extend(random.bytes(6 + 8 * words));
            extension.extend(extensions);
            extensions = extension;
            next = [0, 43, 60][random.below(3) as usize];
        }
        if random.one_in(20) {
            let mut fragment = vec![next, 0];
            fragment.extend(random.bytes(6));
            fragment.extend(extensions);
            extensions = fragment;
            next = 44;
        }
        packet.extend([0x60 | random.byte() & 0x0f, random.byte()]);
        packet.extend(random.bytes(2));
        packet.extend(((extensions.len() + transport.len()) as u16).to_be_bytes());
        packet.extend([next, random.byte()]);
        for end in [from.1, to.1] {
            packet.extend([0xfd; 15]);
            packet.push(end);
        }
        packet.extend(extensions);
    }
    packet.extend(transport);
    packet
}

/// A frame; sometimes with bytes changed, cut or added.
pub(crate) fn generate(random: &mut Random, direction: Direction, is_ip: bool) -> Frame {
    let packet = ip(random, direction);
    let mut bytes = Vec::new();
    if !is_ip {
        bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        for _ in 0..[0, 0, 0, 0, 1, 1, 2, 3][random.below(8) as usize] {
            bytes.extend([[0x81, 0], [0x88, 0xa8], [0x91, 0]][random.below(3) as usize]);
            bytes.extend(random.bytes(2));
        }
        let is_v4 = packet[0] >> 4 == 4;
        if random.one_in(6) {
            bytes.extend([0x88, 0x64, 0x11, 0, 0, 1]);
            bytes.extend((packet.len() as u16 + 2).to_be_bytes());
            bytes.extend(if is_v4 { [0, 0x21] } else { [0, 0x57] });
        } else {
            bytes.extend(if is_v4 { [8, 0] } else { [0x86, 0xdd] });
        }
    }
    bytes.extend(packet);
    match random.below(10) {
        0 => {
            let length = 14 + random.below(bytes.len() as u64) as usize;
            bytes.truncate(length);
        }
        1 | 2 => {
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len().min(120) as u64) as usize;
                bytes[at] = random.byte();
            }
        }
        3 => {
            let padding = random.below(30) as usize;
            bytes.extend(random.bytes(padding));
        }
        _ => {}
    }
    // The kernel runs programs on nothing shorter.
    while bytes.len() < 14 {
        bytes.push(0);
    }
    Frame { bytes, is_ip }
}

impl Frame {
    /// Where the IP header begins, if this is a frame that the programs read.
    pub(crate) fn ip_at(&self) -> Option<usize> {
        if self.is_ip {
            return Some(0);
        }
        let half = |at: usize| Some(u16::from_be_bytes(*self.bytes.get(at..)?.first_chunk()?));
        let mut kind = half(12)?;
        let mut at = 14;
        for _ in 0..2 {
            if matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
                kind = half(at + 2)?;
                at += 4;
            }
        }
        if kind == 0x8864 {
            if self.bytes.get(at..at + 2)? != [0x11, 0] {
                return None;
            }
            kind = match half(at + 6)? {
                0x0021 => 0x0800,
                0x0057 => 0x86dd,
                _ => return None,
            };
            at += 8;
        }
        let version = match kind {
            0x0800 => 4,
            0x86dd => 6,
            _ => return None,
        };
        (self.bytes.get(at)? >> 4 == version).then_some(at)
    }

    /// The digest that the frame has to have, and the offset of its IP header; none if it has to be left alone.
    pub(crate) fn expected(&self, at: Nanos, direction: Direction) -> Option<(Digest, usize)> {
        let ip_at = self.ip_at()?;
        let packet = &self.bytes[ip_at..];
        let ip = Ip::read(packet)?;
        if is_fragment(packet) {
            return None;
        }
        let in_channel = packet.get(ip.transport_at + 8).is_some_and(|first| first >> 4 == 4);
        let header = if in_channel { CHANNEL_HEADER } else { 0 };
        let end = packet.len().min(ip.transport_at + header + SNAPSHOT);
        Some((Digest::read(at, direction, &packet[..end])?, ip_at))
    }
}

/// A fragment, or a chain of extension headers that is too long.
fn is_fragment(packet: &[u8]) -> bool {
    if packet[0] >> 4 == 4 {
        return u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
    }
    let (mut protocol, mut at) = (packet[6], 40);
    for _ in 0..=MAX_EXTENSIONS {
        match protocol {
            44 => return true,
            0 | 43 | 60 => {
                (protocol, at) = (packet[at], at + 8 + 8 * usize::from(packet[at + 1]));
            }
            _ => return false,
        }
    }
    true
}

/// A TCP segment in an Ethernet frame: flow `flow`, from the wired side into the mesh or back.
pub(crate) fn segment(flow: u8, direction: Direction, ack: u32, flags: u8, payload: usize) -> Vec<u8> {
    let (wired, mesh) = (([10, 0, 0, 1], 443_u16), ([10, 0, 1, flow], 5000 + u16::from(flow)));
    let (from, to) = match direction {
        Direction::ToMesh => (wired, mesh),
        Direction::FromMesh => (mesh, wired),
    };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((40 + payload as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(from.0);
    frame.extend(to.0);
    frame.extend(from.1.to_be_bytes());
    frame.extend(to.1.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(ack.to_be_bytes());
    frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(std::iter::repeat_n(0, payload));
    frame
}

/// A UDP datagram of a flow into the mesh.
pub(crate) fn datagram(flow: u8, payload: usize) -> Vec<u8> {
    let mut frame = segment(flow, Direction::ToMesh, 0, 0, payload + 8);
    frame.truncate(14 + 28 + payload);
    frame[16..18].copy_from_slice(&(28 + payload as u16).to_be_bytes());
    frame[23] = 17;
    frame[38..40].copy_from_slice(&(8 + payload as u16).to_be_bytes());
    frame
}

/// The key of the flow of [`segment`] or [`datagram`].
pub(crate) fn key(flow: u8, protocol: u8) -> FlowKey {
    FlowKey {
        mesh: Address::v4([10, 0, 1, flow]),
        wired: Address::v4([10, 0, 0, 1]),
        mesh_port: 5000 + u16::from(flow),
        wired_port: 443,
        protocol,
    }
}
