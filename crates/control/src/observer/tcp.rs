//! A TCP flow, as it passes the gateway.
//!
//! **Round trips** of both sides are measured by sequence numbers and ACKs: from the last segment that an ACK covers, and not
//! after a retransmission (Karn's rule). Where an end sends only ACKs, timestamps are used (RFC 7323 §3): from the value of an
//! ACK to its echo in the new data that the ACK releases.
//!
//! **Losses** in the mesh: of data into the mesh, segments that pass again before they are acknowledged; of data out of the
//! mesh, holes in the sequence. A hole in data from the wired side is the Internet's loss, and the segment that fills it is not
//! a second one.
//!
//! A receiver that acknowledges every second segment delays the ACK of a single one by up to half a second (RFC 5681 §4.2),
//! which looks like a queue. Its ACK is *prompt* in two cases: it acknowledges two segments that passed close to each other,
//! or the receiver has just acknowledged two such segments one by one, so that it delays nothing now. Where the first of the two
//! was pushed (PSH), that says nothing of the second: Linux answers a pushed segment at once, and its senders push a segment after
//! every half of the largest window that they were offered, which is every second one under a clamp of two.
//!
//! What is **in flight** into the mesh, without the segment that the receiver may hold back, is in the mesh or in its queues:
//! over the rate, that is a lower bound of the round trip which no delay of ACKs can raise (Little's law). While a flow
//! recovers from a loss, its receiver has more than it acknowledges, and the flow shows nothing.
//!
//! A flow whose SYNs have not been seen has no known window scale and is never clamped. Left out: SACK blocks (losses are
//! seen by retransmissions), Eifel detection of spurious retransmissions.

use fairhop_model::units::Nanos;

use super::meter::{MeshRoundTrip, Meter, RoundTrip, UplinkRoundTrip};
use crate::digest::{Digest, Direction, TcpFields, tcp_flag};

/// Packets that are larger have been put together by the receiving interface (GRO).
const MAX_PACKET: u32 = 9000;
/// Part of the maximum segment size that a full segment has at least: beside options of 40 bytes (RFC 9293 §3.1), a tunnel on the
/// path may take room (1,280 bytes at least, RFC 8200 §5).
const FULL_PART: f64 = 0.75;
/// Data that decide the direction of a flow, in bytes: a connection that has downloaded for an hour may begin to upload.
const RECENT_BYTES: u32 = 256 << 10;
/// An upload has sent at least this number of full segments. A request with large cookies has one; a control connection has none, so
/// that half and twice the number change nothing for it.
const UPLOAD_SEGMENTS: u64 = 2;
/// Two segments within this time are close: shorter than any delay of an ACK, so that the receiver has both before it would
/// acknowledge the first alone.
const CLOSE: Nanos = Nanos::from_millis(15);
/// How long a receiver that acknowledges single segments is believed to go on. Linux changes between the two (quick ACKs).
const SINGLES_FOR: Nanos = Nanos::from_millis(500);

/// Whether sequence number `a` is before `b` (RFC 9293 §3.4).
pub(crate) const fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// A segment that has passed and is not acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// Sequence number after it.
    end: u32,
    /// Its length, and [`Segment::PUSHED`].
    length_and_push: u32,
    at: Nanos,
}

impl Segment {
    /// It has PSH. In the length, since there are many flows with 16 segments each.
    const PUSHED: u32 = 1 << 31;

    const fn new(length: u32, end: u32, is_pushed: bool, at: Nanos) -> Self {
        let push = if is_pushed { Self::PUSHED } else { 0 };
        Self { end, length_and_push: length & !Self::PUSHED | push, at }
    }

    const fn length(&self) -> u32 {
        self.length_and_push & !Self::PUSHED
    }

    const fn is_pushed(&self) -> bool {
        self.length_and_push & Self::PUSHED != 0
    }
}

/// Unacknowledged segments of one end, in their order. If they are too many, only every second, fourth, eighth one is kept,
/// so that round trips are measured however long a queue is.
#[derive(Clone, Copy, Debug, Default)]
struct Unacked {
    segments: [Segment; Self::MAX],
    /// Place of the first one, and their number.
    first: u8,
    count: u8,
    /// One of `1 << thinning` segments is kept; `skipped` have passed since the last one that was.
    thinning: u8,
    skipped: u16,
}

impl Unacked {
    const MAX: usize = 16;
    /// 1024 segments between two that are kept are more than a window has.
    const MAX_THINNING: u8 = 10;

    const fn place(&self, index: usize) -> usize {
        (self.first as usize + index) % Self::MAX
    }

