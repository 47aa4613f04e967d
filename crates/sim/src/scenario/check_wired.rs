//! Whether hosts, links and the places that name them fit each other.

use std::collections::{BTreeMap, BTreeSet};

use fairhop_model::markov::Channel;
use fairhop_model::units::BitRate;

use super::check::{Findings, check_queue, nodes_are};
use super::suggest::nearest;
use super::types::{NamedPlace, Place, Scenario};
use super::wired::{LinkLoss, SlottedChannel, WiredLink};

/// The most links that a scenario may have.
const MAX_LINKS: usize = 100_000;
/// A message names no more hosts than this.
const MOST_NAMED: usize = 12;
/// Words that mean places already.
const PLACES: [&str; 3] = ["internet", "gateway", "broadcast"];

impl Scenario {
    pub(super) fn check_wired(&self, findings: &mut Findings) {
        let Some(wired) = &self.wired else { return };
        let mut names = BTreeMap::new();
        for (i, host) in wired.hosts.iter().enumerate() {
            let path = format!("wired.hosts.{i}.name");
            let name = host.name.as_str();
            if name.trim().is_empty() {
                findings.add(path, "`name` is empty", "no name", "say what the host is called, as in \"r1\"");
            } else if PLACES.contains(&name) || name.parse::<u64>().is_ok() {
                findings.add(
                    path,
                    format!("a host cannot be called \"{name}\": that is another place"),
                    "taken",
                    "choose a name that is neither a number nor \"internet\", \"gateway\" or \"broadcast\"",
                );
            } else if let Some(first) = names.insert(name, i) {
                findings.add(
                    path,
                    format!("hosts {first} and {i} are both called \"{name}\""),
                    "taken",
                    "give each host a name of its own",
                );
            }
        }
        if wired.links.len() > MAX_LINKS {
            findings.add(
                "wired.links",
                format!("there are {} links; at most {MAX_LINKS} can be simulated", wired.links.len()),
                "too many",
                "make the network smaller",
            );
        }
        let mut joined = BTreeMap::new();
        for (i, link) in wired.links.iter().enumerate() {
            self.check_between(i, link, &mut joined, findings);
            check_link(i, link, findings);
        }
    }

    fn check_between(
        &self,
        i: usize,
        link: &WiredLink,
        joined: &mut BTreeMap<BTreeSet<Place>, usize>,
        findings: &mut Findings,
    ) {
        let path = format!("wired.links.{i}.between");
        if link.between.len() != 2 {
            findings.add(
                path,
                format!("`between` has {} instead of two", link.between.len()),
                "not two ends",
                "write the two ends, as in between = [\"r1\", \"r2\"] or [\"server\", 0]",
            );
            return;
        }
        let mut known = true;
        for (end, place) in link.between.iter().enumerate() {
            let wrong = if *place == Place::Named(NamedPlace::Broadcast) {
                Some((
                    "a link cannot end at \"broadcast\"".to_owned(),
                    "not a place",
                    "write the name of a host, the number of a node, \"gateway\" or \"internet\"".to_owned(),
                ))
            } else {
                self.unknown_place("between", *place)
            };
            if let Some((message, label, help)) = wrong {
                known = false;
                findings.add(format!("{path}.{end}"), message, label, help);
            }
        }
        if !known {
            return;
        }
        // `gateway` is a node under another name.
        let gateway = Place::Node(self.topology.gateway());
        let plain =
            |place: &Place| if *place == Place::Named(NamedPlace::Gateway) { gateway } else { *place };
        let ends: BTreeSet<Place> = link.between.iter().map(plain).collect();
        if ends.len() < 2 {
            findings.add(
                path,
                "both ends of the link are the same place",
                "nothing between them",
                "write two different places",
            );
        } else if let Some(first) = joined.insert(ends, i) {
            findings.add(
                path,
                format!("links {first} and {i} join the same two places"),
                "the second one",
                "keep one of them: a link goes both ways",
            );
        }
    }

