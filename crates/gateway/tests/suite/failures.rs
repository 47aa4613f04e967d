//! The daemon with the datapath of the kernel, while things fail around it: traffic flows within three seconds.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fairhop_gateway::api::client;
use fairhop_gateway::config::Mode;
use fairhop_gateway::daemon::{self, Options, Signals};
use fairhop_gateway::datapath::kernel::{Kernel, Settings, clean};
use fairhop_gateway::datapath::{Attachment, Datapath};
use fairhop_gateway::status::Status;
use rustix::process::{Pid, Signal, kill_process};

use crate::network::{Network, PORT, Way, attachments, ip};

/// What the datapath has after a failure, and packets too.
const AFTER: Duration = Duration::from_secs(3);
const API: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9470);
/// More digests than the ring buffer holds: 2 MiB, 112 bytes each.
const FLOOD: u32 = 40_000;

/// A daemon in a process of its own, in the namespace of the gateway: it holds downloads at 1 Mb/s.
struct Daemon<'n> {
    network: &'n Network,
    child: Child,
}

fn write_config(folder: &Path, mode: &str, name: &str) {
    let path = folder.display();
    let text = format!(
        "mode = \"{mode}\"\n[[gateway]]\nname = \"{name}\"\nmesh = \"m0\"\nwired = \"w0\"\n\
         [control]\nkind = \"data-pacing\"\nrate_kbps = 1000\n[limits]\nflows = 64\n\
         [api]\ntoken_file = \"{path}/token\"\n[journal]\nfolder = \"{path}/journal\"\n"
    );
    fs::write(folder.join("gateway.toml"), text).unwrap();
}

