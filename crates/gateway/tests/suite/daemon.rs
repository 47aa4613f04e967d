//! The daemon over a datapath without a kernel: modes, reload, failures, the API and its token.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairhop_control::digest::{Digest, Direction, Payload, RtpFields};
use fairhop_gateway::api::{self, client, metrics};
use fairhop_gateway::config::{Mode, ProbeSetting};
use fairhop_gateway::daemon::{self, Options, Signals, monotonic};
use fairhop_gateway::datapath::Datapath;
use fairhop_gateway::probe::Prober;
use fairhop_gateway::record::{Event, Frame, Reader};
use fairhop_gateway::status::Status;
use fairhop_model::units::Nanos;

use crate::support::{Fake, Seen, call, download};

/// A daemon in a thread of its own, whose rights are those of the thread.
struct Running {
    folder: tempfile::TempDir,
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    modes: Arc<Mutex<Vec<Mode>>>,
    signals: Signals,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(lines: &str) -> Self {
        Self::start_with(lines, "")
    }

    fn start_with(lines: &str, of_gateway: &str) -> Self {
        Self::start_where(lines, of_gateway, Seen::default(), None)
    }

    /// `record` is the name of a file for a recording from the start.
    fn start_where(lines: &str, of_gateway: &str, seen: Seen, record: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        write_config_with(&path, lines, of_gateway);
        let (seen, modes) = (Arc::new(Mutex::new(seen)), Arc::<Mutex<Vec<Mode>>>::default());
        let signals = Signals::default();
        let record = record.map(|name| folder.path().join(name));
        let (sender, addresses) = mpsc::channel();
        let (of_thread, modes_of_thread, signals_of_thread) =
            (Arc::clone(&seen), Arc::clone(&modes), signals.clone());
        let thread = std::thread::spawn(move || {
            let options = Options {
                config: path,
                record,
                report_address: Some(Box::new(move |address| sender.send(address).unwrap())),
                ..Options::default()
            };
            let result = daemon::run(&options, &signals_of_thread, &mut |_, gateway, mode| {
                let fake = Fake::start(&of_thread, &gateway.mesh, mode)?;
                modes_of_thread.lock().unwrap().push(mode);
                Ok(Box::new(fake) as Box<dyn Datapath>)
            });
            result.unwrap();
        });
        let address = addresses.recv_timeout(Duration::from_secs(20)).unwrap();
        Self { folder, address, seen, modes, signals, thread: Some(thread) }
    }

    /// Lets a call and a download pass, in real time, until the daemon is told to stop.
    fn feed(&self) -> JoinHandle<()> {
        const STEP: u64 = 20_000_000;
        let (seen, stop) = (Arc::clone(&self.seen), Arc::clone(&self.signals.stop));
        std::thread::spawn(move || {
            let first = monotonic().0 / STEP;
            for n in 0_u32.. {
                let at = Nanos((first + u64::from(n)) * STEP);
                while monotonic() < at {
                    std::thread::sleep(Duration::from_millis(2));
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let mut seen = seen.lock().unwrap();
                seen.digests.extend(call(at, 1, 160));
                seen.digests.extend(download(at, 9, n));
            }
        })
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("gateway.toml")
    }

    fn token(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("token")).unwrap().trim().to_owned()
    }

    fn get(&self, path: &str) -> client::Answer {
        client::request(self.address, "GET", path, None, None).unwrap()
    }

    fn post(&self, path: &str, token: Option<&str>, body: &str) -> client::Answer {
        client::request(self.address, "POST", path, token, Some(body)).unwrap()
    }

    fn status(&self) -> Status {
        serde_json::from_str(&self.get("/api/v1/status").body).unwrap()
    }

