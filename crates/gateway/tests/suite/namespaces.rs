//! Real TCP through the datapath of the kernel, in namespaces.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fairhop_control::digest::{Digest, Direction, Payload};
use fairhop_control::flow::FlowKey;
use fairhop_control::observer::AckTotals;
use fairhop_control::policy::{Policy, Treatment};
use fairhop_control::raw::RawDigest;
use fairhop_control::{Observer, ObserverConfig};
use fairhop_gateway::datapath::kernel::{Kernel, Settings, clean, now};
use fairhop_gateway::datapath::{AckWeight, Attachment, Datapath, Orders, Pacing, look};
use fairhop_gateway::engine::INTERVAL;
use fairhop_model::units::BitRate;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use crate::network::{Network, Way, attachments, digests, ip};

/// Bytes: a window of about eleven segments.
const WINDOW: u32 = 16_384;
/// A window is rounded up to the unit of its scale (Linux: at most 10 here) where less would move its right edge back. That is
/// once for an ACK in its order, and once more for each ACK that a later one has overtaken.
const UNIT: u32 = 1 << 10;

fn apply(kernel: &mut Kernel, policy: &Policy) {
    kernel.apply(&Orders { policy, datagrams: &[], acks: AckWeight::default() }, now()).unwrap();
}

/// What a sender's own interface saw of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    acked: Option<u32>,
    /// Bytes that were acknowledged.
    moved: u32,
    /// Largest number of bytes in flight.
    in_flight: u32,
    /// ACKs that a later one has overtaken.
    overtaken: u32,
}

fn seen(captured: &[RawDigest], sends: Direction) -> HashMap<FlowKey, Seen> {
    let mut flows: HashMap<FlowKey, Seen> = HashMap::new();
    for digest in captured.iter().map(|raw| Digest::try_from(raw).unwrap()) {
        let Payload::Tcp(tcp) = digest.payload else { continue };
        // A FIN overtakes ACKs that are paced. Those come for a connection that has ended, and are answered by resets.
        if tcp.has(0x04) {
            continue;
        }
        let flow = flows.entry(digest.flow()).or_default();
        if digest.direction == sends {
            let first = *flow.acked.get_or_insert(tcp.seq);
            flow.in_flight = flow.in_flight.max(tcp.seq_end().wrapping_sub(first));
        } else if tcp.has(0x10) {
            let last = flow.acked.get_or_insert(tcp.ack);
            match tcp.ack.wrapping_sub(*last).cast_signed() {
                step @ 1.. => {
                    *last = tcp.ack;
                    flow.moved += step.cast_unsigned();
                }
                0 => {}
                _ => flow.overtaken += 1,
            }
        }
    }
    flows
}

/// Times between full packets into the client, in nanoseconds, ascending.
fn spacings(captured: &[RawDigest]) -> Vec<u64> {
    let full: Vec<u64> = captured
        .iter()
        .filter(|digest| digest.direction == 1 && digest.bytes >= 1400)
        .map(|d| d.at)
        .collect();
    let mut spacings: Vec<u64> = full.windows(2).map(|pair| pair[1] - pair[0]).collect();
    spacings.sort_unstable();
    spacings
}

#[test]
fn tcp_keeps_to_window_and_pace_in_both_directions() {
    tcp_keeps_to_window_and_pace(Pacing::Polling, 1.05);
}

/// ACKs are charged the mean of what they acknowledge, which lags behind: 0.9 to 1.3 times the pace on a loaded machine.
#[test]
fn tcp_keeps_to_window_and_pace_in_classes() {
    tcp_keeps_to_window_and_pace(Pacing::Classes, 2.0);
}

