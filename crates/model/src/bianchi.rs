//! Saturation throughput of DCF stations in one cell: every station always has a packet to send.
//!
//! [`saturation`] is G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE JSAC
//! 18(3), 2000. With a limit on attempts it is the model of H. Wu, Y. Peng, K. Long, S. Cheng and J. Ma, "Performance of
//! reliable transport protocol over IEEE 802.11 wireless LAN", INFOCOM 2002.
//!
//! [`saturation_with_freezing`] adds what both leave out: a station that finds the medium busy freezes its backoff and needs
//! one more idle slot before it can send. The station that has just sent may draw zero and send in that slot, in which no
//! other station can. I. Tinnirello, G. Bianchi and Y. Xiao, "Refinements on IEEE 802.11 distributed
//! coordination function modeling approaches", IEEE Trans. Veh. Technol. 59(3), 2010, found the effect for successes.
//! Here it is extended to the senders of a collision and to their head start over stations that wait EIFS.
//!
//! Assumptions: all stations hear each other, frames are lost by collisions only, and the probability of a collision does
//! not depend on the number of earlier attempts. Left out: propagation delay, capture, NAV reset.

use crate::phy::{Phy, Rate, frame};
use crate::units::{BitRate, Nanos};

/// The contention window and the limit on attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    /// W: the number of backoff values of a first attempt, CWmin + 1; at least 2.
    pub window: u32,
    /// m: maximum number of doublings of the window.
    pub stages: u32,
    /// Number of attempts after which a packet is dropped; `None`: unlimited.
    pub attempts: Option<u32>,
}

impl Contention {
    /// The window of a physical layer.
    pub fn of(phy: &Phy, attempts: Option<u32>) -> Self {
        Self { window: phy.cw_min + 1, stages: ((phy.cw_max + 1) / (phy.cw_min + 1)).ilog2(), attempts }
    }

    /// Backoff values of attempt `i`, from 0.
    fn window_of(&self, i: u32) -> f64 {
        libm::ldexp(f64::from(self.window.max(2)), i.min(self.stages).min(64) as i32)
    }
}

/// The wait of a station after a collided frame, from the end of the frame to its next slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterCollision {
    /// DIFS, as in Bianchi's model.
    Difs,
    /// The timeout of the missing answer, then DIFS: the senders of the collided frames.
    ResponseTimeout,
    /// EIFS: the other stations, which received a frame in error.
    Eifs,
}

/// Duration of a success and of a collision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// Payload bits of a success.
    pub payload_bits: f64,
    /// An idle slot.
    pub slot: Nanos,
    /// Ts: from the first bit of a success to the end of the following DIFS.
    pub success: Nanos,
    /// Tc: from the first bit of a collision to the end of the following wait.
    pub collision: Nanos,
}

impl Exchange {
    /// Data and ACK. `ip_bytes` is the size of the IP packet, of which `payload_bytes` are payload. `basic` determines the
    /// rates of control frames.
    pub fn basic_access(
        phy: &Phy,
        rate: Rate,
        basic: &[Rate],
        ip_bytes: u32,
        payload_bytes: u32,
        after_collision: AfterCollision,
    ) -> Self {
        let data = phy.frame_duration(rate, frame::of_ip_packet(ip_bytes));
        let answer = phy.control_rate(rate, basic);
        let ack = phy.frame_duration(answer, frame::ACK);
        Self {
            payload_bits: 8.0 * f64::from(payload_bytes),
            slot: phy.slot,
            success: data + phy.sifs + ack + phy.difs(),
            collision: data + after_collision.wait(phy, answer),
        }
    }

    /// RTS, CTS, data and ACK. The rate of the RTS is the fastest of `basic` that does not exceed `rate`. Arguments as in
    /// [`Exchange::basic_access`].
    pub fn rts_cts(
        phy: &Phy,
        rate: Rate,
        basic: &[Rate],
        ip_bytes: u32,
        payload_bytes: u32,
        after_collision: AfterCollision,
    ) -> Self {
        let control = phy.control_rate(rate, basic);
        let answer = phy.control_rate(control, basic);
        let rts = phy.frame_duration(control, frame::RTS);
        let cts = phy.frame_duration(answer, frame::CTS);
        let data = Self::basic_access(phy, rate, basic, ip_bytes, payload_bytes, after_collision);
        Self {
            success: rts + phy.sifs + cts + phy.sifs + data.success,
            collision: rts + after_collision.wait(phy, answer),
            ..data
        }
    }
}

