//! Calls of unknown protocols, by the times of their packets alone.

use fairhop_control::digest::{Digest, Direction, PROTOCOL_UDP, Payload, RtcpFields, RtpFields};
use fairhop_control::flow::FlowKey;
use fairhop_control::observer::{CallNow, FlowKind, Observer, ObserverConfig};
use fairhop_model::units::Nanos;

use Direction::{FromMesh, ToMesh};

use crate::observing::{MESH, WIRED, digest};

const PORT: u16 = 1194;
const KEY: FlowKey =
    FlowKey { mesh: MESH, wired: WIRED, mesh_port: PORT, wired_port: PORT, protocol: PROTOCOL_UDP };

/// Default forwarding, expedited forwarding for telephony, and AF41 for video (RFC 4594).
const BEST_EFFORT: u8 = 0;
const EF: u8 = 46;
const AF41: u8 = 34;

/// Numbers from 0 to 1, equally likely (a linear congruential generator: Knuth's constants for 64 bits).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A packet: when it passes in seconds, its direction, its bytes.
type Packet = (f64, Direction, u32);

/// One direction of a call: a packet of 160 bytes every `interval` ms until `seconds`. `fate` gets the time at which it was sent and says
/// how many ms later it passes, or that it is lost.
fn sound(
    direction: Direction,
    interval: f64,
    seconds: f64,
    mut fate: impl FnMut(f64) -> Option<f64>,
) -> Vec<Packet> {
    let count = (1000.0 * seconds / interval) as u64;
    let sent = (0..count).map(|n| n as f64 * interval / 1000.0);
    sent.filter_map(|at| Some((at + fate(at)? / 1000.0, direction, 160))).collect()
}

/// Calls `look` every 100 ms, with the time in seconds, the kind of the flow and the call of the last second.
fn observe(packets: Vec<Packet>, look: impl FnMut(f64, FlowKind, Option<CallNow>)) {
    observe_as(packets, BEST_EFFORT, |_| Payload::Udp, look);
}

fn observe_as(
    mut packets: Vec<Packet>,
    dscp: u8,
    mut payload: impl FnMut(usize) -> Payload,
    mut look: impl FnMut(f64, FlowKind, Option<CallNow>),
) {
    packets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut observer = Observer::new(ObserverConfig { flows: 100, ..ObserverConfig::default() });
    let mut tick = 1;
    for (n, (at, direction, bytes)) in packets.into_iter().enumerate() {
        // Seconds after the start of the clock, as on a real machine.
        let at = Nanos::from_secs_f64(1000.0 + at);
        while at >= Nanos::from_secs(1000) + Nanos::from_millis(100 * tick) {
            let now = Nanos::from_secs(1000) + Nanos::from_millis(100 * tick);
            observer.survey(now);
            let call = observer.calls(now, Nanos::from_secs(1)).next();
            if let Some(flow) = observer.flow(&KEY) {
                look(tick as f64 / 10.0, flow.kind(now), call);
            }
            tick += 1;
        }
        let digest = digest(at, direction, PROTOCOL_UDP, PORT, bytes, payload(n));
        observer.on_digest(&Digest { traffic_class: dscp << 2, ..digest });
    }
}

/// The first time at which it was a call, if any.
fn call_from(packets: Vec<Packet>) -> Option<f64> {
    let mut found = None;
    observe(packets, |at, kind, _| {
        if kind == FlowKind::Call {
            found.get_or_insert(at);
        }
    });
    found
}

/// What is said of the packets out of the mesh from the seconds `from` to `to`, in the mean: the parts lost and late, and the delay in ms.
fn mean(packets: Vec<Packet>, from: f64, to: f64) -> [f64; 3] {
    let (mut sums, mut count) = ([0.0; 3], 0.0);
    observe(packets, |at, _, call| {
        if let Some(up) = call.and_then(|call| call.up).filter(|_| (from..to).contains(&at)) {
            for (sum, value) in sums.iter_mut().zip([up.loss, up.late, up.delay.as_millis_f64()]) {
                *sum += value;
            }
            count += 1.0;
        }
    });
    assert!(count >= 9.0 * (to - from), "judged in {count} of {} tenths", 10.0 * (to - from));
    sums.map(|sum| sum / count)
}

