//! The budgets of the link to the Internet.
//!
//! That link carries both directions independently of each other and of the mesh. A queue in one of them says nothing of what the
//! mesh carries. So uploads to the Internet and downloads from it have a budget each, in bits per second. Each follows the law of
//! the mesh's budget by the queue of its own direction alone, while a call shares the link. With one budget for all, three uploads
//! over an uplink of 2 Mb/s left a download 0.4 of 20 Mb/s.
//!
//! | direction | its queue |
//! |---|---|
//! | uploads | round trips beyond the gateway: of uploads by their ACKs, and of calls by RTCP, without the queue of the other direction |
//! | downloads | delay of the packets of calls that arrive from the Internet |

use fairhop_model::units::Nanos;

use super::law::{Law, Load};
use super::stress::{Stress, Sum, confidence};
use super::{Adaptive, AdaptiveConfig, REMEMBERED};
use crate::observer::{CallNow, Observer, WindowedMin};
use crate::policy::{Reason, State};

/// Part of the tolerable delay up to which jitter of the Internet counts as such.
const JITTER_PART: f64 = 0.5;

/// The link, at a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Internet {
    up: Way,
    down: Way,
    /// A call shares the link.
    has_call: bool,
    /// Smallest and largest mean delay of a call's packets that arrive from it.
    least_delay: Option<Nanos>,
    most_delay: Nanos,
    /// The same over the long span. Its minimum over the last minutes is jitter that no queue causes.
    usual_delay: Option<Nanos>,
    jitter: WindowedMin<Nanos>,
    /// Packets of calls from it that were late already when they arrived, in the short span and in the long one.
    fast: Sum,
    slow: Sum,
    /// Sum in seconds and number of the excesses of calls' round trips by RTCP.
    of_calls: (f64, f64),
}

/// A direction of the link, and the budget of the elastic flows whose data take it.
#[derive(Clone, Copy, Debug)]
struct Way {
    law: Law,
    /// What these flows send, and what they keep in any case, in bits per second.
    used: f64,
    min: f64,
    /// When such flows beside calls began, and when they were last there.
    began: Nanos,
    seen: Option<Nanos>,
    /// A queue has been seen since then: before, nothing is limited.
    is_limited: bool,
    /// Its queue over what is tolerable; none if it matters to no call or no flow fills it.
    level: Option<f64>,
}

impl Internet {
    pub(super) fn new(config: &AdaptiveConfig) -> Self {
        let way = Way {
            law: Law::new(config.first_budget, &config.tuning),
            used: 0.0,
            min: 0.0,
            began: Nanos::ZERO,
            seen: None,
            is_limited: false,
            level: None,
        };
        Self {
            up: way,
            down: way,
            has_call: false,
            least_delay: None,
            most_delay: Nanos::ZERO,
            usual_delay: None,
            jitter: WindowedMin::new(),
            fast: Sum::default(),
            slow: Sum::default(),
            of_calls: (0.0, 0.0),
        }
    }

    const fn way(&self, is_upload: bool) -> &Way {
        if is_upload { &self.up } else { &self.down }
    }

    const fn way_mut(&mut self, is_upload: bool) -> &mut Way {
        if is_upload { &mut self.up } else { &mut self.down }
    }

    /// Begins a tick without flows.
    pub(super) const fn clear_flows(&mut self) {
        (self.up.used, self.up.min) = (0.0, 0.0);
        (self.down.used, self.down.min) = (0.0, 0.0);
    }

    /// Begins a tick without calls.
    pub(super) fn clear_calls(&mut self) {
        self.has_call = false;
        (self.least_delay, self.most_delay, self.usual_delay) = (None, Nanos::ZERO, None);
        (self.fast, self.slow) = <_>::default();
        self.of_calls = (0.0, 0.0);
    }

    /// Counts an elastic flow.
    pub(super) fn add_flow(&mut self, is_upload: bool, rate: f64, min_rate: f64) {
        let way = self.way_mut(is_upload);
        way.used += rate;
        way.min += min_rate;
    }

    /// Counts a call over the link; `tolerable` is the excess of its round trip in seconds at which the stress is 1.
    pub(super) fn add_call(&mut self, call: &CallNow, slow: Option<&CallNow>, tolerable: f64) {
        self.has_call = true;
        if let Some(wired) = slow.and_then(|slow| slow.wired) {
            self.slow.add_late(&wired);
            self.usual_delay = self.usual_delay.max(Some(wired.delay));
        }
        if let Some(wired) = call.wired {
            self.fast.add_late(&wired);
            self.least_delay = Some(self.least_delay.map_or(wired.delay, |least| least.min(wired.delay)));
            self.most_delay = self.most_delay.max(wired.delay);
        }
        // Until the next report, an old one with a queue is no reason to send more, and none to send less.
        if let Some((excess, holds)) = call.wired_excess {
            let excess = excess.as_secs_f64();
            self.of_calls.0 += if holds { excess } else { excess.min(tolerable) };
            self.of_calls.1 += 1.0;
        }
    }

