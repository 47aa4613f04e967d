//! Rates, frame durations and inter-frame spaces.
//!
//! OFDM (802.11a): clause 17.3.2, 17.3.4 and 17.4.3. DSSS: clause 15.2. CCK with long and short preamble
//! (802.11b): clause 16.2 and 16.3.4. ERP (802.11g): clause 18.3.2.4 (signal extension), 18.5.3 and 18.5.4. Waiting
//! times: 10.3.2.3, 10.3.2.9 and 10.3.7. They do not include propagation delay (under
//! 1 µs over 300 m), which the radio adds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{BitRate, Nanos};

/// A generation of the standard: it fixes the slot, the inter-frame spaces, the contention window and the rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Standard {
    /// OFDM in the 5 GHz band: 6 to 54 Mb/s, 9 µs slots.
    #[serde(rename = "802.11a")]
    Dot11a,
    /// DSSS and CCK in the 2.4 GHz band: 1, 2, 5.5 and 11 Mb/s, 20 µs slots.
    #[serde(rename = "802.11b")]
    Dot11b,
    /// OFDM in the 2.4 GHz band, a network of 802.11g stations alone: 6 to 54 Mb/s, short slots.
    #[serde(rename = "802.11g")]
    Dot11g,
}

impl Standard {
    /// Its name, as in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dot11a => "802.11a",
            Self::Dot11b => "802.11b",
            Self::Dot11g => "802.11g",
        }
    }

    /// Its data rates, slowest first.
    pub const fn rates(self) -> &'static [Rate] {
        match self {
            Self::Dot11a | Self::Dot11g => &Rate::OFDM,
            Self::Dot11b => &Rate::DSSS,
        }
    }

    /// The default basic rates, which every station in the band supports.
    ///
    /// OFDM: the three mandatory rates of 17.3.2.3. 802.11b: 1 and 2 Mb/s, those of clause 15. 5.5 and 11 Mb/s are mandatory
    /// too (clause 16), but networks leave them out of the basic rates, so that control frames reach farther.
    pub const fn mandatory_rates(self) -> &'static [Rate] {
        match self {
            Self::Dot11a | Self::Dot11g => &[Rate::Ofdm6, Rate::Ofdm12, Rate::Ofdm24],
            Self::Dot11b => &[Rate::Dsss1, Rate::Dsss2],
        }
    }

    /// The rate of this standard with this speed.
    pub fn rate(self, mbps: f64) -> Option<Rate> {
        self.rates().iter().copied().find(|rate| rate.mbps() == mbps)
    }
}

/// The length of the 802.11b preamble and header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preamble {
    /// 192 µs, all at 1 Mb/s.
    #[default]
    Long,
    /// 96 µs; not for 1 Mb/s frames, which keep the long one.
    Short,
}

/// The modulation, for the error-rate model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modulation {
    /// Differential BPSK with the Barker code, 1 Mb/s.
    Dbpsk,
    /// Differential QPSK with the Barker code, 2 Mb/s.
    Dqpsk,
    /// Complementary code keying of 4 or 8 bits per symbol.
    Cck {
        /// Bits per symbol of 8 chips.
        bits_per_symbol: u8,
    },
    /// OFDM on 48 data subcarriers in 20 MHz.
    Ofdm {
        /// Points of the constellation of one subcarrier: 2, 4, 16 or 64.
        constellation: u8,
        /// The convolutional code's rate: information bits.
        code_numerator: u8,
        /// The convolutional code's rate: coded bits.
        code_denominator: u8,
    },
}

