//! A TCP flow, as it passes the gateway.
//!
//! **Round trips** of both sides, by sequence numbers and ACKs (from the last segment that an ACK acknowledges; none where
//! something was repeated: Karn) and, where an end sends nothing but ACKs, by timestamps (RFC 7323 §3: a value
//! that is echoed for the first time, as pping does). **Losses** in the mesh: of data into it, segments that pass again and are not acknowledged yet;
//! of data out of it, holes in what passes. A hole in data from the wired side is the Internet's loss, and what fills
//! it is no second loss.
//!
//! A receiver that answers every second segment holds the ACK of a single one back for up to half a second (RFC 5681
//! §4.2), which looks like a queue. So once a flow has shown ACKs of two segments, those of single ones give no sample.
//!
//! A flow whose SYNs have not been seen has no known window scale and is never clamped. Left out: SACK blocks (what has
//! been lost is seen from its repetition), Eifel detection of needless repetitions.

use fairhop_model::units::Nanos;

use super::meter::{HELD_LEAST, Meter, RoundTrip};
use crate::digest::{Direction, TcpFields, tcp_flag};

/// Whether sequence number `a` is before `b` (RFC 9293 §3.4).
pub(crate) const fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// A segment that has passed.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    /// Sequence number after it.
    end: u32,
    length: u32,
    at: Nanos,
}

/// Segments of one end that have passed and are not acknowledged, in their order: all of them, and where they are too many
/// every second, fourth, eighth one, so that however long a queue is, some tell of it.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    segments: [Pass; Self::MOST],
    /// Where the first one is, and how many there are.
    first: u8,
    count: u8,
    /// One of `1 << thinned` segments is kept; so many have passed since the last one that was.
    thinned: u8,
    skipped: u16,
}

impl Passed {
    const MOST: usize = 16;
    /// A thousand segments between two that are kept are more than a window needs.
    const THINNED_MOST: u8 = 10;

    const fn place(&self, index: usize) -> usize {
        (self.first as usize + index) % Self::MOST
    }

    fn clear(&mut self) {
        (self.first, self.count, self.thinned, self.skipped) = (0, 0, 0, 0);
    }

    fn add(&mut self, pass: Pass) {
        self.skipped += 1;
        if self.skipped < 1 << self.thinned {
            return;
        }
        self.skipped = 0;
        if usize::from(self.count) == Self::MOST {
            if self.thinned == Self::THINNED_MOST {
                return;
            }
            // The first one and every second one after it.
            for index in 0..Self::MOST / 2 {
                self.segments[self.place(index)] = self.segments[self.place(2 * index)];
            }
            self.count = (Self::MOST / 2) as u8;
            self.thinned += 1;
        }
        self.segments[self.place(self.count as usize)] = pass;
        self.count += 1;
    }

    /// The last one of those that are kept that an ACK covers, and when the one before it passed, if it covers two; they are
    /// forgotten.
    fn acknowledge(&mut self, ack: u32) -> Option<(Option<Nanos>, Pass)> {
        let mut covered: Option<(_, Pass)> = None;
        while self.count > 0 {
            let pass = self.segments[self.first as usize];
            if before(ack, pass.end) {
                break;
            }
            covered = Some((covered.map(|(_, last)| last.at), pass));
            self.first = self.place(1) as u8;
            self.count -= 1;
        }
        if covered.is_some() && self.count < (Self::MOST / 4) as u8 {
            self.thinned = self.thinned.saturating_sub(1);
        }
        covered
    }
}

/// What one end has sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct End {
    /// Its SYN has passed.
    syn: bool,
    /// Sequence number after the SYN.
    syn_end: Option<u32>,
    /// What it offers as window scale, if its SYN has passed.
    offered_scale: Option<u8>,
    mss: Option<u16>,
    started: bool,
    /// Sequence number after all that it has sent.
    next: u32,
    /// Highest acknowledgment that it has sent.
    acked: u32,
    has_acked: bool,
    /// Parts of the other's data that have not passed: up to two holes.
    holes: [(u32, u32); 2],
    /// Segments that have passed and are not acknowledged.
    passed: Passed,
    /// ACKs of two segments at once have come for what this end sends.
    pairs: bool,
    /// A timestamp that has not been echoed yet, and since when.
    waiting_echo: Option<(u32, Nanos)>,
    last_timestamp: u32,
    /// Payload bytes sent, repetitions too.
    pub sent: u64,
    /// Payload bytes that the other end has acknowledged.
    pub delivered: u64,
    /// Payload bytes that passed a second time.
    pub repeated: u64,
    /// Payload bytes that did not pass when their turn was.
    pub missed: u64,
}

