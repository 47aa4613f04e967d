//! Stress: how calls and queues are, as one number. 1 is the limit of what is tolerable, and the point to stay at.
//!
//! A call is a probe of 50 packets per second each way. Its signals are the fraction *lost or late* (out of the mesh as seen,
//! into the mesh as its listener reports) and the *delay* over the fastest packet. All calls that end at one node are summed,
//! since they take one path and one call alone has too few packets; the worst node counts. TCP adds the *excess* of its round
//! trips through the mesh over their base. Each signal is divided by its tolerable value; the largest quotient is the stress.
//! Without calls, only the excess counts.
//!
//! The tolerable loss follows from the aim. At 0.43 % independent loss, 2 % of one-second windows (50 packets) lose two packets
//! or more, which puts their MOS under 3.6 (G.729A). The number of bad windows grows with the square of the loss, so the two
//! directions add as squares.

use fairhop_model::units::Nanos;

use super::{Adaptive, SLOW};
use crate::digest::Direction;
use crate::flow::Address;
use crate::observer::{CallNow, Observer, Quality};
use crate::policy::{Reason, State};

/// The stress at one tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stress {
    /// 1 is what is tolerable.
    pub(super) level: f64,
    /// The level if the number of lost packets is one standard deviation lower.
    pub(super) lower_level: f64,
    /// Fraction lost or late over [`SLOW`], both directions combined, worst node.
    pub(super) combined_loss: f64,
    /// Call packets per second of that node, in the direction that has more.
    pub(super) packets: f64,
    /// The level by round trips and delays alone.
    pub(super) queue: f64,
    /// Excess of round trips over their base.
    pub(super) excess: Nanos,
    /// A breakdown: cut at once.
    pub(super) acute: bool,
    /// Fraction lost or late over [`SLOW`], worst direction of the worst node.
    pub(super) loss_or_late: f64,
    /// A call's MOS over [`SLOW`] is under the configured one.
    pub(super) bad_call: bool,
    /// The signal with the largest quotient.
    pub(super) reason: Reason,
}

/// Sums over the calls that end at one node, or over its probes: into the mesh, out of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    address: Address,
    /// A probe crosses the mesh both ways: beside the packets of calls, which cross it once, its losses would seem fewer.
    is_probed: bool,
    fast: [Sum; 2],
    slow: [Sum; 2],
}

/// Packets of calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// Packets that are measured or reported.
    pub(super) expected: f64,
    lost_or_late: f64,
    /// All packets, inferred ones too.
    weight: f64,
    /// Delay times packets, in seconds.
    delay: f64,
}

impl Sum {
    fn add(&mut self, quality: &Quality, is_measured: bool) {
        let expected = f64::from(quality.expected.max(1));
        if is_measured {
            self.expected += expected;
            self.lost_or_late += expected * (quality.loss + quality.late).min(1.0);
        }
        self.weight += expected;
        self.delay += expected * quality.delay.as_secs_f64();
    }

    fn mean_delay(&self) -> f64 {
        if self.weight > 0.0 { self.delay / self.weight } else { 0.0 }
    }

    /// Counts packets of which only those that are late matter.
    pub(super) fn add_late(&mut self, quality: &Quality) {
        let expected = f64::from(quality.expected);
        self.expected += expected;
        self.lost_or_late += expected * quality.late;
    }

    /// Fraction lost or late.
    pub(super) fn loss(&self) -> f64 {
        self.fraction(self.lost_or_late)
    }

    /// The same if the number of lost packets is one standard deviation lower.
    pub(super) fn lower_loss(&self) -> f64 {
        self.fraction((self.lost_or_late - libm::sqrt(self.lost_or_late)).max(0.0))
    }

    fn fraction(&self, packets: f64) -> f64 {
        if self.expected > 0.0 { packets / self.expected } else { 0.0 }
    }
}

/// How close to the limit the budget may be, by the number of call packets per second: 1 at `enough_packets`, less where
/// the loss is known less well.
pub(super) fn confidence(packets: f64, enough: f64) -> f64 {
    (packets / enough).clamp(0.25, 1.0).sqrt()
}

impl Adaptive {
    pub(super) fn add_to_node(&mut self, fast: &CallNow, slow: Option<&CallNow>) {
        let (address, is_probed) = (fast.key.mesh, fast.is_probe());
        // Calls come in the order of their nodes.
        let is_it = |node: &Node| (node.address, node.is_probed) == (address, is_probed);
        let last = self.nodes.len().saturating_sub(2);
        let known = self.nodes[last..].iter().position(is_it).map(|place| last + place);
        let place = known.unwrap_or_else(|| {
            self.nodes.push(Node { address, is_probed, fast: <_>::default(), slow: <_>::default() });
            self.nodes.len() - 1
        });
        let node = &mut self.nodes[place];
        for (sums, call) in [(&mut node.fast, Some(fast)), (&mut node.slow, slow)] {
            let both = call.map_or([None, None], |call| [call.down, call.up]);
            // Loss into the mesh that is inferred from the way out adds no information; its delay does.
            let is_measured = [call.is_some_and(|call| call.down_is_reported), true];
            for ((sum, quality), is_measured) in sums.iter_mut().zip(both).zip(is_measured) {
                if let Some(quality) = quality {
                    sum.add(&quality, is_measured);
                }
            }
        }
    }

