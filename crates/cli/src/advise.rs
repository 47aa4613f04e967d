//! `fairhop advise`: which control suits a scenario, as one ranked table.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fairhop_model::units::Nanos;
use fairhop_sim::output::tables::RunTables;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::{Override, Scenario, Traffic};
use fairhop_study::advise::{
    Advice, AdviseError, Adviser, Carried, FIGURES, GOOD, Row, RunFigures, SEARCH_SEEDS, Setting, Wanted,
};
use fairhop_study::paired::{LEVEL, Paired};
use fairhop_study::source::Source;
use fairhop_study::store::{Files, Key, Store};
use fairhop_study::sweep::Figure;
use serde_json::{Value, json};

use crate::campaign::{Campaign, Job, Outcome};
use crate::failure::{Failure, exit};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::table::{BAD, Cell, FAINT, GOOD as FINE, NOTHING, TITLE, Table, fixed, wrap};
use crate::{choose, run, ui};

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop advise k-mix                        controls of all kinds, ranked
  fairhop advise mesh.toml --seeds 20         narrower intervals
  fairhop advise mesh.toml --store mesh.runs  keep the runs, so that an interrupted search goes on
  fairhop advise k-mix --json | jq -r '.rows[0].toml'

Settings under which the calls are good in 95 % of the seconds come first, those with most TCP at
the top. All settings run with the same seeds; the values are searched with other ones.
Ctrl-C ends the search and prints what is there. docs/guides/advise.md shows how to read the result.";

/// Arguments of `fairhop advise`.
#[derive(Args, Debug)]
pub(crate) struct AdviseArgs {
    /// A file in TOML, the name of a ready-made scenario (see `fairhop scenarios`), or - for standard input
    scenario: PathBuf,
    /// Change a value of the scenario by its dotted path; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
    /// Simulated seconds of each run, instead of the scenario's
    #[arg(long, value_name = "S")]
    duration: Option<f64>,
    /// Number of consecutive seeds of the figures shown, from the scenario's on; the search uses the four after them
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: u32,
    /// Keep the runs in a folder, and do not repeat those that are in it
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Print the advice as one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Number of runs at a time [default: one per core]; does not affect the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// Tries settings and ranks them; returns the exit code.
///
/// # Errors
/// The scenario cannot be read or simulated, or a run cannot be kept.
pub(crate) fn advise(args: &AdviseArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let source = Source::find(&args.scenario)?;
    let changes: Vec<String> =
        args.overrides.iter().cloned().chain(args.duration.map(|s| format!("duration_s={s}"))).collect();
    let load =
        |more: &[String]| source.load(&changes.iter().chain(more).map(Override::new).collect::<Vec<_>>());
    let base = load(&[])?;
    if base.scenario.traffic.iter().all(|traffic| traffic.count() == 0 || matches!(traffic, Traffic::Real(_)))
    {
        return Err(Failure::new(
            format!(
                "there is nothing to rank: \"{}\" has neither calls nor other simulated traffic",
                base.scenario.name
            ),
            "add the [[traffic]] of the network, as in `fairhop scenarios k-mix`",
        ));
    }
    if base.scenario.topology.node_count() == 0 {
        return Err(Failure::new(
            format!(
                "\"{}\" has no mesh, and so no gateway that could control its traffic",
                base.scenario.name
            ),
            "add nodes to [topology], as in `fairhop scenarios k-mix`",
        ));
    }
    choose::warn(&base);
    choose::remark_on_real_traffic(&base);
    let mut judging = run::seeds(base.scenario.seed, args.seeds.saturating_add(SEARCH_SEEDS))?;
    let searching = judging.split_off(args.seeds as usize);
    let adviser = Adviser::new(load, &base.scenario, judging, searching)?;
    let store = args.store.as_deref().map(|folder| Store::open(folder, &[])).transpose()?;

    let duration = Nanos::from_secs_f64(base.scenario.duration_s);
    let trials = Trials {
        campaign: Arc::new(Campaign {
            interrupt,
            progress: Progress::new(Nanos(duration.0.saturating_mul(adviser.planned() as u64))),
            threads: args.threads.map(usize::from),
        }),
        store,
        duration,
    };
    let advice = adviser.advise(|wanted| trials.make(wanted));
    trials.campaign.progress.clear();
    let advice = advice.map_err(|error| match error {
        AdviseError::Scenario(errors) => errors.into(),
        AdviseError::Run(failure) => failure,
    })?;
    if advice.rows.is_empty() {
        ui::remark("interrupted before the first setting had all of its runs: no advice");
        return Ok(exit::INTERRUPTED);
    }
    let text = if args.json {
        format!("{:#}\n", json_of(&base.scenario.name, &changes, &advice))
    } else {
        report(&base.scenario, &advice)
    };
    ui::print(&text)?;
    if !advice.complete {
        ui::remark(&match &args.store {
            Some(folder) => format!(
                "interrupted: settings are missing. The runs are in {}: the same command goes on",
                folder.display()
            ),
            None => {
                "interrupted: settings are missing. With --store DIR, the same command goes on".to_owned()
            }
        });
    }
    Ok(if advice.complete { 0 } else { exit::INTERRUPTED })
}

/// The runs of the search.
struct Trials {
    campaign: Arc<Campaign>,
    store: Option<Store>,
    /// Simulated time of a run.
    duration: Nanos,
}

impl Trials {
    /// Makes runs; none for those that were interrupted.
    fn make(&self, wanted: &[Wanted]) -> Result<Vec<Option<RunFigures>>, Failure> {
        let wanted: Arc<[Wanted]> = wanted.into();
        let (shared, campaign) = (wanted.clone(), self.campaign.clone());
        let (store, duration) = (self.store.clone(), self.duration);
        let outcome = self.campaign.run_all(wanted.len(), move |job| {
            one(job, &shared[job.index], &campaign, store.as_ref(), duration)
        });
        let Outcome { results, panics } = outcome?;
        if let Some((index, text)) = panics.first() {
            let (loaded, seed) = &wanted[*index];
            return Err(run::bug(&loaded.scenario.name, *seed, text));
        }
        Ok(results.into_iter().map(Option::flatten).collect())
    }
}

/// Makes one run, or reads it from the store; none if it was interrupted.
fn one(
    job: &Job,
    (loaded, seed): &Wanted,
    campaign: &Campaign,
    store: Option<&Store>,
    duration: Nanos,
) -> Result<Option<RunFigures>, Failure> {
    let place = match store {
        Some(store) => Some((store, Key::of(&loaded.scenario, *seed)?)),
        None => None,
    };
    let kept = place.as_ref().filter(|(store, key)| store.has(key));
    if let Some(figures) = kept.and_then(|(store, key)| RunFigures::kept(&store.figures(key, &FIGURES))) {
        campaign.progress.advance(duration);
        return Ok(Some(figures));
    }
    let mut world = run::build(loaded, *seed)?;
    if !campaign.drive(job, &mut world, &mut ()) {
        return Ok(None);
    }
    let summary = Summary::of(&world, false);
    if let Some((store, key)) = place {
        let tables = RunTables::collect(&world, false);
        store.keep(&Files::of(&key, &loaded.scenario, &summary, tables, store.tables())?)?;
    }
    Ok(Some(RunFigures::of(&summary)))
}

/// What a goodput is called.
fn word(advice: &Advice) -> &'static str {
    match advice.carried {
        Carried::Tcp => "TCP",
        Carried::Other | Carried::Calls => "data",
    }
}

