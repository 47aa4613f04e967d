//! Parameters of AIMD(α, β) datagrams over a wireless link: L. Cai, X. Shen, J. W. Mark and J. Pan,
//! "QoS support for multimedia traffic in wireless/IP networks using AIMD protocols" (cai2005, section III).
//!
//! Time is in slots; the link sends one packet per slot. R is the round-trip time in slots without queueing, including the
//! packet's own slot. D is the maximum additional delay in slots.
//!
//! | what | where | equation |
//! |---|---|---|
//! | TCP-friendly α | [`tcp_friendly_alpha`] | 1 |
//! | utilization of a link of fixed capacity | [`stage_one_utilization`], [`utilization_at`] | 2 and case (b) |
//! | T_n(x), the probability of x successes in n slots | [`Link::successes`] | – |
//! | delay outage, and the largest window within a bound on it | [`Link::delay_outage`], [`Link::max_window`] | 3 |
//! | windows of flows that share the link | [`Link::shared_windows`] | 4 |
//!
//! The channel is a [`crate::markov::Channel`]. Left out: losses and variable delay before the wireless link,
//! frames longer than a slot, and, with persistent ARQ, retransmissions that wait behind other packets.

mod link;
mod window;

pub use link::{Arq, Link, Start};
pub use window::{Flow, Shared, SharedWindow, SharingError};

/// α for which AIMD(α, β) gets the same throughput as TCP on the same path, 3(1 − β)/(1 + β) (cai2005, equation 1).
/// Defined for 0 < β < 1.
pub fn tcp_friendly_alpha(beta: f64) -> f64 {
    3.0 * (1.0 - beta) / (1.0 + beta)
}

/// β for which AIMD(α, β) is TCP-friendly: the inverse of [`tcp_friendly_alpha`]. Defined for 0 < α < 3.
pub fn tcp_friendly_beta(alpha: f64) -> f64 {
    (3.0 - alpha) / (3.0 + alpha)
}

/// Utilization of a link of fixed capacity by one AIMD flow in *stage I*, the rounds after a backoff in which the window
/// is less than R and the queue is empty: (1 + β)/2 + βB/2R, and 1 if the buffer is so large that there is no stage I
/// (cai2005, equation 2). `rtt_slots` is R, `buffer` is B in packets; rwnd is more than R + B.
pub fn stage_one_utilization(beta: f64, rtt_slots: f64, buffer: f64) -> f64 {
    if buffer <= full_use_buffer(beta, rtt_slots) {
        (1.0 + beta) / 2.0 + beta * buffer / (2.0 * rtt_slots)
    } else {
        1.0
    }
}

/// The minimum buffer with which the window never falls below R, (1 − β)R/β packets (cai2005, section III-B).
pub fn full_use_buffer(beta: f64, rtt_slots: f64) -> f64 {
    (1.0 - beta) * rtt_slots / beta
}

/// Utilization of a link of fixed capacity by a flow with the window `rwnd` ≤ R + B: min(rwnd, R)/R (cai2005, section III-B, second case).
pub fn utilization_at(rwnd: f64, rtt_slots: f64) -> f64 {
    rwnd.min(rtt_slots) / rtt_slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_friend_the_pairs_of_the_paper_and_of_tcp() {
        assert!((tcp_friendly_alpha(0.875) - 0.2).abs() < 1e-15);
        assert!((tcp_friendly_alpha(0.5) - 1.0).abs() < 1e-15);
        for beta in [0.1, 0.5, 0.7, 0.875, 0.99] {
            assert!((tcp_friendly_beta(tcp_friendly_alpha(beta)) - beta).abs() < 1e-12);
        }
    }

    #[test]
    fn equation_2_is_the_mean_window_of_stage_one_over_r_and_has_no_step_at_its_end() {
        for (beta, r, b) in [(0.5, 17.0, 0.0), (0.5, 17.0, 8.0), (0.875, 17.0, 2.0), (0.7, 40.0, 11.0)] {
            // The window grows evenly from β(R + B) to R.
            let mean = (beta * (r + b) + r) / 2.0;
            assert!((stage_one_utilization(beta, r, b) - mean / r).abs() < 1e-12);
            let end = full_use_buffer(beta, r);
            assert!((stage_one_utilization(beta, r, end) - 1.0).abs() < 1e-12);
            assert!((stage_one_utilization(beta, r, end * 1.01) - 1.0).abs() < 1e-12);
        }
        assert!((full_use_buffer(0.875, 17.0) - 17.0 / 7.0).abs() < 1e-12);
        assert_eq!((utilization_at(17.0, 17.0), utilization_at(30.0, 17.0)), (1.0, 1.0));
        assert!((utilization_at(8.5, 17.0) - 0.5).abs() < 1e-15);
    }
}
