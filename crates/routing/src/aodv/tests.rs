//! The rules of the module's documentation, each by a test with its number, and what the RFC says without ambiguity.

use super::*;
use crate::wire::{Reply, Request};
use crate::{BreakCause, Random};

const ME: Address = Address(1);
const A: Address = Address(2);
const B: Address = Address(3);
const C: Address = Address(4);
const FAR: Address = Address(100);
const SOURCE: Address = Address(200);

/// Always the longest wait.
struct Longest;

impl Random for Longest {
    fn up_to(&mut self, max: u32) -> u32 {
        max
    }
}

/// One node and what it asks for.
struct Node {
    aodv: Aodv,
    now: Nanos,
    actions: Vec<Action>,
}

impl Node {
    fn new(config: Config) -> Self {
        Self { aodv: Aodv::new(config, ME), now: Nanos::from_secs(100), actions: Vec::new() }
    }

    fn act<T>(&mut self, act: impl FnOnce(&mut Aodv, &mut Context<'_>) -> T) -> T {
        let mut actions = std::mem::take(&mut self.actions);
        let mut ctx = Context { now: self.now, random: &mut Longest, actions: &mut actions };
        let result = act(&mut self.aodv, &mut ctx);
        self.actions = actions;
        result
    }

    /// Lets time pass, timer by timer.
    fn wait(&mut self, time: Nanos) {
        let until = self.now + time;
        while self.aodv.next_timer() <= until {
            self.now = self.aodv.next_timer().max(self.now);
            self.act(Aodv::on_timer);
        }
        self.now = until;
    }

    fn wait_ms(&mut self, ms: u64) {
        self.wait(Nanos::from_millis(ms));
    }

    fn receive(&mut self, from: Address, broadcast: bool, ttl: u8, message: &Message) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.act(|aodv, ctx| aodv.on_message(ctx, from, broadcast, ttl, &bytes)).expect("a message");
    }

    fn request(&mut self, from: Address, ttl: u8, request: Request) {
        self.receive(from, true, ttl, &Message::Request(request));
    }

    fn reply(&mut self, from: Address, reply: Reply) {
        self.receive(from, false, 35, &Message::Reply(reply));
    }

    fn hello(&mut self, from: Address, sequence: u32) {
        let hello = Reply { originator: from, lifetime_ms: 2000, ..reply(from, sequence, 0) };
        self.receive(from, true, 1, &Message::Reply(hello));
    }

    /// A packet of the node itself.
    fn send(&mut self, token: u32, destination: Address) -> Decision {
        let datagram = Datagram { token, source: ME, destination, previous: None };
        self.act(|aodv, ctx| aodv.on_data(ctx, datagram))
    }

    /// A packet to forward.
    fn forward(&mut self, previous: Address, destination: Address) -> Decision {
        let datagram = Datagram { token: 9, source: SOURCE, destination, previous: Some(previous) };
        self.act(|aodv, ctx| aodv.on_data(ctx, datagram))
    }

    fn given_up(&mut self, neighbour: Address, reply: bool) {
        self.act(|aodv, ctx| aodv.on_given_up(ctx, neighbour, reply));
    }

    /// The messages that it has sent since the last call.
    fn sent(&mut self) -> Vec<(Address, u8, Message)> {
        let message = |action: Action| match action {
            Action::Send { to, ttl, bytes, .. } => {
                Some((to, ttl, Message::decode(&bytes).expect("a message").0))
            }
            _ => None,
        };
        std::mem::take(&mut self.actions).into_iter().filter_map(message).collect()
    }

    fn route(&self, destination: Address) -> Option<(Address, u8, Option<u32>)> {
        let route = self.aodv.route(self.now, destination)?;
        Some((route.next_hop, route.hops, route.sequence.map(|number| number.0)))
    }

    fn entry(&self, destination: Address) -> Option<&Route> {
        self.aodv.routes().iter().find(|route| route.destination == destination)
    }
}

/// Without HELLO, so that nothing happens by itself.
fn quiet() -> Config {
    Config { hello: Hello::Off, ttl_start: 1, ..Config::default() }
}

fn reply(destination: Address, sequence: u32, hops: u8) -> Reply {
    Reply {
        ack_required: false,
        hops,
        destination,
        destination_sequence: Sequence(sequence),
        originator: ME,
        lifetime_ms: 10_000,
    }
}

