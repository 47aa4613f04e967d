//! Call quality: codecs, the E-model reduced to loss and delay, MOS, playout and RTP jitter.
//!
//! R = 94.2 − Id(d) − Ie(e): R. G. Cole and J. H. Rosenbluth, "Voice over IP performance monitoring", ACM SIGCOMM
//! Computer Communication Review 31(2), 2001. R to MOS: ITU-T G.107 annex B. Jitter: RFC 3550 §6.4.1 and §A.8.
//! Equipment impairment: Cole and Rosenbluth for G.729A and G.711; ITU-T G.113 appendix I with the loss formula of G.107
//! §7.4 for G.723.1; an assumption for Opus, stated at [`Codec::Opus`].
//!
//! d is the delay from mouth to ear: [`CodecProfile::vocoder_delay`], network and playout buffer. e is the fraction of
//! packets that are lost or too late, assumed random. Left out: echo (perfect cancellation is assumed), bursts of loss,
//! silence suppression, the advantage factor, wideband scales.
//!
//! With a playout buffer of 60 ms and no network delay, G.729A reaches a MOS of 4.07. kim2010 gives 3.9 as its maximum. The
//! formula with the constants of the paper's source gives 3.9 at 108 ms of network delay without loss, or at 1.1 % loss
//! without delay. The other two points of the paper (K-MOS-1, K-MOS-2) agree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// A voice codec with its usual packet size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// ITU-T G.729 annex A: two frames of 10 ms, 20 bytes every 20 ms.
    #[default]
    G729a,
    /// ITU-T G.711: 160 bytes every 20 ms.
    G711,
    /// ITU-T G.723.1 at 6.3 kb/s: one frame, 24 bytes every 30 ms.
    #[serde(rename = "g723.1")]
    G7231,
    /// A profile like Opus at 24 kb/s without in-band error correction: 60 bytes every 20 ms.
    ///
    /// Assumption: no impairment on the narrowband scale of the E-model (its bandwidth exceeds the telephone band), and
    /// the robustness of G.711 with loss concealment, Bpl 25.1 of G.113 appendix I. The ITU publishes no values for Opus.
    Opus,
}

/// Packets and impairment of a codec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodecProfile {
    /// The codec's name in scenarios.
    pub name: &'static str,
    /// Bytes of speech in a packet, without RTP, UDP and IP headers.
    pub payload_bytes: u32,
    /// Time between packets, and duration of the speech in a packet.
    pub interval: Nanos,
    /// RTP clock in Hz (RFC 3551; RFC 7587 for Opus).
    pub clock_hz: u32,
    /// RTP payload type (RFC 3551 table 4); Opus has a dynamic one.
    pub rtp_payload_type: u8,
    /// Delay of the encoder: the speech of one packet and the look-ahead.
    pub vocoder_delay: Nanos,
    /// Ie as a function of the fraction of missing packets.
    pub ie: EquipmentImpairment,
}

/// Ie of the E-model as a function of the fraction e of packets that are lost or late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EquipmentImpairment {
    /// Ie = g1 + g2 ln(1 + g3 e), the form of Cole and Rosenbluth.
    Logarithmic {
        /// Impairment without loss.
        g1: f64,
        /// Growth.
        g2: f64,
        /// Sensitivity.
        g3: f64,
    },
    /// Ie + (95 − Ie) Ppl / (Ppl + Bpl) with Ppl = 100 e: G.107 §7.4 for random loss.
    Robustness {
        /// Impairment without loss.
        ie: f64,
        /// Packet-loss robustness factor.
        bpl: f64,
    },
}

impl EquipmentImpairment {
    /// Ie where the fraction `loss` of packets is not heard; under 0 (or not a number) counts as 0, over 1 as 1.
    pub fn at(self, loss: f64) -> f64 {
        let e = if loss.is_nan() { 0.0 } else { loss.clamp(0.0, 1.0) };
        match self {
            Self::Logarithmic { g1, g2, g3 } => g1 + g2 * libm::log1p(g3 * e),
            Self::Robustness { ie, bpl } => ie + (95.0 - ie) * 100.0 * e / (100.0 * e + bpl),
        }
    }
}

