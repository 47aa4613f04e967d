//! What a scenario resolves to: ends of flows, names, parameters of radio and MAC.

use std::collections::BTreeMap;

use fairhop_model::phy::{Phy, Rate};
use fairhop_model::units::Nanos;

use super::mobility::Mobility;
use super::place::{Endpoint, NamedPlace, Place};
use super::sections::Scenario;
use super::topology::{Topology, Waypoint};
use super::wired::Host;
use crate::mac::MacParams;
use crate::radio::RadioParams;

impl Scenario {
    /// The hosts of `[wired]`.
    pub fn wired_hosts(&self) -> &[Host] {
        self.wired.as_ref().map_or(&[], |wired| &wired.hosts)
    }

    /// What a place resolves to: `"gateway"` and `"last"` become their nodes.
    pub fn resolve_place(&self, place: Place) -> Endpoint {
        match place {
            Place::Node(node) => Endpoint::Node(node),
            Place::Named(NamedPlace::Gateway) => Endpoint::Node(self.topology.gateway()),
            Place::Named(NamedPlace::Last) => Endpoint::Node(self.topology.last_node()),
            Place::Named(NamedPlace::Internet) => Endpoint::Internet,
            Place::Named(NamedPlace::Broadcast) => Endpoint::Broadcast,
            Place::Host(name) => {
                let hosts = self.wired_hosts();
                Endpoint::Host(hosts.iter().position(|host| host.name == name).unwrap_or(hosts.len()))
            }
        }
    }

    /// The names of all flows, one list per entry of `traffic`. Copies are numbered from 0. Entries without a name of their
    /// own share the numbers of their kind.
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

    /// Reception parameters that all nodes share.
    pub fn radio_params(&self) -> RadioParams {
        RadioParams::new(&self.radio)
    }

    /// MAC parameters that all stations share, with the rates of single links. The scenario must have passed
    /// [`Scenario::findings`].
    pub fn mac_params(&self) -> MacParams {
        let standard = self.radio.standard;
        let data_rate = standard.rate(self.radio.rate_mbps).unwrap_or(standard.rates()[0]);
        let basic_rates: Vec<Rate> = match &self.radio.basic_rates_mbps {
            Some(rates) => rates.iter().filter_map(|&mbps| standard.rate(mbps)).collect(),
            None => standard.mandatory_rates().to_vec(),
        };
        let phy = Phy::new(standard, self.radio.preamble);
        let mut params = MacParams::new(phy, &self.mac, data_rate, &basic_rates);
        if let Some(rate) = self.radio.broadcast_rate_mbps.and_then(|mbps| standard.rate(mbps)) {
            params.broadcast_rate = rate;
        }
        for link in &self.radio.rates {
            let Some(rate) = standard.rate(link.rate_mbps) else { continue };
            params.set_rate(link.from, Some(link.to), rate);
            if link.both_ways {
                params.set_rate(link.to, Some(link.from), rate);
            }
        }
        params
    }
}

impl Scenario {
    /// Whether nodes may move on trajectories: there are waypoints, or a mobility model or file.
    pub fn has_mobility(&self) -> bool {
        let model = self.mobility.as_ref().is_some_and(|mobility| {
            mobility.kind.is_some() || mobility.file.is_some() || mobility.movements.is_some()
        });
        model || self.waypoints().any(|(_, waypoints)| waypoints.len() > 1)
    }

    /// Nodes with waypoints, and these.
    pub(crate) fn waypoints(&self) -> impl Iterator<Item = (usize, &[Waypoint])> {
        let nodes = match &self.topology {
            Topology::Explicit { nodes, .. } => nodes.as_slice(),
            _ => &[],
        };
        let of_node = nodes.iter().map(|node| node.waypoints.as_slice()).enumerate();
        of_node.filter(|(_, waypoints)| !waypoints.is_empty())
    }

    /// How often routes follow nodes that move.
    pub(crate) fn route_interval(&self) -> Nanos {
        let default = Mobility::default().route_interval_s;
        Nanos::from_secs_f64(self.mobility.as_ref().map_or(default, |mobility| mobility.route_interval_s))
    }
}
