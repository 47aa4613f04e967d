//! The path density protocol: max-min shares of airtime, computed by the nodes themselves (osipov2007 §3.3 and §4.4).
//!
//! An *association* is the nodes that carry a flow, an *L-region* a node and all that exchange broadcasts with it
//! ([`fairhop_model::share`]). What the paper leaves open is decided here:
//!
//! - The identity of a flow is the pair of its ends; packets the other way (TCP's ACKs) belong to it, over whatever path they
//!   go. Whoever sends first is the source.
//! - Each node of a path announces the association in its HELLO messages. A node that hears one is the centre of a region
//!   with it, and says HELLO as well.
//! - A region offers its associations μ = (1 − Σ φ of those bound elsewhere) / (the others), where φ < μ means bound
//!   elsewhere (Charny, Clark and Jain 1995). A centre announces μ. A path node takes the minimum of its own μ, of those
//!   that it hears from centres off the path, and of that of the next node of the path (where packets the other way leave the
//!   path, of that of their next node as well), and announces it to the one before. The source uses the minimum as its φ, and
//!   announces that, which the path nodes pass on.
//! - State that is learnt lives for `allowed_hello_loss` and a half intervals: half an interval more than the specified number, so that a
//!   single lost HELLO does not remove it. An association ends when it carried nothing for
//!   `active_route_timeout`, or when the route breaks.
//! - Before a source has heard an offer, it takes 1 / (associations heard + 1).
//!
//! Entries are 14 bytes in extensions of type [`EXTENSION`], which nodes without the protocol skip. What does not fit goes
//! round robin.

use fairhop_model::units::Nanos;
use smallvec::SmallVec;

use crate::Address;
use crate::wire::push_extension;

/// Type of the extension of HELLO messages.
pub const EXTENSION: u8 = 16;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 14;

/// The whole airtime of a region: shares are in parts of this.
pub const WHOLE: u16 = u16::MAX;

/// Entries in one extension at most: its length is a byte.
const PER_EXTENSION: usize = 255 / ENTRY_BYTES;

/// Entries in one HELLO at most, so that it fits into an MTU of 1500 bytes.
const PER_HELLO: usize = 5 * PER_EXTENSION;

/// Associations that a node keeps at most.
pub const MAX_ASSOCIATIONS: usize = 1024;

/// The sender is on the path.
const ON_PATH: u8 = 1;

/// What a neighbour has announced of an association.
#[derive(Clone, Copy, Debug)]
struct Heard {
    from: Address,
    until: Nanos,
    on_path: bool,
    /// Hops from the neighbour to the destination.
    hops: u8,
    phi: u16,
    mu: u16,
}

/// A node's place on the path of an association.
#[derive(Clone, Copy, Debug)]
struct Place {
    until: Nanos,
    /// The neighbour before; none at the source.
    previous: Option<Address>,
    /// The neighbour after; none at the destination.
    next: Option<Address>,
    /// The end to which these packets go.
    towards: Address,
    /// The neighbour after for packets the other way.
    answers_next: Option<Address>,
    /// Hops to the destination.
    hops: u8,
}

/// A flow in the neighbourhood.
#[derive(Clone, Debug)]
struct Association {
    source: Address,
    destination: Address,
    place: Option<Place>,
    heard: SmallVec<[Heard; 4]>,
    /// The share that the source uses, as far as it is known here.
    phi: Option<u16>,
}

impl Association {
    /// The share that its source uses: at the source the own one, on the path what the neighbour before says, elsewhere
    /// what the node nearest to the source says.
    fn known_phi(&self) -> Option<u16> {
        match self.place {
            Some(Place { previous: None, .. }) => self.phi,
            Some(Place { previous: Some(previous), .. }) => {
                let before = self.heard.iter().find(|heard| heard.from == previous && heard.on_path);
                before.map(|heard| heard.phi).or(self.phi)
            }
            None => {
                let on_path = self.heard.iter().filter(|heard| heard.on_path);
                on_path.max_by_key(|heard| heard.hops).map(|heard| heard.phi)
            }
        }
    }

    /// Whether the node's region has it.
    fn is_in_region(&self) -> bool {
        self.place.is_some() || self.heard.iter().any(|heard| heard.on_path)
    }

