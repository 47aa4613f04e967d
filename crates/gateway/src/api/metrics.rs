//! The status as text for Prometheus (exposition format 0.0.4).
//!
//! Written here instead of with a library: all values come from one [`Status`], calls come and go with every scrape, and a
//! registry would have to be filled and emptied each time.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::Shared;
use crate::record::STATES;
use crate::status::{CallStatus, DirectionStatus, GatewayStatus, Status};

/// Requests that were answered, and those that were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// All.
    pub answered: u64,
    /// With an error.
    pub refused: u64,
}

/// The counts of requests.
pub fn requests(shared: &Shared) -> Requests {
    Requests {
        answered: shared.requests.load(Ordering::Relaxed),
        refused: shared.refused.load(Ordering::Relaxed),
    }
}

/// A family of samples.
struct Family<'t> {
    text: &'t mut String,
    name: &'static str,
}

impl<'t> Family<'t> {
    fn new(text: &'t mut String, name: &'static str, kind: &str, help: &str) -> Self {
        // A string cannot fail to take text.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Self { text, name }
    }

    fn gauge(text: &'t mut String, name: &'static str, help: &str) -> Self {
        Self::new(text, name, "gauge", help)
    }

    fn counter(text: &'t mut String, name: &'static str, help: &str) -> Self {
        Self::new(text, name, "counter", help)
    }

    fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(self.name);
        for (place, (name, label)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"{}\"", escaped(label));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// All metrics.
pub fn render(status: &Status, requests: &Requests) -> String {
    let mut text = String::with_capacity(16 << 10);
    let t = &mut text;
    Family::gauge(t, "fairhop_info", "Version of the program and mode; always 1.")
        .add(&[("version", &status.version), ("mode", &status.mode)], 1.0);
    Family::gauge(t, "fairhop_uptime_seconds", "Seconds since the daemon started.").add(&[], status.uptime_s);
    Family::counter(t, "fairhop_reloads_total", "Times that the config was reloaded.")
        .add(&[], status.reloads as f64);
    Family::counter(t, "fairhop_reloads_refused_total", "Times that a new config was refused.")
        .add(&[], status.reloads_refused as f64);
    Family::counter(t, "fairhop_api_requests_total", "Requests that were answered.")
        .add(&[], requests.answered as f64);
    Family::counter(t, "fairhop_api_refused_total", "Requests that were answered with an error.")
        .add(&[], requests.refused as f64);
    controller(t, status);
    calls(t, status);
    flows(t, status);
    datapath(t, status);
    text
}

/// One sample for each gateway that has the value.
fn each(
    text: &mut String,
    status: &Status,
    name: &'static str,
    help: &str,
    of: impl Fn(&GatewayStatus) -> Option<f64>,
) {
    let mut family = Family::gauge(text, name, help);
    for gateway in &status.gateways {
        if let Some(value) = of(gateway) {
            family.add(&[("gateway", &gateway.name)], value);
        }
    }
}

/// As [`each`], for counts.
fn count(
    text: &mut String,
    status: &Status,
    name: &'static str,
    help: &str,
    of: impl Fn(&GatewayStatus) -> u64,
) {
    let mut family = Family::counter(text, name, help);
    for gateway in &status.gateways {
        family.add(&[("gateway", &gateway.name)], of(gateway) as f64);
    }
}

fn controller(t: &mut String, status: &Status) {
    let bits = |kbps: Option<f64>| kbps.map(|kbps| kbps * 1e3);
    each(t, status, "fairhop_up", "1 while the datapath works.", |g| {
        Some(f64::from(u8::from(g.fault.is_none())))
    });
    let mut states = Family::gauge(t, "fairhop_controller_state", "1 for the state of the controller.");
    for gateway in &status.gateways {
        for state in STATES {
            let is_now = gateway.decision.state == state.name();
            let labels = [("gateway", gateway.name.as_str()), ("state", state.name())];
            states.add(&labels, f64::from(u8::from(is_now)));
        }
    }
    let mut reasons = Family::gauge(t, "fairhop_controller_reason", "1 for the reason of the last decision.");
    for gateway in &status.gateways {
        reasons.add(&[("gateway", &gateway.name), ("reason", &gateway.decision.reason)], 1.0);
    }
    each(t, status, "fairhop_budget_bits_per_second", "Budget of elastic flows times hops.", |g| {
        bits(g.decision.budget_kbps)
    });
    each(t, status, "fairhop_rate_bits_per_second", "Rate of elastic packets into the mesh.", |g| {
        bits(g.decision.down_kbps)
    });
    each(t, status, "fairhop_ack_rate_bits_per_second", "Rate of acknowledged data.", |g| {
        bits(g.decision.acks_kbps)
    });
    each(t, status, "fairhop_window_bytes", "Smallest window in force.", |g| {
        g.decision.window_bytes.map(f64::from)
    });
    each(t, status, "fairhop_gate_active", "1 while a gate is in force.", |g| {
        Some(f64::from(u8::from(g.decision.gate)))
    });
    each(t, status, "fairhop_pacer_packets", "Packets that wait in the pacer.", |g| {
        Some(f64::from(g.decision.waiting))
    });
}

fn calls(t: &mut String, status: &Status) {
    each(t, status, "fairhop_calls", "Calls.", |g| Some(g.calls.len() as f64));
    each(t, status, "fairhop_calls_good", "Calls with a MOS of at least 3.6 over the last second.", |g| {
        Some(g.calls.iter().filter(|call| call.mos.is_some_and(|mos| mos >= 3.6)).count() as f64)
    });
    each(
        t,
        status,
        "fairhop_calls_inferred",
        "Calls whose quality into the mesh is inferred, as no report shows it.",
        |g| Some(g.inferred_calls() as f64),
    );
    let mut mos =
        Family::gauge(t, "fairhop_call_mos", "MOS of a call's worse direction over the last second.");
    for (gateway, call) in of_all(status) {
        if let Some(value) = call.mos {
            mos.add(&labels(gateway, call), value);
        }
    }
    type Of = fn(&DirectionStatus) -> f64;
    let figures: [(&'static str, &str, Of); 4] = [
        ("fairhop_call_loss_ratio", "Fraction of a call's packets lost over the last second.", |d| d.loss),
        ("fairhop_call_late_ratio", "Fraction of a call's packets too late to be played.", |d| d.late),
        ("fairhop_call_delay_seconds", "Mean delay over the fastest packet.", |d| d.delay_ms / 1e3),
        ("fairhop_call_jitter_seconds", "Jitter of RFC 3550.", |d| d.jitter_ms / 1e3),
    ];
    for (name, help, of) in figures {
        let mut family = Family::gauge(t, name, help);
        for (gateway, call) in of_all(status) {
            for (direction, figures) in directions(call) {
                if let Some(figures) = figures {
                    let [a, b, c] = labels(gateway, call);
                    family.add(&[a, b, c, ("direction", direction)], of(figures));
                }
            }
        }
    }
    let figures: [(&'static str, &str, Of); 2] = [
        (
            "fairhop_probe_loss_ratio",
            "Fraction of a probe's requests without a reply in time over the last second.",
            |d| d.loss + d.late,
        ),
        ("fairhop_probe_delay_seconds", "Mean round trip of a probe over the fastest one.", |d| {
            d.delay_ms / 1e3
        }),
    ];
    for (name, help, of) in figures {
        let mut family = Family::gauge(t, name, help);
        for gateway in &status.gateways {
            for probe in &gateway.probes {
                if let Some(found) = &probe.round_trip {
                    family.add(&[("gateway", &gateway.name), ("host", &probe.host)], of(found));
                }
            }
        }
    }
    count(
        t,
        status,
        "fairhop_distrusted_flows_total",
        "Flows whose RTP is not trusted, since the start.",
        |g| g.distrusted_total,
    );
    each(t, status, "fairhop_distrusted_flows", "Flows whose RTP is not trusted now.", |g| {
        Some(g.distrusted.len() as f64)
    });
}

fn of_all(status: &Status) -> impl Iterator<Item = (&GatewayStatus, &CallStatus)> {
    status.gateways.iter().flat_map(|gateway| gateway.calls.iter().map(move |call| (gateway, call)))
}

fn directions(call: &CallStatus) -> [(&'static str, &Option<DirectionStatus>); 3] {
    [("from-mesh", &call.up), ("from-mesh-heard", &call.heard), ("to-mesh", &call.down)]
}

fn labels<'s>(gateway: &'s GatewayStatus, call: &'s CallStatus) -> [(&'static str, &'s str); 3] {
    [("gateway", &gateway.name), ("mesh", &call.mesh), ("wired", &call.wired)]
}

fn flows(t: &mut String, status: &Status) {
    each(t, status, "fairhop_flows", "Flows that are known.", |g| Some(g.known_flows as f64));
    count(
        t,
        status,
        "fairhop_flows_evicted_total",
        "Flows that were forgotten since the table was full.",
        |g| g.evicted_flows,
    );
    count(t, status, "fairhop_delivered_bytes_total", "TCP payload that was acknowledged.", |g| {
        g.counters.delivered_bytes
    });
    count(t, status, "fairhop_lost_bytes_total", "TCP payload that the mesh lost.", |g| {
        g.counters.lost_bytes
    });
    type Read = fn(&crate::status::ClassStatus) -> u64;
    let per_class: [(&'static str, &str, Read); 2] = [
        ("fairhop_bytes_total", "IP bytes by class and direction.", |class| class.bytes),
        ("fairhop_packets_total", "Packets by class and direction.", |class| class.packets),
    ];
    for (name, help, of) in per_class {
        let mut family = Family::counter(t, name, help);
        for gateway in &status.gateways {
            for class in &gateway.classes {
                let labels =
                    [("gateway", &*gateway.name), ("class", &*class.class), ("direction", &*class.direction)];
                family.add(&labels, of(class) as f64);
            }
        }
    }
}

fn datapath(t: &mut String, status: &Status) {
    let mut info = Family::gauge(t, "fairhop_datapath_info", "How programs are attached and packets paced.");
    for gateway in &status.gateways {
        let datapath = &gateway.datapath;
        let labels = [
            ("gateway", &*gateway.name),
            ("attachment", &*datapath.attachment),
            ("pacing", &*datapath.pacing),
            ("control", &*gateway.control),
        ];
        info.add(&labels, 1.0);
    }
    count(t, status, "fairhop_digests_total", "Digests from the datapath.", |g| g.counters.digests);
    count(t, status, "fairhop_digests_lost_total", "Digests for which the ring buffer had no room.", |g| {
        g.counters.digests_lost
    });
    count(t, status, "fairhop_digests_invalid_total", "Digests that were invalid.", |g| {
        g.counters.digests_invalid
    });
    count(t, status, "fairhop_windows_clamped_total", "Windows that were lowered.", |g| g.counters.clamped);
    count(
        t,
        status,
        "fairhop_pacer_dropped_total",
        "Packets that a full pacer dropped, and interactive ones that were late.",
        |g| g.counters.dropped,
    );
    count(t, status, "fairhop_packets_unparsed_total", "Packets that could not be parsed and passed.", |g| {
        g.counters.unparsed
    });
    count(
        t,
        status,
        "fairhop_packets_unlimited_total",
        "Packets that passed while no orders were in force.",
        |g| g.counters.unlimited,
    );
    count(t, status, "fairhop_packets_super_total", "Packets of several segments.", |g| {
        g.counters.super_packets
    });
    count(t, status, "fairhop_flows_refused_total", "TCP flows without room in the datapath.", |g| {
        g.counters.flows_refused
    });
    let mut run = Family::counter(
        t,
        "fairhop_programs_run_seconds_total",
        "Time of the programs in the kernel; 0 unless kernel.bpf_stats_enabled is set.",
    );
    for gateway in &status.gateways {
        run.add(&[("gateway", &gateway.name)], gateway.counters.run_s);
    }
    count(t, status, "fairhop_programs_runs_total", "Runs of the programs in the kernel.", |g| {
        g.counters.runs
    });
    let mut queues =
        Family::gauge(t, "fairhop_queue_packets", "Packets in a queue that the gateway has made.");
    for gateway in &status.gateways {
        for queue in &gateway.queues {
            let labels = [
                ("gateway", &*gateway.name),
                ("interface", &*queue.interface),
                ("handle", &*queue.handle),
                ("purpose", &*queue.purpose),
            ];
            queues.add(&labels, f64::from(queue.waiting));
        }
    }
}
