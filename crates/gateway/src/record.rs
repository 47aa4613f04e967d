//! Recordings: the digests and decisions of a gateway in a file, and their replay elsewhere.
//!
//! A recording begins with a line of JSON ([`Header`]). Frames follow, all integers in little endian:
//!
//! | frame | bytes |
//! |---|---|
//! | digest | `D`, then the 104 bytes of [`RawDigest`] in the order of its fields |
//! | tick | `T`, time (u64, ns), waiting packets (u32), then [`Mark`]: the decision in 57 bytes |
//! | event | `E`, length (u32), then [`Event`] as JSON; not in format 1 |
//!
//! Addresses are in it, no payload: a digest has none. A file that ends early, as after a crash, is replayed up to there.

mod mark;
mod replay;
mod wire;

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fairhop_control::raw::RawDigest;
use fairhop_model::units::Nanos;
use serde::{Deserialize, Serialize};

pub use mark::{Mark, STATES};
pub use replay::{Difference, Outcome, replay};

use crate::engine::Engine;

/// Version of the format. Older ones are read, too.
pub const FORMAT: u32 = 2;
/// Longest header or event in bytes: a config has at most 8 MiB.
const MAX_JSON: u64 = 16 << 20;

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format: [`FORMAT`].
    pub fairhop_recording: u32,
    /// Version of the program.
    pub version: String,
    /// Name of the gateway.
    pub gateway: String,
    /// Mode: observe, dry-run or live.
    pub mode: String,
    /// Seconds since 1970 at the beginning.
    pub unix_s: f64,
    /// Whether the engine had seen packets before: a replay begins without them, and differs at first.
    pub began_in_the_middle: bool,
    /// The budget at the beginning, in bits per second times price.
    pub budget: Option<f64>,
    /// The networks that the machine was in at the beginning. Older recordings do not say, nor how long ACKs waited for the pace: all
    /// hosts count as local, so that no queue beyond the gateway is seen where there may be none.
    #[serde(default = "everywhere")]
    pub connected: Vec<String>,
    /// The text of the config.
    pub config: String,
}

fn everywhere() -> Vec<String> {
    vec!["::/0".into()]
}

