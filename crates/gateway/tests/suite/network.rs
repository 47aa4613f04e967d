//! Server, gateway and client in namespaces of their own, with real TCP between them.
//!
//! ```text
//!  server ── s0 ~ w0 ── gateway ── m0 ~ c0 ── client
//!         10.9.1.0/24             10.9.2.0/24
//! ```

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairhop_control::raw::RawDigest;
use fairhop_gateway::datapath::kernel::{Kernel, Settings};
use fairhop_gateway::datapath::{Attachment, Datapath, Pacing};
use fairhop_gateway::doctor;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub(crate) const PORT: u16 = 7007;
/// Time in which hosts find each other.
const NEIGHBOURS: Duration = Duration::from_secs(20);

/// The network of a test, removed with it.
pub(crate) struct Network {
    pub(crate) server: String,
    pub(crate) gateway: String,
    pub(crate) client: String,
    pub(crate) state: tempfile::TempDir,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Download,
    Upload,
}

fn run(program: &str, arguments: &str) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments.split_whitespace()).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Ways to attach programs that this kernel has.
pub(crate) fn attachments() -> Vec<Attachment> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let has_tcx = doctor::version(&release).is_some_and(|version| version >= doctor::WITH_TCX);
    if has_tcx { vec![Attachment::Tcx, Attachment::Clsact] } else { vec![Attachment::Clsact] }
}

pub(crate) fn ip(arguments: &str) -> String {
    run("ip", arguments).unwrap()
}