/// A transmission rate of 802.11a, b or g.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Rate {
    /// 1 Mb/s DSSS.
    Dsss1,
    /// 2 Mb/s DSSS.
    Dsss2,
    /// 5.5 Mb/s CCK.
    Cck5_5,
    /// 11 Mb/s CCK.
    Cck11,
    /// 6 Mb/s OFDM, BPSK 1/2.
    Ofdm6,
    /// 9 Mb/s OFDM, BPSK 3/4.
    Ofdm9,
    /// 12 Mb/s OFDM, QPSK 1/2.
    Ofdm12,
    /// 18 Mb/s OFDM, QPSK 3/4.
    Ofdm18,
    /// 24 Mb/s OFDM, 16-QAM 1/2.
    Ofdm24,
    /// 36 Mb/s OFDM, 16-QAM 3/4.
    Ofdm36,
    /// 48 Mb/s OFDM, 64-QAM 2/3.
    Ofdm48,
    /// 54 Mb/s OFDM, 64-QAM 3/4.
    Ofdm54,
}

impl Rate {
    /// Every rate.
    pub const ALL: [Self; 12] = [
        Self::Dsss1,
        Self::Dsss2,
        Self::Cck5_5,
        Self::Cck11,
        Self::Ofdm6,
        Self::Ofdm9,
        Self::Ofdm12,
        Self::Ofdm18,
        Self::Ofdm24,
        Self::Ofdm36,
        Self::Ofdm48,
        Self::Ofdm54,
    ];
    const DSSS: [Self; 4] = [Self::Dsss1, Self::Dsss2, Self::Cck5_5, Self::Cck11];
    const OFDM: [Self; 8] = [
        Self::Ofdm6,
        Self::Ofdm9,
        Self::Ofdm12,
        Self::Ofdm18,
        Self::Ofdm24,
        Self::Ofdm36,
        Self::Ofdm48,
        Self::Ofdm54,
    ];

    /// The speed.
    pub const fn bit_rate(self) -> BitRate {
        BitRate(match self {
            Self::Dsss1 => 1_000_000,
            Self::Dsss2 => 2_000_000,
            Self::Cck5_5 => 5_500_000,
            Self::Cck11 => 11_000_000,
            Self::Ofdm6 => 6_000_000,
            Self::Ofdm9 => 9_000_000,
            Self::Ofdm12 => 12_000_000,
            Self::Ofdm18 => 18_000_000,
            Self::Ofdm24 => 24_000_000,
            Self::Ofdm36 => 36_000_000,
            Self::Ofdm48 => 48_000_000,
            Self::Ofdm54 => 54_000_000,
        })
    }

    /// The speed in Mb/s.
    pub fn mbps(self) -> f64 {
        self.bit_rate().0 as f64 / 1e6
    }

    /// The modulation and code.
    pub const fn modulation(self) -> Modulation {
        const fn ofdm(constellation: u8, code_numerator: u8, code_denominator: u8) -> Modulation {
            Modulation::Ofdm { constellation, code_numerator, code_denominator }
        }
        match self {
            Self::Dsss1 => Modulation::Dbpsk,
            Self::Dsss2 => Modulation::Dqpsk,
            Self::Cck5_5 => Modulation::Cck { bits_per_symbol: 4 },
            Self::Cck11 => Modulation::Cck { bits_per_symbol: 8 },
            Self::Ofdm6 => ofdm(2, 1, 2),
            Self::Ofdm9 => ofdm(2, 3, 4),
            Self::Ofdm12 => ofdm(4, 1, 2),
            Self::Ofdm18 => ofdm(4, 3, 4),
            Self::Ofdm24 => ofdm(16, 1, 2),
            Self::Ofdm36 => ofdm(16, 3, 4),
            Self::Ofdm48 => ofdm(64, 2, 3),
            Self::Ofdm54 => ofdm(64, 3, 4),
        }
    }
}

/// Sizes of 802.11 frames in bytes (clause 9.3), frame check sequence included.
pub mod frame {
    use crate::headers;

    /// Acknowledgment.
    pub const ACK: u32 = 14;
    /// Request to send.
    pub const RTS: u32 = 20;
    /// Clear to send.
    pub const CTS: u32 = 14;

    /// The size on the air of an IP packet.
    pub const fn of_ip_packet(bytes: u32) -> u32 {
        bytes + headers::LLC_SNAP + headers::MAC
    }
}

