//! Channel time of a packet, and upper bounds on the throughput of a multihop path.
//!
//! All results are upper bounds for a perfect schedule: no collisions, losses, hidden stations or empty queues. The
//! simulator shows what DCF achieves.
//!
//! **Time of an exchange** on one hop: DIFS, then the frames with a SIFS between them (IEEE 802.11-2020, 10.3.2).
//!
//! **Backoff** counts down in parallel: all stations of a neighbourhood use the same idle slots. A station needs CWmin/2
//! slots on average for each of its packets (10.3.4.3). So the neighbourhood is idle for the backoff of its busiest
//! station, once and not once per hop.
//!
//! **Space.** Stations stand in a line. A transmission reaches stations up to `reach` hops away: they sense the medium busy
//! and cannot receive other frames. Let two links be in use at the same time, with their nearest ends g hops apart, so that
//! their numbers differ by g + 1. On each link both ends send (data and ACK), and each end receives while the other link
//! sends. Without losses this requires g > `reach`: the numbers differ by at least `reach` + 2, so at most one of
//! `reach` + 2 consecutive links is in use. With capture, a receiver keeps a frame despite a later, weaker one, and only
//! carrier sense limits reuse: the senders of data are more than `reach` hops apart, so at most one of `reach` + 1
//! consecutive links is in use. Every packet on a path of h hops therefore takes the time of min(h, number of shared links)
//! exchanges in the fullest neighbourhood.

use crate::headers;
use crate::phy::{Phy, Rate, frame};
use crate::units::{BitRate, Nanos};
use crate::voice::Codec;

/// The parts of the channel time of one packet on one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTime {
    /// DIFS.
    pub difs: Nanos,
    /// Mean backoff of a first attempt, CWmin/2 slots.
    pub backoff: Nanos,
    /// RTS, CTS and the SIFS after each; zero without RTS.
    pub protection: Nanos,
    /// The data frame.
    pub data: Nanos,
    /// SIFS and ACK.
    pub acknowledgment: Nanos,
}

impl PacketTime {
    /// Total channel time: the cost of a packet for a single station.
    pub fn total(&self) -> Nanos {
        self.exclusive() + self.backoff
    }

    /// Channel time without the backoff, which stations count down together: the cost for the neighbours.
    pub fn exclusive(&self) -> Nanos {
        self.difs + self.protection + self.data + self.acknowledgment
    }
}

/// Number of consecutive links of a line of which at most one is in use at a time. The module describes the derivation.
///
/// `reach` is the number of hops over which a frame is sensed and interferes. `capture`: receivers keep a frame despite a
/// weaker one from within that reach.
pub const fn shared_links(reach: u32, capture: bool) -> u32 {
    reach.saturating_add(if capture { 1 } else { 2 })
}

/// A line of equal hops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path<'a> {
    /// Physical layer.
    pub phy: Phy,
    /// Rate of data frames.
    pub rate: Rate,
    /// Basic rates, for ACK, RTS and CTS.
    pub basic: &'a [Rate],
    /// Data frames of more bytes than this use RTS and CTS; `None`: never.
    pub rts_threshold: Option<u32>,
    /// Number of hops, at least one.
    pub hops: u32,
    /// Number of consecutive links of which at most one is in use ([`shared_links`]).
    pub shared_links: u32,
}

