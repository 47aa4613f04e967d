//! Variants of TCP that a scenario can choose.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TCP congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpVariant {
    /// RFC 5681. With SACK it equals `newreno`; without SACK, recovery ends with the first new ACK.
    Reno,
    /// RFC 6582 and, with SACK, RFC 6675.
    #[default]
    Newreno,
    /// Brakmo and Peterson: delay-based, keeps 2 to 4 packets in the queue.
    Vegas,
    /// Fu and Liew: Reno that reduces the window by a fifth, not by half, if the queue is estimated to be nearly empty.
    Veno,
    /// Mascolo et al.: after a loss the window is the rate of ACKs times the minimum round-trip time.
    Westwood,
    /// Westwood that samples the rate once per round trip, as in Linux.
    WestwoodPlus,
    /// RFC 9438, the default of Linux.
    Cubic,
    /// Tan et al.: Reno plus a delay-based window; the default of Windows for years.
    Compound,
    /// Cardwell et al., version 1: window and pacing follow the measured rate and the minimum round-trip time.
    Bbr,
}

/// TCP implementation whose behaviour and defaults apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpProfile {
    /// The RFCs, as in ns-2 and ns-3.
    #[default]
    Standard,
    /// Linux 6.1: RACK-TLP, PRR, undo, timestamps, quick and compressed ACKs, timeouts from 200 ms, Linux's arithmetic.
    Linux,
}

/// TCP loss detection and recovery with SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpRecovery {
    /// RFC 6675: a segment is lost once three segments above it were received.
    Rfc6675,
    /// RFC 8985: time-based, also for retransmissions, with a tail loss probe.
    RackTlp,
}

/// How slow start ends before a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpHyStart {
    /// Only with a loss.
    Off,
    /// HyStart of Ha and Rhee, as in Linux: at a long train of ACKs or an increased round-trip time.
    Classic,
    /// HyStart++ (RFC 9406): an increased round-trip time first leads to conservative slow start.
    PlusPlus,
}
