//! Fair shares of airtime in a multihop network: L-regions, max-min shares of C-load, and their rates in bits per second.
//!
//! E. Osipov and C. Tschudin, "TCP-friendly bandwidth sharing in mobile ad hoc networks", EURASIP Journal on Wireless
//! Communications and Networking, 2007 (osipov2007): §3.1 (L-regions), §3.2 (max-min in the space-load domain), §3.3 (the
//! algorithm), §4.1 and §4.2 (shares as rates), equation 4 (unfairness).
//!
//! - An *L-region* is a node and all nodes that it exchanges frames with at the basic rate.
//! - An *association* is the set of nodes that carry a flow: source, relays and destination. It is in an L-region if one
//!   of its nodes is.
//! - *C-load* is the resource of an L-region, 1 at saturation. An association takes the same share φ of C-load in each of
//!   its L-regions. The shares in a region sum to at most 1.
//! - A flow with the share φ carries φ · Thr_max ([`ingress_rate`]), where Thr_max is its throughput alone. Thr_max is the
//!   bound of [`crate::airtime`] times a calibration factor ([`Chain::thr_max`]).
//!
//! [`c_load_shares`] is the paper's algorithm. [`max_min`] generalises it: weights, limits on the C-load of an
//! association, and calls, which are served first.
//!
//! Left out: the exchange of shares between nodes (the path density protocol), and the number of hops of an association
//! inside a region. As in the paper, these hops count only in Thr_max, for the fullest region.

use std::fmt;

use crate::airtime::{PacketTime, Path};
use crate::headers;
use crate::phy::{Phy, Rate};
pub use crate::stats::jain_index;
use crate::units::{BitRate, Nanos};

/// An L-region with at least one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The node at its centre.
    pub centre: usize,
    /// Its associations, ascending.
    pub associations: Vec<usize>,
}

/// The L-regions of a network of `nodes` nodes that contain at least one of the `associations` (lists of nodes), by
/// centre.
///
/// `hears(a, b)`: whether node a receives frames of node b at the basic rate. The centre and each node of its region hear
/// each other.
pub fn regions(
    nodes: usize,
    hears: impl Fn(usize, usize) -> bool,
    associations: &[Vec<usize>],
) -> Vec<Region> {
    let reaches = |centre, node| centre == node || (hears(centre, node) && hears(node, centre));
    (0..nodes)
        .map(|centre| Region {
            centre,
            associations: (0..associations.len())
                .filter(|&a| associations[a].iter().any(|&node| reaches(centre, node)))
                .collect(),
        })
        .filter(|region| !region.associations.is_empty())
        .collect()
}

/// Max-min fair shares of C-load by association, by the algorithm of osipov2007 §3.3. (1) Each region suggests an equal
/// part of its remaining C-load to its associations without a share. (2) The regions with the minimum suggestion assign
/// it. (3) Repeat until all associations have a share.
///
/// An association in no region gets the share 1. Numbers of associations from `associations` up are ignored.
pub fn c_load_shares(regions: &[Region], associations: usize) -> Vec<f64> {
    let mut shares: Vec<Option<f64>> = vec![None; associations];
    // (1) The suggestion of a region; none if all of its associations have a share.
    let suggestion = |region: &Region, shares: &[Option<f64>]| {
        let known = || region.associations.iter().filter_map(|&a| shares.get(a));
        let fresh = known().filter(|share| share.is_none()).count();
        let assigned: f64 = known().flatten().sum();
        (fresh > 0).then(|| (1.0 - assigned).max(0.0) / fresh as f64)
    };
    loop {
        let suggestions: Vec<_> = regions.iter().map(|region| suggestion(region, &shares)).collect();
        // (2) The minimum.
        let Some(lowest) = suggestions.iter().copied().flatten().reduce(f64::min) else { break };
        for (region, suggested) in regions.iter().zip(suggestions) {
            if suggested.is_some_and(|share| share <= lowest) {
                for &a in &region.associations {
                    if let Some(share @ None) = shares.get_mut(a) {
                        *share = Some(lowest);
                    }
                }
            }
        }
    }
    shares.into_iter().map(|share| share.unwrap_or(1.0)).collect()
}

