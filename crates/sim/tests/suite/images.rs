//! Each hop has its own image of a packet's header: what one node writes into it, no retransmission of another node shows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fairhop_model::units::Nanos;
use fairhop_sim::mac::{Frame, FrameKind};
use fairhop_sim::packet::{Body, Header, NodeId, PacketView};
use fairhop_sim::world::{Tap, World};

use crate::support::ready;

/// Header and sender of a data frame, by sender, creation and stream of the packet: the first attempt and the others.
type Attempts = BTreeMap<(NodeId, Nanos, u32), Vec<Header>>;

#[derive(Default)]
struct Seen {
    sent: Attempts,
    /// Headers of pure ACKs that the gateway has sent on by wire.
    wired_acks: Vec<Header>,
}

struct Watch(Arc<Mutex<Seen>>);

impl Tap for Watch {
    fn frame(
        &mut self,
        node: NodeId,
        _: Nanos,
        frame: &Frame,
        _: NodeId,
        packet: Option<PacketView<'_>>,
        received: bool,
    ) {
        if let Some(packet) = packet.filter(|_| !received && frame.kind == FrameKind::Data) {
            let mut seen = self.0.lock().unwrap();
            seen.sent.entry((node, packet.created, packet.stream)).or_default().push(*packet.header);
        }
    }

    fn wired(&mut self, node: NodeId, _: NodeId, _: Nanos, packet: PacketView<'_>, arrived: bool) {
        if node == 0
            && !arrived
            && let Body::Tcp(segment) = packet.body
            && segment.len == 0
        {
            self.0.lock().unwrap().wired_acks.push(*packet.header);
        }
    }
}

fn world(name: &str, overrides: &[&str]) -> World {
    World::new(&ready(name, overrides.iter().copied()), 1).unwrap()
}

fn seen(mut world: World) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    world.set_tap(Box::new(Watch(Arc::clone(&seen))));
    world.run();
    std::mem::take(&mut *seen.lock().unwrap())
}

/// The gateway clamps the window of ACKs as they come out of the mesh. Node 1, which has sent them, retransmits some that the
/// gateway has received: with the window that the receiver of the download wrote.
#[test]
fn a_retransmission_repeats_the_header_of_the_first_attempt_whatever_the_gateway_has_clamped() {
    let clamp = "control={kind=\"window\", window_packets=2}";
    let seen = seen(world("k-mix", &["duration_s=20", clamp]));
    let mut repeated = 0;
    for headers in seen.sent.values() {
        assert!(headers.iter().all(|header| *header == headers[0]), "{headers:?}");
        repeated += headers.len() - 1;
    }
    assert!(repeated > 100, "{repeated} retransmissions");
    let clamped = seen.wired_acks.iter().map(|header| header.window).max();
    let written =
        seen.sent.iter().filter(|((node, ..), _)| *node == 1).map(|(_, headers)| headers[0].window).max();
    assert!(clamped < written, "the gateway has clamped: {clamped:?} of {written:?}");
}

/// On a string behind a gateway, hosts send with 64 and every node that forwards sends one less (RFC 791 §3.1).
#[test]
fn every_node_that_forwards_a_packet_sends_it_with_one_less_to_live() {
    let seen = seen(world("k-mix", &["duration_s=6"]));
    for ((node, _, stream), headers) in &seen.sent {
        // Calls, which are the first five flows, start at node 0; downloads at the Internet host.
        let from_internet = u32::from(*stream >= 10);
        let forwarded_by = if stream % 2 == 0 { node + from_internet } else { 4 - node };
        assert_eq!(u32::from(headers[0].ttl), 64 - forwarded_by, "stream {stream} at node {node}");
    }
}

/// The Internet host, from which the downloads come, is five hops from node 4; the calls begin at node 0.
#[test]
fn a_path_longer_than_packets_live_is_refused_with_the_key_that_helps() {
    let build = |ttl: &str| World::new(&ready("k-mix", [ttl]), 1).map(|_| ());
    assert!(build("routing.ttl=5").is_ok());
    let findings = build("routing.ttl=4").unwrap_err();
    let all: Vec<_> =
        findings.iter().map(|finding| (&*finding.path, &*finding.message, &*finding.help)).collect();
    let message = "the path has 5 hops, but packets are dropped after 4";
    let help = "set `routing.ttl` to 5 or more, or choose nearer ends";
    assert_eq!(all, [("traffic.1.to", message, help)]);
}
