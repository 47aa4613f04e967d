//! RED: random early detection (Floyd and Jacobson 1993), with gentle mode (Floyd 2000) and the self-configuration of
//! Adaptive RED (Floyd, Gummadi and Shenker 2001).
//!
//! The average queue decides. Below the lower threshold nothing is dropped; between the thresholds a packet is dropped with
//! a chance that rises with the average and with the packets since the last drop, so that drops are spread evenly; above
//! the upper one all are, or, in gentle mode, ever more up to twice the threshold. While the queue is idle the average
//! falls as if so many packets of mean size had passed. Drops by a full queue are drop-tail's.
//!
//! With ECN, a packet is marked in place of a chance drop; above the upper threshold (twice it, in gentle mode) it is
//! dropped even so (RFC 3168 §7). In byte mode the queue is counted in packets of mean size and the chance of a packet is
//! in proportion to its own. Left out: ns-2's `wait_` (the 1993 count from the last drop is used) and RIO.

use fairhop_model::units::{BitRate, Nanos};

use super::{Discipline, Fifo, QueueLimit, Refused, Waiting};
use crate::engine::Stream;
use crate::packet::Packets;

/// How often Adaptive RED looks at its average (2001, figure 1).
const ADAPT_INTERVAL: Nanos = Nanos(500_000_000);
/// The queueing delay for which thresholds are chosen (2001, §5).
const TARGET_DELAY_S: f64 = 0.005;
/// Additive increase of the chance: this, or a quarter of the chance.
const INCREASE: f64 = 0.01;
/// Multiplicative decrease of the chance.
const DECREASE: f64 = 0.9;
/// The chance is kept within these.
const CHANCE_RANGE: (f64, f64) = (0.01, 0.5);

/// Parameters of RED.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// Lower threshold in packets.
    pub(super) min: f64,
    /// Upper threshold in packets.
    pub(super) max: f64,
    /// Weight of the average.
    pub(super) weight: f64,
    /// Chance of a drop at the upper threshold, to begin with.
    pub(super) max_chance: f64,
    /// The chance goes on rising up to twice the upper threshold.
    pub(super) gentle: bool,
    /// `max_chance` is adapted.
    pub(super) adaptive: bool,
    /// Counts bytes.
    pub(super) bytes: bool,
    /// Mean size of a packet.
    pub(super) mean_bytes: u32,
    /// Time to send a packet of mean size.
    pub(super) packet_time: Nanos,
    /// Marks in place of drops.
    pub(super) ecn: bool,
}

/// A queue under RED.
#[derive(Clone, Debug)]
pub struct Red {
    queue: Fifo,
    limit: QueueLimit,
    params: Params,
    /// The average queue in packets.
    average: f64,
    /// Packets since the last drop; none while the average is below the lower threshold.
    count: Option<u32>,
    max_chance: f64,
    /// Since when the queue is empty, if it is.
    idle_since: Option<Nanos>,
    adapted_at: Nanos,
    random: Stream,
}

/// What the average says of a packet that comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Take,
    /// Dropped, or marked, with this chance.
    Chance(f64),
    Drop,
}

impl Red {
    /// An empty queue in front of a link of `rate`; `discipline` is that of [`Discipline::Red`].
    pub(super) fn new(discipline: &Discipline, rate: BitRate, random: Stream) -> Self {
        let mut params = Params {
            min: 5.0,
            max: 15.0,
            weight: 0.002,
            max_chance: 0.1,
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
                max_chance: *max_probability,
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
            max_chance: params.max_chance,
            idle_since: Some(Nanos::ZERO),
            adapted_at: Nanos::ZERO,
            random,
        }
    }

