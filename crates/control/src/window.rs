//! The advertised window as an actuator: what a receiver offers is lowered on its way to the sender (kim2010, "window
//! resizing").
//!
//! The rules, and why:
//! - *Never enlarged.* The receiver has no room for more than it offers.
//! - *The right edge never moves back.* What has been offered may be on its way (RFC 9293 §3.8.6: shrinking is
//!   discouraged). A lower clamp takes effect as ACKs come; a receiver that itself moves its edge back is let through.
//! - *Never under a segment.* The field counts in units of 2^scale (RFC 7323 §2.2); a window that is less than a segment
//!   stalls the sender (RFC 9293 §3.8.6.2.1). So the floor is the maximum segment size, rounded up to that unit. With the
//!   usual scale of 10 and 1460 bytes it is 2048: to carry less than one segment a round trip is the pacer's matter.
//! - *The window of a SYN has no scale,* and is never put under the segment size either.
//! - *A zero window, and every window that is smaller than the clamp, goes through as it is*; so do segments with RST.
//! - *The checksum is mended incrementally* (RFC 1624, equation 3): what was right stays right, what was wrong stays wrong by
//!   as much.
//! - *A flow first seen in its middle is left alone*, since its scale is not known.

use fairhop_model::units::Nanos;

use crate::digest::{Direction, Ip, PROTOCOL_TCP, TcpFields, tcp_flag};
use crate::flow::{FlowKey, FlowTable};

/// One direction of a flow: the windows that one end advertises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clamp {
    /// Scale of the windows, once both SYNs have been seen.
    scale: Option<u8>,
    /// Largest segment that the end which advertises takes in.
    mss: u16,
    /// The right edge of what has been offered to the sender.
    edge: Option<u32>,
}

impl Clamp {
    /// Windows of a flow whose SYNs have been seen: `scale` as the end that advertises has offered it, or 0 where not both
    /// did; `mss` the largest segment that is sent to it.
    pub const fn new(scale: u8, mss: u16) -> Self {
        Self { scale: Some(if scale > 14 { 14 } else { scale }), mss, edge: None }
    }

    /// The lowest clamp in bytes that does not stall the flow.
    pub fn floor(&self) -> u32 {
        let grain = 1_u32 << self.scale.unwrap_or(0);
        u32::from(self.mss.max(1)).div_ceil(grain) * grain
    }

    /// The window field that goes on, for a segment with these fields and a clamp of `limit` bytes.
    pub fn apply(&mut self, limit: u32, ack: u32, flags: u8, field: u16) -> u16 {
        if flags & tcp_flag::RST != 0 {
            return field;
        }
        let is_syn = flags & tcp_flag::SYN != 0;
        let scale = match (is_syn, self.scale) {
            (true, _) => 0,
            (false, Some(scale)) => scale,
            (false, None) => return field,
        };
        let has_ack = flags & tcp_flag::ACK != 0;
        let promised = match self.edge {
            Some(edge) if has_ack => edge.wrapping_sub(ack).cast_signed().max(0).cast_unsigned(),
            _ => 0,
        };
        let limit = if is_syn { limit.max(u32::from(self.mss)) } else { limit.max(self.floor()) };
        // Down to whole units, but not under what is promised.
        let units = (limit >> scale).max(promised.div_ceil(1 << scale));
        let passed = u32::from(field).min(units) as u16;
        if has_ack {
            let edge = ack.wrapping_add(u32::from(passed) << scale);
            let further = self.edge.is_none_or(|old| edge.wrapping_sub(old).cast_signed() > 0);
            if further {
                self.edge = Some(edge);
            }
        }
        passed
    }
}

/// Both directions of a flow, learnt from its SYNs.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    /// What the wired end and the mesh end offered in their SYNs: scale, maximum segment size.
    wired: Option<(Option<u8>, u16)>,
    mesh: Option<(Option<u8>, u16)>,
    /// Windows that the wired end advertises, and the mesh end.
    from_wired: Clamp,
    from_mesh: Clamp,
}

/// The clamps of all flows: of bounded size, and apart from the observer, as in a kernel they are elsewhere.
#[derive(Debug)]
pub struct Clamps {
    flows: FlowTable<Connection>,
}

