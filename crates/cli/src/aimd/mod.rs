//! `fairhop aimd`: a stream of AIMD datagrams between two hosts over UDP, driven by the machines of
//! [`fairhop_transport::aimd`].
//!
//! | module | what it is |
//! |---|---|
//! | [`send`], [`receive`] | the two ends |
//! | [`measure`] | what is measured while a stream runs, the line that shows it, and the summary |
//!
//! One thread, one socket: what the machine wants to send is sent, then the socket is waited for until the machine's
//! next timer. Clocks of two hosts differ, so that one-way delays are told over the shortest of the stream.

mod measure;
mod receive;
mod send;

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use fairhop_model::units::Nanos;

use crate::failure::Failure;

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop aimd receive                      on one host
  fairhop aimd send 192.0.2.7               on the other: as fast as the path carries, for 10 s
  fairhop aimd send 192.0.2.7 --payload 85 --rate-limit 136 --duration 60

`fairhop aimd help send` and `fairhop aimd help receive` tell more.";

const SEND_EXAMPLES: &str = "\
Examples:
  fairhop aimd send 192.0.2.7                     AIMD(0.2, 0.875) as fast as the path carries
  fairhop aimd send host.example:5000 --beta 0.5  as TCP: AIMD(1, 0.5)
  fairhop aimd send 192.0.2.7 --rate-limit 500 --duration 60
  fairhop aimd send 192.0.2.7 --json | jq .delay_ms.p95";

const RECEIVE_EXAMPLES: &str = "\
Examples:
  fairhop aimd receive
  fairhop aimd receive --rwnd 20            never more than 20 packets on the way (`fairhop outage`)
  fairhop aimd receive --bind 192.0.2.7:5000 --once --json";

/// Where a receiver listens unless told otherwise.
const DEFAULT_PORT: u16 = 24024;

/// No wait for the socket is longer, so that Ctrl-C is obeyed at once and the line on the screen moves.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// What `fairhop aimd` is asked to do.
#[derive(Args, Debug)]
pub(crate) struct AimdArgs {
    #[command(subcommand)]
    end: End,
}

#[derive(Debug, Subcommand)]
enum End {
    /// Send a stream to a host where `fairhop aimd receive` runs
    #[command(after_help = SEND_EXAMPLES)]
    Send(send::SendArgs),
    /// Receive streams, one after another
    #[command(after_help = RECEIVE_EXAMPLES)]
    Receive(receive::ReceiveArgs),
}

/// Sends or receives.
///
/// # Errors
/// A host or port cannot be had, nobody answers, or the output cannot be written.
pub(crate) fn aimd(args: &AimdArgs) -> Result<u8, Failure> {
    match &args.end {
        End::Send(args) => send::send(args),
        End::Receive(args) => receive::receive(args),
    }
}

/// Time since a stream or the program began.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Waits for the socket, but not past `until` and never longer than [`LONGEST_WAIT`].
fn wait_at_most(socket: &UdpSocket, clock: Clock, until: Option<Nanos>) -> io::Result<()> {
    /// A timeout of zero would be none at all.
    const SHORTEST: Duration = Duration::from_micros(100);
    let left = until.map(|until| Duration::from_nanos(until.saturating_sub(clock.now()).0));
    let wait = left.unwrap_or(LONGEST_WAIT).clamp(SHORTEST, LONGEST_WAIT);
    socket.set_read_timeout(Some(wait))
}

/// Whether a wait for the socket ended without a packet.
fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Whether the other host said that nobody has the port.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)
}

fn seconds(text: &str) -> Result<f64, String> {
    const MOST: f64 = 1e6;
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= MOST => Ok(s),
        Ok(_) => Err(format!("more than 0 and at most {MOST} s is meant")),
        Err(_) => Err("a number of seconds is meant, without a unit".to_owned()),
    }
}