/// The timing of one physical layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    /// Which standard this is.
    pub standard: Standard,
    /// The preamble; only 802.11b has two.
    pub preamble: Preamble,
    /// aSlotTime.
    pub slot: Nanos,
    /// aSIFSTime.
    pub sifs: Nanos,
    /// aCWmin.
    pub cw_min: u32,
    /// aCWmax.
    pub cw_max: u32,
    /// aRxPHYStartDelay: from the start of a frame to its detection by the receiver.
    pub rx_start_delay: Nanos,
    /// aRxTxTurnaroundTime, the maximum of the standard. A station does not receive during it.
    pub turnaround: Nanos,
}

impl Phy {
    /// The timing of `standard`; `preamble` only affects 802.11b.
    pub const fn new(standard: Standard, preamble: Preamble) -> Self {
        match standard {
            // Table 17-21.
            Standard::Dot11a => Self {
                standard,
                preamble,
                slot: Nanos::from_micros(9),
                sifs: Nanos::from_micros(16),
                cw_min: 15,
                cw_max: 1023,
                rx_start_delay: Nanos::from_micros(20),
                turnaround: Nanos::from_micros(2),
            },
            // Table 16-4.
            Standard::Dot11b => Self {
                standard,
                preamble,
                slot: Nanos::from_micros(20),
                sifs: Nanos::from_micros(10),
                cw_min: 31,
                cw_max: 1023,
                rx_start_delay: match preamble {
                    Preamble::Long => Nanos::from_micros(192),
                    Preamble::Short => Nanos::from_micros(96),
                },
                turnaround: Nanos::from_micros(5),
            },
            // Table 18-5, short slot.
            Standard::Dot11g => Self {
                standard,
                preamble,
                slot: Nanos::from_micros(9),
                sifs: Nanos::from_micros(10),
                cw_min: 15,
                cw_max: 1023,
                rx_start_delay: Nanos::from_micros(20),
                turnaround: Nanos::from_micros(2),
            },
        }
    }

    /// DIFS: SIFS and two slots (10.3.7).
    pub fn difs(&self) -> Nanos {
        self.sifs + self.slot * 2
    }

    /// EIFS: SIFS, the time of an ACK at `lowest_basic`, and DIFS (10.3.7). The standard uses the lowest mandatory
    /// rate of the PHY (10.3.2.3.7): 6 or 1 Mb/s.
    pub fn eifs(&self, lowest_basic: Rate) -> Nanos {
        self.sifs + self.frame_duration(lowest_basic, frame::ACK) + self.difs()
    }

    /// How long a station waits for the start of an ACK or CTS after its own frame: SIFS, a slot and
    /// aRxPHYStartDelay (10.3.2.9).
    ///
    /// With the short preamble it is too short for an answer at 1 Mb/s, which uses the long one: see
    /// [`Phy::response_timeout_for`].
    pub fn response_timeout(&self) -> Nanos {
        self.sifs + self.slot + self.rx_start_delay
    }

    /// [`Phy::response_timeout`] for an answer at `rate`.
    pub fn response_timeout_for(&self, rate: Rate) -> Nanos {
        self.sifs + self.slot + self.header_duration(rate)
    }

    /// Duration of the PHY preamble and header of a frame at `rate`.
    pub const fn header_duration(&self, rate: Rate) -> Nanos {
        Nanos::from_micros(match (rate, self.preamble) {
            // 144 µs and 48 µs at 1 Mb/s, or 72 µs at 1 Mb/s and 24 µs at 2 Mb/s, which 1 Mb/s frames may not use
            // (16.2.2).
            (Rate::Dsss1, _) | (Rate::Dsss2 | Rate::Cck5_5 | Rate::Cck11, Preamble::Long) => 192,
            (Rate::Dsss2 | Rate::Cck5_5 | Rate::Cck11, Preamble::Short) => 96,
            // 16 µs and SIGNAL, a symbol of 4 µs.
            _ => 20,
        })
    }

