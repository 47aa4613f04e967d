//! The number of packets that a slotted link delivers: channel and ARQ together, and T_n(x) by dynamic programming.

use crate::markov::{Channel, ChannelError, stationary};

/// How the base station reacts to lost frames. It learns of a loss before the next slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arq {
    /// Sends in every slot.
    Persistent,
    /// Skips the slot after a loss, which is optimal if sending has a cost (D. Zhang and K. M. Wasserman, "Transmission
    /// schemes for time-varying wireless channels with partial state observations", INFOCOM 2002): a bad channel is likely
    /// to stay bad.
    Optimal,
}

/// The first slot of the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Any slot. The delay outage is then that of cai2005's equation 3.
    AnySlot,
    /// The slot after a success. The round trip of a packet that finds a non-empty queue begins there, so the delay outage
    /// is exact for channels with memory too.
    AfterSuccess,
}

/// A channel with its ARQ and a queue that is never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    channel: Channel,
    arq: Arq,
    any_slot: Distribution,
    after_success: Distribution,
    throughput: f64,
}

/// Probabilities of the channel states at the start of a slot.
#[derive(Clone, Debug, PartialEq)]
struct Distribution {
    /// A slot in which the link sends.
    ready: Vec<f64>,
    /// A slot that the link skips.
    waiting: Vec<f64>,
}

impl Link {
    /// A link.
    ///
    /// # Errors
    /// With this ARQ, the long-run behaviour depends on the start. This happens only for periodic channels.
    pub fn new(channel: Channel, arq: Arq) -> Result<Self, ChannelError> {
        let states = channel.states();
        let lost = |state| 1.0 - channel.success(state);
        // The chain of the slots in which the link sends: one step after a success, and one or two after a loss.
        let mut sending = vec![0.0; states * states];
        for from in 0..states {
            for between in 0..states {
                let step = channel.transition(from, between);
                match arq {
                    Arq::Persistent => sending[from * states + between] += step,
                    Arq::Optimal => {
                        sending[from * states + between] += channel.success(from) * step;
                        for to in 0..states {
                            sending[from * states + to] +=
                                lost(from) * step * channel.transition(between, to);
                        }
                    }
                }
            }
        }
        let mut ready = stationary(&sending, states).ok_or(ChannelError::Reducible)?;
        let left_out: f64 = match arq {
            Arq::Persistent => 0.0,
            Arq::Optimal => (0..states).map(|state| ready[state] * lost(state)).sum(),
        };
        ready.iter_mut().for_each(|chance| *chance /= 1.0 + left_out);
        let waiting = match arq {
            Arq::Persistent => vec![0.0; states],
            Arq::Optimal => step(&channel, |state| ready[state] * lost(state)),
        };
        let throughput: f64 = (0..states).map(|state| ready[state] * channel.success(state)).sum();
        let any_slot = Distribution { ready, waiting };
        let after_success = if throughput > 0.0 {
            let next = step(&channel, |state| any_slot.ready[state] * channel.success(state) / throughput);
            Distribution { ready: next, waiting: vec![0.0; states] }
        } else {
            any_slot.clone()
        };
        Ok(Self { channel, arq, any_slot, after_success, throughput })
    }

    /// The channel.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The ARQ.
    pub fn arq(&self) -> Arq {
        self.arq
    }

    /// Mean number of packets delivered per slot.
    pub fn throughput(&self) -> f64 {
        self.throughput
    }

