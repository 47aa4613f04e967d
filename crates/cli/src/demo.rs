//! `fairhop demo`: the effect of downloads on calls over four radio hops, and of control at the gateway, as two tables and
//! two pictures.
//!
//! It runs one ready-made scenario (K-MIX of kim2010) six times: the calls alone, the downloads alone, both together, and
//! both under each of three controls ([`CONTROLS`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use clap::Args;
use fairhop_model::units::Nanos;
use fairhop_sim::output::chart::{self, Column, Options};
use fairhop_sim::output::tables::RunTables;
use fairhop_sim::results::{ACCEPTABLE_MOS, CallSummary, Summary};
use fairhop_sim::scenario::{self, Loaded, Override, Scenario, Traffic};

use crate::campaign::{Campaign, Outcome};
use crate::failure::{Failure, exit, reason};
use crate::interrupt::Interrupt;
use crate::progress::{Progress, significant};
use crate::table::{BAD, Cell, FAINT, GOOD, NOTHING, TITLE, Table, fixed, wrap};
use crate::{run, ui};

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop demo                   the pictures go to out/demo.svg and out/demo-control.svg
  fairhop demo --out pictures
  fairhop run k-mix              the full report of both together
  fairhop run k-control          the same under adaptive control
  fairhop scenarios k-mix        the scenario, and things to try";

/// The scenario.
const SCENARIO: &str = "k-mix";

/// Settings of `[control]`. Window and rate are near the optimum for this scenario; adaptive control does not know them.
const CONTROLS: [(&str, &str); 3] = [
    ("window", "control={kind=\"window\",window_packets=2}"),
    ("pacing", "control={kind=\"data-pacing\",rate_kbps=500}"),
    ("adaptive", "control={kind=\"adaptive\"}"),
];

/// Number of runs without control, which come first.
const WITHOUT_CONTROL: usize = 3;

/// Marks the pictures, so that only pictures are replaced.
const MARK: &str = "<!-- drawn by `fairhop demo` -->";

/// Arguments of `fairhop demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Directory of the pictures; earlier pictures are replaced
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
}

/// One of the runs that are compared.
struct Part {
    title: &'static str,
    loaded: Loaded,
}

/// Runs, compares and draws the parts; returns the exit code.
///
/// # Errors
/// The picture cannot be written.
pub(crate) fn demo(args: &DemoArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let parts = Arc::new(parts()?);
    let total = parts.iter().map(|part| Nanos::from_secs_f64(part.loaded.scenario.duration_s)).sum();
    let campaign = Arc::new(Campaign { interrupt, progress: Progress::new(total), threads: None });
    let (shared, driver) = (parts.clone(), campaign.clone());
    let outcome = campaign.run_all(parts.len(), move |job| {
        let Part { title, loaded } = &shared[job.index];
        let mut world = run::build(loaded, loaded.scenario.seed)?;
        let complete = driver.drive(job, &mut world, &mut ());
        let column = || Column::of(*title, &RunTables::collect(&world, false));
        Ok(complete.then(|| (Summary::of(&world, false), column())))
    });
    campaign.progress.clear();
    let Outcome { results, panics } = outcome?;
    if let Some((index, text)) = panics.first() {
        let Part { title, loaded } = &parts[*index];
        return Err(run::bug(&format!("{SCENARIO} ({title})"), loaded.scenario.seed, text));
    }
    let (runs, columns): (Vec<Summary>, Vec<Column>) = results.into_iter().flatten().flatten().unzip();
    let wall_s = campaign.progress.wall().as_secs_f64();
    let [calls, downloads, together, ..] = runs.as_slice() else {
        ui::remark("interrupted: no results to compare");
        return Ok(exit::INTERRUPTED);
    };
    if runs.len() < parts.len() {
        ui::remark("interrupted before all runs ended");
        return Ok(exit::INTERRUPTED);
    }

    let scenario = &parts[WITHOUT_CONTROL - 1].loaded.scenario;
    let (title, setting) = intent(scenario);
    let options = Options {
        title: title.clone(),
        subtitle: setting.clone(),
        warmup_s: scenario.warmup_s,
        ..Options::default()
    };
    let control_title = format!("{title}, controlled at the gateway");
    let control_options = Options { title: control_title.clone(), ..options.clone() };
    let picture = |name, columns: &[Column], options: &Options| {
        draw(&args.out, name, &(chart::comparison(columns, options) + MARK + "\n"))
    };
    let causes = picture("demo.svg", &columns[..WITHOUT_CONTROL], &options)?;
    // Both together, then under each control.
    let same = WITHOUT_CONTROL - 1;
    let remedies = picture("demo-control.svg", &columns[same..], &control_options)?;

    let mut text = format!("{TITLE}{title}{TITLE:#}\n{FAINT}{setting}{FAINT:#}\n\n");
    text += &comparison(&parts[..WITHOUT_CONTROL], &runs[..WITHOUT_CONTROL]);
    text += &format!("\n{}\n", wrap(&in_words(calls, downloads, together)));
    text += &format!("\n{TITLE}{control_title}{TITLE:#}\n\n");
    text += &comparison(&parts[same..], &runs[same..]);
    text += &format!("\n{}\n", wrap(&remedies_in_words(&parts[same..], &runs[same..])));
    text += &format!("\nThe pictures: {} and {}\n", causes.display(), remedies.display());
    ui::print(&text)?;
    let simulated: f64 = runs.iter().map(|run| run.sim_s).sum();
    ui::remark(&format!(
        "{simulated:.0} s simulated in {wall_s:.2} s, {} times real time",
        significant(simulated / wall_s)
    ));
    Ok(0)
}

