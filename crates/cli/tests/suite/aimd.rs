//! `fairhop aimd` over the loopback. The rate of the source bounds the packets, the duration bounds the time.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

fn fairhop(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairhop"));
    command.args(["aimd"]).args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    fairhop(arguments).output().expect("the program runs")
}

/// A receiver on a free port of the loopback; killed with the test.
struct Receiver {
    child: Child,
    address: String,
}

impl Receiver {
    fn start(arguments: &[&str]) -> Self {
        let mut child = fairhop(&[&["receive", "--bind", "127.0.0.1:0", "--json"], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().expect("standard error")).read_line(&mut line).expect("a line");
        let address = line.split_whitespace().nth(2).expect("an address").to_owned();
        Self { child, address }
    }

    /// Its output, when it ends by itself.
    fn wait(mut self) -> Value {
        let mut said = String::new();
        self.child.stdout.take().expect("standard output").read_to_string(&mut said).expect("text");
        assert!(self.child.wait().expect("an end").success());
        serde_json::from_str(&said).expect("one JSON object")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn both_ends_agree_on_what_was_sent_and_received() {
    let receiver = Receiver::start(&["--once", "--rwnd", "30"]);
    // 100 packets a second for half a second.
    let arguments =
        ["--duration", "0.5", "--payload", "100", "--rate-limit", "80", "--beta", "0.5", "--json"];
    let sent = output(&[&["send", &receiver.address], &arguments[..]].concat());
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let sent: Value = serde_json::from_slice(&sent.stdout).expect("one JSON object");
    let received = receiver.wait();
    assert_eq!((&sent["ended"], &received["ended"]), (&"complete".into(), &"complete".into()));
    let count = sent["sent"].as_u64().expect("a count");
    assert!((1..=51).contains(&count), "{sent:#}");
    assert_eq!(received["expected"], sent["sent"], "the end tells how many there were");
    assert_eq!(received["received"], sent["received"]);
    assert_eq!(
        (&sent["alpha"], &sent["rwnd"], &sent["payload_bytes"]),
        (&1.0.into(), &30.into(), &100.into())
    );
    for figure in ["/rate_kbps", "/loss", "/delay_ms/p95", "/rtt_ms/min", "/rtt_ms/mean", "/cwnd"] {
        assert!(sent.pointer(figure).is_some_and(Value::is_number), "{figure} in {sent:#}");
    }
}

/// First bytes of packets on the wire.
const HELLO: u8 = 0x20;
const DATA: u8 = 0x24;
const END: u8 = 0x26;

/// A path to `to` of 20 ms each way that loses every fifth packet of data and the first `hellos` hellos. Returns its
/// address, and a channel with the data packets lost so far at every end packet.
fn path(to: &str, hellos: u64) -> (String, mpsc::Receiver<u64>) {
    const DELAY: Duration = Duration::from_millis(20);
    let near = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let far = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    far.connect(to).expect("an address");
    let address = near.local_addr().expect("an address").to_string();
    let (answered, back) = (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"));
    let (report, reported) = mpsc::channel();
    let (learn_sender, sender) = mpsc::channel();
    /// Forwards packets in order, each after the delay.
    fn delayed(pass: impl Fn(&[u8]) + Send + 'static) -> mpsc::Sender<(Instant, Vec<u8>)> {
        let (put, get) = mpsc::channel::<(Instant, Vec<u8>)>();
        thread::spawn(move || {
            for (at, bytes) in get {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                pass(&bytes);
            }
        });
        put
    }
    let forward = delayed(move |bytes| drop(far.send(bytes)));
    let backward = delayed({
        let sender: mpsc::Receiver<std::net::SocketAddr> = sender;
        let address = std::cell::OnceCell::new();
        move |bytes| {
            let to = address.get_or_init(|| sender.recv().expect("a sender"));
            drop(answered.send_to(bytes, to));
        }
    });
    thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok(length) = back.recv(&mut bytes) {
            let _ = backward.send((Instant::now() + DELAY, bytes[..length].to_vec()));
        }
    });
    thread::spawn(move || {
        let mut bytes = [0; 2048];
        let (mut data, mut lost, mut opened) = (0_u64, 0, 0);
        while let Ok((length, from)) = near.recv_from(&mut bytes) {
            let _ = learn_sender.send(from);
            let kind = bytes[0];
            opened += u64::from(kind == HELLO);
            data += u64::from(kind == DATA);
            if kind == HELLO && opened <= hellos {
                continue;
            }
            if kind == DATA && data.is_multiple_of(5) {
                lost += 1;
            } else {
                let _ = forward.send((Instant::now() + DELAY, bytes[..length].to_vec()));
            }
            if kind == END {
                let _ = report.send(lost);
            }
        }
    });
    (address, reported)
}

#[test]
fn both_ends_report_the_losses_and_delays_of_the_path() {
    let receiver = Receiver::start(&["--once"]);
    let (address, reported) = path(&receiver.address, 0);
    let sent =
        output(&["send", &address, "--duration", "2", "--payload", "100", "--rate-limit", "400", "--json"]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let sent: Value = serde_json::from_slice(&sent.stdout).expect("one JSON object");
    let received = receiver.wait();
    let lost = reported.recv().expect("a count");
    assert!(lost >= 1, "{sent:#}");
    // The first end that arrives is after all data; more data cannot follow.
    assert_eq!((&sent["lost"], &received["lost"]), (&lost.into(), &lost.into()));
    assert_eq!(sent["received"], received["received"]);
    assert!(sent["backoffs"].as_u64() >= Some(1), "{sent:#}");
    assert!(sent["rtt_ms"]["min"].as_f64() >= Some(40.0), "{sent:#}");
}

/// A stream opened and ended by hand, so that it lasts exactly as long as the test needs.
struct OpenStream(UdpSocket);

impl OpenStream {
    const ID: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn open(to: &str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(to).expect("an address");
        let stream = Self(socket);
        let cookie = stream.ask(&[&[HELLO, 0, 0, 0][..], &Self::ID, &[0; 8]].concat());
        let accept = stream.ask(&[&[HELLO, 0, 0, 0][..], &Self::ID, &cookie[12..20]].concat());
        assert_eq!((cookie[0], accept[0]), (0x21, 0x22));
        stream
    }

    fn end(self) {
        let report = self.ask(&[&[END, 0, 0, 0][..], &Self::ID[4..]].concat());
        assert_eq!(report[0], 0x27);
    }

    fn ask(&self, packet: &[u8]) -> Vec<u8> {
        self.0.send(packet).expect("sent");
        let mut answer = [0; 64];
        let length = self.0.recv(&mut answer).expect("an answer");
        answer[..length].to_vec()
    }
}

#[test]
fn streams_are_served_one_after_another_and_a_second_sender_is_refused_meanwhile() {
    let receiver = Receiver::start(&["--timeout", "600"]);
    let first = OpenStream::open(&receiver.address);
    let arguments = ["--duration", "0.3", "--payload", "100", "--rate-limit", "80", "--timeout", "60"];
    let send = || output(&[&["send", &receiver.address], &arguments[..]].concat());
    let refused = send();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("serves another sender"), "{}", text(&refused.stderr));
    first.end();
    let second = send();
    assert!(second.status.success(), "{}", text(&second.stderr));
    assert!(text(&second.stdout).starts_with("AIMD(0.200, 0.875) to 127.0.0.1:"), "{}", text(&second.stdout));
}

#[test]
fn a_sender_without_an_answer_reports_it_and_the_fix() {
    // A socket that never answers, then a closed port.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = silent.local_addr().expect("an address").to_string();
    let waited = output(&["send", &address, "--timeout", "0.3", "--rate-limit", "80"]);
    assert_eq!(waited.status.code(), Some(1));
    let said = text(&waited.stderr);
    assert!(said.contains("no answer from") && said.contains("fairhop aimd receive"), "{said}");
    assert!(waited.stdout.is_empty());
    drop(silent);
    let refused = output(&["send", &address, "--timeout", "0.3", "--rate-limit", "80"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains(" is closed") && said.contains("help: "), "{said}");
}

#[test]
fn an_occupied_port_is_reported() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = output(&["receive", "--bind", &address]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("another program listens there"), "{}", text(&refused.stderr));
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_both_ends_with_their_results_so_far() {
    let interrupt = |child: &Child| {
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    };
    let mut receiver = Receiver::start(&[]);
    let mut sender =
        fairhop(&["send", &receiver.address, "--rate-limit", "80", "--payload", "100", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
    thread::sleep(Duration::from_millis(400));
    interrupt(&sender);
    let mut said = String::new();
    sender.stdout.take().expect("standard output").read_to_string(&mut said).expect("text");
    assert_eq!(sender.wait().expect("an end").code(), Some(130));
    let said: Value = serde_json::from_str(&said).expect("one JSON object");
    assert_eq!((&said["ended"], &said["received"]), (&"interrupted".into(), &said["sent"]));
    interrupt(&receiver.child);
    assert_eq!(receiver.child.wait().expect("an end").code(), Some(0), "no stream was running any more");
}

/// Sends 10 stray datagrams a second from a socket of its own until it is dropped: garbage, and packets that look like
/// those of streams.
struct Strays {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Strays {
    fn start(to: &str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(to).expect("an address");
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), sent.clone());
        let thread = thread::spawn(move || {
            let kinds: [&[u8]; 4] = [
                b"hello",
                // Data of version 1, which needed no handshake; data and end of an unknown stream.
                &[0x10, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0],
                &[DATA, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0],
                &[END, 0, 0, 99, 1, 2, 3, 4],
            ];
            for kind in kinds.iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let _ = socket.send(kind);
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(100));
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }

    fn wait_for(&self, more: u64) {
        let until = self.sent.load(Ordering::Relaxed) + more;
        while self.sent.load(Ordering::Relaxed) < until {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Strays {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(thread::JoinHandle::join);
    }
}

#[test]
fn strays_before_during_and_after_a_stream_do_not_change_its_figures() {
    let mut receiver = Receiver::start(&["--timeout", "60"]);
    let strays = Strays::start(&receiver.address);
    strays.wait_for(5);
    let arguments = ["--duration", "0.6", "--payload", "100", "--rate-limit", "80", "--json"];
    let sent = output(&[&["send", &receiver.address], &arguments[..]].concat());
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    strays.wait_for(5);
    drop(strays);
    let sent: Value = serde_json::from_slice(&sent.stdout).expect("one JSON object");
    let stdout = receiver.child.stdout.as_mut().expect("standard output");
    let reports = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
    let received = reports.map(|report| report.expect("JSON")).next().expect("a stream");
    assert_eq!((&received["ended"], &received["lost"]), (&"complete".into(), &0.into()), "{received:#}");
    assert_eq!((&received["received"], &received["expected"]), (&sent["sent"], &sent["sent"]));
    assert_eq!((&sent["received"], &sent["lost"]), (&sent["sent"], &0.into()));
    // Five before the stream, and those of 0.6 s.
    assert!(received["strays"].as_u64() >= Some(8), "{received:#}");
}

#[cfg(unix)]
#[test]
fn strays_alone_never_become_a_stream() {
    let mut receiver = Receiver::start(&["--timeout", "0.3", "--once"]);
    let strays = Strays::start(&receiver.address);
    strays.wait_for(8);
    assert!(receiver.child.try_wait().expect("a child").is_none(), "--once waits for a stream");
    let sent = Command::new("kill").args(["-INT", &receiver.child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(receiver.child.wait().expect("an end").code(), Some(0));
    let mut printed = String::new();
    receiver.child.stdout.take().expect("standard output").read_to_string(&mut printed).expect("text");
    assert_eq!(printed, "");
}

#[test]
fn a_lost_hello_is_repeated() {
    let receiver = Receiver::start(&["--once"]);
    let (address, _reported) = path(&receiver.address, 2);
    let arguments = ["--duration", "0.3", "--payload", "100", "--rate-limit", "80", "--json"];
    let sent = output(&[&["send", &address], &arguments[..]].concat());
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let sent: Value = serde_json::from_slice(&sent.stdout).expect("one JSON object");
    let received = receiver.wait();
    assert_eq!(received["received"], sent["received"]);
    let seconds = sent["duration_s"].as_f64().expect("a number");
    assert!((0.3..0.6).contains(&seconds), "the stream is timed from its opening: {seconds}");
}

#[test]
fn a_receiver_listens_to_this_host_only_unless_told_otherwise() {
    let help = text(&output(&["receive", "--help"]).stdout);
    assert!(help.contains("[default: 127.0.0.1:24024]"), "{help}");
}
