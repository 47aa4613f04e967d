//! The programs against the code that they follow: the same verdict, the same bytes, the same digest, packet by packet.

use fairhop_control::digest::{Digest, Direction, Payload};
use fairhop_control::policy::{FlowPolicy, Policy, Treatment};
use fairhop_control::raw::RawDigest;
use fairhop_control::window::{Clamps, rewrite};
use fairhop_gateway::datapath::DatapathError;
use fairhop_gateway::datapath::trial::{Constants, Program, Trial};
use fairhop_model::units::Nanos;

use crate::frames::{Frame, Random, generate};

/// Programs for a test; none, with a message, where they cannot be loaded.
pub(crate) fn trial(constants: Constants) -> Option<Trial> {
    match Trial::new(constants) {
        Ok(trial) => Some(trial),
        Err(error @ DatapathError::Missing { .. }) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The handshake of a flow with these segments, from the wired side.
pub(crate) fn open(trial: &mut Trial, now: Nanos, segment: impl Fn(Direction, u8) -> Vec<u8>) {
    const SYN: u8 = 2;
    const ACK: u8 = 0x10;
    for (program, direction, flags) in [
        (Program::ToMesh, Direction::ToMesh, SYN),
        (Program::FromMesh, Direction::FromMesh, SYN | ACK),
        (Program::ToMesh, Direction::ToMesh, ACK),
    ] {
        trial.run(program, now, 0, &segment(direction, flags)).unwrap();
    }
}

/// What the programs do, with the code of the laboratory.
struct Reference {
    clamps: Clamps,
    policy: Policy,
}

impl Reference {
    /// The frame afterwards and its digest.
    fn cross(&mut self, now: Nanos, direction: Direction, frame: &Frame) -> (Vec<u8>, Option<Digest>) {
        let mut bytes = frame.bytes.clone();
        let Some((digest, ip_at)) = frame.expected(now, direction) else { return (bytes, None) };
        if let Payload::Tcp(fields) = &digest.payload {
            let key = digest.flow();
            let limit = self.policy.treatment(now, &key).window;
            let field = self.clamps.on_segment(now, &key, direction, fields, limit);
            rewrite(&mut bytes[ip_at..], |_| field);
        }
        (bytes, Some(digest))
    }
}

/// How often packets had what the comparison is about.
#[derive(Debug, Default)]
struct Seen {
    digests: u64,
    tcp: u64,
    rtp: u64,
    rtcp: u64,
    clamped: u64,
    alone: u64,
}

fn compare(packets: u64, seed: u64) -> Option<Seen> {
    let mut seen = Seen::default();
    for (is_ip, in_place) in [(false, true), (false, false), (true, true), (true, false)] {
        let constants = Constants { mesh_is_ip: is_ip, wired_is_ip: is_ip, in_place, ..Constants::default() };
        let mut trial = trial(constants)?;
        let mut random = Random(seed);
        let mut reference = Reference { clamps: Clamps::new(16_384), policy: Policy::none() };
        for number in 0..packets / 2 {
            let now = Nanos(1_000_000_000 + number * 1_000);
            let direction = if random.one_in(2) { Direction::ToMesh } else { Direction::FromMesh };
            let frame = generate(&mut random, direction, is_ip);
            if number % 500 == 0 {
                reference.policy = policy(&mut random, now, &frame);
                trial.order(&reference.policy, reference.policy.expires, 200).unwrap();
            }
            let program = match direction {
                Direction::ToMesh => Program::ToMesh,
                Direction::FromMesh => Program::FromMesh,
            };
            let outcome = match trial.run(program, now, 0, &frame.bytes) {
                Ok(outcome) => outcome,
                // The kernel runs programs on no frame without a whole IP header.
                Err(_) if frame.bytes.len() < 54 => continue,
                Err(error) => panic!("{error}: {:02x?}", frame.bytes),
            };
            let (bytes, digest) = reference.cross(now, direction, &frame);
            let place = format!(
                "packet {number} of seed {seed}, {direction:?}, IP device {is_ip}, in place {in_place}: {:02x?}",
                frame.bytes
            );
            assert!(outcome.passes, "{place}");
            assert_eq!(outcome.digest, digest.as_ref().map(RawDigest::from), "{place}");
            assert_eq!(outcome.packet, bytes, "{place}");
            seen.clamped += u64::from(bytes != frame.bytes);
            match digest.map(|digest| digest.payload) {
                None => seen.alone += 1,
                Some(payload) => {
                    seen.digests += 1;
                    seen.tcp += u64::from(matches!(payload, Payload::Tcp(_)));
                    seen.rtp += u64::from(matches!(payload, Payload::Rtp(_)));
                    seen.rtcp += u64::from(matches!(payload, Payload::Rtcp(_)));
                }
            }
        }
    }
    Some(seen)
}

/// Clamps for all flows, and another one for the flow of a packet; sometimes one that has expired.
fn policy(random: &mut Random, now: Nanos, frame: &Frame) -> Policy {
    let window = |random: &mut Random| {
        let bits = 4 + random.below(14);
        (!random.one_in(3)).then(|| random.below(1 << bits) as u32)
    };
    let others = Treatment { window: window(random), ..Treatment::default() };
    let flow = frame.expected(now, Direction::ToMesh).map(|(digest, _)| digest.flow());
    let treatment = Treatment { window: window(random), ..Treatment::default() };
    Policy {
        expires: if random.one_in(5) { now } else { Nanos::MAX },
        flows: flow.map(|key| FlowPolicy { key, treatment }).into_iter().collect(),
        others,
        ..Policy::none()
    }
}

#[test]
fn programs_do_with_packets_what_the_laboratory_does() {
    let Some(seen) = compare(40_000, 1) else { return };
    // The generator reaches what is compared.
    let counts = [seen.digests, seen.tcp, seen.rtp, seen.rtcp, seen.clamped, seen.alone];
    assert!(counts.iter().all(|&count| count > 400), "{seen:?}");
}

/// `cargo test -p fairhop-gateway --test suite differential -- --ignored --nocapture`
#[test]
#[ignore = "a million packets take half a minute"]
fn programs_do_with_a_million_packets_what_the_laboratory_does() {
    let began = std::time::Instant::now();
    let Some(seen) = compare(1_000_000, 2) else { return };
    eprintln!("{seen:?} in {:.1} s", began.elapsed().as_secs_f64());
}
