//! What the search of a plan has found, as a table and sentences.

use fairhop_study::optimum::{End, Found, Judged};
use fairhop_study::plan::{Search, Sweep, named};
use fairhop_study::sweep::Report;
use serde_json::Value;

use crate::sweep::plain;
use crate::table::{BAD, Cell, FAINT, GOOD, NOTHING, Table, fixed, wrap};

/// Table and sentences.
pub(crate) fn report(plan: &Sweep, search: &Search, report: &Report) -> String {
    if report.found.is_empty() {
        return String::new();
    }
    let parts = report.found.iter().map(|found| format!("{}\n", wrap(&sentences(search, found))));
    let seeds = |skip, count| {
        let seeds: Vec<u64> = plan.seeds(skip, count).collect();
        format!("{} to {}", seeds.first().copied().unwrap_or(0), seeds.last().copied().unwrap_or(0))
    };
    let remark = format!(
        "Figures are from seeds {}, which had no part in the search; ± is half of a 95 % interval. The search had seeds {}.",
        seeds(0, plan.seeds),
        seeds(plan.seeds, search.seeds)
    );
    format!(
        "{}{FAINT}{}{FAINT:#}\n\n{}",
        table(search, &report.found).render(),
        wrap(&remark),
        parts.collect::<Vec<_>>().join("\n")
    )
}

/// The best value at each point of the other keys, and below it those that were judged with it.
fn table(search: &Search, found: &[Found]) -> Table {
    let mut table = Table::new(search.key.clone());
    let keys = || found.first().into_iter().flat_map(|found| found.keys.keys());
    for key in keys() {
        table = table.column(key.clone(), 3);
    }
    table = table.column(search.figure.clone(), 5).column("±", 4).column("to best", 2).column("±", 1);
    for (figure, condition) in search.bounded.iter().zip(&search.aim.conditions) {
        table = match condition.fraction {
            Some(_) => table.column(format!("{figure} in %"), 5),
            None => table.column(figure.clone(), 5).column("±", 4),
        };
    }
    for found in found {
        for (index, judged) in [&found.best].into_iter().chain(&found.runners_up).enumerate() {
            let name =
                if index == 0 { format!("{} (best)", plain(&judged.value)) } else { plain(&judged.value) };
            let keys = found.keys.values().map(|value| Cell::from(plain(value)));
            table.row(&name, keys.chain(cells(search, judged)).collect::<Vec<_>>());
        }
    }
    table
}

/// The figures of a value.
fn cells(search: &Search, judged: &Judged) -> Vec<Cell> {
    let number = |value: Option<f64>| value.map_or_else(|| NOTHING.to_owned(), |value| fixed(value, 3));
    let mut cells: Vec<Cell> = [
        judged.figure.map(|figure| figure.mean),
        judged.figure.and_then(|figure| figure.ci95),
        judged.against_best.map(|against| against.difference),
        judged.against_best.and_then(|against| against.ci95),
    ]
    .map(|value| number(value).into())
    .into();
    for (figure, condition) in search.bounded.iter().zip(&search.aim.conditions) {
        let kept = judged.conditions.get(figure).copied().flatten();
        let style = if kept.is_some_and(|kept| kept.met) { GOOD } else { BAD };
        let mean = kept.map(|kept| kept.mean);
        match condition.fraction {
            Some(_) => cells.push(Cell::styled(
                mean.map_or_else(|| NOTHING.to_owned(), |mean| fixed(100.0 * mean, 0)),
                style,
            )),
            None => {
                cells.push(Cell::styled(number(mean), style));
                cells.push(number(kept.and_then(|kept| Some(kept.high? - kept.mean))).into());
            }
        }
    }
    cells
}

/// What to conclude.
fn sentences(search: &Search, found: &Found) -> String {
    let best = &found.best;
    let value = format!("{} = {}", search.key, plain(&best.value));
    let at = match found.keys.is_empty() {
        true => String::new(),
        false => {
            let keys: Vec<(String, Value)> =
                found.keys.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            format!("At {}: ", named(&keys))
        }
    };
    let mut said = vec![match (found.met, best.met) {
        (true, true) if search.bounded.is_empty() => format!("{at}{value} is best."),
        (true, true) => format!("{at}{value} is best of the values that meet the conditions."),
        (true, false) => format!(
            "{at}{value} met the conditions in the search and misses them with the seeds that judge: it lies at their limit. \
             More seeds under [search] find a safer value."
        ),
        (false, _) => format!("{at}No value meets the conditions. {value} comes closest."),
    }];
    let equal: Vec<String> =
        found.runners_up.iter().filter(|other| !other.apart).map(|other| plain(&other.value)).collect();
    if !equal.is_empty() {
        let more = match found.more_runners_up {
            0 => String::new(),
            more => format!(" ({more} more were not judged)"),
        };
        said.push(format!("By {}, it cannot be told apart from {}{more}.", search.figure, equal.join(", ")));
    }
    let risky: Vec<String> = found
        .runners_up
        .iter()
        .filter(|other| other.apart && other.met && better(search, other))
        .map(|other| plain(&other.value))
        .collect();
    if !risky.is_empty() {
        said.push(format!(
            "Better, but not surely within the conditions in the search: {}.",
            risky.join(", ")
        ));
    }
    said.extend(found.end.map(|end| {
        let (place, where_to) = match end {
            End::First => ("first", "before"),
            End::Last => ("last", "beyond"),
        };
        format!("It is the {place} of the values: there may be better ones {where_to} it.")
    }));
    said.push(format!("{} values, {} runs.", found.tried, found.runs));
    said.join(" ")
}

/// Whether a value has a better figure than the best one, which surely meets the conditions.
fn better(search: &Search, other: &Judged) -> bool {
    other.against_best.is_some_and(|against| (against.difference > 0.0) == search.aim.most)
}
