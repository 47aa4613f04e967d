//! `fairhop emulate`: real programs on the network of a scenario, in real time.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use fairhop_emulate::EmulateError;
use fairhop_emulate::commands::{self, Commands};
use fairhop_emulate::namespaces::{self, Namespaces, Port};
use fairhop_emulate::realtime::{self, Stop, Timing, Watch};
use fairhop_model::units::Nanos;
use fairhop_sim::output::tables::RunTables;
use fairhop_sim::results::{EmulationSummary, Replications, Summary};
use fairhop_sim::scenario::{Attach, AttachKind, Loaded, Override, Place};
use fairhop_sim::world::{Rejected, World};

use crate::failure::{Failure, exit};
use crate::folder::Folder;
use crate::gateway::beside::Beside;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::run::{self, Keep, OutputArgs, Tracing};
use crate::virtual_time::{self, VirtualArgs};
use crate::{choose, report, ui};

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  sudo fairhop emulate k-mix --attach 4 --attach internet     wait 60 s for programs in fh-4 and fh-internet
  sudo fairhop emulate exec 4 -- ping -c 3 10.78.0.1          in another terminal: a program in fh-4
  sudo fairhop emulate k-mix --attach 4 --attach 0 -- bash    until the shell ends
  sudo fairhop emulate grid.toml --link --duration none       all nodes, whose kernels forward, until Ctrl-C
  fairhop emulate k-mix --attach 4 --attach 0 --virtual --kernel 6.12 -- ./script     in virtual time, another kernel
  sudo fairhop emulate clean                                  after an emulation was killed

Node N has the addresses 10.77.0.N and fd77::N, the Internet host 10.78.0.1 and fd78::1.
Ctrl-C ends the run and keeps its results so far; a second Ctrl-C ends the program at once.
Exit codes: 0 success, 1 wrong input, missing rights or a program of the scenario that failed, 2 wrong command line,
101 a bug, 130 ended by Ctrl-C; otherwise that of COMMAND.";

/// Arguments of `fairhop emulate`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct EmulateArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// A file in TOML, the name of a ready-made scenario (see `fairhop scenarios`), or - for standard input
    #[arg(required = true)]
    pub(crate) scenario: Option<PathBuf>,
    /// Attach a network namespace to a place: a node, internet, gateway, last or the name of a wired host; repeatable, and in
    /// addition to [[attach]] of the scenario
    #[arg(long = "attach", value_name = "PLACE")]
    attach: Vec<String>,
    /// Attach every node, with Ethernet frames: kernels forward packets, and the scenario is the radio only
    #[arg(long, conflicts_with = "attach")]
    link: bool,
    /// Run the gateway where the Internet is attached, in front of the emulated mesh: with adaptive control, or with a config
    /// (fairhop gateway check FILE) whose mesh interface is that of the emulation
    #[arg(long, value_name = "FILE", conflicts_with = "link", num_args = 0..=1, require_equals = true)]
    pub(crate) gateway: Option<Option<PathBuf>>,
    /// Change a value of the scenario by its dotted path; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
    /// Seed of all random numbers, instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Duration in seconds, or none: up to a day [default: the scenario's; with a command, none]
    #[arg(long, value_name = "SECONDS", value_parser = duration)]
    duration: Option<f64>,
    #[command(flatten)]
    pub(crate) virtual_time: VirtualArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// A command to run meanwhile, outside the namespaces; the run ends with it
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run a program in the namespace of an attached place
    Exec {
        /// The place: a node's number or the name of the attachment
        place: String,
        /// The program and its arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Remove what an emulation has left that was killed
    Clean,
}

/// The duration of `none`: a day.
const LONGEST_S: f64 = 86_400.0;
/// How often the main thread looks after programs and the progress bar.
const CHECK: Duration = Duration::from_millis(20);

fn duration(text: &str) -> Result<f64, String> {
    match (text, text.parse::<f64>()) {
        ("none", _) => Ok(LONGEST_S),
        (_, Ok(seconds)) if seconds > 0.0 && seconds <= LONGEST_S => Ok(seconds),
        _ => Err(format!("must be a number of seconds up to {LONGEST_S}, or none")),
    }
}

impl From<EmulateError> for Failure {
    fn from(error: EmulateError) -> Self {
        Self::new(error.to_string(), error.fix())
    }
}

impl EmulateArgs {
    /// What is wrong with the combination of options.
    pub(crate) fn usage_error(&self) -> Option<&'static str> {
        self.output.usage_error()
    }
}

