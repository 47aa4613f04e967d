//! AODV in the World: discovery, broken links, losses by reason, and what worlds without it are spared.

use std::sync::{Arc, Mutex};

use crate::support::max_budget;
use fairhop_control::policy::{Reason, State};
use fairhop_model::units::Nanos;
use fairhop_routing::MessageKind;
use fairhop_sim::mac::{BROADCAST, Frame};
use fairhop_sim::packet::{NodeId, PacketView};
use fairhop_sim::recorder::{Loss, RoutingRecord};
use fairhop_sim::scenario::load;
use fairhop_sim::world::control::Decided;
use fairhop_sim::world::{Tap, World};

/// A network under AODV with 802.11b at 2 Mb/s, as the peers have it, after its run.
fn ran(places: &[(f64, f64)], seconds: u32, aodv: &str, rest: &str) -> World {
    let nodes: Vec<String> = places.iter().map(|(x, y)| format!("{{ x_m = {x}, y_m = {y} }}")).collect();
    let text = format!(
        r#"
        name = "test"
        duration_s = {seconds}
        record = {{ interval_s = 0.1 }}
        [radio]
        standard = "802.11b"
        rate_mbps = 2
        basic_rates_mbps = [1]
        capture = "first"
        propagation = {{ model = "range", receive_m = 250, carrier_sense_m = 550 }}
        [topology]
        kind = "explicit"
        nodes = [{}]
        [routing]
        protocol = "aodv"
        aodv = {{ {aodv} }}
        {rest}
        "#,
        nodes.join(", ")
    );
    let scenario = load("test.toml", &text, &[]).expect("a scenario").scenario;
    let mut world = World::new(&scenario, 1).expect("a network");
    world.run();
    world
}

/// A string of hops of 200 m.
fn string(hops: u32) -> Vec<(f64, f64)> {
    (0..=hops).map(|node| (200.0 * f64::from(node), 0.0)).collect()
}

fn record(world: &World) -> &RoutingRecord {
    world.recorder().routing.as_deref().expect("a routing protocol")
}

fn lost(world: &World, why: Loss) -> u64 {
    world.recorder().streams.iter().map(|stream| stream.lost[why as usize]).sum()
}

fn first_packet_ms(world: &World) -> f64 {
    record(world).paths[0].first_delay.expect("an arrival").as_millis_f64()
}

/// The rings of RFC 3561 wait 240, 400, 560 and 720 ms. The flight over a hop takes at most the jitter, a frame each way and
/// backoffs: 10 + 10 ms.
#[test]
fn the_first_packet_waits_for_the_rings_and_the_flight() {
    for (hops, rings) in [(1, 0.0), (2, 240.0), (3, 240.0), (4, 640.0), (5, 640.0), (6, 1200.0), (8, 1920.0)]
    {
        let world = ran(&string(hops), 12, "hello = \"off\"", &cbr(0, hops, 16.0, 1.0));
        let delay = first_packet_ms(&world) - rings;
        assert!((0.0..20.0 * f64::from(hops)).contains(&delay), "{hops} hops: {delay} ms after the rings");
        assert_eq!((record(&world).loops, record(&world).given_up), (0, 0));
        let hops_seen = record(&world).paths[0].mean_hops(0).expect("arrivals");
        assert!((hops_seen - f64::from(hops)).abs() < 1e-9, "{hops_seen}");
    }
}

fn cbr(from: u32, to: u32, rate_kbps: f64, start_s: f64) -> String {
    format!(
        "[[traffic]]\nkind = \"cbr\"\nfrom = {from}\nto = {to}\nrate_kbps = {rate_kbps}\npayload_bytes = 500\nstart_s = {start_s}"
    )
}

