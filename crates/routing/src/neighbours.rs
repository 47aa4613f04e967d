//! Neighbours: who is heard, since when, and when HELLO messages are due.
//!
//! A neighbour that has said HELLO, or to which data are sent, is watched: if nothing is heard from it for some intervals,
//! the link is lost (RFC 3561 §6.9). Every frame counts as a sign of life, not HELLO messages only: two lost broadcasts in a
//! row are common among many neighbours. Sending to a neighbour is no sign of life.

use fairhop_model::units::Nanos;

use crate::Address;

/// Maximum number of neighbours that are kept; further ones are not watched.
pub const MAX_NEIGHBOURS: usize = 4096;

/// A node that is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: Address,
    /// When the last frame from it was received.
    pub heard: Nanos,
    /// When its last HELLO was received.
    pub hello: Nanos,
    /// HELLO messages in a row, without a gap of more than one and a half intervals.
    pub hellos: u32,
}

/// The neighbours that have said HELLO.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    /// In ascending order of addresses.
    entries: Vec<Neighbour>,
    interval: Nanos,
    timeout: Nanos,
}

impl Neighbours {
    /// No neighbours yet. HELLO messages come every `interval`; a neighbour that is silent for `timeout` is lost.
    pub fn new(interval: Nanos, timeout: Nanos) -> Self {
        Self { entries: Vec::new(), interval, timeout }
    }

    fn find(&self, address: Address) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&address, |entry| entry.address)
    }

    /// A neighbour that has said HELLO.
    pub fn get(&self, address: Address) -> Option<&Neighbour> {
        self.find(address).ok().map(|index| &self.entries[index])
    }

    /// All of them, in ascending order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = &Neighbour> {
        self.entries.iter()
    }

    /// The longest gap between two HELLO messages in a row.
    fn max_gap(&self) -> Nanos {
        Nanos(self.interval.0 + self.interval.0 / 2)
    }

    /// A frame from a neighbour was received.
    #[inline]
    pub fn heard(&mut self, now: Nanos, from: Address) {
        if let Ok(index) = self.find(from) {
            self.entries[index].heard = now;
        }
    }

    /// A HELLO was received. Returns how many have come in a row.
    pub fn hello(&mut self, now: Nanos, from: Address) -> u32 {
        let max_gap = self.max_gap();
        match self.find(from) {
            Ok(index) => {
                let entry = &mut self.entries[index];
                let in_row = now.saturating_sub(entry.hello) <= max_gap;
                entry.hellos = if in_row { entry.hellos.saturating_add(1) } else { 1 };
                (entry.heard, entry.hello) = (now, now);
                entry.hellos
            }
            Err(index) => {
                if self.entries.len() < MAX_NEIGHBOURS {
                    self.entries
                        .insert(index, Neighbour { address: from, heard: now, hello: now, hellos: 1 });
                }
                1
            }
        }
    }

    /// Data are sent to a neighbour: from now on it is watched, though it may not have said HELLO yet. One that is watched already
    /// is not refreshed.
    pub fn watch(&mut self, now: Nanos, address: Address) {
        if let Err(index) = self.find(address)
            && self.entries.len() < MAX_NEIGHBOURS
        {
            self.entries.insert(index, Neighbour { address, heard: now, hello: now, hellos: 0 });
        }
    }

    /// Whether a neighbour that has said HELLO before has missed one: the link may work one way only.
    pub fn is_doubtful(&self, now: Nanos, address: Address) -> bool {
        self.get(address).is_some_and(|entry| now.saturating_sub(entry.hello) > self.max_gap())
    }

    /// Forgets a neighbour.
    pub fn remove(&mut self, address: Address) {
        if let Ok(index) = self.find(address) {
            self.entries.remove(index);
        }
    }

    /// Takes out a neighbour that has been silent for too long.
    pub fn take_silent(&mut self, now: Nanos) -> Option<Address> {
        let silent = self.entries.iter().position(|entry| entry.heard + self.timeout <= now)?;
        Some(self.entries.remove(silent).address)
    }

    /// When the next neighbour has been silent for too long, if nothing is heard from it until then.
    pub fn next_silence(&self) -> Nanos {
        self.entries.iter().map(|entry| entry.heard + self.timeout).min().unwrap_or(Nanos::MAX)
    }
}

/// When HELLO messages are due: every interval, except that a broadcast of another kind within the last one takes the place
/// of a HELLO (RFC 3561 §6.9).
#[derive(Clone, Copy, Debug)]
pub struct HelloTimer {
    interval: Nanos,
    /// The next check.
    pub at: Nanos,
    last_broadcast: Option<Nanos>,
}

impl HelloTimer {
    /// A timer whose first check is at `first`; [`Nanos::MAX`] for never.
    pub fn new(interval: Nanos, first: Nanos) -> Self {
        Self { interval, at: first, last_broadcast: None }
    }

    /// The node has sent something to all neighbours.
    pub fn on_broadcast(&mut self, now: Nanos) {
        self.last_broadcast = Some(now);
    }

    /// Whether a check is due, and if so, whether neighbours have heard nothing for an interval.
    pub fn poll(&mut self, now: Nanos) -> Option<bool> {
        if self.at > now {
            return None;
        }
        while self.at <= now {
            self.at += self.interval.max(Nanos(1));
        }
        Some(self.last_broadcast.is_none_or(|last| now.saturating_sub(last) >= self.interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address(1);

    fn neighbours() -> Neighbours {
        Neighbours::new(Nanos::from_secs(1), Nanos::from_secs(2))
    }

    #[test]
    fn any_frame_is_a_sign_of_life_of_a_node_that_has_said_hello() {
        let mut neighbours = neighbours();
        neighbours.heard(Nanos::from_secs(1), A);
        assert_eq!(neighbours.next_silence(), Nanos::MAX, "no HELLO: not watched");
        assert_eq!(neighbours.hello(Nanos::from_secs(1), A), 1);
        neighbours.heard(Nanos::from_secs(2), A);
        assert_eq!(neighbours.next_silence(), Nanos::from_secs(4));
        assert_eq!(neighbours.take_silent(Nanos(3_999_999_999)), None);
        assert_eq!(neighbours.take_silent(Nanos::from_secs(4)), Some(A));
        assert!(neighbours.get(A).is_none());
    }

    #[test]
    fn a_gap_of_more_than_one_and_a_half_intervals_starts_the_count_again() {
        let mut neighbours = neighbours();
        let counts: Vec<u32> =
            [0, 1000, 2500, 4001].map(|ms| neighbours.hello(Nanos::from_millis(ms), A)).into();
        assert_eq!(counts, [1, 2, 3, 1]);
        assert!(!neighbours.is_doubtful(Nanos::from_millis(5501), A));
        assert!(neighbours.is_doubtful(Nanos::from_millis(5502), A));
    }

    #[test]
    fn another_broadcast_takes_the_place_of_a_hello() {
        let mut timer = HelloTimer::new(Nanos::from_secs(1), Nanos::from_millis(300));
        assert_eq!(timer.poll(Nanos::from_millis(299)), None);
        assert_eq!(timer.poll(Nanos::from_millis(300)), Some(true));
        timer.on_broadcast(Nanos::from_millis(900));
        assert_eq!(timer.poll(Nanos::from_millis(1300)), Some(false));
        assert_eq!(timer.poll(Nanos::from_millis(2300)), Some(true));
    }
}