#[test]
fn what_a_call_loses_out_of_the_mesh_is_known() {
    for interval in [10.0, 20.0, 30.0, 40.0, 60.0] {
        for loss in [0.0, 0.02, 0.1, 0.25] {
            let (mut wired, mut mesh) = (Random(1), Random(2));
            let mut packets = sound(ToMesh, interval, 300.0, |_| Some(10.0 + 4.0 * wired.next()));
            packets.extend(sound(FromMesh, interval, 300.0, |_| {
                (mesh.next() >= loss).then(|| 5.0 + 0.5 * interval.min(20.0) * mesh.next())
            }));
            let found @ [lost, late, delay] = mean(packets, 15.0, 299.0);
            assert!((lost - loss).abs() < 0.005 + 0.1 * loss, "{interval} ms, {loss}: {found:?}");
            // While it is not known that a packet is missing, the next ones seem to be delayed.
            assert!(late < 0.01 && delay < 15.0 || loss > 0.05, "{interval} ms, {loss}: {found:?}");
        }
    }
}

#[test]
fn only_steady_small_packets_at_the_interval_of_a_codec_are_a_call() {
    let at = |interval: f64| {
        let (mut a, mut b) = (Random(3), Random(4));
        let mut packets = sound(ToMesh, interval, 600.0, |_| Some(4.0 * a.next()));
        packets.extend(sound(FromMesh, interval, 600.0, |_| Some(4.0 * b.next())));
        call_from(packets)
    };
    assert!(at(20.0).is_some_and(|at| at < 1.5), "{:?}", at(20.0));
    for interval in [15.625, 16.667, 20.2, 25.0, 33.333, 50.0, 100.0, 200.0] {
        assert_eq!(at(interval), None, "{interval} ms");
    }
    // A program that sleeps for 20 ms and 0.1 ms more: it seems to be a call for once, until a window is over.
    let mut last = 0.0;
    let packets = [ToMesh, FromMesh].map(|direction| sound(direction, 20.1, 600.0, |_| Some(5.0))).concat();
    observe(packets, |at, kind, _| last = if kind == FlowKind::Call { at } else { last });
    assert!((1.0..5.0).contains(&last), "a call until {last} s");
    // At random times, 50 a second: a day.
    let mut random = Random(5);
    let mut time = 0.0;
    let packets: Vec<Packet> = std::iter::from_fn(|| {
        time -= random.next().max(1e-12).ln() / 50.0;
        (time < 86_400.0).then_some((time, FromMesh, 100))
    })
    .collect();
    assert_eq!(call_from(packets), None);
    // 25 small pictures a second, which say what they are, and telephony.
    for (dscp, is_call) in [(AF41, false), (EF, true)] {
        let mut seen = false;
        let packets = sound(FromMesh, 40.0, 60.0, |_| Some(5.0));
        observe_as(packets, dscp, |_| Payload::Udp, |_, kind, _| seen |= kind == FlowKind::Call);
        assert_eq!(seen, is_call, "DSCP {dscp}");
    }
    // What acknowledges bulk data every 20 ms.
    let mut packets: Vec<Packet> = (0..60_000_u64).map(|n| (n as f64 / 100.0, ToMesh, 1250)).collect();
    packets.extend(sound(FromMesh, 20.0, 600.0, |_| Some(5.0)));
    observe(packets, |at, kind, call| assert!(kind != FlowKind::Call && call.is_none(), "a call at {at} s"));
    // Pictures both ways, 25 a second in large packets, with rests of any length.
    let mut random = Random(11);
    let mut pictures = |direction| {
        let starts = (0..25 * 600).map(|n| f64::from(n) / 25.0);
        let mut packets = Vec::new();
        for at in starts {
            packets.extend((0..2).map(|n| (at + f64::from(n) / 1000.0, direction, 1200)));
            packets.push((at + 0.002, direction, 60 + (1140.0 * random.next()) as u32));
        }
        packets
    };
    let packets = [pictures(ToMesh), pictures(FromMesh)].concat();
    observe(packets, |at, _, call| assert!(call.is_none(), "a call at {at} s"));
}

