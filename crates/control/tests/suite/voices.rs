//! Streams of voice as real telephones, browsers and exchanges send them: pauses, rare clocks, several sources on the same ports,
//! numbers that begin anew. Nothing is lost or late here unless a test says so, so that nothing may seem to be.

use fairhop_control::controller::Controller;
use fairhop_control::digest::{
    Digest, Direction, PROTOCOL_UDP, Payload, RtcpFields, RtpFields, TcpFields, tcp_flag,
};
use fairhop_control::flow::FlowKey;
use fairhop_control::observer::{CallNow, FlowBody, FlowKind, Observer, ObserverConfig, Stream};
use fairhop_control::{AdaptiveConfig, ControllerConfig};
use fairhop_model::units::Nanos;

use Direction::{FromMesh, ToMesh};

use crate::observing::{MESH, WIRED, digest};

const PORT: u16 = 5004;
const KEY: FlowKey =
    FlowKey { mesh: MESH, wired: WIRED, mesh_port: PORT, wired_port: PORT, protocol: PROTOCOL_UDP };

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Packets, in any order of time.
#[derive(Default)]
struct Packets(Vec<Digest>);

impl Packets {
    fn add(&mut self, at: Nanos, direction: Direction, bytes: u32, payload: Payload) {
        self.0.push(digest(at, direction, PROTOCOL_UDP, PORT, bytes, payload));
    }

    /// A packet of voice of 200 bytes.
    fn voice(&mut self, at: u64, direction: Direction, rtp: RtpFields) {
        self.add(ms(at), direction, 200, Payload::Rtp(rtp));
    }

    /// A stream of G.711 in each of these milliseconds, with a packet every 20 ms, whose numbers and timestamps begin there.
    fn g711(&mut self, times: std::ops::Range<u64>, direction: Direction, sequence: u16, timestamp: u32) {
        for (n, at) in times.step_by(20).enumerate() {
            let n = n as u32;
            let rtp = RtpFields {
                payload_type: 0,
                sequence: sequence.wrapping_add(n as u16),
                timestamp: timestamp.wrapping_add(160 * n),
                ssrc: 7,
                ..RtpFields::default()
            };
            self.voice(at, direction, rtp);
        }
    }

    /// Video of one source every 33 ms in these milliseconds, in pictures of that many packets of 1100 bytes.
    fn video(&mut self, times: std::ops::Range<u64>, direction: Direction, packets: u64) {
        for (picture, at) in times.step_by(33).enumerate() {
            for n in 0..packets {
                let rtp = RtpFields {
                    payload_type: 96,
                    sequence: (picture as u64 * packets + n) as u16,
                    timestamp: 2970 * picture as u32,
                    ssrc: 8,
                    marker: n == packets - 1,
                    ..RtpFields::default()
                };
                self.add(Nanos::from_micros(1000 * at + 300 * n), direction, 1100, Payload::Rtp(rtp));
            }
        }
    }

    /// A download with a full segment every so many milliseconds.
    fn download(&mut self, times: std::ops::Range<u64>, every: usize) {
        for (n, at) in times.step_by(every).enumerate() {
            let (seq, flags) = (1448 * n as u32, tcp_flag::ACK);
            let fields = TcpFields { seq, flags, payload_bytes: 1448, ..TcpFields::default() };
            self.add(ms(at), ToMesh, 1500, Payload::Tcp(fields));
            self.0.last_mut().expect("a packet").protocol = 6;
        }
    }

    /// Calls `look` every 100 ms with what is known then.
    fn observe(mut self, mut look: impl FnMut(u64, &Observer, Option<CallNow>)) -> Observer {
        self.0.sort_by_key(|digest| digest.at);
        let mut observer = Observer::new(ObserverConfig { flows: 100, ..ObserverConfig::default() });
        let mut tick = 100;
        for digest in &self.0 {
            while digest.at >= ms(tick) {
                observer.survey(ms(tick));
                let call = observer.calls(ms(tick), ms(300)).next();
                look(tick, &observer, call);
                tick += 100;
            }
            observer.on_digest(digest);
        }
        observer
    }

