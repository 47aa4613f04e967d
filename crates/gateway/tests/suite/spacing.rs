//! Departure times as the device sees them: `net_dev_start_xmit` of the interface to the mesh. For kernels with `fq`, such as
//! Debian's in a guest; see docs/validation/gateway-datapath.md for the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fairhop_control::policy::{Policy, Treatment};
use fairhop_gateway::datapath::kernel::{Kernel, now};
use fairhop_gateway::datapath::{AckWeight, Datapath, Orders, Pacing};
use fairhop_model::units::BitRate;

use crate::network::{Network, Way, digests};

/// Bytes of an Ethernet header, and of the shortest frame with data that is looked at.
const ETHERNET: u32 = 14;
const DATA: u32 = 100;
/// Packets that are left out: slow start has gaps.
const FIRST: usize = 50;

/// An instance of tracefs that records frames of `m0`, removed with it.
struct Trace {
    folder: PathBuf,
}

impl Trace {
    fn new() -> Self {
        let root = Path::new("/sys/kernel/tracing");
        if !root.join("instances").exists() {
            let mounted =
                Command::new("mount").args(["-t", "tracefs", "tracefs"]).arg(root).status().unwrap();
            assert!(mounted.success(), "tracefs is needed");
        }
        let folder = root.join(format!("instances/fhg{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let trace = Self { folder };
        trace.write("trace_clock", "mono");
        trace.write("buffer_size_kb", "8192");
        trace.write("events/net/net_dev_start_xmit/filter", &format!("name == \"m0\" && len > {DATA}"));
        trace.write("events/net/net_dev_start_xmit/enable", "1");
        trace
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// Times of the packets since the last call, in seconds, and their IP bytes.
    fn take(&self) -> Vec<(f64, u32)> {
        let text = fs::read_to_string(self.folder.join("trace")).unwrap();
        self.write("trace", "");
        assert!(!text.contains("LOST"), "the buffer was too small");
        let events = text.lines().filter(|line| line.contains("net_dev_start_xmit:"));
        // As in `program-12 [000] b..1. 12.345678: net_dev_start_xmit: dev=m0 … len=1514 …`.
        events
            .map(|line| {
                let (head, fields) = line.split_once(": net_dev_start_xmit").unwrap();
                let (_, length) = fields.split_once(" len=").unwrap();
                let length: u32 = length.split(' ').next().unwrap().parse().unwrap();
                (head.rsplit(' ').next().unwrap().parse().unwrap(), length - ETHERNET)
            })
            .collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join("events/net/net_dev_start_xmit/enable"), "0");
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Keeps a policy in force, which expires otherwise, and reads the digests, for a time.
fn hold(kernel: &mut Kernel, policy: &Policy, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        kernel.apply(&Orders { policy, datagrams: &[], acks: AckWeight::default() }, now()).unwrap();
        digests(kernel);
        thread::sleep(Duration::from_millis(100));
    }
}

fn retransmitted(network: &Network) -> u64 {
    network.tcp_counter(&network.server, "RetransSegs")
}

/// Spacing: p50 within 2 % and p1, p99 within 10 % of L/R, of one flow and of three, from 0.6 to 20 Mb/s. Then 10,000
/// changes of the rate, in which no packet is lost.
#[test]
#[ignore = "needs a kernel with fq, and takes a minute in a guest"]
fn departure_times_space_packets_at_the_device_and_change_their_rate_without_loss() {
    let Some(network) = Network::new() else { return };
    let _server = network.serve();
    let mut kernel = network.datapath(|settings| settings.pacing = Some(Pacing::DepartureTimes));
    let others = Treatment { window: Some(40_000), ..Treatment::default() };
    let trace = Trace::new();
    let mut misses = Vec::new();
    for flows in [1, 3] {
        for kbps in [600, 2_000, 4_000, 10_000, 20_000] {
            let rate = BitRate(kbps * 1000);
            let policy = Policy { down: Some(rate), others, ..Policy::none() };
            kernel
                .apply(&Orders { policy: &policy, datagrams: &[], acks: AckWeight::default() }, now())
                .unwrap();
            let time = Duration::from_millis(500) + Duration::from_secs_f64(400.0 * 12_000.0 / rate.0 as f64);
            let transfers: Vec<_> =
                (0..flows).map(|_| network.transfer(Way::Download, false, time)).collect();
            hold(&mut kernel, &policy, time);
            transfers.into_iter().for_each(|transfer| assert!(transfer.join().unwrap() > 0));
            let times = trace.take();
            let ratio =
                |pair: &[(f64, u32)]| (pair[1].0 - pair[0].0) / rate.time_for(pair[0].1.into()).as_secs_f64();
            let mut ratios: Vec<f64> = times[FIRST..].windows(2).map(ratio).collect();
            ratios.sort_by(f64::total_cmp);
            let part = |part: f64| ratios[(part * (ratios.len() - 1) as f64).round() as usize];
            let [p1, p50, p99] = [0.01, 0.5, 0.99].map(part);
            eprintln!(
                "| {flows} | {} | {} | {p1:.3} | {p50:.3} | {p99:.3} |",
                kbps as f64 / 1000.0,
                ratios.len(),
            );
            if (p50 - 1.0).abs() > 0.02 || p1 < 0.9 || p99 > 1.1 {
                misses.push((flows, kbps, p1, p50, p99));
            }
            // What closed connections have left keeps its departures: 120 kB at the lowest rate.
            thread::sleep(Duration::from_secs(2));
            trace.take();
        }
    }
    let before = retransmitted(&network);
    let transfers: Vec<_> =
        (0..3).map(|_| network.transfer(Way::Download, false, Duration::from_secs(12))).collect();
    let began = Instant::now();
    for change in 0..10_000_u64 {
        let down = Some(BitRate(2_000_000 + change % 20 * 1_000_000));
        let policy = Policy { down, others, ..Policy::none() };
        kernel.apply(&Orders { policy: &policy, datagrams: &[], acks: AckWeight::default() }, now()).unwrap();
        if change % 20 == 0 {
            digests(&mut kernel);
        }
        thread::sleep(Duration::from_micros(500));
    }
    let took = began.elapsed();
    let last = Policy { down: Some(BitRate(4_000_000)), others, ..Policy::none() };
    hold(&mut kernel, &last, Duration::from_secs(12).saturating_sub(took));
    let bytes: u64 = transfers.into_iter().map(|transfer| transfer.join().unwrap()).sum();
    let dropped: u64 = kernel.queues().unwrap().iter().map(|queue| queue.dropped).sum();
    let lost = retransmitted(&network) - before;
    eprintln!(
        "10,000 changes in {:.1} s, {bytes} bytes, {dropped} dropped, {lost} retransmitted",
        took.as_secs_f64()
    );
    assert_eq!((dropped, kernel.counters().unwrap().dropped, lost), (0, 0, 0));
    assert!(misses.is_empty(), "flows, kb/s, p1, p50, p99 over L/R: {misses:?}");
}
