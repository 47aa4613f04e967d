//! The observer: calls by their shape, their loss and delay, round trips and losses of TCP.

use fairhop_control::Network;
use fairhop_control::digest::{
    Digest, Direction, PROTOCOL_TCP, PROTOCOL_UDP, Payload, ReceptionReport, RtcpFields, RtpFields,
    TcpFields, tcp_flag,
};
use fairhop_control::flow::{Address, FlowKey};
use fairhop_control::observer::{CallNow, FlowBody, FlowKind, Observer, ObserverConfig, TcpFlow, UdpFlow};
use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec};

use Direction::{FromMesh, ToMesh};

pub(crate) const MESH: Address = Address::v4([10, 1, 0, 4]);
pub(crate) const WIRED: Address = Address::v4([192, 0, 2, 1]);

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// A packet between the two, with the same port at both ends.
pub(crate) fn digest(
    at: Nanos,
    direction: Direction,
    protocol: u8,
    port: u16,
    bytes: u32,
    payload: Payload,
) -> Digest {
    let (source, destination) = match direction {
        ToMesh => (WIRED, MESH),
        FromMesh => (MESH, WIRED),
    };
    Digest {
        at,
        waited: Nanos::ZERO,
        direction,
        source,
        destination,
        source_port: port,
        destination_port: port,
        protocol,
        ttl: 61,
        traffic_class: 0,
        bytes,
        payload,
    }
}

fn key(protocol: u8, port: u16) -> FlowKey {
    FlowKey { mesh: MESH, wired: WIRED, mesh_port: port, wired_port: port, protocol }
}

fn voice_packet(at: Nanos, direction: Direction, number: u32) -> Digest {
    let rtp = RtpFields {
        payload_type: 18,
        sequence: number as u16,
        timestamp: number.wrapping_mul(160),
        ssrc: if direction == ToMesh { 1 } else { 2 },
        payload_bytes: 20,
        marker: false,
    };
    digest(at, direction, PROTOCOL_UDP, 5004, 60, Payload::Rtp(rtp))
}

fn udp(observer: &Observer, port: u16) -> &UdpFlow {
    match &observer.flow(&key(PROTOCOL_UDP, port)).expect("the flow").body {
        FlowBody::Udp(udp) => udp,
        FlowBody::Tcp(_) => panic!("not UDP"),
    }
}

fn segment(seq: u32, ack: u32, payload_bytes: u32) -> Payload {
    Payload::Tcp(TcpFields { seq, ack, flags: tcp_flag::ACK, payload_bytes, ..TcpFields::default() })
}

fn observer() -> Observer {
    Observer::new(ObserverConfig { flows: 100, ..ObserverConfig::default() })
}

/// The calls at a tick.
fn calls(observer: &mut Observer, now: Nanos) -> Vec<CallNow> {
    observer.survey(now);
    observer.calls(now, ms(1000)).collect()
}

/// A call out of the mesh that began at sequence number 65,500: number, arrival.
fn feed(observer: &mut Observer, packets: impl IntoIterator<Item = (u32, Nanos)>) {
    for (number, at) in packets {
        observer.on_digest(&voice_packet(at, FromMesh, 65_500 + number));
    }
}

#[test]
fn a_call_is_recognized_after_eight_packets_by_its_shape_alone() {
    let mut observer = observer();
    feed(&mut observer, (0..7).map(|n| (n, ms(20) * u64::from(n))));
    assert_eq!(calls(&mut observer, ms(120)).len(), 0);
    feed(&mut observer, [(7, ms(140))]);
    let call = calls(&mut observer, ms(140))[0];
    assert_eq!((call.key, call.down, call.packets_per_second), (key(PROTOCOL_UDP, 5004), None, 50.0));
    assert_eq!(udp(&observer, 5004).up.codec(), Codec::G729a);
    // It has ended when no packet arrives any more.
    assert_eq!(calls(&mut observer, ms(2200)).len(), 0);

    // Not calls: video (several packets with one timestamp), a file over RTP (no cadence), telemetry with a changing SSRC.
    type Shape = fn(u32) -> (u32, u32, u64);
    let shapes: [Shape; 3] = [
        |n| (1, n / 4 * 3600, u64::from(n) * 10),
        |n| (1, n * 160, u64::from(n)),
        |n| (n / 5, n * 160, u64::from(n) * 20),
    ];
    for (port, shape) in (7000..).zip(shapes) {
        for n in 0..100_u32 {
            let (ssrc, timestamp, at) = shape(n);
            let rtp =
                RtpFields { payload_type: 96, sequence: n as u16, timestamp, ssrc, ..RtpFields::default() };
            observer.on_digest(&digest(ms(3000 + at), FromMesh, PROTOCOL_UDP, port, 1200, Payload::Rtp(rtp)));
        }
        let flow = observer.flow(&key(PROTOCOL_UDP, port)).expect("the flow");
        assert_eq!(flow.kind(ms(3000)), FlowKind::BulkUdp, "port {port}");
    }
    // Opus at 48 kHz, and PCMA at the clock of its payload type.
    for (port, payload_type, step, codec) in [(8000, 111, 960, Codec::Opus), (8002, 8, 160, Codec::G711)] {
        for n in 0..10_u32 {
            let rtp = RtpFields {
                payload_type,
                sequence: n as u16,
                timestamp: n * step,
                ssrc: 9,
                ..RtpFields::default()
            };
            let at = ms(5000 + 20 * u64::from(n));
            observer.on_digest(&digest(at, ToMesh, PROTOCOL_UDP, port, 100, Payload::Rtp(rtp)));
        }
        let stream = &udp(&observer, port).down;
        assert_eq!((stream.is_recognised(), stream.codec(), stream.interval()), (true, codec, ms(20)));
    }
}

/// Opus with a packet every 20 ms. A queue fills while the call begins, so that its first packets come 45 ms apart, as those of a
/// clock of 16 kHz would.
#[test]
fn a_call_that_begins_while_a_queue_fills_gets_its_right_clock_and_delays_after_four_seconds() {
    let mut observer = observer();
    for n in 0..400_u64 {
        let queue = match n {
            0..20 => 25 * n,
            20..100 => 500,
            100..350 => 0,
            _ => 90,
        };
        let rtp = RtpFields {
            payload_type: 111,
            sequence: n as u16,
            timestamp: 960 * n as u32,
            ssrc: 9,
            ..RtpFields::default()
        };
        let at = ms(20 * n + queue);
        observer.on_digest(&digest(at, ToMesh, PROTOCOL_UDP, 8000, 100, Payload::Rtp(rtp)));
    }
    let stream = &udp(&observer, 8000).down;
    assert_eq!((stream.codec(), stream.interval(), stream.clock_hz()), (Codec::Opus, ms(20), 48_000));
    let listening = observer.listening();
    let quality = stream.quality(ms(8070), ms(300), listening, false).expect("a call");
    assert_eq!((quality.delay, quality.late), (ms(90), 1.0), "playout is {:?}", listening.playout);
}