/// The demand of an association.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// A fair share, in proportion to the weight.
    Elastic {
        /// Weight, more than 0. With twice the weight, an association gets twice the share of the same bottleneck.
        weight: f64,
        /// Maximum C-load that it can use; infinite for no limit.
        limit: f64,
    },
    /// A call: needs exactly this C-load, and is served before all elastic associations.
    Call {
        /// C-load.
        load: f64,
    },
}

impl Demand {
    /// An association as in the paper: weight 1, no limit.
    pub const EQUAL: Self = Self::Elastic { weight: 1.0, limit: f64::INFINITY };
}

/// An allocation of C-load.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// C-load share by association. Calls get their demand.
    pub shares: Vec<f64>,
    /// By association, the index of the region that limits its share. None for calls, and for associations at their limit.
    pub bottlenecks: Vec<Option<usize>>,
    /// Regions in which the demand of the calls alone exceeds 1.
    pub overloaded: Vec<usize>,
}

/// Why an allocation is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareError {
    /// A weight is not a finite number above 0.
    Weight {
        /// The association.
        association: usize,
    },
    /// A call's load is not a finite number ≥ 0, or a limit is negative or NaN.
    Load {
        /// The association.
        association: usize,
    },
    /// An elastic association without a limit is in no region.
    Unbounded {
        /// The association.
        association: usize,
    },
    /// A region contains an association without a demand.
    Unknown {
        /// The index of the region.
        region: usize,
        /// The association.
        association: usize,
    },
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight { association } => {
                write!(f, "the weight of association {association} must be a finite number over 0")
            }
            Self::Load { association } => {
                write!(f, "the load or limit of association {association} must be a number from 0")
            }
            Self::Unbounded { association } => {
                write!(f, "association {association} is in no region and has no limit")
            }
            Self::Unknown { region, association } => {
                write!(f, "region {region} has association {association}, for which there is no demand")
            }
        }
    }
}

impl std::error::Error for ShareError {}

/// Max-min fair shares with weights, limits and calls.
///
/// Calls take their load from each of their regions. Then all elastic associations grow together, in proportion to their
/// weights. An association stops when one of its regions is full or when it reaches its limit; the others keep growing.
/// Elastic associations with a common bottleneck get equal shares per weight.
///
/// The time is that of sorting the limits, and of a pass over the regions each time that the level rises.
///
/// # Errors
/// An invalid number, with its association or region.
pub fn max_min(regions: &[Region], demands: &[Demand]) -> Result<Allocation, ShareError> {
    let places = Places::of(regions, demands)?;
    let mut filling = Filling {
        shares: demands.iter().map(|d| if let Demand::Call { load } = *d { load } else { 0.0 }).collect(),
        growing: demands.iter().map(|demand| matches!(demand, Demand::Elastic { .. })).collect(),
        rooms: Vec::new(),
        regions,
        places,
        demands,
    };
    filling.rooms = regions.iter().map(|region| filling.room(region)).collect();
    let overloaded = (0..regions.len()).filter(|&r| filling.rooms[r].fixed > 1.0).collect();
    let mut bottlenecks = vec![None; demands.len()];

    // By the share per weight at which each association reaches its limit.
    let mut limited: Vec<(f64, usize)> =
        demands.iter().enumerate().filter_map(|(a, demand)| Some((demand.level()?, a))).collect();
    limited.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut limited = limited.into_iter().peekable();
    loop {
        // The share per weight at which the first region is full. It only rises while associations reach their limits.
        let level = filling.rooms.iter().map(Room::level).fold(f64::INFINITY, f64::min);
        let mut has_stopped = false;
        while let Some((_, a)) = limited.next_if(|&(limit, _)| limit <= level) {
            if filling.growing[a] {
                filling.stop(a, demands[a].limit());
                has_stopped = true;
            }
        }
        if has_stopped {
            continue;
        }
        if level == f64::INFINITY {
            return Ok(Allocation { shares: filling.shares, bottlenecks, overloaded });
        }
        for (place, region) in regions.iter().enumerate() {
            if filling.rooms[place].level() > level {
                continue;
            }
            for &a in &region.associations {
                if filling.growing[a] {
                    filling.stop(a, level * demands[a].weight());
                    bottlenecks[a] = Some(place);
                }
            }
        }
    }
}

