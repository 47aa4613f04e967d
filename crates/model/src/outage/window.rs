//! Windows from a bound on delay outage, for one flow (cai2005, equation 3) and for several (equation 4).
//!
//! Equation 3 is exact if the queue at the base station is never empty and the rest of the path has a constant delay. A
//! packet's round trip begins when that of the packet one window earlier ends. So it is the time in which the link delivers
//! W packets, and it exceeds R + D slots if and only if fewer than W packets are delivered in R + D slots. If the queue may
//! be empty (about W < R), packets wait less, and the equation is an upper bound.
//!
//! For several flows, the paper gives the ratios of the windows but not their size. Here flow i with the share p_i of a
//! common queue is treated as a flow with the window rwnd_i/p_i alone on the link: in its round trip, the link delivers
//! that number of packets of all flows. This is exact for equal round-trip times, where rwnd_i/p_i is the sum of all
//! windows.

use std::fmt;

use super::link::{Link, Start};

/// A flow that shares the link with others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// R_i, its round-trip time in slots without queueing.
    pub rtt_slots: u32,
    /// p_i, its share of the link's throughput.
    pub share: f64,
}

/// The result of equation 4 for a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedWindow {
    /// rwnd_i before rounding.
    pub exact: f64,
    /// rwnd_i in packets.
    pub window: u32,
    /// The share with whole windows.
    pub share: f64,
    /// The delay outage with whole windows.
    pub outage: f64,
}

/// The result of equation 4 for all flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// The flows, in the given order.
    pub flows: Vec<SharedWindow>,
    /// B, the buffer that never overflows: the sum of all windows.
    pub buffer: u32,
}

/// Why flows cannot share the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingError {
    /// There are no flows.
    Nobody,
    /// A share is not more than 0, or the shares do not sum to 1.
    Shares,
    /// A round-trip time of zero slots.
    RoundTrip,
    /// The bound on delay outage leaves a flow less than one packet.
    TooStrict,
}

impl fmt::Display for SharingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "there are no flows",
            Self::Shares => "the shares of the flows are more than 0 and make 1 together",
            Self::RoundTrip => "a round trip takes at least one slot",
            Self::TooStrict => "the bound on the delay outage leaves a flow less than one packet",
        })
    }
}

impl std::error::Error for SharingError {}

impl Link {
    /// Pr{d_q > D | W}: the probability that a packet takes more than R + D = `slots` slots for a round trip with `window`
    /// packets outstanding, Σ_{x<W} T_{R+D}(x) (cai2005, equation 3).
    pub fn delay_outage(&self, slots: u32, window: u32, start: Start) -> f64 {
        cumulative(&self.successes(slots, start), window)
    }

    /// W_max: the largest window with a delay outage of at most `bound`; 0 if even one packet exceeds it. `slots` is R + D,
    /// an upper limit of W_max, since n slots deliver at most n packets.
    pub fn max_window(&self, slots: u32, bound: f64, start: Start) -> u32 {
        let mut below = 0.0;
        let mut window = 0;
        for chance in &self.successes(slots, start)[..slots as usize] {
            below += chance;
            if below > bound {
                break;
            }
            window += 1;
        }
        window
    }

