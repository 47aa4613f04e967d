//! CoDel: controlled delay (RFC 8289 §5, the pseudo-code with the names of its variables).
//!
//! The sojourn time of a packet is measured when it leaves. Once it has exceeded the target for an interval, packets are
//! dropped until it is below the target, at intervals that shrink with the square root of the number of drops. With ECN a
//! packet is marked and sent instead of each drop, as in Linux. `MAXPACKET` is the largest packet so far: nothing is dropped
//! while the queue holds no more than that.

use fairhop_model::units::Nanos;

use super::{Fifo, QueueLimit, Refused, Timed, Waiting};
use crate::packet::Packets;

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// `TARGET`: acceptable standing delay.
    pub(super) target: Nanos,
    /// `INTERVAL`: on the order of a worst-case round-trip time.
    pub(super) interval: Nanos,
    /// Marks packets instead of dropping them (ECN).
    pub(super) ecn: bool,
}

impl Params {
    pub(super) fn from_millis(target_ms: f64, interval_ms: f64, ecn: bool) -> Self {
        Self { target: Nanos::from_millis_f64(target_ms), interval: Nanos::from_millis_f64(interval_ms), ecn }
    }

    /// Time of the next drop after `count` drops (§5.4).
    fn control_law(&self, from: Nanos, count: u32) -> Nanos {
        from + Nanos((self.interval.0 as f64 / libm::sqrt(f64::from(count))).round() as u64)
    }
}

/// State of CoDel for one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    dropping: bool,
    /// Time at which the sojourn time will have exceeded the target for an interval; zero while it is below.
    first_above_time: Nanos,
    drop_next: Nanos,
    count: u32,
    last_count: u32,
    max_packet: u32,
}

impl State {
    /// Records the size of an arriving packet.
    pub(super) fn saw(&mut self, bytes: u32) {
        self.max_packet = self.max_packet.max(bytes);
    }

    /// `dodequeue`: the first packet, and whether it is OK to drop.
    fn take(&mut self, queue: &mut Fifo, now: Nanos, params: &Params) -> Option<(Timed, bool)> {
        let Some(first) = queue.pop() else {
            self.first_above_time = Nanos::ZERO;
            return None;
        };
        let mut ok_to_drop = false;
        if now - first.at < params.target || queue.bytes <= self.max_packet {
            self.first_above_time = Nanos::ZERO;
        } else if self.first_above_time == Nanos::ZERO {
            self.first_above_time = now + params.interval;
        } else {
            ok_to_drop = now >= self.first_above_time;
        }
        Some((first, ok_to_drop))
    }

    /// `dequeue`: the packet to send. Drops packets before it.
    pub(super) fn dequeue(
        &mut self,
        queue: &mut Fifo,
        now: Nanos,
        params: &Params,
        packets: &mut Packets,
    ) -> Option<Timed> {
        let mut next = self.take(queue, now, params);
        let may_drop = |next: &Option<(Timed, bool)>| next.is_some_and(|(_, ok_to_drop)| ok_to_drop);
        if self.dropping {
            self.dropping = may_drop(&next);
            while self.dropping && now >= self.drop_next {
                let Some((first, _)) = next else { break };
                self.count += 1;
                if params.ecn && packets.mark(first.waiting.packet) {
                    self.drop_next = params.control_law(self.drop_next, self.count);
                    break;
                }
                packets.drop_queued(first.waiting.packet, Refused::Early);
                next = self.take(queue, now, params);
                self.dropping = may_drop(&next);
                if self.dropping {
                    self.drop_next = params.control_law(self.drop_next, self.count);
                }
            }
        } else if let Some((first, true)) = next {
            if !(params.ecn && packets.mark(first.waiting.packet)) {
                packets.drop_queued(first.waiting.packet, Refused::Early);
                next = self.take(queue, now, params);
            }
            self.dropping = true;
            // A queue that left the dropping state recently resumes near the drop rate that controlled it.
            let delta = self.count.saturating_sub(self.last_count);
            let recently = now.saturating_sub(self.drop_next) < params.interval * 16;
            self.count = if delta > 1 && recently { delta } else { 1 };
            self.drop_next = params.control_law(now, self.count);
            self.last_count = self.count;
        }
        next.map(|(first, _)| first)
    }
}