/// Downloads and uploads, IPv4 and IPv6, at once.
fn tcp_keeps_to_window_and_pace(pacing: Pacing, most_uploads: f64) {
    let Some(network) = Network::new() else { return };
    let _server = network.serve();
    let mut kernel = network.datapath(move |settings| settings.pacing = Some(pacing));
    let mut at_server = network.capture(&network.server, "s0");
    let mut at_client = network.capture(&network.client, "c0");
    let pace = BitRate(10_000_000);
    let others = Treatment { window: Some(WINDOW), ..Treatment::default() };
    let policy = Policy { down: Some(pace), up_acks: Some(pace), others, ..Policy::none() };
    apply(&mut kernel, &policy);
    let mut observer = Observer::new(ObserverConfig::default());
    let (mut acks, mut before, mut weighed) = (AckWeight::default(), AckTotals::default(), Instant::now());
    let time = Duration::from_millis(1500);
    let began = Instant::now();
    let flows: Vec<_> =
        [(Way::Download, false), (Way::Download, true), (Way::Upload, false), (Way::Upload, true)]
            .into_iter()
            .map(|(way, is_v6)| (way, is_v6, network.transfer(way, is_v6, time)))
            .collect();
    // Policies expire, and digests that nobody reads are lost.
    let mut captured = [Vec::new(), Vec::new()];
    while flows.iter().any(|(.., flow)| !flow.is_finished()) {
        kernel.apply(&Orders { policy: &policy, datagrams: &[], acks }, now()).unwrap();
        for raw in digests(&mut kernel) {
            observer.on_digest(&Digest::try_from(&raw).unwrap());
        }
        // Once a tick, as the daemon does.
        if weighed.elapsed() >= Duration::from_nanos(INTERVAL.0) {
            weighed = Instant::now();
            let totals = observer.totals().acks_down;
            acks.add(totals.since(before));
            before = totals;
        }
        captured[0].extend(digests(&mut at_server));
        captured[1].extend(digests(&mut at_client));
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed();
    for (way, is_v6, flow) in flows {
        let bytes = flow.join().unwrap();
        assert!(bytes > 50_000, "{way:?}, IPv6 {is_v6}: {bytes} bytes");
    }
    // Flows over IPv6 begin a second later, when addresses are no longer tentative.
    let most = took.as_secs_f64() * pace.0 as f64 / 8.0;
    for (captured, way, bound) in
        [(&captured[0], Way::Download, 1.05), (&captured[1], Way::Upload, most_uploads)]
    {
        let moved: u32 = seen(captured, Direction::ToMesh).values().map(|flow| flow.moved).sum();
        let part = f64::from(moved) / most;
        assert!((0.4..bound).contains(&part), "{way:?}: {part} of the pace");
    }
    for capture in [&mut at_server, &mut at_client] {
        assert_eq!(capture.counters().unwrap().digests_lost, 0);
    }
    // The capture at an interface calls egress "to mesh".
    for captured in &captured {
        let flows = seen(captured, Direction::ToMesh);
        assert_eq!(flows.len(), 4);
        for (key, flow) in flows {
            assert!(flow.in_flight <= WINDOW + UNIT * (1 + flow.overtaken), "{key:?}: {flow:?}");
        }
    }
    for name in [&network.server, &network.gateway, &network.client] {
        assert_eq!(network.checksum_errors(name), 0, "{name}");
    }
    let counters = kernel.counters().unwrap();
    assert!(counters.clamped > 100 && counters.digests_lost == 0, "{counters:?}");
    let queues = kernel.queues().unwrap();
    // The leaf of a class, or the park.
    assert!(queues.iter().any(|queue| queue.kind == "tbf" && queue.sent.packets > 100), "{queues:?}");
}

#[test]
fn classes_space_packets_and_change_their_rate_without_loss() {
    let Some(network) = Network::new() else { return };
    let _server = network.serve();
    let mut kernel = network.datapath(|settings| settings.pacing = Some(Pacing::Classes));
    let mut at_client = network.capture(&network.client, "c0");
    let rate = BitRate(4_000_000);
    let others = Treatment { window: Some(100_000), ..Treatment::default() };
    let policy = Policy { down: Some(rate), others, ..Policy::none() };
    apply(&mut kernel, &policy);
    let flow = network.transfer(Way::Download, false, Duration::from_millis(2500));
    std::thread::sleep(Duration::from_millis(1500));
    let spacings = spacings(&digests(&mut at_client));
    let wanted = rate.time_for(1500).0 as f64;
    let median = spacings[spacings.len() / 2] as f64;
    // The bounds of a machine with other work; bench/gateway measures closely.
    assert!((0.9..1.1).contains(&(median / wanted)), "{median} for {wanted}");
    for change in 0..500_u64 {
        let down = Some(BitRate(4_000_000 + change % 10 * 1_000_000));
        apply(&mut kernel, &Policy { down, ..policy.clone() });
        std::thread::sleep(Duration::from_micros(500));
    }
    flow.join().unwrap();
    let dropped: u64 = kernel.queues().unwrap().iter().map(|queue| queue.dropped).sum();
    assert_eq!((dropped, kernel.counters().unwrap().dropped), (0, 0));
}

/// Receivers with large buffers count windows in units of 1024 bytes, as those of Linux 6.18 do: two units have no room for the second
/// segment that 3000 bytes hold. A sender that hands several segments to its device at once fills the third unit.
#[test]
fn a_window_of_two_segments_has_two_segments_in_flight() {
    let Some(network) = Network::new() else { return };
    let _server = network.serve();
    network.within(&network.client, || {
        std::fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 33554432").unwrap();
    });
    let mut kernel = network.datapath(|settings| settings.pacing = Some(Pacing::Off));
    let mut at_server = network.capture(&network.server, "s0");
    let others = Treatment { window: Some(3000), ..Treatment::default() };
    let policy = Policy { others, ..Policy::none() };
    apply(&mut kernel, &policy);
    network.transfer(Way::Download, false, Duration::from_millis(200)).join().unwrap();
    let flows = seen(&digests(&mut at_server), Direction::ToMesh);
    let in_flight: Vec<u32> = flows.values().map(|flow| flow.in_flight).collect();
    assert!(in_flight.len() == 1 && (2 * 1440..=3072).contains(&in_flight[0]), "{in_flight:?}");
}

/// A flood of ACKs waits for a second at most: what the class of ACKs does not send within that, it drops.
#[test]
fn acks_wait_in_their_class_for_a_second_at_most() {
    const ACKS: u32 = 600;
    /// Headers of Ethernet, IP and TCP.
    const ACK_BYTES: u64 = 54;
    let Some(network) = Network::new() else { return };
    let mut kernel = network.datapath(|settings| settings.pacing = Some(Pacing::Classes));
    let mut at_client = network.capture(&network.client, "c0");
    // A hundred ACKs a second, by what one acknowledges in the mean before any has been seen.
    let acks = AckWeight::default();
    let per_mbps = acks.bytes_per_second(BitRate(1_000_000), 14);
    let up_acks = Some(BitRate(1_000_000 * 100 * ACK_BYTES / per_mbps));
    let policy = Policy { up_acks, ..Policy::none() };
    let apply =
        |kernel: &mut Kernel| kernel.apply(&Orders { policy: &policy, datagrams: &[], acks }, now()).unwrap();
    apply(&mut kernel);
    network.within(&network.server, || {
        let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::TCP)).unwrap();
        let client = SocketAddr::from(([10, 9, 2, 1], 0));
        for ack in 0..ACKS {
            // To port 9 of the client. Without a checksum, it does not answer.
            let mut header = [0, 80, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0];
            header[8..12].copy_from_slice(&ack.to_be_bytes());
            sendto(&socket, &header, SendFlags::empty(), &client).unwrap();
        }
    });
    let (began, mut arrived) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_millis(1500) {
        apply(&mut kernel);
        digests(&mut kernel);
        arrived += digests(&mut at_client).len();
        std::thread::sleep(Duration::from_millis(20));
    }
    let queues = kernel.queues().unwrap();
    let class = queues.iter().find(|queue| queue.purpose.starts_with("ACKs")).unwrap();
    assert_eq!(class.waiting, 0, "{class:?}");
    assert!((90..=130).contains(&arrived), "{arrived} of {ACKS} arrived: {class:?}");
    assert_eq!(class.sent.packets + class.dropped, u64::from(ACKS), "{class:?}");
}

