//! Parameters of radio and MAC that a scenario describes.

use fairhop_model::phy::{Phy, Rate};

use super::sections::Scenario;
use crate::mac::MacParams;
use crate::radio::RadioParams;

impl Scenario {
    /// Reception parameters that all nodes share.
    pub fn radio_params(&self) -> RadioParams {
        RadioParams::new(&self.radio)
    }

    /// MAC parameters that all stations share, with the rates of single links. The scenario must have passed
    /// [`Scenario::findings`].
    pub fn mac_params(&self) -> MacParams {
        let standard = self.radio.standard;
        let data_rate = standard.rate(self.radio.rate_mbps).unwrap_or(standard.rates()[0]);
        let basic_rates: Vec<Rate> = match &self.radio.basic_rates_mbps {
            Some(rates) => rates.iter().filter_map(|&mbps| standard.rate(mbps)).collect(),
            None => standard.mandatory_rates().to_vec(),
        };
        let phy = Phy::new(standard, self.radio.preamble);
        let mut params = MacParams::new(phy, &self.mac, data_rate, &basic_rates);
        for link in &self.radio.rates {
            let Some(rate) = standard.rate(link.rate_mbps) else { continue };
            params.set_rate(link.from, Some(link.to), rate);
            if link.both_ways {
                params.set_rate(link.to, Some(link.from), rate);
            }
        }
        params
    }
}
