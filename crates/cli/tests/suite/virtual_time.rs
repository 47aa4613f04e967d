//! Emulations in virtual time: the same command line, in a guest.
//!
//! They need QEMU (`tools/prepare guests`) and are skipped without it, except under CI.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::support::*;

/// Nodes 0 and 1 in reach of each other, as links.
const LINK: &str = r#"
name = "link"
duration_s = 30
topology = { kind = "string", hops = 1, spacing_m = 200 }
attach = [{ kind = "link" }]

[radio]
standard = "802.11a"
rate_mbps = 12
propagation = { model = "range", receive_m = 250, carrier_sense_m = 550 }
"#;

/// Sixty datagrams at once, which take some 70 ms of air, and what fq_codel holds of them, at once and later.
const FLOOD: &str = "#!/bin/bash
\"$FAIRHOP\" --version
ip -n fh-0 neigh replace 10.77.0.1 lladdr 02:00:00:00:00:01 dev fh0
ip netns exec fh-0 tc qdisc replace dev fh0 parent 2:1 fq_codel
ip netns exec fh-0 bash -c 'exec 3>/dev/udp/10.77.0.1/9; for i in {1..60}; do printf %1400s x >&3; done'
for when in now later; do
    ip netns exec fh-0 tc -s qdisc show dev fh0 | grep -A2 'qdisc fq_codel' | sed -n \"s/.* \\([0-9]*\\)p requeues.*/$when \\1/p\"
    sleep 0.5
done
";

/// A second gateway, in front of an Ethernet, whose headers take more paths than those of a TUN device. Where the program is refused, the
/// daemon ends.
const ETHERNET: &str = "#!/bin/bash
ip link add m0 type veth peer name m1
ip link set m0 up
ip link set m1 up
for pacing in departure-times polling; do
    printf '%s\\n' 'mode = \"live\"' '[[gateway]]' 'mesh = \"m0\"' \"pacing = \\\"$pacing\\\"\" '[journal]' 'folder = \"/root/j\"' \
        '[api]' 'listen = \"127.0.0.1:9471\"' 'token_file = \"/root/token\"' >/root/ethernet.toml
    \"$FAIRHOP\" gateway run /root/ethernet.toml &
    while kill -0 $!; do
        sleep 1
        \"$FAIRHOP\" gateway status --api 127.0.0.1:9471 | grep datapath && break
    done
    kill $!
    wait
done
";

/// Whether guests can be started; under CI they must.
fn has_guests() -> bool {
    let has = |program: &str| {
        ["/usr/bin", "/usr/sbin", "/bin"].iter().any(|at| Path::new(at).join(program).exists())
    };
    let programs =
        ["qemu-system-x86_64", "busybox", "depmod", "ip", "iw", "tc", "iperf3", "python3", "clang"];
    let all = programs.into_iter().all(has);
    assert!(
        all || std::env::var("CI").as_deref() != Ok("true"),
        "the test needs `tools/prepare guests clang`"
    );
    all
}

/// Verifiers differ: before 6.4 they forget bounds of values that went to the stack. Later kernels run in the gateway's tests.
#[test]
fn old_kernels_accept_the_programs_of_the_gateway_and_pace_packets() {
    if !has_guests() {
        return;
    }
    let run = |kernel: &'static str| {
        std::thread::spawn(move || {
            let world = ["emulate", "k-mix", "--set", "traffic=[]", "--set", "warmup_s=0"];
            let how = ["--gateway=both.toml", "--virtual", "--kernel", kernel, "--", "./ethernet.sh"];
            let folder = tempfile::tempdir().expect("a folder");
            // All programs are loaded: those of the mesh's interface, of the park and of the wired interface.
            let config = "mode = \"live\"\n[[gateway]]\nmesh = \"fh0\"\nwired = \"lo\"\n[control]\nkind = \"ack-pacing\"\nrate_kbps = 500\n";
            fs::write(folder.path().join("both.toml"), config).expect("a config");
            fs::write(folder.path().join("ethernet.sh"), ETHERNET).expect("a script");
            fs::set_permissions(folder.path().join("ethernet.sh"), fs::Permissions::from_mode(0o755))
                .expect("set");
            let output = in_folder(folder.path(), &[&world[..], &how[..]].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{kernel}: {said}");
            let started = said.lines().find(|line| line.contains("event=started")).unwrap_or_default();
            let how = ["attachment=clsact", "pacing=\"departure times\"", "gate=true"];
            assert!(how.iter().all(|what| started.contains(what)), "{kernel}: {said}");
            assert!(!said.contains("rates take effect late"), "{kernel} has no park: {said}");
            let shown = text(&output.stdout);
            for how in ["departure times", "polling"] {
                let how = format!("pacing by {how}, with gate");
                assert!(shown.contains(&how), "{kernel}, Ethernet: {shown}{said}");
            }
        })
    };
    for guest in ["5.10", "6.1"].map(run) {
        guest.join().expect("a gateway that starts");
    }
}