    /// The first status that is as wanted.
    fn wait_for(&self, what: &str, is: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let status = self.status();
            if is(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "waits for {what}: {status:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(&mut self) {
        self.signals.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signals.stop.store(true, Ordering::Relaxed);
    }
}

fn write_config(path: &std::path::Path, lines: &str) {
    write_config_with(path, lines, "");
}

fn write_config_with(path: &std::path::Path, lines: &str, of_gateway: &str) {
    let folder = path.parent().unwrap().display();
    let text = format!(
        "{lines}\n[[gateway]]\nname = \"roof\"\nmesh = \"wlan0\"\n{of_gateway}\n[api]\nlisten = \"127.0.0.1:0\"\n\
         token_file = \"{folder}/token\"\n[journal]\nfolder = \"{folder}/journal\"\n"
    );
    std::fs::write(path, text).unwrap();
}

#[test]
fn modes_reload_and_failures_of_a_running_daemon() {
    let mut gateway = Running::start("mode = \"dry-run\"");
    let token = gateway.token();

    // In a dry run it decides, and the datapath gets no limits.
    let feeding = gateway.feed();
    let status = gateway.wait_for("a call and a flow", |status| {
        status.gateways[0].calls.len() == 1 && status.gateways[0].flows.len() == 1
    });
    assert!(status.gateways[0].decision.down_kbps.is_some());
    assert_eq!(gateway.seen.lock().unwrap().down, None);
    let digests = |status: &Status| status.gateways[0].counters.digests;
    let counted = digests(&gateway.wait_for("digests that are counted", |status| digests(status) > 0));

    // Live: the datapath starts anew and gets the limits. Counts go on.
    let answer = gateway.post("/api/v1/mode", Some(&token), "{\"mode\":\"live\"}");
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"mode\":\"live\"}"));
    assert_eq!(*gateway.modes.lock().unwrap(), [Mode::DryRun, Mode::Live]);
    assert_eq!(gateway.status().mode, "live");
    assert!(digests(&gateway.status()) >= counted);
    let deadline = Instant::now() + Duration::from_secs(10);
    while gateway.seen.lock().unwrap().down.is_none() {
        assert!(Instant::now() < deadline, "no limits came");
        std::thread::sleep(Duration::from_millis(20));
    }

    // A config with an error is refused, and the one before stays in force.
    write_config(&gateway.config(), "mode = \"liv\"");
    gateway.signals.reload.store(true, Ordering::Relaxed);
    let status = gateway.wait_for("the refusal", |status| status.reloads_refused == 1);
    assert_eq!((status.mode.as_str(), status.reloads), ("live", 0));
    let answer = gateway.post("/api/v1/reload", Some(&token), "");
    assert_eq!(answer.status, 409);
    assert!(answer.body.contains("gateway.toml:1:8") && answer.body.contains("live"), "{}", answer.body);

    // A good one is taken over.
    write_config(&gateway.config(), "mode = \"observe\"");
    assert_eq!(gateway.post("/api/v1/reload", Some(&token), "").status, 200);
    gateway.wait_for("observe", |status| status.mode == "observe" && status.reloads == 1);
    assert_eq!(*gateway.modes.lock().unwrap(), [Mode::DryRun, Mode::Live, Mode::Observe]);

    // What is for the datapath starts it anew, in whatever part of the config it is.
    write_config(&gateway.config(), "mode = \"observe\"\nlimits = { flows = 1000 }");
    assert_eq!(gateway.post("/api/v1/reload", Some(&token), "").status, 200);
    assert_eq!(gateway.modes.lock().unwrap().len(), 4);

    // A datapath that fails is stopped at once, and started when it can be.
    gateway.seen.lock().unwrap().is_gone = true;
    let status = gateway.wait_for("the fault", |status| status.gateways[0].fault.is_some());
    assert!(status.gateways[0].fault.as_deref().is_some_and(|fault| fault.contains("ip link set up")));
    gateway.seen.lock().unwrap().is_gone = false;
    let status = gateway.wait_for("the recovery", |status| status.gateways[0].fault.is_none());
    assert!(digests(&status) >= counted);

    // A recording is made, and complete at the end.
    let answer = gateway.post("/api/v1/record", Some(&token), "{\"seconds\":0.5}");
    let path =
        serde_json::from_str::<serde_json::Value>(&answer.body).unwrap()["path"].as_str().unwrap().to_owned();
    std::thread::sleep(Duration::from_millis(300));
    gateway.stop();
    feeding.join().unwrap();
    assert!(std::fs::metadata(path).unwrap().len() > 500);
    assert!(gateway.seen.lock().unwrap().stopped >= 4);
    assert!(gateway.folder.path().join("journal/roof.journal").exists());
}

