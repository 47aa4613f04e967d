//! `fairhop analyze`: what a packet capture says of calls and TCP.

mod page;
mod plot;
mod tables;
mod text;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use fairhop_capture::file::{CaptureError, End, link_name};
use fairhop_capture::rtp::Listener;
use fairhop_capture::{Analysis, Found, Settings};
use fairhop_control::Network;
use fairhop_model::units::Nanos;
use fairhop_sim::output::PROGRAM;
use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::failure::{Failure, exit, reason};
use crate::folder::Folder;
use crate::interrupt::Interrupt;
use crate::new_file::NewFile;
use crate::progress::{bar, size};
use crate::ui;

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop analyze office.pcapng                        calls and TCP in a capture, as tables
  fairhop analyze roof.pcap --mesh 10.1.0.0/16         and what adaptive control would have asked for
  fairhop analyze roof.pcap --html roof.html           one page with graphs
  fairhop analyze roof.pcap --out roof                 Parquet tables, for Python and other programs
  ssh roof tcpdump -i br-mesh -U -w - | fairhop analyze -    a capture in progress, until Ctrl-C

pcap and pcapng are read, of Ethernet, raw IP, Linux cooked and 802.11 with radiotap.
docs/guides/read-a-capture.md explains the figures.";

/// Arguments of `fairhop analyze`.
#[derive(Args, Debug)]
pub(crate) struct AnalyzeArgs {
    /// A capture in pcap or pcapng, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Network of the mesh, of a capture between the mesh and its wired side: the adaptive controller looks on; repeatable
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    mesh: Vec<Network>,
    /// Playout delay of listeners after the fastest packet
    #[arg(long, value_name = "MS", default_value_t = default_listener().playout.as_millis_f64(), value_parser = milliseconds)]
    playout_ms: f64,
    /// End-to-end delay of a call's fastest packet, which a capture does not show
    #[arg(long, value_name = "MS", default_value_t = default_listener().min_delay.as_millis_f64(), value_parser = milliseconds)]
    delay_ms: f64,
    /// Number of calls and flows in the tables
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Print one JSON object instead of tables, with the seconds of each call and flow
    #[arg(long)]
    json: bool,
    /// Write Parquet tables into a new folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write one page with graphs, which needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The gateway's listener.
fn default_listener() -> Listener {
    Settings::default().listener
}

fn network(text: &str) -> Result<Network, String> {
    Network::read(text).ok_or_else(|| "write a network as 10.1.0.0/16, fd00::/8 or 10.1.0.4".to_owned())
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if (0.0..=10_000.0).contains(&number) {
        Ok(number)
    } else {
        Err("it is not between 0 and 10000".to_owned())
    }
}

/// A capture that was read, as the outputs need it.
struct Reading<'a> {
    /// Its name.
    name: &'a str,
    found: Found,
    /// What is worth knowing about the reading.
    remarks: Vec<String>,
    top: usize,
}

