//! MAC parameters that all stations share: timing, rates, windows and retry limits, and those of each access category.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairhop_model::headers;
use fairhop_model::phy::{Phy, Rate, Standard, frame};
use fairhop_model::units::Nanos;

use super::config::{AccessCategory, DscpMapping, Edca, Mac};
use crate::packet::Dscp;

/// Number of access categories; they are ordered from the lowest priority to the highest.
pub(super) const CATEGORIES: usize = 4;

/// Parameters of medium access.
#[derive(Clone, Debug)]
pub struct MacParams {
    /// Timing of the physical layer.
    pub phy: Phy,
    /// DIFS.
    pub difs: Nanos,
    /// EIFS.
    pub eifs: Nanos,
    /// How long a station waits for the start of an ACK or CTS.
    pub response_timeout: Nanos,
    /// aRxTxTurnaroundTime: a station does not notice a medium that becomes busy within this time before its slot.
    pub turnaround: Nanos,
    /// Smallest contention window.
    pub cw_min: u32,
    /// Largest contention window.
    pub cw_max: u32,
    /// Transmission attempts for short frames and RTS.
    pub short_retry_limit: u32,
    /// Transmission attempts for long frames.
    pub long_retry_limit: u32,
    /// Frames longer than this, in bytes, are preceded by RTS and CTS.
    pub rts_threshold: u32,
    /// Rate of unicast data frames.
    pub data_rate: Rate,
    /// Rate of ACK, RTS and CTS.
    pub control_rate: Rate,
    /// Rate of broadcast frames.
    pub broadcast_rate: Rate,
    /// Duration of an ACK.
    pub ack_time: Nanos,
    /// Duration of a CTS.
    pub cts_time: Nanos,
    /// Bytes of a data frame's MAC header beyond that of the DCF.
    pub header_bytes: u32,
    /// Access categories; `None` with the DCF.
    pub edca: Option<Box<EdcaParams>>,
    /// Comparison with ns-2; see `mac/ns2.rs`.
    #[cfg(test)]
    pub(crate) ns2_rules: bool,
    /// Rates of control frames.
    pub(super) basic_rates: Vec<Rate>,
    /// Senders and hops with a data rate other than `data_rate`; `None` if there are none.
    pub(super) other_rates: Option<Arc<OtherRates>>,
}

/// Data rates that differ from the default, by sender and by hop.
#[derive(Clone, Debug, Default)]
pub(super) struct OtherRates {
    of_node: BTreeMap<u32, Rate>,
    of_hop: BTreeMap<(u32, u32), Rate>,
}

impl MacParams {
    /// The parameters of `mac` over a PHY. `data_rate` and `basic_rates` are rates of its standard.
    pub fn new(phy: Phy, mac: &Mac, data_rate: Rate, basic_rates: &[Rate]) -> Self {
        let control_rate = phy.control_rate(data_rate, basic_rates);
        let lowest = basic_rates.iter().copied().min().unwrap_or(control_rate);
        let mut params = Self {
            phy,
            difs: phy.difs(),
            eifs: phy.eifs(lowest),
            response_timeout: phy.response_timeout_for(control_rate),
            turnaround: mac.turnaround_us.map_or(phy.turnaround, |us| Nanos::from_secs_f64(us * 1e-6)),
            cw_min: mac.cw_min.unwrap_or(phy.cw_min),
            cw_max: mac.cw_max.unwrap_or(phy.cw_max),
            short_retry_limit: mac.short_retry_limit,
            long_retry_limit: mac.long_retry_limit,
            rts_threshold: mac.rts_threshold_bytes.unwrap_or(u32::MAX),
            data_rate,
            control_rate,
            broadcast_rate: lowest,
            ack_time: phy.frame_duration(control_rate, frame::ACK),
            cts_time: phy.frame_duration(control_rate, frame::CTS),
            header_bytes: 0,
            edca: None,
            #[cfg(test)]
            ns2_rules: false,
            basic_rates: basic_rates.to_vec(),
            other_rates: None,
        };
        params.edca = mac.edca.parameters().map(|config| Box::new(EdcaParams::new(&config, &params)));
        params
    }

    /// Whether stations follow ns-2 in two rules that differ from the standard; only in the test that compares them.
    #[inline]
    pub(super) fn follows_ns2(&self) -> bool {
        #[cfg(test)]
        return self.ns2_rules;
        #[cfg(not(test))]
        false
    }

