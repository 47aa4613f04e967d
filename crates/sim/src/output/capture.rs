//! Captures: one pcapng file a node, as a sniffer in monitor mode beside it would write it.
//!
//! A node's file holds every frame that it sent and every frame that it received, meant for it or not, at the time of
//! the first bit on its antenna. What it could not receive, because of a collision or for want of signal, is not in it.
//! The file of the gateway, or of any node with wires, has its wired interfaces too, one a link; the Internet host and the
//! hosts of a wired network have files of their own. Packets are in the order of their times.
//!
//! Addresses and ports follow from numbers: node 4 is 10.1.0.4, the Internet host 192.0.2.1, other hosts 10.2.0.1
//! and on. Calls use even UDP ports
//! from 50000 to 53998, which Wireshark must be told to decode as RTP (`-d udp.port==50000-53998,rtp`), and the odd ones
//! above them for RTCP (`-d udp.port==50001,rtcp` for the first call); TCP transfers
//! and other datagrams have 61000 and the flow's number. Payload is zeros. Ethernet headers are there to be read: the
//! wired link carries IP packets alone.
//!
//! A node that forwards a packet has it twice in its file, when it received it and when it sent it, which Wireshark
//! calls a TCP retransmission. `wlan.fc.retry`, `ip.ttl`, `wlan.ta` and `frame.interface_name` tell one from the other.
//!
//! On disk a frame takes 44 bytes of pcapng, 22 bytes of radiotap (23 where received under a propagation model that
//! knows powers; 14 of Ethernet on a wire), itself, and up to 3 bytes of padding: 80 for an ACK, 164 for a G.729
//! packet, 1,604 for a full TCP segment. Each of them is written once by its sender and once by every node that
//! receives it. Five nodes at 12 Mb/s that are never silent (`scenarios/k-mix.toml`) write 4 MB a simulated second in all.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairhop_model::units::Nanos;

use super::pcapng::{self, Direction};
use super::{OutputError, PROGRAM};
use crate::headers::{self, Addresses, Channel};
use crate::mac::{Frame, FrameKind};
use crate::packet::{NodeId, PacketView};
use crate::radio::Links;
use crate::scenario::{Propagation, Scenario};
use crate::world::{Tap, World};

/// Memory for what has not been written yet, over all nodes.
const BUFFERS_BYTES: usize = 32 << 20;
const LEAST_BUFFER_BYTES: usize = 4 << 10;
const MOST_BUFFER_BYTES: usize = 1 << 20;

/// The captures of a world. It goes to the world as a tap, and is asked at the end whether all went well.
///
/// ```no_run
/// # fn run(mut world: fairhop_sim::world::World) -> Result<(), fairhop_sim::output::OutputError> {
/// use fairhop_sim::output::capture::Capture;
///
/// let capture = Capture::create("results/pcap".as_ref(), &world)?;
/// world.set_tap(capture.tap());
/// world.run();
/// let written = capture.finish()?;
/// println!("{} captures, {} bytes", written.files.len(), written.bytes);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Capture(Arc<Mutex<Writer>>);

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The files, by node and then by host.
    pub files: Vec<PathBuf>,
    /// Their size in all.
    pub bytes: u64,
}

impl Capture {
    /// Makes `directory` where it is missing and in it an empty capture for every node, `node-0.pcapng` and so on, and
    /// for every host: `internet.pcapng`, `host-NAME.pcapng`.
    ///
    /// # Errors
    /// A file exists already or cannot be made.
    pub fn create(directory: &Path, world: &World) -> Result<Self, OutputError> {
        Ok(Self(Arc::new(Mutex::new(Writer::create(directory, world)?))))
    }

    /// What [`World::set_tap`] wants.
    pub fn tap(&self) -> Box<dyn Tap> {
        Box::new(CaptureTap(Arc::clone(&self.0)))
    }

    /// Bytes captured so far, written or still in memory.
    pub fn captured_bytes(&self) -> u64 {
        lock(&self.0).captured
    }

    /// Writes what has not been written yet.
    ///
    /// # Errors
    /// The first thing that went wrong since the start; after that nothing was written any more.
    pub fn finish(self) -> Result<Written, OutputError> {
        let mut writer = lock(&self.0);
        for index in 0..writer.files.len() {
            writer.flush(index);
        }
        match writer.error.take() {
            Some(error) => Err(error),
            None => Ok(Written {
                files: writer.files.iter().map(|file| file.path.clone()).collect(),
                bytes: writer.bytes,
            }),
        }
    }
}