fn report(scenario: &Scenario, advice: &Advice) -> String {
    let seeds = match advice.seeds.as_slice() {
        [first, .., last] => format!("seeds {first} to {last}; ± is half of a 95 % interval"),
        seeds => format!("seed {}", seeds.first().copied().unwrap_or_default()),
    };
    let mut parts = vec![
        format!(
            "{TITLE}{}{TITLE:#}\n{FAINT}{}{FAINT:#}\n",
            wrap(&scenario.name),
            wrap(&format!("{} s simulated, {seeds}", scenario.duration_s))
        ),
        table(advice),
    ];
    if let Some(first) = advice.rows.first() {
        let lines = first.setting.toml();
        let head = if advice.complete { "Recommended" } else { "Best so far" };
        let mut text = format!("{TITLE}{head}: {}{TITLE:#}\n", first.setting.name);
        // Units stay with their numbers.
        let reasons = reasons(advice).join(" ").replace(" %", "\u{a0}%").replace(" Mb/s", "\u{a0}Mb/s");
        text += &(wrap(&reasons) + "\n");
        if !lines.is_empty() {
            text += &format!("\n{FAINT}In place of the scenario's [control]:{FAINT:#}\n{lines}");
        }
        parts.push(text);
    }
    if !advice.left_out.is_empty() {
        let lines =
            advice.left_out.iter().map(|(name, reason)| wrap(&format!("left out: {name}: {reason}")) + "\n");
        parts.push(lines.map(|line| format!("{FAINT}{}{FAINT:#}\n", line.trim_end())).collect());
    }
    parts.join("\n")
}

