//! The event queue and its total order.
//!
//! Events come out by time, then kind, then subject (a station, a stream, a flow), then sequence. Time never goes back,
//! which debug builds assert. The queue has two parts, because two classes of events behave differently:
//!
//! - Station timers: one time for each station and kind. Every frame in the neighbourhood moves them, mostly before they
//!   fire. A tournament tree holds them: a change climbs only as far as it alters the minimum, which is seldom far, and
//!   it leaves no stale entries.
//! - All other events: a 4-ary heap of 16-byte keys that compare as one number. Timers in the heap are lazy ([`Timer`]):
//!   postponing one leaves its entry, which is reinserted at the new time when it comes up.

use fairhop_model::units::Nanos;

/// What an event does. The order of the kinds decides between events at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum EventKind {
    /// A frame has ended at every receiver in reach. Subject: the sender. A station timer.
    FrameEnd,
    /// A SIFS after a received frame: a station sends its response. Subject: the station. A station timer.
    Response,
    /// No response came in time. Subject: the station. A station timer.
    ResponseTimeout,
    /// A station's backoff is over. Subject: the station. A station timer.
    Access,
    /// A station checks whether a frame followed a reservation. Subject: the station.
    NavCheck,
    /// A packet arrives over a wired link. Subject: the direction of the link.
    WiredArrival,
    /// The last bit of a packet has left for a wired link. Subject: the direction of the link.
    LinkFree,
    /// The network changes. Subject: 0, or the number of a node plus one when that node's frame has ended.
    Change,
    /// Control: a tick, a change of the setting, or the start of a throttled flow.
    Control,
    /// A packet may leave a pacer of a gateway. Subject: the index of the gateway.
    Pace,
    /// A packet that a throttled node originated may leave. Subject: the node.
    Throttle,
    /// A source sends its next packets. Subject: the source.
    Source,
    /// A TCP sender's timer. Subject: the transfer.
    TcpSender,
    /// A TCP receiver's timer. Subject: the transfer.
    TcpReceiver,
    /// A timer of a sender of AIMD datagrams. Subject: the stream.
    AimdSender,
    /// A QUIC-like sender's timer. Subject: the transfer.
    QuicSender,
    /// A QUIC-like receiver's timer. Subject: the transfer.
    QuicReceiver,
    /// A timer of a routing protocol. Subject: the node.
    Routing,
    /// The end of a recording interval.
    Sample,
}

impl EventKind {
    const ALL: [Self; 19] = [
        Self::FrameEnd,
        Self::Response,
        Self::ResponseTimeout,
        Self::Access,
        Self::NavCheck,
        Self::WiredArrival,
        Self::LinkFree,
        Self::Change,
        Self::Control,
        Self::Pace,
        Self::Throttle,
        Self::Source,
        Self::TcpSender,
        Self::TcpReceiver,
        Self::AimdSender,
        Self::QuicSender,
        Self::QuicReceiver,
        Self::Routing,
        Self::Sample,
    ];

    /// Number of kinds that are station timers: the first ones.
    const STATION_TIMERS: usize = 4;
}

/// An event as it comes out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its time.
    pub at: Nanos,
    /// What it does.
    pub kind: EventKind,
    /// The station, source or flow that it concerns.
    pub subject: u32,
}

/// All pending events.
#[derive(Debug)]
pub struct Events {
    stations: Tournament,
    others: Heap,
    now: Nanos,
    handled: u64,
}

impl Events {
    /// An empty queue at time zero for a number of stations, with room for `capacity` other events.
    pub fn new(stations: usize, capacity: usize) -> Self {
        Self {
            stations: Tournament::new(stations),
            others: Heap { keys: Vec::with_capacity(capacity), sequence: 0 },
            now: Nanos::ZERO,
            handled: 0,
        }
    }

    /// The current time: that of the last event that came out, or where [`Events::advance_to`] set it.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Number of events that have come out.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Adds an event that is not a station timer.
    #[inline]
    pub fn push(&mut self, at: Nanos, kind: EventKind, subject: u32) {
        debug_assert!(at >= self.now, "{kind:?} of {subject} at {at:?}, now {:?}", self.now);
        debug_assert!(kind as usize >= EventKind::STATION_TIMERS);
        self.others.push(at, kind, subject);
    }

