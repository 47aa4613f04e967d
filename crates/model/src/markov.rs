//! A slotted wireless channel whose quality is a Markov chain: the channel of L. Cai, X. Shen, J. W. Mark and J. Pan,
//! "QoS support for multimedia traffic in wireless/IP networks using AIMD protocols" (cai2005, section IV).
//!
//! In each slot the channel is in one of M states. A frame sent in the slot arrives with the probability of the state. The
//! chain takes a step after every slot, used or not. [`Channel::new`] takes any chain. The other constructors take a mean
//! error probability and a *memory* λ: P = λ·I + (1 − λ)·1π. The chain keeps its state with probability λ; otherwise the
//! state is drawn from the stationary distribution π. So every correlation falls as λⁿ with the lag n, and all eigenvalues
//! of P but one equal λ. With two states this is the only chain with that π and that eigenvalue
//! (Gilbert's channel: λ = 1 − Pr{good to bad} − Pr{bad to good}).
//!
//! cai2005 gives the memory (0 and 0.35), the number of states (2 and 3) and the mean error e, but neither the success
//! probabilities of three states nor their stationary distribution. Here state k of M succeeds with probability
//! k/(M − 1), and the distribution is binomial, π_k = C(M−1, k)·(1 − e)ᵏ·e^(M−1−k), as if each frame had M − 1 parts that
//! fail independently. With two states this is the usual channel with a good and a bad state.
//!
//! Left out: fading in continuous time, chains with transitions between neighbouring states only (use [`Channel::new`]),
//! and the dependence of the error on the frame length.

use std::fmt;

/// Maximum number of states. It bounds the cost of solving the chain.
pub const MAX_STATES: usize = 64;

/// Tolerance of the sum of probabilities.
const ROUNDING: f64 = 1e-9;

/// Why a channel is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelError {
    /// No states, too many states, or a matrix that does not fit the list of states.
    Shape,
    /// A number is not within 0 and 1.
    Probability,
    /// A row of the matrix does not sum to one.
    Row,
    /// The memory is not at least 0 and less than 1.
    Memory,
    /// The chain has no unique stationary distribution: its long-run behaviour depends on its start.
    Reducible,
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => {
                write!(f, "a channel has 1 to {MAX_STATES} states, and a chance for each step between two")
            }
            Self::Probability => f.write_str("a chance is a number from 0 to 1"),
            Self::Row => f.write_str("the chances of all steps from a state make 1 together"),
            Self::Memory => f.write_str("the memory of a channel is at least 0 and less than 1"),
            Self::Reducible => f.write_str("the channel would be stuck in a part of its states"),
        }
    }
}

impl std::error::Error for ChannelError {}

/// A channel: the chain, and the success probability of each state.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// Probability that a frame arrives, by state.
    success: Vec<f64>,
    /// Row by row.
    transition: Vec<f64>,
    stationary: Vec<f64>,
}

impl Channel {
    /// A channel with the transition matrix `transition[from][to]` and the success probability of each state.
    ///
    /// # Errors
    /// They do not describe a chain with one stationary distribution; see [`ChannelError`].
    pub fn new(transition: &[Vec<f64>], success: &[f64]) -> Result<Self, ChannelError> {
        let states = success.len();
        if states == 0
            || states > MAX_STATES
            || transition.len() != states
            || transition.iter().any(|row| row.len() != states)
        {
            return Err(ChannelError::Shape);
        }
        let flat = transition.concat();
        if !flat.iter().chain(success).copied().all(is_probability) {
            return Err(ChannelError::Probability);
        }
        if transition.iter().any(|row| (row.iter().sum::<f64>() - 1.0).abs() > ROUNDING) {
            return Err(ChannelError::Row);
        }
        let stationary = stationary(&flat, states).ok_or(ChannelError::Reducible)?;
        Ok(Self { success: success.to_vec(), transition: flat, stationary })
    }

