//! Suggestions for mistakes: the nearest known word, the right unit.

use strsim::damerau_levenshtein;

/// Longer words are not compared: they are not misspellings of a key.
const LONGEST: usize = 48;

/// The candidate of which `word` is most likely a misspelling.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let plain = |s: &str| s.to_lowercase().replace(['_', ' '], "-");
    let word = plain(word);
    let length = word.chars().count();
    if length == 0 || length > LONGEST {
        return None;
    }
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let known = plain(candidate);
            let distance = damerau_levenshtein(&word, &known);
            // Up to a third of the letters may differ, or one word may contain the other (`11a`, `adhoc`).
            let close = distance <= known.chars().count().max(length) / 3;
            let piece = length >= 3 && (known.contains(&word) || (known.len() >= 3 && word.contains(&known)));
            (close || piece).then_some((!close, distance, candidate))
        })
        .min_by_key(|&(piece, distance, _)| (piece, distance))
        .map(|(_, _, candidate)| candidate)
}

/// Keys that had another name before, and their names.
const RENAMED: [(&str, &str); 6] = [
    ("least_kbps", "min_kbps"),
    ("least_bytes", "min_bytes"),
    ("most_bytes", "max_bytes"),
    ("least_s", "min_s"),
    ("most_s", "max_s"),
    ("unheard", "loss_or_late"),
];

/// The present name of a key that was renamed.
pub(crate) fn renamed(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == key).map(|(_, new)| *new)
}

/// Physical quantity of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Time,
    Length,
    Rate,
    Frequency,
    Size,
    Decibels,
}

/// A unit: its quantity and its size in s, m, bit/s, Hz, bytes or dB.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unit {
    quantity: Quantity,
    size: f64,
}

/// Units as the suffix of a key, and as written in messages.
const KEY_UNITS: [(&str, &str, Quantity, f64); 9] = [
    ("s", "seconds", Quantity::Time, 1.0),
    ("ms", "ms", Quantity::Time, 1e-3),
    ("m", "metres", Quantity::Length, 1.0),
    ("mbps", "Mb/s", Quantity::Rate, 1e6),
    ("kbps", "kb/s", Quantity::Rate, 1e3),
    ("ghz", "GHz", Quantity::Frequency, 1e9),
    ("bytes", "bytes", Quantity::Size, 1.0),
    ("db", "dB", Quantity::Decibels, 1.0),
    ("dbm", "dBm", Quantity::Decibels, 1.0),
];

/// Other units that users write after a number or as the suffix of a key, in lower case.
const OTHER_UNITS: [(&str, Quantity, f64); 39] = [
    ("ns", Quantity::Time, 1e-9),
    ("us", Quantity::Time, 1e-6),
    ("µs", Quantity::Time, 1e-6),
    ("sec", Quantity::Time, 1.0),
    ("secs", Quantity::Time, 1.0),
    ("second", Quantity::Time, 1.0),
    ("seconds", Quantity::Time, 1.0),
    ("msec", Quantity::Time, 1e-3),
    ("min", Quantity::Time, 60.0),
    ("minutes", Quantity::Time, 60.0),
    ("h", Quantity::Time, 3600.0),
    ("mm", Quantity::Length, 1e-3),
    ("cm", Quantity::Length, 1e-2),
    ("km", Quantity::Length, 1e3),
    ("metres", Quantity::Length, 1.0),
    ("meters", Quantity::Length, 1.0),
    ("ft", Quantity::Length, 0.3048),
    ("bps", Quantity::Rate, 1.0),
    ("gbps", Quantity::Rate, 1e9),
    ("bit/s", Quantity::Rate, 1.0),
    ("b/s", Quantity::Rate, 1.0),
    ("kb/s", Quantity::Rate, 1e3),
    ("kbit/s", Quantity::Rate, 1e3),
    ("mb/s", Quantity::Rate, 1e6),
    ("mbit/s", Quantity::Rate, 1e6),
    ("gb/s", Quantity::Rate, 1e9),
    ("gbit/s", Quantity::Rate, 1e9),
    ("kbit", Quantity::Rate, 1e3),
    ("mbit", Quantity::Rate, 1e6),
    ("gbit", Quantity::Rate, 1e9),
    ("hz", Quantity::Frequency, 1.0),
    ("khz", Quantity::Frequency, 1e3),
    ("mhz", Quantity::Frequency, 1e6),
    ("b", Quantity::Size, 1.0),
    ("byte", Quantity::Size, 1.0),
    ("kb", Quantity::Size, 1e3),
    ("mb", Quantity::Size, 1e6),
    ("kib", Quantity::Size, 1024.0),
    ("mib", Quantity::Size, 1_048_576.0),
];

