//! The queues that keep what the programs have decided: `fq` for departure times, or HTB with a TBF leaf a class.
//!
//! ```text
//!  fa10:  htb          packets without a class pass directly: calls, control, and everything without orders in force
//!   ├ fa10:2           ACKs                                            tbf
//!   └ fa10:1           elastic data together
//!      ├ fa10:10       interactive UDP, first                          tbf
//!      ├ fa10:100      flows with a window and no rate for each        tbf
//!      ├ fa10:101 …    others, by a hash of their ports                tbf each
//!      └ fa10:180 …    flows with a rate and no window, as QUIC        tbf each
//! ```
//! A TBF leaf splits what consists of several segments; HTB alone would send it as one burst.
//!
//! *One class for flows with windows.* A leaf of HTB has tokens of its own, here for one packet a minute ([`OWN_RATE`]), and sends it even if
//! its parent has none. The parent's tokens are charged for it, at the rate in force. With a class for each flow, thirty flows that began
//! while the rate was low sent a packet each, and the parent then had no tokens for eight seconds. In one class, windows share the rate.
//!
//! *ACKs* would have to weigh what they acknowledge. HTB counts their bytes, so their class has the rate of ACKs that acknowledge
//! as much in the mean ([`super::AckWeight`]).
//!
//! Handles have the major numbers `fa10` (mesh) and `fa20` (wired): that is how queues of a gateway that was killed are
//! recognised and removed. A queue that was there before is written into a file before it is replaced, and put back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fairhop_control::pacer::{MAX_ACK_WAIT, MAX_URGENT_WAIT, URGENT_BURST};
use fairhop_model::units::{BitRate, Nanos};

use super::departures::Backlog;
use super::netlink::{
    CLSACT, EGRESS_FILTERS, INGRESS_FILTERS, Interface, Listed, Netlink, ROOT, Request, attribute, flag,
    message, put,
};
use super::orders::{CLASS_LISTED, LISTED, Written};
use super::programs::{MESH_MAJOR, WIRED_MAJOR};
use super::{Count, DatapathError, Orders, Pacing, Queue, kernel, park};

/// Minor numbers of classes; those of the programs, `CLASS_…` there.
const DATA: u16 = 1;
const ACKS: u16 = 2;
const INTERACTIVE: u16 = 0x10;
const SHARED: u16 = 0x100;
const LANE: u16 = 0x101;
const LANES: u16 = 16;

/// A rate that limits nothing, in bytes per second: 10 Gbit/s.
const UNLIMITED: u64 = 1_250_000_000;
/// No class gets less, in bytes per second.
const MIN_RATE: u64 = 125;
/// Rate of a leaf's own, besides what it borrows, in bytes per second: the kernel refuses zero.
const OWN_RATE: u64 = 1;
/// Bytes of Ethernet around a full IP packet of 1500 bytes, for which rates hold.
const ETHERNET: u64 = 14;
const FULL_PACKET: u64 = 1500;

/// Queues whose classes are no queues in the list of the kernel: they cannot be put back.
const WITH_CLASSES: [&str; 11] =
    ["htb", "hfsc", "cbq", "prio", "drr", "qfq", "ets", "mqprio", "taprio", "atm", "multiq"];

/// The queues on one interface.
#[derive(Debug)]
pub(super) struct Queues {
    interface: Interface,
    major: u16,
    pacing: Pacing,
    /// Data is paced here, not only ACKs.
    has_data: bool,
    /// What is in force, by minor number: class and leaf.
    rates: Vec<(u16, u64)>,
    saved: PathBuf,
}

fn failed(action: String) -> impl FnOnce(io::Error) -> DatapathError {
    move |source| DatapathError::Io { action, source }
}

/// `struct tc_ratespec` for Ethernet, whose rate is in bytes per second.
fn rate_spec(bytes_per_second: u64, overhead: u16) -> [u8; 12] {
    let mut spec = [0; 12];
    // No tables of transmission times: the kernel computes them (TC_LINKLAYER_ETHERNET).
    spec[1] = 1;
    spec[2..4].copy_from_slice(&overhead.to_ne_bytes());
    spec[8..].copy_from_slice(&(bytes_per_second.min(u64::from(u32::MAX)) as u32).to_ne_bytes());
    spec
}