    /// Sets or moves a station timer.
    #[inline]
    pub fn set_station(&mut self, at: Nanos, kind: EventKind, station: u32) {
        debug_assert!(at >= self.now, "{kind:?} of {station} at {at:?}, now {:?}", self.now);
        self.stations.set(station, kind, Tournament::key(at, kind));
    }

    /// Cancels a station timer.
    #[inline]
    pub fn cancel_station(&mut self, kind: EventKind, station: u32) {
        self.stations.set(station, kind, NEVER);
    }

    /// The time of the next event, `None` if none is pending.
    pub fn next_time(&mut self) -> Option<Nanos> {
        let station = self.stations.min_time();
        let first = self.others.min_time().map_or(station, |other| other.min(station));
        (first != Nanos::MAX).then_some(first)
    }

    /// Moves the clock forward to a time between events, for input that does not come from an event: a packet injected
    /// at a wall-clock time. `at` is neither before [`Events::now`] nor after [`Events::next_time`]; debug builds assert
    /// both. Handle the events before `at` first, with [`Events::pop_until`].
    pub fn advance_to(&mut self, at: Nanos) {
        debug_assert!(at >= self.now, "time goes back from {:?} to {at:?}", self.now);
        debug_assert!(
            self.next_time().is_none_or(|next| at <= next),
            "{at:?} is after the event at {:?}",
            self.next_time()
        );
        self.now = at;
    }

    /// Takes out the next event if it is not later than `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Nanos) -> Option<Event> {
        let station = self.stations.min_time();
        let event = match self.others.min_time() {
            Some(other) if other < station => {
                if other > until {
                    return None;
                }
                self.others.pop()?
            }
            // At equal times station timers go first: their kinds precede the others.
            _ => {
                if station > until || station == Nanos::MAX {
                    return None;
                }
                self.stations.pop()
            }
        };
        debug_assert!(event.at >= self.now, "time goes back");
        self.now = event.at;
        self.handled += 1;
        Some(event)
    }
}

/// The key of a timer that is not set.
const NEVER: u64 = u64::MAX;

/// The minimum of many timers, one for each station and kind. A timer's key is its time and kind; among equal keys the
/// station with the lower number, further left in the tree, goes first.
#[derive(Debug)]
struct Tournament {
    /// The children of group `i` are `4 i` to `4 i + 3`; the root is 1, and the second key of group 0 is the minimum of
    /// all. A group of the lowest level holds the timers of one station. Indices between the levels are unused.
    groups: Vec<Group>,
    /// Index of the first group of the lowest level.
    stations: usize,
    /// The group whose timer was taken out last, if its ancestors are not updated yet: the station mostly sets another
    /// timer at once, and one climb serves both. Until then its ancestors hold the old key. No other key is smaller, so
    /// the climbs of other stations end where their paths meet this one.
    pending: usize,
}

/// The smallest keys of four children, or the timers of a station: within one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Group([u64; Group::SIZE]);

impl Group {
    const SIZE: usize = EventKind::STATION_TIMERS;
    const EMPTY: Self = Self([NEVER; Self::SIZE]);

    #[inline]
    fn smallest(&self) -> u64 {
        let [a, b, c, d] = self.0;
        a.min(b).min(c.min(d))
    }

    /// The child with the key, by branches: faster if the processor predicts them.
    #[inline]
    fn predicted(&self, key: u64) -> usize {
        match key {
            key if key == self.0[0] => 0,
            key if key == self.0[1] => 1,
            key if key == self.0[2] => 2,
            _ => 3,
        }
    }

    /// The child with the key, without branches.
    #[inline]
    fn unpredicted(&self, key: u64) -> usize {
        let not = |child: usize| usize::from(self.0[child] != key);
        not(0) * (1 + not(1) * (1 + not(2)))
    }
}

