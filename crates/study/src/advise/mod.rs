//! Which control suits a scenario: tries many, with the same seeds, and ranks them.
//!
//! Calls come first: settings under which calls are good in 95 % of the seconds rank by what TCP carries, the others by
//! their calls. Tried are fixed settings, and for every [`Knob`] a search for its best value.
//!
//! The search ([`crate::search`]) tries many values with one seed each, the better half of them with one seed more, and so on;
//! then values between the best one and its neighbours. It has too few seeds to drop a value for sure.
//!
//! The search has seeds of its own. What is shown comes from other seeds, which had no part in the choice: the best of many
//! values looks better than it is on the seeds that chose it. For each knob, the next tighter value is shown as well, in
//! case the best one is good by chance.

mod setting;

use std::collections::BTreeMap;
use std::sync::Arc;

use fairhop_sim::results::Summary;
use fairhop_sim::scenario::{Loaded, Scenario, ScenarioErrors, Traffic};

pub use setting::{Kinds, Knob, Setting};

use crate::paired::Paired;
use crate::search::{Aim, Condition, Keep, Sample, Search, Step};
use crate::sweep::Figure;

/// Calls are good if they are clear in this fraction of the seconds.
pub const GOOD: f64 = 0.95;
/// Number of seeds of the search.
pub const SEARCH_SEEDS: u32 = 4;
/// Seeds that a value has been tried with after each round of halving.
const ROUNDS: [u32; 3] = [1, 2, SEARCH_SEEDS];
/// Rounds of values between the best one and its neighbours.
const REFINEMENTS: usize = 2;
/// Rate of a shaper as a fraction of a speed test, as administrators set it.
const OF_SPEED_TEST: f64 = 0.9;
/// What TCP carries alone, at least: the rates to try must not be 0.
const MIN_MBPS: f64 = 0.01;

/// The figures of a run by which settings are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunFigures {
    /// Fraction of the seconds in which a call is good, mean of the calls; 1 without calls.
    pub clear: f64,
    /// Mean of the calls' scores.
    pub mos_mean: Option<f64>,
    /// Score of the worst direction of any call.
    pub mos_min: Option<f64>,
    /// Goodput of TCP.
    pub tcp_mbps: f64,
    /// Goodput of flows that are neither TCP nor calls.
    pub udp_mbps: f64,
}

/// Names of the figures in `totals`, in the order of the fields of [`RunFigures`].
pub const FIGURES: [&str; 5] = ["calls_clear", "mos_mean", "mos_min", "tcp_goodput_mbps", "udp_goodput_mbps"];

impl RunFigures {
    /// Those of a run.
    pub fn of(run: &Summary) -> Self {
        let totals = &run.totals;
        Self {
            clear: totals.calls_clear,
            mos_mean: totals.mos_mean,
            mos_min: totals.mos_min,
            tcp_mbps: totals.tcp_goodput_mbps,
            udp_mbps: totals.udp_goodput_mbps,
        }
    }

    /// Those of a kept run, by [`FIGURES`]; none if it cannot be read.
    pub fn kept(figures: &[Option<f64>]) -> Option<Self> {
        let [clear, mos_mean, mos_min, tcp, udp] = *figures else { return None };
        Some(Self { clear: clear?, mos_mean, mos_min, tcp_mbps: tcp?, udp_mbps: udp? })
    }
}

/// What of a setting is ranked first after the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Goodput of TCP.
    Tcp,
    /// Goodput of other flows: there is no TCP.
    Other,
    /// Nothing: there are calls only, and their mean score decides.
    Calls,
}

/// A run that is needed: a scenario and a seed.
pub type Wanted = (Arc<Loaded>, u64);

/// A setting with its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The setting.
    pub setting: Setting,
    /// Whether calls are good in 95 % of the seconds; none without calls.
    pub good: Option<bool>,
    /// Fraction of the seconds in which calls are good; none without calls.
    pub clear: Option<Figure>,
    /// Mean score of the calls.
    pub mos_mean: Option<Figure>,
    /// Score of the worst direction of any call.
    pub mos_min: Option<Figure>,
    /// Goodput by which it is ranked.
    pub mbps: Option<Figure>,
    /// That goodput minus that without control, seed by seed.
    pub against_none: Option<Paired>,
    /// That goodput minus that of the first row, seed by seed.
    pub against_first: Option<Paired>,
    /// Its rate is that of a speed test and was not searched.
    pub by_speed_test: bool,
}