/// The calls alone, the downloads alone, both together, and both under each control.
fn parts() -> Result<Vec<Part>, Failure> {
    let load = |title, is_left_out: fn(&Traffic) -> bool, control: Option<&str>| {
        let ready = scenario::ready_made(SCENARIO)
            .ok_or_else(|| Failure::new(format!("the scenario {SCENARIO} is missing"), ""))?;
        let whole = scenario::load(&ready.file_name(), ready.text, &[])?;
        let overrides: Vec<Override> = (0..)
            .zip(&whole.scenario.traffic)
            .filter(|(_, traffic)| is_left_out(traffic))
            .map(|(index, _): (u32, _)| Override::new(format!("traffic.{index}.count=0")))
            .chain(control.map(Override::new))
            .collect();
        let loaded = scenario::load(&ready.file_name(), ready.text, &overrides)?;
        Ok::<_, Failure>(Part { title, loaded })
    };
    let mut parts = vec![
        load("calls alone", is_download, None)?,
        load("downloads alone", is_call, None)?,
        load("together", |_| false, None)?,
    ];
    for (title, control) in CONTROLS {
        parts.push(load(title, |_| false, Some(control))?);
    }
    Ok(parts)
}

fn is_call(traffic: &Traffic) -> bool {
    matches!(traffic, Traffic::Call(_))
}

fn is_download(traffic: &Traffic) -> bool {
    matches!(traffic, Traffic::Bulk(_))
}

/// Title and setting of the simulation.
fn intent(scenario: &Scenario) -> (String, String) {
    let count = |is: fn(&Traffic) -> bool| {
        scenario.traffic.iter().filter(|traffic| is(traffic)).map(Traffic::count).sum::<u32>()
    };
    let title = format!(
        "{} telephone calls and {} downloads share {} radio hops",
        count(is_call),
        count(is_download),
        scenario.topology.node_count() - 1
    );
    let setting = format!(
        "{} at {} Mb/s, {} simulated seconds, of which the first {} are not counted",
        scenario.radio.standard.name(),
        scenario.radio.rate_mbps,
        scenario.duration_s,
        scenario.warmup_s
    );
    (title, setting)
}

/// Writes the picture into a directory. Only an earlier picture of this program is replaced.
fn draw(directory: &Path, name: &str, svg: &str) -> Result<PathBuf, Failure> {
    let failed = |action: &str, path: &Path, error: &io::Error| {
        Failure::new(
            format!("cannot {action} {}: {}", path.display(), reason(error)),
            "give another directory with --out",
        )
    };
    fs::create_dir_all(directory).map_err(|error| failed("make the directory", directory, &error))?;
    let path = directory.join(name);
    match fs::read_to_string(&path) {
        Ok(earlier) if !earlier.contains(MARK) => {
            return Err(Failure::new(
                format!("{} is not a picture of this program", path.display()),
                "move it, or give another directory with --out",
            ));
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("replace", &path, &error));
        }
        _ => {}
    }
    // Complete or not at all.
    let unfinished = directory.join(format!(".{name}.unfinished"));
    fs::write(&unfinished, svg)
        .and_then(|()| fs::rename(&unfinished, &path))
        .map_err(|error| failed("write", &path, &error))?;
    Ok(path)
}

fn mean_of(calls: &[CallSummary], pick: fn(&CallSummary) -> f64) -> f64 {
    calls.iter().map(pick).sum::<f64>() / calls.len() as f64
}

/// Mean score of the calls; not a number where there is none.
fn mos_mean(run: &Summary) -> f64 {
    run.totals.mos_mean.unwrap_or(f64::NAN)
}