impl Codec {
    /// Every codec.
    pub const ALL: [Self; 4] = [Self::G729a, Self::G711, Self::G7231, Self::Opus];

    /// The codec with this name, as in scenarios.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.profile().name == name)
    }

    /// What the codec sends and what it does to speech.
    pub const fn profile(self) -> CodecProfile {
        use EquipmentImpairment::{Logarithmic, Robustness};
        match self {
            // Two frames of 10 ms and 5 ms of look-ahead (G.729 §2.1): the 25 ms of kim2010.
            Self::G729a => CodecProfile {
                name: "g729a",
                payload_bytes: 20,
                interval: Nanos::from_millis(20),
                clock_hz: 8000,
                rtp_payload_type: 18,
                vocoder_delay: Nanos::from_millis(25),
                ie: Logarithmic { g1: 11.0, g2: 40.0, g3: 10.0 },
            },
            // Samples are coded one by one; the packet's 20 ms alone count. With random loss; Cole and Rosenbluth give
            // 19 ln(1 + 70 e) for bursts.
            Self::G711 => CodecProfile {
                name: "g711",
                payload_bytes: 160,
                interval: Nanos::from_millis(20),
                clock_hz: 8000,
                rtp_payload_type: 0,
                vocoder_delay: Nanos::from_millis(20),
                ie: Logarithmic { g1: 0.0, g2: 30.0, g3: 15.0 },
            },
            // A frame of 30 ms and 7.5 ms of look-ahead (G.723.1 §1.4). Ie 15, Bpl 16.1: G.113 appendix I.
            Self::G7231 => CodecProfile {
                name: "g723.1",
                payload_bytes: 24,
                interval: Nanos::from_millis(30),
                clock_hz: 8000,
                rtp_payload_type: 4,
                vocoder_delay: Nanos::from_micros(37_500),
                ie: Robustness { ie: 15.0, bpl: 16.1 },
            },
            // A frame of 20 ms and 6.5 ms of look-ahead, the reference encoder's defaults.
            Self::Opus => CodecProfile {
                name: "opus",
                payload_bytes: 60,
                interval: Nanos::from_millis(20),
                clock_hz: 48_000,
                rtp_payload_type: 111,
                vocoder_delay: Nanos::from_micros(26_500),
                ie: Robustness { ie: 0.0, bpl: 25.1 },
            },
        }
    }
}

/// The E-model's rating R of one direction of a call.
///
/// `loss` is the fraction of packets lost or late. `network_delay` is one-way; with a playout buffer ([`is_late`]) it is the
/// delay of the fastest packet of the stream. R can be negative.
pub fn r_factor(codec: Codec, loss: f64, network_delay: Nanos, playout: Nanos) -> f64 {
    let profile = codec.profile();
    let mouth_to_ear = profile.vocoder_delay.saturating_add(network_delay).saturating_add(playout);
    94.2 - delay_impairment(mouth_to_ear) - profile.ie.at(loss)
}

/// Mean opinion score of one direction of a call, 1 to 4.5; arguments as in [`r_factor`].
///
/// ```
/// use fairhop_model::{units::Nanos, voice::{Codec, mos}};
/// let score = mos(Codec::G729a, 0.02, Nanos::from_millis(104), Nanos::from_millis(60));
/// assert_eq!(format!("{score:.2}"), "3.60");
/// ```
pub fn mos(codec: Codec, loss: f64, network_delay: Nanos, playout: Nanos) -> f64 {
    mos_of_r(r_factor(codec, loss, network_delay, playout))
}

/// Id of the E-model: 0.024 d + 0.11 (d − 177.3) H(d − 177.3) with d from mouth to ear in milliseconds.
pub fn delay_impairment(mouth_to_ear: Nanos) -> f64 {
    let d = mouth_to_ear.as_millis_f64();
    0.024 * d + 0.11 * (d - 177.3).max(0.0)
}

