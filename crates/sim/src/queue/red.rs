//! RED: random early detection (Floyd and Jacobson 1993), with gentle mode (Floyd 2000) and the self-configuration of
//! Adaptive RED (Floyd, Gummadi and Shenker 2001).
//!
//! Drops depend on the average queue. Below the lower threshold no packet is dropped. Between the thresholds a packet is dropped
//! with a probability that grows with the average and with the number of packets since the last drop, so that drops are
//! spread evenly. Above the upper threshold all packets are dropped; in gentle mode the probability grows on to one at twice
//! the threshold. While the queue is idle the average decays as if packets of mean size were being sent. Drops by a full
//! queue are drop-tail's.
//!
//! With ECN, a packet is marked instead of a random drop; above the upper threshold (twice it in gentle mode) it is dropped
//! all the same (RFC 3168 §7). In byte mode the queue is measured in packets of mean size, and the probability is
//! proportional to the size of the packet. Left out: ns-2's `wait_` (the 1993 count from the last drop is used) and RIO.

use fairhop_model::units::{BitRate, Nanos};

use super::{Discipline, Fifo, QueueLimit, Refused, Waiting};
use crate::engine::Stream;
use crate::packet::Packets;

/// Interval of adaptation of Adaptive RED (2001, figure 1).
const ADAPT_INTERVAL: Nanos = Nanos(500_000_000);
/// Target queueing delay, from which thresholds are chosen (2001, §5).
const TARGET_DELAY_S: f64 = 0.005;
/// Additive increase of the maximum probability: this, or a quarter of it if that is less.
const INCREASE: f64 = 0.01;
/// Multiplicative decrease of the maximum probability.
const DECREASE: f64 = 0.9;
/// Range of the maximum probability.
const PROBABILITY_RANGE: (f64, f64) = (0.01, 0.5);

/// Parameters of RED.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// Lower threshold in packets.
    pub(super) min: f64,
    /// Upper threshold in packets.
    pub(super) max: f64,
    /// Weight of the average.
    pub(super) weight: f64,
    /// Initial probability of a drop at the upper threshold.
    pub(super) max_probability: f64,
    /// Whether the probability grows on up to twice the upper threshold.
    pub(super) gentle: bool,
    /// Whether `max_probability` is adapted.
    pub(super) adaptive: bool,
    /// Whether the queue is measured in bytes.
    pub(super) bytes: bool,
    /// Mean size of a packet.
    pub(super) mean_bytes: u32,
    /// Sending time of a packet of mean size.
    pub(super) packet_time: Nanos,
    /// Marks packets instead of random drops (ECN).
    pub(super) ecn: bool,
}

/// A queue under RED.
#[derive(Clone, Debug)]
pub struct Red {
    queue: Fifo,
    limit: QueueLimit,
    params: Params,
    /// Average queue in packets.
    average: f64,
    /// Packets since the last drop; none while the average is below the lower threshold.
    count: Option<u32>,
    max_probability: f64,
    /// Start of the idle period, while the queue is empty.
    idle_since: Option<Nanos>,
    adapted_at: Nanos,
    random: Stream,
}

/// Decision on an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Take,
    /// Drop, or mark, with this probability.
    Random(f64),
    Drop,
}