/// After HELLO by all nodes the last relay knows the destination and answers: one hop less counts.
#[test]
fn after_hello_by_all_nodes_the_last_relay_answers() {
    for (hops, rings) in [(1, 0.0), (2, 0.0), (3, 240.0), (4, 240.0), (5, 640.0)] {
        let always = "hello = \"always\", ttl_start = 1";
        let world = ran(&string(hops), 12, always, &cbr(0, hops, 16.0, 5.0));
        let delay = first_packet_ms(&world) - rings;
        assert!((0.0..20.0 * f64::from(hops)).contains(&delay), "{hops} hops: {delay} ms after the rings");
    }
}

#[test]
fn packets_without_any_route_are_lost_for_that_reason_when_the_discovery_is_given_up() {
    let places = [(0.0, 0.0), (200.0, 0.0), (9000.0, 0.0)];
    let of = |aodv: &str| ran(&places, 25, aodv, &cbr(0, 2, 4.0, 1.0));
    let world = of("hello = \"off\"");
    // After 1.92 + 2.8 + 5.6 + 11.2 s.
    assert_eq!(record(&world).given_up, 1);
    assert!(lost(&world, Loss::NoRoute) > 15);
    assert!(lost(&of("hello = \"off\", buffer_s = 0.6"), Loss::BufferTimeout) > 10);
    assert!(lost(&of("hello = \"off\", buffer_packets = 2"), Loss::BufferFull) > 10);
}

/// The middle node of a string of two hops leaves; another one is in reach of both ends.
fn with_a_detour(aodv: &str, rate_kbps: f64) -> World {
    let places = [(0.0, 0.0), (200.0, 0.0), (400.0, 0.0), (200.0, 100.0)];
    let change = "[[change]]\nkind = \"move\"\nat_s = 5\nnode = 1\nx_m = 200\ny_m = -5000\n";
    ran(&places, 12, aodv, &(cbr(0, 2, rate_kbps, 1.0) + "\n" + change))
}

#[test]
fn with_feedback_a_true_break_costs_few_packets_and_packets_for_the_link_leave_the_queue() {
    let world = with_a_detour("", 400.0);
    let (record, arrived) = (record(&world), world.recorder().streams[0].arrived);
    assert!(record.true_breaks >= 1 && record.false_breaks == 0, "{record:?}");
    assert!(lost(&world, Loss::RetryLimit) <= 2);
    assert!(arrived >= 1090, "{arrived} of 1100");
    assert!(record.paths[0].interruptions.is_empty());
    assert_eq!(record.loops, 0);
}

#[test]
fn with_hello_alone_a_break_is_noticed_after_two_intervals() {
    let world = with_a_detour("link_feedback = false", 400.0);
    let silences = &record(&world).paths[0].interruptions;
    assert_eq!(silences.len(), 1);
    let length = (silences[0].to - silences[0].from).as_secs_f64();
    assert!((1.0..2.6).contains(&length), "{length} s");
}

#[test]
fn own_packets_for_a_broken_link_go_back_to_the_buffer_where_that_is_asked_for() {
    let of = |on_break: &str| {
        lost(&with_a_detour(&format!("on_break = \"{on_break}\""), 1500.0), Loss::RouteBroken)
    };
    assert!(of("drop") > of("rebuffer"));
}

#[test]
fn a_full_queue_is_no_broken_link() {
    let world = ran(&string(1), 12, "", &cbr(0, 1, 5000.0, 1.0));
    assert!(lost(&world, Loss::QueueFull) > 1000);
    assert_eq!((record(&world).true_breaks, record(&world).false_breaks), (0, 0));
}

#[test]
fn messages_are_counted_by_kind_and_runs_are_the_same_again() {
    let traffic = cbr(0, 4, 100.0, 1.0) + "\n" + &cbr(4, 0, 50.0, 1.0);
    let [first, second] = &[(); 2].map(|()| ran(&string(4), 12, "", &traffic));
    assert_eq!(first.recorder().fingerprint, second.recorder().fingerprint);
    let sent = |kind: MessageKind| record(first).messages[kind as usize].sent;
    assert!(sent(MessageKind::RequestOriginated) >= 1 && sent(MessageKind::Reply) >= 4);
    assert!(sent(MessageKind::Hello) >= 30, "{}", sent(MessageKind::Hello));
    assert_eq!(first.router(0).expect("a machine").counters().malformed, 0);
}