    /// The largest part of the packets out of the mesh that was said to be lost or late.
    fn worst(self) -> (f64, Observer) {
        let mut worst = 0.0_f64;
        let observer = self.observe(|_, _, call| {
            let up = call.and_then(|call| call.up);
            worst = worst.max(up.map_or(0.0, |up| up.loss + up.late));
        });
        (worst, observer)
    }
}

fn up(observer: &Observer) -> &Stream {
    match &observer.flow(&KEY).expect("the flow").body {
        FlowBody::Udp(udp) => &udp.up,
        FlowBody::Tcp(_) => panic!("not UDP"),
    }
}

/// Opus sends a packet every 400 ms of silence. Its timestamp jumps, and many senders set no marker.
#[test]
fn pauses_without_markers_look_like_lost_packets_once_at_most() {
    let mut packets = Packets::default();
    packets.g711(0..40_000, ToMesh, 0, 0);
    let (mut at, mut sequence) = (0, 0);
    while at < 40_000 {
        let rtp = RtpFields {
            payload_type: 111,
            sequence,
            timestamp: 48 * at as u32,
            ssrc: 9,
            ..RtpFields::default()
        };
        packets.voice(at, FromMesh, rtp);
        // Speech until 10 s, then pauses.
        at += if at < 10_000 { 20 } else { 400 };
        sequence += 1;
    }
    let mut late = Vec::new();
    packets.observe(|at, _, call| {
        if call.and_then(|call| call.up).is_some_and(|up| up.late + up.loss > 0.0) {
            late.push(at);
        }
    });
    assert!(late.iter().all(|at| (10_000..10_700).contains(at)), "{late:?}");
}

/// A telephone event has a payload type of its own and takes time, which is no pause.
#[test]
fn telephone_events_are_no_pauses_and_a_new_codec_is_measured() {
    let mut packets = Packets::default();
    packets.g711(0..1000, FromMesh, 0, 0);
    for n in 0..10 {
        let rtp = RtpFields {
            payload_type: 101,
            sequence: 50 + n,
            timestamp: 8000,
            ssrc: 7,
            ..RtpFields::default()
        };
        packets.voice(1000 + 20 * u64::from(n), FromMesh, rtp);
    }
    packets.g711(1200..2000, FromMesh, 60, 9600);
    // G.729 from then on.
    for n in 0..200 {
        let rtp = RtpFields {
            payload_type: 18,
            sequence: 100 + n,
            timestamp: 16_000 + 160 * u32::from(n),
            ssrc: 7,
            ..RtpFields::default()
        };
        packets.voice(2000 + 20 * u64::from(n), FromMesh, rtp);
    }
    let (worst, observer) = packets.worst();
    assert_eq!((worst, up(&observer).suppresses_silence()), (0.0, false));
    assert_eq!(up(&observer).codec(), fairhop_model::voice::Codec::G729a);
}

/// G.722.1C at 32 kHz, and others that are neither 8, 16 nor 48 kHz. Video with a packet for each picture has 90 kHz.
#[test]
fn rare_clocks_are_recognised_and_video_with_a_packet_for_each_picture_is_no_call() {
    for (hz, interval_us) in [(32_000, 20_000), (24_000, 20_000), (12_000, 20_000), (48_000, 10_000)] {
        let mut packets = Packets::default();
        for n in 0..500_u64 {
            let rtp = RtpFields {
                payload_type: 115,
                sequence: n as u16,
                timestamp: (n * interval_us * hz / 1_000_000) as u32,
                ssrc: 9,
                ..RtpFields::default()
            };
            packets.add(Nanos::from_micros(n * interval_us), FromMesh, 140, Payload::Rtp(rtp));
        }
        let (worst, observer) = packets.worst();
        assert_eq!((worst, u64::from(up(&observer).clock_hz())), (0.0, hz));
    }
    for pictures in [15, 25, 30, 50, 60] {
        let mut packets = Packets::default();
        for n in 0..300_u64 {
            let rtp = RtpFields {
                payload_type: 96,
                sequence: n as u16,
                timestamp: (n * 90_000 / pictures) as u32,
                ssrc: 9,
                marker: true,
                ..RtpFields::default()
            };
            packets.add(Nanos(n * 1_000_000_000 / pictures), FromMesh, 900, Payload::Rtp(rtp));
        }
        packets.observe(|at, _, call| assert_eq!(call, None, "{pictures} pictures/s at {at} ms"));
    }
}