    /// Whether that many packets of the short span, and that part of them, are a breakdown.
    pub(super) fn is_acute(&self, fast: &Sum) -> bool {
        let acute_loss = self.tuning.acute_loss * (self.tolerance / self.tolerable.loss).sqrt();
        fast.lost_or_late >= self.tuning.acute_packets && fast.loss() >= acute_loss
    }

    /// Excess of round trips through the mesh. Calls show which part of it is that of the way out.
    fn excess(&self, observer: &Observer) -> Option<Nanos> {
        let excess = observer.mesh_excess_of(|node| !self.routes.interrupts(node))?;
        match (self.way, self.least_up_delay) {
            (None, _) | (_, None) => Some(excess),
            (Some(Direction::ToMesh), Some(up)) => Some(excess.saturating_sub(up)),
            (Some(Direction::FromMesh), Some(_)) => None,
        }
    }

    pub(super) fn stress(&self, now: Nanos, observer: &Observer) -> Stress {
        let config = &self.config;
        let mut stress = Stress {
            level: 0.0,
            lower_level: 0.0,
            combined_loss: 0.0,
            packets: 0.0,
            queue: 0.0,
            excess: Nanos::ZERO,
            acute: false,
            loss_or_late: 0.0,
            bad_call: false,
            reason: Reason::RoomToGrow,
        };
        let mut queue = 0.0_f64;
        let mut packets = 0.0_f64;
        let mut raise = |level: f64, lower_level: f64, reason: Reason| {
            stress.lower_level = stress.lower_level.max(lower_level);
            if level > stress.level {
                (stress.level, stress.reason) = (level, reason);
            }
        };
        let ignores_calls = self.law.state == State::Starved;
        let (own_loss, wait) = if self.way == Some(Direction::FromMesh) {
            (0.0, Nanos::ZERO)
        } else {
            (observer.own_queue().loss(now), observer.own_queue().wait(now))
        };
        let playout = observer.listening().playout.as_secs_f64();
        let (mut acute, mut worst, mut combined_max) = (false, 0.0_f64, 0.0_f64);
        for node in self.nodes.iter().filter(|node| !self.routes.interrupts(node.address)) {
            let measured = node.slow.iter().map(|slow| slow.expected).fold(0.0, f64::max);
            let (mut losses, mut lowers) = ([0.0; 2], [0.0; 2]);
            for (way, (fast, slow)) in node.fast.iter().zip(&node.slow).enumerate() {
                let (loss, delay) = (slow.loss(), fast.mean_delay());
                worst = worst.max(loss);
                (losses[way], lowers[way]) = (loss, slow.lower_loss());
                if !ignores_calls {
                    let level = delay / config.delay.as_secs_f64();
                    let reason = Reason::CallDegraded {
                        loss_or_late: loss.max(fast.loss()),
                        delay: Nanos::from_secs_f64(delay),
                    };
                    raise(level, level, reason);
                    queue = queue.max(level);
                    acute |= self.is_acute(fast) || delay > self.tuning.acute_delay * playout;
                }
            }
            let of_calls = self.tolerable.combined(losses);
            let worse = losses[0].max(losses[1]).min(1.0);
            if !ignores_calls {
                // Voice packets that the own queue drops are lost on the way into the mesh.
                losses[0] += own_loss;
                lowers[0] += own_loss;
            }
            let (combined, lower) = (self.tolerable.combined(losses), self.tolerable.combined(lowers));
            if combined >= combined_max {
                (combined_max, packets) = (combined, measured / SLOW.as_secs_f64());
            }
            if !ignores_calls && measured > 0.0 {
                let reason = if of_calls < 0.5 * combined {
                    Reason::OwnQueue { wait }
                } else {
                    Reason::CallDegraded { loss_or_late: worse, delay: Nanos::ZERO }
                };
                let tolerance = self.tolerance * confidence(measured, self.tuning.enough_packets);
                raise(combined / tolerance, lower / tolerance, reason);
            }
        }
        let has_calls = !self.nodes.is_empty() && !ignores_calls;
        // On a path of many hops, the calls' packets alone make round trips vary by as much as they take.
        let tolerable = if has_calls { config.excess } else { config.excess_alone };
        let tolerable = tolerable.saturating_add(Nanos(2 * self.base.0));
        if let Some(excess) = self.excess(observer) {
            let level = excess.as_secs_f64() / tolerable.as_secs_f64().max(1e-3);
            raise(level, level, Reason::QueueGrows { excess });
            queue = queue.max(level);
            stress.excess = excess;
            acute |= has_calls && level > self.tuning.acute_excess;
        }
        let tolerable = if has_calls { config.delay } else { config.excess_alone };
        let level = wait.as_secs_f64() / tolerable.as_secs_f64();
        if !self.routes.is_interrupted() {
            raise(level, level, Reason::OwnQueue { wait });
            queue = queue.max(level);
        }
        (stress.queue, stress.packets) = (queue, packets);
        stress.acute = acute;
        stress.loss_or_late = worst;
        stress.combined_loss = combined_max;
        stress.bad_call = self.has_bad_call;
        stress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_lost_before_the_gateway_are_expected_and_only_late_ones_count() {
        let quality = |loss, late| Quality { expected: 50, loss, late, ..Quality::default() };
        let mut sum = Sum::default();
        sum.add_late(&quality(0.5, 0.04));
        sum.add_late(&quality(0.0, 0.04));
        assert!((sum.loss() - 0.04).abs() < 1e-12, "{sum:?}");
        // Four packets late, and two with one standard deviation fewer.
        assert!((sum.lower_loss() - 0.02).abs() < 1e-12, "{sum:?}");
    }
}
