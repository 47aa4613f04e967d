//! A network between the two machines that loses, delays, reorders and duplicates packets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairhop_model::units::Nanos;
use fairhop_transport::aimd::{Ack, Arrival, Datagram, Receiver, ReceiverConfig, Sender, SenderConfig};

/// Numbers uniform over [0, 1): Steele, Lea and Flood's SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Uniform(pub(crate) u64);

impl Uniform {
    pub(crate) fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Treatment of packets in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) loss: f64,
    pub(crate) repeated: f64,
    /// Range of the delay. Different delays reorder packets.
    pub(crate) delay_ms: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flying {
    Data(Datagram),
    Ack(Ack),
}

/// Both machines and the packets in flight.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) now: Nanos,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// Stream positions of the delivered packets, in order of arrival.
    pub(crate) delivered: Vec<u64>,
    ways: [Way; 2],
    uniform: Uniform,
    /// Arrivals: time and index in `flying`.
    due: BinaryHeap<Reverse<(Nanos, usize)>>,
    flying: Vec<Flying>,
}

impl Network {
    pub(crate) fn new(sender: SenderConfig, receiver: ReceiverConfig, ways: [Way; 2], seed: u64) -> Self {
        Self {
            now: Nanos::ZERO,
            sender: Sender::new(sender),
            receiver: Receiver::new(receiver),
            delivered: Vec::new(),
            ways,
            uniform: Uniform(seed),
            due: BinaryHeap::new(),
            flying: Vec::new(),
        }
    }

    fn send(&mut self, packet: Flying) {
        let way = self.ways[usize::from(matches!(packet, Flying::Ack(_)))];
        let copies =
            u32::from(self.uniform.draw() >= way.loss) + u32::from(self.uniform.draw() < way.repeated);
        for _ in 0..copies {
            let (shortest, longest) = way.delay_ms;
            let delay = shortest + (longest - shortest) * self.uniform.draw();
            self.due.push(Reverse((self.now + Nanos::from_millis_f64(delay), self.flying.len())));
            self.flying.push(packet);
        }
    }

    /// Sends packets; asserts that the window is not exceeded.
    fn pump(&mut self) {
        loop {
            let window = self.sender.window();
            let Some(datagram) = self.sender.poll_transmit(self.now) else { break };
            let outstanding = self.sender.outstanding();
            assert!(outstanding <= window.max(self.sender.window()), "{outstanding} of {window}");
            self.send(Flying::Data(datagram));
        }
    }

    /// Advances to the next event. Returns whether there is one.
    pub(crate) fn step(&mut self) -> bool {
        self.pump();
        let arrival = self.due.peek().map(|&Reverse((at, _))| at);
        let timer = self.sender.next_timer();
        let Some(next) = [arrival, timer].into_iter().flatten().min() else { return false };
        assert!(next >= self.now, "a timer in the past");
        self.now = next;
        if arrival == Some(next) {
            if let Some(Reverse((_, index))) = self.due.pop() {
                self.arrive(self.flying[index]);
            }
        } else {
            self.sender.on_timer(next);
        }
        self.pump();
        true
    }

    fn arrive(&mut self, packet: Flying) {
        match packet {
            Flying::Data(datagram) => {
                let (ack, arrival) = self.receiver.on_datagram(self.now, &datagram);
                if let Arrival::New { index, .. } = arrival {
                    self.delivered.push(index);
                }
                self.send(Flying::Ack(ack));
            }
            Flying::Ack(ack) => self.sender.on_ack(self.now, &ack),
        }
    }
}
