//! The probability that a chunk of a frame is received, from its rate, its SINR and its number of bits.
//!
//! A frame is cut into chunks where the interference changes. Each chunk has one SINR; the success probability of the frame
//! is the product over its chunks. Bit errors are independent within a chunk.
//!
//! **OFDM** (802.11a, g) is the model known as NIST's, the default of the common simulators: bit error rate of the
//! uncoded constellation on a Gaussian channel, then the Chernoff union bound of the hard-decision Viterbi decoder over
//! the first terms of the distance spectrum of the (133, 171) code and its punctured forms.
//! L. E. Miller, "Validation of 802.11a/UWB coexistence simulation", NIST, 2003; G. Pei and T. R. Henderson,
//! "Validation of OFDM error rate model in ns-3", 2010; spectra: D. Haccoun and G. Bégin, "High-rate punctured
//! convolutional codes for Viterbi and sequential decoding", IEEE Trans. Commun. 37(11), 1989. The SINR over the 20 MHz
//! channel is taken as the energy per symbol over the noise density of every subcarrier: the guard interval, the pilots
//! and the empty subcarriers (together 1.1 dB) are not accounted for, as in the model's source.
//!
//! **DSSS** (1 and 2 Mb/s) is differential detection on a Gaussian channel: DBPSK in closed form, Gray-coded DQPSK by
//! the finite integral that equals Proakis's Q₁(a, b) − ½ I₀(ab) exp(−(a² + b²)/2) ("Digital Communications", 4th ed.,
//! §5.2.8; M. K. Simon and M.-S. Alouini, "Digital Communication over Fading Channels", ch. 8). The 22 MHz that the
//! signal occupies over its symbol rate is the processing gain.
//!
//! **CCK** (5.5 and 11 Mb/s): 5.5 Mb/s is a biorthogonal set of 16 signals in 8 dimensions, 11 Mb/s is a pair of such
//! sets that share the energy (M. B. Pursley and T. C. Royster, "Properties and performance of the IEEE 802.11b
//! complementary-code-key signal sets", IEEE Trans. Commun. 57(2), 2009). The carrier phase is differentially encoded,
//! and its noisy reference costs 3 dB against coherent detection, as it costs DQPSK asymptotically; G. Pei and
//! T. R. Henderson, "Validation of ns-3 802.11b PHY model", 2009, has the same curves.
//!
//! Left out: fading within a frame, soft decisions, frequency selectivity, interference that is not Gaussian,
//! synchronisation (the receiver decides whether it detects a preamble).

use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

use super::{Modulation, Rate};

/// Bandwidth that a DSSS or CCK signal and its noise occupy, over the rate of 1 Mb/s symbols and of CCK symbols.
const BARKER_GAIN: f64 = 22.0 / 1.0;
const CCK_GAIN: f64 = 22.0 / 1.375;

/// The probability that `bits` bits sent at `rate` are all received at the SINR `sinr` (a factor, not dB; over 20 MHz for
/// OFDM, 22 MHz for DSSS and CCK).
///
/// `bits` may be fractional, since a chunk need not end with a bit; the result for 0 or less is 1. A `sinr` that is
/// negative or NaN counts as zero. The PHY header is a chunk at its own rate.
pub fn chunk_success(rate: Rate, sinr: f64, bits: f64) -> f64 {
    if bits > 0.0 { libm::exp(bits * log_bit_success(rate, sinr)) } else { 1.0 }
}

/// Natural logarithm of the probability that one bit is received: precise for many bits near 1.
fn log_bit_success(rate: Rate, sinr: f64) -> f64 {
    let sinr = sinr.max(0.0);
    match rate.modulation() {
        Modulation::Ofdm { constellation, code_numerator, .. } => {
            libm::log1p(-decoded_error(uncoded_error(constellation, sinr), code_numerator))
        }
        Modulation::Dbpsk => libm::log1p(-0.5 * libm::exp(-sinr * BARKER_GAIN)),
        Modulation::Dqpsk => libm::log1p(-dqpsk_error(sinr * BARKER_GAIN / 2.0)),
        // A symbol of the half-rate set is received as a whole or not at all, and so is each half of a full-rate symbol:
        // both are sets of 16 signals, 4 bits.
        Modulation::Cck { bits_per_symbol } => {
            let energy_of_four_bits = sinr * CCK_GAIN * 4.0 / f64::from(bits_per_symbol);
            libm::log1p(-biorthogonal_16_error(energy_of_four_bits)) / 4.0
        }
    }
}

