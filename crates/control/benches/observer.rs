//! Digests per second on one core, memory, and the time of a tick of the adaptive controller, with 10,000 flows:
//! `cargo bench -p fairhop-control`.
//!
//! Half of the flows are TCP with data, ACKs and timestamps, a quarter are calls, a quarter other UDP. Consecutive digests are
//! of different flows, so that each one finds cold memory. Reading digests out of packet bytes is measured separately.

#![allow(clippy::print_stdout, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use fairhop_control::allocate::{Claim, split};
use fairhop_control::digest::{PROTOCOL_TCP, PROTOCOL_UDP, Payload, RtpFields, TcpFields, tcp_flag};
use fairhop_control::gateway::Gateway;
use fairhop_control::pacer::PacerConfig;
use fairhop_control::{
    AdaptiveConfig, Address, ControllerConfig, Digest, Direction, FlowKey, Observer, ObserverConfig,
};
use fairhop_model::units::Nanos;
use mimalloc::MiMalloc;

static BYTES: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The allocator of the `fairhop` program, counted.
struct Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const FLOWS: u32 = 10_000;

/// The packet of round `round` of a flow.
fn digest(flow: u32, round: u32, at: Nanos) -> Digest {
    let down = round.is_multiple_of(2);
    let (mesh, wired) = (Address::v4((0x0a01_0000 + flow).to_be_bytes()), Address::v4([192, 0, 2, 1]));
    let port = 1024 + (flow % 60_000) as u16;
    let step = round / 2;
    let (protocol, bytes, payload) = match flow % 4 {
        0 | 1 => {
            let flags = match round {
                0 => tcp_flag::SYN,
                1 => tcp_flag::SYN | tcp_flag::ACK,
                _ => tcp_flag::ACK,
            };
            // Each flow has another rate.
            let segment = 200 + flow * 7919 % 1249;
            let data = if down && round > 1 { segment } else { 0 };
            let sent = step.saturating_sub(1) * segment;
            let (seq, ack) = if down { (1000 + sent, 5001) } else { (5001, 1000 + sent) };
            let fields = TcpFields {
                seq,
                ack,
                flags,
                window: 500,
                payload_bytes: data,
                timestamps: Some((round, round.saturating_sub(1))),
                ..TcpFields::default()
            };
            (PROTOCOL_TCP, 52 + data, Payload::Tcp(fields))
        }
        2 => {
            let rtp = RtpFields {
                payload_type: 18,
                marker: false,
                sequence: step as u16,
                timestamp: step * 160,
                ssrc: flow * 2 + u32::from(down),
                payload_bytes: 20,
            };
            (PROTOCOL_UDP, 60, Payload::Rtp(rtp))
        }
        _ => (PROTOCOL_UDP, 200, Payload::Udp),
    };
    let (direction, source, destination) =
        if down { (Direction::ToMesh, wired, mesh) } else { (Direction::FromMesh, mesh, wired) };
    Digest {
        at,
        waited: Nanos::ZERO,
        direction,
        source,
        destination,
        source_port: port,
        destination_port: port,
        protocol,
        ttl: 62,
        traffic_class: 0,
        bytes,
        payload,
    }
}

/// Shares of 10,000 flows, each of which can use another rate.
fn shares() {
    let claims: Vec<Claim> = (0..FLOWS)
        .map(|flow| {
            let key = FlowKey::default();
            let demand = 1e3 * f64::from(1 + flow * 7919 % FLOWS);
            Claim { key, price: f64::from(1 + flow % 4), demand, weight: 1.0 }
        })
        .collect();
    let times = (0..20).map(|_| {
        let start = Instant::now();
        black_box(split(1e12, &claims, &[]).expect("valid claims"));
        start.elapsed().as_secs_f64()
    });
    println!("shares of {FLOWS} flows: {:.2} ms", 1e3 * times.fold(f64::INFINITY, f64::min));
}

