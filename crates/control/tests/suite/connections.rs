//! When a connection is over: until then, its data is controlled.

use fairhop_control::digest::{Digest, Direction, PROTOCOL_TCP, Payload, TcpFields, tcp_flag};
use fairhop_control::observer::{Observer, ObserverConfig};
use fairhop_model::units::Nanos;

use Direction::{FromMesh, ToMesh};

use crate::observing::digest;

const MSS: u32 = 1448;

/// A connection whose ends send what they are told to, one segment each millisecond.
struct Connection {
    observer: Observer,
    at: u64,
}

impl Connection {
    fn new() -> Self {
        let observer = Observer::new(ObserverConfig { flows: 10, ..ObserverConfig::default() });
        let mut connection = Self { observer, at: 0 };
        connection.send(ToMesh, tcp_flag::SYN, (0, 0), 0);
        connection.send(FromMesh, tcp_flag::SYN | tcp_flag::ACK, (0, 1), 0);
        connection
    }

    fn send(&mut self, direction: Direction, flags: u8, (seq, ack): (u32, u32), payload_bytes: u32) {
        self.at += 1;
        let tcp = TcpFields { seq, ack, flags, payload_bytes, ..TcpFields::default() };
        let packet: Digest = digest(
            Nanos::from_millis(self.at),
            direction,
            PROTOCOL_TCP,
            443,
            52 + payload_bytes,
            Payload::Tcp(tcp),
        );
        self.observer.on_digest(&packet);
    }

    /// Segments `from` to `from + 9` of the data of an end, each with its ACK.
    fn transfer(&mut self, direction: Direction, from: u32) {
        let back = if direction == ToMesh { FromMesh } else { ToMesh };
        for number in from..from + 10 {
            self.send(direction, tcp_flag::ACK, (1 + number * MSS, 1), MSS);
            self.send(back, tcp_flag::ACK, (1, 1 + (number + 1) * MSS), 0);
        }
    }

    fn is_controlled(&mut self) -> bool {
        self.observer.survey(Nanos::from_millis(self.at));
        !self.observer.elastic().is_empty()
    }
}

/// RFC 9293 §3.6: an end that has closed its half receives on. Clients do so that send one request.
#[test]
fn a_download_goes_on_after_the_client_has_closed_its_half_and_ends_with_the_fin_of_the_server() {
    let mut connection = Connection::new();
    connection.transfer(ToMesh, 0);
    connection.send(FromMesh, tcp_flag::ACK | tcp_flag::FIN, (1, 1 + 10 * MSS), 0);
    connection.transfer(ToMesh, 10);
    assert!(connection.is_controlled());
    connection.send(ToMesh, tcp_flag::ACK | tcp_flag::FIN, (1 + 20 * MSS, 2), 0);
    assert!(!connection.is_controlled());
    // What was lost and is repeated after it changes nothing.
    connection.send(ToMesh, tcp_flag::ACK, (1 + 19 * MSS, 2), MSS);
    assert!(!connection.is_controlled());
}

/// RFC 5961 §3: a receiver ignores an RST with a sequence number that is not the expected one. A host could send one to escape control.
#[test]
fn a_connection_whose_ends_ignore_an_rst_or_a_fin_goes_on() {
    for (direction, other) in [(ToMesh, FromMesh), (FromMesh, ToMesh)] {
        for by in [direction, other] {
            let mut connection = Connection::new();
            connection.transfer(direction, 0);
            connection.send(by, tcp_flag::RST, (77, 0), 0);
            assert!(!connection.is_controlled(), "{direction:?}, RST by {by:?}");
            connection.transfer(direction, 10);
            assert!(connection.is_controlled(), "{direction:?}, RST by {by:?} that was ignored");
        }
        let mut connection = Connection::new();
        connection.transfer(direction, 0);
        connection.send(direction, tcp_flag::ACK | tcp_flag::FIN, (1 + 10 * MSS, 1), 0);
        assert!(!connection.is_controlled(), "{direction:?}");
        connection.transfer(direction, 11);
        assert!(connection.is_controlled(), "{direction:?} with data beyond its FIN");
    }
}