    const fn clear(&mut self) {
        (self.first, self.count, self.thinning, self.skipped) = (0, 0, 0, 0);
    }

    fn add(&mut self, pass: Segment) {
        self.skipped += 1;
        if self.skipped < 1 << self.thinning {
            return;
        }
        self.skipped = 0;
        if usize::from(self.count) == Self::MAX {
            if self.thinning == Self::MAX_THINNING {
                return;
            }
            // Keep every second one, beginning with the first.
            for index in 0..Self::MAX / 2 {
                self.segments[self.place(index)] = self.segments[self.place(2 * index)];
            }
            self.count = (Self::MAX / 2) as u8;
            self.thinning += 1;
        }
        self.segments[self.place(self.count as usize)] = pass;
        self.count += 1;
    }

    /// When the first one passed.
    fn first_at(&self) -> Option<Nanos> {
        (self.count > 0).then(|| self.segments[self.first as usize].at)
    }

    /// Removes the segments that an ACK covers. Returns the last of them, and when the one before it passed.
    fn acknowledge(&mut self, ack: u32) -> Option<(Option<Nanos>, Segment)> {
        let mut covered: Option<(_, Segment)> = None;
        while self.count > 0 {
            let pass = self.segments[self.first as usize];
            if before(ack, pass.end) {
                break;
            }
            covered = Some((covered.map(|(_, last)| last.at), pass));
            self.first = self.place(1) as u8;
            self.count -= 1;
        }
        if covered.is_some() && self.count < (Self::MAX / 4) as u8 {
            self.thinning = self.thinning.saturating_sub(1);
        }
        covered
    }
}

/// A round trip that an ACK shows.
#[derive(Clone, Copy, Debug)]
struct Sample {
    time: Nanos,
    /// It acknowledges at least two segments that passed within [`CLOSE`].
    is_pair: bool,
    /// It was certainly not delayed.
    is_prompt: bool,
}

/// The state of one end: what it has sent and acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct End {
    /// Its SYN has passed.
    syn: bool,
    /// Sequence number after the SYN.
    syn_end: Option<u32>,
    /// The window scale of its SYN.
    offered_scale: Option<u8>,
    mss: Option<u16>,
    started: bool,
    /// It has sent FIN, and no new data since.
    finished: bool,
    /// Sequence number after all that it has sent.
    next: u32,
    /// Highest acknowledgment that it has sent.
    acked: u32,
    has_acked: bool,
    /// Its data that has not passed: up to two holes.
    holes: [(u32, u32); 2],
    unacked: Unacked,
    /// When the last segment passed that is acknowledged, if it had an ACK of its own and was not pushed, and until when the other end is
    /// believed to acknowledge each segment.
    acked_at: Option<Nanos>,
    singles_until: Nanos,
    /// Its data up to here has to be acknowledged before the other end is known to have no gap.
    gap_until: Option<u32>,
    /// When its data was last acknowledged.
    progress_at: Nanos,
    /// A timestamp that has not been echoed yet, and when it passed.
    waiting_echo: Option<(u32, Nanos)>,
    last_timestamp: u32,
    /// Payload bytes of the last and of the largest segment with data.
    last_payload: u32,
    largest_payload: u32,
    /// Payload bytes sent, retransmissions included.
    pub sent: u64,
    /// The same lately: those of both ends are halved whenever one has [`RECENT_BYTES`].
    recent: u32,
    /// Payload bytes that the other end has acknowledged.
    pub delivered: u64,
    /// Payload bytes that passed a second time.
    pub repeated: u64,
    /// Payload bytes that were missing in their place in the sequence.
    pub missed: u64,
}

/// A TCP flow.
#[derive(Clone, Copy, Debug)]
pub struct TcpFlow {
    wired: End,
    mesh: End,
    /// Round trip from the gateway through the mesh and back.
    pub mesh_rtt: MeshRoundTrip,
    /// Round trip from the gateway through the wired side and back, with a bounded part of the wait for the gateway's own pace.
    pub wired_rtt: RoundTrip,
    /// The same of uploads, by ACKs alone and without their wait for the gateway's own pace.
    pub uplink: UplinkRoundTrip,
    /// IP bytes into the mesh.
    pub down: Meter,
    /// IP bytes out of the mesh.
    pub up: Meter,
    /// Payload bytes into the mesh that have left it: acknowledged, or lost and sent again.
    pub left: Meter,
    /// Full segments that have left the mesh.
    full_up: u64,
    /// IP bytes of the largest packet with data.
    largest: u32,
    /// An end has sent RST, and nothing new has been acknowledged since.
    reset: bool,
}

