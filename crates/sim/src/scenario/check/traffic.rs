//! Ends, times, sizes and rates of traffic.

use std::collections::BTreeMap;

use fairhop_control::digest::Probe;
use fairhop_model::headers;

use super::super::place::{NamedPlace, Place};
use super::super::sections::Scenario;
use super::super::traffic::{
    Aimd, Bulk, Burst, Call, Cbr, Ping, Quic, Real, Request, SizeLaw, TcpProfile, TcpRecovery, TcpVariant,
    TimeLaw, Traffic, Video, Web,
};
use super::places::Places;
use fairhop_config::Findings;
use fairhop_config::Number;

/// Maximum number of flows.
const MAX_FLOWS: u64 = 100_000;
/// The largest IP packet that fits into an MSDU of 2304 bytes (IEEE 802.11-2020, 9.2.4.7.1) with LLC and SNAP headers.
const MAX_IP_BYTES: u32 = 2304 - headers::LLC_SNAP;
/// Maximum mean size of a video frame.
const MAX_VIDEO_FRAME_BYTES: f64 = 1e7;

impl Scenario {
    pub(super) fn check_ends(&self, i: usize, entry: &Traffic, places: &Places<'_>, findings: &mut Findings) {
        let mut known = true;
        for (key, place) in [("from", entry.from()), ("to", entry.to())] {
            let path = format!("traffic.{i}.{key}");
            let wrong = match place {
                Place::Named(NamedPlace::Broadcast) if key == "from" => Some((
                    "`from` cannot be \"broadcast\"".to_owned(),
                    "not a sender",
                    "write the sending node; only the `to` of a cbr entry can be \"broadcast\"".to_owned(),
                )),
                Place::Named(NamedPlace::Broadcast) if !matches!(entry, Traffic::Cbr(_)) => Some((
                    "only cbr traffic can be broadcast".to_owned(),
                    "needs one receiver",
                    "write the receiving node, or kind = \"cbr\"".to_owned(),
                )),
                _ => places.unknown(key, place, findings.is_full()),
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
        let wired = matches!(entry.from(), Place::Named(NamedPlace::Internet) | Place::Host(_));
        if wired && entry.to() == Place::Named(NamedPlace::Broadcast) {
            findings.add(
                to,
                "only nodes can broadcast: a wired host has no radio",
                "has no neighbours",
                "send from a node, as in from = \"gateway\"",
            );
        } else if places.plain(entry.from()) == places.plain(entry.to()) {
            let place = match places.plain(entry.to()) {
                Place::Node(node) => format!("node {node}"),
                Place::Host(name) => name.to_string(),
                Place::Named(_) => "the internet".to_owned(),
            };
            let note = [(NamedPlace::Gateway, ", the gateway"), (NamedPlace::Last, ", the last one")]
                .into_iter()
                .filter(|(named, _)| [entry.from(), entry.to()].contains(&Place::Named(*named)))
                .map(|(_, note)| note)
                .collect::<String>();
            findings.add(
                to,
                format!("`from` and `to` are the same, {place}{note}"),
                "the sender itself",
                "choose another node",
            );
        } else if let Traffic::Ping(Ping { probe: true, .. }) = entry {
            self.check_ends_of_probe(i, entry, places, findings);
        }
    }

    /// A probe goes from a gateway into its mesh; any other ping would silently be none.
    fn check_ends_of_probe(&self, i: usize, entry: &Traffic, places: &Places<'_>, findings: &mut Findings) {
        let is_gateway = matches!(places.plain(entry.from()), Place::Node(node) if self.topology.gateways().contains(&node));
        if !is_gateway {
            findings.add(
                format!("traffic.{i}.from"),
                "only a gateway sends probes: its controller judges them",
                "no gateway",
                "write from = \"gateway\", or leave `probe` out for an ordinary ping",
            );
        } else if !matches!(places.plain(entry.to()), Place::Node(_)) {
            findings.add(
                format!("traffic.{i}.to"),
                "a probe of a host outside the mesh does not cross the mesh",
                "not a node",
                "write a node near the calls, as in to = \"last\"",
            );
        }
    }

    pub(super) fn check_flow_times(&self, i: usize, entry: &Traffic, findings: &mut Findings) {
        let (start, stop) = entry.times();
        if start >= self.duration_s {
            findings.add(
                format!("traffic.{i}.start_s"),
                format!("`start_s` is {}, but the run ends at {} s", Number(start), Number(self.duration_s)),
                "never starts",
                "start it earlier or make `duration_s` longer; count = 0 disables an entry",
            );
        } else if let Some(stop) = stop.filter(|stop| *stop <= start) {
            findings.add(
                format!("traffic.{i}.stop_s"),
                format!("`stop_s` is {}, not after `start_s` = {}", Number(stop), Number(start)),
                "stops before it starts",
                "both are measured from the start of the run; count = 0 disables an entry",
            );
        }
    }

    pub(super) fn check_names(&self, findings: &mut Findings) {
        let mut named: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        let mut flows = 0;
        for (i, entry) in self.traffic.iter().enumerate() {
            let name = entry.base_name();
            let given = entry.common().name.is_some();
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
                    "give each entry its own name, so that results can be distinguished",
                );
            }
            named.entry(name).or_insert((i, given));
            let before = flows;
            flows += u64::from(entry.count());
            if before <= MAX_FLOWS && flows > MAX_FLOWS {
                findings.add(
                    format!("traffic.{i}.count"),
                    format!("there are {flows} flows up to this entry; at most {MAX_FLOWS} can be simulated"),
                    "too many",
                    "make `count` smaller",
                );
            }
        }
    }
}