/// Bit error rate before decoding, at a symbol's energy over the noise density of `snr`.
fn uncoded_error(constellation: u8, snr: f64) -> f64 {
    let (factor, distance) = match constellation {
        2 => (0.5, snr),
        4 => (0.5, snr / 2.0),
        // Square QAM with Gray coding, nearest neighbours alone: (1 − 1/√M) / log₂√M and 3 / (2(M − 1)).
        16 => (3.0 / 8.0, snr / 10.0),
        _ => (7.0 / 24.0, snr / 42.0),
    };
    factor * libm::erfc(libm::sqrt(distance))
}

/// Weights of the bit errors on paths at the free distance of the code and beyond, with the free distance, the step
/// between distances, and the information bits of a puncturing period.
struct Spectrum {
    free_distance: u8,
    step: u8,
    weights: &'static [f64],
}

/// Rate 1/2: this code has even distances only.
const HALF: Spectrum = Spectrum {
    free_distance: 10,
    step: 2,
    weights: &[36.0, 211.0, 1404.0, 11633.0, 77433.0, 502_690.0, 3_322_763.0, 21_292_910.0, 134_365_911.0],
};
/// Rate 2/3: a period of 2 information bits.
const TWO_THIRDS: Spectrum = Spectrum {
    free_distance: 6,
    step: 1,
    weights: &[3.0, 70.0, 285.0, 1276.0, 6160.0, 27128.0, 117_019.0, 498_860.0, 2_103_891.0, 8_784_123.0],
};
/// Rate 3/4: a period of 3 information bits. The published weights from the sixth on are up to 0.05 % over an exact count of
/// the code's paths; they are kept, since other simulators use them.
const THREE_QUARTERS: Spectrum = Spectrum {
    free_distance: 5,
    step: 1,
    weights: &[
        42.0,
        201.0,
        1492.0,
        10469.0,
        62935.0,
        379_644.0,
        2_253_373.0,
        13_073_811.0,
        75_152_755.0,
        428_005_675.0,
    ],
};

/// Bound of the bit error rate behind the decoder: Σ c_d D^d / 2b with D = √(4p(1 − p)), b information bits per
/// puncturing period; at most 1.
fn decoded_error(p: f64, period: u8) -> f64 {
    let spectrum = match period {
        1 => &HALF,
        2 => &TWO_THIRDS,
        _ => &THREE_QUARTERS,
    };
    let d_squared = 4.0 * p * (1.0 - p);
    let d = libm::sqrt(d_squared);
    let step = if spectrum.step == 2 { d_squared } else { d };
    let sum = spectrum.weights.iter().rev().fold(0.0, |sum, weight| sum * step + weight);
    (sum * libm::pow(d, f64::from(spectrum.free_distance)) / (2.0 * f64::from(period))).min(1.0)
}

/// Bit error rate of Gray-coded DQPSK at an energy per bit over noise density of `g`:
/// (1/4π) ∫ exp(−g (2 + √2 sin θ)) / (√2 + sin θ) dθ over a full turn.
fn dqpsk_error(g: f64) -> f64 {
    // The trapezium rule on a whole period of an analytic function; sin is symmetric about a quarter turn, so half of
    // it is enough. The peak's width is (√2 g)^−½: 64 intervals are exact to 1e-14 up to g = 100 (BER 1e-26).
    const HALF_TURN: u32 = 32;
    let mut sum = 0.0;
    for i in 0..=HALF_TURN {
        let s = libm::sin(PI * (f64::from(i) / f64::from(HALF_TURN) - 0.5));
        let weight = if i == 0 || i == HALF_TURN { 0.5 } else { 1.0 };
        sum += weight * libm::exp(-g * (2.0 + SQRT_2 * s)) / (SQRT_2 + s);
    }
    sum / (2.0 * f64::from(HALF_TURN))
}

