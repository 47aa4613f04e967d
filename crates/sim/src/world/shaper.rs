//! A shaper with a queue discipline, as routers use it today in front of a slower link (SQM, CAKE); for comparison.
//!
//! A packet departs no sooner after the one before than that one takes at the rate, so that in any interval at most the
//! rate and one packet depart. Bytes are counted as `tc` counts them on Ethernet: the IP packet and [`ETHERNET`]. Left
//! out: bursts (`tbf`, `htb`), and framing below Ethernet (`overhead`, `atm`).

use fairhop_model::units::{BitRate, Nanos};

use crate::engine::Stream;
use crate::packet::{ImageId, Packets};
use crate::queue::{Queue, Refused, Waiting};
use crate::scenario::{Discipline, HostOf, ShaperDiscipline, ShaperSetting};

/// Bytes of an Ethernet header. `tc` does not count frame check sequence, preamble and inter-frame gap.
pub const ETHERNET: u32 = 14;

/// One direction.
#[derive(Debug)]
pub struct Shaper {
    /// None is no limit.
    rate: Option<BitRate>,
    queue: Queue,
    /// When the next packet may leave.
    free_at: Nanos,
}

impl Shaper {
    /// A shaper at a rate. `host` says which end of a packet is in the mesh.
    pub fn new(setting: &ShaperSetting, rate: BitRate, host: HostOf, random: Stream) -> Self {
        let queue = Queue::new(&queue_of(setting, rate, host), rate, random);
        Self { rate: Some(rate), queue, free_at: Nanos::ZERO }
    }

