//! The path of the measured kernels: a bottleneck with a drop-tail queue, a fixed delay each way, and optional loss after
//! the bottleneck.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;
use fairhop_transport::quic;
use fairhop_transport::tcp::{Flags, Receiver, Segment, Sender, SenderState};

use super::trace::{Sample, Trace};

/// A machine at one end.
pub(crate) trait End {
    type Packet;
    /// The next packet and the length of its Ethernet frame in bytes.
    fn transmit(&mut self, now: Nanos) -> Option<(Self::Packet, u64)>;
    fn receive(&mut self, now: Nanos, packet: &Self::Packet);
    fn next_timer(&self) -> Option<Nanos>;
    fn on_timer(&mut self, now: Nanos);
}

/// The end that sends data.
pub(crate) trait Source: End {
    /// None until the connection is established.
    fn sample(&self) -> Option<Sample>;
}

/// Ethernet and IPv4 headers.
const LOWER_HEADERS: u64 = 14 + 20;

/// Segments with PSH in the measured runs, as far as the traces show. The kernel's receiver acknowledged these singly, and
/// no others between the 17th and the 31st. With them the smoothed round-trip times after 100 and 200 ms equal the
/// kernel's to the microsecond. (A send buffer of 87,040 B holds 23 segments.)
const PUSHED: [u32; 5] = [23, 32, 33, 34, 35];

impl End for Sender {
    type Packet = Segment;

    fn transmit(&mut self, now: Nanos) -> Option<(Segment, u64)> {
        let mut segment = self.poll_transmit(now)?;
        let number = (segment.seq.0.wrapping_sub(1)) / self.effective_mss() + 1;
        if segment.len > 0 && PUSHED.contains(&number) {
            segment.flags = segment.flags | Flags::PSH;
        }
        Some((segment, LOWER_HEADERS + u64::from(segment.header_bytes() + segment.len)))
    }

    fn receive(&mut self, now: Nanos, segment: &Segment) {
        self.on_segment(now, segment);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.next_timer()
    }

    fn on_timer(&mut self, now: Nanos) {
        self.on_timer(now);
    }
}

impl Source for Sender {
    fn sample(&self) -> Option<Sample> {
        if self.state() == SenderState::SynSent {
            return None;
        }
        Some(Sample {
            t_ms: 0,
            cwnd: self.cwnd_segments(),
            ssthresh: (self.ssthresh().unwrap_or(0) / u64::from(self.effective_mss())) as u32,
            srtt_us: self.srtt().map_or(0, |srtt| srtt.0 / 1000),
            unacked: self.in_flight(),
            retransmitted: self.stats().segments_retransmitted,
            acked_bytes: self.bytes_acked(),
        })
    }
}

impl End for Receiver {
    type Packet = Segment;

    fn transmit(&mut self, now: Nanos) -> Option<(Segment, u64)> {
        let segment = self.poll_transmit(now)?;
        Some((segment, LOWER_HEADERS + u64::from(segment.header_bytes())))
    }

    fn receive(&mut self, now: Nanos, segment: &Segment) {
        self.on_segment(now, segment);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.next_timer()
    }

    fn on_timer(&mut self, now: Nanos) {
        self.on_timer(now);
    }
}

/// Ethernet, IPv4 and UDP headers.
const UDP_HEADERS: u64 = LOWER_HEADERS + 8;

impl End for quic::Sender {
    type Packet = quic::Datagram;

    fn transmit(&mut self, now: Nanos) -> Option<(quic::Datagram, u64)> {
        let datagram = self.poll_transmit(now)?;
        Some((datagram, UDP_HEADERS + u64::from(datagram.wire_bytes())))
    }

    fn receive(&mut self, now: Nanos, datagram: &quic::Datagram) {
        self.on_datagram(now, datagram);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.next_timer()
    }

    fn on_timer(&mut self, now: Nanos) {
        self.on_timer(now);
    }
}

impl Source for quic::Sender {
    fn sample(&self) -> Option<Sample> {
        Some(Sample {
            t_ms: 0,
            cwnd: self.cwnd_packets(),
            ssthresh: self.ssthresh_packets().unwrap_or(0),
            srtt_us: self.srtt().map_or(0, |srtt| srtt.0 / 1000),
            unacked: self.in_flight(),
            retransmitted: self.stats().packets_retransmitted,
            acked_bytes: self.bytes_acked(),
        })
    }
}

impl End for quic::Receiver {
    type Packet = quic::Datagram;

    fn transmit(&mut self, now: Nanos) -> Option<(quic::Datagram, u64)> {
        let datagram = self.poll_transmit(now)?;
        Some((datagram, UDP_HEADERS + u64::from(datagram.wire_bytes())))
    }

    fn receive(&mut self, now: Nanos, datagram: &quic::Datagram) {
        self.on_datagram(now, datagram);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.next_timer()
    }

    fn on_timer(&mut self, now: Nanos) {
        self.on_timer(now);
    }
}