/// What happens to an engine besides digests and ticks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// [`Engine::on_blind`]: the datapath was replaced.
    Blind,
    /// [`Engine::set`]: another mode, or another config.
    Set {
        /// Mode: observe, dry-run or live.
        mode: String,
        /// The text of the config.
        config: String,
    },
    /// [`Engine::set_connected`]: the machine is in other networks.
    Connected(Vec<String>),
}

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A packet.
    Digest(RawDigest),
    /// What has changed.
    Event(Event),
    /// A decision.
    Tick {
        /// When.
        now: Nanos,
        /// Packets in the data pacer.
        waiting: u32,
        /// What was decided.
        mark: Mark,
    },
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is no recording.
    #[error("{path} is not a recording of `fairhop gateway record`: {reason}")]
    Format {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

/// Writes a recording, up to a number of bytes.
#[derive(Debug)]
pub struct Recorder {
    out: BufWriter<File>,
    path: PathBuf,
    bytes: u64,
    max_bytes: u64,
    /// When it ends; none for the end of the daemon.
    until: Option<Nanos>,
}

impl Recorder {
    /// Begins a recording. It ends at `until`, or when it has `max_bytes`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(path: &Path, header: &Header, until: Option<Nanos>, max_bytes: u64) -> io::Result<Self> {
        // For its owner alone: it has the addresses of users.
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
        let mut out = BufWriter::new(file);
        let line = serde_json::to_string(header)?;
        writeln!(out, "{line}")?;
        out.flush()?;
        Ok(Self { out, path: path.to_owned(), bytes: line.len() as u64 + 1, max_bytes, until })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a digest.
    ///
    /// # Errors
    /// The disk is full.
    pub fn digest(&mut self, digest: &RawDigest) -> io::Result<()> {
        self.write(b'D', &wire::digest_bytes(digest))
    }

    /// Adds the decision of a tick.
    ///
    /// # Errors
    /// The disk is full.
    pub fn tick(&mut self, now: Nanos, waiting: u32, engine: &Engine) -> io::Result<()> {
        let mut bytes = [0; wire::TICK_BYTES];
        bytes[..8].copy_from_slice(&now.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&waiting.to_le_bytes());
        bytes[12..].copy_from_slice(&Mark::of(engine).bytes());
        self.write(b'T', &bytes)
    }

    /// Adds what has happened besides.
    ///
    /// # Errors
    /// The disk is full.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        let text = serde_json::to_vec(event)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        self.write(b'E', &[&length.to_le_bytes()[..], &text].concat())
    }

    fn write(&mut self, tag: u8, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(&[tag])?;
        self.out.write_all(bytes)?;
        self.bytes += 1 + bytes.len() as u64;
        Ok(())
    }

    /// Whether it is complete.
    pub fn is_over(&self, now: Nanos) -> bool {
        self.bytes >= self.max_bytes || self.until.is_some_and(|until| now >= until)
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The disk is full.
    pub fn end(mut self) -> io::Result<PathBuf> {
        self.out.flush()?;
        Ok(self.path)
    }
}

/// Reads a recording frame by frame.
#[derive(Debug)]
pub struct Reader<R> {
    header: Header,
    input: R,
}

impl Reader<BufReader<File>> {
    /// Opens a recording.
    ///
    /// # Errors
    /// It cannot be read, or is no recording.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| RecordError::Io { path: name.clone(), source })?;
        Self::new(&name, BufReader::new(file))
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the header; `name` is that of the file in errors.
    ///
    /// # Errors
    /// It is no recording.
    pub fn new(name: &str, mut input: R) -> Result<Self, RecordError> {
        let mut line = Vec::new();
        input
            .by_ref()
            .take(MAX_JSON)
            .read_until(b'\n', &mut line)
            .map_err(|source| RecordError::Io { path: name.to_owned(), source })?;
        let format = |reason: String| RecordError::Format { path: name.to_owned(), reason };
        let header: Header = serde_json::from_slice(&line).map_err(|error| format(error.to_string()))?;
        if !(1..=FORMAT).contains(&header.fairhop_recording) {
            let version = header.fairhop_recording;
            return Err(format(format!(
                "it has format {version}, and this program reads up to format {FORMAT}; use the version that wrote it"
            )));
        }
        Ok(Self { header, input })
    }

    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The next frame; none at the end, and where the file was cut or makes no sense any more.
    pub fn next_frame(&mut self) -> Option<Frame> {
        let mut tag = [0];
        self.input.read_exact(&mut tag).ok()?;
        match tag[0] {
            b'D' => {
                let mut bytes = [0; wire::DIGEST_BYTES];
                self.input.read_exact(&mut bytes).ok()?;
                Some(Frame::Digest(wire::digest_of(&bytes)))
            }
            b'E' => {
                let mut length = [0; 4];
                self.input.read_exact(&mut length).ok()?;
                let length = u64::from(u32::from_le_bytes(length));
                let mut text = Vec::new();
                self.input.by_ref().take(length.min(MAX_JSON)).read_to_end(&mut text).ok()?;
                serde_json::from_slice(&text).ok().map(Frame::Event)
            }
            b'T' => {
                let mut bytes = [0; wire::TICK_BYTES];
                self.input.read_exact(&mut bytes).ok()?;
                let (head, mark) = bytes.split_at(12);
                Some(Frame::Tick {
                    now: Nanos(u64::from_le_bytes(*head.first_chunk()?)),
                    waiting: u32::from_le_bytes(*head[8..].first_chunk()?),
                    mark: Mark::read(mark.first_chunk()?)?,
                })
            }
            _ => None,
        }
    }
}