/// Reads the capture and reports; returns the exit code.
///
/// # Errors
/// The file cannot be read or is no capture, or a result cannot be written.
pub(crate) fn analyze(args: &AnalyzeArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let folder = args.out.as_deref().map(Folder::claim).transpose()?;
    let page = args.html.as_deref().map(|path| NewFile::claim("--html", path)).transpose()?;
    let settings = Settings {
        listener: Listener {
            playout: Nanos::from_millis_f64(args.playout_ms),
            min_delay: Nanos::from_millis_f64(args.delay_ms),
        },
        mesh: args.mesh.clone(),
    };
    let name =
        if is_standard_input(&args.file) { "standard input".into() } else { args.file.to_string_lossy() };
    let (source, bytes) = open(&args.file)?;
    let progress = Progress::new(bytes);
    let mut analysis = Analysis::new(settings);
    let end = {
        let _polling = interrupt.poll();
        analysis.read(source, |read| {
            progress.show(read);
            !interrupt.is_requested()
        })
    };
    progress.0.finish_and_clear();
    let end = end.map_err(|error| unreadable(&args.file, &error))?;
    let found = analysis.finish();
    let read = Reading { name: &name, remarks: remarks(&found, end), found, top: args.top };

    if let Some(folder) = &folder {
        let directory = folder.directory()?;
        let metadata = [("fairhop.program", PROGRAM.to_owned()), ("fairhop.capture", name.to_string())];
        for table in tables::of(&read.found) {
            let file = format!("{}.parquet", table.name);
            directory.write(&file, |out| table.write_parquet(out, &metadata))?;
        }
    }
    if let Some(page) = &page {
        page.write(page::of(&read).as_bytes())?;
    }
    ui::print(&if args.json { format!("{:#}\n", tables::json(&read)) } else { text::of(&read) })?;
    for remark in &read.remarks {
        ui::remark(remark);
    }
    let written = args.out.iter().map(|folder| format!("Tables are in {}.", folder.display()));
    for remark in written.chain(args.html.iter().map(|page| format!("The page is {}.", page.display()))) {
        ui::remark(&remark);
    }
    Ok(if end.is_none() { exit::INTERRUPTED } else { 0 })
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The capture, and its size if that is known.
fn open(path: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if is_standard_input(path) {
        return Ok((Box::new(io::stdin()), None));
    }
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.map_err(|error| {
        Failure::new(
            format!("cannot read {}: {}", path.display(), reason(&error)),
            "name a capture, as in `fairhop analyze roof.pcap`",
        )
    })?;
    Ok((Box::new(file), metadata.is_file().then_some(metadata.len())))
}

fn unreadable(path: &Path, error: &CaptureError) -> Failure {
    let help = match error {
        CaptureError::Compressed => {
            format!("decompress it: gzip -dc {} | fairhop analyze -", path.display())
        }
        CaptureError::Empty | CaptureError::Unknown => {
            "captures are made by tcpdump, dumpcap and Wireshark, and by `fairhop run --pcap`".to_owned()
        }
        CaptureError::Io(_) => "name a capture, as in `fairhop analyze roof.pcap`".to_owned(),
    };
    Failure::new(format!("cannot read {}: {error}", path.display()), help)
}

/// What was not as it should be.
fn remarks(found: &Found, end: Option<End>) -> Vec<String> {
    let counts = &found.counts;
    let mut remarks = Vec::new();
    match end {
        Some(End::Whole) => {}
        Some(End::Cut) => {
            remarks.push("The capture ends within a packet; all packets before it count.".to_owned());
        }
        Some(End::Damaged(at)) => {
            remarks.push(format!("The capture is damaged at byte {at}; what comes after that is not read."));
        }
        None => remarks.push("Interrupted: the figures are those of the packets so far.".to_owned()),
    }
    for (link, frames) in &counts.unknown {
        remarks.push(format!("{frames} frames of link type {} cannot be read.", link_name(*link)));
    }
    if counts.encrypted > 0 {
        remarks.push(format!(
            "{} 802.11 frames are encrypted: capture behind the decryption.",
            counts.encrypted
        ));
    }
    if counts.broken > 0 {
        remarks.push(format!("{} 802.11 frames have a wrong check sequence.", counts.broken));
    }
    if counts.forgotten > 0 {
        remarks.push(format!(
            "{} connections or streams are only counted: there are too many.",
            counts.forgotten
        ));
    }
    remarks
}

/// The progress bar, shown if standard error is a terminal.
struct Progress(ProgressBar);

impl Progress {
    fn new(bytes: Option<u64>) -> Self {
        let target =
            if ui::is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        // Without a size there is no bar, only what was read so far.
        Self(if bytes.is_some() { bar(bytes, target) } else { ProgressBar::with_draw_target(None, target) })
    }

    fn show(&self, read: u64) {
        self.0.set_position(read);
        self.0.set_message(size(read as f64));
    }
}