/// The ranking.
fn table(advice: &Advice) -> String {
    let calls = advice.kinds.calls;
    let mbps = advice.carried != Carried::Calls;
    let mut table = Table::new("Setting");
    if calls {
        table = table.column("calls good %", 5).column("±", 4).column("MOS", 3).column("worst MOS", 3);
    }
    if mbps {
        table = table.column(format!("{} Mb/s", word(advice)), 5).column("±", 4).column("of none %", 3);
    }
    let mut starred = false;
    for row in &advice.rows {
        let mut cells: Vec<Cell> = Vec::new();
        let cell = |value: Option<f64>, factor: f64, decimals: usize| {
            value.map_or_else(|| NOTHING.to_owned(), |value| fixed(factor * value, decimals))
        };
        let mean = |figure: Option<Figure>| figure.map(|figure| figure.mean);
        let half = |figure: Option<Figure>| figure.and_then(|figure| figure.ci95);
        if calls {
            let style = if row.good == Some(true) { FINE } else { BAD };
            cells.push(Cell::styled(cell(mean(row.clear), 100.0, 1), style));
            cells.push(cell(half(row.clear), 100.0, 1).into());
            cells.push(cell(mean(row.mos_mean), 1.0, 2).into());
            cells.push(cell(mean(row.mos_min), 1.0, 2).into());
        }
        if mbps {
            cells.push(cell(mean(row.mbps), 1.0, 3).into());
            cells.push(cell(half(row.mbps), 1.0, 3).into());
            cells.push(cell(row.against_none.and_then(of_other), 100.0, 0).into());
        }
        let star = if row.by_speed_test { " *" } else { "" };
        starred |= row.by_speed_test;
        table.row(&format!("{}{star}", row.setting.name), cells);
    }
    let mut text = table.render();
    if let (true, Some(alone)) = (starred, advice.alone_mbps) {
        let remark = format!(
            "* 90 % of a speed test without calls and control ({} Mb/s), as shapers are often set; other rates and windows were \
             searched",
            fixed(alone, 2)
        );
        text += &format!("{FAINT}{}{FAINT:#}\n", wrap(&remark));
    }
    text
}

/// A goodput as a fraction of the other one that it is compared with.
fn of_other(paired: Paired) -> Option<f64> {
    (paired.a > 0.0).then(|| paired.b / paired.a)
}

/// Why the first row is recommended, in sentences.
fn reasons(advice: &Advice) -> Vec<String> {
    let Some(first) = advice.rows.first() else { return Vec::new() };
    let name = &first.setting.name;
    let threshold = fixed(100.0 * GOOD, 0);
    let percent = |part: Option<f64>| part.map_or_else(|| NOTHING.to_owned(), |part| fixed(100.0 * part, 0));
    let carried = first.mbps.map_or_else(|| NOTHING.to_owned(), |figure| fixed(figure.mean, 2));
    let none = advice.rows.iter().find(|row| row.setting == Setting::none());
    let is_none = first.setting == Setting::none();
    let of_none = percent(first.against_none.and_then(of_other));
    let word = word(advice);
    let mut said = Vec::new();
    match (first.good, advice.carried) {
        (None, _) => {
            said.push(format!("The scenario has no calls: settings are ranked by {word} goodput alone."));
            if is_none {
                said.push(format!(
                    "No control carries the most: {carried} Mb/s. There is nothing to control."
                ));
            } else {
                let sure =
                    if differs(first.against_none) { "" } else { ", which is no significant difference" };
                said.push(format!(
                    "It carries the most: {carried} Mb/s, {of_none} % of what no control carries{sure}."
                ));
            }
        }
        (Some(_), Carried::Calls) => {
            said.push(
                "The scenario has calls and nothing else: settings are ranked by the calls, and there is nothing to pace."
                    .to_owned(),
            );
        }
        (Some(true), _) => {
            let good = advice.rows.iter().filter(|row| row.good == Some(true)).count();
            said.push(format!(
                "{good} of {} settings keep the calls good in {threshold} % of the seconds.",
                advice.rows.len()
            ));
            said.push(match (is_none, none) {
                (true, _) => format!(
                    "No control is one of them, and of these it carries the most {word}: {carried} Mb/s. Leave it as it is."
                ),
                (false, Some(none)) => format!(
                    "Of these, it carries the most {word}: {carried} Mb/s. That is {of_none} % of what no control carries, \
                     under which the calls are good in {} % of the seconds, and {} % of the most that any setting carries.",
                    percent(none.clear.map(|clear| clear.mean)),
                    percent(of_most(advice, first)),
                ),
                (false, None) => format!("Of these, it carries the most {word}: {carried} Mb/s."),
            });
        }
        (Some(false), _) => {
            let (so_far, way_out) = match advice.complete {
                true => ("", " Fewer calls, fewer hops or a higher radio rate are needed."),
                false => (" so far", ""),
            };
            said.push(format!(
                "No setting{so_far} keeps the calls good in {threshold} % of the seconds; {name} comes closest with {} %.{way_out}",
                percent(first.clear.map(|clear| clear.mean))
            ));
        }
    }
    let unsure = first.clear.and_then(|clear| Some(clear.mean - clear.ci95?)).is_some_and(|low| low < GOOD);
    if first.good == Some(true) && unsure {
        said.push(format!(
            "The interval of its calls reaches below {threshold} %: --seeds {} gives narrower ones.",
            2 * advice.seeds.len().max(5)
        ));
    }
    let perhaps: Vec<&str> =
        advice.rows.iter().filter(|row| may_be_better(row)).map(|row| &*row.setting.name).collect();
    if first.good == Some(true) && !perhaps.is_empty() {
        let carries = if perhaps.len() == 1 { "carries" } else { "carry" };
        said.push(format!(
            "More seeds may find better: {} {carries} more {word}, with calls whose interval reaches {threshold} %.",
            perhaps.join(" and ")
        ));
    }
    let adaptive = advice.rows.iter().skip(1).find(|row| row.setting == Setting::adaptive());
    if let Some(adaptive) = adaptive
        && adaptive.good == Some(true)
        && let (true, Some(paired)) = (advice.kinds.elastic && !is_none, adaptive.against_first)
    {
        let sure = if differs(Some(paired)) { "" } else { " (no significant difference)" };
        said.push(format!(
            "Adaptive control carries {} % of it{sure} and needs no value: prefer it where hops, flows or radio rates change.",
            percent(of_other(paired))
        ));
    }
    said
}

