//! A sender or a receiver with a scripted other side. Segments have 1,000 bytes and are named by their place in the
//! stream: segment 3 holds octets 3,000 to 3,999.

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{
    Flags, Receiver, ReceiverConfig, SackBlock, Segment, Sender, SenderConfig, Seq, Timestamps,
};

pub(crate) const MSS: u32 = 1000;

/// Sequence number of the sender's SYN: the stream wraps after its first few segments.
pub(crate) const SENDER_SEQ: u32 = u32::MAX - 4500;
/// Sequence number of the receiver's SYN.
pub(crate) const RECEIVER_SEQ: u32 = 77;

pub(crate) fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn wire(octet: u64) -> Seq {
    Seq(SENDER_SEQ) + 1 + octet as u32
}

/// A sender and the script of its receiver.
pub(crate) struct SenderScript {
    pub(crate) sender: Sender,
    pub(crate) now: Nanos,
    pub(crate) window: u16,
    pub(crate) peer_seq: Seq,
}

impl SenderScript {
    pub(crate) fn config() -> SenderConfig {
        SenderConfig { mss: MSS, initial_seq: SENDER_SEQ, ..SenderConfig::default() }
    }

    /// Established, with an endless stream, after a handshake of 100 ms. The window is 65,535,000 bytes wide.
    pub(crate) fn established(config: SenderConfig) -> Self {
        let mut script = Self::opened(config);
        script.sender.offer(u64::MAX);
        script.after(100);
        script.answer_syn(10);
        script.acks();
        // The window of a SYN is not scaled; this one is.
        script.ack(0);
        script
    }

    /// The SYN is sent.
    pub(crate) fn opened(config: SenderConfig) -> Self {
        let mut script = Self {
            sender: Sender::new(config),
            now: Nanos::ZERO,
            window: u16::MAX,
            peer_seq: Seq(RECEIVER_SEQ) + 1,
        };
        script.sender.open(script.now);
        script.poll();
        script
    }

    pub(crate) fn answer_syn(&mut self, window_scale: u8) {
        let syn_ack = Segment {
            seq: Seq(RECEIVER_SEQ),
            ack: wire(0),
            flags: Flags::SYN | Flags::ACK,
            window: self.window,
            mss: Some(1460),
            window_scale: Some(window_scale),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 5000, echo: 0 }),
            ..Segment::default()
        };
        self.sender.on_segment(self.now, &syn_ack);
    }

    /// Advances the time in milliseconds and fires the timer if it is due.
    pub(crate) fn after(&mut self, millis: u64) -> &mut Self {
        self.now += ms(millis);
        self.sender.on_timer(self.now);
        self
    }

    /// Checks that the handshake is acknowledged.
    pub(crate) fn acks(&mut self) {
        let ack = self.sender.poll_transmit(self.now).expect("an acknowledgment");
        assert_eq!((ack.len, ack.flags, ack.seq, ack.ack), (0, Flags::ACK, wire(0), self.peer_seq));
    }

    pub(crate) fn poll(&mut self) -> Vec<Segment> {
        std::iter::from_fn(|| self.sender.poll_transmit(self.now)).collect()
    }

    /// Segments sent now, by number.
    pub(crate) fn sent(&mut self) -> Vec<u64> {
        self.poll().iter().map(|s| s.seq.since(wire(0)) as u64 / u64::from(MSS)).collect()
    }

    pub(crate) fn ack_segment(&self, octet: u64) -> Segment {
        Segment {
            seq: self.peer_seq,
            ack: wire(octet),
            flags: Flags::ACK,
            window: self.window,
            ..Segment::default()
        }
    }

    /// Acknowledges all segments before this one.
    pub(crate) fn ack(&mut self, next: u64) -> &mut Self {
        self.sack(next, &[])
    }

    /// The same, and SACKs segments from the first number to before the second.
    pub(crate) fn sack(&mut self, next: u64, blocks: &[(u64, u64)]) -> &mut Self {
        let mss = u64::from(MSS);
        let mut ack = self.ack_segment(next * mss);
        for &(from, to) in blocks {
            ack.sack.push(SackBlock { start: wire(from * mss), end: wire(to * mss) });
        }
        self.sender.on_segment(self.now, &ack);
        self
    }
}

/// A receiver and the script of its sender.
pub(crate) struct ReceiverScript {
    pub(crate) receiver: Receiver,
    pub(crate) now: Nanos,
    pub(crate) shift: u8,
}

/// An acknowledgment in segment numbers: the next expected one, and the SACK blocks.
pub(crate) type Ack = (u64, Vec<(u64, u64)>);

impl ReceiverScript {
    pub(crate) fn config() -> ReceiverConfig {
        ReceiverConfig { mss: MSS, initial_seq: RECEIVER_SEQ, ..ReceiverConfig::default() }
    }

    pub(crate) fn established(config: ReceiverConfig) -> Self {
        let mut script = Self { receiver: Receiver::new(config), now: Nanos::ZERO, shift: 0 };
        let syn = Segment {
            seq: Seq(SENDER_SEQ),
            flags: Flags::SYN,
            window: u16::MAX,
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 0 }),
            ..Segment::default()
        };
        script.receiver.on_segment(script.now, &syn);
        let syn_ack = script.poll().pop().expect("an answer to the SYN");
        script.shift = syn_ack.window_scale.expect("window scale");
        script.segment_at(0, 0, Flags::ACK, config.timestamps.then_some(1));
        script
    }

    pub(crate) fn after(&mut self, millis: u64) -> &mut Self {
        self.now += ms(millis);
        self.receiver.on_timer(self.now);
        self
    }

    pub(crate) fn poll(&mut self) -> Vec<Segment> {
        std::iter::from_fn(|| self.receiver.poll_transmit(self.now)).collect()
    }

    pub(crate) fn segment(&mut self, octet: i64, len: u32, flags: Flags) {
        self.segment_at(octet, len, flags, None);
    }

    pub(crate) fn segment_at(&mut self, octet: i64, len: u32, flags: Flags, value: Option<u32>) {
        let segment = Segment {
            seq: Seq(SENDER_SEQ) + 1 + octet as u32,
            ack: Seq(RECEIVER_SEQ) + 1,
            flags,
            window: u16::MAX,
            len,
            timestamps: value.map(|value| Timestamps { value, echo: 0 }),
            ..Segment::default()
        };
        self.receiver.on_segment(self.now, &segment);
    }

    /// A segment of the stream arrives.
    pub(crate) fn data(&mut self, number: u64) -> &mut Self {
        self.segment((number * u64::from(MSS)) as i64, MSS, Flags::ACK);
        self
    }

    /// Acknowledgments sent now.
    pub(crate) fn acks(&mut self) -> Vec<Ack> {
        let number = |seq: Seq| seq.since(wire(0)) as u64 / u64::from(MSS);
        self.poll()
            .iter()
            .map(|s| {
                (number(s.ack), s.sack.as_slice().iter().map(|b| (number(b.start), number(b.end))).collect())
            })
            .collect()
    }
}
