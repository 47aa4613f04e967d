//! What a packet capture says of calls and TCP.
//!
//! [`Analysis`] reads pcap and pcapng packet by packet in bounded memory, so that captures of any size can be read:
//!
//! | module | what it finds |
//! |---|---|
//! | [`mod@file`] | packets and their times |
//! | [`link`] | the IP packet in a frame |
//! | [`rtp`] | streams of RTP: loss, jitter, call quality second by second |
//! | [`tcp`] | connections: goodput, round trips, retransmissions |
//! | [`fairness`] | how equally connections share |
//! | `budget` | what the adaptive controller would have asked for |
//! | [`histogram`] | quantiles of times |
//!
//! Headers of IP, TCP, UDP and RTP are read by [`fairhop_control::digest`], as the gateway does.
//!
//! Left out: fragments after the first, tunnels, encrypted 802.11 frames, aggregates of them, RTCP.

mod budget;
mod copies;
pub mod fairness;
pub mod file;
pub mod histogram;
pub mod link;
pub mod rtp;
pub mod tcp;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use fairhop_control::digest::{Digest, Direction, Payload, RtpFields, TcpFields};
use fairhop_control::{Decision, Network, ObserverConfig};
use fairhop_model::units::Nanos;

use budget::Budget;
use copies::Copies;
use file::{Capture, CaptureError, End, Packet};
use histogram::Detail;
use link::Content;
use rtp::{Candidate, Ends, Listener, Stream};
use tcp::Connection;

/// Connections and streams that are known at a time, each. Of more, those that were silent longest are only counted.
const MAX_FLOWS: usize = 1 << 15;
/// Connections that begin among so many are kept in less detail.
const MANY: usize = 1000;
/// UDP flows that may become streams.
const MAX_CANDIDATES: usize = 1 << 14;

/// What to assume.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What is assumed of listeners.
    pub listener: Listener,
    /// The networks of the mesh, for the budget; empty for none.
    pub mesh: Vec<Network>,
}

impl Default for Settings {
    /// The gateway's assumptions, and no mesh.
    fn default() -> Self {
        let ObserverConfig { playout, min_delay, .. } = ObserverConfig::default();
        Self { listener: Listener { playout, min_delay }, mesh: Vec::new() }
    }
}

/// Frames of a capture by what they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames.
    pub frames: u64,
    /// IP packets, without copies.
    pub packets: u64,
    /// IP bytes of these.
    pub bytes: u64,
    /// Copies of packets: attempts on the air, other hops, other interfaces.
    pub copies: u64,
    /// Frames without IP.
    pub other: u64,
    /// Encrypted 802.11 frames.
    pub encrypted: u64,
    /// 802.11 frames with a wrong check sequence.
    pub broken: u64,
    /// Frames of link types that are not known, by link type.
    pub unknown: BTreeMap<i32, u64>,
    /// TCP packets, without copies.
    pub tcp: u64,
    /// UDP packets, without copies.
    pub udp: u64,
    /// Connections and streams that are only counted, since there were too many.
    pub forgotten: u64,
}

/// Reads a capture.
#[derive(Debug)]
pub struct Analysis {
    settings: Settings,
    counts: Counts,
    began: Option<Nanos>,
    ended: Nanos,
    copies: Copies,
    streams: HashMap<(Ends, u32), Stream>,
    candidates: HashMap<(Ends, u32), Candidate>,
    /// By the smaller end first.
    connections: HashMap<Ends, Connection>,
    /// Connections and streams whose ports were used again.
    closed: (Vec<Connection>, Vec<Stream>),
    budget: Option<Budget>,
}

/// What a capture says.
#[derive(Debug)]
pub struct Found {
    /// What was assumed.
    pub settings: Settings,
    /// Frames.
    pub counts: Counts,
    /// Time of the first frame, since 1970; none without any.
    pub began: Option<Nanos>,
    /// Time of the last frame.
    pub ended: Nanos,
    /// Streams of RTP in the order of their beginnings.
    pub streams: Vec<Stream>,
    /// Connections in the order of their bytes, the largest first.
    pub connections: Vec<Connection>,
    /// What the controller would have decided; none without networks of the mesh.
    pub decisions: Option<Vec<Decision>>,
    /// Packets that crossed the edge of the mesh, and those that did not.
    pub crossed: (u64, u64),
}

