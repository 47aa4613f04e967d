//! `fairhop aimd`: a stream of AIMD datagrams between two hosts over UDP, driven by the machines of
//! [`fairhop_transport::aimd`].
//!
//! | module | what it is |
//! |---|---|
//! | [`send`], [`receive`] | the two ends |
//! | [`measure`] | statistics of a stream, and the line that shows them live |
//! | [`socket`] | addresses, and the socket with timeouts |
//!
//! One thread, one socket: send what the machine has to send, then wait for the socket until the machine's next timer.
//! Clocks of two hosts differ, so one-way delays are given above the minimum of the stream.

pub(crate) mod measure;
mod receive;
mod send;
pub(crate) mod socket;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop aimd receive --bind 192.0.2.7     on one host, at its own address
  fairhop aimd send 192.0.2.7               on the other: as fast as the path allows, for 10 s
  fairhop aimd send 192.0.2.7 --payload 85 --rate-limit 136 --duration 60

`fairhop aimd help send` and `fairhop aimd help receive` say more.";

const SEND_EXAMPLES: &str = "\
Examples:
  fairhop aimd send 192.0.2.7                     AIMD(0.2, 0.875), as fast as the path allows
  fairhop aimd send host.example:5000 --beta 0.5  like TCP: AIMD(1, 0.5)
  fairhop aimd send 192.0.2.7 --rate-limit 500 --duration 60
  fairhop aimd send 192.0.2.7 --json | jq .delay_ms.p95";

const RECEIVE_EXAMPLES: &str = "\
Examples:
  fairhop aimd receive                      from this host only
  fairhop aimd receive --bind 192.0.2.7     from other hosts, at this address
  fairhop aimd receive --bind 0.0.0.0       from other hosts, at every address
  fairhop aimd receive --rwnd 20            at most 20 packets outstanding (see `fairhop outage`)
  fairhop aimd receive --bind 192.0.2.7:5000 --once --json";

/// Arguments of `fairhop aimd`.
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
/// An address cannot be used, no answer comes, or the output cannot be written.
pub(crate) fn aimd(args: &AimdArgs) -> Result<u8, Failure> {
    match &args.end {
        End::Send(args) => send::send(args),
        End::Receive(args) => receive::receive(args),
    }
}