/// Browsers send voice and video on the same ports (RFC 8843), pictures as several packets at once.
#[test]
fn voice_beside_video_on_the_same_ports_is_measured_and_the_flow_has_the_place_of_video() {
    for video_from in [0, 5000] {
        let mut packets = Packets::default();
        packets.g711(7..20_000, FromMesh, 0, 0);
        packets.video(video_from..19_800, FromMesh, 6);
        packets.observe(|at, observer, call| {
            if at > 1000 {
                let up = call.and_then(|call| call.up).expect("a call");
                assert_eq!((up.loss, up.late), (0.0, 0.0), "at {at} ms");
            }
            if at > video_from + 1000 {
                assert_eq!(observer.flow(&KEY).map(|flow| flow.kind(ms(at))), Some(FlowKind::Interactive));
            }
        });
    }
}

/// Encrypted reports tell nothing, but whoever watches video asks for what is missing (RFC 4585 §6.2.1).
#[test]
fn what_a_listener_asks_to_be_sent_again_is_the_loss_of_its_call_into_the_mesh() {
    let mut packets = Packets::default();
    packets.g711(7..20_000, ToMesh, 0, 0);
    packets.g711(3..20_000, FromMesh, 0, 0);
    packets.video(0..20_000, ToMesh, 2);
    for at in (50..20_000).step_by(100) {
        // One packet of a hundred from 10 s on, each after its round trip.
        let entries = u32::from(at > 10_000 && at % 1650 < 100);
        let feedback = RtcpFields { ssrc: 9, nack_entries: entries, ..RtcpFields::default() };
        packets.add(ms(at), FromMesh, 100, Payload::Rtcp(feedback));
    }
    let (mut sum, mut count) = (0.0, 0);
    packets.observe(|at, _, call| {
        let Some(call) = call.filter(|_| at > 1000) else { return };
        if at < 11_500 {
            assert!(!call.down_is_reported, "nothing was asked for until then: {at} ms");
        } else if at > 13_000 {
            assert!(call.down_is_reported, "at {at} ms");
            sum += call.down.expect("a stream into the mesh").loss;
            count += 1;
        }
    });
    assert!((sum / f64::from(count) / 0.01 - 1.0).abs() < 0.1, "{}", sum / f64::from(count));
}

/// The call is bad, so that the budget is small. Its sound keeps its rate, which is 80 kb/s, beside video on the same ports.
#[test]
fn sound_beside_video_keeps_its_rate_whatever_the_budget_is() {
    let mut packets = Packets::default();
    packets.g711(7..30_000, ToMesh, 0, 0);
    packets.g711(3..30_000, FromMesh, 0, 0);
    packets.video(0..30_000, ToMesh, 6);
    // A quarter of its packets out of the mesh are lost.
    packets.0.retain(|digest| digest.direction == ToMesh || digest.at.0 / 20_000_000 % 4 > 0);
    packets.download(0..30_000, 10);
    packets.0.sort_by_key(|digest| digest.at);
    let observer = ObserverConfig { flows: 100, ..ObserverConfig::default() };
    let mut controller = Controller::new(observer, ControllerConfig::Adaptive(AdaptiveConfig::default()));
    let mut tick = 100;
    for digest in &packets.0 {
        while digest.at >= ms(tick) {
            let policy = controller.tick(ms(tick), 0);
            let rate = policy.interactive.map_or(0, |rate| rate.0);
            assert!(tick < 1000 || policy.down.is_none() || rate >= 80_000, "{rate} at {tick} ms");
            tick += 100;
        }
        controller.on_digest(digest);
    }
}