fn request(destination: Address, id: u32) -> Request {
    Request {
        gratuitous: false,
        destination_only: false,
        hops: 1,
        id,
        destination,
        destination_sequence: None,
        originator: SOURCE,
        originator_sequence: Sequence(5),
    }
}

#[test]
fn rule_1_an_unknown_number_is_not_zero() {
    let mut node = Node::new(quiet());
    assert_eq!(node.send(1, FAR), Decision::Buffered);
    let [(_, _, Message::Request(first))] = &node.sent()[..] else { panic!("one request") };
    assert_eq!(first.destination_sequence, None);
    node.reply(A, reply(FAR, 0, 1));
    assert_eq!(node.route(FAR), Some((A, 2, Some(0))));
    node.given_up(A, false);
    assert_eq!(node.send(2, FAR), Decision::Buffered);
    let sent = node.sent();
    let request = sent.iter().find_map(|(_, _, message)| match message {
        Message::Request(request) => Some(*request),
        _ => None,
    });
    assert_eq!(request.and_then(|request| request.destination_sequence), Some(Sequence(1)));
}

#[test]
fn rule_1_a_number_that_has_wrapped_around_is_newer() {
    for old in [u32::MAX, i32::MAX as u32] {
        let mut node = Node::new(quiet());
        node.reply(A, reply(FAR, old, 1));
        node.reply(B, reply(FAR, old.wrapping_add(1), 5));
        assert_eq!(node.route(FAR), Some((B, 6, Some(old.wrapping_add(1)))));
        node.reply(A, reply(FAR, old, 1));
        assert_eq!(node.route(FAR).map(|route| route.0), Some(B), "an older one changes nothing");
    }
}

#[test]
fn rule_2_a_destination_answers_with_the_newer_of_both_numbers() {
    for (own, asked, answered) in [(7, 3, 7), (7, 9, 9), (u32::MAX, 1, 1), (1, u32::MAX, 1)] {
        let mut node = Node::new(quiet());
        node.aodv.set_sequence(Sequence(own));
        node.request(A, 5, Request { destination_sequence: Some(Sequence(asked)), ..request(ME, 1) });
        let [(to, _, Message::Reply(reply))] = &node.sent()[..] else { panic!("one reply") };
        assert_eq!((*to, reply.destination_sequence.0, reply.hops), (A, answered, 0));
        assert_eq!(node.aodv.sequence().0, answered);
    }
}

#[test]
fn rule_3_a_reverse_route_changes_only_to_a_better_one() {
    let mut node = Node::new(quiet());
    node.request(A, 5, request(FAR, 1));
    assert_eq!(node.route(SOURCE), Some((A, 2, Some(5))));
    node.request(B, 5, Request { hops: 3, ..request(FAR, 2) });
    assert_eq!(node.route(SOURCE), Some((A, 2, Some(5))), "longer");
    node.request(B, 5, Request { originator_sequence: Sequence(4), hops: 0, ..request(FAR, 3) });
    assert_eq!(node.route(SOURCE), Some((A, 2, Some(5))), "older");
    node.request(C, 5, Request { hops: 0, ..request(FAR, 4) });
    assert_eq!(node.route(SOURCE), Some((C, 1, Some(5))), "shorter");
    node.request(B, 5, Request { originator_sequence: Sequence(6), hops: 9, ..request(FAR, 5) });
    assert_eq!(node.route(SOURCE), Some((B, 10, Some(6))), "newer");
}

#[test]
fn rule_3_an_invalid_reverse_route_is_valid_again_after_an_equally_new_request() {
    let mut node = Node::new(quiet());
    node.request(A, 5, request(FAR, 1));
    node.given_up(A, false);
    assert_eq!(node.route(SOURCE), None);
    // The originator's number goes up with every request: it is the one that the break has set.
    node.request(B, 5, Request { originator_sequence: Sequence(6), hops: 4, ..request(FAR, 2) });
    assert_eq!(node.route(SOURCE), Some((B, 5, Some(6))));
}

#[test]
fn rule_4_the_hop_to_here_is_counted_once() {
    let mut node = Node::new(quiet());
    node.reply(A, reply(FAR, 5, 3));
    node.reply(B, reply(FAR, 5, 3));
    assert_eq!(node.route(FAR), Some((A, 4, Some(5))), "4 hops are not fewer than 4");
    node.reply(B, reply(FAR, 5, 2));
    assert_eq!(node.route(FAR), Some((B, 3, Some(5))), "3 hops are fewer than 4");
}

