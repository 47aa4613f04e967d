//! `fairhop scenarios` and `fairhop schema`: ready-made scenarios, and the format of scenarios and plans.

use std::path::Path;

use clap::{Args, ValueEnum};
use fairhop_sim::scenario;
use fairhop_study::plan;

use crate::failure::Failure;
use crate::table::TITLE;
use crate::{choose, ui};

/// Examples of `fairhop scenarios`, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop scenarios                        the list
  fairhop scenarios k-mix                  the text of one, with its purpose and things to try
  fairhop scenarios k-mix > mesh.toml      as a start for your own";

/// Examples of `fairhop schema`, for its help.
pub(crate) const SCHEMA_EXAMPLES: &str = "\
Examples:
  fairhop schema > scenario.schema.json    for an editor that completes and checks TOML
  fairhop schema plan > plan.schema.json   the same for plans of sweeps
  fairhop schema | jq '.properties | keys'";

/// Arguments of `fairhop schema`.
#[derive(Args, Debug)]
pub(crate) struct SchemaArgs {
    /// What the schema describes: a scenario, or a plan of `fairhop sweep`
    #[arg(value_enum, default_value_t, value_name = "WHAT")]
    of: Described,
}

/// What a schema describes.
#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum Described {
    #[default]
    Scenario,
    Plan,
}

/// Arguments of `fairhop scenarios`.
#[derive(Args, Debug)]
pub(crate) struct ScenariosArgs {
    /// Print this scenario
    name: Option<String>,
}

/// Prints the list, or one scenario.
///
/// # Errors
/// There is no scenario of that name.
pub(crate) fn scenarios(args: &ScenariosArgs) -> Result<u8, Failure> {
    match &args.name {
        Some(name) => match scenario::ready_made(name) {
            Some(ready) => ui::print(ready.text)?,
            None => return Err(choose::unknown(Path::new(name), choose::Wanted::ReadyMade).into()),
        },
        None => {
            let ready = scenario::library();
            let width = ready.iter().map(|ready| ready.name.len()).max().unwrap_or_default();
            let lines = ready.iter().map(|ready| {
                format!(
                    "{TITLE}{}{TITLE:#}{:space$}  {}\n",
                    ready.name,
                    "",
                    ready.title(),
                    space = width - ready.name.len()
                )
            });
            ui::print(&lines.collect::<String>())?;
        }
    }
    Ok(0)
}

/// Prints the JSON Schema of scenarios or plans.
///
/// # Errors
/// It cannot be written.
pub(crate) fn schema(args: &SchemaArgs) -> Result<u8, Failure> {
    let schema = match args.of {
        Described::Scenario => scenario::schema(),
        Described::Plan => plan::schema(),
    };
    ui::print(&format!("{schema:#}\n"))?;
    Ok(0)
}
