//! `fairhop compare`: two scenarios with the same seeds, and which figures differ significantly.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use fairhop_model::units::Nanos;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::{Loaded, Override, Scenario};
use fairhop_study::compare::{self, Better, Compared, Comparison, Only};
use fairhop_study::paired::LEVEL;
use fairhop_study::source::Source;
use serde_json::{Value, json};

use crate::campaign::{Campaign, Outcome};
use crate::failure::{Failure, exit};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::table::{BAD, Cell, FAINT, GOOD, NOTHING, TITLE, Table, fixed, wrap};
use crate::{choose, run, ui};

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop compare k-mix --b control.kind=adaptive            one scenario without and with control
  fairhop compare k-mix k-control                            two scenarios
  fairhop compare k-mix --a radio.capture=none --b radio.capture=first --seeds 20
  fairhop compare old.toml new.toml --set duration_s=20      a change of both
  fairhop compare k-mix k-calls --json | jq .totals          for other programs

Both run with the same seeds. Differences are B minus A, seed by seed, with 95 % intervals (paired t).
Their tests are corrected for their number (Holm 1979). Calls, flows and nodes are matched by name.
docs/guides/advise.md shows how to read the result.";

/// Tables of single calls, flows and nodes show this number of rows.
const MAX_DETAILS: usize = 20;
/// Names of this number of calls, flows or nodes are listed.
const MAX_NAMES: usize = 8;

/// Arguments of `fairhop compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// A: a file in TOML, the name of a ready-made scenario, or - for standard input
    #[arg(value_name = "A")]
    first: PathBuf,
    /// B: another scenario [default: A, changed by --b]
    #[arg(value_name = "B")]
    second: Option<PathBuf>,
    /// Change a value of both scenarios by its dotted path; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    both: Vec<String>,
    /// Change a value of A alone; repeatable
    #[arg(long = "a", value_name = "PATH=VALUE", visible_alias = "set-a")]
    changes_a: Vec<String>,
    /// Change a value of B alone; repeatable
    #[arg(long = "b", value_name = "PATH=VALUE", visible_alias = "set-b")]
    changes_b: Vec<String>,
    /// Number of consecutive seeds, from that of A on
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: u32,
    /// First seed, instead of that of A
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print the comparison as one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Number of runs at a time [default: one per core]; does not affect the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl CompareArgs {
    /// What is wrong with the combination of options.
    pub(crate) fn usage_error(&self) -> Option<&'static str> {
        let alike = self.second.is_none() && self.changes_a.is_empty() && self.changes_b.is_empty();
        alike.then_some(
            "there is nothing to compare with: name a second scenario, or change one side, as in --b \
             control.kind=adaptive",
        )
    }
}

/// One of the two scenarios.
struct Side {
    loaded: Loaded,
    /// Its name and changes, as given.
    label: String,
    changes: Vec<String>,
}

/// Runs both scenarios and compares them; returns the exit code.
///
/// # Errors
/// A scenario cannot be read or simulated.
pub(crate) fn compare(args: &CompareArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let sides = Arc::new(sides(args)?);
    let first_seed = args.seed.unwrap_or(sides[0].loaded.scenario.seed);
    let seeds = Arc::new(run::seeds(first_seed, args.seeds)?);
    let duration = |side: &Side| Nanos::from_secs_f64(side.loaded.scenario.duration_s).0;
    let total = sides.iter().map(duration).fold(0, u64::saturating_add).saturating_mul(seeds.len() as u64);
    let campaign = Arc::new(Campaign {
        interrupt,
        progress: Progress::new(Nanos(total)),
        threads: args.threads.map(usize::from),
    });
    // Seed by seed, so that an interrupt leaves pairs.
    let outcome = {
        let (sides, seeds, driver) = (sides.clone(), seeds.clone(), campaign.clone());
        campaign.run_all(2 * seeds.len(), move |job| {
            let side = &sides[job.index % 2];
            let mut world = run::build(&side.loaded, seeds[job.index / 2])?;
            let complete = driver.drive(job, &mut world, &mut ());
            Ok(complete.then(|| Summary::of(&world, false)))
        })
    };
    campaign.progress.clear();
    let Outcome { results, panics } = outcome?;
    if let Some((index, text)) = panics.first() {
        return Err(run::bug(&sides[index % 2].label, seeds[index / 2], text));
    }
    let mut results = results.into_iter().map(Option::flatten);
    let mut compared = Vec::new();
    let mut pairs = Vec::new();
    for &seed in seeds.iter() {
        if let (Some(Some(a)), Some(Some(b))) = (results.next(), results.next()) {
            compared.push(seed);
            pairs.push((a, b));
        }
    }
    let interrupted = pairs.len() < seeds.len();
    if interrupted {
        ui::remark(&format!(
            "interrupted: {} of {} seeds are compared, the others were not finished",
            pairs.len(),
            seeds.len()
        ));
    }
    if pairs.is_empty() {
        return Ok(exit::INTERRUPTED);
    }
    let measured = [0, 1].map(|side| measured_s(&sides[side].loaded.scenario));
    let comparison = compare::compare(&pairs, measured);
    let text = if args.json {
        format!("{:#}\n", json_of(&sides, &compared, interrupted, &comparison))
    } else {
        report(&sides, &compared, &comparison)
    };
    ui::print(&text)?;
    Ok(if interrupted { exit::INTERRUPTED } else { 0 })
}

