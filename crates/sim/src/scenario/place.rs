//! Places that send and receive.

use arrayvec::ArrayString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a host. Its size is fixed so that places are `Copy`.
pub type HostName = ArrayString<24>;

/// A sender or receiver: a node's number, `"last"`, `"gateway"`, `"internet"` or `"broadcast"`, or the name of a wired host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Place {
    /// A node by number.
    Node(u32),
    /// A place by name.
    Named(NamedPlace),
    /// A host of `[wired]` by name.
    Host(#[schemars(with = "String", length(min = 1, max = 24))] HostName),
}

/// Places with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NamedPlace {
    /// The host behind the gateway.
    Internet,
    /// The node where the Internet is attached; with several gateways, the first of them.
    Gateway,
    /// The node with the highest number: the end of a string (of the last line, with several), the far corner of a grid.
    Last,
    /// All neighbours of the sender, one hop, without acknowledgment; only as the `to` of `cbr`.
    Broadcast,
}

/// What a [`Place`] resolves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A node of the mesh.
    Node(u32),
    /// The host behind the gateway.
    Internet,
    /// A host of `[wired]`, by its index in the list; an index past the end if the name is unknown.
    Host(usize),
    /// All neighbours of the sender.
    Broadcast,
}
