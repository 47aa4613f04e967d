//! Queue disciplines for the interface queue of a station and for the ends of a wired link.
//!
//! | module | discipline |
//! |---|---|
//! | [`DropTail`] | FIFO; a packet that arrives when it is full is dropped |
//! | [`Red`] | random early detection: gentle, adaptive, in packets or bytes |
//! | [`Priority`] | strict priority by DSCP class |
//! | [`CoDel`] | controlled delay (RFC 8289) |
//! | [`FqCoDel`] | flow queuing with CoDel (RFC 8290); optionally fair to hosts first, like CAKE |
//! | [`Drr`] | deficit round robin over hosts |
//! | [`Routed`] | any of these behind the messages of a routing protocol |
//!
//! The caller passes the time and the slab of packets. A queue refuses an arriving packet with [`Refused`], hands packets that
//! it drops later to [`Packets::drop_queued`], and with ECN marks instead of dropping where the packet's transport is capable
//! ([`Packets::mark`]). Left out: a memory limit of the slab, and hardware queues below the discipline (only a station's frame
//! in service has left the queue).

mod codel;
mod discipline;
mod drop_tail;
mod drr;
mod fq_codel;
mod priority;
mod red;
mod routed;

pub use codel::CoDel;
pub(crate) use discipline::queue_named_or_not;
pub use discipline::{Discipline, HostOf, QueueLimit};
pub use drop_tail::DropTail;
pub use drr::Drr;
pub use fq_codel::FqCoDel;
pub use priority::Priority;
pub use red::Red;
pub use routed::Routed;

use std::collections::VecDeque;

use fairhop_model::units::{BitRate, Nanos};

use crate::engine::Stream;
pub use crate::packet::Refused;
use crate::packet::{ImageId, Packets};

/// A packet in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The packet.
    pub packet: ImageId,
    /// The next hop.
    pub next_hop: u32,
    /// Size of the IP packet in bytes.
    pub bytes: u32,
}

/// A queue with one of the disciplines. Large ones are boxed, so that a station with a drop-tail queue stays small.
#[derive(Clone, Debug)]
pub enum Queue {
    /// FIFO.
    DropTail(DropTail),
    /// Random early detection.
    Red(Box<Red>),
    /// Strict priority.
    Priority(Box<Priority>),
    /// Controlled delay.
    CoDel(Box<CoDel>),
    /// Flow queuing with CoDel.
    FqCoDel(Box<FqCoDel>),
    /// Deficit round robin over hosts.
    Drr(Box<Drr>),
    /// Messages of a routing protocol first, then one of the others.
    Routed(Box<Routed>),
}

