//! `fairhop aimd` over the loopback: bounded in packets by the rate of the source, and in time by the duration.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

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

#[test]
fn one_stream_is_served_after_another_and_a_second_sender_meanwhile_is_told() {
    let receiver = Receiver::start(&[]);
    let arguments = ["--duration", "0.6", "--payload", "100", "--rate-limit", "80"];
    let send = || fairhop(&[&["send", &receiver.address], &arguments[..]].concat());
    let mut first = send().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    std::thread::sleep(Duration::from_millis(200));
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
    std::thread::sleep(Duration::from_millis(400));
    interrupt(&sender);
    let mut said = String::new();
    sender.stdout.take().expect("standard output").read_to_string(&mut said).expect("text");
    assert_eq!(sender.wait().expect("an end").code(), Some(130));
    let said: Value = serde_json::from_str(&said).expect("one JSON object");
    assert_eq!((&said["ended"], &said["received"]), (&"interrupted".into(), &said["sent"]));
    interrupt(&receiver.child);
    assert_eq!(receiver.child.wait().expect("an end").code(), Some(0), "no stream was running any more");
}