impl AfterCollision {
    /// The wait, if the answer to the collided frame would have had the rate `answer`.
    pub fn wait(self, phy: &Phy, answer: Rate) -> Nanos {
        match self {
            Self::Difs => phy.difs(),
            Self::ResponseTimeout => phy.response_timeout_for(answer) + phy.difs(),
            Self::Eifs => phy.eifs(phy.standard.rates()[0]),
        }
    }
}

/// Head start of the senders of collided frames over the other stations by the standard: EIFS minus their own wait, if the
/// answer would have had the rate `answer`.
pub fn head_start(phy: &Phy, answer: Rate) -> Nanos {
    let others = AfterCollision::Eifs.wait(phy, answer);
    others.saturating_sub(AfterCollision::ResponseTimeout.wait(phy, answer))
}

/// The steady state of saturated stations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// τ: probability that a station sends in a slot.
    pub tau: f64,
    /// p: probability that a sent frame collides.
    pub collision: f64,
    /// Total payload of all stations.
    pub throughput: BitRate,
}

/// Bianchi's model for `stations` stations, with Wu's limit on attempts if there is one. The throughput of 0 stations is 0.
pub fn saturation(stations: u32, contention: &Contention, exchange: &Exchange) -> Saturation {
    let n = f64::from(stations);
    let (tau, p) = fixed_point(stations, |p| transmission_probability(contention, p));
    let idle = libm::pow(1.0 - tau, n);
    let success = n * tau * (1.0 - p);
    let time = idle * exchange.slot.as_secs_f64()
        + success * exchange.success.as_secs_f64()
        + (1.0 - idle - success) * exchange.collision.as_secs_f64();
    Saturation { tau, collision: p, throughput: rate_of(success * exchange.payload_bits, time) }
}

/// τ at a collision probability p: attempts of a packet over their slots, Σ pⁱ / Σ pⁱ (W_i + 1)/2. An attempt takes the mean
/// backoff (W_i − 1)/2 and the slot of the frame.
pub(crate) fn transmission_probability(contention: &Contention, p: f64) -> f64 {
    let Some(attempts) = contention.attempts else {
        // Bianchi (2000), eq. (7), in the form that has no gap at p = 1/2.
        let doublings: f64 = (0..contention.stages).map(|i| libm::pow(2.0 * p, f64::from(i))).sum();
        let w = contention.window_of(0);
        return 2.0 / (1.0 + w + p * w * doublings);
    };
    let (mut sent, mut slots, mut reached) = (0.0, 0.0, 1.0);
    for i in 0..attempts.max(1) {
        sent += reached;
        slots += reached * (contention.window_of(i) + 1.0) / 2.0;
        reached *= p;
    }
    sent / slots
}

/// τ and p with p = 1 − (1 − τ(p))ⁿ⁻¹. τ falls with p, so there is one solution.
fn fixed_point(stations: u32, tau_at: impl Fn(f64) -> f64) -> (f64, f64) {
    let others = f64::from(stations.saturating_sub(1));
    let (mut below, mut above) = (0.0, 1.0);
    for _ in 0..60 {
        let p = 0.5 * (below + above);
        if 1.0 - libm::pow(1.0 - tau_at(p), others) > p {
            below = p;
        } else {
            above = p;
        }
    }
    let p = if stations > 1 { 0.5 * (below + above) } else { 0.0 };
    (tau_at(p), p)
}

fn rate_of(bits: f64, seconds: f64) -> BitRate {
    BitRate((bits / seconds).round() as u64)
}