    /// Adds a packet at the end, unless it is dropped.
    ///
    /// # Errors
    /// It is dropped early, or there is no room.
    pub fn push(&mut self, packet: Waiting, now: Nanos, packets: &mut Packets) -> Result<(), Refused> {
        self.update_average(now);
        self.adapt(now);
        match self.verdict(packet.bytes) {
            Verdict::Take => {}
            Verdict::Chance(chance) => {
                if self.random.unit() < chance {
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

    /// An empty queue that refuses a packet goes on being idle from here; the average has been brought up to date.
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

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.len() == 0
    }

    /// The average queue in packets of mean size.
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

    /// Moves the largest chance so that the average stays near the middle between the thresholds.
    fn adapt(&mut self, now: Nanos) {
        if !self.params.adaptive || now < self.adapted_at + ADAPT_INTERVAL {
            return;
        }
        self.adapted_at = now;
        let Params { min, max, .. } = self.params;
        let between = |part: f64| min + part * (max - min);
        if self.average > between(0.6) && self.max_chance <= CHANCE_RANGE.1 {
            self.max_chance += INCREASE.min(self.max_chance / 4.0);
        } else if self.average < between(0.4) && self.max_chance >= CHANCE_RANGE.0 {
            self.max_chance *= DECREASE;
        }
    }

    fn verdict(&mut self, bytes: u32) -> Verdict {
        let Params { min, max, gentle, .. } = self.params;
        let average = self.average;
        if average < min {
            self.count = None;
            return Verdict::Take;
        }
        let at_upper = if gentle { 2.0 * max } else { max };
        if average >= at_upper {
            self.count = Some(0);
            return Verdict::Drop;
        }
        let initial = if average < max {
            self.max_chance * (average - min) / (max - min)
        } else {
            self.max_chance + (1.0 - self.max_chance) * (average - max) / max
        };
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        let chance = if self.params.bytes {
            initial * f64::from(bytes) / f64::from(self.params.mean_bytes)
        } else {
            initial
        };
        let spread = 1.0 - f64::from(count) * chance;
        Verdict::Chance(if spread > 0.0 { (chance / spread).min(1.0) } else { 1.0 })
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
            max_chance: 0.1,
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

    /// With weight 1/4, queues of 0, 1, 2, 3 packets found: 0, 0.25, 0.6875, 1.265625. Idle for 2 packet times:
    /// 1.265625 · 0.75² = 0.711914.
    #[test]
    fn the_average_follows_the_queue_and_falls_while_it_is_idle() {
        let mut packets = Packets::default();
        let mut queue = red(params());
        for expected in [0.0, 0.25, 0.6875, 1.265_625] {
            queue.push(packet(&mut packets, 0, 500, Ecn::NotEct), Nanos(MS), &mut packets).expect("taken");
            assert_eq!(queue.average(), expected);
        }
        while queue.pop(Nanos(5 * MS)).is_some() {}
        queue.push(packet(&mut packets, 0, 500, Ecn::NotEct), Nanos(7 * MS), &mut packets).expect("taken");
        assert!((queue.average() - 0.711_914_062_5).abs() < 1e-12, "{}", queue.average());
    }

    /// At average 10, half way, p_b = 0.05, and p_a = p_b / (1 − count · p_b): 1/20, 1/19, 1/18, …, 1. At 18, gentle:
    /// 0.1 + 0.9 · 3/15 = 0.28; not gentle: all. In bytes a packet of 1000 with mean 500 has twice the chance.
    #[test]
    fn the_chance_of_a_drop_is_the_papers() {
        let mut queue = red(params());
        queue.average = 4.99;
        assert_eq!(queue.verdict(500), Verdict::Take);
        queue.average = 10.0;
        for denominator in (1..=20).rev() {
            let Verdict::Chance(chance) = queue.verdict(500) else { panic!("a chance") };
            assert!((chance - 1.0 / f64::from(denominator)).abs() < 1e-12, "{chance} of 1/{denominator}");
        }
        queue.count = None;
        queue.average = 18.0;
        let Verdict::Chance(chance) = queue.verdict(500) else { panic!("a chance") };
        assert!((chance - 0.28).abs() < 1e-12);
        queue.average = 30.0;
        assert_eq!(queue.verdict(500), Verdict::Drop);
        let mut steep = red(Params { gentle: false, ..params() });
        steep.average = 15.0;
        assert_eq!(steep.verdict(500), Verdict::Drop);
        let mut bytes = red(Params { bytes: true, ..params() });
        bytes.average = 10.0;
        assert_eq!(bytes.verdict(1000), Verdict::Chance(0.1));
    }

    /// Drops between the thresholds are spread: with p_b = 0.05 the gap is uniform on 1..20 (1993, §7), so that it is
    /// never longer than 20 and 10.5 on average.
    #[test]
    fn gaps_between_drops_are_uniform() {
        let mut queue = red(params());
        queue.average = 10.0;
        let (mut gaps, mut gap) = ([0_u64; 20], 0_usize);
        for _ in 0..200_000 {
            let Verdict::Chance(chance) = queue.verdict(500) else { panic!("a chance") };
            gap += 1;
            if queue.random.unit() < chance {
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
    fn marks_take_the_place_of_drops_up_to_the_upper_threshold() {
        let mut packets = Packets::default();
        let mut queue = red(Params { ecn: true, weight: 1e-9, ..params() });
        queue.average = 10.0;
        queue.idle_since = None;
        let mut marked = 0;
        for _ in 0..210 {
            let waiting = packet(&mut packets, 0, 500, Ecn::Ect0);
            assert!(queue.push(waiting, Nanos(MS), &mut packets).is_ok());
            marked += u32::from(packets.get(waiting.packet).ecn == Ecn::Ce);
        }
        assert!((14..=30).contains(&marked), "{marked}: one in 10.5 is due");
        queue.average = 31.0;
        let capable = packet(&mut packets, 0, 500, Ecn::Ect0);
        assert_eq!(queue.push(capable, Nanos(MS), &mut packets), Err(Refused::Early));
    }

    /// Thresholds 5 and 15: the target is 9 to 11. Above it the chance grows by min(0.01, p/4) each half second, below it
    /// falls to 0.9 of itself.
    #[test]
    fn adaptive_red_moves_its_chance_towards_the_middle() {
        let mut queue = red(Params { adaptive: true, max_chance: 0.02, ..params() });
        let mut step = |average: f64, half_seconds: u64| {
            queue.average = average;
            queue.adapt(Nanos(half_seconds * 500 * MS));
            queue.max_chance
        };
        assert_eq!(step(11.5, 1), 0.025);
        assert_eq!(step(11.5, 1), 0.025, "once in an interval");
        assert_eq!(step(10.0, 2), 0.025);
        assert!((step(8.9, 3) - 0.0225).abs() < 1e-12);
        for half_second in 4..200 {
            step(14.0, half_second);
        }
        assert!((0.5..=0.51).contains(&queue.max_chance));
    }

    /// 10 Mb/s and 500-byte packets: 2500 packets a second, so that 5 ms are 12.5 packets, the thresholds 6.25 and 18.75,
    /// and the weight 1 − e^(−1/2500).
    #[test]
    fn what_is_left_out_is_chosen_from_the_link() {
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
