//! Web sessions, request and response sessions, and video.

use crate::support::*;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::QueueLimit;

/// A wire of 100 ms and one hop that is mostly idle.
fn behind_a_wire(traffic: &str) -> Lab {
    let mut lab = Lab::of_links(2, &[(0, 1, DECODED)])
        .internet(1000.0, 100.0, QueueLimit::Packets(1000))
        .seconds(60.0)
        .with(traffic);
    lab.scenario.record.interval_s = 1.0;
    lab
}

#[test]
fn a_page_takes_a_handshake_and_one_round_trip_per_flight_of_segments() {
    // SYN, SYN-ACK and data cross the wire: 3 × 100 ms. The first flight has ten segments, the next ones 20 and 40, a round
    // trip each. The radio takes a few ms.
    for (segments, ms) in [(1, 300.0), (10, 300.0), (11, 500.0), (30, 500.0), (31, 700.0)] {
        let bytes = 1000 * segments;
        let run = behind_a_wire(&format!(
            "kind = \"web\"\nfrom = \"internet\"\nto = 1\nmss_bytes = 1000\n\
             size = {{ law = \"fixed\", bytes = {bytes} }}\nthink = {{ law = \"fixed\", seconds = 1 }}"
        ))
        .run(1);
        let flow = Summary::of(&run.world, false).flows.remove(0);
        let pages = flow.transactions.unwrap();
        let time = pages.time.unwrap();
        assert!(time.min_ms > ms && time.max_ms < ms + 60.0, "{segments} segments: {time:?}");
        // Pages follow each other after a second.
        assert_eq!(pages.finished, (60.0 / (1.0 + time.mean_ms / 1000.0)).floor());
        // All pages use the slot of one transfer, and their bytes add up.
        let delivered = flow.goodput_mbps * 60.0 / 8e-6;
        let part = delivered - pages.finished * f64::from(bytes);
        assert!(part > -1e-3 && part < f64::from(bytes), "{part} bytes of the page in progress");
        assert_eq!((pages.failed, run.world.transfers().len()), (0.0, 1));
    }
}

#[test]
fn a_response_takes_one_round_trip_on_a_persistent_connection() {
    let run = behind_a_wire(
        "kind = \"request\"\nfrom = 1\nto = \"internet\"\nrequest_bytes = 200\n\
         response = { law = \"fixed\", bytes = 3000 }\nthink = { law = \"fixed\", seconds = 1 }",
    )
    .run(1);
    let flow = Summary::of(&run.world, false).flows.remove(0);
    let answers = flow.transactions.unwrap();
    let time = answers.time.unwrap();
    // A round trip takes 200 ms; the first response waits for the handshake, 200 ms more.
    assert!(time.p50_ms > 200.0 && time.p95_ms < 215.0, "{time:?}");
    assert!(time.max_ms > 400.0 && time.max_ms < 415.0, "{time:?}");
    assert_eq!((answers.finished, answers.open), (49.0, 0.0));
    assert!((flow.goodput_mbps * 60.0 / 8e-6 - 49.0 * 3000.0).abs() < 1e-3);
}

#[test]
fn a_page_fails_when_its_connection_fails() {
    // Stations that receive nobody jam station 1. Seven SYNs, 1 to 64 s apart, take 127 s.
    let mut lab = Lab::of_links(6, &[(0, 1, DECODED)])
        .seconds(300.0)
        .with("kind = \"web\"\nfrom = 0\nto = 1\nthink = { law = \"fixed\", seconds = 1 }");
    for jammer in 2..6 {
        lab = lab.stream(node(jammer), ALL, 1000, 1000.0);
        lab.hears(1, jammer as usize, DECODED);
    }
    lab.scenario.record.interval_s = 10.0;
    let pages = Summary::of(&lab.run(1).world, false).flows[0].transactions.clone().unwrap();
    assert_eq!((pages.finished, pages.failed, pages.open), (0.0, 2.0, 1.0));
    assert!(pages.time.is_none());
}