/// Symbol error rate of 16 biorthogonal signals with a phase reference as noisy as the signal, at a symbol's energy
/// over noise density of `energy`: 1 − ∫ (2Φ(x + β) − 1)⁷ φ(x) dx over x > −β, with β² = `energy`.
fn biorthogonal_16_error(energy: f64) -> f64 {
    // With y = x + β it is ∫ h(y) φ(y − β) dy where h = 1 − erf(y/√2)⁷ for y > 0 and 1 below: smooth enough (six
    // derivatives at 0) for the trapezium rule, and free of cancellation where errors are rare.
    const STEP: f64 = 0.25;
    const REACH: f64 = 9.0;
    let beta = libm::sqrt(energy);
    if beta > 2.0 * REACH {
        return 0.0;
    }
    let first = libm::floor((beta - REACH) / STEP) as i32;
    let mut sum = 0.0;
    for i in first..=(REACH / STEP) as i32 {
        let y = f64::from(i) * STEP;
        let missed =
            if y > 0.0 { -libm::expm1(7.0 * libm::log1p(-libm::erfc(y * FRAC_1_SQRT_2))) } else { 1.0 };
        sum += missed * libm::exp(-0.5 * (y - beta) * (y - beta));
    }
    (sum * STEP / libm::sqrt(2.0 * PI)).min(1.0)
}

/// [`chunk_success`] for a hot loop: two SINRs per rate, outside of which no curve is computed.
///
/// Answers are within 1e-9 of [`chunk_success`].
#[derive(Clone, Debug)]
pub struct ErrorTable {
    bounds: [Bounds; Rate::ALL.len()],
}

/// SINRs as factors.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    hopeless: f64,
    certain: f64,
}

impl ErrorTable {
    /// Maximum error of a rounded result.
    const TOLERANCE: f64 = 1e-9;
    /// Longest chunk that is certain above the upper bound: a frame of 4096 bytes.
    const LONGEST: f64 = 8.0 * 4096.0;
    /// Shortest chunk that is certainly lost below the lower bound: an ACK.
    const SHORTEST: f64 = 8.0 * 14.0;

    /// The bounds of every rate.
    pub fn new() -> Self {
        Self {
            bounds: Rate::ALL.map(|rate| Bounds {
                hopeless: crossing(|sinr| chunk_success(rate, sinr, Self::SHORTEST) > Self::TOLERANCE).0,
                certain: crossing(|sinr| chunk_success(rate, sinr, Self::LONGEST) > 1.0 - Self::TOLERANCE).1,
            }),
        }
    }

    /// The probability that `bits` bits at `rate` are received at `sinr`, as by [`chunk_success`].
    pub fn success(&self, rate: Rate, sinr: f64, bits: f64) -> f64 {
        let bounds = self.bounds[rate as usize];
        if sinr >= bounds.certain && bits <= Self::LONGEST {
            1.0
        } else if sinr <= bounds.hopeless && bits >= Self::SHORTEST {
            0.0
        } else {
            chunk_success(rate, sinr, bits)
        }
    }

    /// The minimum SINR (a factor) at which a frame of up to 4096 bytes is lost less than once in 10⁹.
    pub fn certain(&self, rate: Rate) -> f64 {
        self.bounds[rate as usize].certain
    }

    /// The maximum SINR (a factor) at which a frame of 14 bytes or more is received at most once in 10⁹.
    pub fn hopeless(&self, rate: Rate) -> f64 {
        self.bounds[rate as usize].hopeless
    }
}

impl Default for ErrorTable {
    fn default() -> Self {
        Self::new()
    }
}

