//! When packets leave the queues behind the programs: their digests wait here until then.
//!
//! With departure times, a digest has its packet's. With classes, it has the time of arrival and the class
//! (where [`RawDigest::waited`] is), and the kernel says how many bytes wait in each class: what is older has left. The times of
//! packets that left between two looks are estimated ([`Departures::look`]); they are wrong by less than the time between looks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use fairhop_control::raw::RawDigest;
use fairhop_model::units::Nanos;

/// What the kernel says of a class: bytes that wait, with their link headers, and its rate in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backlog {
    pub(super) class: u16,
    pub(super) bytes: u64,
    pub(super) rate: u64,
}

/// A digest that waits until its packet has left; the earliest is the greatest.
#[derive(Debug)]
struct Pending {
    at: Reverse<(u64, u64)>,
    digest: RawDigest,
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// The packets of a class that have not left.
#[derive(Debug, Default)]
struct Class {
    waiting: VecDeque<RawDigest>,
    /// When the last one left, and how long it kept the class busy.
    left: Nanos,
    busy: Nanos,
    /// Packets waited at the last look.
    had_backlog: bool,
}

/// Digests whose packets have not left.
#[derive(Debug, Default)]
pub(super) struct Departures {
    pending: BinaryHeap<Pending>,
    /// Number of digests so far: those of the same time stay in their order.
    number: u64,
    classes: BTreeMap<u16, Class>,
    looked_at: Nanos,
}

impl Departures {
    /// Takes a digest of a packet that may be in a class.
    pub(super) fn take_class(&mut self, digest: RawDigest) {
        match digest.waited {
            0 => self.take(digest),
            class => self.classes.entry(class).or_default().waiting.push_back(digest),
        }
    }

    /// Takes a digest with the time at which its packet leaves.
    pub(super) fn take(&mut self, digest: RawDigest) {
        self.number += 1;
        self.pending.push(Pending { at: Reverse((digest.at, self.number)), digest });
    }

    /// Packets wait in classes as far as is known: a look is due.
    pub(super) fn has_classes(&self) -> bool {
        self.classes.values().any(|class| !class.waiting.is_empty())
    }

    /// The classes had this backlog at `now`. Those that are not named have none. `header` bytes are before each IP packet.
    ///
    /// Packets that arrived by then and are more than the backlog have left. They left evenly since the last look if packets
    /// waited then; otherwise each left when it had arrived and the one before was paid for.
    pub(super) fn look(&mut self, now: Nanos, header: u64, backlogs: &[Backlog]) {
        let since = std::mem::replace(&mut self.looked_at, now);
        let mut left = Vec::new();
        for (number, class) in &mut self.classes {
            let backlog = backlogs.iter().find(|backlog| backlog.class == *number);
            let (bytes, rate) = backlog.map_or((0, 0), |backlog| (backlog.bytes, backlog.rate));
            class.look(now, since, header, bytes, rate, &mut left);
        }
        for digest in left {
            self.take(digest);
        }
    }

    /// The next digest of a packet that had left by `now`.
    pub(super) fn next(&mut self, now: Nanos) -> Option<RawDigest> {
        self.pending.peek().filter(|first| first.digest.at <= now.0)?;
        self.pending.pop().map(|first| first.digest)
    }
}

impl Class {
    fn look(
        &mut self,
        now: Nanos,
        since: Nanos,
        header: u64,
        backlog: u64,
        rate: u64,
        left: &mut Vec<RawDigest>,
    ) {
        let arrived = self.waiting.iter().take_while(|digest| digest.at <= now.0).count();
        let mut waiting = 0;
        let newest = self.waiting.iter().take(arrived).rev();
        let held = newest
            .take_while(|digest| {
                waiting += u64::from(digest.bytes) + header;
                waiting <= backlog
            })
            .count();
        let count = (arrived - held) as u64;
        let was_busy = self.had_backlog;
        for (number, mut digest) in (1..).zip(self.waiting.drain(..arrived - held)) {
            let after_last = self.left + self.busy;
            // In the middle of its part of the time, so that the error has no sign.
            let evenly = since + Nanos(now.saturating_sub(since).0 * (2 * number - 1) / (2 * count));
            let at = if was_busy { evenly } else { after_last };
            let at = at.max(Nanos(digest.at)).min(now);
            self.busy = match rate {
                0 => Nanos::ZERO,
                rate => Nanos((u64::from(digest.bytes) + header).saturating_mul(1_000_000_000) / rate),
            };
            self.left = at;
            // In units of 2^20 ns, as of the programs.
            digest.waited = (at.saturating_sub(Nanos(digest.at)).0 >> 20).min(u16::MAX.into()) as u16;
            digest.at = at.0;
            left.push(digest);
        }
        self.had_backlog = held > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(at_ms: u64, class: u16) -> RawDigest {
        RawDigest { at: 1_000_000 * at_ms, bytes: 1500, waited: class, ..RawDigest::default() }
    }

    fn times(departures: &mut Departures, now_ms: u64) -> Vec<u64> {
        std::iter::from_fn(|| departures.next(Nanos::from_millis(now_ms))).map(|d| d.at / 1_000_000).collect()
    }

    /// Packets of 1514 bytes at 151.4 kB/s take 10 ms.
    fn backlog(packets: u64) -> [Backlog; 1] {
        [Backlog { class: 0x100, bytes: 1514 * packets, rate: 151_400 }]
    }

    #[test]
    fn packets_leave_as_the_backlog_shrinks_whatever_rate_was_set_when_they_came() {
        let mut departures = Departures::default();
        for _ in 0..6 {
            departures.take_class(digest(100, 0x100));
        }
        departures.look(Nanos::from_millis(101), 14, &backlog(5));
        assert_eq!(times(&mut departures, 101), [100]);
        // Half the rate: two in 40 ms.
        departures.look(Nanos::from_millis(141), 14, &backlog(3));
        assert_eq!(times(&mut departures, 141), [111, 131]);
        // And the rest: a class without backlog has sent everything.
        departures.look(Nanos::from_millis(150), 14, &[]);
        assert_eq!(times(&mut departures, 150), [142, 145, 148]);
        assert!(!departures.has_classes());
    }

    #[test]
    fn packets_that_came_after_the_look_still_wait_and_others_pass_them() {
        let mut departures = Departures::default();
        departures.take_class(digest(10, 0x100));
        departures.take_class(digest(13, 0));
        departures.take_class(digest(25, 0x100));
        departures.look(Nanos::from_millis(20), 14, &backlog(0));
        assert_eq!(times(&mut departures, 20), [10, 13]);
        assert!(departures.has_classes());
        departures.look(Nanos::from_millis(40), 14, &backlog(0));
        assert_eq!(times(&mut departures, 40), [25]);
    }

    #[test]
    fn packets_in_a_row_at_the_rate_are_spaced_by_it() {
        let mut departures = Departures::default();
        for at in [10, 11, 12] {
            departures.take_class(digest(at, 0x100));
        }
        departures.look(Nanos::from_millis(40), 14, &backlog(0));
        let left: Vec<RawDigest> = std::iter::from_fn(|| departures.next(Nanos::from_millis(40))).collect();
        assert_eq!(left.iter().map(|d| d.at / 1_000_000).collect::<Vec<_>>(), [10, 20, 30]);
        // How long the class has held them, in units of 2^20 ns.
        assert_eq!(left.iter().map(|d| d.waited).collect::<Vec<_>>(), [0, 8, 17]);
    }
}
