//! Conservation of packets: whatever a scenario is made of, every packet that was sent has arrived, was lost for one reason,
//! or is in the network at the end of the run.
//!
//! Scenarios are drawn as TOML: topologies, radios, queues with every discipline, EDCA, every kind of traffic, every control,
//! and changes during the run. A second test makes sure that the generator draws all of them.

use std::collections::BTreeSet;

use crate::support::*;
use fairhop_model::phy::{Phy, frame};
use fairhop_model::units::Nanos;
use fairhop_sim::mac::BROADCAST;
use fairhop_sim::scenario::load;
use fairhop_sim::world::World;
use fairhop_sim::world::applications::flow::FlowKind;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

const DISCIPLINES: [&str; 7] = ["drop-tail", "red", "priority", "codel", "fq-codel", "cake", "drr"];
const CONTROLS: [&str; 9] =
    ["none", "window", "data-pacing", "ack-pacing", "combined", "shaper", "throttle", "priority", "adaptive"];
const TCP: [&str; 9] =
    ["reno", "newreno", "vegas", "veno", "westwood", "westwood-plus", "cubic", "compound", "bbr"];

/// One of the values.
fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

/// A queue as an inline table.
fn queue() -> impl Strategy<Value = String> {
    let limit = prop_oneof![
        (1_u32..=10).prop_map(|packets| format!("packets = {packets}")),
        (1500_u32..8000).prop_map(|bytes| format!("bytes = {bytes}")),
    ];
    (one_of(&DISCIPLINES), limit, any::<bool>()).prop_map(|(discipline, limit, flag)| {
        let own = match discipline {
            "drop-tail" => return format!("{{ {limit} }}"),
            "red" => format!(", min_packets = 1, max_packets = 4, weight = 0.2, ecn = {flag}"),
            "codel" | "fq-codel" | "cake" => format!(", target_ms = 1, interval_ms = 10, ecn = {flag}"),
            _ => String::new(),
        };
        format!("{{ discipline = \"{discipline}\", {limit}{own} }}")
    })
}

/// The own keys of one kind of traffic.
fn kind_of_traffic() -> impl Strategy<Value = String> {
    let law = "{ law = \"fixed\", bytes = 20_000 }";
    let think = "{ law = \"exponential\", mean_s = 0.1 }";
    let tcp = (
        (one_of(&TCP), prop::option::of(1_u64..150_000), 88_u32..1460, 1_460_u32..100_000),
        (prop::option::of(1_u32..20), 1_u32..=10, 1_u32..=4, any::<[bool; 4]>()),
    );
    let bulk = tcp.prop_map(
        |((tcp, size, mss, buffer), (window, initial, delayed, [sack, ecn, stamps, counting]))| {
            let size = size.map_or_else(String::new, |size| format!("size_bytes = {size}\n"));
            let window = window.map_or_else(String::new, |window| format!("max_window_packets = {window}\n"));
            format!(
                "kind = \"bulk\"\ntcp = \"{tcp}\"\n{size}{window}mss_bytes = {mss}\nreceive_buffer_bytes = {buffer}\n\
                 initial_window_packets = {initial}\ndelayed_ack_segments = {delayed}\ndelayed_ack_ms = 40\n\
                 sack = {sack}\necn = {ecn}\ntimestamps = {stamps}\nbyte_counting = {counting}\nrto_min_ms = 200"
            )
        },
    );
    let call =
        (one_of(&["g729a", "g711", "g723.1", "opus"]), one_of(&[0.0, 0.1])).prop_map(|(codec, rtcp)| {
            format!("kind = \"call\"\ncount = 2\ncodec = \"{codec}\"\nrtcp_interval_s = {rtcp:?}")
        });
    let aimd = (100_u32..1500, 2_u32..40).prop_map(|(bytes, window)| {
        format!("kind = \"aimd\"\npacket_bytes = {bytes}\nrwnd_packets = {window}")
    });
    let quic = (one_of(&TCP), prop::option::of(1_u64..150_000)).prop_map(|(controller, size)| {
        let size = size.map_or_else(String::new, |size| format!("\nsize_bytes = {size}"));
        format!("kind = \"quic\"\ncontroller = \"{controller}\"{size}")
    });
    let rate_and_bytes = || (50.0..2500.0, 29_u32..=1500);
    let cbr = rate_and_bytes().prop_map(|(rate, bytes)| {
        format!("kind = \"cbr\"\nrate_kbps = {rate:?}\npayload_bytes = {}", bytes - 28)
    });
    let ping = (1.0..50.0, 29_u32..=1500).prop_map(|(interval, bytes)| {
        format!("kind = \"ping\"\ninterval_ms = {interval:?}\npacket_bytes = {bytes}")
    });
    let burst = (rate_and_bytes(), 1_u32..=8).prop_map(|((rate, bytes), packets)| {
        format!("kind = \"burst\"\nrate_kbps = {rate:?}\npacket_bytes = {bytes}\nburst_packets = {packets}")
    });
    let video = (50.0..2500.0, 2_u32..12).prop_map(|(rate, group)| {
        format!("kind = \"video\"\nrate_kbps = {rate:?}\ngroup_frames = {group}\ni_to_p = 3\nvariation = 0.3")
    });
    prop_oneof![
        call,
        bulk,
        aimd,
        quic,
        cbr.clone(),
        cbr.prop_map(|cbr| format!("{cbr}\nto = \"broadcast\"")),
        burst,
        ping,
        Just(format!("kind = \"web\"\nsize = {law}\nthink = {think}")),
        Just(format!("kind = \"request\"\nresponse = {law}\nthink = {think}")),
        video,
    ]
}

