//! Saturation throughput of EDCA access categories in one cell: every station always has a packet to send.
//!
//! A fixed point as in Bianchi's model, for classes of stations with different windows (Y. Xiao, "Performance analysis of
//! priority schemes for IEEE 802.11 and IEEE 802.11e wireless LANs", IEEE Trans. Wireless Commun. 4(4), 2005) and
//! different AIFS: the slots after a busy period are numbered, and a class contends from its AIFS on (J. W. Robinson and
//! T. S. Randhawa, "Saturation throughput analysis of IEEE 802.11e enhanced distributed coordination function", IEEE JSAC
//! 22(5), 2004). In EDCA, a category counts down in every idle or busy slot that begins after its AIFS (IEEE 802.11-2020,
//! 10.23.2.4), as these models assume. DCF needs a correction ([`crate::bianchi::saturation_with_freezing`]).
//!
//! As there, all stations hear each other, and frames are lost by collisions only. Each station has one category. Left out:
//! internal collisions, and TXOPs of more than one frame.

use crate::bianchi::{Contention, Exchange, transmission_probability};

/// Stations of one category.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Number of stations.
    pub stations: u32,
    /// Their windows and attempts.
    pub contention: Contention,
    /// Their AIFS minus the shortest AIFS, in slots.
    pub later: u32,
    /// Their frame exchange; `success` and `collision` end with the shortest AIFS.
    pub exchange: Exchange,
}

/// The result for a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// τ: probability that a station sends in a slot in which it may send.
    pub tau: f64,
    /// p: probability that a sent frame collides.
    pub collision: f64,
    /// Total payload of its stations in bit/s.
    pub throughput_bps: f64,
}

/// The results of the classes, in their order.
pub fn saturation(classes: &[Class]) -> Vec<Share> {
    let mut collision = vec![0.0; classes.len()];
    let mut tau = Vec::new();
    // Damped, because τ falls with p and p rises with every τ.
    for _ in 0..400 {
        tau = classes
            .iter()
            .zip(&collision)
            .map(|(class, &p)| transmission_probability(&class.contention, p))
            .collect();
        let slots = Slots::new(classes, &tau);
        for (index, class) in classes.iter().enumerate() {
            let p = 1.0 - slots.alone(class, tau[index]) / slots.open_to(class);
            collision[index] += 0.5 * (p - collision[index]);
        }
    }
    let slots = Slots::new(classes, &tau);
    let time = slots.mean_time(classes, &tau);
    classes
        .iter()
        .zip(tau.iter().zip(&collision))
        .map(|(class, (&tau, &collision))| {
            let successes = f64::from(class.stations) * tau * slots.alone(class, tau);
            Share { tau, collision, throughput_bps: successes * class.exchange.payload_bits / time }
        })
        .collect()
}

/// The slots after a busy period, numbered from the end of the shortest AIFS. The last one stands for all later slots.
struct Slots {
    /// Probability of each slot.
    at: Vec<f64>,
    /// Probability that it stays idle.
    idle: Vec<f64>,
}

impl Slots {
    fn new(classes: &[Class], tau: &[f64]) -> Self {
        let last = classes.iter().map(|class| class.later).max().unwrap_or(0);
        let idle: Vec<f64> = (0..=last)
            .map(|slot| {
                let silent = |(class, &tau): (&Class, &f64)| libm::pow(1.0 - tau, f64::from(class.stations));
                classes.iter().zip(tau).filter(|(class, _)| class.later <= slot).map(silent).product()
            })
            .collect();
        let mut at = vec![1.0];
        for slot in 1..idle.len() {
            at.push(at[slot - 1] * idle[slot - 1]);
        }
        if let (Some(at), Some(idle)) = (at.last_mut(), idle.last()) {
            *at /= 1.0 - idle;
        }
        let sum: f64 = at.iter().sum();
        at.iter_mut().for_each(|at| *at /= sum);
        Self { at, idle }
    }

    /// Probability of a slot in which a class may send.
    fn open_to(&self, class: &Class) -> f64 {
        self.at[class.later as usize..].iter().sum()
    }

    /// Probability of a slot in which a station of a class may send and no other station sends.
    fn alone(&self, class: &Class, tau: f64) -> f64 {
        let from = class.later as usize;
        self.at[from..].iter().zip(&self.idle[from..]).map(|(at, idle)| at * idle / (1.0 - tau)).sum()
    }

    /// Mean length of a slot in seconds.
    fn mean_time(&self, classes: &[Class], tau: &[f64]) -> f64 {
        let mut time = 0.0;
        for (slot, (&at, &idle)) in self.at.iter().zip(&self.idle).enumerate() {
            let open = || classes.iter().zip(tau).filter(move |(class, _)| class.later as usize <= slot);
            let success =
                |(class, &tau): (&Class, &f64)| f64::from(class.stations) * tau * idle / (1.0 - tau);
            let successes: f64 = open().map(success).sum();
            let in_success: f64 = open().map(|of| success(of) * of.0.exchange.success.as_secs_f64()).sum();
            // A collision lasts as long as its longest frame.
            let longest = open().map(|(class, _)| class.exchange.collision).max().unwrap_or_default();
            let slot_time = classes.first().map_or(0.0, |class| class.exchange.slot.as_secs_f64());
            time += at
                * (idle * slot_time + in_success + (1.0 - idle - successes).max(0.0) * longest.as_secs_f64());
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bianchi::{self, AfterCollision};
    use crate::phy::{Phy, Preamble, Rate, Standard};

    fn exchange() -> (Contention, Exchange) {
        let phy = Phy::new(Standard::Dot11a, Preamble::Long);
        let contention = Contention::of(&phy, Some(7));
        let exchange =
            Exchange::basic_access(&phy, Rate::Ofdm24, &[Rate::Ofdm24], 1500, 1472, AfterCollision::Difs);
        (contention, exchange)
    }

    #[test]
    fn classes_that_are_alike_share_what_bianchis_model_gives_them_together() {
        let (contention, exchange) = exchange();
        let class = |stations| Class { stations, contention, later: 0, exchange };
        let whole = bianchi::saturation(10, &contention, &exchange);
        let shares = saturation(&[class(3), class(7)]);
        let sum: f64 = shares.iter().map(|share| share.throughput_bps).sum();
        assert!((sum / whole.throughput.0 as f64 - 1.0).abs() < 1e-6);
        assert!((shares[0].throughput_bps / 3.0 - shares[1].throughput_bps / 7.0).abs() < 1e-3);
        assert!(
            (shares[0].tau - whole.tau).abs() < 1e-9 && (shares[0].collision - whole.collision).abs() < 1e-9
        );
    }

    #[test]
    fn a_later_class_gets_less_and_one_alone_loses_its_longer_wait_only() {
        let (contention, exchange) = exchange();
        let class = |stations, later| Class { stations, contention, later, exchange };
        let shares = saturation(&[class(5, 0), class(5, 1)]);
        assert!(shares[1].throughput_bps < 0.7 * shares[0].throughput_bps);
        let alone = |later| saturation(&[class(1, later)])[0].throughput_bps;
        // Without contention a cycle has the mean backoff, the exchange, and the slots of waiting.
        let cycle = exchange.payload_bits / alone(0);
        let waits = exchange.payload_bits / alone(5);
        assert!((waits - cycle - 5.0 * exchange.slot.as_secs_f64()).abs() < 1e-9);
    }
}
