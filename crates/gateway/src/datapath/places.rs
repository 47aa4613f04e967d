//! The table of treatments, in which the programs find the flow of a packet. The programs have the reading side: `find` in
//! `bpf/fairhop.c`.
//!
//! A flow is in one of [`PLACES`] places from that of its hash on. A search ends at the first place in which nothing has ever been,
//! so a place that is left says so while a place behind it is taken.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::layout::{RawKey, RawTreated, RawTreatment};

/// Places in which a flow can be: `PLACES` of the programs.
const PLACES: u32 = 8;
/// Places of the table: `TREATED_PLACES` of the programs.
const SIZE: u32 = 8192;
/// Mark of a place that a flow has left: `NO_FLOW` of the programs.
const LEFT: u32 = 1 << 8;

/// Random numbers for the hash, which the programs know too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds(pub(super) [u32; 10]);

impl Seeds {
    /// Others at each call.
    pub(super) fn random() -> Self {
        // The standard library keys its hashes with numbers from the system.
        let random = RandomState::new();
        Self(std::array::from_fn(|place| random.hash_one(place) as u32))
    }

    /// `hash_of` of the programs: NH (RFC 4418, section 5.2).
    fn hash(&self, key: &RawKey) -> u32 {
        let mut sum = 0_u64;
        for (words, seeds) in key.words().chunks_exact(2).zip(self.0.chunks_exact(2)) {
            let [first, second] = [0, 1].map(|word| u64::from(words[word].wrapping_add(seeds[word])));
            sum = sum.wrapping_add(first.wrapping_mul(second));
        }
        ((sum ^ (sum >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }
}

/// What is in the table of the kernel.
#[derive(Debug)]
pub(super) struct Places {
    seeds: Seeds,
    /// Places of the flows, and what is written there.
    written: HashMap<RawKey, (u32, RawTreatment)>,
    /// What each place says: zero if nothing has ever been there.
    marks: Vec<u32>,
}

impl Places {
    /// An empty table.
    pub(super) fn new(seeds: Seeds) -> Self {
        Self { seeds, written: HashMap::new(), marks: vec![0; SIZE as usize] }
    }

    /// Makes the table hold what is wanted, by `write`, which is called for places that change. Returns the number of flows that
    /// found no place.
    pub(super) fn set<E>(
        &mut self,
        wanted: &HashMap<RawKey, RawTreatment>,
        mut write: impl FnMut(u32, &RawTreated) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut left = Vec::new();
        self.written.retain(|key, (place, _)| {
            let stays = wanted.contains_key(key);
            if !stays {
                left.push(*place);
            }
            stays
        });
        for place in left {
            self.leave(place, &mut write)?;
        }
        let mut refused = 0;
        for (key, treatment) in wanted {
            let place = match self.written.get(key) {
                Some((_, before)) if before == treatment => continue,
                Some((place, _)) => *place,
                None => match self.free_place(key) {
                    Some(place) => place,
                    None => {
                        refused += 1;
                        continue;
                    }
                },
            };
            let mark = u32::from(key.protocol);
            write(place, &RawTreated::new(key, mark, treatment))?;
            self.marks[place as usize] = mark;
            self.written.insert(*key, (place, *treatment));
        }
        Ok(refused)
    }

    fn free_place(&self, key: &RawKey) -> Option<u32> {
        let hash = self.seeds.hash(key);
        let mut places = (0..PLACES).map(|step| hash.wrapping_add(step) % SIZE);
        places.find(|&place| matches!(self.marks[place as usize], 0 | LEFT))
    }

    /// Frees a place. If nothing has ever been behind it, the same holds for it, and for those before it that were left.
    fn leave<E>(
        &mut self,
        place: u32,
        write: &mut impl FnMut(u32, &RawTreated) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = |place: u32| (place + 1) % SIZE;
        let mut place = place;
        let mut mark = if self.marks[next(place) as usize] == 0 { 0 } else { LEFT };
        loop {
            write(place, &RawTreated::empty(mark))?;
            self.marks[place as usize] = mark;
            place = (place + SIZE - 1) % SIZE;
            if mark == LEFT || self.marks[place as usize] != LEFT {
                return Ok(());
            }
            mark = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `find` of the programs.
    fn find(table: &[RawTreated], seeds: &Seeds, key: &RawKey) -> Option<RawTreatment> {
        let hash = seeds.hash(key);
        for step in 0..PLACES {
            let place = &table[(hash.wrapping_add(step) % SIZE) as usize];
            if place.mark == 0 {
                return None;
            }
            let is_it = RawTreated::new(key, key.protocol.into(), &place.treatment) == *place;
            if is_it {
                return Some(place.treatment);
            }
        }
        None
    }

    /// Flows that come and go, up to half of the table: each is found with its treatment, and no other.
    #[test]
    fn programs_find_what_is_wanted_and_nothing_else() {
        let seeds = Seeds(std::array::from_fn(|place| 0x9e37_79b9_u32.wrapping_mul(place as u32 + 1)));
        let (mut places, mut table) = (Places::new(seeds), vec![RawTreated::default(); SIZE as usize]);
        let mut wanted = HashMap::new();
        let write_to = |table: &mut Vec<RawTreated>, place: u32, treated: &RawTreated| {
            table[place as usize] = *treated;
            Ok::<_, ()>(())
        };
        let mut state = 1_u64;
        let mut random = || {
            // Knuth's MMIX; the high bits are the random ones.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for round in 0..40 {
            for _ in 0..600 {
                let (host, port) = (random() as u16, random() as u16);
                let key = RawKey {
                    mesh_port: port % 4096,
                    mesh: u128::from(host % 4).to_be_bytes(),
                    protocol: if host % 3 == 0 { 17 } else { 6 },
                    ..RawKey::default()
                };
                if random() % 100 < 45 {
                    wanted.remove(&key);
                } else {
                    let treatment = RawTreatment { window: host.into(), ..RawTreatment::default() };
                    wanted.insert(key, treatment);
                }
            }
            while wanted.len() > SIZE as usize / 2 {
                let key = *wanted.keys().next().unwrap();
                wanted.remove(&key);
            }
            let refused = places.set(&wanted, |place, treated| write_to(&mut table, place, treated));
            let found = wanted.iter().filter(|(key, treatment)| {
                let found = find(&table, &seeds, key);
                assert!(found.is_none_or(|found| found == **treatment), "round {round}: {key:?}");
                found.is_some()
            });
            assert_eq!(found.count() as u64 + refused.unwrap(), wanted.len() as u64, "round {round}");
            let taken = table.iter().filter(|place| !matches!(place.mark, 0 | LEFT)).count();
            assert_eq!(taken, places.written.len(), "round {round}");
        }
        places.set(&HashMap::new(), |place, treated| write_to(&mut table, place, treated)).unwrap();
        assert!(table.iter().all(|place| place.mark == 0), "an empty table has no place that was left");
    }
}