/// Runs the command; returns the exit code.
///
/// # Errors
/// The scenario is wrong, rights are missing, another emulation runs, or results cannot be written.
pub(crate) fn emulate(args: &EmulateArgs) -> Result<u8, Failure> {
    match (&args.action, &args.scenario) {
        (Some(Action::Exec { place, command }), _) => {
            let source = namespaces::enter(place, command)?.exec();
            Err(EmulateError::Command { command: command.join(" "), source }.into())
        }
        (Some(Action::Clean), _) => clean(),
        (None, Some(scenario)) => run_scenario(args, scenario),
        (None, None) => Err(Failure::bug("the command line has no scenario")),
    }
}

fn clean() -> Result<u8, Failure> {
    match namespaces::clean()?.as_slice() {
        [] => ui::remark("nothing was left"),
        removed => ui::remark(&format!("removed {}", removed.join(", "))),
    }
    Ok(0)
}

/// The scenario with what the command line changes.
fn load(args: &EmulateArgs, scenario: &std::path::Path) -> Result<Loaded, Failure> {
    let overrides: Vec<Override> = args.overrides.iter().map(Override::new).collect();
    let mut loaded = choose::load(scenario, &overrides)?;
    let scenario = &mut loaded.scenario;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    let default = if args.command.is_empty() { scenario.duration_s } else { LONGEST_S };
    scenario.duration_s = args.duration.unwrap_or(default);
    let attached = scenario.attachments();
    let of_gateway = args.gateway.is_some().then(|| "internet".to_owned());
    let wanted = args.attach.iter().chain(of_gateway.iter().filter(|place| !args.attach.contains(place)));
    for text in wanted {
        let value = text.parse::<u32>().map_or_else(|_| text.as_str().into(), serde_json::Value::from);
        let place: Place = serde_json::from_value(value).map_err(|_| {
            let help = "write a node's number, internet, gateway, last or the name of a wired host";
            Failure::new(format!("--attach {text} is no place"), help)
        })?;
        let number = scenario.place_number(place);
        if number.is_none() || !attached.iter().any(|attachment| Some(attachment.node) == number) {
            scenario.attach.push(attach(Some(place), AttachKind::Edge));
        }
    }
    if args.link && scenario.attach.iter().all(|attach| attach.node.is_some()) {
        scenario.attach.push(attach(None, AttachKind::Link));
    }
    let findings = scenario.findings();
    match findings.first() {
        None => Ok(loaded),
        Some(first) => Err(Failure::new(first.message.clone(), first.help.clone())),
    }
}

fn attach(node: Option<Place>, kind: AttachKind) -> Attach {
    Attach { node, kind, name: None, addresses: Vec::new() }
}

/// Namespaces that an exit from a signal handler can remove, too.
type Shared = Arc<Mutex<Option<Namespaces>>>;

fn remove(shared: &Shared) -> Result<(), EmulateError> {
    match shared.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(mut namespaces) => namespaces.remove(),
        None => Ok(()),
    }
}

fn run_scenario(args: &EmulateArgs, scenario: &std::path::Path) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let loaded = load(args, scenario)?;
    if args.virtual_time.enabled {
        return virtual_time::run(args, &loaded.scenario, &interrupt);
    }
    // From here on the first signal only sets a flag, so that nothing is left behind.
    let polling = interrupt.poll();
    let tracing = Tracing::new(&args.output)?;
    let folder = args.output.out.as_deref().map(Folder::claim).transpose()?.map(Arc::new);
    let keep = folder.map(|folder| Keep { folder, captures: args.output.pcap, several: false });
    let mut world = run::build(&loaded, loaded.scenario.seed)?;
    let (made, ports) = Namespaces::set_up(&loaded.scenario.attachments(), &loaded.scenario.name)?;
    let shared: Shared = Arc::new(Mutex::new(Some(made)));
    let (at_exit, at_exit_folder) = (shared.clone(), keep.as_ref().map(|keep| keep.folder.clone()));
    interrupt.before_exit(move || {
        let _ = remove(&at_exit);
        at_exit_folder.iter().for_each(|folder| folder.tidy());
    });
    let mut emulation =
        Emulation { args, loaded: &loaded, interrupt: &interrupt, keep: &keep, tracing, world: &mut world };
    let ended = emulation.run(ports);
    let removed = remove(&shared);
    drop(polling);
    let code = ended.and_then(|ended| emulation.finish(ended));
    keep.iter().for_each(|keep| keep.folder.tidy());
    removed?;
    code
}

