//! Wired networks, time-slotted links and queue disciplines.
#![allow(clippy::unwrap_used)]

use fairhop_model::markov::Channel;
use fairhop_model::outage::{Arq, Link as SlottedLink};
use fairhop_sim::results::{FlowSummary, LinkSummary, Summary};
use fairhop_sim::scenario::load;
use fairhop_sim::world::World;

/// The summary of a run.
fn run(text: &str) -> Summary {
    let mut world = world(text);
    world.run();
    Summary::of(&world, false)
}

fn world(text: &str) -> World {
    let loaded = load("test.toml", text, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    World::new(&loaded.scenario, loaded.scenario.seed).unwrap_or_else(|findings| panic!("{findings:?}"))
}

fn link<'a>(summary: &'a Summary, from: &str, to: &str) -> &'a LinkSummary {
    summary.links.iter().find(|link| link.from == from && link.to == to).unwrap()
}

fn flow<'a>(summary: &'a Summary, name: &str) -> &'a FlowSummary {
    summary.flows.iter().find(|flow| flow.name == name).unwrap()
}

/// Two hosts and a router without any radio: 1250-byte packets, 10 Mb/s (1 ms each) and 5 ms, then 5 Mb/s (2 ms) and
/// 10 ms: 18 ms, and with 14 bytes more a frame on the second link 2.0224 ms.
#[test]
fn the_delay_of_a_wired_path_is_the_sum_of_sending_times_and_link_delays() {
    let text = r#"
        name = "wires"
        duration_s = 2
        topology = { kind = "none" }
        [[wired.hosts]]
        name = "a"
        [[wired.hosts]]
        name = "r"
        [[wired.hosts]]
        name = "b"
        [[wired.links]]
        between = ["a", "r"]
        rate_mbps = 10
        delay_ms = 5
        [[wired.links]]
        between = ["r", "b"]
        rate_mbps = 5
        delay_ms = 10
        overhead_bytes = 14
        [[traffic]]
        kind = "cbr"
        from = "a"
        to = "b"
        rate_kbps = 488.8
        payload_bytes = 1222
    "#;
    let summary = run(text);
    let flow = flow(&summary, "cbr-0");
    assert_eq!((flow.loss, flow.sent), (0.0, 100.0));
    assert!((flow.delay.min_ms - 18.0224).abs() < 1e-9 && flow.delay.max_ms == flow.delay.min_ms, "{flow:?}");
    // A packet each 20 ms.
    assert!((link(&summary, "a", "r").utilization - 0.05).abs() < 1e-3);
    assert!((link(&summary, "r", "b").utilization - 2.0224 / 20.0).abs() < 2e-3);
    assert_eq!(link(&summary, "b", "r").sent, 0.0);
}

/// The reply is one packet with its request: the round trip is its delay, and a request without a reply is lost.
#[test]
fn a_ping_has_the_round_trip_as_its_delay() {
    let of = |queue: &str| {
        let text = format!(
            r#"
            name = "ping"
            duration_s = 2
            topology = {{ kind = "none" }}
            wired.hosts = [{{ name = "a" }}, {{ name = "b" }}]
            wired.links = [{{ between = ["a", "b"], rate_mbps = 10, delay_ms = 5 }}]
            traffic = [{{ kind = "ping", from = "a", to = "b", interval_ms = 20, packet_bytes = 1250 }}{queue}]
            "#
        );
        flow(&run(&text), "ping-0").clone()
    };
    let ping = of("");
    assert_eq!((ping.loss, ping.sent), (0.0, 100.0));
    assert!((ping.delay.min_ms - 12.0).abs() < 1e-9 && ping.delay.max_ms == ping.delay.min_ms, "{ping:?}");
    // The way back is full: half of the requests and more have no reply.
    let full = ", { kind = \"cbr\", from = \"b\", to = \"a\", rate_kbps = 30000, payload_bytes = 1222 }";
    let ping = of(full);
    assert!(ping.sent == 100.0 && ping.loss > 0.5, "{ping:?}");
}