/// Units of time of the kernel's packet scheduler: 64 ns.
fn ticks(bytes: u64, bytes_per_second: u64) -> u32 {
    (bytes * 1_000_000_000 / bytes_per_second.max(1) / 64).clamp(1, u64::from(u32::MAX)) as u32
}

/// Bytes per second on the wire for a rate of IP bytes in full packets.
fn wire_rate(rate: Option<BitRate>) -> u64 {
    rate.map_or(UNLIMITED, |rate| {
        let bytes = u128::from(rate.0) * u128::from(FULL_PACKET + ETHERNET) / (8 * u128::from(FULL_PACKET));
        (bytes.min(u128::from(UNLIMITED)) as u64).max(MIN_RATE)
    })
}

/// Bytes that leave at a rate within a wait, and a full packet at least.
fn bytes_within(wait: Nanos, bytes_per_second: u64) -> u32 {
    let bytes = u128::from(bytes_per_second) * u128::from(wait.0) / 1_000_000_000;
    (bytes.min(u128::from(u32::MAX)) as u32).max(FULL_PACKET as u32 + ETHERNET as u32)
}

impl Queues {
    const fn handle(&self, minor: u16) -> u32 {
        (self.major as u32) << 16 | minor as u32
    }

    /// Handle of the leaf of a class.
    const fn leaf(&self, minor: u16) -> u32 {
        (self.major as u32 + 1 + (minor as u32)) << 16
    }

    /// A packet with all headers, which a burst has to hold.
    fn packet(&self) -> u32 {
        // Ethernet with two VLAN tags.
        self.interface.mtu + 22
    }

    /// Makes the queues: `fq` for departure times, or classes. The root queue that was there is written into `folder`.
    ///
    /// # Errors
    /// The kernel has no such queue (`ErrorKind::NotFound`), or the queue that is there has classes.
    pub(super) fn make(
        netlink: &mut Netlink,
        interface: &Interface,
        major: u16,
        pacing: Pacing,
        has_data: bool,
        queue_packets: u32,
        folder: &Path,
    ) -> Result<Self, DatapathError> {
        let name = &interface.name;
        let queues = netlink.qdiscs(interface.index).map_err(failed(format!("list the queues of {name}")))?;
        let root = replaceable(name, &queues)?;
        let saved = saved_file(folder, name);
        if let Some(root) = root {
            save(&saved, root).map_err(failed(format!("write {}", saved.display())))?;
        }
        let made = Self { interface: interface.clone(), major, pacing, has_data, rates: Vec::new(), saved };
        let result = match pacing {
            Pacing::DepartureTimes => made.make_fq(netlink),
            Pacing::Classes => made.make_classes(netlink, queue_packets),
            Pacing::Polling | Pacing::Off => Ok(()),
        };
        match result {
            Ok(()) => Ok(made),
            Err(source) => {
                let action = format!("make the queues of {name} for {pacing}");
                // The first error counts.
                let _ = made.remove(netlink);
                Err(DatapathError::Io { action, source })
            }
        }
    }

    fn make_fq(&self, netlink: &mut Netlink) -> io::Result<()> {
        /// The programs bound what waits.
        const PACKETS: u32 = 10_000;
        let request = self.queue(self.handle(0), ROOT, "fq").with(attribute::OPTIONS, &fq_options(PACKETS));
        netlink.request(&[request])
    }