impl<'n> Daemon<'n> {
    /// `is_bare`: the disk is full from the start, and the kernel has no BTF of its own (both in the daemon's own mounts).
    fn start(network: &'n Network, attachment: Attachment, is_bare: bool) -> Self {
        let folder = network.state.path();
        write_config(folder, "live", "roof");
        let child = Command::new("ip")
            .args(["netns", "exec", &network.gateway])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "failures::daemon_beside_which_things_fail", "--ignored", "--nocapture"])
            .env("FAIRHOP_TEST_STATE", folder)
            .env("FAIRHOP_TEST_ATTACHMENT", attachment.name())
            .env("FAIRHOP_TEST_BARE", is_bare.to_string())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let daemon = Self { network, child };
        daemon.wait_for("the start", |log, _| log.contains("event=ready"));
        daemon
    }

    fn log(&self) -> String {
        fs::read_to_string(self.network.state.path().join("log")).unwrap()
    }

    fn status(&self) -> Option<Status> {
        let get = || client::request(API, "GET", "/api/v1/status", None, None).ok();
        serde_json::from_str(&self.network.within(&self.network.gateway, get)?.body).ok()
    }

    fn wait_for(&self, what: &str, is: impl Fn(&str, Option<&Status>) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is(&self.log(), self.status().as_ref()) {
            assert!(Instant::now() < deadline, "waits for {what}: {}\n{:#?}", self.log(), self.status());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(id, signal).unwrap();
    }

    fn download(&self) -> u64 {
        self.network.transfer(Way::Download, false, Duration::from_millis(300)).join().unwrap()
    }

    /// Traffic flows within three seconds, and is limited soon after. A download that begins finds the packets of the one before
    /// it in the queue, so the first one may get little. In a guest, programs take seconds to load beside traffic without limit.
    fn flows_and_is_limited(&self, what: &str) {
        let began = Instant::now();
        let mut downloads = vec![self.download()];
        while downloads.iter().sum::<u64>() <= 10_000 {
            assert!(began.elapsed() < AFTER, "{what}: {downloads:?} bytes\n{}", self.log());
            downloads.push(self.download());
        }
        while !downloads.last().is_some_and(|bytes| (10_000..100_000).contains(bytes)) {
            assert!(began.elapsed() < 10 * AFTER, "{what}: {downloads:?} bytes\n{}", self.log());
            downloads.push(self.download());
        }
        eprintln!("{what}: limited after {:.1} s", began.elapsed().as_secs_f64());
    }

    /// SIGSTOP while packets flow: the policy expires, the ring buffer overruns, and everything is in force again after
    /// SIGCONT.
    fn is_stopped_and_continued(&self) {
        self.signal(Signal::STOP);
        let stopped = Instant::now();
        self.network.within(&self.network.client, || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            for _ in 0..FLOOD {
                // Refused: nobody listens.
                let _ = socket.send_to(&[0; 20], "10.9.1.1:7009");
            }
        });
        std::thread::sleep(AFTER.saturating_sub(stopped.elapsed()));
        let free = self.download();
        assert!(free > 1_000_000, "{free} bytes, 3 s after SIGSTOP");
        self.signal(Signal::CONT);
        self.wait_for("the count of lost digests", |_, status| {
            status.is_some_and(|status| status.gateways[0].counters.digests_lost > 0)
        });
        self.flows_and_is_limited("SIGCONT");
    }

    /// SIGTERM: nothing is left.
    fn end(mut self) {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
        let network = self.network;
        assert!(network.queue().contains("noqueue") && !network.queue().contains("clsact"));
        let folder = network.state.path().to_owned();
        let left = network.within(&network.gateway, move || clean(&["m0", "w0"], &folder).unwrap());
        assert!(left.is_empty(), "{left:?}");
        let files = fs::read_dir(network.state.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let queues: Vec<_> = files.filter(|name| name.to_string_lossy().ends_with(".queue")).collect();
        assert!(queues.is_empty(), "{queues:?}");
        assert!(self.download() > 1_000_000);
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn full_disk_no_btf_stop_overrun_reload_and_new_addresses() {
    let Some(network) = Network::new() else { return };
    let _server = network.serve();
    let daemon = Daemon::start(&network, attachments()[0], true);
    daemon.flows_and_is_limited("the start");
    daemon.wait_for("the full disk", |log, _| log.contains("event=journal-failed"));

    let folder = network.state.path().to_owned();
    let token = fs::read_to_string(folder.join("token")).unwrap();
    let answer = network.within(&network.gateway, move || {
        client::request(API, "POST", "/api/v1/record", Some(token.trim()), Some("{\"seconds\":60}"))
    });
    daemon.is_stopped_and_continued();
    // The recording has had enough digests by now to be written.
    assert!(
        answer.unwrap().status != 200 || daemon.log().contains("event=recording-ended-early"),
        "{}",
        daemon.log()
    );

    write_config(network.state.path(), "liv", "roof");
    daemon.signal(Signal::HUP);
    daemon.wait_for("the refusal", |_, status| status.is_some_and(|status| status.reloads_refused == 1));
    daemon.flows_and_is_limited("a config with an error");

    // A gateway with another name on the same interface: the queues and filters of both have the same handles and names.
    write_config(network.state.path(), "live", "attic");
    daemon.signal(Signal::HUP);
    daemon.wait_for("the new name", |_, status| {
        status.is_some_and(|status| status.gateways[0].name == "attic" && status.gateways[0].fault.is_none())
    });
    daemon.flows_and_is_limited("a new name");
    assert!(!daemon.log().contains("event=datapath-failed"), "{}", daemon.log());

    for (name, device, old, new) in
        [(&network.gateway, "m0", "10.9.2.2", "10.9.2.3"), (&network.client, "c0", "10.9.2.1", "10.9.2.4")]
    {
        ip(&format!("-n {name} address del {old}/24 dev {device}"));
        ip(&format!("-n {name} address add {new}/24 dev {device}"));
    }
    ip(&format!("-n {} route replace default via 10.9.2.3", network.client));
    daemon.flows_and_is_limited("new addresses");
    daemon.end();
}

/// Without TCX, as on Linux before 6.6.
#[test]
fn without_tcx_stop_full_map_and_interfaces_that_come_and_go() {
    let Some(network) = Network::new() else { return };
    let _server = network.serve();
    let daemon = Daemon::start(&network, Attachment::Clsact, false);
    daemon.flows_and_is_limited("the start");
    daemon.is_stopped_and_continued();

    // 300 flows at a time through maps for 64.
    let began = Instant::now();
    network.within(&network.client, || {
        let address = SocketAddr::from(([10, 9, 1, 1], PORT));
        let mut streams: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
        for stream in &mut streams {
            stream.set_read_timeout(Some(AFTER)).unwrap();
            stream.write_all(&[b'u'; 1000]).unwrap();
        }
        for mut stream in streams {
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server closes when it has everything");
        }
    });
    assert!(began.elapsed() < AFTER, "{:?}", began.elapsed());
    daemon.flows_and_is_limited("a full map");

    ip(&format!("-n {} link set m0 down", network.gateway));
    std::thread::sleep(Duration::from_millis(300));
    ip(&format!("-n {} link set m0 up", network.gateway));
    daemon.flows_and_is_limited("down and up");

    // Classes made for packets of 1500 bytes would drop all of these.
    let set_mtu = |mtu: u32| {
        for (name, device) in [
            (&network.server, "s0"),
            (&network.gateway, "w0"),
            (&network.gateway, "m0"),
            (&network.client, "c0"),
        ] {
            ip(&format!("-n {name} link set {device} mtu {mtu}"));
        }
    };
    set_mtu(4000);
    daemon.flows_and_is_limited("a larger MTU");
    let has_classes = daemon.log().contains("pacing=classes");
    assert_eq!(daemon.log().contains("it had an MTU of 1500"), has_classes, "{}", daemon.log());
    set_mtu(1500);

    ip(&format!("-n {} link del m0", network.gateway));
    network.connect_client();
    daemon.flows_and_is_limited("an interface that is made anew");
    assert!(daemon.log().contains("interface m0: it was removed"), "{}", daemon.log());
    daemon.end();
}

/// Hides what a kernel without BTF has not, and fills a disk for the journal. `ip netns exec` has given this process mounts
/// of its own.
fn mount(kind: &str, folder: &Path) {
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=16k", kind]).arg(folder).status().unwrap();
    assert!(mounted.success());
}

/// Not a test of its own: the process of the tests above.
#[test]
#[ignore = "part of another test"]
fn daemon_beside_which_things_fail() {
    let Some(folder) = std::env::var_os("FAIRHOP_TEST_STATE").map(PathBuf::from) else { return };
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|set| set == value);
    if is("FAIRHOP_TEST_BARE", "true") {
        let btf = Path::new("/sys/kernel/btf");
        if btf.exists() {
            mount("no-btf", btf);
            assert!(!btf.join("vmlinux").exists());
        }
        let journal = folder.join("journal");
        fs::create_dir(&journal).unwrap();
        mount("full", &journal);
        assert!(fs::write(journal.join("filler"), [0; 20_000]).is_err(), "the disk is full");
    }
    let attachment =
        Some(if is("FAIRHOP_TEST_ATTACHMENT", "tcx") { Attachment::Tcx } else { Attachment::Clsact });
    let options = Options { config: folder.join("gateway.toml"), ..Options::default() };
    daemon::run(&options, &Signals::of_process().unwrap(), &mut |config, gateway, mode| {
        let settings = Settings {
            wired: gateway.wired.clone(),
            attachment,
            flows: config.limits.flows,
            observe_only: mode != Mode::Live,
            state_dir: folder.clone(),
            ..Settings::new(&gateway.mesh)
        };
        Ok(Box::new(Kernel::start(settings)?) as Box<dyn Datapath>)
    })
    .unwrap();
}
