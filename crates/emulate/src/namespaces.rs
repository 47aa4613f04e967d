//! Network namespaces with one interface each, and the state file that makes their removal certain.
//!
//! Namespaces are made and removed with `ip` of iproute2; an interface exists as long as its file is open. A state file
//! lists the namespaces *before* they are made. The process that uses them holds a lock on it, which the kernel releases
//! however the process ends: a list without a lock is what is left of an emulation that was killed, and
//! [`Namespaces::set_up`] and [`clean`] remove it. Nothing outside the namespaces is changed: no route, no sysctl, no
//! interface.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fairhop_sim::scenario::{AttachKind, Attachment};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::EmulateError;
use crate::gate::{self, Gate};
use crate::sys::{self, Layer};

/// Prefix of the names of all namespaces.
pub const PREFIX: &str = "fh-";
/// The interface in each of them.
pub const INTERFACE: &str = "fh0";
/// Frames in the ring of a TAP device: the default length of a simulated station's queue, where Linux has 1000.
const LINK_RING: u32 = 50;
/// Maximum number of attached places.
pub const MAX_PLACES: usize = 250;
/// Where `ip netns` keeps namespaces.
const NAMED: &str = "/run/netns";
/// The state file.
const STATE: &str = "/run/fairhop-emulation";
/// How long a process in a namespace has to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// An attached place with its interface.
#[derive(Debug)]
pub struct Port {
    /// Number of the node.
    pub node: u32,
    /// What is real there.
    pub kind: AttachKind,
    /// The name of its namespace.
    pub namespace: String,
    /// The TUN or TAP device.
    pub device: File,
    /// Holds frames back in the kernel; none on an edge, and where the kernel lacks what it needs.
    pub gate: Option<Gate>,
}

/// The namespaces of an emulation. Dropping them removes them.
#[derive(Debug)]
pub struct Namespaces {
    names: Vec<String>,
    state: State,
}

/// The name of the namespace of a place.
pub fn namespace(place: &str) -> String {
    format!("{PREFIX}{place}")
}

impl Namespaces {
    /// Makes a namespace with an interface for each place, with addresses and routes.
    ///
    /// # Errors
    /// Rights, `/dev/net/tun` or `ip` are missing, another emulation runs, a name is taken, or `ip` refuses something.
    /// What was made until then is removed.
    pub fn set_up(places: &[Attachment], scenario: &str) -> Result<(Self, Vec<Port>), EmulateError> {
        match places.len() {
            0 => return Err(EmulateError::Nothing),
            places if places > MAX_PLACES => return Err(EmulateError::TooMany { places, max: MAX_PLACES }),
            _ => {}
        }
        check_rights()?;
        let mut state = State::lock(Path::new(STATE))?;
        remove_all(&state.names)?;
        let names: Vec<String> = places.iter().map(|place| namespace(&place.name)).collect();
        for name in &names {
            if path_of(name).exists() {
                return Err(EmulateError::Exists { name: name.clone() });
            }
        }
        state.write(scenario, &names)?;
        // From here on, a return drops `made` and removes them.
        let made = Self { names, state };
        let mut ports = Vec::with_capacity(places.len());
        for (place, name) in places.iter().zip(&made.names) {
            ports.push(set_up_place(place, name)?);
        }
        Ok((made, ports))
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Ends what runs in the namespaces and removes them.
    ///
    /// # Errors
    /// `ip` refuses to remove one. All others are removed.
    pub fn remove(&mut self) -> Result<(), EmulateError> {
        let removed = remove_all(&self.names);
        if removed.is_ok() {
            self.names.clear();
            self.state.erase();
        }
        removed
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Nobody can act on a failure here; the state file stays, and the next start tries again.
        let _ = self.remove();
    }
}

/// Removes what emulations have left that were killed. The names of what was removed.
///
/// # Errors
/// An emulation is running, rights are missing, or `ip` refuses.
pub fn clean() -> Result<Vec<String>, EmulateError> {
    check_rights()?;
    let mut state = State::lock(Path::new(STATE))?;
    let left: Vec<String> = state.names.iter().filter(|name| path_of(name).exists()).cloned().collect();
    remove_all(&state.names)?;
    state.erase();
    Ok(left)
}

/// The command that runs `program` in the namespace of a place of the running emulation.
///
/// # Errors
/// No such place is attached.
pub fn enter(place: &str, program: &[String]) -> Result<Command, EmulateError> {
    let name = namespace(place.strip_prefix(PREFIX).unwrap_or(place));
    let attached = read_names(Path::new(STATE));
    if !attached.contains(&name) || !path_of(&name).exists() {
        let known = |name: &String| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
        return Err(EmulateError::NotAttached {
            name: place.to_owned(),
            attached: attached.iter().filter(|name| path_of(name).exists()).map(known).collect(),
        });
    }
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &name]).args(program);
    Ok(command)
}