#[test]
fn loss_delay_and_lateness_of_a_call_match_a_calculation_across_the_wrap_of_its_sequence_numbers() {
    let mut observer = observer();
    let listening = observer.listening();
    // Two seconds at a constant 5 ms. Then a second in which every tenth packet is lost, every ninth of ten takes 30 ms more,
    // and two take 80 ms more: too late for a playout delay of 60 ms.
    feed(&mut observer, (0..100).map(|n| (n, ms(20 * u64::from(n) + 5))));
    let second = (100..150_u32).filter(|n| n % 10 != 0);
    feed(
        &mut observer,
        second.map(|n| {
            let more = if n == 115 || n == 125 {
                80
            } else if n % 10 == 9 {
                30
            } else {
                0
            };
            (n, ms(20 * u64::from(n) + 5 + more))
        }),
    );
    let now = ms(3010);
    let quality = udp(&observer, 5004).up.quality(now, ms(1100), listening, true).expect("a call");
    assert_eq!(quality.expected, 50);
    assert!((quality.loss - 0.1).abs() < 1e-9 && (quality.late - 0.04).abs() < 1e-9, "{quality:?}");
    assert_eq!(quality.delay_max, ms(80));
    // (5 · 30 + 2 · 80) / 45 ms.
    assert!((quality.delay.as_millis_f64() - 310.0 / 45.0).abs() < 0.01, "{quality:?}");
    assert!((quality.mos - voice::mos(Codec::G729a, 0.14, ms(50), ms(60))).abs() < 1e-12);
    assert_eq!(udp(&observer, 5004).up.counts(), (137, 5));
    // A packet that arrives after all is not lost; a duplicate does not count.
    feed(&mut observer, [(140, ms(3010)), (140, ms(3011)), (149, ms(3012))]);
    assert_eq!(udp(&observer, 5004).up.counts(), (138, 4));
    // 200 ms without a packet from a speaker without silence suppression: packets overdue by the playout delay are late.
    let quality = udp(&observer, 5004).up.quality(ms(3212), ms(300), listening, true).expect("a call");
    assert!(quality.delay_max >= ms(180) && quality.late > 0.3, "{quality:?}");
}

#[test]
fn the_stream_into_the_mesh_is_known_from_reports_or_inferred_from_its_twin_and_round_trips() {
    let mut observer = observer();
    for n in 0..100_u32 {
        let at = ms(20 * u64::from(n));
        observer.on_digest(&voice_packet(at, ToMesh, n));
        observer.on_digest(&voice_packet(at, FromMesh, n));
    }
    let now = ms(2000);
    let call = calls(&mut observer, now)[0];
    // Without other information it is like its twin, perfect.
    assert!(!call.down_is_reported && call.down.is_some_and(|down| down.loss == 0.0 && down.mos > 4.0));
    // The mesh end reports a quarter lost, and jitter of 80 ticks: 10 ms.
    let report = ReceptionReport { ssrc: 1, fraction_lost: 64, jitter: 80, ..ReceptionReport::default() };
    let rtcp = RtcpFields { ssrc: 2, report: Some(report), ..RtcpFields::default() };
    observer.on_digest(&digest(now, FromMesh, PROTOCOL_UDP, 5005, 80, Payload::Rtcp(rtcp)));
    let call = calls(&mut observer, now)[0];
    let down = call.down.expect("reported");
    assert!(call.down_is_reported && down.loss == 0.25 && down.jitter == ms(10) && down.mos < 2.5);
    assert_eq!(call.mos(), Some(down.mos));
    // A report about another stream is ignored.
    let other =
        RtcpFields { report: Some(ReceptionReport { ssrc: 9, fraction_lost: 255, ..report }), ..rtcp };
    observer.on_digest(&digest(now, FromMesh, PROTOCOL_UDP, 5005, 80, Payload::Rtcp(other)));
    assert_eq!(udp(&observer, 5004).far_down.map(|far| far.loss), Some(0.25));
    // Three seconds later the report is old, and round trips of TCP to the same node are 100 ms longer than at first.
    let segment = |seq, bytes| {
        let fields = TcpFields { seq, flags: tcp_flag::ACK, payload_bytes: bytes, ..TcpFields::default() };
        Payload::Tcp(fields)
    };
    let ack = |ack| Payload::Tcp(TcpFields { ack, flags: tcp_flag::ACK, ..TcpFields::default() });
    for n in 100..250_u32 {
        observer.on_digest(&voice_packet(ms(20 * u64::from(n)), ToMesh, n));
        observer.on_digest(&voice_packet(ms(20 * u64::from(n)), FromMesh, n));
    }
    let mut passes = |seq: u32, at: u64, rtt: u64| {
        observer.on_digest(&digest(ms(at), ToMesh, PROTOCOL_TCP, 80, 1040, segment(seq, 1000)));
        if rtt > 0 {
            observer.on_digest(&digest(ms(at + rtt), FromMesh, PROTOCOL_TCP, 80, 40, ack(seq + 1000)));
        }
        calls(&mut observer, ms(5000))[0]
    };
    passes(0, 4000, 20);
    // The ACK of a single segment may have been delayed; also the ACK of two segments that are far apart, if an ACK between
    // them was lost.
    for call in [passes(1000, 4400, 120), passes(2000, 4600, 0), passes(3000, 4680, 120)] {
        assert_eq!(call.down.map(|down| (down.delay_max, down.late)), Some((Nanos::ZERO, 0.0)));
    }
    // Two segments at once are acknowledged at once.
    passes(4000, 4849, 0);
    let call = passes(5000, 4850, 120);
    assert_eq!(call.down.map(|down| (down.delay_max, down.late)), Some((ms(100), 0.5)));
    assert!(!call.down_is_reported && call.up.is_some_and(|up| up.mos > 4.0));
}

