//! A budget of airtime, split among flows by shares of C-load (osipov2007).
//!
//! Every flow that crosses the gateway is in the L-region around it. As long as nothing is known of other regions, this one
//! is everybody's bottleneck, and max-min shares are equal shares of its load, but for those who cannot use theirs. What a
//! flow carries for its share depends on its hops: a packet takes time in the region once a hop, up to the number of
//! hops that share ([`fairhop_model::airtime::shared_links`]). That number is the flow's *price*. So a budget is counted in
//! bits a second times price, and a flow with the share φ of it may send φ · budget / price: its φ · Thr_max.
//!
//! Who knows more regions gives them, with their associations by place among the claims.

use fairhop_model::share::{Demand, Region, ShareError, max_min};

use crate::flow::FlowKey;

/// What a flow asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// The flow.
    pub key: FlowKey,
    /// How often a packet of it takes the time of the region: hops, as far as they share.
    pub price: f64,
    /// The most bits a second that it can use; infinite if it takes whatever it gets.
    pub demand: f64,
}

/// Hops of a flow as its price, one at least and `shared_links` at most.
pub fn price(hops: u8, shared_links: u32) -> f64 {
    f64::from(u32::from(hops).clamp(1, shared_links.max(1)))
}

/// Bits a second for each claim, out of `budget` bits a second times price. All are in one region, that of the gateway,
/// and in those of `others`.
///
/// # Errors
/// Those of [`max_min`]: demands that are no numbers, regions that name claims which are not there.
pub fn split(budget: f64, claims: &[Claim], others: &[Region]) -> Result<Vec<f64>, ShareError> {
    let budget = budget.max(1.0);
    let demands: Vec<Demand> = claims
        .iter()
        .map(|claim| Demand::Elastic { weight: 1.0, limit: claim.demand * claim.price / budget })
        .collect();
    let mut regions = vec![Region { centre: 0, associations: (0..claims.len()).collect() }];
    regions.extend_from_slice(others);
    let allocation = max_min(&regions, &demands)?;
    Ok(allocation.shares.iter().zip(claims).map(|(share, claim)| share * budget / claim.price).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_load_is_not_equal_rate_and_what_one_leaves_the_others_take() {
        let claim = |hops, demand| Claim { key: FlowKey::default(), price: price(hops, 4), demand };
        // 6 Mb/s · hop: a third each is 2 Mb/s over one hop, 1 over two, 0.5 over four or more.
        let all = f64::INFINITY;
        let rates = split(6e6, &[claim(1, all), claim(2, all), claim(9, all)], &[]).expect("rates");
        assert_eq!(rates.iter().map(|rate| rate.round()).collect::<Vec<_>>(), [2e6, 1e6, 5e5]);
        // The first wants 0.5 Mb/s only: 5.5 for the other two.
        let rates = split(6e6, &[claim(1, 5e5), claim(2, all), claim(9, all)], &[]).expect("rates");
        assert_eq!(rates.iter().map(|rate| rate.round()).collect::<Vec<_>>(), [5e5, 1_375_000.0, 687_500.0]);
        assert_eq!(split(1e6, &[], &[]), Ok(vec![]));
        assert!(split(1e6, &[claim(1, f64::NAN)], &[]).is_err());
    }
}