#[test]
fn a_gateway_that_cannot_start_leaves_the_others_running_and_comes_later() {
    let seen = Seen { refuses: Some(|mesh, _| mesh != "wlan1"), ..Seen::default() };
    let mut gateway = Running::start_where(
        "mode = \"live\"",
        "[[gateway]]\nmesh = \"wlan1\"",
        seen,
        Some("start.recording"),
    );
    let status = gateway.wait_for("a tick", |status| status.gateways[1].decision.state == "off");
    let fault = status.gateways[0].fault.as_deref();
    assert!(fault.is_some_and(|fault| fault.contains("wlan0 cannot be live")), "{fault:?}");
    assert_eq!(status.gateways[1].fault, None);
    gateway.seen.lock().unwrap().refuses = None;
    gateway.wait_for("the other one", |status| status.gateways[0].fault.is_none());
    assert_eq!(gateway.seen.lock().unwrap().events, ["start wlan1", "start wlan0"]);
    gateway.stop();
    // The recording is of the first gateway alone: both would write into one file.
    let file = gateway.folder.path().join("start.recording");
    let mut reader = Reader::open(&file).unwrap();
    assert_eq!(reader.header().gateway, "roof");
    // Without traffic there are ticks and the start of the datapath, and nothing of another recording is between or after them.
    let (mut bytes, mut starts) = (0, 0);
    while let Some(frame) = reader.next_frame() {
        bytes += match frame {
            Frame::Tick { .. } => 1 + 12 + 57,
            Frame::Event(event) => {
                starts += u32::from(event == Event::Blind);
                5 + serde_json::to_string(&event).unwrap().len() as u64
            }
            Frame::Digest(digest) => panic!("{digest:?}"),
        };
    }
    assert_eq!(starts, 1);
    let header = std::fs::read(&file).unwrap().iter().position(|byte| *byte == b'\n').unwrap() as u64 + 1;
    assert_eq!(std::fs::metadata(&file).unwrap().len(), header + bytes);
}

#[test]
fn a_daemon_of_which_no_gateway_starts_ends_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gateway.toml");
    write_config_with(&config, "", "[[gateway]]\nmesh = \"wlan1\"");
    let seen = Arc::new(Mutex::new(Seen { refuses: Some(|_, _| true), ..Seen::default() }));
    let options = Options { config, ..Options::default() };
    let result = daemon::run(&options, &Signals::default(), &mut |_, gateway, mode| {
        Ok(Box::new(Fake::start(&seen, &gateway.mesh, mode)?) as Box<dyn Datapath>)
    });
    let error = result.unwrap_err().to_string();
    assert!(error.starts_with("gateway roof: wlan0 cannot be dry-run"), "{error}");
}

/// Its start would remove the queues of the first one.
#[test]
fn a_second_daemon_ends_before_it_starts_a_datapath() {
    let first = Running::start("mode = \"live\"");
    let text = std::fs::read_to_string(first.config()).unwrap();
    let path = first.folder.path().join("second.toml");
    std::fs::write(&path, text.replace("127.0.0.1:0", &first.address.to_string())).unwrap();
    let options = Options { config: path, ..Options::default() };
    let result = daemon::run(&options, &Signals::default(), &mut |_, _, _| panic!("a datapath is started"));
    let message = result.expect_err("the address is in use").to_string();
    assert!(message.contains("a gateway runs already"), "{message}");
}