impl Red {
    /// An empty queue in front of a link of `rate`; `discipline` is that of [`Discipline::Red`].
    pub(super) fn new(discipline: &Discipline, rate: BitRate, random: Stream) -> Self {
        let mut params = Params {
            min: 5.0,
            max: 15.0,
            weight: 0.002,
            max_probability: 0.1,
            gentle: true,
            adaptive: false,
            bytes: false,
            mean_bytes: 500,
            packet_time: Nanos::ZERO,
            ecn: false,
        };
        if let Discipline::Red {
            min_packets,
            max_packets,
            weight,
            max_probability,
            gentle,
            adaptive,
            count_bytes,
            mean_packet_bytes,
            ecn,
            ..
        } = discipline
        {
            let packet_time = rate.time_for(u64::from(*mean_packet_bytes));
            let per_second = 1.0 / packet_time.as_secs_f64().max(1e-9);
            let min = min_packets.unwrap_or_else(|| (TARGET_DELAY_S * per_second / 2.0).max(5.0));
            params = Params {
                min,
                max: max_packets.unwrap_or(3.0 * min),
                weight: weight.unwrap_or_else(|| {
                    if *adaptive { 1.0 - libm::exp(-1.0 / per_second) } else { params.weight }
                }),
                max_probability: *max_probability,
                gentle: *gentle,
                adaptive: *adaptive,
                bytes: *count_bytes,
                mean_bytes: *mean_packet_bytes,
                packet_time,
                ecn: *ecn,
            };
        }
        Self::with(params, discipline.limit(), random)
    }

    fn with(params: Params, limit: QueueLimit, random: Stream) -> Self {
        Self {
            queue: Fifo::default(),
            limit,
            params,
            average: 0.0,
            count: None,
            max_probability: params.max_probability,
            idle_since: Some(Nanos::ZERO),
            adapted_at: Nanos::ZERO,
            random,
        }
    }

    /// Adds a packet at the end, unless it is dropped.
    ///
    /// # Errors
    /// The packet is dropped early, or the queue is full.
    pub fn push(&mut self, packet: Waiting, now: Nanos, packets: &mut Packets) -> Result<(), Refused> {
        self.update_average(now);
        self.adapt(now);
        match self.verdict(packet.bytes) {
            Verdict::Take => {}
            Verdict::Random(probability) => {
                if self.random.unit() < probability {
                    self.count = Some(0);
                    if !(self.params.ecn && packets.mark(packet.packet)) {
                        return Err(self.refuse(now, Refused::Early));
                    }
                }
            }
            Verdict::Drop => return Err(self.refuse(now, Refused::Early)),
        }
        if !self.limit.has_room(self.queue.len(), self.queue.bytes, packet.bytes) {
            self.count = Some(0);
            return Err(self.refuse(now, Refused::Full));
        }
        self.idle_since = None;
        self.queue.push(packet, now);
        Ok(())
    }

    /// Restarts the idle period of an empty queue that refuses a packet: the average is up to date.
    fn refuse(&mut self, now: Nanos, why: Refused) -> Refused {
        if self.idle_since.is_some() {
            self.idle_since = Some(now);
        }
        why
    }

