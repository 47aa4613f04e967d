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
//!
//! *Polling.* A kernel without `fq` keeps no departure times. There, what is early by more than 0.1 ms is parked, and TBF lets one
//! packet out of the park every 0.05 ms ([`VISIT`]), whatever its size. A packet leaves when it passes at its time or later; the rates
//! count from its time, as far as it is late for having waited for the others.

use std::io;

use fairhop_control::policy::Policy;
use fairhop_model::units::{BitRate, Nanos};

use super::netlink::{Interface, Listed, Netlink, ROOT, Request, attribute, flag, message, put, text};
use super::{Count, Pacing, Queue, queues};

/// Handle of the queue in the park.
const MAJOR: u32 = 0xfa30;
/// When polling, time between two packets that leave the park to be looked at again. With 60 parked packets, each passes every 3 ms,
/// half the time of a full packet at 2 Mb/s. Half and double show no difference behind 2 Mb/s with 30 downloads; 20,000 checks a second
/// take 2 % of a core, half as many 0.5 %, and twice as many 10 to 20 % (docs/validation/gateway-lines.md).
const VISIT: Nanos = Nanos::from_micros(50);
/// No more packets than one leave the park in that time, at any rate: 480 Mb/s of full packets.
const MIN_VISIT: Nanos = Nanos::from_micros(25);
/// At rates above 60 Mb/s, so many packets are checked in the time of a full one, or the pace of small packets would be that of the checks.
const CHECKS: u64 = 4;
/// When polling, packets with data that are parked at most, and ACKs: all pass within 50 ms, or the programs would take them for lost
/// (`PARK_EPOCH`).
pub(super) const MAX_POLLED: u32 = 500;
/// Attributes of interfaces (`linux/if_link.h`).
const NAME: u16 = 3;
const MTU: u16 = 4;
const LINK_INFO: u16 = 18;
const FAMILY_SETTINGS: u16 = 26;
/// The largest that the kernel takes: packets of several segments pass too.
const MAX_MTU: u32 = 65_535;
/// Size of the queue. The program bounds what is parked (`park_packets`), and counts what it drops.
const PACKETS: u32 = 10_000;

/// The interfaces into the park and out of it.
#[derive(Debug)]
pub(super) struct Park {
    pub(super) way_in: Interface,
    pub(super) way_out: Interface,
    mesh: String,
    /// When polling, as it is in force.
    visit: Nanos,
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
    /// The kernel has no `veth` (`ErrorKind::Unsupported`) or the queue (`ErrorKind::NotFound`), or refuses.
    pub(super) fn make(netlink: &mut Netlink, mesh: &Interface, pacing: Pacing) -> io::Result<Self> {
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
        Self::finish(netlink, mesh, &names, pacing).inspect_err(|_| {
            // The first error counts.
            let _ = clean(netlink, &mesh.name);
        })
    }

    fn finish(
        netlink: &mut Netlink,
        mesh: &Interface,
        names: &[String; 2],
        pacing: Pacing,
    ) -> io::Result<Self> {
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
        let (kind, options) = match pacing {
            Pacing::Polling => ("tbf", visits(VISIT)),
            _ => ("fq", queues::fq_options(PACKETS)),
        };
        let queue = Request::new(
            message::NEW_QDISC,
            flag::ACK | flag::CREATE | flag::REPLACE,
            way_in.index,
            MAJOR << 16,
            ROOT,
        )
        .kind(kind)
        .with(attribute::OPTIONS, &options);
        netlink.request(&[up(&way_in), up(&way_out), queue])?;
        Ok(Self { way_in, way_out, mesh: mesh.name.clone(), visit: VISIT })
    }

    /// When polling, lets packets pass as often as a policy needs.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn set(&mut self, netlink: &mut Netlink, policy: &Policy) -> io::Result<()> {
        let visit = visit_of(policy);
        if visit != self.visit {
            let change =
                Request::new(message::NEW_QDISC, flag::ACK, self.way_in.index, MAJOR << 16, ROOT).kind("tbf");
            netlink.request(&[change.with(attribute::OPTIONS, &visits(visit))])?;
            self.visit = visit;
        }
        Ok(())
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

/// When polling under a policy, time between two packets that leave the park to be looked at again.
pub(super) fn visit_of(policy: &Policy) -> Nanos {
    const FULL_PACKET: u64 = 1500;
    let of_flows = policy.flows.iter().map(|flow| flow.treatment.rate).chain([policy.others.rate]);
    let together = of_flows.flatten().fold(0_u64, |sum, rate| sum.saturating_add(rate.0));
    let data = policy.down.map_or(together, |rate| rate.0);
    let rate = data.max(policy.up_acks.map_or(0, |rate| rate.0)).max(1);
    Nanos(BitRate(rate).time_for(FULL_PACKET).0 / CHECKS).clamp(MIN_VISIT, VISIT)
}

/// Options of a TBF that lets one packet pass in this time.
fn visits(visit: Nanos) -> Vec<u8> {
    /// Counts with each packet, so that packets of 54 and 1,514 bytes take about the same time.
    const OVERHEAD: u16 = 30_000;
    const ETHERNET: u32 = 14;
    const FULL_PACKET: u32 = 1514;
    let rate = (u64::from(OVERHEAD) + u64::from(FULL_PACKET)) * 1_000_000_000 / visit.0;
    queues::tbf_options(rate, OVERHEAD, MAX_MTU + ETHERNET, PACKETS * FULL_PACKET)
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

#[cfg(test)]
mod tests {
    use fairhop_control::flow::FlowKey;
    use fairhop_control::policy::{FlowPolicy, Treatment};

    use super::*;

    #[test]
    fn checks_follow_the_fastest_pace_within_bounds() {
        let mbps = |rate: u64| Some(BitRate(rate * 1_000_000));
        let us = |policy: &Policy| visit_of(policy).0 / 1000;
        assert_eq!(us(&Policy::none()), 50);
        assert_eq!(us(&Policy { down: mbps(2), ..Policy::none() }), 50);
        // Four in the 120 µs of a full packet.
        assert_eq!(us(&Policy { down: mbps(100), ..Policy::none() }), 30);
        assert_eq!(us(&Policy { up_acks: mbps(100), ..Policy::none() }), 30);
        assert_eq!(us(&Policy { down: mbps(10_000), ..Policy::none() }), 25);
        // Without a rate of all, that of the flows together.
        let treatment = Treatment { rate: mbps(50), ..Treatment::default() };
        let flow = FlowPolicy { key: FlowKey::default(), treatment };
        assert_eq!(us(&Policy { flows: vec![flow, flow], ..Policy::none() }), 30);
    }

    #[test]
    fn the_queue_lets_packets_of_all_sizes_pass_about_as_often() {
        let options = visits(VISIT);
        // The first attribute is `tc_tbf_qopt`, after a header of four bytes: overhead and rate of its first `tc_ratespec`.
        let overhead = u64::from(u16::from_ne_bytes([options[6], options[7]]));
        let rate = u64::from(u32::from_ne_bytes([options[12], options[13], options[14], options[15]]));
        for bytes in [54, 600, 1514] {
            let ns = (bytes + overhead) * 1_000_000_000 / rate;
            assert!((47_500..=50_001).contains(&ns), "{bytes}: {ns}");
        }
    }
}