impl Queue {
    /// An empty queue in front of a sender with `rate`; `random` is its own random stream.
    pub fn new(discipline: &Discipline, rate: BitRate, random: Stream) -> Self {
        use Discipline as As;
        let limit = discipline.limit();
        match discipline {
            As::DropTail { .. } => Self::DropTail(DropTail::new(limit)),
            As::Red { .. } => Self::Red(Box::new(Red::new(discipline, rate, random))),
            As::Priority { .. } => Self::Priority(Box::new(Priority::new(limit))),
            As::Codel { target_ms, interval_ms, ecn, .. } => {
                let params = codel::Params::from_millis(*target_ms, *interval_ms, *ecn);
                Self::CoDel(Box::new(CoDel::new(limit, params)))
            }
            As::FqCodel { target_ms, interval_ms, quantum_bytes, flows, ecn, .. } => {
                let params = codel::Params::from_millis(*target_ms, *interval_ms, *ecn);
                Self::FqCoDel(Box::new(FqCoDel::new(limit, params, *quantum_bytes, *flows, random)))
            }
            As::Cake { target_ms, interval_ms, quantum_bytes, flows, ecn, by, .. } => {
                let params = codel::Params::from_millis(*target_ms, *interval_ms, *ecn);
                let flows = FqCoDel::new(limit, params, *quantum_bytes, *flows, random);
                Self::FqCoDel(Box::new(flows.fair_to_hosts(*by)))
            }
            As::Drr { quantum_bytes, by, .. } => Self::Drr(Box::new(Drr::new(limit, *quantum_bytes, *by))),
        }
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// The packet is refused and remains the caller's.
    #[inline]
    pub fn push(&mut self, packet: Waiting, now: Nanos, packets: &mut Packets) -> Result<(), Refused> {
        match self {
            Self::DropTail(queue) => queue.push(packet),
            Self::Red(queue) => queue.push(packet, now, packets),
            Self::Priority(queue) => queue.push(packet, packets),
            Self::CoDel(queue) => queue.push(packet, now),
            Self::FqCoDel(queue) => queue.push(packet, now, packets),
            Self::Drr(queue) => queue.push(packet, packets),
            Self::Routed(queue) => queue.push(packet, now, packets),
        }
    }

    /// Takes the next packet to send.
    #[inline]
    pub fn pop(&mut self, now: Nanos, packets: &mut Packets) -> Option<Waiting> {
        match self {
            Self::DropTail(queue) => queue.pop(),
            Self::Red(queue) => queue.pop(now),
            Self::Priority(queue) => queue.pop(),
            Self::CoDel(queue) => queue.pop(now, packets),
            Self::FqCoDel(queue) => queue.pop(now, packets),
            Self::Drr(queue) => queue.pop(),
            Self::Routed(queue) => queue.pop(now, packets),
        }
    }

    /// Passes a packet through an empty queue while nothing is being sent. Returns the packet to send at once.
    ///
    /// # Errors
    /// As [`Queue::push`].
    #[inline]
    pub fn pass(
        &mut self,
        packet: Waiting,
        now: Nanos,
        packets: &mut Packets,
    ) -> Result<Option<Waiting>, Refused> {
        if self.is_passed_by() {
            return Ok(Some(packet));
        }
        self.push(packet, now, packets)?;
        Ok(self.pop(now, packets))
    }

    /// Whether a packet may bypass the queue while it is empty. The other disciplines keep state of every packet.
    #[inline]
    pub fn is_passed_by(&self) -> bool {
        match self {
            Self::DropTail(_) => true,
            Self::Routed(queue) => queue.is_passed_by(),
            _ => false,
        }
    }

    /// Takes out all packets for a next hop.
    pub fn withdraw(&mut self, next_hop: u32, out: &mut Vec<Waiting>) {
        match self {
            Self::DropTail(queue) => queue.withdraw(next_hop, out),
            Self::Red(queue) => queue.withdraw(next_hop, out),
            Self::Priority(queue) => queue.withdraw(next_hop, out),
            Self::CoDel(queue) => queue.withdraw(next_hop, out),
            Self::FqCoDel(queue) => queue.withdraw(next_hop, out),
            Self::Drr(queue) => queue.withdraw(next_hop, out),
            Self::Routed(queue) => queue.withdraw(next_hop, out),
        }
    }

    /// Number of packets in the queue.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::DropTail(queue) => queue.len(),
            Self::Red(queue) => queue.len(),
            Self::Priority(queue) => queue.len(),
            Self::CoDel(queue) => queue.len(),
            Self::FqCoDel(queue) => queue.len(),
            Self::Drr(queue) => queue.len(),
            Self::Routed(queue) => queue.len(),
        }
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl QueueLimit {
    /// Whether a queue with this content has room for a packet of `packet` bytes.
    #[inline]
    pub(crate) fn has_room(self, packets: usize, bytes: u32, packet: u32) -> bool {
        match self {
            Self::Packets(max) => packets < max as usize,
            Self::Bytes(max) => bytes.saturating_add(packet) <= max,
        }
    }

    /// Whether this content exceeds the limit.
    #[inline]
    fn is_exceeded(self, packets: usize, bytes: u32) -> bool {
        match self {
            Self::Packets(max) => packets > max as usize,
            Self::Bytes(max) => bytes > max,
        }
    }
}

/// A packet and its arrival time.
#[derive(Clone, Copy, Debug)]
struct Timed {
    waiting: Waiting,
    at: Nanos,
}

/// Packets in the order of arrival, and their total size.
#[derive(Clone, Debug, Default)]
struct Fifo {
    waiting: VecDeque<Timed>,
    bytes: u32,
}

impl Fifo {
    #[inline]
    fn push(&mut self, waiting: Waiting, at: Nanos) {
        self.bytes += waiting.bytes;
        self.waiting.push_back(Timed { waiting, at });
    }

    #[inline]
    fn pop(&mut self) -> Option<Timed> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.waiting.bytes;
        Some(first)
    }

    fn pop_last(&mut self) -> Option<Timed> {
        let last = self.waiting.pop_back()?;
        self.bytes -= last.waiting.bytes;
        Some(last)
    }

    /// Takes out all packets for a next hop.
    fn withdraw(&mut self, next_hop: u32, out: &mut Vec<Waiting>) {
        let before = out.len();
        self.waiting.retain(|timed| {
            let stays = timed.waiting.next_hop != next_hop;
            if !stays {
                out.push(timed.waiting);
            }
            stays
        });
        self.bytes -= out[before..].iter().map(|waiting| waiting.bytes).sum::<u32>();
    }

    #[inline]
    fn first(&self) -> Option<&Timed> {
        self.waiting.front()
    }

    #[inline]
    fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Packets for the tests of the disciplines.

    use super::*;
    use crate::packet::{Body, Dscp, Ecn, Packet};

    /// A packet of a stream between two hosts.
    pub(crate) fn packet(packets: &mut Packets, stream: u32, bytes: u32, ecn: Ecn) -> Waiting {
        let packet = Packet {
            created: Nanos::ZERO,
            stream,
            source: stream,
            destination: 1000,
            bytes,
            connection: 0,
            dscp: Dscp::BEST_EFFORT,
            body: Body::Udp { sequence: 0 },
        };
        let packet = packets.insert(packet, ecn, 0);
        Waiting { packet, next_hop: 0, bytes }
    }
}