    /// Duration of a frame of `bytes` (with MAC header and frame check sequence) at `rate`.
    pub fn frame_duration(&self, rate: Rate, bytes: u32) -> Nanos {
        let bits = 8 * u64::from(bytes);
        // 4 µs symbols that carry 16 service bits, the frame, 6 tail bits and padding (17.4.3); 802.11g is followed by
        // 6 µs of silence (18.3.2.4).
        let extension = if self.standard == Standard::Dot11g { 6 } else { 0 };
        let ofdm = |symbols: u64| 4 * symbols + extension;
        let with_service = 16 + bits + 6;
        // Each rate divides by a constant of its own: the compiler makes multiplications of them.
        let body = match rate {
            Rate::Ofdm6 => ofdm(with_service.div_ceil(24)),
            Rate::Ofdm9 => ofdm(with_service.div_ceil(36)),
            Rate::Ofdm12 => ofdm(with_service.div_ceil(48)),
            Rate::Ofdm18 => ofdm(with_service.div_ceil(72)),
            Rate::Ofdm24 => ofdm(with_service.div_ceil(96)),
            Rate::Ofdm36 => ofdm(with_service.div_ceil(144)),
            Rate::Ofdm48 => ofdm(with_service.div_ceil(192)),
            Rate::Ofdm54 => ofdm(with_service.div_ceil(216)),
            // 16.3.4: the time of the PSDU is rounded up to the microsecond.
            Rate::Dsss1 => bits,
            Rate::Dsss2 => bits / 2,
            Rate::Cck5_5 => (2 * bits).div_ceil(11),
            Rate::Cck11 => bits.div_ceil(11),
        };
        self.header_duration(rate) + Nanos::from_micros(body)
    }

    /// The rate of the control frame that answers a frame at `rate`: the fastest basic rate that does not exceed it,
    /// or the fastest such mandatory rate if all basic rates are faster (10.6.6.5.2).
    pub fn control_rate(&self, rate: Rate, basic: &[Rate]) -> Rate {
        let fastest_in = |rates: &[Rate]| rates.iter().copied().filter(|r| *r <= rate).max();
        fastest_in(basic)
            .or_else(|| fastest_in(self.standard.mandatory_rates()))
            .unwrap_or(self.standard.rates()[0])
    }
}

#[cfg(test)]
mod tests {
    use super::Rate::*;
    use super::*;

    /// Microseconds on the air of a 1500-byte IP packet, a 60-byte IP packet, an ACK (or CTS) and an RTS.
    type Row = (Rate, [u64; 4]);

    fn assert_durations(phy: Phy, extension: u64, rows: &[Row]) {
        assert_eq!(phy.standard.rates(), rows.iter().map(|row| row.0).collect::<Vec<_>>());
        assert_eq!((frame::of_ip_packet(1500), frame::of_ip_packet(60)), (1536, 96));
        for (rate, expected) in rows {
            for (bytes, us) in [1536, 96, frame::ACK, frame::RTS].into_iter().zip(expected) {
                let expected = Nanos::from_micros(us + extension);
                assert_eq!(phy.frame_duration(*rate, bytes), expected, "{rate:?} {bytes} bytes");
            }
            assert_eq!(phy.frame_duration(*rate, frame::CTS), phy.frame_duration(*rate, frame::ACK));
        }
    }