impl Demand {
    fn check(&self, association: usize, is_in_no_region: bool) -> Result<(), ShareError> {
        let bad = |number: f64| number.is_nan() || number < 0.0;
        match *self {
            Self::Elastic { weight, .. } if !(weight > 0.0 && weight.is_finite()) => {
                Err(ShareError::Weight { association })
            }
            Self::Elastic { limit: load, .. } | Self::Call { load } if bad(load) => {
                Err(ShareError::Load { association })
            }
            Self::Call { load } if load.is_infinite() => Err(ShareError::Load { association }),
            Self::Elastic { limit, .. } if limit.is_infinite() && is_in_no_region => {
                Err(ShareError::Unbounded { association })
            }
            _ => Ok(()),
        }
    }

    fn weight(&self) -> f64 {
        if let Self::Elastic { weight, .. } = *self { weight } else { 0.0 }
    }

    fn limit(&self) -> f64 {
        if let Self::Elastic { limit, .. } = *self { limit } else { 0.0 }
    }

    /// The share per weight at its limit; none for calls and without a limit.
    fn level(&self) -> Option<f64> {
        match *self {
            Self::Elastic { weight, limit } if limit.is_finite() => Some(limit / weight),
            _ => None,
        }
    }
}

/// What is left in a region.
#[derive(Clone, Copy)]
struct Room {
    /// C-load of calls, and of associations that have stopped.
    fixed: f64,
    /// Weights of those that grow, their number, and the weights when they were last summed.
    weights: f64,
    growing: usize,
    summed: f64,
}

impl Room {
    /// The share per weight at which the region is full.
    fn level(&self) -> f64 {
        if self.growing == 0 { f64::INFINITY } else { (1.0 - self.fixed).max(0.0) / self.weights }
    }
}

/// An allocation while associations grow.
struct Filling<'a> {
    shares: Vec<f64>,
    growing: Vec<bool>,
    rooms: Vec<Room>,
    regions: &'a [Region],
    places: Places,
    demands: &'a [Demand],
}

impl Filling<'_> {
    fn room(&self, region: &Region) -> Room {
        let (mut fixed, mut weights, mut growing) = (0.0, 0.0, 0);
        for &a in &region.associations {
            if self.growing[a] {
                weights += self.demands[a].weight();
                growing += 1;
            } else {
                fixed += self.shares[a];
            }
        }
        Room { fixed, weights, growing, summed: weights }
    }

    /// The association `a` stops at a share.
    fn stop(&mut self, a: usize, share: f64) {
        self.growing[a] = false;
        self.shares[a] = share;
        for &region in self.places.of_association(a) {
            let room = &mut self.rooms[region];
            room.fixed += share;
            room.weights -= self.demands[a].weight();
            room.growing -= 1;
        }
        // Weights are summed again each time they have halved: small ones are lost in what is left of a large sum.
        for &region in self.places.of_association(a) {
            if self.rooms[region].weights < self.rooms[region].summed / 2.0 {
                let again = self.room(&self.regions[region]);
                self.rooms[region] = Room { fixed: self.rooms[region].fixed, ..again };
            }
        }
    }
}

/// The regions of each association, one list behind the other.
struct Places {
    regions: Vec<usize>,
    /// Where the list of each association begins, and where the last one ends.
    starts: Vec<usize>,
}

impl Places {
    /// # Errors
    /// Those of [`max_min`].
    fn of(regions: &[Region], demands: &[Demand]) -> Result<Self, ShareError> {
        let mut starts = vec![0; demands.len() + 1];
        for (region, Region { associations, .. }) in regions.iter().enumerate() {
            for &association in associations {
                if association >= demands.len() {
                    return Err(ShareError::Unknown { region, association });
                }
                starts[association] += 1;
            }
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        // Filled from the ends of the lists, which makes the ends the starts.
        let mut places = Self { regions: vec![0; end], starts };
        for (region, Region { associations, .. }) in regions.iter().enumerate().rev() {
            for &association in associations {
                places.starts[association] -= 1;
                places.regions[places.starts[association]] = region;
            }
        }
        for (association, demand) in demands.iter().enumerate() {
            demand.check(association, places.of_association(association).is_empty())?;
        }
        Ok(places)
    }

    fn of_association(&self, a: usize) -> &[usize] {
        &self.regions[self.starts[a]..self.starts[a + 1]]
    }
}

/// A path with a rate for each hop. With equal hops it is [`Path`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chain<'a> {
    /// Physical layer.
    pub phy: Phy,
    /// Rate of data frames by hop.
    pub rates: &'a [Rate],
    /// Basic rates, for ACK, RTS and CTS.
    pub basic: &'a [Rate],
    /// Data frames of more bytes than this use RTS and CTS; `None`: never.
    pub rts_threshold: Option<u32>,
    /// Number of consecutive links of which at most one is in use ([`crate::airtime::shared_links`]).
    pub shared_links: u32,
}

