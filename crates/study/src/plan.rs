//! Plans of sweeps: a scenario, keys with their values, seeds, and when there are enough seeds.
//!
//! ```toml
//! scenario = "k-mix"              # a ready-made scenario, or a file relative to the plan
//! seeds = 5                       # runs of each point, or at first where there is a stop rule
//!
//! [set]                           # changes of all points
//! duration_s = 20
//!
//! [vary]                          # every combination of these
//! "traffic.0.count" = [2, 4, 6]
//! "control.rate_kbps" = { from = 100, to = 400, step = 100 }
//!
//! [[zip]]                         # these change together
//! "radio.rate_mbps" = [6, 12]
//! "topology.spacing_m" = [200, 150]
//!
//! [stop]                          # more seeds, until the interval is narrow enough
//! figure = "mos_mean"
//! ci95 = 0.05
//! max_seeds = 40
//!
//! [search]                        # in place of [stop]: the best value of one more key, at each of these points
//! vary = { "control.rate_kbps" = { from = 100, to = 1500, points = 15 } }
//! most = "tcp_goodput_mbps"
//! where = { mos_min = { min = 3.6 } }
//! ```
//! Keys are dotted paths, as in `--set`; quoted or not.

mod search;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use fairhop_config::{Document, Finding, Form, Override, nearest};
use fairhop_sim::scenario::{Loaded, ScenarioErrors};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::source::{Source, SourceError};
use crate::store::FIGURES;

pub use search::Search;

/// Maximum number of points of a plan.
pub const MAX_POINTS: usize = 100_000;

static FORM: LazyLock<Form> = LazyLock::new(|| Form::of::<Plan>("plan", "a plan is short: use ranges"));

/// The JSON Schema (draft 2020-12) of a plan.
pub fn schema() -> Value {
    FORM.schema().clone()
}

/// A plan as written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// A ready-made scenario, or a file relative to the plan.
    scenario: String,
    /// Runs of each point, with consecutive seeds; with a stop rule, the runs before it is asked.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100_000))]
    seeds: u32,
    /// First seed; the scenario's if it is left out.
    first_seed: Option<u64>,
    /// Tables to keep of each run beside its figures: `flows`, `nodes` and the others that `fairhop run --out` writes.
    #[serde(default = "flows")]
    tables: Vec<String>,
    /// Changes of all points.
    #[serde(default)]
    set: Map<String, Value>,
    /// Keys with lists or ranges of values; every combination is a point.
    #[serde(default)]
    vary: Map<String, Value>,
    /// Keys whose lists of values have one length and change together.
    #[serde(default)]
    zip: Vec<Map<String, Value>>,
    /// When there are enough seeds.
    stop: Option<Stop>,
    /// A key whose best value is searched at each point.
    search: Option<search::Written>,
}

fn one() -> u32 {
    1
}

fn flows() -> Vec<String> {
    vec!["flows".to_owned()]
}

/// When a point has enough seeds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// A figure of the table `runs`, such as `mos_mean`.
    pub figure: String,
    /// Half-width of its 95 % confidence interval that is narrow enough.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub ci95: f64,
    /// Maximum number of seeds of a point.
    #[schemars(range(min = 2, max = 100_000))]
    pub max_seeds: u32,
}

/// A point of a sweep: a scenario with its changes.
#[derive(Clone, Debug)]
pub struct Point {
    /// The keys that differ between points, and their values here.
    pub keys: Vec<(String, Value)>,
    /// The scenario.
    pub loaded: Arc<Loaded>,
}

/// A checked plan with its points.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The plan's text, which results keep.
    pub text: String,
    /// Name of the plan: that of its file without the extension.
    pub name: String,
    /// Tables to keep of each run.
    pub tables: Vec<String>,
    /// Seeds of each point, before a stop rule is asked.
    pub seeds: u32,
    /// First seed.
    pub first_seed: u64,
    /// When there are enough seeds.
    pub stop: Option<Stop>,
    /// The points, in the order of the plan; the last key changes fastest. It is that of the search, if there is one.
    pub points: Vec<Arc<Point>>,
    /// A key whose best value is searched at each point of the other keys.
    pub search: Option<Search>,
    scenario: Source,
    fixed: Vec<Override>,
}

/// Why there is no sweep.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The plan or the scenario of the plan.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A point is no scenario.
    #[error("the point {point} is no scenario: {errors}")]
    Point {
        /// Its keys.
        point: String,
        /// Its errors.
        errors: ScenarioErrors,
    },
}

