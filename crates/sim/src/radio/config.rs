//! Parameters of the radio as a scenario writes them. The doc comments are the descriptions in the JSON Schema.

use fairhop_model::phy::{Preamble, Standard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The radio of every node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Radio {
    /// 802.11a, 802.11b or 802.11g.
    pub standard: Standard,
    /// Rate of data frames in Mb/s; one of the standard's rates.
    pub rate_mbps: f64,
    /// Data rates of single links; the others use `rate_mbps`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<LinkRate>,
    /// Basic rates in Mb/s, used for control and broadcast frames: a response is sent at the fastest basic rate that is
    /// not faster than the frame that it answers. Left out: 6, 12 and 24 Mb/s in 802.11a and 802.11g; 1 and 2 Mb/s in
    /// 802.11b.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_rates_mbps: Option<Vec<f64>>,
    /// Rate of broadcast frames in Mb/s; one of the standard's rates. Left out: the lowest basic rate. Where it is slower
    /// than `rate_mbps`, broadcasts reach farther than data (a gray zone: Lundgren et al. 2002).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broadcast_rate_mbps: Option<f64>,
    /// Preamble; `short` exists only in 802.11b.
    pub preamble: Preamble,
    /// Propagation model: received power as a function of distance.
    pub propagation: Propagation,
    /// Reception model: which frames are decoded.
    pub reception: Reception,
    /// Capture rule: what happens when frames overlap at a receiver.
    pub capture: Capture,
    /// Capture threshold in dB: how much stronger a frame must be to survive an overlap (`first`, with threshold
    /// reception) or to capture a receiver that is locked on another frame (`stronger`).
    #[schemars(range(min = 0.0, max = 100.0))]
    pub capture_db: f64,
    /// Transmit power in dBm (not used by the `range` model).
    #[schemars(range(min = -50.0, max = 60.0))]
    pub tx_power_dbm: f64,
    /// Noise figure of the receiver in dB, above thermal noise in 20 MHz (22 MHz in 802.11b).
    #[schemars(range(min = 0.0, max = 60.0))]
    pub noise_figure_db: f64,
    /// Minimum power of a frame that can be decoded under threshold reception, in dBm (not used by `range`). Left out:
    /// the standard's minimum sensitivity at the frame's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -150.0, max = 50.0))]
    pub sensitivity_dbm: Option<f64>,
    /// Minimum power of a preamble that locks the receiver, decodable or not, in dBm (not used by `range`). Left out: the
    /// standard's minimum sensitivity at the slowest rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -150.0, max = 50.0))]
    pub preamble_detect_dbm: Option<f64>,
    /// Energy-detection threshold above which the medium is busy, in dBm (not used by `range`). Left out: 20 dB above
    /// the standard's minimum sensitivity at the slowest rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -150.0, max = 50.0))]
    pub energy_detect_dbm: Option<f64>,
}

impl Default for Radio {
    fn default() -> Self {
        Self {
            standard: Standard::Dot11a,
            rate_mbps: 12.0,
            rates: Vec::new(),
            basic_rates_mbps: None,
            broadcast_rate_mbps: None,
            preamble: Preamble::Long,
            propagation: Propagation::default(),
            reception: Reception::Threshold,
            capture: Capture::First,
            capture_db: 10.0,
            tx_power_dbm: 16.0,
            noise_figure_db: 7.0,
            sensitivity_dbm: None,
            preamble_detect_dbm: None,
            energy_detect_dbm: None,
        }
    }
}

/// The data rate of one link, from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkRate {
    /// The sending node.
    pub from: u32,
    /// Its neighbour.
    pub to: u32,
    /// The rate in Mb/s; one of the standard's rates.
    pub rate_mbps: f64,
    /// The rate also applies to frames from `to` to `from`.
    #[serde(default)]
    pub both_ways: bool,
}

/// Propagation model: received power as a function of distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Propagation {
    /// Fixed radii for decoding, preamble lock and carrier sense. Power falls with the fourth power of distance, as in
    /// ns-2's two-ray ground model.
    Range {
        /// Radius within which frames are decoded, in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        receive_m: f64,
        /// Radius within which frames make the medium busy and interfere, in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        carrier_sense_m: f64,
        /// Radius within which a preamble locks the receiver, decodable or not, in metres. Left out: `carrier_sense_m`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        preamble_m: Option<f64>,
        /// Radii of decoding of single rates; the others have `receive_m`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reach_m: Vec<RateReach>,
    },
    /// Friis free-space model: power falls with the square of distance.
    FreeSpace {
        /// Carrier frequency in GHz.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100.0))]
        frequency_ghz: f64,
    },
    /// Two-ray ground reflection: free space up to the crossover distance, beyond it power falls with the fourth power of
    /// distance.
    TwoRay {
        /// Carrier frequency in GHz.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100.0))]
        frequency_ghz: f64,
        /// Height of every antenna in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000.0))]
        antenna_height_m: f64,
    },
    /// Log-distance model: power falls with a given exponent, with optional shadowing that is constant per pair of nodes.
    LogDistance {
        /// Path-loss exponent.
        #[schemars(range(min = 1.0, max = 10.0))]
        exponent: f64,
        /// Loss at the reference distance, in dB.
        #[schemars(range(min = 0.0, max = 200.0))]
        reference_loss_db: f64,
        /// The reference distance in metres.
        #[serde(default = "one_metre")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
        reference_m: f64,
        /// Standard deviation of log-normal shadowing in dB; 0: no shadowing. Drawn from the seed, equal in both
        /// directions.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 30.0))]
        shadowing_db: f64,
    },
    /// Path loss of every pair of nodes. Positions determine only the propagation delay.
    Matrix {
        /// Row i, column j: path loss from node i to node j in dB; the diagonal is ignored. 1000 dB or more means that there
        /// is no signal.
        loss_db: Vec<Vec<f64>>,
    },
}

/// How far frames of one rate are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateReach {
    /// The rate in Mb/s; one of the standard's rates.
    pub rate_mbps: f64,
    /// Radius within which frames of this rate are decoded, in metres.
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
    pub receive_m: f64,
}

fn one_metre() -> f64 {
    1.0
}

impl Default for Propagation {
    fn default() -> Self {
        Self::Range { receive_m: 250.0, carrier_sense_m: 550.0, preamble_m: None, reach_m: Vec::new() }
    }
}

/// Reception model: which frames are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reception {
    /// A frame is decoded if its power reaches the sensitivity and no overlapping frame destroyed it.
    Threshold,
    /// A frame is decoded with a probability computed from the modulation's error rate at the SINR (signal to noise and
    /// cumulative interference) of each part of the frame.
    Sinr,
}

/// Capture rule: what happens when frames overlap at a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Capture {
    /// No capture: any overlap of frames that can be sensed destroys both.
    None,
    /// The first frame locks the receiver and survives later, weaker frames. A receiver that is locked on a frame,
    /// decodable or not, misses all later frames.
    First,
    /// Message-in-message capture: a later frame that is stronger by `capture_db` takes over the receiver.
    Stronger,
}