#[test]
fn what_was_missing_before_the_gateway_is_no_loss_of_the_mesh() {
    let mut observer = observer();
    let mut passes = |numbers: std::ops::Range<u32>, missing: u32, fraction_lost: u8| {
        for n in numbers.clone().filter(|n| n % 50 >= missing) {
            observer.on_digest(&voice_packet(ms(20 * u64::from(n)), ToMesh, n));
        }
        let now = ms(20 * u64::from(numbers.end));
        let report = ReceptionReport { ssrc: 1, fraction_lost, ..ReceptionReport::default() };
        let rtcp = RtcpFields { ssrc: 2, report: Some(report), ..RtcpFields::default() };
        observer.on_digest(&digest(now, FromMesh, PROTOCOL_UDP, 5005, 80, Payload::Rtcp(rtcp)));
        calls(&mut observer, now)[0].down.expect("reported")
    };
    // All pass, all arrive.
    assert_eq!(passes(0..50, 0, 0).loss, 0.0);
    // 50 of 250 are missing at the gateway; the listener misses a fifth as well, and its call suffers.
    let wired = passes(50..301, 10, 51);
    assert!(wired.loss < 0.01 && wired.mos < 3.0, "{wired:?}");
    // With three tenths missing at the listener, the mesh has lost one eighth of what passed.
    let both = passes(301..551, 10, 77);
    assert!((both.loss - 0.125).abs() < 0.01 && both.mos < wired.mos, "{both:?}");
    // Without a loss before the gateway, all of it is the mesh's.
    let mesh = passes(551..801, 0, 77);
    assert!((mesh.loss - 0.3).abs() < 0.01, "{mesh:?}");
}

#[test]
fn the_stream_out_of_the_mesh_is_judged_as_the_wired_end_reports_it() {
    let mut observer = observer();
    // One packet of ten is missing when they leave the mesh.
    for n in 0..200_u32 {
        observer.on_digest(&voice_packet(ms(20 * u64::from(n)), ToMesh, n));
        if n % 10 > 0 {
            observer.on_digest(&voice_packet(ms(20 * u64::from(n)), FromMesh, n));
        }
        if n == 99 {
            assert_eq!(calls(&mut observer, ms(1990))[0].heard, None, "without a report");
            reports(&mut observer, ms(1990), 26, 0);
        }
    }
    // The wired end misses 28 %: a fifth of what has passed the gateway.
    reports(&mut observer, ms(4000), 72, 0);
    let call = calls(&mut observer, ms(4000))[0];
    let (up, heard) = (call.up.expect("a stream"), call.heard.expect("a report"));
    assert!((up.loss - 0.1).abs() < 0.02 && (heard.loss - up.loss - 0.18).abs() < 0.01, "{up:?} {heard:?}");
    assert!(heard.mos < up.mos && call.mos() == Some(heard.mos), "{heard:?}");
    assert!(call.mos_at_gateway().is_some_and(|mos| mos > heard.mos));
    // Its round trip grows by 150 ms: much is too late to be played.
    for (number, round_trip) in [(1, 20), (2, 170)] {
        let at = ms(4000 + 100 * u64::from(number));
        let rtcp = RtcpFields { ssrc: 2, sender_report: Some(number), ..RtcpFields::default() };
        observer.on_digest(&digest(at, FromMesh, PROTOCOL_UDP, 5005, 80, Payload::Rtcp(rtcp)));
        reports(&mut observer, at + ms(round_trip), 26, number);
    }
    let heard = calls(&mut observer, ms(4400))[0].heard.expect("a report");
    assert!(heard.delay == ms(150) && heard.late == 0.5, "{heard:?}");
}

/// A report of the wired end on the stream out of the mesh; it answers a sender report at once.
fn reports(observer: &mut Observer, at: Nanos, fraction_lost: u8, last_sender_report: u32) {
    let report = ReceptionReport { ssrc: 2, fraction_lost, last_sender_report, ..ReceptionReport::default() };
    let rtcp = RtcpFields { ssrc: 1, report: Some(report), ..RtcpFields::default() };
    observer.on_digest(&digest(at, ToMesh, PROTOCOL_UDP, 5005, 80, Payload::Rtcp(rtcp)));
}

/// Two segments of a flow at once, and their ACK after `round_trip` milliseconds: the excess of the node after it.
#[test]
fn the_delay_of_a_call_is_half_of_the_round_trips_that_rtcp_of_both_ends_shows() {
    let mut observer = observer();
    for n in 0..100_u32 {
        observer.on_digest(&voice_packet(ms(20 * u64::from(n)), ToMesh, n));
        observer.on_digest(&voice_packet(ms(20 * u64::from(n)), FromMesh, n));
    }
    let assumed = observer.listening();
    let mut reported = |at: u64, direction, sent: u32, answers: u32, held_ms: u32| {
        let report = ReceptionReport {
            ssrc: 1,
            last_sender_report: answers,
            delay_since: held_ms * 65_536 / 1000,
            ..ReceptionReport::default()
        };
        let rtcp =
            RtcpFields { ssrc: 2, sender_report: Some(sent), report: Some(report), ..RtcpFields::default() };
        observer.on_digest(&digest(ms(at), direction, PROTOCOL_UDP, 5005, 80, Payload::Rtcp(rtcp)));
        calls(&mut observer, ms(2000))[0]
    };
    // The mesh end is 20 ms away, there and back, and the wired end 240 ms: each answers the other's report after 500 ms.
    reported(1000, ToMesh, 1, 0, 0);
    let call = reported(1520, FromMesh, 2, 1, 500);
    assert_eq!(call.listening, assumed, "one side is not enough");
    let mos = call.mos();
    let call = reported(2260, ToMesh, 3, 2, 500);
    assert!(call.listening.min_delay.0.abs_diff(ms(130).0) < ms(1).0, "{:?}", call.listening);
    assert_eq!(call.listening.playout, assumed.playout);
    // 130 ms instead of the 50 ms that are assumed: G.107 takes 0.11 a millisecond beyond 177 ms from mouth to ear.
    assert!(call.mos() < mos.map(|mos| mos - 0.2));
    // A report that answers none that has passed tells nothing.
    assert_eq!(reported(2300, ToMesh, 4, 99, 0).listening, call.listening);
    // A queue of 60 ms beyond the gateway. The report holds for 2.5 s, and is known until the next one is overdue.
    reported(2400, FromMesh, 5, 4, 0);
    let call = reported(3200, ToMesh, 6, 5, 500);
    let FlowBody::Udp(udp) = &observer.flow(&call.key).expect("a flow").body else { panic!("no call") };
    let (excess, holds) = udp.wired_excess(ms(3200 + 2500)).expect("a report");
    assert!(holds && excess.0.abs_diff(ms(60).0) < ms(1).0, "{excess:?}");
    assert_eq!(udp.wired_excess(ms(3200 + 2501)), Some((excess, false)));
    assert_eq!(udp.wired_excess(ms(3200 + 7501)), None);
}