#[test]
fn what_was_there_comes_back_and_nothing_is_left() {
    let Some(network) = Network::new() else { return };
    let gateway = network.gateway.clone();
    ip(&format!(
        "netns exec {gateway} tc qdisc add dev m0 root handle 77: tbf rate 50mbit burst 20k limit 200k"
    ));
    let before = network.queue();
    // The way that makes no queue on the interface, and the best of the others.
    let pacing = network.best_queue();
    for (attachment, pacing) in
        attachments().into_iter().flat_map(|attachment| [(attachment, Pacing::Polling), (attachment, pacing)])
    {
        let mut kernel = network.datapath(move |settings| {
            settings.attachment = Some(attachment);
            settings.pacing = Some(pacing);
        });
        assert_eq!((kernel.features().attachment, kernel.features().pacing), (attachment, pacing));
        assert_eq!(network.queue().contains("fa10:"), pacing != Pacing::Polling, "{}", network.queue());
        assert_eq!(network.has_park(), pacing != Pacing::Classes);
        // Calls do not share a flow of `fq` with paced downloads.
        let queue = network.queue();
        assert!(!queue.contains("fq fa10:") || queue.contains("orphan_mask 262143"), "{queue}");
        // Filters of clsact are those of the thread's namespace.
        network.within(&gateway, move || kernel.stop().unwrap());
        assert_eq!(network.queue(), before);
        assert!(!network.has_park());
    }
    // Classes of somebody else cannot be put back: they stay.
    ip(&format!("netns exec {gateway} tc qdisc replace dev m0 root handle 78: htb"));
    let folder = network.state.path().to_owned();
    let start = |attachment| {
        let state_dir = folder.clone();
        let settings = Settings { attachment, pacing: Some(pacing), state_dir, ..Settings::new("m0") };
        network
            .within(&gateway, move || Kernel::start(settings).map(|_| ()).map_err(|error| error.to_string()))
    };
    let refused = start(None).unwrap_err();
    assert!(refused.contains("queue with classes (htb)"), "{refused}");
    // What the doctor says is what the start does.
    let found = || network.within(&gateway, || look("m0").unwrap());
    assert_eq!(found().refusal.map(|error| error.to_string()), Some(refused));
    assert!(network.queue().contains("htb 78:"), "{}", network.queue());
    // Nor can queues below a queue.
    let tc = |arguments: &str| ip(&format!("netns exec {gateway} tc {arguments}"));
    tc("qdisc del dev m0 root");
    tc("qdisc add dev m0 root handle 79: tbf rate 50mbit burst 20k limit 200k");
    tc("qdisc add dev m0 parent 79:1 handle 80: pfifo");
    let before = network.queue();
    let refused = start(None).unwrap_err();
    assert!(refused.contains("another one below it (tbf with pfifo)"), "{refused}");
    assert_eq!(network.queue(), before);
    tc("qdisc del dev m0 root");
    // With `ingress` in its place, filters for what goes out would see what comes in.
    tc("qdisc add dev m0 ingress");
    let refused = start(Some(Attachment::Clsact)).unwrap_err();
    assert!(
        refused.contains("m0 has the queue ingress") && refused.contains("fix: tc qdisc del"),
        "{refused}"
    );
    assert_eq!(found().no_clsact.map(|error| error.to_string()), Some(refused));
    assert!(network.queue().contains("qdisc ingress ffff:") && !network.queue().contains("fa10:"));
    assert_eq!(tc("filter show dev m0 ingress"), "");
    if attachments().contains(&Attachment::Tcx) {
        start(None).unwrap();
    }
}