fn path_of(name: &str) -> PathBuf {
    Path::new(NAMED).join(name)
}

/// Whether the process may make namespaces and interfaces, and has what it needs for that.
///
/// # Errors
/// What is missing.
pub fn check_rights() -> Result<(), EmulateError> {
    // Bits of linux/capability.h.
    const NEEDED: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];
    let status = fs::read_to_string("/proc/self/status")
        .map_err(|error| EmulateError::io("read /proc/self/status", error))?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(bit, _)| effective & 1 << bit == 0).map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        return Err(EmulateError::Rights { missing: missing.join(" and ") });
    }
    let tun = File::options().read(true).write(true).open("/dev/net/tun");
    tun.map_err(|source| EmulateError::NoTun { source })?;
    ip(&["-V"], "").map(|_| ())
}

/// Runs `ip` with a text for its standard input.
fn ip(arguments: &[&str], input: &str) -> Result<Output, EmulateError> {
    let no_ip = |source| EmulateError::NoIp { source };
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(no_ip)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may end early; its message says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(no_ip)?;
    if output.status.success() {
        return Ok(output);
    }
    let mut command = arguments.join(" ");
    if !input.is_empty() {
        command = format!("{command}` with the lines `{}", input.trim_end().replace('\n', "; "));
    }
    Err(EmulateError::Ip { command, message: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}

fn set_up_place(place: &Attachment, name: &str) -> Result<Port, EmulateError> {
    ip(&["netns", "add", name], "")?;
    let layer = match place.kind {
        AttachKind::Edge => Layer::Ip,
        AttachKind::Link => Layer::Ethernet,
    };
    let device = in_namespace(name, move || {
        // Kernels without IPv6 have none of its files.
        for (file, value) in sysctls(layer) {
            let _ = fs::write(Path::new("/proc/sys/net").join(file), value);
        }
        sys::open_device(INTERFACE, layer)
    })?;
    ip(&["-n", name, "-batch", "-"], &batch(place, Path::new("/proc/sys/net/ipv6").exists()))?;
    let gate = match place.kind {
        AttachKind::Edge => None,
        AttachKind::Link => set_up_gate(name),
    };
    Ok(Port { node: place.node, kind: place.kind, namespace: name.to_owned(), device, gate })
}

/// The gate of a link; none where there is no `tc`, or the kernel lacks the qdiscs.
fn set_up_gate(name: &str) -> Option<Gate> {
    if ip(&["netns", "exec", name, "tc", "-batch", "-"], &gate::batch(INTERFACE)).is_ok() {
        return in_namespace(name, || Gate::open(INTERFACE)).ok();
    }
    // A part of it would hold back frames for ever.
    let _ = ip(&["netns", "exec", name, "tc", "qdisc", "del", "dev", INTERFACE, "root"], "");
    None
}

/// Does something on a thread that has entered a namespace.
fn in_namespace<T: Send + 'static>(
    name: &str,
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, EmulateError> {
    let file = File::open(path_of(name)).map_err(|e| EmulateError::io(format!("open {name}"), e))?;
    let entered = thread::Builder::new().name("setup".into()).spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        act()
    });
    let result = entered.map_err(|e| EmulateError::io("start a thread", e))?.join();
    let action = format!("make the interface of {name}");
    match result {
        Ok(result) => result.map_err(|error| EmulateError::io(action, error)),
        Err(_) => Err(EmulateError::io(action, io::Error::other("a thread has panicked"))),
    }
}