/// RTCP interval of a call.
pub(super) fn check_reports(i: usize, entry: &Traffic, findings: &mut Findings) {
    const MIN_S: f64 = 0.01;
    if let Traffic::Call(Call { rtcp_interval_s, opaque: true, .. }) = entry
        && *rtcp_interval_s > 0.0
    {
        findings.add(
            format!("traffic.{i}.rtcp_interval_s"),
            "a call of an unknown protocol has no RTCP".to_owned(),
            "not with `opaque`",
            "leave it out, or leave `opaque` out".to_owned(),
        );
    }
    if let Traffic::Call(Call { rtcp_interval_s, .. }) = entry
        && *rtcp_interval_s > 0.0
        && *rtcp_interval_s < MIN_S
    {
        findings.add(
            format!("traffic.{i}.rtcp_interval_s"),
            format!(
                "a report every {} s would need more capacity than the call itself",
                Number(*rtcp_interval_s)
            ),
            "too short",
            format!("write at least {MIN_S}; 5 is usual (RFC 3550 §6.2), and 0 disables reports"),
        );
    }
}

/// Sizes and rates of one entry.
pub(super) fn check_load(i: usize, entry: &Traffic, radio: bool, findings: &mut Findings) {
    let packet = entry.largest_packet_bytes();
    if radio && packet > MAX_IP_BYTES {
        let (key, value) = match entry {
            Traffic::Bulk(Bulk { mss_bytes, .. })
            | Traffic::Web(Web { mss_bytes, .. })
            | Traffic::Request(Request { mss_bytes, .. }) => ("mss_bytes", *mss_bytes),
            Traffic::Quic(Quic { datagram_bytes, .. }) => ("datagram_bytes", *datagram_bytes),
            Traffic::Cbr(Cbr { payload_bytes, .. }) => ("payload_bytes", *payload_bytes),
            Traffic::Aimd(Aimd { packet_bytes, .. })
            | Traffic::Burst(Burst { packet_bytes, .. })
            | Traffic::Ping(Ping { packet_bytes, .. })
            | Traffic::Video(Video { packet_bytes, .. }) => ("packet_bytes", *packet_bytes),
            Traffic::Call(_) => ("codec", packet),
            Traffic::Real(_) => return,
        };
        let max = MAX_IP_BYTES - (packet - value);
        findings.add(
            format!("traffic.{i}.{key}"),
            format!("`{key}` = {value} makes packets of {packet} bytes, too large for an 802.11 frame"),
            "too large",
            format!("write at most {max}: an IP packet of {MAX_IP_BYTES} bytes fills the largest frame (MSDU of 2304)"),
        );
    }
    match entry {
        Traffic::Bulk(Bulk { mss_bytes, receive_buffer_bytes, .. }) if receive_buffer_bytes < mss_bytes => findings.add(
            format!("traffic.{i}.receive_buffer_bytes"),
            format!("`receive_buffer_bytes` is {receive_buffer_bytes}, less than one segment of {mss_bytes} bytes"),
            "smaller than a segment",
            format!("make it at least {mss_bytes}, or make `mss_bytes` smaller"),
        ),
        Traffic::Cbr(Cbr { rate_kbps, payload_bytes: bytes, .. }) => check_interval(i, *rate_kbps, *bytes, 1, findings),
        Traffic::Burst(Burst { rate_kbps, packet_bytes: bytes, burst_packets, .. }) => {
            check_interval(i, *rate_kbps, *bytes, *burst_packets, findings);
        }
        Traffic::Web(Web { size, think, .. }) => {
            check_size_law(&format!("traffic.{i}.size"), size, findings);
            check_time_law(&format!("traffic.{i}.think"), think, findings);
        }
        Traffic::Request(Request { response, think, .. }) => {
            check_size_law(&format!("traffic.{i}.response"), response, findings);
            check_time_law(&format!("traffic.{i}.think"), think, findings);
        }
        Traffic::Video(Video { rate_kbps, frames_per_s, group_frames, i_to_p, .. }) => {
            check_video(i, *rate_kbps, *frames_per_s, *group_frames, *i_to_p, findings);
        }
        Traffic::Real(real) => check_commands(i, real, findings),
        Traffic::Ping(ping) => check_probe(i, ping, findings),
        Traffic::Call(_) | Traffic::Bulk(_) | Traffic::Aimd(_) | Traffic::Quic(_) => {}
    }
}

