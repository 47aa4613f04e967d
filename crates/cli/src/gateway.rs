//! `fairhop gateway`: protects real calls on a real network, and shows how they are.

pub(crate) mod beside;
mod fit;
mod replay;
mod view;
mod watch;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use fairhop_config::Override;
use fairhop_gateway::api::client;
use fairhop_gateway::daemon::{self, DaemonError, Options, Signals};
use fairhop_gateway::doctor::{self, Verdict};
use fairhop_gateway::status::Status;
use fairhop_gateway::{config, log};

use crate::failure::{Failure, exit, reason};
use crate::table::{BAD, FAINT, GOOD, TITLE};
use crate::ui;

pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop gateway doctor /etc/fairhop/gateway.toml   what is missing on this machine, and what to do
  fairhop gateway run /etc/fairhop/gateway.toml      decide without touching a packet (mode = \"dry-run\")
  fairhop gateway watch                              calls, flows and decisions, live
  fairhop gateway mode live                          do what is decided, until the next reload
  fairhop gateway record --seconds 60                record digests and decisions
  fairhop gateway replay FILE                        run the controller on a recording

docs/guides/gateway.md leads from nothing to a protected call, and back out.";

#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    #[command(subcommand)]
    command: GatewayCommand,
}

#[derive(Debug, Subcommand)]
enum GatewayCommand {
    /// Run the gateway in the foreground (as root, or by systemd)
    Run(RunArgs),
    /// Check a config: its keys, values and contradictions
    Check(CheckArgs),
    /// Look at what the gateway needs of this machine, and say what to do
    Doctor(DoctorArgs),
    /// Show what a running gateway does, and why
    Status(AskArgs),
    /// Show the calls
    Calls(AskArgs),
    /// Show the flows that are not calls
    Flows(AskArgs),
    /// Show calls, flows and decisions, live
    Watch(WatchArgs),
    /// Change the mode of a running gateway until its next reload
    Mode(ModeArgs),
    /// Let a running gateway read its config again; one with errors changes nothing
    Reload(ChangeArgs),
    /// Record digests and decisions of a running gateway
    Record(RecordArgs),
    /// Run the controller on a recording and show where its decisions differ
    Replay(replay::ReplayArgs),
    /// Print the JSON Schema of configs
    Schema,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The config
    config: PathBuf,
    /// Set a key, as in mode=live or control.mos=4.0
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Record the first gateway from the start
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The config
    config: PathBuf,
    /// Set a key, as in mode=live
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Args)]
struct DoctorArgs {
    /// The config; without one, only kernel and rights are examined
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where the gateway answers.
#[derive(Debug, Args)]
struct At {
    /// Address of the gateway's API
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9470")]
    api: SocketAddr,
}

#[derive(Debug, Args)]
struct AskArgs {
    #[command(flatten)]
    at: At,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct WatchArgs {
    #[command(flatten)]
    at: At,
    /// Time between two pictures in seconds, 0.1 to 3600
    #[arg(long, value_name = "S", default_value = "1", value_parser = pause)]
    every: Duration,
}

#[derive(Debug, Args)]
struct ChangeArgs {
    #[command(flatten)]
    at: At,
    /// File with the token
    #[arg(long, value_name = "FILE", default_value = "/run/fairhop-gateway/token")]
    token_file: PathBuf,
}

#[derive(Debug, Args)]
struct ModeArgs {
    /// observe, dry-run or live
    #[arg(value_parser = ["observe", "dry-run", "live"])]
    mode: String,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
struct RecordArgs {
    /// Length in seconds
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    seconds: f64,
    /// Name of the gateway; the first one if left out
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The time between two pictures.
fn pause(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a number of seconds from 0.1 to 3600".to_owned()),
    }
}

pub(crate) fn gateway(args: &GatewayArgs) -> Result<u8, Failure> {
    match &args.command {
        GatewayCommand::Run(args) => run(args),
        GatewayCommand::Check(args) => check(args),
        GatewayCommand::Doctor(args) => examine(args),
        GatewayCommand::Status(args) => ask(args, "/api/v1/status", view::status),
        GatewayCommand::Calls(args) => ask(args, "/api/v1/calls", view::calls),
        GatewayCommand::Flows(args) => ask(args, "/api/v1/flows", view::flows),
        GatewayCommand::Watch(args) => watch::watch(args.at.api, args.every),
        GatewayCommand::Mode(args) => {
            let body = serde_json::json!({ "mode": args.mode }).to_string();
            change(&args.change, "/api/v1/mode", &body)?;
            ui::remark(&format!(
                "mode is {} until the next reload; `mode` in the config makes it last",
                args.mode
            ));
            Ok(0)
        }
        GatewayCommand::Reload(args) => {
            change(args, "/api/v1/reload", "")?;
            let status = status_of(args.at.api)?;
            if let Some((name, fault)) =
                status.gateways.iter().find_map(|at| Some((&at.name, at.fault.as_ref()?)))
            {
                return Err(Failure::new(
                    format!("the config is in force, but gateway {name} does not run: {fault}"),
                    "packets pass it untouched, and it is tried again every two seconds: `fairhop gateway status`",
                ));
            }
            ui::remark("the config is in force");
            Ok(0)
        }
        GatewayCommand::Record(args) => record(args),
        GatewayCommand::Replay(args) => replay::replay(args),
        GatewayCommand::Schema => {
            let text = serde_json::to_string_pretty(&config::schema());
            ui::print(&(text.map_err(|error| Failure::bug(error.to_string()))? + "\n"))?;
            Ok(0)
        }
    }
}

fn overrides(set: &[String]) -> Vec<Override> {
    set.iter().map(Override::new).collect()
}

fn load(path: &Path, set: &[String]) -> Result<config::Loaded, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(
            format!("cannot read {}: {}", path.display(), reason(&error)),
            "the package has an example: /etc/fairhop/gateway.toml",
        )
    })?;
    Ok(config::load(&path.display().to_string(), &text, &overrides(set))?)
}

