//! Control in whole networks: its effect on the calls and transfers of K-MIX, its start, change and stop during a run, and
//! the throttle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::support::*;
use fairhop_control::observer::{Flow, FlowBody};
use fairhop_control::policy::Reason;
use fairhop_model::units::Nanos;
use fairhop_sim::mac::Frame;
use fairhop_sim::packet::{Body, NodeId, PacketView};
use fairhop_sim::recorder::Loss;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::{Bulk, Call, Control, Gateways, QueueLimit, Scenario, Topology, Traffic};
use fairhop_sim::world::control::Decided;
use fairhop_sim::world::{Tap, World};

/// K-MIX for 20 s, with 5 s of warm-up, under a control.
fn k_mix(control: &str) -> Lab {
    let mut lab = Lab::ready("k-mix", 20.0, 5.0);
    lab.scenario.control = Some(toml::from_str::<Control>(control).expect("a control"));
    lab
}

fn ran(lab: &Lab, seed: u64) -> (World, Summary) {
    let mut world = lab.world(seed);
    world.run();
    let summary = Summary::of(&world, false);
    (world, summary)
}

#[test]
fn window_and_pacing_make_all_calls_of_k_mix_acceptable_and_leave_tcp_goodput() {
    for (control, min_mbps) in [
        ("kind = \"window\"\nwindow_packets = 2", 0.3),
        ("kind = \"data-pacing\"\nrate_kbps = 500", 0.4),
        ("kind = \"ack-pacing\"\nrate_kbps = 300", 0.25),
        ("kind = \"combined\"\nwindow_packets = 2\neach = true\nrate_kbps = 1000", 0.3),
    ] {
        let (_, summary) = ran(&k_mix(control), 1);
        assert_eq!(summary.totals.calls_ok, 5.0, "{control}: {:?}", summary.totals);
        assert!(summary.totals.tcp_goodput_mbps > min_mbps, "{control}: {:?}", summary.totals);
        assert!(summary.totals.jain > 0.85, "{control}: {:?}", summary.totals);
    }
    let (_, summary) = ran(&k_mix("kind = \"none\""), 1);
    assert_eq!(summary.totals.calls_ok, 0.0, "without control: {:?}", summary.totals);
}

#[test]
fn adaptive_control_protects_the_calls_of_k_mix_without_a_configured_rate() {
    for seed in 1..=3 {
        let (world, summary) = ran(&k_mix("kind = \"adaptive\"").seconds(60.0), seed);
        assert_eq!(summary.totals.calls_ok, 5.0, "seed {seed}: {:?}", summary.totals);
        assert!(summary.totals.tcp_goodput_mbps > 0.15, "seed {seed}: {:?}", summary.totals);
        let decisions = world.control().unwrap().decisions();
        assert_eq!(decisions.len(), 600);
        assert!(
            decisions.iter().skip(50).all(|one| one.decision.down.is_some() && one.decision.mos.is_some())
        );
    }
}

/// Bytes of one flow in flight, as the wired host sees them.
#[derive(Default)]
struct Flight {
    sent: u32,
    acknowledged: u32,
    max: u32,
}

/// By flow.
#[derive(Clone, Default)]
struct Flights(Arc<Mutex<BTreeMap<u32, Flight>>>);

