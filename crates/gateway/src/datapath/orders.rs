//! From a policy to what the programs read.

use std::collections::HashMap;

use fairhop_control::flow::FlowKey;
use fairhop_control::policy::Policy;
use fairhop_model::units::{BitRate, Nanos};

use super::layout::{NO_WINDOW, RawKey, RawOrders, RawTreatment, raw_rate};
use super::programs::Programs;
use super::{DatagramClass, DatapathError, Orders, Pacing};

/// First minor number of classes for single flows, and their number, beside `CLASS_SHARED` of the programs.
pub(super) const CLASS_LISTED: u16 = 0x180;
/// Flows that have a class of their own at a time; further ones share that of the others.
pub(super) const LISTED: u16 = 16;

/// Which flow has which class of its own, kept over the orders: a flow that stays has the same class.
#[derive(Debug, Default)]
pub(super) struct Written {
    classes: [Option<(FlowKey, Option<BitRate>)>; LISTED as usize],
    /// When the orders in force expire.
    expires: Nanos,
    /// Into the mesh and out of it: whether ACKs are paced, and since when, as a number that is never 0 while they are.
    acks_paced: [bool; 2],
    ack_epochs: [u32; 2],
}

impl Written {
    /// Writes orders at `now`.
    pub(super) fn write(
        &mut self,
        programs: &mut Programs,
        orders: &Orders<'_>,
        now: Nanos,
        expires: Nanos,
        queue_packets: u32,
        pacing: Pacing,
    ) -> Result<(), DatapathError> {
        if pacing == Pacing::Classes {
            self.assign(orders);
        }
        let policy = orders.policy;
        self.begin_epochs(policy, now, expires);
        let mut wanted: HashMap<RawKey, RawTreatment> = HashMap::new();
        for flow in &policy.flows {
            let place = self.classes.iter().position(|class| class.is_some_and(|(key, _)| key == flow.key));
            let treatment = RawTreatment {
                rate: raw_rate(flow.treatment.rate),
                window: flow.treatment.window.unwrap_or(NO_WINDOW),
                class: place.map_or(0, |place| CLASS_LISTED + place as u16),
                datagrams: 0,
                is_listed: 1,
            };
            wanted.insert(RawKey::from(&flow.key), treatment);
        }
        for (key, class) in orders.datagrams {
            let treatment = wanted.entry(RawKey::from(key)).or_default();
            treatment.datagrams = match class {
                DatagramClass::Elastic => 1,
                DatagramClass::Interactive => 2,
                DatagramClass::ElasticBesideSound => 3,
            };
        }
        programs.set_treatments(&wanted)?;
        programs.set_orders(RawOrders::new(
            policy,
            expires,
            queue_packets,
            pacing.has_times(),
            wanted.len() as u32,
            self.ack_epochs,
        ))
    }

    /// The programs see no ACK while ACKs are not paced. What they knew of flows before is of no use in the next epoch.
    fn begin_epochs(&mut self, policy: &Policy, now: Nanos, expires: Nanos) {
        let was_in_force = now < self.expires;
        for (side, rate) in [policy.up_acks, policy.down_acks].into_iter().enumerate() {
            let was_paced = std::mem::replace(&mut self.acks_paced[side], rate.is_some());
            if rate.is_some() && !(was_paced && was_in_force) {
                self.ack_epochs[side] = self.ack_epochs[side].wrapping_add(1).max(1);
            }
        }
        self.expires = expires;
    }

    /// Gives each flow a class that has a rate and no window, as far as there are: it would fill the class of all.
    fn assign(&mut self, orders: &Orders<'_>) {
        let rated = || {
            let flows = orders.policy.flows.iter();
            flows.filter(|flow| flow.treatment.rate.is_some() && flow.treatment.window.is_none())
        };
        for class in &mut self.classes {
            *class = class.and_then(|(key, _)| {
                rated().find(|flow| flow.key == key).map(|flow| (key, flow.treatment.rate))
            });
        }
        for flow in rated() {
            if self.classes.iter().flatten().any(|(key, _)| *key == flow.key) {
                continue;
            }
            let Some(free) = self.classes.iter_mut().find(|class| class.is_none()) else { return };
            *free = Some((flow.key, flow.treatment.rate));
        }
    }

    /// The rates of the classes of single flows.
    pub(super) fn rates(&self) -> impl Iterator<Item = (u16, Option<BitRate>)> + '_ {
        let rates = self.classes.iter().map(|class| class.and_then(|(_, rate)| rate));
        rates.enumerate().map(|(place, rate)| (CLASS_LISTED + place as u16, rate))
    }
}