impl Tournament {
    /// Bits of the kind in a key. The remaining 60 bits hold 36 years in nanoseconds.
    const KIND_BITS: u32 = 4;
    /// Up to this number of stations the processor predicts well which one is next.
    const PREDICTABLE: usize = 64;
    /// No group has outdated ancestors.
    const NONE: usize = usize::MAX;

    fn new(stations: usize) -> Self {
        let mut width = 1;
        while width < stations {
            width *= Group::SIZE;
        }
        let groups = vec![Group::EMPTY; width + stations.max(1)];
        Self { groups, stations: width, pending: Self::NONE }
    }

    #[inline]
    fn key(at: Nanos, kind: EventKind) -> u64 {
        debug_assert!(at.0 < 1 << (64 - Self::KIND_BITS));
        at.0 << Self::KIND_BITS | kind as u64
    }

    #[inline]
    fn min(&self) -> u64 {
        debug_assert!(self.pending == Self::NONE);
        self.groups[0].0[1]
    }

    /// The time of the first timer, after all pending updates.
    #[inline]
    fn min_time(&mut self) -> Nanos {
        let index = std::mem::replace(&mut self.pending, Self::NONE);
        if index != Self::NONE {
            let key = self.groups[index].smallest();
            self.replace(index / Group::SIZE, index % Group::SIZE, key);
        }
        match self.min() {
            NEVER => Nanos::MAX,
            key => Nanos(key >> Self::KIND_BITS),
        }
    }

    #[inline]
    fn set(&mut self, station: u32, kind: EventKind, key: u64) {
        let (index, child) = (self.stations + station as usize, kind as usize % Group::SIZE);
        if index == self.pending {
            self.groups[index].0[child] = key;
        } else {
            self.replace(index, child, key);
        }
    }

    /// Replaces a key, and the keys of its ancestors as far as their minimum changes.
    #[inline]
    fn replace(&mut self, mut index: usize, mut child: usize, mut key: u64) {
        loop {
            let replaced = std::mem::replace(&mut self.groups[index].0[child], key);
            if replaced == key || index == 0 {
                return;
            }
            let parent = index / Group::SIZE;
            child = index % Group::SIZE;
            let first = self.groups[parent].0[child];
            if key > first {
                if replaced > first {
                    return; // not the minimum, before or now
                }
                key = self.groups[index].smallest();
            }
            index = parent;
        }
    }

    /// Takes out the first timer. There is one.
    #[inline]
    fn pop(&mut self) -> Event {
        let key = self.min();
        let mut index = 1;
        while index < self.stations {
            let group = &self.groups[index];
            let child =
                if self.stations > Self::PREDICTABLE { group.unpredicted(key) } else { group.predicted(key) };
            index = index * Group::SIZE + child;
        }
        let kind = (key & ((1 << Self::KIND_BITS) - 1)) as usize % Group::SIZE;
        self.groups[index].0[kind] = NEVER;
        self.pending = index;
        Event {
            at: Nanos(key >> Self::KIND_BITS),
            kind: EventKind::ALL[kind],
            subject: (index - self.stations) as u32,
        }
    }
}

const SUBJECT_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 32;

/// The largest number of stations, streams or flows.
pub const MAX_SUBJECTS: usize = 1 << SUBJECT_BITS;

/// Children per node of the heap: a wide heap is shallow, and siblings share a cache line.
const ARITY: usize = 4;

/// A 4-ary heap of keys: time, kind, subject, sequence.
#[derive(Debug)]
struct Heap {
    keys: Vec<u128>,
    sequence: u32,
}

impl Heap {
    #[inline]
    fn min_time(&self) -> Option<Nanos> {
        self.keys.first().map(|key| Nanos((key >> 64) as u64))
    }

    fn push(&mut self, at: Nanos, kind: EventKind, subject: u32) {
        debug_assert!(subject < 1 << SUBJECT_BITS);
        let place = u64::from(kind as u8) << (SUBJECT_BITS + SEQUENCE_BITS)
            | u64::from(subject) << SEQUENCE_BITS
            | u64::from(self.sequence);
        self.sequence = self.sequence.wrapping_add(1);
        let key = u128::from(at.0) << 64 | u128::from(place);
        self.keys.push(key);
        self.sift_up(self.keys.len() - 1, key);
    }

