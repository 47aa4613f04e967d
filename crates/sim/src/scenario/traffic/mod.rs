//! Traffic of a scenario: one struct per kind, and the keys that all kinds share.
//!
//! A new kind is an entry in the macro below, an arm in [`Traffic::largest_packet_bytes`] and in `check/traffic.rs`, its
//! sources in `world/build/flows.rs`, and its figures in the results.

mod laws;
mod tcp;

use fairhop_model::headers;
use fairhop_model::voice::Codec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use laws::{SizeLaw, TimeLaw};
pub use tcp::{TcpHyStart, TcpProfile, TcpRecovery, TcpVariant};

use super::dscp::{Codepoint, DscpName};
use super::place::Place;
use crate::packet::Dscp;

/// Keys that every kind of traffic has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Common<'a> {
    /// The name as written.
    pub name: Option<&'a str>,
    /// The sender, or one end of a call.
    pub from: Place,
    /// The receiver, or the other end of a call.
    pub to: Place,
    /// Number of copies.
    pub count: u32,
    /// The DSCP as written.
    pub dscp: Option<Codepoint>,
    /// Start in seconds.
    pub start_s: f64,
    /// Stop in seconds; `None`: at the end of the run.
    pub stop_s: Option<f64>,
}

/// Makes a struct of each kind, with the common keys around its own, and the enum of them. Each kind states its word in
/// `kind = "…"`, its default DSCP, and what the common keys mean for it.
macro_rules! kinds_of_traffic {
    ($(
        $(#[$about:meta])*
        $kind:ident $word:literal $default_dscp:ident {
            $(#[$from:meta])* from;
            $(#[$to:meta])* to;
            $(#[$dscp:meta])* dscp;
            own { $( $(#[$meta:meta])* $key:ident: $type:ty, )* }
            $(#[$start:meta])* start_s;
            $(#[$stop:meta])* stop_s;
        }
    )+) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            #[schemars(inline)]
            pub struct $kind {
                /// Name of the flow; copies are numbered. Left out: the kind.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub name: Option<String>,
                $(#[$from])*
                pub from: Place,
                $(#[$to])*
                pub to: Place,
                /// Number of copies.
                #[serde(default = "one")]
                #[schemars(range(min = 0, max = 100_000))]
                pub count: u32,
                $(#[$dscp])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub dscp: Option<Codepoint>,
                $( $(#[$meta])* pub $key: $type, )*
                $(#[$start])*
                #[serde(default)]
                #[schemars(range(min = 0.0, max = 1_000_000.0))]
                pub start_s: f64,
                $(#[$stop])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 0.0, max = 1_000_000.0))]
                pub stop_s: Option<f64>,
            }
        )+

        /// Traffic between two places. `count` copies are made; their names get numbers.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum Traffic {
            $( #[allow(missing_docs)] $kind($kind), )+
        }

        impl Traffic {
            /// The keys that every kind has.
            pub fn common(&self) -> Common<'_> {
                match self {
                    $( Self::$kind(entry) => Common {
                        name: entry.name.as_deref(),
                        from: entry.from,
                        to: entry.to,
                        count: entry.count,
                        dscp: entry.dscp,
                        start_s: entry.start_s,
                        stop_s: entry.stop_s,
                    }, )+
                }
            }

            /// The kind as written in `kind = "…"`.
            pub const fn kind(&self) -> &'static str {
                match self { $( Self::$kind(_) => $word, )+ }
            }

            /// The DSCP of the kind where an entry has none.
            pub const fn default_dscp(&self) -> DscpName {
                match self { $( Self::$kind(_) => DscpName::$default_dscp, )+ }
            }
        }
    };
}

kinds_of_traffic! {
    /// A telephone call: RTP in both directions. Each direction starts at a random phase of the packet interval.
    Call "call" Ef {
        /// One end.
        from;
        /// The other end.
        to;
        /// DSCP of its packets: a name or a number. Left out: `EF`.
        dscp;
        own {
            /// The codec.
            #[serde(default)]
            codec: Codec,
            /// Mean interval between the RTCP reports of each end, in seconds (RFC 3550; 5 is usual). Each interval is drawn
            /// from 0.5 to 1.5 times the mean. 0: no reports, as in the papers.
            #[serde(default, skip_serializing_if = "is_zero")]
            #[schemars(range(min = 0.0, max = 1_000_000.0))]
            rtcp_interval_s: f64,
            /// Silence suppression: a speaker sends packets during talk-spurts only, which last 1.004 s in the mean, and
            /// pause for 1.587 s (ITU-T P.59, the means of English, Italian and Japanese); both are drawn from exponential
            /// distributions, for each direction by itself. Packets of comfort noise are not sent.
            #[serde(default, skip_serializing_if = "is_false")]
            silence_suppression: bool,
            /// Clock error of the end `from` in parts per million: its packets leave that much more often than the codec
            /// says, or more rarely if negative. The other end's clock is exact. Sound cards differ by up to 100 or so.
            #[serde(default, skip_serializing_if = "is_zero")]
            #[schemars(range(min = -10_000.0, max = 10_000.0))]
            drift_ppm: f64,
            /// Step of the clock by which both ends send, in milliseconds: a softphone that reads Linux's coarse clock sees
            /// steps of 1 to 10 ms (1/`CONFIG_HZ`). Each packet leaves a little later than the one before, by what a sleep
            /// overshoots, and after up to a step the next one is on time again. 0: each packet leaves on time.
            #[serde(default, skip_serializing_if = "is_zero")]
            #[schemars(range(min = 0.0, max = 1000.0))]
            timer_ms: f64,
            /// Its packets are datagrams of an unknown protocol to the gateway, as those of programs with a protocol of their own and
            /// of telephones behind a tunnel: only their times and lengths tell that they are a call.
            #[serde(default, skip_serializing_if = "is_false")]
            opaque: bool,
        }
        /// First packet, in seconds.
        start_s;
        /// End of the call, in seconds: no packets are sent from then on. Left out: the end of the run.
        stop_s;
    }

    /// A TCP transfer.
    Bulk "bulk" Be {
        /// The sender of data.
        from;
        /// The receiver.
        to;
        /// DSCP of its packets in both directions: a name or a number. Left out: `BE`.
        dscp;
        own {
            /// Congestion control.
            #[serde(default)]
            tcp: TcpVariant,
            /// TCP implementation whose defaults apply to the keys below.
            #[serde(default)]
            profile: TcpProfile,
            /// true: the window grows with the bytes that an ACK covers (RFC 3465, as in Linux). false: it grows per ACK (RFC
            /// 5681, as in ns-2 and ns-3), which is half as fast with delayed ACKs.
            #[serde(default = "yes")]
            byte_counting: bool,
            /// Bytes to transfer. Left out: unlimited.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
            size_bytes: Option<u64>,
            /// Maximum segment size (MSS) in bytes of data.
            #[serde(default = "mss")]
            #[schemars(range(min = 88, max = 8960))]
            mss_bytes: u32,
            /// Receive buffer in bytes: the maximum amount of data in flight.
            #[serde(default = "receive_buffer")]
            #[schemars(range(min = 1_000, max = 1_000_000_000))]
            receive_buffer_bytes: u32,
            /// Maximum number of segments in flight (xu2002's maximum window). Left out: limited by the receive buffer only.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1, max = 1_000_000))]
            max_window_packets: Option<u32>,
            /// Initial window in segments (RFC 6928).
            #[serde(default = "initial_window")]
            #[schemars(range(min = 1, max = 100))]
            initial_window_packets: u32,
            /// Full segments per delayed ACK; 1 acknowledges every segment.
            #[serde(default = "two")]
            #[schemars(range(min = 1, max = 16))]
            delayed_ack_segments: u32,
            /// Maximum delay of an ACK in ms. Left out: 200, or 40 with profile = "linux".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1.0, max = 500.0))]
            delayed_ack_ms: Option<f64>,
            /// Selective acknowledgments (RFC 2018).
            #[serde(default = "yes")]
            sack: bool,
            /// Explicit congestion notification (RFC 3168): queues with `ecn` mark its packets instead of dropping them.
            #[serde(default)]
            ecn: bool,
            /// Timestamps (RFC 7323), which take 12 bytes of every segment. Left out: false, or true with profile = "linux".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            timestamps: Option<bool>,
            /// Loss detection and recovery with SACK. Left out: `rfc6675`, or `rack-tlp` with profile = "linux".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            recovery: Option<TcpRecovery>,
            /// Proportional rate reduction (RFC 6937): in recovery, the window falls over a round trip and not at once. Left
            /// out: false, or true with profile = "linux".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            prr: Option<bool>,
            /// Undo of a window reduction if no segment proves to be lost (RFC 2883, 3522 and 5682). Left out: false, or true
            /// with profile = "linux".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            undo: Option<bool>,
            /// How slow start ends before a loss; only for `cubic`. Left out: `classic`, as in Linux.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            hystart: Option<TcpHyStart>,
            /// Minimum retransmission timeout in ms. Left out: 1000 (RFC 6298), or 200 with profile = "linux".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1.0, max = 60_000.0))]
            rto_min_ms: Option<f64>,
        }
        /// Start, in seconds.
        start_s;
        /// The application stops offering data, in seconds. Left out: the end of the run.
        stop_s;
    }

    /// AIMD(α, β) datagrams (cai2005): a window that grows by α packets per round trip and falls to β times the outstanding
    /// packets after a loss. Lost packets are not retransmitted. The sender always has data.
    Aimd "aimd" Be {
        /// The sender.
        from;
        /// The receiver.
        to;
        /// DSCP of its packets in both directions: a name or a number. Left out: `BE`.
        dscp;
        own {
            /// Additive increase in packets per round trip. Left out: the TCP-friendly value 3 (1 − β) / (1 + β).
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 0.0, max = 100.0))]
            alpha: Option<f64>,
            /// Multiplicative decrease: the window after a loss, as a fraction of the outstanding packets.
            #[serde(default = "beta")]
            #[schemars(range(min = 0.0, max = 1.0))]
            beta: f64,
            /// Size of an IP packet in bytes.
            #[schemars(range(min = 41, max = 9000))]
            packet_bytes: u32,
            /// Receive window in packets (cai2005's rwnd). Left out: 4096.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1, max = 65_535))]
            rwnd_packets: Option<u32>,
            /// Window in packets at the start, after a timeout and after an idle period.
            #[serde(default = "two")]
            #[schemars(range(min = 1, max = 100))]
            initial_window_packets: u32,
            /// Minimum retransmission timeout in ms (RFC 6298: 1000).
            #[serde(default = "rto_min_ms")]
            #[schemars(range(min = 1.0, max = 60_000.0))]
            rto_min_ms: f64,
            /// A packet counts as an outage if its delay exceeds that of the fastest packet by more than this, in ms. Left
            /// out: outages are not counted.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 0.0, max = 100_000.0))]
            delay_bound_ms: Option<f64>,
        }
        /// Start, in seconds.
        start_s;
        /// No new packets are sent from then on, in seconds. Left out: the end of the run.
        stop_s;
    }

    /// A transfer over QUIC-like datagrams: TCP's congestion controls, acknowledgment by packet number (RFC 9002), and
    /// headers that a gateway can neither read nor change.
    Quic "quic" Be {
        /// The sender of data.
        from;
        /// The receiver.
        to;
        /// DSCP of its packets in both directions: a name or a number. Left out: `BE`.
        dscp;
        own {
            /// Congestion control.
            #[serde(default)]
            controller: TcpVariant,
            /// How slow start ends before a loss; only for `cubic`. Left out: `classic`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            hystart: Option<TcpHyStart>,
            /// Bytes to transfer. Left out: unlimited.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
            size_bytes: Option<u64>,
            /// Maximum UDP payload in bytes (RFC 9000: at least 1200).
            #[serde(default = "datagram_bytes")]
            #[schemars(range(min = 1200, max = 8972))]
            datagram_bytes: u32,
            /// Receive buffer in bytes: the maximum amount of data that the sender may be ahead of the receiver.
            #[serde(default = "receive_buffer")]
            #[schemars(range(min = 10_000, max = 1_000_000_000))]
            receive_buffer_bytes: u32,
            /// Initial window in packets (RFC 9002).
            #[serde(default = "initial_window")]
            #[schemars(range(min = 1, max = 100))]
            initial_window_packets: u32,
        }
        /// Start, in seconds.
        start_s;
        /// The application stops offering data, in seconds. Left out: the end of the run.
        stop_s;
    }

    /// Datagrams at a constant bit rate.
    Cbr "cbr" Be {
        /// The sender.
        from;
        /// The receiver: a place, or `"broadcast"` for all neighbours of the sender.
        to;
        /// DSCP of its packets: a name or a number. Left out: `BE`.
        dscp;
        own {
            /// Offered rate in kb/s of UDP payload.
            #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
            rate_kbps: f64,
            /// UDP payload of a packet in bytes.
            #[schemars(range(min = 1, max = 8972))]
            payload_bytes: u32,
            /// A packet counts as an outage if its delay exceeds that of the fastest packet by more than this, in ms. Left
            /// out: outages are not counted.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 0.0, max = 100_000.0))]
            delay_bound_ms: Option<f64>,
        }
        /// First packet, in seconds, plus a random phase within one interval.
        start_s;
        /// No packets are sent from then on, in seconds. Left out: the end of the run.
        stop_s;
    }

    /// Bursts of datagrams at a constant mean rate (kim2010, Table 1).
    Burst "burst" Be {
        /// The sender.
        from;
        /// The receiver.
        to;
        /// DSCP of its packets: a name or a number. Left out: `BE`.
        dscp;
        own {
            /// Packets per burst, sent back to back.
            #[schemars(range(min = 1, max = 10_000))]
            burst_packets: u32,
            /// Mean offered rate in kb/s of IP packets.
            #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
            rate_kbps: f64,
            /// Size of an IP packet in bytes.
            #[schemars(range(min = 29, max = 9000))]
            packet_bytes: u32,
        }
        /// First burst, in seconds, plus a random phase within one interval.
        start_s;
        /// No bursts are sent from then on, in seconds. Left out: the end of the run.
        stop_s;
    }

    /// Echo requests (ICMP) at a steady interval. The receiver answers each one: delay and loss are those of the round trip.
    Ping "ping" Be {
        /// The sender of requests.
        from;
        /// The host that answers.
        to;
        /// DSCP of requests and replies: a name or a number. Left out: `BE`.
        dscp;
        own {
            /// Time between requests in ms.
            #[serde(default = "ping_interval_ms")]
            #[schemars(range(min = 1.0, max = 3_600_000.0))]
            interval_ms: f64,
            /// Size of an IP packet in bytes.
            #[serde(default = "ping_bytes")]
            #[schemars(range(min = 28, max = 9000))]
            packet_bytes: u32,
            /// The controller of the gateway `from` takes the replies for a call: it finds out how calls would fare that it does not
            /// see, because they stay in the mesh. `interval_ms` is a whole number from 10 to 60 then.
            #[serde(default, skip_serializing_if = "is_false")]
            probe: bool,
        }
        /// First request, in seconds, plus a random phase within one interval.
        start_s;
        /// No requests are sent from then on, in seconds. Left out: the end of the run.
        stop_s;
    }

    /// Web browsing: each page is transferred over a new TCP connection, followed by a pause. The time of a page runs from
    /// the first SYN to the last byte. The request is not modelled, apart from the handshake.
    Web "web" Be {
        /// The server, which sends the pages.
        from;
        /// The client.
        to;
        /// DSCP of its packets in both directions: a name or a number. Left out: `BE`.
        dscp;
        own {
            /// Page size.
            #[serde(default)]
            size: SizeLaw,
            /// Think time: the pause from the end of a page to the start of the next page.
            #[serde(default)]
            think: TimeLaw,
            /// Congestion control.
            #[serde(default)]
            tcp: TcpVariant,
            /// TCP implementation whose defaults apply to the keys below.
            #[serde(default)]
            profile: TcpProfile,
            /// Maximum segment size (MSS) in bytes of data.
            #[serde(default = "mss")]
            #[schemars(range(min = 88, max = 8960))]
            mss_bytes: u32,
            /// Initial window in segments (RFC 6928).
            #[serde(default = "initial_window")]
            #[schemars(range(min = 1, max = 100))]
            initial_window_packets: u32,
            /// Minimum retransmission timeout in ms. Left out: 1000 (RFC 6298), or 200 with profile = "linux".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1.0, max = 60_000.0))]
            rto_min_ms: Option<f64>,
        }
        /// Start of the first pause, in seconds.
        start_s;
        /// No new pages are requested from then on, in seconds. Left out: the end of the run.
        stop_s;
    }

    /// Requests and responses over two persistent TCP connections, one for each direction, so that no acknowledgment is
    /// piggybacked on data. The response time runs from the start of the request.
    Request "request" Be {
        /// The client.
        from;
        /// The server.
        to;
        /// DSCP of its packets in both directions: a name or a number. Left out: `BE`.
        dscp;
        own {
            /// Size of a request in bytes.
            #[serde(default = "request_bytes")]
            #[schemars(range(min = 1, max = 1_000_000_000))]
            request_bytes: u32,
            /// Response size.
            #[serde(default)]
            response: SizeLaw,
            /// Think time: the pause from the end of a response to the next request.
            #[serde(default)]
            think: TimeLaw,
            /// Congestion control.
            #[serde(default)]
            tcp: TcpVariant,
            /// TCP implementation whose defaults apply to the keys below.
            #[serde(default)]
            profile: TcpProfile,
            /// Maximum segment size (MSS) in bytes of data.
            #[serde(default = "mss")]
            #[schemars(range(min = 88, max = 8960))]
            mss_bytes: u32,
            /// Initial window in segments (RFC 6928).
            #[serde(default = "initial_window")]
            #[schemars(range(min = 1, max = 100))]
            initial_window_packets: u32,
            /// Minimum retransmission timeout in ms. Left out: 1000 (RFC 6298), or 200 with profile = "linux".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1.0, max = 60_000.0))]
            rto_min_ms: Option<f64>,
        }
        /// Start of the first pause, in seconds.
        start_s;
        /// No new requests are sent from then on, in seconds. Left out: the end of the run.
        stop_s;
    }

    /// Video over UDP: frames at a constant frame rate, each split into packets that are sent at once. A frame is lost if any
    /// of its packets is lost.
    Video "video" Af41 {
        /// The sender.
        from;
        /// The receiver.
        to;
        /// DSCP of its packets: a name or a number. Left out: `AF41` (RFC 4594 §4.5, for video conferences).
        dscp;
        own {
            /// Mean rate in kb/s of UDP payload.
            #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
            rate_kbps: f64,
            /// Frames per second.
            #[serde(default = "frames_per_s")]
            #[schemars(range(min = 0.01, max = 1_000.0))]
            frames_per_s: f64,
            /// Frames per group: the first is an I frame, the others are P frames. 1: all frames have the same mean size.
            #[serde(default = "one")]
            #[schemars(range(min = 1, max = 1_000))]
            group_frames: u32,
            /// Mean size of an I frame divided by that of a P frame.
            #[serde(default = "equal")]
            #[schemars(range(min = 1.0, max = 100.0))]
            i_to_p: f64,
            /// Coefficient of variation of the frame size, for I and P frames alike; sizes are log-normal. 0: constant size.
            #[serde(default)]
            #[schemars(range(min = 0.0, max = 5.0))]
            variation: f64,
            /// Maximum size of an IP packet in bytes.
            #[serde(default = "mtu")]
            #[schemars(range(min = 68, max = 9000))]
            packet_bytes: u32,
            /// Deadline in ms: a frame that is complete more than this after it was sent is late. Left out: no frame is late.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 0.0, max = 100_000.0))]
            deadline_ms: Option<f64>,
        }
        /// First frame, in seconds, plus a random phase within one interval.
        start_s;
        /// No frames are sent from then on, in seconds. Left out: the end of the run.
        stop_s;
    }

    /// Programs of this machine, one at each end, in the namespaces of `fairhop emulate`. Both ends are attached, if
    /// `[[attach]]` does not name them. A simulation leaves this traffic out.
    Real "real" Be {
        /// One end.
        from;
        /// The other end. The command there is started first.
        to;
        /// Not to be set: programs mark their own packets. Left out: `BE`.
        dscp;
        own {
            /// Shell command at `from`. The variables FROM and TO hold the first addresses of the two ends, COPY the number of
            /// the copy.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            command_from: Option<String>,
            /// Shell command at `to`, with the same variables.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            command_to: Option<String>,
        }
        /// Start of the commands, in seconds.
        start_s;
        /// The commands get SIGTERM, in seconds. Left out: the end of the run.
        stop_s;
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn one() -> u32 {
    1
}

fn equal() -> f64 {
    1.0
}

fn request_bytes() -> u32 {
    400
}

fn frames_per_s() -> f64 {
    25.0
}

fn ping_interval_ms() -> f64 {
    1000.0
}

/// 56 bytes of data, as the program has them.
fn ping_bytes() -> u32 {
    84
}

fn mtu() -> u32 {
    1500
}

fn datagram_bytes() -> u32 {
    mtu() - headers::IP_UDP
}

fn mss() -> u32 {
    mtu() - headers::IP_TCP
}

fn receive_buffer() -> u32 {
    4_194_304
}

fn initial_window() -> u32 {
    10
}

fn two() -> u32 {
    2
}

fn beta() -> f64 {
    0.875
}

fn yes() -> bool {
    true
}

fn rto_min_ms() -> f64 {
    1000.0
}

impl Traffic {
    /// The name of the entry: as given, or its kind. Its copies are called `name-0`, `name-1`, …
    pub fn base_name(&self) -> &str {
        self.common().name.unwrap_or(self.kind())
    }

    /// The sender, or one end of a call.
    pub fn from(&self) -> Place {
        self.common().from
    }

    /// The receiver, or the other end of a call.
    pub fn to(&self) -> Place {
        self.common().to
    }

    /// Number of copies.
    pub fn count(&self) -> u32 {
        self.common().count
    }

    /// DSCP of its packets.
    pub fn dscp(&self) -> Dscp {
        self.common().dscp.unwrap_or(Codepoint::Named(self.default_dscp())).dscp()
    }

    /// Start and stop in seconds; `None`: it stops at the end of the run.
    pub fn times(&self) -> (f64, Option<f64>) {
        let common = self.common();
        (common.start_s, common.stop_s)
    }

    /// Delay in ms beyond that of the fastest packet from which a packet counts as an outage; `None`: outages are not
    /// counted.
    pub fn delay_bound_ms(&self) -> Option<f64> {
        match self {
            Self::Aimd(Aimd { delay_bound_ms, .. }) | Self::Cbr(Cbr { delay_bound_ms, .. }) => {
                *delay_bound_ms
            }
            _ => None,
        }
    }

    /// The largest IP packet that it sends, in bytes.
    pub fn largest_packet_bytes(&self) -> u32 {
        match self {
            Self::Call(call) => headers::IP_UDP_RTP + call.codec.profile().payload_bytes,
            Self::Quic(quic) => headers::IP_UDP + quic.datagram_bytes,
            Self::Real(_) => mtu(),
            Self::Cbr(cbr) => headers::IP_UDP + cbr.payload_bytes,
            // Timestamps take their bytes from the data (RFC 9293 §3.7.1).
            Self::Bulk(Bulk { mss_bytes, .. })
            | Self::Web(Web { mss_bytes, .. })
            | Self::Request(Request { mss_bytes, .. }) => headers::IP_TCP + mss_bytes,
            Self::Aimd(Aimd { packet_bytes, .. })
            | Self::Burst(Burst { packet_bytes, .. })
            | Self::Ping(Ping { packet_bytes, .. })
            | Self::Video(Video { packet_bytes, .. }) => *packet_bytes,
        }
    }

    /// Its TCP segment size in bytes; `None` for traffic without TCP.
    pub fn mss_bytes(&self) -> Option<u32> {
        match self {
            Self::Bulk(Bulk { mss_bytes, .. })
            | Self::Web(Web { mss_bytes, .. })
            | Self::Request(Request { mss_bytes, .. }) => Some(*mss_bytes),
            _ => None,
        }
    }
}
