//! Rates, propagation and thresholds of the radio.

use std::collections::BTreeMap;

use fairhop_model::phy::{Preamble, Standard};

use super::super::sections::Scenario;
use super::findings::{nodes_are, plural, rates, repeated};
use crate::radio::{Propagation, RateReach, Reception};
use fairhop_config::Findings;
use fairhop_config::Number;

impl Scenario {
    pub(super) fn check_rates(&self, findings: &mut Findings) {
        let radio = &self.radio;
        let standard = radio.standard;
        let has = || format!("{} has {}", standard.name(), rates(standard));
        if standard.rate(radio.rate_mbps).is_none() {
            findings.add(
                "radio.rate_mbps",
                format!("{} has no rate of {} Mb/s", standard.name(), Number(radio.rate_mbps)),
                "not a rate of the standard",
                has(),
            );
        }
        if let Some(basic) = &radio.basic_rates_mbps {
            let repeated = repeated(basic.iter().map(|rate| rate.to_bits()));
            for (i, rate) in basic.iter().enumerate() {
                let path = format!("radio.basic_rates_mbps.{i}");
                if standard.rate(*rate).is_none() {
                    findings.add(
                        path,
                        format!("{} has no rate of {} Mb/s", standard.name(), Number(*rate)),
                        "not a rate of the standard",
                        has(),
                    );
                } else if repeated.contains(&i) {
                    findings.add(
                        path,
                        format!("the basic rate {rate} is listed twice"),
                        "second time",
                        "keep one of them",
                    );
                }
            }
            if basic.is_empty() {
                findings.add(
                    "radio.basic_rates_mbps",
                    "`basic_rates_mbps` is empty: no ACK could be sent",
                    "no rate",
                    format!("leave it out for the default, or list some; {}", has()),
                );
            } else if basic.iter().all(|rate| *rate > radio.rate_mbps) {
                findings.add(
                    "radio.basic_rates_mbps",
                    format!("every basic rate is faster than `rate_mbps` = {}", radio.rate_mbps),
                    "an ACK must not be faster than its data",
                    "add a basic rate that is not faster than `rate_mbps`",
                );
            }
        }
        if let Some(rate) = radio.broadcast_rate_mbps.filter(|rate| standard.rate(*rate).is_none()) {
            findings.add(
                "radio.broadcast_rate_mbps",
                format!("{} has no rate of {} Mb/s", standard.name(), Number(rate)),
                "not a rate of the standard",
                has(),
            );
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

    /// Rates of single links. Whether their nodes are neighbours is checked by the builder of the network.
    pub(super) fn check_link_rates(&self, findings: &mut Findings) {
        let nodes = self.topology.node_count();
        let mut known = BTreeMap::new();
        for (i, link) in self.radio.rates.iter().enumerate() {
            let path = format!("radio.rates.{i}");
            for (key, node) in [("from", link.from), ("to", link.to)] {
                if node as usize >= nodes {
                    findings.add(
                        format!("{path}.{key}"),
                        format!("`{key}` is node {node}, which does not exist"),
                        "no such node",
                        nodes_are(nodes),
                    );
                }
            }
            self.check_hop_rate(&path, link.from, Some(link.to), link.rate_mbps, findings);
            let directions = [(link.from, link.to), (link.to, link.from)];
            for direction in directions.into_iter().take(1 + usize::from(link.both_ways)) {
                if let Some(first) = known.insert(direction, i).filter(|first| *first != i) {
                    findings.add(
                        path.clone(),
                        format!(
                            "rates {first} and {i} both set the rate from node {} to node {}",
                            direction.0, direction.1
                        ),
                        "second time",
                        "keep one of them; both_ways = true sets both directions",
                    );
                }
            }
        }
    }

    /// The rate of data frames from a node to another, or to all neighbours.
    pub(super) fn check_hop_rate(
        &self,
        path: &str,
        from: u32,
        to: Option<u32>,
        rate_mbps: f64,
        findings: &mut Findings,
    ) {
        if to == Some(from) {
            findings.add(
                format!("{path}.to"),
                format!("`from` and `to` are the same, node {from}"),
                "the sender itself",
                "write a neighbour of `from`",
            );
        }
        let standard = self.radio.standard;
        let path = format!("{path}.rate_mbps");
        if standard.rate(rate_mbps).is_none() {
            findings.add(
                path,
                format!("{} has no rate of {} Mb/s", standard.name(), Number(rate_mbps)),
                "not a rate of the standard",
                format!("{} has {}", standard.name(), rates(standard)),
            );
        } else if let Some(basic) = &self.radio.basic_rates_mbps
            && basic.iter().all(|rate| *rate > rate_mbps)
        {
            findings.add(
                path,
                format!("every basic rate is faster than `rate_mbps` = {rate_mbps}"),
                "an ACK must not be faster than its data",
                "add a basic rate that is not faster",
            );
        }
    }

    pub(super) fn check_propagation(&self, findings: &mut Findings) {
        let radio = &self.radio;
        match &radio.propagation {
            // A frame that is decoded has locked the receiver, and one that locks it makes the medium busy: the radii are
            // nested.
            Propagation::Range { receive_m, carrier_sense_m, preamble_m, reach_m } => {
                self.check_reach(reach_m, preamble_m.unwrap_or(*carrier_sense_m), findings);
                if carrier_sense_m < receive_m {
                    findings.add(
                        "radio.propagation.carrier_sense_m",
                        format!(
                            "`carrier_sense_m` is {}, less than `receive_m` = {}",
                            Number(*carrier_sense_m),
                            Number(*receive_m)
                        ),
                        "frames that are received are sensed",
                        format!(
                            "make it at least {}; the usual radii of ns-2 are 250 and 550",
                            Number(*receive_m)
                        ),
                    );
                } else if let Some(preamble) = preamble_m.filter(|p| p < receive_m || p > carrier_sense_m) {
                    findings.add(
                        "radio.propagation.preamble_m",
                        format!(
                            "`preamble_m` is {}, but must lie between `receive_m` and `carrier_sense_m`",
                            Number(preamble)
                        ),
                        "outside",
                        format!(
                            "choose between {} and {}, or leave it out",
                            Number(*receive_m),
                            Number(*carrier_sense_m)
                        ),
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
                        format!("`{key}` has no effect in the range model, which uses distances only"),
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
                "a frame must be locked before it is decoded",
                format!("make it at most {decode}"),
            );
        }
    }

    /// Reaches of single rates: a frame that is decoded has locked the receiver, so none exceeds the preamble's.
    fn check_reach(&self, reach_m: &[RateReach], preamble_m: f64, findings: &mut Findings) {
        let standard = self.radio.standard;
        let repeated = repeated(reach_m.iter().map(|reach| reach.rate_mbps.to_bits()));
        for (i, RateReach { rate_mbps, receive_m }) in reach_m.iter().enumerate() {
            let path = format!("radio.propagation.reach_m.{i}");
            if standard.rate(*rate_mbps).is_none() {
                findings.add(
                    format!("{path}.rate_mbps"),
                    format!("{} has no rate of {} Mb/s", standard.name(), Number(*rate_mbps)),
                    "not a rate of the standard",
                    format!("{} has {}", standard.name(), rates(standard)),
                );
            } else if repeated.contains(&i) {
                findings.add(
                    path.clone(),
                    format!("the reach of {} Mb/s is listed twice", Number(*rate_mbps)),
                    "second time",
                    "keep one of them",
                );
            }
            if *receive_m > preamble_m {
                findings.add(
                    format!("{path}.receive_m"),
                    format!(
                        "frames of {} Mb/s would be decoded up to {} m, but preambles lock receivers only up to {} m",
                        Number(*rate_mbps),
                        Number(*receive_m),
                        Number(preamble_m)
                    ),
                    "a frame must be locked before it is decoded",
                    format!("make it at most {}, or raise `carrier_sense_m` (and `preamble_m`)", Number(preamble_m)),
                );
            }
        }
        if !reach_m.is_empty() && self.radio.reception == Reception::Sinr {
            findings.add(
                "radio.propagation.reach_m",
                "a reach per rate has no effect under SINR reception, where error rates decide",
                "not used",
                "write reception = \"threshold\", or choose another propagation model",
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
                format!("write {nodes} rows of {nodes} numbers, one row per sender"),
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
                    format!(
                        "the path loss from node {i} to node {j} is {} dB, which would be a gain",
                        Number(*loss)
                    ),
                    "negative",
                    "write the loss in dB as a number from 0 up; 1000 or more means that there is no signal",
                );
            }
        }
    }
}