/// At 20 s, the packets of a call begin to come 33 ms later, and from 30 s on a download sends half as much. A queue would become shorter.
#[test]
fn a_delay_that_does_not_become_shorter_where_less_is_sent_is_no_queue() {
    for (then, sends_less, at_last) in [(33, true, 0), (17, true, 17), (33, false, 33)] {
        let mut packets = Packets::default();
        packets.g711(0..50_000, FromMesh, 0, 0);
        for packet in &mut packets.0 {
            let delay = if packet.at >= ms(30_000) { then } else { 33 * u64::from(packet.at >= ms(20_000)) };
            packet.at += ms(delay);
        }
        packets.download(0..50_000, 25);
        packets.0.retain(|digest| {
            let halved = sends_less && digest.protocol == 6 && digest.at > ms(30_000);
            !halved || digest.at.0 / 25_000_000 % 2 > 0
        });
        packets.observe(|at, _, call| {
            let delay = call.and_then(|call| call.up).filter(|_| at > 1000).map(|up| up.delay.0 / 1_000_000);
            let expected = match at {
                1001..20_000 => 0,
                20_500..30_000 => 33,
                42_000.. => at_last,
                _ => return,
            };
            assert_eq!(delay, Some(expected), "at {at} ms, with {then} ms at last");
        });
    }
}

/// An exchange keeps the SSRC of a call that it connects anew.
#[test]
fn a_call_whose_numbers_or_timestamps_begin_anew_goes_on_without_a_loss() {
    for (sequence, timestamp) in [(500, 0x9000_0000), (500, 4_000_000), (40_000, 80_000), (60_000, 7), (2, 7)]
    {
        let mut packets = Packets::default();
        packets.g711(0..10_000, ToMesh, 0, 0);
        packets.g711(0..10_000, FromMesh, 0, 0);
        packets.g711(10_000..20_000, ToMesh, 500, 80_000);
        packets.g711(10_000..20_000, FromMesh, sequence, timestamp);
        let mut measured = 0;
        packets.observe(|at, _, call| {
            let up = call.and_then(|call| call.up);
            measured += u64::from(at > 10_000 && up.is_some_and(|up| up.expected > 0));
            assert_eq!(up.map_or(0.0, |up| up.loss + up.late), 0.0, "{sequence} {timestamp} at {at} ms");
        });
        assert!(measured > 95, "{measured} ticks of 99");
    }
}

/// On hold, the mesh end sends nothing for minutes. The gateway has to stop waiting: no route is broken.
#[test]
fn a_call_on_hold_is_not_awaited_for_more_than_ten_seconds() {
    let mut packets = Packets::default();
    packets.g711(0..60_000, ToMesh, 0, 0);
    packets.g711(0..10_000, FromMesh, 0, 0);
    packets.g711(50_000..60_000, FromMesh, 500, 400_000);
    let report = Payload::Rtcp(RtcpFields::default());
    packets.add(ms(30_000), FromMesh, 100, report);
    packets.observe(|at, observer, call| {
        let is_awaited = call.is_some_and(|call| call.is_awaited);
        match at {
            5000..20_000 => assert!(is_awaited, "at {at} ms"),
            20_200..50_000 => assert!(!is_awaited, "at {at} ms"),
            _ => {}
        }
        if at > 30_100 && at < 50_000 {
            let heard = observer.flow(&KEY).and_then(|flow| flow.heard);
            assert_eq!(heard, Some(ms(30_000)), "a report is a sign of life");
        }
    });
}