    fn make_classes(&self, netlink: &mut Netlink, queue_packets: u32) -> io::Result<()> {
        /// `TCA_HTB_INIT` and `TCA_HTB_DIRECT_QLEN`.
        const INIT: u16 = 2;
        const DIRECT: u16 = 5;
        /// Packets without a class that wait behind each other.
        const DIRECT_PACKETS: u32 = 1000;
        let mut options = Vec::new();
        // Version 3, rate to quantum 10, no default class.
        let global: Vec<u8> = [3_u32, 10, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        put(&mut options, INIT, &global);
        put(&mut options, DIRECT, &DIRECT_PACKETS.to_ne_bytes());
        let mut requests = vec![self.queue(self.handle(0), ROOT, "htb").with(attribute::OPTIONS, &options)];
        let new = flag::CREATE;
        let bytes = queue_packets.saturating_mul(self.packet());
        if self.has_data {
            requests.push(self.class(DATA, 0, UNLIMITED, 0, new));
            requests.push(self.class(ACKS, 0, UNLIMITED, 0, new));
            requests.push(self.bucket(ACKS, UNLIMITED, bytes, new | flag::EXCLUSIVE));
            let leaves = std::iter::once(INTERACTIVE)
                .chain(SHARED..LANE + LANES)
                .chain(CLASS_LISTED..CLASS_LISTED + LISTED);
            for minor in leaves {
                requests.push(self.class(minor, DATA, UNLIMITED, u32::from(minor != INTERACTIVE), new));
                requests.push(self.bucket(minor, UNLIMITED, bytes, new | flag::EXCLUSIVE));
            }
        }
        netlink.request(&requests)
    }

    fn queue(&self, handle: u32, parent: u32, kind: &str) -> Request {
        // A root queue with another handle is replaced.
        let flags = flag::ACK | flag::CREATE | if parent == ROOT { flag::REPLACE } else { flag::EXCLUSIVE };
        Request::new(message::NEW_QDISC, flags, self.interface.index, handle, parent).kind(kind)
    }

    /// A class of HTB (`struct tc_htb_opt`). Its burst is as small as possible: a packet leaves, and the next one when the
    /// first is paid for.
    fn class(&self, minor: u16, parent: u16, rate: u64, priority: u32, flags: u16) -> Request {
        /// `TCA_HTB_PARMS`.
        const PARAMETERS: u16 = 1;
        let parent = if parent == 0 { self.handle(0) } else { self.handle(parent) };
        let mut parameters = Vec::new();
        // A leaf gets what it borrows from the rate of all.
        let is_leaf = !matches!(minor, DATA | ACKS);
        let own = if is_leaf { OWN_RATE } else { rate };
        let ceiling = if is_leaf { UNLIMITED } else { rate };
        parameters.extend(rate_spec(own, 0));
        parameters.extend(rate_spec(ceiling, 0));
        let quantum = self.packet();
        for word in [ticks(1, own), ticks(1, ceiling), quantum, 0, priority] {
            parameters.extend(word.to_ne_bytes());
        }
        let mut options = Vec::new();
        put(&mut options, PARAMETERS, &parameters);
        Request::new(message::NEW_CLASS, flags | flag::ACK, self.interface.index, self.handle(minor), parent)
            .kind("htb")
            .with(attribute::OPTIONS, &options)
    }

    /// The TBF leaf of a class, which holds `limit` bytes.
    fn bucket(&self, minor: u16, rate: u64, limit: u32, flags: u16) -> Request {
        let options = tbf_options(rate, 0, self.packet(), limit);
        let interface = self.interface.index;
        Request::new(message::NEW_QDISC, flags | flag::ACK, interface, self.leaf(minor), self.handle(minor))
            .kind("tbf")
            .with(attribute::OPTIONS, &options)
    }

    /// Sets the rates of a policy: only those that have changed cost a message.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn set(
        &mut self,
        netlink: &mut Netlink,
        orders: &Orders<'_>,
        written: &Written,
        queue_packets: u32,
    ) -> Result<(), DatapathError> {
        if self.pacing != Pacing::Classes {
            return Ok(());
        }
        let limit = queue_packets.saturating_mul(self.packet());
        let mut wanted: Vec<(u16, u64)> = Vec::new();
        if self.has_data {
            let policy = orders.policy;
            let down = wire_rate(policy.down);
            wanted.push((DATA, down));
            wanted.push((ACKS, self.ack_rate(orders)));
            let leaf = |rate: Option<BitRate>| wire_rate(rate).min(down);
            wanted.push((INTERACTIVE, leaf(policy.interactive)));
            wanted.push((SHARED, down));
            wanted.extend((LANE..LANE + LANES).map(|minor| (minor, leaf(policy.others.rate))));
            wanted.extend(written.rates().map(|(minor, rate)| (minor, leaf(rate))));
        }
        wanted.retain(|rate| !self.rates.contains(rate));
        // What departure times would drop as late is dropped here, too.
        let interactive_wait = MAX_URGENT_WAIT.saturating_add(URGENT_BURST);
        let mut requests = Vec::new();
        for &(minor, rate) in &wanted {
            let limit_of = |wait| limit.min(bytes_within(wait, rate));
            if matches!(minor, DATA | ACKS) {
                requests.push(self.class(minor, 0, rate, 0, 0));
            }
            match minor {
                DATA => {}
                ACKS => requests.push(self.bucket(minor, UNLIMITED, limit_of(MAX_ACK_WAIT), 0)),
                INTERACTIVE => requests.push(self.bucket(minor, rate, limit_of(interactive_wait), 0)),
                _ => requests.push(self.bucket(minor, rate, limit, 0)),
            }
        }
        let name = &self.interface.name;
        netlink.request(&requests).map_err(failed(format!("set the rates of {name}")))?;
        for (minor, rate) in wanted {
            self.rates.retain(|(old, _)| *old != minor);
            self.rates.push((minor, rate));
        }
        Ok(())
    }