impl Tap for Flights {
    fn frame(&mut self, _: NodeId, _: Nanos, _: &Frame, _: NodeId, _: Option<PacketView<'_>>, _: bool) {}

    fn wired(&mut self, node: NodeId, _peer: NodeId, _at: Nanos, packet: PacketView<'_>, arrived: bool) {
        const HOST: NodeId = 5;
        let Body::Tcp(segment) = packet.body else { return };
        if node != HOST {
            return;
        }
        let mut flows = self.0.lock().unwrap();
        // Streams of a flow are a pair.
        let Flight { sent, acknowledged, max } = flows.entry(packet.stream / 2).or_default();
        let end = segment.seq.0.wrapping_add(segment.len);
        if arrived {
            *acknowledged = segment.ack.0;
        } else if segment.len > 0 {
            *sent = if end.wrapping_sub(*sent).cast_signed() > 0 || *sent == 0 { end } else { *sent };
            *max = (*max).max(sent.wrapping_sub(*acknowledged));
        }
    }
}

#[test]
fn no_sender_has_more_than_the_window_in_flight() {
    const WINDOW: u32 = 6000;
    let mut world = k_mix(&format!("kind = \"window\"\nwindow_bytes = {WINDOW}")).world(1);
    let flights = Flights::default();
    world.set_tap(Box::new(flights.clone()));
    world.run();
    let flows = flights.0.lock().unwrap();
    assert_eq!(flows.len(), 3);
    for Flight { max, .. } in flows.values() {
        // Senders use the window up to the last whole segment.
        assert!((4 * 1460..=WINDOW).contains(max), "{max} bytes in flight");
    }
}

#[test]
fn data_pacing_keeps_to_its_rate_and_reports_the_packets_that_it_drops() {
    let lab = k_mix("kind = \"data-pacing\"\nrate_kbps = 200\nqueue_packets = 5");
    let run = lab.run(1);
    // Streams of five calls come before those of the downloads; data goes forward.
    let is_data = |packet: &&SeenPacket| packet.stream >= 10 && packet.stream.is_multiple_of(2);
    let sent = run.frames.iter().filter(|frame| frame.node == 0 && !frame.received && !frame.retry);
    let bytes: u64 = sent
        .filter_map(|frame| frame.packet.as_ref())
        .filter(is_data)
        .map(|packet| u64::from(packet.bytes))
        .sum();
    let max = 200_000 / 8 * 20 + 1500;
    assert!((max * 9 / 10..=max).contains(&bytes), "{bytes} of {max}");
    let lost: u64 =
        run.world.recorder().streams.iter().map(|stream| stream.lost[Loss::Control as usize]).sum();
    let dropped = run.world.control().unwrap().dropped();
    assert!(dropped > 10 && lost <= dropped, "{lost} data packets of {dropped}");
    let queue: u64 =
        run.world.recorder().streams.iter().map(|stream| stream.lost[Loss::QueueFull as usize]).sum();
    assert_eq!(queue, 0, "queues in the mesh stay short");
}

/// A gateway that only observes changes nothing; control that starts later changes nothing before.
#[test]
fn control_changes_nothing_before_its_start_and_where_it_only_observes() {
    let mut free = Lab::ready("k-mix", 20.0, 5.0).world(3);
    let mut observed = k_mix("kind = \"none\"").world(3);
    let mut later = k_mix("kind = \"data-pacing\"\nrate_kbps = 300\nstart_s = 8").world(3);
    for world in [&mut free, &mut observed, &mut later] {
        world.run_until(ms(8_000));
    }
    assert_eq!(observed.recorder().fingerprint, free.recorder().fingerprint);
    assert_eq!(later.recorder().fingerprint, free.recorder().fingerprint);
    for world in [&mut free, &mut observed, &mut later] {
        world.run();
    }
    assert_eq!(observed.recorder().fingerprint, free.recorder().fingerprint);
    assert_ne!(later.recorder().fingerprint, free.recorder().fingerprint);
}

#[test]
fn control_starts_changes_and_stops_during_a_run() {
    let mut lab = k_mix(
        "kind = \"window\"\nwindow_packets = 2\nstart_s = 10\nstop_s = 40\n\
         change = [{ at_s = 20, kind = \"data-pacing\", rate_kbps = 100 }, { at_s = 30, kind = \"adaptive\" }]",
    );
    lab.scenario.duration_s = 50.0;
    let (world, _) = ran(&lab, 1);
    let kinds = |from: u64, until: u64| {
        let of = |one: &&Decided| (ms(from * 1000)..ms(until * 1000)).contains(&one.decision.at);
        let mut kinds: Vec<_> =
            world.control().unwrap().decisions().iter().filter(of).map(|decision| decision.kind).collect();
        kinds.dedup();
        kinds
    };
    let seen = [kinds(0, 10), kinds(10, 20), kinds(20, 30), kinds(30, 40), kinds(40, 50)];
    assert_eq!(seen, [["none"], ["window"], ["data-pacing"], ["adaptive"], ["none"]].map(Vec::from));
    // Goodput of the downloads, second by second.
    let goodput = |from: usize, until: usize| {
        let bytes: u64 = world
            .recorder()
            .streams
            .iter()
            .flat_map(|stream| stream.bins.get(from..until).unwrap_or_default())
            .map(|bin| bin.delivered_bytes)
            .sum();
        // Five calls carry 20 bytes a packet, 50 packets a second, both ways.
        bytes as f64 * 8e-3 / (until - from) as f64 - 80.0
    };
    // Data sent before the change is delivered once its gaps are filled.
    assert!(goodput(26, 30) < 130.0, "{}", goodput(26, 30));
    assert!(goodput(42, 50) > 200.0, "{}", goodput(42, 50));
}

#[test]
fn a_controlled_run_is_the_same_twice() {
    let lab = k_mix("kind = \"adaptive\"");
    let (first, summary) = ran(&lab, 9);
    let (second, again) = ran(&lab, 9);
    assert_eq!(first.recorder().fingerprint, second.recorder().fingerprint);
    assert_eq!(summary, again);
    assert_eq!(first.control().unwrap().decisions(), second.control().unwrap().decisions());
}

/// The packets of a call that one mesh node receives, and the RTCP reports that it sends.
#[derive(Default)]
struct Listened {
    sequences: BTreeSet<u32>,
    /// Time, highest sequence number and number of packets received so far.
    history: Vec<(Nanos, u32, usize)>,
    reports: Vec<Nanos>,
}

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Listened>>);