#[test]
fn a_mode_that_is_refused_changes_nothing_and_is_refused_again() {
    let second = "[[gateway]]\nmesh = \"wlan1\"";
    let seen = Seen { refuses: Some(|mesh, mode| mesh == "wlan1" && mode == Mode::Live), ..Seen::default() };
    let mut gateway = Running::start_where("mode = \"dry-run\"", second, seen, None);
    let token = gateway.token();
    let post = |mode: &str| {
        gateway.seen.lock().unwrap().events.clear();
        gateway.modes.lock().unwrap().clear();
        gateway.post("/api/v1/mode", Some(&token), &format!("{{\"mode\":\"{mode}\"}}"))
    };
    let events = || gateway.seen.lock().unwrap().events.clone();
    for _ in 0..2 {
        let answer = post("live");
        assert!(answer.status == 409 && answer.body.contains("wlan1 cannot be live"), "{}", answer.body);
        // The first one was live already, and both are as before.
        assert_eq!(*gateway.modes.lock().unwrap(), [Mode::Live, Mode::DryRun, Mode::DryRun]);
        let wanted = ["stop wlan0", "start wlan0", "stop wlan1", "stop wlan0", "start wlan0", "start wlan1"];
        assert_eq!(events(), wanted);
        // Younger than what was shown before the request.
        std::thread::sleep(Duration::from_millis(600));
        let status = gateway.status();
        assert_eq!(status.mode, "dry-run");
        assert!(status.gateways.iter().all(|gateway| gateway.fault.is_none()));
    }
    // Modes that touch no packet have the same datapath.
    assert_eq!(post("observe").status, 200);
    assert_eq!(post("dry-run").status, 200);
    assert_eq!(events(), [""; 0]);
    // A gateway that has failed before does not keep the others from a mode, and comes back in it.
    gateway.seen.lock().unwrap().refuses = Some(|mesh, _| mesh == "wlan1");
    write_config_with(&gateway.config(), "mode = \"dry-run\"\nlimits = { flows = 1000 }", second);
    assert_eq!(gateway.post("/api/v1/reload", Some(&token), "").status, 200);
    gateway.wait_for("the fault", |status| status.gateways[1].fault.is_some());
    assert_eq!(post("live").body, "{\"mode\":\"live\"}");
    assert_eq!(events(), ["stop wlan0", "start wlan0"]);
    gateway.seen.lock().unwrap().refuses = None;
    gateway.wait_for("the way back", |status| {
        status.mode == "live" && status.gateways.iter().all(|gateway| gateway.fault.is_none())
    });
    assert_eq!(*gateway.modes.lock().unwrap(), [Mode::Live, Mode::Live]);
    gateway.stop();
}

