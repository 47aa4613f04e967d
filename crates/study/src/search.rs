//! A search for the best value of a setting, with common random numbers.
//!
//! All values run with the same seeds, in a few steps. The first one looks at the whole range with few seeds. Each later one
//! adds seeds, or tries the values between every value that is left and its neighbours. After each step values are dropped:
//!
//! - those that surely miss a condition: the 95 % interval of its mean lies outside the bound;
//! - those that are surely worse than the leader, if the leader surely meets the conditions: paired t tests at 5 %, corrected
//!   for their number ([`crate::paired`]);
//! - the worst of the others, as many as the step says. That is sequential halving (Z. Karnin, T. Koren and O. Somekh, "Almost
//!   optimal exploration in multi-armed bandits", ICML 2013), which bounds the cost.
//!
//! No order among the values is assumed: calls may be good at one rate, bad at a higher one, and good again above it, where a
//! search that climbs or bisects would stop. What is missed is a range of good values that is narrower than the distance of
//! the first ones.
//!
//! The seeds of a search have chosen its result, which looks better on them than it is: judge it with other seeds.

use serde::Serialize;

use crate::paired::{LEVEL, Paired, holm};
use crate::sweep::Figure;

/// The 97.5 % quantile of the normal distribution.
const QUANTILE: f64 = 1.959_963_984_540_054;

/// Runs from which on anything about a value is sure. Two runs may be equal by chance, and then have no spread.
const CERTAIN: usize = 4;

/// Bounds of a figure that a value must keep.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition {
    /// Minimum.
    pub min: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
    /// Fraction of the runs that must keep the bounds; the mean over the runs must if it is left out.
    pub fraction: Option<f64>,
}

/// How a condition stands after some runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Mean of the figure, or the fraction of the runs that keep the bounds.
    pub mean: f64,
    /// Lower end of its 95 % interval; none for one run.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Whether it keeps the bounds.
    pub met: bool,
    /// Whether its whole interval does.
    pub surely: bool,
    /// Whether its interval lies outside the bounds.
    #[serde(skip)]
    surely_not: bool,
    /// Distance to the bounds, as a fraction of the bound; 0 if they are kept.
    #[serde(skip)]
    shortfall: f64,
}

impl Condition {
    /// How it stands after runs; none if no run has the figure.
    pub fn kept(&self, samples: &[Option<f64>]) -> Option<Kept> {
        let min = self.min.unwrap_or(f64::NEG_INFINITY);
        let max = self.max.unwrap_or(f64::INFINITY);
        let values: Vec<f64> = samples.iter().flatten().copied().collect();
        let (mean, interval, min, max) = match self.fraction {
            Some(fraction) => {
                let kept = values.iter().filter(|value| (min..=max).contains(*value)).count();
                let (mean, interval) = wilson(kept, samples.len())?;
                (mean, Some(interval), fraction, f64::INFINITY)
            }
            None => {
                let Figure { mean, ci95, .. } = Figure::of(&values)?;
                (mean, ci95.map(|half| (mean - half, mean + half)), min, max)
            }
        };
        let of_bound = |beyond: f64, bound: f64| beyond / if bound == 0.0 { 1.0 } else { bound.abs() };
        Some(Kept {
            mean,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            met: (min..=max).contains(&mean),
            surely: interval.is_some_and(|(low, high)| low >= min && high <= max),
            surely_not: interval.is_some_and(|(low, high)| high < min || low > max),
            shortfall: match mean {
                mean if mean < min => of_bound(min - mean, min),
                mean if mean > max => of_bound(mean - max, max),
                _ => 0.0,
            },
        })
    }
}

/// A fraction and its 95 % interval by E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
/// JASA 22 (1927). Four of four runs say that the fraction is at least 0.51.
fn wilson(kept: usize, count: usize) -> Option<(f64, (f64, f64))> {
    let (kept, n) = (kept as f64, count as f64);
    let fraction = (count > 0).then(|| kept / n)?;
    let z2 = QUANTILE * QUANTILE;
    let middle = (kept + z2 / 2.0) / (n + z2);
    let half = QUANTILE / (n + z2) * libm::sqrt(kept * (1.0 - fraction) + z2 / 4.0);
    Some((fraction, ((middle - half).max(0.0), (middle + half).min(1.0))))
}

