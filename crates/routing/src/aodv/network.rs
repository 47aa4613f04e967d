//! Networks of machines for tests: messages are lost and overtake each other, nodes move, and after every event no route
//! leads in a circle.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Random;
use crate::draws::Draws;

/// What happens in a network.
#[derive(Clone, Debug)]
enum Step {
    /// A node sends a packet to another one.
    Send(usize, usize),
    /// Two nodes come into each other's reach, or leave it.
    Toggle(usize, usize),
    /// Milliseconds pass.
    Wait(u32),
}

/// Something that arrives at a node.
#[derive(Clone, Debug)]
enum Arrival {
    Message { from: usize, broadcast: bool, ttl: u8, bytes: Vec<u8> },
    Data { from: usize, source: Address, destination: Address, ttl: u8 },
}

struct Network {
    nodes: Vec<Aodv>,
    linked: Vec<Vec<bool>>,
    now: Nanos,
    random: Draws,
    /// In thousandths.
    loss: u32,
    in_flight: BTreeMap<(Nanos, u64), (usize, Arrival)>,
    sequence: u64,
    /// Largest own number of each node so far.
    delivered: usize,
}

const fn address(node: usize) -> Address {
    Address(10 + node as u32)
}

const fn node_of(address: Address) -> usize {
    address.0 as usize - 10
}

impl Network {
    fn new(config: &Config, links: &[bool], nodes: usize, first: u32, loss: u32, seed: u64) -> Self {
        let mut linked = vec![vec![false; nodes]; nodes];
        for (index, &link) in links.iter().enumerate().take(nodes * nodes) {
            let (a, b) = (index / nodes, index % nodes);
            if a < b {
                (linked[a][b], linked[b][a]) = (link, link);
            }
        }
        let mut random = Draws::new(seed);
        let machine = |node| {
            let mut aodv = Aodv::new(config.clone(), address(node));
            aodv.set_sequence(Sequence(first));
            let mut ctx = Context { now: Nanos::ZERO, random: &mut random, actions: &mut Vec::new() };
            aodv.start(&mut ctx);
            aodv
        };
        let machines = (0..nodes).map(machine).collect();
        Self {
            nodes: machines,
            linked,
            now: Nanos::ZERO,
            random,
            loss,
            in_flight: BTreeMap::new(),
            sequence: 0,
            delivered: 0,
        }
    }

    fn is_lost(&mut self) -> bool {
        self.random.up_to(999) < self.loss
    }

    /// A frame is on its way for up to 30 ms, so that frames overtake each other.
    fn transmit(&mut self, to: usize, arrival: Arrival) {
        let delay = Nanos::from_micros(100 + u64::from(self.random.up_to(30_000)));
        self.sequence += 1;
        self.in_flight.insert((self.now + delay, self.sequence), (to, arrival));
    }

