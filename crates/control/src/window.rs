//! The advertised window as an actuator: a receiver's window is lowered on its way to the sender (kim2010, "window
//! resizing").
//!
//! The rules, and why:
//! - *Never enlarged.* The receiver has no room for more than it offers.
//! - *The right edge never moves back.* Data that fits into the window offered before may be on its way (RFC 9293 §3.8.6
//!   discourages shrinking). A lower clamp therefore takes effect as ACKs come. If a receiver moves its own edge back, its
//!   window passes unchanged.
//! - *Never below one segment.* A window of less than a segment stalls the sender (RFC 9293 §3.8.6.2.1). Less than one segment per
//!   round trip takes a pacer.
//! - *As many full segments as the clamp holds.* The field counts in units of 2^scale (RFC 7323 §2.2). It is rounded down, unless that
//!   takes a segment away: receivers with large buffers have a scale of 10, where a clamp of 3000 bytes would become one of 2048, a
//!   single segment whose ACK may be delayed. With three units, 3072 bytes, the sender has the two full segments in flight
//!   that 3000 hold, and at most 176 bytes more.
//! - *The window of a SYN is not scaled.* It is not clamped below the segment size either.
//! - *A zero window and every window below the clamp pass unchanged.* So do segments with RST.
//! - *The checksum is updated incrementally* (RFC 1624, equation 3): a wrong checksum stays wrong by the same amount.
//! - *A flow first seen in its middle is never clamped*, since its scale is not known.
//!
//! Nothing here allocates after [`Clamps::new`]. [`crate::raw::RawClamp`] is a [`Clamp`] with a fixed layout.

use fairhop_model::units::Nanos;

use crate::digest::{Direction, Ip, PROTOCOL_TCP, TcpFields, tcp_flag};
use crate::flow::{FlowKey, FlowTable};

/// One direction of a flow: the windows that one end advertises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clamp {
    /// Scale of the windows; none before both SYNs have been seen.
    pub(crate) scale: Option<u8>,
    /// Maximum size of segments to the end that advertises, in bytes.
    pub(crate) mss: u16,
    /// Right edge of the window that has been offered to the sender.
    pub(crate) edge: Option<u32>,
}

impl Clamp {
    /// RFC 7323 §2.3: a larger scale counts as 14.
    pub(crate) const MAX_SCALE: u8 = 14;

    /// The clamp of a flow whose SYNs have been seen. `scale` is the scale of the windows (0 unless both ends offered one),
    /// `mss` the maximum size in bytes of segments to the end that advertises.
    pub const fn new(scale: u8, mss: u16) -> Self {
        let scale = if scale > Self::MAX_SCALE { Self::MAX_SCALE } else { scale };
        Self { scale: Some(scale), mss, edge: None }
    }

    /// Units of 2^scale for a clamp in bytes: rounded down, but with room for the full segments that it holds, and for one at least.
    fn units(&self, limit: u32, scale: u8) -> u32 {
        let mss = u32::from(self.mss.max(1));
        let segments = (limit / mss).max(1) * mss;
        (limit >> scale).max(segments.div_ceil(1 << scale))
    }

    /// The window field with which a segment goes on; `limit` is the clamp in bytes, the other arguments are the segment's
    /// fields.
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
        let offered = match self.edge {
            Some(edge) if has_ack => edge.wrapping_sub(ack).cast_signed().max(0).cast_unsigned(),
            _ => 0,
        };
        // Never below what has been offered.
        let units = self.units(limit, scale).max(offered.div_ceil(1 << scale));
        let clamped = u32::from(field).min(units) as u16;
        if has_ack {
            let edge = ack.wrapping_add(u32::from(clamped) << scale);
            if self.edge.is_none_or(|old| edge.wrapping_sub(old).cast_signed() > 0) {
                self.edge = Some(edge);
            }
        }
        clamped
    }
}

/// What an end offered in its SYN.
#[derive(Clone, Copy, Debug)]
struct Offer {
    scale: Option<u8>,
    mss: u16,
}

/// Both directions of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    wired: Option<Offer>,
    mesh: Option<Offer>,
    /// Windows that the wired end advertises, and the mesh end.
    from_wired: Clamp,
    from_mesh: Clamp,
}

/// The clamps of all flows, of bounded size. Independent of the observer, as in a kernel the two are in different places.
#[derive(Debug)]
pub struct Clamps {
    flows: FlowTable<Connection>,
}

impl Clamps {
    /// Clamps for at most `flows` flows at a time.
    pub fn new(flows: usize) -> Self {
        Self { flows: FlowTable::new(flows) }
    }

    /// The window field with which a segment goes on. `limit` is the clamp in bytes for windows advertised in this
    /// direction; none leaves the window unchanged. Segments without a limit must be shown too: their SYNs have the scale,
    /// and their windows move the edge.
    pub fn on_segment(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        direction: Direction,
        tcp: &TcpFields,
        limit: Option<u32>,
    ) -> u16 {
        /// RFC 9293 §3.7.1, in bytes.
        const DEFAULT_MSS: u16 = 536;
        let is_syn = tcp.has(tcp_flag::SYN);
        if !is_syn && self.flows.get(key).is_none() {
            return tcp.window;
        }
        let connection = self.flows.touch(key, now, Connection::default);
        if is_syn {
            let offer = Some(Offer { scale: tcp.window_scale, mss: tcp.mss.unwrap_or(DEFAULT_MSS) });
            if !tcp.has(tcp_flag::ACK) {
                *connection = Connection::default();
            }
            match direction {
                Direction::ToMesh => connection.wired = offer,
                Direction::FromMesh => connection.mesh = offer,
            }
            connection.negotiate();
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
    /// Takes scale and segment size from the SYNs. Scaling is on only if both ends offer it (RFC 7323 §2.2).
    fn negotiate(&mut self) {
        let (Some(wired), Some(mesh)) = (self.wired, self.mesh) else {
            let known = self.wired.or(self.mesh).map_or(0, |offer| offer.mss);
            (self.from_wired.mss, self.from_mesh.mss) = (known, known);
            return;
        };
        let is_scaled = wired.scale.is_some() && mesh.scale.is_some();
        let scale = |offer: Offer| if is_scaled { offer.scale.unwrap_or(0) } else { 0 };
        // Segments are no larger than either end takes.
        let mss = wired.mss.min(mesh.mss);
        let edges = (self.from_wired.edge, self.from_mesh.edge);
        self.from_wired = Clamp { edge: edges.0, ..Clamp::new(scale(wired), mss) };
        self.from_mesh = Clamp { edge: edges.1, ..Clamp::new(scale(mesh), mss) };
    }
}

/// Replaces the window of a TCP segment by what `field` returns, if that is smaller, and updates the checksum. Returns
/// whether the packet was changed. A packet without a whole TCP header, or a later fragment, stays unchanged.
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
    let updated = update_checksum(u16::from_be_bytes(checksum), u16::from_be_bytes(window), new);
    tcp[WINDOW..WINDOW + 2].copy_from_slice(&new.to_be_bytes());
    tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&updated.to_be_bytes());
    true
}

/// The checksum after one word of the data has changed from `old` to `new` (RFC 1624, equation 3).
pub const fn update_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}