#[test]
fn rule_5_a_reply_that_updates_nothing_is_forwarded() {
    let mut node = Node::new(quiet());
    node.reply(B, reply(FAR, 9, 1));
    node.request(A, 5, request(Address(77), 1));
    node.sent();
    node.reply(C, Reply { originator: SOURCE, ..reply(FAR, 8, 4) });
    let [(to, _, Message::Reply(forwarded))] = &node.sent()[..] else { panic!("one reply") };
    assert_eq!((*to, forwarded.hops, forwarded.destination_sequence), (A, 5, Sequence(8)));
    assert_eq!(node.route(FAR), Some((B, 2, Some(9))));
}

#[test]
fn rule_6_a_neighbour_of_a_control_packet_has_no_number_and_a_direct_route_keeps_its_own() {
    let mut node = Node::new(quiet());
    node.request(A, 5, request(FAR, 1));
    assert_eq!(node.route(A), Some((A, 1, None)));
    node.hello(A, 12);
    assert_eq!(node.route(A), Some((A, 1, Some(12))));
    node.request(A, 5, request(FAR, 2));
    assert_eq!(node.route(A), Some((A, 1, Some(12))));
}

#[test]
fn rule_7_a_number_of_an_error_never_goes_back() {
    for (reported, stored) in [(11, 11), (20, 20), (10, 11), (3, 11)] {
        let mut node = Node::new(quiet());
        node.reply(A, reply(FAR, 10, 1));
        node.receive(A, false, 1, &Message::Error(vec![(FAR, Sequence(reported))]));
        let entry = node.entry(FAR).expect("kept");
        assert_eq!((entry.valid, entry.sequence), (false, Some(Sequence(stored))), "reported {reported}");
    }
}

#[test]
fn rule_7_an_error_concerns_only_routes_over_its_sender() {
    let mut node = Node::new(quiet());
    node.reply(A, reply(FAR, 10, 1));
    node.receive(B, true, 1, &Message::Error(vec![(FAR, Sequence(11))]));
    assert_eq!(node.route(FAR), Some((A, 2, Some(10))));
}

/// A route to [`FAR`] over B that each of `precursors` was given.
fn with_precursors(precursors: &[Address]) -> Node {
    let mut node = Node::new(quiet());
    for (&precursor, number) in precursors.iter().zip(50..) {
        let originator = Address(number);
        node.request(precursor, 1, Request { originator, ..request(FAR, 1) });
        node.reply(B, Reply { originator, ..reply(FAR, 10, 1) });
    }
    if precursors.is_empty() {
        node.reply(B, reply(FAR, 10, 1));
    }
    node.sent();
    node
}

#[test]
fn rule_7_one_precursor_gets_an_error_by_unicast_several_by_one_broadcast_and_none_nothing() {
    for (precursors, receiver) in [(&[][..], None), (&[A], Some(A)), (&[A, C], Some(Address::BROADCAST))] {
        let mut node = with_precursors(precursors);
        node.given_up(B, false);
        node.wait_ms(10);
        let errors: Vec<Address> = node
            .sent()
            .into_iter()
            .map(|(to, ttl, message)| {
                assert_eq!(ttl, 1);
                assert!(matches!(&message, Message::Error(lost) if lost.contains(&(FAR, Sequence(11)))));
                to
            })
            .collect();
        assert_eq!(errors, Vec::from_iter(receiver));
    }
}

#[test]
fn rule_7_a_received_error_is_forwarded_to_precursors_only() {
    for (precursors, count) in [(&[][..], 0), (&[A], 1)] {
        let mut node = with_precursors(precursors);
        node.receive(B, false, 1, &Message::Error(vec![(FAR, Sequence(12))]));
        let sent = node.sent();
        assert_eq!(sent.len(), count);
        for (to, _, message) in sent {
            assert_eq!((to, message), (A, Message::Error(vec![(FAR, Sequence(12))])));
        }
    }
}

#[test]
fn rule_8_there_is_no_route_to_the_node_itself() {
    let mut node = Node::new(quiet());
    node.reply(A, Reply { originator: SOURCE, ..reply(ME, 10, 1) });
    node.request(A, 5, Request { originator: ME, ..request(FAR, 1) });
    node.hello(A, 1);
    assert!(node.entry(ME).is_none());
    assert_eq!(node.sent(), []);
}

