//! Queues, classes, interfaces and addresses over `NETLINK_ROUTE`: the messages of `linux/rtnetlink.h` and `linux/pkt_sched.h`, as far
//! as the gateway needs them. All numbers are in the machine's byte order.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use fairhop_control::Network;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

/// Message types (`linux/rtnetlink.h`).
pub(super) mod message {
    pub(crate) const NEW_LINK: u16 = 16;
    pub(crate) const DELETE_LINK: u16 = 17;
    pub(crate) const GET_LINK: u16 = 18;
    pub(crate) const GET_ADDRESS: u16 = 22;
    pub(crate) const NEW_QDISC: u16 = 36;
    pub(crate) const DELETE_QDISC: u16 = 37;
    pub(crate) const GET_QDISC: u16 = 38;
    pub(crate) const NEW_CLASS: u16 = 40;
    pub(crate) const GET_FILTER: u16 = 46;
}

/// Flags of requests (`linux/netlink.h`).
pub(super) mod flag {
    pub(crate) const REQUEST: u16 = 1;
    pub(crate) const ACK: u16 = 4;
    pub(crate) const DUMP: u16 = 0x300;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const EXCLUSIVE: u16 = 0x200;
    pub(crate) const REPLACE: u16 = 0x100;
}

/// Attributes of queues.
pub(super) mod attribute {
    pub(crate) const KIND: u16 = 1;
    pub(crate) const OPTIONS: u16 = 2;
    pub(crate) const STATS2: u16 = 7;
}

/// The parent of a root queue.
pub(super) const ROOT: u32 = 0xffff_ffff;
/// The parent of `clsact`, and of its filters.
pub(super) const CLSACT: u32 = 0xffff_fff1;
pub(super) const INGRESS_FILTERS: u32 = 0xffff_fff2;
pub(super) const EGRESS_FILTERS: u32 = 0xffff_fff3;

/// A request about a queue, a class or filters (`struct tcmsg`), or about an interface (`struct ifinfomsg`).
#[derive(Clone, Debug)]
pub(super) struct Request(Vec<u8>);

impl Request {
    pub(super) fn new(kind: u16, flags: u16, interface: u32, handle: u32, parent: u32) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | flag::REQUEST).to_ne_bytes());
        bytes.extend([0; 4]);
        for word in [interface, handle, parent, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        Self(bytes)
    }

    /// A request about an interface; `up` also sets its flags: up, and without ARP.
    pub(super) fn link(kind: u16, flags: u16, interface: u32, up: bool) -> Self {
        /// `IFF_UP` and `IFF_NOARP`.
        const FLAGS: u32 = 0x81;
        let set = if up { FLAGS } else { 0 };
        // `struct ifinfomsg` has 16 bytes, four less than `struct tcmsg`.
        let mut request = Self::new(kind, flags, interface, set, set);
        request.0.truncate(32);
        request
    }

    /// Adds an attribute.
    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        put(&mut self.0, kind, value);
        self
    }

    /// Adds the name of a kind of queue.
    pub(super) fn kind(self, name: &str) -> Self {
        self.with(attribute::KIND, &text(name))
    }

    fn numbered(&self, number: u32) -> Vec<u8> {
        let mut bytes = self.0.clone();
        let length = (bytes.len() as u32).to_ne_bytes();
        bytes[..4].copy_from_slice(&length);
        bytes[8..12].copy_from_slice(&number.to_ne_bytes());
        bytes
    }
}

/// Appends an attribute: length, kind, value, and zeros up to a multiple of four.
pub(super) fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend((value.len() as u16 + 4).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// A text as the kernel reads it: with a zero at its end.
pub(super) fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// The attributes in some bytes: kind and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a kind.
pub(super) fn attribute_of(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A queue or filter as the kernel lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) interface: u32,
    pub(super) handle: u32,
    pub(super) parent: u32,
    pub(super) kind: String,
    /// Bytes of its attribute `TCA_OPTIONS`.
    pub(super) options: Vec<u8>,
    pub(super) bytes: u64,
    pub(super) packets: u32,
    pub(super) waiting: u32,
    pub(super) waiting_bytes: u32,
    pub(super) dropped: u32,
}