fn pair(observer: &mut Observer, at: u64, port: u16, seq: u32, round_trip: u64) -> Option<Nanos> {
    for seq in [seq, seq + 1000] {
        observer.on_digest(&digest(ms(at), ToMesh, PROTOCOL_TCP, port, 1040, segment(seq, 1, 1000)));
    }
    let answered = ms(at + round_trip);
    observer.on_digest(&digest(answered, FromMesh, PROTOCOL_TCP, port, 40, segment(1, seq + 2000, 0)));
    observer.survey(answered);
    observer.mesh_excess(Some(MESH))
}

/// Pairs of segments, whose ACKs are not delayed. One flow alone has long round trips, then both have.
#[test]
fn the_excess_of_a_node_is_what_all_its_flows_have_in_common() {
    let mut observer = observer();
    let mut pass = |at, port, seq, round_trip| pair(&mut observer, at, port, seq, round_trip);
    pass(0, 80, 0, 20);
    pass(100, 81, 0, 20);
    pass(2000, 80, 2000, 120);
    assert_eq!(pass(2200, 81, 2000, 20), Some(Nanos::ZERO));
    pass(4000, 80, 4000, 120);
    // A single packet may have waited for retries on the air. Two in a row show a queue.
    assert_eq!(pass(4200, 81, 4000, 80), Some(Nanos::ZERO));
    pass(6000, 80, 6000, 120);
    assert_eq!(pass(6200, 81, 6000, 80), Some(ms(60)));
    assert_eq!(observer.mesh_excess(Some(WIRED)), None, "no flow ends there");
}

fn tcp(observer: &Observer) -> &TcpFlow {
    match &observer.flow(&key(PROTOCOL_TCP, 80)).expect("the flow").body {
        FlowBody::Tcp(tcp) => tcp,
        FlowBody::Udp(_) => panic!("not TCP"),
    }
}

#[test]
fn both_ends_of_a_connection_have_their_own_scales_losses_and_round_trips() {
    let mut observer = observer();
    let mut send = |at: u64, direction, fields: TcpFields| {
        let bytes = 40 + fields.payload_bytes;
        observer.on_digest(&digest(ms(at), direction, PROTOCOL_TCP, 80, bytes, Payload::Tcp(fields)));
    };
    let syn = |flags, seq, ack, scale, mss| TcpFields {
        seq,
        ack,
        flags,
        mss: Some(mss),
        window_scale: Some(scale),
        ..TcpFields::default()
    };
    let data = |seq, bytes| TcpFields {
        seq,
        ack: 501,
        flags: tcp_flag::ACK,
        payload_bytes: bytes,
        ..TcpFields::default()
    };
    let ack = |ack| TcpFields { seq: 501, ack, flags: tcp_flag::ACK, ..TcpFields::default() };
    // The mesh end opens; round trips are 60 ms on the wired side and 20 ms in the mesh. Sequence numbers wrap soon.
    let first = u32::MAX - 2000;
    send(0, FromMesh, syn(tcp_flag::SYN, 500, 0, 10, 1460));
    send(60, ToMesh, syn(tcp_flag::SYN | tcp_flag::ACK, first, 501, 7, 1400));
    send(80, FromMesh, ack(first.wrapping_add(1)));
    let at = |segment: u32| first.wrapping_add(1 + segment * 1000);
    // Five segments. Segment 2 arrives late from the wired side (lost there), segment 1 is sent twice (lost in the mesh).
    for (time, segment) in [(100, 0), (101, 1), (103, 3), (104, 4)] {
        send(time, ToMesh, data(at(segment), 1000));
    }
    send(130, FromMesh, ack(at(1)));
    for (time, segment) in [(160, 2), (170, 1)] {
        send(time, ToMesh, data(at(segment), 1000));
    }
    send(200, FromMesh, ack(at(5)));
    let tcp = tcp(&observer);
    assert_eq!(tcp.window_scales(), Some((7, 10)));
    assert_eq!((tcp.mss(), tcp.data_direction()), (1400, ToMesh));
    let end = tcp.wired_end();
    assert_eq!((end.sent, end.repeated, end.missed, end.delivered), (6000, 1000, 1000, 5000));
    // In the mesh the 30 ms of data, not the 20 ms of the handshake's small packets.
    assert_eq!((tcp.wired_rtt.base(), tcp.mesh_rtt.base()), (Some(ms(60)), Some(ms(30))));
    assert_eq!(tcp.in_flight(), 0);
    assert_eq!(observer.totals().lost_in_mesh, 1000);
}

/// Karn's rule: the ACK may answer either transmission.
#[test]
fn a_retransmitted_segment_gives_no_round_trip() {
    let mut observer = observer();
    let mut send = |at: u64, direction, seq: u32, ack: u32| {
        let payload_bytes = if direction == ToMesh { 1000 } else { 0 };
        let fields = TcpFields { seq, ack, flags: tcp_flag::ACK, payload_bytes, ..TcpFields::default() };
        observer.on_digest(&digest(
            ms(at),
            direction,
            PROTOCOL_TCP,
            80,
            40 + payload_bytes,
            Payload::Tcp(fields),
        ));
        tcp(&observer).mesh_rtt.base()
    };
    send(0, ToMesh, 0, 1);
    send(500, ToMesh, 0, 1);
    assert_eq!(send(520, FromMesh, 1, 1000), None, "520 or 20 ms");
    send(600, ToMesh, 1000, 1);
    assert_eq!(send(630, FromMesh, 1, 2000), Some(ms(30)));
}