/// A ranking of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The rows, the recommended one first.
    pub rows: Vec<Row>,
    /// What is ranked after the calls.
    pub carried: Carried,
    /// What the scenario carries.
    pub kinds: Kinds,
    /// What TCP carries alone, in Mb/s: the speed test.
    pub alone_mbps: Option<f64>,
    /// Settings that this scenario cannot have, with the reason.
    pub left_out: Vec<(String, String)>,
    /// Seeds that the rows are from.
    pub seeds: Vec<u64>,
    /// Whether all runs were made.
    pub complete: bool,
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError<E> {
    /// The scenario cannot be read without control.
    #[error(transparent)]
    Scenario(ScenarioErrors),
    /// A run failed.
    #[error(transparent)]
    Run(E),
}

/// Tries settings on a scenario.
pub struct Adviser<L> {
    load: L,
    kinds: Kinds,
    carried: Carried,
    /// Overrides that leave the TCP alone.
    without_calls: Vec<String>,
    fixed: Vec<Setting>,
    knobs: Vec<Knob>,
    left_out: Vec<(String, String)>,
    judging: Vec<u64>,
    searching: Vec<u64>,
    loaded: BTreeMap<Vec<String>, Arc<Loaded>>,
    known: BTreeMap<(Vec<String>, u64), RunFigures>,
}

/// Why a step of the search ended early.
enum End<E> {
    /// A run was interrupted.
    Interrupted,
    /// A run failed.
    Failed(AdviseError<E>),
}

/// Makes runs and returns their figures in the order given; none for a run that was interrupted.
trait Make<E>: FnMut(&[Wanted]) -> Result<Vec<Option<RunFigures>>, E> {}

impl<E, T: FnMut(&[Wanted]) -> Result<Vec<Option<RunFigures>>, E>> Make<E> for T {}

/// What has been tried.
#[derive(Default)]
struct Tried {
    /// Settings without a search.
    shown: Vec<Setting>,
    /// Those of them whose rate is that of a speed test.
    by_speed_test: Vec<Setting>,
    /// Settings that the search has found.
    found: Vec<Setting>,
    /// What TCP carries alone.
    alone_mbps: Option<f64>,
}

impl<L: Fn(&[String]) -> Result<Loaded, ScenarioErrors>> Adviser<L> {
    /// An adviser for `scenario`, which `load` reads with overrides. Rows are from `judging`; the search has `searching`.
    ///
    /// # Errors
    /// The scenario cannot be read without control.
    pub fn new(
        load: L,
        scenario: &Scenario,
        judging: Vec<u64>,
        searching: Vec<u64>,
    ) -> Result<Self, ScenarioErrors> {
        let kinds = Kinds::of(scenario);
        let others = scenario
            .traffic
            .iter()
            .any(|traffic| traffic.count() > 0 && !matches!(traffic, Traffic::Call(_) | Traffic::Real(_)));
        let carried = match kinds {
            Kinds { tcp: true, .. } => Carried::Tcp,
            _ if others => Carried::Other,
            _ => Carried::Calls,
        };
        let without_calls = (0_u32..)
            .zip(&scenario.traffic)
            .filter(|(_, traffic)| matches!(traffic, Traffic::Call(_)))
            .map(|(index, _)| format!("traffic.{index}.count=0"))
            .collect();
        let mut adviser = Self {
            load,
            kinds,
            carried,
            without_calls,
            fixed: Vec::new(),
            knobs: Vec::new(),
            left_out: Vec::new(),
            judging,
            searching,
            loaded: BTreeMap::new(),
            known: BTreeMap::new(),
        };
        adviser.loaded_of(&Setting::none().overrides())?;
        adviser.fixed.push(Setting::none());
        let adaptive = adviser.loaded_of(&Setting::adaptive().overrides());
        let own = scenario.control.as_ref().filter(|control| {
            control.kind() != "none"
                && adaptive.is_ok_and(|one| one.scenario.control.as_ref() != Some(control))
        });
        if own.is_some() {
            adviser.fixed.push(Setting::as_written());
        }
        for setting in [Setting::adaptive()].into_iter().chain(Setting::at_nodes()) {
            if adviser.can(&setting) {
                adviser.fixed.push(setting);
            }
        }
        for knob in Knob::of(kinds) {
            // Any value will do: it is the kind of control that a scenario may not have.
            if adviser.can(&knob.setting(8.0)) {
                adviser.knobs.push(knob);
            }
        }
        Ok(adviser)
    }

