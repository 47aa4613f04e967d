//! Emulations: real sockets in namespaces, on the radio of a scenario.
//!
//! They need root, `/dev/net/tun` and `ip`. Without root they are skipped, and say so; under CI that is a failure. One runs
//! at a time, as emulations do.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fairhop_model::units::Nanos;
use fairhop_sim::scenario::{Override, load};
use fairhop_sim::world::World;
use rustix::net::{AddressFamily, SendFlags, SocketAddrV4, SocketType, ipproto};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::support::*;

/// A row of nodes, each in reach of the next.
const STRING: &str = r#"
name = "string"
duration_s = 60

[radio]
standard = "802.11a"
rate_mbps = 12
propagation = { model = "range", receive_m = 250, carrier_sense_m = 550 }

[topology]
kind = "string"
hops = 4
spacing_m = 200

[internet]
delay_ms = 5
rate_mbps = 100
"#;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The right to emulate; none where the process may not, which is a failure under CI.
fn turn() -> Option<MutexGuard<'static, ()>> {
    let is_root = rustix::process::geteuid().is_root();
    let missing = if !is_root {
        Some("root")
    } else if !Path::new("/dev/net/tun").exists() {
        Some("/dev/net/tun")
    } else if Command::new("ip").arg("-V").output().is_err() {
        Some("ip of iproute2")
    } else {
        None
    };
    if let Some(missing) = missing {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "emulations need {missing}");
        #[allow(clippy::print_stderr)]
        {
            eprintln!("skipped: emulations need {missing}");
        }
        return None;
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A running emulation of [`STRING`].
struct Emulation {
    child: Child,
    stderr: BufReader<ChildStderr>,
    _folder: tempfile::TempDir,
}

fn scenario(more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("string.toml"), format!("{STRING}{more}")).expect("a scenario");
    folder
}

impl Emulation {
    /// Starts one and waits until its places are attached.
    fn start(more: &str, arguments: &[&str]) -> Self {
        let folder = scenario(more);
        let mut command = fairhop(["emulate", "string.toml", "--json"]);
        command.args(arguments).current_dir(folder.path());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        if !line.starts_with("attached: ") {
            let _ = stderr.read_to_string(&mut line);
            panic!("{line}");
        }
        Self { child, stderr, _folder: folder }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process");
        kill_process(pid, signal).expect("it runs");
    }

    /// Ends it as Ctrl-C does. The results.
    fn end(mut self) -> Value {
        self.signal(Signal::INT);
        let mut text = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
        let mut errors = String::new();
        self.stderr.read_to_string(&mut errors).expect("text");
        assert_eq!(self.child.wait().expect("ended").code(), Some(130), "{errors}");
        assert_eq!(left(), [""; 0]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"))
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Namespaces of emulations that exist.
fn left() -> Vec<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("fh-")).collect();
    names.sort();
    names
}

/// Does something on a thread in a namespace; sockets that it makes stay there.
fn inside<T: Send>(namespace: &str, act: impl FnOnce() -> T + Send) -> T {
    let file = File::open(format!("/run/netns/{namespace}")).expect("a namespace");
    thread::scope(|scope| {
        let entered = scope.spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
            act()
        });
        entered.join().expect("no panic")
    })
}

fn udp_in(namespace: &str, address: &str) -> UdpSocket {
    let socket = inside(namespace, || UdpSocket::bind(address)).expect("bound");
    socket.set_read_timeout(Some(Duration::from_secs(3))).expect("a timeout");
    socket
}

fn node(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number)
}

fn sum(bytes: &[u8]) -> u16 {
    let word = |w: &[u8]| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&low| u32::from(low));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// An override of [`STRING`]: the longest path of a ping.
const HOPS: &str = "topology.hops=8";
/// Data of an echo request, as ping sends it by default.
const PING_BYTES: usize = 56;

