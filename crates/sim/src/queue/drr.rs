//! Deficit round robin over hosts (Shreedhar and Varghese 1996).
//!
//! Each host, identified by the source or the destination of its packets, has a queue and a deficit counter in bytes. In each
//! round the counter grows by a quantum and the host may send that many bytes; the rest is kept for the next round, unless
//! the queue is empty. At the limit, the last packet of the host with the most bytes is dropped (the paper's buffer stealing,
//! after McKenney 1991). Hosts are not hashed.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

use super::{Fifo, HostOf, QueueLimit, Refused, Waiting};
use crate::packet::Packets;

#[derive(Clone, Debug, Default)]
struct Host {
    queue: Fifo,
    deficit: u64,
    active: bool,
}

/// Queues of hosts under deficit round robin.
#[derive(Clone, Debug)]
pub struct Drr {
    /// Numbers of hosts, sorted, and their indices in `hosts`.
    known: Vec<(u32, u32)>,
    hosts: Vec<Host>,
    /// Hosts with packets, in the order of the round.
    active: VecDeque<u32>,
    /// Whether the first host has been given its quantum of this round.
    granted: bool,
    by: HostOf,
    quantum: u32,
    limit: QueueLimit,
    packets: usize,
    bytes: u32,
}

impl Drr {
    pub(super) fn new(limit: QueueLimit, quantum: u32, by: HostOf) -> Self {
        Self {
            known: Vec::with_capacity(8),
            hosts: Vec::with_capacity(8),
            active: VecDeque::with_capacity(8),
            granted: false,
            by,
            quantum: quantum.max(1),
            limit,
            packets: 0,
            bytes: 0,
        }
    }

    fn place(&mut self, host: u32) -> usize {
        match self.known.binary_search_by_key(&host, |entry| entry.0) {
            Ok(index) => self.known[index].1 as usize,
            Err(index) => {
                let place = self.hosts.len();
                self.hosts.push(Host::default());
                self.known.insert(index, (host, place as u32));
                place
            }
        }
    }

    /// Adds a packet to the queue of its host. Beyond the limit, drops packets of the host with the most bytes.
    ///
    /// # Errors
    /// The packet alone exceeds the limit.
    pub fn push(&mut self, packet: Waiting, packets: &mut Packets) -> Result<(), Refused> {
        if !self.limit.has_room(0, 0, packet.bytes) {
            return Err(Refused::Full);
        }
        let known = packets.get(packet.packet);
        let place = self.place(match self.by {
            HostOf::Source => known.source,
            HostOf::Destination => known.destination,
        });
        let host = &mut self.hosts[place];
        host.queue.push(packet, Nanos::ZERO);
        self.packets += 1;
        self.bytes += packet.bytes;
        if !std::mem::replace(&mut host.active, true) {
            host.deficit = 0;
            self.active.push_back(place as u32);
        }
        while self.limit.is_exceeded(self.packets, self.bytes) {
            self.steal(packets);
        }
        Ok(())
    }

    /// Drops the last packet of the host with the most bytes. A host whose queue becomes empty stays in the round until its turn.
    fn steal(&mut self, packets: &mut Packets) {
        let longest = self.active.iter().copied();
        let longest = longest.max_by_key(|&host| (self.hosts[host as usize].queue.bytes, u32::MAX - host));
        let Some(last) = longest.and_then(|host| self.hosts[host as usize].queue.pop_last()) else { return };
        self.packets -= 1;
        self.bytes -= last.waiting.bytes;
        packets.drop_queued(last.waiting.packet, Refused::Full);
    }

    /// Takes the next packet to send.
    pub fn pop(&mut self) -> Option<Waiting> {
        loop {
            let host = &mut self.hosts[*self.active.front()? as usize];
            let Some(first) = host.queue.first() else {
                host.active = false;
                self.active.pop_front();
                self.granted = false;
                continue;
            };
            if !std::mem::replace(&mut self.granted, true) {
                host.deficit += u64::from(self.quantum);
            }
            let bytes = u64::from(first.waiting.bytes);
            if bytes > host.deficit {
                self.active.rotate_left(1);
                self.granted = false;
                continue;
            }
            host.deficit -= bytes;
            let first = host.queue.pop()?;
            self.packets -= 1;
            self.bytes -= first.waiting.bytes;
            if host.queue.len() == 0 {
                host.active = false;
                self.active.pop_front();
                self.granted = false;
            }
            return Some(first.waiting);
        }
    }

