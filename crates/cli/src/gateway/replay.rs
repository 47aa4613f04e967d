//! `fairhop gateway replay`: the controller on a recording.

use std::path::PathBuf;

use clap::Args;
use fairhop_gateway::config::{self, Mode};
use fairhop_gateway::engine::Settings;
use fairhop_gateway::record::{self, Mark, Outcome, Reader};

use super::overrides;
use crate::failure::Failure;
use crate::table::{BAD, GOOD, NOTHING, Table, fixed};
use crate::ui;

/// The recording and what to change.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A recording of `fairhop gateway record`, or of `run --record`
    file: PathBuf,
    /// Change the recorded config, as in control.mos=4.0
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Number of differences that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    show: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replays; the exit code is 1 if decisions differ, or none are compared, and nothing was changed.
pub(super) fn replay(args: &ReplayArgs) -> Result<u8, Failure> {
    let unreadable = |error: record::RecordError| {
        Failure::new(error.to_string(), "name the file that `fairhop gateway record` printed")
    };
    let mut reader = Reader::open(&args.file).map_err(unreadable)?;
    let header = reader.header().clone();
    let name = format!("config in {}", args.file.display());
    let settings_of = |mode: &str, text: &str| {
        let loaded = config::load(&name, text, &overrides(&args.set))?;
        let gateway = loaded.config.gateway.iter().find(|gateway| gateway.name() == header.gateway);
        let gateway = gateway.or(loaded.config.gateway.first()).ok_or_else(|| {
            Failure::new("the recorded config has no gateway", "the recording is damaged; make a new one")
        })?;
        let mode = Mode::ALL.into_iter().find(|known| known.name() == mode).unwrap_or_default();
        Ok::<_, Failure>(Settings::of(&loaded.config, gateway, mode))
    };
    let first = settings_of(&header.mode, &header.config)?;
    // A replay without one of its configs would not be what `--set` asks for.
    let mut refused = None;
    let outcome = record::replay(&mut reader, first, &mut |mode, text| {
        settings_of(mode, text).map_err(|failure| refused.get_or_insert(failure)).ok()
    });
    if let Some(failure) = refused {
        return Err(failure);
    }
    if args.json {
        ui::print(&json(&outcome))?;
    } else {
        ui::print(&text(args, &header, &outcome))?;
    }
    Ok(u8::from(!outcome.is_same() && args.set.is_empty()))
}

fn text(args: &ReplayArgs, header: &record::Header, outcome: &Outcome) -> String {
    let mut text = format!(
        "{}: gateway {}, {}, version {}; {} s, {} digests, {} decisions\n",
        args.file.display(),
        header.gateway,
        header.mode,
        header.version,
        fixed(outcome.seconds, 1),
        outcome.digests,
        outcome.ticks
    );
    if outcome.settling > 0 {
        text += &format!(
            "It began in the middle of flows: its first {} decisions are not compared.\n",
            outcome.settling
        );
    }
    if let Some((recorded, replayed)) = outcome.budgets {
        text += &format!(
            "Mean budget: {} kb/s · hops recorded, {} replayed\n",
            fixed(recorded / 1e3, 0),
            fixed(replayed / 1e3, 0)
        );
    }
    if !outcome.is_compared() {
        return text + &format!("{BAD}No decision is left to compare: make a longer recording.{BAD:#}\n");
    }
    if outcome.is_same() {
        return text + &format!("{GOOD}The controller decides as recorded.{GOOD:#}\n");
    }
    text += &format!("{BAD}{} decisions differ{BAD:#}\n", outcome.differences.len());
    let mut table =
        Table::new("at s").column("", 9).column("state", 9).column("reason", 8).column("budget kb/s", 9);
    table = table.column("into mesh kb/s", 7).column("flows", 5).column("gate", 3);
    for difference in outcome.differences.iter().take(args.show) {
        table.row(&fixed(difference.at_s, 1), row("recorded", &difference.recorded));
        table.row("", row("replayed", &difference.replayed));
    }
    text += &table.render();
    let more = outcome.differences.len().saturating_sub(args.show);
    if more > 0 {
        text += &format!("and {more} more (--show N)\n");
    }
    text
}

fn row(name: &str, mark: &Mark) -> [crate::table::Cell; 7] {
    let kbps = |bits: Option<f64>| bits.map_or_else(|| NOTHING.to_owned(), |bits| fixed(bits / 1e3, 1));
    [
        name.into(),
        mark.state.name().into(),
        mark.reason().into(),
        kbps(mark.budget).into(),
        kbps(mark.rates[0].map(|rate| rate as f64)).into(),
        mark.flow_count.to_string().into(),
        mark.openings.to_string().into(),
    ]
}

fn json(outcome: &Outcome) -> String {
    let mark = |mark: &Mark| {
        serde_json::json!({
            "state": mark.state.name(),
            "reason": mark.reason(),
            "budget_kbps": mark.budget.map(|bits| bits / 1e3),
            "down_kbps": mark.rates[0].map(|bits| bits as f64 / 1e3),
            "flows": mark.flow_count,
            "gate": mark.openings,
        })
    };
    let differences: Vec<_> = outcome
        .differences
        .iter()
        .map(|d| serde_json::json!({ "at_s": d.at_s, "recorded": mark(&d.recorded), "replayed": mark(&d.replayed) }))
        .collect();
    let value = serde_json::json!({
        "seconds": outcome.seconds,
        "digests": outcome.digests,
        "decisions": outcome.ticks,
        "not_compared": outcome.settling,
        "differences": differences,
    });
    format!("{value}\n")
}