/// Wires are preferred to radio hops, and among wires the shortest delay; a host reaches a node through the gateway that saves
/// radio hops.
#[test]
fn a_path_minimizes_radio_hops_and_then_wired_delay() {
    let text = |to: u32| {
        format!(
            r#"
            name = "two gateways"
            duration_s = 2
            topology = {{ kind = "string", hops = 4, spacing_m = 200 }}
            wired.hosts = [{{ name = "server" }}, {{ name = "r" }}]
            [[wired.links]]
            between = ["server", "gateway"]
            rate_mbps = 100
            delay_ms = 10
            [[wired.links]]
            between = ["server", "r"]
            rate_mbps = 100
            delay_ms = 2
            [[wired.links]]
            between = ["r", 4]
            rate_mbps = 100
            delay_ms = 50
            [[wired.links]]
            between = ["r", "gateway"]
            rate_mbps = 100
            delay_ms = 3
            [[traffic]]
            kind = "cbr"
            from = "server"
            to = {to}
            rate_kbps = 80
            payload_bytes = 500
        "#
        )
    };
    let delay = |to| flow(&run(&text(to)), "cbr-0").delay.min_ms;
    // Through r: 5 ms of wire, and hops of less than 2 ms each.
    assert!((5.0..5.2).contains(&delay(0)), "{}", delay(0));
    assert!((5.2..8.0).contains(&delay(1)));
    // 52 ms of wire save a hop.
    assert!((52.2..54.0).contains(&delay(3)));
    assert!((52.0..52.2).contains(&delay(4)));
}

#[test]
fn a_wire_joins_nodes_without_a_radio_path() {
    let text = r#"
        name = "islands"
        duration_s = 2
        topology = { kind = "explicit", nodes = [
            { x_m = 0, y_m = 0 }, { x_m = 200, y_m = 0 }, { x_m = 5000, y_m = 0 }, { x_m = 5200, y_m = 0 }] }
        [[wired.links]]
        between = [1, 2]
        rate_mbps = 100
        delay_ms = 7
        [[traffic]]
        kind = "call"
        from = 0
        to = 3
    "#;
    let summary = run(text);
    let call = &summary.calls[0];
    assert_eq!(call.loss, 0.0);
    assert!(call.forward.delay.min_ms > 7.0 && call.forward.delay.min_ms < 9.0, "{call:?}");
    let sent = |node: usize| summary.nodes[node].frames_sent;
    assert!(sent(0) > 0.0 && sent(1) > 0.0 && sent(2) > 0.0 && sent(3) > 0.0);
}

/// One direction loses every 10th large packet; the other has another rate and delay.
#[test]
fn the_directions_of_a_link_may_differ() {
    let text = r#"
        name = "one way"
        duration_s = 10
        topology = { kind = "none" }
        wired.hosts = [{ name = "a" }, { name = "b" }]
        [[wired.links]]
        between = ["a", "b"]
        rate_mbps = 10
        delay_ms = 5
        forward = { loss = { every = 10, over_bytes = 200 } }
        backward = { delay_ms = 20, rate_mbps = 1 }
        [[traffic]]
        kind = "cbr"
        name = "there"
        from = "a"
        to = "b"
        rate_kbps = 80
        payload_bytes = 972
        [[traffic]]
        kind = "cbr"
        name = "back"
        from = "b"
        to = "a"
        rate_kbps = 80
        payload_bytes = 972
        [[traffic]]
        kind = "cbr"
        name = "small"
        from = "a"
        to = "b"
        rate_kbps = 80
        payload_bytes = 172
    "#;
    let summary = run(text);
    let there = flow(&summary, "there-0");
    assert_eq!((there.lost["link"], flow(&summary, "small-0").loss), (there.sent.div_euclid(10.0), 0.0));
    let back = flow(&summary, "back-0");
    assert_eq!(back.loss, 0.0);
    assert!((back.delay.min_ms - 28.0).abs() < 1e-9, "1000 bytes at 1 Mb/s and 20 ms: {back:?}");
}

