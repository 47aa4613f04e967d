//! Throttling at a mesh node: its own packets leave spaced, forwarded packets leave while none of its own is due (osipov2007
//! §4.2 and §4.3).
//!
//! A flow i with the share φ may send at r = φ · Thr_max (equation 2, [`fairhop_model::share::ingress_rate`]). Its packets
//! are Δ = MSS / r apart (equation 3). There are two stages: the node's own packets, each flow with its own Δ, have strict
//! priority over forwarded packets. The first stage is not work-conserving.

use std::collections::VecDeque;

use fairhop_model::units::{BitRate, Nanos};

/// The delay Δ between two segments of `mss` bytes at the rate `r` (osipov2007, equation 3).
pub fn spacing(mss: u32, rate: BitRate) -> Nanos {
    rate.time_for(u64::from(mss))
}

#[derive(Debug)]
struct Own<P> {
    spacing: Nanos,
    last: Option<Nanos>,
    queue: VecDeque<P>,
}

impl<P> Own<P> {
    fn next(&self) -> Nanos {
        self.last.map_or(Nanos::ZERO, |last| last.saturating_add(self.spacing))
    }
}

/// The two stages of a node.
#[derive(Debug)]
pub struct IngressThrottle<P> {
    own: Vec<Own<P>>,
    forwarded: VecDeque<P>,
    packets: usize,
    turn: usize,
}

impl<P> IngressThrottle<P> {
    /// For a node with `flows` flows of its own, and at most `packets` in each queue.
    pub fn new(flows: usize, packets: usize) -> Self {
        let packets = packets.max(1);
        let own = |_| Own { spacing: Nanos::ZERO, last: None, queue: VecDeque::with_capacity(packets) };
        Self {
            own: (0..flows).map(own).collect(),
            forwarded: VecDeque::with_capacity(packets),
            packets,
            turn: 0,
        }
    }

    /// Sets Δ of a flow; zero for none. Flows that do not exist are ignored.
    pub fn set_spacing(&mut self, flow: usize, spacing: Nanos) {
        if let Some(own) = self.own.get_mut(flow) {
            own.spacing = spacing;
        }
    }

    /// Takes a packet of the node's own flow; returns it if its queue is full or the flow does not exist.
    pub fn offer_own(&mut self, flow: usize, packet: P) -> Option<P> {
        match self.own.get_mut(flow) {
            Some(own) if own.queue.len() < self.packets => {
                own.queue.push_back(packet);
                None
            }
            _ => Some(packet),
        }
    }

    /// Takes a packet to forward; returns it if the queue is full.
    pub fn offer_forwarded(&mut self, packet: P) -> Option<P> {
        if self.forwarded.len() < self.packets {
            self.forwarded.push_back(packet);
            None
        } else {
            Some(packet)
        }
    }

    /// When a packet may leave; none if none waits. May be in the past.
    pub fn next_time(&self) -> Option<Nanos> {
        if !self.forwarded.is_empty() {
            return Some(Nanos::ZERO);
        }
        self.own.iter().filter(|own| !own.queue.is_empty()).map(Own::next).min()
    }

    /// A packet that may leave now: one of the node's own that is due (flows take turns), otherwise one to forward.
    pub fn poll(&mut self, now: Nanos) -> Option<P> {
        for _ in 0..self.own.len() {
            self.turn = (self.turn + 1) % self.own.len();
            let own = &mut self.own[self.turn];
            if own.next() <= now
                && let Some(packet) = own.queue.pop_front()
            {
                own.last = Some(now);
                return Some(packet);
            }
        }
        self.forwarded.pop_front()
    }
}