/// The writer, also after a panic elsewhere: what it has written so far is whole.
fn lock(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

struct CaptureTap(Arc<Mutex<Writer>>);

impl Tap for CaptureTap {
    fn frame(
        &mut self,
        node: NodeId,
        at: Nanos,
        frame: &Frame,
        from: NodeId,
        packet: Option<PacketView<'_>>,
        received: bool,
    ) {
        lock(&self.0).frame(node, at, frame, from, packet, received);
    }

    fn network_changed(&mut self, _at: Nanos, links: &Links) {
        lock(&self.0).network_changed(links);
    }

    fn wired(&mut self, node: NodeId, peer: NodeId, at: Nanos, packet: PacketView<'_>, arrived: bool) {
        lock(&self.0).wired(node, peer, at, packet, arrived);
    }
}

/// A capture in the making. It is open only while its buffer is written, so that there may be more of them than a
/// process may have open files.
#[derive(Debug)]
struct NodeFile {
    path: PathBuf,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Writer {
    files: Vec<NodeFile>,
    buffer_bytes: usize,
    bytes: u64,
    /// Bytes written or in buffers.
    captured: u64,
    error: Option<OutputError>,
    channel: Channel,
    /// For every node the neighbours that it hears, by number, and how strongly; empty where powers mean nothing.
    signals: Vec<Vec<(NodeId, i8)>>,
    addresses: Addresses,
    /// For every node and host the other ends of its wires, in the order of its interfaces.
    wires: Vec<Vec<NodeId>>,
}

impl Writer {
    fn create(directory: &Path, world: &World) -> Result<Self, OutputError> {
        let scenario = world.scenario();
        let nodes = world.node_count();
        let hosts = world.hosts();
        let mut wires = vec![Vec::new(); nodes + hosts.len()];
        for link in world.wired() {
            wires[link.from() as usize].push(link.to());
        }
        fs::create_dir_all(directory)
            .map_err(|error| OutputError::io("make the directory", directory, error))?;

        let comment = comment(scenario, world.seed());
        let digits = nodes.saturating_sub(1).max(1).ilog10() as usize + 1;
        let addresses = Addresses { nodes: nodes as NodeId, internet: scenario.internet.is_some() };
        let mut files = Vec::with_capacity(nodes + hosts.len());
        let mut bytes = 0;
        for (node, wires) in wires.iter().enumerate() {
            let (name, description) = match node.checked_sub(nodes).map(|host| (host, &hosts[host])) {
                None => (format!("node-{node:0digits$}.pcapng"), format!("node {node}")),
                Some((0, _)) if addresses.internet => {
                    ("internet.pcapng".to_owned(), "Internet host".to_owned())
                }
                Some((host, name)) => (host_file(host, name), format!("host {name}")),
            };
            let mut start = Vec::new();
            pcapng::section_header(&mut start, PROGRAM, &comment);
            if node < nodes {
                let link_type = pcapng::LINKTYPE_IEEE802_11_RADIOTAP;
                pcapng::interface(&mut start, link_type, "wlan0", &description);
            }
            for number in 0..wires.len() {
                let interface = format!("eth{number}");
                pcapng::interface(&mut start, pcapng::LINKTYPE_ETHERNET, &interface, &description);
            }
            let path = directory.join(name);
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
                .and_then(|mut file| file.write_all(&start))
                .map_err(|error| OutputError::io("write", &path, error))?;
            bytes += start.len() as u64;
            files.push(NodeFile { path, buffer: Vec::new() });
        }
        Ok(Self {
            buffer_bytes: (BUFFERS_BYTES / files.len().max(1)).clamp(LEAST_BUFFER_BYTES, MOST_BUFFER_BYTES),
            files,
            bytes,
            captured: bytes,
            error: None,
            channel: Channel::new(scenario.radio.standard, scenario.radio.preamble),
            signals: match scenario.radio.propagation {
                Propagation::Range { .. } => Vec::new(),
                _ => signals(world.links(), nodes),
            },
            addresses,
            wires,
        })
    }

    fn frame(
        &mut self,
        node: NodeId,
        at: Nanos,
        frame: &Frame,
        from: NodeId,
        packet: Option<PacketView<'_>>,
        received: bool,
    ) {
        let packet = packet.filter(|_| frame.kind == FrameKind::Data);
        let signal = if received { self.signal(from, node) } else { None };
        let direction = if received { Direction::Inbound } else { Direction::Outbound };
        let (channel, addresses) = (self.channel, self.addresses);
        self.append(node, 0, at, direction, |out| {
            headers::radiotap(out, channel, at, frame.rate, signal);
            let ether_type = packet.map(headers::ether_type).unwrap_or_default();
            headers::dot11(out, frame, from, ether_type, |out| {
                if let Some(packet) = packet {
                    headers::packet(out, packet, addresses);
                }
            });
        });
    }

    fn wired(&mut self, node: NodeId, peer: NodeId, at: Nanos, packet: PacketView<'_>, arrived: bool) {
        let (from, to) = if arrived { (peer, node) } else { (node, peer) };
        let addresses = self.addresses;
        let wires = &self.wires[node as usize];
        let number = wires.iter().position(|&end| end == peer).unwrap_or(0) as u32;
        let interface = u32::from(node < addresses.nodes) + number;
        let direction = if arrived { Direction::Inbound } else { Direction::Outbound };
        self.append(node, interface, at, direction, |out| {
            headers::ethernet(out, from, to, headers::ether_type(packet));
            headers::packet(out, packet, addresses);
        });
    }

    fn append(
        &mut self,
        node: NodeId,
        interface: u32,
        at: Nanos,
        direction: Direction,
        content: impl FnOnce(&mut Vec<u8>),
    ) {
        let index = node as usize;
        let Some(file) = self.files.get_mut(index).filter(|_| self.error.is_none()) else { return };
        let before = file.buffer.len();
        pcapng::packet(&mut file.buffer, interface, at.0, direction, content);
        self.captured += (file.buffer.len() - before) as u64;
        pcapng::put_last_packet_in_order(&mut file.buffer);
        // A received frame is told of when it ends, under the time at which it began; packets on the wire may have come
        // in between. No frame that is told of later began before this one ended, so here nothing can be out of order.
        let in_order = interface == 0 && direction == Direction::Inbound;
        if file.buffer.len() >= if in_order { self.buffer_bytes } else { 2 * self.buffer_bytes } {
            self.flush(index);
        }
    }

    fn flush(&mut self, index: usize) {
        let file = &mut self.files[index];
        if self.error.is_none() && !file.buffer.is_empty() {
            let written = OpenOptions::new()
                .append(true)
                .open(&file.path)
                .and_then(|mut out| out.write_all(&file.buffer));
            match written {
                Ok(()) => self.bytes += file.buffer.len() as u64,
                Err(error) => self.error = Some(OutputError::io("write", &file.path, error)),
            }
        }
        file.buffer.clear();
    }

    fn network_changed(&mut self, links: &Links) {
        if !self.signals.is_empty() {
            self.signals = signals(links, self.signals.len());
        }
    }

    fn signal(&self, from: NodeId, to: NodeId) -> Option<i8> {
        let heard = self.signals.get(from as usize)?;
        heard.binary_search_by_key(&to, |&(peer, _)| peer).ok().map(|index| heard[index].1)
    }
}

/// The file of a host. A name that not every file system would take gets the host's number.
fn host_file(number: usize, name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.chars().all(plain) {
        return format!("host-{name}.pcapng");
    }
    let name: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    format!("host-{name}-{number}.pcapng")
}

/// The strength of every link in whole dBm.
fn signals(links: &Links, nodes: usize) -> Vec<Vec<(NodeId, i8)>> {
    let heard = |link: &crate::radio::Link| (link.to, link.power.as_dbm().0.round() as i8);
    (0..nodes).map(|node| links.from(node).iter().map(heard).collect()).collect()
}

/// What makes the file readable alone; without the scenario where that is too long for a comment.
fn comment(scenario: &Scenario, seed: u64) -> String {
    let title = format!("{PROGRAM}, seed {seed}: {}", scenario.name);
    match toml::to_string(scenario) {
        Ok(text) if title.len() + text.len() + 2 <= usize::from(u16::MAX) => format!("{title}\n\n{text}"),
        _ => title.chars().take(1_000).collect(),
    }
}
