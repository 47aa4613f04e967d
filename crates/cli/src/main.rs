//! The `fairhop` program.
//!
//! | module | what it is |
//! |---|---|
//! | [`run`], [`demo`], [`mos`], [`airtime`], [`outage`], [`aimd`], [`scenarios`] | the commands |
//! | [`choose`] | which scenario is meant |
//! | [`campaign`], [`interrupt`], [`progress`] | many runs at a time, watched and ended by the user |
//! | [`report`], [`table`] | results for readers |
//! | [`failure`], [`ui`] | errors, exit codes, and the one place that writes to the terminal |

mod aimd;
mod airtime;
mod campaign;
mod choose;
mod demo;
mod failure;
mod interrupt;
mod mos;
mod outage;
mod progress;
mod report;
mod run;
mod scenarios;
mod table;
mod ui;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use failure::{Failure, exit};

/// Takes memory from the system in large pages where the system has them: the state of a large network then costs fewer
/// look-ups of addresses (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ABOUT: &str =
    "Calls and TCP on multihop wireless networks: simulate them, and hear what they do to each other";

const EXAMPLES: &str = "\
Examples:
  fairhop demo                            what three downloads do to five calls
  fairhop scenarios                       ready-made networks to start from
  fairhop run k-mix --seeds 10            simulate one
  fairhop mos --loss 0.02 --delay-ms 104  what loss and delay mean to a listener
  fairhop airtime --hops 4                the most that a path can carry

`fairhop help COMMAND` tells more about each.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  fairhop completions bash > ~/.local/share/bash-completion/completions/fairhop
  fairhop completions zsh > ~/.zfunc/_fairhop
  fairhop completions fish > ~/.config/fish/completions/fairhop.fish";

#[derive(Debug, Parser)]
#[command(
    name = "fairhop",
    version,
    about = ABOUT,
    after_help = EXAMPLES,
    arg_required_else_help = true,
    max_term_width = ui::COLUMNS
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print without colours (as with NO_COLOR)
    #[arg(long, global = true, display_order = 100)]
    no_color: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what three downloads do to five calls over four radio hops
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::DemoArgs),
    /// Simulate a scenario and show how its calls and flows fared
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Print the JSON Schema of scenarios
    #[command(after_help = scenarios::SCHEMA_EXAMPLES)]
    Schema,
    /// List the ready-made scenarios, or print one
    #[command(after_help = scenarios::EXAMPLES)]
    Scenarios(scenarios::ScenariosArgs),
    /// Judge a call by its loss and delay (E-model)
    #[command(after_help = mos::EXAMPLES)]
    Mos(mos::MosArgs),
    /// Reckon frame durations, and the most that a path of some hops can carry
    #[command(after_help = airtime::EXAMPLES)]
    Airtime(airtime::AirtimeArgs),
    /// Reckon how large the window of AIMD datagrams may be, so that few packets come too late
    #[command(after_help = outage::EXAMPLES)]
    Outage(outage::OutageArgs),
    /// Send a stream of AIMD datagrams to another host, or receive one, and watch rate, loss and delay
    #[command(after_help = aimd::EXAMPLES)]
    Aimd(aimd::AimdArgs),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell
        shell: Shell,
    },
}

fn main() -> ExitCode {
    // Errors of the command line itself are printed while it is being read.
    if std::env::args_os().any(|argument| argument == "--no-color") {
        ui::forbid_colors();
    }
    let cli = Cli::parse();
    if cli.no_color {
        ui::forbid_colors();
    }
    if let Command::Run(args) = &cli.command
        && let Some(message) = args.usage_error()
    {
        let mut program = Cli::command();
        program.build();
        let mut command = program.find_subcommand("run").cloned().unwrap_or(program);
        command.error(ErrorKind::MissingRequiredArgument, message).exit();
    }
    match dispatch(&cli.command) {
        Ok(code) => code.into(),
        Err(failure) => {
            failure.tell();
            exit::INPUT.into()
        }
    }
}

fn dispatch(command: &Command) -> Result<u8, Failure> {
    match command {
        Command::Demo(args) => demo::demo(args),
        Command::Run(args) => run::run(args),
        Command::Schema => scenarios::schema(),
        Command::Scenarios(args) => scenarios::scenarios(args),
        Command::Mos(args) => mos::mos(args),
        Command::Airtime(args) => airtime::airtime(args),
        Command::Outage(args) => outage::outage(args),
        Command::Aimd(args) => aimd::aimd(args),
        Command::Completions { shell } => completions(*shell),
    }
}

fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fairhop", &mut script);
    ui::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