    /// The minimum offer that a path node has heard.
    fn min_offer(&self) -> Option<u16> {
        let (next, answers_next, previous) =
            self.place.map_or((None, None, None), |place| (place.next, place.answers_next, place.previous));
        // Where both ways are the same, the node before has said what this one says.
        let answers_next = answers_next.filter(|_| answers_next != previous);
        let counts =
            |heard: &&Heard| !heard.on_path || Some(heard.from) == next || Some(heard.from) == answers_next;
        self.heard.iter().filter(counts).map(|heard| heard.mu).min()
    }
}

/// One node's state.
#[derive(Clone, Debug)]
pub struct Pdp {
    associations: Vec<Association>,
    /// How long what is heard lives.
    lifetime: Nanos,
    /// How long an association lives without packets.
    active: Nanos,
    /// Where the next HELLO begins, if not all entries fit.
    first: usize,
}

/// What a region offers each of its associations, of which these shares are known. A share below the offer is bound
/// elsewhere; an unknown one is not.
fn offer(shares: &[Option<u16>]) -> u16 {
    let whole = u32::from(WHOLE);
    let count = shares.len() as u32;
    if count == 0 {
        return WHOLE;
    }
    let mut offer = whole / count;
    loop {
        let bound = shares.iter().flatten().map(|&share| u32::from(share)).filter(|&share| share < offer);
        let (number, sum, max) =
            bound.fold((0, 0, 0), |(number, sum, max), share| (number + 1, sum + share, share.max(max)));
        let left = whole.saturating_sub(sum);
        let next = if number == count { left + max } else { left / (count - number) };
        if next <= offer {
            return offer.min(whole) as u16;
        }
        offer = next.min(whole);
        if offer == whole {
            return WHOLE;
        }
    }
}

impl Pdp {
    /// A node that knows no association. What is heard lives for `allowed_loss` intervals and a half.
    pub fn new(interval: Nanos, allowed_loss: u32, active: Nanos) -> Self {
        let lifetime = Nanos(interval.0 * u64::from(allowed_loss) + interval.0 / 2);
        Self { associations: Vec::new(), lifetime, active, first: 0 }
    }

    /// The association of these ends, in either order.
    fn find(&self, a: Address, b: Address) -> Option<usize> {
        let is_it = |known: &Association| {
            (known.source, known.destination) == (a, b) || (known.source, known.destination) == (b, a)
        };
        self.associations.iter().position(is_it)
    }

    fn entry(&mut self, source: Address, destination: Address) -> Option<&mut Association> {
        let index = match self.find(source, destination) {
            Some(index) => index,
            None if self.associations.len() >= MAX_ASSOCIATIONS => return None,
            None => {
                let (place, phi) = (None, None);
                let heard = SmallVec::new();
                self.associations.push(Association { source, destination, place, heard, phi });
                self.associations.len() - 1
            }
        };
        self.associations.get_mut(index)
    }

    /// The node sends, forwards or receives a data packet, from `previous` (none at the source) to `next` (none at the
    /// destination), which is `hops` away from the destination.
    pub fn on_data(
        &mut self,
        now: Nanos,
        ends: (Address, Address),
        previous: Option<Address>,
        next: Option<Address>,
        hops: u8,
    ) {
        let until = now + self.active;
        let (source, destination) = ends;
        if let Some(index) = self.find(source, destination)
            && let Some(place) = &mut self.associations[index].place
            && place.towards != destination
        {
            (place.until, place.answers_next) = (until, next);
            return; // an answer
        }
        let others = self.associations.iter().filter(|known| known.is_in_region()).count();
        let Some(association) = self.entry(source, destination) else { return };
        // On a path of answers alone, nobody asks for the distance to the source.
        let hops = if association.destination == destination { hops } else { 0 };
        let answers_next = association.place.and_then(|place| place.answers_next);
        let towards = destination;
        association.place = Some(Place { until, previous, next, towards, answers_next, hops });
        if previous.is_none() && association.phi.is_none() {
            association.phi = Some((u32::from(WHOLE) / (others as u32 + 1)) as u16);
        }
    }

    /// The routes to these destinations have broken: the node is not on paths to them any more.
    pub fn withdraw(&mut self, destinations: &[Address]) {
        for association in &mut self.associations {
            let is_source = association.place.is_some_and(|place| place.previous.is_none());
            let towards = association.place.map(|place| place.towards);
            if towards.is_some_and(|towards| destinations.contains(&towards)) && !is_source {
                association.place = None;
            }
        }
    }

