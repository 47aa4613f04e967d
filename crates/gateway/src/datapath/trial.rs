//! The programs on single packets, without interfaces (`BPF_PROG_TEST_RUN`), at times that the caller sets: for tests that
//! compare them with the code that they follow.

use fairhop_control::policy::Policy;
use fairhop_control::raw::RawDigest;
use fairhop_model::units::Nanos;

use super::orders::Written;
use super::programs::Programs;
pub use super::programs::{Constants, Program};
use super::{AckWeight, Counters, DatapathError, Orders, Pacing};

/// What a program has done with a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome<'a> {
    /// It passes; otherwise it is dropped or parked.
    pub passes: bool,
    /// It goes into the park with this number.
    pub parked: Option<u32>,
    /// The packet afterwards.
    pub packet: &'a [u8],
    /// Its digest, if it has one.
    pub digest: Option<RawDigest>,
    /// When it may leave (`skb->tstamp`); zero at once.
    pub departure: Nanos,
}

/// Verdicts (`TC_ACT_SHOT` and `TC_ACT_REDIRECT` of `linux/pkt_cls.h`).
const DROP: i32 = 2;
const REDIRECT: i32 = 7;

/// Programs without interfaces.
#[derive(Debug)]
pub struct Trial {
    programs: Programs,
    pacing: Pacing,
    written: Written,
    /// Of the last run.
    now: Nanos,
    out: Vec<u8>,
}

impl Trial {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel refuses them, or rights are missing.
    pub fn new(constants: Constants) -> Result<Self, DatapathError> {
        Self::load(Constants { has_test_clock: true, ..constants })
    }

    /// As [`Trial::new`], with the clock of the kernel: for [`Trial::time`].
    ///
    /// # Errors
    /// As [`Trial::new`].
    pub fn with_clock(constants: Constants) -> Result<Self, DatapathError> {
        Self::load(Constants { has_test_clock: false, ..constants })
    }

    fn load(constants: Constants) -> Result<Self, DatapathError> {
        let programs = Programs::load(&constants, &Program::ALL)?;
        Ok(Self {
            programs,
            pacing: constants.pacing,
            written: Written::default(),
            now: Nanos::ZERO,
            out: vec![0; 66_000],
        })
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
        let orders = Orders { policy, datagrams: &[], acks: AckWeight::default() };
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
        self.written.write(&mut self.programs, orders, self.now, expires, queue_packets, self.pacing)
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
        self.run_again(program, now, ingress, 0, packet)
    }

    /// As [`Trial::run`], for a packet that comes out of the park with the number that it got there.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn run_again(
        &mut self,
        program: Program,
        now: Nanos,
        ingress: u32,
        number: u32,
        packet: &[u8],
    ) -> Result<Outcome<'_>, DatapathError> {
        self.now = now;
        self.programs.set_clock(now)?;
        let done = self.programs.run(program, packet, ingress, number, 1, &mut self.out)?;
        let mut digest = None;
        self.programs.read_digests(|read| digest = Some(read));
        Ok(Outcome {
            passes: !matches!(done.verdict, DROP | REDIRECT),
            parked: (done.verdict == REDIRECT).then_some(done.context.mark),
            packet: self.out.get(..done.length).unwrap_or_default(),
            digest,
            departure: Nanos(done.context.tstamp),
        })
    }

    /// Mean time of a run in nanoseconds, of `times` runs on the same packet.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn time(&mut self, program: Program, packet: &[u8], times: u32) -> Result<u32, DatapathError> {
        let done = self.programs.run(program, packet, 0, 0, times, &mut self.out)?;
        self.programs.read_digests(|_| ());
        Ok(done.run_ns)
    }

    /// What the programs have counted.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<Counters, DatapathError> {
        self.programs.counters()
    }
}