    /// The rate.
    pub fn rate(&self) -> Option<BitRate> {
        self.rate
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues a packet. If it may leave at once, the next [`Shaper::poll`] returns it.
    ///
    /// # Errors
    /// The queue does not accept it. The packet is still the caller's.
    pub fn offer(
        &mut self,
        now: Nanos,
        packet: ImageId,
        bytes: u32,
        packets: &mut Packets,
    ) -> Result<(), Refused> {
        self.queue.push(Waiting { packet, next_hop: 0, bytes }, now, packets)
    }

    /// When a packet may leave, if one waits. May be in the past.
    pub fn next_time(&self) -> Option<Nanos> {
        (!self.queue.is_empty()).then_some(self.free_at)
    }

    /// A packet that may leave now. Those that the discipline drops are in [`Packets::take_dropped`].
    pub fn poll(&mut self, now: Nanos, packets: &mut Packets) -> Option<ImageId> {
        if now < self.free_at {
            return None;
        }
        let Waiting { packet, bytes, .. } = self.queue.pop(now, packets)?;
        if let Some(rate) = self.rate {
            self.free_at = now.saturating_add(rate.time_for(u64::from(bytes + ETHERNET)));
        }
        Some(packet)
    }

    /// Lifts the limit: everything may leave from now on.
    pub fn release(&mut self) {
        (self.rate, self.free_at) = (None, Nanos::ZERO);
    }
}

/// The queue of a shaper with rate `rate`; hosts are classified by `by`. Target, interval and quantum follow the rate as
/// in CAKE (`cake_set_rate`): the target is 5 ms and at least 1.5 times the duration of a full packet, the interval 95 ms
/// more and at least twice the target, and the quantum the bytes sent in 1/4096 s, from 300 to 1514.
fn queue_of(setting: &ShaperSetting, rate: BitRate, by: HostOf) -> Discipline {
    const FULL: u32 = 1514;
    const TARGET_MS: f64 = 5.0;
    const INTERVAL_MS: f64 = 100.0;
    let target_ms = (1.5 * rate.time_for(u64::from(FULL)).as_millis_f64()).max(TARGET_MS);
    let interval_ms = (INTERVAL_MS - TARGET_MS + target_ms).max(2.0 * target_ms);
    let quantum_bytes = ((rate.0 / 8) >> 12).clamp(300, u64::from(FULL)) as u32;
    let (few, many) = (Some(setting.packets.unwrap_or(1000)), Some(setting.packets.unwrap_or(10_240)));
    let (bytes, flows, ecn) = (None, 1024, true);
    match setting.discipline {
        ShaperDiscipline::DropTail => Discipline::DropTail { packets: few, bytes },
        ShaperDiscipline::Priority => Discipline::Priority { packets: few, bytes },
        ShaperDiscipline::FqCodel => {
            Discipline::FqCodel { packets: many, bytes, target_ms, interval_ms, quantum_bytes, flows, ecn }
        }
        ShaperDiscipline::Cake => {
            Discipline::Cake { packets: many, bytes, target_ms, interval_ms, quantum_bytes, flows, ecn, by }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::Purpose;
    use crate::packet::{Dscp, Ecn};
    use crate::queue::testing::packet;

    const DISCIPLINES: [ShaperDiscipline; 4] = [
        ShaperDiscipline::DropTail,
        ShaperDiscipline::Priority,
        ShaperDiscipline::FqCodel,
        ShaperDiscipline::Cake,
    ];

    fn shaper(discipline: ShaperDiscipline, rate: BitRate, packets: u32) -> Shaper {
        let setting = ShaperSetting { down: rate, up: None, discipline, packets: Some(packets) };
        Shaper::new(&setting, rate, HostOf::Destination, Stream::new(1, 0, Purpose::Queue))
    }

    proptest! {
        #[test]
        fn over_no_interval_more_than_the_rate_and_one_packet_and_none_disappears(
            kind in 0_usize..4,
            rate in 100_000_u64..20_000_000,
            offers in prop::collection::vec((0_u64..4_000_000, 0_u32..4, 40_u32..1500, 0_u64..3_000_000), 1..150),
        ) {
            let rate = BitRate(rate);
            let mut shaper = shaper(DISCIPLINES[kind], rate, 30);
            let mut packets = Packets::new(0, 64);
            let (mut now, mut left, mut offered, mut dropped) = (Nanos::ZERO, Vec::new(), 0, 0);
            let mut until = |shaper: &mut Shaper, packets: &mut Packets, end: Nanos, late: Nanos, now: &mut Nanos| {
                while let Some(at) = shaper.next_time().map(|at| at.max(*now)).filter(|&at| at <= end) {
                    // Timers fire late, as they do.
                    *now = at.saturating_add(late).min(end);
                    if let Some(id) = shaper.poll(*now, packets) {
                        left.push((*now, u64::from(packets.get(id).bytes + ETHERNET)));
                    }
                }
                *now = end;
                left.len()
            };
            let mut gone = 0;
            for (wait, stream, bytes, late) in offers {
                let end = now + Nanos(wait);
                gone = until(&mut shaper, &mut packets, end, Nanos(late), &mut now);
                let waiting = packet(&mut packets, stream, bytes, Ecn::NotEct);
                offered += 1;
                dropped += usize::from(shaper.offer(now, waiting.packet, bytes, &mut packets).is_err());
            }
            while !shaper.is_empty() {
                let end = now + Nanos::from_secs(1);
                gone = until(&mut shaper, &mut packets, end, Nanos::ZERO, &mut now);
            }
            dropped += std::iter::from_fn(|| packets.take_dropped()).count();
            prop_assert_eq!(gone + dropped, offered);
            for (first, &(from, _)) in left.iter().enumerate() {
                let mut before = 0;
                for &(at, bytes) in &left[first..] {
                    prop_assert!(rate.time_for(before) <= at - from);
                    before += bytes;
                }
            }
        }
    }

    /// 60 bytes every 20 ms beside ten flows that always have 1500 bytes to send, at 2 Mb/s, where such a packet takes 6 ms: how
    /// long each small packet waited.
    fn waits_of_a_call(discipline: ShaperDiscipline) -> Vec<Nanos> {
        const CALL: u32 = 100;
        let mut shaper = shaper(discipline, BitRate(2_000_000), 300);
        let mut packets = Packets::new(0, 64);
        let mut waits = Vec::new();
        let mut next_call = Nanos::from_millis(1);
        let mut now = Nanos::ZERO;
        let mut flood = [0; 10];
        while now < Nanos::from_secs(20) {
            for (number, waiting) in flood.iter_mut().enumerate() {
                while *waiting < 8 {
                    let bulk = packet(&mut packets, number as u32, 1500, Ecn::NotEct);
                    packets.get_mut(bulk.packet).connection = number as u16 + 1;
                    *waiting += u32::from(shaper.offer(now, bulk.packet, 1500, &mut packets).is_ok());
                }
            }
            let free = shaper.next_time().expect("a backlog").max(now);
            now = free.min(next_call);
            if now == next_call {
                next_call += Nanos::from_millis(20);
                let voice = packet(&mut packets, CALL, 60, Ecn::NotEct);
                let known = packets.get_mut(voice.packet);
                (known.created, known.dscp) = (now, Dscp::EXPEDITED);
                shaper.offer(now, voice.packet, 60, &mut packets).expect("room");
            }
            if let Some(id) = shaper.poll(now, &mut packets) {
                let sent = packets.get(id);
                match sent.stream {
                    CALL => waits.push(now - sent.created),
                    _ => flood[usize::from(sent.connection) - 1] -= 1,
                }
                packets.release(id);
            }
            while let Some((id, _)) = packets.take_dropped() {
                let lost = packets.get(id);
                assert_ne!(lost.stream, CALL);
                flood[usize::from(lost.connection) - 1] -= 1;
                packets.release(id);
            }
        }
        waits
    }

    #[test]
    fn a_call_beside_ten_bulk_flows_waits_for_a_packet_or_a_round_and_not_for_the_queue() {
        let packet_time = BitRate(2_000_000).time_for(u64::from(1500 + ETHERNET));
        let [fifo, priority, fq, cake] = DISCIPLINES.map(waits_of_a_call);
        let most = |waits: &[Nanos]| waits.iter().copied().max().expect("packets");
        let mean = |waits: &[Nanos]| waits.iter().map(|wait| wait.0).sum::<u64>() / waits.len() as u64;
        // 80 packets before it.
        assert!(mean(&fifo) > 70 * packet_time.0, "{} of {}", mean(&fifo), packet_time.0);
        assert!(most(&priority) <= packet_time, "the one being sent");
        for waits in [fq, cake] {
            // The one being sent, and one of each flow in the worst round.
            assert!(most(&waits) <= packet_time * 11, "{:?}", most(&waits));
            assert!(mean(&waits) < 3 * packet_time.0, "{} of {}", mean(&waits), packet_time.0);
        }
    }
}
