//! Captures as Wireshark's dissectors read them. Without `tshark` these tests fail where the variable `CI` is set, and are
//! skipped elsewhere.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use fairhop_model::units::Nanos;
use fairhop_sim::mac::{Frame, FrameKind};
use fairhop_sim::output::capture::{Capture, Written};
use fairhop_sim::packet::{NodeId, PacketView};
use fairhop_sim::scenario::{self, Override};
use fairhop_sim::world::{Tap, World};

/// A call and a download over two hops from the Internet, with RTS for long frames, SINR reception and bit errors.
const SCENARIO: &str = r#"
name = "capture"
duration_s = 1

[radio]
standard = "802.11a"
rate_mbps = 24
propagation = { model = "log-distance", exponent = 3.0, reference_loss_db = 46.7 }
reception = "sinr"

[mac]
rts_threshold_bytes = 1000

[topology]
kind = "string"
hops = 2
spacing_m = 42

[internet]
delay_ms = 5
rate_mbps = 10

[[traffic]]
kind = "call"
from = "internet"
to = 2

[[traffic]]
kind = "bulk"
from = "internet"
to = 2
timestamps = true

[[traffic]]
kind = "cbr"
from = 1
to = "broadcast"
rate_kbps = 20
payload_bytes = 101
"#;

/// The call alone, without losses.
const EASY: [&str; 3] = ["traffic.1.count=0", "traffic.2.count=0", "radio.rate_mbps=6"];

/// Counts the frames and packets that it passes on.
struct Counting {
    inner: Box<dyn Tap>,
    frames: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    /// Frames by file, direction and kind.
    wireless: BTreeMap<(NodeId, bool, &'static str), usize>,
    /// Packets on the wire by file and direction.
    wired: BTreeMap<(NodeId, bool), usize>,
    /// Time on the air, in whole microseconds, of frames by kind, rate and length.
    times: BTreeMap<(&'static str, u64, u32), BTreeSet<u64>>,
}

fn kind_name(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Data => "data",
        FrameKind::Ack => "ack",
        FrameKind::Rts => "rts",
        FrameKind::Cts => "cts",
    }
}

impl Tap for Counting {
    fn frame(
        &mut self,
        node: NodeId,
        at: Nanos,
        frame: &Frame,
        from: NodeId,
        packet: Option<PacketView<'_>>,
        received: bool,
    ) {
        let kind = kind_name(frame.kind);
        let mut counts = self.frames.lock().unwrap();
        *counts.wireless.entry((node, received, kind)).or_default() += 1;
        let key = (kind, frame.rate.bit_rate().0, frame.bytes);
        counts.times.entry(key).or_default().insert(frame.time.0.div_ceil(1000));
        self.inner.frame(node, at, frame, from, packet, received);
    }

