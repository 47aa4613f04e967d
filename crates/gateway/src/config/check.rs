//! What the types of a config cannot express.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use fairhop_config::Findings;
use fairhop_config::control::GatewayControl;
use fairhop_control::Network;

use super::{Config, ProbeSetting};

/// Largest TCP segment over Ethernet (RFC 879).
const SEGMENT: u32 = 1460;

impl Config {
    /// The errors of a config whose keys and ranges are right.
    pub(super) fn findings(&self) -> Findings {
        let mut findings = Findings::default();
        self.check_gateways(&mut findings);
        if let Some(control) = &self.control {
            check_control("control", control, &mut findings);
        }
        for (index, host) in self.host.iter().enumerate() {
            check_network(&format!("host.{index}.network"), &host.network, &mut findings);
        }
        for (index, region) in self.region.iter().enumerate() {
            if region.networks.is_empty() {
                findings.add(
                    format!("region.{index}.networks"),
                    "no network: nothing passes through this region",
                    "an empty list",
                    "name the hosts whose packets pass through it, or remove the region",
                );
            }
            for (place, network) in region.networks.iter().enumerate() {
                check_network(&format!("region.{index}.networks.{place}"), network, &mut findings);
            }
        }
        for (index, network) in self.voice.networks.iter().enumerate() {
            check_network(&format!("voice.networks.{index}"), network, &mut findings);
        }
        if self.voice.kbps_per_call > self.voice.kbps_per_host {
            findings.add(
                "voice.kbps_per_call",
                "`kbps_per_call` is above `kbps_per_host`: no host could have such a call",
                "above the rate of a host",
                "make `kbps_per_host` larger",
            );
        }
        let listen = &self.api.listen;
        if !listen.is_empty() && listen.parse::<SocketAddr>().is_err() {
            findings.add(
                "api.listen",
                format!("`{listen}` is not an address with a port"),
                "not an address",
                "write an IP address and a port, as in \"127.0.0.1:9470\" or \"[::1]:9470\"",
            );
        }
        findings
    }

    fn check_gateways(&self, findings: &mut Findings) {
        if self.gateway.is_empty() {
            findings.add(
                "gateway",
                "there is no gateway",
                "no entry",
                "add [[gateway]] with mesh = \"…\", the interface to the mesh",
            );
        }
        let (mut names, mut interfaces) = (BTreeSet::new(), BTreeSet::new());
        for (index, gateway) in self.gateway.iter().enumerate() {
            let path = format!("gateway.{index}");
            check_interface(&format!("{path}.mesh"), &gateway.mesh, findings);
            if let Some(wired) = &gateway.wired {
                check_interface(&format!("{path}.wired"), wired, findings);
            }
            self.check_wired(index, findings);
            for (place, network) in gateway.local.iter().enumerate() {
                check_network(&format!("{path}.local.{place}"), network, findings);
            }
            if let Some(probe) = &gateway.probe {
                check_probe(&format!("{path}.probe"), probe, findings);
            }
            if !interfaces.insert(&gateway.mesh) {
                findings.add(
                    format!("{path}.mesh"),
                    format!("two gateways have the interface {}", gateway.mesh),
                    "the second one",
                    "keep one of them",
                );
            }
            let name = gateway.name();
            if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
                || name.starts_with('.')
            {
                findings.add(
                    format!("{path}.name"),
                    "the name is also that of a file",
                    "not a file name",
                    "use letters, digits, `-` and `_`",
                );
            } else if !names.insert(name.to_owned()) {
                findings.add(
                    format!("{path}.name"),
                    format!("two gateways are called {name}"),
                    "the second one",
                    "give each its own `name`",
                );
            }
            if let Some(control) = &gateway.control {
                check_control(&format!("{path}.control"), control, findings);
            }
        }
    }