impl From<ScenarioErrors> for PlanError {
    fn from(errors: ScenarioErrors) -> Self {
        Self::Source(errors.into())
    }
}

/// Values of keys that change together: one row of pairs a step.
type Axis = Vec<Vec<(String, Value)>>;

impl Sweep {
    /// Reads a plan from a file.
    ///
    /// # Errors
    /// It, its scenario or a point cannot be read or is wrong.
    pub fn load(path: &Path) -> Result<Self, PlanError> {
        let source = Source::file(path).map_err(SourceError::from)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self::of(&source, name)
    }

    /// Reads a plan from a text.
    ///
    /// # Errors
    /// It, its scenario or a point cannot be read or is wrong.
    pub fn of(source: &Source, name: String) -> Result<Self, PlanError> {
        let document = Document::read(&source.name, &source.text, &[], &FORM)?;
        let plan: Plan = document.value()?;
        let mut findings = Vec::new();
        let mut axes = axes(&plan, &mut findings);
        let search =
            plan.search.as_ref().and_then(|written| search::checked(written, &plan, &axes, &mut findings));
        if let Some(Search { key, values, .. }) = &search {
            axes.push(values.iter().map(|value| vec![(key.clone(), value.clone())]).collect());
        }
        if let Some(stop) = &plan.stop {
            known("stop.figure", &stop.figure, &mut findings);
        }
        let count = axes.iter().try_fold(1_usize, |product, axis| product.checked_mul(axis.len()));
        if count.is_none_or(|count| count > MAX_POINTS) {
            findings.push(Finding::new(
                "vary",
                format!("the plan has more than {MAX_POINTS} points"),
                "too many combinations",
                "vary fewer keys, or let some change together with [[zip]]",
            ));
        }
        if let Some(stop) = &plan.stop
            && stop.max_seeds < plan.seeds
        {
            findings.push(Finding::new(
                "stop.max_seeds",
                format!("max_seeds is {}, and seeds is {}", stop.max_seeds, plan.seeds),
                "fewer than seeds",
                "let max_seeds be at least seeds",
            ));
        }
        if let Some(errors) = document.locate(findings, 0) {
            return Err(errors.into());
        }
        let scenario = find(&plan.scenario, &source.folder)?;
        let fixed: Vec<Override> = flattened(&plan.set).iter().map(change).collect();
        let base = scenario.load(&fixed);
        let mut sweep = Self {
            points: Vec::new(),
            first_seed: 0,
            text: source.text.clone(),
            name,
            tables: plan.tables,
            seeds: plan.seeds,
            stop: plan.stop,
            search,
            scenario,
            fixed,
        };
        let points: Result<Vec<_>, _> =
            combinations(&axes).into_iter().map(|keys| sweep.point(keys).map(Arc::new)).collect();
        // A key that varies may be required. What is wrong without it as well is reported at its place.
        let (points, base) = match (points, base) {
            (Ok(points), base) => {
                let base = base.ok().map(|base| base.scenario.seed);
                let seed = base.or_else(|| points.first().map(|point| point.loaded.scenario.seed));
                (points, seed)
            }
            (Err(_), Err(errors)) => return Err(errors.into()),
            (Err(error), Ok(_)) => return Err(error),
        };
        sweep.points = points;
        sweep.first_seed = plan.first_seed.or(base).unwrap_or(1);
        Ok(sweep)
    }

    /// Seeds of each point, after the first `skip`.
    pub fn seeds(&self, skip: u32, count: u32) -> impl Iterator<Item = u64> + use<> {
        let first = self.first_seed.saturating_add(u64::from(skip));
        (0..u64::from(count)).filter_map(move |index| first.checked_add(index))
    }

    /// Whether a seed is one of those that judge the result of a search.
    pub fn is_judging(&self, seed: u64) -> bool {
        seed.checked_sub(self.first_seed).is_some_and(|index| index < u64::from(self.seeds))
    }

    /// The point with these values.
    ///
    /// # Errors
    /// It is no scenario.
    pub fn point(&self, keys: Vec<(String, Value)>) -> Result<Point, PlanError> {
        let changes: Vec<Override> = self.fixed.iter().cloned().chain(keys.iter().map(change)).collect();
        match self.scenario.load(&changes) {
            Ok(loaded) => Ok(Point { keys, loaded: Arc::new(loaded) }),
            Err(errors) => Err(PlanError::Point { point: named(&keys), errors }),
        }
    }
}

