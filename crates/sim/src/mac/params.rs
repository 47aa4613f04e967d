//! What every station of a scenario has in common: timing, rates, windows and limits.

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
        };
        params.edca = mac.edca.parameters().map(|written| Box::new(EdcaParams::new(&written, &params)));
        params
    }

    /// The duration field of a data frame: what follows it.
    pub fn nav_of_data(&self) -> Nanos {
        self.phy.sifs + self.ack_time
    }

    /// The duration field of an RTS for a data frame of this length.
    pub fn nav_of_rts(&self, data_time: Nanos) -> Nanos {
        self.phy.sifs * 3 + self.cts_time + data_time + self.ack_time
    }

    /// The duration field of the CTS that answers an RTS with this one.
    pub fn nav_of_cts(&self, rts_nav: Nanos) -> Nanos {
        rts_nav.saturating_sub(self.phy.sifs + self.cts_time)
    }
}
