//! What the types of a scenario cannot say: whether its parts fit each other and the standard.
//!
//! Everything here follows from the scenario alone. Whether one node hears another, and whether there is a route, is
//! found when the world is built.

use std::collections::{BTreeMap, BTreeSet};

use fairhop_model::phy::{Phy, Preamble, Rate, Standard};

use super::check_wired::check_rate;
use super::error::Finding;
use super::queue::Queue;
use super::topology::Endpoint;
use super::types::{
    NamedPlace, Place, Propagation, Scenario, SizeLaw, TcpProfile, TcpRecovery, TcpVariant, TimeLaw,
    Topology, Traffic,
};
use crate::mac::windows;

/// The most nodes that a scenario may have.
const MAX_NODES: usize = 100_000;
/// The most flows that a scenario may have.
const MAX_FLOWS: u64 = 100_000;
/// The most bins of the time series.
const MAX_BINS: f64 = 1_000_000.0;
/// Two nodes are at least this far apart, in metres: path loss has no meaning at distance 0.
pub(crate) const MIN_DISTANCE_M: f64 = 0.001;
/// The largest IP packet that fits into an MSDU of 2304 bytes (IEEE 802.11-2020, 9.2.4.7.1) behind the LLC and SNAP
/// headers.
const MAX_IP_BYTES: u32 = 2304 - 8;
/// The largest mean size of a video frame.
const MAX_VIDEO_FRAME_BYTES: f64 = 1e7;
impl Scenario {
    /// What is wrong with a scenario whose keys and ranges are right; empty where it can be simulated, as far as can be
    /// known without its links.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Findings(Vec::new());
        self.check_name_and_times(&mut findings);
        self.check_rates(&mut findings);
        self.check_propagation(&mut findings);
        self.check_mac(&mut findings);
        self.check_edca(&mut findings);
        self.check_topology(&mut findings);
        self.check_paths(&mut findings);
        self.check_internet(&mut findings);
        self.check_wired(&mut findings);
        for (i, entry) in self.traffic.iter().enumerate() {
            self.check_ends(i, entry, &mut findings);
            self.check_flow_times(i, entry, &mut findings);
            check_load(i, entry, self.topology.node_count() > 0, &mut findings);
            check_tcp(i, entry, &mut findings);
            check_reports(i, entry, &mut findings);
        }
        self.check_control(&mut findings);
        self.check_changes(&mut findings);
        self.check_queues(&mut findings);
        self.check_names(&mut findings);
        findings.0
    }

    fn check_name_and_times(&self, findings: &mut Findings) {
        if self.name.trim().is_empty() {
            findings.add("name", "`name` is empty", "no name", "say in a few words what the scenario is");
        }
        if self.warmup_s >= self.duration_s {
            findings.add(
                "warmup_s",
                format!(
                    "`warmup_s` is {}, but the whole run lasts {} s: nothing would be counted",
                    self.warmup_s, self.duration_s
                ),
                "not less than `duration_s`",
                "make `warmup_s` smaller or `duration_s` larger; `duration_s` counts the warm-up in",
            );
        }
        let bins = self.duration_s / self.record.interval_s;
        if bins > MAX_BINS {
            findings.add(
                "record.interval_s",
                format!("the time series would have {bins:.0} bins; at most {MAX_BINS} are possible"),
                "too short for this duration",
                format!("make `interval_s` at least {}", self.duration_s / MAX_BINS),
            );
        }
    }

    fn check_rates(&self, findings: &mut Findings) {
        let radio = &self.radio;
        let standard = radio.standard;
        let has = || format!("{} has {}", standard.name(), rates(standard));
        if standard.rate(radio.rate_mbps).is_none() {
            findings.add(
                "radio.rate_mbps",
                format!("{} has no rate of {} Mb/s", standard.name(), radio.rate_mbps),
                "not a rate of the standard",
                has(),
            );
        }
        if let Some(basic) = &radio.basic_rates_mbps {
            for (i, rate) in basic.iter().enumerate() {
                let path = format!("radio.basic_rates_mbps.{i}");
                if standard.rate(*rate).is_none() {
                    findings.add(
                        path,
                        format!("{} has no rate of {rate} Mb/s", standard.name()),
                        "not a rate of the standard",
                        has(),
                    );
                } else if basic[..i].contains(rate) {
                    findings.add(
                        path,
                        format!("the basic rate {rate} is there twice"),
                        "again",
                        "keep one of them",
                    );
                }
            }
            if basic.is_empty() {
                findings.add(
                    "radio.basic_rates_mbps",
                    "`basic_rates_mbps` is empty: no ACK could be sent",
                    "no rate",
                    format!("leave it out for the mandatory rates, or name some; {}", has()),
                );
            } else if basic.iter().all(|rate| *rate > radio.rate_mbps) {
                findings.add(
                    "radio.basic_rates_mbps",
                    format!("every basic rate is faster than `rate_mbps` = {}", radio.rate_mbps),
                    "an ACK may not be faster than its data",
                    "add a basic rate that is no faster than `rate_mbps`",
                );
            }
        }
        if radio.preamble == Preamble::Short && standard != Standard::Dot11b {
            findings.add(
                "radio.preamble",
                format!("{} has no short preamble", standard.name()),
                "only in 802.11b",
                "leave `preamble` out, or write standard = \"802.11b\"",
            );
        }
    }

    fn check_propagation(&self, findings: &mut Findings) {
        let radio = &self.radio;
        match &radio.propagation {
            // A frame is locked before it is decoded, and what is locked keeps the medium busy: the three circles lie
            // inside one another.
            Propagation::Range { receive_m, carrier_sense_m, preamble_m } => {
                if carrier_sense_m < receive_m {
                    findings.add(
                        "radio.propagation.carrier_sense_m",
                        format!(
                            "`carrier_sense_m` is {carrier_sense_m}, less than `receive_m` = {receive_m}"
                        ),
                        "what is received is sensed",
                        format!("make it at least {receive_m}; ns-2's habit is 250 and 550"),
                    );
                } else if let Some(preamble) = preamble_m.filter(|p| p < receive_m || p > carrier_sense_m) {
                    findings.add(
                        "radio.propagation.preamble_m",
                        format!("`preamble_m` is {preamble}, but must lie between `receive_m` and `carrier_sense_m`"),
                        "outside",
                        format!("choose between {receive_m} and {carrier_sense_m}, or leave it out"),
                    );
                }
                let unused = [
                    ("sensitivity_dbm", radio.sensitivity_dbm, "receive_m"),
                    ("preamble_detect_dbm", radio.preamble_detect_dbm, "preamble_m"),
                    ("energy_detect_dbm", radio.energy_detect_dbm, "carrier_sense_m"),
                ];
                for (key, _, instead) in unused.into_iter().filter(|(_, value, _)| value.is_some()) {
                    findings.add(
                        format!("radio.{key}"),
                        format!("`{key}` means nothing to the range model, which goes by distance alone"),
                        "not used",
                        format!("set `{instead}` of `propagation` instead, or choose another model"),
                    );
                }
            }
            Propagation::Matrix { loss_db } => self.check_matrix(loss_db, findings),
            Propagation::FreeSpace { .. } | Propagation::TwoRay { .. } | Propagation::LogDistance { .. } => {}
        }
        if let (Some(preamble), Some(decode)) = (radio.preamble_detect_dbm, radio.sensitivity_dbm)
            && preamble > decode
            && !matches!(radio.propagation, Propagation::Range { .. })
        {
            findings.add(
                "radio.preamble_detect_dbm",
                format!("`preamble_detect_dbm` is {preamble}, above `sensitivity_dbm` = {decode}"),
                "what is decoded is locked first",
                format!("make it at most {decode}"),
            );
        }
    }

    fn check_matrix(&self, loss_db: &[Vec<f64>], findings: &mut Findings) {
        let nodes = self.topology.node_count();
        if loss_db.len() != nodes {
            findings.add(
                "radio.propagation.loss_db",
                format!("`loss_db` has {} for {}", plural(loss_db.len(), "row"), plural(nodes, "node")),
                "wrong size",
                format!("write {nodes} rows of {nodes} numbers, one row for each sender"),
            );
            return;
        }
        for (i, row) in loss_db.iter().enumerate() {
            if row.len() != nodes {
                findings.add(
                    format!("radio.propagation.loss_db.{i}"),
                    format!(
                        "row {i} of `loss_db` has {} for {}",
                        plural(row.len(), "number"),
                        plural(nodes, "node")
                    ),
                    "wrong size",
                    format!("write {nodes} numbers: the loss from node {i} to each node"),
                );
            }
            for (j, loss) in row.iter().enumerate().filter(|&(j, loss)| i != j && *loss < 0.0) {
                findings.add(
                    format!("radio.propagation.loss_db.{i}.{j}"),
                    format!("the loss from node {i} to node {j} is {loss} dB: that would be a gain"),
                    "negative",
                    "write how many dB are lost, as a number from 0 up; 1000 or more means that nothing is heard",
                );
            }
        }
    }

    fn check_mac(&self, findings: &mut Findings) {
        let mac = &self.mac;
        let phy = Phy::new(self.radio.standard, self.radio.preamble);
        let mut valid = true;
        for (key, window) in [("cw_min", mac.cw_min), ("cw_max", mac.cw_max)] {
            if let Some(window) = window.filter(|w| !(w + 1).is_power_of_two()) {
                valid = false;
                let above = (window + 1).next_power_of_two();
                findings.add(
                    format!("mac.{key}"),
                    format!("`{key}` is {window}, but must be one less than a power of two"),
                    "not 2^k − 1",
                    format!("write {} or {}", above / 2 - 1, above - 1),
                );
            }
        }
        let (least, most) = (mac.cw_min.unwrap_or(phy.cw_min), mac.cw_max.unwrap_or(phy.cw_max));
        if valid && least > most {
            let (path, note) = match mac.cw_max {
                Some(_) => ("mac.cw_max", ""),
                None => ("mac.cw_min", ", the standard's"),
            };
            findings.add(
                path,
                format!("`cw_min` is {least}, larger than `cw_max` = {most}{note}"),
                "the wrong way round",
                "the window grows from `cw_min` to `cw_max`: make one smaller or the other larger",
            );
        }
    }

    /// The windows of access categories, with those that they take from elsewhere.
    fn check_edca(&self, findings: &mut Findings) {
        let Some(edca) = self.mac.edca.parameters() else { return };
        let phy = Phy::new(self.radio.standard, self.radio.preamble);
        let (least, most) = (self.mac.cw_min.unwrap_or(phy.cw_min), self.mac.cw_max.unwrap_or(phy.cw_max));
        let categories = [
            ("background", edca.background),
            ("best_effort", edca.best_effort),
            ("video", edca.video),
            ("voice", edca.voice),
        ];
        for (index, (name, written)) in categories.into_iter().enumerate() {
            let path = format!("mac.edca.{name}");
            let mut valid = true;
            for (key, window) in [("cw_min", written.cw_min), ("cw_max", written.cw_max)] {
                if let Some(window) = window.filter(|w| !(w + 1).is_power_of_two()) {
                    valid = false;
                    let above = (window + 1).next_power_of_two();
                    findings.add(
                        format!("{path}.{key}"),
                        format!("`{key}` is {window}, but must be one less than a power of two"),
                        "not 2^k − 1",
                        format!("write {} or {}", above / 2 - 1, above - 1),
                    );
                }
            }
            let (cw_min, cw_max) = windows(index, least, most, &written);
            if valid && cw_min > cw_max {
                let (key, note) =
                    if written.cw_max.is_some() { ("cw_max", "") } else { ("cw_min", ", the standard's") };
                findings.add(
                    format!("{path}.{key}"),
                    format!("the windows of {name} go from {cw_min} to {cw_max}{note}"),
                    "the wrong way round",
                    "the window grows from `cw_min` to `cw_max`: make one smaller or the other larger",
                );
            }
        }
    }

    fn check_topology(&self, findings: &mut Findings) {
        let nodes = self.topology.node_count();
        if self.topology == Topology::None {
            if self.wired_hosts().is_empty() {
                findings.add(
                    "topology",
                    "there are no nodes and no wired hosts",
                    "nothing to simulate",
                    "add `[[wired.hosts]]` and `[[wired.links]]`, or choose another kind of topology",
                );
            }
            return;
        }
        if nodes == 0 {
            findings.add(
                "topology.nodes",
                "the topology has no nodes",
                "empty",
                "give each node a place, as in nodes = [{ x_m = 0, y_m = 0 }]",
            );
            return;
        }
        if nodes > MAX_NODES {
            findings.add(
                "topology",
                format!("the topology has {nodes} nodes; at most {MAX_NODES} can be simulated"),
                "too many",
                "make it smaller",
            );
        }
        self.check_gateways(nodes, findings);
        let distances = match &self.topology {
            Topology::String { spacing_m, line_spacing_m, .. } => {
                vec![("spacing_m", Some(*spacing_m)), ("line_spacing_m", *line_spacing_m)]
            }
            Topology::Grid { spacing_m, .. } | Topology::Ring { spacing_m, .. } => {
                vec![("spacing_m", Some(*spacing_m))]
            }
            Topology::Random { .. } | Topology::Explicit { .. } | Topology::None => vec![],
        };
        for (key, metres) in distances {
            if let Some(metres) = metres.filter(|m| *m < MIN_DISTANCE_M) {
                findings.add(
                    format!("topology.{key}"),
                    format!("`{key}` is {metres}: nodes would stand within each other"),
                    "too near",
                    format!("write at least {MIN_DISTANCE_M}, which is a millimetre"),
                );
            }
        }
        if let Topology::Explicit { nodes, .. } = &self.topology {
            let mut at: Vec<_> = nodes.iter().enumerate().map(|(i, n)| (n.x_m, n.y_m, i)).collect();
            at.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
            for pair in at.windows(2).filter(|p| p[0].0 == p[1].0 && p[0].1 == p[1].1) {
                let (first, second) = (pair[0].2, pair[1].2);
                findings.add(
                    format!("topology.nodes.{second}"),
                    format!("nodes {first} and {second} stand at the same place"),
                    format!("also the place of node {first}"),
                    "move one of them: path loss has no meaning at distance 0",
                );
            }
        }
    }

    fn check_gateways(&self, nodes: usize, findings: &mut Findings) {
        let gateways = self.topology.gateways();
        if gateways.is_empty() {
            findings.add(
                "topology.gateway",
                "the list of gateways is empty",
                "no gateway",
                "write the nodes where the Internet is attached, as in gateway = [0, 8], or leave `gateway` out for node 0",
            );
        }
        for (i, gateway) in gateways.iter().enumerate() {
            let path =
                if gateways.len() > 1 { format!("topology.gateway.{i}") } else { "topology.gateway".into() };
            if *gateway as usize >= nodes {
                findings.add(
                    path,
                    format!("the gateway is node {gateway}, which does not exist"),
                    "no such node",
                    nodes_are(nodes),
                );
            } else if gateways[..i].contains(gateway) {
                findings.add(
                    path,
                    format!("node {gateway} is a gateway twice"),
                    "again",
                    "write each node once",
                );
            }
        }
    }

    fn check_paths(&self, findings: &mut Findings) {
        let nodes = self.topology.node_count();
        let mut ends = BTreeMap::new();
        for (i, path) in self.routing.paths.iter().enumerate() {
            let here = format!("routing.paths.{i}");
            if path.len() < 2 {
                findings.add(
                    here,
                    format!("path {i} has {}", plural(path.len(), "node")),
                    "too short",
                    "write the nodes from first to last, as in [0, 1, 2]",
                );
                continue;
            }
            let mut seen = BTreeSet::new();
            for (j, node) in path.iter().enumerate() {
                let here = format!("{here}.{j}");
                if *node as usize >= nodes {
                    findings.add(
                        here,
                        format!("path {i} goes through node {node}, which does not exist"),
                        "no such node",
                        nodes_are(nodes),
                    );
                } else if !seen.insert(node) {
                    findings.add(
                        here,
                        format!("path {i} comes to node {node} twice"),
                        "here before",
                        "write each node of a path once: packets would go in a circle",
                    );
                }
            }
            let (first, last) = (path[0], path[path.len() - 1]);
            if let Some(before) = ends.insert((first.min(last), first.max(last)), i) {
                findings.add(
                    here,
                    format!("paths {before} and {i} both join nodes {first} and {last}"),
                    "the second one",
                    "keep one of them: a path is used in both directions",
                );
            }
        }
    }

    fn check_internet(&self, findings: &mut Findings) {
        let Some(internet) = &self.internet else { return };
        check_rate("internet", internet.rate_mbps, findings);
        if self.topology.node_count() == 0 {
            findings.add(
                "internet",
                "the internet is attached to the gateway, but there are no nodes",
                "nothing to be attached to",
                "join hosts with `[[wired.links]]`, or give [topology] nodes",
            );
        }
    }

    fn check_ends(&self, i: usize, entry: &Traffic, findings: &mut Findings) {
        let mut known = true;
        for (key, place) in [("from", entry.from()), ("to", entry.to())] {
            let path = format!("traffic.{i}.{key}");
            let wrong = match place {
                Place::Named(NamedPlace::Broadcast) if key == "from" => Some((
                    "`from` cannot be \"broadcast\"".to_owned(),
                    "nobody sends from there",
                    "write the node that sends; only the `to` of a cbr entry can be \"broadcast\"".to_owned(),
                )),
                Place::Named(NamedPlace::Broadcast) if !matches!(entry, Traffic::Cbr { .. }) => Some((
                    "only cbr traffic can be broadcast".to_owned(),
                    "needs one receiver",
                    "write the node that receives, or kind = \"cbr\"".to_owned(),
                )),
                _ => self.unknown_place(key, place),
            };
            if let Some((message, label, help)) = wrong {
                known = false;
                findings.add(path, message, label, help);
            }
        }
        if !known {
            return;
        }
        let to = format!("traffic.{i}.to");
        match (self.resolve_place(entry.from()), self.resolve_place(entry.to())) {
            (Endpoint::Internet | Endpoint::Host(_), Endpoint::Broadcast) => findings.add(
                to,
                "only nodes can broadcast: a wired host has no radio",
                "has no neighbours",
                "send from a node, as in from = \"gateway\"",
            ),
            (from, end) if from == end => {
                let place = match end {
                    Endpoint::Node(node) => format!("node {node}"),
                    Endpoint::Internet | Endpoint::Broadcast => "the internet".to_owned(),
                    Endpoint::Host(host) => {
                        self.wired_hosts().get(host).map_or_else(String::new, |host| host.name.to_string())
                    }
                };
                let gateway = [entry.from(), entry.to()].contains(&Place::Named(NamedPlace::Gateway));
                let note = if gateway { ", the gateway" } else { "" };
                findings.add(
                    to,
                    format!("`from` and `to` are the same, {place}{note}"),
                    "the sender itself",
                    "choose another node",
                );
            }
            _ => {}
        }
    }

    fn check_flow_times(&self, i: usize, entry: &Traffic, findings: &mut Findings) {
        let (start, stop) = entry.times();
        if start >= self.duration_s {
            findings.add(
                format!("traffic.{i}.start_s"),
                format!("`start_s` is {start}, but the run ends at {} s", self.duration_s),
                "would never start",
                "start it earlier or make `duration_s` longer; count = 0 turns an entry off",
            );
        } else if let Some(stop) = stop.filter(|stop| *stop <= start) {
            findings.add(
                format!("traffic.{i}.stop_s"),
                format!("`stop_s` is {stop}, not after `start_s` = {start}"),
                "would stop before it starts",
                "both count from the start of the run; count = 0 turns an entry off",
            );
        }
    }

    /// What the disciplines need, and that no queue is too small for one packet: it would drop them all.
    fn check_queues(&self, findings: &mut Findings) {
        let outside = Place::Named(NamedPlace::Internet);
        let largest = |wired: bool| {
            let uses = |t: &&Traffic| t.count() > 0 && (!wired || t.from() == outside || t.to() == outside);
            self.traffic.iter().filter(uses).max_by_key(|t| t.largest_packet_bytes())
        };
        let queues = [
            ("mac.queue", "every node", Some(&self.mac.queue), largest(false)),
            ("internet.queue", "the wired link", self.internet.as_ref().map(|i| &i.queue), largest(true)),
        ];
        for (path, owner, queue, largest) in queues {
            let Some(queue) = queue else { continue };
            check_queue(path, queue, findings);
            if let ((None, Some(bytes)), Some(entry)) = (queue.limits(), largest)
                && bytes < entry.largest_packet_bytes()
            {
                let packet = entry.largest_packet_bytes();
                findings.add(
                    format!("{path}.bytes"),
                    format!(
                        "the queue of {owner} holds {bytes} bytes, less than one packet of `{}` ({packet} bytes)",
                        entry.base_name()
                    ),
                    "smaller than a packet",
                    format!("make it at least {packet}, or count in packets: queue = {{ packets = 50 }}"),
                );
            }
        }
    }

    fn check_names(&self, findings: &mut Findings) {
        let mut named: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        let mut flows = 0;
        for (i, entry) in self.traffic.iter().enumerate() {
            let name = entry.base_name();
            let given = entry.has_name();
            if name.trim().is_empty() {
                findings.add(
                    format!("traffic.{i}.name"),
                    "`name` is empty",
                    "no name",
                    "name the flow, or leave `name` out",
                );
            } else if let Some((first, was_given)) = named.get(name)
                && (given || *was_given)
            {
                let (path, why) = if given { (i, "") } else { (*first, ", the name of entries without one") };
                findings.add(
                    format!("traffic.{path}.name"),
                    format!("traffic {first} and {i} are both called \"{name}\"{why}"),
                    "taken",
                    "give each entry a name of its own, so that results can be told apart",
                );
            }
            named.entry(name).or_insert((i, given));
            let before = flows;
            flows += u64::from(entry.count());
            if before <= MAX_FLOWS && flows > MAX_FLOWS {
                findings.add(
                    format!("traffic.{i}.count"),
                    format!("there are {flows} flows up to here; at most {MAX_FLOWS} can be simulated"),
                    "too many",
                    "make `count` smaller",
                );
            }
        }
    }
}

