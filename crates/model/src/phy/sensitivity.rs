//! Bandwidth, thermal noise and the receiver sensitivity required by the standard.
//!
//! OFDM: Table 17-18 (10 % of 1000-byte frames lost), taken over for ERP-OFDM by 18.4.6. DSSS: 15.4.6.2 (8 % of
//! 1024-byte frames lost at 2 Mb/s). CCK: 16.3.8.2 (the same at 11 Mb/s). Real receivers are some 10 dB better.

use super::{Rate, Standard};
use crate::units::{Db, Dbm};

impl Standard {
    /// Bandwidth of signal and noise in Hz: the channel spacing of OFDM (17.3.8.4.2), the main lobe of the 11 Mchip/s
    /// signal of DSSS and CCK (15.4.5.5).
    pub const fn bandwidth_hz(self) -> f64 {
        match self {
            Self::Dot11a | Self::Dot11g => 20e6,
            Self::Dot11b => 22e6,
        }
    }
}

impl Rate {
    /// Minimum signal at which the standard requires reception at this rate.
    ///
    /// The standard gives no value for 1 and 5.5 Mb/s. They use that of the next faster rate.
    pub const fn sensitivity(self) -> Dbm {
        Dbm(match self {
            Self::Dsss1 | Self::Dsss2 => -80.0,
            Self::Cck5_5 | Self::Cck11 => -76.0,
            Self::Ofdm6 => -82.0,
            Self::Ofdm9 => -81.0,
            Self::Ofdm12 => -79.0,
            Self::Ofdm18 => -77.0,
            Self::Ofdm24 => -74.0,
            Self::Ofdm36 => -70.0,
            Self::Ofdm48 => -66.0,
            Self::Ofdm54 => -65.0,
        })
    }
}

/// Noise at the receiver: thermal noise at 290 K over the standard's bandwidth, and the receiver's noise figure.
pub fn noise_floor(standard: Standard, noise_figure: Db) -> Dbm {
    /// k·T in milliwatts per hertz: 1.380649·10⁻²³ J/K (exact in the SI) at the 290 K to which noise figures refer.
    const KT_MW_PER_HZ: f64 = 1.380_649e-23 * 290.0 * 1e3;
    Dbm(Db::from_ratio(KT_MW_PER_HZ * standard.bandwidth_hz()).0) + noise_figure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::chunk_success;

    #[test]
    fn thermal_noise_is_minus_174_dbm_a_hertz() {
        // 10 log₁₀(1.380649e-23 · 290 · 1000) = −173.975 dBm/Hz; 20 MHz add 73.010 dB, 22 MHz 73.424 dB.
        assert!((noise_floor(Standard::Dot11a, Db(0.0)).0 - -100.965).abs() < 1e-3);
        assert!((noise_floor(Standard::Dot11g, Db(7.0)).0 - -93.965).abs() < 1e-3);
        assert!((noise_floor(Standard::Dot11b, Db(7.0)).0 - -93.551).abs() < 1e-3);
    }

    #[test]
    fn a_receiver_with_a_noise_figure_of_10_db_meets_every_requirement() {
        // 17.3.10.2 assumes this noise figure, and 5 dB more for the implementation; the decoder here uses hard
        // decisions, which cost about half of those.
        for standard in [Standard::Dot11a, Standard::Dot11b, Standard::Dot11g] {
            for rate in standard.rates() {
                let snr = Db(rate.sensitivity().0 - noise_floor(standard, Db(10.0)).0).as_ratio();
                let (bytes, loss) =
                    if standard == Standard::Dot11b { (1024.0, 0.08) } else { (1000.0, 0.10) };
                let lost = 1.0 - chunk_success(*rate, snr, 8.0 * bytes);
                assert!(lost <= loss, "{rate:?}: {lost}");
            }
        }
    }
}