    fn pop(&mut self) -> Option<Event> {
        let last = self.keys.pop()?;
        let key = self.keys.first().copied().unwrap_or(last);
        if !self.keys.is_empty() {
            self.sift_down(last);
        }
        Some(Event {
            at: Nanos((key >> 64) as u64),
            kind: EventKind::ALL[((key >> (SUBJECT_BITS + SEQUENCE_BITS)) & 0xff) as usize],
            subject: (key >> SEQUENCE_BITS) as u32 & ((1 << SUBJECT_BITS) - 1),
        })
    }

    fn sift_up(&mut self, mut index: usize, key: u128) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[index] = self.keys[parent];
            index = parent;
        }
        self.keys[index] = key;
    }

    /// Replaces the root by `key`. The hole first sinks to the bottom along the smallest children, then the key rises:
    /// a key from the bottom nearly always belongs there, so this saves one comparison per level.
    fn sift_down(&mut self, key: u128) {
        let length = self.keys.len();
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            if first >= length {
                break;
            }
            let last = (first + ARITY).min(length);
            let mut smallest = first;
            let mut smallest_key = self.keys[first];
            for child in first + 1..last {
                let child_key = self.keys[child];
                if child_key < smallest_key {
                    smallest = child;
                    smallest_key = child_key;
                }
            }
            self.keys[hole] = smallest_key;
            hole = smallest;
        }
        self.sift_up(hole, key);
    }
}

/// A lazy timer in the heap; see the module documentation.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// When it fires; [`Nanos::MAX`] is never.
    due: Nanos,
    /// The time of its valid entry in the queue; [`Nanos::MAX`] is none.
    queued: Nanos,
}

impl Default for Timer {
    fn default() -> Self {
        Self { due: Nanos::MAX, queued: Nanos::MAX }
    }
}

impl Timer {
    /// Sets or moves the timer.
    #[inline]
    pub fn set(&mut self, at: Nanos, events: &mut Events, kind: EventKind, subject: u32) {
        self.due = at;
        if at < self.queued {
            self.queued = at;
            events.push(at, kind, subject);
        }
    }

    /// Cancels the timer.
    #[inline]
    pub fn cancel(&mut self) {
        self.due = Nanos::MAX;
    }

