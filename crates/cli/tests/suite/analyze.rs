//! `fairhop analyze`: the figures of tshark, outputs, and captures that are not as they should be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{fairhop, folder, in_folder, text};

/// Ports of calls, which tshark must be told.
const RTP: [&str; 4] = ["-d", "udp.port==6000-7999,rtp", "-d", "udp.port==50000-53998,rtp"];
/// The error that the issue of this command allows.
const ONE_PERCENT: f64 = 0.01;

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

/// Whether tshark is missing; an error where `CI` is set.
fn tshark_is_missing() -> bool {
    let is_missing = Command::new("tshark").arg("--version").output().is_err();
    assert!(!is_missing || std::env::var_os("CI").is_none(), "tshark is not installed, and CI is set");
    if is_missing {
        // Not `eprintln!`: the test harness hides what passing tests print.
        let _ = std::io::stderr().write_all(b"analyze: SKIPPED, tshark is not installed\n");
    }
    is_missing
}

fn tshark(file: &Path, arguments: &[&str]) -> String {
    let output = Command::new("tshark").arg("-r").arg(file).args(RTP).args(arguments).output();
    text(&output.expect("tshark runs").stdout)
}

fn analysis(file: &Path) -> Value {
    let output = fairhop(["analyze", "--json"]).arg(file).output().expect("the program runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a JSON object")
}

fn rows<'a>(analysis: &'a Value, table: &str) -> &'a [Value] {
    analysis[table].as_array().expect("a table")
}

fn real(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("no {column} in {row}"))
}

/// Sender and receiver with their ports.
type Ends = (String, u64, String, u64);

fn ends(row: &Value) -> Ends {
    let address = |column: &str| row[column].as_str().expect("an address").to_owned();
    let port = |column: &str| row[column].as_u64().expect("a port");
    (address("source"), port("source_port"), address("destination"), port("destination_port"))
}

/// A run of the simulator with calls and downloads from the Internet, and its captures.
fn simulated() -> (tempfile::TempDir, PathBuf) {
    let folder = folder();
    let run = [
        "run",
        "k-mix",
        "--set",
        "traffic.0.from=internet",
        "--set",
        "duration_s=12",
        "--out",
        "mix",
        "--pcap",
    ];
    assert!(in_folder(folder.path(), &run).status.success());
    let captures = folder.path().join("mix/pcap");
    (folder, captures)
}

fn near(ours: f64, theirs: f64, what: &str) {
    assert!(
        (ours - theirs).abs() <= ONE_PERCENT * theirs.abs() + 1e-6,
        "{what}: {ours} here, {theirs} in tshark"
    );
}

/// Lost packets are those of tshark, and jitter within 1 %.
fn streams_agree(file: &Path) -> usize {
    let analysis = analysis(file);
    let ours: BTreeMap<Ends, &Value> =
        rows(&analysis, "streams").iter().map(|row| (ends(row), row)).collect();
    let printed = tshark(file, &["-q", "-z", "rtp,streams"]);
    let theirs = printed.lines().filter(|line| line.contains("0x"));
    let mut count = 0;
    for line in theirs {
        let words: Vec<&str> = line.split_whitespace().collect();
        let port = |word: &str| word.parse().expect("a port");
        let key = (words[2].to_owned(), port(words[3]), words[4].to_owned(), port(words[5]));
        let row = ours.get(&key).unwrap_or_else(|| panic!("no stream {key:?}"));
        let number = |place: usize| words[place].parse::<f64>().expect("a number");
        assert_eq!(
            (real(row, "received"), real(row, "lost"), real(row, "duplicates")),
            (number(8), number(9), 0.0),
            "{key:?}"
        );
        near(real(row, "between_max_ms"), number(13), "longest time between packets");
        near(real(row, "jitter_mean_ms"), number(15), "mean jitter");
        near(real(row, "jitter_max_ms"), number(16), "maximum jitter");
        count += 1;
    }
    assert_eq!(count, ours.len(), "tshark finds as many streams");
    count
}

/// Segments that tshark finds below the highest sequence number, and round trips of segments that were sent once.
#[derive(Default)]
struct Theirs {
    again: u64,
    round_trips: Vec<f64>,
}