    /// Bytes of ACKs per second on the wire.
    fn ack_rate(&self, orders: &Orders<'_>) -> u64 {
        let rate = orders.policy.up_acks.map(|rate| orders.acks.bytes_per_second(rate, self.header()));
        rate.map_or(UNLIMITED, |rate| rate.clamp(MIN_RATE, UNLIMITED))
    }

    /// The queues as the kernel shows them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn list(&self, netlink: &mut Netlink) -> Result<Vec<Queue>, DatapathError> {
        let name = &self.interface.name;
        let listed =
            netlink.qdiscs(self.interface.index).map_err(failed(format!("list the queues of {name}")))?;
        let own = listed.iter().filter(|queue| queue.handle >> 16 >= u32::from(self.major));
        let own =
            own.filter(|queue| queue.handle == self.handle(0) || queue.parent >> 16 == u32::from(self.major));
        Ok(own.map(|queue| self.describe(queue)).collect())
    }

    fn describe(&self, queue: &Listed) -> Queue {
        let minor = queue.parent as u16;
        let is_root = queue.parent == ROOT;
        let ways = if self.has_data { "into the mesh" } else { "out of the mesh" };
        let what = match (is_root, minor) {
            (true, _) => "everything".to_owned(),
            (_, ACKS) => "ACKs".to_owned(),
            (_, INTERACTIVE) => "interactive".to_owned(),
            (_, CLASS_LISTED..) => format!("flow {}", minor - CLASS_LISTED),
            (_, SHARED) => "elastic".to_owned(),
            _ => format!("elastic, lane {}", minor.saturating_sub(LANE)),
        };
        let rate_of =
            |minor: u16| self.rates.iter().find(|(class, _)| *class == minor).map(|(_, rate)| *rate);
        let rate = if is_root { rate_of(DATA) } else { rate_of(minor) };
        Queue {
            interface: self.interface.name.clone(),
            purpose: format!("{what} {ways}"),
            kind: queue.kind.clone(),
            handle: format!("{:x}:", queue.handle >> 16),
            rate: rate.filter(|rate| *rate < UNLIMITED).map(|rate| rate * 8),
            sent: Count { packets: u64::from(queue.packets), bytes: queue.bytes },
            dropped: u64::from(queue.dropped),
            waiting: queue.waiting,
        }
    }

    /// Bytes before each IP packet.
    pub(super) const fn header(&self) -> u64 {
        if self.interface.is_ethernet { ETHERNET } else { 0 }
    }

    /// What waits in the classes that have packets.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn backlogs(&self, netlink: &mut Netlink) -> Result<Vec<Backlog>, DatapathError> {
        let name = &self.interface.name;
        let listed =
            netlink.qdiscs(self.interface.index).map_err(failed(format!("list the queues of {name}")))?;
        let leaves = listed.iter().filter(|queue| queue.parent >> 16 == u32::from(self.major));
        Ok(leaves
            .map(|queue| {
                let class = queue.parent as u16;
                let rate = self.rates.iter().find(|(minor, _)| *minor == class).map_or(0, |(_, rate)| *rate);
                Backlog { class, bytes: queue.waiting_bytes.into(), rate }
            })
            .collect())
    }

    /// Packets that wait.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn waiting(&self, netlink: &mut Netlink) -> Result<usize, DatapathError> {
        let name = &self.interface.name;
        let listed =
            netlink.qdiscs(self.interface.index).map_err(failed(format!("list the queues of {name}")))?;
        Ok(listed
            .iter()
            .find(|queue| queue.handle == self.handle(0))
            .map_or(0, |queue| queue.waiting as usize))
    }

    /// Removes the queues, and puts back the one that was there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn remove(&self, netlink: &mut Netlink) -> Result<(), DatapathError> {
        remove(netlink, &self.interface, &self.saved)
    }
}