    /// Takes out all packets for a next hop.
    pub(super) fn withdraw(&mut self, next_hop: u32, out: &mut Vec<Waiting>) {
        let before = out.len();
        for host in &mut self.hosts {
            host.queue.withdraw(next_hop, out);
        }
        self.packets -= out.len() - before;
        self.bytes -= out[before..].iter().map(|waiting| waiting.bytes).sum::<u32>();
    }

    /// Number of packets in the queue.
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::packet;
    use super::*;
    use crate::packet::Ecn;

    fn drr(limit: u32, quantum: u32) -> Drr {
        Drr::new(QueueLimit::Packets(limit), quantum, HostOf::Source)
    }

    /// The example of the paper's figures 2 and 3: quantum 500; the first queue has packets of 200, 750 and 20 bytes, the
    /// second one of 500. Round 1 sends 200, which leaves a deficit of 300, and then the 500. In round 2 the deficit of 800
    /// is enough for 750, and the rest of 50 for 20.
    #[test]
    fn the_papers_example_is_served_in_its_order() {
        let mut packets = Packets::new(0, 64);
        let mut queue = drr(100, 500);
        for (host, bytes) in [(0, 200), (0, 750), (0, 20), (1, 500)] {
            queue.push(packet(&mut packets, host, bytes, Ecn::NotEct), &mut packets).expect("room");
        }
        let sent: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|waiting| waiting.bytes).collect();
        assert_eq!(sent, [200, 500, 750, 20]);
    }

    #[test]
    fn at_the_limit_the_host_with_the_most_bytes_loses_a_packet() {
        let mut packets = Packets::new(0, 64);
        let mut queue = drr(10, 1514);
        for host in [0, 0, 0, 0, 0, 0, 0, 1, 1, 1] {
            queue.push(packet(&mut packets, host, 1000, Ecn::NotEct), &mut packets).expect("room");
        }
        queue.push(packet(&mut packets, 1, 1000, Ecn::NotEct), &mut packets).expect("room");
        let lost: Vec<_> = std::iter::from_fn(|| packets.take_dropped()).collect();
        assert_eq!(lost.iter().map(|(id, _)| packets.get(*id).source).collect::<Vec<_>>(), [0]);
        assert_eq!(queue.len(), 10);
    }

    proptest! {
        /// The paper's fairness: over any time in which two hosts are backlogged, the bytes that they send differ by at most a
        /// quantum and two maximum packets.
        #[test]
        fn backlogged_hosts_send_the_same_number_of_bytes(
            sizes in prop::collection::vec(prop::collection::vec(40_u32..1500, 30..60), 2..6),
            quantum in 1500_u32..4000,
            taken in 1_usize..100,
        ) {
            let mut packets = Packets::new(0, 64);
            let mut queue = drr(10_000, quantum);
            for (host, sizes) in sizes.iter().enumerate() {
                for bytes in sizes {
                    let waiting = packet(&mut packets, host as u32, *bytes, Ecn::NotEct);
                    queue.push(waiting, &mut packets).expect("room");
                }
            }
            let mut sent = vec![0_i64; sizes.len()];
            for _ in 0..taken {
                if queue.hosts.iter().any(|host| host.queue.len() == 0) {
                    break;
                }
                let waiting = queue.pop().expect("a packet");
                sent[packets.get(waiting.packet).source as usize] += i64::from(waiting.bytes);
            }
            let (max, min) = (sent.iter().max().expect("some"), sent.iter().min().expect("some"));
            prop_assert!(max - min <= i64::from(quantum) + 2 * 1500, "{sent:?}");
        }
    }
}