/// A gateway that kept the times of a few segments only would not see the longest queues.
#[test]
fn round_trips_show_a_queue_of_any_length() {
    for (queue, step) in [(10, 1), (17, 2), (60, 1), (61, 2), (300, 2), (1000, 1), (1000, 2)] {
        let mut observer = observer();
        // One segment per millisecond and one ACK per `step` segments: 5 ms later, and `queue` ms later after the first 100.
        let count = 700 + 2 * queue;
        let passes = (0..count).map(|segment| (segment, ToMesh, segment));
        let answers = (0..count).filter(|segment| segment % step == step - 1).map(|segment| {
            let late = if segment < 100 { 5 } else { queue };
            (segment + late, FromMesh, segment)
        });
        let mut all: Vec<_> = passes.chain(answers).filter(|&(at, ..)| at < count).collect();
        all.sort_by_key(|&(at, ..)| at);
        for (at, direction, number) in all {
            let (seq, ack) = (1000 * number as u32, 1000 * (number as u32 + 1));
            let fields = match direction {
                ToMesh => TcpFields { seq, payload_bytes: 1000, ..TcpFields::default() },
                FromMesh => TcpFields { ack, flags: tcp_flag::ACK, ..TcpFields::default() },
            };
            let bytes = 40 + fields.payload_bytes;
            observer.on_digest(&digest(ms(at), direction, PROTOCOL_TCP, 80, bytes, Payload::Tcp(fields)));
        }
        let over = {
            let rtt = &tcp(&observer).mesh_rtt;
            let base = rtt.base().expect("a round trip");
            rtt.excess(ms(count), base).map(|excess| excess.over_base.0 / 1_000_000)
        };
        // Only some segments are kept; an ACK may also cover a few segments after a kept one, which makes it later.
        let about = queue - 5..=queue - 5 + 1 + queue / 4;
        assert!(over.is_some_and(|over| about.contains(&over)), "{queue} ms, ACKs of {step}: {over:?}");
    }
}

/// If ACKs take another path, round trips stay unknown however long the flow lasts.
#[test]
fn a_flow_whose_acks_never_pass_has_no_round_trips_and_causes_no_overflow() {
    let mut observer = observer();
    for segment in 0..200_000_u32 {
        let fields =
            TcpFields { seq: segment.wrapping_mul(1000), payload_bytes: 1000, ..TcpFields::default() };
        let at = ms(u64::from(segment));
        observer.on_digest(&digest(at, ToMesh, PROTOCOL_TCP, 80, 1040, Payload::Tcp(fields)));
    }
    let tcp = tcp(&observer);
    assert_eq!((tcp.wired_end().sent, tcp.mesh_rtt.excess(ms(200_000), Nanos::ZERO)), (200_000_000, None));
}

#[test]
fn a_flow_first_seen_in_its_middle_has_no_scale_and_holes_of_an_upload_are_losses() {
    let mut observer = observer();
    let data = |seq, value| TcpFields {
        seq,
        flags: tcp_flag::ACK,
        payload_bytes: 1000,
        timestamps: Some((value, 0)),
        ..TcpFields::default()
    };
    for (at, seq) in [(0, 0), (1, 1000), (2, 3000), (40, 2000)] {
        let fields = data(seq, 100 + at as u32);
        observer.on_digest(&digest(ms(at), FromMesh, PROTOCOL_TCP, 80, 1052, Payload::Tcp(fields)));
    }
    // An ACK into the mesh with its own timestamp, which data echoes 25 ms later.
    let ack =
        TcpFields { ack: 4000, flags: tcp_flag::ACK, timestamps: Some((7, 140)), ..TcpFields::default() };
    observer.on_digest(&digest(ms(50), ToMesh, PROTOCOL_TCP, 80, 52, Payload::Tcp(ack)));
    let echo = TcpFields { timestamps: Some((175, 7)), ..data(4000, 0) };
    observer.on_digest(&digest(ms(75), FromMesh, PROTOCOL_TCP, 80, 1052, Payload::Tcp(echo)));
    let tcp = tcp(&observer);
    assert_eq!((tcp.window_scales(), tcp.data_direction()), (None, FromMesh));
    assert_eq!((observer.totals().lost_in_mesh, tcp.mesh_rtt.base()), (1000, Some(ms(25))));
    assert_eq!(observer.flow(&key(PROTOCOL_TCP, 80)).map(|flow| flow.hops), Some(4));
}

/// The pace holds the first data for two seconds. Its own round trip counts, not the time since the handshake.
#[test]
fn data_that_the_gateway_held_is_no_long_round_trip() {
    let mut observer = observer();
    let at = |at, direction, fields| digest(ms(at), direction, PROTOCOL_TCP, 80, 52, Payload::Tcp(fields));
    let ack = |seq, ack, value, echo| TcpFields {
        seq,
        ack,
        flags: tcp_flag::ACK,
        timestamps: Some((value, echo)),
        ..TcpFields::default()
    };
    observer.on_digest(&at(0, ToMesh, ack(1, 1, 100, 0)));
    observer.on_digest(&at(2000, ToMesh, TcpFields { payload_bytes: 1000, ..ack(1, 1, 101, 0) }));
    observer.on_digest(&at(2020, FromMesh, ack(1, 1001, 900, 101)));
    assert_eq!(tcp(&observer).mesh_rtt.base(), Some(ms(20)));
}

/// Segments of an upload in pairs, every 100 ms, whose ACK comes `beyond` ms later and waits `held` ms for the pace of ACKs.
fn upload(observer: &mut Observer, port: u16, from: u32, rounds: u32, beyond: u64, held: u64) {
    for round in from..from + rounds {
        let (at, seq) = (100 * u64::from(round), 2000 * round);
        for (late, seq) in [(0, seq), (2, seq + 1000)] {
            observer.on_digest(&digest(
                ms(at + late),
                FromMesh,
                PROTOCOL_TCP,
                port,
                1040,
                segment(seq, 1, 1000),
            ));
        }
        let ack =
            digest(ms(at + 2 + beyond + held), ToMesh, PROTOCOL_TCP, port, 40, segment(1, seq + 2000, 0));
        observer.on_digest(&Digest { waited: ms(held), ..ack });
    }
    observer.survey(ms(100 * u64::from(from + rounds)));
}