/// The mean opinion score of a rating (G.107 annex B): 1 below R = 0, 4.5 above R = 100, a cubic between.
///
/// Between R = 0 and 6.5 the cubic falls below 1 (to 0.99), outside of the scale: it is clamped to 1.
pub fn mos_of_r(r: f64) -> f64 {
    if r >= 100.0 {
        4.5
    } else if r > 0.0 {
        (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0)
    } else {
        1.0
    }
}

/// Whether a packet arrives too late for playout, `playout` after a packet with the minimum delay of the stream.
pub const fn is_late(delay: Nanos, min_delay: Nanos, playout: Nanos) -> bool {
    delay.0 > min_delay.saturating_add(playout).0
}

/// Interarrival jitter of a stream as RTP receivers report it: a mean of the change in transit time from packet to
/// packet in order of arrival, with a gain of 1/16 (RFC 3550 §6.4.1). RFC 3550 counts in RTP clock ticks; this counts
/// in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    last_transit: Option<i64>,
    nanos: f64,
}

impl Jitter {
    /// No packet yet.
    pub const NONE: Self = Self { last_transit: None, nanos: 0.0 };

    /// Counts a packet. The two clocks may differ, but must run at the same speed.
    pub fn update(&mut self, sent: Nanos, received: Nanos) {
        let transit = received.0.wrapping_sub(sent.0).cast_signed();
        if let Some(last) = self.last_transit.replace(transit) {
            self.nanos += (transit.abs_diff(last) as f64 - self.nanos) / 16.0;
        }
    }