    /// Every frame is lost with probability `error`, independently.
    ///
    /// # Errors
    /// `error` is not a probability.
    pub fn memoryless(error: f64) -> Result<Self, ChannelError> {
        if !is_probability(error) {
            return Err(ChannelError::Probability);
        }
        Ok(Self { success: vec![1.0 - error], transition: vec![1.0], stationary: vec![1.0] })
    }

    /// A bad state (0) that loses every frame, and a good state (1) that loses none.
    ///
    /// # Errors
    /// As [`Channel::multi_state`].
    pub fn two_state(error: f64, memory: f64) -> Result<Self, ChannelError> {
        Self::multi_state(2, error, memory)
    }

    /// `states` states, from one that loses every frame to one that loses none, with the mean error probability `error` and
    /// the given memory. One state is the memoryless channel.
    ///
    /// # Errors
    /// There are no states or too many, `error` is not a probability, or `memory` is not at least 0 and less than 1.
    pub fn multi_state(states: usize, error: f64, memory: f64) -> Result<Self, ChannelError> {
        if states == 0 || states > MAX_STATES {
            return Err(ChannelError::Shape);
        }
        if !is_probability(error) {
            return Err(ChannelError::Probability);
        }
        if !(0.0..1.0).contains(&memory) {
            return Err(ChannelError::Memory);
        }
        if states == 1 {
            return Self::memoryless(error);
        }
        let parts = states - 1;
        let stationary = binomial(parts, 1.0 - error);
        let mut transition = Vec::with_capacity(states * states);
        for from in 0..states {
            transition.extend(stationary.iter().enumerate().map(|(to, chance)| {
                let stay = if from == to { memory } else { 0.0 };
                stay + (1.0 - memory) * chance
            }));
        }
        let success = (0..states).map(|state| state as f64 / parts as f64).collect();
        Ok(Self { success, transition, stationary })
    }

    /// M, the number of states.
    pub fn states(&self) -> usize {
        self.success.len()
    }

    /// Probability that a frame sent in `state` arrives; none if the state does not exist.
    pub fn success(&self, state: usize) -> f64 {
        self.success.get(state).copied().unwrap_or(0.0)
    }

    /// Probability of a step between two states; none if one of them does not exist.
    pub fn transition(&self, from: usize, to: usize) -> f64 {
        self.row(from).get(to).copied().unwrap_or(0.0)
    }

    /// The stationary distribution.
    pub fn stationary(&self) -> &[f64] {
        &self.stationary
    }

    /// Mean probability that a frame is lost.
    pub fn error(&self) -> f64 {
        self.stationary.iter().zip(&self.success).map(|(visited, success)| visited * (1.0 - success)).sum()
    }

    /// The state of the first slot, from a number uniform over [0, 1).
    pub fn draw_initial(&self, uniform: f64) -> usize {
        draw(&self.stationary, uniform)
    }

    /// The state after `state`, from a number uniform over [0, 1).
    pub fn draw_next(&self, state: usize, uniform: f64) -> usize {
        draw(self.row(state), uniform)
    }

    /// Whether a frame sent in `state` arrives, from a number uniform over [0, 1).
    pub fn draw_success(&self, state: usize, uniform: f64) -> bool {
        uniform < self.success(state)
    }

    fn row(&self, from: usize) -> &[f64] {
        let states = self.states();
        self.transition.get(from * states..(from + 1) * states).unwrap_or(&[])
    }
}

/// The index whose part of [0, 1) contains `uniform`. A remainder from rounding goes to the last index with a positive
/// probability.
fn draw(chances: &[f64], uniform: f64) -> usize {
    let mut sum = 0.0;
    let mut last = 0;
    for (index, &chance) in chances.iter().enumerate() {
        sum += chance;
        if uniform < sum {
            return index;
        }
        if chance > 0.0 {
            last = index;
        }
    }
    last
}

fn is_probability(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}