/// The parameters of one queue.
pub(super) fn check_queue(path: &str, queue: &Queue, findings: &mut Findings) {
    match queue.limits() {
        (Some(_), Some(_)) => findings.add(
            format!("{path}.bytes"),
            "`queue` has `packets` and `bytes` together",
            "one too many",
            "keep one of them",
        ),
        (None, None) => findings.add(
            path,
            "`queue` does not say how much it holds",
            "no limit",
            "add `packets = 50`, or a number of `bytes`",
        ),
        _ => {}
    }
    if let Queue::Red { min_packets, max_packets, .. } = queue
        && let (Some(min), Some(max)) = (min_packets, max_packets)
        && max <= min
    {
        findings.add(
            format!("{path}.max_packets"),
            format!("`max_packets` is {max}, not more than `min_packets` = {min}"),
            "the wrong way round",
            format!("make it larger: three times `min_packets`, {}, is usual", 3.0 * min),
        );
    } else if let Queue::Red { min_packets: None, max_packets: Some(_), .. } = queue {
        findings.add(
            format!("{path}.max_packets"),
            "`max_packets` without `min_packets`",
            "half of a pair",
            "add `min_packets`, a third of it is usual, or leave both out",
        );
    }
    if let Queue::Codel { target_ms, interval_ms, .. }
    | Queue::FqCodel { target_ms, interval_ms, .. }
    | Queue::Cake { target_ms, interval_ms, .. } = queue
        && target_ms >= interval_ms
    {
        findings.add(
            format!("{path}.target_ms"),
            format!("`target_ms` is {target_ms}, not less than `interval_ms` = {interval_ms}"),
            "too long",
            "the target is 5 to 10 % of the interval (RFC 8289)",
        );
    }
}