impl Path<'_> {
    /// The channel time of an IP packet of `ip_bytes` on one hop.
    pub fn packet_time(&self, ip_bytes: u32) -> PacketTime {
        let phy = &self.phy;
        let bytes = frame::of_ip_packet(ip_bytes);
        let control = phy.control_rate(self.rate, self.basic);
        let answer = phy.control_rate(control, self.basic);
        let protection = match self.rts_threshold {
            Some(threshold) if bytes > threshold => {
                phy.frame_duration(control, frame::RTS)
                    + phy.frame_duration(answer, frame::CTS)
                    + phy.sifs * 2
            }
            _ => Nanos::ZERO,
        };
        PacketTime {
            difs: phy.difs(),
            backoff: Nanos(phy.slot.0 * u64::from(phy.cw_min) / 2),
            protection,
            data: phy.frame_duration(self.rate, bytes),
            acknowledgment: phy.sifs + phy.frame_duration(control, frame::ACK),
        }
    }

    /// Upper bound of one-way UDP goodput, with datagrams of `payload_bytes`.
    pub fn udp_goodput(&self, payload_bytes: u32) -> BitRate {
        let packet = self.packet_time(payload_bytes.saturating_add(headers::IP_UDP));
        let seconds = self.neighbourhood_seconds(&[(packet, 1.0)], &[]);
        bits_in(8.0 * f64::from(payload_bytes), seconds)
    }

    /// Upper bound of one-way TCP goodput, with segments of `mss` bytes and `options` bytes of TCP options in segments and
    /// ACKs (12 with timestamps). One ACK answers `segments_per_ack` segments: 2 with delayed ACKs, 1 without; less counts
    /// as 1.
    pub fn tcp_goodput(&self, mss: u32, options: u32, segments_per_ack: f64) -> BitRate {
        let header_bytes = headers::IP_TCP.saturating_add(options);
        let segment = self.packet_time(mss.saturating_add(header_bytes));
        let ack = self.packet_time(header_bytes);
        let seconds =
            self.neighbourhood_seconds(&[(segment, 1.0)], &[(ack, 1.0 / segments_per_ack.max(1.0))]);
        bits_in(8.0 * f64::from(mss), seconds)
    }

    /// Upper bound of the number of calls of `codec`, each with a stream in both directions along the whole path.
    pub fn calls(&self, codec: Codec) -> u32 {
        let profile = codec.profile();
        let packet = self.packet_time(profile.payload_bytes + headers::IP_UDP_RTP);
        let seconds = self.neighbourhood_seconds(&[(packet, 1.0)], &[(packet, 1.0)]);
        (profile.interval.as_secs_f64() / seconds) as u32
    }

    /// Time that packets occupy the fullest neighbourhood: packet times with their counts, forth and back.
    fn neighbourhood_seconds(&self, forth: &[(PacketTime, f64)], back: &[(PacketTime, f64)]) -> f64 {
        let links = f64::from(self.hops.min(self.shared_links).max(1));
        let sum = |packets: &[(PacketTime, f64)], part: fn(&PacketTime) -> Nanos| {
            packets.iter().map(|(packet, number)| part(packet).as_secs_f64() * number).sum::<f64>()
        };
        let (backoff_forth, backoff_back) = (sum(forth, |p| p.backoff), sum(back, |p| p.backoff));
        // A relay sends both ways. The two ends of a single hop send one way each and count down in parallel.
        let busiest =
            if self.hops > 1 { backoff_forth + backoff_back } else { backoff_forth.max(backoff_back) };
        links * (sum(forth, PacketTime::exclusive) + sum(back, PacketTime::exclusive)) + busiest
    }
}

