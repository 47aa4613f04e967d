//! AODV's messages as bytes (RFC 3561 §5, extensions §9): payload of UDP datagrams from and to port 654, big endian.
//!
//! A HELLO is a [`Reply`] to all neighbours with TTL 1 (§6.9). Left out: multicast (the J and R flags are zero when sent and
//! ignored when received) and subnet prefixes (a reply with one is handled as a reply for the host).

use std::fmt;

use crate::{Address, Sequence};

/// UDP port of both ends.
pub const PORT: u16 = 654;

/// Bytes of the IP and UDP headers in front of a message.
pub const IP_UDP: u32 = 28;

/// Maximum number of destinations in a RERR: what a byte counts.
pub const MAX_UNREACHABLE: usize = 255;

/// The first type of extensions that a node must not skip: it drops the message if it does not know one of them (§9).
const FIRST_MANDATORY: u8 = 128;

/// RREQ: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// G: a node that answers for the destination informs the destination.
    pub gratuitous: bool,
    /// D: only the destination answers.
    pub destination_only: bool,
    /// Hops from the originator to the node that handles it.
    pub hops: u8,
    /// With the originator, its identity.
    pub id: u32,
    /// What is looked for.
    pub destination: Address,
    /// The newest number of the destination that the originator knows; none for the U flag.
    pub destination_sequence: Option<Sequence>,
    /// Who looks for it.
    pub originator: Address,
    /// The originator's own number.
    pub originator_sequence: Sequence,
}

/// RREP: 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// A: the next hop acknowledges it.
    pub ack_required: bool,
    /// Hops from the node that handles it to the destination.
    pub hops: u8,
    /// Where the route goes.
    pub destination: Address,
    /// The destination's number.
    pub destination_sequence: Sequence,
    /// The node that gets the route.
    pub originator: Address,
    /// Lifetime of the route in milliseconds.
    pub lifetime_ms: u32,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// RREQ.
    Request(Request),
    /// RREP, and HELLO.
    Reply(Reply),
    /// RERR: destinations that the sender does not reach any more, with their numbers. At least one.
    Error(Vec<(Address, Sequence)>),
    /// RREP-ACK.
    ReplyAck,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They end too early.
    Truncated,
    /// The first byte is no type of RFC 3561.
    UnknownType(u8),
    /// A RERR without destinations.
    NoDestination,
    /// An extension that must not be skipped and is not known.
    UnknownExtension(u8),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "the message ends before its last field"),
            Self::UnknownType(kind) => write!(f, "type {kind} is none of RREQ 1, RREP 2, RERR 3, RREP-ACK 4"),
            Self::NoDestination => write!(f, "a RERR names no destination"),
            Self::UnknownExtension(kind) => {
                write!(f, "extension {kind} is unknown and must not be skipped (types from 128)")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

const RREQ: u8 = 1;
const RREP: u8 = 2;
const RERR: u8 = 3;
const RREP_ACK: u8 = 4;

const GRATUITOUS: u8 = 0x20;
const DESTINATION_ONLY: u8 = 0x10;
const UNKNOWN_SEQUENCE: u8 = 0x08;
const ACK_REQUIRED: u8 = 0x40;

/// Reads fields from the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*first)
    }

    fn word(&mut self) -> Result<u32, DecodeError> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn address(&mut self) -> Result<Address, DecodeError> {
        self.word().map(Address)
    }

    fn sequence(&mut self) -> Result<Sequence, DecodeError> {
        self.word().map(Sequence)
    }
}

impl Message {
    /// Reads a message. The second part of the result are the bytes of its extensions, for [`extensions`].
    ///
    /// # Errors
    /// Why these bytes are no message.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let mut fields = Fields(bytes);
        let [kind] = fields.bytes()?;
        let message = match kind {
            RREQ => {
                let [flags, _, hops] = fields.bytes()?;
                let id = fields.word()?;
                let destination = fields.address()?;
                let sequence = fields.sequence()?;
                Self::Request(Request {
                    gratuitous: flags & GRATUITOUS != 0,
                    destination_only: flags & DESTINATION_ONLY != 0,
                    hops,
                    id,
                    destination,
                    destination_sequence: (flags & UNKNOWN_SEQUENCE == 0).then_some(sequence),
                    originator: fields.address()?,
                    originator_sequence: fields.sequence()?,
                })
            }
            RREP => {
                let [flags, _, hops] = fields.bytes()?;
                Self::Reply(Reply {
                    ack_required: flags & ACK_REQUIRED != 0,
                    hops,
                    destination: fields.address()?,
                    destination_sequence: fields.sequence()?,
                    originator: fields.address()?,
                    lifetime_ms: fields.word()?,
                })
            }
            RERR => {
                let [_, _, count] = fields.bytes()?;
                if count == 0 {
                    return Err(DecodeError::NoDestination);
                }
                let unreachable = (0..count).map(|_| Ok((fields.address()?, fields.sequence()?)));
                Self::Error(unreachable.collect::<Result<_, DecodeError>>()?)
            }
            RREP_ACK => {
                let [_] = fields.bytes()?;
                Self::ReplyAck
            }
            other => return Err(DecodeError::UnknownType(other)),
        };
        for extension in extensions(fields.0) {
            let (kind, _) = extension?;
            if kind >= FIRST_MANDATORY {
                return Err(DecodeError::UnknownExtension(kind));
            }
        }
        Ok((message, fields.0))
    }

    /// Appends the message as bytes. Of a RERR with more than [`MAX_UNREACHABLE`] destinations, the first ones.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Request(request) => {
                let flag = |set: bool, bit: u8| if set { bit } else { 0 };
                let unknown = request.destination_sequence.is_none();
                let flags = flag(request.gratuitous, GRATUITOUS)
                    | flag(request.destination_only, DESTINATION_ONLY)
                    | flag(unknown, UNKNOWN_SEQUENCE);
                out.extend([RREQ, flags, 0, request.hops]);
                let sequence = request.destination_sequence.unwrap_or_default();
                for word in [
                    request.id,
                    request.destination.0,
                    sequence.0,
                    request.originator.0,
                    request.originator_sequence.0,
                ] {
                    out.extend(word.to_be_bytes());
                }
            }
            Self::Reply(reply) => {
                out.extend([RREP, if reply.ack_required { ACK_REQUIRED } else { 0 }, 0, reply.hops]);
                for word in
                    [reply.destination.0, reply.destination_sequence.0, reply.originator.0, reply.lifetime_ms]
                {
                    out.extend(word.to_be_bytes());
                }
            }
            Self::Error(unreachable) => {
                let unreachable = &unreachable[..unreachable.len().min(MAX_UNREACHABLE)];
                out.extend([RERR, 0, 0, unreachable.len() as u8]);
                for (destination, sequence) in unreachable {
                    out.extend(destination.0.to_be_bytes());
                    out.extend(sequence.0.to_be_bytes());
                }
            }
            Self::ReplyAck => out.extend([RREP_ACK, 0]),
        }
    }
}

