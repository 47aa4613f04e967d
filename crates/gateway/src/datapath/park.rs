//! The park: where packets wait that are too early to be given a departure time.
//!
//! `fq` keeps a departure time once it is given. With many flows at a low rate that would be seconds ahead, and a new rate
//! would take effect as late. So times are given 150 ms ahead at most (`HORIZON` in `bpf/fairhop.c`). What would leave later
//! goes through a pair of interfaces of the gateway's own for 50 ms (`STAY`), and is looked at again:
//!
//! ```text
//!  mesh interface: fairhop_to_mesh ─ in time ─► fq ─► driver
//!       ▲                └ too early ─► in: fairhop_park, fq ─► out: fairhop_unpark ─┐
//!       └────────────────────────────────────────────────────────────────────────────┘
//! ```

use std::io;

use super::netlink::{Interface, Listed, Netlink, ROOT, Request, attribute, flag, message, put, text};
use super::{Count, Queue, queues};

/// Handle of the queue in the park.
const MAJOR: u32 = 0xfa30;
/// Attributes of interfaces (`linux/if_link.h`).
const NAME: u16 = 3;
const MTU: u16 = 4;
const LINK_INFO: u16 = 18;
const FAMILY_SETTINGS: u16 = 26;

/// The interfaces into the park and out of it.
#[derive(Debug)]
pub(super) struct Park {
    pub(super) way_in: Interface,
    pub(super) way_out: Interface,
    mesh: String,
}

/// The same names for the same mesh interface, so that what a gateway that was killed has left is found.
fn names(mesh: &str) -> [String; 2] {
    // FNV-1a: names of interfaces have at most 15 characters, and so may that of the mesh.
    let hash =
        mesh.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    ["i", "o"].map(|end| format!("fhpark{hash:08x}{end}"))
}

impl Park {
    /// Makes the park of a mesh interface.
    ///
    /// # Errors
    /// The kernel has no `veth` or `fq`, or refuses.
    pub(super) fn make(netlink: &mut Netlink, mesh: &Interface) -> io::Result<Self> {
        /// The largest that the kernel takes: packets of several segments pass too.
        const MAX_MTU: u32 = 65_535;
        let names = names(&mesh.name);
        let mut peer = vec![0; 16];
        put(&mut peer, NAME, &text(&names[1]));
        put(&mut peer, MTU, &MAX_MTU.to_ne_bytes());
        let info = nested(&[(1, text("veth")), (2, nested(&[(1, peer)]))]);
        let create = Request::link(message::NEW_LINK, flag::ACK | flag::CREATE | flag::EXCLUSIVE, 0, false)
            .with(NAME, &text(&names[0]))
            .with(MTU, &MAX_MTU.to_ne_bytes())
            .with(LINK_INFO, &info);
        netlink.request(&[create])?;
        Self::finish(netlink, mesh, &names).inspect_err(|_| {
            // The first error counts.
            let _ = clean(netlink, &mesh.name);
        })
    }

    fn finish(netlink: &mut Netlink, mesh: &Interface, names: &[String; 2]) -> io::Result<Self> {
        /// The program bounds what is parked (`park_packets`), and counts what it drops.
        const PACKETS: u32 = 10_000;
        let mut find =
            |name: &str| netlink.interface(name)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        let (way_in, way_out) = (find(&names[0])?, find(&names[1])?);
        // No addresses of its own (`IN6_ADDR_GEN_MODE_NONE`), or IPv6 would send packets into it. A kernel without IPv6 refuses.
        let none = nested(&[(libc::AF_INET6 as u16, nested(&[(8, vec![1])]))]);
        for interface in [&way_in, &way_out] {
            let quiet = Request::link(message::NEW_LINK, flag::ACK, interface.index, false);
            let _ = netlink.request(&[quiet.with(FAMILY_SETTINGS, &none)]);
        }
        let up = |interface: &Interface| Request::link(message::NEW_LINK, flag::ACK, interface.index, true);
        let queue = Request::new(
            message::NEW_QDISC,
            flag::ACK | flag::CREATE | flag::REPLACE,
            way_in.index,
            MAJOR << 16,
            ROOT,
        )
        .kind("fq")
        .with(attribute::OPTIONS, &queues::fq_options(PACKETS));
        netlink.request(&[up(&way_in), up(&way_out), queue])?;
        Ok(Self { way_in, way_out, mesh: mesh.name.clone() })
    }

    /// Packets that are parked.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn waiting(&self, netlink: &mut Netlink) -> io::Result<usize> {
        Ok(self.listed(netlink)?.waiting as usize)
    }

    fn listed(&self, netlink: &mut Netlink) -> io::Result<Listed> {
        let queues = netlink.qdiscs(self.way_in.index)?;
        Ok(queues.into_iter().find(|queue| queue.handle == MAJOR << 16).unwrap_or_default())
    }

    /// The queue in the park.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn queue(&self, netlink: &mut Netlink) -> io::Result<Queue> {
        let listed = self.listed(netlink)?;
        Ok(Queue {
            interface: self.way_in.name.clone(),
            purpose: format!("too early for {}", self.mesh),
            kind: listed.kind,
            handle: format!("{MAJOR:x}:"),
            rate: None,
            sent: Count { packets: u64::from(listed.packets), bytes: listed.bytes },
            dropped: u64::from(listed.dropped),
            waiting: listed.waiting,
        })
    }
}

/// Removes the park of a mesh interface, if there is one. Its name, if there was.
///
/// # Errors
/// The kernel refuses.
pub(super) fn clean(netlink: &mut Netlink, mesh: &str) -> io::Result<Option<String>> {
    let [name, _] = names(mesh);
    let Some(interface) = netlink.interface(&name)? else { return Ok(None) };
    netlink.request(&[Request::link(message::DELETE_LINK, flag::ACK, interface.index, false)])?;
    Ok(Some(name))
}

fn nested(attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in attributes {
        put(&mut bytes, *kind, value);
    }
    bytes
}