impl Chain<'_> {
    /// Thr_max(h, MSS, TX): the upper bound of TCP goodput of a flow alone on the path. Segments have `mss` bytes of payload
    /// and `options` bytes of TCP options; one ACK answers `segments_per_ack` segments (less than 1 counts as 1).
    ///
    /// `calibration` is the measured goodput of a flow alone divided by the bound (this function with 1). The bound ignores
    /// collisions and empty queues, so the factor is below 1 and falls with the number of hops; docs/validation/shares.md
    /// lists it for strings. A factor common to all flows does not change their shares, only the sum. Negative or NaN
    /// counts as 0.
    pub fn thr_max(&self, mss: u32, options: u32, segments_per_ack: f64, calibration: f64) -> BitRate {
        let seconds = self.exchange_seconds(mss, options, segments_per_ack);
        if self.rates.is_empty() {
            return BitRate(0);
        }
        BitRate((8.0 * f64::from(mss) / seconds * calibration).round() as u64)
    }

    /// The C-load of a one-way flow with `per_second` datagrams of `payload_bytes` per second: the fraction of the time that
    /// it occupies the fullest region of the path. `calibration` as in [`Chain::thr_max`]; 0 makes any load infinite.
    pub fn datagram_load(&self, payload_bytes: u32, per_second: f64, calibration: f64) -> f64 {
        let bytes = payload_bytes.saturating_add(headers::IP_UDP);
        let seconds = self.region_seconds(|rate| (self.packet_time(rate, bytes), 1.0), |_| None);
        per_second * seconds / calibration
    }

    /// The rate of a flow of datagrams over that of a TCP flow with the same share (osipov2007 §4.2.1): the time of a segment
    /// with its part of an ACK, divided by the time of the segment. Arguments as in [`Chain::thr_max`].
    pub fn udp_correction(&self, mss: u32, options: u32, segments_per_ack: f64) -> f64 {
        if self.rates.is_empty() {
            return 1.0;
        }
        let bytes = mss.saturating_add(headers::IP_TCP).saturating_add(options);
        let alone = self.region_seconds(|rate| (self.packet_time(rate, bytes), 1.0), |_| None);
        self.exchange_seconds(mss, options, segments_per_ack) / alone
    }

    /// The time of a segment and its part of an ACK in the fullest region.
    fn exchange_seconds(&self, mss: u32, options: u32, segments_per_ack: f64) -> f64 {
        let header_bytes = headers::IP_TCP.saturating_add(options);
        let bytes = mss.saturating_add(header_bytes);
        self.region_seconds(
            |rate| (self.packet_time(rate, bytes), 1.0),
            |rate| Some((self.packet_time(rate, header_bytes), 1.0 / segments_per_ack.max(1.0))),
        )
    }

    fn packet_time(&self, rate: Rate, ip_bytes: u32) -> PacketTime {
        let &Self { phy, basic, rts_threshold, .. } = self;
        Path { phy, rate, basic, rts_threshold, hops: 1, shared_links: 1 }.packet_time(ip_bytes)
    }

    /// The time that packets forth and back occupy the fullest region. Each closure returns the time of a packet at a rate,
    /// and its count. A region is a run of `shared_links` hops. Backoff counts once, for the busiest station, as derived in
    /// [`crate::airtime`].
    fn region_seconds(
        &self,
        forth: impl Fn(Rate) -> (PacketTime, f64),
        back: impl Fn(Rate) -> Option<(PacketTime, f64)>,
    ) -> f64 {
        let taken = |part: fn(&PacketTime) -> Nanos, (time, number): (PacketTime, f64)| {
            part(&time).as_secs_f64() * number
        };
        let links = (self.shared_links.max(1) as usize).min(self.rates.len().max(1));
        let exclusive = |rate: Rate| {
            taken(PacketTime::exclusive, forth(rate))
                + back(rate).map_or(0.0, |packet| taken(PacketTime::exclusive, packet))
        };
        let fullest = self
            .rates
            .windows(links)
            .map(|window| window.iter().map(|&rate| exclusive(rate)).sum::<f64>())
            .fold(0.0, f64::max);
        // The mean backoff is the same at every rate.
        let backoff = self.rates.first().map_or(0.0, |&rate| {
            let forth = taken(|time| time.backoff, forth(rate));
            let back = back(rate).map_or(0.0, |packet| taken(|time| time.backoff, packet));
            if self.rates.len() > 1 { forth + back } else { forth.max(back) }
        });
        fullest + backoff
    }
}

