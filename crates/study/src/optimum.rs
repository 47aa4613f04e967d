//! The search of a plan: the best value of a key, at each point of the other keys.
//!
//! The searches of all points go from step to step together, so that all cores have work. The best value, and the ones that
//! the search could not tell apart from it, are then judged with the plan's `seeds`, which had no part in the choice.
//!
//! A search looks at every value with [`LOOK`] seeds, refines twice, and then doubles the seeds of the values that are left,
//! at most [`KEEP`] after each step. For V values that is at most 4 V + 64 + 64 + 32 + 64 runs with `search.seeds` = 16,
//! and (1 + [`RUNNERS_UP`]) · `seeds` to judge.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::paired::{LEVEL, Paired, holm};
use crate::plan::{self, Sweep};
use crate::search::{Keep, Kept, Sample, Search, Standing, Step};
use crate::sweep::{Figure, Session, SweepError};

/// Seeds of the first look. A paired interval from fewer is too wide to drop anything.
const LOOK: u32 = 4;
/// Values that a step leaves, at most.
const KEEP: usize = 8;
/// How often the distance between values is halved.
const REFINEMENTS: usize = 2;
/// Values that are judged beside the best one, at most.
const RUNNERS_UP: usize = 4;

/// What the search has found at a point of the other keys. Figures are those of the seeds that judge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The other keys with their values.
    pub keys: Map<String, Value>,
    /// Whether a value has met the conditions in the search.
    pub met: bool,
    /// The best value; if none has met the conditions, the one that comes closest.
    pub best: Judged,
    /// Values that the search could not tell apart from the best one.
    pub runners_up: Vec<Judged>,
    /// Number of further such values, which were not judged.
    pub more_runners_up: usize,
    /// Whether the best value is the first or the last one: there may be better ones beyond.
    pub end: Option<End>,
    /// Number of values that were tried.
    pub tried: usize,
    /// Runs of the search and of the judgement, with those that were there already.
    pub runs: usize,
}

/// A value with its figures on the seeds that judge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The value.
    pub value: Value,
    /// The figure that is optimized; none if no run has it.
    pub figure: Option<Figure>,
    /// The conditions by their figures; none where no run has it.
    pub conditions: BTreeMap<String, Option<Kept>>,
    /// Whether the conditions are met.
    pub met: bool,
    /// The figure minus that of the best value, seed by seed.
    pub against_best: Option<Paired>,
    /// Whether it differs significantly from that of the best value.
    pub apart: bool,
}

/// An end of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The first value.
    First,
    /// The last value.
    Last,
}

/// A search at one point of the other keys.
struct Place {
    keys: Vec<(String, Value)>,
    search: Search<Value>,
    /// Numbers of the points of values, as text.
    points: BTreeMap<String, usize>,
    runs: usize,
}

/// Makes the searches of a plan; nothing if they are interrupted.
///
/// # Errors
/// A run cannot be made or kept.
pub(crate) fn find(session: &mut Session<'_>, plan: &plan::Search) -> Result<Vec<Found>, SweepError> {
    let mut lab = Lab { session, plan, known: BTreeMap::new() };
    let mut places = lab.places();
    let judging: Vec<u64> = lab.session.sweep.seeds(0, lab.session.sweep.seeds).collect();
    loop {
        let mut wanted = Vec::new();
        let mut seeds = None;
        for place in &mut places {
            seeds = place.search.begin(between);
            wanted.extend(lab.wanted(place, &lab.searching(seeds.unwrap_or_default()))?);
        }
        let Some(seeds) = seeds else { break };
        let judged = places.len() * (1 + RUNNERS_UP) * judging.len();
        let further = judged + places.iter().map(|place| place.search.most_runs()).sum::<usize>();
        if !lab.make(&wanted, further)? {
            return Ok(Vec::new());
        }
        for place in &mut places {
            let seeds = lab.searching(seeds);
            let Place { search, points, .. } = place;
            search.end(&plan.aim, |value| lab.samples(points[&value.to_string()], &seeds));
        }
    }
    let seeds = lab.searching(plan.seeds as usize);
    let chosen: Vec<(Vec<Value>, bool, usize)> =
        places.iter().map(|place| lab.choice(place, &seeds)).collect();
    let mut wanted = Vec::new();
    for (place, (values, ..)) in places.iter_mut().zip(&chosen) {
        let points: Vec<usize> = values.iter().map(|value| place.points[&value.to_string()]).collect();
        wanted.extend(points.iter().flat_map(|point| judging.iter().map(|seed| (*point, *seed))));
        place.runs += points.len() * judging.len();
    }
    if !lab.make(&wanted, 0)? {
        return Ok(Vec::new());
    }
    let found = places.into_iter().zip(chosen).map(|(place, (values, met, more_runners_up))| {
        let judged = lab.judged(&place, values, &judging);
        let mut judged = judged.into_iter();
        let best = judged.next()?;
        Some(Found {
            end: end(place.search.values(), &best.value),
            tried: place.search.values().len(),
            keys: place.keys.into_iter().collect(),
            runners_up: judged.collect(),
            runs: place.runs,
            met,
            best,
            more_runners_up,
        })
    });
    Ok(found.flatten().collect())
}