/// Losses and progress that a segment indicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Payload bytes that the segment acknowledges for the first time.
    pub(crate) acknowledged: u64,
    /// Payload bytes that the mesh has lost.
    pub(crate) lost_in_mesh: u64,
}

impl TcpFlow {
    pub(crate) fn new() -> Self {
        Self {
            wired: End::default(),
            mesh: End::default(),
            mesh_rtt: MeshRoundTrip::new(),
            wired_rtt: RoundTrip::new(),
            uplink: UplinkRoundTrip::default(),
            down: Meter::default(),
            up: Meter::default(),
            left: Meter::default(),
            full_up: 0,
            largest: 0,
            reset: false,
        }
    }

    /// Counts a segment.
    pub(crate) fn update(&mut self, digest: &Digest, tcp: &TcpFields) -> Progress {
        let Digest { at: now, waited, direction, bytes, .. } = *digest;
        let (sender, receiver) = match direction {
            Direction::ToMesh => {
                self.down.add(now, u64::from(bytes));
                (&mut self.wired, &mut self.mesh)
            }
            Direction::FromMesh => {
                self.up.add(now, u64::from(bytes));
                let is_full = f64::from(tcp.payload_bytes) >= FULL_PART * f64::from(self.mss());
                self.full_up += u64::from(is_full);
                (&mut self.mesh, &mut self.wired)
            }
        };
        if tcp.payload_bytes > 0 {
            self.largest = self.largest.max(bytes.min(MAX_PACKET));
        }
        let mut progress = Progress::default();
        if tcp.has(tcp_flag::RST) {
            self.reset = true;
            return progress;
        }
        if tcp.has(tcp_flag::SYN) {
            // A new connection between the same ports, or a retransmitted SYN.
            if !sender.syn || sender.next != tcp.seq_end() {
                *sender = End { next: tcp.seq, ..End::default() };
                self.reset = false;
            }
            sender.syn = true;
            sender.syn_end = Some(tcp.seq_end());
            sender.started = true;
            sender.offered_scale = tcp.window_scale;
            sender.mss = tcp.mss;
        }
        // What it acknowledges: the other end's data, and its timestamps.
        if tcp.has(tcp_flag::ACK) {
            let is_new = !sender.has_acked || before(sender.acked, tcp.ack);
            progress.acknowledged = sender.acknowledge(tcp.ack);
            receiver.delivered += progress.acknowledged;
            // The other end ignored the RST: its sequence number was wrong (RFC 5961 §3).
            self.reset &= progress.acknowledged == 0;
            receiver.follow_gap(now, tcp, is_new);
            if direction == Direction::FromMesh {
                self.left.add(now, progress.acknowledged);
            }
            let is_handshake = receiver.syn_end == Some(tcp.ack);
            let sample = receiver.round_trip(now, tcp.ack, progress.acknowledged);
            if let Some(Sample { time: sample, is_pair, is_prompt }) = sample.filter(|_| is_new) {
                match (direction, is_handshake) {
                    (Direction::FromMesh, true) => self.mesh_rtt.on_handshake(sample),
                    (Direction::FromMesh, false) => self.mesh_rtt.update(now, sample, is_prompt),
                    (Direction::ToMesh, true) => self.wired_rtt.on_handshake(sample),
                    (Direction::ToMesh, false) => {
                        self.wired_rtt.update_held(now, sample, waited);
                        self.uplink.update(now, sample.saturating_sub(waited), is_pair, is_prompt);
                    }
                }
            }
        }
        if let (Some((_, echo)), Some((value, sent))) = (tcp.timestamps, receiver.waiting_echo)
            && !before(echo, value)
        {
            // A later echo answers another ACK: this one was lost, or released nothing. On the wired side, where round trips
            // size windows only, any echo serves: with the rule there, calls were good in two fewer worlds.
            let sample = now.saturating_sub(sent);
            match direction {
                Direction::ToMesh => self.wired_rtt.update_held(now, sample, waited),
                Direction::FromMesh if echo == value && sender.sends_on(tcp) => {
                    self.mesh_rtt.update(now, sample, true);
                }
                Direction::FromMesh => {}
            }
            receiver.waiting_echo = None;
        }
        // What it sends.
        let is_needed = !receiver.has_acked || before(receiver.acked, tcp.seq_end());
        let (repeated, missed) = sender.send(now, tcp);
        if sender.recent >= RECENT_BYTES {
            (sender.recent, receiver.recent) = (sender.recent / 2, receiver.recent / 2);
        }
        let repeated = if is_needed { repeated } else { 0 };
        progress.lost_in_mesh = match direction {
            Direction::ToMesh => repeated,
            Direction::FromMesh => missed,
        };
        if direction == Direction::ToMesh {
            self.left.add(now, repeated);
        }
        progress
    }