/// The rate of a flow with the share φ (osipov2007, equation 2): φ · Thr_max. For datagrams, `thr_max` includes the factor
/// [`Chain::udp_correction`].
pub fn ingress_rate(share: f64, thr_max: BitRate) -> BitRate {
    BitRate((share * thr_max.0 as f64).round() as u64)
}

/// The unfairness index u (osipov2007, equation 4): the Euclidean distance of the throughputs from the fair ones, divided by
/// the length of the fair vector. 0 if every flow has its fair throughput. None if the lengths differ or all fair
/// throughputs are 0.
///
/// ```
/// // √(1² + 1²) / √(3² + 4²)
/// let u = fairhop_model::share::unfairness(&[3.0, 4.0], &[4.0, 3.0]);
/// assert!(u.is_some_and(|u| (u - 2_f64.sqrt() / 5.0).abs() < 1e-15));
/// ```
pub fn unfairness(fair: &[f64], actual: &[f64]) -> Option<f64> {
    let length: f64 = fair.iter().map(|x| x * x).sum();
    let distance: f64 = fair.iter().zip(actual).map(|(x, y)| (x - y) * (x - y)).sum();
    (fair.len() == actual.len() && length > 0.0).then(|| libm::sqrt(distance / length))
}

#[cfg(test)]
mod tests {
    use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};
    use proptest::prelude::*;
    use proptest::sample::subsequence;
    use proptest::test_runner::{Config, TestRunner};

    use super::*;
    use crate::airtime::shared_links;
    use crate::phy::{Preamble, Standard};

    /// Nodes at positions in units of the spacing, with range `range`.
    fn regions_of(places: &[(f64, f64)], range: f64, associations: &[Vec<usize>]) -> Vec<Region> {
        let hears = |a: usize, b: usize| {
            let ((xa, ya), (xb, yb)) = (places[a], places[b]);
            libm::hypot(xa - xb, ya - yb) <= range
        };
        regions(places.len(), hears, associations)
    }

    /// O-SHARE-1, osipov2007 Fig. 7: 126 m between nodes, range 250 m. TCP1 runs along six nodes. TCP2 and
    /// TCP3 are near one end of it, TCP4 near the other.
    #[test]
    fn o_share_1_a_third_each_in_the_fuller_region_and_two_thirds_beside_the_other() {
        let places = [
            (0.0, 0.0),
            (1.0, 0.0),
            (2.0, 0.0),
            (3.0, 0.0),
            (4.0, 0.0),
            (5.0, 0.0),
            (0.0, 1.0),
            (0.0, 2.0),
            (1.0, -1.0),
            (0.0, -1.0),
            (5.0, 1.0),
            (5.0, 2.0),
            (5.0, 3.0),
        ];
        let associations = [vec![0, 1, 2, 3, 4, 5], vec![6, 7], vec![8, 9], vec![10, 11, 12]];
        let regions = regions_of(&places, 250.0 / 126.0, &associations);
        let with = |these: &[usize]| regions.iter().filter(|region| region.associations == these).count();
        assert!(with(&[0, 1, 2]) >= 1 && with(&[0, 3]) >= 1);
        assert_eq!(with(&[0, 1, 2, 3]) + with(&[1, 3]) + with(&[2, 3]), 0);
        let third = 1.0 / 3.0;
        // The double nearest to 1 − 1/3.
        let expected = [third, third, third, 1.0 - third];
        assert_eq!(c_load_shares(&regions, 4), expected);
        let allocation = max_min(&regions, &[Demand::EQUAL; 4]).expect("an allocation");
        assert_eq!(allocation.shares, expected);
        let bottleneck = |a: usize| &regions[allocation.bottlenecks[a].expect("a bottleneck")].associations;
        assert_eq!((bottleneck(0).as_slice(), bottleneck(3).as_slice()), (&[0, 1, 2][..], &[0, 3][..]));
    }

    #[test]
    fn calls_come_first_and_weights_limits_and_overload_by_hand() {
        let region = |associations: &[usize]| Region { centre: 0, associations: associations.to_vec() };
        let elastic = |weight, limit| Demand::Elastic { weight, limit };
        // 1 − 0.4 = 0.6 for weights 1 and 3, and one with the limit 0.05: 0.55/4 and 3 · 0.55/4.
        let demands =
            [Demand::Call { load: 0.4 }, elastic(1.0, f64::INFINITY), elastic(3.0, 1.0), elastic(1.0, 0.05)];
        let allocation = max_min(&[region(&[0, 1, 2, 3])], &demands).expect("an allocation");
        for (share, expected) in allocation.shares.iter().zip([0.4, 0.1375, 0.4125, 0.05]) {
            assert!((share - expected).abs() < 1e-15, "{allocation:?}");
        }
        assert_eq!(allocation.bottlenecks, [None, Some(0), Some(0), None]);
        // Calls with too much demand leave nothing in their region, which is reported. Other regions are not affected.
        let demands = [Demand::Call { load: 0.7 }, Demand::Call { load: 0.5 }, Demand::EQUAL, Demand::EQUAL];
        let allocation = max_min(&[region(&[0, 1, 2]), region(&[1, 3])], &demands).expect("an allocation");
        assert_eq!((allocation.shares, allocation.overloaded), (vec![0.7, 0.5, 0.0, 0.5], vec![0]));

        let error = |demand: Demand, regions: &[Region]| max_min(regions, &[demand]).expect_err("an error");
        let here = [region(&[0])];
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(error(elastic(weight, 1.0), &here), ShareError::Weight { association: 0 });
        }
        assert_eq!(error(elastic(1.0, f64::NAN), &here), ShareError::Load { association: 0 });
        assert_eq!(error(Demand::Call { load: f64::INFINITY }, &here), ShareError::Load { association: 0 });
        assert_eq!(error(Demand::EQUAL, &[]), ShareError::Unbounded { association: 0 });
        let unknown = ShareError::Unknown { region: 0, association: 7 };
        assert_eq!(error(Demand::EQUAL, &[region(&[0, 7])]), unknown);
        assert!(unknown.to_string().contains("association 7"));
    }

    #[derive(Clone, Debug)]
    struct Network {
        regions: Vec<Region>,
        demands: Vec<Demand>,
    }

    /// Random regions over random associations, each in at least one region. `general` adds weights, limits and calls.
    fn network(general: bool) -> impl Strategy<Value = Network> {
        (1_usize..9, 1_usize..9).prop_flat_map(move |(associations, regions)| {
            let members = || subsequence((0..associations).collect::<Vec<_>>(), 1..=associations);
            let demand = prop_oneof![
                6 => (0.1..4.0_f64, prop_oneof![Just(f64::INFINITY), 0.0..0.6_f64])
                    .prop_map(|(weight, limit)| Demand::Elastic { weight, limit }),
                1 => (0.0..0.3_f64).prop_map(|load| Demand::Call { load }),
            ];
            let demand = if general { demand.boxed() } else { Just(Demand::EQUAL).boxed() };
            let regions = proptest::collection::vec(members(), regions);
            (regions, proptest::collection::vec(demand, associations)).prop_map(
                move |(mut members, demands)| {
                    // An association in no region gets one of its own.
                    for a in 0..associations {
                        if !members.iter().any(|region| region.contains(&a)) {
                            members.push(vec![a]);
                        }
                    }
                    let regions = members
                        .into_iter()
                        .enumerate()
                        .map(|(centre, associations)| Region { centre, associations })
                        .collect();
                    Network { regions, demands }
                },
            )
        })
    }

    /// Lexicographic max-min by linear programs: find the highest common level of the unsettled associations, then settle
    /// each one that cannot exceed it while the others keep it.
    fn by_linear_programs(network: &Network) -> Vec<f64> {
        let Network { regions, demands } = network;
        let mut settled: Vec<Option<f64>> = demands
            .iter()
            .map(|demand| if let Demand::Call { load } = *demand { Some(load) } else { None })
            .collect();
        // The maximum of `objective` (an association's share, or the level if none) with at least `floor` for all unsettled.
        let best = |objective: Option<usize>, floor: f64, settled: &[Option<f64>]| {
            let mut problem = Problem::new(OptimizationDirection::Maximize);
            let level = problem.add_var(f64::from(u8::from(objective.is_none())), (floor, 100.0));
            let shares: Vec<_> = demands
                .iter()
                .enumerate()
                .map(|(a, demand)| {
                    let gain = f64::from(u8::from(objective == Some(a)));
                    match (*demand, settled[a]) {
                        (Demand::Elastic { limit, .. }, None) => problem.add_var(gain, (0.0, limit.min(1.0))),
                        (_, share) => problem.add_var(gain, (share.unwrap_or(0.0), share.unwrap_or(0.0))),
                    }
                })
                .collect();
            for (a, demand) in demands.iter().enumerate() {
                if let (Demand::Elastic { weight, .. }, None) = (*demand, settled[a]) {
                    if objective.is_none() {
                        problem.add_constraint([(shares[a], 1.0), (level, -weight)], ComparisonOp::Ge, 0.0);
                    } else {
                        problem.add_constraint([(shares[a], 1.0)], ComparisonOp::Ge, weight * floor);
                    }
                }
            }
            for region in regions {
                let calls = |a: &&usize| matches!(demands[**a], Demand::Call { .. });
                let load: f64 = region.associations.iter().filter(calls).filter_map(|&a| settled[a]).sum();
                let sum: Vec<_> =
                    region.associations.iter().filter(|a| !calls(a)).map(|&a| (shares[a], 1.0)).collect();
                problem.add_constraint(sum, ComparisonOp::Le, (1.0 - load).max(0.0));
            }
            match problem.solve().expect("feasible") {
                SolveOutcome::Solution(solution) => solution.objective(),
                SolveOutcome::Interrupted(_) => unreachable!("no limit is set"),
            }
        };
        while settled.contains(&None) {
            // Slightly below the optimum, so that the next programs stay feasible despite rounding.
            let level = best(None, 0.0, &settled);
            let floor = (level - 1e-9).max(0.0);
            let stuck: Vec<_> = (0..demands.len())
                .filter(|&a| settled[a].is_none())
                .filter_map(|a| match demands[a] {
                    Demand::Elastic { weight, .. }
                        if best(Some(a), floor, &settled) < weight * level + 1e-6 =>
                    {
                        Some((a, weight * floor))
                    }
                    _ => None,
                })
                .collect();
            assert!(!stuck.is_empty(), "{network:?}");
            for (a, share) in stuck {
                settled[a] = Some(share);
            }
        }
        settled.into_iter().flatten().collect()
    }

    /// Runs 500 networks of a kind, always the same.
    fn on_500_networks(general: bool, test: impl Fn(&Network) -> Result<(), TestCaseError>) {
        let config = Config { cases: 500, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(
            config,
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        runner.run(&network(general), |network| test(&network)).expect("holds for every network");
    }

    #[test]
    fn shares_are_those_of_linear_programs_on_1000_random_networks() {
        let close = |ours: &[f64], reference: &[f64]| {
            ours.iter().zip(reference).all(|(share, reference)| (share - reference).abs() < 1e-6)
        };
        on_500_networks(false, |network| {
            let reference = by_linear_programs(network);
            let shares = c_load_shares(&network.regions, network.demands.len());
            prop_assert!(close(&shares, &reference), "{shares:?} {reference:?}");
            Ok(())
        });
        on_500_networks(true, |network| {
            let reference = by_linear_programs(network);
            let shares = max_min(&network.regions, &network.demands).expect("an allocation").shares;
            prop_assert!(close(&shares, &reference), "{shares:?} {reference:?}");
            Ok(())
        });
    }

    proptest! {
        #[test]
        fn no_share_can_rise_without_lowering_a_smaller_one(network in network(true)) {
            let Network { regions, demands } = network;
            let allocation = max_min(&regions, &demands).expect("an allocation");
            let load = |region: &Region| region.associations.iter().map(|&a| allocation.shares[a]).sum::<f64>();
            for (place, region) in regions.iter().enumerate() {
                let calls_alone_exceed = allocation.overloaded.contains(&place);
                prop_assert!(calls_alone_exceed || load(region) <= 1.0 + 1e-12);
            }
            for (a, demand) in demands.iter().enumerate() {
                let Demand::Elastic { weight, limit } = *demand else { continue };
                let Some(place) = allocation.bottlenecks[a] else {
                    prop_assert_eq!(allocation.shares[a], limit);
                    continue;
                };
                // D4: its bottleneck is full, and no association there has more per weight.
                prop_assert!(load(&regions[place]) >= 1.0 - 1e-12);
                for &other in &regions[place].associations {
                    if let Demand::Elastic { weight: theirs, .. } = demands[other] {
                        prop_assert!(allocation.shares[other] / theirs <= allocation.shares[a] / weight + 1e-12);
                    }
                }
            }
        }

        #[test]
        fn the_general_form_with_equal_weights_is_the_algorithm_as_written(network in network(false)) {
            let written = c_load_shares(&network.regions, network.demands.len());
            let general = max_min(&network.regions, &network.demands).expect("an allocation").shares;
            for (a, b) in written.iter().zip(general) {
                prop_assert!((a - b).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_chain_of_equal_hops_is_a_path_and_a_slow_hop_costs_what_it_takes() {
        let phy = Phy::new(Standard::Dot11a, Preamble::Long);
        let basic = &[Rate::Ofdm6][..];
        let shared_links = shared_links(2, false);
        fn on(phy: Phy, rates: &[Rate], shared_links: u32) -> Chain<'_> {
            Chain { phy, rates, basic: &[Rate::Ofdm6], rts_threshold: None, shared_links }
        }
        let thr_max = |rates: &[Rate], mss, options, per_ack, calibration| {
            on(phy, rates, shared_links).thr_max(mss, options, per_ack, calibration)
        };
        for hops in 1..8 {
            let path = Path { phy, rate: Rate::Ofdm12, basic, rts_threshold: None, hops, shared_links };
            let rates = vec![Rate::Ofdm12; hops as usize];
            for (mss, options, per_ack) in [(1460, 0, 2.0), (1448, 12, 1.0), (600, 0, 0.0)] {
                let ours = thr_max(&rates, mss, options, per_ack, 1.0);
                assert_eq!(ours, path.tcp_goodput(mss, options, per_ack));
            }
            // The maximum number of G.729A calls loads a region fully.
            let calls = path.calls(crate::voice::Codec::G729a);
            let load =
                |calls: u32| on(phy, &rates, shared_links).datagram_load(32, 100.0 * f64::from(calls), 1.0);
            // Not for one hop: its ends count down together, unlike one-way streams.
            if hops > 1 {
                assert!(load(calls) <= 1.0 && load(calls + 1) > 1.0, "{hops} hops: {}", load(calls));
            }
        }
        // At 12 Mb/s a segment of 1500 bytes takes 1142 µs with DIFS and ACK, half an ACK of 40 bytes 85; at 6 Mb/s, with 513
        // and 27 symbols, 2166 and 111. The fullest four of six hops are any with the slow one.
        let rates = [Rate::Ofdm12, Rate::Ofdm12, Rate::Ofdm12, Rate::Ofdm12, Rate::Ofdm6, Rate::Ofdm12];
        let seconds: f64 = (3.0 * 1227.0 + 2277.0 + 101.25) / 1e6;
        let expected = BitRate((11_680.0 / seconds).round() as u64);
        assert_eq!(thr_max(&rates, 1460, 0, 2.0, 1.0), expected);
        let half = thr_max(&rates, 1460, 0, 2.0, 0.5);
        assert_eq!(half, BitRate((11_680.0 / seconds * 0.5).round() as u64));
        // Without ACKs: 4 · 1142 + 67.5 in place of 4 · 1227 + 101.25.
        let correction = on(phy, &[Rate::Ofdm12; 4], shared_links).udp_correction(1460, 0, 2.0);
        assert!((correction - 5009.25 / 4635.5).abs() < 1e-12);
        assert_eq!(
            (thr_max(&[], 1460, 0, 2.0, 1.0), on(phy, &[], 4).udp_correction(1460, 0, 2.0)),
            (BitRate(0), 1.0)
        );
    }

    #[test]
    fn unfairness_is_zero_when_fair_and_one_when_nobody_gets_anything() {
        let fair = [200.0, 200.0, 400.0];
        assert_eq!(unfairness(&fair, &fair), Some(0.0));
        assert_eq!(unfairness(&fair, &[0.0; 3]), Some(1.0));
        assert_eq!(
            (unfairness(&fair, &[1.0]), unfairness(&[], &[]), unfairness(&[0.0], &[1.0])),
            (None, None, None)
        );
        assert_eq!(ingress_rate(1.0 / 3.0, BitRate(1_350_000)), BitRate(450_000));
    }
}