/// Both scenarios with their changes.
fn sides(args: &CompareArgs) -> Result<[Side; 2], Failure> {
    let first = Source::find(&args.first)?;
    let second = match &args.second {
        // Standard input can be read once only.
        Some(second) if *second != args.first => Source::find(second)?,
        _ => first.clone(),
    };
    let side = |source: &Source, which: &Path, own: &[String]| {
        let changes: Vec<String> = args.both.iter().chain(own).cloned().collect();
        let overrides: Vec<Override> = changes.iter().map(Override::new).collect();
        let loaded = source.load(&overrides)?;
        let name = which.display().to_string();
        let label = if own.is_empty() { name } else { format!("{name} with {}", own.join(", ")) };
        Ok::<_, Failure>(Side { loaded, label, changes })
    };
    let a = side(&first, &args.first, &args.changes_a)?;
    let b = side(&second, args.second.as_ref().unwrap_or(&args.first), &args.changes_b)?;
    let warnings = |side: &Side| side.loaded.warnings().iter().map(ToString::to_string).collect::<Vec<_>>();
    choose::warn(&a.loaded);
    if warnings(&a) != warnings(&b) {
        choose::warn(&b.loaded);
    }
    choose::remark_on_real_traffic(&a.loaded);
    Ok([a, b])
}

fn measured_s(scenario: &Scenario) -> f64 {
    scenario.duration_s - scenario.warmup_s
}

fn report(sides: &[Side; 2], seeds: &[u64], comparison: &Comparison) -> String {
    let mut parts = vec![header(sides, seeds)];
    parts.push(table("Totals", &comparison.totals, ""));
    parts.push(wrap(&conclusion(comparison, seeds.len())) + "\n");
    parts.extend(details(&comparison.details));
    parts.extend(differences(sides, comparison));
    parts.join("\n")
}

/// Scenarios, duration and seeds.
fn header(sides: &[Side; 2], seeds: &[u64]) -> String {
    let mut text = String::new();
    for (letter, side) in ["A", "B"].iter().zip(sides) {
        text += &format!("{TITLE}{}{TITLE:#}\n", wrap(&format!("{letter}: {}", side.label)));
    }
    let times = |side: &Side| (side.loaded.scenario.duration_s, side.loaded.scenario.warmup_s);
    let time = |(duration_s, warmup_s): (f64, f64)| match warmup_s {
        0.0 => format!("{duration_s} s simulated"),
        _ => format!("{duration_s} s simulated, of which the first {warmup_s} s are not counted"),
    };
    let mut how = time(times(&sides[0]));
    if times(&sides[0]) != times(&sides[1]) {
        how = format!("A: {how}. B: {}", time(times(&sides[1])));
    }
    how += &match seeds {
        [one] => format!("; seed {one} for both"),
        [first, .., last] => {
            format!("; seeds {first} to {last} for both; ± is half of the 95 % interval of B − A")
        }
        [] => String::new(),
    };
    text + &format!("{FAINT}{}{FAINT:#}\n", wrap(&how))
}

/// Rows with A, B, the difference and the verdict.
fn table(title: &str, figures: &[Compared], remark: &str) -> String {
    let mut table = Table::new(title)
        .column("A", 5)
        .column("B", 5)
        .column("B − A", 5)
        .column("±", 4)
        .column("p (Holm)", 2)
        .column("B is", 3);
    for compared in figures {
        let Compared { of, figure, paired, p_holm } = compared;
        let number = |value: f64| fixed(value, figure.decimals);
        let name = if of.is_empty() { figure.name.to_owned() } else { format!("{of}: {}", figure.name) };
        let sign = if paired.difference > 0.0 { "+" } else { "" };
        table.row(
            &name,
            [
                number(paired.a).into(),
                number(paired.b).into(),
                format!("{sign}{}", number(paired.difference)).into(),
                paired.ci95.map_or_else(|| NOTHING.to_owned(), number).into(),
                p_holm.map_or_else(|| NOTHING.to_owned(), probability).into(),
                verdict(compared),
            ],
        );
    }
    table.render() + remark
}

fn probability(p: f64) -> String {
    match p {
        p if p < 0.001 => "< 0.001".to_owned(),
        p => fixed(p, 3),
    }
}

fn verdict(compared: &Compared) -> Cell {
    match (compared.is_better(), compared.differs()) {
        (Some(true), _) => Cell::styled("better", GOOD),
        (Some(false), _) => Cell::styled("worse", BAD),
        (None, true) if compared.paired.difference > 0.0 => "higher".into(),
        (None, true) => "lower".into(),
        (None, false) => "".into(),
    }
}