/// A slotted link of cai2005: 125 bytes at 200 kb/s are a slot of 5 ms.
fn slotted(channel: &str, rate_kbps: f64, seconds: u32) -> String {
    format!(
        r#"
        name = "slots"
        duration_s = {seconds}
        warmup_s = 5
        topology = {{ kind = "none" }}
        wired.hosts = [{{ name = "bs" }}, {{ name = "mh" }}]
        [[wired.links]]
        between = ["bs", "mh"]
        rate_mbps = 0.2
        delay_ms = 0
        queue = {{ packets = 10 }}
        forward = {{ channel = {{ slot_bytes = 125, {channel} }} }}
        [[traffic]]
        kind = "cbr"
        from = "bs"
        to = "mh"
        rate_kbps = {rate_kbps}
        payload_bytes = 97
    "#
    )
}

/// The link is overloaded, so that no slot is idle. Its throughput per slot is that of the chain's stationary distribution, for
/// both kinds of ARQ, with and without memory. With n = 180,000 slots the mean is known to ±0.3 % at 4 standard deviations
/// where slots are independent.
#[test]
fn a_busy_slotted_link_has_the_throughput_of_its_channel_and_arq() {
    let seconds = 905;
    for (error, memory, states) in [(0.1, 0.0, 2), (0.1, 0.35, 3), (0.3, 0.8, 2)] {
        let channel = || Channel::multi_state(states, error, memory).unwrap();
        for (word, arq) in [("persistent", Arq::Persistent), ("optimal", Arq::Optimal)] {
            let text = format!("error = {error}, memory = {memory}, states = {states}, arq = \"{word}\"");
            let summary = run(&slotted(&text, 400.0, seconds));
            let per_slot = link(&summary, "bs", "mh").sent / (f64::from(seconds - 5) / 0.005);
            let expected = SlottedLink::new(channel(), arq).unwrap().throughput();
            let correlated = (1.0 + memory) / (1.0 - memory);
            let tolerance = 4.0 * (error * (1.0 - error) * correlated / 180_000.0).sqrt();
            assert!(
                (per_slot - expected).abs() < tolerance,
                "{text}: {per_slot} of {expected} ± {tolerance}"
            );
        }
        // Without ARQ each slot has another packet, and the fraction `error` of them is lost.
        let text = format!("error = {error}, memory = {memory}, states = {states}, arq = \"none\"");
        let summary = run(&slotted(&text, 400.0, seconds));
        let bs = link(&summary, "bs", "mh");
        let tolerance = 4.0 * (error * (1.0 - error) * (1.0 + memory) / (1.0 - memory) / 180_000.0).sqrt();
        assert!((bs.lost / bs.sent - error).abs() < tolerance, "{text}: {bs:?}");
        assert!((bs.utilization - 1.0).abs() < 1e-6 && (bs.sent - 180_000.0).abs() <= 1.0);
        assert_eq!(bs.queue_max, 10.0, "the packet being sent included");
    }
}

/// Under a light load and without errors, a packet waits for the next slot and takes it: one to two slots in all. A packet of
/// two slots takes one more.
#[test]
fn a_packet_waits_for_a_slot_and_a_large_one_takes_several() {
    let delays = |text: &str| {
        let summary = run(text);
        let delay = flow(&summary, "cbr-0").delay.clone();
        (delay.min_ms, delay.max_ms)
    };
    // A period that drifts through the slot.
    let text = slotted("error = 0", 17.0, 65);
    let (min, max) = delays(&text);
    assert!((5.0..5.2).contains(&min) && (9.8..=10.0).contains(&max), "{min} {max}");
    let (min, max) = delays(&text.replace("payload_bytes = 97", "payload_bytes = 98"));
    assert!((10.0..10.2).contains(&min) && (14.8..=15.0).contains(&max), "{min} {max}");
}