    /// Handles an entry of this timer that came out of the queue. True if the timer fires now; it is then no longer set.
    #[inline]
    pub fn fires(&mut self, event: Event, events: &mut Events) -> bool {
        if event.at != self.queued {
            return false; // stale: the timer was moved to an earlier time
        }
        self.queued = Nanos::MAX;
        if self.due == Nanos::MAX {
            return false;
        }
        if self.due > event.at {
            let due = self.due;
            self.set(due, events, event.kind, event.subject);
            return false;
        }
        self.due = Nanos::MAX;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kinds_are_listed_in_their_order() {
        for (index, kind) in EventKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }

    proptest! {
        /// Against a sorted map. Events are taken out in between, so that timers are set while the tree has a pending
        /// update, at the same station and at stations that share ancestors with it.
        #[test]
        fn events_come_out_by_time_then_kind_then_subject_then_sequence(
            stations in 1u32..80,
            steps in prop::collection::vec((0u64..50, 0usize..10, 0u32..80, any::<bool>(), 0usize..3), 0..300),
        ) {
            let mut events = Events::new(stations as usize, 0);
            let mut model = BTreeMap::new();
            for (sequence, &(wait, kind, subject, set, take)) in steps.iter().enumerate() {
                let at = events.now().0 + wait;
                let subject = subject % stations;
                let is_timer = kind < EventKind::STATION_TIMERS;
                if is_timer {
                    model.retain(|&(_, other, owner, _), ()| (other, owner) != (kind, subject));
                }
                if !is_timer {
                    events.push(Nanos(at), EventKind::ALL[kind], subject);
                    model.insert((at, kind, subject, sequence), ());
                } else if set {
                    events.set_station(Nanos(at), EventKind::ALL[kind], subject);
                    model.insert((at, kind, subject, sequence), ());
                } else {
                    events.cancel_station(EventKind::ALL[kind], subject);
                }
                let take = if sequence + 1 == steps.len() { model.len() + 1 } else { take };
                for _ in 0..take {
                    let event = events.pop_until(Nanos::MAX).map(|event| (event.at.0, event.kind as usize, event.subject));
                    let expected = model.pop_first().map(|((at, kind, subject, _), ())| (at, kind, subject));
                    prop_assert_eq!(event, expected);
                }
            }
        }

        /// Against a model that really moves and cancels its one entry.
        #[test]
        fn a_lazy_timer_fires_exactly_when_it_was_last_set_for(
            steps in prop::collection::vec((0u64..20, prop::option::of(0u64..40)), 1..60),
        ) {
            let mut events = Events::new(1, 0);
            let mut timer = Timer::default();
            let mut model: Option<u64> = None;
            let mut now = 0;
            for (wait, action) in steps {
                now += wait;
                let mut fired = Vec::new();
                while let Some(event) = events.pop_until(Nanos(now)) {
                    if timer.fires(event, &mut events) {
                        fired.push(event.at.0);
                    }
                }
                let expected: Vec<u64> = model.take_if(|due| *due <= now).into_iter().collect();
                prop_assert_eq!(fired, expected);
                model = action.map(|after| now + after);
                match model {
                    Some(due) => timer.set(Nanos(due), &mut events, EventKind::TcpSender, 0),
                    None => timer.cancel(),
                }
            }
        }
    }

    #[test]
    fn events_after_the_limit_stay_in_the_queue() {
        let mut events = Events::new(1, 0);
        events.set_station(Nanos(10), EventKind::Access, 0);
        events.push(Nanos(20), EventKind::Source, 0);
        assert_eq!(events.pop_until(Nanos(9)), None);
        assert_eq!(events.pop_until(Nanos(10)).map(|e| e.kind), Some(EventKind::Access));
        assert_eq!(events.pop_until(Nanos(19)), None);
        assert_eq!(events.pop_until(Nanos(20)).map(|e| e.kind), Some(EventKind::Source));
        assert_eq!(events.pop_until(Nanos::MAX), None);
    }

    #[test]
    fn the_clock_can_be_moved_between_events_and_events_pushed_then_come_in_order() {
        let mut events = Events::new(2, 0);
        assert_eq!(events.next_time(), None);
        events.push(Nanos(20), EventKind::Source, 0);
        events.set_station(Nanos(10), EventKind::Access, 1);
        assert_eq!(events.next_time(), Some(Nanos(10)));
        assert_eq!(events.pop_until(Nanos(15)).map(|e| e.at), Some(Nanos(10)));
        assert_eq!(events.next_time(), Some(Nanos(20)));
        events.advance_to(Nanos(15));
        assert_eq!((events.now(), events.handled()), (Nanos(15), 1));
        events.push(events.now(), EventKind::Source, 1);
        events.set_station(Nanos(16), EventKind::Response, 0);
        let order: Vec<_> =
            std::iter::from_fn(|| events.pop_until(Nanos::MAX)).map(|e| (e.at.0, e.subject)).collect();
        assert_eq!(order, [(15, 1), (16, 0), (20, 0)]);
    }

    #[test]
    fn the_clock_may_reach_the_next_event_and_that_event_still_comes() {
        let mut events = Events::new(1, 0);
        events.push(Nanos(20), EventKind::Source, 0);
        events.advance_to(Nanos(20));
        assert_eq!(events.pop_until(Nanos(20)).map(|e| e.at), Some(Nanos(20)));
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "is after the event")]
    fn the_clock_never_passes_a_pending_event() {
        let mut events = Events::new(1, 0);
        events.set_station(Nanos(10), EventKind::Access, 0);
        events.advance_to(Nanos(11));
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "time goes back")]
    fn the_clock_never_goes_back() {
        let mut events = Events::new(1, 0);
        events.advance_to(Nanos(10));
        events.advance_to(Nanos(9));
    }
}