/// What meshes are made of: the kernel's own 802.11, over which packets take two hops, and batman-adv on it. Other tests of the datapath
/// have veth and TUN.
#[test]
fn the_gateway_controls_what_crosses_a_mesh_of_802_11s_and_one_of_batman_adv() {
    if !has_guests() {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/gateway/interfaces.py");
    let world = ["emulate", "k-mix", "--attach", "0", "--set", "traffic=[]", "--set", "warmup_s=0"];
    let program = env!("CARGO_BIN_EXE_fairhop");
    let guest =
        ["--virtual", "--kernel", "6.1", "--host-files", "--", "python3", script, "--program", program];
    let output =
        in_folder(Path::new("/"), &[&world[..], &guest[..], &["--kinds", "802.11s", "batman-adv"]].concat());
    let said = text(&output.stdout);
    let rows: Vec<Vec<&str>> =
        said.lines().filter(|line| line.contains("clsact")).map(|line| line.split(" | ").collect()).collect();
    assert_eq!(rows.len(), 2, "{said}{}", text(&output.stderr));
    for row in rows {
        let [_, doctor, datapath, rate, under_way, missing, directions, queues] = row[..] else {
            panic!("{said}");
        };
        assert_eq!((doctor, datapath), ("nothing", "clsact, departure times"));
        // The rate that is configured, and a window of six packets: a segment with options is less than a packet.
        let (rate, under_way) = (rate.parse::<f64>(), under_way.parse::<u32>());
        assert!(rate.is_ok_and(|rate| (0.97..1.04).contains(&rate)), "{said}");
        assert!(under_way.is_ok_and(|segments| (5..=7).contains(&segments)), "{said}");
        assert_eq!((missing, directions, queues), ("0.0 %", "2", "as before |"));
    }
}

#[test]
fn a_guest_brings_back_results_and_captures_and_its_qdiscs_hold_the_backlog_of_a_link() {
    if !has_guests() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("link.toml"), LINK).expect("a scenario");
    fs::write(path("flood.sh"), FLOOD).expect("a script");
    fs::set_permissions(path("flood.sh"), fs::Permissions::from_mode(0o755)).expect("set");
    let arguments = [
        "emulate",
        "link.toml",
        "--virtual",
        "--kernel",
        "6.1",
        "--out",
        "out",
        "--pcap",
        "--",
        "./flood.sh",
    ];
    let output = in_folder(folder.path(), &arguments);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    assert!(said.contains(concat!("fairhop ", env!("CARGO_PKG_VERSION"))), "{said}{errors}");
    let waiting = |when: &str| -> u32 {
        let line = said.lines().find_map(|line| line.strip_prefix(when));
        line.and_then(|line| line.trim().parse().ok()).unwrap_or_else(|| panic!("{said}{errors}"))
    };
    assert!(waiting("now ") >= 20, "{said}");
    assert_eq!(waiting("later "), 0, "{said}");
    let summary = fs::read_to_string(path("out/summary.json")).expect("results");
    let summary: Value = serde_json::from_str(&summary).unwrap_or_else(|error| panic!("{error}: {summary}"));
    let flows = summary["flows"].as_array().expect("a list");
    let frames = flows.iter().find(|flow| flow["name"] == "frames of 0").expect("they were sent");
    // The kernel adds an answer to ARP.
    let sent = frames["sent"].as_f64().expect("a number");
    assert!((60.0..70.0).contains(&sent) && frames["loss"] == 0.0, "the driver has dropped some: {frames}");
    let captures = fs::read_dir(path("out/pcap")).expect("captures");
    let sizes: Vec<u64> =
        captures.map(|entry| entry.expect("a file").metadata().expect("its size").len()).collect();
    assert!(sizes.iter().any(|size| *size > 60 * 1400), "{sizes:?}");
}
