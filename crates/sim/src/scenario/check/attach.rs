//! Attached places: that they exist, once each, and their names and addresses.

use std::collections::BTreeMap;

use super::super::attach::{AttachKind, parse_address};
use super::super::place::{NamedPlace, Place};
use super::super::sections::Scenario;
use super::places::Places;
use fairhop_config::Findings;

/// Maximum length of a name.
const MAX_NAME: usize = 24;

impl Scenario {
    pub(super) fn check_attachments(&self, places: &Places<'_>, findings: &mut Findings) {
        let mut seen = BTreeMap::new();
        for (i, attach) in self.attach.iter().enumerate() {
            let path = |key: &str| format!("attach.{i}.{key}");
            match attach.node {
                Some(Place::Named(NamedPlace::Broadcast)) => findings.add(
                    path("node"),
                    "`node` cannot be \"broadcast\"",
                    "not a place",
                    "write a node, \"internet\" or the name of a wired host; leave `node` out for every node",
                ),
                Some(place) => {
                    if let Some((message, label, help)) = places.unknown("node", place, false) {
                        findings.add(path("node"), message, label, help);
                    }
                }
                None if attach.name.is_some() || !attach.addresses.is_empty() => findings.add(
                    path(if attach.name.is_some() { "name" } else { "addresses" }),
                    "an entry without `node` attaches every node: they cannot share a name or addresses",
                    "not one place",
                    "add `node`, or leave `name` and `addresses` out",
                ),
                None => {}
            }
            let place = attach.node.map(|node| places.plain(node));
            if let Some(first) = seen.insert(place, i) {
                findings.add(
                    path("node"),
                    format!("attach {first} and {i} are the same place"),
                    "attached twice",
                    "remove one of them; an entry can have several addresses",
                );
            }
            for (n, text) in attach.addresses.iter().enumerate() {
                if parse_address(text).is_none() {
                    findings.add(
                        format!("attach.{i}.addresses.{n}"),
                        format!("\"{text}\" is not an address with a prefix length"),
                        "not an address",
                        "write it as \"192.0.2.7/24\" or \"2001:db8::7/64\"",
                    );
                }
            }
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if let Some(name) = &attach.name
                && (name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain))
            {
                findings.add(
                    path("name"),
                    format!("`name` is \"{name}\", which cannot name a network namespace"),
                    "not a name",
                    format!("use up to {MAX_NAME} letters, digits, - and _"),
                );
            }
        }
        if findings.list.is_empty() {
            self.check_resolved_attachments(findings);
        }
    }

    /// What holds between attached places that all exist.
    fn check_resolved_attachments(&self, findings: &mut Findings) {
        let attached = self.attachments();
        let nodes = self.topology.node_count() as u32;
        let (mut names, mut addresses) = (BTreeMap::new(), BTreeMap::new());
        for attachment in &attached {
            let name = &attachment.name;
            if let Some(other) = names.insert(name.clone(), attachment.node) {
                findings.add(
                    "attach",
                    format!("places {other} and {} are both called \"{name}\"", attachment.node),
                    "name taken",
                    "give one of them another `name`",
                );
            }
            for (address, _) in &attachment.addresses {
                if let Some(other) = addresses.insert(*address, attachment.node) {
                    findings.add(
                        "attach",
                        format!("places {other} and {} both have the address {address}", attachment.node),
                        "address taken",
                        "give one of them other `addresses`",
                    );
                }
            }
            if attachment.kind == AttachKind::Link && attachment.node >= nodes {
                findings.add(
                    "attach",
                    format!("\"{name}\" has no radio, so it cannot be attached with kind = \"link\""),
                    "no radio",
                    "attach nodes of the mesh, or write kind = \"edge\"",
                );
            }
        }
        let link = attached.iter().filter(|attachment| attachment.kind == AttachKind::Link).count();
        if link > 0 && link < attached.len() {
            findings.add(
                "attach",
                "some places are attached with kind = \"link\" and some with kind = \"edge\"",
                "mixed",
                "choose one kind: with \"link\" the kernels of all nodes forward, with \"edge\" the simulator does",
            );
        }
        if link > 0 && self.control.is_some() {
            findings.add(
                "attach",
                "with kind = \"link\" the kernels forward packets, and no simulated gateway controls them",
                "control without effect",
                "remove `[control]`, or write kind = \"edge\"",
            );
        }
    }
}