#[test]
fn a_queue_beyond_the_gateway_lengthens_the_round_trips_of_all_uploads_and_the_own_pace_is_none() {
    let mut observer = observer();
    upload(&mut observer, 80, 0, 20, 30, 0);
    assert_eq!(observer.uplink_excess(), Some(Nanos::ZERO));
    // The pace holds the ACKs for 50 ms: the Internet is as it was.
    upload(&mut observer, 80, 20, 20, 30, 50);
    assert_eq!(observer.uplink_excess(), Some(Nanos::ZERO));
    // A queue of 25 ms counts by the time for which it stands: here in five of the last nine rounds, then in all.
    upload(&mut observer, 80, 40, 5, 55, 20);
    assert_eq!(observer.uplink_excess(), Some(Nanos::from_micros(25_000 * 5 / 9)));
    upload(&mut observer, 80, 45, 6, 55, 20);
    assert_eq!(observer.uplink_excess(), Some(ms(25)));
    // Another upload that has no such delay: it is not in what both share.
    upload(&mut observer, 81, 51, 10, 40, 0);
    assert_eq!(observer.uplink_excess(), Some(Nanos::ZERO));
    // Downloads show nothing of the way out.
    assert_eq!(self::observer().uplink_excess(), None);
}

/// Two minutes in which the pace holds all ACKs for 50 ms, or for 2 s. Windows follow from the base.
#[test]
fn a_base_counts_a_wait_for_the_own_pace_up_to_the_longest_delay_of_an_ack() {
    for (held, base) in [(50, 80), (2000, 230)] {
        let mut observer = observer();
        upload(&mut observer, 80, 0, 1300, 30, held);
        assert_eq!(tcp(&observer).wired_rtt.base(), Some(ms(base)));
    }
}

/// The first data comes into a queue. A full packet may take 20 ms longer than the handshake, and the second of a pair 20 ms more;
/// the rest of 60 ms is the queue.
#[test]
fn a_queue_that_stands_since_the_first_data_shows_by_the_handshake() {
    let mut observer = observer();
    let syn = |flags, ack| Payload::Tcp(TcpFields { seq: u32::MAX, ack, flags, ..TcpFields::default() });
    observer.on_digest(&digest(ms(0), FromMesh, PROTOCOL_TCP, 80, 60, syn(tcp_flag::SYN, 0)));
    observer.on_digest(&digest(ms(30), ToMesh, PROTOCOL_TCP, 80, 60, syn(tcp_flag::SYN | tcp_flag::ACK, 0)));
    upload(&mut observer, 80, 1, 20, 90, 0);
    assert_eq!(observer.uplink_excess(), Some(ms(20)));
}

#[test]
fn hosts_are_remote_unless_they_are_local() {
    let mut observer = observer();
    assert!(observer.is_remote(WIRED));
    observer.set_local(vec![Network::read("192.0.2.0/24").expect("a network")]);
    assert!(!observer.is_remote(WIRED) && observer.is_remote(Address::v4([198, 51, 100, 1])));
}

/// Uploads make a controller careful, so that small messages must not count as one. The messages, in bytes of payload out of the
/// mesh and, negative, into it, are those of the control connection of iperf3, of a request, of a telemetry sensor.
#[test]
fn only_a_flow_that_sends_full_segments_out_of_the_mesh_is_an_upload() {
    let is_upload = |messages: &[i32]| {
        let mut observer = observer();
        let (mut at, mut up, mut down) = (0, 1_u32, 1_u32);
        for flags in [tcp_flag::SYN, tcp_flag::SYN | tcp_flag::ACK] {
            let direction = if flags == tcp_flag::SYN { FromMesh } else { ToMesh };
            let fields = TcpFields { flags, mss: Some(1460), ..TcpFields::default() };
            observer.on_digest(&digest(ms(at), direction, PROTOCOL_TCP, 80, 44, Payload::Tcp(fields)));
        }
        for &message in messages {
            at += 20;
            let bytes = message.unsigned_abs();
            let (direction, seq) = if message > 0 { (FromMesh, &mut up) } else { (ToMesh, &mut down) };
            let payload = segment(*seq, 0, bytes);
            observer.on_digest(&digest(ms(at), direction, PROTOCOL_TCP, 80, 52 + bytes, payload));
            *seq += bytes;
        }
        observer.survey(ms(at));
        observer.elastic()[0].is_upload
    };
    assert!(!is_upload(&[-37, 1, -4, -147, 1, 1, 1]), "more segments leave the mesh, but hardly a byte");
    assert!(!is_upload(&[700]), "a request is all that a flow has sent until its response");
    assert!(!is_upload(&[1448, 400]), "a request with a large cookie");
    assert!(!is_upload(&[80; 1000]), "a sensor");
    assert!(is_upload(&[1448, 1448]), "full but for the timestamps");
    assert!(!is_upload(&[1448, 1448, -1448, -1448, -1448]), "it is a download by now");
}

#[test]
fn a_flow_counts_as_held_for_half_a_second() {
    let mut observer = observer();
    let flow = key(PROTOCOL_TCP, 80);
    observer.on_held(ms(0), &flow);
    observer.on_digest(&digest(ms(10), ToMesh, PROTOCOL_TCP, 80, 1040, segment(1, 1, 1000)));
    observer.survey(ms(20));
    assert!(!observer.elastic()[0].is_held, "it was not known yet");
    observer.on_held(ms(30), &flow);
    observer.survey(ms(40));
    assert!(observer.elastic()[0].is_held);
    observer.survey(ms(531));
    assert!(!observer.elastic()[0].is_held);
}

/// Round trips of 20 ms, and ACKs that the receiver delays. `pairs`: two segments at a time; otherwise one every 60 ms.
fn delayed_acks(delay_ms: u64, queue_ms: u64, pairs: bool) -> Option<Nanos> {
    let mut observer = observer();
    let mut seq = 0;
    for turn in 0..100_u64 {
        let at = 60 * turn;
        let count = if pairs { 2 } else { 1 };
        for _ in 0..count {
            observer.on_digest(&digest(ms(at), ToMesh, PROTOCOL_TCP, 80, 1040, segment(seq, 1, 1000)));
            seq += 1000;
        }
        // The first second is without a queue; an ACK of two segments is never delayed.
        let queue = if turn < 17 { 0 } else { queue_ms };
        let delay = if pairs { 0 } else { delay_ms };
        let answered = ms(at + 20 + queue + delay);
        observer.on_digest(&digest(answered, FromMesh, PROTOCOL_TCP, 80, 40, segment(1, seq, 0)));
    }
    observer.survey(ms(6000));
    observer.mesh_excess(Some(MESH))
}

