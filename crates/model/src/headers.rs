//! Sizes of protocol headers in bytes: the only place in the code base that states them.
//!
//! | header | source |
//! |---|---|
//! | IPv4, without options | RFC 791 §3.1 |
//! | UDP | RFC 768 |
//! | TCP, without options | RFC 9293 §3.1 |
//! | RTP, without contributing sources and extension | RFC 3550 §5.1 |
//! | LLC and SNAP | IEEE 802.2-1998 §3.2, RFC 1042 |
//! | MAC header and frame check sequence of a data frame | IEEE 802.11-2020 §9.2.3, §9.3.2 |
//! | QoS control field | IEEE 802.11-2020 §9.2.4.5 |
//!
//! Payload sizes of the voice codecs are in [`crate::voice`], sizes of 802.11 control frames in [`crate::phy::frame`].
//! Left out: IPv6, IP and TCP options (a caller adds them), the fourth MAC address, encryption.

/// IPv4 header without options.
pub const IP: u32 = 20;
/// UDP header.
pub const UDP: u32 = 8;
/// TCP header without options.
pub const TCP: u32 = 20;
/// RTP header without contributing sources and extension.
pub const RTP: u32 = 12;

/// IPv4 and UDP headers.
pub const IP_UDP: u32 = IP + UDP;
/// IPv4 and TCP headers without options.
pub const IP_TCP: u32 = IP + TCP;
/// IPv4, UDP and RTP headers.
pub const IP_UDP_RTP: u32 = IP_UDP + RTP;

/// LLC and SNAP headers between the MAC header and an IP packet.
pub const LLC_SNAP: u32 = 8;
/// MAC header of a data frame with three addresses.
pub const MAC_HEADER: u32 = 24;
/// Frame check sequence at the end of every frame.
pub const FCS: u32 = 4;
/// MAC header of a data frame with three addresses, and the frame check sequence.
pub const MAC: u32 = MAC_HEADER + FCS;
/// QoS control field, which EDCA adds to the MAC header of a data frame.
pub const QOS_CONTROL: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_standards() {
        assert_eq!((IP, UDP, TCP, RTP), (20, 8, 20, 12));
        assert_eq!((IP_UDP, IP_TCP, IP_UDP_RTP), (28, 40, 40));
        assert_eq!((LLC_SNAP, MAC_HEADER, FCS, MAC, QOS_CONTROL), (8, 24, 4, 28, 2));
    }
}