/// How often the ends of a call report.
fn check_reports(i: usize, entry: &Traffic, findings: &mut Findings) {
    const LEAST_S: f64 = 0.01;
    if let Traffic::Call { rtcp_interval_s, .. } = entry
        && *rtcp_interval_s > 0.0
        && *rtcp_interval_s < LEAST_S
    {
        findings.add(
            format!("traffic.{i}.rtcp_interval_s"),
            format!("a report every {rtcp_interval_s} s would be more than the call itself"),
            "too often",
            format!("write at least {LEAST_S}; 5 is usual (RFC 3550 §6.2), and 0 is none"),
        );
    }
}

/// Sizes and rates of one entry.
fn check_load(i: usize, entry: &Traffic, radio: bool, findings: &mut Findings) {
    let packet = entry.largest_packet_bytes();
    if radio && packet > MAX_IP_BYTES {
        let (key, value) = match entry {
            Traffic::Bulk { mss_bytes, .. }
            | Traffic::Web { mss_bytes, .. }
            | Traffic::Request { mss_bytes, .. } => ("mss_bytes", *mss_bytes),
            Traffic::Quic { datagram_bytes, .. } => ("datagram_bytes", *datagram_bytes),
            Traffic::Cbr { payload_bytes, .. } => ("payload_bytes", *payload_bytes),
            Traffic::Aimd { packet_bytes, .. }
            | Traffic::Burst { packet_bytes, .. }
            | Traffic::Video { packet_bytes, .. } => ("packet_bytes", *packet_bytes),
            Traffic::Call { .. } => ("codec", packet),
        };
        let most = MAX_IP_BYTES - (packet - value);
        findings.add(
            format!("traffic.{i}.{key}"),
            format!("`{key}` = {value} makes packets of {packet} bytes, too large for an 802.11 frame"),
            "too large",
            format!("write at most {most}: an IP packet of {MAX_IP_BYTES} bytes fills the largest frame (MSDU of 2304)"),
        );
    }
    match entry {
        Traffic::Bulk { mss_bytes, receive_buffer_bytes, .. } if receive_buffer_bytes < mss_bytes => findings.add(
            format!("traffic.{i}.receive_buffer_bytes"),
            format!("`receive_buffer_bytes` is {receive_buffer_bytes}, less than one segment of {mss_bytes} bytes"),
            "smaller than a segment",
            format!("make it at least {mss_bytes}, or make `mss_bytes` smaller"),
        ),
        Traffic::Cbr { rate_kbps, payload_bytes: bytes, .. } => check_interval(i, *rate_kbps, *bytes, 1, findings),
        Traffic::Burst { rate_kbps, packet_bytes: bytes, burst_packets, .. } => {
            check_interval(i, *rate_kbps, *bytes, *burst_packets, findings);
        }
        Traffic::Web { size, think, .. } => {
            check_size_law(&format!("traffic.{i}.size"), size, findings);
            check_time_law(&format!("traffic.{i}.think"), think, findings);
        }
        Traffic::Request { response, think, .. } => {
            check_size_law(&format!("traffic.{i}.response"), response, findings);
            check_time_law(&format!("traffic.{i}.think"), think, findings);
        }
        Traffic::Video { rate_kbps, frames_per_s, group_frames, i_to_p, .. } => {
            check_video(i, *rate_kbps, *frames_per_s, *group_frames, *i_to_p, findings);
        }
        Traffic::Call { .. } | Traffic::Bulk { .. } | Traffic::Aimd { .. } | Traffic::Quic { .. } => {}
    }
}