    /// The jitter so far; zero before the second packet.
    pub fn value(&self) -> Nanos {
        Nanos(self.nanos.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAYOUT: Nanos = Nanos::from_millis(60);

    /// kim2010, Fig. 2: d = 25 + 60 + 160 = 245 ms, Id = 5.88 + 0.11 · 67.7 = 13.327, Ie = 11, R = 69.873.
    #[test]
    fn k_mos_1() {
        let r = r_factor(Codec::G729a, 0.0, Nanos::from_millis(160), PLAYOUT);
        assert!((r - 69.873).abs() < 1e-9, "{r}");
        let score = mos(Codec::G729a, 0.0, Nanos::from_millis(160), PLAYOUT);
        assert!((score - 3.6).abs() <= 0.02, "{score}");
    }

    /// kim2010, Fig. 2: d = 189 ms, Id = 4.536 + 0.11 · 11.7 = 5.823, Ie = 11 + 40 ln 1.2 = 18.292862, R = 70.084138.
    #[test]
    fn k_mos_2() {
        let r = r_factor(Codec::G729a, 0.02, Nanos::from_millis(104), PLAYOUT);
        assert!((r - 70.084_138).abs() < 1e-6, "{r}");
        let score = mos(Codec::G729a, 0.02, Nanos::from_millis(104), PLAYOUT);
        assert!((score - 3.6).abs() <= 0.02, "{score}");
    }

    #[test]
    fn best_g729a_call_is_4_07_and_not_3_9() {
        // d = 85: Id = 2.04, R = 81.16, MOS = 1 + 2.8406 + 81.16 · 21.16 · 18.84 · 7e-6 = 4.06709.
        assert!((mos(Codec::G729a, 0.0, Nanos::ZERO, PLAYOUT) - 4.067_09).abs() < 1e-4);
        assert!((mos(Codec::G729a, 0.0, Nanos::from_millis(108), PLAYOUT) - 3.9).abs() < 0.005);
    }

    #[test]
    fn r_to_mos_is_g_107_annex_b() {
        // Its own turning points: 1 + 0.035 R where the cubic vanishes; the table of G.107 B.1: R 90, 80, 70, 60, 50 are
        // MOS 4.34, 4.03 (4.024), 3.60, 3.10, 2.58.
        for (r, score) in
            [(60.0, 3.1), (90.0, 4.339), (80.0, 4.024), (70.0, 3.597), (50.0, 2.575), (100.0, 4.5)]
        {
            assert!((mos_of_r(r) - score).abs() < 1e-9, "{r}: {}", mos_of_r(r));
        }
        for r in [f64::NEG_INFINITY, -1.0, 0.0, 3.0, 6.5, f64::NAN] {
            assert_eq!(mos_of_r(r), 1.0);
        }
        assert_eq!(mos_of_r(101.0), 4.5);
    }

    #[test]
    fn impairments_of_codecs_are_those_of_their_sources() {
        let ie = |codec: Codec, loss: f64| codec.profile().ie.at(loss);
        // 30 ln 1.3; 15 + 80 · 2/18.1; 95 · 2/27.1.
        assert!((ie(Codec::G711, 0.02) - 7.870_927_9).abs() < 1e-6);
        assert!((ie(Codec::G7231, 0.02) - 23.839_779).abs() < 1e-6);
        assert!((ie(Codec::Opus, 0.02) - 7.011_070_1).abs() < 1e-6);
        for codec in Codec::ALL {
            let profile = codec.profile();
            assert_eq!(Codec::from_name(profile.name), Some(codec));
            // A packet's speech is a whole number of RTP ticks.
            assert_eq!(profile.interval.0 * u64::from(profile.clock_hz) % 1_000_000_000, 0);
        }
    }

    proptest! {
        #[test]
        fn loss_and_delay_never_improve_a_score(
            codec in proptest::sample::select(Codec::ALL.to_vec()),
            loss in 0.0..1.0_f64,
            more_loss in 0.0..1.0_f64,
            delay_ms in 0_u64..2000,
            more_ms in 0_u64..2000,
        ) {
            let at = |loss, ms| mos(codec, loss, Nanos::from_millis(ms), PLAYOUT);
            let here = at(loss, delay_ms);
            prop_assert!((1.0..=4.5).contains(&here));
            prop_assert!(at(loss + more_loss, delay_ms) <= here);
            prop_assert!(at(loss, delay_ms + more_ms) <= here);
        }
    }

    #[test]
    fn invalid_input_has_a_defined_result() {
        assert_eq!(
            mos(Codec::G711, f64::NAN, Nanos::ZERO, Nanos::ZERO),
            mos(Codec::G711, 0.0, Nanos::ZERO, Nanos::ZERO)
        );
        assert_eq!(mos(Codec::G711, 0.0, Nanos::MAX, Nanos::MAX), 1.0);
    }

    #[test]
    fn a_packet_is_late_after_the_fastest_one_and_playout() {
        let ms = Nanos::from_millis;
        assert!(!is_late(ms(90), ms(30), ms(60)));
        assert!(is_late(ms(90) + Nanos(1), ms(30), ms(60)));
        assert!(!is_late(Nanos::MAX, Nanos::MAX, ms(60)));
    }

    #[test]
    fn jitter_by_hand() {
        // Transit times 10, 26, 26, 10 ms: |D| = 16, 0, 16: J = 1, 0.9375, 0.9375 + 15.0625/16 = 1.87890625 ms.
        let mut jitter = Jitter::default();
        let mut seen = Vec::new();
        for (i, transit) in [10, 26, 26, 10].into_iter().enumerate() {
            let sent = Nanos::from_millis(20) * i as u64;
            jitter.update(sent, sent + Nanos::from_millis(transit));
            seen.push(jitter.value().0);
        }
        assert_eq!(seen, [0, 1_000_000, 937_500, 1_878_906]);
        // A constant difference of the clocks has no effect.
        let mut behind = Jitter::default();
        for (sent, received) in [(50, 20), (70, 56)] {
            behind.update(Nanos::from_millis(sent), Nanos::from_millis(received));
        }
        assert_eq!(behind.value(), Nanos::from_millis(1));
    }
}