fn run(args: &RunArgs) -> Result<u8, Failure> {
    let signals = Signals::of_process().map_err(|error| Failure::bug(error.to_string()))?;
    let options = Options {
        config: args.config.clone(),
        overrides: overrides(&args.set),
        record: args.record.clone(),
        report_address: None,
    };
    match daemon::run(&options, &signals, &mut daemon::start_kernel) {
        Ok(()) => Ok(0),
        Err(DaemonError::Config(errors)) => Err(errors.into()),
        Err(error) => {
            log::Line::new(log::Level::Error, "ended").field("why", &error).write();
            let path = args.config.display();
            Err(Failure::new(
                error.to_string(),
                format!("`fairhop gateway doctor {path}` says what is missing"),
            ))
        }
    }
}

fn check(args: &CheckArgs) -> Result<u8, Failure> {
    let loaded = load(&args.config, &args.set)?;
    let gateways: Vec<String> = loaded
        .config
        .gateway
        .iter()
        .map(|at| format!("{} ({}, {})", at.name(), at.mesh, loaded.config.control_of(at).kind()))
        .collect();
    ui::print(&format!(
        "{} is valid: {}, {}\n",
        args.config.display(),
        loaded.config.mode.name(),
        gateways.join(", ")
    ))?;
    Ok(0)
}

fn examine(args: &DoctorArgs) -> Result<u8, Failure> {
    let loaded = args.config.as_deref().map(|path| load(path, &[])).transpose()?;
    let checks = doctor::examine(loaded.as_ref().map(|loaded| &loaded.config));
    if args.json {
        let text = serde_json::to_string_pretty(&checks).map_err(|error| Failure::bug(error.to_string()))?;
        ui::print(&(text + "\n"))?;
    } else {
        let width = checks.iter().map(|check| check.what.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for check in &checks {
            let (mark, style) = match check.verdict {
                Verdict::Good => ("✓", GOOD),
                Verdict::Limited => ("!", TITLE),
                Verdict::Bad => ("✗", BAD),
            };
            text += &format!("{style}{mark}{style:#} {:width$}  {}\n", check.what, check.found);
            if !check.fix.is_empty() {
                text += &format!("  {:width$}  {FAINT}→ {}{FAINT:#}\n", "", check.fix);
            }
        }
        ui::print(&text)?;
    }
    let is_bad = checks.iter().any(|check| check.verdict == Verdict::Bad);
    Ok(if is_bad { exit::INPUT } else { 0 })
}

/// Why a gateway did not answer.
fn no_answer(address: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("no gateway answers on {address}: {}", reason(error)),
        "start it: systemctl start fairhop-gateway; another address: --api ADDRESS:PORT",
    )
}

fn get(address: SocketAddr, path: &str) -> Result<String, Failure> {
    let answer =
        client::request(address, "GET", path, None, None).map_err(|error| no_answer(address, &error))?;
    match answer.status {
        200 => Ok(answer.body),
        _ => Err(refused(&answer)),
    }
}

fn refused(answer: &client::Answer) -> Failure {
    let detail = serde_json::from_str::<serde_json::Value>(&answer.body)
        .ok()
        .and_then(|problem| Some(problem["detail"].as_str()?.to_owned()))
        .unwrap_or_else(|| format!("answer {}", answer.status));
    Failure::new(format!("the gateway refuses: {detail}"), "its log says more: journalctl -u fairhop-gateway")
}

/// The status of a running gateway.
fn status_of(address: SocketAddr) -> Result<Status, Failure> {
    serde_json::from_str(&get(address, "/api/v1/status")?).map_err(|error| {
        Failure::new(
            format!("the answer of {address} is not that of this version: {error}"),
            "use the `fairhop` of the same version as the gateway",
        )
    })
}

/// Prints the answer as JSON, or as the view shows the status.
fn ask(args: &AskArgs, path: &str, view: impl Fn(&Status) -> String) -> Result<u8, Failure> {
    if args.json {
        ui::print(&(get(args.at.api, path)? + "\n"))?;
    } else {
        ui::print(&view(&status_of(args.at.api)?))?;
    }
    Ok(0)
}

fn change(args: &ChangeArgs, path: &str, body: &str) -> Result<String, Failure> {
    let token = std::fs::read_to_string(&args.token_file).map_err(|error| {
        // A gateway makes the file when it starts.
        if let Err(failure) = get(args.at.api, "/api/v1/status") {
            return failure;
        }
        Failure::new(
            format!("cannot read the token {}: {}", args.token_file.display(), reason(&error)),
            "be root, or name the file of `token_file` in the config: --token-file FILE",
        )
    })?;
    let answer = client::request(args.at.api, "POST", path, Some(token.trim()), Some(body))
        .map_err(|error| no_answer(args.at.api, &error))?;
    match answer.status {
        200 => Ok(answer.body),
        _ => Err(refused(&answer)),
    }
}

fn record(args: &RecordArgs) -> Result<u8, Failure> {
    let body = serde_json::json!({ "seconds": args.seconds, "gateway": args.gateway }).to_string();
    let answer = change(&args.change, "/api/v1/record", &body)?;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
    let path = answer["path"].as_str().unwrap_or_default();
    ui::print(&format!("{path}\n"))?;
    ui::remark(&format!(
        "records for {} s; then replay it with: fairhop gateway replay {path}",
        args.seconds
    ));
    Ok(0)
}
