//! The settings that are tried: control at the gateway or at the nodes, as keys of a scenario.

use fairhop_sim::scenario::{NamedPlace, Place, Scenario, Traffic};

/// A setting: changes of a scenario, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name, with its value.
    pub name: String,
    /// Its keys: section, key and value in TOML. None of them: the scenario as written.
    keys: Vec<(&'static str, &'static str, String)>,
}

impl Setting {
    fn new(name: impl Into<String>, keys: &[(&'static str, &'static str, String)]) -> Self {
        Self { name: name.into(), keys: keys.to_vec() }
    }

    /// The changes as `--set` takes them.
    pub fn overrides(&self) -> Vec<String> {
        // Control is replaced as a whole: the keys of another kind would be unknown.
        let control: Vec<String> = self
            .keys
            .iter()
            .filter(|(section, ..)| *section == "control")
            .map(|(_, key, value)| format!("{key} = {value}"))
            .collect();
        let control =
            (!control.is_empty()).then(|| format!("control={{ {} }}", control.join(", "))).into_iter();
        let others = self.keys.iter().filter(|(section, ..)| *section != "control");
        control.chain(others.map(|(section, key, value)| format!("{section}.{key}={value}"))).collect()
    }

    /// The lines to paste into a scenario, in place of its `[control]`; empty for the scenario as written.
    pub fn toml(&self) -> String {
        let mut text = String::new();
        let mut last = "";
        for (section, key, value) in &self.keys {
            if *section != last {
                let gap = if last.is_empty() { "" } else { "\n" };
                text += &format!("{gap}[{section}]\n");
                last = section;
            }
            text += &format!("{key} = {value}\n");
        }
        text
    }

    /// The scenario as written.
    pub(super) fn as_written() -> Self {
        Self::new("as in the scenario", &[])
    }

    /// No control.
    pub fn none() -> Self {
        Self::new("no control", &[("control", "kind", quoted("none"))])
    }

    /// Adaptive control.
    pub fn adaptive() -> Self {
        Self::new("adaptive", &[("control", "kind", quoted("adaptive"))])
    }

    /// Priority by DSCP at every node, and FQ-CoDel at every node: settings of today's routers.
    pub(super) fn at_nodes() -> [Self; 2] {
        let queue = "{ discipline = \"fq-codel\", packets = 1000 }".to_owned();
        [
            Self::new("priority at every node", &[("control", "kind", quoted("priority"))]),
            Self::new(
                "fq-codel at every node",
                &[("mac", "queue", queue), ("control", "kind", quoted("none"))],
            ),
        ]
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// A setting with a value that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// Data is paced to one rate.
    DataPacing,
    /// ACKs are paced to one rate of acknowledged data.
    AckPacing,
    /// A window for each TCP flow, in segments.
    Window,
    /// Shaper with FQ-CoDel; whether it shapes both directions.
    FqCodel(bool),
    /// Shaper as in CAKE.
    Cake(bool),
}

/// Windows that are tried, in segments.
const WINDOWS: [f64; 10] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0];
/// Ratio of neighbouring rates in the first round.
const STEP: f64 = 1.25;
/// Number of rates in the first round: from 1.2 times what TCP carries alone down to 4 % of it.
const RATES: i32 = 16;
/// The highest rate, as a multiple of what TCP carries alone.
const HIGHEST: f64 = 1.2;

impl Knob {
    /// The knobs of a scenario with this traffic.
    pub(super) fn of(traffic: Kinds) -> Vec<Self> {
        let both = traffic.uploads;
        let mut knobs = Vec::new();
        if traffic.elastic {
            knobs.push(Self::DataPacing);
        }
        if traffic.tcp {
            knobs.extend([Self::AckPacing, Self::Window]);
        }
        if traffic.elastic {
            knobs.extend([Self::FqCodel(both), Self::Cake(both)]);
        }
        knobs
    }

    /// Whether the value is a rate, which can have any value.
    pub(super) const fn is_rate(self) -> bool {
        !matches!(self, Self::Window)
    }

    /// The values of the first round, from tight to loose. `alone_mbps` is what TCP carries alone.
    pub(super) fn first_values(self, alone_mbps: f64) -> Vec<f64> {
        if !self.is_rate() {
            return WINDOWS.to_vec();
        }
        let highest = HIGHEST * 1e3 * alone_mbps;
        (0..RATES).rev().map(|step| rounded(highest / libm::pow(STEP, f64::from(step)))).collect()
    }

    /// The value halfway between two rates by their ratio; none between windows.
    pub(super) fn between(self, a: f64, b: f64) -> Option<f64> {
        let middle = rounded(libm::sqrt(a * b));
        (self.is_rate() && middle != a && middle != b).then_some(middle)
    }