impl Tap for Listener {
    fn frame(
        &mut self,
        node: NodeId,
        at: Nanos,
        frame: &Frame,
        _: NodeId,
        packet: Option<PacketView<'_>>,
        received: bool,
    ) {
        const LISTENER: NodeId = 4;
        let Some(packet) = packet.filter(|_| node == LISTENER) else { return };
        let mut seen = self.0.lock().unwrap();
        match packet.body {
            // The stream of the first call into the mesh.
            Body::Rtp { sequence, .. } if received && frame.to == LISTENER && packet.stream == 0 => {
                seen.sequences.insert(sequence);
                let highest = seen.sequences.last().copied().unwrap_or(0);
                let count = seen.sequences.len();
                seen.history.push((at, highest, count));
            }
            Body::Rtcp(_)
                if !received && packet.stream == 1 && seen.reports.last() != Some(&packet.created) =>
            {
                seen.reports.push(packet.created);
            }
            _ => {}
        }
    }

    fn wired(&mut self, _: NodeId, _: NodeId, _: Nanos, _: PacketView<'_>, _: bool) {}
}

#[test]
fn rtcp_gives_the_gateway_the_downlink_loss_within_one_256th() {
    let mut lab = k_mix("kind = \"none\"").seconds(40.0);
    for traffic in &mut lab.scenario.traffic {
        if let Traffic::Call(Call { rtcp_interval_s, .. }) = traffic {
            *rtcp_interval_s = 1.0;
        }
    }
    let mut world = lab.world(2);
    let listener = Listener::default();
    world.set_tap(Box::new(listener.clone()));
    let mut reports = Vec::new();
    let (mut ticks, mut reported) = (0, 0);
    for tick in 20..400 {
        let now = ms(tick * 100);
        world.run_until(now);
        let observer = world.control().unwrap().controller().unwrap().observer();
        let call = observer.calls(now, ms(1000)).find(|call| call.key.mesh_port == 50_000).unwrap();
        ticks += 1;
        reported += usize::from(call.down_is_reported);
        let Some(Flow { body: FlowBody::Udp(udp), .. }) = observer.flow(&call.key) else { panic!("no call") };
        if let Some(far) = udp.far_down.filter(|far| reports.last() != Some(far)) {
            reports.push(far);
        }
    }
    assert!(reported * 10 > ticks * 8, "{reported} of {ticks}: single reports are lost, two in a row seldom");
    let seen = listener.0.lock().unwrap();
    let until = |at: Nanos| {
        let next = seen.history.partition_point(|&(came, ..)| came <= at);
        seen.history[next - 1]
    };
    // Each report that passed the gateway is the last one that the listener made before.
    let (mut checked, mut max_loss) = (0, 0.0_f64);
    for far in &reports {
        let made = seen.reports.partition_point(|&made| made <= far.at);
        let [from, to] = [until(seen.reports[made - 2]), until(seen.reports[made - 1])];
        let truth = 1.0 - (to.2 - from.2) as f64 / f64::from(to.1 - from.1);
        // Frames on the air when a report is made may count before or after it.
        let edge = 1.0 / f64::from(to.1 - from.1);
        assert!(
            (far.loss - truth.max(0.0)).abs() <= edge + 1.0 / 256.0,
            "{} of {truth} at {:?}",
            far.loss,
            far.at
        );
        max_loss = max_loss.max(truth);
        checked += 1;
    }
    assert!(checked > 20 && max_loss > 0.02, "{checked} reports, up to {max_loss} lost");
}

/// A gateway with two neighbours: one download to the first, nine to the second, and an upload from the second.
fn hosts_of_one_and_nine(discipline: &str) -> (World, Summary) {
    let mut lab = Lab::at([(0.0, 0.0), (100.0, 0.0), (0.0, 100.0)])
        .seconds(40.0)
        .internet(100.0, 20.0, QueueLimit::Packets(1000))
        .with("kind = \"bulk\"\nname = \"one\"\nfrom = \"internet\"\nto = 1")
        .with("kind = \"bulk\"\nname = \"nine\"\nfrom = \"internet\"\nto = 2\ncount = 9")
        .with("kind = \"bulk\"\nname = \"up\"\nfrom = 2\nto = \"internet\"");
    lab.scenario.warmup_s = 10.0;
    let control =
        format!("kind = \"shaper\"\nrate_kbps = 2000\nup_kbps = 400\ndiscipline = \"{discipline}\"");
    lab.scenario.control = Some(toml::from_str(&control).expect("a control"));
    ran(&lab, 1)
}

/// Packets of 1500 bytes count 1514, and carry 1460.
#[test]
fn a_shaper_gives_flows_or_hosts_equal_shares_of_its_rate_both_ways() {
    const MAX: f64 = 2.0 * 1460.0 / 1514.0;
    for (discipline, one) in [("fq-codel", MAX / 10.0), ("cake", MAX / 2.0)] {
        let (world, summary) = hosts_of_one_and_nine(discipline);
        let goodput = |name: &str| -> f64 {
            let flows = summary.flows.iter().filter(|flow| flow.name.starts_with(name));
            flows.map(|flow| flow.goodput_mbps).sum()
        };
        let down = goodput("one") + goodput("nine");
        // ACKs of the upload take a share of the downlink, and ACKs of the downloads one of the uplink. Packets queued at the end of
        // the warm-up count.
        assert!((0.93 * MAX..1.005 * MAX).contains(&down), "{discipline}: {down}");
        assert!((0.1..0.4).contains(&goodput("up")), "{discipline}: {}", goodput("up"));
        assert!((goodput("one") / one - 1.0).abs() < 0.12, "{discipline}: {} of {one}", goodput("one"));
        let decisions = world.control().unwrap().decisions();
        assert!(
            decisions
                .iter()
                .skip(100)
                .all(|decision| decision.kind == "shaper" && decision.decision.waiting > 0)
        );
    }
}

/// K-MIX can carry 600 kb/s, calls included. The queue is then at the gateway, where drop-tail delays the calls too.
#[test]
fn a_shaper_protects_the_calls_of_k_mix_only_with_a_discipline_that_serves_them_first() {
    for (discipline, calls) in [("drop-tail", 0.0), ("priority", 5.0), ("fq-codel", 5.0), ("cake", 5.0)] {
        let control = format!("kind = \"shaper\"\nrate_kbps = 600\ndiscipline = \"{discipline}\"");
        let (_, summary) = ran(&k_mix(&control), 1);
        assert_eq!(summary.totals.calls_ok, calls, "{discipline}: {:?}", summary.totals);
        assert!(summary.totals.tcp_goodput_mbps > 0.4, "{discipline}: {:?}", summary.totals);
    }
}

#[test]
fn each_of_two_gateways_protects_the_calls_of_its_own_part() {
    let lab = Lab::ready("two-gateways", 60.0, 10.0);
    let (world, summary) = ran(&lab, 1);
    assert_eq!(summary.totals.calls_ok, 6.0, "{:?}", summary.totals);
    let nodes: Vec<_> =
        summary.control.iter().chain(&summary.further_control).map(|control| &control.gateway).collect();
    assert_eq!(nodes, ["0", "8"]);
    for gateway in [0, 8] {
        let decisions = world.control().unwrap().decisions();
        let own: Vec<_> = decisions.iter().filter(|decision| decision.gateway == gateway).collect();
        assert_eq!(own.len(), 600);
        assert!(own.iter().skip(100).all(|one| one.decision.down.is_some() && one.decision.mos.is_some()));
    }
    let mut free = lab.clone();
    free.scenario.control = None;
    let (_, summary) = ran(&free, 1);
    assert_eq!(summary.totals.calls_ok, 0.0, "{:?}", summary.totals);
}

/// The Internet host has a wire to each of two gateways. A node uses the nearer gateway; nodes reach each other by radio.
#[test]
fn flows_use_the_nearest_gateway_and_never_the_internet_between_two_nodes() {
    let mut lab = Lab::at((0..=8).map(|node| (200.0 * f64::from(node), 0.0)))
        .seconds(2.0)
        .internet(100.0, 10.0, QueueLimit::Packets(100))
        .stream(INTERNET, node(3), 100, 10.0)
        .stream(node(5), INTERNET, 100, 10.0)
        .stream(node(1), node(7), 100, 10.0);
    if let Topology::Explicit { gateway, .. } = &mut lab.scenario.topology {
        *gateway = Gateways::Several(vec![0, 8]);
    }
    let world = lab.run(1).world;
    // To the Internet and from it, first of node 0 and then of node 8.
    let sent: Vec<_> = world.wired().iter().map(|link| link.record().sent > 0).collect();
    assert_eq!(sent, [false, true, true, false]);
    assert!(world.recorder().streams[4].arrived > 10, "from node 1 to node 7, over six hops");
}

/// Three parallel flows of three hops each in one L-region; 802.11b at 2 Mb/s as in osipov2007.
#[test]
fn throttled_flows_of_one_region_have_equal_shares() {
    let lab = |control: Option<&str>| {
        let mut lab = Lab::at(
            (0..3).flat_map(|line| (0..4).map(move |node| (200.0 * f64::from(node), 20.0 * f64::from(line)))),
        )
        .seconds(40.0);
        let radio = &mut lab.scenario.radio;
        radio.standard = fairhop_model::phy::Standard::Dot11b;
        radio.rate_mbps = 2.0;
        lab.scenario.warmup_s = 5.0;
        lab.scenario.record.interval_s = 1.0;
        lab.scenario.control = control.map(|control| toml::from_str(control).unwrap());
        for line in 0..3 {
            lab = lab.with(&format!(
                "kind = \"bulk\"\nfrom = {}\nto = {}\nmss_bytes = 600",
                4 * line,
                4 * line + 3
            ));
        }
        lab
    };
    let (free, _) = ran(&lab(None), 2);
    assert_eq!(free.throttled_rate(0), None);
    let (world, summary) = ran(&lab(Some("kind = \"throttle\"\ncalibration = 0.7")), 2);
    let rates: Vec<_> = (0..3).map(|flow| world.throttled_rate(flow).unwrap()).collect();
    assert!(rates.iter().all(|rate| *rate == rates[0] && rate.0 > 40_000), "{rates:?}");
    for flow in &summary.flows {
        let carried = flow.goodput_mbps / rates[0].as_mbps();
        assert_eq!(flow.limit_mbps, Some(rates[0].as_mbps()));
        assert!((0.9..=1.01).contains(&carried), "{} carries {carried} of its rate", flow.name);
    }
    assert!(summary.totals.jain > 0.995, "{}", summary.totals.jain);
}

/// A receiver cannot take back an advertised window, here 4 MB at once, which last for a minute. So a clamp that begins during a
/// transfer has no effect at first, and one that sees the SYN limits it from the start.
#[test]
fn a_window_clamp_limits_transfers_that_begin_under_it() {
    let mut lab = k_mix("kind = \"window\"\nwindow_packets = 2\nstart_s = 8");
    let (mut free, mut late) = (Lab::ready("k-mix", 20.0, 5.0).world(3), lab.world(3));
    free.run();
    late.run();
    assert_eq!(late.recorder().fingerprint, free.recorder().fingerprint);
    for traffic in &mut lab.scenario.traffic {
        if let Traffic::Bulk(Bulk { start_s, .. }) = traffic {
            *start_s = 9.0;
        }
    }
    lab.scenario.warmup_s = 10.0;
    let (_, summary) = ran(&lab, 3);
    assert_eq!(summary.totals.calls_ok, 5.0, "{:?}", summary.totals);
}

/// A probe of node 3.
const PROBE: &str = "traffic.+={ kind = \"ping\", from = \"gateway\", to = 3, interval_ms = 40, packet_bytes = 60, \
                     dscp = \"EF\", probe = true }";

/// No packet of calls between two nodes passes the gateway. Replies to its echo requests show what data does to them.
#[test]
fn a_probe_protects_calls_that_stay_in_the_mesh() {
    let calls = ["topology.hops=4", "traffic.0.from=1", "traffic.0.to=3", "traffic.0.count=2"];
    let under = |control: &str, probe: Option<&str>| {
        let control = format!("control={{ kind = \"{control}\" }}");
        let sets = calls.into_iter().chain(probe).map(str::to_owned).chain([control]);
        clear_and_tcp(&ready("k-control", sets))
    };
    let ((none, all), (blind, _)) = (under("none", None), under("adaptive", None));
    let (clear, tcp) = under("adaptive", Some(PROBE));
    assert!(none < 0.5 && blind < 0.5, "{none} and {blind} of the seconds are clear without a probe");
    assert!(clear >= 0.95 && tcp > 0.6 * all, "{clear} clear, TCP has {tcp} of {all} Mb/s");
    // An ordinary ping has no influence on the controller, whatever becomes of it.
    let ping = PROBE.replace("probe = true", "probe = false");
    let (pinged, _) = under("adaptive", Some(&ping));
    assert!(pinged < clear - 0.3, "{pinged} clear with a ping");
}

/// Uploads collide with the packets of a call into the mesh. Without reports, only a probe of the node shows that. It is judged by what the
/// call tolerates.
#[test]
fn a_probe_tells_of_a_call_whose_listener_does_not() {
    let sets = [
        "topology.hops=3",
        "traffic.0.codec=opus",
        "traffic.0.count=1",
        "traffic.1.from=3",
        "traffic.1.to=internet",
        "traffic.1.profile=linux",
        "traffic.1.count=3",
        "control={ kind = \"adaptive\" }",
    ];
    let under = |probe: Option<&str>| {
        clear_and_tcp(&ready("k-control", sets.into_iter().chain(probe).map(str::to_owned)))
    };
    let ((blind, all), (clear, tcp)) = (under(None), under(Some(PROBE)));
    assert!(blind < 0.9, "{blind} of the seconds are clear without a probe");
    // By what G.729A tolerates, uploads had 0.70.
    assert!(clear >= 0.97 && tcp > 0.75 * all, "{clear} clear, TCP has {tcp} of {all} Mb/s");
}

/// Only the times of its packets tell what such a call loses. Its codec is not known; Opus is assumed.
#[test]
fn calls_of_an_unknown_protocol_are_protected_as_others_are() {
    let under = |opaque: bool, kind: &str| {
        let control = format!("control={{ kind = \"{kind}\" }}");
        let opaque = format!("traffic.0.opaque={opaque}");
        let sets = ["traffic.0.codec=opus", "traffic.0.count=2"].map(str::to_owned);
        clear_and_tcp(&ready("k-control", sets.into_iter().chain([control, opaque])))
    };
    let ((none, _), (_, known)) = (under(true, "none"), under(false, "adaptive"));
    let (clear, tcp) = under(true, "adaptive");
    assert!(none < 0.2, "{none} of the seconds are clear without control");
    assert!(clear >= 0.97 && tcp > 0.9 * known, "{clear} clear, TCP has {tcp} of {known} Mb/s");
}

/// Two hops, then an Internet link that is slower than the mesh, with a long queue: calls clear, TCP in Mb/s, over three seeds.
fn beyond_a_slow_uplink(mbps: f64, uploads: u32, calls_from: &str, control: &str) -> (f64, f64) {
    let sets = [
        "topology.hops=2".to_owned(),
        format!("traffic.0.from={calls_from}"),
        "traffic.1.from=2".to_owned(),
        "traffic.1.to=internet".to_owned(),
        format!("traffic.1.count={uploads}"),
        "traffic.1.profile=linux".to_owned(),
        format!("internet.rate_mbps={mbps}"),
        "internet.queue={ packets = 300 }".to_owned(),
        format!("control={{ kind = \"{control}\" }}"),
    ];
    clear_and_tcp(&ready("k-control", sets))
}

/// Each direction of the Internet link has a queue of its own: flows one way do not take from those the other way. With one budget
/// for both, the single flow had a quarter of the link.
#[test]
fn flows_one_way_over_the_internet_leave_the_other_way_to_flows_that_take_it() {
    const INTERNET: &str = "\"internet\"";
    for (from, to) in [(INTERNET, "1"), ("1", INTERNET)] {
        let under = |control: &str| {
            let sets = [
                "topology.hops=1".to_owned(),
                "traffic.0.from=internet".to_owned(),
                format!("traffic.1.from={from}"),
                format!("traffic.1.to={to}"),
                "traffic.1.count=1".to_owned(),
                "traffic.1.profile=linux".to_owned(),
                format!(
                    "traffic.+={{ kind = \"bulk\", name = \"three\", from = {to}, to = {from}, count = 3, profile = \"linux\" }}"
                ),
                "internet.rate_mbps=2".to_owned(),
                "internet.queue={ packets = 300 }".to_owned(),
                format!("control={{ kind = \"{control}\" }}"),
            ];
            clear_and_tcp(&ready("k-control", sets))
        };
        let ((before, all), (clear, tcp)) = (under("none"), under("adaptive"));
        assert!(
            before < 0.05 && clear >= 0.97,
            "one from {from}: {before} and {clear} of the seconds are clear"
        );
        assert!(tcp >= 2.85, "one from {from}: TCP has {tcp} of {all} Mb/s");
    }
}

/// Downloads fill the link to the Internet, which carries less than the mesh: their packets wait for its budget, and decisions say
/// nothing of a budget of the mesh that is not used.
#[test]
fn packets_that_wait_for_the_internet_do_not_wait_under_an_unused_budget() {
    for (hops, mbps) in [(1, 0.7), (1, 2.0), (2, 1.0), (3, 0.7)] {
        let sets = [
            format!("topology.hops={hops}"),
            format!("internet.rate_mbps={mbps}"),
            "internet.queue={ packets = 300 }".to_owned(),
            "traffic.0.from=internet".to_owned(),
            "traffic.1.count=10".to_owned(),
            "duration_s=30".to_owned(),
            "warmup_s=0".to_owned(),
            "control={ kind = \"adaptive\" }".to_owned(),
        ];
        let mut world = World::new(&ready("k-control", sets), 1).expect("a network");
        world.run();
        let decisions = world.control().expect("a gateway").decisions();
        let waits = |one: &Decided| one.decision.reason == Reason::NotUsed && one.decision.waiting > 0;
        let longest = decisions.split(|one| !waits(one)).map(<[_]>::len).max();
        assert!(longest < Some(20), "{hops} hops, {mbps} Mb/s: {longest:?} decisions");
    }
}

/// Clear call-seconds and TCP in Mb/s, by seed.
fn clear_and_tcp_by_seed(scenario: &Scenario, seeds: &[u64]) -> Vec<(f64, f64)> {
    on_all_cores(seeds, |&seed| {
        let mut world = World::new(scenario, seed).expect("a network");
        world.run();
        let totals = Summary::of(&world, false).totals;
        (totals.calls_clear, totals.tcp_goodput_mbps)
    })
}

/// The same, means of three seeds.
fn clear_and_tcp(scenario: &Scenario) -> (f64, f64) {
    let found = clear_and_tcp_by_seed(scenario, &[1, 2, 3]);
    let mean = |of: fn(&(f64, f64)) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
    (mean(|found| found.0), mean(|found| found.1))
}

/// Nine calls nearly fill four hops. With these seeds they were still bad at a fifth of the first budget, were given up as independent of
/// TCP, and 0.34 to 0.37 of their seconds were bad. They are good at a twentieth.
#[test]
fn calls_are_not_given_up_where_less_of_tcp_makes_them_good() {
    let lab = ready(
        "adaptive-grid",
        [
            "traffic.0.count=9",
            "traffic.0.rtcp_interval_s=5",
            "traffic.1.tcp=reno",
            "traffic.1.profile=linux",
            "traffic.1.start_s=1.5",
            "control={ kind = \"adaptive\" }",
            "duration_s=40",
        ],
    );
    for (clear, _) in clear_and_tcp_by_seed(&lab, &[21, 60, 118]) {
        assert!(clear > 0.9, "{clear} of the seconds are clear");
    }
}

/// Uploads fill the queue of a modem, for example. What calls lose there, only the uploads' round trips show.
#[test]
fn uploads_leave_a_slow_uplink_to_the_calls_that_take_it_and_fill_it_where_none_does() {
    for (mbps, uploads) in [(0.7, 1), (1.5, 1), (1.5, 3), (2.0, 1), (3.0, 3)] {
        let under = |control| beyond_a_slow_uplink(mbps, uploads, "internet", control);
        let ((before, all), (clear, tcp)) = (under("none"), under("adaptive"));
        assert!(before < 0.05 && clear >= 0.97, "{mbps} Mb/s: {before} and {clear} of the seconds are clear");
        assert!(tcp >= 0.9 * all, "{mbps} Mb/s, {uploads} uploads: TCP has {tcp} of {all} Mb/s");
    }
    for mbps in [0.7, 1.5, 2.0] {
        let under = |control| beyond_a_slow_uplink(mbps, 1, "gateway", control);
        let ((_, all), (clear, tcp)) = (under("none"), under("adaptive"));
        assert!(
            clear >= 0.97 && tcp >= 0.95 * all,
            "{mbps} Mb/s: {clear} clear, TCP has {tcp} of {all} Mb/s"
        );
    }
}