/// A string of three hops under AODV behind something wired, after its run.
fn behind_wires(wired: &str, traffic: &str) -> World {
    let text = format!(
        r#"
        name = "a string behind wires"
        duration_s = 10
        [radio]
        standard = "802.11b"
        rate_mbps = 11
        propagation = {{ model = "range", receive_m = 250, carrier_sense_m = 550 }}
        [topology]
        kind = "string"
        hops = 3
        spacing_m = 200
        [routing]
        protocol = "aodv"
        {wired}
        {traffic}
        "#
    );
    let scenario = load("wires.toml", &text, &[]).expect("a scenario").scenario;
    let mut world = World::new(&scenario, 1).expect("a network");
    world.run();
    world
}

#[test]
fn the_internet_is_reached_through_the_gateway() {
    let internet = "[internet]\ndelay_ms = 10\nrate_mbps = 100";
    let traffic = r#"
        [[traffic]]
        kind = "call"
        from = "internet"
        to = "last"
        start_s = 1
        [[traffic]]
        kind = "bulk"
        from = "last"
        to = "internet"
        size_bytes = 120000
        start_s = 2
    "#;
    let world = behind_wires(internet, traffic);
    for stream in &world.recorder().streams[..2] {
        assert!(stream.arrived * 100 > stream.sent * 90, "{} of {}", stream.arrived, stream.sent);
    }
    assert!(world.recorder().streams[2].delivered_bytes > 100_000);
    let hops = record(&world).paths[0].mean_hops(0).expect("arrivals");
    assert!((hops - 3.0).abs() < 0.1, "{hops}");
}

#[test]
fn keys_of_the_other_protocol_are_errors_that_say_so() {
    let base =
        "name = \"x\"\nduration_s = 1\n[topology]\nkind = \"string\"\nhops = 2\nspacing_m = 10\n[routing]\n";
    for (keys, message) in [
        ("protocol = \"aodv\"\nmetric = \"hops\"", "`metric` has an effect with protocol = \"oracle\" only"),
        ("protocol = \"aodv\"\npaths = [[0, 1, 2]]", "`paths` has an effect with protocol = \"oracle\" only"),
        ("aodv = { hello = \"off\" }", "`aodv` has an effect with protocol = \"aodv\" only"),
    ] {
        let errors = load("x.toml", &format!("{base}{keys}\n"), &[]).expect_err(keys);
        assert!(errors.problems()[0].message().contains(message), "{errors}");
    }
}

#[test]
fn a_scenario_without_a_protocol_resolves_as_before() {
    let value = serde_json::to_value(fairhop_sim::scenario::Routing::default()).expect("JSON");
    assert_eq!(value, serde_json::json!({ "metric": "hops", "paths": [], "ttl": 64 }));
}

#[test]
fn hops_are_those_by_radio_however_many_wires_there_are() {
    let two_wires = r#"
        [wired]
        hosts = [{ name = "server" }, { name = "router" }]
        [[wired.links]]
        between = ["server", "router"]
        rate_mbps = 100
        delay_ms = 5
        [[wired.links]]
        between = ["router", 0]
        rate_mbps = 100
        delay_ms = 5
    "#;
    let traffic = r#"
        [[traffic]]
        kind = "call"
        from = "server"
        to = "last"
        start_s = 1
        [[traffic]]
        kind = "cbr"
        from = "last"
        to = "server"
        rate_kbps = 50
        payload_bytes = 500
        start_s = 1
    "#;
    let world = behind_wires(two_wires, traffic);
    for stream in 0..3 {
        let hops = record(&world).paths[stream].mean_hops(0).expect("arrivals");
        assert!((hops - 3.0).abs() < 1e-9, "stream {stream}: {hops}");
    }
}

