//! Places that real network stacks take: `[[attach]]`.
//!
//! An entry names a place and says what is real there. [`Scenario::attachments`](super::Scenario::attachments) resolves the entries, and the ends of real
//! traffic, to one [`Attachment`] for each place. Only `fairhop emulate` attaches; a simulation leaves the places empty.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::place::Place;

/// A place whose network stack is real: that of a network namespace of this machine. Only `fairhop emulate` uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// The place: a node, `"internet"`, or the name of a wired host. Left out: every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Place>,
    /// What is real at the place.
    #[serde(default)]
    pub kind: AttachKind,
    /// Name of the network namespace, without its prefix `fh-`. Left out: the number of the node or the name of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Addresses of its interface with their prefix lengths, as in `"192.0.2.7/24"` or `"2001:db8::7/64"`. Left out: node N
    /// has 10.77.0.N/32 and fd77::N/128, the Internet host 10.78.0.1/32 and fd78::1/128, wired hosts the addresses after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// What is real at an attached place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttachKind {
    /// The host: its IP packets enter the simulated network, which routes and forwards them.
    #[default]
    Edge,
    /// The host and its routing: its Ethernet frames go over one radio hop; real kernels forward packets.
    Link,
}

/// An attached place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Number of the node; hosts without radio have the numbers after the nodes, the Internet host first.
    pub node: u32,
    /// What is real there.
    pub kind: AttachKind,
    /// Name, without the prefix of namespaces.
    pub name: String,
    /// Addresses and prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// An address with its prefix length; none where the text is no such thing.
pub(super) fn parse_address(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}