    /// Number of runs, at most. It is less where searches meet.
    pub fn planned(&self) -> usize {
        let of_knob = |knob: &Knob| {
            Search::new(knob.first_values(1.0), steps(*knob)).most_runs() + 2 * self.judging.len()
        };
        let speed_tests = self.speed_tests(1.0).len();
        let probes = if self.knobs.is_empty() { 0 } else { 2 };
        probes
            + (self.fixed.len() + speed_tests) * self.judging.len()
            + self.knobs.iter().map(of_knob).sum::<usize>()
    }

    /// Tries everything. `make` makes runs, in any order, and returns their figures in the order given; none for a run
    /// that was interrupted, which ends the search.
    ///
    /// # Errors
    /// A run failed.
    pub fn advise<E>(
        mut self,
        mut make: impl FnMut(&[Wanted]) -> Result<Vec<Option<RunFigures>>, E>,
    ) -> Result<Advice, AdviseError<E>> {
        let mut tried = Tried { shown: self.fixed.clone(), ..Tried::default() };
        let complete = match self.steps(&mut tried, &mut make) {
            Ok(()) => true,
            Err(End::Interrupted) => false,
            Err(End::Failed(error)) => return Err(error),
        };
        let Tried { mut shown, by_speed_test, found, alone_mbps } = tried;
        for setting in found {
            if !shown.contains(&setting) {
                shown.push(setting);
            }
        }
        let rows = self.ranked(shown, &by_speed_test);
        Ok(Advice {
            rows,
            carried: self.carried,
            kinds: self.kinds,
            alone_mbps,
            left_out: self.left_out,
            seeds: self.judging,
            complete,
        })
    }

    /// All runs, step by step. What is tried is noted as soon as it is known, so that an interrupt keeps it.
    fn steps<E>(&mut self, tried: &mut Tried, make: &mut impl Make<E>) -> Result<(), End<E>> {
        if !self.knobs.is_empty() {
            let alone_mbps = self.probe(make)?;
            tried.alone_mbps = Some(alone_mbps);
            tried.by_speed_test = self.speed_tests(alone_mbps);
            tried.shown.extend(tried.by_speed_test.clone());
        }
        self.judge(&tried.shown, make)?;
        let Some(alone_mbps) = tried.alone_mbps else { return Ok(()) };
        for (knob, value) in self.search(alone_mbps, make)? {
            // Without calls there is nothing that a tighter value is safer for.
            let tighter = knob.tighter(value).filter(|_| self.kinds.calls);
            tried.found.extend([Some(value), tighter].into_iter().flatten().map(|value| knob.setting(value)));
        }
        self.judge(&tried.found, make)
    }

    /// Whether the scenario can have a setting; what it cannot have is noted.
    fn can(&mut self, setting: &Setting) -> bool {
        match self.loaded_of(&setting.overrides()) {
            Ok(_) => true,
            Err(errors) => {
                let reason = errors.problems().first().map(ToString::to_string).unwrap_or_default();
                let name = setting.name.split(',').next().unwrap_or_default();
                self.left_out.push((name.to_owned(), reason.lines().next().unwrap_or_default().to_owned()));
                false
            }
        }
    }

    fn loaded_of(&mut self, overrides: &[String]) -> Result<Arc<Loaded>, ScenarioErrors> {
        if let Some(loaded) = self.loaded.get(overrides) {
            return Ok(loaded.clone());
        }
        let loaded = Arc::new((self.load)(overrides)?);
        self.loaded.insert(overrides.to_vec(), loaded.clone());
        Ok(loaded)
    }

