//! Pacers take their memory at the start.

use fairhop_control::flow::FlowKey;
use fairhop_control::pacer::{AckPacer, Pacer, PacerConfig};
use fairhop_model::units::{BitRate, Nanos};

use crate::counting;

/// Twice as many flows as have a place, each from its first packet on, and more packets than may wait.
#[test]
fn a_pacer_allocates_for_no_packet_not_even_the_first_of_a_flow() {
    let config = PacerConfig { packets: 50, flows: 16, mark_after: None };
    let (mut data, mut acks) = (Pacer::new(config), AckPacer::new(50, 16));
    data.set_aggregate(Some(BitRate(5_000_000)));
    acks.set_rate(Some(BitRate(5_000_000)));
    let before = counting::allocations();
    let (mut sent, mut dropped) = (0, 0);
    for round in 0..5_000_u64 {
        let now = Nanos::from_micros(round * 500);
        let key = FlowKey { mesh_port: (round % 32) as u16, ..FlowKey::default() };
        dropped += u32::from(data.offer(now, &key, 1500, round).is_some());
        dropped += u32::from(acks.offer(&key, round as u32 * 1500, round).is_some());
        sent += u32::from(data.poll(now).is_some()) + u32::from(acks.poll(now).is_some());
    }
    assert_eq!(counting::allocations() - before, 0);
    assert!(sent > 1000 && dropped > 1000, "{sent} sent, {dropped} dropped");
}