    /// Windows of flows that share a queue at the base station. Each flow has its share and a delay outage of at most
    /// `bound` for D = `delay_slots`: rwnd_i/p_i − E[T_{R_i−1}] is equal for all flows (cai2005, equation 4), and as large
    /// as the strictest flow allows. Windows are rounded to whole packets; if an outage then exceeds the bound, the common
    /// value is lowered. The returned shares and outages are those of the whole windows.
    ///
    /// # Errors
    /// See [`SharingError`].
    pub fn shared_windows(
        &self,
        flows: &[Flow],
        delay_slots: u32,
        bound: f64,
        start: Start,
    ) -> Result<Shared, SharingError> {
        const ROUNDING: f64 = 1e-9;
        let total: f64 = flows.iter().map(|flow| flow.share).sum();
        if flows.is_empty() {
            return Err(SharingError::Nobody);
        }
        if flows.iter().any(|flow| flow.rtt_slots == 0) {
            return Err(SharingError::RoundTrip);
        }
        if flows.iter().any(|flow| flow.share.is_nan() || flow.share <= 0.0) || (total - 1.0).abs() > ROUNDING
        {
            return Err(SharingError::Shares);
        }
        let counts: Vec<Vec<f64>> = flows
            .iter()
            .map(|flow| self.successes(flow.rtt_slots.saturating_add(delay_slots), start))
            .collect();
        let head_start = |flow: &Flow| self.mean_successes(flow.rtt_slots - 1);
        let common = flows
            .iter()
            .map(|flow| {
                let slots = flow.rtt_slots.saturating_add(delay_slots);
                f64::from(self.max_window(slots, bound, start)) - head_start(flow)
            })
            .fold(f64::INFINITY, f64::min);
        let exact: Vec<f64> = flows.iter().map(|flow| flow.share * (common + head_start(flow))).collect();
        if exact.iter().any(|&exact| exact < 1.0) {
            return Err(SharingError::TooStrict);
        }
        let mut windows: Vec<u32> = exact.iter().map(|exact| exact.round() as u32).collect();
        loop {
            let shared = self.follow(flows, &windows, &exact, &counts);
            if shared.flows.iter().all(|flow| flow.outage <= bound) {
                return Ok(shared);
            }
            // Decrease of the common value at which the first window rounds to one packet less.
            let falls =
                |(flow, &window): (&Flow, &u32)| (f64::from(window) - 0.5) / flow.share - head_start(flow);
            let first = flows.iter().zip(&windows).map(falls).fold(f64::NEG_INFINITY, f64::max);
            for (flow, window) in flows.iter().zip(&mut windows) {
                *window -= u32::from(falls((flow, window)) > first - ROUNDING);
            }
            if windows.contains(&0) {
                return Err(SharingError::TooStrict);
            }
        }
    }

    /// Shares and outages with whole windows.
    fn follow(&self, flows: &[Flow], windows: &[u32], exact: &[f64], counts: &[Vec<f64>]) -> Shared {
        let wait = self.common_wait(flows, windows);
        let rate = |flow: &Flow, window: u32| f64::from(window) / (f64::from(flow.rtt_slots) + wait);
        let sum: f64 = flows.iter().zip(windows).map(|(flow, &window)| rate(flow, window)).sum();
        let each = flows.iter().zip(windows).zip(exact.iter().zip(counts));
        let flows = each.map(|((flow, &window), (&exact, counts))| SharedWindow {
            exact,
            window,
            share: rate(flow, window) / sum,
            outage: between(counts, sum * (f64::from(flow.rtt_slots) + wait)),
        });
        Shared { flows: flows.collect(), buffer: windows.iter().sum() }
    }

    /// The mean queueing delay in slots, equal for all flows, at which Σ rwnd_i/(R_i + wait) is the link's throughput. None
    /// if the windows do not fill the link.
    fn common_wait(&self, flows: &[Flow], windows: &[u32]) -> f64 {
        let offered = |wait: f64| -> f64 {
            let rates = flows.iter().zip(windows);
            rates.map(|(flow, &window)| f64::from(window) / (f64::from(flow.rtt_slots) + wait)).sum()
        };
        let packets: u32 = windows.iter().sum();
        let (mut low, mut high) = (0.0, f64::from(packets) / self.throughput());
        if offered(low) <= self.throughput() {
            return 0.0;
        }
        // Bisection down to floating-point precision.
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if offered(middle) > self.throughput() { low = middle } else { high = middle }
        }
        low
    }
}

/// The probability of fewer than `window` successes.
fn cumulative(chances: &[f64], window: u32) -> f64 {
    chances.iter().take(window as usize).sum::<f64>().min(1.0)
}