/// Options of TCP that have no meaning beside others.
fn check_tcp(i: usize, entry: &Traffic, findings: &mut Findings) {
    let path = |key: &str| format!("traffic.{i}.{key}");
    if let Traffic::Bulk { tcp: control, hystart: Some(_), .. }
    | Traffic::Quic { controller: control, hystart: Some(_), .. } = entry
        && *control != TcpVariant::Cubic
    {
        let key = if matches!(entry, Traffic::Quic { .. }) { "controller" } else { "tcp" };
        findings.add(
            path("hystart"),
            format!("`hystart` goes with {key} = \"cubic\"; the others end slow start in their own ways"),
            "not used",
            format!("leave it out, or write {key} = \"cubic\""),
        );
    }
    let Traffic::Bulk { tcp, profile, sack, recovery, prr, undo, .. } = entry else { return };
    if !sack && recovery.is_some() {
        findings.add(
            path("recovery"),
            "`recovery` is how losses are found with SACK, but `sack` is false",
            "not used",
            "leave `recovery` out, RFC 6582 holds without SACK; or leave `sack` out",
        );
    } else if !sack && *profile == TcpProfile::Linux {
        findings.add(
            path("sack"),
            "profile = \"linux\" finds losses by RACK-TLP, which needs SACK",
            "taken away",
            "leave `sack` out, or write profile = \"standard\" with the `timestamps`, `rto_min_ms` and `delayed_ack_ms` \
             of Linux",
        );
    }
    let by_time = match recovery {
        Some(recovery) => *recovery == TcpRecovery::RackTlp,
        None => *profile == TcpProfile::Linux,
    };
    if !by_time && (*undo == Some(true) || (undo.is_none() && *profile == TcpProfile::Linux)) {
        let (key, message, help) = if undo.is_some() {
            ("undo", "`undo` goes with RACK-TLP", "add recovery = \"rack-tlp\", or leave `undo` out")
        } else {
            (
                "recovery",
                "profile = \"linux\" undoes needless reductions, which goes with RACK-TLP",
                "leave `recovery` out, or add undo = false",
            )
        };
        findings.add(path(key), message, "losses are not found by time here", help);
    }
    if *prr == Some(true) && *tcp == TcpVariant::Bbr {
        findings.add(
            path("prr"),
            "`prr` spreads a reduction over a round trip, but bbr sets its window by itself",
            "not used",
            "leave `prr` out, or choose another `tcp`",
        );
    }
}

