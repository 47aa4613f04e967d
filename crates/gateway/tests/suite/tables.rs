//! The tables of flows in the programs: who has a place, and who loses it.

use fairhop_control::digest::Direction;
use fairhop_control::policy::{Policy, Treatment};
use fairhop_gateway::datapath::trial::{Constants, Program, Trial};
use fairhop_gateway::datapath::{AckWeight, DatagramClass, Orders, Pacing};
use fairhop_model::units::{BitRate, Nanos};

use crate::differential::{self, trial};
use crate::frames::{datagram, key, segment};

const ACK: u8 = 0x10;
/// Offset of the window field in a frame of [`segment`].
const WINDOW: usize = 48;
const START: Nanos = Nanos::from_secs(100);

/// A segment of one of 16 million flows.
fn segment_of(flow: u32, direction: Direction, ack: u32, flags: u8) -> Vec<u8> {
    let mut frame = segment(1, direction, ack, flags, 0);
    let (address, port) = match direction {
        Direction::ToMesh => (32, 36),
        Direction::FromMesh => (28, 34),
    };
    frame[address] = (flow >> 16) as u8;
    frame[port..port + 2].copy_from_slice(&(flow as u16).to_be_bytes());
    frame
}

fn open(trial: &mut Trial, now: Nanos, flow: u32) {
    differential::open(trial, now, |direction, flags| segment_of(flow, direction, 1, flags));
}

/// Whether windows of a flow are limited. Each time, it has acknowledged more.
fn is_known(trial: &mut Trial, now: Nanos, flow: u32, ack: u32) -> bool {
    let frame = segment_of(flow, Direction::FromMesh, ack, ACK);
    let outcome = trial.run(Program::FromMesh, now, 0, &frame).unwrap();
    outcome.packet[WINDOW..WINDOW + 2] != frame[WINDOW..WINDOW + 2]
}

fn limited() -> Option<Trial> {
    let mut trial = trial(Constants::default())?;
    let others = Treatment { window: Some(2_000), ..Treatment::default() };
    trial.order(&Policy { others, ..Policy::none() }, Nanos::MAX, 200).unwrap();
    Some(trial)
}

#[test]
fn as_many_flows_as_configured_are_known_and_those_that_end_make_room() {
    let Some(mut trial) = limited() else { return };
    let flows = Constants::default().flows;
    for round in 0..2 {
        let first = round * flows;
        for flow in first..first + flows {
            open(&mut trial, START, flow);
        }
        let known = (first..first + flows).filter(|&flow| is_known(&mut trial, START, flow, 200_000)).count();
        assert!(known as f64 > 0.99 * f64::from(flows), "{known} of {flows} flows are known");
        for flow in first..first + flows {
            let reset = segment_of(flow, Direction::ToMesh, 1, 4);
            trial.run(Program::ToMesh, START, 0, &reset).unwrap();
            assert!(!is_known(&mut trial, START, flow, 400_000));
        }
    }
}

/// 50,000 new flows in half a second, three times as many as have a place. Each of 20 flows has a packet in 20 ms.
#[test]
fn a_flood_of_flows_does_not_evict_flows_with_packets() {
    let Some(mut trial) = limited() else { return };
    let busy = 1_000_000..1_000_020_u32;
    for flow in busy.clone() {
        open(&mut trial, START, flow);
    }
    let mut known = [0_u32; 20];
    for number in 0..50_000_u32 {
        let now = START.saturating_add(Nanos(10_000 * u64::from(number)));
        open(&mut trial, now, number);
        if number % 2_000 == 0 {
            for (flow, known) in busy.clone().zip(&mut known) {
                *known += u32::from(is_known(&mut trial, now, flow, 200_000 + 100 * number));
            }
        }
    }
    assert!(known.iter().filter(|&&times| times == 25).count() >= 19, "{known:?}");
}

/// UDP flows with a packet in 20 ms and a pace of one in 30 ms, beside new TCP flows: a flow that loses its place loses its pace.
#[test]
fn a_flood_of_tcp_flows_does_not_evict_udp_flows_with_packets() {
    let Some(mut trial) = trial(Constants { pacing: Pacing::DepartureTimes, ..Constants::default() }) else {
        return;
    };
    let others = Treatment { rate: Some(BitRate(8 * 1000 * 1000 / 30)), ..Treatment::default() };
    let policy = Policy { others, ..Policy::none() };
    let datagrams: Vec<_> = (0..20).map(|flow| (key(flow, 17), DatagramClass::Elastic)).collect();
    let orders = Orders { policy: &policy, datagrams: &datagrams, acks: AckWeight::default() };
    trial.order_all(&orders, Nanos::MAX, 200).unwrap();
    let mut paced = [0; 20];
    for number in 0..50_000_u32 {
        let now = START.saturating_add(Nanos(10_000 * u64::from(number)));
        let mut frame = segment_of(number, Direction::ToMesh, 1, ACK);
        frame.push(0);
        frame[17] += 1;
        trial.run(Program::ToMesh, now, 0, &frame).unwrap();
        if number % 2_000 == 0 {
            for (flow, paced) in (0..).zip(&mut paced) {
                let outcome = trial.run(Program::ToMesh, now, 0, &datagram(flow, 972)).unwrap();
                *paced += u32::from(outcome.departure > now);
            }
        }
    }
    // The first packet of each leaves at once.
    assert!(paced.iter().filter(|&&times| times == 24).count() >= 19, "{paced:?}");
}
