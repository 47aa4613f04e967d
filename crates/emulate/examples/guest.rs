//! Runs a command of this machine under another kernel in virtual time:
//! `cargo run --example guest -- 6.12 ip link`. Ctrl-C ends it.

use std::process::ExitCode;

use fairhop_emulate::guest::{Command, Guest};

#[allow(clippy::print_stderr)]
fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let kernel = arguments.next().and_then(|word| word.to_str()?.parse().ok());
    let (Some(kernel), Some(program)) = (kernel, arguments.next()) else {
        eprintln!("usage: guest 5.10|6.1|6.12 COMMAND [ARGUMENT...]");
        return ExitCode::from(2);
    };
    let guest = Guest { kernel, ..Guest::default() };
    let command = Command::new(program).args(arguments);
    match guest.run(&command, &mut std::io::stdout(), &mut std::io::stderr(), &|| false) {
        Ok(finished) => {
            eprintln!(
                "{}: status {}, {:.2} s of virtual time in {:.1} s",
                finished.release,
                finished.status,
                finished.virtual_time.as_secs_f64(),
                finished.wall_time.as_secs_f64()
            );
            ExitCode::from(u8::try_from(finished.status).unwrap_or(1))
        }
        Err(error) => {
            eprintln!("{error}; {}", error.fix());
            ExitCode::FAILURE
        }
    }
}