/// The bounds of a Pareto law and the median of a log-normal one must lie below the largest value.
fn check_size_law(path: &str, law: &SizeLaw, findings: &mut Findings) {
    let (key, least, most) = match *law {
        SizeLaw::Fixed { .. } => return,
        SizeLaw::Pareto { least_bytes, most_bytes, .. } => ("least_bytes", least_bytes, most_bytes),
        SizeLaw::LogNormal { median_bytes, most_bytes, .. } => ("median_bytes", median_bytes, most_bytes),
    };
    if least > most {
        findings.add(
            format!("{path}.{key}"),
            format!("`{key}` is {least}, larger than `most_bytes` = {most}"),
            "no size lies between them",
            format!("make `{key}` at most {most}, or `most_bytes` larger; law = \"fixed\" makes all alike"),
        );
    }
}

fn check_time_law(path: &str, law: &TimeLaw, findings: &mut Findings) {
    if let TimeLaw::Pareto { least_s, most_s, .. } = *law
        && least_s > most_s
    {
        findings.add(
            format!("{path}.least_s"),
            format!("`least_s` is {least_s}, larger than `most_s` = {most_s}"),
            "no time lies between them",
            format!("make `least_s` at most {most_s}, or `most_s` larger; law = \"fixed\" makes all alike"),
        );
    }
}