#[test]
fn sessions_recover_from_losses_and_every_transaction_is_accounted_for() {
    // Hidden stations 0 and 2, a queue of three.
    let lab = Lab::of_links(3, &[(0, 1, DECODED), (1, 2, DECODED)])
        .queue(QueueLimit::Packets(3))
        .attempts(2, 2)
        .seconds(120.0)
        .with("kind = \"web\"\nfrom = 0\nto = 1\ncount = 3\nthink = { law = \"exponential\", mean_s = 0.3 }")
        .with("kind = \"request\"\nfrom = 2\nto = 0\ncount = 3\nthink = { law = \"exponential\", mean_s = 0.3 }");
    for run in (1..=3).map(|seed| lab.run(seed)) {
        for (session, flow) in run.world.sessions().iter().zip(Summary::of(&run.world, false).flows) {
            let counts = flow.transactions.unwrap();
            assert_eq!(
                session.record.begun as f64,
                counts.finished + counts.failed + counts.open,
                "{}",
                flow.name
            );
            assert!(counts.finished > 20.0 && counts.open <= 1.0, "{}: {counts:?}", flow.name);
            assert!(flow.tcp.unwrap().retransmitted > 0.0, "{}: nothing was lost", flow.name);
        }
        assert_eq!(run.world.transfers().len(), 3 + 2 * 3);
    }
}

#[test]
fn a_video_frame_is_lost_with_any_of_its_packets_and_late_after_its_deadline() {
    // 25 frames a second of 5000 bytes in the mean: P = 5000 · 10 / (16 + 9) = 2000 and
    // I = 32,000 bytes, which are 22 packets of 1472 at most. Six packets find room, so every I frame is lost; the two
    // packets of a P frame, 1.1 ms each, arrive.
    let video = "kind = \"video\"\nfrom = 0\nto = 1\nrate_kbps = 1000\ngroup_frames = 10\ni_to_p = 16";
    let lab = |limit: u32, more: &str| {
        let mut lab = Lab::of_links(2, &[(0, 1, DECODED)])
            .queue(QueueLimit::Packets(limit))
            .seconds(40.0)
            .with(&format!("{video}\n{more}"));
        lab.scenario.record.interval_s = 1.0;
        let record = lab.run(1).world.videos()[0].record;
        assert!((999..=1000).contains(&record.frames));
        (record.complete, record.late, record.lost)
    };
    assert_eq!(lab(5, ""), (900, 0, 100));
    assert_eq!(lab(100, ""), (1000, 0, 0));
    assert_eq!(lab(100, "deadline_ms = 10"), (900, 100, 0));
}

#[test]
fn a_video_sends_at_its_rate_whatever_its_group_of_frames() {
    for shape in ["", "group_frames = 12\ni_to_p = 5", "group_frames = 12\ni_to_p = 5\nvariation = 0.4"] {
        let mut lab = Lab::of_links(2, &[(0, 1, DECODED)]).seconds(480.0).with(&format!(
            "kind = \"video\"\nfrom = 0\nto = 1\nrate_kbps = 500\nframes_per_s = 30\n{shape}"
        ));
        lab.scenario.record.interval_s = 10.0;
        let sent = Summary::of(&lab.run(1).world, false).flows[0].sent_mbps;
        // A group of the last shape has a standard deviation of 0.4 √(5² + 11) / 16 = 15 %; there are 1200.
        assert!((sent / 0.5 - 1.0).abs() < 0.02, "{shape}: {sent}");
    }
}

#[test]
fn a_caller_with_a_fast_clock_sends_more_packets_and_the_other_end_does_not() {
    // 100 s at 50 packets a second, 1000 ppm faster.
    let sent = |ppm: f64| {
        let lab = Lab::of_links(2, &[(0, 1, DECODED)])
            .seconds(100.0)
            .with(&format!("kind = \"call\"\nfrom = 0\nto = 1\ndrift_ppm = {ppm:?}"));
        let call = Summary::of(&lab.run(1).world, false).calls[0].clone();
        (call.forward.sent, call.backward.sent)
    };
    assert_eq!(sent(0.0), (5000.0, 5000.0));
    assert_eq!(sent(1000.0), (5005.0, 5000.0));
    assert_eq!(sent(-1000.0), (4995.0, 5000.0));
}

#[test]
fn calls_with_silence_suppression_send_two_fifths_of_their_packets_and_are_clear_where_they_talk() {
    let lab = Lab::of_links(2, &[(0, 1, DECODED)])
        .seconds(100.0)
        .with("kind = \"call\"\nfrom = 0\nto = 1\ncount = 10\nsilence_suppression = true");
    let summary = Summary::of(&lab.run(1).world, false);
    let sent: f64 = summary.calls.iter().map(|call| call.forward.sent + call.backward.sent).sum();
    assert!((0.36..0.42).contains(&(sent / 100_000.0)), "{sent}");
    assert!(summary.calls.iter().all(|call| call.clear == Some(1.0)), "{:?}", summary.calls);
}