    /// Packets have passed unseen: both ends begin anew with their next segments, but what their SYNs said still holds.
    pub(crate) const fn on_blind(&mut self) {
        self.wired.on_blind();
        self.mesh.on_blind();
    }

    /// Scales of the windows of the wired and the mesh end; none unless both SYNs have passed.
    pub const fn window_scales(&self) -> Option<(u8, u8)> {
        if !(self.wired.syn && self.mesh.syn) {
            return None;
        }
        // RFC 7323 §2.2: windows are scaled only if both offer it.
        match (self.wired.offered_scale, self.mesh.offered_scale) {
            (Some(wired), Some(mesh)) => Some((wired, mesh)),
            _ => Some((0, 0)),
        }
    }

    /// The maximum segment size in bytes that both ends accept; 536 (RFC 9293 §3.7.1) if not known.
    pub fn mss(&self) -> u16 {
        const DEFAULT: u16 = 536;
        match (self.wired.mss, self.mesh.mss) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or(DEFAULT),
        }
        .max(1)
    }

    /// IP bytes of the largest packet with data, seen in either direction; before the first one, a full one of IPv4.
    pub fn packet_bytes(&self) -> u32 {
        if self.largest > 0 { self.largest } else { u32::from(self.mss()) + 40 }
    }

    /// The direction of most of its recent data.
    pub const fn data_direction(&self) -> Direction {
        if self.mesh.recent > self.wired.recent { Direction::FromMesh } else { Direction::ToMesh }
    }

    /// Whether the mesh end sends data in bulk: more than the wired end, and at least two full segments. A request, a login shell
    /// and the control connection of a speed test never have so much in flight that a window could limit it.
    pub const fn is_upload(&self) -> bool {
        matches!(self.data_direction(), Direction::FromMesh) && self.full_up >= UPLOAD_SEGMENTS
    }

    /// Whether an end has sent RST, or the one whose data the flow carries FIN. The other one may have closed its half long before
    /// (RFC 9293 §3.6), as clients do that send one request.
    pub const fn is_closed(&self) -> bool {
        let sender = match self.data_direction() {
            Direction::ToMesh => &self.wired,
            Direction::FromMesh => &self.mesh,
        };
        self.reset || sender.finished
    }

    /// The wired end.
    pub const fn wired_end(&self) -> &End {
        &self.wired
    }

    /// The mesh end.
    pub const fn mesh_end(&self) -> &End {
        &self.mesh
    }

    /// Payload bytes in flight, as the gateway sees it, in the direction of the data.
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

impl TcpFlow {
    /// Longest time without an ACK after which what is in flight is taken to be in a queue: the initial retransmission timeout
    /// (RFC 6298 §2).
    const QUEUED_FOR: Nanos = Nanos::from_secs(1);

    /// Rate in bits per second at which IP bytes leave the mesh at its far end: delivered or, as far as known, lost.
    pub fn left_rate(&self, now: Nanos) -> f64 {
        let payload = f64::from(self.wired.largest_payload.max(1));
        self.left.complete_rate(now).0 as f64 * (f64::from(self.packet_bytes()) / payload).max(1.0)
    }

    /// Payload bytes that are certainly in the mesh or in its queues, and the longest time for which any of them can be there; none while
    /// a loss is repaired, or nothing is acknowledged.
    pub fn standing(&self, now: Nanos) -> Option<(u32, Nanos)> {
        let sender = &self.wired;
        let is_acknowledged = now.saturating_sub(sender.progress_at) < Self::QUEUED_FOR;
        let is_known = is_acknowledged && sender.gap_until.is_none();
        // RFC 5681 §4.2: a receiver acknowledges at least every second full segment.
        let age = sender.unacked.first_at().map_or(Nanos::ZERO, |first| now.saturating_sub(first));
        let bytes = self.in_flight().saturating_sub(sender.largest_payload);
        is_known.then(|| (bytes, age.max(Self::QUEUED_FOR)))
    }
}

impl End {
    const fn on_blind(&mut self) {
        (self.started, self.has_acked) = (false, false);
        self.holes = [(0, 0); 2];
        self.unacked.clear();
        (self.acked_at, self.gap_until, self.waiting_echo) = (None, None, None);
    }

