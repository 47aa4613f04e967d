//! Rates, frame durations and inter-frame spaces.
//!
//! OFDM (802.11a): clause 17.3.2, 17.3.4 and 17.4.3. DSSS: clause 15.2. CCK with long and short preamble
//! (802.11b): clause 16.2 and 16.3.4. ERP (802.11g): clause 18.3.2.4 (signal extension) and 18.5.4.

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
    /// The name that the standard has, as in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dot11a => "802.11a",
            Self::Dot11b => "802.11b",
            Self::Dot11g => "802.11g",
        }
    }

    /// The data rates that the standard has, slowest first.
    pub const fn rates(self) -> &'static [Rate] {
        match self {
            Self::Dot11a | Self::Dot11g => &Rate::OFDM,
            Self::Dot11b => &Rate::DSSS,
        }
    }

    /// The rates that every station must understand: the basic rates where a scenario names none.
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

/// How bits become a signal: what an error-rate model needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modulation {
    /// Differential BPSK with the Barker code, 1 Mb/s.
    Dbpsk,
    /// Differential QPSK with the Barker code, 2 Mb/s.
    Dqpsk,
    /// Complementary code keying of 4 or 8 bits a symbol.
    Cck {
        /// Bits carried by a symbol of 8 chips.
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
    /// MAC header of a data frame with three addresses, and the frame check sequence.
    pub const DATA_OVERHEAD: u32 = 24 + 4;
    /// LLC and SNAP headers in front of an IP packet.
    pub const LLC_SNAP: u32 = 8;
    /// Acknowledgment.
    pub const ACK: u32 = 14;
    /// Request to send.
    pub const RTS: u32 = 20;
    /// Clear to send.
    pub const CTS: u32 = 14;

    /// The size on the air of an IP packet.
    pub const fn of_ip_packet(bytes: u32) -> u32 {
        bytes + LLC_SNAP + DATA_OVERHEAD
    }
}

/// The timing of one physical layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    /// Which standard this is.
    pub standard: Standard,
    /// The preamble; only 802.11b has a choice.
    pub preamble: Preamble,
    /// aSlotTime.
    pub slot: Nanos,
    /// aSIFSTime.
    pub sifs: Nanos,
    /// aCWmin.
    pub cw_min: u32,
    /// aCWmax.
    pub cw_max: u32,
    /// aRxPHYStartDelay: from the start of a frame to the receiver's notice of it.
    pub rx_start_delay: Nanos,
}

impl Phy {
    /// The timing of `standard`; `preamble` matters to 802.11b alone.
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
            },
        }
    }

    /// DIFS: SIFS and two slots (10.3.7).
    pub fn difs(&self) -> Nanos {
        self.sifs + self.slot * 2
    }

    /// EIFS: SIFS, the time of an ACK at `lowest_basic`, and DIFS (10.3.7).
    pub fn eifs(&self, lowest_basic: Rate) -> Nanos {
        self.sifs + self.frame_duration(lowest_basic, frame::ACK) + self.difs()
    }

    /// How long a station waits for the start of an ACK or CTS after its own frame: SIFS, a slot and
    /// aRxPHYStartDelay (10.3.2.9).
    pub fn response_timeout(&self) -> Nanos {
        self.sifs + self.slot + self.rx_start_delay
    }

    /// How long a frame of `bytes` (MAC header and frame check sequence included) is on the air at `rate`.
    pub fn frame_duration(&self, rate: Rate, bytes: u32) -> Nanos {
        match rate.modulation() {
            Modulation::Ofdm { .. } => {
                // 16 µs preamble, 4 µs SIGNAL, then 4 µs symbols that carry 16 service bits, the frame, 6 tail bits
                // and padding (17.4.3); 802.11g is followed by 6 µs of silence (18.3.2.4).
                let bits_per_symbol = rate.bit_rate().0 * 4 / 1_000_000;
                let symbols = (16 + 8 * u64::from(bytes) + 6).div_ceil(bits_per_symbol);
                let extension = if self.standard == Standard::Dot11g { 6 } else { 0 };
                Nanos::from_micros(20 + 4 * symbols + extension)
            }
            Modulation::Dbpsk | Modulation::Dqpsk | Modulation::Cck { .. } => {
                // 16.3.4: the PSDU's time is rounded up to the microsecond.
                let preamble = match (self.preamble, rate) {
                    (Preamble::Short, Rate::Dsss2 | Rate::Cck5_5 | Rate::Cck11) => 96,
                    _ => 192,
                };
                let bits = 8 * u64::from(bytes);
                Nanos::from_micros(preamble + (bits * 1_000_000).div_ceil(rate.bit_rate().0))
            }
        }
    }

    /// The rate of the control frame that answers a frame at `rate`: the fastest basic rate that is no faster, or
    /// the slowest basic rate where all are faster (10.6.6.5.2).
    pub fn control_rate(&self, rate: Rate, basic: &[Rate]) -> Rate {
        let slowest = basic.iter().copied().min().unwrap_or(self.standard.rates()[0]);
        basic.iter().copied().filter(|b| *b <= rate).max().unwrap_or(slowest)
    }
}