/// The extensions behind a message, as type and data.
pub fn extensions(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u8, &[u8]), DecodeError>> {
    std::iter::from_fn(move || {
        let (&kind, rest) = bytes.split_first()?;
        let parts = rest.split_first().and_then(|(&length, rest)| rest.split_at_checked(usize::from(length)));
        match parts {
            Some((data, rest)) => {
                bytes = rest;
                Some(Ok((kind, data)))
            }
            None => {
                bytes = &[];
                Some(Err(DecodeError::Truncated))
            }
        }
    })
}

/// Appends an extension. `data` has at most 255 bytes; longer data are not appended.
pub fn push_extension(out: &mut Vec<u8>, kind: u8, data: &[u8]) {
    if let Ok(length) = u8::try_from(data.len()) {
        out.extend([kind, length]);
        out.extend_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(message: &Message) -> Vec<u8> {
        let mut out = Vec::new();
        message.encode(&mut out);
        out
    }

    /// Every field at the place of RFC 3561 §5.1.
    #[test]
    fn a_request_is_the_rfcs_byte_for_byte() {
        let request = Request {
            gratuitous: true,
            destination_only: false,
            hops: 3,
            id: 0x0102_0304,
            destination: Address(0x0a01_0009),
            destination_sequence: None,
            originator: Address(0x0a01_0001),
            originator_sequence: Sequence(7),
        };
        #[rustfmt::skip]
        let expected = [
            1, 0x28, 0, 3, 1, 2, 3, 4, 10, 1, 0, 9, 0, 0, 0, 0, 10, 1, 0, 1, 0, 0, 0, 7,
        ];
        assert_eq!(encoded(&Message::Request(request)), expected);
    }

    #[test]
    fn lengths_are_those_of_the_rfc() {
        let reply = Reply {
            ack_required: true,
            hops: 0,
            destination: Address(1),
            destination_sequence: Sequence(2),
            originator: Address(3),
            lifetime_ms: 4,
        };
        let lengths = [
            (Message::Reply(reply), 20),
            (Message::Error(vec![(Address(1), Sequence(2)); 3]), 4 + 8 * 3),
            (Message::ReplyAck, 2),
        ];
        for (message, length) in lengths {
            assert_eq!(encoded(&message).len(), length);
        }
        assert_eq!(encoded(&Message::Reply(reply))[..4], [2, 0x40, 0, 0]);
        assert_eq!(encoded(&Message::Error(vec![(Address(0), Sequence(0)); 300])).len(), 4 + 8 * 255);
    }

    #[test]
    fn an_extension_from_128_drops_the_message_and_a_lower_one_is_skipped() {
        let mut bytes = encoded(&Message::ReplyAck);
        push_extension(&mut bytes, 16, &[1, 2, 3]);
        push_extension(&mut bytes, 1, &[0; 4]);
        let (message, rest) = Message::decode(&bytes).expect("a message");
        assert_eq!(message, Message::ReplyAck);
        let all: Vec<_> = extensions(rest).collect();
        assert_eq!(all, [Ok((16, &[1, 2, 3][..])), Ok((1, &[0; 4][..]))]);
        push_extension(&mut bytes, 128, &[]);
        assert_eq!(Message::decode(&bytes), Err(DecodeError::UnknownExtension(128)));
        assert_eq!(Message::decode(&[4, 0, 16, 3, 0]), Err(DecodeError::Truncated));
    }

    #[test]
    fn what_is_no_message_is_an_error_that_says_why() {
        assert_eq!(Message::decode(&[]), Err(DecodeError::Truncated));
        assert_eq!(Message::decode(&[9]), Err(DecodeError::UnknownType(9)));
        assert_eq!(Message::decode(&[3, 0, 0, 0]), Err(DecodeError::NoDestination));
        assert_eq!(Message::decode(&[3, 0, 0, 1, 0, 0]), Err(DecodeError::Truncated));
        assert!(DecodeError::UnknownType(9).to_string().contains("type 9"));
    }

    proptest! {
        #[test]
        fn whatever_decodes_is_encoded_to_the_same_message(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok((message, rest)) = Message::decode(&bytes) {
                let mut again = encoded(&message);
                again.extend_from_slice(rest);
                prop_assert_eq!(again.len(), bytes.len());
                prop_assert_eq!(Message::decode(&again), Ok((message, rest)));
            }
        }
    }
}