/// Round-trip times of pings from a namespace, in ms, in ascending order.
fn ping(namespace: &str, to: Ipv4Addr, count: u16) -> Vec<f64> {
    inside(namespace, || {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))
            .expect("a raw socket");
        let timeout = Some(Duration::from_secs(1));
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, timeout)
            .expect("a timeout");
        let mut times = Vec::new();
        for sequence in 0..count {
            let mut request = vec![8, 0, 0, 0, 0x77, 0x77];
            request.extend(sequence.to_be_bytes());
            request.resize(8 + PING_BYTES, 0);
            let check = !sum(&request);
            request[2..4].copy_from_slice(&check.to_be_bytes());
            let sent = Instant::now();
            let address = SocketAddrV4::new(to, 0);
            rustix::net::sendto(&socket, &request, SendFlags::empty(), &address).expect("sent");
            let mut answer = [0; 2000];
            while let Ok((length, _)) =
                rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty())
            {
                if length >= 28 && answer[20] == 0 && answer[24..28] == request[4..8] {
                    times.push(sent.elapsed().as_secs_f64() * 1e3);
                    break;
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
        times.sort_by(f64::total_cmp);
        times
    })
}

/// Round-trip times of the same packets in the World alone, which no clock slows down, in ms, in ascending order.
fn computed(to: u32, count: u16) -> Vec<f64> {
    let text = format!("{STRING}\n[[attach]]\nnode = 0\n[[attach]]\nnode = {to}\n");
    let longest = Override::new(HOPS);
    let loaded = load("string.toml", &text, &[longest]).expect("a scenario");
    let mut world = World::new(&loaded.scenario, 7).expect("a network");
    let packet = |from: u32, to: u32| {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 1, 0, 0];
        packet.extend([10, 77, 0, from as u8, 10, 77, 0, to as u8]);
        packet.resize(28 + PING_BYTES, 0);
        packet[3] = packet.len() as u8;
        packet
    };
    let mut times = Vec::new();
    for _ in 0..count {
        let sent = world.now();
        world.inject(0, &packet(0, to)).expect("accepted");
        let mut answered = false;
        while let Some(at) = world.next_time() {
            world.advance_to(at);
            match world.take_delivered() {
                Some(_) if answered => break,
                Some(_) => {
                    world.inject(to, &packet(to, 0)).expect("accepted");
                    answered = true;
                }
                None => {}
            }
        }
        times.push((world.now() - sent).as_millis_f64());
        world.advance_to(world.now() + Nanos::from_millis(5));
    }
    times.sort_by(f64::total_cmp);
    times
}

fn median(times: &[f64]) -> f64 {
    times[times.len() / 2]
}

#[test]
fn ping_over_one_to_eight_hops_takes_the_computed_airtime() {
    /// What the machine may add on a loaded day; within 0.3 ms on an idle one (docs/guides/emulate.md).
    const BOUND_MS: f64 = 3.0;
    let Some(_turn) = turn() else { return };
    let attached: Vec<String> = (0..=8).flat_map(|n| ["--attach".to_owned(), n.to_string()]).collect();
    let mut arguments = vec!["--set", HOPS];
    arguments.extend(attached.iter().map(String::as_str));
    let emulation = Emulation::start("", &arguments);
    for hops in 1..=8 {
        let (real, expected) = (ping("fh-0", node(hops), 100), computed(u32::from(hops), 1000));
        assert!(real.len() >= 95, "{} of 100 answers over {hops} hops", real.len());
        let difference = median(&real) - median(&expected);
        #[allow(clippy::print_stderr)]
        {
            eprintln!("{hops} hops: {:.3} ms, computed {:.3} ms", median(&real), median(&expected));
        }
        assert!((-0.1..BOUND_MS).contains(&difference), "{hops} hops: {difference} ms");
    }
    let results = emulation.end();
    let counts = &results["emulation"];
    assert!(counts["injected"].as_f64() >= Some(1560.0), "{counts}");
    assert!(counts["lateness_p99_ms"].as_f64().is_some(), "{counts}");
}

