//! The search of a plan, as written and checked.

use fairhop_config::Finding;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Axis, Plan, flattened, known, values, wrong};
use crate::search::{Aim, Condition};

/// A search for the best value of a key.
#[derive(Clone, Debug)]
pub struct Search {
    /// The key.
    pub key: String,
    /// The values of the first look.
    pub values: Vec<Value>,
    /// Whether values between them are tried as well.
    pub refine: bool,
    /// The figure that is optimized.
    pub figure: String,
    /// The figures of the conditions.
    pub bounded: Vec<String>,
    /// What is searched for.
    pub aim: Aim,
    /// Maximum number of seeds of a value in the search.
    pub seeds: u32,
}

/// A search as written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// The key whose best value is searched, with the values of the first look: a list, or a range, between whose values
    /// the search tries others.
    vary: Map<String, Value>,
    /// The figure of the table `runs` that is to be as large as possible.
    most: Option<String>,
    /// The figure of the table `runs` that is to be as small as possible.
    least: Option<String>,
    /// Figures of the table `runs` with the bounds that they must keep: `min`, `max`, and `fraction`, the fraction of the runs
    /// that must keep them. The mean over the runs must if it is left out.
    #[serde(default, rename = "where")]
    conditions: Map<String, Value>,
    /// Maximum number of seeds of a value in the search. They follow those that judge the result.
    #[serde(default = "sixteen")]
    #[schemars(range(min = 4, max = 10_000))]
    seeds: u32,
}

fn sixteen() -> u32 {
    16
}

/// The search of a plan; what is wrong with it is noted.
pub(super) fn checked(
    written: &Written,
    plan: &Plan,
    axes: &[Axis],
    findings: &mut Vec<Finding>,
) -> Option<Search> {
    let before = findings.len();
    let mut note = |path: &str, message: String, label: &str, help: &str| {
        findings.push(Finding::new(path, message, label, help));
    };
    if plan.stop.is_some() {
        note(
            "stop",
            "a search has no stop rule".to_owned(),
            "beside [search]",
            "remove [stop]; `seeds` judge the result, and `seeds` under [search] bounds those of the search",
        );
    }
    if plan.seeds < 2 {
        note(
            "search",
            "the result of a search is judged with `seeds` runs, and one run has no interval".to_owned(),
            "one seed",
            "write seeds = 10 above the first table of the plan",
        );
    }
    let (figure, most) = match (&written.most, &written.least) {
        (Some(figure), None) => (figure.clone(), true),
        (None, Some(figure)) => (figure.clone(), false),
        _ => {
            note(
                "search",
                "a search has either `most` or `least`".to_owned(),
                "what is best?",
                "write most = \"tcp_goodput_mbps\", or least = \"…\"",
            );
            return None;
        }
    };
    let varied = flattened(&written.vary);
    let [(key, value)] = varied.as_slice() else {
        note(
            "search.vary",
            format!("a search has one key, and there are {}", varied.len()),
            "not one key",
            "put the other keys under [vary]: the search is made for each of their values",
        );
        return None;
    };
    if axes.iter().flatten().flatten().any(|(other, _)| other == key) {
        note(
            "search.vary",
            format!("`{key}` is searched and varied"),
            "also varied",
            "remove it from [vary] or [[zip]]",
        );
    }
    known(if most { "search.most" } else { "search.least" }, &figure, findings);
    let mut conditions = Vec::new();
    for (figure, bounds) in &written.conditions {
        known("search.where", figure, findings);
        match condition(bounds) {
            Ok(condition) => conditions.push(condition),
            Err(problem) => findings.push(Finding::new(
                "search.where",
                format!("the condition on `{figure}` {problem}"),
                "no condition",
                "write { min = 3.6 }, { max = … } or both; with fraction = 0.9, nine runs of ten must keep them",
            )),
        }
    }
    let values = values(value).map_err(|problem| findings.push(wrong("search.vary", key, problem))).ok()?;
    (findings.len() == before).then(|| Search {
        key: key.clone(),
        values,
        refine: value.is_object(),
        figure,
        bounded: written.conditions.keys().cloned().collect(),
        aim: Aim { most, conditions },
        seeds: written.seeds,
    })
}

