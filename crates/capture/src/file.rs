//! Captures in pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng), read packet by packet.
//!
//! The parser is the crate `pcap-parser`. Memory is one buffer, so that files of any size, pipes and captures in progress can be
//! read. A file may end within a packet, as one does whose writer was killed: what is before it counts.

use std::io::{self, Read};

use fairhop_model::units::Nanos;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, PcapHeader, create_reader};

/// Size of the buffer at the beginning, which holds hundreds of packets.
const BUFFER: usize = 1 << 20;
/// Maximum size of a block: comments and decryption secrets may be long, but not that long.
const MAX_BLOCK: usize = 64 << 20;
/// Maximum number of interfaces of a section; a file with more is damaged.
const MAX_INTERFACES: usize = 1 << 16;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file is empty.
    #[error("it is empty")]
    Empty,
    /// The file begins otherwise than a capture.
    #[error("it is no capture: it does not begin as pcap or pcapng does")]
    Unknown,
    /// The file begins as gzip does.
    #[error("it is compressed")]
    Compressed,
    /// The system cannot read it.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A packet of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When it was captured, since 1970.
    pub at: Nanos,
    /// How its first header is to be read, as `LINKTYPE_` number.
    pub link: i32,
    /// The bytes that were kept.
    pub bytes: &'a [u8],
}

/// How a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After a packet.
    Whole,
    /// Within a packet.
    Cut,
    /// At something that is no packet, this number of bytes after the beginning.
    Damaged(u64),
}

/// An interface of a pcapng section.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: i32,
    /// Units of its times per second.
    resolution: u64,
    /// Seconds to add.
    offset: i64,
}

/// What the readers of a section share.
#[derive(Debug, Default)]
struct Section {
    interfaces: Vec<Interface>,
    /// The header of a pcap file.
    header: Option<PcapHeader>,
    /// Time of the last packet: simple packets have none.
    last: Nanos,
}

/// A capture that is being read.
pub struct Capture<'a> {
    reader: Box<dyn PcapReaderIterator + 'a>,
    section: Section,
    read: u64,
}

/// Puts a few bytes back before a reader.
type Whole<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// Reads the first bytes, which tell what the file is.
fn recognised<R: Read>(mut source: R) -> Result<Whole<R>, CaptureError> {
    let mut first = Vec::with_capacity(4);
    source.by_ref().take(4).read_to_end(&mut first)?;
    match first.as_slice() {
        [] => Err(CaptureError::Empty),
        [0x1f, 0x8b, ..] => Err(CaptureError::Compressed),
        _ => Ok(io::Cursor::new(first).chain(source)),
    }
}

/// Makes the first read long enough: `pcap-parser` reads the header from whatever that read returns.
struct Full<R>(R);