/// What searches have found, as `fairhop sweep --json` prints it.
pub fn json(sweep: &Sweep, plan: &plan::Search, found: &[Found]) -> Value {
    json!({
        "key": plan.key,
        "figure": plan.figure,
        "most": plan.aim.most,
        "seeds": {
            "judge": sweep.seeds(0, sweep.seeds).collect::<Vec<_>>(),
            "search": sweep.seeds(sweep.seeds, plan.seeds).collect::<Vec<_>>(),
        },
        "found": found,
    })
}

/// The runs of the searches.
struct Lab<'l, 's> {
    session: &'l mut Session<'s>,
    plan: &'l plan::Search,
    /// What runs say, by number of the point and seed.
    known: BTreeMap<(usize, u64), Sample>,
}

impl Lab<'_, '_> {
    /// A search at each point of the other keys. Its own key is the last one, which changes fastest.
    fn places(&self) -> Vec<Place> {
        let values = &self.plan.values;
        let points = &self.session.points;
        (0..points.len() / values.len())
            .map(|place| {
                let first = place * values.len();
                let (_, keys) = points[first].keys.split_last().unwrap_or((&points[first].keys[0], &[]));
                Place {
                    keys: keys.to_vec(),
                    search: Search::new(values.clone(), steps(self.plan)),
                    points: values.iter().map(Value::to_string).zip(first..).collect(),
                    runs: 0,
                }
            })
            .collect()
    }

    /// The first seeds of the search, which follow those that judge.
    fn searching(&self, count: usize) -> Vec<u64> {
        let sweep = self.session.sweep;
        sweep.seeds(sweep.seeds, u32::try_from(count).unwrap_or(u32::MAX)).collect()
    }

    /// The runs of a search's values that are not known yet. New values become points.
    fn wanted(&mut self, place: &mut Place, seeds: &[u64]) -> Result<Vec<(usize, u64)>, SweepError> {
        let mut wanted = Vec::new();
        for value in place.search.left() {
            let point = match place.points.get(&value.to_string()) {
                Some(point) => *point,
                None => {
                    let key = (self.plan.key.clone(), value.clone());
                    let keys = place.keys.iter().cloned().chain([key]).collect();
                    self.session.points.push(self.session.sweep.point(keys)?.into());
                    place.points.insert(value.to_string(), self.session.points.len() - 1);
                    self.session.points.len() - 1
                }
            };
            wanted.extend(seeds.iter().map(|seed| (point, *seed)));
        }
        wanted.retain(|run| !self.known.contains_key(run));
        place.runs += wanted.len();
        Ok(wanted)
    }

    /// Makes runs and reads their figures; returns whether all are there.
    fn make(&mut self, wanted: &[(usize, u64)], further: usize) -> Result<bool, SweepError> {
        let begin = self.session.runs.len();
        let complete = self.session.make(wanted, further)?;
        let figures: Vec<&str> =
            [&self.plan.figure].into_iter().chain(&self.plan.bounded).map(String::as_str).collect();
        for (point, seed, key) in &self.session.runs[begin..] {
            let mut figures = self.session.store.figures(key, &figures).into_iter();
            let figure = figures.next().flatten();
            self.known.insert((*point, *seed), Sample { figure, conditions: figures.collect() });
        }
        Ok(complete)
    }

    fn samples(&self, point: usize, seeds: &[u64]) -> Vec<Sample> {
        seeds.iter().filter_map(|seed| self.known.get(&(point, *seed)).cloned()).collect()
    }