    #[test]
    fn ofdm_frame_durations_of_802_11a_and_g_by_hand() {
        // Service, frame and tail: 16 + 8 · 1536 + 6 = 12310 bits, 16 + 8 · 96 + 6 = 790, 16 + 8 · 14 + 6 = 134,
        // 16 + 8 · 20 + 6 = 182; preamble and SIGNAL 20 µs, symbols of 4 µs.
        let rows = [
            // 24 bits a symbol: 12310/24 → 513, 790/24 → 33, 134/24 → 6, 182/24 → 8 symbols.
            (Ofdm6, [20 + 4 * 513, 20 + 4 * 33, 20 + 4 * 6, 20 + 4 * 8]),
            // 36 bits a symbol: 12310/36 → 342, 790/36 → 22, 134/36 → 4, 182/36 → 6 symbols.
            (Ofdm9, [20 + 4 * 342, 20 + 4 * 22, 20 + 4 * 4, 20 + 4 * 6]),
            // 48 bits a symbol: 12310/48 → 257, 790/48 → 17, 134/48 → 3, 182/48 → 4 symbols.
            (Ofdm12, [20 + 4 * 257, 20 + 4 * 17, 20 + 4 * 3, 20 + 4 * 4]),
            // 72 bits a symbol: 12310/72 → 171, 790/72 → 11, 134/72 → 2, 182/72 → 3 symbols.
            (Ofdm18, [20 + 4 * 171, 20 + 4 * 11, 20 + 4 * 2, 20 + 4 * 3]),
            // 96 bits a symbol: 12310/96 → 129, 790/96 → 9, 134/96 → 2, 182/96 → 2 symbols.
            (Ofdm24, [20 + 4 * 129, 20 + 4 * 9, 20 + 4 * 2, 20 + 4 * 2]),
            // 144 bits a symbol: 12310/144 → 86, 790/144 → 6, 134/144 → 1, 182/144 → 2 symbols.
            (Ofdm36, [20 + 4 * 86, 20 + 4 * 6, 20 + 4, 20 + 4 * 2]),
            // 192 bits a symbol: 12310/192 → 65, 790/192 → 5, 134/192 → 1, 182/192 → 1 symbols.
            (Ofdm48, [20 + 4 * 65, 20 + 4 * 5, 20 + 4, 20 + 4]),
            // 216 bits a symbol: 12310/216 → 57, 790/216 → 4, 134/216 → 1, 182/216 → 1 symbols.
            (Ofdm54, [20 + 4 * 57, 20 + 4 * 4, 20 + 4, 20 + 4]),
        ];
        assert_durations(Phy::new(Standard::Dot11a, Preamble::Long), 0, &rows);
        assert_durations(Phy::new(Standard::Dot11g, Preamble::Long), 6, &rows);
    }

    #[test]
    fn long_preamble_frame_durations_of_802_11b_by_hand() {
        // 144 + 48 = 192 µs of preamble and header; 8 · 1536 = 12288 bits, 768, 112 and 160.
        let rows = [
            // 12288/1 → 12288, 768/1 → 768, 112/1 → 112, 160/1 → 160 µs.
            (Dsss1, [192 + 12288, 192 + 768, 192 + 112, 192 + 160]),
            // 12288/2 → 6144, 768/2 → 384, 112/2 → 56, 160/2 → 80 µs.
            (Dsss2, [192 + 6144, 192 + 384, 192 + 56, 192 + 80]),
            // 12288/5.5 → 2235, 768/5.5 → 140, 112/5.5 → 21, 160/5.5 → 30 µs.
            (Cck5_5, [192 + 2235, 192 + 140, 192 + 21, 192 + 30]),
            // 12288/11 → 1118, 768/11 → 70, 112/11 → 11, 160/11 → 15 µs.
            (Cck11, [192 + 1118, 192 + 70, 192 + 11, 192 + 15]),
        ];
        assert_durations(Phy::new(Standard::Dot11b, Preamble::Long), 0, &rows);
    }

    #[test]
    fn short_preamble_frame_durations_of_802_11b_by_hand() {
        // 72 + 24 = 96 µs of preamble and header, but for 1 Mb/s.
        let rows = [
            // 12288/1 → 12288, 768/1 → 768, 112/1 → 112, 160/1 → 160 µs.
            (Dsss1, [192 + 12288, 192 + 768, 192 + 112, 192 + 160]),
            // 12288/2 → 6144, 768/2 → 384, 112/2 → 56, 160/2 → 80 µs.
            (Dsss2, [96 + 6144, 96 + 384, 96 + 56, 96 + 80]),
            // 12288/5.5 → 2235, 768/5.5 → 140, 112/5.5 → 21, 160/5.5 → 30 µs.
            (Cck5_5, [96 + 2235, 96 + 140, 96 + 21, 96 + 30]),
            // 12288/11 → 1118, 768/11 → 70, 112/11 → 11, 160/11 → 15 µs.
            (Cck11, [96 + 1118, 96 + 70, 96 + 11, 96 + 15]),
        ];
        assert_durations(Phy::new(Standard::Dot11b, Preamble::Short), 0, &rows);
    }