/// Loss in addition to queue drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    QueueOnly,
    /// Every 200th frame of more than 200 B after the bottleneck.
    Every200th,
    /// Each frame of more than 200 B after the bottleneck with a probability of 0.5 %; the seed of the draws.
    Random(u64),
}

/// The bottleneck and the delays around it.
pub(crate) struct Path {
    loss: Loss,
    /// Departure times of the packets in the queue; the first is being sent.
    departures: VecDeque<Nanos>,
    queue_drops: u64,
    link_drops: u64,
    /// Frames of more than 200 B that have passed the bottleneck.
    passed: u64,
    /// State of the random draws (SplitMix64).
    random: u64,
}

impl Path {
    const RATE_BPS: u64 = 10_000_000;
    const ROOM: usize = 50;
    const ONE_WAY: Nanos = Nanos::from_millis(20);
    const INTERVAL: Nanos = Nanos::from_millis(100);
    const SAMPLES: usize = 600;
    /// The kernels were sampled up to 0.1 ms late; exactly at the start the first flight is not sent yet.
    const LAG: Nanos = Nanos::from_micros(50);

    pub(crate) fn new(loss: Loss) -> Self {
        let random = if let Loss::Random(seed) = loss { seed } else { 0 };
        Self {
            loss,
            departures: VecDeque::with_capacity(Self::ROOM),
            queue_drops: 0,
            link_drops: 0,
            passed: 0,
            random,
        }
    }

    /// Whether the link loses the next frame.
    fn is_lost(&mut self) -> bool {
        self.passed += 1;
        match self.loss {
            Loss::QueueOnly => false,
            Loss::Every200th => self.passed.is_multiple_of(200),
            Loss::Random(_) => {
                self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.random;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (z ^ (z >> 31)) < u64::MAX / 200
            }
        }
    }

    /// Arrival time at the receiver of a frame that reaches the bottleneck now, unless it is dropped.
    fn forward(&mut self, now: Nanos, frame_bytes: u64) -> Option<Nanos> {
        while self.departures.front().is_some_and(|&departure| departure <= now) {
            self.departures.pop_front();
        }
        if self.departures.len() == Self::ROOM {
            self.queue_drops += 1;
            return None;
        }
        let begin = self.departures.back().map_or(now, |&last| last);
        let departure = begin + Nanos(frame_bytes * 8 * 1_000_000_000 / Self::RATE_BPS);
        self.departures.push_back(departure);
        if frame_bytes > 200 && self.is_lost() {
            self.link_drops += 1;
            return None;
        }
        Some(departure + Self::ONE_WAY)
    }

    /// Runs an open, endless flow for 60 s and samples it every 100 ms from its establishment on.
    pub(crate) fn run<S: Source, R: End<Packet = S::Packet>>(
        mut self,
        sender: &mut S,
        mut receiver: R,
    ) -> Trace {
        let mut now = Nanos::ZERO;
        let mut data: VecDeque<(Nanos, S::Packet)> = VecDeque::new();
        let mut acks: VecDeque<(Nanos, S::Packet)> = VecDeque::new();
        let mut next_sample = None;
        let mut samples = Vec::with_capacity(Self::SAMPLES);
        while samples.len() < Self::SAMPLES {
            while let Some((packet, bytes)) = sender.transmit(now) {
                if let Some(arrival) = self.forward(now, bytes) {
                    data.push_back((arrival, packet));
                }
            }
            while let Some((packet, _)) = receiver.transmit(now) {
                acks.push_back((now + Self::ONE_WAY, packet));
            }
            if next_sample.is_none() && sender.sample().is_some() {
                next_sample = Some(now + Self::LAG);
            }
            let times = [
                data.front().map(|packet| packet.0),
                acks.front().map(|packet| packet.0),
                sender.next_timer(),
                receiver.next_timer(),
                next_sample,
            ];
            let next = times.into_iter().flatten().min().expect("an endless flow always has an event");
            assert!(next >= now, "a timer in the past");
            now = next;
            if next_sample == Some(now) {
                let t_ms = samples.len() as u64 * Self::INTERVAL.0 / 1_000_000;
                samples.extend(sender.sample().map(|sample| Sample { t_ms, ..sample }));
                next_sample = Some(now + Self::INTERVAL);
            }
            if let Some(packet) = arrived(&mut data, now) {
                receiver.receive(now, &packet);
            }
            if let Some(packet) = arrived(&mut acks, now) {
                sender.receive(now, &packet);
            }
            sender.on_timer(now);
            receiver.on_timer(now);
        }
        Trace { samples, queue_drops: self.queue_drops, link_drops: self.link_drops }
    }
}

/// The next packet that has arrived by now.
fn arrived<P>(flying: &mut VecDeque<(Nanos, P)>, now: Nanos) -> Option<P> {
    if flying.front()?.0 > now {
        return None;
    }
    flying.pop_front().map(|(_, packet)| packet)
}