    /// What is wrong with a place that the scenario does not have: message, label and mend.
    pub(super) fn unknown_place(&self, key: &str, place: Place) -> Option<(String, &'static str, String)> {
        let nodes = self.topology.node_count();
        match place {
            Place::Node(node) if node as usize >= nodes => Some((
                format!("`{key}` is node {node}, which does not exist"),
                "no such node",
                nodes_are(nodes),
            )),
            Place::Named(NamedPlace::Gateway) if nodes == 0 => Some((
                format!("`{key}` is the gateway, but there are no nodes"),
                "no such place",
                "write the name of a host, or give [topology] nodes".to_owned(),
            )),
            Place::Named(NamedPlace::Internet) if self.internet.is_none() => Some((
                format!("`{key}` is the internet, but the scenario has none"),
                "no such place",
                "add a table `[internet]` with `delay_ms` and `rate_mbps`".to_owned(),
            )),
            Place::Host(name) if !self.wired_hosts().iter().any(|host| host.name == name) => {
                let hosts = || self.wired_hosts().iter().map(|host| host.name.as_str());
                let words = hosts().take(MOST_NAMED).chain(PLACES).map(|word| format!("\"{word}\""));
                let can_be = format!("it can be {} or a number", words.collect::<Vec<_>>().join(", "));
                let help = match nearest(name.as_str(), hosts().chain(PLACES)) {
                    Some(right) => format!("write \"{right}\"; {can_be}"),
                    None => can_be,
                };
                Some((format!("`{key}` cannot be \"{name}\""), "unknown word", help))
            }
            _ => None,
        }
    }
}

fn check_link(i: usize, link: &WiredLink, findings: &mut Findings) {
    let path = format!("wired.links.{i}");
    check_queue(&format!("{path}.queue"), &link.queue, findings);
    check_rate(&path, link.rate_mbps, findings);
    check_loss(&path, link.loss, findings);
    check_channel(&path, link.channel, findings);
    for (key, direction) in [("forward", &link.forward), ("backward", &link.backward)] {
        let Some(direction) = direction else { continue };
        let path = format!("{path}.{key}");
        if let Some(queue) = &direction.queue {
            check_queue(&format!("{path}.queue"), queue, findings);
        }
        if let Some(rate_mbps) = direction.rate_mbps {
            check_rate(&path, rate_mbps, findings);
        }
        check_loss(&path, direction.loss, findings);
        check_channel(&path, direction.channel, findings);
    }
}

pub(super) fn check_rate(path: &str, rate_mbps: f64, findings: &mut Findings) {
    if BitRate::from_mbps(rate_mbps) == BitRate(0) {
        findings.add(
            format!("{path}.rate_mbps"),
            format!("`rate_mbps` is {rate_mbps}, less than a bit in two seconds: packets would never arrive"),
            "too slow",
            "`rate_mbps` is in Mb/s: 100 is a usual value",
        );
    }
}

fn check_loss(path: &str, loss: Option<LinkLoss>, findings: &mut Findings) {
    let Some(loss) = loss else { return };
    let path = format!("{path}.loss");
    match (loss.every, loss.probability) {
        (Some(_), Some(_)) => findings.add(
            format!("{path}.probability"),
            "`loss` has `every` and `probability` together",
            "one too many",
            "keep one of them",
        ),
        (None, None) => findings.add(
            path,
            "`loss` does not say how much is lost",
            "nothing is set",
            "add every = 200, which loses one frame in 200, or probability = 0.005",
        ),
        _ => {}
    }
}

fn check_channel(path: &str, channel: Option<SlottedChannel>, findings: &mut Findings) {
    let Some(SlottedChannel { error, memory, states, .. }) = channel else { return };
    if let Err(why) = Channel::multi_state(states as usize, error, memory) {
        findings.add(
            format!("{path}.channel"),
            format!("there is no such channel: {why}"),
            "cannot be",
            "error and memory are from 0 to 1, memory less than 1, states from 2 to 64",
        );
    }
}