/// The last point at which `reached` is false and the first at which it is true, next to each other on the decibel
/// axis between −60 and +60 dB; `reached` must be monotone.
fn crossing(reached: impl Fn(f64) -> bool) -> (f64, f64) {
    let (mut below, mut above) = (-60.0, 60.0);
    // 60 halvings reach floating-point precision.
    for _ in 0..60 {
        let middle = 0.5 * (below + above);
        if reached(libm::exp10(middle / 10.0)) {
            above = middle;
        } else {
            below = middle;
        }
    }
    (libm::exp10(below / 10.0), libm::exp10(above / 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Db;
    use proptest::prelude::*;

    fn close(got: f64, expected: f64, relative: f64) -> bool {
        (got - expected).abs() <= relative * expected.abs()
    }

    /// SINR in dB at which 10 % of frames of `bytes` are lost.
    fn sinr_of_ten_percent_loss(rate: Rate, bytes: f64) -> f64 {
        Db::from_ratio(crossing(|sinr| chunk_success(rate, sinr, 8.0 * bytes) > 0.9).1).0
    }

    #[test]
    fn uncoded_error_rates_are_those_of_textbook_tables() {
        // Q(3) = 1.349898e-3 = ½ erfc(3/√2): BPSK at Es/N0 = 4.5, QPSK at 9, and by the nearest-neighbour rule
        // 16-QAM at 45 times 2·3/8 and 64-QAM at 189 times 2·7/24.
        let q3 = 1.349_898_031_630_095e-3;
        assert!(close(uncoded_error(2, 4.5), q3, 1e-12));
        assert!(close(uncoded_error(4, 9.0), q3, 1e-12));
        assert!(close(uncoded_error(16, 45.0), 0.75 * q3, 1e-12));
        assert!(close(uncoded_error(64, 189.0), 7.0 / 12.0 * q3, 1e-12));
    }

    #[test]
    fn decoded_error_rate_by_hand() {
        // p = 0.01: 4p(1 − p) = 0.0396. Rate 1/2, half of:
        //   36·0.0396⁵ = 3.50580e-6   211·0.0396⁶ = 8.13701e-7   1404·0.0396⁷ = 2.14411e-7
        //   11633·0.0396⁸ = 7.03505e-8   77433·0.0396⁹ = 1.85437e-8   502690·0.0396¹⁰ = 4.76725e-9
        //   3322763·0.0396¹¹ = 1.24785e-9   21292910·0.0396¹² = 3.16658e-10   134365911·0.0396¹³ = 7.9129e-11
        //   sum 4.62921e-6.
        assert!(close(decoded_error(0.01, 1), 4.62921e-6 / 2.0, 1e-4), "{}", decoded_error(0.01, 1));
        // p = 1e-4, D = √0.00039996 = 0.0199990: the first two terms of rate 2/3 are 3 D⁶ = 1.919424e-10 and
        // 70 D⁷ = 8.95699e-11, 285 D⁸ = 7.29e-12, 1276 D⁹ = 6.53e-13, 6160 D¹⁰ = 6.3e-14; a quarter of the sum
        // 2.89522e-10. Rate 3/4: 42 D⁵ = 1.343691e-7, 201 D⁶ = 1.286e-8, 1492 D⁷ = 1.9091e-9, 10469 D⁸ = 2.679e-10,
        // 62935 D⁹ = 3.221e-11, 379644 D¹⁰ = 3.886e-12, …; a sixth of 1.494424e-7.
        assert!(close(decoded_error(1e-4, 2), 2.89522e-10 / 4.0, 1e-4), "{}", decoded_error(1e-4, 2) * 4.0);
        assert!(close(decoded_error(1e-4, 3), 1.494424e-7 / 6.0, 1e-4), "{}", decoded_error(1e-4, 3) * 6.0);
        // A random guess.
        assert_eq!(decoded_error(0.5, 1), 1.0);
    }

    /// Weights of bit errors by distance, from the code itself: generators 133 and 171 (17.3.5.6), punctured by
    /// `pattern` (for each input bit: whether output A and output B are sent).
    fn spectrum_of_code(pattern: &[(bool, bool)], free_distance: usize, terms: usize) -> Vec<f64> {
        let largest = free_distance + terms;
        let period = pattern.len();
        let mut weights = vec![0.0; largest];
        for start in 0..period {
            // paths[state][distance] = (how many, sum of their input weights); they leave state 0 with a one, and end
            // where they meet it again.
            let mut paths = vec![vec![(0.0_f64, 0.0_f64); largest]; 64];
            paths[0][0].0 = 1.0;
            for step in 0.. {
                let (sent_a, sent_b) = pattern[(start + step) % period];
                let mut next = vec![vec![(0.0, 0.0); largest]; 64];
                let mut alive = false;
                for (state, by_distance) in paths.iter().enumerate() {
                    for input in usize::from(step == 0)..2 {
                        // The newest bit is the highest of seven; 133 and 171 octal have its tap first.
                        let register = (input << 6) | state;
                        let a = usize::from((register & 0o133).count_ones() % 2 == 1 && sent_a);
                        let b = usize::from((register & 0o171).count_ones() % 2 == 1 && sent_b);
                        let to = register >> 1;
                        for (d, &(count, weight)) in by_distance[..largest - a - b].iter().enumerate() {
                            if count == 0.0 {
                                continue;
                            }
                            let weight = weight + if input == 1 { count } else { 0.0 };
                            if to == 0 {
                                weights[d + a + b] += weight;
                            } else {
                                let cell: &mut (f64, f64) = &mut next[to][d + a + b];
                                cell.0 += count;
                                cell.1 += weight;
                                alive = true;
                            }
                        }
                    }
                }
                paths = next;
                if !alive {
                    break;
                }
            }
        }
        weights
    }

    #[test]
    fn distance_spectra_are_those_of_the_standards_code() {
        // Figures 17-9 and 17-10: 2/3 drops every second B; 3/4 sends A1 B1 A2 B3.
        let codes: [(&Spectrum, &[(bool, bool)]); 3] = [
            (&HALF, &[(true, true)]),
            (&TWO_THIRDS, &[(true, true), (true, false)]),
            (&THREE_QUARTERS, &[(true, true), (true, false), (false, true)]),
        ];
        for (spectrum, pattern) in codes {
            let free_distance = usize::from(spectrum.free_distance);
            let step = usize::from(spectrum.step);
            let terms = spectrum.weights.len().min(7);
            let found = spectrum_of_code(pattern, free_distance, terms * step);
            assert!(found[..free_distance].iter().all(|w| *w == 0.0));
            for (i, published) in spectrum.weights[..terms].iter().enumerate() {
                let exact = found[free_distance + i * step];
                assert!(
                    i > 4 && close(*published, exact, 1e-3) || exact == *published,
                    "{i}: {exact} {published}"
                );
            }
        }
    }

    #[test]
    fn ofdm_frames_by_hand() {
        // 6 Mb/s at Es/N0 = 2.705902 (½ erfc(√x) = 0.01, since Q(2.326348) = 0.01 and x = 2.326348²/2): a bit fails
        // with 2.314605e-6 as above, 1500 bytes survive with exp(−12000 · 2.314605e-6 …) = 0.97261.
        let got = chunk_success(Rate::Ofdm6, 2.326_347_874 * 2.326_347_874 / 2.0, 12_000.0);
        assert!(close(got, 0.972_61, 1e-5), "{got}");
        // 12 Mb/s carries twice the bits on the same symbol: 3 dB more gives the same.
        let twice = chunk_success(Rate::Ofdm12, 2.326_347_874 * 2.326_347_874, 12_000.0);
        assert!(close(twice, got, 1e-12));
    }

    #[test]
    fn dqpsk_meets_its_two_other_forms() {
        // No signal, no information.
        assert!(close(dqpsk_error(0.0), 0.5, 1e-12));
        // Where errors are rare: (√2 + 1)/√(8π√2) · exp(−(2 − √2) g)/√g, off by O(1/g).
        let asymptote =
            |g: f64| (SQRT_2 + 1.0) / libm::sqrt(8.0 * PI * SQRT_2 * g) * libm::exp(-(2.0 - SQRT_2) * g);
        assert!(close(dqpsk_error(100.0), asymptote(100.0), 0.01));
        // Q₁(a, b) − ½ I₀(ab) exp(−(a² + b²)/2) by the series Q₁ = exp(−(a² + b²)/2) Σ (a/b)ᵏ I_k(ab), with
        // a² = 2g(1 − 1/√2), b² = 2g(1 + 1/√2).
        let bessel = |k: u32, x: f64| {
            let mut term = (1..=k).fold(1.0, |t, i| t * x / 2.0 / f64::from(i));
            (1..200).fold(term, |sum, i| {
                term *= x * x / 4.0 / f64::from(i) / f64::from(i + k);
                sum + term
            })
        };
        for g in [0.5, 2.0, 8.0] {
            let (a, b) =
                (libm::sqrt(2.0 * g * (1.0 - FRAC_1_SQRT_2)), libm::sqrt(2.0 * g * (1.0 + FRAC_1_SQRT_2)));
            let series: f64 = (0..80).map(|k| libm::pow(a / b, f64::from(k)) * bessel(k, a * b)).sum();
            let proakis = libm::exp(-(a * a + b * b) / 2.0) * (series - 0.5 * bessel(0, a * b));
            assert!(close(dqpsk_error(g), proakis, 1e-10), "{g}: {} {proakis}", dqpsk_error(g));
        }
    }

    #[test]
    fn cck_by_two_bounds() {
        // Sixteen equally likely signals without energy: 1 in 16 is right.
        assert!(close(biorthogonal_16_error(0.0), 15.0 / 16.0, 1e-7));
        // Rare errors: the union bound over 14 orthogonal signals and 1 opposite one, 14 Q(β/√2) + Q(β), is nearly met
        // from below. β² = 98: Q(7) = 1.279813e-12.
        let union = 14.0 * 1.279_812_543_885_835e-12;
        let got = biorthogonal_16_error(98.0);
        assert!(got < union && close(got, union, 2e-3), "{got} {union}");
    }

    #[test]
    fn faster_rates_need_more_signal() {
        let of =
            |rates: &[Rate]| rates.iter().map(|r| sinr_of_ten_percent_loss(*r, 1024.0)).collect::<Vec<_>>();
        let dsss = of(crate::phy::Standard::Dot11b.rates());
        assert!(dsss.is_sorted(), "{dsss:?}");
        // 9 and 12 Mb/s have the same product of free distance and symbol distance, so they meet; all others are in
        // order.
        let ofdm = of(crate::phy::Standard::Dot11a.rates());
        assert!((ofdm[1] - ofdm[2]).abs() < 0.5, "{ofdm:?}");
        let others: Vec<f64> = ofdm.iter().enumerate().filter(|(i, _)| *i != 1).map(|(_, x)| *x).collect();
        assert!(others.is_sorted(), "{ofdm:?}");
    }

    proptest! {
        #[test]
        fn more_signal_and_fewer_bits_never_hurt(
            rate in proptest::sample::select(Rate::ALL.to_vec()),
            db in -30.0..40.0_f64,
            more_db in 0.0..20.0_f64,
            bits in 1.0..40_000.0_f64,
            more_bits in 0.0..10_000.0_f64,
        ) {
            let at = |db: f64, bits: f64| chunk_success(rate, Db(db).as_ratio(), bits);
            let here = at(db, bits);
            prop_assert!((0.0..=1.0).contains(&here));
            prop_assert!(at(db + more_db, bits) >= here);
            prop_assert!(at(db, bits + more_bits) <= here);
        }

        #[test]
        fn pieces_multiply(
            rate in proptest::sample::select(Rate::ALL.to_vec()),
            db in -10.0..30.0_f64,
            a in 0.0..20_000.0_f64,
            b in 0.0..20_000.0_f64,
        ) {
            let sinr = Db(db).as_ratio();
            let product = chunk_success(rate, sinr, a) * chunk_success(rate, sinr, b);
            prop_assert!((chunk_success(rate, sinr, a + b) - product).abs() < 1e-12);
        }

        #[test]
        fn table_answers_as_the_curves_do(
            rate in proptest::sample::select(Rate::ALL.to_vec()),
            db in -40.0..50.0_f64,
            bits in 0.0..50_000.0_f64,
        ) {
            let table = ErrorTable::new();
            prop_assert!(table.hopeless(rate) < table.certain(rate));
            let sinr = Db(db).as_ratio();
            prop_assert!((table.success(rate, sinr, bits) - chunk_success(rate, sinr, bits)).abs() <= 1.01e-9);
        }
    }

    /// The bounds hold for chunks of the lengths that they were computed for, and not for others.
    #[test]
    fn the_table_computes_the_curve_for_chunks_beyond_the_lengths_of_its_bounds() {
        let table = ErrorTable::new();
        for rate in Rate::ALL {
            for (sinr, bits) in [(table.certain(rate), 1e12), (table.hopeless(rate), 1.0)] {
                let expected = chunk_success(rate, sinr, bits);
                assert_eq!(table.success(rate, sinr, bits), expected, "{rate:?}, {bits} bits");
                assert!(expected > 0.0 && expected < 1.0, "{rate:?}: {expected}");
            }
        }
    }

    #[test]
    fn invalid_input_has_a_defined_result() {
        for rate in Rate::ALL {
            assert_eq!(chunk_success(rate, f64::INFINITY, 1e6), 1.0);
            assert_eq!(chunk_success(rate, f64::NAN, 1e6), chunk_success(rate, 0.0, 1e6));
            assert_eq!(chunk_success(rate, -1.0, 1e6), chunk_success(rate, 0.0, 1e6));
            assert!(chunk_success(rate, 0.0, 1e4) < 1e-100);
            assert_eq!(chunk_success(rate, 0.0, 0.0), 1.0);
            assert_eq!(chunk_success(rate, 0.0, f64::NAN), 1.0);
        }
    }
}
