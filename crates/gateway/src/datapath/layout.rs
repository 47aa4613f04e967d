//! Memory shared with the programs in the kernel: mirrors of the structs in `bpf/fairhop.c`. Sizes are asserted here, and
//! both change together.

// Every bit pattern is a value of these types and they have no padding: that is what `aya::Pod` asks for.
#![allow(unsafe_code)]

use fairhop_control::flow::{Address, FlowKey};
use fairhop_control::gate::Gate;
use fairhop_control::pacer::MAX_ACK_WAIT;
use fairhop_control::policy::Policy;
use fairhop_control::raw::RawDigest;
use fairhop_model::units::{BitRate, Nanos};

use super::{ByClass, Count, Counters, park};

/// No limit: `NONE` of the programs.
pub(super) const NO_RATE: u64 = u64::MAX;
/// No clamp.
pub(super) const NO_WINDOW: u32 = u32::MAX;

/// `struct key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub(super) struct RawKey {
    pub(super) mesh: [u8; 16],
    pub(super) wired: [u8; 16],
    pub(super) mesh_port: u16,
    pub(super) wired_port: u16,
    pub(super) protocol: u8,
    pub(super) zero: [u8; 3],
}

/// `struct treatment`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct RawTreatment {
    pub(super) rate: u64,
    pub(super) window: u32,
    pub(super) class: u16,
    pub(super) datagrams: u8,
    pub(super) is_listed: u8,
}

/// `struct treated`: a place in the table of treatments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct RawTreated {
    pub(super) mesh: [u8; 16],
    pub(super) wired: [u8; 16],
    pub(super) mesh_port: u16,
    pub(super) wired_port: u16,
    pub(super) mark: u32,
    pub(super) treatment: RawTreatment,
    zero: u64,
}

/// `struct orders`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct RawOrders {
    pub(super) expires: u64,
    pub(super) down: u64,
    pub(super) interactive: u64,
    pub(super) up_acks: u64,
    pub(super) down_acks: u64,
    pub(super) others_rate: u64,
    pub(super) max_wait: u64,
    pub(super) max_ack_wait: u64,
    pub(super) gate_period: u64,
    pub(super) visit: u64,
    pub(super) openings: [u64; Gate::MAX_OPENINGS],
    pub(super) opening_count: u32,
    pub(super) others_window: u32,
    pub(super) paces_data: u32,
    pub(super) treatments: u32,
    pub(super) ack_epochs: [u32; 2],
}

/// `struct counters` of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct RawCounters {
    by_class: [[[u64; 2]; 5]; 2],
    digests: u64,
    digests_lost: u64,
    clamped: u64,
    dropped: u64,
    unparsed: u64,
    unlimited: u64,
    super_packets: u64,
    flows_refused: u64,
}

const _: () = assert!(size_of::<RawKey>() == 40);
const _: () = assert!(size_of::<RawTreatment>() == 16);
const _: () = assert!(size_of::<RawTreated>() == 64);
const _: () = assert!(size_of::<RawOrders>() == 80 + 8 * Gate::MAX_OPENINGS + 24);
const _: () = assert!(size_of::<RawCounters>() == 224);
const _: () = assert!(size_of::<RawDigest>() == 104);

// SAFETY: integers and arrays of integers without padding (the assertions above).
unsafe impl aya::Pod for RawKey {}
// SAFETY: as above.
unsafe impl aya::Pod for RawTreated {}
// SAFETY: as above.
unsafe impl aya::Pod for RawOrders {}
// SAFETY: as above.
unsafe impl aya::Pod for RawCounters {}

impl From<&FlowKey> for RawKey {
    fn from(key: &FlowKey) -> Self {
        let Address(mesh) = key.mesh;
        let Address(wired) = key.wired;
        Self {
            mesh,
            wired,
            mesh_port: key.mesh_port,
            wired_port: key.wired_port,
            protocol: key.protocol,
            zero: [0; 3],
        }
    }
}