/// The bounds of a figure.
fn condition(bounds: &Value) -> Result<Condition, String> {
    let Value::Object(bounds) = bounds else { return Err(format!("is {bounds}, which is no table")) };
    if let Some(key) = bounds.keys().find(|key| !["min", "max", "fraction"].contains(&key.as_str())) {
        return Err(format!("has the unknown key `{key}`"));
    }
    let number = |key: &str| match bounds.get(key).map(Value::as_f64) {
        Some(None) => Err(format!("has a `{key}` that is no number")),
        Some(number) => Ok(number),
        None => Ok(None),
    };
    let condition = Condition { min: number("min")?, max: number("max")?, fraction: number("fraction")? };
    match condition {
        Condition { min: None, max: None, .. } => Err("has no bound".to_owned()),
        Condition { min: Some(min), max: Some(max), .. } if min > max => {
            Err("has a `min` above its `max`".to_owned())
        }
        Condition { fraction: Some(fraction), .. } if !(fraction > 0.0 && fraction <= 1.0) => {
            Err("has a `fraction` that is not between 0 and 1".to_owned())
        }
        condition => Ok(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::super::tests::sweep;

    const SEARCH: &str = "scenario = 'k-mix'\nseeds = 5\nset.control.kind = 'data-pacing'\n\
                          vary.'traffic.0.count' = [2, 4]\n[search]\nmost = 'tcp_goodput_mbps'\n\
                          where = { mos_min = { min = 3.6, fraction = 0.9 } }\n\
                          vary = { control.rate_kbps = { from = 100, to = 300, step = 100 } }\n";

    #[test]
    fn a_search_is_made_at_each_point_although_the_scenario_needs_its_key() {
        let plan = sweep(SEARCH).expect("a plan");
        let search = plan.search.as_ref().expect("a search");
        assert_eq!((search.key.as_str(), search.values.len(), search.refine), ("control.rate_kbps", 3, true));
        assert_eq!(
            (search.figure.as_str(), search.bounded.as_slice()),
            ("tcp_goodput_mbps", &["mos_min".to_owned()][..])
        );
        assert_eq!(plan.points.len(), 6);
        assert_eq!(named(&plan.points[3].keys), "traffic.0.count=4, control.rate_kbps=100");
        let judging: Vec<u64> = plan.seeds(0, plan.seeds).collect();
        assert!(
            judging.iter().all(|seed| plan.is_judging(*seed))
                && plan.seeds(5, 16).all(|seed| !plan.is_judging(seed))
        );
    }

    #[test]
    fn a_wrong_search_is_an_error_with_its_fix() {
        let message = |from: &str, to: &str| {
            let text = SEARCH.replace(from, to);
            assert_ne!(text, SEARCH);
            format!("{:?}", sweep(&text).expect_err("an error"))
        };
        assert!(message("seeds = 5", "seeds = 1").contains("one run has no interval"));
        assert!(message("mos_min", "mos_minn").contains("did you mean `mos_min`?"));
        assert!(message("'tcp_goodput_mbps'", "'goodput'").contains("there is no figure `goodput`"));
        assert!(message("most = ", "least = 'jain'\nmost = ").contains("either `most` or `least`"));
        assert!(message("control.rate_kbps = {", "traffic.0.count = {").contains("searched and varied"));
        assert!(message("min = 3.6, ", "").contains("has no bound"));
        assert!(message("0.9", "9").contains("not between 0 and 1"));
        assert!(
            message("[search]", "stop = { figure = 'jain', ci95 = 1, max_seeds = 9 }\n[search]")
                .contains("no stop rule")
        );
        assert!(message("{ from = 100, to = 300, step = 100 }", "7").contains("put it under [set]"));
    }
}