#[test]
fn a_delayed_ack_is_never_a_queue_and_a_queue_is_seen_through_delayed_acks() {
    for delay in [0, 20, 25, 40, 52, 100, 200] {
        assert_eq!(delayed_acks(delay, 0, false), Some(Nanos::ZERO), "ACKs delayed by {delay} ms");
    }
    // Pairs show every queue; single segments only what is longer than the longest delay of ACKs.
    assert_eq!(delayed_acks(40, 30, true), Some(ms(30)));
    assert_eq!(delayed_acks(40, 30, false), Some(Nanos::ZERO));
    assert_eq!(delayed_acks(40, 300, false), Some(ms(100)));
}

/// Under a clamp of two segments, Linux pushes every second one, and a Linux receiver answers it at once. If it is the first of a pair, the
/// other one is alone, and its ACK is delayed.
#[test]
fn a_pushed_segment_that_is_acknowledged_at_once_is_no_sign_of_quick_acks() {
    let mut observer = observer();
    for turn in 0..100_u64 {
        let (at, seq) = (50 + 200 * turn, 2000 * turn as u32);
        let is_pushed = turn >= 17;
        for (number, is_pushed) in [(seq, is_pushed), (seq + 1000, false)] {
            let mut payload = segment(number, 1, 1000);
            if let (Payload::Tcp(fields), true) = (&mut payload, is_pushed) {
                fields.flags |= tcp_flag::PSH;
            }
            observer.on_digest(&digest(ms(at), ToMesh, PROTOCOL_TCP, 80, 1040, payload));
        }
        if is_pushed {
            observer.on_digest(&digest(
                ms(at + 20),
                FromMesh,
                PROTOCOL_TCP,
                80,
                40,
                segment(1, seq + 1000, 0),
            ));
        }
        let delay = if is_pushed { 40 } else { 0 };
        let answered = ms(at + 20 + delay);
        observer.on_digest(&digest(answered, FromMesh, PROTOCOL_TCP, 80, 40, segment(1, seq + 2000, 0)));
    }
    observer.survey(ms(20_000));
    assert_eq!(observer.mesh_excess(Some(MESH)), Some(Nanos::ZERO));
}

/// Of three segments, two are acknowledged at once and the third after 200 ms, as when BBR probes the shortest round trip (RFC 5681 §4.2).
#[test]
fn a_single_segment_after_two_that_were_acknowledged_together_is_no_sign_of_quick_acks() {
    let mut observer = observer();
    for turn in 0..20_u64 {
        let (at, seq) = (300 * turn, 3000 * turn as u32);
        for number in [seq, seq + 1000, seq + 2000] {
            observer.on_digest(&digest(ms(at), ToMesh, PROTOCOL_TCP, 80, 1040, segment(number, 1, 1000)));
        }
        for (after, acked) in [(20, seq + 2000), (220, seq + 3000)] {
            let ack = segment(1, acked, 0);
            observer.on_digest(&digest(ms(at + after), FromMesh, PROTOCOL_TCP, 80, 40, ack));
        }
        observer.survey(ms(at + 250));
        assert_eq!(observer.mesh_excess(Some(MESH)), Some(Nanos::ZERO), "turn {turn}");
    }
}

#[test]
fn a_receiver_that_acknowledges_each_segment_at_once_shows_a_queue() {
    let mut observer = observer();
    // Segments 5 ms apart, and an ACK for each: 10 ms later, and 50 ms later from 1 s on.
    let mut packets: Vec<(u64, Direction, u32)> = Vec::new();
    for n in 0..400_u64 {
        let at = 5 * n;
        packets.push((at, ToMesh, n as u32));
        packets.push((at + if at < 1000 { 10 } else { 50 }, FromMesh, n as u32));
    }
    packets.sort_by_key(|&(at, ..)| at);
    for (at, direction, n) in packets {
        let fields =
            if direction == ToMesh { segment(1000 * n, 1, 1000) } else { segment(1, 1000 * (n + 1), 0) };
        observer.on_digest(&digest(ms(at), direction, PROTOCOL_TCP, 80, 1040, fields));
    }
    observer.survey(ms(1995));
    assert_eq!(observer.mesh_excess(None), Some(ms(40)));
}

/// The longest certain excess and the longest queue in 20 s, looked at every 100 ms, of downloads with a window each that share a
/// bottleneck of 200 segments a second. Receivers are 10 ms away, and delay the ACK of a single segment by 40 ms.
fn behind_a_bottleneck(flows: u16, window: u32) -> (Nanos, Nanos) {
    const SERVICE: u64 = 5;
    const PACE: u64 = 90;
    let mut observer = observer();
    let port = |flow: u16| 1000 + flow;
    // The shortest round trip, of a flow alone.
    pair(&mut observer, 0, 80, 0, 10);
    // Sent, arrived and acknowledged segments of each flow, and when its delayed ACK is due.
    let mut state = vec![(0_u32, 0_u32, 0_u32, None::<u64>); usize::from(flows)];
    let mut queue = std::collections::VecDeque::new();
    let mut longest = (Nanos::ZERO, Nanos::ZERO);
    for now in 1000..21_000_u64 {
        for (flow, (sent, arrived, acked, due)) in state.iter_mut().enumerate() {
            if *arrived > *acked + 1 || due.is_some_and(|due| now >= due) {
                (*acked, *due) = (*arrived, None);
                let ack = segment(1, 1000 * *acked, 0);
                observer.on_digest(&digest(ms(now), FromMesh, PROTOCOL_TCP, port(flow as u16), 40, ack));
            }
            // Paced, a tenth faster than the bottleneck: two segments side by side would be acknowledged at once.
            let is_due = now % PACE == PACE * flow as u64 / u64::from(flows);
            if is_due && *sent < *acked + window {
                let data = segment(1000 * *sent, 1, 1000);
                observer.on_digest(&digest(ms(now), ToMesh, PROTOCOL_TCP, port(flow as u16), 1040, data));
                *sent += 1;
                queue.push_back(flow);
            }
        }
        if now % SERVICE == 0
            && let Some(flow) = queue.pop_front()
        {
            let (_, arrived, _, due) = &mut state[flow];
            *arrived += 1;
            due.get_or_insert(now + 40);
        }
        if now % 100 == 0 {
            observer.survey(ms(now));
            longest.0 = longest.0.max(observer.mesh_excess(Some(MESH)).unwrap_or_default());
            longest.1 = longest.1.max(ms(SERVICE * queue.len() as u64));
        }
    }
    longest
}