/// A gateway that is killed: TCX links are gone at once, the policy expires, and the next start removes the rest.
#[test]
fn a_killed_gateway_lets_packets_pass_and_the_next_start_cleans_up() {
    let Some(network) = Network::new() else { return };
    let _server = network.serve();
    for attachment in attachments() {
        let mut child = Command::new("ip")
            .args(["netns", "exec", &network.gateway])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "namespaces::gateway_that_will_be_killed", "--ignored", "--nocapture"])
            .env("FAIRHOP_TEST_STATE", network.state.path())
            .env("FAIRHOP_TEST_ATTACHMENT", attachment.name())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ready = network.state.path().join("ready");
        let began = Instant::now();
        while !ready.exists() {
            assert!(began.elapsed() < Duration::from_secs(30), "the gateway does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::remove_file(ready).unwrap();
        let limited = network.transfer(Way::Download, false, Duration::from_millis(300)).join().unwrap();
        // `ip` has become the gateway.
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = Instant::now();
        assert!(limited < 100_000, "{limited}");
        if attachment == Attachment::Clsact {
            std::thread::sleep(Duration::from_millis(3000).saturating_sub(killed.elapsed()));
        }
        let free = network.transfer(Way::Download, false, Duration::from_millis(300)).join().unwrap();
        assert!(free > 1_000_000, "{attachment:?}: {free} bytes after {limited}");
        let folder = network.state.path().to_owned();
        let removed = network.within(&network.gateway, move || clean(&["m0", "w0"], &folder).unwrap());
        let filters = removed.iter().filter(|what| what.starts_with("filter")).count();
        // With departure times there is one on the wired interface, too.
        let has_fq = removed.iter().any(|what| what.starts_with("queue fq"));
        let attached = if has_fq { 3 } else { 2 };
        assert_eq!(filters, if attachment == Attachment::Clsact { attached } else { 0 }, "{removed:?}");
        assert!(network.queue().contains("noqueue"), "{}", network.queue());
        assert!(!network.queue().contains("clsact") && !network.has_park(), "{}", network.queue());
    }
}

/// Not a test of its own: the process that the test above kills.
#[test]
#[ignore = "part of another test"]
fn gateway_that_will_be_killed() {
    let Some(folder) = std::env::var_os("FAIRHOP_TEST_STATE") else { return };
    let is_clsact = std::env::var("FAIRHOP_TEST_ATTACHMENT").is_ok_and(|name| name == "clsact");
    let attachment = Some(if is_clsact { Attachment::Clsact } else { Attachment::Tcx });
    let state_dir = std::path::PathBuf::from(folder);
    let wired = Some("w0".into());
    let mut kernel =
        Kernel::start(Settings { wired, attachment, state_dir: state_dir.clone(), ..Settings::new("m0") })
            .unwrap();
    apply(&mut kernel, &Policy { down: Some(BitRate(1_000_000)), ..Policy::none() });
    std::fs::write(state_dir.join("ready"), "").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}