#[test]
fn udp_tcp_ipv6_fragments_and_ttl_go_through_an_edge() {
    let Some(_turn) = turn() else { return };
    let emulation = Emulation::start("", &["--attach", "0", "--attach", "3", "--attach", "internet"]);

    // UDP, from the Internet over a wire and three radio hops, and back.
    let (at_host, at_node) = (udp_in("fh-internet", "0.0.0.0:7000"), udp_in("fh-3", "0.0.0.0:7000"));
    at_host.send_to(b"down", (node(3), 7000)).expect("sent");
    let mut buffer = [0; 8_000];
    let (length, from) = at_node.recv_from(&mut buffer).expect("received");
    assert_eq!((&buffer[..length], from), (&b"down"[..], "10.78.0.1:7000".parse().expect("an address")));
    at_node.send_to(b"up", from).expect("sent");
    assert_eq!(at_host.recv(&mut buffer).expect("received"), 2);

    // A datagram in three fragments.
    let large: Vec<u8> = (0..4_000_u32).map(|i| i as u8).collect();
    at_host.send_to(&large, (node(3), 7000)).expect("sent");
    let (length, _) = at_node.recv_from(&mut buffer).expect("all fragments");
    assert_eq!(buffer[..length], large);

    // The TTL of 3 runs out at the third of the nodes 0, 1 and 2 that forward; 4 is enough.
    at_node.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    at_host.set_ttl(3).expect("set");
    at_host.send_to(b"short", (node(3), 7000)).expect("sent");
    let timed_out = at_node.recv_from(&mut buffer).expect_err("nothing");
    assert!(matches!(timed_out.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
    at_host.set_ttl(4).expect("set");
    at_host.send_to(b"enough", (node(3), 7000)).expect("sent");
    assert_eq!(at_node.recv_from(&mut buffer).expect("received").0, 6);

    // IPv6.
    let (v6_host, v6_node) = (udp_in("fh-internet", "[::]:7001"), udp_in("fh-3", "[::]:7001"));
    v6_host.send_to(b"six", "[fd77::3]:7001").expect("sent");
    let (length, from) = v6_node.recv_from(&mut buffer).expect("received");
    assert_eq!((length, from), (3, "[fd78::1]:7001".parse().expect("an address")));

    // TCP: 300 kB each way.
    let listener = inside("fh-3", || TcpListener::bind("0.0.0.0:7002")).expect("bound");
    let data: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut received = vec![0; 300_000];
        stream.read_exact(&mut received).expect("all of it");
        stream.write_all(&received).expect("sent back");
    });
    let mut stream = inside("fh-0", || {
        TcpStream::connect_timeout(&SocketAddr::from((node(3), 7002)), Duration::from_secs(5))
    })
    .expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.write_all(&data).expect("sent");
    let mut back = vec![0; data.len()];
    stream.read_exact(&mut back).expect("all of it");
    echo.join().expect("no panic");
    assert!(back == data, "other bytes came back");
    drop(stream);

    // What nobody has an address for goes to the Internet host; what is for all goes nowhere.
    at_node.send_to(b"dns", "9.9.9.9:53").expect("sent");
    at_node.send_to(b"all", "224.0.0.251:5353").expect("sent");
    thread::sleep(Duration::from_millis(100));
    let results = emulation.end();
    let flows = results["flows"].as_array().expect("a list");
    let flow = |kind: &str, name: &str| {
        let found = flows
            .iter()
            .find(|flow| flow["kind"] == kind && flow["name"].as_str().is_some_and(|n| n.contains(name)));
        found.unwrap_or_else(|| panic!("no {kind} {name} in {flows:#?}"))
    };
    let tcp = flow("real-tcp", "> 10.77.0.3:7002");
    let seconds = results["sim_s"].as_f64().expect("a number");
    let goodput = tcp["goodput_mbps"].as_f64().expect("a number") * seconds;
    assert!((goodput / 2.4 - 1.0).abs() < 0.01, "300 kB are 2.4 Mb, not {goodput}");
    assert_eq!(flow("real-udp", "10.78.0.1:7000 > 10.77.0.3:7000")["lost"]["ttl"], 1.0);
    flow("real-udp", "[fd78::1]:7001 > [fd77::3]:7001");
    flow("real-udp", "> 9.9.9.9:53");
    assert_eq!(results["emulation"]["rejected"]["multicast"], 1.0);
}