/// A provider clears the marks on one way only.
#[test]
fn marks_of_one_direction_are_enough() {
    let mut packets = Packets::default();
    for n in 0..200 {
        packets.add(ms(10 * n), ToMesh, 1200, Payload::Udp);
        packets.add(ms(10 * n + 5), FromMesh, 1200, Payload::Udp);
    }
    for digest in packets.0.iter_mut().filter(|digest| digest.direction == FromMesh) {
        digest.traffic_class = 34 << 2;
    }
    packets.observe(|at, observer, _| {
        let kind = observer.flow(&KEY).map(|flow| flow.kind(ms(at)));
        assert!(at < 500 || kind == Some(FlowKind::Interactive), "at {at} ms: {kind:?}");
    });
}

#[test]
fn a_trace_of_the_path_does_not_make_a_node_distant() {
    let mut packets = Packets::default();
    packets.g711(0..2000, FromMesh, 0, 0);
    for (n, digest) in packets.0.iter_mut().enumerate() {
        digest.ttl = if n % 4 == 3 { 1 + (n % 12) as u8 } else { 61 };
    }
    packets.observe(|_, observer, _| {
        assert_eq!(observer.flow(&KEY).map(|flow| flow.hops), Some(4));
    });
}

/// A connection that has downloaded 100 MB begins to upload.
#[test]
fn the_direction_of_a_flow_is_that_of_its_recent_data() {
    let mut observer = Observer::new(ObserverConfig { flows: 100, ..ObserverConfig::default() });
    let mut sent = [0_u32; 2];
    let mut send = |observer: &mut Observer, n: u64, direction: Direction| {
        let from = usize::from(direction == FromMesh);
        let fields = TcpFields {
            seq: sent[from],
            ack: sent[1 - from],
            flags: tcp_flag::ACK,
            payload_bytes: 1448,
            ..TcpFields::default()
        };
        sent[from] += 1448;
        let mut packets = Packets::default();
        packets.add(ms(n), direction, 1500, Payload::Tcp(fields));
        observer.on_digest(&Digest { protocol: 6, ..packets.0[0] });
    };
    let is_upload =
        |observer: &Observer| match observer.flow(&FlowKey { protocol: 6, ..KEY }).map(|flow| flow.body) {
            Some(FlowBody::Tcp(tcp)) => tcp.is_upload(),
            _ => panic!("not TCP"),
        };
    for n in 0..70_000 {
        send(&mut observer, n, ToMesh);
    }
    assert!(!is_upload(&observer));
    for n in 0..180 {
        send(&mut observer, 70_000 + n, FromMesh);
    }
    assert!(is_upload(&observer), "after 256 kB");
}

/// While a datapath is replaced, packets pass that the observer does not see.
#[test]
fn packets_that_pass_unseen_are_no_losses() {
    let mut packets = Packets::default();
    packets.g711(0..10_000, ToMesh, 0, 0);
    packets.g711(0..10_000, FromMesh, 0, 0);
    let mut seq = 0;
    for at in (0..10_000).step_by(10) {
        let fields = TcpFields { seq, flags: tcp_flag::ACK, payload_bytes: 1448, ..TcpFields::default() };
        seq += 1448;
        packets.add(ms(at), FromMesh, 1500, Payload::Tcp(fields));
        packets.0.last_mut().expect("a packet").protocol = 6;
    }
    packets.0.sort_by_key(|digest| digest.at);
    let mut observer = Observer::new(ObserverConfig { flows: 100, ..ObserverConfig::default() });
    let lost = |observer: &mut Observer, at: u64| {
        observer.survey(ms(at));
        let call = observer.calls(ms(at), ms(1000)).next().and_then(|call| call.up);
        (call.map(|up| up.loss + up.late), observer.totals().lost_in_mesh)
    };
    for digest in packets.0.iter().filter(|digest| !(ms(5000)..ms(5170)).contains(&digest.at)) {
        if digest.at == ms(5170) {
            observer.on_blind();
        }
        observer.on_digest(digest);
        if digest.at == ms(5600) {
            assert_eq!(lost(&mut observer, 5600), (Some(0.0), 0));
        }
    }
    assert_eq!(lost(&mut observer, 9990), (Some(0.0), 0));
}
