//! What holds for a routing machine whatever happens to it. Used by the fuzz target and by a test.

use fairhop_model::units::Nanos;
use fairhop_routing::aodv::{Aodv, Config, MAX_ROUTES};
use fairhop_routing::neighbours::MAX_NEIGHBOURS;
use fairhop_routing::wire::Message;
use fairhop_routing::{Action, Address, Context, Datagram, Random};

/// Draws from the input.
struct Draws(u32);

impl Random for Draws {
    fn up_to(&mut self, max: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((u64::from(self.0) * (u64::from(max) + 1)) >> 32) as u32
    }
}

/// The node's own address.
const ME: Address = Address(0x0a01_0000);

/// Takes `bytes` as a message, and as a list of events with messages, packets, failures and passing time. Nothing panics; every
/// message that the node sends can be read; no table grows without bound; no route leads to the node itself; a packet
/// that was buffered is released or dropped once.
pub(crate) fn check(bytes: &[u8]) {
    if let Ok((message, _)) = Message::decode(bytes) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(Message::decode(&again).map(|parts| parts.0), Ok(message));
    }
    let config = Config { buffer_packets: 8, ..Config::default() };
    let mut aodv = Aodv::new(config, ME);
    let mut random = Draws(bytes.len() as u32);
    let mut now = Nanos::ZERO;
    let (mut buffered, mut left) = (0_u64, 0_u64);
    let mut rest = bytes;
    while let [event, argument, tail @ ..] = rest {
        rest = tail;
        now += Nanos::from_millis(u64::from(*argument) << (event >> 6));
        let from = Address(ME.0 + u32::from(*argument & 7));
        let mut actions = Vec::new();
        let mut ctx = Context { now, random: &mut random, actions: &mut actions };
        if aodv.next_timer() <= now {
            aodv.on_timer(&mut ctx);
        }
        match event & 7 {
            0..=2 => {
                let length = tail.len().min(usize::from(event >> 3) + 2);
                let (message, after) = tail.split_at(length);
                rest = after;
                // What is no message is an error.
                let _ = aodv.on_message(&mut ctx, from, event & 1 == 0, *argument, message);
            }
            3 | 4 => {
                let previous = (event & 8 != 0).then_some(from);
                let destination = Address(ME.0 + u32::from(event >> 4));
                let datagram = Datagram { token: 0, source: from, destination, previous };
                buffered +=
                    u64::from(aodv.on_data(&mut ctx, datagram) == fairhop_routing::Decision::Buffered);
            }
            5 => aodv.on_given_up(&mut ctx, from, event & 8 != 0),
            6 => aodv.on_delivered(now, from, from),
            _ => aodv.on_heard(now, from),
        }
        for action in &actions {
            match action {
                Action::Send { bytes, .. } => assert!(Message::decode(bytes).is_ok()),
                Action::Release { .. } | Action::Drop { .. } => left += 1,
                _ => {}
            }
        }
        assert_eq!(buffered - left, aodv.buffered() as u64);
        assert!(aodv.buffered() <= 8 && aodv.routes().len() <= MAX_ROUTES);
        assert!(aodv.neighbours().iter().count() <= MAX_NEIGHBOURS);
        assert!(aodv.routes().iter().all(|route| route.destination != ME));
    }
}
