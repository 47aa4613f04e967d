//! How equally connections share, by Jain's index: 1 if all have the same, 1/n if one of n has all.
//!
//! R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and discrimination for resource allocation in shared computer
//! systems", DEC-TR-301, 1984.
//!
//! Shares are goodput in a second, of the flows that have data before and after it. Whether a flow wanted more, a capture does
//! not show: a low index may be the choice of a sender.

use std::collections::BTreeMap;

use fairhop_model::units::Nanos;

use crate::Found;
use crate::rtp::SECOND;

const HALF: Nanos = Nanos(SECOND.0 / 2);

/// The index of a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FairSecond {
    /// Seconds since the beginning of the capture.
    pub at_s: f64,
    /// Flows that were active, at least two.
    pub flows: usize,
    /// The index.
    pub index: f64,
}

/// Jain's index; none without shares, or if all are zero.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The index of each second in which at least two flows were active.
pub fn seconds(found: &Found) -> Vec<FairSecond> {
    let Some(capture_began) = found.began else { return Vec::new() };
    let mut shares: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (_, flow) in found.flows() {
        let Some(began) = flow.began else { continue };
        // The second of the capture in which the middle of a second of the flow lies. A flow's first and last seconds are cut.
        let offset = (began.saturating_sub(capture_began).saturating_add(HALF)).div_floor(SECOND);
        let last = flow.duration().div_floor(SECOND);
        let inner = flow.seconds().map(|(number, bytes)| (u64::from(number), bytes));
        for (number, bytes) in inner.filter(|(number, _)| (1..last).contains(number)) {
            shares.entry(offset + number).or_default().push(f64::from(bytes));
        }
    }
    let of = |(second, shares): (&u64, &Vec<f64>)| {
        Some(FairSecond { at_s: *second as f64, flows: shares.len(), index: jain(shares)? })
    };
    shares.iter().filter(|(_, shares)| shares.len() >= 2).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn the_index_is_one_for_equal_shares_and_one_nth_if_one_has_all() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain(&[0.0, 0.0, 0.0, 3.0]), Some(0.25));
        assert_eq!((jain(&[]), jain(&[0.0])), (None, None));
    }
}
