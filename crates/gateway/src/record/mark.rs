//! The decision of a tick in a recording: enough to see whether another controller decides the same.

use fairhop_control::policy::{Means, Policy, State};

use crate::engine::{Engine, reason_name};

/// Bytes of a mark.
pub(super) const BYTES: usize = 57;
/// Stands for no rate.
const NONE: u64 = u64::MAX;

/// The states with their numbers in a mark.
pub const STATES: [State; 5] =
    [State::Off, State::Learning, State::Steady, State::Protecting, State::Starved];
/// The kinds of reasons with their numbers in a mark.
const REASONS: [&str; 18] = [
    "no-elastic-traffic",
    "configured",
    "room-to-grow",
    "call-degraded",
    "queue-grows",
    "own-queue",
    "wired-queue",
    "call-started",
    "call-ended",
    "flows-started",
    "path-longer",
    "probe",
    "hold",
    "not-used",
    "tcp-is-not-the-cause",
    "try-again",
    "route-interrupted",
    "uplink-queue",
];

/// What was decided, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mark {
    /// State of the controller.
    pub state: State,
    /// Number of the kind of the reason.
    pub(super) reason: u8,
    /// What enforces the budget: 0 window, 1 pacing, 2 both.
    pub(super) means: u8,
    /// Number of openings of the gate; 0 without one.
    pub openings: u8,
    /// The budget in bits per second times price.
    pub budget: Option<f64>,
    /// Rates in bits per second: elastic into the mesh, interactive, ACKs out of the mesh, ACKs into it.
    pub rates: [Option<u64>; 4],
    /// Hash of the treatment of all flows, and of the gate.
    pub flows: u64,
    /// Lowest opinion score of a call in thousandths; 0 without one.
    pub milli_mos: u16,
    /// Number of flows with a treatment of their own.
    pub flow_count: u16,
}

impl Mark {
    /// The last decision of an engine.
    pub fn of(engine: &Engine) -> Self {
        let policy = engine.policy();
        let rate = |rate: Option<fairhop_model::units::BitRate>| rate.map(|rate| rate.0);
        let reason = REASONS.iter().position(|name| *name == reason_name(&policy.reason)).unwrap_or(0);
        let mos = engine.decision().and_then(|decision| decision.mos).unwrap_or(0.0);
        Self {
            state: policy.state,
            reason: reason as u8,
            means: match policy.means {
                Means::Window => 0,
                Means::Pacing => 1,
                Means::Both => 2,
            },
            openings: policy.gate.map_or(0, |gate| gate.count() as u8),
            budget: engine.controller().budget(),
            rates: [
                rate(policy.down),
                rate(policy.interactive),
                rate(policy.down_acks),
                rate(policy.up_acks),
            ],
            flows: hash(policy),
            milli_mos: (1000.0 * mos) as u16,
            flow_count: policy.flows.len().min(usize::from(u16::MAX)) as u16,
        }
    }

    /// The kind of the reason.
    pub fn reason(&self) -> &'static str {
        REASONS.get(usize::from(self.reason)).copied().unwrap_or("unknown")
    }

    pub(super) fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let state = STATES.iter().position(|state| *state == self.state).unwrap_or(0);
        bytes[..4].copy_from_slice(&[state as u8, self.reason, self.means, self.openings]);
        bytes[4] = u8::from(self.budget.is_some());
        bytes[5..13].copy_from_slice(&self.budget.unwrap_or(0.0).to_le_bytes());
        for (place, rate) in bytes[13..45].chunks_exact_mut(8).zip(self.rates) {
            place.copy_from_slice(&rate.unwrap_or(NONE).to_le_bytes());
        }
        bytes[45..53].copy_from_slice(&self.flows.to_le_bytes());
        bytes[53..55].copy_from_slice(&self.milli_mos.to_le_bytes());
        bytes[55..].copy_from_slice(&self.flow_count.to_le_bytes());
        bytes
    }

    /// None if a number has no meaning.
    pub(super) fn read(bytes: &[u8; BYTES]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes[at..].first_chunk()?));
        let half = |at: usize| Some(u16::from_le_bytes(*bytes[at..].first_chunk()?));
        let [state, reason, means, openings, has_budget, ..] = *bytes;
        let rate = |place: usize| word(13 + 8 * place).map(|rate| (rate != NONE).then_some(rate));
        Some(Self {
            state: *STATES.get(usize::from(state))?,
            reason,
            means,
            openings,
            budget: (has_budget != 0).then_some(f64::from_bits(word(5)?)),
            rates: [rate(0)?, rate(1)?, rate(2)?, rate(3)?],
            flows: word(45)?,
            milli_mos: half(53)?,
            flow_count: half(55)?,
        })
    }
}

/// FNV-1a over the treatments of a policy: the same on every machine.
fn hash(policy: &Policy) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    let others = [(None, policy.others)];
    let flows = policy.flows.iter().map(|flow| (Some(flow.key), flow.treatment));
    for (key, treatment) in flows.chain(others) {
        if let Some(key) = key {
            add(&key.mesh.0);
            add(&key.wired.0);
            add(&key.mesh_port.to_le_bytes());
            add(&key.wired_port.to_le_bytes());
            add(&[key.protocol]);
        }
        add(&treatment.window.unwrap_or(u32::MAX).to_le_bytes());
        add(&treatment.rate.map_or(NONE, |rate| rate.0).to_le_bytes());
        add(&treatment.ack_rate.map_or(NONE, |rate| rate.0).to_le_bytes());
    }
    if let Some(gate) = &policy.gate {
        add(&gate.period().0.to_le_bytes());
        for opening in gate.openings() {
            add(&opening.0.to_le_bytes());
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_as_it_was() {
        let mark = Mark {
            state: State::Protecting,
            reason: 3,
            means: 2,
            openings: 4,
            budget: Some(1.25e6),
            rates: [Some(312_500), None, None, Some(7)],
            flows: 42,
            milli_mos: 3600,
            flow_count: 12,
        };
        assert_eq!(Mark::read(&mark.bytes()), Some(mark));
        assert_eq!(mark.reason(), "call-degraded");
        assert_eq!(Mark::read(&[255; BYTES]), None);
    }
}