/// The same for a fractional window, interpolated between the neighbouring whole ones.
fn between(chances: &[f64], window: f64) -> f64 {
    let (whole, part) = (window.floor(), window - window.floor());
    (1.0 - part) * cumulative(chances, whole as u32) + part * cumulative(chances, whole as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markov::Channel;
    use crate::outage::Arq;
    use proptest::prelude::*;

    const BOTH: [Start; 2] = [Start::AnySlot, Start::AfterSuccess];

    fn link(states: usize, error: f64, memory: f64, arq: Arq) -> Link {
        Link::new(Channel::multi_state(states, error, memory).expect("a channel"), arq).expect("a link")
    }

    #[test]
    fn without_errors_the_maximum_window_is_r_plus_d() {
        let link = link(1, 0.0, 0.0, Arq::Persistent);
        for start in BOTH {
            assert_eq!(link.delay_outage(27, 27, start), 0.0);
            assert_eq!(link.delay_outage(27, 28, start), 1.0);
            assert_eq!((link.max_window(27, 0.0, start), link.max_window(27, 1.0, start)), (27, 27));
            assert_eq!(link.max_window(0, 0.5, start), 0);
        }
    }

    #[test]
    fn the_outage_of_two_slots_by_hand() {
        // Fewer than 1 of 2 slots: 0.1²; fewer than 2: 1 − 0.9².
        let link = link(1, 0.1, 0.0, Arq::Persistent);
        let outage = |window| link.delay_outage(2, window, Start::AnySlot);
        assert!((outage(1) - 0.01).abs() < 1e-15 && (outage(2) - 0.19).abs() < 1e-15);
        assert_eq!(link.max_window(2, 0.011, Start::AnySlot), 1);
        assert_eq!(link.max_window(2, 0.009, Start::AnySlot), 0);
    }

    /// Simulates the packets: W outstanding, each returning R − 1 slots after its own slot.
    #[test]
    fn equation_3_is_the_fraction_of_late_round_trips_in_a_simulation_of_packets() {
        let (rtt, delay, window, packets) = (5_u64, 3_u64, 6_usize, 400_000);
        for (states, memory, arq) in
            [(1, 0.0, Arq::Persistent), (2, 0.5, Arq::Persistent), (3, 0.35, Arq::Optimal)]
        {
            let link = link(states, 0.2, memory, arq);
            let channel = link.channel();
            let mut seed = 7_u64;
            let mut uniform = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 11) as f64 / (1_u64 << 53) as f64
            };
            // Slots of the last deliveries. Each delivery releases a packet, which reaches the link R − 1 slots later.
            let mut across = std::collections::VecDeque::from(vec![0_u64; window]);
            let (mut slot, mut state, mut skip, mut late) = (rtt, channel.draw_initial(uniform()), false, 0);
            for _ in 0..packets {
                let before = across.pop_front().unwrap_or(0);
                loop {
                    slot += 1;
                    let here = state;
                    state = channel.draw_next(here, uniform());
                    let sends = slot >= before + rtt && !skip;
                    let success = sends && channel.draw_success(here, uniform());
                    skip = arq == Arq::Optimal && sends && !success;
                    if success {
                        break;
                    }
                }
                late += u32::from(slot - before > rtt + delay);
                across.push_back(slot);
            }
            let found = f64::from(late) / f64::from(packets);
            let expected = link.delay_outage((rtt + delay) as u32, window as u32, Start::AfterSuccess);
            // The queue is empty at times, so the equation is a close upper bound.
            assert!(found < expected * 1.03 && found > expected * 0.85, "{arq:?}: {found} {expected}");
        }
    }

    #[test]
    fn flows_of_equal_round_trips_share_the_window_of_one() {
        let link = link(1, 0.05, 0.0, Arq::Persistent);
        let alone = link.max_window(27, 0.01, Start::AnySlot);
        assert_eq!(alone, 22);
        let half = Flow { rtt_slots: 17, share: 0.5 };
        let shared = link.shared_windows(&[half, half], 10, 0.01, Start::AnySlot).expect("windows");
        assert!(shared.flows.iter().all(|flow| (flow.exact - f64::from(alone) / 2.0).abs() < 1e-12));
        assert!(shared.flows.iter().all(|flow| (flow.share - 0.5).abs() < 1e-9));
        let expected = link.delay_outage(27, shared.buffer, Start::AnySlot);
        assert!(shared.flows.iter().all(|flow| (flow.outage - expected).abs() < 1e-6));
        assert_eq!(shared.buffer, 22);
        // A quarter of 22 is 5.5. Six each exceed the bound, so each flow gets five.
        let quarters = [Flow { rtt_slots: 17, share: 0.25 }; 4];
        let shared = link.shared_windows(&quarters, 10, 0.01, Start::AnySlot).expect("windows");
        assert_eq!(shared.flows.iter().map(|flow| flow.window).collect::<Vec<_>>(), [5; 4]);
    }

    #[test]
    fn a_longer_round_trip_needs_a_larger_window_for_the_same_share() {
        let flows = [17, 25].map(|rtt_slots| Flow { rtt_slots, share: 0.5 });
        for percent in 1..=10 {
            let link = link(1, f64::from(percent) / 100.0, 0.0, Arq::Persistent);
            let shared = link.shared_windows(&flows, 10, 0.01, Start::AnySlot).expect("windows");
            let [short, long] = [shared.flows[0], shared.flows[1]];
            // Half of the difference of eight slots, times the throughput of the link.
            assert!((long.exact - short.exact - 4.0 * link.throughput()).abs() < 1e-9);
            assert!((short.share - 0.5).abs() < 0.025, "{percent}: {shared:?}");
            assert!(short.outage <= 0.01 && long.outage <= 0.01, "{percent}: {shared:?}");
        }
    }

    #[test]
    fn impossible_shares_are_refused_with_a_reason() {
        let link = link(1, 0.1, 0.0, Arq::Persistent);
        let refused = |flows: &[(u32, f64)]| {
            let flows: Vec<Flow> =
                flows.iter().map(|&(rtt_slots, share)| Flow { rtt_slots, share }).collect();
            link.shared_windows(&flows, 10, 0.01, Start::AnySlot).err()
        };
        assert_eq!(refused(&[]), Some(SharingError::Nobody));
        assert_eq!(refused(&[(17, 0.5), (17, 0.6)]), Some(SharingError::Shares));
        assert_eq!(refused(&[(17, f64::NAN)]), Some(SharingError::Shares));
        assert_eq!(refused(&[(0, 1.0)]), Some(SharingError::RoundTrip));
        assert_eq!(refused(&[(17, 0.99), (17, 0.01)]), Some(SharingError::TooStrict));
        assert_eq!(refused(&[(17, 1.0)]), None);
    }

    proptest! {
        #[test]
        fn the_outage_grows_with_the_window_and_the_error_and_the_largest_window_is_the_largest(
            states in 1_usize..4, error in 0.0_f64..0.6, memory in 0.0_f64..0.9, slots in 1_u32..50,
            bound in 0.0_f64..0.5, optimal in any::<bool>(),
        ) {
            let arq = if optimal { Arq::Optimal } else { Arq::Persistent };
            let one = link(states, error, memory, arq);
            for start in BOTH {
                let outages: Vec<f64> = (0..=slots).map(|window| one.delay_outage(slots, window, start)).collect();
                prop_assert!(outages[0] == 0.0 && outages.windows(2).all(|pair| pair[0] <= pair[1]));
                let window = one.max_window(slots, bound, start);
                prop_assert!(outages[window as usize] <= bound);
                prop_assert!(window == slots || outages[window as usize + 1] > bound);
            }
            let skipping = link(states, error, memory, Arq::Optimal).max_window(slots, bound, Start::AnySlot);
            let persistent = link(states, error, memory, Arq::Persistent).max_window(slots, bound, Start::AnySlot);
            prop_assert!(skipping <= persistent, "what is left out cannot succeed: {} {}", skipping, persistent);
        }

        #[test]
        fn exact_windows_satisfy_equation_4_and_make_the_shares(
            error in 0.0_f64..0.2, rtts in prop::collection::vec(5_u32..40, 1..5), seed in 0.2_f64..1.0,
        ) {
            let link = link(1, error, 0.0, Arq::Persistent);
            let weights: Vec<f64> = (0..rtts.len()).map(|i| 1.0 + seed * i as f64).collect();
            let sum: f64 = weights.iter().sum();
            let flows: Vec<Flow> = rtts
                .iter()
                .zip(&weights)
                .map(|(&rtt_slots, weight)| Flow { rtt_slots, share: weight / sum })
                .collect();
            if let Ok(shared) = link.shared_windows(&flows, 10, 0.01, Start::AnySlot) {
                let mean = |flow: &Flow| link.mean_successes(flow.rtt_slots - 1);
                for (i, a) in flows.iter().zip(&shared.flows) {
                    for (j, b) in flows.iter().zip(&shared.flows) {
                        let right = i.share / j.share * b.exact + i.share * (mean(i) - mean(j));
                        prop_assert!((a.exact - right).abs() < 1e-9);
                    }
                }
                prop_assert!((shared.flows.iter().map(|flow| flow.share).sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }
}