#[test]
fn rule_9_a_hello_replaces_a_longer_route_by_the_direct_one() {
    let mut node = Node::new(quiet());
    node.reply(A, reply(B, 10, 2));
    assert_eq!(node.route(B), Some((A, 3, Some(10))));
    node.hello(B, 9);
    assert_eq!(node.route(B), Some((B, 1, Some(10))), "the number does not go back");
    node.hello(B, 11);
    assert_eq!(node.route(B), Some((B, 1, Some(11))));
}

#[test]
fn a_neighbour_is_used_after_as_many_hellos_in_a_row_as_asked_for() {
    let mut node = Node::new(Config { hello_needed: 3, ..quiet() });
    for expected in [None, None, Some((A, 1, Some(1)))] {
        node.hello(A, 1);
        assert_eq!(node.route(A), expected);
        node.wait_ms(1000);
    }
}

#[test]
fn rule_10_only_a_node_on_an_active_route_says_hello() {
    let hellos = |hello: Hello, active: bool| {
        let mut node = Node::new(Config { hello, ..quiet() });
        node.act(Aodv::start);
        node.reply(A, reply(FAR, 1, 1));
        for step in 0..40 {
            if active && step < 10 {
                assert_eq!(node.send(1, FAR), Decision::Send(A));
                node.aodv.on_heard(node.now, A); // its ACK
            }
            node.wait_ms(1000);
        }
        node.sent().len()
    };
    assert_eq!(hellos(Hello::Off, true), 0);
    assert_eq!(hellos(Hello::Active, false), 0);
    // Ten seconds of data, and the ten seconds for which a route stays active.
    assert!((18..=20).contains(&hellos(Hello::Active, true)), "{}", hellos(Hello::Active, true));
    assert!((38..=40).contains(&hellos(Hello::Always, false)));
}

#[test]
fn rule_11_sending_to_a_neighbour_is_not_hearing_from_it() {
    for heard in [false, true] {
        let mut node = Node::new(Config { link_feedback: false, ..quiet() });
        node.hello(A, 1);
        for _ in 0..30 {
            node.wait_ms(100);
            let _ = node.send(1, A);
            if heard {
                node.aodv.on_heard(node.now, A);
            }
        }
        let breaks = node.actions.iter().filter(|action| {
            matches!(action, Action::LinkBroken { neighbour: A, cause: BreakCause::Silence, in_use: true })
        });
        assert_eq!(breaks.count(), usize::from(!heard));
    }
}

#[test]
fn a_next_hop_that_has_never_said_hello_is_missed_as_well() {
    let mut node = Node::new(Config { link_feedback: false, hello: Hello::Active, ..quiet() });
    node.reply(B, reply(FAR, 10, 2));
    for _ in 0..30 {
        node.wait_ms(100);
        let _ = node.send(1, FAR);
    }
    let breaks = node.actions.iter().filter(|action| {
        matches!(action, Action::LinkBroken { neighbour: B, cause: BreakCause::Silence, in_use: true })
    });
    assert_eq!(breaks.count(), 1);
}

#[test]
fn rule_12_an_intermediate_node_that_answers_informs_the_destination() {
    for gratuitous in [false, true] {
        let mut node = Node::new(quiet());
        node.reply(B, reply(FAR, 10, 2));
        node.sent();
        node.request(A, 5, Request { gratuitous, ..request(FAR, 1) });
        let sent = node.sent();
        assert_eq!(sent.len(), if gratuitous { 2 } else { 1 });
        assert!(matches!(
            &sent[0],
            (A, _, Message::Reply(Reply { hops: 3, destination: FAR, originator: SOURCE, .. }))
        ));
        if gratuitous {
            let informed = Reply {
                hops: 2,
                destination: SOURCE,
                destination_sequence: Sequence(5),
                originator: FAR,
                ..reply(FAR, 0, 0)
            };
            let (B, _, Message::Reply(reply)) = &sent[1] else { panic!("a reply to the destination") };
            assert_eq!(Reply { lifetime_ms: informed.lifetime_ms, ..*reply }, informed);
        }
    }
}

#[test]
fn an_intermediate_node_does_not_answer_for_an_older_route_or_where_only_the_destination_may() {
    let asked = |request: Request| {
        let mut node = Node::new(quiet());
        node.reply(B, reply(FAR, 10, 2));
        node.sent();
        node.request(A, 5, request);
        node.wait_ms(10);
        let [(to, ttl, Message::Request(forwarded))] = node.sent()[..] else { panic!("a request") };
        assert_eq!((to, ttl, forwarded.hops), (Address::BROADCAST, 4, 2));
        forwarded.destination_sequence
    };
    let newer = Request { destination_sequence: Some(Sequence(11)), ..request(FAR, 1) };
    assert_eq!(asked(newer), Some(Sequence(11)));
    let only = Request { destination_only: true, ..request(FAR, 1) };
    assert_eq!(asked(only), Some(Sequence(10)), "the newest number that is known goes on");
}