    /// T_n(x) for x = 0, 1, …, n: the probabilities that x packets are delivered in n = `slots` slots.
    pub fn successes(&self, slots: u32, start: Start) -> Vec<f64> {
        let (states, counts) = (self.channel.states(), slots as usize + 1);
        let begin = match start {
            Start::AnySlot => &self.any_slot,
            Start::AfterSuccess => &self.after_success,
        };
        // Joint probabilities of state and count, before and after the slot.
        let table = |chances: &[f64]| {
            let mut table = vec![0.0; states * counts];
            chances.iter().enumerate().for_each(|(state, &chance)| table[state * counts] = chance);
            table
        };
        let (mut ready, mut waiting) = (table(&begin.ready), table(&begin.waiting));
        let (mut sent, mut failed) = (vec![0.0; states * counts], vec![0.0; states * counts]);
        for slot in 0..slots as usize {
            for state in 0..states {
                let success = self.channel.success(state);
                for x in 0..=slot + 1 {
                    let here = state * counts + x;
                    let arrived = if x > 0 { ready[here - 1] * success } else { 0.0 };
                    let lost = ready[here] * (1.0 - success);
                    (sent[here], failed[here]) = match self.arq {
                        Arq::Persistent => (arrived + lost, 0.0),
                        Arq::Optimal => (arrived + waiting[here], lost),
                    };
                }
            }
            for x in 0..=slot + 1 {
                for to in 0..states {
                    let step = |table: &[f64]| {
                        (0..states)
                            .map(|from| table[from * counts + x] * self.channel.transition(from, to))
                            .sum()
                    };
                    ready[to * counts + x] = step(&sent);
                    waiting[to * counts + x] = step(&failed);
                }
            }
        }
        (0..counts)
            .map(|x| (0..states).map(|state| ready[state * counts + x] + waiting[state * counts + x]).sum())
            .collect()
    }

    /// `E[T_n]`: the mean number of packets delivered in `slots` slots, from any slot on.
    pub fn mean_successes(&self, slots: u32) -> f64 {
        // The mean of a stationary process is the same in every slot.
        self.throughput * f64::from(slots)
    }
}

