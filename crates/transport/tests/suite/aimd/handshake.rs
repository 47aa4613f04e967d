//! Opening a stream, and which packets belong to it.

use std::hash::{BuildHasherDefault, DefaultHasher};

use fairhop_model::units::Nanos;
use fairhop_transport::aimd::handshake::{Admission, Answer, Listener, Opening};
use fairhop_transport::aimd::wire::{Packet, tag_of};
use fairhop_transport::aimd::{Datagram, Seq};

type Hasher = BuildHasherDefault<DefaultHasher>;

/// Addresses of hosts.
const SENDER: u8 = 1;
const OTHER: u8 = 2;

const ID: u64 = 0xaaaa_0000_bbbb_1111;

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn listener() -> Listener<u8, Hasher> {
    Listener::new(Hasher::default())
}

fn data(id: u64) -> Packet {
    Packet::Data { tag: tag_of(id), datagram: Datagram { seq: Seq::of(0), sent_us: 0 } }
}

/// Opens a stream by the full handshake.
fn open(listener: &mut Listener<u8, Hasher>, from: u8, id: u64) -> Admission {
    let Admission::Reply(Packet::Cookie { cookie, .. }) =
        listener.on_packet(from, &Packet::Hello { id, cookie: 0 })
    else {
        panic!("no cookie")
    };
    listener.on_packet(from, &Packet::Hello { id, cookie })
}

#[test]
fn a_stream_opens_after_hello_cookie_hello_accept() {
    let (mut opening, mut listener) = (Opening::new(ID), listener());
    let mut now = Nanos::ZERO;
    let mut answer = None;
    let mut hellos = 0;
    while answer.is_none() {
        if let Some(hello) = opening.poll_transmit(now) {
            hellos += 1;
            match listener.on_packet(SENDER, &hello) {
                Admission::Reply(reply) | Admission::Opened(reply) => answer = opening.on_packet(now, &reply),
                other => panic!("{other:?}"),
            }
        }
        now += ms(1);
    }
    assert_eq!((answer, hellos), (Some(Answer::Accepted), 2), "and without a wait for a timer");
    assert!(now <= ms(3));
    assert_eq!(listener.current(), Some((SENDER, ID)));
}

#[test]
fn a_lost_hello_is_repeated_at_growing_intervals() {
    let mut opening = Opening::new(ID);
    let mut sent = Vec::new();
    for at in 0..6_000 {
        if opening.poll_transmit(ms(at)).is_some() {
            sent.push(at);
        }
    }
    assert_eq!(sent, [0, 250, 750, 1750, 3750, 5750]);
    assert_eq!(opening.next_timer(), ms(7750));
}

#[test]
fn a_lost_accept_is_repeated_and_a_late_hello_opens_nothing() {
    let mut listener = listener();
    assert_eq!(open(&mut listener, SENDER, ID), Admission::Opened(Packet::Accept { id: ID }));
    let again = listener.on_packet(SENDER, &Packet::Hello { id: ID, cookie: 0 });
    assert_eq!(again, Admission::Reply(Packet::Accept { id: ID }));
    listener.close(5);
    assert_eq!(listener.on_packet(SENDER, &Packet::Hello { id: ID, cookie: 0 }), Admission::Late);
    assert_eq!((listener.current(), listener.take_strays()), (None, 0));
}

#[test]
fn a_cookie_is_valid_for_one_address_and_one_id() {
    let mut listener = listener();
    let hello = |id, cookie| Packet::Hello { id, cookie };
    let Admission::Reply(Packet::Cookie { cookie, .. }) = listener.on_packet(SENDER, &hello(ID, 0)) else {
        panic!("no cookie")
    };
    for (from, id, cookie) in [(OTHER, ID, cookie), (SENDER, ID + 1, cookie), (SENDER, ID, cookie ^ 1)] {
        let admission = listener.on_packet(from, &hello(id, cookie));
        assert!(matches!(admission, Admission::Reply(Packet::Cookie { .. })), "{admission:?}");
    }
    assert_eq!(listener.current(), None);
    assert!(matches!(listener.on_packet(SENDER, &hello(ID, cookie)), Admission::Opened(_)));
}

#[test]
fn strays_are_counted_and_change_nothing() {
    let mut listener = listener();
    let strays = [data(ID), Packet::End { tag: tag_of(ID), end: Seq::of(1) }, Packet::Accept { id: ID }];
    for stray in &strays {
        assert_eq!(listener.on_packet(OTHER, stray), Admission::Stray, "before a stream");
    }
    open(&mut listener, SENDER, ID);
    // The tag alone is not enough: it has to come from the address that opened the stream.
    assert_eq!(listener.on_packet(OTHER, &data(ID)), Admission::Stray);
    assert_eq!(listener.on_packet(SENDER, &data(ID ^ 1)), Admission::Stray);
    assert_eq!(listener.on_packet(SENDER, &data(ID)), Admission::Current);
    listener.on_garbage();
    listener.close(7);
    assert_eq!(listener.on_packet(OTHER, &data(ID)), Admission::Stray);
    assert_eq!((listener.take_strays(), listener.take_strays()), (7, 0));
}

#[test]
fn a_second_sender_is_refused_until_the_first_stream_ends() {
    let mut listener = listener();
    open(&mut listener, SENDER, ID);
    assert_eq!(open(&mut listener, OTHER, 5), Admission::Reply(Packet::Busy { id: 5 }));
    assert_eq!(listener.current(), Some((SENDER, ID)));
    assert_eq!(Opening::new(5).on_packet(ms(1), &Packet::Busy { id: 5 }), Some(Answer::Refused));
    assert_eq!(Opening::new(5).on_packet(ms(1), &Packet::Busy { id: 6 }), None, "for another stream");
    listener.close(9);
    assert!(matches!(open(&mut listener, OTHER, 5), Admission::Opened(_)));
}

#[test]
fn the_end_of_the_last_stream_is_reported_again() {
    let mut listener = listener();
    open(&mut listener, SENDER, ID);
    let end = Packet::End { tag: tag_of(ID), end: Seq::of(12) };
    assert_eq!(listener.on_packet(SENDER, &end), Admission::Current);
    listener.close(11);
    let report = Packet::Report { tag: tag_of(ID), received: 11 };
    assert_eq!(listener.on_packet(SENDER, &end), Admission::Reply(report));
    assert_eq!(listener.on_packet(SENDER, &data(ID)), Admission::Late);
    assert_eq!(listener.on_packet(OTHER, &end), Admission::Stray);
}