/// Queues and filters have the same handles and names in every gateway: one that stops late would remove those of its successor.
#[test]
fn a_reload_stops_what_changes_before_it_starts_anything_and_leaves_the_rest_alone() {
    // Control that needs the interface.
    let wired = "wired = \"eth0\"\ncontrol = { kind = \"ack-pacing\", rate_kbps = 500 }";
    let mut gateway =
        Running::start_with("mode = \"dry-run\"", &format!("[[gateway]]\nmesh = \"wlan1\"\n{wired}"));
    let token = gateway.token();
    let reload = |text: &str| {
        gateway.seen.lock().unwrap().events.clear();
        let config = std::fs::read_to_string(gateway.config()).unwrap();
        let (_, rest) = config.split_once("\n[api]").unwrap();
        std::fs::write(gateway.config(), format!("mode = \"dry-run\"\n{text}\n[api]{rest}")).unwrap();
        let answer = gateway.post("/api/v1/reload", Some(&token), "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        gateway.seen.lock().unwrap().events.clone()
    };
    let at = |name: &str, mesh: &str, more: &str| {
        format!("[[gateway]]\nname = \"{name}\"\nmesh = \"{mesh}\"\n{more}\n")
    };
    // A new name for the same interface.
    let events = reload(&(at("attic", "wlan0", "") + &at("wlan1", "wlan1", wired)));
    assert_eq!(events, ["stop wlan0", "start wlan0"]);
    // An interface that goes from one gateway to another, in either order of the two.
    let events = reload(&(at("attic", "wlan0", wired) + &at("wlan1", "wlan1", "")));
    assert_eq!(events, ["stop wlan0", "stop wlan1", "start wlan0", "start wlan1"]);
    let events = reload(&(at("wlan1", "wlan1", wired) + &at("attic", "wlan0", "")));
    assert_eq!(events, ["stop wlan1", "stop wlan0", "start wlan1", "start wlan0"]);
    // Two that change their places.
    let events = reload(&(at("wlan1", "wlan0", wired) + &at("attic", "wlan1", "")));
    assert_eq!(events[2..], ["start wlan0", "start wlan1"]);
    // Adaptive control leaves the wired interface alone, so that nothing changes for the datapath.
    assert_eq!(
        reload(&(at("wlan1", "wlan0", "wired = \"eth0\"") + &at("attic", "wlan1", ""))),
        ["stop wlan0", "start wlan0"]
    );
    assert_eq!(reload(&(at("wlan1", "wlan0", "") + &at("attic", "wlan1", ""))), [""; 0]);
    // What one that ends has, is free for one that begins.
    assert_eq!(reload(&at("cellar", "wlan0", "")), ["stop wlan0", "stop wlan1", "start wlan0"]);
    assert_eq!(reload(&at("cellar", "wlan0", "")), [""; 0]);
    gateway.stop();
}

#[test]
fn a_reload_changes_folder_and_size_of_the_journal() {
    let mut gateway = Running::start("mode = \"dry-run\"");
    let token = gateway.token();
    let folder = gateway.folder.path().to_owned();
    let reload = |from: &str, to: &str| {
        let config = std::fs::read_to_string(gateway.config()).unwrap();
        std::fs::write(gateway.config(), config.replace(from, to)).unwrap();
        let answer = gateway.post("/api/v1/reload", Some(&token), "");
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    let lines =
        |file: &str| std::fs::read_to_string(folder.join(file)).map_or(0, |text| text.lines().count());
    let wait_for = |file: &str| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while lines(file) == 0 {
            assert!(Instant::now() < deadline, "waits for {file}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("journal/roof.journal");
    // A file of half the new size is full.
    std::fs::write(folder.join("journal/roof.journal"), "\n".repeat(8000)).unwrap();
    reload("[journal]", "[journal]\nmax_kb = 16");
    wait_for("journal/roof.journal.old");
    wait_for("journal/roof.journal");
    reload("/journal\"", "/other\"");
    wait_for("other/roof.journal");
    // A folder that cannot be made (it would be below a file) leaves the journal as it is.
    reload("/other\"", "/gateway.toml/other\"");
    reload("/gateway.toml/other\"", "/third\"");
    wait_for("third/roof.journal");
    gateway.stop();
}

/// The address of the service manager is in the environment, so that the daemon needs a process of its own.
#[test]
fn the_service_manager_gets_ready_when_a_reload_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "daemon::daemon_under_a_service_manager", "--ignored", "--nocapture"])
        .env("NOTIFY_SOCKET", folder.path().join("notify"))
        .output()
        .unwrap();
    let output = [child.stdout, child.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(child.status.success() && output[0].contains("1 passed"), "{output:?}");
}

/// Not a test of its own: the process of the test above.
#[test]
#[ignore = "part of another test"]
fn daemon_under_a_service_manager() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let manager = UnixDatagram::bind(socket).unwrap();
    manager.set_nonblocking(true).unwrap();
    let seen = Seen { manager: Some(manager), ..Seen::default() };
    let mut gateway = Running::start_where("mode = \"dry-run\"", "", seen, None);
    let token = gateway.token();
    let reload = |lines: &str| {
        write_config(&gateway.config(), lines);
        let status = gateway.post("/api/v1/reload", Some(&token), "").status;
        let mut seen = gateway.seen.lock().unwrap();
        seen.hear();
        let mut events = std::mem::take(&mut seen.events);
        // RELOADING=1 has a time, too.
        events
            .iter_mut()
            .filter(|event| event.starts_with("RELOADING=1\n"))
            .for_each(|event| event.truncate(11));
        (status, events)
    };
    let (status, events) = reload("mode = \"liv\"");
    assert_eq!(status, 409);
    let wanted = ["start wlan0", "READY=1\nSTATUS=dry-run", "RELOADING=1", "READY=1\nSTATUS=dry-run"];
    assert_eq!(events, wanted);
    let (status, events) = reload("mode = \"live\"");
    assert_eq!(status, 200);
    assert_eq!(events, ["RELOADING=1", "stop wlan0", "start wlan0", "READY=1\nSTATUS=live"]);
    gateway.stop();
}

/// Whether raw sockets can be opened, which need root. In CI they must.
fn may_probe() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(std::env::var_os("CI").is_none(), "raw sockets need root");
        eprintln!("skipped: raw sockets need root");
    }
    root
}