/// Options of a TBF (`struct tc_tbf_qopt`) that counts `overhead` bytes with each packet, and holds `limit` bytes.
pub(super) fn tbf_options(bytes_per_second: u64, overhead: u16, burst: u32, limit: u32) -> Vec<u8> {
    /// `TCA_TBF_PARMS` and `TCA_TBF_BURST`, which is in bytes and so holds for every rate.
    const PARAMETERS: u16 = 1;
    const BURST: u16 = 6;
    let mut parameters = Vec::new();
    parameters.extend(rate_spec(bytes_per_second, overhead));
    parameters.extend([0; 12]);
    for word in [limit, ticks(u64::from(burst), bytes_per_second), 0] {
        parameters.extend(word.to_ne_bytes());
    }
    let mut options = Vec::new();
    put(&mut options, PARAMETERS, &parameters);
    put(&mut options, BURST, &burst.to_ne_bytes());
    options
}

/// Options of an `fq` for so many packets.
pub(super) fn fq_options(packets: u32) -> Vec<u8> {
    /// Packets of all, and of a flow, of which there would be 100.
    const LIMIT: u16 = 1;
    const FLOW_LIMIT: u16 = 2;
    /// `TCA_FQ_ORPHAN_MASK`. Forwarded packets have no socket: `fq` tells their flows apart by these bits of a hash. A packet
    /// of a call whose bits are those of a paced download waits until that download's next departure. With the default of ten
    /// bits, that holds for every tenth call beside 100 downloads; with 18, for one of 2,600. `fq` keeps a flow (128 bytes)
    /// until it has been silent for 3 s, so that a flood of flows takes 34 MB at most.
    const ORPHAN_MASK: u16 = 10;
    const HASH: u32 = (1 << 18) - 1;
    let mut options = Vec::new();
    put(&mut options, LIMIT, &packets.to_ne_bytes());
    put(&mut options, FLOW_LIMIT, &packets.to_ne_bytes());
    put(&mut options, ORPHAN_MASK, &HASH.to_ne_bytes());
    options
}

/// The file with the queue that was on an interface.
fn saved_file(folder: &Path, interface: &str) -> PathBuf {
    // Names of interfaces have no slash, but may have dots.
    folder.join(format!("gateway-{interface}.queue"))
}

/// Writes a queue: handle, kind, options in hexadecimal digits.
fn save(path: &Path, queue: &Listed) -> io::Result<()> {
    let options: String = queue.options.iter().map(|byte| format!("{byte:02x}")).collect();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, format!("{:x} {} {options}\n", queue.handle, queue.kind))
}

fn read_saved(path: &Path) -> Option<(u32, String, Vec<u8>)> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    let handle = u32::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?.to_owned();
    let digits = words.next().unwrap_or_default();
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let options = (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>()?;
    Some((handle, kind, options))
}

/// The root queue that is saved before it is replaced; none if it is the kernel's own choice, which comes back by itself.
///
/// # Errors
/// There is more than can be put back: classes, or queues that somebody has put below the root. Those of handle 0 are the
/// kernel's own, as below its `mq`.
fn replaceable<'q>(name: &str, queues: &'q [Listed]) -> Result<Option<&'q Listed>, DatapathError> {
    let root = queues.iter().find(|queue| queue.parent == ROOT && queue.handle != 0 && !is_own(queue));
    let Some(root) = root else { return Ok(None) };
    let is_below = |queue: &&Listed| queue.handle != 0 && queue.parent >> 16 == root.handle >> 16;
    let what = if WITH_CLASSES.contains(&root.kind.as_str()) {
        format!("a queue with classes ({})", root.kind)
    } else if let Some(below) = queues.iter().find(is_below) {
        format!("a queue with another one below it ({} with {})", root.kind, below.kind)
    } else {
        return Ok(Some(root));
    };
    Err(DatapathError::Missing {
        missing: format!("{name} has {what}, which could not be put back"),
        fix: format!("remove it (tc qdisc del dev {name} root), or set pacing = \"off\""),
    })
}