/// Two long transfers and a sparse call through a bottleneck of 2 Mb/s. FQ-CoDel and priority keep the call's delay near that of
/// an idle path; with 100 packets of drop-tail it waits for most of the queue (100 · 12 kbit / 2 Mb/s = 600 ms).
#[test]
fn queue_disciplines_keep_a_call_from_waiting_behind_transfers() {
    let p95 = |queue: &str| {
        let text = format!(
            r#"
            name = "bottleneck"
            duration_s = 30
            warmup_s = 5
            topology = {{ kind = "none" }}
            wired.hosts = [{{ name = "a" }}, {{ name = "b" }}]
            [[wired.links]]
            between = ["a", "b"]
            rate_mbps = 2
            delay_ms = 20
            queue = {queue}
            [[traffic]]
            kind = "bulk"
            count = 2
            from = "a"
            to = "b"
            [[traffic]]
            kind = "call"
            from = "a"
            to = "b"
        "#
        );
        let summary = run(&text);
        assert!(link(&summary, "a", "b").utilization > 0.9, "{queue}");
        (summary.calls[0].forward.delay.p95_ms, link(&summary, "a", "b").clone())
    };
    let (drop_tail, link) = p95("{ packets = 100 }");
    assert!(
        drop_tail > 400.0 && link.queue_drops > 0.0 && link.queue_early_drops == 0.0,
        "{drop_tail} {link:?}"
    );
    // One packet, of 6 ms, may be in service.
    for queue in
        ["{ discipline = \"fq-codel\", packets = 100 }", "{ discipline = \"priority\", packets = 100 }"]
    {
        let (p95, _) = p95(queue);
        assert!(p95 < 20.0 + 0.3 + 6.0 + 6.5, "{queue}: {p95}");
    }
    let (codel, link) = p95("{ discipline = \"codel\", packets = 100 }");
    assert!(codel < 100.0 && link.queue_early_drops > 0.0, "{codel} {link:?}");
    let (red, link) = p95("{ discipline = \"red\", packets = 100, min_packets = 5, max_packets = 15 }");
    assert!(red < 250.0 && link.queue_early_drops > 0.0, "{red} {link:?}");
}

#[test]
fn a_flow_to_a_host_without_a_link_has_no_route() {
    let text = r#"
        name = "alone"
        duration_s = 2
        topology = { kind = "string", hops = 1, spacing_m = 200 }
        wired.hosts = [{ name = "island" }]
        [[traffic]]
        kind = "bulk"
        from = "island"
        to = 1
    "#;
    let loaded = load("test.toml", text, &[]).unwrap();
    let findings = World::new(&loaded.scenario, 1).err().unwrap();
    assert_eq!(findings[0].path, "traffic.0.to");
    assert_eq!(findings[0].message, "no route from \"island\" to node 1");
}

/// The same transfer through CoDel with and without ECN: marks replace all early drops, so that nothing is retransmitted.
#[test]
fn codel_slows_an_ecn_capable_transfer_without_losses() {
    let text = |ecn: bool| {
        format!(
            r#"
            name = "ecn"
            duration_s = 30
            warmup_s = 5
            topology = {{ kind = "none" }}
            wired.hosts = [{{ name = "a" }}, {{ name = "b" }}]
            [[wired.links]]
            between = ["a", "b"]
            rate_mbps = 5
            delay_ms = 20
            queue = {{ discipline = "codel", packets = 1000, ecn = true }}
            [[traffic]]
            kind = "bulk"
            from = "a"
            to = "b"
            ecn = {ecn}
        "#
        )
    };
    let (with, without) = (run(&text(true)), run(&text(false)));
    let resent = |summary: &Summary| flow(summary, "bulk-0").tcp.as_ref().unwrap().retransmitted;
    assert_eq!((resent(&with), link(&with, "a", "b").queue_early_drops), (0.0, 0.0));
    assert!(resent(&without) > 3.0 && link(&without, "a", "b").queue_early_drops > 3.0);
    // Packets of 1500 B take 2.4 ms each, with 4.87 Mb/s of payload. The path holds 18.7 of them: 40 ms there and back, 2.4 ms
    // of sending, and as much until the second of a pair is there to be acknowledged. With 20 in flight, each waits longer
    // than CoDel's 5 ms; 100 ms of that and 40 ms for the signal's way back are enough to send 20 and 21, after which the
    // window is 22. It is halved. While the 22 arrive, 11 are sent, and then 11, 12, … 22 in a round trip each, none shorter
    // than 18.7 packets: 209 in the time of 22 + 8 · 18.7 + 19 + 20 + 21 + 22 = 253.6, 82.4 % or 4.01 Mb/s. A sender that
    // halves twice or waits for a timeout has less; one that ignores the marks fills the queue, 2.4 s.
    for summary in [&with, &without] {
        let flow = flow(summary, "bulk-0");
        assert!(flow.goodput_mbps > 4.0 && flow.delay.mean_ms < 40.0, "{flow:?}");
    }
}