#[test]
fn probed_hosts_are_shown_with_what_their_replies_show_and_are_no_calls() {
    let probe = |hosts: &str| format!("probe = {{ hosts = [{hosts}], interval_ms = 20 }}");
    if !may_probe() {
        return;
    }
    let mut gateway = Running::start_with("mode = \"dry-run\"", &probe("\"127.0.0.1\", \"::1\""));
    let status = gateway.wait_for("replies", |status| {
        status.gateways[0].probes.iter().all(|probe| probe.round_trip.is_some())
    });
    let hosts: Vec<&str> = status.gateways[0].probes.iter().map(|probe| probe.host.as_str()).collect();
    assert_eq!(hosts, ["127.0.0.1", "::1"]);
    assert!(
        status.gateways[0].probes.iter().all(|probe| probe.round_trip.is_some_and(|found| found.loss < 0.5))
    );
    assert!(status.gateways[0].calls.is_empty() && status.gateways[0].decision.mos.is_none());
    assert!(gateway.get("/metrics").body.contains("fairhop_probe_loss_ratio{gateway=\"roof\",host=\"::1\"}"));
    // Other hosts, none, and the first ones again need no new rights, which the daemon has given up.
    for (reloads, hosts) in [(1, &["::1"][..]), (2, &[]), (3, &["127.0.0.1", "::1"])] {
        let quoted = hosts.iter().map(|host| format!("\"{host}\"")).collect::<Vec<_>>().join(", ");
        let setting = if hosts.is_empty() { String::new() } else { probe(&quoted) };
        write_config_with(&gateway.config(), "mode = \"dry-run\"", &setting);
        gateway.signals.reload.store(true, Ordering::Relaxed);
        gateway.wait_for("the hosts of the reload", |status| {
            let probes = &status.gateways[0].probes;
            status.reloads == reloads
                && probes.iter().map(|probe| probe.host.as_str()).eq(hosts.iter().copied())
                && probes.iter().all(|probe| probe.round_trip.is_some())
        });
    }
    // None of them starts the datapath anew.
    assert_eq!(gateway.modes.lock().unwrap().len(), 1);
    gateway.stop();
}