#[test]
fn what_is_in_flight_shows_a_queue_that_delayed_acks_hide() {
    for window in [1, 2, 4, 8] {
        let (excess, queue) = behind_a_bottleneck(20, window);
        assert!(excess <= queue, "{window} segments: {excess:?} of {queue:?}");
        // One segment of each flow may be with its receiver: 100 ms at this rate. A packet may have just left.
        let shown = queue.saturating_sub(ms(130));
        assert!(excess >= shown, "{window} segments: {excess:?} of {queue:?}");
    }
    let (excess, queue) = behind_a_bottleneck(20, 2);
    assert!(excess >= ms(40) && queue < ms(200), "a delayed ACK could explain it: {excess:?} of {queue:?}");
}

/// A segment of a download passes `at` so many milliseconds.
fn data(observer: &mut Observer, at: u64, seq: u32) {
    observer.on_digest(&digest(ms(at), ToMesh, PROTOCOL_TCP, 80, 1040, segment(seq, 1, 1000)));
}

/// An ACK of it passes.
fn ack(observer: &mut Observer, at: u64, number: u32) {
    observer.on_digest(&digest(ms(at), FromMesh, PROTOCOL_TCP, 80, 40, segment(1, number, 0)));
}

/// A program that writes ten segments once a second. The rate is that of the program and not of the path.
#[test]
fn a_burst_is_no_queue() {
    let mut observer = observer();
    let mut seq = 0;
    for tick in 0..100_u64 {
        if tick % 10 == 0 {
            for _ in 0..10 {
                data(&mut observer, 100 * tick, seq);
                seq += 1000;
            }
        }
        observer.survey(ms(100 * tick + 1));
        assert_eq!(observer.mesh_excess(None).unwrap_or_default(), Nanos::ZERO);
        if tick % 10 == 2 {
            ack(&mut observer, 100 * tick + 50, seq);
        }
    }
}

/// While a hole is open, the receiver has more than it acknowledges.
#[test]
fn a_flow_that_repairs_a_loss_shows_no_queue() {
    let mut observer = observer();
    pair(&mut observer, 0, 80, 0, 10);
    let mut seq = 2000;
    for tick in 1..20_u64 {
        for _ in 0..5 {
            data(&mut observer, 100 * tick, seq);
            seq += 1000;
            // The first of them is lost.
            ack(&mut observer, 100 * tick + 10, 2000);
        }
        observer.survey(ms(100 * tick + 20));
        assert_eq!(observer.mesh_excess(None).unwrap_or_default(), Nanos::ZERO, "{tick}");
    }
}

/// A flow that begins while a queue stands has only long round trips: its base is that of the flows before it.
#[test]
fn flows_of_a_node_share_their_base() {
    let mut observer = observer();
    assert_eq!(pair(&mut observer, 0, 80, 0, 20), Some(Nanos::ZERO));
    assert_eq!(pair(&mut observer, 5000, 81, 0, 90), Some(ms(70)), "the first flow has ended");
}

#[test]
fn the_wait_in_the_own_queue_follows_littles_law_and_its_drops_of_voice_are_a_fraction() {
    let mut observer = observer();
    // 300 packets a second enter, ten are in the queue at each look: 33 ms.
    for n in 0..400_u64 {
        let at = ms(5 * n);
        observer.on_digest(&digest(at, ToMesh, PROTOCOL_UDP, 9, 200, Payload::Udp));
        if n % 20 == 0 {
            observer.on_own_queue(at, 10);
        }
        // A tenth of the call's packets is dropped.
        if n % 2 == 0 {
            observer.on_digest(&voice_packet(at, ToMesh, n as u32 / 2));
        }
        if n % 20 == 0 {
            observer.on_own_drop(at);
        }
    }
    let wait = observer.own_queue().wait(ms(1995)).as_millis_f64();
    assert!((wait - 33.3).abs() < 2.0, "{wait} ms");
    assert!((observer.own_queue().loss(ms(1995)) - 0.1).abs() < 0.02);
    assert_eq!(observer.own_queue().wait(ms(5000)), Nanos::ZERO, "nothing enters any more");
}

#[test]
fn a_pause_of_a_speaker_is_not_an_outage_and_the_packets_before_the_gateway_have_a_quality() {
    let mut observer = observer();
    // A stream of 2 s may belong to a speaker whose silence is suppressed; one of 5 s does not.
    let mut silent_for_200_ms = Vec::new();
    for n in 0..250_u32 {
        let at = 20 * u64::from(n);
        if n == 100 {
            silent_for_200_ms.push(calls(&mut observer, ms(2180))[0].up.map(|up| up.late > 0.0));
        }
        // From 1 s on, every packet into the mesh comes 40 ms later.
        observer.on_digest(&voice_packet(ms(at + if at < 1000 { 0 } else { 40 }), ToMesh, n));
        observer.on_digest(&voice_packet(ms(at), FromMesh, n));
    }
    let call = calls(&mut observer, ms(5020))[0];
    assert_eq!(call.wired.map(|wired| wired.delay), Some(ms(40)));
    // The speaker in the mesh has been silent for 200 ms, which may be an outage; after 600 ms it is a pause.
    let mut late_at = |at: u32| {
        for n in (at - 200) / 20..at / 20 {
            observer.on_digest(&voice_packet(ms(20 * u64::from(n)), ToMesh, n));
        }
        calls(&mut observer, ms(u64::from(at)))[0].up.map(|up| up.late > 0.0)
    };
    silent_for_200_ms.push(late_at(5200));
    assert_eq!(silent_for_200_ms, [Some(false), Some(true)]);
    assert_eq!(late_at(5600), Some(false));
}

#[test]
fn video_of_a_call_is_known_by_its_dscp() {
    let mut observer = observer();
    for n in 0..40_u64 {
        for (port, dscp) in [(7000, 34), (7001, 0)] {
            let packet = digest(ms(10 * n), ToMesh, PROTOCOL_UDP, port, 1200, Payload::Udp);
            observer.on_digest(&Digest { traffic_class: dscp << 2, ..packet });
        }
    }
    let kind = |port| observer.flow(&key(PROTOCOL_UDP, port)).expect("the flow").kind(ms(400));
    assert_eq!((kind(7000), kind(7001)), (FlowKind::Interactive, FlowKind::BulkUdp));
}
