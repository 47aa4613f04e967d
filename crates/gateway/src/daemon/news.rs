//! Which decisions are reported.

use fairhop_control::Decision;
use fairhop_model::units::Nanos;

/// Minimum time between two reports; the states of a controller change at most twice a second.
const NEWS_EVERY: Nanos = Nanos::from_millis(500);
/// Time between reports while nothing changes.
const SAME_EVERY: Nanos = Nanos::from_secs(10);

/// What a report is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// State or kind of reason are not those of the last report: for log, journal and API.
    Changed,
    /// The same for a long time: for the journal, from which a controller continues.
    Same,
}

/// The last report. A decision is compared with it and not with that of the tick before: what changed too soon after a report is
/// reported later, if it lasts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    at: Option<Nanos>,
    changed: Option<Decision>,
}

impl News {
    /// Whether the decision of a tick is reported, and what for.
    pub(super) fn report(&mut self, decision: &Decision) -> Option<Report> {
        let is_same = self.changed.is_some_and(|last| last.is_like(decision));
        let (report, every) =
            if is_same { (Report::Same, SAME_EVERY) } else { (Report::Changed, NEWS_EVERY) };
        if self.at.is_some_and(|at| decision.at.saturating_sub(at) < every) {
            return None;
        }
        self.at = Some(decision.at);
        if report == Report::Changed {
            self.changed = Some(*decision);
        }
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use fairhop_control::policy::{Means, Reason, State};

    use super::*;

    fn decision(tick: u64, reason: Reason) -> Decision {
        Decision {
            at: Nanos::from_millis(100 * tick),
            state: State::Steady,
            reason,
            means: Means::Window,
            budget: None,
            down: None,
            acks: None,
            window: None,
            waiting: 0,
            mos: None,
        }
    }

    fn reports(ticks: impl IntoIterator<Item = (u64, Reason)>) -> Vec<(u64, Report)> {
        let mut news = News::default();
        let of = |(tick, reason)| Some((tick, news.report(&decision(tick, reason))?));
        ticks.into_iter().filter_map(of).collect()
    }

    #[test]
    fn a_change_soon_after_a_report_is_reported_later_if_it_lasts() {
        let change = |tick| if tick < 2 { Reason::Hold } else { Reason::Probe };
        assert_eq!(
            reports((0..120).map(|tick| (tick, change(tick)))),
            [(0, Report::Changed), (5, Report::Changed), (105, Report::Same)]
        );
        // One that is over by then is not.
        let blip = |tick| if (2..5).contains(&tick) { Reason::Probe } else { Reason::Hold };
        assert_eq!(reports((0..60).map(|tick| (tick, blip(tick)))), [(0, Report::Changed)]);
    }

    /// Decisions that change at random, for ten minutes: what was reported last is in force, or was reported just now.
    #[test]
    fn the_last_report_is_never_wrong_for_longer_than_the_minimum_time() {
        let reasons = [Reason::Hold, Reason::Probe, Reason::RoomToGrow, Reason::CallStarted];
        let (mut news, mut state) = (News::default(), 1_u64);
        let mut reported: Option<(Nanos, Reason)> = None;
        let mut current = 0;
        let mut count = 0;
        for tick in 0..6000 {
            // Knuth's MMIX; the high bits are the random ones.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (state >> 33) % 4 == 0 {
                current = (state >> 40) as usize % reasons.len();
            }
            let decision = decision(tick, reasons[current]);
            if news.report(&decision) == Some(Report::Changed) {
                let since = reported.map_or(NEWS_EVERY, |(at, _)| decision.at.saturating_sub(at));
                assert!(since >= NEWS_EVERY, "tick {tick}");
                reported = Some((decision.at, reasons[current]));
                count += 1;
            }
            let (at, reason) = reported.expect("the first tick is reported");
            assert!(reason == reasons[current] || decision.at.saturating_sub(at) < NEWS_EVERY, "tick {tick}");
        }
        assert!(count > 500, "{count} reports");
    }
}