#[test]
fn hosts_that_are_asked_for_later_are_probed_while_others_go_on() {
    if !may_probe() {
        return;
    }
    let mut prober = Prober::open();
    prober.set(Some(&ProbeSetting { hosts: Vec::new(), calls: true, interval_ms: 10 })).unwrap();
    assert!(prober.next_until(Nanos::MAX).is_none());
    // The numbers of the next 20 replies of each host.
    let mut replies = |hosts: &[&str]| {
        prober.also(hosts.iter().map(|host| host.parse().unwrap()));
        let (mut numbers, mut other) = (vec![Vec::new(); hosts.len()], 0);
        let deadline = Instant::now() + Duration::from_secs(20);
        while numbers.iter().any(|numbers| numbers.len() < 20) {
            assert!(Instant::now() < deadline, "waits for replies: {numbers:?}");
            std::thread::sleep(Duration::from_millis(5));
            while let Some(digest) = prober.next_until(Nanos::MAX) {
                let digest = Digest::try_from(&digest).unwrap();
                let Payload::Rtp(RtpFields { sequence, .. }) = digest.payload else { panic!("{digest:?}") };
                let host = hosts.iter().position(|host| digest.flow().mesh.to_string() == *host);
                match host {
                    Some(host) if digest.direction == Direction::FromMesh => numbers[host].push(sequence),
                    Some(_) => {}
                    None => other += 1,
                }
            }
        }
        (numbers, other)
    };
    let (first, _) = replies(&["127.0.0.1"]);
    assert_eq!(first[0][0], 0);
    let (both, _) = replies(&["::1", "127.0.0.1"]);
    assert!(both[0][0] == 0 && both[1][0] > 0, "{both:?}");
    // Packets that were on their way, and no more.
    let (_, late) = replies(&["::1"]);
    assert!(late < 20, "{late} packets of a host that is not probed any more");
}

#[test]
fn nothing_changes_without_the_token() {
    let mut gateway = Running::start("mode = \"dry-run\"");
    let token = gateway.token();
    let bodies = ["", "{}", "{\"mode\":\"live\"}", "{\"seconds\":1}", "null", "[1"];
    let almost = format!("{}0", &token[..token.len() - 1]);
    for path in ["/api/v1/mode", "/api/v1/reload", "/api/v1/record"] {
        for shown in [None, Some(""), Some("x"), Some(almost.as_str())] {
            // The last digit may be right by chance.
            if shown == Some(token.as_str()) {
                continue;
            }
            for body in bodies {
                assert_eq!(gateway.post(path, shown, body).status, 401, "{path} {shown:?} {body}");
            }
        }
        for method in ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "X"] {
            let answer = client::request(gateway.address, method, path, Some(&token), None).unwrap();
            assert_eq!(answer.status, 405, "{method} {path}");
        }
    }
    let status = gateway.status();
    assert_eq!((status.mode.as_str(), status.reloads, status.reloads_refused), ("dry-run", 0, 0));
    assert_eq!(gateway.modes.lock().unwrap().len(), 1);
    // With it, a body that makes no sense is refused with the reason.
    let answer = gateway.post("/api/v1/mode", Some(&token), "{\"mode\":\"on\"}");
    assert!(answer.status == 400 && answer.body.contains("dry-run"), "{}", answer.body);
    assert_eq!(gateway.post("/api/v1/record", Some(&token), "{\"seconds\":1e9}").status, 400);
    assert_eq!(gateway.post("/api/v1/record", Some(&token), "{\"seconds\":1,\"gateway\":\"x\"}").status, 409);
    gateway.stop();
}