/// An entry of the traffic between two places.
fn traffic(nodes: u32, internet: bool) -> impl Strategy<Value = String> {
    let places: Vec<String> =
        (0..nodes).map(|node| node.to_string()).chain(internet.then(|| "\"internet\"".to_owned())).collect();
    let ends = (one_of(&places), one_of(&places)).prop_filter("two ends", |(from, to)| from != to);
    (kind_of_traffic(), ends, 0.0..0.4, prop::option::of(0.1..1.0)).prop_map(
        |(kind, (from, to), start_s, length_s)| {
            let broadcast = kind.contains("broadcast");
            let from = if broadcast && from.starts_with('"') { &to } else { &from };
            let to = if broadcast { String::new() } else { format!("to = {to}\n") };
            let stop =
                length_s.map_or_else(String::new, |length| format!("stop_s = {:?}\n", start_s + length));
            format!("[[traffic]]\n{kind}\nfrom = {from}\n{to}start_s = {start_s:?}\n{stop}")
        },
    )
}

/// A control that begins, changes and ends during the run, where its kind can.
fn control() -> impl Strategy<Value = String> {
    let own = |kind: &str, rate: f64, packets: u32| match kind {
        "window" => format!("window_packets = {packets}"),
        "data-pacing" => format!("rate_kbps = {rate:?}\nqueue_packets = {packets}"),
        "ack-pacing" => format!("rate_kbps = {rate:?}"),
        "combined" => format!("window_packets = {packets}\nrate_kbps = {rate:?}\nqueue_packets = {packets}"),
        "shaper" => {
            let discipline = ["drop-tail", "priority", "fq-codel", "cake"][packets as usize % 4];
            format!("rate_kbps = {rate:?}\nup_kbps = {rate:?}\ndiscipline = \"{discipline}\"")
        }
        _ => String::new(),
    };
    (one_of(&CONTROLS), 100.0..3000.0, 1_u32..20, any::<bool>()).prop_map(move |(kind, rate, packets, changes)| {
        let mut text = format!("[control]\nkind = \"{kind}\"\n{}\n", own(kind, rate, packets));
        if changes && kind != "priority" {
            text += "start_s = 0.1\nstop_s = 0.45\n";
            text += "[[control.change]]\nat_s = 0.3\nkind = \"data-pacing\"\nrate_kbps = 200\nqueue_packets = 3\n";
        }
        text
    })
}

