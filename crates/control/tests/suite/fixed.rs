//! Configured settings: what the policy asks for, and until when.

use fairhop_control::digest::{Digest, Direction, PROTOCOL_TCP, PROTOCOL_UDP, Payload, TcpFields, tcp_flag};
use fairhop_control::flow::Address;
use fairhop_control::policy::{Means, Policy, Reason, State};
use fairhop_control::{AdaptiveConfig, Controller, ControllerConfig, FixedConfig, FlowKey, ObserverConfig};
use fairhop_model::units::{BitRate, Nanos};

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn controller(config: ControllerConfig) -> Controller {
    Controller::new(ObserverConfig { flows: 16, ..ObserverConfig::default() }, config)
}

#[test]
fn a_fixed_setting_is_asked_for_as_it_is_and_every_policy_expires() {
    let config =
        FixedConfig { window: Some(3000), data_rate: Some(BitRate(600_000)), ..FixedConfig::default() };
    let policy = controller(ControllerConfig::Fixed(config)).tick(ms(5000), 0).clone();
    assert_eq!(
        (policy.down, policy.means, policy.reason),
        (config.data_rate, Means::Both, Reason::Configured)
    );
    let key = FlowKey::default();
    assert_eq!(policy.treatment(ms(6000), &key).window, Some(3000));
    assert_eq!((policy.expires, policy.treatment(ms(7000), &key).window), (ms(7000), None));
    // Without flows, the adaptive controller only limits new ones. Without control, there are no limits.
    let first = AdaptiveConfig::default();
    let mut adaptive = controller(ControllerConfig::Adaptive(first));
    let policy = adaptive.tick(ms(1000), 0);
    let alone = BitRate((first.first_budget / f64::from(first.shared_links)) as u64);
    assert_eq!((policy.down, policy.state, policy.others.window), (Some(alone), State::Off, Some(3000)));
    assert!(policy.flows.is_empty() && policy.gate.is_none() && policy.up_acks.is_none());
    assert_eq!(*controller(ControllerConfig::None).tick(ms(1000), 0), Policy::none());
}

/// A packet of the flow of a port.
fn packet(at: Nanos, port: u16, payload: Payload) -> Digest {
    Digest {
        at,
        waited: Nanos::ZERO,
        direction: Direction::ToMesh,
        source: Address::v4([192, 0, 2, 1]),
        destination: Address::v4([10, 1, 0, 4]),
        source_port: port,
        destination_port: port,
        protocol: if payload == Payload::Udp { PROTOCOL_UDP } else { PROTOCOL_TCP },
        ttl: 61,
        traffic_class: 0,
        bytes: 1500,
        payload,
    }
}

#[test]
fn a_common_window_is_divided_equally_among_active_tcp_flows() {
    let config = FixedConfig { window_of_all: Some(24_000), ..FixedConfig::default() };
    let mut controller = controller(ControllerConfig::Fixed(config));
    let window = |controller: &mut Controller, now| {
        let policy = controller.tick(now, 0);
        assert_eq!((policy.means, policy.flows.len()), (Means::Window, 0));
        policy.treatment(now, &FlowKey::default()).window
    };
    assert_eq!(window(&mut controller, ms(0)), Some(24_000), "without flows, all of it");
    let tcp = Payload::Tcp(TcpFields { flags: tcp_flag::ACK, payload_bytes: 1460, ..TcpFields::default() });
    for (flows, part) in [(1, 24_000), (2, 12_000), (3, 8000), (5, 4800)] {
        let now = ms(100 * u64::from(flows));
        (0..flows).for_each(|port| controller.on_digest(&packet(now, port, tcp)));
        // Flows of other kinds have no windows, and no part of it.
        controller.on_digest(&packet(now, 99, Payload::Udp));
        assert_eq!(window(&mut controller, now), Some(part), "{flows} flows");
    }
    // A flow that has been silent for 2 s is not active any more.
    controller.on_digest(&packet(ms(2400), 0, tcp));
    assert_eq!(window(&mut controller, ms(2500)), Some(4800));
    assert_eq!(window(&mut controller, ms(2501)), Some(24_000));
}

#[test]
fn of_a_window_for_each_and_a_common_one_the_smaller_holds() {
    let tcp = Payload::Tcp(TcpFields::default());
    for (window, part) in [(5000, 5000), (7000, 6000)] {
        let config =
            FixedConfig { window: Some(window), window_of_all: Some(12_000), ..FixedConfig::default() };
        let mut controller = controller(ControllerConfig::Fixed(config));
        (0..2).for_each(|port| controller.on_digest(&packet(ms(1), port, tcp)));
        assert_eq!(controller.tick(ms(2), 0).others.window, Some(part));
    }
}