/// What a server answers to bytes.
fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_api_has_what_its_document_says_and_survives_what_it_does_not() {
    let mut gateway = Running::start("mode = \"observe\"");
    let document: serde_json::Value = serde_json::from_str(api::OPENAPI).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|_| !path.ends_with("/events")) {
            let answer =
                client::request(gateway.address, &method.to_uppercase(), path, None, Some("{}")).unwrap();
            let wanted = if method == "post" { 401 } else { 200 };
            assert_eq!(answer.status, wanted, "{method} {path}");
        }
    }
    assert_eq!(gateway.get("/api/v1/nothing").status, 404);
    assert_eq!(gateway.get("/api/v1/calls?gateway=attic").status, 404);
    assert_eq!(gateway.get("/api/v1/calls?gateway=roof").body, "{\"roof\":[]}");

    // The keys of a status are those of the document.
    let status: serde_json::Value = serde_json::from_str(&gateway.get("/api/v1/status").body).unwrap();
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let schemas = &document["components"]["schemas"];
    let one = &status["gateways"][0];
    for (value, schema) in [
        (&status, "Status"),
        (one, "Gateway"),
        (&one["datapath"], "Datapath"),
        (&one["decision"], "Decision"),
        (&one["counters"], "Counters"),
        (&one["classes"][0], "Class"),
    ] {
        assert_eq!(keys(value), keys(&schemas[schema]["properties"]), "{schema}");
    }

    // Requests that are not.
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000));
    let headers = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    for (bytes, wanted) in [
        (long.as_bytes(), "HTTP/1.1 431"),
        (headers.as_bytes(), "HTTP/1.1 431"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "HTTP/1.1 400"),
        (
            b"POST /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
            "HTTP/1.1 413",
        ),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 421"),
        (b"GET /metrics", ""),
    ] {
        let answer = raw(gateway.address, bytes);
        assert!(answer.starts_with(wanted), "{answer}");
    }

    // Connections that say nothing leave room for others, up to a maximum.
    let silent: Vec<TcpStream> = (0..24).map(|_| TcpStream::connect(gateway.address).unwrap()).collect();
    assert_eq!(gateway.get("/metrics").status, 200);
    drop(silent);

    // A status is made for the request that asks for it.
    let before = gateway.status().uptime_s;
    std::thread::sleep(Duration::from_millis(700));
    let after = gateway.status().uptime_s;
    assert!(after - before > 0.6, "{before}, then {after}");

    // The stream has a status at once, and another one a second later.
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    let mut chunk = [0; 4096];
    while text.matches("event: status\ndata: {").count() < 2 {
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "{text}");
        text += &String::from_utf8_lossy(&chunk[..count]);
    }
    assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"));
    gateway.stop();
}

#[test]
fn every_metric_has_help_and_the_dashboard_asks_for_metrics_that_exist() {
    let mut status = Status { mode: "live".into(), ..Status::default() };
    let mut one = fairhop_gateway::status::GatewayStatus { name: "ro\"of\\\n".into(), ..Default::default() };
    let direction = fairhop_gateway::status::DirectionStatus { mos: 4.1, ..Default::default() };
    one.calls.push(fairhop_gateway::status::CallStatus {
        mesh: "10.1.0.1:5000".into(),
        mos: Some(4.1),
        up: Some(direction),
        ..Default::default()
    });
    one.decision.budget_kbps = Some(1.0);
    one.decision.down_kbps = Some(1.0);
    one.decision.acks_kbps = Some(1.0);
    one.decision.window_bytes = Some(4096);
    one.classes.push(fairhop_gateway::status::ClassStatus::default());
    one.queues.push(fairhop_gateway::status::QueueStatus::default());
    status.gateways.push(one);
    let text = metrics::render(&status, &metrics::Requests::default());
    let mut known = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            known.push(rest.split(' ').next().unwrap().to_owned());
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            assert_eq!(known.last().map(String::as_str), Some(name), "{line}");
            assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
        }
    }
    assert!(text.contains("gateway=\"ro\\\"of\\\\\\n\""));
    let dashboard = include_str!("../../package/grafana-dashboard.json");
    let _: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let mut asked = 0;
    for at in dashboard.match_indices("fairhop_").map(|(at, _)| at) {
        let name: String =
            dashboard[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        assert!(known.contains(&name), "{name}");
        asked += 1;
    }
    assert!(asked > 10);
}
