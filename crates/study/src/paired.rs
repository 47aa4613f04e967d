//! Paired comparison of two systems over replications with common random numbers.
//!
//! Both systems run with the same seeds, and the figure of one is subtracted from that of the other, seed by seed. What both
//! have in common (where calls begin, which frames noise destroys) largely cancels in the difference, so that fewer seeds
//! show a difference than with independent runs. The interval of the mean difference is the paired t interval, and its test
//! the paired t test: A. M. Law, "Simulation Modeling and Analysis", 5th ed., 2015, §10.2.1 and §11.2.
//!
//! Of 100 figures that do not differ, 5 are expected to pass a test at 5 %. [`holm`] corrects for that.

use fairhop_model::stats;
use serde::Serialize;

/// Level of the tests: with [`holm`], the maximum probability that any figure is said to differ although none does.
pub const LEVEL: f64 = 0.05;
/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-12;

/// A figure of two systems over the same seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Paired {
    /// Number of seeds with which both systems have the figure.
    pub runs: usize,
    /// Mean of A over these seeds.
    pub a: f64,
    /// Mean of B.
    pub b: f64,
    /// Mean of B − A.
    pub difference: f64,
    /// Half-width of the 95 % confidence interval of the difference; none for one seed.
    pub ci95: Option<f64>,
    /// p-value of the two-sided paired t test for a difference of 0; none for one seed.
    pub p: Option<f64>,
}

impl Paired {
    /// The comparison of a figure; each item is a seed with the figure of A and B. Seeds in which one lacks it are left out.
    /// None if all are.
    pub fn of(samples: impl IntoIterator<Item = (Option<f64>, Option<f64>)>) -> Option<Self> {
        let (a, b): (Vec<f64>, Vec<f64>) = samples
            .into_iter()
            .filter_map(|(a, b)| Some((a.filter(|x| x.is_finite())?, b.filter(|x| x.is_finite())?)))
            .unzip();
        let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| difference(*a, *b)).collect();
        let mean = stats::mean(&differences)?;
        let p = stats::standard_deviation(&differences).map(|deviation| {
            // Equal differences in all seeds have no spread: they are certain, unless they are 0.
            let t = match deviation {
                d if d > 0.0 => mean / d * libm::sqrt(differences.len() as f64),
                _ if mean == 0.0 => 0.0,
                _ => f64::INFINITY,
            };
            stats::student_t_two_sided(t, differences.len() - 1)
        });
        Some(Self {
            runs: differences.len(),
            a: stats::mean(&a)?,
            b: stats::mean(&b)?,
            difference: mean,
            ci95: stats::ci95_half_width(&differences),
            p,
        })
    }
}

fn difference(a: f64, b: f64) -> f64 {
    if (b - a).abs() <= ROUNDING * a.abs().max(b.abs()) { 0.0 } else { b - a }
}

/// p-values that are adjusted for their number: the tests whose adjusted value is at most 5 % are significant together, with
/// a probability of at most 5 % that any of them is wrong, whatever the dependence between the tests. S. Holm, "A simple
/// sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979), pp. 65–70.
///
/// Figures without a p-value are not tests and do not count.
pub fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut tests: Vec<(usize, f64)> =
        p_values.iter().enumerate().filter_map(|(index, p)| Some((index, (*p)?))).collect();
    tests.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; p_values.len()];
    let mut at_least = 0.0_f64;
    for (rank, &(index, p)) in tests.iter().enumerate() {
        at_least = at_least.max((p * (tests.len() - rank) as f64).min(1.0));
        adjusted[index] = Some(at_least);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paired_difference_has_the_t_interval_and_test_of_its_samples() {
        // Differences 1, 2, 3: mean 2, deviation 1, t = 2 √3 with two degrees of freedom, whose distribution is closed:
        // P(|T| > t) = 1 − t / √(2 + t²).
        let paired = Paired::of([(5.0, 6.0), (1.0, 3.0), (9.0, 12.0)].map(|(a, b)| (Some(a), Some(b))));
        let paired = paired.expect("samples");
        let p = 1.0 - libm::sqrt(12.0 / 14.0);
        assert_eq!((paired.runs, paired.a, paired.b, paired.difference), (3, 5.0, 7.0, 2.0));
        assert!((paired.ci95.expect("an interval") - 2.484_138).abs() < 1e-6);
        assert!((paired.p.expect("a test") - p).abs() < 1e-9, "{:?}", paired.p);
    }

    #[test]
    fn equal_samples_do_not_differ_and_a_constant_difference_is_certain() {
        let of = |samples: &[(f64, f64)]| {
            Paired::of(samples.iter().map(|&(a, b)| (Some(a), Some(b)))).and_then(|paired| paired.p)
        };
        assert_eq!(of(&[(0.1 + 0.2, 0.3), (4.0, 4.0)]), Some(1.0), "rounding is no difference");
        assert_eq!(of(&[(0.0, 5.0), (0.0, 5.0)]), Some(0.0));
        assert_eq!(of(&[(1.0, 2.0)]), None, "one seed tests nothing");
        assert_eq!(Paired::of([(Some(1.0), None), (None, Some(f64::NAN))]), None);
    }

    #[test]
    fn holm_multiplies_by_the_number_of_tests_left_and_never_falls() {
        // The example of R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let adjusted = holm(&[Some(0.01), None, Some(0.04), Some(0.03), Some(0.005)]);
        let expected = [Some(0.03), None, Some(0.06), Some(0.06), Some(0.02)];
        for (adjusted, expected) in adjusted.iter().zip(expected) {
            match (adjusted, expected) {
                (Some(a), Some(b)) => assert!((a - b).abs() < 1e-12, "{a} instead of {b}"),
                (a, b) => assert_eq!(*a, b),
            }
        }
        assert_eq!(holm(&[Some(0.6), Some(0.9)]), [Some(1.0), Some(1.0)]);
    }
}