/// The probabilities of 0, 1, …, `n` successes in `n` independent trials, added trial by trial, so that no power under- or
/// overflows.
pub(crate) fn binomial(n: usize, success: f64) -> Vec<f64> {
    let mut chances = vec![0.0; n + 1];
    chances[0] = 1.0;
    for trial in 0..n {
        for x in (0..=trial + 1).rev() {
            let before = if x > 0 { chances[x - 1] } else { 0.0 };
            chances[x] = chances[x] * (1.0 - success) + before * success;
        }
    }
    chances
}

/// π with πP = π and Σπ = 1, by elimination with pivots; none if it is not unique.
pub(crate) fn stationary(transition: &[f64], states: usize) -> Option<Vec<f64>> {
    /// Smaller pivots are rounding errors of zero.
    const SINGULAR: f64 = 1e-13;
    let width = states + 1;
    // Row j: Σ_i π_i (P_ij − δ_ij) = 0; the last one, which follows from the others, is replaced by Σπ = 1.
    let mut rows = vec![0.0; states * width];
    for to in 0..states {
        for from in 0..states {
            let here = if from == to { 1.0 } else { 0.0 };
            rows[to * width + from] = transition[from * states + to] - here;
        }
    }
    rows[(states - 1) * width..].fill(1.0);
    for column in 0..states {
        let size = |row: usize| rows[row * width + column].abs();
        let pivot = (column..states).max_by(|&a, &b| size(a).total_cmp(&size(b)))?;
        if size(pivot) < SINGULAR {
            return None;
        }
        for entry in 0..width {
            rows.swap(pivot * width + entry, column * width + entry);
        }
        for row in (0..states).filter(|&row| row != column) {
            let factor = rows[row * width + column] / rows[column * width + column];
            for entry in column..width {
                rows[row * width + entry] -= factor * rows[column * width + entry];
            }
        }
    }
    let solution = (0..states).map(|state| rows[state * width + states] / rows[state * width + state]);
    // Transient states are zero up to rounding.
    Some(solution.map(|chance| chance.max(0.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    /// Numbers uniform over [0, 1): Steele, Lea and Flood's SplitMix64.
    fn uniforms(mut seed: u64) -> impl FnMut() -> f64 {
        move || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn the_bad_state_of_gilberts_channel_has_the_hand_computed_length() {
        let channel = Channel::two_state(0.1, 0.35).expect("a channel");
        // Pr{bad to good} = 0.65 · 0.9, Pr{good to bad} = 0.65 · 0.1, and their sum 1 − λ.
        assert!(close(channel.transition(0, 1), 0.585) && close(channel.transition(1, 0), 0.065));
        assert!(close(channel.stationary()[0], 0.1) && close(channel.error(), 0.1));
        assert_eq!((channel.success(0), channel.success(1), channel.success(2)), (0.0, 1.0, 0.0));
    }

    #[test]
    fn without_memory_the_next_state_does_not_depend_on_this_one() {
        let channel = Channel::multi_state(3, 0.1, 0.0).expect("a channel");
        for (state, expected) in [0.01, 0.18, 0.81].into_iter().enumerate() {
            assert!((0..3).all(|from| close(channel.transition(from, state), expected)));
        }
        assert_eq!(
            Channel::multi_state(1, 0.2, 0.5).expect("a channel"),
            Channel::memoryless(0.2).expect("a channel")
        );
    }

    #[test]
    fn what_is_no_chain_is_refused_for_its_reason() {
        let refused = |matrix: &[Vec<f64>], success: &[f64]| Channel::new(matrix, success).err();
        let half = vec![0.5, 0.5];
        assert_eq!(refused(&[], &[]), Some(ChannelError::Shape));
        assert_eq!(refused(std::slice::from_ref(&half), &[0.0, 1.0]), Some(ChannelError::Shape));
        assert_eq!(refused(&[half.clone(), half.clone()], &[0.0, 1.5]), Some(ChannelError::Probability));
        assert_eq!(
            refused(&[half.clone(), vec![f64::NAN, 0.5]], &[0.0, 1.0]),
            Some(ChannelError::Probability)
        );
        assert_eq!(refused(&[half.clone(), vec![0.5, 0.4]], &[0.0, 1.0]), Some(ChannelError::Row));
        assert_eq!(
            refused(&[vec![1.0, 0.0], vec![0.0, 1.0]], &[0.0, 1.0]),
            Some(ChannelError::Reducible),
            "two islands"
        );
        assert_eq!(Channel::two_state(0.1, 1.0).err(), Some(ChannelError::Memory));
        assert_eq!(Channel::two_state(-0.1, 0.0).err(), Some(ChannelError::Probability));
        assert_eq!(Channel::multi_state(0, 0.1, 0.0).err(), Some(ChannelError::Shape));
    }

    #[test]
    fn a_chain_with_a_period_and_one_with_a_state_that_is_left_for_ever_have_their_distribution() {
        let circle = [vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0], vec![1.0, 0.0, 0.0]];
        let channel = Channel::new(&circle, &[0.0, 0.5, 1.0]).expect("a channel");
        assert!(channel.stationary().iter().all(|&chance| close(chance, 1.0 / 3.0)));
        let left = [vec![0.0, 1.0], vec![0.0, 1.0]];
        assert_eq!(Channel::new(&left, &[0.0, 0.7]).expect("a channel").stationary(), [0.0, 1.0]);
    }

    #[test]
    fn what_is_drawn_has_the_frequencies_and_the_memory_of_the_chain() {
        let channel = Channel::multi_state(3, 0.2, 0.35).expect("a channel");
        let mut uniform = uniforms(1);
        let slots = 200_000;
        let mut state = channel.draw_initial(uniform());
        let (mut stayed, mut arrived) = (0_u32, 0_u32);
        for _ in 0..slots {
            arrived += u32::from(channel.draw_success(state, uniform()));
            let next = channel.draw_next(state, uniform());
            stayed += u32::from(next == state);
            state = next;
        }
        // Visited 0.04, 0.32 and 0.64 of the time: 0.35 + 0.65 · Σπ² stays.
        let expected = 0.35 + 0.65 * (0.04_f64.powi(2) + 0.32_f64.powi(2) + 0.64_f64.powi(2));
        assert!((f64::from(stayed) / f64::from(slots) - expected).abs() < 0.005);
        assert!((f64::from(arrived) / f64::from(slots) - 0.8).abs() < 0.005);
    }

    proptest! {
        #[test]
        fn the_stationary_distribution_is_one(
            states in 1_usize..8, weights in prop::collection::vec(0.001_f64..1.0, 64), error in 0.0_f64..=1.0,
            memory in 0.0_f64..0.99,
        ) {
            let matrix: Vec<Vec<f64>> = (0..states)
                .map(|from| {
                    let row = &weights[from * 8..from * 8 + states];
                    let sum: f64 = row.iter().sum();
                    row.iter().map(|weight| weight / sum).collect()
                })
                .collect();
            let success: Vec<f64> = (0..states).map(|state| weights[63 - state]).collect();
            let any = Channel::new(&matrix, &success).expect("a channel");
            let made = Channel::multi_state(states, error, memory).expect("a channel");
            prop_assert!((made.error() - error).abs() < 1e-9);
            for channel in [any, made] {
                let visited = channel.stationary();
                prop_assert!((visited.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                for to in 0..states {
                    let flow: f64 = (0..states).map(|from| visited[from] * channel.transition(from, to)).sum();
                    prop_assert!((flow - visited[to]).abs() < 1e-9);
                    let row: f64 = (0..states).map(|next| channel.transition(to, next)).sum();
                    prop_assert!((row - 1.0).abs() < 1e-9);
                }
            }
        }

        #[test]
        fn every_number_draws_a_state_that_can_be(states in 1_usize..6, error in 0.0_f64..=1.0, uniform in 0.0_f64..1.0) {
            let channel = Channel::multi_state(states, error, 0.3).expect("a channel");
            let first = channel.draw_initial(uniform);
            prop_assert!(channel.stationary()[first] > 0.0);
            prop_assert!(channel.transition(first, channel.draw_next(first, uniform)) > 0.0);
        }
    }
}