/// What is searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct Aim {
    /// Whether a large figure is good.
    pub most: bool,
    /// What values must keep.
    pub conditions: Vec<Condition>,
}

/// What a run says about a value: the figure that is optimized, and those of the conditions, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The figure.
    pub figure: Option<f64>,
    /// The figures of the conditions.
    pub conditions: Vec<Option<f64>>,
}

/// How a value stands after some runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The figure over the runs; none if no run has it.
    pub figure: Option<Figure>,
    /// The conditions; none where no run has the figure.
    pub conditions: Vec<Option<Kept>>,
    /// Whether the means keep all conditions.
    pub met: bool,
    /// Whether the 95 % intervals do.
    pub surely: bool,
    /// Whether the value has no chance to keep all conditions.
    surely_not: bool,
    /// The larger, the better: the figure if the conditions are met, or else how far they are missed.
    rank: (bool, f64),
}

impl Aim {
    /// How a value stands after runs.
    pub fn standing(&self, samples: &[Sample]) -> Standing {
        let figures: Vec<f64> = samples.iter().filter_map(|sample| sample.figure).collect();
        let figure = Figure::of(&figures);
        let conditions: Vec<Option<Kept>> = self
            .conditions
            .iter()
            .enumerate()
            .map(|(index, condition)| {
                condition.kept(&samples.iter().map(|sample| sample.conditions[index]).collect::<Vec<_>>())
            })
            .collect();
        let all = |of: &dyn Fn(&Kept) -> bool| conditions.iter().all(|kept| kept.as_ref().is_some_and(of));
        let certain = samples.len() >= CERTAIN;
        let met = figure.is_some() && all(&|kept| kept.met);
        let shortfall: f64 =
            conditions.iter().map(|kept| kept.map_or(f64::INFINITY, |kept| kept.shortfall)).sum();
        let signed = |mean: f64| if self.most { mean } else { -mean };
        let rank = match figure {
            Some(figure) if met => (true, signed(figure.mean)),
            Some(_) => (false, -shortfall),
            None => (false, f64::NEG_INFINITY),
        };
        Standing {
            figure,
            met,
            surely: met && certain && all(&|kept| kept.surely),
            surely_not: certain
                && (figure.is_none()
                    || conditions.iter().any(|kept| kept.is_none_or(|kept| kept.surely_not))),
            conditions,
            rank,
        }
    }

    /// Which of `others` are surely worse than `leader`, each with the runs of the same seeds.
    fn worse<'s>(&self, leader: &[Sample], others: impl Iterator<Item = &'s [Sample]>) -> Vec<bool> {
        let pairs: Vec<Option<Paired>> = others
            .map(|other| Paired::of(leader.iter().zip(other).map(|(a, b)| (a.figure, b.figure))))
            .collect();
        let adjusted = holm(&pairs.iter().map(|pair| pair.and_then(|pair| pair.p)).collect::<Vec<_>>());
        let worse = |pair: &Paired| if self.most { pair.difference < 0.0 } else { pair.difference > 0.0 };
        let surely = |(pair, p): (&Option<Paired>, Option<f64>)| {
            pair.as_ref().is_some_and(worse) && p.is_some_and(|p| p <= LEVEL)
        };
        pairs.iter().zip(adjusted).map(surely).collect()
    }
}

/// How many values a step leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The better half.
    Half,
    /// This number at most.
    AtMost(usize),
}

impl Keep {
    fn of(self, count: usize) -> usize {
        match self {
            Self::Half => count.div_ceil(2),
            Self::AtMost(most) => count.min(most),
        }
    }
}

/// A step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of seeds that every value has after it.
    pub seeds: usize,
    /// Whether values between the ones that are left and their neighbours are tried as well.
    pub refine: bool,
    /// How many values it leaves.
    pub keep: Keep,
}

/// A search: which values need which seeds. The caller makes the runs.
#[derive(Clone, Debug)]
pub struct Search<V> {
    /// All values that were tried, in their order.
    values: Vec<V>,
    /// Places of the values that are left; after a step the best one first.
    left: Vec<usize>,
    steps: Vec<Step>,
    next: usize,
}

impl<V> Search<V> {
    /// A search that begins with these values, which are in their order.
    pub fn new(values: Vec<V>, steps: Vec<Step>) -> Self {
        Self { left: (0..values.len()).collect(), values, steps, next: 0 }
    }