/// A TCP flow between each two ends.
fn bulk(ends: &[(usize, usize)]) -> String {
    let flow = |(from, to): &(usize, usize)| {
        format!("[[traffic]]\nkind = \"bulk\"\nfrom = {from}\nto = {to}\nmss_bytes = 600\nstart_s = 1\n")
    };
    ends.iter().map(flow).collect()
}

/// A network as in osipov2007 with TCP flows between these ends, throttled: 802.11b at 2 Mb/s, decoded to 250 m. Thr_max, in
/// kb/s, is the same over all lengths.
fn throttled(places: &[(f64, f64)], ends: &[(usize, usize)], routing: &str, thr_max: u32) -> World {
    let nodes: Vec<String> = places.iter().map(|(x, y)| format!("{{ x_m = {x}, y_m = {y} }}")).collect();
    let text = format!(
        r#"
        name = "throttled"
        duration_s = 90
        record = {{ interval_s = 1.0 }}
        [radio]
        standard = "802.11b"
        rate_mbps = 2
        basic_rates_mbps = [1]
        capture = "first"
        propagation = {{ model = "range", receive_m = 250, carrier_sense_m = 500 }}
        [topology]
        kind = "explicit"
        nodes = [{}]
        [routing]
        {routing}
        [control]
        kind = "throttle"
        thr_max_kbps = {:?}
        {}
        "#,
        nodes.join(", "),
        [thr_max; 5],
        bulk(ends)
    );
    let scenario = load("throttled.toml", &text, &[]).expect("a scenario").scenario;
    World::new(&scenario, 1).expect("a network")
}

const PDP: &str = "protocol = \"aodv\"\naodv = { pdp = true }";

/// Layout a of claim O-MULTI: nodes 126 m apart, shares 1/3, 1/3, 1/3, 2/3.
fn papers_layout() -> Vec<(f64, f64)> {
    let line = (0..6).map(|x| (x, 0));
    let others = [(0, -3), (0, -2), (0, -1), (-2, 0), (-1, 0), (4, -3), (4, -2), (4, -1)];
    let places = line.chain(others).map(|(x, y)| (126.0 * f64::from(x), 126.0 * f64::from(y)));
    places.collect()
}

#[test]
fn settled_shares_of_the_path_density_protocol_are_the_centralized_ones() {
    let on_a_string = vec![(0, 4), (5, 7), (8, 9), (1, 2)];
    let in_the_layout = vec![(0, 5), (6, 8), (9, 10), (11, 13)];
    for (name, places, ends) in
        [("string", string(9), on_a_string), ("layout", papers_layout(), in_the_layout)]
    {
        let mut central = throttled(&places, &ends, "", 100);
        central.run_until(Nanos::from_secs(2));
        let mut world = throttled(&places, &ends, PDP, 100);
        world.run();
        assert_eq!(record(&world).loops, 0);
        for flow in 0..ends.len() {
            let rate = |world: &World| world.throttled_rate(flow).expect("a rate").0 as f64 / 100e3;
            let (expected, used) = (rate(&central), rate(&world));
            let learnt = world.learnt_share(flow).expect("a share");
            assert!((learnt - expected).abs() <= 1.0 / 16_384.0, "{name}, flow {flow}: {learnt} {expected}");
            assert!((used - learnt).abs() <= 1.0 / 16_384.0, "{name}, flow {flow}: {used} {learnt}");
        }
    }
}

#[test]
fn sources_keep_to_the_share_that_they_have_learnt() {
    let places = [(0.0, 0.0), (200.0, 0.0), (0.0, 20.0), (200.0, 20.0)];
    let mut world = throttled(&places, &[(0, 1), (2, 3)], PDP, 800);
    world.run();
    for stream in [0, 2] {
        let kbps = world.recorder().streams[stream].delivered_bytes as f64 * 8.0 / 1000.0 / 89.0;
        assert!((kbps / 400.0 - 1.0).abs() < 0.02, "{kbps} of 400 kb/s");
    }
}