/// A TCP flow.
#[derive(Clone, Copy, Debug)]
pub struct TcpFlow {
    wired: End,
    mesh: End,
    /// Round trip from the gateway through the mesh and back.
    pub mesh_rtt: RoundTrip,
    /// Round trip from the gateway through the wired side and back.
    pub wired_rtt: RoundTrip,
    /// IP bytes into the mesh.
    pub down: Meter,
    /// IP bytes out of the mesh.
    pub up: Meter,
    /// Packets with data into the mesh and out of it.
    down_segments: u64,
    up_segments: u64,
    closed: bool,
}

/// What a segment told of losses and progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Payload bytes that this segment acknowledges.
    pub(crate) acknowledged: u64,
    /// Payload bytes that the mesh must have lost.
    pub(crate) lost_in_mesh: u64,
}

impl TcpFlow {
    pub(crate) fn new() -> Self {
        Self {
            wired: End::default(),
            mesh: End::default(),
            mesh_rtt: RoundTrip::new(),
            wired_rtt: RoundTrip::new(),
            down: Meter::default(),
            up: Meter::default(),
            down_segments: 0,
            up_segments: 0,
            closed: false,
        }
    }

    /// Counts a segment.
    pub(crate) fn update(
        &mut self,
        now: Nanos,
        direction: Direction,
        bytes: u32,
        tcp: &TcpFields,
    ) -> Progress {
        let (sender, receiver, rtt) = match direction {
            Direction::ToMesh => {
                self.down.add(now, u64::from(bytes));
                self.down_segments += u64::from(tcp.payload_bytes > 0);
                (&mut self.wired, &mut self.mesh, &mut self.wired_rtt)
            }
            Direction::FromMesh => {
                self.up.add(now, u64::from(bytes));
                self.up_segments += u64::from(tcp.payload_bytes > 0);
                (&mut self.mesh, &mut self.wired, &mut self.mesh_rtt)
            }
        };
        let mut progress = Progress::default();
        if tcp.has(tcp_flag::RST) {
            self.closed = true;
            return progress;
        }
        self.closed |= tcp.has(tcp_flag::FIN);
        if tcp.has(tcp_flag::SYN) {
            // A new connection between the same ports, or the SYN again.
            if !sender.syn || sender.next != tcp.seq_end() {
                *sender = End { next: tcp.seq, ..End::default() };
                self.closed = false;
            }
            sender.syn = true;
            sender.syn_end = Some(tcp.seq_end());
            sender.started = true;
            sender.offered_scale = tcp.window_scale;
            sender.mss = tcp.mss;
        }
        // What it answers: the other side's sent data, and timestamps.
        if tcp.has(tcp_flag::ACK) {
            let is_new = !sender.has_acked || before(sender.acked, tcp.ack);
            progress.acknowledged = sender.acknowledge(tcp.ack);
            receiver.delivered += progress.acknowledged;
            let is_handshake = receiver.syn_end == Some(tcp.ack);
            let sample = receiver.answered(now, tcp.ack, progress.acknowledged);
            if let Some((sample, at_once)) = sample.filter(|_| is_new) {
                if is_handshake { rtt.shake(sample) } else { rtt.update(now, sample, at_once) }
            }
        }
        if let (Some((_, echo)), Some((value, sent))) = (tcp.timestamps, receiver.waiting_echo)
            && !before(echo, value)
        {
            rtt.update(now, now.saturating_sub(sent), true);
            receiver.waiting_echo = None;
        }
        // What it sends.
        let is_needed = !receiver.has_acked || before(receiver.acked, tcp.seq_end());
        let (repeated, missed) = sender.send(now, tcp);
        let repeated = if is_needed { repeated } else { 0 };
        progress.lost_in_mesh = match direction {
            Direction::ToMesh => repeated,
            Direction::FromMesh => missed,
        };
        progress
    }

    /// Window scales of what the wired and the mesh end advertise; none unless both SYNs have passed.
    pub const fn window_scales(&self) -> Option<(u8, u8)> {
        if !(self.wired.syn && self.mesh.syn) {
            return None;
        }
        // RFC 7323 §2.2: scaling only if both offer it.
        match (self.wired.offered_scale, self.mesh.offered_scale) {
            (Some(wired), Some(mesh)) => Some((wired, mesh)),
            _ => Some((0, 0)),
        }
    }

