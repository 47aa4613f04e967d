//! A budget of airtime, split among flows by shares of C-load (osipov2007).
//!
//! Every flow that crosses the gateway is in the L-region around it. Without knowledge of other regions, this one is the
//! bottleneck of all flows. Max-min shares are then equal shares of its load; a flow that cannot use its share leaves the
//! rest to the others.
//!
//! The rate that a share gives depends on the hops: a packet takes airtime in the region once per hop, up to the number of
//! hops that share the air ([`fairhop_model::airtime::shared_links`]). That number is the flow's *price*. A budget is
//! counted in bits per second times price; a flow with the share φ may send φ · budget / price, its φ · Thr_max.
//!
//! A caller that knows more regions passes them in, with their associations as indexes into the claims.

use fairhop_model::share::{Demand, Region, ShareError, max_min};

use crate::flow::FlowKey;

/// A flow's claim to a part of the budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// The flow.
    pub key: FlowKey,
    /// How many times one of its packets takes airtime in the region: its hops, as far as they share the air.
    pub price: f64,
    /// Maximum rate that it can use in bits per second; infinite if it uses any rate.
    pub demand: f64,
    /// Its share of C-load relative to that of the others; more than 0.
    pub weight: f64,
}

/// The price of a flow over `hops` hops: at least 1, at most `shared_links`.
pub fn price(hops: u8, shared_links: u32) -> f64 {
    f64::from(u32::from(hops).clamp(1, shared_links.max(1)))
}

/// The rate of each claim in bits per second; `budget` is in bits per second times price. All claims are in one region,
/// that of the gateway, and those that `others` name are in these too.
///
/// # Errors
/// Those of [`max_min`]: a demand is not a number, or a region names a claim that does not exist.
pub fn split(budget: f64, claims: &[Claim], others: &[Region]) -> Result<Vec<f64>, ShareError> {
    let budget = budget.max(1.0);
    let demands: Vec<Demand> = claims
        .iter()
        .map(|claim| Demand::Elastic { weight: claim.weight, limit: claim.demand * claim.price / budget })
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
    fn equal_load_is_not_equal_rate_and_unused_load_goes_to_the_others() {
        let claim =
            |hops, demand| Claim { key: FlowKey::default(), price: price(hops, 4), demand, weight: 1.0 };
        // 6 Mb/s · hop: a third each is 2 Mb/s over one hop, 1 over two, 0.5 over four or more.
        let all = f64::INFINITY;
        let rates = split(6e6, &[claim(1, all), claim(2, all), claim(9, all)], &[]).expect("rates");
        assert_eq!(rates.iter().map(|rate| rate.round()).collect::<Vec<_>>(), [2e6, 1e6, 5e5]);
        // The first wants 0.5 Mb/s only: 5.5 for the other two.
        let rates = split(6e6, &[claim(1, 5e5), claim(2, all), claim(9, all)], &[]).expect("rates");
        assert_eq!(rates.iter().map(|rate| rate.round()).collect::<Vec<_>>(), [5e5, 1_375_000.0, 687_500.0]);
        // A weight of 2 is two shares of load.
        let heavy = Claim { weight: 2.0, ..claim(1, all) };
        let rates = split(6e6, &[heavy, claim(1, all)], &[]).expect("rates");
        assert_eq!(rates.iter().map(|rate| rate.round()).collect::<Vec<_>>(), [4e6, 2e6]);
        assert_eq!(split(1e6, &[], &[]), Ok(vec![]));
        assert!(split(1e6, &[claim(1, f64::NAN)], &[]).is_err());
    }
}