/// What differs, in words.
fn conclusion(comparison: &Comparison, seeds: usize) -> String {
    let figures = &comparison.totals;
    if seeds < 2 {
        return "One seed has no interval and tests nothing: use --seeds 10.".to_owned();
    }
    let list = |is: &dyn Fn(&Compared) -> bool| {
        let names: Vec<&str> =
            figures.iter().filter(|one| is(one)).map(|one| short(one.figure.name)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let groups = [
        ("Better in B", list(&|one| one.is_better() == Some(true))),
        ("Worse in B", list(&|one| one.is_better() == Some(false))),
        (
            "Different, and neither better nor worse",
            list(&|one| one.differs() && one.figure.better == Better::Neither),
        ),
    ];
    let said: Vec<String> =
        groups.into_iter().filter_map(|(word, names)| Some(format!(" {word}: {}.", names?))).collect();
    let how = format!(
        "at {} % over all {} figures together (paired t tests, Holm's correction)",
        fixed(100.0 * LEVEL, 0),
        figures.len()
    );
    match said.as_slice() {
        [] => format!("Nothing differs significantly {how}."),
        some => format!("Significant {how}.{}", some.concat()),
    }
}

/// A name without its unit.
fn short(name: &str) -> &str {
    name.split_once(", ").map_or(name, |(name, _)| name)
}

/// Single calls, flows and nodes: the clearest differences.
fn details(figures: &[Compared]) -> Option<String> {
    let tests = figures.iter().filter(|one| one.p_holm.is_some()).count();
    let mut differing: Vec<Compared> = figures.iter().filter(|one| one.differs()).cloned().collect();
    if tests == 0 {
        return None;
    }
    let count = differing.len();
    if count == 0 {
        return Some(
            wrap(&format!("Of the {tests} figures of single calls, flows and nodes, none differs.")) + "\n",
        );
    }
    if count > MAX_DETAILS {
        differing.sort_by(|a, b| {
            let p = |one: &Compared| one.paired.p.unwrap_or(1.0);
            p(a).total_cmp(&p(b))
        });
        differing.truncate(MAX_DETAILS);
    }
    let shown =
        if count > MAX_DETAILS { format!("the {MAX_DETAILS} clearest are shown; ") } else { String::new() };
    let remark = format!(
        "{count} of {tests} figures of single calls, flows and nodes differ, corrected for this number; {shown}--json has all"
    );
    Some(table("Calls, flows and nodes", &differing, &format!("{FAINT}{}{FAINT:#}\n", wrap(&remark))))
}

/// What makes the scenarios hard to compare.
fn differences(sides: &[Side; 2], comparison: &Comparison) -> Option<String> {
    let mut lines = Vec::new();
    for (letter, only) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !only.is_empty() {
            lines.push(format!("Only {letter} has {}. They are left out.", names(only)));
        }
    }
    let [a, b] = [0, 1].map(|side| measured_s(&sides[side].loaded.scenario));
    if a != b {
        lines.push(format!(
            "A is measured for {} s and B for {} s: figures that change during a run are not comparable.",
            fixed(a, 1),
            fixed(b, 1)
        ));
    }
    (!lines.is_empty()).then(|| lines.iter().map(|line| wrap(line) + "\n").collect())
}

fn names(only: &Only) -> String {
    let list = |word: &str, names: &[String]| {
        let shown = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
        let more = match names.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!names.is_empty()).then(|| format!("{word} {shown}{more}"))
    };
    let nodes: Vec<String> = only.nodes.iter().map(u32::to_string).collect();
    let groups = [list("the calls", &only.calls), list("the flows", &only.flows), list("the nodes", &nodes)];
    groups.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn json_of(sides: &[Side; 2], seeds: &[u64], interrupted: bool, comparison: &Comparison) -> Value {
    let side = |side: &Side| json!({"scenario": side.loaded.scenario.name, "label": side.label, "set": side.changes});
    let figures = |list: &[Compared]| -> Vec<Value> {
        let one = |compared: &Compared| {
            let paired = &compared.paired;
            let mut object: BTreeMap<&str, Value> = BTreeMap::from([
                ("figure", compared.figure.key.into()),
                ("seeds", paired.runs.into()),
                ("a", paired.a.into()),
                ("b", paired.b.into()),
                ("difference", paired.difference.into()),
                ("ci95", paired.ci95.into()),
                ("p", paired.p.into()),
                ("p_holm", compared.p_holm.into()),
                ("significant", compared.differs().into()),
                ("better", compared.is_better().into()),
            ]);
            if !compared.of.is_empty() {
                object.insert("of", compared.of.as_str().into());
            }
            json!(object)
        };
        list.iter().map(one).collect()
    };
    let only = |only: &Only| json!({"calls": only.calls, "flows": only.flows, "nodes": only.nodes});
    json!({
        "a": side(&sides[0]),
        "b": side(&sides[1]),
        "seeds": seeds,
        "interrupted": interrupted,
        "level": LEVEL,
        "correction": "holm",
        "totals": figures(&comparison.totals),
        "details": figures(&comparison.details),
        "only_a": only(&comparison.only_a),
        "only_b": only(&comparison.only_b),
    })
}
