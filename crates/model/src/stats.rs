//! Statistics of replicated runs: mean, deviation, 95 % confidence interval by Student's t, Jain's fairness index.
//!
//! Student's t: Abramowitz and Stegun 26.7.1 (by the incomplete beta function, 26.5.8) and 26.7.5. Fairness: R. Jain,
//! D. Chiu and W. Hawe, "A quantitative measure of fairness and discrimination for resource allocation in shared computer
//! systems", DEC TR-301, 1984. Samples must be independent: replications, not packets of one run.

/// The mean; none without samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The sample standard deviation (n − 1 in the denominator); none for fewer than two samples.
pub fn standard_deviation(samples: &[f64]) -> Option<f64> {
    let mean = mean(samples)?;
    let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
    (samples.len() > 1).then(|| libm::sqrt(squares / (samples.len() - 1) as f64))
}

/// Half the width of the 95 % confidence interval of the mean; none for fewer than two samples.
///
/// ```
/// // Deviation 1, n = 3: 4.302653 / √3.
/// let half_width = fairhop_model::stats::ci95_half_width(&[1.0, 2.0, 3.0]);
/// assert!(half_width.is_some_and(|h| (h - 2.484138).abs() < 1e-6));
/// ```
pub fn ci95_half_width(samples: &[f64]) -> Option<f64> {
    let deviation = standard_deviation(samples)?;
    Some(student_t_975(samples.len() - 1) * deviation / libm::sqrt(samples.len() as f64))
}

/// Jain's fairness index (Σx)² / (n Σx²): 1 for equal shares, 1/n if one has everything. All zeros count as equal. None
/// without samples. Shares must be zero or more.
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (!shares.is_empty())
        .then(|| if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 })
}

/// The 97.5 % quantile of Student's t with `df` degrees of freedom: the factor of a two-sided 95 % interval. Infinite
/// for `df` = 0.
pub fn student_t_975(df: usize) -> f64 {
    /// The same quantile of the normal distribution.
    const Z: f64 = 1.959_963_984_540_054;
    if df == 0 {
        return f64::INFINITY;
    }
    let nu = df as f64;
    if df > 100_000 {
        // The next term of the expansion is under 1e-9.
        return Z + (Z * Z * Z + Z) / (4.0 * nu);
    }
    let (mut below, mut above) = (Z, 13.0);
    for _ in 0..60 {
        let t = 0.5 * (below + above);
        if student_t_upper_tail(t, nu) > 0.025 {
            below = t;
        } else {
            above = t;
        }
    }
    0.5 * (below + above)
}

/// Probability that the absolute value of Student's t with `df` degrees of freedom is at least that of `t`: the p-value of a
/// two-sided t test. 1 for `df` = 0, which tests nothing.
pub fn student_t_two_sided(t: f64, df: usize) -> f64 {
    match df {
        0 => 1.0,
        _ if t.is_infinite() => 0.0,
        _ => 2.0 * student_t_upper_tail(t.abs(), df as f64),
    }
}

/// Probability that Student's t exceeds `t` > 0: half of I_x(ν/2, 1/2) with x = ν/(ν + t²).
fn student_t_upper_tail(t: f64, nu: f64) -> f64 {
    let x = nu / (nu + t * t);
    let (a, b) = (nu / 2.0, 0.5);
    let log_front =
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    let front = libm::exp(log_front);
    // The continued fraction converges fast on this side of the mean, and by symmetry on the other.
    if x < (a + 1.0) / (a + b + 2.0) {
        0.5 * front * beta_fraction(a, b, x) / a
    } else {
        0.5 * (1.0 - front * beta_fraction(b, a, 1.0 - x) / b)
    }
}

/// The continued fraction of the incomplete beta function (A&S 26.5.8) by the modified Lentz method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let nonzero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..10_000_u32 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut last = 1.0;
        for term in [even, odd] {
            d = 1.0 / nonzero(1.0 + term * d);
            c = nonzero(1.0 + term / c);
            last = c * d;
            fraction *= last;
        }
        if (last - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::f64::consts::PI;

    #[test]
    fn student_t_is_that_of_closed_forms_and_tables() {
        // One degree: tan(0.475 π). Two: t = α √(2/(1 − α²)) with α = 0.95. The others: tables.
        let table = [
            (1, libm::tan(0.475 * PI)),
            (2, 0.95 * libm::sqrt(2.0 / (1.0 - 0.95 * 0.95))),
            (4, 2.776_445_1),
            (9, 2.262_157_2),
            (29, 2.045_229_6),
            (120, 1.979_930_4),
            (usize::MAX, 1.959_964_0),
        ];
        for (df, t) in table {
            assert!((student_t_975(df) - t).abs() < 1e-6, "{df}: {}", student_t_975(df));
        }
        assert_eq!(student_t_975(0), f64::INFINITY);
        for (df, t) in table {
            let p = student_t_two_sided(-t, df.min(100_000));
            assert!((p - 0.05).abs() < 1e-5, "{df}: {p}");
        }
        assert_eq!([0.0, f64::INFINITY].map(|t| student_t_two_sided(t, 4)), [1.0, 0.0]);
        // Both methods agree at the switch.
        assert!((student_t_975(100_000) - student_t_975(100_001)).abs() < 1e-8);
    }

    #[test]
    fn few_samples_have_no_interval() {
        assert_eq!((mean(&[]), standard_deviation(&[1.0]), ci95_half_width(&[1.0])), (None, None, None));
        assert_eq!(
            standard_deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            Some(libm::sqrt(32.0 / 7.0))
        );
    }

    #[test]
    fn jain_by_hand() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        // (1 + 2 + 3)² / (3 · 14).
        assert_eq!(jain_index(&[1.0, 2.0, 3.0]), Some(36.0 / 42.0));
        assert_eq!((jain_index(&[0.0, 0.0]), jain_index(&[])), (Some(1.0), None));
    }

    proptest! {
        #[test]
        fn jain_does_not_depend_on_the_unit_and_stays_in_range(
            shares in proptest::collection::vec(0.0..1e6_f64, 1..50),
            unit in 1e-3..1e3_f64,
        ) {
            let index = jain_index(&shares).unwrap();
            prop_assert!(index <= 1.0 + 1e-12 && index >= 1.0 / shares.len() as f64 - 1e-12);
            let scaled: Vec<f64> = shares.iter().map(|x| x * unit).collect();
            prop_assert!((jain_index(&scaled).unwrap() - index).abs() < 1e-9);
        }
    }
}
