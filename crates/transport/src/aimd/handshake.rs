//! How a stream is opened between two hosts, and which packets belong to it.
//!
//! ```text
//! sender                         receiver
//! hello(id, 0)          ──▶
//!                       ◀──      cookie(id, c)     c = hash of secret, address and id; no state is kept
//! hello(id, c)          ──▶
//!                       ◀──      accept(id)        or busy(id) if another stream is open
//! data(tag), …          ──▶
//! ```
//!
//! The sender draws `id` at random and repeats its hello until an answer comes. A lost cookie or accept is repeated with
//! it. The cookie proves that the sender receives at its address, as SYN cookies (RFC 4987) and QUIC's Retry (RFC 9000
//! §8.1) do, so that datagrams with a forged address cannot occupy the receiver. A datagram that belongs to neither the
//! open nor the last stream is a *stray*: it is counted, and changes nothing else.
//!
//! Both machines are sans-IO: time, addresses and the keyed hash come in as arguments. Left out: expiry of cookies,
//! protection against a host on the path, which can read id and tag.

use std::hash::{BuildHasher, Hash};

use fairhop_model::units::Nanos;

use super::wire::{Packet, tag_of};

/// Time to the second hello. It doubles up to [`MAX_HELLO_INTERVAL`].
const FIRST_HELLO_INTERVAL: Nanos = Nanos::from_millis(250);
/// Longest time between two hellos.
const MAX_HELLO_INTERVAL: Nanos = Nanos::from_secs(2);

/// The sender's side: asks for a stream until the receiver answers.
#[derive(Clone, Debug)]
pub struct Opening {
    id: u64,
    cookie: u64,
    due: Nanos,
    interval: Nanos,
}

/// The receiver's answer to a request for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The stream is open: data may be sent.
    Accepted,
    /// The receiver serves another stream.
    Refused,
}

impl Opening {
    /// Asks for a stream with this id, which should be random.
    pub fn new(id: u64) -> Self {
        Self { id, cookie: 0, due: Nanos::ZERO, interval: FIRST_HELLO_INTERVAL }
    }

    /// The hello, if it is due.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if now < self.due {
            return None;
        }
        self.due = now.saturating_add(self.interval);
        self.interval = self.interval.saturating_add(self.interval).min(MAX_HELLO_INTERVAL);
        Some(Packet::Hello { id: self.id, cookie: self.cookie })
    }

    /// When the next hello is due.
    pub fn next_timer(&self) -> Nanos {
        self.due
    }

    /// A packet came. Packets of other streams change nothing.
    pub fn on_packet(&mut self, now: Nanos, packet: &Packet) -> Option<Answer> {
        match *packet {
            Packet::Cookie { id, cookie } if id == self.id => {
                // A repeated cookie answers a repeated hello: the answer to the last one is on its way.
                if cookie != self.cookie {
                    (self.cookie, self.due, self.interval) = (cookie, now, FIRST_HELLO_INTERVAL);
                }
                None
            }
            Packet::Accept { id } if id == self.id => Some(Answer::Accepted),
            Packet::Busy { id } if id == self.id => Some(Answer::Refused),
            _ => None,
        }
    }
}

/// The receiver's side: admits one stream at a time. `A` is an address; `S` makes the keyed hash of cookies, and must
/// have a random key.
#[derive(Clone, Debug)]
pub struct Listener<A, S> {
    secret: S,
    current: Option<(A, u64)>,
    /// The last stream that ended, and the count to report.
    last: Option<(A, u64, u32)>,
    strays: u64,
}

/// What a packet is to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Part of the handshake or of the end of the last stream: send this back.
    Reply(Packet),
    /// A new stream is open: send this back.
    Opened(Packet),
    /// Data or the end of the open stream.
    Current,
    /// A late packet of the last stream. No answer.
    Late,
    /// It belongs to no stream. No answer; it has been counted.
    Stray,
}

impl<A: Copy + Eq + Hash, S: BuildHasher> Listener<A, S> {
    /// A listener without a stream.
    pub fn new(secret: S) -> Self {
        Self { secret, current: None, last: None, strays: 0 }
    }

    /// A packet came from `from`.
    pub fn on_packet(&mut self, from: A, packet: &Packet) -> Admission {
        let current = self.current;
        let is_current = |tag| current.is_some_and(|(address, id)| address == from && tag_of(id) == tag);
        let last = self.last.filter(|&(address, ..)| address == from);
        let is_last = |tag| last.is_some_and(|(_, id, _)| tag_of(id) == tag);
        match *packet {
            Packet::Hello { id, cookie } => self.on_hello(from, id, cookie),
            Packet::Data { tag, .. } | Packet::End { tag, .. } if is_current(tag) => Admission::Current,
            Packet::End { tag, .. } if is_last(tag) => {
                let received = last.map_or(0, |(.., received)| received);
                Admission::Reply(Packet::Report { tag, received })
            }
            Packet::Data { tag, .. } if is_last(tag) => Admission::Late,
            _ => {
                self.strays += 1;
                Admission::Stray
            }
        }
    }

    fn on_hello(&mut self, from: A, id: u64, cookie: u64) -> Admission {
        if self.current == Some((from, id)) {
            // The accept was lost.
            return Admission::Reply(Packet::Accept { id });
        }
        if self.last.is_some_and(|(address, last, _)| (address, last) == (from, id)) {
            return Admission::Late;
        }
        let expected = self.cookie(from, id);
        if cookie != expected {
            return Admission::Reply(Packet::Cookie { id, cookie: expected });
        }
        if self.current.is_some() {
            return Admission::Reply(Packet::Busy { id });
        }
        self.current = Some((from, id));
        Admission::Opened(Packet::Accept { id })
    }

    /// Never 0, which stands for no cookie.
    fn cookie(&self, from: A, id: u64) -> u64 {
        self.secret.hash_one((from, id)).max(1)
    }

    /// The open stream: address and id.
    pub fn current(&self) -> Option<(A, u64)> {
        self.current
    }

    /// The open stream has ended; `received` is reported if its sender asks.
    pub fn close(&mut self, received: u32) {
        if let Some((from, id)) = self.current.take() {
            self.last = Some((from, id, received));
        }
    }

    /// A datagram came that is no packet.
    pub fn on_garbage(&mut self) {
        self.strays += 1;
    }

    /// Strays since the last call.
    pub fn take_strays(&mut self) -> u64 {
        std::mem::take(&mut self.strays)
    }
}
