//! Active probes: echo requests to hosts of the mesh, so that the controller learns how calls fare that do not pass the gateway, or that
//! have no reports ([`unreported`]).
//!
//! A thread of its own sends them, since the observer judges packets by their steady interval, which the daemon's loop does not
//! keep. A request that left late is taken back out of its reply's time of arrival. Requests go where the machine's routes lead.
//!
//! Raw sockets need CAP_NET_RAW (`raw(7)`), so they are opened before the daemon gives its rights up, hosts or not: a reload may
//! bring the first one.

pub mod unreported;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fairhop_control::Direction;
use fairhop_control::digest::Probe;
use fairhop_control::raw::RawDigest;
use fairhop_model::checksum::{complement, sum_words};
use fairhop_model::units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recvfrom, sendto, socket, sockopt,
};

use crate::config::ProbeSetting;
use crate::daemon::monotonic;

/// Bytes of a request after the IP header, so that the packet is as large as one of a G.729A call.
const V4_BYTES: usize = Probe::VOICE_BYTES as usize - 20;
/// Type and code of a request and of its reply, ICMP and ICMPv6 (RFC 792, RFC 4443 §4).
const V4_REQUEST: u8 = 8;
const V4_REPLY: u8 = 0;
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;
/// Digests that wait for the daemon's loop: 2 s of 16 hosts every 10 ms.
const MAX_WAITING: usize = 6_400;
/// Requests that would leave later than this begin anew.
const MAX_LATE: Nanos = Nanos::from_millis(200);
/// Longest time for which the thread sleeps: it looks for the end then.
const MAX_SLEEP: Nanos = Nanos::from_millis(100);
/// Memory of a socket for packets that wait, in bytes: the kernel's default, which holds 250 replies.
const BUFFER: usize = 106_496;
/// The same without probes. The kernel raises it to its minimum. Each raw socket gets a copy of all ICMP packets, which nobody reads
/// then.
const IDLE_BUFFER: usize = 1;

/// Probes of one gateway.
#[derive(Debug)]
pub struct Prober {
    /// None without probes.
    setting: Option<ProbeSetting>,
    /// Those that the setting names, and those that have been asked for besides.
    hosts: Vec<IpAddr>,
    sockets: Sockets,
    running: Option<Running>,
    /// The next digest, where it has been taken out of the channel and is later than what was asked for.
    next: Option<RawDigest>,
}

#[derive(Debug)]
struct Running {
    digests: Receiver<RawDigest>,
    /// All hosts that are to be probed from now on.
    hosts: Sender<Vec<IpAddr>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A raw socket for each family, or why there is none.
#[derive(Clone, Debug)]
struct Sockets {
    v4: Result<Arc<OwnedFd>, Errno>,
    v6: Result<Arc<OwnedFd>, Errno>,
}

impl Sockets {
    fn open() -> Self {
        Self { v4: raw(AddressFamily::INET).map(Arc::new), v6: raw(AddressFamily::INET6).map(Arc::new) }
    }

    const fn of(&self, host: IpAddr) -> &Result<Arc<OwnedFd>, Errno> {
        if host.is_ipv4() { &self.v4 } else { &self.v6 }
    }

    /// Whether it is for IPv4, and the socket.
    fn all(&self) -> impl Iterator<Item = (bool, &OwnedFd)> {
        let families = [(true, &self.v4), (false, &self.v6)];
        families.into_iter().filter_map(|(is_v4, fd)| Some((is_v4, fd.as_deref().ok()?)))
    }

    /// Sets the memory of each. An error is ignored: with less memory, replies are lost while the thread is late.
    fn set_buffers(&self, bytes: usize) {
        for (_, fd) in self.all() {
            let _ = sockopt::set_socket_recv_buffer_size(fd, bytes);
        }
    }
}

impl Prober {
    /// Opens the sockets where this process may. Without hosts ([`Prober::set`]) nothing is sent.
    pub fn open() -> Self {
        let sockets = Sockets::open();
        sockets.set_buffers(IDLE_BUFFER);
        Self { setting: None, hosts: Vec::new(), sockets, running: None, next: None }
    }