    /// Begins the next step. Every value that is left needs the first seeds, whose number is returned; none after the last
    /// step. `between` is a value between two neighbours, if there is one.
    pub fn begin(&mut self, between: impl Fn(&V, &V) -> Option<V>) -> Option<usize> {
        let step = self.steps.get(self.next)?;
        if step.refine {
            let mut left = vec![false; self.values.len()];
            self.left.iter().for_each(|&place| left[place] = true);
            let mut refined: Vec<(V, bool)> = Vec::new();
            for (value, left) in std::mem::take(&mut self.values).into_iter().zip(left) {
                let new = match refined.last() {
                    Some((below, below_left)) if left || *below_left => between(below, &value),
                    _ => None,
                };
                refined.extend(new.map(|new| (new, true)));
                refined.push((value, left));
            }
            self.left = (0..refined.len()).filter(|&place| refined[place].1).collect();
            self.values = refined.into_iter().map(|(value, _)| value).collect();
        }
        Some(step.seeds)
    }

    /// The values that are left; after a step the best one first.
    pub fn left(&self) -> impl Iterator<Item = &V> {
        self.left.iter().map(|&place| &self.values[place])
    }

    /// Ends the step: drops values. `samples` are a value's runs with the seeds of the step.
    pub fn end(&mut self, aim: &Aim, mut samples: impl FnMut(&V) -> Vec<Sample>) {
        let Some(step) = self.steps.get(self.next) else { return };
        self.next += 1;
        self.left.sort_unstable();
        let mut standing: Vec<(usize, Vec<Sample>, Standing)> = self
            .left
            .iter()
            .map(|&place| {
                let samples = samples(&self.values[place]);
                let standing = aim.standing(&samples);
                (place, samples, standing)
            })
            .collect();
        // The sort is stable: of equal values the first one leads.
        standing.sort_by(|(.., a), (.., b)| b.rank.0.cmp(&a.rank.0).then(b.rank.1.total_cmp(&a.rank.1)));
        let Some((first, others)) = standing.split_first() else { return };
        let (place, leader, of_leader) = first;
        let worse = match of_leader.surely {
            true => aim.worse(leader, others.iter().map(|(_, samples, _)| samples.as_slice())),
            false => vec![false; others.len()],
        };
        let keeps = others
            .iter()
            .zip(worse)
            .filter(|((.., standing), worse)| !(*worse || of_leader.met && standing.surely_not))
            .map(|((place, ..), _)| *place);
        let count = step.keep.of(standing.len());
        self.left = std::iter::once(*place).chain(keeps).take(count).collect();
    }

    /// All values that were tried, in their order.
    pub fn values(&self) -> &[V] {
        &self.values
    }