#[test]
fn rule_13_a_reply_that_fails_puts_the_next_hop_on_the_blacklist() {
    let mut node = Node::new(Config { link_feedback: false, ..quiet() });
    node.given_up(A, true);
    node.request(A, 5, request(FAR, 1));
    assert_eq!(node.route(SOURCE), None);
    node.wait(node.aodv.config().blacklist_timeout());
    node.request(A, 5, request(FAR, 1));
    assert_eq!(node.route(SOURCE), Some((A, 2, Some(5))));
}

#[test]
fn rule_13_a_reply_over_a_doubtful_link_asks_for_an_acknowledgment_and_waits_for_it() {
    for acknowledged in [false, true] {
        let mut node = Node::new(quiet());
        node.hello(A, 1);
        node.wait_ms(1600);
        node.aodv.on_heard(node.now, A);
        node.request(A, 5, request(ME, 1));
        let [(A, _, Message::Reply(reply))] = node.sent()[..] else { panic!("a reply") };
        assert!(reply.ack_required);
        if acknowledged {
            node.receive(A, false, 1, &Message::ReplyAck);
        }
        node.wait(node.aodv.config().next_hop_wait());
        node.request(A, 5, request(ME, 2));
        assert_eq!(node.sent().len(), usize::from(acknowledged), "ignored while on the blacklist");
    }
}

#[test]
fn rule_13_who_is_asked_for_an_acknowledgment_gives_it() {
    let mut node = Node::new(quiet());
    node.reply(A, Reply { ack_required: true, ..reply(FAR, 1, 1) });
    assert_eq!(node.sent(), [(A, 1, Message::ReplyAck)]);
}

#[test]
fn rule_14_an_unused_route_expires_with_a_higher_number_and_no_error() {
    let mut node = with_precursors(&[A]);
    node.wait_ms(10_000);
    let entry = node.entry(FAR).expect("kept for DELETE_PERIOD");
    assert_eq!((entry.valid, entry.sequence), (false, Some(Sequence(11))));
    assert_eq!(node.sent(), []);
    node.wait(node.aodv.config().delete_period());
    assert!(node.entry(FAR).is_none());
}

#[test]
fn data_keeps_the_routes_of_both_ends_and_both_neighbours_alive() {
    let mut node = Node::new(quiet());
    node.reply(B, reply(FAR, 10, 1));
    node.request(A, 1, request(Address(77), 1));
    for _ in 0..30 {
        assert_eq!(node.forward(A, FAR), Decision::Send(B));
        node.wait_ms(1000);
    }
    for destination in [FAR, B, SOURCE, A] {
        assert!(node.route(destination).is_some(), "{destination:?}");
    }
}

/// The waiting times of §6.4 by TTL, and the end: the RFC's own constants.
#[test]
fn the_ring_expands_and_a_discovery_is_given_up_after_the_retries() {
    let mut node = Node::new(quiet());
    let start = node.now;
    assert_eq!(node.send(7, FAR), Decision::Buffered);
    let mut requests = Vec::new();
    loop {
        for (_, ttl, _) in node.sent() {
            requests.push((ttl, (node.now - start).0 / 1_000_000));
        }
        if node.aodv.buffered() == 0 {
            break;
        }
        node.now = node.aodv.next_timer();
        node.act(Aodv::on_timer);
        if node.aodv.buffered() == 0 {
            let latency = node.now - start;
            let given_up = [
                Action::Drop { token: 7, reason: DropReason::NoRoute },
                Action::Discovered { destination: FAR, latency, found: false },
            ];
            assert_eq!(node.actions, given_up);
            assert_eq!(latency, Nanos::from_millis(1920 + 2800 + 5600 + 11_200));
        }
    }
    let expected = [(1, 0), (3, 240), (5, 640), (7, 1200), (35, 1920), (35, 4720), (35, 10_320)];
    assert_eq!(requests, expected);
    assert_eq!(node.aodv.counters().given_up, 1);
}

#[test]
fn a_repeated_discovery_starts_beyond_where_the_destination_was() {
    let mut node = Node::new(quiet());
    node.reply(A, reply(FAR, 1, 2));
    node.given_up(A, false);
    node.sent();
    let _ = node.send(1, FAR);
    let [(_, ttl, Message::Request(_))] = node.sent()[..] else { panic!("a request") };
    assert_eq!(ttl, 3 + 2);
}