/// Probabilities of the states in the next slot.
fn step(channel: &Channel, chance: impl Fn(usize) -> f64) -> Vec<f64> {
    let states = channel.states();
    (0..states).map(|to| (0..states).map(|from| chance(from) * channel.transition(from, to)).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markov::binomial;
    use proptest::prelude::*;

    /// T_n(x) by enumeration of all paths of the channel and all outcomes of all frames.
    fn enumerated(link: &Link, slots: u32, begin: &[(usize, bool, f64)]) -> Vec<f64> {
        let channel = link.channel();
        let mut chances = vec![0.0; slots as usize + 1];
        let mut paths: Vec<(usize, bool, usize, f64)> =
            begin.iter().map(|&(state, waits, chance)| (state, waits, 0, chance)).collect();
        for _ in 0..slots {
            let mut longer = Vec::new();
            for (state, waits, x, chance) in paths {
                let success = channel.success(state);
                let outcomes = if waits {
                    vec![(false, x, 1.0)]
                } else {
                    vec![(false, x + 1, success), (link.arq() == Arq::Optimal, x, 1.0 - success)]
                };
                for (waits, x, fate) in outcomes {
                    for next in 0..channel.states() {
                        longer.push((next, waits, x, chance * fate * channel.transition(state, next)));
                    }
                }
            }
            paths = longer;
        }
        paths.iter().for_each(|&(_, _, x, chance)| chances[x] += chance);
        chances
    }

    /// The distribution of the link after many slots, at any slot and after a success.
    fn settled(link: &Link) -> [Vec<(usize, bool, f64)>; 2] {
        let channel = link.channel();
        let states = channel.states();
        let mut chances = vec![[1.0 / states as f64, 0.0]; states];
        let mut succeeded = vec![0.0; states];
        for _ in 0..10_000 {
            let mut next = vec![[0.0; 2]; states];
            succeeded.fill(0.0);
            for (from, &[ready, waiting]) in chances.iter().enumerate() {
                let success = channel.success(from);
                let lost_into = usize::from(link.arq() == Arq::Optimal);
                for to in 0..states {
                    let step = channel.transition(from, to);
                    next[to][0] += (ready * success + waiting) * step;
                    next[to][lost_into] += ready * (1.0 - success) * step;
                    succeeded[to] += ready * success * step;
                }
            }
            chances = next;
        }
        let any = (0..states)
            .flat_map(|state| [(state, false, chances[state][0]), (state, true, chances[state][1])]);
        let sum: f64 = succeeded.iter().sum();
        let after = succeeded.iter().enumerate().map(|(state, chance)| (state, false, chance / sum));
        [any.collect(), after.collect()]
    }

    fn channels() -> Vec<Channel> {
        let uneven = [vec![0.2, 0.5, 0.3], vec![0.0, 0.9, 0.1], vec![0.6, 0.1, 0.3]];
        vec![
            Channel::memoryless(0.1).expect("a channel"),
            Channel::two_state(0.1, 0.35).expect("a channel"),
            Channel::multi_state(3, 0.3, 0.35).expect("a channel"),
            Channel::new(&uneven, &[0.1, 0.7, 0.95]).expect("a channel"),
        ]
    }

    #[test]
    fn t_n_x_equals_the_enumeration_of_all_paths() {
        for channel in channels() {
            for arq in [Arq::Persistent, Arq::Optimal] {
                let link = Link::new(channel.clone(), arq).expect("a link");
                let [any, after] = settled(&link);
                for (start, begin) in [(Start::AnySlot, any), (Start::AfterSuccess, after)] {
                    for slots in 0..=6 {
                        let (found, expected) =
                            (link.successes(slots, start), enumerated(&link, slots, &begin));
                        for (a, b) in found.iter().zip(&expected) {
                            assert!(
                                (a - b).abs() < 1e-10,
                                "{arq:?} {start:?} {slots}: {found:?} {expected:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn without_memory_persistent_arq_gives_the_binomial_distribution() {
        for channel in [Channel::memoryless(0.1), Channel::multi_state(3, 0.1, 0.0)] {
            let link = Link::new(channel.expect("a channel"), Arq::Persistent).expect("a link");
            for start in [Start::AnySlot, Start::AfterSuccess] {
                let found = link.successes(27, start);
                let expected = binomial(27, 0.9);
                assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12), "{start:?}");
            }
        }
        // By hand: C(4, 2)/16.
        let coin = Link::new(Channel::memoryless(0.5).expect("a channel"), Arq::Persistent).expect("a link");
        assert!((coin.successes(4, Start::AnySlot)[2] - 0.375).abs() < 1e-15);
    }

    #[test]
    fn skipping_a_slot_after_each_loss_gives_the_renewal_rate() {
        // A success takes a slot, a loss takes two: (1 − e)/(1 + e) packets a slot without memory.
        for error in [0.0, 0.01, 0.1, 0.5, 1.0] {
            let link = |arq| Link::new(Channel::memoryless(error).expect("a channel"), arq).expect("a link");
            assert!((link(Arq::Optimal).throughput() - (1.0 - error) / (1.0 + error)).abs() < 1e-12);
            assert!((link(Arq::Persistent).throughput() - (1.0 - error)).abs() < 1e-12);
        }
    }

    #[test]
    fn a_channel_that_never_or_always_succeeds_has_certain_counts() {
        for arq in [Arq::Persistent, Arq::Optimal] {
            for (error, count) in [(0.0, 9), (1.0, 0)] {
                let link =
                    Link::new(Channel::multi_state(3, error, 0.35).expect("a channel"), arq).expect("a link");
                for start in [Start::AnySlot, Start::AfterSuccess] {
                    assert!((link.successes(9, start)[count] - 1.0).abs() < 1e-12, "{arq:?} {error}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn t_n_is_a_distribution_whose_mean_is_the_throughput(
            states in 1_usize..5, error in 0.0_f64..=1.0, memory in 0.0_f64..0.95, slots in 0_u32..60,
            optimal in any::<bool>(),
        ) {
            let arq = if optimal { Arq::Optimal } else { Arq::Persistent };
            let channel = Channel::multi_state(states, error, memory).expect("a channel");
            let link = Link::new(channel, arq).expect("a link");
            let chances = link.successes(slots, Start::AnySlot);
            prop_assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let mean: f64 = chances.iter().enumerate().map(|(x, chance)| x as f64 * chance).sum();
            prop_assert!((mean - link.mean_successes(slots)).abs() < 1e-7, "{mean}");
        }
    }
}