    /// Makes the runs that are not known yet.
    fn run<E>(&mut self, wanted: &[(Vec<String>, u64)], make: &mut impl Make<E>) -> Result<(), End<E>> {
        let mut missing: Vec<(Vec<String>, u64)> =
            wanted.iter().filter(|run| !self.known.contains_key(*run)).cloned().collect();
        missing.sort();
        missing.dedup();
        let mut runs = Vec::new();
        for (overrides, seed) in &missing {
            let loaded =
                self.loaded_of(overrides).map_err(|errors| End::Failed(AdviseError::Scenario(errors)))?;
            runs.push((loaded, *seed));
        }
        if runs.is_empty() {
            return Ok(());
        }
        let made = make(&runs).map_err(|error| End::Failed(AdviseError::Run(error)))?;
        let mut all = true;
        for (run, figures) in missing.into_iter().zip(made) {
            match figures {
                Some(figures) => drop(self.known.insert(run, figures)),
                None => all = false,
            }
        }
        if all { Ok(()) } else { Err(End::Interrupted) }
    }

    /// What elastic traffic carries without calls and without control: a speed test, and where the rates to try begin.
    fn probe<E>(&mut self, make: &mut impl Make<E>) -> Result<f64, End<E>> {
        let none = Setting::none().overrides();
        let alone: Vec<String> = none.iter().chain(&self.without_calls).cloned().collect();
        let seed = self.searching.first().copied().unwrap_or(1);
        let probes = [(none, seed), (alone, seed)];
        self.run(&probes, make)?;
        let carried = |run: &(Vec<String>, u64)| self.known.get(run).map_or(0.0, |run| self.elastic(run));
        Ok(probes.iter().map(carried).fold(MIN_MBPS, f64::max))
    }

    /// Goodput of elastic traffic in a run.
    fn elastic(&self, run: &RunFigures) -> f64 {
        if self.kinds.tcp { run.tcp_mbps } else { run.udp_mbps }
    }

    /// Shapers as administrators set them.
    fn speed_tests(&self, alone_mbps: f64) -> Vec<Setting> {
        let rate = setting::rounded(OF_SPEED_TEST * 1e3 * alone_mbps);
        let shapers = self.knobs.iter().filter(|knob| matches!(knob, Knob::FqCodel(_) | Knob::Cake(_)));
        shapers.map(|knob| knob.setting(rate)).collect()
    }

    /// Runs settings with the seeds that judge.
    fn judge<E>(&mut self, settings: &[Setting], make: &mut impl Make<E>) -> Result<(), End<E>> {
        let wanted: Vec<(Vec<String>, u64)> = settings
            .iter()
            .flat_map(|setting| self.judging.iter().map(|&seed| (setting.overrides(), seed)))
            .collect();
        self.run(&wanted, make)
    }

    /// The best value of each knob. All knobs go from round to round together, so that all cores have work.
    fn search<E>(&mut self, alone_mbps: f64, make: &mut impl Make<E>) -> Result<Vec<(Knob, f64)>, End<E>> {
        let aim = Aim { most: true, conditions: vec![Condition { min: Some(GOOD), ..Condition::default() }] };
        let mut searches: Vec<(Knob, Search<f64>)> = self
            .knobs
            .iter()
            .map(|knob| (*knob, Search::new(knob.first_values(alone_mbps), steps(*knob))))
            .collect();
        loop {
            let mut wanted = Vec::new();
            for (knob, search) in &mut searches {
                let Some(seeds) = search.begin(|a, b| knob.between(*a, *b)) else { continue };
                let seeds = &self.searching[..seeds.min(self.searching.len())];
                wanted.extend(search.left().flat_map(|&value| {
                    let overrides = knob.setting(value).overrides();
                    seeds.iter().map(move |&seed| (overrides.clone(), seed))
                }));
            }
            if wanted.is_empty() {
                break;
            }
            self.run(&wanted, make)?;
            for (knob, search) in &mut searches {
                search.end(&aim, |value| self.samples(&knob.setting(*value)));
            }
        }
        let best = |(knob, search): (Knob, Search<f64>)| Some((knob, *search.left().next()?));
        Ok(searches.into_iter().filter_map(best).collect())
    }