/// A queue under CoDel.
#[derive(Clone, Debug)]
pub struct CoDel {
    queue: Fifo,
    state: State,
    params: Params,
    limit: QueueLimit,
}

impl CoDel {
    pub(super) fn new(limit: QueueLimit, params: Params) -> Self {
        Self { queue: Fifo::default(), state: State::default(), params, limit }
    }

    /// Adds a packet at the end.
    ///
    /// # Errors
    /// The queue is full.
    pub fn push(&mut self, packet: Waiting, now: Nanos) -> Result<(), Refused> {
        if !self.limit.has_room(self.queue.len(), self.queue.bytes, packet.bytes) {
            return Err(Refused::Full);
        }
        self.state.saw(packet.bytes);
        self.queue.push(packet, now);
        Ok(())
    }

    /// Takes the packet to send, and drops packets before it.
    pub fn pop(&mut self, now: Nanos, packets: &mut Packets) -> Option<Waiting> {
        self.state.dequeue(&mut self.queue, now, &self.params, packets).map(|first| first.waiting)
    }

    /// Takes out all packets for a next hop.
    pub(super) fn withdraw(&mut self, next_hop: u32, out: &mut Vec<Waiting>) {
        self.queue.withdraw(next_hop, out);
    }

    /// Number of packets in the queue.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::packet::Ecn;

    const MS: u64 = 1_000_000;

    fn codel(ecn: bool) -> CoDel {
        CoDel::new(QueueLimit::Packets(10_000), Params::from_millis(5.0, 100.0, ecn))
    }

    /// Five packets arrive every millisecond and one leaves, so that the queue keeps growing. Returns the times of the packets
    /// dropped or marked, in ms.
    fn times_of_signals(ecn: Ecn, until_ms: u64) -> (Vec<u64>, Packets) {
        let mut packets = Packets::new(0, 64);
        let mut queue = codel(ecn != Ecn::NotEct);
        let mut times = Vec::new();
        for ms in 1..=until_ms {
            let now = Nanos(ms * MS);
            for _ in 0..5 {
                queue.push(packet(&mut packets, 0, 1000, ecn), now).expect("room");
            }
            let sent = queue.pop(now, &mut packets).expect("a packet");
            if packets.view(sent.packet).header.ecn == Ecn::Ce {
                times.push(ms);
            }
            while packets.take_dropped().is_some() {
                times.push(ms);
            }
        }
        (times, packets)
    }

    /// Packet number n arrives at ⌈n/5⌉ ms and leaves at n ms while nothing is dropped, so the first with a sojourn time of 5 ms
    /// leaves at 7 ms. After an interval, at 107 ms, the first packet is dropped. The next intervals are 100/√1, 100/√2,
    /// 100/√3, … ms: 207, 277.7, 335.4, 385.4, 430.2, 471.0, 508.8, 544.1, which take effect at the next millisecond.
    #[test]
    fn intervals_between_drops_shrink_with_the_square_root_of_their_number() {
        let expected = [107, 207, 278, 336, 386, 431, 471, 509, 545];
        assert_eq!(times_of_signals(Ecn::NotEct, 560).0, expected);
    }

    #[test]
    fn ecn_capable_packets_are_marked_at_the_same_times_instead_of_dropped() {
        let (marks, _) = times_of_signals(Ecn::Ect0, 560);
        assert_eq!(marks, [107, 207, 278, 336, 386, 431, 471, 509, 545]);
    }

    #[test]
    fn nothing_is_dropped_below_the_target_or_from_a_queue_of_one_packet() {
        let mut packets = Packets::new(0, 64);
        let mut queue = codel(false);
        for ms in 0..1000_u64 {
            // Two packets wait at any time, for 4 ms each.
            queue.push(packet(&mut packets, 0, 1000, Ecn::NotEct), Nanos(ms * 4 * MS)).expect("room");
            if ms > 0 {
                queue.pop(Nanos(ms * 4 * MS), &mut packets);
            }
        }
        // One packet at a time waits for a second.
        for s in 100..200_u64 {
            queue.push(packet(&mut packets, 0, 1000, Ecn::NotEct), Nanos(s * 1000 * MS)).expect("room");
            queue.pop(Nanos((s + 1) * 1000 * MS), &mut packets);
        }
        assert_eq!(packets.take_dropped(), None);
    }
}
