//! Reception parameters that all receivers share, in the units of the hot loop.

use std::sync::LazyLock;

use fairhop_model::phy::{self, ErrorTable, Rate, Standard};
use fairhop_model::units::{Db, Dbm, Nanos, Power};

use super::config::{Capture, Propagation, Radio, Reception};
use super::propagation::{RANGE_EDGE, range_loss};

/// Minimum SINR in dB at which a preamble is detected under SINR reception: the default of ns-3's
/// `ThresholdPreambleDetectionModel`.
const PREAMBLE_SINR_DB: f64 = 4.0;

/// Signals this many dB below the noise are ignored as interference: each would raise noise plus interference by less than
/// 0.42 dB.
const NEGLIGIBLE_DB: f64 = 10.0;

/// Shared by all runs: computing it takes longer than a short run.
static ERRORS: LazyLock<ErrorTable> = LazyLock::new(ErrorTable::new);

/// Thresholds and rules of reception.
#[derive(Clone, Debug)]
pub struct RadioParams {
    /// Reception model.
    pub reception: Reception,
    /// Capture rule.
    pub capture: Capture,
    /// Capture threshold as a power ratio.
    pub capture_ratio: f64,
    /// Minimum SINR at which a preamble locks the receiver, as a power ratio; SINR reception only.
    pub preamble_sinr: f64,
    /// Minimum power at which a frame is decoded, by rate; threshold reception only.
    pub sensitivity: [Power; Rate::ALL.len()],
    /// Minimum power of a preamble that locks the receiver.
    pub preamble_detect: Power,
    /// Minimum energy that makes the medium busy.
    pub energy_detect: Power,
    /// Thermal noise plus noise figure; zero in the range model.
    pub noise: Power,
    /// Weaker signals are ignored.
    pub floor: Power,
    /// Error rates.
    pub errors: ErrorTable,
    /// Transmit power.
    pub tx_power: Dbm,
    /// The floor in dBm.
    pub floor_dbm: Dbm,
    /// Rate at which the PHY header is sent.
    pub header_rate: Rate,
    /// Duration of preamble and PHY header, which are received at `header_rate`.
    pub header_duration: Nanos,
}

impl RadioParams {
    /// Thresholds of the radio `radio`.
    pub fn new(radio: &Radio) -> Self {
        let standard = radio.standard;
        let slowest = standard.rates()[0];
        let common = Self {
            reception: radio.reception,
            capture: radio.capture,
            capture_ratio: Db(radio.capture_db).as_ratio(),
            preamble_sinr: Db(PREAMBLE_SINR_DB).as_ratio(),
            sensitivity: [Power::ZERO; Rate::ALL.len()],
            preamble_detect: Power::ZERO,
            energy_detect: Power::ZERO,
            noise: Power::ZERO,
            floor: Power::ZERO,
            errors: ERRORS.clone(),
            tx_power: Dbm(radio.tx_power_dbm),
            floor_dbm: Dbm(0.0),
            header_rate: match standard {
                Standard::Dot11a | Standard::Dot11g => Rate::Ofdm6,
                Standard::Dot11b => Rate::Dsss1,
            },
            header_duration: phy::Phy::new(standard, radio.preamble).rx_start_delay,
        };
        if let Propagation::Range { receive_m, carrier_sense_m, preamble_m, reach_m } = &radio.propagation {
            let (receive_m, carrier_sense_m) = (*receive_m, *carrier_sense_m);
            let edge = |radius_m| RANGE_EDGE - range_loss(receive_m, radius_m);
            let mut sensitivity = [Power::from_dbm(RANGE_EDGE); Rate::ALL.len()];
            for reach in reach_m {
                if let Some(rate) = standard.rate(reach.rate_mbps) {
                    sensitivity[rate as usize] = Power::from_dbm(edge(reach.receive_m));
                }
            }
            return Self {
                sensitivity,
                preamble_detect: Power::from_dbm(edge(preamble_m.unwrap_or(carrier_sense_m))),
                energy_detect: Power::from_dbm(edge(carrier_sense_m)),
                floor: Power::from_dbm(edge(carrier_sense_m)),
                floor_dbm: edge(carrier_sense_m),
                ..common
            };
        }
        let noise = phy::noise_floor(standard, Db(radio.noise_figure_db));
        let preamble = radio.preamble_detect_dbm.map_or(slowest.sensitivity(), Dbm);
        let energy = radio.energy_detect_dbm.map_or(slowest.sensitivity() + Db(20.0), Dbm);
        let sensitivity = Rate::ALL
            .map(|rate| Power::from_dbm(radio.sensitivity_dbm.map_or_else(|| rate.sensitivity(), Dbm)));
        let floor_dbm = Dbm((noise.0 - NEGLIGIBLE_DB).min(preamble.0).min(energy.0));
        Self {
            sensitivity,
            preamble_detect: Power::from_dbm(preamble),
            energy_detect: Power::from_dbm(energy),
            noise: Power::from_dbm(noise),
            floor: Power::from_dbm(floor_dbm),
            floor_dbm,
            ..common
        }
    }

    /// Whether a frame of this power can be decoded without interference. Under SINR reception: whether a 1500-byte packet
    /// is received with a probability above one half.
    pub fn decodes(&self, rate: Rate, power: Power) -> bool {
        match self.reception {
            Reception::Threshold => power >= self.sensitivity[rate as usize],
            Reception::Sinr => self.delivery_ratio(rate, power, phy::frame::of_ip_packet(1500)) > 0.5,
        }
    }

    /// Probability that a frame of `bytes` is received without interference.
    pub fn delivery_ratio(&self, rate: Rate, power: Power, bytes: u32) -> f64 {
        if power < self.preamble_detect {
            return 0.0;
        }
        match self.reception {
            Reception::Threshold => f64::from(u8::from(power >= self.sensitivity[rate as usize])),
            Reception::Sinr if self.noise == Power::ZERO => f64::from(u8::from(power >= self.sensitivity[0])),
            Reception::Sinr => {
                let snr = power.ratio(self.noise);
                if snr < self.preamble_sinr {
                    0.0
                } else {
                    self.errors.success(rate, snr, f64::from(bytes) * 8.0)
                }
            }
        }
    }
}