    /// A value that is a little tighter: 11 % less, or the next window.
    pub(super) fn tighter(self, value: f64) -> Option<f64> {
        if self.is_rate() {
            return Some(rounded(value / libm::sqrt(STEP)));
        }
        WINDOWS.into_iter().rev().find(|window| *window < value)
    }

    /// The setting with a value.
    pub(super) fn setting(self, value: f64) -> Setting {
        let rate = |kind: &str| {
            vec![("control", "kind", quoted(kind)), ("control", "rate_kbps", format!("{value}"))]
        };
        let shaper = |discipline: &str, both: bool| {
            let mut keys = rate("shaper");
            if both {
                keys.push(("control", "up_kbps", format!("{value}")));
            }
            keys.push(("control", "discipline", quoted(discipline)));
            keys
        };
        match self {
            Self::DataPacing => Setting::new(format!("data pacing, {value} kb/s"), &rate("data-pacing")),
            Self::AckPacing => Setting::new(format!("ACK pacing, {value} kb/s"), &rate("ack-pacing")),
            Self::Window => {
                let plural = if value > 1.0 { "s" } else { "" };
                Setting::new(
                    format!("window, {value} segment{plural}"),
                    &[
                        ("control", "kind", quoted("window")),
                        ("control", "window_packets", format!("{value}")),
                    ],
                )
            }
            Self::FqCodel(both) => Setting::new(format!("fq-codel, {value} kb/s"), &shaper("fq-codel", both)),
            Self::Cake(both) => Setting::new(format!("cake, {value} kb/s"), &shaper("cake", both)),
        }
    }
}

/// A rate with three significant digits, at least 1 kb/s.
pub(super) fn rounded(kbps: f64) -> f64 {
    let kbps = kbps.clamp(1.0, 1e7);
    let unit = libm::exp10(libm::floor(libm::log10(kbps)) - 2.0);
    let digits = libm::round(kbps / unit);
    // Division by a power of ten keeps short decimals, multiplication by its inverse does not.
    if unit < 1.0 { digits / libm::round(1.0 / unit) } else { digits * unit }
}

/// What a scenario carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Calls.
    pub calls: bool,
    /// TCP.
    pub tcp: bool,
    /// Traffic that takes what it can get: TCP, QUIC, AIMD datagrams.
    pub elastic: bool,
    /// Elastic traffic that leaves the mesh.
    pub uploads: bool,
}

impl Kinds {
    /// What a scenario carries.
    pub fn of(scenario: &Scenario) -> Self {
        let mut kinds = Self::default();
        for traffic in scenario.traffic.iter().filter(|traffic| traffic.count() > 0) {
            let tcp = matches!(traffic, Traffic::Bulk(_) | Traffic::Web(_) | Traffic::Request(_));
            let elastic = tcp || matches!(traffic, Traffic::Quic(_) | Traffic::Aimd(_));
            let leaves = matches!(traffic.to(), Place::Named(NamedPlace::Internet) | Place::Host(_));
            kinds.calls |= matches!(traffic, Traffic::Call(_));
            kinds.tcp |= tcp;
            kinds.elastic |= elastic;
            kinds.uploads |= elastic && leaves;
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_the_same_as_overrides_and_as_lines() {
        let shaper = Knob::Cake(true).setting(650.0);
        assert_eq!(
            shaper.overrides(),
            ["control={ kind = \"shaper\", rate_kbps = 650, up_kbps = 650, discipline = \"cake\" }"]
        );
        assert_eq!(
            shaper.toml(),
            "[control]\nkind = \"shaper\"\nrate_kbps = 650\nup_kbps = 650\ndiscipline = \"cake\"\n"
        );
        let [_, nodes] = Setting::at_nodes();
        assert_eq!(nodes.overrides().len(), 2);
        assert!(nodes.toml().starts_with("[mac]\nqueue = {") && nodes.toml().contains("\n\n[control]\n"));
        assert!(Setting::as_written().overrides().is_empty());
    }

    #[test]
    fn rates_have_three_digits_and_span_a_ladder() {
        assert_eq!([545.4, 54.54, 5.454, 12_345.0, 0.1].map(rounded), [545.0, 54.5, 5.45, 12_300.0, 1.0]);
        let rates = Knob::DataPacing.first_values(1.7);
        assert_eq!((rates.len(), rates.last()), (16, Some(&2040.0)));
        assert!(rates.windows(2).all(|pair| pair[1] / pair[0] > 1.2) && rates[0] < 80.0, "{rates:?}");
        assert_eq!(
            (Knob::DataPacing.between(500.0, 625.0), Knob::Window.between(2.0, 4.0)),
            (Some(559.0), None)
        );
        assert_eq!((Knob::Window.tighter(3.0), Knob::Window.tighter(1.0)), (Some(2.0), None));
    }
}
