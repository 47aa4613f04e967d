//! Wired hosts and links of a scenario.

use fairhop_model::markov::Channel;
use fairhop_model::units::{BitRate, Nanos};

use crate::engine::{Purpose, Stream};
use crate::mac::BROADCAST;
use crate::packet::NodeId;
use crate::scenario::{
    Endpoint, LinkDirection, LinkLoss, NamedPlace, Place, Scenario, SlottedChannel, WiredLink,
};
use crate::wired::{Errors, Link, LinkParams};

/// The names of the hosts without radio, in the order of their numbers after the nodes'.
pub(super) fn hosts(scenario: &Scenario) -> Vec<String> {
    let internet = scenario.internet.iter().map(|_| "internet".to_owned());
    internet.chain(scenario.wired_hosts().iter().map(|host| host.name.to_string())).collect()
}

/// The number of a place; `nodes` is how many have a radio.
pub(super) fn number_of(scenario: &Scenario, nodes: NodeId, place: Place) -> NodeId {
    let internet = NodeId::from(scenario.internet.is_some());
    match scenario.resolve_place(place) {
        Endpoint::Node(node) => node,
        Endpoint::Internet => nodes,
        Endpoint::Host(host) => nodes + internet + host as NodeId,
        Endpoint::Broadcast => BROADCAST,
    }
}

/// Both directions of every wired link: first those of the Internet, towards it and from it, of each gateway, then the others in the order
/// of the scenario.
pub(super) fn wire(scenario: &Scenario, seed: u64, nodes: NodeId) -> Vec<Link> {
    let gateways = || scenario.topology.gateways().iter().copied();
    let ends = scenario.internet.iter().flat_map(|internet| gateways().map(move |node| (node, internet)));
    let internet = ends.map(|(gateway, internet)| WiredLink {
        between: vec![Place::Node(gateway), Place::Named(NamedPlace::Internet)],
        rate_mbps: internet.rate_mbps,
        delay_ms: internet.delay_ms,
        queue: internet.queue.clone(),
        overhead_bytes: 0,
        loss: None,
        channel: None,
        forward: None,
        backward: None,
    });
    let mut links = Vec::new();
    for link in internet.chain(scenario.wired.iter().flat_map(|wired| wired.links.iter().cloned())) {
        let [first, second] = [0, 1].map(|end| number_of(scenario, nodes, link.between[end]));
        for (from, to, other) in [(first, second, &link.forward), (second, first, &link.backward)] {
            let subject = links.len() as u64;
            links.push(direction(&link, from, to, other.as_ref(), seed, subject));
        }
    }
    links
}

/// One direction of a link, with what is different in it.
fn direction(
    link: &WiredLink,
    from: NodeId,
    to: NodeId,
    other: Option<&LinkDirection>,
    seed: u64,
    subject: u64,
) -> Link {
    let loss = other.and_then(|other| other.loss).or(link.loss);
    let channel = other.and_then(|other| other.channel).or(link.channel);
    let random = |what| Stream::new(seed, WIRED_SUBJECTS + 2 * subject + what, Purpose::Channel);
    let params = LinkParams {
        from,
        to,
        rate: BitRate::from_mbps(other.and_then(|other| other.rate_mbps).unwrap_or(link.rate_mbps)),
        delay: Nanos::from_millis_f64(other.and_then(|other| other.delay_ms).unwrap_or(link.delay_ms)),
        overhead: link.overhead_bytes,
        errors: match loss {
            Some(LinkLoss { every: Some(every), over_bytes, .. }) => {
                Errors::Every { every: u64::from(every), over_bytes, seen: 0 }
            }
            Some(LinkLoss { probability: Some(probability), over_bytes, .. }) => {
                Errors::Random { probability, over_bytes, random: random(0) }
            }
            _ => Errors::Never,
        },
        channel: channel.and_then(|SlottedChannel { error, memory, states, arq, slot_bytes }| {
            let channel = Channel::multi_state(states as usize, error, memory).ok()?;
            Some((channel, arq, slot_bytes))
        }),
    };
    let queue = other.and_then(|other| other.queue.as_ref()).unwrap_or(&link.queue);
    Link::new(params, queue, Stream::new(seed, WIRED_SUBJECTS + subject, Purpose::Queue), random(1))
}

/// Subjects of the random streams of wired links begin here, apart from those of stations.
const WIRED_SUBJECTS: u64 = 1 << 32;