    fn wired(&mut self, node: NodeId, peer: NodeId, at: Nanos, packet: PacketView<'_>, arrived: bool) {
        *self.frames.lock().unwrap().wired.entry((node, arrived)).or_default() += 1;
        self.inner.wired(node, peer, at, packet, arrived);
    }
}

fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn world(changes: &[&str]) -> World {
    let changes: Vec<Override> = changes.iter().copied().map(Override::new).collect();
    let loaded = scenario::load("capture.toml", SCENARIO, &changes).unwrap();
    World::new(&loaded.scenario, 1).unwrap()
}

fn captured(name: &str, changes: &[&str]) -> (World, Written, Arc<Mutex<Counts>>) {
    let mut world = world(changes);
    let capture = Capture::create(&scratch(name), &world).unwrap();
    let frames = Arc::new(Mutex::new(Counts::default()));
    world.set_tap(Box::new(Counting { inner: capture.tap(), frames: Arc::clone(&frames) }));
    world.run();
    let written = capture.finish().unwrap();
    (world, written, frames)
}

/// Whether the calling test is to be skipped because the program `tool` is missing, which it then reports.
///
/// # Panics
/// The program is missing and `required`.
fn is_skipped(tool: &str, required: bool) -> bool {
    let missing = Command::new(tool).arg("--version").output().is_err();
    assert!(!missing || !required, "{tool} is not installed, and CI is set: captures must be checked");
    if missing {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let message = format!("test {test}: SKIPPED, {tool} is not installed\n");
        // Not `eprintln!`: the test harness hides what passing tests print.
        std::io::stderr().write_all(message.as_bytes()).unwrap();
    }
    missing
}

fn tshark_is_missing() -> bool {
    is_skipped("tshark", std::env::var_os("CI").is_some())
}

#[test]
fn a_missing_tool_skips_a_test_and_fails_it_where_the_tool_is_required() {
    assert!(is_skipped("fairhop-tool-that-does-not-exist", false));
    let required = std::panic::catch_unwind(|| is_skipped("fairhop-tool-that-does-not-exist", true));
    assert!(required.is_err());
}

/// Lines of tab-separated fields, one for every packet of the file that passes the filter.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file);
    for check in ["ip.check_checksum", "udp.check_checksum", "tcp.check_checksum", "wlan.check_checksum"] {
        command.args(["-o", &format!("{check}:TRUE")]);
    }
    command.args(["-d", "udp.port==50000,rtp", "-d", "udp.port==50001,rtcp", "-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Display filter of what must not occur: malformed packets, and checksums that are wrong or were not verified.
const COMPLAINTS: &str = "_ws.malformed || _ws.expert.group == Malformed || _ws.expert.group == Checksum \
     || ip.checksum.status != Good || udp.checksum.status != Good || tcp.checksum.status != Good \
     || wlan.fcs.status != Good";

#[test]
fn wireshark_finds_no_malformed_packet_no_wrong_checksum_and_times_in_order() {
    if tshark_is_missing() {
        return;
    }
    let (_, written, _) = captured("capture-checks", &[]);
    assert_eq!(written.files.len(), 4);
    for file in &written.files {
        let complaints = tshark(file, COMPLAINTS, &["frame.number", "_ws.expert.message"]);
        assert!(complaints.is_empty(), "{}: {:?}", file.display(), &complaints[..complaints.len().min(5)]);
    }
    let (gateway, mut last) = (&written.files[0], 0.0);
    for packet in tshark(gateway, "frame", &["frame.time_epoch"]) {
        let at = packet[0].parse().unwrap();
        assert!(at >= last, "{at} after {last}");
        last = at;
    }
    let bytes: u64 = written.files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
    assert_eq!(bytes, written.bytes);
}

#[test]
fn wireshark_counts_the_same_frames_and_computes_the_same_durations() {
    if tshark_is_missing() {
        return;
    }
    // Wireshark leaves out the signal extension of 802.11g, 6 µs after the frame (802.11-2020, 18.3.2.4).
    for (name, signal_extension_us, changes) in [
        ("capture-a", 0, &["radio.rate_mbps=24"][..]),
        ("capture-b", 0, &["radio.standard=802.11b", "radio.rate_mbps=11", "topology.spacing_m=30"]),
        ("capture-b-short", 0, &["radio.standard=802.11b", "radio.rate_mbps=5.5", "radio.preamble=short"]),
        ("capture-g", 6, &["radio.standard=802.11g", "radio.rate_mbps=54", "topology.spacing_m=18"]),
    ] {
        wireshark_counts(name, signal_extension_us, changes);
    }
}

fn wireshark_counts(name: &str, signal_extension_us: u64, changes: &[&str]) {
    let (world, written, counts) = captured(name, changes);
    let counts = counts.lock().unwrap();
    let mut seen = Counts::default();
    for (node, file) in written.files.iter().enumerate() {
        let fields = [
            "frame.packet_flags_direction",
            "wlan.fc.type_subtype",
            "frame.len",
            "wlan_radio.data_rate",
            "wlan_radio.duration",
        ];
        for packet in tshark(file, "frame", &fields) {
            let received = packet[0] == "0x00000001";
            let kind = match packet[1].as_str() {
                "0x0020" => "data",
                "0x001d" => "ack",
                "0x001b" => "rts",
                "0x001c" => "cts",
                "" => {
                    *seen.wired.entry((node as NodeId, received)).or_default() += 1;
                    continue;
                }
                other => panic!("{other}"),
            };
            *seen.wireless.entry((node as NodeId, received, kind)).or_default() += 1;
            let radiotap = if received { 23 } else { 22 };
            let bytes = packet[2].parse::<u32>().unwrap() - radiotap;
            let rate = (packet[3].parse::<f64>().unwrap() * 1e6) as u64;
            seen.times
                .entry((kind, rate, bytes))
                .or_default()
                .insert(packet[4].parse::<u64>().unwrap() + signal_extension_us);
        }
    }
    assert_eq!(seen.wireless, counts.wireless);
    assert_eq!(seen.wired, counts.wired);
    assert_eq!(seen.times, counts.times, "Wireshark computes durations from rate and length");
    for (node, record) in world.recorder().nodes.iter().enumerate() {
        let sent: usize = ["data", "ack", "rts", "cts"]
            .iter()
            .filter_map(|kind| counts.wireless.get(&(node as NodeId, false, *kind)))
            .sum();
        assert_eq!(record.frames_sent, sent as u64);
    }
    assert!(counts.wireless.keys().any(|key| key.2 == "rts") && world.transfers()[0].delivered > 0);
}

#[test]
fn a_call_without_losses_is_two_rtp_streams_with_the_delay_of_the_results() {
    if tshark_is_missing() {
        return;
    }
    let (world, written, _) = captured("capture-call", &EASY);
    let internet = written.files.last().unwrap();
    let output = Command::new("tshark")
        .args(["-n", "-q", "-d", "udp.port==50000,rtp", "-z", "rtp,streams", "-r"])
        .arg(internet)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let streams: Vec<&str> = text.lines().filter(|line| line.contains("g729")).collect();
    assert_eq!(streams.len(), 2, "{text}");
    assert!(streams.iter().all(|line| line.contains("0 (0.0%)")), "{text}");

    // The first packet to node 2: from the Internet host's file to node 2's.
    let first = |file: &Path, source: &str| {
        let filter = format!("rtp.seq == 0 && ip.src == {source}");
        let found = tshark(file, &filter, &["frame.time_epoch", "ip.ttl"]);
        (found[0][0].parse::<f64>().unwrap(), found[0][1].clone())
    };
    let (sent, ttl) = first(internet, "192.0.2.1");
    assert_eq!(ttl, "64");
    let (arrived, ttl) = first(&written.files[2], "192.0.2.1");
    assert_eq!(ttl, "62", "the gateway and node 1 forwarded it");
    let shortest_ms = world.recorder().streams[0].delay_min.as_millis_f64();
    let first_bit_ms = (arrived - sent) * 1e3;
    // The delay counts to the end of the frame: 96 bytes at 6 Mb/s are 152 µs.
    assert!(first_bit_ms + 0.152 >= shortest_ms - 1e-6 && first_bit_ms < shortest_ms + 1.0);
    let (_, ttl) = first(internet, "10.1.0.2");
    assert_eq!(ttl, "62");
}

/// The two ends of a call report five times a second. Wireshark reads sender reports with one block and the source's name, of
/// the length that the simulator sends, with the loss that each end saw.
#[test]
fn wireshark_reads_the_reports_of_a_call() {
    if tshark_is_missing() {
        return;
    }
    let changes = [&EASY[..], &["traffic.0.rtcp_interval_s=0.2", "duration_s=5"]].concat();
    let (_, written, _) = captured("capture-rtcp", &changes);
    let complaints = tshark(&written.files[2], COMPLAINTS, &["frame.number", "_ws.expert.message"]);
    assert!(complaints.is_empty(), "{complaints:?}");
    let fields = [
        "rtcp.pt",
        "rtcp.ssrc.fraction",
        "rtcp.ssrc.ext_high",
        "rtcp.sdes.text",
        "udp.length",
        "rtcp.length_check",
    ];
    let reports = tshark(written.files.last().unwrap(), "rtcp", &fields);
    // Two ends, 25 reports each on average.
    assert!((36..=66).contains(&reports.len()), "{}", reports.len());
    for report in &reports {
        assert_eq!(report[0], "200,202");
        assert_eq!(report[1], "0", "nothing is lost");
        assert!(report[3].ends_with("@fairhop"), "{report:?}");
        assert_eq!((report[4].as_str(), report[5].as_str()), ("88", "1"));
    }
    let highest: u32 = reports.last().unwrap()[2].parse().unwrap();
    assert!((230..250).contains(&highest), "{highest} packets in five seconds");
}

/// Node 3 moves from two hops to three during a call: its packets arrive with a TTL one less.
#[test]
fn the_ttl_on_arrival_follows_the_hops_of_a_node_that_moves() {
    const MOVING: &str = r#"
name = "moving"
duration_s = 4
topology = { kind = "explicit", nodes = [
  { x_m = 0, y_m = 0 }, { x_m = 200, y_m = 0 }, { x_m = 400, y_m = 0 }, { x_m = 300, y_m = 150 },
] }
internet = { delay_ms = 5, rate_mbps = 10 }
traffic = [{ kind = "call", from = "internet", to = 3 }]
change = [{ kind = "move", at_s = 2, node = 3, x_m = 600, y_m = 0 }]
"#;
    if tshark_is_missing() {
        return;
    }
    let loaded = scenario::load("moving.toml", MOVING, &[]).unwrap();
    let mut world = World::new(&loaded.scenario, 1).unwrap();
    let capture = Capture::create(&scratch("capture-moving"), &world).unwrap();
    world.set_tap(capture.tap());
    world.run();
    let written = capture.finish().unwrap();
    let seen = tshark(written.files.last().unwrap(), "ip.src == 10.1.0.3", &["frame.time_epoch", "ip.ttl"]);
    let ttls = |from: f64, until: f64| -> BTreeSet<String> {
        let at = |packet: &Vec<String>| packet[0].parse::<f64>().unwrap();
        seen.iter().filter(|p| (from..until).contains(&at(p))).map(|p| p[1].clone()).collect()
    };
    // Node 1 and the gateway forward its packets; later node 2 too.
    assert_eq!(ttls(0.0, 1.99), BTreeSet::from(["62".to_owned()]));
    assert_eq!(ttls(2.1, 4.0), BTreeSet::from(["61".to_owned()]));
}

#[test]
fn equal_runs_write_equal_captures() {
    let (_, first, _) = captured("capture-once", &[]);
    let (_, again, _) = captured("capture-twice", &[]);
    for (first, again) in first.files.iter().zip(&again.files) {
        assert!(std::fs::read(first).unwrap() == std::fs::read(again).unwrap(), "{}", first.display());
    }
}

#[test]
fn captures_are_never_overwritten() {
    let directory = scratch("capture-keep");
    let world = world(&EASY);
    Capture::create(&directory, &world).unwrap().finish().unwrap();
    let error = Capture::create(&directory, &world).unwrap_err();
    assert!(error.to_string().contains("node-0.pcapng is already there"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_the_capture_with_an_error_that_names_the_file() {
    let directory = scratch("capture-full");
    let mut world = world(&EASY);
    let capture = Capture::create(&directory, &world).unwrap();
    let file = directory.join("node-1.pcapng");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    world.set_tap(capture.tap());
    world.run();
    let error = capture.finish().unwrap_err();
    assert_eq!(error.path(), file);
    assert!(error.to_string().contains("No space left"), "{error}");
    assert!(error.mend().contains("free some space"));
}