    /// The values to judge, the best one first; whether one has met the conditions; and how many more there are.
    ///
    /// The best one meets the conditions with its whole interval where there is such a value.
    fn choice(&self, place: &Place, seeds: &[u64]) -> (Vec<Value>, bool, usize) {
        let mut values: Vec<(&Value, Standing)> = place
            .search
            .left()
            .map(|value| {
                let samples = self.samples(place.points[&value.to_string()], seeds);
                (value, self.plan.aim.standing(&samples))
            })
            .collect();
        let sure = values.iter().position(|(_, standing)| standing.surely).unwrap_or_default();
        values[..=sure].rotate_right(1);
        let met = values[0].1.met;
        let more = values.len().saturating_sub(1 + RUNNERS_UP);
        values.truncate(1 + RUNNERS_UP);
        (values.into_iter().map(|(value, _)| value.clone()).collect(), met, more)
    }

    /// Values on the seeds that judge; the first one is the best.
    fn judged(&self, place: &Place, values: Vec<Value>, seeds: &[u64]) -> Vec<Judged> {
        let samples: Vec<Vec<Sample>> =
            values.iter().map(|value| self.samples(place.points[&value.to_string()], seeds)).collect();
        let against = |samples: &[Sample], best: &[Sample]| {
            Paired::of(best.iter().zip(samples).map(|(best, sample)| (best.figure, sample.figure)))
        };
        let pairs: Vec<Option<Paired>> =
            samples.iter().skip(1).map(|samples_of| against(samples_of, &samples[0])).collect();
        let adjusted = holm(&pairs.iter().map(|pair| pair.and_then(|pair| pair.p)).collect::<Vec<_>>());
        // The best one is not compared with itself.
        let pairs = [(None, None)].into_iter().chain(pairs.into_iter().zip(adjusted));
        values
            .into_iter()
            .zip(&samples)
            .zip(pairs)
            .map(|((value, samples), (against_best, p))| {
                let Standing { figure, conditions, met, .. } = self.plan.aim.standing(samples);
                Judged {
                    value,
                    figure,
                    conditions: self.plan.bounded.iter().cloned().zip(conditions).collect(),
                    met,
                    against_best,
                    apart: p.is_some_and(|p| p <= LEVEL),
                }
            })
            .collect()
    }
}

/// The steps of a search.
fn steps(plan: &plan::Search) -> Vec<Step> {
    let step = |seeds: u32, refine: bool| Step { seeds: seeds as usize, refine, keep: Keep::AtMost(KEEP) };
    let refinements = if plan.refine { REFINEMENTS } else { 0 };
    let mut steps = vec![step(LOOK, false)];
    steps.extend((0..refinements).map(|_| step(LOOK, true)));
    let mut seeds = LOOK;
    while seeds < plan.seeds {
        seeds = seeds.saturating_mul(2).min(plan.seeds);
        steps.push(step(seeds, false));
    }
    steps
}

/// The value between two numbers; whole between whole ones. None if there is none.
fn between(a: &Value, b: &Value) -> Option<Value> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        let middle = a.midpoint(b);
        return (middle != a && middle != b).then(|| Value::from(middle));
    }
    let (a, b) = (a.as_f64()?, b.as_f64()?);
    let middle = a.midpoint(b);
    (middle != a && middle != b).then(|| Value::from(middle))
}

/// Whether a number is the first or the last of several.
fn end(values: &[Value], best: &Value) -> Option<End> {
    match values {
        [first, .., _] if first.is_number() && first == best => Some(End::First),
        [_, .., last] if last.is_number() && last == best => Some(End::Last),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_between_whole_numbers_are_whole_and_words_have_none() {
        let of = |a: Value, b: Value| between(&a, &b);
        assert_eq!(of(json!(2), json!(6)), Some(json!(4)));
        assert_eq!(of(json!(2), json!(3)), None);
        assert_eq!(of(json!(2.0), json!(3)), Some(json!(2.5)));
        assert_eq!(of(json!("first"), json!("none")), None);
    }

    #[test]
    fn an_end_of_the_values_is_one_of_numbers() {
        let values = [json!(1), json!(2), json!(3)];
        assert_eq!(
            [1, 2, 3].map(|best| end(&values, &json!(best))),
            [Some(End::First), None, Some(End::Last)]
        );
        assert_eq!(end(&[json!("a"), json!("b")], &json!("a")), None, "words have no order");
        assert_eq!(end(&[json!(1)], &json!(1)), None);
    }
}