    /// The runs of a setting with the seeds of the search.
    fn samples(&self, setting: &Setting) -> Vec<Sample> {
        let overrides = setting.overrides();
        let run = |seed: &u64| self.known.get(&(overrides.clone(), *seed));
        let sample =
            |run: &RunFigures| Sample { figure: Some(self.elastic(run)), conditions: vec![Some(run.clear)] };
        self.searching.iter().filter_map(run).map(sample).collect()
    }

    /// The settings that have all runs, the best first.
    fn ranked(&self, settings: Vec<Setting>, by_speed_test: &[Setting]) -> Vec<Row> {
        let runs_of = |setting: &Setting| -> Option<Vec<RunFigures>> {
            let overrides = setting.overrides();
            self.judging.iter().map(|&seed| self.known.get(&(overrides.clone(), seed)).copied()).collect()
        };
        let carried = |run: &RunFigures| match self.carried {
            Carried::Tcp => Some(run.tcp_mbps),
            Carried::Other => Some(run.udp_mbps),
            Carried::Calls => None,
        };
        let figure = |runs: &[RunFigures], of: &dyn Fn(&RunFigures) -> Option<f64>| {
            Figure::of(&runs.iter().filter_map(of).collect::<Vec<_>>())
        };
        let against = |runs: &[RunFigures], other: Option<&Vec<RunFigures>>| {
            Paired::of(other?.iter().zip(runs).map(|(other, run)| (carried(other), carried(run))))
        };
        let none = runs_of(&Setting::none());
        let mut rows: Vec<(Row, Vec<RunFigures>)> = settings
            .into_iter()
            .filter_map(|setting| {
                let runs = runs_of(&setting)?;
                let clear = figure(&runs, &|run| Some(run.clear).filter(|_| self.kinds.calls));
                let row = Row {
                    good: clear.map(|clear| clear.mean >= GOOD),
                    clear,
                    mos_mean: figure(&runs, &|run| run.mos_mean),
                    mos_min: figure(&runs, &|run| run.mos_min),
                    mbps: figure(&runs, &carried),
                    against_none: against(&runs, none.as_ref()),
                    against_first: None,
                    by_speed_test: by_speed_test.contains(&setting),
                    setting,
                };
                Some((row, runs))
            })
            .collect();
        // The sort is stable: of equal settings the one that was tried first, and so no control before any other.
        rows.sort_by(|(a, _), (b, _)| rank(b).partial_cmp(&rank(a)).unwrap_or(std::cmp::Ordering::Equal));
        let first = rows.first().map(|(_, runs)| runs.clone());
        rows.into_iter()
            .map(|(row, runs)| Row { against_first: against(&runs, first.as_ref()), ..row })
            .collect()
    }
}

/// What rows are ranked by: good calls, then what is carried or else the score; without good calls, their seconds first.
fn rank(row: &Row) -> (bool, f64, f64) {
    let mean = |figure: Option<Figure>| figure.map_or(0.0, |figure| figure.mean);
    let carried = mean(row.mbps.or(row.mos_mean));
    match row.good {
        Some(false) => (false, mean(row.clear), carried),
        _ => (true, carried, 0.0),
    }
}

/// The steps of the search for a knob's value.
fn steps(knob: Knob) -> Vec<Step> {
    let halving = ROUNDS.map(|seeds| Step {
        seeds: seeds as usize,
        refine: false,
        keep: if seeds < SEARCH_SEEDS { Keep::Half } else { Keep::AtMost(1) },
    });
    let refinement = Step { seeds: SEARCH_SEEDS as usize, refine: true, keep: Keep::AtMost(1) };
    let refinements = if knob.is_rate() { REFINEMENTS } else { 0 };
    halving.into_iter().chain(std::iter::repeat_n(refinement, refinements)).collect()
}

#[cfg(test)]
mod tests;