fn connections_in_tshark(file: &Path) -> BTreeMap<Ends, Theirs> {
    let fields = [
        "frame.number",
        "ip.src",
        "tcp.srcport",
        "ip.dst",
        "tcp.dstport",
        "tcp.nxtseq",
        "tcp.analysis.retransmission",
        "tcp.analysis.out_of_order",
        "tcp.analysis.ack_rtt",
        "tcp.analysis.acks_frame",
        "tcp.len",
    ];
    let mut arguments = vec!["-Y", "tcp", "-T", "fields"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    let printed = tshark(file, &arguments);
    let packets: Vec<Vec<&str>> = printed.lines().map(|line| line.split('\t').collect()).collect();
    let way = |packet: &[&str], back: bool| -> Ends {
        let port = |word: &str| word.parse().expect("a port");
        let (from, to) = if back { (3, 1) } else { (1, 3) };
        (packet[from].to_owned(), port(packet[from + 1]), packet[to].to_owned(), port(packet[to + 1]))
    };
    // A segment that was sent twice has two frames with one end: which of them is acknowledged cannot be known.
    let mut seen = BTreeSet::new();
    let mut repeated = BTreeSet::new();
    let end = |packet: &[&str]| (way(packet, false), packet[5].to_owned());
    for packet in packets.iter().filter(|packet| packet[10] != "0") {
        if !seen.insert(end(packet)) {
            repeated.insert(end(packet));
        }
    }
    let end_of_frame: BTreeMap<&str, _> = packets.iter().map(|packet| (packet[0], end(packet))).collect();
    let mut found: BTreeMap<Ends, Theirs> = BTreeMap::new();
    for packet in &packets {
        if !packet[6].is_empty() || !packet[7].is_empty() {
            found.entry(way(packet, false)).or_default().again += 1;
        }
        if !packet[8].is_empty() && !repeated.contains(&end_of_frame[packet[9]]) {
            let seconds: f64 = packet[8].parse().expect("a time");
            found.entry(way(packet, true)).or_default().round_trips.push(1e3 * seconds);
        }
    }
    found
}

/// What is below the highest sequence number is as many segments as in tshark, and round trips are within 1 %.
fn connections_agree(file: &Path) -> usize {
    let analysis = analysis(file);
    let theirs = connections_in_tshark(file);
    let mut count = 0;
    for row in rows(&analysis, "flows") {
        let Some(theirs) = theirs.get(&ends(row)) else { continue };
        let again = real(row, "retransmissions") + real(row, "reordered");
        assert_eq!(again, theirs.again as f64, "sent again or overtaken: {row}");
        if theirs.round_trips.len() < 20 {
            continue;
        }
        let mean = theirs.round_trips.iter().sum::<f64>() / theirs.round_trips.len() as f64;
        near(real(row, "rtt_mean_ms"), mean, "mean round trip");
        count += 1;
    }
    count
}

#[test]
fn losses_are_those_of_tshark_and_jitter_and_round_trips_within_a_percent_for_real_programs() {
    if tshark_is_missing() {
        return;
    }
    let file = |name: &str| captures().join(name);
    assert_eq!(streams_agree(&file("sipp-iperf3-raw.pcap")), 4);
    assert_eq!(streams_agree(&file("sipp-cooked2.pcap")), 4);
    assert_eq!(connections_agree(&file("sipp-iperf3-raw.pcap")), 2);
    assert_eq!(connections_agree(&file("iperf3-cooked1.pcap")), 3);
}

#[test]
fn losses_are_those_of_tshark_and_jitter_and_round_trips_within_a_percent_for_a_simulated_capture() {
    if tshark_is_missing() {
        return;
    }
    let (_folder, captures) = simulated();
    let file = captures.join("internet.pcapng");
    assert_eq!(streams_agree(&file), 10);
    assert_eq!(connections_agree(&file), 3);
}

#[test]
fn a_capture_on_the_air_has_each_packet_once_whatever_the_attempts_and_hops() {
    let (_folder, captures) = simulated();
    let (wired, air) =
        (analysis(&captures.join("internet.pcapng")), analysis(&captures.join("node-0.pcapng")));
    // All packets cross node 0, which hears the second hop, too.
    assert!(real(&air, "copies") > real(&air, "packets"), "{} copies", air["copies"]);
    let goodput = |analysis| -> BTreeMap<Ends, u64> {
        let of = |row| (ends(row), real(row, "goodput_bytes") as u64);
        rows(analysis, "flows").iter().map(of).collect()
    };
    for (key, bytes) in goodput(&wired) {
        let here = goodput(&air)[&key];
        // What is in the queue at the end has not been sent.
        assert!(
            here <= bytes && bytes - here < 80_000,
            "{key:?}: {bytes} bytes on the wire, {here} on the air"
        );
    }
    for row in rows(&air, "streams") {
        assert_eq!(real(row, "duplicates"), 0.0, "{row}");
    }
}

#[test]
fn the_controller_looks_on_at_the_edge_of_the_mesh_and_every_output_can_be_written() {
    let (folder, captures) = simulated();
    let file = captures.join("internet.pcapng");
    let file = file.to_str().expect("a path");
    let analyze = |arguments: &[&str]| in_folder(folder.path(), &[&["analyze", file], arguments].concat());
    let output = analyze(&["--mesh", "10.1.0.0/16", "--json", "--html", "page.html", "--out", "tables"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).expect("a JSON object");
    let decisions = rows(&object, "decisions");
    assert_eq!(object["crossed_the_edge_of_the_mesh"], object["packets"]);
    assert!(
        decisions.iter().any(|row| row["state"] == "protecting"),
        "bad calls are protected: {decisions:?}"
    );
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    for part in [
        "Call quality over time",
        "Sequence numbers of",
        "Jain",
        "Times between packets",
        "would have asked for",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(
        !page.contains("http") || !page.replace("http://www.w3.org/2000/svg", "").contains("http"),
        "no network"
    );
    let mut tables: Vec<_> = fs::read_dir(folder.path().join("tables"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    tables.sort();
    assert_eq!(
        tables,
        [
            "decisions",
            "fairness",
            "flow_seconds",
            "flow_sequence",
            "flows",
            "stream_seconds",
            "streams",
            "times_between"
        ]
        .map(|name| format!("{name}.parquet"))
    );
    let report = text(&analyze(&[]).stdout);
    for part in
        ["Calls from", "TCP data from", "Fairness (Jain's index)", "Between packets", "--mesh NETWORK"]
    {
        assert!(report.contains(part), "{part} in {report}");
    }
    let again = analyze(&["--html", "page.html"]);
    assert_eq!(again.status.code(), Some(1), "nothing is overwritten");
    let nowhere = text(&analyze(&["--html", "nowhere/page.html"]).stderr);
    assert!(nowhere.contains("there is no directory nowhere"), "{nowhere}");
}

#[test]
fn captures_that_are_cut_damaged_or_none_say_so_and_what_was_read_counts() {
    let folder = folder();
    let whole = fs::read(captures().join("sipp-cooked2.pcap")).expect("a capture");
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).expect("a file");
    put("cut.pcap", &whole[..whole.len() / 2]);
    let mut damaged = whole[..whole.len() / 2].to_vec();
    damaged.extend([0xff; 4096]);
    put("damaged.pcap", &damaged);
    put("empty.pcap", &[]);
    put("text.pcap", b"this is no capture at all");
    put("packed.pcap.gz", &[0x1f, 0x8b, 8, 0]);
    let analyze = |name: &str| {
        let output = in_folder(folder.path(), &["analyze", name]);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, report, remarks) = analyze("cut.pcap");
    assert_eq!(code, Some(0));
    assert!(report.contains("g729a") && remarks.contains("ends within a packet"), "{report}{remarks}");
    let (code, report, remarks) = analyze("damaged.pcap");
    assert_eq!(code, Some(0));
    assert!(report.contains("g729a") && remarks.contains("damaged at byte"), "{report}{remarks}");
    for (name, why, fix) in [
        ("empty.pcap", "it is empty", "tcpdump"),
        ("text.pcap", "it is no capture", "tcpdump"),
        ("packed.pcap.gz", "it is compressed", "gzip -dc packed.pcap.gz"),
        ("missing.pcap", "No such file", "name a capture"),
        (".", "Is a directory", "name a capture"),
    ] {
        let (code, report, remarks) = analyze(name);
        assert_eq!((code, report.as_str()), (Some(1), ""), "{name}");
        assert!(remarks.contains(why) && remarks.contains(fix), "{name}: {remarks}");
    }
}

#[test]
fn a_capture_can_come_through_a_pipe() {
    let whole = fs::read(captures().join("sipp-cooked2.pcap")).expect("a capture");
    let mut child = fairhop(["analyze", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("standard input");
    // In small pieces, as tcpdump -U writes.
    for piece in whole.chunks(100) {
        input.write_all(piece).expect("it reads");
    }
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let object: Value = serde_json::from_slice(&output.stdout).expect("a JSON object");
    assert_eq!(rows(&object, "streams").len(), 4);
}