impl Network {
    /// None, with a message, where rights or programs are missing.
    pub(crate) fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let is_missing = |what: &str| {
            assert!(std::env::var_os("CI").is_none(), "{what}");
            eprintln!("skipped: {what}");
        };
        if !rustix::process::geteuid().is_root() {
            is_missing("namespaces need root");
            return None;
        }
        if let Err(error) = run("ethtool", "--version").and(run("tc", "-V")) {
            is_missing(&format!("{error}; fix: apt-get install ethtool iproute2"));
            return None;
        }
        let tag = format!("fhg{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let [server, gateway, client] = ["s", "g", "c"].map(|end| format!("{tag}{end}"));
        let network = Self { server, gateway, client, state: tempfile::tempdir().unwrap() };
        let Self { server: s, gateway: g, client: c, .. } = &network;
        for name in [s, g, c] {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
            network.within(name, || {
                for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                    fs::write(Path::new("/proc/sys/net").join(file), "1").unwrap();
                }
                // Link-local addresses work at once: a first SYN over IPv6 is not lost.
                fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap();
            });
        }
        network.connect([(s, "s0", 1, 1), (g, "w0", 1, 2)]);
        network.connect_client();
        Some(network)
    }

    /// A link between two ends, each with its namespace, device, number of the link and of the host; the default route of
    /// the first end leads to the second.
    fn connect(&self, ends: [(&str, &str, u8, u8); 2]) {
        let [(near, near_device, link, _), (far, far_device, ..)] = ends;
        ip(&format!("link add {near_device} netns {near} type veth peer name {far_device} netns {far}"));
        for (name, device, link, host) in ends {
            ip(&format!("-n {name} address add 10.9.{link}.{host}/24 dev {device}"));
            ip(&format!("-n {name} address add fd09:{link}::{host}/64 dev {device} nodad"));
            ip(&format!("-n {name} link set {device} up"));
            // Real packets and real checksums.
            let features = "tso off gso off gro off tx off rx off";
            ip(&format!("netns exec {name} ethtool -K {device} {features}"));
        }
        ip(&format!("-n {near} route add default via 10.9.{link}.2"));
        ip(&format!("-n {near} -6 route add default via fd09:{link}::2"));
    }

    /// The link between gateway and client: at the start, and after `m0` was removed.
    pub(crate) fn connect_client(&self) {
        self.connect([(&self.client, "c0", 2, 1), (&self.gateway, "m0", 2, 2)]);
    }

    /// Does something on a thread in a namespace.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = PathBuf::from("/run/netns").join(name);
        thread::spawn(move || {
            let file = fs::File::open(path).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            act()
        })
    }

    pub(crate) fn within<T: Send + 'static>(
        &self,
        name: &str,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.spawn(name, act).join().unwrap()
    }

    /// A datapath in the gateway.
    pub(crate) fn datapath(&self, change: impl FnOnce(&mut Settings) + Send + 'static) -> Kernel {
        let mut settings = Settings::new("m0");
        settings.wired = Some("w0".into());
        settings.state_dir = self.state.path().to_owned();
        change(&mut settings);
        self.within(&self.gateway.clone(), move || Kernel::start(settings)).unwrap()
    }

    /// Digests of all packets of an end, with the times at which they passed its interface.
    pub(crate) fn capture(&self, name: &str, device: &'static str) -> Kernel {
        let folder = self.state.path().to_owned();
        self.within(name, move || {
            let settings = Settings { observe_only: true, state_dir: folder, ..Settings::new(device) };
            Kernel::start(settings).unwrap()
        })
    }

    /// A server of downloads and uploads: it obeys the first byte of a connection.
    pub(crate) fn serve(&self) -> Server {
        let ends = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ends);
        let listener =
            self.within(&self.server.clone(), || TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).unwrap());
        listener.set_nonblocking(true).unwrap();
        let thread = thread::spawn(move || {
            let mut connections = Vec::new();
            while !flag.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        connections.push(thread::spawn(move || serve(stream)));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Server { ends, thread: Some(thread) }
    }

    /// Bytes that a transfer of the client moves in a time.
    pub(crate) fn transfer(&self, way: Way, is_v6: bool, time: Duration) -> JoinHandle<u64> {
        self.spawn(&self.client, move || {
            let address: IpAddr =
                if is_v6 { "fd09:1::1".parse().unwrap() } else { Ipv4Addr::new(10, 9, 1, 1).into() };
            let called = Instant::now();
            let mut stream = loop {
                match TcpStream::connect(SocketAddr::new(address, PORT)) {
                    Ok(stream) => break stream,
                    // On a loaded machine, a new link takes seconds to know its neighbours over IPv6.
                    Err(error)
                        if error.kind() == ErrorKind::HostUnreachable && called.elapsed() < NEIGHBOURS => {}
                    Err(error) => panic!("{address}: {error}"),
                }
            };
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            stream.write_all(if way == Way::Download { b"d" } else { b"u" }).unwrap();
            let began = Instant::now();
            let mut buffer = vec![0; 1 << 16];
            let mut bytes = 0;
            while began.elapsed() < time {
                let moved = match way {
                    Way::Download => stream.read(&mut buffer),
                    Way::Upload => stream.write(&buffer),
                };
                bytes += moved.unwrap_or(0) as u64;
                if way == Way::Upload {
                    // Bursts of 64 KiB, four times a window: captures keep up with the packets.
                    thread::sleep(Duration::from_millis(10));
                }
            }
            bytes
        })
    }

    /// Segments with wrong checksums that an end has received.
    pub(crate) fn checksum_errors(&self, name: &str) -> u64 {
        self.tcp_counter(name, "InCsumErrors")
    }

    /// A counter of TCP of an end (RFC 4022).
    pub(crate) fn tcp_counter(&self, name: &str, counter: &'static str) -> u64 {
        self.within(name, move || {
            let text = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
            let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
            let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
            let place = names.split(' ').position(|name| name == counter).unwrap();
            values.split(' ').nth(place).unwrap().parse().unwrap()
        })
    }

    /// The best way of pacing of this kernel that has a queue on the interface.
    pub(crate) fn best_queue(&self) -> Pacing {
        let way_in = format!("netns exec {} tc qdisc add dev lo root fq", self.gateway);
        let has_fq = run("ip", &way_in).is_ok();
        if has_fq {
            ip(&format!("netns exec {} tc qdisc del dev lo root", self.gateway));
        }
        if has_fq { Pacing::DepartureTimes } else { Pacing::Classes }
    }

    /// Whether there is a pair of interfaces for packets that are too early.
    pub(crate) fn has_park(&self) -> bool {
        ip(&format!("-n {} link", self.gateway)).contains("fhpark")
    }

    /// Root queue of the mesh's interface, as `tc` shows it.
    pub(crate) fn queue(&self) -> String {
        ip(&format!("netns exec {} tc qdisc show dev m0", self.gateway))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.server, &self.gateway, &self.client] {
            let _ = run("ip", &format!("netns del {name}"));
        }
    }
}

fn serve(mut stream: TcpStream) {
    let mut way = [0];
    let mut buffer = vec![0; 1 << 16];
    if stream.read_exact(&mut way).is_ok() {
        // Until the client closes.
        if way[0] == b'd' {
            while stream.write(&buffer).is_ok() {}
        } else {
            while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        }
    }
}

/// A running server.
pub(crate) struct Server {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All digests so far.
pub(crate) fn digests(kernel: &mut Kernel) -> Vec<RawDigest> {
    let mut all = Vec::new();
    kernel.poll_digests(&mut |digest| all.push(*digest)).unwrap();
    all
}
