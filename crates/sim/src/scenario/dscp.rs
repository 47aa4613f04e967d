//! Differentiated services codepoints as a scenario writes them: a name or a number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::packet::Dscp;

/// A differentiated services codepoint (DSCP): by name, as in `"EF"`, or by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Codepoint {
    /// The six bits as a number: the upper six bits of the former type-of-service byte.
    Number(#[schemars(range(min = 0, max = 63))] u8),
    /// By name.
    Named(DscpName),
}

impl Codepoint {
    /// The codepoint. A number above 63, which a checked scenario cannot contain, is best effort.
    pub fn dscp(self) -> Dscp {
        let value = match self {
            Self::Number(value) => value,
            Self::Named(name) => name as u8,
        };
        Dscp::new(value).unwrap_or_default()
    }
}

/// Names of codepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[repr(u8)]
pub enum DscpName {
    /// Best effort.
    Be = 0,
    /// Lower effort (RFC 8622).
    Le = 1,
    /// Class selector 1 (RFC 2474).
    Cs1 = 8,
    /// Assured forwarding, class 1, low drop precedence (RFC 2597).
    Af11 = 10,
    /// Assured forwarding, class 1, medium drop precedence.
    Af12 = 12,
    /// Assured forwarding, class 1, high drop precedence.
    Af13 = 14,
    /// Class selector 2.
    Cs2 = 16,
    /// Assured forwarding, class 2, low drop precedence.
    Af21 = 18,
    /// Assured forwarding, class 2, medium drop precedence.
    Af22 = 20,
    /// Assured forwarding, class 2, high drop precedence.
    Af23 = 22,
    /// Class selector 3.
    Cs3 = 24,
    /// Assured forwarding, class 3, low drop precedence.
    Af31 = 26,
    /// Assured forwarding, class 3, medium drop precedence.
    Af32 = 28,
    /// Assured forwarding, class 3, high drop precedence.
    Af33 = 30,
    /// Class selector 4.
    Cs4 = 32,
    /// Assured forwarding, class 4, low drop precedence.
    Af41 = 34,
    /// Assured forwarding, class 4, medium drop precedence.
    Af42 = 36,
    /// Assured forwarding, class 4, high drop precedence.
    Af43 = 38,
    /// Class selector 5.
    Cs5 = 40,
    /// Admitted voice (RFC 5865).
    Va = 44,
    /// Expedited forwarding (RFC 3246), for voice.
    Ef = 46,
    /// Class selector 6.
    Cs6 = 48,
    /// Class selector 7.
    Cs7 = 56,
}
