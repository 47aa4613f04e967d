//! What every station of a scenario has in common: timing, rates, windows and limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairhop_model::phy::{Phy, Rate, frame};
use fairhop_model::units::Nanos;

use super::edca::EdcaParams;
use crate::scenario::{Mac, Radio};

/// Parameters of medium access.
#[derive(Clone, Debug)]
pub struct MacParams {
    /// Timing of the physical layer.
    pub phy: Phy,
    /// DIFS.
    pub difs: Nanos,
    /// EIFS.
    pub eifs: Nanos,
    /// How long a station waits for the start of an answer.
    pub response_timeout: Nanos,
    /// How long before its slot a station no longer notices that the medium becomes busy.
    pub turnaround: Nanos,
    /// Smallest contention window.
    pub cw_min: u32,
    /// Largest contention window.
    pub cw_max: u32,
    /// Attempts for short frames and RTS.
    pub short_retry_limit: u32,
    /// Attempts for long frames.
    pub long_retry_limit: u32,
    /// Frames longer than this go after an RTS.
    pub rts_threshold: u32,
    /// Rate of unicast data frames.
    pub data_rate: Rate,
    /// Rate of ACK, RTS and CTS.
    pub control_rate: Rate,
    /// Rate of broadcast frames.
    pub broadcast_rate: Rate,
    /// Time of an ACK.
    pub ack_time: Nanos,
    /// Time of a CTS.
    pub cts_time: Nanos,
    /// Bytes that the header of a data frame has more than the plain one.
    pub header_bytes: u32,
    /// Access categories, where stations have them.
    pub edca: Option<Box<EdcaParams>>,
    /// Comparison with ns-2; see `mac/ns2.rs`.
    #[cfg(test)]
    pub(crate) ns2_rules: bool,
    /// Rates of control frames.
    pub(super) basic_rates: Vec<Rate>,
    /// Senders and hops whose data frames have another rate than `data_rate`, where there are any.
    pub(super) other_rates: Option<Arc<OtherRates>>,
}

/// Rates that are not the usual one, by sender and by hop.
#[derive(Clone, Debug, Default)]
pub(super) struct OtherRates {
    of_node: BTreeMap<u32, Rate>,
    of_hop: BTreeMap<(u32, u32), Rate>,
}

impl MacParams {
    /// The parameters of a scenario. `data_rate` and `basic_rates` are known to the standard.
    pub fn new(radio: &Radio, mac: &Mac, data_rate: Rate, basic_rates: &[Rate]) -> Self {
        let phy = Phy::new(radio.standard, radio.preamble);
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
        params.edca = mac.edca.parameters().map(|written| Box::new(EdcaParams::new(&written, &params)));
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

    /// Sets the rate of data frames from a node: to all its neighbours, which ends what was set for single ones, or to one.
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

    /// The rate of what answers a frame, and of an RTS before it.
    #[inline]
    pub fn control_rate_of(&self, rate: Rate) -> Rate {
        if rate == self.data_rate || rate == self.control_rate {
            self.control_rate
        } else {
            self.phy.control_rate(rate, &self.basic_rates)
        }
    }

    /// What goes with the rate of an answer to a frame: the usual, kept, or for another rate worked out.
    #[inline]
    fn of_answer(&self, rate: Rate, usual: Nanos, other: impl FnOnce(Rate) -> Nanos) -> Nanos {
        let control = self.control_rate_of(rate);
        if control == self.control_rate { usual } else { other(control) }
    }

    /// Time of the ACK that answers a frame at this rate.
    #[inline]
    pub fn ack_time_of(&self, rate: Rate) -> Nanos {
        self.of_answer(rate, self.ack_time, |control| self.phy.frame_duration(control, frame::ACK))
    }

    /// Time of the CTS before a frame at this rate.
    #[inline]
    pub fn cts_time_of(&self, rate: Rate) -> Nanos {
        self.of_answer(rate, self.cts_time, |control| self.phy.frame_duration(control, frame::CTS))
    }

    /// How long a station waits for the start of what answers a frame at this rate.
    #[inline]
    pub fn response_timeout_of(&self, rate: Rate) -> Nanos {
        self.of_answer(rate, self.response_timeout, |control| self.phy.response_timeout_for(control))
    }

    /// The duration field of a data frame at this rate: what follows it.
    #[inline]
    pub fn nav_of_data(&self, rate: Rate) -> Nanos {
        self.phy.sifs + self.ack_time_of(rate)
    }

    /// The duration field of an RTS for a data frame of this rate and length.
    pub fn nav_of_rts(&self, rate: Rate, data_time: Nanos) -> Nanos {
        self.phy.sifs * 3 + self.cts_time_of(rate) + data_time + self.ack_time_of(rate)
    }

    /// The duration field of the CTS that answers an RTS of this rate with this one.
    pub fn nav_of_cts(&self, rate: Rate, rts_nav: Nanos) -> Nanos {
        rts_nav.saturating_sub(self.phy.sifs + self.cts_time_of(rate))
    }
}