/// A tick of a gateway with the adaptive controller, 9,500 TCP flows and 500 calls, 40 flows to each of 250 mesh nodes.
fn tick() {
    const CALLS: u32 = 500;
    let mut gateway = Gateway::<u32>::new(ObserverConfig::default());
    gateway.set(Nanos::ZERO, ControllerConfig::Adaptive(AdaptiveConfig::default()), PacerConfig::default());
    let to_node = |digest: &mut Digest| {
        for address in [&mut digest.source, &mut digest.destination] {
            if *address != Address::v4([192, 0, 2, 1]) {
                *address = Address::v4([10, 1, 0, (u32::from(digest.source_port) % 250) as u8]);
            }
        }
    };
    let (mut seconds, mut longest, mut ticks) = (0.0, 0.0_f64, 0);
    for round in 0..200 {
        for flow in 0..FLOWS {
            // Of four consecutive numbers, two are TCP, one is a call and one is other UDP.
            let number = if flow < CALLS { 4 * flow + 2 } else { 4 * flow };
            let at = Nanos(u64::from(round) * 10_000_000 + u64::from(flow) * 900);
            let mut digest = digest(number, round, at);
            digest.source_port = 1024 + flow as u16;
            digest.destination_port = digest.source_port;
            to_node(&mut digest);
            match digest.direction {
                Direction::ToMesh => drop(gateway.crossing(&digest)),
                Direction::FromMesh => {
                    let _ = gateway.from_mesh(0, &digest);
                }
            }
        }
        while gateway.poll(Nanos(u64::from(round + 1) * 10_000_000)).is_some() {}
        if round % 10 == 9 {
            let start = Instant::now();
            gateway.tick(Nanos(u64::from(round + 1) * 10_000_000));
            let took = start.elapsed().as_secs_f64();
            (seconds, longest, ticks) = (seconds + took, longest.max(took), ticks + 1);
        }
    }
    println!(
        "tick with {} flows, {} calls among them: {:.2} ms on average (at most 5), {:.2} ms at most",
        gateway.observer().table().len(),
        gateway.observer().calls(Nanos(2_000_000_000), Nanos::from_secs(1)).count(),
        1e3 * seconds / f64::from(ticks),
        1e3 * longest
    );
}

fn main() {
    shares();
    tick();
    let before = BYTES.load(Ordering::Relaxed);
    let mut observer = Observer::new(ObserverConfig::default());
    let held = BYTES.load(Ordering::Relaxed) - before;

    const ROUNDS: u32 = 200;
    let digests: Vec<Digest> = (0..FLOWS).map(|flow| digest(flow, 0, Nanos::ZERO)).collect();
    let mut seconds = 0.0;
    let mut warm_allocations = 0;
    for round in 0..ROUNDS {
        // Made outside of the measured time. A flow's rounds are 10 ms apart, 20 ms in each direction.
        let batch: Vec<Digest> = digests
            .iter()
            .zip(0..)
            .map(|(_, flow)| {
                digest(flow, round, Nanos(u64::from(round) * 10_000_000 + u64::from(flow) * 900))
            })
            .collect();
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        let start = Instant::now();
        for digest in &batch {
            observer.on_digest(digest);
        }
        if round >= 20 {
            seconds += start.elapsed().as_secs_f64();
            warm_allocations += ALLOCATIONS.load(Ordering::Relaxed) - allocations;
        }
    }
    let now = Nanos(u64::from(ROUNDS) * 10_000_000);
    observer.survey(now);
    let calls = observer.calls(now, Nanos::from_secs(1)).count();
    let rate = f64::from(ROUNDS - 20) * f64::from(FLOWS) / seconds;
    println!("flows {}, calls among them {calls}", observer.table().len());
    println!(
        "observer: {:.2} million digests/s (at least 2), {:.0} ns each; {:.1} MB (less than 50); {warm_allocations} \
         allocations while warm",
        rate / 1e6,
        1e9 / rate,
        held as f64 / 1e6
    );

    let mut packet = vec![0_u8; 60];
    packet[..20].copy_from_slice(&[0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2, 192, 0, 2, 1]);
    packet[20..28].copy_from_slice(&[0xc3, 0x50, 0xc3, 0x50, 0, 40, 0, 0]);
    packet[28..30].copy_from_slice(&[0x80, 18]);
    let start = Instant::now();
    let mut read = 0_u64;
    for round in 0..10_000_000_u32 {
        packet[30..32].copy_from_slice(&(round as u16).to_be_bytes());
        let digest = Digest::read(now, Direction::ToMesh, std::hint::black_box(&packet));
        read += u64::from(digest.is_some_and(|digest| matches!(digest.payload, Payload::Rtp(_))));
    }
    println!("reading RTP packets: {:.1} ns each", start.elapsed().as_secs_f64() * 1e9 / read as f64);
}