/// A topology and the number of its nodes.
fn topology() -> impl Strategy<Value = (String, u32)> {
    prop_oneof![
        (1_u32..=4).prop_map(|hops| (format!("kind = \"string\"\nhops = {hops}"), hops + 1)),
        one_of(&["0", "[0, 5]"])
            .prop_map(|gateway| (format!("kind = \"grid\"\ncolumns = 3\nrows = 2\ngateway = {gateway}"), 6)),
        (3_u32..=6).prop_map(|nodes| (format!("kind = \"ring\"\nnodes = {nodes}"), nodes)),
    ]
}

/// Changes during the run: rates that fall, and nodes that move by up to 10 m.
#[derive(Clone, Copy, Debug)]
enum Jolt {
    Slow { node: usize },
    Move { node: usize, by_m: f64 },
}

fn jolts() -> impl Strategy<Value = Vec<(f64, Jolt)>> {
    let jolt = prop_oneof![
        (0_usize..6).prop_map(|node| Jolt::Slow { node }),
        (0_usize..6, -10.0..10.0).prop_map(|(node, by_m)| Jolt::Move { node, by_m }),
    ];
    prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec((0.01..0.49, jolt), 1..12)]
}

/// Any scenario, as text, and changes that are still to be written for its nodes.
fn scenarios() -> impl Strategy<Value = (String, Vec<(f64, Jolt)>)> {
    // A standard, its rate and preamble.
    let phy = one_of(&[
        ("802.11a", 12, "long"),
        ("802.11a", 6, "long"),
        ("802.11b", 2, "long"),
        ("802.11b", 11, "short"),
        ("802.11g", 12, "long"),
    ]);
    let radio = (phy, one_of(&["none", "first", "stronger"]), any::<bool>());
    let mac = (queue(), prop::option::of(one_of(&[0_u32, 300])), any::<bool>());
    let wired = prop::option::of((1.0..100.0, 0.0..20.0, queue()));
    let control = prop::option::of(control());
    (topology(), radio, mac, wired, control, 0.5..1.5, jolts()).prop_flat_map(
        |((topology, nodes), ((standard, rate, preamble), capture, sinr), mac, wired, control, duration_s, jolts)| {
            let (mut queue, rts, edca) = mac;
            let control = control.unwrap_or_default();
            if control.contains("\"priority\"\n") {
                queue = "{ packets = 5 }".to_owned();
            }
            // 16 − 40 − 22.2 log10 200 = −75.1 dBm between neighbours: no loss by noise at these rates, but
            // interference from farther away counts.
            let reception = if sinr {
                "reception = \"sinr\"\npropagation = { model = \"log-distance\", exponent = 2.22, reference_loss_db = 40 }"
            } else {
                ""
            };
            let rts = rts.map_or_else(String::new, |bytes| format!("rts_threshold_bytes = {bytes}\n"));
            let internet = wired.as_ref().map_or_else(String::new, |(rate_mbps, delay_ms, queue)| {
                format!("[internet]\nrate_mbps = {rate_mbps:?}\ndelay_ms = {delay_ms:?}\nqueue = {queue}\n")
            });
            let head = format!(
                "name = \"drawn\"\nduration_s = {duration_s:?}\nrecord = {{ interval_s = 0.1 }}\n\
                 [radio]\nstandard = \"{standard}\"\nrate_mbps = {rate}\npreamble = \"{preamble}\"\n\
                 capture = \"{capture}\"\n{reception}\n\
                 [mac]\nqueue = {queue}\nedca = {edca}\n{rts}\
                 [topology]\n{topology}\nspacing_m = 200\n{internet}{control}"
            );
            prop::collection::vec(traffic(nodes, wired.is_some()), 1..=4)
                .prop_map(move |flows| (format!("{head}{}", flows.concat()), jolts.clone()))
        },
    )
}