    /// Takes an ACK of this end's data, which acknowledges more than the last one if it `is_new`.
    fn follow_gap(&mut self, now: Nanos, tcp: &TcpFields, is_new: bool) {
        if is_new {
            self.progress_at = now;
            self.gap_until = self.gap_until.filter(|&until| before(tcp.ack, until));
        } else if tcp.payload_bytes == 0 && before(tcp.ack, self.next) {
            self.gap_until = Some(self.next);
        }
    }

    /// The round trip that an ACK of `bytes` new bytes shows, if it is known.
    fn round_trip(&mut self, now: Nanos, ack: u32, bytes: u64) -> Option<Sample> {
        let was_thinned = self.unacked.thinning > 0;
        let (before, segment) = self.unacked.acknowledge(ack)?;
        let Segment { end, at, .. } = segment;
        let are_many = was_thinned && bytes > u64::from(segment.length());
        let is_close = |before: Option<Nanos>| before.is_some_and(|before| at.saturating_sub(before) < CLOSE);
        let is_single = !are_many && before.is_none();
        let last = std::mem::replace(&mut self.acked_at, (is_single && !segment.is_pushed()).then_some(at));
        if is_single && is_close(last) {
            self.singles_until = now.saturating_add(SINGLES_FOR);
        }
        // Of two segments that are far apart, the first may have had its own ACK, which was lost.
        let is_pair = are_many || is_close(before);
        let is_prompt = is_pair || now < self.singles_until;
        (end == ack || was_thinned).then(|| Sample { time: now.saturating_sub(at), is_pair, is_prompt })
    }

    /// Takes an acknowledgment that this end sends; returns the number of bytes that it acknowledges for the first time.
    fn acknowledge(&mut self, ack: u32) -> u64 {
        let step = if self.has_acked && before(self.acked, ack) { ack.wrapping_sub(self.acked) } else { 0 };
        if !self.has_acked || before(self.acked, ack) {
            self.acked = ack;
            self.has_acked = true;
        }
        u64::from(step)
    }

    /// Whether a segment of this end is new data that an ACK has released. After a retransmission the end may have waited for a
    /// timeout, and after a short segment for its program.
    const fn sends_on(&self, tcp: &TcpFields) -> bool {
        self.started
            && tcp.payload_bytes > 0
            && tcp.seq == self.next
            && self.last_payload == self.largest_payload
    }

    /// Takes a segment that this end sends; returns its payload bytes that pass again, and the bytes missing before it.
    fn send(&mut self, now: Nanos, tcp: &TcpFields) -> (u64, u64) {
        let (seq, end) = (tcp.seq, tcp.seq_end());
        if tcp.payload_bytes > 0 {
            // The echo may answer this segment, which the pace may have held for long.
            self.waiting_echo = None;
            self.last_payload = tcp.payload_bytes;
            self.largest_payload = self.largest_payload.max(tcp.payload_bytes);
        }
        if let Some((value, _)) = tcp.timestamps {
            // Only the first segment with a value: an echo may answer any segment with that value.
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
        self.recent += tcp.payload_bytes.min(u32::from(u16::MAX));
        if !before(seq, self.next) {
            self.finished = tcp.has(tcp_flag::FIN);
            let missed = seq.wrapping_sub(self.next);
            if missed > 0 {
                self.add_hole(self.next, seq);
                self.gap_until = Some(end);
                self.missed += u64::from(missed);
            }
            self.next = end;
            self.unacked.add(Segment::new(end.wrapping_sub(seq), end, tcp.has(tcp_flag::PSH), now));
            return (0, u64::from(missed));
        }
        // Before the highest sequence number: it fills a hole or is a retransmission.
        let fills = self.fill_hole(seq, end);
        if fills {
            // Segments after the hole are acknowledged only now, however long ago they passed.
            self.unacked.clear();
            return (0, 0);
        }
        if before(self.next, end) {
            self.next = end;
        }
        // Karn's rule: an ACK from here on may answer either transmission.
        self.unacked.clear();
        self.gap_until = Some(self.next);
        self.repeated += u64::from(tcp.payload_bytes);
        (u64::from(tcp.payload_bytes), 0)
    }

    fn add_hole(&mut self, from: u32, to: u32) {
        self.holes = [(from, to), self.holes[0]];
    }

    /// Fills a hole with a segment; returns false if it is in none.
    fn fill_hole(&mut self, seq: u32, end: u32) -> bool {
        for hole in &mut self.holes {
            let (from, to) = *hole;
            if from != to && !before(seq, from) && !before(to, end) {
                // The part of the hole before it is dropped: most holes have one segment, or are filled in order.
                *hole = (end, to);
                return true;
            }
        }
        false
    }
}
