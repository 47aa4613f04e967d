//! What a run of the programs costs. A guest in virtual time takes a nanosecond for each instruction, so that there it is counted in
//! instructions; see docs/validation/gateway-cost.md for the command.

use fairhop_control::digest::Direction;
use fairhop_control::policy::{FlowPolicy, Policy, Treatment};
use fairhop_gateway::datapath::Pacing;
use fairhop_gateway::datapath::trial::{Constants, Program, Trial};
use fairhop_model::units::{BitRate, Nanos};

use crate::differential::open;
use crate::frames::{datagram, key, segment};

const TCP: u8 = 6;
const ACK: u8 = 0x10;
/// Runs on the same packet.
const TIMES: u32 = 2_000;

/// A segment with the timestamps that most have.
fn with_timestamps(mut frame: Vec<u8>) -> Vec<u8> {
    const OPTIONS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 7];
    let length = u16::from_be_bytes([frame[16], frame[17]]) + OPTIONS.len() as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[46] = 0x80;
    frame.splice(54..54, OPTIONS);
    frame
}

/// `… cost --ignored --nocapture`
#[test]
#[ignore = "it measures"]
fn a_run_takes() {
    let rate = BitRate(9_000_000_000);
    let treatment = Treatment { window: Some(6_000), ..Treatment::default() };
    let listed = vec![FlowPolicy { key: key(1, TCP), treatment }];
    let observe = Policy::none();
    let windows = Policy { flows: listed, others: treatment, ..Policy::none() };
    let paced = Policy { down: Some(rate), ..windows.clone() };
    let ways = [
        ("observe", observe, Pacing::Off),
        ("windows", windows, Pacing::Off),
        ("departure times", paced.clone(), Pacing::DepartureTimes),
        ("classes", paced, Pacing::Classes),
    ];
    let packets = [
        ("data", Program::ToMesh, with_timestamps(segment(1, Direction::ToMesh, 1, ACK, 1448))),
        ("ACK", Program::FromMesh, with_timestamps(segment(1, Direction::FromMesh, 1, ACK, 0))),
        ("datagram", Program::ToMesh, datagram(1, 172)),
    ];
    for (name, policy, pacing) in ways {
        let mut trial = Trial::with_clock(Constants { pacing, ..Constants::default() }).unwrap();
        open(&mut trial, Nanos::ZERO, |direction, flags| segment(1, direction, 1, flags, 0));
        trial.order(&policy, Nanos::MAX, 200).unwrap();
        let times = packets.each_ref().map(|(what, program, packet)| {
            format!("{what} {}", trial.time(*program, packet, TIMES).unwrap())
        });
        eprintln!("{name}: {}", times.join(", "));
    }
}
