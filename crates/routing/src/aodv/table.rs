//! The routing table (RFC 3561 §2, §6.2).

use fairhop_model::units::Nanos;
use smallvec::SmallVec;

use crate::{Address, Sequence};

/// Maximum number of destinations; further ones are not learnt.
pub const MAX_ROUTES: usize = 1 << 16;

/// A route, valid or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it goes.
    pub destination: Address,
    /// The destination's number; none if it is not known.
    pub sequence: Option<Sequence>,
    /// Hops to the destination; of an invalid route, what it had.
    pub hops: u8,
    /// The first of them.
    pub next_hop: Address,
    /// Packets can use it.
    pub valid: bool,
    /// When it expires; of an invalid route, when it is deleted.
    pub until: Nanos,
    /// When it last carried data; none if it never did.
    pub used: Option<Nanos>,
    /// Neighbours that were given the route, which are informed when it breaks.
    pub precursors: SmallVec<[Address; 4]>,
}

impl Route {
    /// Whether packets can use it at a time.
    pub fn is_valid(&self, now: Nanos) -> bool {
        self.valid && self.until > now
    }

    /// Remembers a neighbour that was given the route.
    pub(super) fn add_precursor(&mut self, neighbour: Address) {
        if !self.precursors.contains(&neighbour) {
            self.precursors.push(neighbour);
        }
    }
}

/// Routes in ascending order of destinations.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) routes: Vec<Route>,
}

impl Table {
    pub(super) fn find(&self, destination: Address) -> Result<usize, usize> {
        self.routes.binary_search_by_key(&destination, |route| route.destination)
    }

    pub(super) fn get(&self, destination: Address) -> Option<&Route> {
        self.find(destination).ok().map(|index| &self.routes[index])
    }

    pub(super) fn get_mut(&mut self, destination: Address) -> Option<&mut Route> {
        self.find(destination).ok().map(|index| &mut self.routes[index])
    }

    /// A valid route.
    pub(super) fn valid(&self, now: Nanos, destination: Address) -> Option<&Route> {
        self.get(destination).filter(|route| route.is_valid(now))
    }

    /// The same, to be changed.
    pub(super) fn valid_mut(&mut self, now: Nanos, destination: Address) -> Option<&mut Route> {
        self.get_mut(destination).filter(|route| route.is_valid(now))
    }

    /// The entry of a destination, new and invalid if there was none. None if the table is full.
    pub(super) fn entry(&mut self, destination: Address) -> Option<&mut Route> {
        let index = match self.find(destination) {
            Ok(index) => index,
            Err(_) if self.routes.len() >= MAX_ROUTES => return None,
            Err(index) => {
                let route = Route {
                    destination,
                    sequence: None,
                    hops: 0,
                    next_hop: destination,
                    valid: false,
                    until: Nanos::ZERO,
                    used: None,
                    precursors: SmallVec::new(),
                };
                self.routes.insert(index, route);
                index
            }
        };
        Some(&mut self.routes[index])
    }

    /// A route that carries data, or that a reply has taken, lives on.
    pub(super) fn refresh(&mut self, now: Nanos, destination: Address, until: Nanos) {
        if let Some(route) = self.valid_mut(now, destination) {
            route.until = route.until.max(until);
        }
    }
}