    /// Rates that control frames may have.
    pub fn basic_rates(&self) -> &[Rate] {
        &self.basic_rates
    }

    /// Sets the rate of data frames from a node: to one neighbour, or to all, which replaces rates set for single neighbours.
    pub fn set_rate(&mut self, from: u32, to: Option<u32>, rate: Rate) {
        let mut rates = self.other_rates.as_deref().cloned().unwrap_or_default();
        match to {
            Some(to) => {
                rates.of_hop.insert((from, to), rate);
            }
            None => {
                rates.of_hop.retain(|hop, _| hop.0 != from);
                rates.of_node.insert(from, rate);
            }
        }
        let rates = Arc::new(rates);
        for mac in self.edca.iter_mut().flat_map(|edca| edca.each_mac()) {
            mac.other_rates = Some(Arc::clone(&rates));
        }
        self.other_rates = Some(rates);
    }

    /// The rate of data frames over a hop.
    #[inline]
    pub fn rate_of_hop(&self, from: u32, to: u32) -> Rate {
        match &self.other_rates {
            None => self.data_rate,
            Some(rates) => {
                let of_hop = rates.of_hop.get(&(from, to)).or_else(|| rates.of_node.get(&from));
                of_hop.copied().unwrap_or(self.data_rate)
            }
        }
    }

    /// The rate of the response to a frame at `rate`, and of an RTS that precedes it.
    #[inline]
    pub fn control_rate_of(&self, rate: Rate) -> Rate {
        if rate == self.data_rate || rate == self.control_rate {
            self.control_rate
        } else {
            self.phy.control_rate(rate, &self.basic_rates)
        }
    }

    /// A duration that depends on the response rate: `usual` for the usual control rate, otherwise computed.
    #[inline]
    fn of_answer(&self, rate: Rate, usual: Nanos, other: impl FnOnce(Rate) -> Nanos) -> Nanos {
        let control = self.control_rate_of(rate);
        if control == self.control_rate { usual } else { other(control) }
    }

    /// Duration of the ACK that answers a frame at this rate.
    #[inline]
    pub fn ack_time_of(&self, rate: Rate) -> Nanos {
        self.of_answer(rate, self.ack_time, |control| self.phy.frame_duration(control, frame::ACK))
    }

    /// Duration of the CTS before a frame at this rate.
    #[inline]
    pub fn cts_time_of(&self, rate: Rate) -> Nanos {
        self.of_answer(rate, self.cts_time, |control| self.phy.frame_duration(control, frame::CTS))
    }

    /// How long a station waits for the start of the response to a frame at this rate.
    #[inline]
    pub fn response_timeout_of(&self, rate: Rate) -> Nanos {
        self.of_answer(rate, self.response_timeout, |control| self.phy.response_timeout_for(control))
    }

    /// Duration field of a data frame at this rate: SIFS and ACK.
    #[inline]
    pub fn nav_of_data(&self, rate: Rate) -> Nanos {
        self.phy.sifs + self.ack_time_of(rate)
    }

    /// Duration field of an RTS before a data frame at this rate that lasts `data_time`.
    pub fn nav_of_rts(&self, rate: Rate, data_time: Nanos) -> Nanos {
        self.phy.sifs * 3 + self.cts_time_of(rate) + data_time + self.ack_time_of(rate)
    }

    /// Duration field of the CTS that answers an RTS sent at this rate.
    pub fn nav_of_cts(&self, rate: Rate, rts_nav: Nanos) -> Nanos {
        rts_nav.saturating_sub(self.phy.sifs + self.cts_time_of(rate))
    }
}

/// Parameters of EDCA.
#[derive(Clone, Debug)]
pub struct EdcaParams {
    /// From the lowest category to the highest.
    pub(super) categories: [CategoryParams; CATEGORIES],
    mapping: DscpMapping,
}

/// Parameters of one access category.
#[derive(Clone, Debug)]
pub(super) struct CategoryParams {
    /// The DCF's parameters with the category's AIFS, windows and header size.
    pub(super) mac: MacParams,
    pub(super) txop_limit: Nanos,
}

impl EdcaParams {
    /// The parameters of every category.
    pub(super) fn each_mac(&mut self) -> impl Iterator<Item = &mut MacParams> {
        self.categories.iter_mut().map(|category| &mut category.mac)
    }

