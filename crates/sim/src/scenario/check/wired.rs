//! Wired hosts and links.

use std::collections::{BTreeMap, BTreeSet};

use fairhop_model::markov::Channel;
use fairhop_model::units::BitRate;

use super::super::place::{NamedPlace, Place};
use super::super::sections::Scenario;
use super::super::wired::{LinkLoss, SlottedChannel, WiredLink};
use super::mac::check_queue;
use super::places::{PLACES, Places};
use fairhop_config::Findings;
use fairhop_config::Number;

/// Maximum number of hosts.
const MAX_HOSTS: usize = 10_000;
/// Maximum number of links.
const MAX_LINKS: usize = 100_000;

impl Scenario {
    pub(super) fn check_wired(&self, places: &Places<'_>, findings: &mut Findings) {
        let Some(wired) = &self.wired else { return };
        let mut names = BTreeMap::new();
        for (i, host) in wired.hosts.iter().enumerate() {
            let path = format!("wired.hosts.{i}.name");
            let name = host.name.as_str();
            if name.trim().is_empty() {
                findings.add(path, "`name` is empty", "no name", "give the host a name, as in \"r1\"");
            } else if PLACES.contains(&name) || name.parse::<u64>().is_ok() {
                findings.add(
                    path,
                    format!("a host cannot be called \"{name}\", which is another place"),
                    "taken",
                    "choose a name that is not a number, \"internet\", \"gateway\", \"last\" or \"broadcast\"",
                );
            } else if let Some(first) = names.insert(name, i) {
                findings.add(
                    path,
                    format!("hosts {first} and {i} are both called \"{name}\""),
                    "taken",
                    "give each host its own name",
                );
            }
        }
        if wired.hosts.len() > MAX_HOSTS {
            findings.add(
                "wired.hosts",
                format!("there are {} hosts; at most {MAX_HOSTS} can be simulated", wired.hosts.len()),
                "too many",
                "make the network smaller",
            );
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
            check_between(i, link, places, &mut joined, findings);
            check_link(i, link, findings);
        }
    }
}

fn check_between(
    i: usize,
    link: &WiredLink,
    places: &Places<'_>,
    joined: &mut BTreeMap<BTreeSet<Place>, usize>,
    findings: &mut Findings,
) {
    let path = format!("wired.links.{i}.between");
    if link.between.len() != 2 {
        findings.add(
            path,
            format!("`between` has {} entries instead of two", link.between.len()),
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
                "write the name of a host, the number of a node, \"gateway\", \"last\" or \"internet\""
                    .to_owned(),
            ))
        } else {
            places.unknown("between", *place, findings.is_full())
        };
        if let Some((message, label, help)) = wrong {
            known = false;
            findings.add(format!("{path}.{end}"), message, label, help);
        }
    }
    if !known {
        return;
    }
    let ends: BTreeSet<Place> = link.between.iter().map(|place| places.plain(*place)).collect();
    if ends.len() < 2 {
        findings.add(
            path,
            "both ends of the link are the same place",
            "same place",
            "write two different places",
        );
    } else if let Some(first) = joined.insert(ends, i) {
        findings.add(
            path,
            format!("links {first} and {i} connect the same two places"),
            "second link",
            "keep one of them: a link works in both directions",
        );
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
            format!(
                "`rate_mbps` is {}, less than half a bit per second: packets would never arrive",
                Number(rate_mbps)
            ),
            "too low",
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
            "`loss` has no loss rate",
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
            format!("the channel is impossible: {why}"),
            "not possible",
            "`error` is from 0 to 1, `memory` from 0 to less than 1, `states` from 2 to 64",
        );
    }
}