#[test]
fn throttles_need_shares_and_shares_need_hello() {
    let base = "name = \"x\"\nduration_s = 1\n[topology]\nkind = \"string\"\nhops = 2\nspacing_m = 10\n[routing]\nprotocol = \"aodv\"\n";
    for (keys, message) in [
        ("[control]\nkind = \"throttle\"", "throttles take their shares from paths"),
        ("aodv = { pdp = true, hello = \"off\" }", "carried by HELLO messages"),
    ] {
        let errors = load("x.toml", &format!("{base}{keys}\n"), &[]).expect_err(keys);
        assert!(errors.problems()[0].message().contains(message), "{errors}");
    }
}

/// Four flows of one hop, of which three meet in one region and the fourth shares a region with one of them: 1/3, 1/3, 1/3, 2/3.
/// HELLO messages go at 11 Mb/s, and a tenth of them is lost at a path loss of 103.3 dB, mostly to noise. Data at 1 Mb/s are not.
fn three_and_one() -> World {
    let linked = |a: usize, b: usize| LINKS.contains(&(a, b)) || LINKS.contains(&(b, a));
    let row = |a: usize| (0..8).map(|b| if linked(a, b) { 103.3 } else { 1000.0 }).collect::<Vec<f64>>();
    let matrix: Vec<Vec<f64>> = (0..8).map(row).collect();
    let text = format!(
        r#"
        name = "three and one"
        duration_s = 630
        record = {{ interval_s = 1.0 }}
        [radio]
        standard = "802.11b"
        rate_mbps = 1
        basic_rates_mbps = [1]
        broadcast_rate_mbps = 11
        reception = "sinr"
        capture = "none"
        sensitivity_dbm = -100
        preamble_detect_dbm = -100
        propagation = {{ model = "matrix", loss_db = {matrix:?} }}
        [topology]
        kind = "explicit"
        nodes = [{}]
        [routing]
        protocol = "aodv"
        aodv = {{ pdp = true }}
        [control]
        kind = "throttle"
        thr_max_kbps = [100]
        {}
        "#,
        (0..8).map(|node| format!("{{ x_m = {node}, y_m = 0 }}")).collect::<Vec<_>>().join(", "),
        bulk(&[(0, 3), (1, 4), (2, 5), (6, 7)])
    );
    let scenario = load("shares.toml", &text, &[]).expect("a scenario").scenario;
    World::new(&scenario, 1).expect("a network")
}

const LINKS: [(usize, usize); 8] = [(0, 3), (1, 4), (2, 5), (0, 1), (1, 2), (0, 2), (5, 6), (6, 7)];

/// How often a HELLO could be received, and how often it was.
#[derive(Clone, Debug, Default)]
struct Hellos(Arc<Mutex<(usize, usize)>>);

impl Tap for Hellos {
    fn frame(
        &mut self,
        node: NodeId,
        _: Nanos,
        frame: &Frame,
        _: NodeId,
        packet: Option<PacketView<'_>>,
        received: bool,
    ) {
        const RREP: u8 = 2;
        let message = packet.and_then(|packet| packet.payload()?.first().copied());
        if frame.to == BROADCAST && message == Some(RREP) {
            let mut counts = self.0.lock().expect("counts");
            if received {
                counts.1 += 1;
            } else {
                counts.0 += LINKS.iter().filter(|&&(a, b)| [a, b].contains(&(node as usize))).count();
            }
        }
    }