/// A run between set-up and clean-up.
struct Emulation<'a> {
    args: &'a EmulateArgs,
    loaded: &'a Loaded,
    interrupt: &'a Interrupt,
    keep: &'a Option<Keep>,
    tracing: Tracing,
    world: &'a mut World,
}

/// What a run has come to.
struct Ended {
    timing: Timing,
    traces: Vec<String>,
    /// Exit code of the caller's command.
    code: Option<u8>,
    interrupted: bool,
    wall: Duration,
    failures: Vec<Failure>,
}

/// What the loop shows to the main thread.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    now: Nanos,
    lateness_p99: Nanos,
    delivered: u64,
    delivered_bytes: u64,
    /// The lowest score of a call over the last whole recording interval.
    mos: Option<f64>,
}

/// Takes samples for traces, and shows how far the run is.
struct Watching<'a> {
    tracing: &'a Tracing,
    traces: Vec<String>,
    shown: &'a Mutex<Shown>,
}

impl Watch for Watching<'_> {
    fn interval(&self) -> Nanos {
        self.tracing.interval
    }

    fn sample(&mut self, world: &World, at: Nanos) {
        for (what, lines) in self.tracing.what.iter().zip(&mut self.traces) {
            what.sample(world, at, lines);
        }
    }

    fn progress(&mut self, world: &World, now: Nanos, timing: &Timing) {
        // The loop never waits for the main thread.
        if let Ok(mut shown) = self.shown.try_lock() {
            *shown = Shown {
                now,
                lateness_p99: timing.quantile(0.99),
                delivered: world.real().counts().delivered,
                delivered_bytes: world.recorder().streams.iter().map(|stream| stream.delivered_bytes).sum(),
                mos: world.lowest_recent_score(),
            };
        }
    }
}

