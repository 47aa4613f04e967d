//! The programs on single packets, without interfaces (`BPF_PROG_TEST_RUN`), at times that the caller sets: for tests that
//! compare them with the code that they follow, and for measurements.

use fairhop_control::policy::Policy;
use fairhop_control::raw::RawDigest;
use fairhop_model::units::Nanos;

use super::orders::Written;
use super::programs::Programs;
pub use super::programs::{Constants, Program};
use super::{Counters, DatapathError, Orders, Pacing};

/// What a program has done with a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome<'a> {
    /// It passes; otherwise it is dropped.
    pub passes: bool,
    /// The packet afterwards.
    pub packet: &'a [u8],
    /// Its digest, if it has one.
    pub digest: Option<RawDigest>,
    /// When it may leave (`skb->tstamp`); zero at once.
    pub departure: Nanos,
    /// Its class (`skb->priority`): the minor number; zero without one.
    pub class: u16,
    /// Mean time of a run in nanoseconds.
    pub nanoseconds: u32,
}

/// Programs without interfaces.
#[derive(Debug)]
pub struct Trial {
    programs: Programs,
    pacing: Pacing,
    written: Written,
    out: Vec<u8>,
}

impl Trial {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel refuses them, or rights are missing.
    pub fn new(constants: Constants) -> Result<Self, DatapathError> {
        let constants = Constants { has_test_clock: true, ..constants };
        let programs = Programs::load(&constants, &Program::ALL)?;
        Ok(Self { programs, pacing: constants.pacing, written: Written::default(), out: vec![0; 66_000] })
    }

    /// Puts orders in force until they expire; the data pacer holds as many full packets as `queue_packets`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn order(
        &mut self,
        policy: &Policy,
        expires: Nanos,
        queue_packets: u32,
    ) -> Result<(), DatapathError> {
        let orders = Orders { policy, datagrams: &[] };
        self.order_all(&orders, expires, queue_packets)
    }

    /// As [`Trial::order`], with kinds of UDP flows.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn order_all(
        &mut self,
        orders: &Orders<'_>,
        expires: Nanos,
        queue_packets: u32,
    ) -> Result<(), DatapathError> {
        self.written
            .write(&mut self.programs, orders, expires, queue_packets, self.pacing, Nanos::ZERO)
            .map(drop)
    }

    /// Runs a program on a packet that came in by interface `ingress`.
    ///
    /// # Errors
    /// The kernel refuses; packets of less than 14 bytes always.
    pub fn run(
        &mut self,
        program: Program,
        now: Nanos,
        ingress: u32,
        packet: &[u8],
    ) -> Result<Outcome<'_>, DatapathError> {
        self.programs.set_clock(now)?;
        self.repeat(program, ingress, packet, 1)
    }

    /// Runs a program several times on the same packet, at the time set last. The digest is that of the last run.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn repeat(
        &mut self,
        program: Program,
        ingress: u32,
        packet: &[u8],
        times: u32,
    ) -> Result<Outcome<'_>, DatapathError> {
        let done = self.programs.run(program, packet, ingress, &mut self.out, times)?;
        let mut digest = None;
        self.programs.read_digests(|read| digest = Some(read));
        Ok(Outcome {
            passes: done.verdict != 2,
            packet: self.out.get(..done.length).unwrap_or_default(),
            digest,
            departure: Nanos(done.context.tstamp),
            class: done.context.priority as u16,
            nanoseconds: done.nanoseconds,
        })
    }

    /// What the programs have counted.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<Counters, DatapathError> {
        self.programs.counters()
    }
}
