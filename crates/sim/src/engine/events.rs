//! The event queue and its total order.
//!
//! An event is its place in the order and nothing more: time, then kind, then subject (a node or a flow), then
//! sequence, packed into 128 bits that compare as one number. What happens is looked up by kind and subject. Time never
//! goes back: [`Events::push`] refuses the past in debug builds.
//!
//! Timers are lazy. Contention timers move at every frame in the neighbourhood and retransmission timers at every ACK,
//! nearly always to a later time. A [`Timer`] that moves later leaves its entry in the queue; when the entry comes up
//! it is put back at the new time. So a timer costs a queue operation when it fires or moves earlier, not when it is put
//! off or cancelled.

use fairhop_model::units::Nanos;

/// What an event does; the order decides between events at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum EventKind {
    /// A frame has ended at everybody who hears it. Subject: the sender.
    FrameEnd,
    /// A station sends what is due a SIFS after the frame it received. Subject: the station.
    Response,
    /// No answer came in time. Subject: the station.
    ResponseTimeout,
    /// A station looks whether a reservation was followed by a frame. Subject: the station.
    NavCheck,
    /// A station's backoff is over. Subject: the station.
    Access,
    /// A packet arrives over the wired link. Subject: 0 towards the Internet, 1 from it.
    WiredArrival,
    /// A source sends its next packets. Subject: the stream.
    Source,
    /// A TCP sender's timer. Subject: the flow.
    TcpSender,
    /// A TCP receiver's timer. Subject: the flow.
    TcpReceiver,
    /// The end of a recording interval.
    Sample,
}

impl EventKind {
    const ALL: [Self; 10] = [
        Self::FrameEnd,
        Self::Response,
        Self::ResponseTimeout,
        Self::NavCheck,
        Self::Access,
        Self::WiredArrival,
        Self::Source,
        Self::TcpSender,
        Self::TcpReceiver,
        Self::Sample,
    ];
}

/// An event as it comes out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Nanos,
    /// What.
    pub kind: EventKind,
    /// Which node, stream or flow.
    pub subject: u32,
}

const SUBJECT_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 32;

/// The largest number of nodes, streams or flows.
pub const MAX_SUBJECTS: usize = 1 << SUBJECT_BITS;

/// Children of a node of the heap: a wide heap is shallow, and siblings share a cache line.
const ARITY: usize = 4;

/// A priority queue of events in total order: a 4-ary heap of 16-byte keys.
#[derive(Debug, Default)]
pub struct Events {
    heap: Vec<u128>,
    sequence: u32,
    now: Nanos,
    popped: u64,
}

impl Events {
    /// An empty queue at time zero with room for `capacity` events.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { heap: Vec::with_capacity(capacity), ..Self::default() }
    }

    /// The time of the last event that came out.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// How many events have come out.
    pub fn popped(&self) -> u64 {
        self.popped
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Nanos, kind: EventKind, subject: u32) {
        debug_assert!(
            at >= self.now,
            "an event in the past: {kind:?} of {subject} at {at:?}, now {:?}",
            self.now
        );
        debug_assert!(subject < 1 << SUBJECT_BITS);
        let place = u64::from(kind as u8) << (SUBJECT_BITS + SEQUENCE_BITS)
            | u64::from(subject) << SEQUENCE_BITS
            | u64::from(self.sequence);
        self.sequence = self.sequence.wrapping_add(1);
        let key = u128::from(at.0) << 64 | u128::from(place);
        self.heap.push(key);
        self.sift_up(self.heap.len() - 1, key);
    }

    /// Takes the next event out if it is no later than `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Nanos) -> Option<Event> {
        let key = *self.heap.first()?;
        let at = Nanos((key >> 64) as u64);
        if at > until {
            return None;
        }
        debug_assert!(at >= self.now, "time goes back");
        self.now = at;
        self.popped += 1;
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.sift_down(last);
        }
        let kind = EventKind::ALL[((key >> (SUBJECT_BITS + SEQUENCE_BITS)) & 0xff) as usize];
        let subject = (key >> SEQUENCE_BITS) as u32 & ((1 << SUBJECT_BITS) - 1);
        Some(Event { at, kind, subject })
    }

    fn sift_up(&mut self, mut index: usize, key: u128) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[index] = self.heap[parent];
            index = parent;
        }
        self.heap[index] = key;
    }

    /// Puts `key` where the root was. The hole first sinks to the bottom along the smallest children and the key then
    /// rises: a key from the bottom nearly always belongs there, so this saves a comparison a level.
    fn sift_down(&mut self, key: u128) {
        let length = self.heap.len();
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            if first >= length {
                break;
            }
            let last = (first + ARITY).min(length);
            let mut smallest = first;
            let mut smallest_key = self.heap[first];
            for child in first + 1..last {
                let child_key = self.heap[child];
                if child_key < smallest_key {
                    smallest = child;
                    smallest_key = child_key;
                }
            }
            self.heap[hole] = smallest_key;
            hole = smallest;
        }
        self.sift_up(hole, key);
    }
}

/// A timer of one kind and subject; see the module's head.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// When it is to fire; [`Nanos::MAX`] is never.
    due: Nanos,
    /// The time of its live entry in the queue; [`Nanos::MAX`] is none.
    queued: Nanos,
}

impl Default for Timer {
    fn default() -> Self {
        Self { due: Nanos::MAX, queued: Nanos::MAX }
    }
}

impl Timer {
    /// When it is to fire; [`Nanos::MAX`] where it is not set.
    #[inline]
    pub fn due(&self) -> Nanos {
        self.due
    }

    /// Sets or moves the timer.
    #[inline]
    pub fn set(&mut self, at: Nanos, events: &mut Events, kind: EventKind, subject: u32) {
        self.due = at;
        if at < self.queued {
            self.queued = at;
            events.push(at, kind, subject);
        }
    }

    /// Unsets the timer.
    #[inline]
    pub fn cancel(&mut self) {
        self.due = Nanos::MAX;
    }

    /// An entry of this timer has come up. True where the timer fires now; it is then unset.
    #[inline]
    pub fn fires(&mut self, event: Event, events: &mut Events) -> bool {
        if event.at != self.queued {
            return false; // left behind by a move to an earlier time
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
    use proptest::prelude::*;

    use super::*;

    const KINDS: [EventKind; 10] = EventKind::ALL;

    #[test]
    fn kinds_are_listed_in_their_order() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }

    proptest! {
        #[test]
        fn events_come_out_by_time_then_kind_then_subject_then_sequence(
            pushes in prop::collection::vec((0u64..50, 0usize..10, 0u32..5), 0..300),
        ) {
            let mut events = Events::default();
            for &(at, kind, subject) in &pushes {
                events.push(Nanos(at), KINDS[kind], subject);
            }
            let mut expected: Vec<_> = pushes.iter().map(|&(at, kind, subject)| (at, kind, subject)).collect();
            expected.sort(); // stable: equal events keep their sequence
            let mut actual = Vec::new();
            while let Some(event) = events.pop_until(Nanos::MAX) {
                actual.push((event.at.0, event.kind as usize, event.subject));
            }
            prop_assert_eq!(actual, expected);
        }

        /// Against a model with one entry a timer that is really moved and cancelled.
        #[test]
        fn a_lazy_timer_fires_exactly_when_it_was_last_set_for(
            steps in prop::collection::vec((0u64..20, prop::option::of(0u64..40)), 1..60),
        ) {
            let mut events = Events::default();
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
                    Some(due) => timer.set(Nanos(due), &mut events, EventKind::Access, 0),
                    None => timer.cancel(),
                }
            }
        }
    }
}