    /// Why a direction's budget falls, with the level of its queue, if one does.
    pub(super) fn reason(&self) -> Option<(f64, Reason)> {
        let falls = |way: &Way| way.level.filter(|&level| level > 1.0).map(|level| (level, way.law.reason));
        let of_both = falls(&self.up).into_iter().chain(falls(&self.down));
        of_both
            .filter(|(_, reason)| matches!(reason, Reason::UplinkQueue { .. } | Reason::WiredQueue { .. }))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// State and reason of the budget that bounds flows; that of downloads where both do, since their packets are those that wait.
    pub(super) fn binding(&self) -> (State, Reason) {
        let law = if self.down.is_limited { &self.down.law } else { &self.up.law };
        (law.state, law.reason)
    }

    /// Calls suffer although uploads have the least that they keep.
    pub(super) fn suffers_at_minimum(&self) -> bool {
        self.up.level.is_some_and(|level| level > 1.0) && self.up.law.budget <= 1.02 * self.up.min
    }
}

impl Adaptive {
    /// Tolerable delay of calls on the link, in seconds: in the mean before the gateway, and of a round trip beyond it.
    pub(super) fn tolerable_wired_delay(&self, observer: &Observer) -> f64 {
        self.tuning.wired_delay * observer.listening().playout.as_secs_f64()
    }

    /// Moves the budgets of both directions.
    pub(super) fn follow_internet(&mut self, now: Nanos, seconds: f64, observer: &Observer, mesh: &Stress) {
        let playout = observer.listening().playout.as_secs_f64();
        let Internet { least_delay, most_delay, fast, slow, of_calls: (sum, count), .. } = self.internet;
        let inward = least_delay.unwrap_or_default().as_secs_f64();
        let of_uploads = (observer.uplink_excess().unwrap_or_default().as_secs_f64() - inward).max(0.0);
        let of_calls = (sum / count.max(1.0) - inward).max(0.0);
        let tolerable = self.tolerable_wired_delay(observer);
        let up = (of_uploads / (self.tuning.uplink_delay * playout)).max(of_calls / tolerable);
        let excess = Nanos::from_secs_f64(of_uploads.max(of_calls));
        if let Some(usual) = self.internet.usual_delay {
            self.internet.jitter.update(now, usual);
        }
        let jitter =
            self.internet.jitter.value().unwrap_or_default().as_secs_f64().min(JITTER_PART * tolerable);
        let down = (most_delay.as_secs_f64() - jitter).max(0.0) / tolerable;
        let tolerance = self.tolerance * confidence(slow.expected, self.tuning.enough_packets);
        let of_direction = |queue: f64, excess: Nanos, reason: Reason| Stress {
            level: queue,
            lower_level: queue,
            queue,
            excess,
            acute: false,
            reason,
            ..*mesh
        };
        let uploads = of_direction(up, excess, Reason::UplinkQueue { excess });
        let downloads = Stress {
            level: down.max(slow.loss() / tolerance),
            lower_level: down.max(slow.lower_loss() / tolerance),
            packets: slow.expected,
            acute: self.is_acute(&fast),
            ..of_direction(down, most_delay, Reason::WiredQueue { delay: most_delay })
        };
        self.follow_way(now, seconds, true, &uploads);
        self.follow_way(now, seconds, false, &downloads);
    }

    fn follow_way(&mut self, now: Nanos, seconds: f64, is_upload: bool, stress: &Stress) {
        let is_known = self.internet.has_call && self.law.state != State::Starved;
        let way = self.internet.way_mut(is_upload);
        way.level = (is_known && way.min > 0.0).then_some(stress.level);
        if way.level.is_none() {
            return;
        }
        let law = &mut way.law;
        if way.seen.is_none_or(|seen| now.saturating_sub(seen) >= REMEMBERED) {
            // Uploads obey late, and many fill a queue before it is seen: their budget is learnt from the start, from that of the
            // longest path on.
            let first = self.config.first_budget / f64::from(self.config.shared_links.max(1));
            *law = Law::new(way.used.max(first), &self.tuning);
            law.enter(State::Learning, Reason::RoomToGrow);
            (way.began, way.is_limited) = (now, is_upload);
        }
        way.seen = Some(now);
        law.take(seconds, (way.used, way.used), 1.0, &self.tuning);
        way.is_limited |= stress.level > 1.0;
        if !way.is_limited {
            law.budget = way.used.max(way.min);
        }
        law.follow_stress(now, stress);
        law.follow_beginning(now.saturating_sub(way.began), stress, &self.tuning);
        let load = Load {
            is_wanted: !is_upload && self.waits,
            min_budget: way.min,
            first_budget: self.config.first_budget,
            has_uploads: is_upload,
            has_calls: true,
            tolerance: self.tolerance,
            caution: self.caution,
            is_interrupted: self.routes.is_interrupted(),
            is_small: false,
        };
        law.decide(now, seconds, &load, stress, &self.tuning);
        law.budget = law.budget.max(way.min);
        law.ceiling = law.ceiling.max(way.min);
    }

    /// What uploads to the Internet, or downloads from it, may send now, in bits per second; none without a limit.
    pub(super) fn internet_budget(&self, now: Nanos, is_upload: bool) -> Option<f64> {
        let way = self.internet.way(is_upload);
        let level = way.level.filter(|_| way.is_limited)?;
        Some(way.law.budget * self.caution * way.law.damped(now, level, &self.tuning))
    }
}