    fn act<T>(&mut self, node: usize, act: impl FnOnce(&mut Aodv, &mut Context<'_>) -> T) -> T {
        let mut actions = Vec::new();
        let mut ctx = Context { now: self.now, random: &mut self.random, actions: &mut actions };
        let result = act(&mut self.nodes[node], &mut ctx);
        for action in actions {
            match action {
                Action::Send { to, ttl, bytes, .. } => self.send(node, to, ttl, bytes),
                Action::Release { next_hop, .. } => {
                    // Which packet it was does not matter here.
                    let destination = next_hop;
                    self.send_data(node, next_hop, address(node), destination, 35);
                }
                _ => {}
            }
        }
        result
    }

    fn send(&mut self, node: usize, to: Address, ttl: u8, bytes: Vec<u8>) {
        let broadcast = to == Address::BROADCAST;
        let arrival = Arrival::Message { from: node, broadcast, ttl, bytes };
        if broadcast {
            for peer in 0..self.nodes.len() {
                if self.linked[node][peer] && !self.is_lost() {
                    self.transmit(peer, arrival.clone());
                }
            }
        } else {
            self.unicast(node, node_of(to), arrival, false);
        }
    }

    /// Like 802.11: lost only if the link is gone or by bad luck, and then the sender knows.
    fn unicast(&mut self, node: usize, to: usize, arrival: Arrival, reply: bool) {
        if self.linked[node][to] && !self.is_lost() {
            self.transmit(to, arrival);
        } else {
            self.act(node, |aodv, ctx| aodv.on_given_up(ctx, address(to), reply));
        }
    }

    fn send_data(&mut self, node: usize, next: Address, source: Address, destination: Address, ttl: u8) {
        let arrival = Arrival::Data { from: node, source, destination, ttl };
        self.unicast(node, node_of(next), arrival, false);
    }

    fn arrive(&mut self, node: usize, arrival: Arrival) {
        match arrival {
            Arrival::Message { from, broadcast, ttl, bytes } => {
                let result =
                    self.act(node, |aodv, ctx| aodv.on_message(ctx, address(from), broadcast, ttl, &bytes));
                assert_eq!(result, Ok(()));
            }
            Arrival::Data { from, source, destination, ttl } => {
                self.nodes[node].on_heard(self.now, address(from));
                if destination == address(node) {
                    self.delivered += 1;
                    return self.nodes[node].on_delivered(self.now, source, address(from));
                }
                let previous = Some(address(from));
                let datagram = Datagram { token: 0, source, destination, previous };
                let decision = self.act(node, |aodv, ctx| aodv.on_data(ctx, datagram));
                if let Decision::Send(next) = decision
                    && ttl > 1
                {
                    self.send_data(node, next, source, destination, ttl - 1);
                }
            }
        }
    }

    /// Lets time pass; the check is made after every event.
    fn run_until(&mut self, until: Nanos) {
        loop {
            let timers = self.nodes.iter().map(Aodv::next_timer).enumerate();
            let (node, timer) = timers.min_by_key(|&(_, at)| at).expect("nodes");
            let arrival = self.in_flight.keys().next().map_or(Nanos::MAX, |key| key.0);
            if timer.min(arrival) > until {
                break;
            }
            self.now = self.now.max(timer.min(arrival));
            if arrival <= timer {
                let (_, (node, arrival)) = self.in_flight.pop_first().expect("one");
                self.arrive(node, arrival);
            } else {
                self.act(node, Aodv::on_timer);
            }
            self.check();
        }
        self.now = until;
    }

    fn step(&mut self, step: &Step) {
        let nodes = self.nodes.len();
        match *step {
            Step::Send(from, to) => {
                let (from, to) = (from % nodes, to % nodes);
                if from != to {
                    let (source, destination) = (address(from), address(to));
                    let datagram = Datagram { token: 0, source, destination, previous: None };
                    let decision = self.act(from, |aodv, ctx| aodv.on_data(ctx, datagram));
                    if let Decision::Send(next) = decision {
                        self.send_data(from, next, source, destination, 35);
                    }
                }
            }
            Step::Toggle(a, b) => {
                let (a, b) = (a % nodes, b % nodes);
                if a != b {
                    self.linked[a][b] = !self.linked[a][b];
                    self.linked[b][a] = self.linked[a][b];
                }
            }
            Step::Wait(ms) => self.run_until(self.now + Nanos::from_millis(u64::from(ms))),
        }
        self.check();
    }

    /// Among valid next hops to any destination there is no circle, and along them the number does not fall, nor the hop
    /// count rise at the same number.
    fn check(&self) {
        for destination in (0..self.nodes.len()).map(address) {
            for node in 0..self.nodes.len() {
                let mut at = node;
                for hop in 0.. {
                    assert!(hop <= self.nodes.len(), "{node} to {destination:?} leads in a circle");
                    let Some(route) = self.nodes[at].route(self.now, destination) else { break };
                    if route.next_hop == destination {
                        break;
                    }
                    let next = node_of(route.next_hop);
                    if let (Some(here), Some(there)) = (
                        route.sequence,
                        self.nodes[next]
                            .route(self.now, destination)
                            .and_then(|route| Some((route.sequence?, route.hops))),
                    ) {
                        assert!(!here.is_newer_than(there.0), "the number falls from {at} to {next}");
                        assert!(
                            here != there.0 || route.hops > there.1,
                            "from {at} to {next} it gets no nearer to {destination:?}"
                        );
                    }
                    at = next;
                }
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = 0..12_usize;
    let step = prop_oneof![
        5 => (node.clone(), node.clone()).prop_map(|(from, to)| Step::Send(from, to)),
        2 => (node.clone(), node).prop_map(|(a, b)| Step::Toggle(a, b)),
        4 => (1..400_u32).prop_map(Step::Wait),
        1 => (1000..20_000_u32).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_route_leads_in_a_circle_after_any_event(
        nodes in 3..=12_usize,
        links in prop::collection::vec(prop::bool::weighted(0.4), 144),
        first in prop_oneof![Just(0), Just(u32::MAX - 3), Just(i32::MAX as u32 - 3), any::<u32>()],
        loss in 0..400_u32,
        hello in prop_oneof![Just(Hello::Off), Just(Hello::Active), Just(Hello::Always)],
        link_feedback in any::<bool>(),
        gratuitous in any::<bool>(),
        seed in any::<u64>(),
        steps in steps(),
    ) {
        let active = Nanos::from_secs(3);
        let config = Config {
            hello, link_feedback, gratuitous, active_route_timeout: active, my_route_timeout: active * 2,
            ..Config::default()
        };
        let mut network = Network::new(&config, &links, nodes, first, loss, seed);
        for step in &steps {
            network.step(step);
        }
    }
}

#[test]
fn packets_arrive_along_a_string_and_after_a_link_has_broken() {
    let nodes = 6;
    // A string 0 … 4, and node 5 as a way around the link from 1 to 2.
    let near = |a: usize, b: usize| (b == a + 1 && b < 5) || (a, b) == (1, 5) || (a, b) == (2, 5);
    let links: Vec<bool> = (0..nodes * nodes).map(|pair| near(pair / nodes, pair % nodes)).collect();
    let mut network = Network::new(&Config::default(), &links, nodes, 0, 0, 7);
    for _ in 0..20 {
        network.step(&Step::Send(0, 4));
        network.step(&Step::Wait(250));
    }
    assert!(network.delivered >= 18, "{}", network.delivered);
    network.step(&Step::Toggle(1, 2));
    let before = network.delivered;
    for _ in 0..40 {
        network.step(&Step::Send(0, 4));
        network.step(&Step::Wait(250));
    }
    assert!(network.delivered - before >= 36, "{}", network.delivered - before);
}