/// Whether a row carries more than the first one, and its calls may be good although their mean is not.
fn may_be_better(row: &Row) -> bool {
    let reaches = row.clear.and_then(|clear| Some(clear.mean + clear.ci95?)).is_some_and(|high| high >= GOOD);
    row.good == Some(false) && reaches && row.against_first.is_some_and(|paired| paired.difference > 0.0)
}

/// The goodput of a row as a fraction of the highest one of all rows.
fn of_most(advice: &Advice, row: &Row) -> Option<f64> {
    let most = advice.rows.iter().filter_map(|row| row.mbps).map(|figure| figure.mean).fold(0.0, f64::max);
    (most > 0.0).then_some(row.mbps?.mean / most)
}

/// Whether a difference is significant.
fn differs(paired: Option<Paired>) -> bool {
    paired.and_then(|paired| paired.p).is_some_and(|p| p <= LEVEL)
}

fn json_of(name: &str, changes: &[String], advice: &Advice) -> Value {
    let figure =
        |figure: Option<Figure>| figure.map(|figure| json!({"mean": figure.mean, "ci95": figure.ci95}));
    let paired = |paired: Option<Paired>| {
        paired.map(|one| json!({"difference": one.difference, "ci95": one.ci95, "p": one.p}))
    };
    let carried = match advice.carried {
        Carried::Tcp => Some("tcp_goodput_mbps"),
        Carried::Other => Some("udp_goodput_mbps"),
        Carried::Calls => None,
    };
    let row = |row: &Row| {
        let mut figures = json!({
            "calls_clear": figure(row.clear),
            "mos_mean": figure(row.mos_mean),
            "mos_min": figure(row.mos_min),
        });
        if let Some(carried) = carried {
            figures[carried] = json!(figure(row.mbps));
        }
        json!({
            "name": row.setting.name,
            "set": row.setting.overrides(),
            "toml": row.setting.toml(),
            "calls_good": row.good,
            "figures": figures,
            "against_none": paired(row.against_none),
            "against_first": paired(row.against_first),
            "by_speed_test": row.by_speed_test,
        })
    };
    json!({
        "scenario": name,
        "set": changes,
        "seeds": advice.seeds,
        "complete": advice.complete,
        "good": GOOD,
        "ranked_by": carried,
        "speed_test_mbps": advice.alone_mbps,
        "why": reasons(advice).join(" "),
        "rows": advice.rows.iter().map(row).collect::<Vec<_>>(),
        "left_out": advice.left_out.iter().map(|(name, why)| json!({"name": name, "why": why})).collect::<Vec<_>>(),
    })
}