fn check_video(i: usize, rate_kbps: f64, per_s: f64, group: u32, i_to_p: f64, findings: &mut Findings) {
    if group == 1 && i_to_p != 1.0 {
        findings.add(
            format!("traffic.{i}.i_to_p"),
            format!("`i_to_p` is {i_to_p}, but `group_frames` = 1 makes all frames alike"),
            "no frame of the other kind",
            "set `group_frames` to the frames from one I frame to the next, as in group_frames = 12",
        );
    }
    let frame_bytes = rate_kbps * 125.0 / per_s;
    let wrong = if frame_bytes < 1.0 {
        Some(("less than a byte", "too slow"))
    } else if frame_bytes > MAX_VIDEO_FRAME_BYTES {
        Some(("more than 10 MB", "too fast"))
    } else {
        None
    };
    if let Some((why, label)) = wrong {
        findings.add(
            format!("traffic.{i}.rate_kbps"),
            format!("`rate_kbps` is {rate_kbps}: at {per_s} frames a second, a frame would have {why}"),
            label,
            "`rate_kbps` is in kb/s: 500 is a usual value",
        );
    }
}

/// At less than a bit a second a large burst would come after the end of the clock (2^63 ns); packets nearer than a
/// nanosecond cannot be told apart by it.
fn check_interval(i: usize, rate_kbps: f64, bytes: u32, packets: u32, findings: &mut Findings) {
    let interval_ns = f64::from(bytes) * 8.0 * f64::from(packets) / (rate_kbps * 1e3) * 1e9;
    let wrong = if rate_kbps < 0.001 {
        Some(("less than a bit a second", "too slow"))
    } else if interval_ns < 1.0 {
        Some(("packets would be less than a nanosecond apart", "too fast"))
    } else {
        None
    };
    if let Some((why, label)) = wrong {
        findings.add(
            format!("traffic.{i}.rate_kbps"),
            format!("`rate_kbps` is {rate_kbps}: {why}"),
            label,
            "`rate_kbps` is in kb/s: 100 is a usual value",
        );
    }
}

/// At less than a bit a second the next packet would come after the end of the clock.
pub(super) fn check_pace(path: &str, rate_kbps: f64, findings: &mut Findings) {
    if rate_kbps < 0.001 {
        let key = path.rsplit('.').next().unwrap_or(path);
        findings.add(
            path,
            format!("`{key}` is {rate_kbps}: less than a bit a second"),
            "too slow",
            format!("`{key}` is in kb/s: 500 is a usual value"),
        );
    }
}

pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn add(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.0.push(Finding::new(path, message, label, help));
    }
}

fn plural(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

pub(super) fn nodes_are(nodes: usize) -> String {
    match nodes {
        0 => "the topology has no nodes".into(),
        1 => "the topology has one node, number 0".into(),
        _ => format!("the topology has {nodes} nodes, numbered 0 to {}", nodes - 1),
    }
}

pub(super) fn rates(standard: Standard) -> String {
    let rates: Vec<_> = standard.rates().iter().copied().map(Rate::mbps).map(|r| r.to_string()).collect();
    match rates.split_last() {
        Some((last, first)) => format!("{} and {last} Mb/s", first.join(", ")),
        None => "none".into(),
    }
}