    /// Takes the first packet.
    pub fn pop(&mut self, now: Nanos) -> Option<Waiting> {
        let first = self.queue.pop()?;
        if self.queue.len() == 0 {
            self.idle_since = Some(now);
        }
        Some(first.waiting)
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

    /// Average queue in packets; in byte mode, in packets of mean size.
    pub fn average(&self) -> f64 {
        self.average
    }

    fn queue_in_packets(&self) -> f64 {
        if self.params.bytes {
            f64::from(self.queue.bytes) / f64::from(self.params.mean_bytes)
        } else {
            self.queue.len() as f64
        }
    }

    fn update_average(&mut self, now: Nanos) {
        let keep = 1.0 - self.params.weight;
        if let Some(since) = self.idle_since {
            let passed = (now - since).as_secs_f64() / self.params.packet_time.as_secs_f64().max(1e-9);
            self.average *= libm::pow(keep, passed);
        } else {
            self.average = keep * self.average + self.params.weight * self.queue_in_packets();
        }
    }

    /// Adapts the maximum probability, to keep the average near the middle between the thresholds.
    fn adapt(&mut self, now: Nanos) {
        if !self.params.adaptive || now < self.adapted_at + ADAPT_INTERVAL {
            return;
        }
        self.adapted_at = now;
        let Params { min, max, .. } = self.params;
        let between = |fraction: f64| min + fraction * (max - min);
        if self.average > between(0.6) && self.max_probability <= PROBABILITY_RANGE.1 {
            self.max_probability += INCREASE.min(self.max_probability / 4.0);
        } else if self.average < between(0.4) && self.max_probability >= PROBABILITY_RANGE.0 {
            self.max_probability *= DECREASE;
        }
    }

    fn verdict(&mut self, bytes: u32) -> Verdict {
        let Params { min, max, gentle, .. } = self.params;
        let average = self.average;
        if average < min {
            self.count = None;
            return Verdict::Take;
        }
        let certain = if gentle { 2.0 * max } else { max };
        if average >= certain {
            self.count = Some(0);
            return Verdict::Drop;
        }
        let initial = if average < max {
            self.max_probability * (average - min) / (max - min)
        } else {
            self.max_probability + (1.0 - self.max_probability) * (average - max) / max
        };
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        let probability = if self.params.bytes {
            initial * f64::from(bytes) / f64::from(self.params.mean_bytes)
        } else {
            initial
        };
        let spread = 1.0 - f64::from(count) * probability;
        Verdict::Random(if spread > 0.0 { (probability / spread).min(1.0) } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::engine::Purpose;
    use crate::packet::Ecn;

    const MS: u64 = 1_000_000;

    fn params() -> Params {
        Params {
            min: 5.0,
            max: 15.0,
            weight: 0.25,
            max_probability: 0.1,
            gentle: true,
            adaptive: false,
            bytes: false,
            mean_bytes: 500,
            packet_time: Nanos(MS),
            ecn: false,
        }
    }

    fn red(params: Params) -> Red {
        Red::with(params, QueueLimit::Packets(1000), Stream::new(1, 0, Purpose::Queue))
    }

    /// With weight 1/4, packets that find 0, 1, 2 and 3 others make the average 0, 0.25, 0.6875 and 1.265625. After 2 idle packet
    /// times: 1.265625 · 0.75² = 0.711914.
    #[test]
    fn the_average_follows_the_queue_and_decays_while_it_is_idle() {
        let mut packets = Packets::new(0, 64);
        let mut queue = red(params());
        for expected in [0.0, 0.25, 0.6875, 1.265_625] {
            queue.push(packet(&mut packets, 0, 500, Ecn::NotEct), Nanos(MS), &mut packets).expect("taken");
            assert_eq!(queue.average(), expected);
        }
        while queue.pop(Nanos(5 * MS)).is_some() {}
        queue.push(packet(&mut packets, 0, 500, Ecn::NotEct), Nanos(7 * MS), &mut packets).expect("taken");
        assert!((queue.average() - 0.711_914_062_5).abs() < 1e-12, "{}", queue.average());
    }

    /// At an average of 10, half way, p_b = 0.05, and p_a = p_b / (1 − count · p_b): 1/20, 1/19, 1/18, …, 1. At 18 in gentle mode:
    /// 0.1 + 0.9 · 3/15 = 0.28; otherwise 1. In byte mode a packet of 1000 bytes with a mean of 500 has twice the probability.
    #[test]
    fn the_probability_of_a_drop_is_that_of_the_papers() {
        let mut queue = red(params());
        queue.average = 4.99;
        assert_eq!(queue.verdict(500), Verdict::Take);
        queue.average = 10.0;
        for denominator in (1..=20).rev() {
            let Verdict::Random(probability) = queue.verdict(500) else { panic!("a probability") };
            assert!(
                (probability - 1.0 / f64::from(denominator)).abs() < 1e-12,
                "{probability}, not 1/{denominator}"
            );
        }
        queue.count = None;
        queue.average = 18.0;
        let Verdict::Random(probability) = queue.verdict(500) else { panic!("a probability") };
        assert!((probability - 0.28).abs() < 1e-12);
        queue.average = 30.0;
        assert_eq!(queue.verdict(500), Verdict::Drop);
        let mut steep = red(Params { gentle: false, ..params() });
        steep.average = 15.0;
        assert_eq!(steep.verdict(500), Verdict::Drop);
        let mut bytes = red(Params { bytes: true, ..params() });
        bytes.average = 10.0;
        assert_eq!(bytes.verdict(1000), Verdict::Random(0.1));
    }

    /// With p_b = 0.05 the gap between drops is uniform on 1..20 (1993, §7): never longer than 20, and 10.5 on average.
    #[test]
    fn gaps_between_drops_are_uniformly_distributed() {
        let mut queue = red(params());
        queue.average = 10.0;
        let (mut gaps, mut gap) = ([0_u64; 20], 0_usize);
        for _ in 0..200_000 {
            let Verdict::Random(probability) = queue.verdict(500) else { panic!("a probability") };
            gap += 1;
            if queue.random.unit() < probability {
                // The packet after a drop has count 1.
                queue.count = None;
                gaps[gap - 1] += 1;
                gap = 0;
            }
        }
        let mean = gaps.iter().sum::<u64>() as f64 / 20.0;
        assert!(gaps.iter().all(|&n| (n as f64 - mean).abs() < 5.0 * mean.sqrt()), "{gaps:?}");
    }

    #[test]
    fn packets_are_marked_instead_of_dropped_up_to_the_upper_threshold() {
        let mut packets = Packets::new(0, 64);
        let mut queue = red(Params { ecn: true, weight: 1e-9, ..params() });
        queue.average = 10.0;
        queue.idle_since = None;
        let mut marked = 0;
        for _ in 0..210 {
            let waiting = packet(&mut packets, 0, 500, Ecn::Ect0);
            assert!(queue.push(waiting, Nanos(MS), &mut packets).is_ok());
            marked += u32::from(packets.view(waiting.packet).header.ecn == Ecn::Ce);
        }
        assert!((14..=30).contains(&marked), "{marked}, expected one in 10.5");
        queue.average = 31.0;
        let capable = packet(&mut packets, 0, 500, Ecn::Ect0);
        assert_eq!(queue.push(capable, Nanos(MS), &mut packets), Err(Refused::Early));
    }

    /// With thresholds 5 and 15 the target is 9 to 11. Above it the maximum probability p grows by min(0.01, p/4) each half
    /// second; below it, p is multiplied by 0.9.
    #[test]
    fn adaptive_red_adapts_its_probability_to_keep_the_average_on_target() {
        let mut queue = red(Params { adaptive: true, max_probability: 0.02, ..params() });
        let mut step = |average: f64, half_seconds: u64| {
            queue.average = average;
            queue.adapt(Nanos(half_seconds * 500 * MS));
            queue.max_probability
        };
        assert_eq!(step(11.5, 1), 0.025);
        assert_eq!(step(11.5, 1), 0.025, "once in an interval");
        assert_eq!(step(10.0, 2), 0.025);
        assert!((step(8.9, 3) - 0.0225).abs() < 1e-12);
        for half_second in 4..200 {
            step(14.0, half_second);
        }
        assert!((0.5..=0.51).contains(&queue.max_probability));
    }

    /// 10 Mb/s and 500-byte packets: 2500 packets a second, so that 5 ms are 12.5 packets, the thresholds 6.25 and 18.75,
    /// and the weight 1 − e^(−1/2500).
    #[test]
    fn parameters_left_out_are_computed_from_the_rate_of_the_link() {
        let red = |text: &str, mbps| {
            let discipline: Discipline = toml::from_str(text).expect("a queue");
            Red::new(&discipline, BitRate::from_mbps(mbps), Stream::new(1, 0, Purpose::Queue)).params
        };
        let adaptive = red("discipline = \"red\"\npackets = 100\nadaptive = true", 10.0);
        assert!((adaptive.min - 6.25).abs() < 1e-9 && (adaptive.max - 18.75).abs() < 1e-9);
        assert!((adaptive.weight - (1.0 - (-1.0_f64 / 2500.0).exp())).abs() < 1e-12);
        let plain = red("discipline = \"red\"\npackets = 100", 1.0);
        assert_eq!((plain.min, plain.max, plain.weight), (5.0, 15.0, 0.002));
    }
}
