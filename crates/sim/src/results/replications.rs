//! Means and confidence intervals over the runs of one scenario.

use fairhop_model::stats;
use serde::Serialize;
use serde_json::Value;

use super::Summary;

/// Several runs of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Replications {
    /// Means over the seeds.
    pub mean: Value,
    /// Half-widths of the 95 % confidence intervals (Student t), in the same form; empty for one run.
    pub ci95: Value,
}

impl Replications {
    /// Means and intervals of runs of the same scenario.
    ///
    /// # Errors
    /// There is no run.
    pub fn of(runs: &[Summary]) -> Result<Self, NoRuns> {
        let mut values: Vec<Value> = runs.iter().filter_map(|run| serde_json::to_value(run).ok()).collect();
        let (mut mean, mut ci95) = match values.as_slice() {
            [] => return Err(NoRuns),
            // The mean of one run is the run; the results of a large network are not copied.
            [_] => (values.remove(0), serde_json::json!({})),
            [..] => {
                let all: Vec<&Value> = values.iter().collect();
                let mean_of = |samples: &[f64]| stats::mean(samples).unwrap_or(f64::NAN);
                let ci95_of = |samples: &[f64]| stats::ci95_half_width(samples).unwrap_or(f64::NAN);
                (combine(&all, Whole::Keep, &mean_of), combine(&all, Whole::LeaveOut, &ci95_of))
            }
        };
        if let Some(object) = mean.as_object_mut() {
            let seeds: Vec<u64> = runs.iter().flat_map(|run| run.seeds.clone()).collect();
            object.insert("seeds".into(), seeds.into());
            if runs.iter().any(|run| run.partial) {
                object.insert("partial".into(), true.into());
            }
        }
        if let Some(object) = ci95.as_object_mut() {
            for key in ["fairhop", "scenario", "seeds", "partial", "sim_s"] {
                object.remove(key);
            }
        }
        Ok(Self { mean, ci95 })
    }

    /// The entries of the printed object: the means, and the intervals under `ci95`.
    pub fn entries(&self) -> Entries<'_> {
        let mean = self.mean.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value));
        Entries(mean.chain([("ci95", &self.ci95)]).collect())
    }
}

/// An object to be serialized by reference, so that the results of a large network are not copied.
#[derive(Clone, Debug)]
pub struct Entries<'a>(pub Vec<(&'a str, &'a Value)>);

impl Serialize for Entries<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// The error of a mean over no runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no run was completed")]
pub struct NoRuns;

/// Treatment of whole numbers, which identify things (a node, a seed) and are not measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Keep,
    LeaveOut,
}

/// Combines the numbers of values of the same form, leaf by leaf. Anything but a number is taken from the first run. A leaf
/// that some runs lack, or have as null, is combined over the others.
fn combine(values: &[&Value], whole: Whole, with: &impl Fn(&[f64]) -> f64) -> Value {
    let Some(form) = values.iter().find(|value| !value.is_null()) else { return Value::Null };
    match form {
        Value::Object(_) => {
            let keys = values.iter().filter_map(|value| value.as_object()).flat_map(|object| object.keys());
            let mut combined = serde_json::Map::new();
            for key in keys {
                if combined.contains_key(key) {
                    continue;
                }
                let parts: Vec<&Value> = values.iter().filter_map(|value| value.get(key)).collect();
                if whole == Whole::Keep || !parts.iter().any(|part| part.is_u64()) {
                    combined.insert(key.clone(), combine(&parts, whole, with));
                }
            }
            Value::Object(combined)
        }
        Value::Array(items) => (0..items.len())
            .map(|index| {
                let parts: Vec<&Value> = values.iter().filter_map(|value| value.get(index)).collect();
                combine(&parts, whole, with)
            })
            .collect(),
        Value::Number(number) if number.is_f64() => {
            let samples: Vec<f64> = values.iter().filter_map(|value| value.as_f64()).collect();
            serde_json::Number::from_f64(with(&samples)).map_or(Value::Null, Value::Number)
        }
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => (*form).clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn means_are_taken_leaf_by_leaf_over_the_runs_that_have_the_leaf() {
        let runs = [
            json!({"name": "a", "node": 3, "x": 1.0, "mos": null, "deep": [{"y": 2.0}]}),
            json!({"name": "a", "node": 3, "x": 3.0, "mos": 4.0, "deep": [{"y": 4.0, "done_s": 7.0}]}),
        ];
        let runs: Vec<_> = runs.iter().collect();
        let mean = combine(&runs, Whole::Keep, &|s| stats::mean(s).unwrap());
        assert_eq!(
            mean,
            json!({"name": "a", "node": 3, "x": 2.0, "mos": 4.0, "deep": [{"y": 3.0, "done_s": 7.0}]})
        );
        let count = combine(&runs, Whole::LeaveOut, &|s| s.len() as f64);
        assert_eq!(count, json!({"name": "a", "x": 2.0, "mos": 1.0, "deep": [{"y": 2.0, "done_s": 1.0}]}));
    }

    #[test]
    fn what_no_run_has_is_null() {
        let run = json!({"mos": null, "x": 2.0});
        let mean = combine(&[&run, &run], Whole::Keep, &|s| stats::mean(s).unwrap());
        assert_eq!(mean, json!({"mos": null, "x": 2.0}));
    }
}