    /// `config` applied to the standard's defaults and the DCF's parameters.
    pub fn new(config: &Edca, dcf: &MacParams) -> Self {
        let phy = &dcf.phy;
        let overrides = [&config.background, &config.best_effort, &config.video, &config.voice];
        let categories = std::array::from_fn(|index| {
            let (cw_min, cw_max) = windows(index, dcf.cw_min, dcf.cw_max, overrides[index]);
            let aifsn = overrides[index].aifsn.unwrap_or([7, 3, 2, 2][index]);
            let txop_limit = overrides[index]
                .txop_limit_us
                .map_or_else(|| default_txop(phy, index), |us| Nanos::from_secs_f64(us * 1e-6));
            let mac = MacParams {
                difs: phy.sifs + phy.slot * u64::from(aifsn),
                cw_min,
                cw_max,
                header_bytes: headers::QOS_CONTROL,
                edca: None,
                ..dcf.clone()
            };
            CategoryParams { mac, txop_limit }
        });
        Self { categories, mapping: config.mapping }
    }

    /// The user priority of a packet.
    pub fn user_priority(&self, dscp: Dscp) -> u8 {
        match self.mapping {
            DscpMapping::Rfc8325 => rfc8325(dscp),
            DscpMapping::Precedence => dscp.class(),
        }
    }
}

/// CWmin and CWmax of access category `index` (0 background to 3 voice): those of `config`, or those that table 9-155
/// derives from the PHY's windows.
pub fn windows(index: usize, cw_min: u32, cw_max: u32, config: &AccessCategory) -> (u32, u32) {
    let default = match index {
        0 | 1 => (cw_min, cw_max),
        2 => (cw_min.div_ceil(2).saturating_sub(1), cw_min),
        _ => (((cw_min + 1) / 4).saturating_sub(1), cw_min.div_ceil(2).saturating_sub(1)),
    };
    (config.cw_min.unwrap_or(default.0), config.cw_max.unwrap_or(default.1))
}

/// The TXOP limits of table 9-155.
fn default_txop(phy: &Phy, index: usize) -> Nanos {
    Nanos::from_micros(match phy.standard {
        Standard::Dot11b => [3264, 3264, 6016, 3264][index],
        Standard::Dot11a | Standard::Dot11g => [2528, 2528, 4096, 2080][index],
    })
}

/// The user priority that RFC 8325 §4 recommends; best effort for codepoints that it does not list. Network control (CS6,
/// CS7) is taken to originate inside the network; lower effort (RFC 8622) is treated as CS1.
fn rfc8325(dscp: Dscp) -> u8 {
    match dscp.value() {
        48 | 56 => 7,
        44 | 46 => 6,
        40 => 5,
        24 | 26 | 28 | 30 | 32 | 34 | 36 | 38 => 4,
        18 | 20 | 22 => 3,
        1 | 8 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_priorities_are_those_of_rfc_8325_or_the_precedence() {
        // RFC 8325 §4.3, figure 1, with the codepoints of RFC 4594.
        let rfc = [
            (56, 7),
            (48, 7),
            (46, 6),
            (44, 6),
            (40, 5),
            (34, 4),
            (36, 4),
            (38, 4),
            (32, 4),
            (26, 4),
            (28, 4),
            (30, 4),
            (24, 4),
            (18, 3),
            (20, 3),
            (22, 3),
            (16, 0),
            (10, 0),
            (12, 0),
            (14, 0),
            (0, 0),
            (8, 1),
            (1, 1),
        ];
        for (dscp, up) in rfc {
            assert_eq!(rfc8325(Dscp::new(dscp).unwrap()), up, "DSCP {dscp}");
        }
        assert_eq!([46, 34, 8, 0].map(|dscp| Dscp::new(dscp).unwrap().class()), [5, 4, 1, 0]);
    }

    #[test]
    fn windows_are_those_of_table_9_155() {
        let none = AccessCategory::default();
        let of = |min, max| std::array::from_fn(|index| windows(index, min, max, &none));
        assert_eq!(of(15, 1023), [(15, 1023), (15, 1023), (7, 15), (3, 7)]);
        assert_eq!(of(31, 1023), [(31, 1023), (31, 1023), (15, 31), (7, 15)]);
    }
}
