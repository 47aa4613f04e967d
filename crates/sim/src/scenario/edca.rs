//! EDCA as a scenario writes it: `true`, or a table of what differs from the standard's default.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether stations contend by access categories, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EdcaChoice {
    /// With the standard's default parameters, or not at all.
    On(bool),
    /// With these parameters.
    With(Edca),
}

impl Default for EdcaChoice {
    fn default() -> Self {
        Self::On(false)
    }
}

impl EdcaChoice {
    /// Whether stations have one queue, as ever.
    pub fn is_off(&self) -> bool {
        *self == Self::On(false)
    }

    /// The parameters; none where stations have one queue.
    pub fn parameters(&self) -> Option<Edca> {
        match self {
            Self::On(false) => None,
            Self::On(true) => Some(Edca::default()),
            Self::With(edca) => Some(edca.clone()),
        }
    }
}

/// Parameters of EDCA that differ from the standard's default (IEEE 802.11-2020, table 9-155).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Edca {
    /// How the DSCP of a packet decides on its user priority.
    pub mapping: DscpMapping,
    /// User priorities 1 and 2.
    pub background: AccessCategory,
    /// User priorities 0 and 3.
    pub best_effort: AccessCategory,
    /// User priorities 4 and 5.
    pub video: AccessCategory,
    /// User priorities 6 and 7.
    pub voice: AccessCategory,
}

/// From DSCP to user priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DscpMapping {
    /// The table of RFC 8325, which puts EF into the category of voice.
    #[default]
    Rfc8325,
    /// The upper three bits, as many access points do; EF becomes 5, which is video.
    Precedence,
}

/// Parameters of an access category; what is left out is the standard's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessCategory {
    /// Smallest contention window, in slots; one less than a power of two.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub cw_min: Option<u32>,
    /// Largest contention window, in slots; one less than a power of two.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub cw_max: Option<u32>,
    /// Slots after a SIFS before the first slot of a backoff; DIFS has 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 15))]
    pub aifsn: Option<u32>,
    /// How long a station may go on sending once it has the medium, in µs. 0: one packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 8160.0))]
    pub txop_limit_us: Option<f64>,
}