    /// A neighbour's HELLO had an extension with this content. What is no whole number of entries is ignored.
    pub fn on_extension(&mut self, now: Nanos, from: Address, data: &[u8]) {
        let until = now + self.lifetime;
        for entry in data.chunks_exact(ENTRY_BYTES) {
            let word =
                |at: usize| u32::from_be_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
            let half = |at: usize| u16::from_be_bytes([entry[at], entry[at + 1]]);
            let heard = Heard {
                from,
                until,
                on_path: entry[13] & ON_PATH != 0,
                hops: entry[12],
                phi: half(8),
                mu: half(10),
            };
            let Some(association) = self.entry(Address(word(0)), Address(word(4))) else { return };
            match association.heard.iter_mut().find(|known| known.from == from) {
                Some(known) => *known = heard,
                None => association.heard.push(heard),
            }
        }
    }

    /// Forgets what is too old.
    fn expire(&mut self, now: Nanos) {
        self.associations.retain_mut(|association| {
            association.heard.retain(|heard| heard.until > now);
            if association.place.is_some_and(|place| place.until <= now) {
                association.place = None;
            }
            if association.place.is_none() {
                association.phi = None;
            }
            association.place.is_some() || !association.heard.is_empty()
        });
    }

    /// Whether the node must say HELLO: it is the centre of a region with associations.
    pub fn has_region(&self) -> bool {
        self.associations.iter().any(Association::is_in_region)
    }

    /// A HELLO is due: computes the region's offer and the shares of the node's own associations, and appends the
    /// extensions.
    pub fn on_hello(&mut self, now: Nanos, out: &mut Vec<u8>) {
        self.expire(now);
        for association in &mut self.associations {
            if association.place.is_some() {
                association.phi = association.known_phi();
            }
        }
        let in_region = || self.associations.iter().filter(|known| known.is_in_region());
        let shares: Vec<Option<u16>> = in_region().map(Association::known_phi).collect();
        let offer = offer(&shares);
        let mut entries = Vec::with_capacity(shares.len());
        for association in self.associations.iter_mut().filter(|known| known.is_in_region()) {
            let minimum = association.min_offer().map_or(offer, |heard| heard.min(offer));
            let (hops, mu, flags) = match association.place {
                Some(place) => {
                    if place.previous.is_none() {
                        association.phi = Some(minimum);
                    }
                    (place.hops, minimum, ON_PATH)
                }
                None => (0, offer, 0),
            };
            let phi = association.known_phi().unwrap_or(mu);
            let mut entry = [0; ENTRY_BYTES];
            entry[..4].copy_from_slice(&association.source.0.to_be_bytes());
            entry[4..8].copy_from_slice(&association.destination.0.to_be_bytes());
            entry[8..10].copy_from_slice(&phi.to_be_bytes());
            entry[10..12].copy_from_slice(&mu.to_be_bytes());
            (entry[12], entry[13]) = (hops, flags);
            entries.push(entry);
        }
        if entries.len() > PER_HELLO {
            let first = self.first % entries.len();
            entries.rotate_left(first);
            entries.truncate(PER_HELLO);
            self.first = first + PER_HELLO;
        }
        for part in entries.chunks(PER_EXTENSION) {
            push_extension(out, EXTENSION, part.as_flattened());
        }
    }

    /// The share of airtime that packets from this node, `source`, may use, as a fraction; none if the flow has carried
    /// nothing for long. Where the other end has sent first, as a client asks a server, it is the share that the path nodes
    /// announce.
    pub fn share(&self, source: Address, destination: Address) -> Option<f64> {
        let association = &self.associations[self.find(source, destination)?];
        let place = association.place?;
        let phi = if place.towards == destination {
            association.phi.filter(|_| place.previous.is_none())
        } else {
            association.known_phi().filter(|_| place.next.is_none())
        }?;
        Some(f64::from(phi) / f64::from(WHOLE))
    }

    /// Sum of the shares in the node's region, as a fraction; unknown ones do not count.
    pub fn load(&self) -> f64 {
        let in_region = self.associations.iter().filter(|known| known.is_in_region());
        in_region.filter_map(Association::known_phi).map(f64::from).sum::<f64>() / f64::from(WHOLE)
    }
}

#[cfg(test)]
mod tests;