/// Data of 2 Mb/s into the mesh from the second `from` to the second `to`, in packets of 1500 bytes at random times, with an acknowledgment of 124 bytes
/// for every other one.
fn download(from: f64, to: f64) -> Vec<Packet> {
    let mut random = Random(12);
    let mut packets = Vec::new();
    let mut at = from;
    while at < to {
        at -= random.next().max(1e-12).ln() * 0.006;
        packets.push((at, ToMesh, 1500));
        if random.next() < 0.5 {
            packets.push((at + 0.01, FromMesh, 124));
        }
    }
    packets
}

/// A computer whose tunnel carries a call and a download: the download is paced, and the call judged by what is its own.
#[test]
fn a_call_beside_a_download_in_its_tunnel_is_known_and_judged() {
    for loss in [0.0, 0.02, 0.1] {
        let (mut wired, mut mesh) = (Random(13), Random(14));
        let mut packets = sound(ToMesh, 20.0, 120.0, |_| Some(10.0 + 4.0 * wired.next()));
        packets
            .extend(sound(FromMesh, 20.0, 120.0, |_| (mesh.next() >= loss).then(|| 5.0 + 8.0 * mesh.next())));
        packets.extend(download(0.0, 100.0));
        let (mut known, mut kinds) = (None, Vec::new());
        observe(packets.clone(), |at, kind, call| {
            if call.is_some() {
                known.get_or_insert(at);
            }
            kinds.push((at, kind));
        });
        assert!(known.is_some_and(|at| at < 6.0), "{loss}: known from {known:?} s");
        let during = |kind, from, to| kinds.iter().all(|&(at, is)| !(from..to).contains(&at) || is == kind);
        assert!(during(FlowKind::BulkUdp, 6.0, 99.0) && during(FlowKind::Call, 110.0, 120.0), "{kinds:?}");
        let [lost, late, _] = mean(packets, 15.0, 99.0);
        assert!(
            (lost - loss).abs() < 0.01 + 0.1 * loss && late < 0.01 + 0.1 * loss,
            "{loss}: {lost}, {late}"
        );
    }
}

/// Bytes that are encrypted have the version of RTP in a quarter of the packets, and an eighth of these have a type of RTCP.
#[test]
fn encrypted_bytes_that_look_like_rtp_and_rtcp_change_nothing() {
    let mut random = Random(6);
    let mut packets = sound(ToMesh, 20.0, 30.0, |_| Some(10.0));
    packets.extend(sound(FromMesh, 20.0, 30.0, |_| Some(5.0)));
    let mut numbers = Random(7);
    let payload = move |_| {
        let mut number = || (numbers.next() * f64::from(u32::MAX)) as u32;
        let (sequence, timestamp, ssrc) = (number() as u16, number(), number());
        let rtp = RtpFields { payload_type: 96, sequence, timestamp, ssrc, ..RtpFields::default() };
        match random.next() {
            ..0.03 => Payload::Rtcp(RtcpFields { ssrc, ..RtcpFields::default() }),
            ..0.25 => Payload::Rtp(rtp),
            _ => Payload::Udp,
        }
    };
    let mut worst = 0.0_f64;
    let mut judged = 0;
    observe_as(packets, BEST_EFFORT, payload, |_, _, call| {
        if let Some(up) = call.and_then(|call| call.up) {
            judged += 1;
            worst = worst.max(up.loss + up.late);
        }
    });
    assert!(judged > 230 && worst == 0.0, "{judged} judged, worst {worst}");
}