/// A root queue of this program.
fn is_own(queue: &Listed) -> bool {
    queue.parent == ROOT && [MESH_MAJOR, WIRED_MAJOR].contains(&((queue.handle >> 16) as u16))
}

/// What a start would find on an interface.
#[derive(Debug)]
pub struct Found {
    /// Kind of the root queue.
    pub root: String,
    /// Somebody has set it up: it is not the kernel's own choice.
    pub is_set_up: bool,
    /// Why it cannot be replaced.
    pub refusal: Option<DatapathError>,
    /// Why programs cannot be attached by `clsact`.
    pub no_clsact: Option<DatapathError>,
}

/// Looks at the queues of an interface as a start does. It takes no rights.
///
/// # Errors
/// There is no such interface.
pub fn look(name: &str) -> Result<Found, DatapathError> {
    let mut netlink = Netlink::open().map_err(failed("open a netlink socket".to_owned()))?;
    let interface = kernel::find(&mut netlink, name)?;
    let queues = netlink.qdiscs(interface.index).map_err(failed(format!("list the queues of {name}")))?;
    let root = queues.iter().find(|queue| queue.parent == ROOT);
    Ok(Found {
        root: root.map_or_else(|| "none".to_owned(), |root| root.kind.clone()),
        is_set_up: root.is_some_and(|root| root.handle != 0 && !is_own(root)),
        refusal: replaceable(name, &queues).err(),
        no_clsact: obstacle_to_clsact(&queues).map(|kind| no_clsact(name, kind)),
    })
}

/// Removes a root queue of this program from an interface, and puts back the one that was there before.
fn remove(netlink: &mut Netlink, interface: &Interface, saved: &Path) -> Result<(), DatapathError> {
    let name = &interface.name;
    let queues = netlink.qdiscs(interface.index).map_err(failed(format!("list the queues of {name}")))?;
    if queues.iter().any(is_own) {
        let delete = Request::new(message::DELETE_QDISC, flag::ACK, interface.index, 0, ROOT);
        netlink.request(&[delete]).map_err(failed(format!("remove the queues of {name}")))?;
        if let Some((handle, kind, options)) = read_saved(saved) {
            let flags = flag::ACK | flag::CREATE | flag::REPLACE;
            let request = Request::new(message::NEW_QDISC, flags, interface.index, handle, ROOT)
                .kind(&kind)
                .with(attribute::OPTIONS, &options);
            let action = format!("put back the queue {kind} of {name} (described in {})", saved.display());
            netlink.request(&[request]).map_err(failed(action))?;
        }
    }
    let _ = fs::remove_file(saved); // it may not exist
    Ok(())
}

/// Handle of `clsact` and of `ingress`: an interface has one of them at most.
const FILTERS: u32 = 0xffff_0000;

/// Refuses an interface whose `clsact` would have no place. Filters of egress would be added all the same, and see what comes in:
/// `ingress` takes any parent.
///
/// # Errors
/// There is another queue for filters.
pub(super) fn check_clsact(netlink: &mut Netlink, interface: &Interface) -> Result<(), DatapathError> {
    let name = &interface.name;
    let queues = netlink.qdiscs(interface.index).map_err(failed(format!("list the queues of {name}")))?;
    obstacle_to_clsact(&queues).map_or(Ok(()), |kind| Err(no_clsact(name, kind)))
}

fn obstacle_to_clsact(queues: &[Listed]) -> Option<&str> {
    let there = queues.iter().find(|queue| queue.handle == FILTERS)?;
    (there.kind != "clsact").then_some(there.kind.as_str())
}

fn no_clsact(name: &str, kind: &str) -> DatapathError {
    DatapathError::Missing {
        missing: format!("{name} has the queue {kind}, in whose place Linux before 6.6 needs clsact"),
        fix: format!(
            "tc qdisc del dev {name} {kind}, and add its filters to clsact (tc qdisc add dev {name} clsact; tc filter add dev {name} ingress …)"
        ),
    }
}