/// The drawn scenario with its changes, or nothing where it cannot be built: a node may have moved out of reach.
fn lab(text: &str, jolts: &[(f64, Jolt)], seed: u64) -> Option<Lab> {
    let mut lab = Lab::at([]);
    lab.scenario = load("drawn.toml", text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}")).scenario;
    let places = World::new(&lab.scenario, seed).ok()?.links().positions().to_vec();
    let slow = if lab.scenario.radio.rate_mbps > 6.0 { 6.0 } else { lab.scenario.radio.rate_mbps };
    let slow = if lab.scenario.radio.rate_mbps == 11.0 { 2.0 } else { slow };
    for &(at_s, jolt) in jolts {
        lab.scenario.change.push(match jolt {
            Jolt::Slow { node } => change(&format!(
                "kind = \"rate\"\nat_s = {at_s:?}\nfrom = {}\nrate_mbps = {slow:?}",
                node % places.len()
            )),
            Jolt::Move { node, by_m } => {
                let node = node % places.len();
                let (x_m, y_m) = (places[node].x_m + by_m, places[node].y_m + by_m / 2.0);
                change(&format!(
                    "kind = \"move\"\nat_s = {at_s:?}\nnode = {node}\nx_m = {x_m:?}\ny_m = {y_m:?}"
                ))
            }
        });
    }
    World::new(&lab.scenario, seed).is_ok().then_some(lab)
}

/// Packets of a stream that were seen to arrive at its destination.
fn seen_to_arrive(run: &Run, stream: u32, destination: u32) -> u64 {
    let on_air = run
        .frames
        .iter()
        .filter(|f| f.received && f.is_data() && f.to == destination && f.node == destination);
    let on_wire = run.wired.iter().filter(|seen| seen.arrived && seen.node == destination);
    let packets = on_air.filter_map(|frame| frame.packet).chain(on_wire.map(|seen| seen.packet));
    let of_stream = packets.filter(|packet| packet.stream == stream && packet.number != REPORT);
    of_stream.map(|packet| (packet.created, packet.number)).collect::<BTreeSet<_>>().len() as u64
}

/// The shortest possible delay of a stream's packets: their bytes on every hop, and the wire of the Internet.
fn shortest_delay(lab: &Lab, run: &Run, stream: u32, ends: [u32; 2]) -> Nanos {
    let radio = &lab.scenario.radio;
    let phy = Phy::new(radio.standard, radio.preamble);
    let rate = radio.standard.rate(radio.rate_mbps).expect("a rate of the standard");
    let packets =
        run.frames.iter().filter_map(|frame| frame.packet).chain(run.wired.iter().map(|seen| seen.packet));
    let bytes =
        packets.filter(|packet| packet.stream == stream).map(|packet| packet.bytes).min().expect("a packet");
    let radio_time = phy.frame_duration(rate, frame::of_ip_packet(bytes)) * run.hops(stream).len() as u64;
    let internet = run.world.node_count() as u32;
    let wire = lab.scenario.internet.as_ref().filter(|_| ends.contains(&internet));
    radio_time
        + wire.map_or(Nanos::ZERO, |wire| {
            Nanos::from_millis_f64(wire.delay_ms)
                + Nanos::from_secs_f64(f64::from(bytes) * 8e-6 / wire.rate_mbps)
        })
}