/// cai2005, section III-B: with a window of at least the round trip in slots the link is never idle, and with less it is
/// used by window / R. R = 17 slots; the channel has no errors.
#[test]
fn aimd_datagrams_use_a_slotted_link_as_their_window_allows() {
    let used = |rwnd: u32| {
        let text = format!(
            r#"
            name = "aimd"
            duration_s = 65
            warmup_s = 5
            topology = {{ kind = "none" }}
            wired.hosts = [{{ name = "bs" }}, {{ name = "mh" }}]
            [[wired.links]]
            between = ["bs", "mh"]
            rate_mbps = 0.2
            delay_ms = 40
            queue = {{ packets = 30 }}
            forward = {{ channel = {{ slot_bytes = 125, error = 0 }} }}
            backward = {{ rate_mbps = 1000 }}
            [[traffic]]
            kind = "aimd"
            from = "bs"
            to = "mh"
            packet_bytes = 125
            rwnd_packets = {rwnd}
            delay_bound_ms = 50
        "#
        );
        let summary = run(&text);
        assert_eq!(flow(&summary, "aimd-0").loss, 0.0, "the queue has room for the window");
        (link(&summary, "bs", "mh").utilization, flow(&summary, "aimd-0").outage.unwrap())
    };
    // The ACK arrives just after the start of the 17th slot, so that the packet it releases has the 18th.
    let (idle_now_and_then, _) = used(9);
    assert!((idle_now_and_then - 0.5).abs() < 0.01, "{idle_now_and_then}");
    assert_eq!(used(18), (1.0, 0.0));
    // 12 more packets wait 60 ms.
    let (utilization, outage) = used(30);
    assert!(utilization == 1.0 && outage > 0.9, "{utilization} {outage}");
}

/// A full datagram has 1514 bytes on the wire, of which 1472 − 27 (header and tag) − 8 (STREAM frame) are payload: at most
/// 1437/1514 of 10 Mb/s is goodput. With a queue of 50 packets CUBIC keeps the link busy and retransmits what was dropped.
#[test]
fn a_quic_transfer_fills_a_link_completes_and_retransmits_only_what_was_lost() {
    let text = |size: &str| {
        format!(
            r#"
            name = "quic"
            duration_s = 40
            topology = {{ kind = "none" }}
            wired.hosts = [{{ name = "a" }}, {{ name = "b" }}]
            [[wired.links]]
            between = ["a", "b"]
            rate_mbps = 10
            delay_ms = 20
            overhead_bytes = 14
            queue = {{ packets = 50 }}
            backward = {{ rate_mbps = 1000, queue = {{ packets = 1000 }} }}
            [[traffic]]
            kind = "quic"
            from = "a"
            to = "b"
            controller = "cubic"
            {size}
        "#
        )
    };
    let endless = run(&text(""));
    let (down, up) = (flow(&endless, "quic-0"), link(&endless, "a", "b"));
    let quic = down.quic.as_ref().unwrap();
    assert!(down.goodput_mbps > 0.97 * 10.0 * 1437.0 / 1514.0, "{down:?}");
    assert!(down.goodput_mbps < 10.0 * 1438.0 / 1514.0, "{down:?}");
    assert!(up.queue_drops > 0.0 && (quic.retransmitted - up.queue_drops).abs() <= 2.0, "{quic:?} {up:?}");
    assert_eq!((quic.spurious, quic.completed_s), (0.0, None));
    let finite = run(&text("size_bytes = 1_000_000"));
    let done = flow(&finite, "quic-0").quic.as_ref().unwrap().completed_s.unwrap();
    // A megabyte takes 0.84 s of the link, and slow start from ten packets takes some rounds of 40 ms.
    assert!(done > 0.86 && done < 1.3, "{done}");
    assert_eq!(flow(&finite, "quic-0").goodput_mbps, 8.0 / 40.0);
    assert_eq!(finite.totals.udp_goodput_mbps, 8.0 / 40.0);
}
