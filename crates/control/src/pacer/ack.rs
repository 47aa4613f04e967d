//! Pacing of ACKs by the bytes that they acknowledge.

use std::collections::VecDeque;

use fairhop_model::units::{BitRate, Nanos};

use crate::flow::{FlowKey, FlowTable};

/// Longest wait that one ACK causes the others, and longest wait of an ACK in the gateway: minimum retransmission timeout of
/// RFC 6298 §2.4. An ACK that covers more leaves its flow to the clamp.
pub const MAX_ACK_WAIT: Nanos = Nanos::from_secs(1);

/// No window is larger (65,535 · 2^14 bytes, RFC 7323 §2.3), and so is no step of an acknowledgment.
const MAX_STEP: u32 = 1 << 30;

/// Holds ACKs, in order, so that the bytes that they acknowledge come no faster than the rate.
///
/// After an ACK that acknowledges B new bytes of its flow, the next one leaves B·8/R later, or [`MAX_ACK_WAIT`] if that is
/// sooner: all flows share the rate, and one ACK must not hold those of the others for longer. An ACK without new bytes (a
/// duplicate, a window update) costs nothing, but keeps its place in the queue. Spacing ACKs by their number would bound
/// nothing, since one ACK may acknowledge a whole window. Each ACK may still widen the window; a clamp beside the pacer
/// bounds the bursts. A full queue drops the oldest ACK: later ones repeat what it said (RFC 9293 §3.10.7.4), and its bytes
/// count with the next ACK that leaves.
///
/// The first ACK of a flow acknowledges an unknown number of bytes, which counts as none. So does the first one after a time
/// without a rate or after a SYN, and one that is more than any window away from the one before.
#[derive(Debug)]
pub struct AckPacer<P> {
    rate: Option<BitRate>,
    /// Departure of the last ACK with new bytes, and their number.
    last: Option<(Nanos, u32)>,
    queue: VecDeque<Waiting<P>>,
    packets: usize,
    /// Highest acknowledgment that has left, by flow.
    left: FlowTable<u32>,
}

/// An ACK that waits.
#[derive(Debug)]
struct Waiting<P> {
    key: FlowKey,
    ack: u32,
    packet: P,
    since: Nanos,
}

impl<P> AckPacer<P> {
    /// A pacer without a rate, for at most `packets` waiting ACKs and `flows` flows.
    pub fn new(packets: usize, flows: usize) -> Self {
        let packets = packets.max(1);
        Self {
            rate: None,
            last: None,
            queue: VecDeque::with_capacity(packets + 1),
            packets,
            left: FlowTable::new(flows),
        }
    }

    /// Sets the rate at which all flows together acknowledge; none for no limit.
    pub fn set_rate(&mut self, rate: Option<BitRate>) {
        if self.rate.is_none() && rate.is_some() {
            // ACKs have passed that the pacer has not seen.
            self.left.expire(Nanos::MAX);
        }
        self.rate = rate;
    }

    /// A flow begins anew with a SYN: its ports may have been those of another connection.
    pub fn restart(&mut self, key: &FlowKey) {
        self.left.remove(key);
    }

    /// The earliest departure of the next ACK. May be in the past.
    fn next(&self) -> Nanos {
        match (self.last, self.rate) {
            (Some((at, bytes)), Some(rate)) => {
                at.saturating_add(rate.time_for(u64::from(bytes)).min(MAX_ACK_WAIT))
            }
            _ => Nanos::ZERO,
        }
    }

    /// Number of waiting ACKs.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no ACK waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes an ACK. If the queue is full, returns the ACK that is dropped.
    pub fn offer(&mut self, now: Nanos, key: &FlowKey, ack: u32, packet: P) -> Option<P> {
        self.queue.push_back(Waiting { key: *key, ack, packet, since: now });
        if self.queue.len() <= self.packets {
            return None;
        }
        self.queue.pop_front().map(|first| first.packet)
    }

    /// When the first ACK may leave; none if none waits. May be in the past.
    pub fn next_time(&self) -> Option<Nanos> {
        (!self.queue.is_empty()).then(|| self.next())
    }

    /// An ACK that may leave now, and how long it has waited.
    pub fn poll(&mut self, now: Nanos) -> Option<(P, Nanos)> {
        if self.next() > now {
            return None;
        }
        let Waiting { key, ack, packet, since } = self.queue.pop_front()?;
        let left = self.left.touch(&key, now, || ack);
        let step = ack.wrapping_sub(*left);
        if step.wrapping_add(MAX_STEP) > 2 * MAX_STEP {
            *left = ack;
        } else if step.cast_signed() > 0 {
            *left = ack;
            self.last = Some((now, step));
        }
        Some((packet, now.saturating_sub(since)))
    }
}