/// A probe has the interval of a call's packets.
fn check_probe(i: usize, ping: &Ping, findings: &mut Findings) {
    let (min, max) = (Probe::MIN_INTERVAL_MS, Probe::MAX_INTERVAL_MS);
    let is_possible = (f64::from(min)..=f64::from(max)).contains(&ping.interval_ms);
    if ping.probe && !(is_possible && ping.interval_ms.fract() == 0.0) {
        findings.add(
            format!("traffic.{i}.interval_ms"),
            format!("a probe with a request every {} ms is not taken for a call", Number(ping.interval_ms)),
            "not the interval of a call",
            format!("write a whole number from {min} to {max}, as in interval_ms = 40"),
        );
    }
}

/// Real traffic consists of commands, and its packets are marked by them.
fn check_commands(i: usize, real: &Real, findings: &mut Findings) {
    if real.command_from.is_none() && real.command_to.is_none() {
        findings.add(
            format!("traffic.{i}"),
            "real traffic without a command sends nothing",
            "no command",
            "write `command_from` or `command_to`, as in command_from = \"ping -c 10 $TO\"",
        );
    }
    if real.dscp.is_some() {
        findings.add(
            format!("traffic.{i}.dscp"),
            "`dscp` has no effect on real traffic",
            "not used",
            "leave it out: programs mark their own packets, as iperf3 does with --dscp",
        );
    }
}

/// TCP options that contradict each other.
pub(super) fn check_tcp(i: usize, entry: &Traffic, findings: &mut Findings) {
    let path = |key: &str| format!("traffic.{i}.{key}");
    if let Traffic::Bulk(Bulk { tcp: control, hystart: Some(_), .. })
    | Traffic::Quic(Quic { controller: control, hystart: Some(_), .. }) = entry
        && *control != TcpVariant::Cubic
    {
        let key = if matches!(entry, Traffic::Quic(_)) { "controller" } else { "tcp" };
        findings.add(
            path("hystart"),
            format!(
                "`hystart` applies only to {key} = \"cubic\"; the other variants have their own slow start"
            ),
            "not used",
            format!("leave it out, or write {key} = \"cubic\""),
        );
    }
    let Traffic::Bulk(Bulk { tcp, profile, sack, recovery, prr, undo, .. }) = entry else { return };
    if !sack && recovery.is_some() {
        findings.add(
            path("recovery"),
            "`recovery` applies only with SACK, but `sack` is false",
            "not used",
            "leave `recovery` out (without SACK, RFC 6582 applies), or leave `sack` out",
        );
    } else if !sack && *profile == TcpProfile::Linux {
        findings.add(
            path("sack"),
            "profile = \"linux\" detects losses by RACK-TLP, which needs SACK",
            "disabled",
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
            ("undo", "`undo` applies only with RACK-TLP", "add recovery = \"rack-tlp\", or leave `undo` out")
        } else {
            (
                "recovery",
                "profile = \"linux\" undoes spurious reductions, which needs RACK-TLP",
                "leave `recovery` out, or add undo = false",
            )
        };
        findings.add(path(key), message, "loss detection is not time-based", help);
    }
    if *prr == Some(true) && *tcp == TcpVariant::Bbr {
        findings.add(
            path("prr"),
            "`prr` spreads a window reduction over a round trip, but bbr has its own window rule",
            "not used",
            "leave `prr` out, or choose another `tcp`",
        );
    }
}

