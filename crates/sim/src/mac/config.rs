//! Parameters of medium access as a scenario writes them. The doc comments are the descriptions in the JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::queue::{Discipline, QueueLimit, queue_named_or_not};

/// Medium access: DCF or EDCA of IEEE 802.11.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mac {
    /// Minimum contention window (aCWmin) in slots; one less than a power of two. Left out: the standard's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub cw_min: Option<u32>,
    /// Maximum contention window (aCWmax) in slots; one less than a power of two. Left out: the standard's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub cw_max: Option<u32>,
    /// Transmission attempts for frames up to `rts_threshold_bytes`, and for RTS frames.
    #[schemars(range(min = 1, max = 255))]
    pub short_retry_limit: u32,
    /// Transmission attempts for frames longer than `rts_threshold_bytes`.
    #[schemars(range(min = 1, max = 255))]
    pub long_retry_limit: u32,
    /// Frames longer than this (MAC header and FCS included) are preceded by RTS and CTS. Left out: RTS is never used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub rts_threshold_bytes: Option<u32>,
    /// Time from receiving to transmitting, in µs: a station does not notice a medium that becomes busy within this time
    /// before its slot. Left out: the standard's aRxTxTurnaroundTime. With 0, stations on one line may not collide with each
    /// other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 9.0))]
    pub turnaround_us: Option<f64>,
    /// Enhanced distributed channel access (802.11e): four access categories with a queue each, selected by the packet's
    /// DSCP. `true`: the standard's parameters; a table: the parameters that differ from them.
    #[serde(skip_serializing_if = "EdcaChoice::is_off")]
    pub edca: EdcaChoice,
    /// Interface queue of every node, or of each access category with EDCA.
    #[serde(deserialize_with = "queue_named_or_not")]
    pub queue: Discipline,
}

impl Default for Mac {
    fn default() -> Self {
        Self {
            cw_min: None,
            cw_max: None,
            short_retry_limit: 7,
            long_retry_limit: 4,
            rts_threshold_bytes: None,
            turnaround_us: None,
            edca: EdcaChoice::default(),
            queue: QueueLimit::Packets(50).into(),
        }
    }
}

/// Whether stations use EDCA, and with which parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EdcaChoice {
    /// true: EDCA with the standard's default parameters; false: DCF.
    On(bool),
    /// EDCA with these parameters.
    With(Edca),
}

impl Default for EdcaChoice {
    fn default() -> Self {
        Self::On(false)
    }
}

impl EdcaChoice {
    /// Whether stations use plain DCF.
    pub fn is_off(&self) -> bool {
        *self == Self::On(false)
    }

    /// The parameters; `None` with plain DCF.
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
    /// Mapping from DSCP to user priority.
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

/// Mapping from DSCP to user priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DscpMapping {
    /// The table of RFC 8325, which maps EF to the voice category.
    #[default]
    Rfc8325,
    /// The upper three bits of the DSCP, as in many access points; EF becomes user priority 5, which is video.
    Precedence,
}

/// Parameters of an access category. Left out: the standard's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessCategory {
    /// Minimum contention window in slots; one less than a power of two.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub cw_min: Option<u32>,
    /// Maximum contention window in slots; one less than a power of two.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub cw_max: Option<u32>,
    /// AIFSN: slots between a SIFS and the first backoff slot; 2 in a DIFS.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 15))]
    pub aifsn: Option<u32>,
    /// TXOP limit in µs: how long a station may keep sending after it won the medium. 0: one packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 8160.0))]
    pub txop_limit_us: Option<f64>,
}
