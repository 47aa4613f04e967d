//! Numbers in messages.

use std::fmt;

/// A number as a person would write it: whole or decimal, or with an exponent where the digits would be many.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size == 0.0 || !self.0.is_finite() || (1e-7..1e16).contains(&size) {
            write!(f, "{}", self.0)
        } else {
            write!(f, "{:e}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn very_small_and_large_numbers_have_an_exponent() {
        let shown = [1e-300, 0.000_001, 2.5, 1e15, 1e300, 0.0, -1e-9].map(|value| Number(value).to_string());
        assert_eq!(shown, ["1e-300", "0.000001", "2.5", "1000000000000000", "1e300", "0", "-1e-9"]);
    }
}