#[test]
fn over_links_the_kernels_of_the_nodes_forward() {
    let Some(_turn) = turn() else { return };
    let emulation = Emulation::start("", &["--link", "--set", "topology.hops=2"]);
    for (at, to, through) in [(0, 2, 1), (2, 0, 1)] {
        let (at, to, through) = (format!("fh-{at}"), node(to).to_string(), node(through).to_string());
        let route = ["-n", &at, "route", "add", &to, "via", &through, "dev", "fh0", "onlink"];
        assert!(Command::new("ip").args(route).status().expect("ip runs").success());
    }
    let times = ping("fh-0", node(2), 20);
    assert!(times.len() >= 19, "{} of 20 answers", times.len());
    let (near, far) = (udp_in("fh-0", "0.0.0.0:7000"), udp_in("fh-2", "0.0.0.0:7000"));
    near.set_ttl(1).expect("set");
    near.send_to(b"one hop", (node(2), 7000)).expect("sent");
    near.set_ttl(2).expect("set");
    near.send_to(b"two hops", (node(2), 7000)).expect("sent");
    let mut buffer = [0; 100];
    assert_eq!(far.recv(&mut buffer).expect("received"), 8, "the kernel of node 1 lowers the TTL");
    let results = emulation.end();
    let flows = results["flows"].as_array().expect("a list");
    let frames_of_1 = flows.iter().find(|flow| flow["name"] == "frames of 1").expect("node 1 forwards");
    assert!(frames_of_1["sent"].as_f64() >= Some(39.0), "{frames_of_1}");
    // Neighbours are found by broadcasts.
    assert!(flows.iter().any(|flow| flow["name"] == "broadcasts of 0"), "{flows:#?}");
}