impl Listed {
    /// Reads `struct tcmsg` and what follows.
    fn read(message: &[u8]) -> Option<Self> {
        let mut listed = Self {
            interface: u32_at(message, 4)?,
            handle: u32_at(message, 8)?,
            parent: u32_at(message, 12)?,
            ..Self::default()
        };
        for (kind, value) in attributes(message.get(20..)?) {
            match kind {
                attribute::KIND => {
                    listed.kind = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
                }
                attribute::OPTIONS => listed.options = value.to_vec(),
                attribute::STATS2 => {
                    // TCA_STATS_BASIC and TCA_STATS_QUEUE.
                    if let Some(basic) = attribute_of(value, 1) {
                        listed.bytes = basic.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
                        listed.packets = u32_at(basic, 8).unwrap_or(0);
                    }
                    if let Some(queue) = attribute_of(value, 3) {
                        listed.waiting = u32_at(queue, 0).unwrap_or(0);
                        listed.waiting_bytes = u32_at(queue, 4).unwrap_or(0);
                        listed.dropped = u32_at(queue, 8).unwrap_or(0);
                    }
                }
                _ => {}
            }
        }
        Some(listed)
    }
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mtu: u32,
    /// It carries Ethernet frames (`ARPHRD_ETHER`); otherwise IP packets without a header.
    pub(super) is_ethernet: bool,
    /// Its kind, such as `bridge` or `veth`; empty for hardware.
    pub(super) kind: String,
    /// Index of the interface that it belongs to, as a port to a bridge.
    pub(super) master: Option<u32>,
}

impl Interface {
    /// Reads `struct ifinfomsg` and what follows.
    fn read(message: &[u8]) -> Option<Self> {
        const IFLA_IFNAME: u16 = 3;
        const IFLA_MTU: u16 = 4;
        const IFLA_MASTER: u16 = 10;
        const IFLA_LINKINFO: u16 = 18;
        const IFLA_INFO_KIND: u16 = 1;
        let attributes = message.get(16..)?;
        let of = |kind| attribute_of(attributes, kind);
        let string = |bytes| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
        let kind = of(IFLA_LINKINFO).and_then(|info| attribute_of(info, IFLA_INFO_KIND));
        Some(Self {
            name: string(of(IFLA_IFNAME)?),
            index: u32_at(message, 4)?,
            mtu: of(IFLA_MTU).and_then(|mtu| u32_at(mtu, 0)).unwrap_or(1500),
            is_ethernet: u16::from_ne_bytes(*message.get(2..)?.first_chunk()?) == 1,
            kind: kind.map(string).unwrap_or_default(),
            master: of(IFLA_MASTER).and_then(|master| u32_at(master, 0)),
        })
    }
}

/// A connection to the kernel, in the network namespace of the thread that has opened it.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    number: u32,
    buffer: Vec<u8>,
}

const ERROR: u16 = 2;
const DONE: u16 = 3;

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        // Without a protocol it is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        // Kernels without it refuse with a number only.
        let _ = super::sys::explain_errors(socket.as_fd());
        Ok(Self { socket, number: 0, buffer: vec![0; 1 << 16] })
    }

    /// Sends requests and waits until all are done. All are tried; the first error is returned.
    pub(super) fn request(&mut self, requests: &[Request]) -> io::Result<()> {
        let mut result = Ok(());
        // As many as the kernel's answers find place for in the socket's buffer.
        for batch in requests.chunks(32) {
            let first = self.number.wrapping_add(1);
            let mut bytes = Vec::new();
            for request in batch {
                self.number = self.number.wrapping_add(1);
                bytes.extend(request.numbered(self.number));
            }
            send(&self.socket, &bytes, SendFlags::empty())?;
            let mut left = batch.len();
            while left > 0 {
                let length = self.receive()?;
                for (header, body) in messages(&self.buffer[..length]) {
                    if header.kind != ERROR || header.number.wrapping_sub(first) as usize >= batch.len() {
                        continue;
                    }
                    left -= 1;
                    let code = u32_at(body, 0).unwrap_or(0).cast_signed();
                    if code != 0 && result.is_ok() {
                        let place = header.number.wrapping_sub(first) as usize;
                        result = Err(refusal(-code, body, batch.get(place)));
                    }
                }
            }
        }
        result
    }

    /// All that the kernel lists.
    fn list(&mut self, request: &Request) -> io::Result<Vec<Vec<u8>>> {
        self.number = self.number.wrapping_add(1);
        send(&self.socket, &request.numbered(self.number), SendFlags::empty())?;
        let mut found = Vec::new();
        loop {
            let length = self.receive()?;
            for (header, body) in messages(&self.buffer[..length]) {
                if header.number != self.number {
                    continue;
                }
                match header.kind {
                    DONE => return Ok(found),
                    ERROR => {
                        let code = u32_at(body, 0).unwrap_or(0).cast_signed();
                        return if code == 0 { Ok(found) } else { Err(io::Error::from_raw_os_error(-code)) };
                    }
                    _ => found.push(body.to_vec()),
                }
            }
        }
    }

    /// The queues of an interface.
    pub(super) fn qdiscs(&mut self, interface: u32) -> io::Result<Vec<Listed>> {
        let request = Request::new(message::GET_QDISC, flag::DUMP, interface, 0, 0);
        let listed = self.list(&request)?;
        // Older kernels list those of all interfaces.
        Ok(listed.iter().filter_map(|m| Listed::read(m)).filter(|q| q.interface == interface).collect())
    }

    /// The filters of one side of `clsact`.
    pub(super) fn filters(&mut self, interface: u32, parent: u32) -> io::Result<Vec<Listed>> {
        let request = Request::new(message::GET_FILTER, flag::DUMP, interface, 0, parent);
        Ok(self.list(&request)?.iter().filter_map(|m| Listed::read(m)).collect())
    }

    /// An interface by its name.
    pub(super) fn interface(&mut self, name: &str) -> io::Result<Option<Interface>> {
        Ok(self.interfaces()?.into_iter().find(|interface| interface.name == name))
    }

    /// All interfaces.
    pub(super) fn interfaces(&mut self) -> io::Result<Vec<Interface>> {
        let request = Request::link(message::GET_LINK, flag::DUMP, 0, false);
        Ok(self.list(&request)?.iter().filter_map(|message| Interface::read(message)).collect())
    }

    /// The addresses of this machine, and the networks that they are in.
    pub(super) fn local_networks(&mut self) -> io::Result<Vec<Network>> {
        // `struct ifaddrmsg` has 8 bytes, as much as the first two words.
        let mut request = Request::new(message::GET_ADDRESS, flag::DUMP, 0, 0, 0);
        request.0.truncate(24);
        // The kernel reads the first byte as the family; 0 is any.
        request.0[16..].fill(0);
        Ok(self.list(&request)?.iter().flat_map(|message| networks_of(message)).collect())
    }

    fn receive(&mut self) -> io::Result<usize> {
        let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
        Ok(length)
    }
}