    /// Changes hosts and interval.
    ///
    /// # Errors
    /// A family of addresses, of which hosts cannot be probed since there was no right to open a socket. Those of the other one are.
    pub fn set(&mut self, setting: Option<&ProbeSetting>) -> Result<(), (&'static str, io::Error)> {
        if setting != self.setting.as_ref() {
            self.setting = setting.cloned();
            (self.running, self.next) = (None, None);
            self.hosts = setting.into_iter().flat_map(ProbeSetting::addresses).collect();
            self.sockets.set_buffers(if setting.is_some() { BUFFER } else { IDLE_BUFFER });
        }
        // Calls may be of each family that the kernel has.
        let calls = setting.is_some_and(|setting| setting.calls);
        let families = [(true, "IPv4", &self.sockets.v4), (false, "IPv6", &self.sockets.v6)];
        for (is_v4, family, socket) in families {
            if let Err(error) = socket
                && (calls && *error != Errno::AFNOSUPPORT
                    || self.hosts.iter().any(|host| host.is_ipv4() == is_v4))
            {
                return Err((family, (*error).into()));
            }
        }
        Ok(())
    }

    /// Probes these hosts as well, in place of those that it was given so before.
    pub fn also(&mut self, others: impl Iterator<Item = IpAddr>) {
        let Some(setting) = &self.setting else { return };
        let mut hosts: Vec<IpAddr> = setting.addresses().collect();
        for host in others {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        if hosts != self.hosts {
            if let Some(running) = &self.running {
                let _ = running.hosts.send(hosts.clone());
            }
            self.hosts = hosts;
        }
    }

    /// The hosts that are probed.
    pub fn hosts(&self) -> &[IpAddr] {
        &self.hosts
    }

    /// The next digest up to a time. The first call with hosts starts the probes.
    pub fn next_until(&mut self, at: Nanos) -> Option<RawDigest> {
        let interval_ms = self.setting.as_ref()?.interval_ms;
        if self.running.is_none() {
            if self.hosts.is_empty() {
                return None;
            }
            self.running = Some(Running::start(interval_ms, &self.hosts, &self.sockets));
        }
        let running = self.running.as_ref()?;
        let next = self.next.take().or_else(|| running.digests.try_recv().ok())?;
        if next.at > at.0 {
            self.next = Some(next);
            return None;
        }
        Some(next)
    }
}

impl Running {
    fn start(interval_ms: u16, hosts: &[IpAddr], sockets: &Sockets) -> Self {
        let (sender, digests) = sync_channel(MAX_WAITING);
        let (changes, changed) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let mut worker = Worker {
            sockets: sockets.clone(),
            interval_ms,
            targets: Vec::new(),
            // Two daemons on one machine, and other programs, have others.
            identifier: (std::process::id() as u16).wrapping_mul(31),
            digests: sender,
            changed,
            stop: Arc::clone(&stop),
        };
        worker.set_hosts(hosts);
        let thread = std::thread::Builder::new().name("probes".into()).spawn(move || worker.run()).ok();
        Self { digests, hosts: changes, stop, thread }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn raw(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let is_v4 = family == AddressFamily::INET;
    let fd = socket(family, SocketType::RAW, Some(if is_v4 { ipproto::ICMP } else { ipproto::ICMPV6 }))?;
    if is_v4 {
        sockopt::set_ip_tos(&fd, Probe::TRAFFIC_CLASS)?;
    } else {
        sockopt::set_ipv6_tclass(&fd, u32::from(Probe::TRAFFIC_CLASS))?;
    }
    Ok(fd)
}

/// A host that is probed.
struct Target {
    host: IpAddr,
    probe: Probe,
    /// Requests sent, and when the first one was due.
    count: u32,
    began: Nanos,
    /// How late each of the last requests left, by sequence number.
    late: [Nanos; Self::KEPT],
}

impl Target {
    /// Requests whose replies are waited for: 2.5 s at 10 ms.
    const KEPT: usize = 256;

    fn due(&self) -> Nanos {
        let after = u64::from(self.count) * u64::from(self.probe.interval_ms) * 1_000_000;
        Nanos(self.began.0.saturating_add(after))
    }
}

struct Worker {
    sockets: Sockets,
    interval_ms: u16,
    targets: Vec<Target>,
    /// That of the next target.
    identifier: u16,
    digests: SyncSender<RawDigest>,
    changed: Receiver<Vec<IpAddr>>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    /// Probes these hosts from now on. What is known of those that it probes already stays.
    fn set_hosts(&mut self, hosts: &[IpAddr]) {
        self.targets.retain(|target| hosts.contains(&target.host));
        let now = monotonic();
        for (index, &host) in hosts.iter().enumerate() {
            // A host without a socket would always be due.
            if self.sockets.of(host).is_err() || self.targets.iter().any(|target| target.host == host) {
                continue;
            }
            // Requests are spread over the interval.
            let after = index as u64 * u64::from(self.interval_ms) * 1_000_000 / hosts.len() as u64;
            self.identifier = self.identifier.wrapping_add(1);
            let probe = Probe {
                gateway: own_address(host).unwrap_or(Ipv4Addr::UNSPECIFIED.into()).into(),
                host: host.into(),
                identifier: self.identifier,
                interval_ms: self.interval_ms,
                bytes: Probe::VOICE_BYTES,
            };
            let (began, late) = (now.saturating_add(Nanos(after)), [Nanos::ZERO; Target::KEPT]);
            self.targets.push(Target { host, probe, count: 0, began, late });
        }
    }

    fn run(&mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(hosts) = self.changed.try_iter().last() {
                self.set_hosts(&hosts);
            }
            self.send(monotonic());
            let due = self.targets.iter().map(Target::due).min().unwrap_or(Nanos::MAX);
            self.wait(due.saturating_sub(monotonic()).min(MAX_SLEEP));
            while self.receive() {}
        }
    }

    /// Sends what is due.
    fn send(&mut self, now: Nanos) {
        for target in &mut self.targets {
            let due = target.due();
            if now < due {
                continue;
            }
            if now.saturating_sub(due) > MAX_LATE {
                // After a pause of the machine, requests are not made up for. To the observer it is another call.
                self.identifier = self.identifier.wrapping_add(1);
                target.probe.identifier = self.identifier;
                (target.count, target.began) = (0, now);
            }
            let due = target.due();
            let late = now.saturating_sub(due);
            let Ok(fd) = self.sockets.of(target.host) else { continue };
            let mut bytes = [0; V4_BYTES];
            let length = request(&mut bytes, target);
            target.late[target.count as usize % Target::KEPT] = late;
            let digest = target.probe.digest(due, Direction::ToMesh, target.count, 64);
            target.count = target.count.wrapping_add(1);
            // Without a route or room in the queue it is a lost packet.
            let _ = sendto(fd, &bytes[..length], SendFlags::DONTWAIT, &SocketAddr::new(target.host, 0));
            let _ = self.digests.try_send(RawDigest::from(&digest));
        }
    }

    fn wait(&self, time: Nanos) {
        let mut fds: Vec<PollFd<'_>> =
            self.sockets.all().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
        let time = Duration::from_nanos(time.0);
        let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
    }

    /// Takes what has come. Whether there was anything.
    fn receive(&self) -> bool {
        let mut bytes = [0; 256];
        let mut any = false;
        for (is_v4, fd) in self.sockets.all() {
            let Ok((length, _, from)) = recvfrom(fd, &mut bytes[..], RecvFlags::DONTWAIT) else { continue };
            any = true;
            let now = monotonic();
            let Some(reply) = Reply::read(&bytes[..length], is_v4) else { continue };
            let from = from.and_then(|from| SocketAddr::try_from(from).ok()).map(|from| from.ip());
            let is_asked =
                |target: &&Target| target.probe.identifier == reply.identifier && Some(target.host) == from;
            let Some(target) = self.targets.iter().find(is_asked) else { continue };
            // The latest request with that number.
            let behind = (target.count.wrapping_sub(1) as u16).wrapping_sub(reply.sequence);
            if usize::from(behind) >= Target::KEPT || u32::from(behind) >= target.count {
                continue;
            }
            let count = target.count - 1 - u32::from(behind);
            let at = now.saturating_sub(target.late[count as usize % Target::KEPT]);
            let digest = target.probe.digest(at, Direction::FromMesh, count, reply.ttl);
            let _ = self.digests.try_send(RawDigest::from(&digest));
        }
        any
    }
}

/// The address of this machine that packets to a host have. None without a route.
pub fn own_address(host: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if host.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Nothing is sent; the kernel chooses the address by its routes.
    socket.connect((host, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Writes a request; returns its length. The kernel adds the checksum of ICMPv6.
fn request(bytes: &mut [u8; V4_BYTES], target: &Target) -> usize {
    let is_v4 = target.host.is_ipv4();
    // The header of IPv6 is longer, and the packet is to have the same size.
    let length = if is_v4 { V4_BYTES } else { V4_BYTES - 20 };
    bytes[0] = if is_v4 { V4_REQUEST } else { V6_REQUEST };
    bytes[4..6].copy_from_slice(&target.probe.identifier.to_be_bytes());
    bytes[6..8].copy_from_slice(&(target.count as u16).to_be_bytes());
    if is_v4 {
        let sum = complement(sum_words(&bytes[..length]));
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    length
}

/// A reply as a raw socket gives it: with the IP header for IPv4, without it for IPv6 (`raw(7)`, `ipv6(7)`).
#[derive(Debug, PartialEq)]
struct Reply {
    identifier: u16,
    sequence: u16,
    /// 0 where it is not known.
    ttl: u8,
}

impl Reply {
    fn read(bytes: &[u8], is_v4: bool) -> Option<Self> {
        let (ttl, icmp) = if is_v4 {
            let header = bytes.first_chunk::<20>()?;
            (header[8], bytes.get(usize::from(header[0] & 15) * 4..)?)
        } else {
            (0, bytes)
        };
        let header = icmp.first_chunk::<8>()?;
        let kind = if is_v4 { V4_REPLY } else { V6_REPLY };
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        (header[0] == kind && header[1] == 0).then(|| Self { identifier: half(4), sequence: half(6), ttl })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_a_socket_are_never_due_and_others_stay_the_same() {
        let (digests, _) = sync_channel(1);
        let (_, changed) = channel();
        let udp = Arc::new(OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap()));
        let mut worker = Worker {
            sockets: Sockets { v4: Ok(udp), v6: Err(Errno::PERM) },
            interval_ms: 40,
            targets: Vec::new(),
            identifier: u16::MAX,
            digests,
            changed,
            stop: Arc::default(),
        };
        let hosts = |last: [u8; 2]| last.map(|last| IpAddr::from([127, 0, 0, last]));
        let mut identifiers = |hosts: &[IpAddr]| {
            worker.set_hosts(hosts);
            let of = |target: &Target| (target.host.to_string(), target.probe.identifier);
            worker.targets.iter().map(of).collect::<Vec<_>>()
        };
        let name = |last: u8, identifier: u16| (format!("127.0.0.{last}"), identifier);
        assert_eq!(identifiers(&["::1".parse().unwrap()]), []);
        assert_eq!(identifiers(&hosts([1, 2])), [name(1, 0), name(2, 1)]);
        assert_eq!(identifiers(&hosts([2, 3])), [name(2, 1), name(3, 2)]);
        assert_eq!(identifiers(&hosts([1, 2])), [name(2, 1), name(1, 3)]);
    }

    #[test]
    fn a_family_that_the_kernel_does_not_have_is_missed_only_for_a_host_that_is_named() {
        let refused = |v6: Errno, hosts: &[&str]| {
            let udp = Arc::new(OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap()));
            let sockets = Sockets { v4: Ok(udp), v6: Err(v6) };
            let mut prober = Prober { setting: None, hosts: Vec::new(), sockets, running: None, next: None };
            let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
            let setting = ProbeSetting { hosts, calls: true, interval_ms: 40 };
            prober.set(Some(&setting)).err().map(|(family, _)| family)
        };
        assert_eq!(refused(Errno::AFNOSUPPORT, &["127.0.0.1"]), None);
        assert_eq!(refused(Errno::AFNOSUPPORT, &["::1"]), Some("IPv6"));
        assert_eq!(refused(Errno::PERM, &[]), Some("IPv6"));
    }

    #[test]
    fn replies_are_read_and_other_packets_are_not() {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 61, 1, 0, 0, 10, 1, 0, 4, 10, 1, 0, 1];
        packet.extend([0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78]);
        let reply = Reply { identifier: 0x1234, sequence: 0x5678, ttl: 61 };
        assert_eq!(Reply::read(&packet, true), Some(reply));
        for cut in 0..packet.len() {
            assert_eq!(Reply::read(&packet[..cut], true), None);
        }
        let reply = Reply { identifier: 0x1234, sequence: 0x5678, ttl: 0 };
        assert_eq!(Reply::read(&[129, 0, 0, 0, 0x12, 0x34, 0x56, 0x78], false), Some(reply));
        // A request, which loopback brings back, and an answer that is none.
        packet[20] = V4_REQUEST;
        assert_eq!(Reply::read(&packet, true), None);
        assert_eq!(Reply::read(&[129, 1, 0, 0, 0x12, 0x34, 0x56, 0x78], false), None);
    }
}