/// Removes what a gateway that was killed has left on an interface: queues, filters, and `clsact` if no other filter uses
/// it. The names of what was removed.
pub(super) fn clean(
    netlink: &mut Netlink,
    interface: &Interface,
    folder: &Path,
) -> Result<Vec<String>, DatapathError> {
    let name = &interface.name;
    let mut removed = Vec::new();
    let queues = netlink.qdiscs(interface.index).map_err(failed(format!("list the queues of {name}")))?;
    for queue in &queues {
        if is_own(queue) {
            removed.push(format!("queue {} {:x}: of {name}", queue.kind, queue.handle >> 16));
        }
    }
    remove(netlink, interface, &saved_file(folder, name))?;
    let park = park::clean(netlink, name).map_err(failed(format!("remove the park of {name}")))?;
    removed.extend(park.map(|park| format!("interface {park}")));
    // Earlier versions added filters to `ingress` where that was in the place of `clsact`.
    let Some(filters) = queues.iter().find(|queue| queue.handle == FILTERS) else { return Ok(removed) };
    let mut left = 0;
    for (parent, hook) in [
        (INGRESS_FILTERS, aya::programs::tc::TcAttachType::Ingress),
        (EGRESS_FILTERS, aya::programs::tc::TcAttachType::Egress),
    ] {
        for program in super::programs::Program::ALL {
            if aya::programs::tc::qdisc_detach_program(name, hook, program.name()).is_ok() {
                removed.push(format!("filter {} of {name}", program.name()));
            }
        }
        left += netlink.filters(interface.index, parent).map_or(1, |filters| filters.len());
    }
    // Without filters it does nothing, whoever made it.
    if left == 0 && filters.kind == "clsact" {
        let delete = Request::new(message::DELETE_QDISC, flag::ACK, interface.index, FILTERS, CLSACT);
        netlink.request(&[delete]).map_err(failed(format!("remove clsact of {name}")))?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_queue_is_read_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = saved_file(folder.path(), "eth0.7");
        let queue = Listed {
            handle: 0x8001_0000,
            kind: "fq_codel".into(),
            options: vec![8, 0, 1, 255],
            ..Listed::default()
        };
        save(&path, &queue).expect("written");
        assert_eq!(read_saved(&path), Some((queue.handle, queue.kind, queue.options)));
        fs::write(&path, "zz").expect("written");
        assert_eq!(read_saved(&path), None);
    }

    #[test]
    fn a_root_is_replaced_if_all_that_is_there_can_be_put_back() {
        let queue =
            |kind: &str, handle, parent| Listed { kind: kind.into(), handle, parent, ..Listed::default() };
        let kind = |queues: &[Listed]| {
            let found = replaceable("eth0", queues).map(|root| root.map(|root| root.kind.clone()));
            found.map_err(|error| error.to_string())
        };
        let clsact = queue("clsact", FILTERS, CLSACT);
        // The kernel's own choice for an interface with several queues.
        assert_eq!(kind(&[queue("mq", 0, ROOT), queue("fq_codel", 0, 1), queue("fq_codel", 0, 2)]), Ok(None));
        assert_eq!(
            kind(&[queue("htb", 0xfa10_0000, ROOT), queue("tbf", 0xfb10_0000, 0xfa10_0100)]),
            Ok(None)
        );
        let mq = || queue("mq", 0x1_0000, ROOT);
        assert_eq!(kind(&[mq(), queue("fq", 0, 0x1_0001), clsact]), Ok(Some("mq".into())));
        let refused = kind(&[mq(), queue("cake", 0x8001_0000, 0x1_0001)]).expect_err("it would be lost");
        assert!(refused.contains("mq with cake") && refused.contains("fix: "), "{refused}");
        assert!(kind(&[queue("htb", 0x1_0000, ROOT)]).is_err(), "classes are not listed as queues");
    }

    #[test]
    fn rates_are_those_of_full_packets_on_the_wire() {
        assert_eq!(wire_rate(Some(BitRate(12_000_000))), 1_514_000);
        assert_eq!((wire_rate(None), wire_rate(Some(BitRate(0)))), (UNLIMITED, MIN_RATE));
    }
}