/// Mean queue of the node with the longest one, in packets.
fn longest_queue(run: &Summary) -> f64 {
    run.nodes.iter().map(|node| node.queue_mean).fold(0.0, f64::max)
}

fn sent_mbps(run: &Summary) -> f64 {
    run.flows.iter().map(|flow| flow.sent_mbps).sum()
}

/// The runs side by side.
fn comparison(parts: &[Part], runs: &[Summary]) -> String {
    let mut table = Table::new("");
    for part in parts {
        table = table.column(part.title, 9);
    }
    let mut row = |name: &str, cell: &dyn Fn(&Summary) -> Option<Cell>| {
        table.row(name, runs.iter().map(|run| cell(run).unwrap_or_else(|| NOTHING.into())));
    };
    let judged = |mos: f64| match mos {
        // No call sent anything.
        mos if mos.is_nan() => Cell::from(NOTHING),
        mos => Cell::styled(fixed(mos, 2), if mos < ACCEPTABLE_MOS { BAD } else { GOOD }),
    };
    let of_calls = |run: &Summary, figure: String| (!run.calls.is_empty()).then(|| figure.into());
    let of_flows = |run: &Summary, figure: String| (!run.flows.is_empty()).then(|| figure.into());
    row("call quality, MOS", &|run| run.totals.mos_mean.map(judged));
    row("worst direction's MOS", &|run| run.totals.mos_min.map(judged));
    row("acceptable calls", &|run| {
        of_calls(run, format!("{} of {}", fixed(run.totals.calls_ok, 0), run.calls.len()))
    });
    row("voice lost, %", &|run| of_calls(run, fixed(100.0 * mean_of(&run.calls, |call| call.loss), 2)));
    row("voice too late, %", &|run| of_calls(run, fixed(100.0 * mean_of(&run.calls, |call| call.late), 2)));
    row("voice delay, ms", &|run| of_calls(run, fixed(mean_of(&run.calls, |call| call.delay_ms), 1)));
    row("all downloads, Mb/s", &|run| of_flows(run, fixed(run.totals.tcp_goodput_mbps, 2)));
    row("goodput of the sent, %", &|run| {
        of_flows(run, fixed(100.0 * run.totals.tcp_goodput_mbps / sent_mbps(run), 1))
    });
    row("fairness (Jain)", &|run| of_flows(run, fixed(run.totals.jain, 2)));
    row("longest queue, packets", &|run| Some(fixed(longest_queue(run), 1).into()));
    table.render()
}

/// The comparison in sentences. Every figure is from the table.
fn in_words(calls: &Summary, downloads: &Summary, together: &Summary) -> String {
    let total = together.calls.len();
    let ok = |run: &Summary| fixed(run.totals.calls_ok, 0);
    let percent = |pick| format!("{}\u{a0}%", fixed(100.0 * mean_of(&together.calls, pick), 0));
    format!(
        "Alone, {} of {total} calls are acceptable (mean MOS {:.2}; {ACCEPTABLE_MOS} is acceptable, 4.5 is the maximum). With \
         the downloads, {} are acceptable (mean MOS {:.2}): {} of their packets are lost, and {} arrive too late to be \
         played. The longest queue holds {:.1} packets on average, and {:.1} without the downloads. The downloads carry \
         {:.2}\u{a0}Mb/s in total; alone they carry {:.2}.",
        ok(calls),
        mos_mean(calls),
        ok(together),
        mos_mean(together),
        percent(|call| call.loss),
        percent(|call| call.late),
        longest_queue(together),
        longest_queue(calls),
        together.totals.tcp_goodput_mbps,
        downloads.totals.tcp_goodput_mbps
    )
}

/// The effect of the controls in sentences.
fn remedies_in_words(parts: &[Part], runs: &[Summary]) -> String {
    let mut sentences = vec![
        "Control at the gateway limits what is sent into the mesh: packets wait at the gateway instead of queueing and \
         colliding in the mesh."
            .to_owned(),
    ];
    for (part, run) in parts.iter().zip(runs).skip(1) {
        sentences.push(format!(
            "Under {} control {} of {} calls are acceptable (MOS {:.2}), and the downloads carry {:.2}\u{a0}Mb/s.",
            part.title,
            fixed(run.totals.calls_ok, 0),
            run.calls.len(),
            mos_mean(run),
            run.totals.tcp_goodput_mbps
        ));
    }
    sentences
        .push("Window and rate were chosen for this network; adaptive control found its own.".to_owned());
    sentences.join(" ")
}