/// An address of this machine and its network, from `struct ifaddrmsg` and what follows. `IFA_ADDRESS` is the network's, on a
/// link between two machines the other end's, and `IFA_LOCAL` the machine's own where that differs.
fn networks_of(message: &[u8]) -> Vec<Network> {
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    let attributes = message.get(8..).unwrap_or_default();
    let address = |kind| address_of(attribute_of(attributes, kind)?);
    let network = address(IFA_ADDRESS);
    let own = address(IFA_LOCAL).or(network).map(Network::host);
    let around = network.zip(message.get(1)).and_then(|(address, &prefix)| Network::around(address, prefix));
    own.into_iter().chain(around).collect()
}

/// The 4 or 16 bytes of an address; none for another number of bytes.
fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// The error of a refused request, with the kernel's reason if there is one (`NLMSGERR_ATTR_MSG`).
fn refusal(code: i32, body: &[u8], request: Option<&Request>) -> io::Error {
    let error = io::Error::from_raw_os_error(code);
    // After the error: the request, then attributes.
    let after = 4 + request.map_or(0, |request| request.0.len());
    let reason = attribute_of(body.get(after..).unwrap_or_default(), 1);
    match reason {
        Some(reason) => {
            let reason = String::from_utf8_lossy(reason);
            io::Error::new(error.kind(), format!("{error}: {}", reason.trim_end_matches('\0')))
        }
        None => error,
    }
}

/// The part of `struct nlmsghdr` that is used.
struct Header {
    kind: u16,
    number: u32,
}

fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
        let number = u32_at(bytes, 8)?;
        let body = bytes.get(16..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((Header { kind, number }, body))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        put(&mut bytes, attribute::KIND, b"htb\0");
        put(&mut bytes, 7, &[1, 2, 3, 4, 5]);
        assert_eq!(bytes.len(), 8 + 12);
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read, [(1, &b"htb\0"[..]), (7, &[1, 2, 3, 4, 5][..])]);
        // Cut ones end the list.
        assert_eq!(attributes(&bytes[..15]).count(), 1);
        assert_eq!(attributes(&[0, 0, 0, 0]).count(), 0);
    }

    #[test]
    fn a_request_has_the_layout_of_the_kernel() {
        let request = Request::new(message::NEW_QDISC, flag::ACK, 3, 0xfa10_0000, ROOT).kind("fq");
        let bytes = request.numbered(9);
        assert_eq!(bytes.len(), 16 + 20 + 8);
        assert_eq!(u32_at(&bytes, 0), Some(44));
        assert_eq!(
            (u32_at(&bytes, 8), u32_at(&bytes, 20), u32_at(&bytes, 28)),
            (Some(9), Some(3), Some(ROOT))
        );
    }

    #[test]
    fn a_machine_is_in_the_networks_of_its_addresses() {
        let network = |text| Network::read(text).expect("a network");
        let found = Netlink::open().and_then(|mut netlink| netlink.local_networks()).expect("the addresses");
        assert!(
            found.contains(&network("127.0.0.1")) && found.contains(&network("127.0.0.0/8")),
            "{found:?}"
        );
        // On a link between two machines, IFA_ADDRESS is the other end.
        let mut message = vec![2, 32, 0, 0, 7, 0, 0, 0];
        put(&mut message, 1, &[192, 0, 2, 1]);
        put(&mut message, 2, &[192, 0, 2, 9]);
        assert_eq!(networks_of(&message), [network("192.0.2.9"), network("192.0.2.1")]);
        assert_eq!(networks_of(&message[..3]), []);
    }
}
