//! Programs in the namespaces of an emulation: those of `kind = "real"` traffic at their times, and the command of the
//! caller. All of them get SIGTERM at the end, and SIGKILL if they stay, or if the emulation is killed.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fairhop_sim::scenario::{Scenario, Traffic};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::EmulateError;
use crate::namespaces::namespace;
use crate::sys;

/// How long a program has to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// A program that is to run, runs, or has run.
#[derive(Debug)]
struct Planned {
    /// Name of the flow and the end, as in `download-0-to`.
    label: String,
    namespace: String,
    text: String,
    variables: Vec<(&'static str, String)>,
    start: Duration,
    stop: Option<Duration>,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting,
    Running(Child),
    Over,
}

/// All programs of a scenario.
#[derive(Debug, Default)]
pub struct Commands {
    planned: Vec<Planned>,
    failed: Vec<(String, ExitStatus)>,
}

impl Commands {
    /// The programs of the real traffic of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let places = scenario.attachments();
        let place_of = |place| {
            let node = scenario.place_number(place)?;
            places.iter().find(|attachment| attachment.node == node)
        };
        let mut planned = Vec::new();
        for (entry, names) in scenario.traffic.iter().zip(scenario.flow_names()) {
            let Traffic::Real(real) = entry else { continue };
            let (Some(from), Some(to)) = (place_of(real.from), place_of(real.to)) else { continue };
            let address = |place: &fairhop_sim::scenario::Attachment| {
                place.addresses.first().map(|(address, _)| address.to_string()).unwrap_or_default()
            };
            for (copy, name) in names.iter().enumerate() {
                // The answering end first, so that it listens.
                let ends = [(&real.command_to, to, "to"), (&real.command_from, from, "from")];
                for (text, place, end) in ends {
                    let Some(text) = text else { continue };
                    planned.push(Planned {
                        label: format!("{name}-{end}"),
                        namespace: namespace(&place.name),
                        text: text.clone(),
                        variables: vec![
                            ("FROM", address(from)),
                            ("TO", address(to)),
                            ("COPY", copy.to_string()),
                        ],
                        start: Duration::from_secs_f64(real.start_s),
                        stop: real.stop_s.map(Duration::from_secs_f64),
                        state: State::Waiting,
                    });
                }
            }
        }
        Self { planned, failed: Vec::new() }
    }

    /// Starts and ends what is due at `now`, since the start of the run. Output goes to a file of each program in
    /// `output`, or to standard error.
    ///
    /// # Errors
    /// A program cannot be started, or its file cannot be written.
    pub fn poll(&mut self, now: Duration, output: Option<&Path>) -> Result<(), EmulateError> {
        for planned in &mut self.planned {
            match &mut planned.state {
                State::Waiting if now >= planned.start => {
                    planned.state = State::Running(planned.spawn(output)?);
                }
                State::Running(child) => {
                    let is_stopped = planned.stop.is_some_and(|stop| now >= stop);
                    if is_stopped {
                        signal(child, Signal::TERM);
                    }
                    if let Ok(Some(status)) = child.try_wait() {
                        if !status.success() && !is_stopped {
                            self.failed.push((planned.label.clone(), status));
                        }
                        planned.state = State::Over;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Programs that have failed so far, with how.
    pub fn failed(&self) -> &[(String, ExitStatus)] {
        &self.failed
    }

    /// Ends all programs.
    pub fn end(&mut self) {
        let mut running: Vec<&mut Child> = self
            .planned
            .iter_mut()
            .filter_map(|planned| match &mut planned.state {
                State::Running(child) => Some(child),
                _ => None,
            })
            .collect();
        running.iter().for_each(|child| signal(child, Signal::TERM));
        let began = Instant::now();
        while began.elapsed() < PATIENCE
            && running.iter_mut().any(|child| matches!(child.try_wait(), Ok(None)))
        {
            thread::sleep(Duration::from_millis(5));
        }
        for child in running {
            signal(child, Signal::KILL);
            let _ = child.wait();
        }
        for planned in &mut self.planned {
            planned.state = State::Over;
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.end();
    }
}

impl Planned {
    fn spawn(&self, output: Option<&Path>) -> Result<Child, EmulateError> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, "sh", "-c", &self.text]);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // A group of its own: a signal reaches what the shell starts.
        command.stdin(Stdio::null()).process_group(0);
        match output {
            Some(folder) => {
                let path = folder.join(format!("{}.txt", self.label));
                let failed = |error| EmulateError::io(format!("write {}", path.display()), error);
                let file = File::create_new(&path).map_err(failed)?;
                command.stderr(file.try_clone().map_err(failed)?).stdout(file);
            }
            None => {
                command.stdout(std::io::stderr());
            }
        }
        start(&mut command, &self.text)
    }
}

fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(pid, signal);
    }
}

/// Starts a program that ends with the emulation. The calling thread must live as long as the program shall. Its variable
/// `FAIRHOP` is the path of this program.
///
/// # Errors
/// The program cannot be started.
pub fn start(command: &mut Command, text: &str) -> Result<Child, EmulateError> {
    if let Ok(program) = std::env::current_exe() {
        command.env("FAIRHOP", program);
    }
    sys::end_with_parent(command)
        .spawn()
        .map_err(|source| EmulateError::Command { command: text.to_owned(), source })
}