/// Saturation throughput with the standard's freezing of backoff (10.3.4.3), to about 1 %.
///
/// `exchange.collision` ends with the wait of the senders of the collided frames. The wait of the other stations ends
/// `head_start` later: zero if all wait equally, [`head_start`] with [`AfterCollision::ResponseTimeout`] by the standard.
///
/// The slots of the model are *common*: every station may send in them. After a success there is a slot that only its
/// sender may use, with probability 1/W. If it is used, it is a success and another such slot follows, so a success in a
/// common slot yields 1/(1 − 1/W) successes. After a collision there are `1 + head_start/slot` slots (rounded up) that only
/// its senders may use; a sender that uses one succeeds, since two in the same slot are neglected. The other stations count
/// down in common slots: 1 … W − 1 after a success, 1 … W_i − 1 − `head_start/slot` after a collision. The number of slots
/// of an attempt, including its own, is the mean of that range.
pub fn saturation_with_freezing(
    stations: u32,
    contention: &Contention,
    exchange: &Exchange,
    head_start: Nanos,
) -> Saturation {
    let n = f64::from(stations);
    let slot = exchange.slot.as_secs_f64();
    let ahead = libm::ceil(head_start.as_secs_f64() / slot);
    let (tau, p) = fixed_point(stations, |p| Chain::new(contention, ahead, p).tau);
    let own_slot = Chain::new(contention, ahead, p).own_slot;

    let idle = libm::pow(1.0 - tau, n);
    let success = n * tau * (1.0 - p);
    let collision = 1.0 - idle - success;
    // At least one of the k ≥ 2 senders uses a slot of its own, summed over the binomial probability of k.
    let after_collision = 1.0 - libm::pow(1.0 - tau * own_slot, n) - success * own_slot;
    let successes = (success + after_collision) / (1.0 - 1.0 / contention.window_of(0));
    let time = slot * (idle + success + collision)
        + successes * exchange.success.as_secs_f64()
        + collision * exchange.collision.as_secs_f64()
        + (collision - after_collision) * head_start.as_secs_f64()
        + after_collision * 0.5 * ahead * slot;
    Saturation { tau, collision: p, throughput: rate_of(successes * exchange.payload_bits, time) }
}

/// A station between two of its successes, in common slots.
struct Chain {
    /// Attempts in common slots over common slots.
    tau: f64,
    /// Probability that a sender of a collision draws one of the slots that only the senders may use.
    own_slot: f64,
}

impl Chain {
    /// Number of attempts computed if there is no limit. Later ones have no effect.
    const MANY: u32 = 1000;