impl Clamps {
    /// For so many flows.
    pub fn new(flows: usize) -> Self {
        Self { flows: FlowTable::new(flows) }
    }

    /// The window field with which a segment goes on. `limit` is the clamp in bytes on what is advertised in this
    /// direction; none leaves the window alone, but the segment must still be shown: SYNs tell the scale, and edges
    /// are kept.
    pub fn on_segment(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        direction: Direction,
        tcp: &TcpFields,
        limit: Option<u32>,
    ) -> u16 {
        const DEFAULT_MSS: u16 = 536;
        let is_syn = tcp.has(tcp_flag::SYN);
        if !is_syn && self.flows.get(key).is_none() {
            return tcp.window;
        }
        let connection = self.flows.touch(key, now, Connection::default);
        if is_syn {
            let offered = Some((tcp.window_scale, tcp.mss.unwrap_or(DEFAULT_MSS)));
            if !tcp.has(tcp_flag::ACK) {
                *connection = Connection::default();
            }
            match direction {
                Direction::ToMesh => connection.wired = offered,
                Direction::FromMesh => connection.mesh = offered,
            }
            connection.agree();
        }
        let clamp = match direction {
            Direction::ToMesh => &mut connection.from_wired,
            Direction::FromMesh => &mut connection.from_mesh,
        };
        let field = clamp.apply(limit.unwrap_or(u32::MAX), tcp.ack, tcp.flags, tcp.window);
        if tcp.has(tcp_flag::RST) {
            self.flows.remove(key);
        }
        field
    }
}

impl Connection {
    /// Both SYNs known: the scales hold, if both offered one (RFC 7323 §2.2).
    fn agree(&mut self) {
        let (Some((wired_scale, wired_mss)), Some((mesh_scale, mesh_mss))) = (self.wired, self.mesh) else {
            let known = self.wired.or(self.mesh).map_or(0, |(_, mss)| mss);
            (self.from_wired.mss, self.from_mesh.mss) = (known, known);
            return;
        };
        let scaled = wired_scale.is_some() && mesh_scale.is_some();
        let scale = |offered: Option<u8>| if scaled { offered.unwrap_or(0) } else { 0 };
        // Segments are no larger than either end takes.
        let mss = wired_mss.min(mesh_mss);
        let edges = (self.from_wired.edge, self.from_mesh.edge);
        self.from_wired = Clamp { edge: edges.0, ..Clamp::new(scale(wired_scale), mss) };
        self.from_mesh = Clamp { edge: edges.1, ..Clamp::new(scale(mesh_scale), mss) };
    }
}

/// Lets `field` choose the window of a TCP segment and writes it into the packet with the checksum mended. What is not a
/// whole TCP header in the first fragment of an IP packet is left as it is. Returns whether the packet was changed.
pub fn rewrite(packet: &mut [u8], field: impl FnOnce(&TcpFields) -> u16) -> bool {
    const WINDOW: usize = 14;
    const CHECKSUM: usize = 16;
    let Some(ip) = Ip::read(packet).filter(|ip| ip.protocol == PROTOCOL_TCP && !ip.later_fragment) else {
        return false;
    };
    let bytes = ip.bytes - ip.transport_at as u32;
    let Some(tcp) = packet.get_mut(ip.transport_at..) else { return false };
    let Some(fields) = TcpFields::read(tcp, bytes) else { return false };
    let new = field(&fields).min(fields.window);
    if new == fields.window {
        return false;
    }
    let (Some(window), Some(checksum)) = (
        tcp.get(WINDOW..WINDOW + 2).and_then(|b| b.first_chunk().copied()),
        tcp.get(CHECKSUM..CHECKSUM + 2).and_then(|b| b.first_chunk().copied()),
    ) else {
        return false;
    };
    let mended = mend(u16::from_be_bytes(checksum), u16::from_be_bytes(window), new);
    tcp[WINDOW..WINDOW + 2].copy_from_slice(&new.to_be_bytes());
    tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&mended.to_be_bytes());
    true
}

/// The checksum after one word of the data has changed (RFC 1624, equation 3).
pub const fn mend(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}
