//! The places of a scenario, and the errors of unknown ones.

use std::collections::BTreeSet;

use super::super::place::{HostName, NamedPlace, Place};
use super::super::sections::Scenario;
use super::findings::nodes_are;
use fairhop_config::nearest;

/// Maximum number of hosts that a message lists.
const MAX_LISTED: usize = 12;
/// Words that are places.
pub(super) const PLACES: [&str; 4] = ["internet", "gateway", "last", "broadcast"];

/// The places of a scenario, with the names of its hosts in a set.
pub(super) struct Places<'s> {
    scenario: &'s Scenario,
    nodes: usize,
    hosts: BTreeSet<HostName>,
}

impl<'s> Places<'s> {
    pub(super) fn of(scenario: &'s Scenario) -> Self {
        let hosts = scenario.wired_hosts().iter().map(|host| host.name).collect();
        Self { scenario, nodes: scenario.topology.node_count(), hosts }
    }

    /// A place with `"gateway"` and `"last"` replaced by their nodes.
    pub(super) fn plain(&self, place: Place) -> Place {
        match place {
            Place::Named(NamedPlace::Gateway) => Place::Node(self.scenario.topology.gateway()),
            Place::Named(NamedPlace::Last) => Place::Node(self.scenario.topology.last_node()),
            Place::Node(_) | Place::Named(_) | Place::Host(_) => place,
        }
    }

    /// The error of a place that the scenario does not have: message, label and help. Without suggestions if `brief`.
    pub(super) fn unknown(
        &self,
        key: &str,
        place: Place,
        brief: bool,
    ) -> Option<(String, &'static str, String)> {
        match place {
            Place::Node(node) if node as usize >= self.nodes => Some((
                format!("`{key}` is node {node}, which does not exist"),
                "no such node",
                nodes_are(self.nodes),
            )),
            Place::Named(named @ (NamedPlace::Gateway | NamedPlace::Last)) if self.nodes == 0 => Some((
                match named {
                    NamedPlace::Gateway => format!("`{key}` is the gateway, but there are no nodes"),
                    _ => format!("`{key}` is the last node, but there are no nodes"),
                },
                "no such place",
                "write the name of a host, or add nodes to [topology]".to_owned(),
            )),
            Place::Named(NamedPlace::Internet) if self.scenario.internet.is_none() => Some((
                format!("`{key}` is the internet, but the scenario has none"),
                "no such place",
                "add a table `[internet]` with `delay_ms` and `rate_mbps`".to_owned(),
            )),
            Place::Host(name) if !self.hosts.contains(&name) => {
                let help = if brief { String::new() } else { self.suggestion(name) };
                Some((format!("`{key}` cannot be \"{name}\""), "unknown word", help))
            }
            _ => None,
        }
    }

    fn suggestion(&self, name: HostName) -> String {
        let hosts = || self.scenario.wired_hosts().iter().map(|host| host.name.as_str());
        let words = hosts().take(MAX_LISTED).chain(PLACES).map(|word| format!("\"{word}\""));
        let can_be = format!("it can be {} or a number", words.collect::<Vec<_>>().join(", "));
        match nearest(name.as_str(), hosts().chain(PLACES)) {
            Some(right) => format!("write \"{right}\"; {can_be}"),
            None => can_be,
        }
    }
}