impl Analysis {
    /// An analysis that has read nothing.
    pub fn new(settings: Settings) -> Self {
        let Listener { playout, min_delay } = settings.listener;
        let observer = ObserverConfig { playout, min_delay, ..ObserverConfig::default() };
        let budget = (!settings.mesh.is_empty()).then(|| Budget::new(settings.mesh.clone(), observer));
        Self {
            settings,
            counts: Counts::default(),
            began: None,
            ended: Nanos::ZERO,
            copies: Copies::new(),
            streams: HashMap::new(),
            candidates: HashMap::new(),
            connections: HashMap::new(),
            closed: (Vec::new(), Vec::new()),
            budget,
        }
    }

    /// Reads a capture to its end, or until `goes_on`, which learns the number of bytes read, says no; how it ended, or nothing
    /// if it was stopped.
    ///
    /// # Errors
    /// It is no capture, or cannot be read.
    pub fn read(
        &mut self,
        source: impl Read + Send,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> Result<Option<End>, CaptureError> {
        let mut capture = Capture::open(source)?;
        loop {
            if let Some(end) = capture.next(|packet| self.add(packet))? {
                return Ok(Some(end));
            }
            // Often enough for people, seldom enough for speed.
            if self.counts.frames.is_multiple_of(4096) && !goes_on(capture.read()) {
                return Ok(None);
            }
        }
    }

    /// Takes a frame.
    pub fn add(&mut self, frame: &Packet<'_>) {
        self.counts.frames += 1;
        self.began.get_or_insert(frame.at);
        self.ended = self.ended.max(frame.at);
        let counts = &mut self.counts;
        let packet = match Content::of(frame.link, frame.bytes) {
            Content::Ip(packet) => Ok(packet),
            Content::Wireless(_, sent) if self.copies.is_repeated(sent) => Err(&mut counts.copies),
            Content::Wireless(packet, _) => Ok(packet),
            Content::Other => Err(&mut counts.other),
            Content::Encrypted => Err(&mut counts.encrypted),
            Content::Broken => Err(&mut counts.broken),
            Content::Unknown => Err(counts.unknown.entry(frame.link).or_default()),
        };
        let packet = match packet {
            Ok(packet) => packet,
            Err(count) => {
                *count += 1;
                return;
            }
        };
        // Which way it crosses a gateway is decided later, where there is one.
        let Some(digest) = Digest::read(frame.at, Direction::ToMesh, packet) else {
            self.counts.other += 1;
            return;
        };
        let whole = packet.len().min(digest.bytes as usize);
        if self.copies.is_copy(frame.at, &packet[..whole]) {
            self.counts.copies += 1;
            return;
        }
        self.counts.packets += 1;
        self.counts.bytes += u64::from(digest.bytes);
        let ends = Ends::of(&digest);
        match &digest.payload {
            Payload::Tcp(tcp) => {
                self.counts.tcp += 1;
                self.tcp(&digest, ends, tcp);
            }
            Payload::Rtp(rtp) => {
                self.counts.udp += 1;
                self.rtp(&digest, ends, rtp);
            }
            Payload::Rtcp(_) | Payload::Udp => self.counts.udp += 1,
            Payload::Other => {}
        }
        if let Some(budget) = &mut self.budget {
            // Captures of several interfaces may be a little out of order.
            budget.add(&Digest { at: self.ended, ..digest });
        }
    }

    fn tcp(&mut self, digest: &Digest, ends: Ends, tcp: &TcpFields) {
        let key = ends.min(ends.reversed());
        if self.connections.len() >= MAX_FLOWS && !self.connections.contains_key(&key) {
            forget_half(&mut self.connections, |connection| connection.ended, &mut self.counts.forgotten);
        }
        let detail = if self.connections.len() < MANY { Detail::Full } else { Detail::Coarse };
        let connection = self.connections.entry(key).or_insert_with(|| Connection::new(ends, detail));
        if connection.is_reopened_by(tcp) {
            let ended = std::mem::replace(connection, Connection::new(ends, detail));
            if self.closed.0.len() < MAX_FLOWS {
                self.closed.0.push(ended);
            } else {
                self.counts.forgotten += 1;
            }
        }
        connection.add(digest.at, digest.bytes, &ends, tcp);
    }

    fn rtp(&mut self, digest: &Digest, ends: Ends, rtp: &RtpFields) {
        let (key, listener) = ((ends, rtp.ssrc), self.settings.listener);
        match self.streams.get_mut(&key) {
            Some(stream) if stream.continues(digest.at, rtp) => {
                stream.add(digest.at, digest.bytes, rtp, listener);
                return;
            }
            Some(_) => {
                // It counts again once the new numbers have gone on for a while.
                if let Some(mut ended) = self.streams.remove(&key)
                    && self.closed.1.len() < MAX_FLOWS
                {
                    ended.settle(listener);
                    self.closed.1.push(ended);
                }
            }
            None => {}
        }
        if self.candidates.len() >= MAX_CANDIDATES && !self.candidates.contains_key(&key) {
            forget_half(&mut self.candidates, Candidate::ended, &mut 0);
        }
        let candidate = self.candidates.entry(key).or_insert_with(|| Candidate::new(ends));
        if let Some(stream) = candidate.add(digest.at, digest.bytes, rtp, listener) {
            self.candidates.remove(&key);
            if self.streams.len() >= MAX_FLOWS {
                forget_half(&mut self.streams, |stream| stream.ended, &mut self.counts.forgotten);
            }
            self.streams.insert(key, stream);
        }
    }

    /// What was found.
    pub fn finish(self) -> Found {
        let Self { settings, counts, began, ended, streams, connections, closed, budget, .. } = self;
        let (mut all_connections, mut all_streams) = closed;
        all_connections.extend(connections.into_values());
        all_streams.extend(streams.into_values().map(|mut stream| {
            stream.settle(settings.listener);
            stream
        }));
        let size = |connection: &Connection| connection.directions.iter().map(|way| way.bytes).sum::<u64>();
        all_connections.sort_by_key(|one| (std::cmp::Reverse(size(one)), one.directions[0].ends));
        all_streams.sort_by_key(|one| (one.began, one.ends, one.ssrc));
        let crossed = budget.as_ref().map_or((0, 0), |budget| (budget.crossed, budget.elsewhere));
        Found {
            settings,
            counts,
            began,
            ended,
            streams: all_streams,
            connections: all_connections,
            decisions: budget.map(|budget| budget.decisions),
            crossed,
        }
    }
}

/// Removes the half of a map that was silent longest.
fn forget_half<K, V>(map: &mut HashMap<K, V>, ended: impl Fn(&V) -> Nanos, forgotten: &mut u64) {
    let mut times: Vec<Nanos> = map.values().map(&ended).collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let (median, before) = (*median, map.len());
    map.retain(|_, value| ended(value) > median);
    *forgotten += (before - map.len()) as u64;
}

impl Found {
    /// Seconds from the first frame to a time.
    pub fn since(&self, at: Nanos) -> f64 {
        self.began.map_or(0.0, |began| at.saturating_sub(began).as_secs_f64())
    }

