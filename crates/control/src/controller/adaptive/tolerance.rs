//! How much loss a call tolerates, from its codec and the interval of its packets.
//!
//! The aim is that few seconds are bad: [`BAD_SECONDS`] in each direction. A second is bad if so many of its packets are lost
//! or late that the E-model's MOS falls under the target. For independent losses with probability p, the number of packets
//! lost in a second is binomial, and p follows. G.729A has 50 packets a second, of which the second lost one is too much:
//! p = 0.43 %. G.723.1 has 33, of which each may cost the second: 0.061 %. G.711 bears three of 50: 2.1 %.

use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;

use crate::observer::Listening;

/// Tolerable fraction of bad seconds in one direction: together less than the 5 % of a call whose quality is good.
const BAD_SECONDS: f64 = 0.02;

/// What a call tolerates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    /// Fraction of packets lost or late, in the long run.
    pub(super) loss: f64,
    /// Lost packets that make a second bad.
    pub(super) packets: u32,
    /// MOS under which a second is bad.
    pub(super) mos: f64,
}

impl Tolerance {
    /// That of a codec with a packet every `interval`, where seconds with a MOS under `target` are bad.
    pub(super) fn of(codec: Codec, interval: Nanos, target: f64, listening: Listening) -> Self {
        let sent = (1.0 / interval.as_secs_f64().max(1e-3)).round().max(1.0);
        let score = |lost: f64| listening.mos(codec, lost / sent);
        // A call that is under the target without loss, by its codec or its delay: what costs it a tenth of its score is too much.
        let target = if score(0.0) < target { 0.9 * score(0.0) } else { target };
        let packets = (1..=sent as u32).find(|&lost| score(f64::from(lost)) < target).unwrap_or(1);
        // The tail of the binomial distribution grows with p: halve the interval that holds the solution.
        let (mut low, mut high) = (0.0, 0.5);
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if tail(sent, packets, middle) < BAD_SECONDS { low = middle } else { high = middle }
        }
        Self { loss: low, packets, mos: target }
    }

    /// The loss in one direction that makes as many seconds bad as the losses of two together.
    pub(super) fn combined(self, losses: [f64; 2]) -> f64 {
        // The number of bad seconds grows with the power of the packets that make a second bad.
        let power = f64::from(self.packets.min(8));
        libm::pow(losses.iter().map(|loss| libm::pow(*loss, power)).sum(), 1.0 / power)
    }
}

/// Probability that `min` or more of `sent` independent events with probability `p` happen.
fn tail(sent: f64, min: u32, p: f64) -> f64 {
    let mut term = libm::pow(1.0 - p, sent);
    let mut below = 0.0;
    for count in 0..min {
        below += term;
        term *= (sent - f64::from(count)) / f64::from(count + 1) * p / (1.0 - p);
    }
    1.0 - below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tolerable_loss_follows_from_codec_and_interval() {
        let listening = Listening { playout: Nanos::from_millis(60), min_delay: Nanos::from_millis(50) };
        let of = |codec: Codec, ms| Tolerance::of(codec, Nanos::from_millis(ms), 3.6, listening);
        // By hand: (1 − p)^50 + 50 p (1 − p)^49 = 0.98 at p = 0.433 %; 1 − (1 − p)^33 = 0.02 at p = 0.0612 %.
        for (found, packets, loss) in [
            (of(Codec::G729a, 20), 2, 0.00433),
            (of(Codec::G7231, 30), 1, 0.000_612),
            (of(Codec::G711, 20), 4, 0.0207),
        ] {
            assert_eq!(found.packets, packets);
            assert!((found.loss / loss - 1.0).abs() < 0.02, "{found:?}, not {loss}");
        }
        // Packets of 40 ms: one of 25 lost is 4 %, too much for G.729A.
        assert_eq!(of(Codec::G729a, 40).packets, 1);
        // After 122 ms a call has a MOS of 3.82, and 3.48 with one lost packet. After 300 ms it has 2.6 without any loss.
        let after = |ms| {
            let listening = Listening { min_delay: Nanos::from_millis(ms), ..listening };
            Tolerance::of(Codec::G729a, Nanos::from_millis(20), 3.6, listening)
        };
        assert_eq!((after(122).packets, after(122).mos), (1, 3.6));
        assert!((after(300).mos - 0.9 * 2.63).abs() < 0.01, "{:?}", after(300));
    }
}