impl<R: Read> Read for Full<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        // The first bytes suffice for any header; later reads may be short, so that a pipe is followed as it grows.
        let enough = into.len().min(64);
        while filled < enough {
            match self.0.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl<'a> Capture<'a> {
    /// Begins to read a capture.
    ///
    /// # Errors
    /// It is empty, no capture, or cannot be read.
    pub fn open(source: impl Read + Send + 'a) -> Result<Self, CaptureError> {
        let source = Full(recognised(source)?);
        let reader = create_reader(BUFFER, source).map_err(|error| match error {
            PcapError::ReadError => CaptureError::Io(io::Error::other("the file cannot be read")),
            _ => CaptureError::Unknown,
        })?;
        Ok(Self { reader, section: Section::default(), read: 0 })
    }

    /// Bytes read so far.
    pub const fn read(&self) -> u64 {
        self.read
    }

    /// Reads up to and including the next packet, which goes to `take`; at the end, how the capture ended.
    ///
    /// # Errors
    /// The system cannot read the file.
    pub fn next(&mut self, mut take: impl FnMut(&Packet<'_>)) -> Result<Option<End>, CaptureError> {
        loop {
            let more = match self.reader.next() {
                Ok((bytes, block)) => {
                    let packet = self.section.read(&block);
                    let is_packet = packet.is_some();
                    if let Some(packet) = packet {
                        take(&packet);
                    }
                    drop(block);
                    self.reader.consume(bytes);
                    self.read += bytes as u64;
                    if is_packet {
                        return Ok(None);
                    }
                    continue;
                }
                Err(PcapError::Eof) => return Ok(Some(End::Whole)),
                Err(PcapError::UnexpectedEof) => return Ok(Some(End::Cut)),
                Err(PcapError::Incomplete(missing)) => missing,
                Err(PcapError::ReadError) => {
                    return Err(CaptureError::Io(io::Error::other("the file cannot be read on")));
                }
                Err(_) => return Ok(Some(End::Damaged(self.read))),
            };
            let held = self.reader.data().len();
            if self.reader.reader_exhausted() {
                return Ok(Some(if held == 0 { End::Whole } else { End::Cut }));
            }
            // A block that does not fit needs a larger buffer.
            let needed = held.saturating_add(more.max(1));
            if needed > MAX_BLOCK {
                return Ok(Some(End::Damaged(self.read)));
            }
            if needed > BUFFER {
                self.reader.grow(needed.next_power_of_two());
            }
            match self.reader.refill() {
                Ok(()) | Err(PcapError::Eof) => {}
                Err(PcapError::ReadError) => {
                    return Err(CaptureError::Io(io::Error::other("the file cannot be read on")));
                }
                Err(_) => return Ok(Some(End::Damaged(self.read))),
            }
        }
    }
}

impl Section {
    /// Takes a block; returns its packet.
    fn read<'a>(&mut self, block: &'a PcapBlockOwned<'_>) -> Option<Packet<'a>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.header = Some(header.clone());
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let header = self.header.as_ref()?;
                let unit = if header.is_nanosecond_precision() { 1 } else { 1000 };
                let at = u64::from(packet.ts_sec) * NANOS_PER_SECOND + u64::from(packet.ts_usec) * unit;
                // The upper half of the link type says whether frames end in a check sequence.
                let link = header.network.0 & 0xffff;
                Some(Packet { at: Nanos(at), link, bytes: kept(packet.data, packet.caplen) })
            }
            PcapBlockOwned::NG(block) => self.read_block(block),
        }
    }

    fn read_block<'a>(&mut self, block: &'a Block<'_>) -> Option<Packet<'a>> {
        match block {
            Block::SectionHeader(_) => {
                self.interfaces.clear();
                None
            }
            Block::InterfaceDescription(interface) => {
                if self.interfaces.len() < MAX_INTERFACES {
                    self.interfaces.push(Interface {
                        link: interface.linktype.0,
                        resolution: interface.ts_resolution().unwrap_or(1_000_000).max(1),
                        offset: interface.ts_offset(),
                    });
                }
                None
            }
            Block::EnhancedPacket(packet) => {
                let interface = self.interfaces.get(packet.if_id as usize)?;
                let units = (u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low);
                let at = interface.time(units);
                self.last = at;
                Some(Packet { at, link: interface.link, bytes: kept(packet.data, packet.caplen) })
            }
            Block::SimplePacket(packet) => {
                let interface = self.interfaces.first()?;
                Some(Packet { at: self.last, link: interface.link, bytes: kept(packet.data, packet.origlen) })
            }
            _ => None,
        }
    }
}

impl Interface {
    fn time(&self, units: u64) -> Nanos {
        let nanos = u128::from(units) * u128::from(NANOS_PER_SECOND) / u128::from(self.resolution);
        let offset = i128::from(self.offset) * i128::from(NANOS_PER_SECOND);
        let at = i128::try_from(nanos).unwrap_or(i128::MAX).saturating_add(offset);
        Nanos(u64::try_from(at.max(0)).unwrap_or(u64::MAX))
    }
}

/// Without the padding.
fn kept(data: &[u8], length: u32) -> &[u8] {
    &data[..data.len().min(length as usize)]
}

/// The name of a link type, for people.
pub fn link_name(link: i32) -> String {
    Linktype(link).to_string()
}