    /// The directions of connections that have data, the largest first.
    pub fn flows(&self) -> Vec<(&Connection, &tcp::Direction)> {
        let with_data = |connection| -> [(&Connection, &tcp::Direction); 2] {
            let connection: &Connection = connection;
            connection.directions.each_ref().map(|way| (connection, way))
        };
        let mut flows: Vec<_> = self.connections.iter().flat_map(with_data).collect();
        flows.retain(|(_, way)| way.data_packets > 0);
        flows.sort_by_key(|(_, way)| (std::cmp::Reverse(way.goodput_bytes), way.ends));
        flows
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is found in bytes that may be no capture.
    fn found(bytes: &[u8]) -> Option<Found> {
        let mesh = Network::read("10.77.0.0/16").into_iter().collect();
        let mut analysis = Analysis::new(Settings { mesh, ..Settings::default() });
        analysis.read(bytes, |_| true).ok()?;
        Some(analysis.finish())
    }

    const CAPTURE: &[u8] = include_bytes!("../../cli/tests/captures/sipp-iperf3-raw.pcap");

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn a_capture_with_any_changed_bytes_can_be_read_and_its_counts_add_up(
            changes in prop::collection::vec((0..CAPTURE.len(), any::<u8>()), 0..200),
            length in prop_oneof![Just(CAPTURE.len()), 0..CAPTURE.len()],
        ) {
            let mut bytes = CAPTURE.to_vec();
            changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            bytes.truncate(length);
            let Some(found) = found(&bytes) else { return Ok(()) };
            let counts = &found.counts;
            let unknown: u64 = counts.unknown.values().sum();
            let sum = counts.packets + counts.copies + counts.other + counts.encrypted + counts.broken + unknown;
            prop_assert_eq!(sum, counts.frames);
            let (crossed, elsewhere) = found.crossed;
            prop_assert_eq!(crossed + elsewhere, counts.packets);
            for stream in &found.streams {
                prop_assert!(stream.received <= stream.expected());
                let mos = stream.mos(found.settings.listener);
                prop_assert!(mos.is_none_or(|mos| (1.0..=4.5).contains(&mos)), "{mos:?}");
            }
            for (_, flow) in found.flows() {
                prop_assert!(flow.goodput_bytes <= flow.payload);
            }
        }
    }
}
