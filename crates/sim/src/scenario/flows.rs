//! What entries of `traffic` of every kind have in common, and the names of flows.

use std::collections::BTreeMap;

use super::dscp::{Codepoint, DscpName};
use super::types::{CodecName, Place, Scenario, Traffic};
use crate::packet::Dscp;

/// IPv4 and TCP headers without options.
const TCP_HEADERS: u32 = 20 + 20;
/// IPv4 and UDP headers.
const UDP_HEADERS: u32 = 20 + 8;
/// IPv4, UDP and RTP headers.
const RTP_HEADERS: u32 = UDP_HEADERS + 12;

impl Traffic {
    /// The name of the entry: as given, or its kind. Its copies are called `name-0`, `name-1`, …
    pub fn base_name(&self) -> &str {
        let (name, kind) = match self {
            Self::Call { name, .. } => (name, "call"),
            Self::Bulk { name, .. } => (name, "bulk"),
            Self::Aimd { name, .. } => (name, "aimd"),
            Self::Quic { name, .. } => (name, "quic"),
            Self::Cbr { name, .. } => (name, "cbr"),
            Self::Burst { name, .. } => (name, "burst"),
            Self::Web { name, .. } => (name, "web"),
            Self::Request { name, .. } => (name, "request"),
            Self::Video { name, .. } => (name, "video"),
        };
        name.as_deref().unwrap_or(kind)
    }

    /// Who sends (or one end of a call).
    pub fn from(&self) -> Place {
        match self {
            Self::Call { from, .. }
            | Self::Bulk { from, .. }
            | Self::Aimd { from, .. }
            | Self::Quic { from, .. }
            | Self::Cbr { from, .. }
            | Self::Burst { from, .. }
            | Self::Web { from, .. }
            | Self::Request { from, .. }
            | Self::Video { from, .. } => *from,
        }
    }

    /// Who receives (or the other end of a call).
    pub fn to(&self) -> Place {
        match self {
            Self::Call { to, .. }
            | Self::Bulk { to, .. }
            | Self::Aimd { to, .. }
            | Self::Quic { to, .. }
            | Self::Cbr { to, .. }
            | Self::Burst { to, .. }
            | Self::Web { to, .. }
            | Self::Request { to, .. }
            | Self::Video { to, .. } => *to,
        }
    }

    /// How many copies there are.
    pub fn count(&self) -> u32 {
        match self {
            Self::Call { count, .. }
            | Self::Bulk { count, .. }
            | Self::Aimd { count, .. }
            | Self::Quic { count, .. }
            | Self::Cbr { count, .. }
            | Self::Burst { count, .. }
            | Self::Web { count, .. }
            | Self::Request { count, .. }
            | Self::Video { count, .. } => *count,
        }
    }

    /// How urgent its packets are.
    pub fn dscp(&self) -> Dscp {
        let (written, default) = match self {
            Self::Call { dscp, .. } => (dscp, Dscp::EXPEDITED),
            Self::Bulk { dscp, .. }
            | Self::Aimd { dscp, .. }
            | Self::Quic { dscp, .. }
            | Self::Cbr { dscp, .. }
            | Self::Burst { dscp, .. }
            | Self::Web { dscp, .. }
            | Self::Request { dscp, .. } => (dscp, Dscp::BEST_EFFORT),
            // RFC 4594 §4.5, for video conferences.
            Self::Video { dscp, .. } => (dscp, Codepoint::Named(DscpName::Af41).dscp()),
        };
        written.map_or(default, Codepoint::dscp)
    }

    /// A packet that comes later than this after the fastest one is an outage, in ms.
    pub fn delay_bound_ms(&self) -> Option<f64> {
        match self {
            Self::Aimd { delay_bound_ms, .. } | Self::Cbr { delay_bound_ms, .. } => *delay_bound_ms,
            _ => None,
        }
    }

    /// When it starts and stops, in seconds.
    pub fn times(&self) -> (f64, Option<f64>) {
        match self {
            Self::Call { start_s, stop_s, .. }
            | Self::Bulk { start_s, stop_s, .. }
            | Self::Aimd { start_s, stop_s, .. }
            | Self::Quic { start_s, stop_s, .. }
            | Self::Cbr { start_s, stop_s, .. }
            | Self::Burst { start_s, stop_s, .. }
            | Self::Web { start_s, stop_s, .. }
            | Self::Request { start_s, stop_s, .. }
            | Self::Video { start_s, stop_s, .. } => (*start_s, *stop_s),
        }
    }

    /// The largest IP packet that it sends, in bytes.
    pub fn largest_packet_bytes(&self) -> u32 {
        match self {
            Self::Call { codec, .. } => {
                RTP_HEADERS
                    + match codec {
                        CodecName::G729a => 20,
                        CodecName::G711 => 160,
                        CodecName::G7231 => 24,
                        CodecName::Opus => 60,
                    }
            }
            Self::Quic { datagram_bytes, .. } => datagram_bytes + UDP_HEADERS,
            Self::Cbr { payload_bytes, .. } => payload_bytes + UDP_HEADERS,
            // Timestamps take their bytes from the data (RFC 9293 §3.7.1).
            Self::Bulk { mss_bytes, .. } | Self::Web { mss_bytes, .. } | Self::Request { mss_bytes, .. } => {
                mss_bytes + TCP_HEADERS
            }
            Self::Aimd { packet_bytes, .. }
            | Self::Burst { packet_bytes, .. }
            | Self::Video { packet_bytes, .. } => *packet_bytes,
        }
    }

    /// Whether the scenario names it.
    pub(super) fn has_name(&self) -> bool {
        match self {
            Self::Call { name, .. }
            | Self::Bulk { name, .. }
            | Self::Aimd { name, .. }
            | Self::Quic { name, .. }
            | Self::Cbr { name, .. }
            | Self::Burst { name, .. }
            | Self::Web { name, .. }
            | Self::Request { name, .. }
            | Self::Video { name, .. } => name.is_some(),
        }
    }
}

impl Scenario {
    /// The names of all flows, one list an entry of `traffic`. Copies are numbered from 0; entries that share a name
    /// because they have none of their own share the numbers.
    pub fn flow_names(&self) -> Vec<Vec<String>> {
        let mut next: BTreeMap<&str, u64> = BTreeMap::new();
        self.traffic
            .iter()
            .map(|entry| {
                let name = entry.base_name();
                let number = next.entry(name).or_default();
                let first = *number;
                *number += u64::from(entry.count());
                (first..*number).map(|i| format!("{name}-{i}")).collect()
            })
            .collect()
    }
}