/// The minimum of a Pareto law and the median of a log-normal law must not exceed the maximum.
fn check_size_law(path: &str, law: &SizeLaw, findings: &mut Findings) {
    let (key, min, max) = match *law {
        SizeLaw::Fixed { .. } => return,
        SizeLaw::Pareto { min_bytes, max_bytes, .. } => ("min_bytes", min_bytes, max_bytes),
        SizeLaw::LogNormal { median_bytes, max_bytes, .. } => ("median_bytes", median_bytes, max_bytes),
    };
    if min > max {
        findings.add(
            format!("{path}.{key}"),
            format!("`{key}` is {min}, larger than `max_bytes` = {max}"),
            "empty range",
            format!("make `{key}` at most {max}, or `max_bytes` larger; law = \"fixed\" is a constant size"),
        );
    }
}

fn check_time_law(path: &str, law: &TimeLaw, findings: &mut Findings) {
    if let TimeLaw::Pareto { min_s, max_s, .. } = *law
        && min_s > max_s
    {
        findings.add(
            format!("{path}.min_s"),
            format!("`min_s` is {}, larger than `max_s` = {}", Number(min_s), Number(max_s)),
            "empty range",
            format!(
                "make `min_s` at most {}, or `max_s` larger; law = \"fixed\" is a constant time",
                Number(max_s)
            ),
        );
    }
}

fn check_video(i: usize, rate_kbps: f64, per_s: f64, group: u32, i_to_p: f64, findings: &mut Findings) {
    if group == 1 && i_to_p != 1.0 {
        findings.add(
            format!("traffic.{i}.i_to_p"),
            format!("`i_to_p` is {}, but with `group_frames` = 1 there are only I frames", Number(i_to_p)),
            "no P frames",
            "set `group_frames` to the number of frames from one I frame to the next, as in group_frames = 12",
        );
    }
    let frame_bytes = rate_kbps * 125.0 / per_s;
    let wrong = if frame_bytes < 1.0 {
        Some(("less than a byte", "too low"))
    } else if frame_bytes > MAX_VIDEO_FRAME_BYTES {
        Some(("more than 10 MB", "too high"))
    } else {
        None
    };
    if let Some((why, label)) = wrong {
        findings.add(
            format!("traffic.{i}.rate_kbps"),
            format!(
                "`rate_kbps` is {}: at {} frames per second, a frame would have {why}",
                Number(rate_kbps),
                Number(per_s)
            ),
            label,
            "`rate_kbps` is in kb/s: 500 is a usual value",
        );
    }
}

/// Refuses rates outside the resolution of the clock: below a bit per second the next burst could come after its end (2^63
/// ns), and packets less than a nanosecond apart would coincide.
fn check_interval(i: usize, rate_kbps: f64, bytes: u32, packets: u32, findings: &mut Findings) {
    let interval_ns = f64::from(bytes) * 8.0 * f64::from(packets) / (rate_kbps * 1e3) * 1e9;
    let wrong = if rate_kbps < 0.001 {
        Some(("less than a bit per second", "too low"))
    } else if interval_ns < 1.0 {
        Some(("packets would be less than a nanosecond apart", "too high"))
    } else {
        None
    };
    if let Some((why, label)) = wrong {
        findings.add(
            format!("traffic.{i}.rate_kbps"),
            format!("`rate_kbps` is {}: {why}", Number(rate_kbps)),
            label,
            "`rate_kbps` is in kb/s: 100 is a usual value",
        );
    }
}
