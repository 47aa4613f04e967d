//! Random numbers of this crate's tests, from the generator of the simulator's streams: PCG-64 MCG (O'Neill,
//! HMC-CS-2014-0905).

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::Random;

/// Draws that a seed fixes.
#[derive(Clone, Debug)]
pub(crate) struct Draws(Pcg64Mcg);

impl Draws {
    /// The generator with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::new(u128::from(seed)))
    }
}

impl Random for Draws {
    fn up_to(&mut self, max: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * (u64::from(max) + 1)) >> 32) as u32
    }
}