    fn wired(&mut self, _: NodeId, _: NodeId, _: Nanos, _: PacketView<'_>, _: bool) {}
}

#[test]
fn with_a_tenth_of_the_hellos_lost_shares_in_the_world_are_within_5_percent_in_95_percent_of_the_time() {
    let mut world = three_and_one();
    let hellos = Hellos::default();
    world.set_tap(Box::new(hellos.clone()));
    let (settled, end) = (30, 630);
    let mut close = [0; 4];
    for second in settled..end {
        world.run_until(Nanos::from_secs(second));
        for (flow, expected) in [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0].into_iter().enumerate() {
            let share = world.learnt_share(flow);
            close[flow] += u64::from(share.is_some_and(|share: f64| (share / expected - 1.0).abs() <= 0.05));
        }
    }
    let (possible, received) = *hellos.0.lock().expect("counts");
    let lost = 1.0 - received as f64 / possible as f64;
    println!("{lost:.3} of {possible} HELLO receptions lost; within 5 % in {close:?} seconds");
    assert!((0.08..0.14).contains(&lost), "{lost}");
    assert!(close.into_iter().all(|seconds| 100 * seconds >= 95 * (end - settled)), "{close:?}");
}

/// A walker in two calls with two downloads loses the direct link to the gateway at about 24 s; HELLO alone notices it.
fn walker_under_control(tuning: &str) -> World {
    let text = format!(
        r#"
        name = "a walker under control"
        duration_s = 36
        record = {{ interval_s = 1.0 }}
        [radio]
        standard = "802.11a"
        rate_mbps = 12
        capture = "first"
        propagation = {{ model = "range", receive_m = 250, carrier_sense_m = 550 }}
        [topology]
        kind = "explicit"
        nodes = [
          {{ x_m = 0, y_m = 0 }},
          {{ x_m = 220, y_m = 0 }},
          {{ x_m = 200, y_m = 10, waypoints = [
            {{ at_s = 20, x_m = 200, y_m = 10 }},
            {{ at_s = 32, x_m = 320, y_m = 10 }},
          ] }},
        ]
        gateway = 0
        [internet]
        delay_ms = 30
        rate_mbps = 100
        [routing]
        protocol = "aodv"
        aodv = {{ link_feedback = false }}
        [control]
        kind = "adaptive"
        tuning = {{ {tuning} }}
        [[traffic]]
        kind = "call"
        from = "internet"
        to = 2
        count = 2
        [[traffic]]
        kind = "bulk"
        from = "internet"
        to = 2
        count = 2
        "#
    );
    let scenario = load("walker.toml", &text, &[]).expect("a scenario").scenario;
    let mut world = World::new(&scenario, 1).expect("a network");
    world.run();
    world
}

#[test]
fn adaptive_control_names_a_broken_route_and_keeps_what_it_has_learnt() {
    let (aware, unaware) = (walker_under_control(""), walker_under_control("route_silent_s = 1e9"));
    let silence = record(&aware).paths[0].interruptions[0];
    let (from, to) = (silence.from.as_secs_f64(), silence.to.as_secs_f64());
    assert!((1.0..3.0).contains(&(to - from)), "{from} to {to} s");
    let [aware, unaware] =
        [&aware, &unaware].map(|world| world.control().expect("control").decisions().to_vec());
    // Nothing is named before the walker leaves.
    let at = |one: &Decided| one.decision.at.as_secs_f64();
    let named: Vec<f64> =
        aware.iter().filter(|one| one.decision.reason == Reason::RouteInterrupted).map(at).collect();
    assert!(named.len() >= 10 && named.iter().all(|at| (from..to + 2.0).contains(at)), "{named:?}");
    assert!(aware.iter().all(|one| at(one) < from || one.decision.state != State::Learning), "learns anew");
    // TCP returns with most of the budget that it had: calls take more over a longer path.
    let kept = |log: &[_]| max_budget(log, to + 0.2, to + 3.0) / max_budget(log, from - 1.0, from);
    let (aware, unaware) = (kept(&aware), kept(&unaware));
    println!("{aware:.2} of the budget, {unaware:.2} if unaware");
    assert!(aware > 0.75 && unaware < 0.6, "{aware} {unaware}");
}