impl RawKey {
    /// As the programs hash it.
    pub(super) fn words(&self) -> [u32; 10] {
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&self.mesh);
        bytes[16..32].copy_from_slice(&self.wired);
        bytes[32..34].copy_from_slice(&self.mesh_port.to_ne_bytes());
        bytes[34..36].copy_from_slice(&self.wired_port.to_ne_bytes());
        bytes[36] = self.protocol;
        let (words, _) = bytes.as_chunks::<4>();
        std::array::from_fn(|word| u32::from_ne_bytes(words[word]))
    }
}

impl RawTreated {
    /// A place without a flow.
    pub(super) fn empty(mark: u32) -> Self {
        Self { mark, ..Self::default() }
    }

    /// A flow in its place.
    pub(super) fn new(key: &RawKey, mark: u32, treatment: &RawTreatment) -> Self {
        let RawKey { mesh, wired, mesh_port, wired_port, .. } = *key;
        Self { mesh, wired, mesh_port, wired_port, mark, treatment: *treatment, zero: 0 }
    }
}

/// A rate as the programs have it.
pub(super) fn raw_rate(rate: Option<BitRate>) -> u64 {
    rate.map_or(NO_RATE, |rate| rate.0)
}

impl RawOrders {
    /// Longest wait: `fq` drops what is more than 10 s ahead.
    const MAX_WAIT: Nanos = Nanos::from_secs(8);
    /// Bytes of a full packet.
    const PACKET: u64 = 1500;

    /// The orders of a policy that expires at `expires`. The data pacer holds as many full packets as `queue_packets`.
    pub(super) fn new(
        policy: &Policy,
        expires: Nanos,
        queue_packets: u32,
        has_gate: bool,
        treatments: u32,
        ack_epochs: [u32; 2],
    ) -> Self {
        let gate = policy.gate.as_ref().filter(|_| has_gate);
        /// The programs search in all places: a time that no cycle reaches.
        const NO_OPENING: u64 = 1 << 62;
        let mut openings = [NO_OPENING; Gate::MAX_OPENINGS];
        for (place, opening) in openings.iter_mut().zip(gate.map_or(&[][..], Gate::openings)) {
            *place = opening.0;
        }
        let rates = policy.flows.iter().map(|flow| flow.treatment.rate).chain([policy.others.rate]);
        let slowest = policy.down.or(rates.flatten().min());
        let full = slowest.map_or(Nanos::ZERO, |rate| rate.time_for(u64::from(queue_packets) * Self::PACKET));
        // A gate alone lets pass what it lets pass.
        let full = if slowest.is_none() { Self::MAX_WAIT } else { full };
        Self {
            expires: expires.0,
            down: raw_rate(policy.down),
            interactive: raw_rate(policy.interactive),
            up_acks: raw_rate(policy.up_acks),
            down_acks: raw_rate(policy.down_acks),
            others_rate: raw_rate(policy.others.rate),
            max_wait: full.min(Self::MAX_WAIT).0,
            max_ack_wait: MAX_ACK_WAIT.0,
            gate_period: gate.map_or(0, |gate| gate.period().0),
            visit: park::visit_of(policy).0,
            openings,
            opening_count: gate.map_or(0, Gate::count) as u32,
            others_window: policy.others.window.unwrap_or(NO_WINDOW),
            paces_data: u32::from(policy.paces_data()),
            treatments,
            ack_epochs,
        }
    }
}

impl From<&RawCounters> for Counters {
    /// The counts of one CPU; the time that the programs have run is not among them.
    fn from(raw: &RawCounters) -> Self {
        let of = |classes: &[[u64; 2]; 5]| {
            let [voice, tcp, tcp_control, paced_udp, other] =
                classes.map(|[packets, bytes]| Count { packets, bytes });
            ByClass { voice, tcp, tcp_control, paced_udp, other }
        };
        Self {
            to_mesh: of(&raw.by_class[0]),
            from_mesh: of(&raw.by_class[1]),
            digests: raw.digests,
            digests_lost: raw.digests_lost,
            clamped: raw.clamped,
            dropped: raw.dropped,
            unparsed: raw.unparsed,
            unlimited: raw.unlimited,
            super_packets: raw.super_packets,
            flows_refused: raw.flows_refused,
            run_time_ns: 0,
            runs: 0,
        }
    }
}