    /// The largest segment that either end takes in, where known; 536 (RFC 9293 §3.7.1) where not.
    pub fn mss(&self) -> u16 {
        const DEFAULT: u16 = 536;
        match (self.wired.mss, self.mesh.mss) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or(DEFAULT),
        }
        .max(1)
    }

    /// Which way its data goes.
    pub const fn data_direction(&self) -> Direction {
        if self.up_segments > self.down_segments { Direction::FromMesh } else { Direction::ToMesh }
    }

    /// Whether an end has said that it is done, or reset it.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// What the wired end has sent.
    pub const fn wired_end(&self) -> &End {
        &self.wired
    }

    /// What the mesh end has sent.
    pub const fn mesh_end(&self) -> &End {
        &self.mesh
    }

    /// Bytes of payload on their way, seen by the gateway and not acknowledged, in the direction of the data.
    pub const fn in_flight(&self) -> u32 {
        let (sender, receiver) = match self.data_direction() {
            Direction::ToMesh => (&self.wired, &self.mesh),
            Direction::FromMesh => (&self.mesh, &self.wired),
        };
        if receiver.has_acked && before(receiver.acked, sender.next) {
            sender.next.wrapping_sub(receiver.acked)
        } else {
            0
        }
    }
}

impl End {
    /// The round trip that an ACK tells which acknowledges `bytes` for the first time, as far as that is known, and whether
    /// it was surely not held back.
    fn answered(&mut self, now: Nanos, ack: u32, bytes: u64) -> Option<(Nanos, bool)> {
        let was_thinned = self.passed.thinned > 0;
        let (before, Pass { end, length, at }) = self.passed.acknowledge(ack)?;
        let are_many = was_thinned && bytes > u64::from(length);
        let is_pair = are_many || before.is_some();
        self.pairs |= is_pair;
        // The first of two that are far apart may have had an ACK of its own, which was lost.
        let at_once = are_many || before.is_some_and(|before| at.saturating_sub(before) < HELD_LEAST);
        let is_known = end == ack || was_thinned;
        (is_known && (is_pair || !self.pairs)).then(|| (now.saturating_sub(at), at_once))
    }

    /// Takes an acknowledgment that this end sends; returns by how much it goes on.
    fn acknowledge(&mut self, ack: u32) -> u64 {
        let step = if self.has_acked && before(self.acked, ack) { ack.wrapping_sub(self.acked) } else { 0 };
        if !self.has_acked || before(self.acked, ack) {
            self.acked = ack;
            self.has_acked = true;
        }
        u64::from(step)
    }

    /// Takes what this end sends; returns payload bytes that pass again, and that are missing before this segment.
    fn send(&mut self, now: Nanos, tcp: &TcpFields) -> (u64, u64) {
        let (seq, end) = (tcp.seq, tcp.seq_end());
        if let Some((value, _)) = tcp.timestamps {
            // Only the first segment with a value: its echo may answer any with the same.
            if tcp.payload_bytes == 0 && self.waiting_echo.is_none() && value != self.last_timestamp {
                self.waiting_echo = Some((value, now));
            }
            self.last_timestamp = value;
        }
        if !self.started {
            self.started = true;
            self.next = seq;
        }
        if seq == end {
            return (0, 0);
        }
        self.sent += u64::from(tcp.payload_bytes);
        if !before(seq, self.next) {
            let missed = seq.wrapping_sub(self.next);
            if missed > 0 {
                self.add_hole(self.next, seq);
                self.missed += u64::from(missed);
            }
            self.next = end;
            self.passed.add(Pass { end, length: end.wrapping_sub(seq), at: now });
            return (0, u64::from(missed));
        }
        // Earlier than what has passed: it fills a hole, or comes again.
        let fills = self.fill_hole(seq, end);
        if fills {
            // What came after the hole is acknowledged only now, however long ago it passed.
            self.passed.clear();
            return (0, 0);
        }
        if before(self.next, end) {
            self.next = end;
        }
        // Karn: what is acknowledged from here on may answer either.
        self.passed.clear();
        self.repeated += u64::from(tcp.payload_bytes);
        (u64::from(tcp.payload_bytes), 0)
    }

    fn add_hole(&mut self, from: u32, to: u32) {
        self.holes = [(from, to), self.holes[0]];
    }

    /// Takes a segment out of a hole, if it is in one.
    fn fill_hole(&mut self, seq: u32, end: u32) -> bool {
        for hole in &mut self.holes {
            let (from, to) = *hole;
            if from != to && !before(seq, from) && !before(to, end) {
                // What is left before it is given up; holes are mostly of one segment, or filled in order.
                *hole = (end, to);
                return true;
            }
        }
        false
    }
}