fn bits_in(bits: f64, seconds: f64) -> BitRate {
    BitRate((bits / seconds).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Preamble, Standard};
    use proptest::prelude::*;

    /// The strings of kim2010 as the peers ran them: 802.11a, data at 12, control at 6 Mb/s, reach of 2 hops.
    fn string(hops: u32, capture: bool) -> Path<'static> {
        Path {
            phy: Phy::new(Standard::Dot11a, Preamble::Long),
            rate: Rate::Ofdm12,
            basic: &[Rate::Ofdm6],
            rts_threshold: None,
            hops,
            shared_links: shared_links(2, capture),
        }
    }

    #[test]
    fn packet_time_by_hand() {
        let us = Nanos::from_micros;
        let packet = string(1, false).packet_time(1500);
        // 7.5 slots of 9 µs; 20 + 4 · 257; 16 + 20 + 4 · 6.
        assert_eq!((packet.difs, packet.backoff), (us(34), Nanos(67_500)));
        assert_eq!((packet.data, packet.acknowledgment, packet.protection), (us(1048), us(60), Nanos::ZERO));
        assert_eq!((packet.exclusive(), packet.total()), (us(1142), Nanos(1_209_500)));
        // RTS 20 + 4 · 8, CTS 44, two SIFS; the frame has 1536 bytes.
        let protects = |threshold| Path { rts_threshold: Some(threshold), ..string(1, false) };
        assert_eq!(protects(1535).packet_time(1500).protection, us(52 + 44 + 32));
        assert_eq!(protects(1536).packet_time(1500).protection, Nanos::ZERO);
    }

    #[test]
    fn path_bounds_by_hand() {
        let near = |rate: BitRate, mbps: f64| (rate.as_mbps() - mbps).abs() < 1e-5;
        // 1472 bytes in 1142 + 67.5 µs; over four hops, all of which share, in 4 · 1142 + 67.5 µs; more hops cost no more.
        assert!(near(string(1, false).udp_goodput(1472), 11_776.0 / 1209.5));
        assert!(near(string(4, false).udp_goodput(1472), 11_776.0 / 4635.5));
        assert_eq!(string(9, false).udp_goodput(1472), string(4, false).udp_goodput(1472));
        // TCP ACK of 40 bytes: a frame of 76, ⌈630/48⌉ = 14 symbols, 76 µs, with DIFS and ACK 170 µs, every second
        // segment. One hop: 1142 + 85 + 67.5. Four: 4 · 1227 + 1.5 · 67.5.
        assert!(near(string(1, false).tcp_goodput(1460, 0, 2.0), 11_680.0 / 1294.5));
        assert!(near(string(4, false).tcp_goodput(1460, 0, 2.0), 11_680.0 / 5009.25));
        // A call over four hops: 60-byte packets of 88 µs, with DIFS and ACK 182 µs: 8 · 182 + 135 = 1591 µs of 20 ms.
        assert_eq!(string(4, false).calls(Codec::G729a), 12);
        assert_eq!(string(4, true).calls(Codec::G729a), 16);
        // G.723.1: 64 bytes are 92 µs: 8 · 186 + 135 = 1623 µs of 30 ms.
        assert_eq!(string(4, false).calls(Codec::G7231), 18);
        // No payload, no goodput.
        assert_eq!(string(0, false).udp_goodput(0), BitRate(0));
    }

    #[test]
    fn simulated_strings_stay_under_the_bound() {
        // Goodput of one TCP flow in ns-3.37 (Mb/s) over 1 to 8 hops: docs/validation/phy.md.
        let measured = [
            (false, [8.80, 4.18, 2.15, 1.50, 1.11, 1.03, 0.90, 0.85]),
            (true, [8.80, 4.44, 2.78, 1.85, 1.63, 1.55, 1.59, 1.62]),
        ];
        for (capture, goodputs) in measured {
            for (hops, goodput) in (1..).zip(goodputs) {
                let bound = string(hops, capture).tcp_goodput(1460, 0, 2.0).as_mbps();
                assert!(goodput < bound, "{hops} hops, capture {capture}: {goodput} {bound}");
            }
        }
    }

    proptest! {
        #[test]
        fn longer_paths_and_wider_reach_never_raise_a_bound(hops in 1_u32..20, reach in 0_u32..6, payload in 1_u32..1472) {
            let of = |hops, reach| Path { shared_links: shared_links(reach, false), ..string(hops, false) };
            let here = of(hops, reach);
            prop_assert!(of(hops + 1, reach).udp_goodput(payload) <= here.udp_goodput(payload));
            prop_assert!(of(hops, reach + 1).udp_goodput(payload) <= here.udp_goodput(payload));
            prop_assert!(here.tcp_goodput(payload, 12, 1.0) <= here.tcp_goodput(payload, 12, 2.0));
            prop_assert!(of(hops + 1, reach).calls(Codec::G711) <= here.calls(Codec::G711));
        }
    }
}