/// Settings of a namespace: nothing is sent that no program has asked for, and nodes of links forward.
fn sysctls(layer: Layer) -> Vec<(&'static str, &'static str)> {
    let mut settings = vec![
        ("ipv6/conf/default/accept_ra", "0"),
        ("ipv6/conf/default/autoconf", "0"),
        ("ipv6/conf/default/router_solicitations", "0"),
        // No wait for duplicates: addresses can be used at once.
        ("ipv6/conf/default/accept_dad", "0"),
    ];
    match layer {
        // A host with one link of its own kind needs no link-local address.
        Layer::Ip => settings.push(("ipv6/conf/default/addr_gen_mode", "1")),
        Layer::Ethernet => settings.extend([
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            // Packets leave by the interface by which they came; that is no detour on a radio channel.
            ("ipv4/conf/all/send_redirects", "0"),
            ("ipv4/conf/default/send_redirects", "0"),
            ("ipv4/conf/default/rp_filter", "0"),
        ]),
    }
    settings
}

/// What `ip -batch` does in the namespace of a place.
fn batch(place: &Attachment, has_ipv6: bool) -> String {
    let mut lines = vec!["link set lo up".to_owned()];
    if place.kind == AttachKind::Link {
        let [a, b, c, d] = place.node.to_be_bytes();
        // The address that captures show.
        lines.push(format!("link set {INTERFACE} address 02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}"));
        lines.push(format!("link set {INTERFACE} txqueuelen {LINK_RING}"));
    }
    lines.push(format!("link set {INTERFACE} up"));
    let mut has_default = [false; 2];
    for (address, length) in place.addresses.iter().filter(|(address, _)| has_ipv6 || address.is_ipv4()) {
        let (everywhere, nodad) = if address.is_ipv4() { ("0.0.0.0/0", "") } else { ("::/0", " nodad") };
        lines.push(format!("address add {address}/{length} dev {INTERFACE}{nodad}"));
        match place.kind {
            AttachKind::Edge => {
                if !std::mem::replace(&mut has_default[usize::from(address.is_ipv6())], true) {
                    lines.push(format!("route replace {everywhere} dev {INTERFACE}"));
                }
            }
            // A single address is in no network: neighbours are found in that of the default addresses.
            AttachKind::Link => lines.extend(
                network_of(*address, *length)
                    .map(|network| format!("route replace {network} dev {INTERFACE}")),
            ),
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The network of neighbours of a single address.
fn network_of(address: IpAddr, length: u8) -> Option<String> {
    match address {
        IpAddr::V4(v4) if length == 32 => {
            let [a, b, ..] = v4.octets();
            Some(format!("{a}.{b}.0.0/16"))
        }
        IpAddr::V6(v6) if length == 128 => Some(format!("{:x}::/64", v6.segments()[0])),
        _ => None,
    }
}

/// Ends what runs in namespaces and removes them. The first failure, after all were tried.
fn remove_all(names: &[String]) -> Result<(), EmulateError> {
    let names: Vec<&String> = names.iter().filter(|name| path_of(name).exists()).collect();
    end_processes(&names);
    let mut result = Ok(());
    for name in &names {
        // All are tried before the first failure is returned.
        result = result.and(ip(&["netns", "del", name], "").map(|_| ()));
    }
    result
}

/// Ends all processes in namespaces: they would go on without a network.
fn end_processes(names: &[&String]) {
    let own = std::process::id();
    let inside = || -> Vec<Pid> {
        let pids = names.iter().filter_map(|name| ip(&["netns", "pids", name], "").ok());
        let text: Vec<String> = pids.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).collect();
        let numbers =
            text.iter().flat_map(|text| text.split_whitespace()).filter_map(|pid| pid.parse::<u32>().ok());
        numbers.filter(|pid| *pid != own).filter_map(|pid| Pid::from_raw(pid as i32)).collect()
    };
    for signal in [Signal::TERM, Signal::KILL] {
        let began = Instant::now();
        let mut left = inside();
        for pid in &left {
            let _ = kill_process(*pid, signal); // it may have ended
        }
        while !left.is_empty() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
            left = inside();
        }
        if left.is_empty() {
            return;
        }
    }
}

/// The state file: a line with process and scenario, then the names of the namespaces.
#[derive(Debug)]
struct State {
    file: File,
    path: PathBuf,
    names: Vec<String>,
}

fn names_in(text: &str) -> Vec<String> {
    // What is removed later was made here: nothing without the prefix.
    text.lines().skip(1).filter(|name| name.starts_with(PREFIX)).map(str::to_owned).collect()
}

fn read_names(path: &Path) -> Vec<String> {
    names_in(&fs::read_to_string(path).unwrap_or_default())
}

/// How often and after which time a lock that another process holds is tried again.
const LOCK_TRIES: u32 = 10;
const LOCK_RETRY: Duration = Duration::from_millis(20);

impl State {
    /// Locks the file.
    fn lock(path: &Path) -> Result<Self, EmulateError> {
        let failed = |error| EmulateError::io(format!("lock {}", path.display()), error);
        let options = || File::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = options().map_err(failed)?;
        let mut text = String::new();
        let lock = || flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from);
        let mut locked = lock();
        // A process that is just being started holds the locks of its parent until it has become another program.
        for _ in 0..LOCK_TRIES {
            if !locked.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                break;
            }
            std::thread::sleep(LOCK_RETRY);
            locked = lock();
        }
        file.read_to_string(&mut text).map_err(failed)?;
        match locked {
            Ok(()) => {
                let _ = file.set_permissions(fs::Permissions::from_mode(0o644));
                Ok(Self { file, path: path.to_owned(), names: names_in(&text) })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut first = text.lines().next().unwrap_or_default().splitn(2, ' ');
                let mut word = || first.next().unwrap_or("unknown").to_owned();
                Err(EmulateError::Busy { process: word(), scenario: word() })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Writes down what is going to be made.
    fn write(&mut self, scenario: &str, names: &[String]) -> Result<(), EmulateError> {
        let text = format!("{} {}\n{}\n", std::process::id(), scenario.replace('\n', " "), names.join("\n"));
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(text.as_bytes())?;
            file.sync_data()
        };
        self.names = names.to_vec();
        write(&mut self.file)
            .map_err(|error| EmulateError::io(format!("write {}", self.path.display()), error))
    }

    /// Nothing is left to be removed. The file stays: removing it would let two processes lock two files.
    fn erase(&mut self) {
        let _ = self.file.set_len(0);
        self.names.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kind: AttachKind) -> Attachment {
        let addresses = vec![("10.77.0.3".parse().expect("v4"), 32), ("fd77::3".parse().expect("v6"), 128)];
        Attachment { node: 3, kind, name: "3".into(), addresses }
    }

    #[test]
    fn an_edge_has_its_addresses_and_one_default_route_of_each_family() {
        assert_eq!(
            batch(&place(AttachKind::Edge), true),
            "link set lo up\nlink set fh0 up\naddress add 10.77.0.3/32 dev fh0\nroute replace 0.0.0.0/0 dev fh0\n\
             address add fd77::3/128 dev fh0 nodad\nroute replace ::/0 dev fh0\n"
        );
        assert!(!batch(&place(AttachKind::Edge), false).contains("fd77"));
    }

    #[test]
    fn a_link_has_the_address_of_captures_and_the_network_of_its_neighbours() {
        let lines = batch(&place(AttachKind::Link), true);
        assert!(lines.contains("link set fh0 address 02:00:00:00:00:03\n"), "{lines}");
        assert!(lines.contains("route replace 10.77.0.0/16 dev fh0\n"), "{lines}");
        assert!(lines.contains("route replace fd77::/64 dev fh0\n"), "{lines}");
    }

    #[test]
    fn a_state_file_is_locked_by_one_and_names_what_it_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let mut state = State::lock(&path).expect("free");
        assert!(state.names.is_empty());
        state.write("a mesh", &["fh-1".into(), "fh-2".into()]).expect("written");
        match State::lock(&path) {
            Err(EmulateError::Busy { process, scenario }) => {
                assert_eq!((process, scenario.as_str()), (std::process::id().to_string(), "a mesh"));
            }
            other => panic!("{other:?}"),
        }
        drop(state);
        let mut state = State::lock(&path).expect("released");
        assert_eq!(state.names, ["fh-1", "fh-2"]);
        state.erase();
        drop(state);
        fs::write(&path, "1 x\nfh-3\nhost-namespace\n").expect("written");
        assert_eq!(State::lock(&path).expect("free").names, ["fh-3"], "only what an emulation can have made");
    }
}
