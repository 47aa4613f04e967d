//! `fairhop emulate --virtual`: the same command line once more, in a guest with another kernel and a virtual clock.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairhop_emulate::guest::{Command, Guest, GuestError, HostFiles, Kernel};
use fairhop_sim::scenario::{Scenario, Traffic};

use crate::emulate::EmulateArgs;
use crate::failure::{Failure, exit};
use crate::folder::Folder;
use crate::interrupt::Interrupt;
use crate::ui;

/// Options of virtual time. All of them have to be in [`OPTIONS`].
#[derive(Args, Debug)]
pub(crate) struct VirtualArgs {
    /// Run in a guest whose clock counts instructions, so that the machine's load does not matter, and the same run gives the
    /// same figures; without root
    #[arg(long = "virtual")]
    pub(crate) enabled: bool,
    /// With --virtual: the guest's kernel, 5.10, 6.1 or 6.12 of Debian; downloaded once
    #[arg(long, value_name = "VERSION", default_value_t = Kernel::default(), requires = "enabled")]
    kernel: Kernel,
    /// With --virtual: give the guest another file, folder or program; repeatable. It has those that are named in commands and
    /// in shell scripts
    #[arg(long, value_name = "PATH", requires = "enabled")]
    guest_file: Vec<PathBuf>,
    /// With --virtual: give the guest all files of this machine; then runs are not exactly repeatable
    #[arg(long, requires = "enabled")]
    host_files: bool,
}

/// Wall time after which a guest is ended: the emulation has a duration of its own, which may take much longer in a guest.
const PATIENCE: Duration = Duration::from_secs(7 * 86_400);

/// The options that the guest's command line does not have, and whether a value follows.
const OPTIONS: [(&str, bool); 4] =
    [("--virtual", false), ("--host-files", false), ("--kernel", true), ("--guest-file", true)];

impl From<GuestError> for Failure {
    fn from(error: GuestError) -> Self {
        Self::new(error.to_string(), error.fix())
    }
}

/// Runs this command line in a guest; returns its exit code.
pub(crate) fn run(args: &EmulateArgs, scenario: &Scenario, interrupt: &Interrupt) -> Result<u8, Failure> {
    let options = &args.virtual_time;
    let mut command = Command::this_program()?.args(without_options(env::args_os().skip(1)));
    if let Some(path) = args.scenario.as_ref() {
        if path == OsStr::new("-") {
            return Err(Failure::new(
                "a guest has no standard input to read the scenario from",
                "write the scenario into a file, and name that",
            ));
        }
        // The name of a ready-made scenario is not one of a file.
        if path.exists() {
            command = command.file(path);
        }
    }
    if let Some(Some(config)) = &args.gateway {
        command = command.file(config);
    }
    for word in &args.command {
        command = command.mentioned(word);
    }
    for traffic in &scenario.traffic {
        if let Traffic::Real(real) = traffic {
            for text in [&real.command_from, &real.command_to].into_iter().flatten() {
                command = command.mentioned(text);
            }
        }
    }
    for path in &options.guest_file {
        command = if path.exists() { command.file(path).program_if_any(path) } else { command.program(path) };
    }
    match &args.output.out {
        Some(out) => {
            Folder::claim(out)?;
            command = command.output(out);
        }
        None => {
            for trace in ["cwnd.csv", "queue.csv", "mos.csv"] {
                command = command.output(trace);
            }
        }
    }
    let host_files = if options.host_files { HostFiles::Shared } else { HostFiles::Listed };
    let guest = Guest {
        kernel: options.kernel,
        host_files,
        timeout: PATIENCE,
        seed: scenario.seed,
        ..Guest::default()
    };
    if host_files == HostFiles::Listed && options.guest_file.is_empty() {
        for interpreter in command.interpreters()? {
            let has =
                if interpreter == "python" { "no modules but the standard library" } else { "no modules" };
            ui::remark(&format!(
                "the guest has {interpreter} and {has}: if a script needs more, add --guest-file FOLDER, or --host-files"
            ));
        }
    }
    let polling = interrupt.poll();
    let result =
        guest.run(&command, &mut anstream::stdout(), &mut anstream::stderr(), &|| interrupt.is_requested());
    drop(polling);
    match result {
        Ok(finished) => {
            ui::remark(&format!(
                "Linux {}: {:.1} s of virtual time in {:.0} s",
                finished.release,
                finished.virtual_time.as_secs_f64(),
                finished.wall_time.as_secs_f64()
            ));
            Ok(u8::try_from(finished.status).unwrap_or(exit::INPUT))
        }
        Err(GuestError::Interrupted) => {
            ui::remark("interrupted: the guest was ended, and its results are lost");
            Ok(exit::INTERRUPTED)
        }
        Err(error) => Err(error.into()),
    }
}

/// Arguments without [`OPTIONS`]. What follows `--` is the user's command and stays.
fn without_options(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            kept.push(argument);
            kept.extend(arguments.by_ref());
            break;
        }
        let text = argument.to_string_lossy();
        let name = text.split_once('=').map_or(&*text, |(name, _)| name);
        match OPTIONS.iter().find(|(option, _)| *option == name) {
            Some((_, true)) if !text.contains('=') => drop(arguments.next()),
            Some(_) => {}
            None => kept.push(argument),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn kept(line: &str) -> String {
        let kept = without_options(line.split_whitespace().map(OsString::from));
        kept.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn the_guest_gets_the_command_line_without_the_options_of_virtual_time() {
        assert_eq!(kept("emulate --virtual x --kernel 6.12 --seed 3"), "emulate x --seed 3");
        assert_eq!(kept("emulate --kernel=5.10 --host-files x --guest-file a --guest-file=b"), "emulate x");
        assert_eq!(kept("emulate x --virtual -- ls --kernel 1 --"), "emulate x -- ls --kernel 1 --");
    }

    #[test]
    fn every_option_of_virtual_time_is_known() {
        #[derive(clap::Parser)]
        struct Parser {
            #[command(flatten)]
            _args: VirtualArgs,
        }
        let mut names: Vec<_> = Parser::command()
            .get_arguments()
            .map(|argument| {
                (format!("--{}", argument.get_long().unwrap()), argument.get_action().takes_values())
            })
            .collect();
        let mut known: Vec<_> = OPTIONS.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        names.sort();
        known.sort();
        assert_eq!(names, known);
    }
}