    fn new(contention: &Contention, ahead: f64, p: f64) -> Self {
        let own_slot = |i: u32| ((ahead + 1.0) / contention.window_of(i)).min(1.0);
        let attempts = contention.attempts.unwrap_or(Self::MANY).max(1);
        let (mut sent, mut slots, mut drawn, mut reached) = (0.0, 0.0, 0.0, 1.0);
        for i in 0..attempts {
            let start = if i == 0 { 0.0 } else { ahead };
            sent += reached;
            slots += reached * ((contention.window_of(i) - start) / 2.0).max(1.0);
            // After the last failure the next packet starts over.
            let next = if i + 1 < attempts { i + 1 } else { 0 };
            drawn += reached * own_slot(next);
            reached *= p * (1.0 - own_slot(next));
        }
        Self { tau: sent / slots, own_slot: drawn / sent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Preamble, Standard};
    use proptest::prelude::*;

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    fn mbps(saturation: Saturation) -> f64 {
        saturation.throughput.as_mbps()
    }

    /// Bianchi (2000), Table II: 1 Mb/s FHSS, so that microseconds are bits; slot 50, SIFS 28, DIFS 128, propagation 1,
    /// PHY header 128, MAC header 272, ACK and CTS 112, RTS 160, payload 8184.
    const FHSS_BASIC: Exchange = Exchange {
        payload_bits: 8184.0,
        slot: Nanos::from_micros(50),
        // Headers, payload, SIFS, δ, ACK, DIFS, δ; and the paper's 8982.
        success: Nanos::from_micros(400 + 8184 + 28 + 1 + 240 + 128 + 1),
        collision: Nanos::from_micros(400 + 8184 + 128 + 1),
    };
    const FHSS_RTS: Exchange = Exchange {
        success: Nanos::from_micros(288 + 28 + 1 + 240 + 28 + 1 + 8982),
        collision: Nanos::from_micros(288 + 128 + 1),
        ..FHSS_BASIC
    };

    #[test]
    fn bianchis_durations_and_maxima() {
        assert_eq!((FHSS_BASIC.success, FHSS_BASIC.collision), (us(8982), us(8713)));
        assert_eq!((FHSS_RTS.success, FHSS_RTS.collision), (us(9568), us(417)));
        // Section V.B: with K = √(Tc/2σ) the most that any window gives to many stations is
        // E[P] / (Ts + σK + Tc (K (e^{1/K} − 1) − 1)): 0.824 for basic access (K 9.334), 0.836 for RTS/CTS (K 2.042).
        for (exchange, most) in [(FHSS_BASIC, 0.824), (FHSS_RTS, 0.836)] {
            let best = (2..3000)
                .map(|window| saturation(50, &Contention { window, stages: 0, attempts: None }, &exchange))
                .map(mbps)
                .fold(0.0, f64::max);
            assert!((best - most).abs() < 0.003, "{best} {most}");
        }
    }

    #[test]
    fn published_numbers_for_802_11a() {
        // Numbers that ns-3 keeps as the analytic reference of its 802.11a test (1500-byte packets, 6 and 54 Mb/s, ACK at
        // 6 and 24 Mb/s, CW 15 to 1023): Bianchi's τ, with success times stretched as by Tinnirello et al.:
        // Ts/(1 − 1/W) + σ, payload/(1 − 1/W), Tc with DIFS.
        let phy = Phy::new(Standard::Dot11a, Preamble::Long);
        let basic = Standard::Dot11a.mandatory_rates();
        let table = [
            (Rate::Ofdm6, [(5, 4.7087), (10, 4.3453), (25, 3.8802), (50, 3.5071)]),
            (Rate::Ofdm54, [(5, 29.8324), (10, 28.1519), (25, 25.6896), (50, 23.5618)]),
        ];
        for (rate, points) in table {
            let plain = Exchange::basic_access(&phy, rate, basic, 1500, 1500, AfterCollision::Difs);
            let stretched = Exchange {
                payload_bits: plain.payload_bits * 16.0 / 15.0,
                success: Nanos(plain.success.0 * 16 / 15) + phy.slot,
                ..plain
            };
            for (n, published) in points {
                let got = mbps(saturation(n, &Contention::of(&phy, None), &stretched));
                // Their slots solve τ on a grid of 10⁻⁴.
                assert!((got / published - 1.0).abs() < 0.006, "{rate:?} {n}: {got} {published}");
            }
        }
    }

    #[test]
    fn one_station_needs_its_frames_and_its_mean_backoff() {
        // 802.11a at 12 Mb/s: data 1048, SIFS 16, ACK at 12 Mb/s 32, DIFS 34: 1130 µs and 7.5 slots of 9 µs.
        let phy = Phy::new(Standard::Dot11a, Preamble::Long);
        let basic = Standard::Dot11a.mandatory_rates();
        let exchange = Exchange::basic_access(&phy, Rate::Ofdm12, basic, 1500, 1500, AfterCollision::Eifs);
        assert_eq!((exchange.success, exchange.collision), (us(1130), us(1048 + 94)));
        let expected = 12_000.0 / (1130.0 + 67.5);
        let contention = Contention::of(&phy, Some(7));
        assert_eq!(contention, Contention { window: 16, stages: 6, attempts: Some(7) });
        assert!((mbps(saturation(1, &contention, &exchange)) - expected).abs() < 1e-6);
        assert!((mbps(saturation_with_freezing(1, &contention, &exchange, us(15))) - expected).abs() < 1e-6);
        assert_eq!(saturation(0, &contention, &exchange).throughput, BitRate(0));
        // RTS 36 at 12 Mb/s, CTS 32 and two SIFS more; after a lost RTS 45 + 34 µs.
        let protected =
            Exchange::rts_cts(&phy, Rate::Ofdm12, basic, 1500, 1500, AfterCollision::ResponseTimeout);
        assert_eq!((protected.success, protected.collision), (us(36 + 16 + 32 + 16 + 1130), us(36 + 79)));
    }

    #[test]
    fn constant_window_sends_at_a_constant_rate() {
        // Bianchi (2000), eq. (8): without doubling τ = 2/(W + 1), whatever the number of stations.
        for attempts in [None, Some(7)] {
            let contention = Contention { window: 32, stages: 0, attempts };
            assert!((saturation(20, &contention, &FHSS_BASIC).tau - 2.0 / 33.0).abs() < 1e-12);
        }
    }

    #[test]
    fn more_attempts_come_to_no_limit() {
        let of = |attempts| saturation(20, &Contention { window: 16, stages: 6, attempts }, &FHSS_BASIC);
        assert!((of(Some(400)).tau - of(None).tau).abs() < 1e-9);
        // Dropped packets give the small windows back: more sending, more collisions.
        assert!(of(Some(7)).collision > of(None).collision);
    }

    /// DCF counted slot by slot: throughput of `n` stations where the senders of a collision have `ahead` slots before
    /// the others; `seed` starts a linear congruential generator.
    fn counted(n: usize, contention: &Contention, exchange: &Exchange, ahead: u64, mut seed: u64) -> f64 {
        let mut draw = |attempt: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) * (contention.window_of(attempt) as u64)) >> 31
        };
        let attempts = contention.attempts.unwrap();
        let mut attempt = vec![0_u32; n];
        let mut backoff: Vec<u64> = (0..n).map(|_| 1 + draw(0)).collect();
        // How many slots from now on a station may not use.
        let mut held = vec![0_u64; n];
        let (mut time, mut successes) = (0_u64, 0_u64);
        let mut events = 0;
        while events < 200_000 {
            let senders: Vec<usize> = (0..n).filter(|i| held[*i] == 0 && backoff[*i] == 0).collect();
            if senders.is_empty() {
                time += exchange.slot.0;
                for i in 0..n {
                    if held[i] > 0 {
                        held[i] -= 1;
                    } else {
                        backoff[i] -= 1;
                    }
                }
                continue;
            }
            events += 1;
            let collided = senders.len() > 1;
            time += if collided { exchange.collision.0 } else { exchange.success.0 };
            successes += u64::from(!collided);
            for i in 0..n {
                held[i] = 0;
                if senders.contains(&i) {
                    attempt[i] = if collided && attempt[i] + 1 < attempts { attempt[i] + 1 } else { 0 };
                    backoff[i] = draw(attempt[i]);
                } else {
                    // A frozen backoff of zero cannot be: it would have been sent. Held stations start later.
                    held[i] = if collided { ahead } else { 0 };
                    backoff[i] = backoff[i].max(1);
                }
            }
        }
        successes as f64 * exchange.payload_bits / (time as f64 * 1e-3)
    }

    #[test]
    fn freezing_model_meets_a_count_of_slots() {
        let a = Phy::new(Standard::Dot11a, Preamble::Long);
        let b = Phy::new(Standard::Dot11b, Preamble::Long);
        let wait = AfterCollision::ResponseTimeout;
        let cases = [
            (a, Exchange::basic_access(&a, Rate::Ofdm12, &[Rate::Ofdm6], 1500, 1500, wait), 2),
            (
                a,
                Exchange::basic_access(&a, Rate::Ofdm54, &[Rate::Ofdm24], 1500, 1500, AfterCollision::Eifs),
                0,
            ),
            (b, Exchange::basic_access(&b, Rate::Cck11, &[Rate::Dsss1], 1500, 1500, wait), 4),
            (b, Exchange::rts_cts(&b, Rate::Cck11, &[Rate::Dsss1], 1500, 1500, AfterCollision::Eifs), 0),
        ];
        for (phy, exchange, ahead) in cases {
            let contention = Contention::of(&phy, Some(7));
            for n in [1, 2, 5, 10, 20, 50] {
                let count = counted(n as usize, &contention, &exchange, ahead, 42);
                let model = mbps(saturation_with_freezing(n, &contention, &exchange, phy.slot * ahead));
                assert!(
                    (model / count - 1.0).abs() < 0.01,
                    "{:?} {ahead} {n}: {model} {count}",
                    phy.standard
                );
            }
        }
    }

    proptest! {
        #[test]
        fn solution_is_a_fixed_point(n in 2_u32..100, window in 2_u32..1024, stages in 0_u32..8, limit in 1_u32..20) {
            for attempts in [None, Some(limit)] {
                let s = saturation(n, &Contention { window, stages, attempts }, &FHSS_BASIC);
                prop_assert!((1.0 - libm::pow(1.0 - s.tau, f64::from(n - 1)) - s.collision).abs() < 1e-9);
                prop_assert!(s.throughput.0 < 1_000_000);
            }
        }
    }
}