impl Emulation<'_> {
    /// Lets the World follow the clock until its end, the end of the command, or a signal.
    fn run(&mut self, mut ports: Vec<Port>) -> Result<Ended, Failure> {
        let capture = self.keep.as_ref().map(|keep| keep.capture(self.world)).transpose()?.flatten();
        let output = match self.keep {
            Some(keep) => Some(keep.folder.directory()?.path().to_owned()),
            None => None,
        };
        let stop = Stop::new()?;
        let shown = Mutex::new(Shown::default());
        let mut watching = Watching {
            tracing: &self.tracing,
            traces: vec![String::new(); self.tracing.what.len()],
            shown: &shown,
        };
        let mut programs = Commands::of(&self.loaded.scenario);
        let beside = self.args.gateway.as_ref().map(|config| Beside::start(config.as_deref())).transpose()?;
        let mut command = self.start_command()?;
        let names: Vec<&str> = ports.iter().map(|port| port.namespace.as_str()).collect();
        ui::remark(&format!("attached: {}", names.join(", ")));
        let progress = Progress::new(Nanos::from_secs_f64(self.loaded.scenario.duration_s));
        let began = Instant::now();
        let (world, interrupt) = (&mut *self.world, self.interrupt);
        let mut failures = Vec::new();
        let mut code = None;
        let timing = thread::scope(|scope| {
            let (stop, ports, watching) = (&stop, &mut ports, &mut watching);
            let work = move || realtime::run(world, ports, stop, watching);
            let running = thread::Builder::new().name("emulation".into()).spawn_scoped(scope, work)?;
            let mut last = Shown::default();
            while !running.is_finished() {
                if interrupt.is_requested() {
                    stop.request();
                }
                if let Err(error) = programs.poll(began.elapsed(), output.as_deref()) {
                    failures.push(error.into());
                    stop.request();
                }
                if let Some(Ok(Some(status))) = command.as_mut().map(Child::try_wait) {
                    code = Some(status.code().map_or(exit::INPUT, |code| code as u8));
                    stop.request();
                }
                let now = *shown.lock().unwrap_or_else(PoisonError::into_inner);
                if now.now > last.now {
                    progress.emulated(now.now - last.now, &live(&last, &now));
                    last = now;
                }
                thread::sleep(CHECK);
            }
            running.join().map_err(|_| std::io::Error::other("the loop has panicked"))
        });
        progress.clear();
        drop(beside);
        programs.end();
        if let Some(mut command) = command {
            // Of its group it may be the terminal's; it has got the signal that ended the run.
            let _ = command.kill();
            let _ = command.wait();
        }
        for (label, status) in programs.failed() {
            failures.push(Failure::new(
                format!("the program {label} has failed: {status}"),
                "see its output; `command_from` and `command_to` are shell commands",
            ));
        }
        let timing = timing.map_err(|error| Failure::bug(error.to_string()))??;
        let mut traces = watching.traces;
        for (what, lines) in self.tracing.what.iter().zip(&mut traces) {
            what.finish(self.world, lines);
        }
        if let Some(error) = capture.and_then(|capture| capture.finish().err()) {
            ui::remark("the captures are incomplete; all other results count the whole run");
            failures.push(error.into());
        }
        let interrupted = interrupt.is_requested();
        Ok(Ended { timing, traces, code, interrupted, wall: began.elapsed(), failures })
    }

    fn start_command(&self) -> Result<Option<Child>, Failure> {
        let Some((program, arguments)) = self.args.command.split_first() else { return Ok(None) };
        let text = self.args.command.join(" ");
        Ok(Some(commands::start(Command::new(program).args(arguments), &text)?))
    }

    /// Prints and writes the results; returns the exit code.
    fn finish(&self, ended: Ended) -> Result<u8, Failure> {
        let Ended { timing, traces, code, interrupted, wall, mut failures } = ended;
        let scenario = &self.loaded.scenario;
        if self.world.end() <= self.world.recorder().warmup {
            ui::remark(&format!("ended before the end of the warm-up ({} s): no results", scenario.warmup_s));
            let otherwise = if interrupted { exit::INTERRUPTED } else { code.unwrap_or(0) };
            return Ok(run::end(&failures, otherwise));
        }
        let mut summary = Summary::of(self.world, interrupted);
        summary.emulation = Some(emulation_summary(self.world, &timing));
        let runs = [summary];
        let results = Replications::of(&runs).map_err(|error| Failure::bug(error.to_string()))?;
        let printed = if self.args.output.json {
            run::print_json(&results, wall.as_secs_f64())
        } else {
            ui::print(&report::report(scenario, &runs, &results))
        };
        failures.extend(printed.err());
        if let Some(keep) = self.keep {
            match keep.write(scenario, &results, &[RunTables::collect(self.world, interrupted)]) {
                Ok(()) => ui::remark(&format!("results are in {}", keep.folder.path().display())),
                Err(failure) => failures.push(failure),
            }
        }
        match self.tracing.write(&traces, self.keep.as_ref()) {
            Ok(paths) => {
                paths.iter().for_each(|path| ui::remark(&format!("a trace is in {}", path.display())));
            }
            Err(error) => failures.push(error.into()),
        }
        Ok(run::end(&failures, if interrupted { exit::INTERRUPTED } else { code.unwrap_or(0) }))
    }
}

/// What the progress bar shows of the time since `last`.
fn live(last: &Shown, now: &Shown) -> String {
    let seconds = (now.now - last.now).as_secs_f64().max(1e-3);
    let mbps = (now.delivered_bytes.saturating_sub(last.delivered_bytes)) as f64 * 8e-6 / seconds;
    let packets = (now.delivered.saturating_sub(last.delivered)) as f64 / seconds;
    let mos = now.mos.map_or_else(String::new, |mos| format!(", worst call {mos:.1}"));
    let late = now.lateness_p99.as_millis_f64();
    format!("{mbps:.2} Mb/s goodput, {packets:.0} real packets/s{mos}, late {late:.2} ms (p99)")
}

fn emulation_summary(world: &World, timing: &Timing) -> EmulationSummary {
    let counts = world.real().counts();
    let ms = |quantile: Option<Nanos>| quantile.unwrap_or_default().as_millis_f64();
    EmulationSummary {
        too_late: timing.is_too_late(),
        lateness_p50_ms: ms(timing.lateness.quantile(0.5)),
        lateness_p99_ms: ms(timing.lateness.quantile(0.99)),
        lateness_max_ms: timing.max.as_millis_f64(),
        wakeup_p99_ms: ms(timing.wakeups.quantile(0.99)),
        real_time_priority: timing.is_real_time,
        injected: counts.injected as f64,
        delivered: counts.delivered as f64,
        unwritten: timing.unwritten as f64,
        rejected: Rejected::ALL
            .iter()
            .map(|&why| (why.name().to_owned(), counts.rejected[why as usize] as f64))
            .collect(),
    }
}