    #[test]
    fn waiting_times_by_hand() {
        // (standard, preamble, slowest rate, slot, SIFS, DIFS = SIFS + 2 slots, EIFS = SIFS + ACK + DIFS,
        // timeout = SIFS + slot + preamble and header)
        let table = [
            // 16 + 18 = 34; ACK at 6 Mb/s 44: 16 + 44 + 34 = 94; 16 + 9 + 20 = 45.
            (Standard::Dot11a, Preamble::Long, Ofdm6, 9, 16, 34, 94, 45),
            // 10 + 40 = 50; ACK at 1 Mb/s 192 + 112 = 304: 10 + 304 + 50 = 364; 10 + 20 + 192 = 222.
            (Standard::Dot11b, Preamble::Long, Dsss1, 20, 10, 50, 364, 222),
            // The ACK at 1 Mb/s keeps the long preamble; 10 + 20 + 96 = 126.
            (Standard::Dot11b, Preamble::Short, Dsss1, 20, 10, 50, 364, 126),
            // 10 + 18 = 28; ACK at 6 Mb/s 44 + 6 = 50: 10 + 50 + 28 = 88; 10 + 9 + 20 = 39.
            (Standard::Dot11g, Preamble::Long, Ofdm6, 9, 10, 28, 88, 39),
        ];
        for (standard, preamble, slowest, slot, sifs, difs, eifs, timeout) in table {
            let phy = Phy::new(standard, preamble);
            let us = Nanos::from_micros;
            assert_eq!((phy.slot, phy.sifs, phy.difs()), (us(slot), us(sifs), us(difs)), "{standard:?}");
            assert_eq!((phy.eifs(slowest), phy.response_timeout()), (us(eifs), us(timeout)), "{standard:?}");
            let cw_min = if standard == Standard::Dot11b { 31 } else { 15 };
            assert_eq!((phy.cw_min, phy.cw_max), (cw_min, 1023));
            assert_eq!(phy.response_timeout_for(standard.rates()[1]), phy.response_timeout());
        }
        let short = Phy::new(Standard::Dot11b, Preamble::Short);
        assert_eq!(short.response_timeout_for(Dsss1), Nanos::from_micros(10 + 20 + 192));
    }

    #[test]
    fn answers_go_at_the_fastest_basic_rate_no_faster_than_the_frame() {
        let a = Phy::new(Standard::Dot11a, Preamble::Long);
        let mandatory = Standard::Dot11a.mandatory_rates();
        for (data, answer) in [(Ofdm6, Ofdm6), (Ofdm9, Ofdm6), (Ofdm18, Ofdm12), (Ofdm54, Ofdm24)] {
            assert_eq!(a.control_rate(data, mandatory), answer);
        }
        assert_eq!(a.control_rate(Ofdm54, &[Ofdm6]), Ofdm6);
        // No basic rate is slow enough: mandatory rates are used.
        assert_eq!(a.control_rate(Ofdm18, &[Ofdm24]), Ofdm12);
        assert_eq!(a.control_rate(Ofdm9, &[]), Ofdm6);
        let b = Phy::new(Standard::Dot11b, Preamble::Long);
        assert_eq!(b.control_rate(Cck11, Standard::Dot11b.mandatory_rates()), Dsss2);
        assert_eq!(b.control_rate(Cck11, &[Dsss1, Dsss2, Cck5_5, Cck11]), Cck11);
    }
}
