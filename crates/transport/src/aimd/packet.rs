//! What data packets and acknowledgments say, and one-way delays from the clocks in them.

use fairhop_model::units::Nanos;

use super::Seq;

/// The fields of a data packet, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The number of the packet, modulo 2²⁴.
    pub seq: Seq,
    /// The sender's clock when the packet was sent, in µs modulo 2³².
    pub sent_us: u32,
}

/// An acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The largest number received.
    pub seq: Seq,
    /// Bit i − 1, from the lowest: whether the packet with the number `seq` − i has been received.
    pub vector: u8,
    /// Window advertised by the receiver, in packets.
    pub rwnd: u16,
    /// The receiver's clock minus the sender's when the acknowledged packet arrived, in µs modulo 2³²: the one-way delay
    /// plus the difference of the clocks.
    pub transit_us: u32,
}

/// One-way delays between clocks of unknown difference: each relative to the minimum so far. The minimum itself and a
/// drift of the clocks stay unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelativeDelay {
    /// The first difference of the clocks, and the minimum since relative to it, in µs.
    base: Option<(u32, i64)>,
}

impl RelativeDelay {
    /// Takes a difference of clocks; returns the delay above the minimum so far. Differences are within 2³¹ µs (half an
    /// hour) of the first.
    pub fn on_transit(&mut self, transit_us: u32) -> Nanos {
        let (first, min) = self.base.unwrap_or((transit_us, 0));
        let relative = i64::from(transit_us.wrapping_sub(first) as i32);
        let min = min.min(relative);
        self.base = Some((first, min));
        Nanos::from_micros(relative.abs_diff(min))
    }
}

/// The clock in packets: microseconds modulo 2³².
pub(super) fn clock_us(now: Nanos) -> u32 {
    (now.0 / 1_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_relative_to_the_minimum_so_far_whatever_the_clocks_and_across_their_wrap() {
        for offset in [0_u32, 5, u32::MAX - 10, 1 << 31] {
            let mut delay = RelativeDelay::default();
            let delays = [100_u32, 150, 90, 90, 95].map(|us| delay.on_transit(offset.wrapping_add(us)));
            assert_eq!(delays.map(|delay| delay.0 / 1_000), [0, 50, 0, 0, 5]);
        }
    }
}