#[test]
fn pauses_and_queues_are_no_losses() {
    // Talk spurts of a second, pauses of a second.
    let spoken = |at: f64| (at % 2.0 < 1.0).then_some(5.0);
    let mut packets = sound(ToMesh, 20.0, 60.0, |_| Some(10.0));
    packets.extend(sound(FromMesh, 20.0, 60.0, spoken));
    let [lost, late, _] = mean(packets, 15.0, 59.0);
    assert!(lost + late < 0.002, "pauses: {lost}, {late}");
    // A queue of up to 120 ms that grows for two seconds, stands for two, and drains within one, every ten seconds: its growth may look
    // like losses, which are taken back.
    let queue = |at: f64| {
        let phase = at % 10.0;
        Some(5.0 + 60.0 * phase.min(2.0) * (5.0 - phase).clamp(0.0, 1.0))
    };
    let mut packets = sound(ToMesh, 20.0, 60.0, |_| Some(10.0));
    packets.extend(sound(FromMesh, 20.0, 60.0, queue));
    let mut last = None;
    observe(packets, |_, _, call| last = call.or(last));
    let call = last.expect("a call");
    assert!(call.is_opaque && call.up.is_some_and(|up| up.loss + up.late < 0.01), "{call:?}");
}

/// Keep-alives, reports and the like, at any time: three a second.
#[test]
fn other_packets_of_the_flow_are_no_sound() {
    let mut random = Random(8);
    let mut packets = sound(ToMesh, 20.0, 300.0, |_| Some(10.0));
    packets.extend(sound(FromMesh, 20.0, 300.0, |_| Some(5.0 + 2.0 * random.next())));
    let mut random = Random(9);
    packets.extend((0..900).map(|n| (5.0 + (f64::from(n) + random.next()) / 3.0, FromMesh, 61)));
    let [lost, late, delay] = mean(packets, 15.0, 299.0);
    assert!(lost + late < 0.001 && delay < 5.0, "{lost}, {late}, {delay} ms");
}

#[test]
fn a_sender_that_changes_its_interval_is_judged_anew_within_eight_seconds() {
    let parts = |direction| {
        let mut packets = sound(direction, 20.0, 30.0, |_| Some(5.0));
        let later = sound(direction, 40.0, 30.0, |_| Some(5.0));
        packets.extend(later.into_iter().map(|(at, direction, bytes)| (at + 30.0, direction, bytes)));
        packets
    };
    let packets = [parts(ToMesh), parts(FromMesh)].concat();
    let [lost, late, _] = mean(packets, 40.0, 59.0);
    assert!(lost + late < 0.001, "{lost}, {late}");
}

/// Recordings may be damaged: a call whose clock jumps to any time and goes on from there.
#[test]
fn any_time_is_taken() {
    let mut random = Random(10);
    let mut observer = Observer::new(ObserverConfig { flows: 100, ..ObserverConfig::default() });
    let mut jumps: Vec<u64> = (0..200).map(|_| (random.next().powi(20) * u64::MAX as f64) as u64).collect();
    jumps.sort_unstable();
    for jump in jumps.into_iter().chain([u64::MAX - 1_000_000_000, u64::MAX]) {
        for n in 0..400 {
            let at = Nanos(jump.saturating_add(20_000_000 * n));
            observer.on_digest(&digest(at, FromMesh, PROTOCOL_UDP, PORT, 160, Payload::Udp));
        }
    }
}

#[test]
fn a_call_is_known_again_after_a_download_has_begun_in_its_tunnel() {
    let mut packets = sound(ToMesh, 20.0, 60.0, |_| Some(10.0));
    packets.extend(sound(FromMesh, 20.0, 60.0, |_| Some(5.0)));
    packets.extend(download(20.0, 40.0));
    let (mut unknown, mut paced, mut again) = (0, 0, 0.0);
    observe(packets, |at, kind, call| {
        unknown += i32::from(at > 20.0 && call.is_none());
        paced += i32::from(at < 40.0 && kind == FlowKind::BulkUdp);
        again = if at > 40.0 && again == 0.0 && kind == FlowKind::Call { at } else { again };
    });
    // Until a window shows that other data has begun, and another one that the call goes on; in tenths of a second.
    assert!(unknown < 80, "unknown for {unknown} tenths");
    assert!(paced > 190, "paced for {paced} tenths");
    assert!((40.0..49.0).contains(&again), "a call alone from {again} s");
}