/// Notes a figure that the table `runs` does not have.
fn known(path: &str, figure: &str, findings: &mut Vec<Finding>) {
    if !FIGURES.contains(&figure) {
        let help = match nearest(figure, FIGURES) {
            Some(nearest) => format!("did you mean `{nearest}`? "),
            None => String::new(),
        };
        findings.push(Finding::new(
            path,
            format!("there is no figure `{figure}`"),
            "unknown figure",
            format!("{help}the figures are {}", FIGURES.join(", ")),
        ));
    }
}

/// The scenario of a plan. A file relative to the plan takes precedence over a ready-made scenario.
fn find(name: &str, folder: &Path) -> Result<Source, SourceError> {
    let file = folder.join(name);
    let source = if file.exists() { Source::file(&file) } else { Source::find(Path::new(name)) };
    Ok(source?)
}

/// A point as text: `traffic.0.count=4, radio.capture="none"`.
pub fn named(keys: &[(String, Value)]) -> String {
    if keys.is_empty() {
        return "the scenario itself".to_owned();
    }
    keys.iter().map(|(key, value)| format!("{key}={}", toml(value))).collect::<Vec<_>>().join(", ")
}

fn change((key, value): &(String, Value)) -> Override {
    Override::new(format!("{key}={}", toml(value)))
}

/// A value as TOML in one line.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Object(table) => {
            let entries =
                table.iter().map(|(key, value)| format!("{} = {}", Value::from(key.as_str()), toml(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        // JSON's strings, numbers and booleans are TOML's; there is no null in a document.
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => value.to_string(),
    }
}

/// Nested tables as dotted paths. A table with `from` is a range.
fn flattened(table: &Map<String, Value>) -> Vec<(String, Value)> {
    let mut flat = Vec::new();
    for (key, value) in table {
        match value {
            Value::Object(inner) if !inner.contains_key("from") && !inner.contains_key("kind") => {
                flat.extend(
                    flattened(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)),
                );
            }
            _ => flat.push((key.clone(), value.clone())),
        }
    }
    flat
}

fn axes(plan: &Plan, findings: &mut Vec<Finding>) -> Vec<Axis> {
    let mut axes = Vec::new();
    for (key, value) in flattened(&plan.vary) {
        match values(&value) {
            Ok(values) => axes.push(values.into_iter().map(|value| vec![(key.clone(), value)]).collect()),
            Err(problem) => findings.push(wrong("vary", &key, problem)),
        }
    }
    for (place, together) in plan.zip.iter().enumerate() {
        let path = format!("zip.{place}");
        let mut axis: Axis = Vec::new();
        for (index, (key, value)) in flattened(together).into_iter().enumerate() {
            match values(&value) {
                Ok(values) if index == 0 => {
                    axis = values.into_iter().map(|value| vec![(key.clone(), value)]).collect();
                }
                Ok(values) if values.len() == axis.len() => {
                    for (row, value) in axis.iter_mut().zip(values) {
                        row.push((key.clone(), value));
                    }
                }
                Ok(values) => {
                    let problem = format!("has {} values, and the first key {}", values.len(), axis.len());
                    findings.push(wrong(&path, &key, problem));
                }
                Err(problem) => findings.push(wrong(&path, &key, problem)),
            }
        }
        axes.push(axis);
    }
    axes
}

fn wrong(path: &str, key: &str, problem: String) -> Finding {
    Finding::new(
        path,
        format!("`{key}` {problem}"),
        "no list of values",
        "write a list, as in [2, 4, 6], or a range, as in { from = 2, to = 6, step = 2 }",
    )
}

/// The values of a key: a list, or a range with `step` or `points`.
fn values(value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(values) if values.is_empty() => Err("has no value".to_owned()),
        Value::Array(values) => Ok(values.clone()),
        Value::Object(range) => range_of(range),
        _ => Err(format!("is {value}, which is one value: put it under [set]")),
    }
}

fn range_of(range: &Map<String, Value>) -> Result<Vec<Value>, String> {
    if let Some(key) = range.keys().find(|key| !["from", "to", "step", "points"].contains(&key.as_str())) {
        return Err(format!("is a range with the unknown key `{key}`"));
    }
    let number = |key: &str| range.get(key).and_then(Value::as_f64).filter(|number| number.is_finite());
    let (Some(from), Some(to)) = (number("from"), number("to")) else {
        return Err("is a range without numbers `from` and `to`".to_owned());
    };
    let (steps, step) = match (number("step"), number("points")) {
        (Some(step), None) if step * (to - from) > 0.0 || (from == to && step != 0.0) => {
            // An end that is missed by rounding alone belongs to the range.
            (((to - from) / step + 1e-9).floor(), step)
        }
        (None, Some(points)) if points >= 2.0 && points.fract() == 0.0 => {
            (points - 1.0, (to - from) / (points - 1.0))
        }
        _ => return Err("is a range without a `step` towards `to`, or at least 2 `points`".to_owned()),
    };
    if steps >= MAX_POINTS as f64 {
        return Err(format!("is a range of more than {MAX_POINTS} values"));
    }
    let whole = ["from", "step"].iter().all(|key| range.get(*key).is_some_and(Value::is_i64));
    let at = |index: u64| {
        let exact = from + step * index as f64;
        // Rounded, so that steps of 0.1 give tenths.
        let rounded = (exact * 1e12).round() / 1e12;
        if whole { Value::from(exact as i64) } else { Value::from(rounded) }
    };
    Ok((0..=steps as u64).map(at).collect())
}

