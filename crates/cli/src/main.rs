//! The `fairhop` program.
//!
//! | module | what it is |
//! |---|---|
//! | [`run`], [`compare`], [`advise`], [`sweep`], [`emulate`], [`gateway`], [`demo`], [`mos`], [`airtime`], [`outage`], [`aimd`], [`call`], [`scenarios`] | the commands |
//! | [`choose`] | finds and reads the scenario |
//! | [`campaign`], [`interrupt`], [`progress`] | many runs at a time, with progress and Ctrl-C |
//! | [`folder`] | the folder of `--out` |
//! | [`report`], [`table`], [`chart`] | results as tables and as a picture |
//! | [`failure`], [`ui`] | errors and exit codes; output to the terminal |

mod advise;
mod aimd;
mod airtime;
mod analyze;
mod call;
mod campaign;
mod chart;
mod choose;
mod compare;
mod demo;
#[cfg(target_os = "linux")]
mod emulate;
mod failure;
mod folder;
mod found;
#[cfg(target_os = "linux")]
mod gateway;
mod html;
mod interrupt;
mod mos;
mod new_file;
mod outage;
mod progress;
mod report;
mod run;
mod scenarios;
mod sweep;
mod table;
mod ui;
mod virtual_time;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use failure::Failure;

/// Allocates large pages if the system has them: a large network then causes fewer TLB misses (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ABOUT: &str =
    "Calls and TCP on multihop wireless networks: simulate them and measure how they affect each other";

const EXAMPLES: &str = "\
Examples:
  fairhop demo                            the effect of three downloads on five calls
  fairhop scenarios                       ready-made networks to start from
  fairhop run k-mix --seeds 10            simulate one
  fairhop compare k-mix k-control         what differs, with the same seeds
  fairhop advise k-mix                    which control suits it
  fairhop sweep plan.toml                 simulate many settings, and keep the runs
  fairhop analyze roof.pcap               calls and TCP in a packet capture
  fairhop mos --loss 0.02 --delay-ms 104  call quality from loss and delay
  fairhop airtime --hops 4                upper bounds for a path

`fairhop help COMMAND` describes each command.";

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
    /// Show the effect of three downloads on five calls over four radio hops
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::DemoArgs),
    /// Simulate a scenario and report on its calls and flows
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Run two scenarios with the same seeds, and tell which figures differ significantly
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareArgs),
    /// Try controls on a scenario, and rank them: calls first, then TCP
    #[command(after_help = advise::EXAMPLES)]
    Advise(advise::AdviseArgs),
    /// Make the runs of a plan and keep them: settings in every combination, with many seeds
    #[command(after_help = sweep::EXAMPLES)]
    Sweep(sweep::SweepArgs),
    /// Ask kept runs in SQL (with the Python package)
    #[command(after_help = sweep::QUERY_EXAMPLES)]
    Query(sweep::PythonArgs),
    /// Draw a figure of kept runs over a setting (with the Python package)
    #[command(after_help = sweep::PLOT_EXAMPLES)]
    Plot(sweep::PythonArgs),
    /// Measure what the papers claim, and report it (with the Python package)
    #[command(after_help = sweep::STUDY_EXAMPLES)]
    Study(sweep::StudyArgs),
    /// Read a packet capture: calls, TCP flows, and what adaptive control would do
    #[command(after_help = analyze::EXAMPLES)]
    Analyze(analyze::AnalyzeArgs),
    /// Let real programs use the network of a scenario, in real time (Linux, as root)
    #[cfg(target_os = "linux")]
    #[command(after_help = emulate::EXAMPLES)]
    Emulate(emulate::EmulateArgs),
    /// Protect real calls where the Internet enters a mesh (Linux)
    #[cfg(target_os = "linux")]
    #[command(after_help = gateway::EXAMPLES)]
    Gateway(gateway::GatewayArgs),
    /// Print the JSON Schema of scenarios or plans
    #[command(after_help = scenarios::SCHEMA_EXAMPLES)]
    Schema(scenarios::SchemaArgs),
    /// List the ready-made scenarios, or print one
    #[command(after_help = scenarios::EXAMPLES)]
    Scenarios(scenarios::ScenariosArgs),
    /// Compute the quality of a call from its loss and delay (E-model)
    #[command(after_help = mos::EXAMPLES)]
    Mos(mos::MosArgs),
    /// Compute frame durations and upper bounds for a multihop path
    #[command(after_help = airtime::EXAMPLES)]
    Airtime(airtime::AirtimeArgs),
    /// Compute the largest window of AIMD datagrams that keeps late packets rare
    #[command(after_help = outage::EXAMPLES)]
    Outage(outage::OutageArgs),
    /// Send or receive a stream of AIMD datagrams and measure rate, loss and delay
    #[command(after_help = aimd::EXAMPLES)]
    Aimd(aimd::AimdArgs),
    /// Make or answer telephone calls over RTP and measure their quality
    #[command(after_help = call::EXAMPLES)]
    Call(call::CallArgs),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages of all commands into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        folder: std::path::PathBuf,
    },
}

fn main() -> ExitCode {
    // clap prints errors of the command line while it parses it.
    if std::env::args_os().any(|argument| argument == "--no-color") {
        ui::forbid_colors();
    }
    let cli = Cli::parse();
    if cli.no_color {
        ui::forbid_colors();
    }
    let wrong = match &cli.command {
        Command::Run(args) => args.usage_error().map(|message| ("run", message)),
        Command::Compare(args) => args.usage_error().map(|message| ("compare", message)),
        #[cfg(target_os = "linux")]
        Command::Emulate(args) => args.usage_error().map(|message| ("emulate", message)),
        _ => None,
    };
    if let Some((name, message)) = wrong {
        let mut program = Cli::command();
        program.build();
        let mut command = program.find_subcommand(name).cloned().unwrap_or(program);
        command.error(ErrorKind::MissingRequiredArgument, message).exit();
    }
    match dispatch(&cli.command) {
        Ok(code) => code.into(),
        Err(failure) => {
            ui::complain(&failure);
            failure.code().into()
        }
    }
}

fn dispatch(command: &Command) -> Result<u8, Failure> {
    match command {
        Command::Demo(args) => demo::demo(args),
        Command::Run(args) => run::run(args),
        Command::Compare(args) => compare::compare(args),
        Command::Advise(args) => advise::advise(args),
        Command::Sweep(args) => sweep::sweep(args),
        Command::Query(args) => sweep::python("query", &args.arguments),
        Command::Plot(args) => sweep::python("plot", &args.arguments),
        Command::Study(args) => sweep::python("study", &args.arguments),
        Command::Analyze(args) => analyze::analyze(args),
        #[cfg(target_os = "linux")]
        Command::Emulate(args) => emulate::emulate(args),
        #[cfg(target_os = "linux")]
        Command::Gateway(args) => gateway::gateway(args),
        Command::Schema(args) => scenarios::schema(args),
        Command::Scenarios(args) => scenarios::scenarios(args),
        Command::Mos(args) => mos::mos(args),
        Command::Airtime(args) => airtime::airtime(args),
        Command::Outage(args) => outage::outage(args),
        Command::Aimd(args) => aimd::aimd(args),
        Command::Call(args) => call::call(args),
        Command::Completions { shell } => completions(*shell),
        Command::Man { folder } => manual(folder),
    }
}

fn manual(folder: &std::path::Path) -> Result<u8, Failure> {
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| {
        Failure::new(
            format!("cannot write manual pages to {}: {}", folder.display(), failure::reason(&error)),
            "name a folder that can be written to",
        )
    })?;
    Ok(0)
}

fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fairhop", &mut script);
    ui::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