    /// An interface has one root queue, and filters with fixed names: a second gateway on it would remove those of the first one.
    fn check_wired(&self, index: usize, findings: &mut Findings) {
        let gateway = &self.gateway[index];
        let Some(wired) = &gateway.wired else { return };
        let path = format!("gateway.{index}.wired");
        if *wired == gateway.mesh {
            findings.add(
                path,
                format!("`wired` and `mesh` are both {wired}"),
                "the same interface",
                "name the interface to the Internet, or leave `wired` out",
            );
            return;
        }
        let others = || self.gateway.iter().enumerate().filter(|(other, _)| *other != index);
        if let Some((_, other)) = others().find(|(_, other)| other.mesh == *wired) {
            findings.add(
                path,
                format!("{wired} is `mesh` of the gateway {}", other.name()),
                "an interface has the queues of one gateway",
                "leave `wired` out here: only control \"ack-pacing\" needs it",
            );
        } else if let Some((_, other)) =
            others().find(|(other, at)| *other < index && at.wired.as_ref() == Some(wired))
        {
            findings.add(
                path,
                format!("{wired} is `wired` of the gateway {}, too", other.name()),
                "an interface has the queues of one gateway",
                "leave `wired` out of one of the two: only control \"ack-pacing\" needs it",
            );
        }
    }
}

/// An interface's name as the kernel has it (`dev_valid_name`).
fn check_interface(path: &str, name: &str, findings: &mut Findings) {
    let is_valid = name.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '/' | ':'));
    if !is_valid || matches!(name, "" | "." | "..") {
        findings.add(
            path,
            format!("`{name}` cannot be the name of an interface"),
            "not a name of an interface",
            "`ip link` lists the interfaces",
        );
    }
}

fn check_probe(path: &str, probe: &ProbeSetting, findings: &mut Findings) {
    const MAX: usize = 16;
    let hosts = &probe.hosts;
    if hosts.is_empty() && !probe.calls {
        findings.add(
            path,
            "no host is to be probed",
            "neither `hosts` nor `calls`",
            format!(
                "name 1 to {MAX} `hosts`, or write `calls = true` for the hosts of calls without reports"
            ),
        );
    }
    if hosts.len() > MAX {
        findings.add(
            format!("{path}.hosts"),
            format!("{} hosts are to be probed", hosts.len()),
            "not a number of hosts",
            format!("name at most {MAX} of them; each takes as much air as a call, or half of it at 40 ms"),
        );
    }
    let mut known = BTreeSet::new();
    for (place, host) in hosts.iter().enumerate() {
        let path = format!("{path}.hosts.{place}");
        match host.parse::<IpAddr>() {
            Ok(address) if !known.insert(address) => findings.add(
                path,
                format!("{host} is probed already"),
                "the second time",
                "name each host once",
            ),
            Ok(_) => {}
            Err(_) => findings.add(
                path,
                format!("`{host}` is not an address"),
                "not an address",
                "write the address of one host of the mesh, as in \"10.1.0.4\"",
            ),
        }
    }
}

fn check_network(path: &str, text: &str, findings: &mut Findings) {
    if Network::read(text).is_none() {
        findings.add(
            path,
            format!("`{text}` is not a network"),
            "not a network",
            "write an address, or a network with the length of its prefix, as in \"10.1.0.0/16\"",
        );
    }
}

fn check_control(path: &str, control: &GatewayControl, findings: &mut Findings) {
    control.check(path, SEGMENT, findings);
    let why = match control {
        GatewayControl::Shaper { .. } => "Linux has it already: `tc qdisc` with `tbf`, `fq_codel` or `cake`",
        GatewayControl::Throttle { .. } | GatewayControl::Priority { .. } => {
            "it works in every node of the mesh, and this is only its gateway"
        }
        _ => return,
    };
    findings.add(
        format!("{path}.kind"),
        format!("\"{}\" is a control of scenarios, not of a gateway", control.kind()),
        "not possible here",
        format!("{why}; choose \"adaptive\", \"window\", \"data-pacing\", \"ack-pacing\" or \"combined\""),
    );
}