/// The unit with this name, whether or not scenarios use it.
fn unit_called(name: &str) -> Option<Unit> {
    // Case matters in one place only: MB/s are bytes, Mb/s bits.
    match name {
        "kB/s" | "KB/s" => return Some(Unit { quantity: Quantity::Rate, size: 8e3 }),
        "MB/s" => return Some(Unit { quantity: Quantity::Rate, size: 8e6 }),
        _ => {}
    }
    let name = name.to_lowercase();
    let keys = KEY_UNITS.iter().map(|&(n, _, quantity, size)| (n, quantity, size));
    keys.chain(OTHER_UNITS).find(|(n, ..)| *n == name).map(|(_, quantity, size)| Unit { quantity, size })
}

/// The suffix of a key that states its unit, and the unit.
fn unit_of_key(key: &str) -> Option<(&'static str, Unit)> {
    let (_, suffix) = key.rsplit_once('_')?;
    let &(name, _, quantity, size) = KEY_UNITS.iter().find(|(name, ..)| *name == suffix)?;
    Some((name, Unit { quantity, size }))
}

/// The unit of a key as written in messages: `rate_mbps` is in Mb/s.
pub(crate) fn spoken_unit(key: &str) -> Option<&'static str> {
    let (_, suffix) = key.rsplit_once('_')?;
    KEY_UNITS.iter().find(|(name, ..)| *name == suffix).map(|(_, spoken, ..)| *spoken)
}

/// The right key if only the unit is wrong or missing (`delay_ms` for `delay_s` and `delay`), and the conversion factor of
/// the value, if known.
pub(crate) fn same_but_for_unit<'c>(
    wrong: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<(&'c str, Option<f64>)> {
    let wrong = wrong.to_lowercase().replace('-', "_");
    let (stem, unit) = match wrong.rsplit_once('_') {
        Some((stem, suffix)) => match unit_called(suffix) {
            Some(unit) => (stem, Some(unit)),
            None => (wrong.as_str(), None),
        },
        None => (wrong.as_str(), None),
    };
    candidates.into_iter().find_map(|candidate| {
        let (suffix, right) = unit_of_key(candidate)?;
        let right_stem = candidate.strip_suffix(suffix)?.strip_suffix('_')?;
        let same = right_stem == stem && unit.is_none_or(|unit| unit.quantity == right.quantity);
        same.then(|| (candidate, unit.map(|unit| unit.size / right.size)))
    })
}

/// The number in a text like `12 Mb/s`, converted to the unit of `key`, or as it is if the text has no unit. `None` if the
/// text does not start with a number or its unit is of another quantity.
pub(crate) fn number_in_unit_of(key: &str, text: &str) -> Option<f64> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok().filter(|n: &f64| n.is_finite())?;
    let written = text[end..].trim();
    if written.is_empty() {
        return Some(number);
    }
    let right = unit_of_key(key)?.1;
    let unit = unit_called(written)?;
    (unit.quantity == right.quantity).then(|| tidy(number * unit.size / right.size))
}

/// A converted number rounded to 12 significant digits.
pub(crate) fn tidy(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_key_and_an_unrelated_word_does_not() {
        let keys = ["delay_ms", "rate_mbps", "queue"];
        assert_eq!(nearest("dely_ms", keys), Some("delay_ms"));
        assert_eq!(nearest("Rate-Mbps", keys), Some("rate_mbps"));
        assert_eq!(nearest("bandwidth", keys), None);
        assert_eq!(nearest("11a", ["802.11a", "802.11b"]), Some("802.11a"));
    }

    #[test]
    fn a_wrong_unit_finds_the_right_key_and_the_factor() {
        let keys = ["delay_ms", "rate_mbps", "capture_db", "spacing_m"];
        assert_eq!(same_but_for_unit("delay_s", keys), Some(("delay_ms", Some(1000.0))));
        assert_eq!(same_but_for_unit("delay", keys), Some(("delay_ms", None)));
        assert_eq!(same_but_for_unit("spacing_km", keys), Some(("spacing_m", Some(1000.0))));
        assert_eq!(same_but_for_unit("delay_m", keys), None);
        assert_eq!(number_in_unit_of("rate_mbps", "1.5 MB/s"), Some(12.0));
        assert_eq!(number_in_unit_of("delay_ms", "0.03s"), Some(30.0));
        assert_eq!(number_in_unit_of("delay_ms", "30 m"), None);
    }
}