#[test]
fn programs_of_real_traffic_run_at_their_ends_and_their_flow_is_in_the_results() {
    let Some(_turn) = turn() else { return };
    let program = env!("CARGO_BIN_EXE_fairhop");
    let traffic = format!(
        "\n[[traffic]]\nkind = \"real\"\nname = \"media\"\nfrom = 0\nto = 2\n\
         command_to = \"{program} aimd receive --bind $TO:7010\"\n\
         command_from = \"sleep 0.3; {program} aimd send $TO:7010 --duration 1; echo sent to $TO copy $COPY\"\n\
         \n[[traffic]]\nkind = \"call\"\nfrom = 0\nto = 2\n"
    );
    let folder = scenario(&traffic);
    let arguments = ["emulate", "string.toml", "--duration", "3", "--out", "out", "--json"];
    let output = in_folder(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let results = json(&output);
    assert_eq!(results["calls"].as_array().map(Vec::len), Some(1), "simulated traffic shares the air");
    let flows = results["flows"].as_array().expect("a list");
    let media =
        flows.iter().find(|flow| flow["name"].as_str().is_some_and(|n| n.contains("> 10.77.0.2:7010")));
    assert!(media.is_some_and(|flow| flow["goodput_mbps"].as_f64() > Some(0.1)), "{flows:#?}");
    let said = fs::read_to_string(folder.path().join("out/media-0-from.txt")).expect("its output");
    assert!(said.contains("sent to 10.77.0.2 copy 0"), "{said}");
    assert!(folder.path().join("out/flows.parquet").exists());
    assert_eq!(left(), [""; 0]);
}

#[test]
fn a_real_call_is_judged_by_the_recorder_and_as_a_gateway_would() {
    let Some(_turn) = turn() else { return };
    let program = env!("CARGO_BIN_EXE_fairhop");
    let traffic = format!(
        "\n[[traffic]]\nkind = \"real\"\nname = \"phone\"\nfrom = 0\nto = 2\n\
         command_to = \"{program} call answer --bind $TO\"\n\
         command_from = \"sleep 0.3; {program} call make $TO --duration 2.6 --json\"\n"
    );
    let folder = scenario(&traffic);
    let arguments = ["emulate", "string.toml", "--duration", "3.5", "--out", "out", "--json"];
    let output = in_folder(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let results = json(&output);
    let call = &results["calls"][0];
    // On a loaded machine packets are late; that they are judged does not depend on it.
    assert!(call["mos"].as_f64() >= Some(1.0), "{results:#}");
    for direction in ["forward", "backward"] {
        assert!(call[direction]["sent"].as_f64() >= Some(100.0), "{call:#}");
    }
    assert!(call["observed"]["mos"].as_f64() >= Some(1.0), "{call:#}");
    assert!(call["observed"]["clear"].is_number(), "{call:#}");
    let said = fs::read_to_string(folder.path().join("out/phone-0-from.txt")).expect("its output");
    let heard: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert!(heard["expected"].as_f64() >= Some(100.0) && heard["mos"].is_number(), "{heard}");
}

#[test]
fn a_routing_daemon_finds_the_way_over_a_node_between() {
    let Some(_turn) = turn() else { return };
    let Some(babeld) =
        ["/usr/sbin/babeld", "/usr/bin/babeld"].into_iter().find(|path| Path::new(path).exists())
    else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the test needs `tools/prepare daemons`");
        return;
    };
    let emulation = Emulation::start("", &["--link", "--set", "topology.hops=2"]);
    let folder = tempfile::tempdir().expect("a folder");
    let daemons = ["0", "1", "2"].map(|node| {
        let file = |what: &str| folder.path().join(format!("{node}.{what}"));
        Command::new(env!("CARGO_BIN_EXE_fairhop"))
            .args([
                "emulate",
                "exec",
                node,
                "--",
                babeld,
                "-C",
                "interface fh0 type wireless hello-interval 1",
            ])
            .args(["-C", "redistribute local", "-C", "redistribute local deny", "fh0"])
            .args([
                Path::new("-I"),
                &file("pid"),
                Path::new("-S"),
                &file("state"),
                Path::new("-L"),
                &file("log"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs")
    });
    let route = || {
        let output = Command::new("ip").args(["-n", "fh-0", "route", "get", "10.77.0.2"]).output();
        text(&output.expect("ip runs").stdout)
    };
    wait_for("a route", || route().contains("via 10.77.0.1"));
    wait_for("an answer", || !ping("fh-0", node(2), 1).is_empty());
    emulation.end();
    for mut daemon in daemons {
        daemon.wait().expect("the end of the emulation ends it");
    }
}

/// Waits until a condition holds, for at most a minute.
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process runs. One that has ended stays a zombie until the system's first process takes notice.
fn lives(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Processes in a namespace.
fn processes(namespace: &str) -> String {
    let output = Command::new("ip").args(["netns", "pids", namespace]).output().expect("ip runs");
    text(&output.stdout)
}

#[test]
fn nothing_is_left_after_sigterm_and_what_sigkill_leaves_is_removed() {
    let Some(_turn) = turn() else { return };
    let sleeper = "\n[[traffic]]\nkind = \"real\"\nfrom = 0\nto = 1\ncommand_to = \"sleep 1000\"\n";
    let mut emulation = Emulation::start(sleeper, &[]);
    wait_for("the program starts", || !processes("fh-1").is_empty());
    let pid = processes("fh-1").split_whitespace().next().expect("a process").to_owned();
    emulation.signal(Signal::TERM);
    emulation.child.wait().expect("ended");
    assert_eq!(left(), [""; 0]);
    assert!(!lives(&pid), "the program has ended");

    // What a killed emulation leaves is removed by `clean`, or by the next one.
    for by_clean in [true, false] {
        let mut emulation = Emulation::start(sleeper, &[]);
        wait_for("the program starts", || !processes("fh-1").is_empty());
        emulation.signal(Signal::KILL);
        emulation.child.wait().expect("ended");
        assert_eq!(left(), ["fh-0", "fh-1"]);
        let inside = processes("fh-1");
        if by_clean {
            let output = output(["emulate", "clean"]);
            assert_eq!((output.status.code(), text(&output.stderr).trim()), (Some(0), "removed fh-0, fh-1"));
            assert_eq!(left(), [""; 0]);
        } else {
            Emulation::start("", &["--attach", "1", "--attach", "2"]).end();
        }
        assert!(!inside.split_whitespace().any(lives), "its programs have ended");
    }
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    // Without the marks and line breaks of the report.
    let words = text(&output.stderr).replace(['│', '×'], " ");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_second_emulation_a_taken_name_and_an_unknown_place_are_refused() {
    let Some(_turn) = turn() else { return };
    let folder = scenario("");
    let attach = |place: &str| in_folder(folder.path(), &["emulate", "string.toml", "--attach", place]);
    let emulation = Emulation::start("", &["--attach", "0", "--attach", "1"]);
    let said = refusal(&attach("2"));
    let process = emulation.child.id().to_string();
    assert!(
        said.contains(&format!("another emulation is running: process {process}, scenario \"string\"")),
        "{said}"
    );
    assert!(refusal(&output(["emulate", "clean"])).contains("another emulation is running"));
    let said = refusal(&output(["emulate", "exec", "4", "--", "true"]));
    assert!(said.contains("no attached place \"4\"") && said.contains("attached are: 0, 1"), "{said}");
    let inside = output(["emulate", "exec", "1", "--", "ip", "-brief", "address", "show", "fh0"]);
    assert!(text(&inside.stdout).contains("10.77.0.1/32"), "{}", text(&inside.stdout));
    emulation.end();

    let ip = |action: &str| Command::new("ip").args(["netns", action, "fh-2"]).status().expect("ip runs");
    assert!(ip("add").success());
    let said = refusal(&attach("2"));
    assert!(ip("del").success(), "it was not touched");
    assert!(said.contains("network namespace fh-2 exists, and no emulation made it"), "{said}");
    assert!(said.contains("ip netns del fh-2"), "{said}");

    let said = refusal(&in_folder(folder.path(), &["emulate", "string.toml"]));
    assert!(said.contains("no place is attached") && said.contains("--attach"), "{said}");
    assert!(refusal(&attach("9")).contains("node 9"), "it does not exist");
    assert_eq!(left(), [""; 0]);
}

#[test]
fn the_run_ends_with_its_command_and_has_its_exit_code() {
    let Some(_turn) = turn() else { return };
    let folder = scenario("");
    for (command, code) in [(r#""$FAIRHOP" --version"#, 0), ("exit 7", 7)] {
        let arguments =
            ["emulate", "string.toml", "--attach", "0", "--attach", "1", "--", "sh", "-c", command];
        let output = in_folder(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
    let arguments = ["emulate", "string.toml", "--attach", "0", "--", "/no/such/program"];
    let said = refusal(&in_folder(folder.path(), &arguments));
    assert!(said.contains("cannot start `/no/such/program`: No such file"), "{said}");
    assert_eq!(left(), [""; 0]);
}

#[test]
fn without_the_rights_it_says_which_are_missing_and_how_to_get_them() {
    let Some(_turn) = turn() else { return };
    // A place that everybody may read; the tests' own folders may be root's.
    let folder = tempfile::Builder::new().tempdir_in("/tmp").expect("a folder");
    let program = folder.path().join("fairhop");
    // By another process: a file that this one has open for writing is busy while children of other tests start.
    let copied =
        Command::new("cp").arg(env!("CARGO_BIN_EXE_fairhop")).arg(&program).status().expect("cp runs");
    assert!(copied.success());
    let readable = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    for path in [folder.path(), &program] {
        fs::set_permissions(path, readable.clone()).expect("set");
    }
    let output = Command::new(&program)
        .args(["emulate", "k-mix", "--attach", "4"])
        .current_dir("/tmp")
        .uid(65_534)
        .output()
        .expect("the program runs");
    let said = refusal(&output);
    assert!(
        said.contains("CAP_NET_ADMIN and CAP_SYS_ADMIN") && said.contains("sudo fairhop emulate"),
        "{said}"
    );
}
