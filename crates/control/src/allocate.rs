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
//! A caller that knows more regions passes them in, with what the flows in them demand that do not cross the gateway.

use fairhop_model::share::{Demand, Region, ShareError, max_min};

use crate::flow::{Address, FlowKey};

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

/// A region besides the gateway's: the flows of some mesh hosts share it with flows that do not cross the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherRegion {
    /// The hosts, in the order of their addresses.
    pub hosts: Vec<Address>,
    /// Sum of the weights of the flows that do not cross the gateway; more than 0.
    pub weight: f64,
}

/// The price of a flow over `hops` hops: at least 1, at most `shared_links`.
pub fn price(hops: u8, shared_links: u32) -> f64 {
    f64::from(u32::from(hops).clamp(1, shared_links.max(1)))
}

/// The rate of each claim in bits per second; `budget` is in bits per second times price. All claims are in one region,
/// that of the gateway, and those of the hosts of `others` are in these too. The C-load of each region is worth the budget.
///
/// # Errors
/// Those of [`max_min`]: a demand is not a number, or a weight is not a finite number above 0.
pub fn split(budget: f64, claims: &[Claim], others: &[OtherRegion]) -> Result<Vec<f64>, ShareError> {
    let budget = budget.max(1.0);
    let demand =
        |claim: &Claim| Demand::Elastic { weight: claim.weight, limit: claim.demand * claim.price / budget };
    let mut demands: Vec<Demand> = claims.iter().map(demand).collect();
    let mut regions = vec![Region { centre: 0, associations: (0..claims.len()).collect() }];
    for (place, region) in others.iter().enumerate() {
        let is_inside = |&a: &usize| region.hosts.binary_search(&claims[a].key.mesh).is_ok();
        let associations = (0..claims.len()).filter(is_inside).chain([demands.len()]).collect();
        regions.push(Region { centre: place + 1, associations });
        demands.push(Demand::Elastic { weight: region.weight, limit: f64::INFINITY });
    }
    let mut rates = max_min(&regions, &demands)?.shares;
    rates.truncate(claims.len());
    for (rate, claim) in rates.iter_mut().zip(claims) {
        *rate = *rate * budget / claim.price;
    }
    Ok(rates)
}

/// The part of a budget that [`split`] gives away if every flow can use any rate: less than 1 where other regions bound all of
/// them.
///
/// # Errors
/// Those of [`split`].
pub fn usable(claims: &[Claim], others: &[OtherRegion]) -> Result<f64, ShareError> {
    if others.is_empty() || claims.is_empty() {
        return Ok(1.0);
    }
    // In units of the budget, a price of 1 makes the rate the share.
    let any: Vec<Claim> =
        claims.iter().map(|claim| Claim { price: 1.0, demand: f64::INFINITY, ..*claim }).collect();
    Ok(split(1.0, &any, others)?.iter().sum())
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
        // Four other flows share the region of the third one: a fifth each there, and the first two share what it leaves.
        let to = |host: u8| Claim {
            key: FlowKey { mesh: Address::v4([10, 0, 0, host]), ..FlowKey::default() },
            ..claim(1, all)
        };
        let region = OtherRegion { hosts: vec![Address::v4([10, 0, 0, 3])], weight: 4.0 };
        let three = [to(1), to(2), to(3)];
        let rates = split(6e6, &three, std::slice::from_ref(&region)).expect("rates");
        assert_eq!(rates.iter().map(|rate| rate.round()).collect::<Vec<_>>(), [2.4e6, 2.4e6, 1.2e6]);
        assert_eq!(usable(&three, std::slice::from_ref(&region)), Ok(1.0));
        // Alone, it cannot use the rest of the budget.
        let part = usable(&three[2..], &[region]).expect("a part");
        assert!((part - 0.2).abs() < 1e-12, "{part}");
        assert!(split(1e6, &[claim(1, f64::NAN)], &[]).is_err());
    }
}
