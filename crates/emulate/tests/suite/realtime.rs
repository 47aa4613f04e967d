//! The loop that follows the clock, with datagram sockets in place of devices.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use fairhop_emulate::namespaces::Port;
use fairhop_emulate::realtime::{self, Stop, Timing};
use fairhop_sim::scenario::{AttachKind, load};
use fairhop_sim::world::{Rejected, World};

fn world(kind: &str, duration_s: f64) -> World {
    let text = format!(
        "name = \"loop\"\nduration_s = {duration_s}\n[radio]\nstandard = \"802.11a\"\nrate_mbps = 6\n\
         propagation = {{ model = \"range\", receive_m = 250, carrier_sense_m = 550 }}\n\
         [topology]\nkind = \"string\"\nhops = 2\nspacing_m = 200\n[[attach]]\nkind = \"{kind}\"\n"
    );
    World::new(&load("loop.toml", &text, &[]).unwrap().scenario, 1).unwrap()
}

/// Ports of the nodes 0, 1 and 2, and what stands for their kernels.
fn ports(kind: AttachKind) -> (Vec<Port>, Vec<UnixDatagram>) {
    let pair = |node| {
        let (kernel, device) = UnixDatagram::pair().unwrap();
        kernel.set_nonblocking(true).unwrap();
        device.set_nonblocking(true).unwrap();
        let device = File::from(OwnedFd::from(device));
        (Port { node, kind, namespace: format!("fh-{node}"), device, gate: None }, kernel)
    };
    (0..3).map(pair).unzip()
}

fn datagram(from: u8, to: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, from, 10, 77, 0, to];
    packet.extend([0x10, 0, 0x20, 0, 0, 8 + payload.len() as u8, 0, 0]);
    packet.extend(payload);
    packet[3] = packet.len() as u8;
    packet
}

/// Runs the loop while `act` does something, then stops it.
fn run(world: &mut World, ports: &mut [Port], act: impl FnOnce()) -> Timing {
    let stop = Stop::new().unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| realtime::run(world, ports, &stop, &mut ()).unwrap());
        act();
        stop.request();
        running.join().unwrap()
    })
}

fn received(kernel: &UnixDatagram) -> Vec<Vec<u8>> {
    let mut buffer = [0; 4_000];
    let next = || kernel.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec());
    std::iter::from_fn(next).collect()
}

#[test]
fn packets_of_a_device_come_out_of_the_device_of_their_destination() {
    let (mut world, (mut ports, kernels)) = (world("edge", 60.0), ports(AttachKind::Edge));
    let timing = run(&mut world, &mut ports, || {
        for number in 0..20 {
            kernels[0].send(&datagram(0, 2, &[number])).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(200));
    });
    let got = received(&kernels[2]);
    assert_eq!(got.iter().map(|packet| packet[28]).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert!(got.iter().all(|packet| packet[8] == 63), "one node forwards");
    assert!(received(&kernels[1]).is_empty());
    assert!(timing.lateness.total() > 100 && timing.max >= timing.quantile(0.5));
    assert_eq!(timing.unwritten, 0);
    // The packets took 0.3 s at least; the thread of the loop may have started a little later.
    assert!(world.now().as_secs_f64() >= 0.2, "the World has followed the clock");
}

#[test]
fn a_run_ends_at_the_end_of_the_scenario() {
    let (mut world, (mut ports, _kernels)) = (world("edge", 0.3), ports(AttachKind::Edge));
    let stop = Stop::new().unwrap();
    let began = std::time::Instant::now();
    realtime::run(&mut world, &mut ports, &stop, &mut ()).unwrap();
    assert_eq!(world.now(), world.end());
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn malformed_and_random_packets_are_counted_and_disturb_nothing() {
    let (mut world, (mut ports, kernels)) = (world("edge", 60.0), ports(AttachKind::Edge));
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    run(&mut world, &mut ports, || {
        for _ in 0..500 {
            let bytes: Vec<u8> = (0..1 + random() % 3_000).map(|_| random() as u8).collect();
            kernels[random() % 3].send(&bytes).unwrap();
            thread::sleep(Duration::from_micros(200));
        }
        kernels[0].send(&datagram(0, 2, b"x")).unwrap();
        thread::sleep(Duration::from_millis(300));
    });
    assert_eq!(received(&kernels[2]).len(), 1);
    let counts = world.real().counts();
    let rejected = |why: Rejected| counts.rejected[why as usize];
    assert_eq!(counts.injected + counts.rejected.iter().sum::<u64>(), 501);
    assert!(rejected(Rejected::Malformed) > 200 && rejected(Rejected::Oversized) > 50, "{counts:?}");
}

#[test]
fn frames_that_a_station_could_only_queue_stay_in_the_device() {
    let (mut world, (mut ports, kernels)) = (world("link", 60.0), ports(AttachKind::Link));
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0x88, 0xb5];
    frame.resize(700, 7);
    // Together 90 ms of airtime at least.
    let mut sent = 0;
    run(&mut world, &mut ports, || {
        while sent < 100 {
            match kernels[0].send(&frame) {
                Ok(_) => sent += 1,
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        thread::sleep(Duration::from_millis(500));
    });
    assert_eq!(received(&kernels[1]).len(), 100, "none was dropped");
    assert!(world.recorder().nodes[0].backlog_max <= 2, "{}", world.recorder().nodes[0].backlog_max);
}
