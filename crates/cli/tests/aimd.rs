//! `fairhop aimd` over the loopback: bounded in packets by the rate of the source, and in time by the duration.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
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

/// A receiver at a free port of the loopback, ended with the test.
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

    /// What it says when it ends by itself.
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

/// A path to `to` of 20 ms each way that loses every 20th packet of data; its address, and at the end what it lost.
fn path(to: &str) -> (String, mpsc::Receiver<u64>) {
    const DELAY: Duration = Duration::from_millis(20);
    let near = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let far = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    far.connect(to).expect("an address");
    let address = near.local_addr().expect("an address").to_string();
    let (answered, back) = (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"));
    let (tell, told) = mpsc::channel();
    let (know_sender, sender) = mpsc::channel();
    /// Passes on what comes in order, each after the delay.
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
        let (mut data, mut lost) = (0_u64, 0);
        while let Ok((length, from)) = near.recv_from(&mut bytes) {
            let _ = know_sender.send(from);
            let is_data = bytes[0] == 0x10;
            data += u64::from(is_data);
            if is_data && data.is_multiple_of(20) {
                lost += 1;
            } else {
                let _ = forward.send((Instant::now() + DELAY, bytes[..length].to_vec()));
            }
            if !is_data {
                let _ = tell.send(lost);
            }
        }
    });
    (address, told)
}

#[test]
fn what_a_path_loses_and_delays_is_what_both_ends_tell() {
    let receiver = Receiver::start(&["--once"]);
    let (address, told) = path(&receiver.address);
    let sent =
        output(&["send", &address, "--duration", "1", "--payload", "100", "--rate-limit", "400", "--json"]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let sent: Value = serde_json::from_slice(&sent.stdout).expect("one JSON object");
    let received = receiver.wait();
    let lost = told.recv().expect("what was lost");
    assert!(lost >= 1, "{sent:#}");
    // The first end that arrives is after all data; more data cannot follow.
    assert_eq!((&sent["lost"], &received["lost"]), (&lost.into(), &lost.into()));
    assert_eq!(sent["received"], received["received"]);
    assert!(sent["backoffs"].as_u64() >= Some(1), "{sent:#}");
    assert!(sent["rtt_ms"]["min"].as_f64() >= Some(40.0), "{sent:#}");
}

#[test]
fn one_stream_is_served_after_another_and_a_second_sender_meanwhile_is_told() {
    let receiver = Receiver::start(&[]);
    let arguments = ["--duration", "0.6", "--payload", "100", "--rate-limit", "80"];
    let send = || fairhop(&[&["send", &receiver.address], &arguments[..]].concat());
    let mut first = send().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    thread::sleep(Duration::from_millis(200));
    let refused = send().output().expect("the program runs");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("serves another sender"), "{}", text(&refused.stderr));
    assert!(first.wait().expect("an end").success());
    let second = send().output().expect("the program runs");
    assert!(second.status.success(), "{}", text(&second.stderr));
    assert!(text(&second.stdout).starts_with("AIMD(0.200, 0.875) to 127.0.0.1:"), "{}", text(&second.stdout));
}

#[test]
fn who_gets_no_answer_says_so_and_what_to_do() {
    // A socket that is there and never answers, and a port where nobody is.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = silent.local_addr().expect("an address").to_string();
    let waited = output(&["send", &address, "--timeout", "0.3", "--rate-limit", "80"]);
    assert_eq!(waited.status.code(), Some(1));
    let said = text(&waited.stderr);
    assert!(said.contains("nobody answered") && said.contains("fairhop aimd receive"), "{said}");
    assert!(waited.stdout.is_empty());
    drop(silent);
    let refused = output(&["send", &address, "--timeout", "0.3", "--rate-limit", "80"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("nobody listens at") && said.contains("help: "), "{said}");
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = output(&["receive", "--bind", &address]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("something listens there already"), "{}", text(&refused.stderr));
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_both_ends_with_what_was_measured() {
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