    /// Number of runs of the steps that have not begun, at most.
    pub fn most_runs(&self) -> usize {
        let mut left = self.left.len();
        let mut before = self.next.checked_sub(1).map_or(0, |last| self.steps[last].seeds);
        let mut runs = 0;
        for step in self.steps.iter().skip(self.next) {
            let new = if step.refine { 2 * left } else { 0 };
            runs += left * (step.seeds - before) + new * step.seeds;
            before = step.seeds;
            left = step.keep.of(left + new);
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 5] = {
        const fn step(seeds: usize, refine: bool) -> Step {
            Step { seeds, refine, keep: Keep::AtMost(8) }
        }
        [step(4, false), step(4, true), step(4, true), step(8, false), step(16, false)]
    };
    const AIM: Aim = Aim { most: true, conditions: Vec::new() };

    /// Noise that is the same for all values of a seed, and a part that is not.
    fn noise(value: f64, seed: usize) -> f64 {
        let part = |x: f64| (libm::sin(x) * 43_758.5).rem_euclid(1.0) - 0.5;
        part(seed as f64 + 1.0) + 0.1 * part(13.7 * value + 7.1 * seed as f64)
    }

    /// The values that are left, the best one first, and the runs that were made.
    fn search(aim: &Aim, values: Vec<f64>, run: impl Fn(f64, usize) -> Sample) -> (Vec<f64>, usize) {
        let mut search = Search::new(values, STEPS.to_vec());
        let most = search.most_runs();
        let mut made = std::collections::BTreeSet::new();
        while let Some(seeds) = search.begin(|a, b| Some(a.midpoint(*b))) {
            search.end(aim, |value| {
                (0..seeds)
                    .map(|seed| {
                        made.insert((value.to_bits(), seed));
                        run(*value, seed)
                    })
                    .collect()
            });
        }
        assert!(made.len() <= most, "{} runs of {most}", made.len());
        (search.left().copied().collect(), made.len())
    }

    fn grid() -> Vec<f64> {
        (1..=16).map(|index| 50.0 * f64::from(index)).collect()
    }

    #[test]
    fn the_best_value_is_found_beyond_a_range_that_harms() {
        // Calls are good up to 300, bad up to 560, and good again up to 720: a bisection would end at 300.
        let aim = Aim { conditions: vec![Condition { min: Some(0.95), ..Condition::default() }], ..AIM };
        let clear = |rate: f64| if rate < 300.0 || (560.0..720.0).contains(&rate) { 0.99 } else { 0.7 };
        let run = |rate: f64, seed: usize| Sample {
            figure: Some(rate / 1e3 + 0.02 * noise(rate, seed)),
            conditions: vec![Some(clear(rate) + 0.02 * noise(rate, seed))],
        };
        let (left, made) = search(&aim, grid(), run);
        assert!((700.0..720.0).contains(&left[0]), "{left:?}: within a quarter of the grid's step");
        assert!(made < 200, "{made} runs, where 16 seeds of every value in steps of 12.5 would be 976");
    }

    #[test]
    fn common_random_numbers_separate_values_whose_intervals_overlap() {
        // The noise of a seed is a hundred times the difference of neighbours, and the same for all values.
        let run = |value: f64, seed: usize| Sample {
            figure: Some(noise(0.0, seed) - libm::pow((value - 420.0) / 1e3, 2.0)),
            conditions: Vec::new(),
        };
        let (left, _) = search(&AIM, grid(), run);
        assert!((left[0] - 420.0).abs() <= 12.5 && left.len() == 1, "{left:?}");
    }

    #[test]
    fn values_that_do_not_differ_stay_together_and_the_cost_is_bounded() {
        let flat = |value: f64, seed: usize| Sample {
            figure: Some(noise(value, seed) + 3.0 * noise(seed as f64, value as usize)),
            conditions: Vec::new(),
        };
        let (left, made) = search(&AIM, grid(), flat);
        assert!(left.len() > 1 && left.len() <= 8 && made <= 288, "{} left, {made} runs", left.len());
    }

    #[test]
    fn without_a_value_that_meets_the_condition_the_closest_one_leads() {
        let least =
            Aim { most: false, conditions: vec![Condition { max: Some(1.0), ..Condition::default() }] };
        let run = |value: f64, seed: usize| Sample {
            figure: Some(value),
            conditions: vec![Some(2.0 + (value - 400.0).abs() / 100.0 + 0.1 * noise(value, seed))],
        };
        let (left, _) = search(&least, grid(), run);
        assert!((left[0] - 400.0).abs() <= 12.5, "{left:?}");
        let samples: Vec<Sample> = (0..16).map(|seed| run(left[0], seed)).collect();
        let standing = least.standing(&samples);
        assert!(!standing.met && standing.conditions[0].is_some_and(|kept| kept.surely_not));
    }

    #[test]
    fn a_fraction_of_the_runs_has_the_interval_of_a_proportion() {
        let condition = Condition { min: Some(3.6), max: None, fraction: Some(0.9) };
        let of = |good: usize, count: usize| {
            let samples: Vec<Option<f64>> =
                (0..count).map(|run| Some(if run < good { 4.0 } else { 3.0 })).collect();
            condition.kept(&samples).expect("runs")
        };
        let four = of(4, 4);
        assert!(four.met && !four.surely, "four of four runs prove little");
        assert!((four.low.expect("an interval") - 4.0 / (4.0 + 1.96 * 1.96)).abs() < 1e-3, "{four:?}");
        assert!(of(40, 40).surely && of(2, 4).surely_not && !of(3, 4).met && !of(3, 4).surely_not);
        assert_eq!(
            condition.kept(&[None, Some(4.0)]).map(|kept| kept.mean),
            Some(0.5),
            "no figure is not good"
        );
    }
}