/// Every combination of the steps of all axes; the last axis changes fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<(String, Value)>> {
    axes.iter().fold(vec![Vec::new()], |points, axis| {
        let extended = |point: &Vec<(String, Value)>| {
            axis.iter().map(|step| [point.clone(), step.clone()].concat()).collect::<Vec<_>>()
        };
        points.iter().flat_map(extended).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    pub(super) fn sweep(text: &str) -> Result<Sweep, PlanError> {
        let source = Source { name: "plan.toml".to_owned(), text: text.to_owned(), folder: PathBuf::new() };
        Sweep::of(&source, "plan".to_owned())
    }

    fn points(text: &str) -> Vec<String> {
        sweep(text).expect("a plan").points.iter().map(|point| named(&point.keys)).collect()
    }

    #[test]
    fn lists_and_ranges_are_combined_and_zipped_keys_change_together() {
        let text = "scenario = 'k-mix'\n[vary]\ntraffic.0.count = [2, 4]\n\
                    [[zip]]\n'radio.rate_mbps' = [6, 12]\n'internet.delay_ms' = { from = 10, to = 20, points = 2 }\n";
        assert_eq!(
            points(text),
            [
                "traffic.0.count=2, radio.rate_mbps=6, internet.delay_ms=10.0",
                "traffic.0.count=2, radio.rate_mbps=12, internet.delay_ms=20.0",
                "traffic.0.count=4, radio.rate_mbps=6, internet.delay_ms=10.0",
                "traffic.0.count=4, radio.rate_mbps=12, internet.delay_ms=20.0",
            ]
        );
        assert_eq!(points("scenario = 'k-mix'"), ["the scenario itself"]);
    }

    #[test]
    fn ranges_reach_their_end_despite_rounding_and_stay_whole() {
        let values = |text: &str| {
            let range: Value = serde_json::from_str(text).expect("JSON");
            values(&range).map(|values| Value::from(values).to_string())
        };
        assert_eq!(values(r#"{"from": 2, "to": 7, "step": 2}"#).as_deref(), Ok("[2,4,6]"));
        assert_eq!(values(r#"{"from": 0.1, "to": 0.3, "step": 0.1}"#).as_deref(), Ok("[0.1,0.2,0.3]"));
        assert_eq!(values(r#"{"from": 3, "to": 1, "step": -1}"#).as_deref(), Ok("[3,2,1]"));
        assert!(values(r#"{"from": 1, "to": 3, "step": -1}"#).is_err());
        assert!(values(r#"{"from": 1, "to": 1e300, "step": 1}"#).is_err());
    }

    #[test]
    fn errors_are_at_their_place_in_the_plan_or_name_the_point() {
        let message = |text: &str| sweep(text).expect_err("an error").to_string();
        let unequal = "scenario = 'k-mix'\n[[zip]]\nseed = [1, 2]\nduration_s = [1]\n";
        assert!(
            message(unequal).starts_with("plan.toml:2:1: `duration_s` has 1 values, and the first key 2")
        );
        assert!(message("scenario = 'k-mix'\n[vary]\nseed = 3\n").contains("put it under [set]"));
        assert!(message("scenaro = 'k-mix'").contains("write `scenario`"));
        assert!(message("scenario = 'k-mux'").contains("did you mean k-mix"));
        let point = message("scenario = 'k-mix'\n[vary]\n'traffic.0.cuont' = [1]\n");
        assert!(
            point.starts_with("the point traffic.0.cuont=1 is no scenario: --set:1:11: unknown key"),
            "{point}"
        );
        let few = "scenario = 'k-mix'\nseeds = 5\n[stop]\nfigure = 'mos_mean'\nci95 = 0.1\nmax_seeds = 2\n";
        assert!(message(few).contains("max_seeds is 2, and seeds is 5"));
    }
}