#[test]
fn the_buffer_drops_the_oldest_packet_when_it_is_full_and_each_after_its_time() {
    let config = Config { buffer_packets: 2, buffer_time: Nanos::from_millis(100), ..quiet() };
    let mut node = Node::new(config);
    for token in 1..=3 {
        let _ = node.send(token, FAR);
    }
    node.wait_ms(100);
    let drops: Vec<_> = node
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Drop { token, reason } => Some((*token, *reason)),
            _ => None,
        })
        .collect();
    let timeout = DropReason::BufferTimeout;
    assert_eq!(drops, [(1, DropReason::BufferFull), (2, timeout), (3, timeout)]);
}

#[test]
fn packets_leave_the_buffer_in_order_when_a_route_is_found() {
    let mut node = Node::new(quiet());
    for token in 1..=3 {
        let _ = node.send(token, if token == 2 { SOURCE } else { FAR });
    }
    node.wait_ms(60);
    node.actions.clear();
    node.reply(A, reply(FAR, 1, 1));
    let released: Vec<_> =
        node.actions.iter().filter(|action| matches!(action, Action::Release { .. })).collect();
    let release = |token| Action::Release { token, next_hop: A };
    assert_eq!(released, [&release(1), &release(3)]);
    let found = Action::Discovered { destination: FAR, latency: Nanos::from_millis(60), found: true };
    assert!(node.actions.contains(&found));
    assert_eq!(node.aodv.buffered(), 1);
}

#[test]
fn duplicates_have_the_same_originator_and_identity() {
    let mut node = Node::new(quiet());
    let other = Address(201);
    for (request, forwarded) in [
        (request(FAR, 1), 1),
        (request(FAR, 1), 0),
        (Request { originator: other, ..request(FAR, 1) }, 1),
        (request(FAR, 2), 1),
    ] {
        node.request(A, 5, request);
        node.wait_ms(10);
        assert_eq!(node.sent().len(), forwarded, "{request:?}");
    }
    node.request(A, 1, request(FAR, 3));
    node.wait_ms(10);
    assert_eq!(node.sent(), [], "its time to live is over");
}

#[test]
fn requests_and_errors_are_limited_in_a_second() {
    let mut node = Node::new(quiet());
    for destination in 300..330 {
        let _ = node.send(destination, Address(destination));
    }
    assert_eq!(node.sent().len(), 10);
    node.wait_ms(999);
    assert_eq!(node.sent().len(), 0);
    node.wait_ms(1);
    assert_eq!(node.sent().len(), 10);
    let mut node = Node::new(quiet());
    for _ in 0..30 {
        assert_eq!(node.forward(A, FAR), Decision::Drop(DropReason::NoRoute));
    }
    assert_eq!(node.sent(), vec![(A, 1, Message::Error(vec![(FAR, Sequence(0))])); 10]);
}

#[test]
fn a_link_breaks_after_as_many_packets_in_a_row_as_configured() {
    let mut node = Node::new(Config { breaks_after: 3, ..quiet() });
    node.reply(A, reply(FAR, 1, 1));
    for step in 0..5 {
        node.given_up(A, false);
        if step == 1 {
            node.aodv.on_acknowledged(A);
        }
        assert_eq!(node.route(FAR).is_some(), step < 4, "step {step}");
    }
}

#[test]
fn without_feedback_the_retry_limit_breaks_nothing() {
    let mut node = Node::new(Config { link_feedback: false, ..quiet() });
    node.reply(A, reply(FAR, 1, 1));
    node.given_up(A, false);
    assert!(node.route(FAR).is_some());
}

#[test]
fn derived_constants_follow_when_one_is_changed() {
    let config =
        Config { node_traversal_time: Nanos::from_millis(20), net_diameter: 10, ..Config::default() };
    assert_eq!(config.net_traversal_time(), Nanos::from_millis(400));
    assert_eq!(config.path_discovery_time(), Nanos::from_millis(800));
    assert_eq!(config.blacklist_timeout(), Nanos::from_millis(800));
    assert_eq!(config.next_hop_wait(), Nanos::from_millis(30));
    assert_eq!(config.ring_traversal_time(3), Nanos::from_millis(200));
    assert_eq!(Config::default().delete_period(), Nanos::from_secs(50));
}