fn is_tcp(kind: FlowKind) -> bool {
    match kind {
        FlowKind::Bulk(_) | FlowKind::Web(_) | FlowKind::Request(_) => true,
        FlowKind::Call(_)
        | FlowKind::Aimd(_)
        | FlowKind::Quic(_)
        | FlowKind::Cbr
        | FlowKind::Burst
        | FlowKind::Ping
        | FlowKind::Video(_)
        | FlowKind::Real(_) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_packet_sent_has_arrived_was_lost_for_one_reason_or_is_in_the_network(
        (text, jolts) in scenarios(),
        seed in any::<u64>(),
    ) {
        let drawn = lab(&text, &jolts, seed);
        prop_assume!(drawn.is_some());
        let lab = drawn.unwrap();
        let run = lab.run(seed);
        for (index, flow) in run.world.flows().iter().enumerate() {
            for (stream, destination) in [(2 * index, flow.to), (2 * index + 1, flow.from)] {
                let record = &run.world.recorder().streams[stream];
                if !run.world.recorder().is_measured(stream as u32) {
                    continue;
                }
                let finished = record.lost_total() + record.in_flight + record.overdue;
                if destination == BROADCAST {
                    prop_assert!(finished <= record.sent);
                    prop_assert_eq!(record.receptions.iter().map(|at| at.packets).sum::<u64>(), record.arrived);
                    prop_assert!(record.receptions.is_sorted_by(|a, b| a.node < b.node));
                    for at in &record.receptions {
                        prop_assert!(at.packets <= record.decided() && at.node != flow.from);
                    }
                    continue;
                }
                prop_assert_eq!(record.sent, record.arrived + finished, "stream {} {:?}", stream, flow);
                prop_assert!(record.late >= record.overdue && record.late - record.overdue <= record.arrived);
                if !is_tcp(flow.kind) {
                    // Segments have no number to distinguish them by. The gateway's queues hold or drop packets that a
                    // frame has brought to it.
                    // An echo request has arrived when its reply has.
                    let end = if flow.kind == FlowKind::Ping { flow.from } else { destination };
                    let seen = seen_to_arrive(&run, stream as u32, end);
                    let held = if lab.scenario.control.is_some() { finished } else { 0 };
                    prop_assert!(record.arrived <= seen && seen <= record.arrived + held, "{} of {}", seen, record.arrived);
                }
                prop_assert!(record.delivered_bytes <= record.sent_bytes);
                if record.arrived > 0 {
                    prop_assert!(record.delay_min <= record.delay_max);
                }
                if record.arrived > 0 && lab.scenario.change.is_empty() {
                    let shortest = shortest_delay(&lab, &run, stream as u32, [flow.from, flow.to]);
                    // Times on the wire are rounded to nanoseconds, and its rate to a bit per second.
                    let rounded = Nanos(2 + shortest.0 / 1_000_000);
                    prop_assert!(record.delay_min + rounded >= shortest, "{:?} < {:?}", record.delay_min, shortest);
                }
            }
        }
        let bulk = run.world.flows().iter().filter_map(|flow| match flow.kind {
            FlowKind::Bulk(index) => Some((&run.world.transfers()[index], flow)),
            _ => None,
        });
        for (transfer, flow) in bulk {
            prop_assert!(transfer.size.is_none_or(|size| transfer.delivered <= size));
            prop_assert_eq!(transfer.completed.is_some(), transfer.size == Some(transfer.delivered), "{:?}", flow);
        }
    }
}

#[test]
fn the_property_draws_every_kind_of_traffic_control_queue_and_change() {
    let mut runner = TestRunner::deterministic();
    let strategy = scenarios();
    let (mut seen, mut built) = (BTreeSet::new(), 0);
    for _ in 0..300 {
        let (text, jolts) = strategy.new_tree(&mut runner).expect("a scenario").current();
        let Some(lab) = lab(&text, &jolts, 1) else { continue };
        built += 1;
        for flow in lab.world(1).flows() {
            let broadcast = if flow.to == BROADCAST { " broadcast" } else { "" };
            seen.insert(format!("{}{broadcast}", flow.kind.name()));
        }
        let control = lab.scenario.control.as_ref().map(|control| format!("control {}", control.kind()));
        seen.extend(control);
        let disciplines =
            DISCIPLINES.iter().filter(|name| text.contains(&format!("discipline = \"{name}\"")));
        seen.extend(disciplines.map(|name| format!("queue {name}")));
        for (word, drawn) in [
            ("queue drop-tail", text.contains("queue = { packets") || text.contains("queue = { bytes")),
            ("edca", text.contains("edca = true")),
            ("rate", jolts.iter().any(|(_, jolt)| matches!(jolt, Jolt::Slow { .. }))),
            ("move", jolts.iter().any(|(_, jolt)| matches!(jolt, Jolt::Move { .. }))),
            ("control change", text.contains("control.change")),
        ] {
            seen.extend(drawn.then(|| word.to_owned()));
        }
    }
    assert!(built >= 270, "{built} of 300 scenarios could be built");
    let kinds =
        ["call", "bulk", "aimd", "quic", "cbr", "cbr broadcast", "burst", "ping", "web", "request", "video"];
    let expected = kinds.into_iter().chain(["edca", "rate", "move", "control change"]).map(str::to_owned);
    let expected = expected.chain(CONTROLS.map(|kind| format!("control {kind}")));
    let expected: BTreeSet<String> =
        expected.chain(DISCIPLINES.map(|name| format!("queue {name}"))).collect();
    let missing: Vec<_> = expected.difference(&seen).collect();
    assert!(missing.is_empty(), "never drawn: {missing:?}");
}
