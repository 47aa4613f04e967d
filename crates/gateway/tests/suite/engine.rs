//! Decisions without a kernel: hostile hosts, restarts, recordings.

use std::io::Cursor;

use fairhop_control::Network;
use fairhop_control::controller::TICK;
use fairhop_control::digest::{Direction, PROTOCOL_TCP, Payload, Probe};
use fairhop_control::flow::Address;
use fairhop_control::raw::RawDigest;
use fairhop_gateway::config::{self, Config, Mode};
use fairhop_gateway::datapath::DatagramClass;
use fairhop_gateway::engine::{Engine, Settings};
use fairhop_gateway::probe::unreported::Unreported;
use fairhop_gateway::record::{Event, FORMAT, Header, Reader, Recorder, replay};
use fairhop_model::units::Nanos;

use crate::check_recording;
use crate::support::{call, digest, download, syn, traffic};

const CONFIG: &str = "mode = \"live\"\n[[gateway]]\nmesh = \"wlan0\"\n[control]\nkind = \"adaptive\"\n";

fn config(text: &str) -> Config {
    config::load("gateway.toml", text, &[]).expect("a config").config
}

fn settings(text: &str) -> Settings {
    let config = config(text);
    Settings::of(&config, &config.gateway[0], Mode::Live)
}

/// Feeds digests and ticks; `each` sees every tick.
fn run(engine: &mut Engine, digests: &[RawDigest], mut each: impl FnMut(&Engine, Nanos)) {
    let mut next = Nanos(digests[0].at / TICK.0 * TICK.0 + TICK.0);
    for digest in digests {
        while digest.at >= next.0 {
            engine.tick(next, 0);
            each(engine, next);
            next = next.saturating_add(TICK);
        }
        engine.on_digest(digest);
    }
}

#[test]
fn a_download_beside_calls_gets_a_window_and_the_decision_has_a_reason() {
    let mut engine = Engine::new(settings(CONFIG));
    run(&mut engine, &traffic(5, 5), |_, _| {});
    let decision = engine.decision().expect("a decision");
    assert_eq!(engine.policy().flows.len(), 1);
    assert!(decision.window.is_some() && decision.budget.is_some());
    assert!(decision.mos.is_some_and(|mos| mos > 4.0), "{decision:?}");
}

#[test]
fn weights_and_other_regions_divide_the_budget() {
    let mut digests = Vec::new();
    for step in 0..300 {
        let at = Nanos::from_millis(10_000 + 10 * step);
        (1..=3).for_each(|host| digests.extend(download(at, host, step as u32)));
    }
    digests.sort_by_key(|digest| digest.at);
    // The rates of the three hosts over that of the first, in hundredths.
    let rates = |more: &str| {
        let mut engine = Engine::new(settings(&format!("{CONFIG}{more}")));
        run(&mut engine, &digests, |_, _| {});
        let rates = engine.policy().flows.iter().map(|flow| flow.treatment.rate.expect("a pace").0 as f64);
        let rates: Vec<f64> = rates.collect();
        rates.iter().map(|rate| (100.0 * rate / rates[0]).round()).collect::<Vec<_>>()
    };
    let weight = "[[host]]\nnetwork = \"10.1.0.3\"\nweight = 2.0\n";
    // A fifth of the region for the third flow, and four fifths of the budget for the first two.
    let region = "[[region]]\nnetworks = [\"10.1.0.3/32\"]\nflows = 4.0\n";
    assert_eq!(rates(""), [100.0, 100.0, 100.0]);
    assert_eq!(rates(weight), [100.0, 100.0, 200.0]);
    assert_eq!(rates(region), [100.0, 100.0, 50.0]);
    // Two shares of six there.
    assert_eq!(rates(&format!("{weight}{region}")), [100.0, 100.0, 100.0]);
    // All three share the region with four others, so that the other region does not divide them.
    let all = "[[region]]\nnetworks = [\"10.1.0.0/24\"]\nflows = 4.0\n";
    assert_eq!(rates(all), [100.0, 100.0, 100.0]);
}

/// A tunnel carries a call, and from the fourth second on a download: before the call is known again, its packets may pass the data, and
/// then its host is worth a probe, as nothing else shows a queue on its way.
#[test]
fn the_sound_of_a_tunnel_passes_its_data_and_its_host_is_to_be_probed() {
    let mut engine = Engine::new(settings(CONFIG));
    let mut digests = Vec::new();
    let mut packet = |at_ms: u64, direction, bytes| {
        digests.push(digest(Nanos::from_millis(at_ms), direction, 1, 5000, Payload::Udp, bytes));
    };
    for n in 0..1000 {
        packet(10_000 + 20 * n, Direction::ToMesh, 188);
        packet(10_007 + 20 * n, Direction::FromMesh, 188);
    }
    for n in 0..1600 {
        packet(14_003 + 10 * n, Direction::ToMesh, 1480);
        packet(14_004 + 10 * n, Direction::FromMesh, 124);
    }
    digests.sort_by_key(|digest| digest.at);
    let (mut passes, mut probed) = (None, None);
    let mut unreported = Unreported::default();
    run(&mut engine, &digests, |engine, now| {
        let orders = engine.orders();
        if orders.datagrams.iter().any(|(_, class)| *class == DatagramClass::ElasticBesideSound) {
            passes.get_or_insert(now);
        }
        if !unreported.choose(now, engine.controller().observer()).is_empty() {
            probed.get_or_insert(now);
        }
        let is_elastic = orders.datagrams.iter().any(|(_, class)| *class == DatagramClass::Elastic);
        assert!(!is_elastic || now < Nanos::from_millis(14_600), "the call is data at {now:?}");
    });
    assert!(passes.is_some_and(|at| at < Nanos::from_millis(14_700)), "{passes:?}");
    assert!(probed.is_some_and(|at| at < Nanos::from_secs(19)), "{probed:?}");
}

#[test]
fn data_sent_as_rtp_is_distrusted_within_two_seconds_and_calls_are_not() {
    let mut engine = Engine::new(settings(CONFIG));
    let mut digests = Vec::new();
    for n in 0..200 {
        let at = Nanos::from_millis(10_000 + 20 * n);
        digests.extend(call(at, 1, 160));
        digests.extend(call(at, 2, 1200));
    }
    let mut distrusted_at = None;
    run(&mut engine, &digests, |engine, now| {
        if engine.guard().total() > 0 {
            distrusted_at.get_or_insert(now);
        }
    });
    assert!(distrusted_at.is_some_and(|at| at <= Nanos::from_secs(12)), "{distrusted_at:?}");
    let orders = engine.orders();
    assert_eq!(orders.datagrams.len(), 1);
    let (key, class) = orders.datagrams[0];
    assert_eq!((key.mesh.to_string().as_str(), class), ("10.1.0.2", DatagramClass::Elastic));
    // Its loss no longer steers the controller: it is no call any more.
    let mut quiet = Vec::new();
    for n in 200..400 {
        let at = Nanos::from_millis(10_000 + 20 * n);
        quiet.extend(call(at, 1, 160));
        quiet.extend(call(at, 2, 1200));
    }
    run(&mut engine, &quiet, |_, _| {});
    let calls: Vec<_> = engine
        .controller()
        .observer()
        .calls(Nanos::from_secs(18), Nanos::from_secs(1))
        .map(|c| c.key.mesh)
        .collect();
    assert_eq!(calls.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.1.0.1"]);
}

/// A queue of five seconds at the way out of the mesh drains for two and a half: three times as many packets of a call leave it. A flow
/// that stays so fast is no call.
#[test]
fn a_call_whose_queue_of_seconds_drains_is_trusted_and_a_flow_that_stays_so_fast_is_not() {
    let distrusted_at = |is_queue: bool| {
        let mut engine = Engine::new(settings(CONFIG));
        let mut digests = Vec::new();
        for n in 0..1000_u64 {
            let sent = 10_000 + 20 * n;
            let at = match (is_queue, sent) {
                (_, ..12_000) | (true, 24_500..) => sent,
                (true, ..17_000) => 12_000 + 2 * (sent - 12_000),
                // From the time at which the queue is longest.
                (true, _) => 22_000 + (sent - 17_000) / 3,
                (false, _) => 12_000 + (sent - 12_000) / 3,
            };
            let [mut out, into] = call(Nanos::from_millis(sent), 1, 20);
            out.at = 1_000_000 * at;
            digests.extend([out, into]);
        }
        digests.sort_by_key(|digest| digest.at);
        let mut at = None;
        run(&mut engine, &digests, |engine, now| {
            if engine.guard().total() > 0 {
                at.get_or_insert(now);
            }
        });
        at
    };
    assert_eq!(distrusted_at(true), None);
    assert!(distrusted_at(false).is_some_and(|at| at < Nanos::from_secs(20)), "{:?}", distrusted_at(false));
}

#[test]
fn a_host_keeps_its_oldest_calls_within_its_rate() {
    // Each call has 160 kb/s with these sizes, and the host may have 400.
    let limits = "[voice]\nkbps_per_host = 400.0\n";
    let mut engine = Engine::new(settings(&format!("{CONFIG}{limits}")));
    let mut digests = Vec::new();
    for n in 0..400_u64 {
        let at = Nanos::from_millis(10_000 + 20 * n);
        for port in 0..8_u16 {
            // One call more every 400 ms.
            if n >= 20 * u64::from(port) {
                for mut digest in call(at, 3, 160) {
                    if digest.source_port == 5000 {
                        digest.source_port += port;
                    } else {
                        digest.destination_port += port;
                    }
                    digests.push(digest);
                }
            }
        }
    }
    run(&mut engine, &digests, |_, _| {});
    let mut ports: Vec<u16> = engine.guard().distrusted().map(|flow| flow.key.mesh_port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [5002, 5003, 5004, 5005, 5006, 5007]);
}

/// Also after the time in which the intervals of unknown protocols become known.
#[test]
fn rtp_outside_the_networks_of_telephones_is_no_call() {
    let networks = "[voice]\nnetworks = [\"10.1.0.1/32\"]\n";
    let mut engine = Engine::new(settings(&format!("{CONFIG}{networks}")));
    let digests: Vec<_> = (0..600)
        .flat_map(|n| {
            let at = Nanos::from_millis(10_000 + 20 * n);
            [call(at, 1, 160), call(at, 2, 160)].concat()
        })
        .collect();
    run(&mut engine, &digests, |_, _| {});
    let calls = engine.controller().observer().calls(Nanos::from_millis(21_980), Nanos::from_secs(1));
    assert_eq!(calls.map(|call| call.key.mesh.to_string()).collect::<Vec<_>>(), ["10.1.0.1"]);
}

#[test]
fn a_probe_steers_the_controller_and_is_neither_a_call_nor_distrusted() {
    let limits = "[voice]\nnetworks = [\"10.9.0.0/16\"]\nkbps_per_host = 10.0\nkbps_per_call = 10.0\n";
    let budget = |loses: bool| {
        let mut engine = Engine::new(settings(&format!("{CONFIG}{limits}")));
        let probe = Probe {
            gateway: Address::v4([10, 1, 0, 254]),
            host: Address::v4([10, 1, 0, 7]),
            identifier: 1,
            interval_ms: 40,
            bytes: Probe::VOICE_BYTES,
        };
        let mut digests = traffic(0, 8);
        for count in 0..200 {
            let at = Nanos::from_millis(10_000 + 40 * u64::from(count));
            digests.push(RawDigest::from(&probe.digest(at, Direction::ToMesh, count, 64)));
            // From the third second on, every fifth reply is lost.
            if !(loses && count > 75 && count % 5 == 0) {
                let at = at.saturating_add(Nanos::from_millis(9));
                digests.push(RawDigest::from(&probe.digest(at, Direction::FromMesh, count, 62)));
            }
        }
        digests.sort_by_key(|digest| digest.at);
        run(&mut engine, &digests, |_, _| {});
        let now = Nanos::from_millis(17_960);
        let calls: Vec<_> = engine.controller().observer().calls(now, Nanos::from_secs(1)).collect();
        assert!(calls.len() == 1 && calls[0].is_probe(), "{calls:?}");
        assert_eq!(calls[0].up.is_some_and(|up| up.loss > 0.1), loses);
        assert_eq!(engine.guard().distrusted().count(), 0);
        assert_eq!(engine.decision().and_then(|decision| decision.mos), None);
        engine.controller().budget().expect("an adaptive controller")
    };
    assert!(budget(true) < 0.3 * budget(false), "{} and {}", budget(true), budget(false));
}

#[test]
fn the_host_of_a_call_without_reports_is_to_be_probed_beside_an_upload_and_not_beside_a_download() {
    let chosen = |is_upload: bool, seconds: u64| {
        let mut engine = Engine::new(settings(CONFIG));
        let mut digests = traffic(1, seconds);
        // The server downloads from the mesh.
        for digest in digests.iter_mut().filter(|digest| is_upload && digest.protocol == PROTOCOL_TCP) {
            digest.direction = 1 - digest.direction;
            std::mem::swap(&mut digest.source, &mut digest.destination);
            std::mem::swap(&mut digest.source_port, &mut digest.destination_port);
        }
        let (mut unreported, mut hosts) = (Unreported::default(), Vec::new());
        run(&mut engine, &digests, |engine, now| {
            hosts = unreported.choose(now, engine.controller().observer()).to_vec();
        });
        hosts
    };
    assert_eq!(chosen(true, 7), []);
    assert_eq!(chosen(true, 9), [Address::v4([10, 1, 0, 1])]);
    assert_eq!(chosen(false, 9), []);
}

#[test]
fn a_flood_of_syns_does_not_evict_a_call() {
    let mut engine = Engine::new(settings(CONFIG));
    let mut digests = Vec::new();
    for n in 0..150_u64 {
        let at = Nanos::from_millis(10_000 + 20 * n);
        digests.extend(call(at, 1, 160));
        // 100,000 SYNs a second from the second second on, each a flow of its own.
        for k in 0..if n > 50 { 2000 } else { 0_u64 } {
            let number = n * 2000 + k;
            let at = at.saturating_add(Nanos(k * 10_000));
            digests.push(syn(at, (number / 65_536) as u8, number as u16));
        }
    }
    run(&mut engine, &digests, |_, _| {});
    let observer = engine.controller().observer();
    assert!(observer.table().evictions() > 100_000);
    let calls: Vec<_> = observer.calls(Nanos::from_millis(12_980), Nanos::from_secs(1)).collect();
    assert_eq!(calls.len(), 1);
    assert!(calls[0].mos().is_some_and(|mos| mos > 4.0));
}

#[test]
fn after_a_restart_the_budget_is_that_of_before() {
    let mut engine = Engine::new(settings(CONFIG));
    assert!(engine.resume(3.3e6));
    let mut budgets = Vec::new();
    run(&mut engine, &traffic(3, 2), |engine, _| budgets.extend(engine.controller().budget()));
    // A budget is lowered in the tick in which a call begins, and restored in the next one during the first second.
    let (min, max) = budgets.iter().skip(12).fold((f64::MAX, 0.0_f64), |(a, b), &x| (a.min(x), b.max(x)));
    assert!(min > 3.0e6 && max < 3.6e6, "{min} to {max}");
    let mut anew = Engine::new(settings(CONFIG));
    run(&mut anew, &traffic(3, 1), |_, _| {});
    assert!(anew.controller().budget().is_some_and(|budget| budget < 3.0e6));
    // Others do not have one budget.
    for other in ["kind = \"adaptive\"\nduplex = true", "kind = \"window\"\nwindow_packets = 4"] {
        let mut engine = Engine::new(settings(&CONFIG.replace("kind = \"adaptive\"", other)));
        run(&mut engine, &traffic(3, 1), |_, _| {});
        assert!(!engine.resume(3.3e6) && engine.controller().budget().is_none(), "{other}");
    }
}

/// In a dry run traffic obeys nobody, so that its budget says nothing; a reload in live mode keeps what was found.
#[test]
fn live_mode_begins_anew_after_a_dry_run_and_goes_on_over_a_reload() {
    let config = config(CONFIG);
    let settings = |mode| Settings::of(&config, &config.gateway[0], mode);
    for (mode, budget_of) in [(Mode::DryRun, 0.2e6..1.1e6), (Mode::Live, 2.0e6..1e9)] {
        let mut engine = Engine::new(settings(mode));
        engine.resume(3.3e6);
        let digests = traffic(3, 2);
        let half = digests.len() / 2;
        run(&mut engine, &digests[..half], |_, _| {});
        engine.set(settings(Mode::Live));
        run(&mut engine, &digests[half..half + 100], |_, _| {});
        let budget = engine.controller().budget().expect("a budget");
        assert!(budget_of.contains(&budget), "{mode:?}: {budget}");
    }
}

/// The bytes of a recording of a run. Before digest `n` of each `(n, event)`, that happens.
fn recording(digests: &[RawDigest], events: &[(usize, Event)]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.recording");
    let header = Header {
        fairhop_recording: FORMAT,
        version: "test".into(),
        gateway: "wlan0".into(),
        mode: "live".into(),
        unix_s: 0.0,
        began_in_the_middle: false,
        budget: None,
        connected: Vec::new(),
        config: CONFIG.into(),
    };
    let mut recorder = Recorder::begin(&path, &header, None, u64::MAX).expect("a recording");
    let mut engine = Engine::new(settings(CONFIG));
    let mut next = Nanos(digests[0].at).saturating_add(TICK);
    for (number, digest) in digests.iter().enumerate() {
        for (_, event) in events.iter().filter(|(before, _)| *before == number) {
            recorder.event(event).expect("space");
            match event {
                Event::Blind => engine.on_blind(),
                Event::Set { config, .. } => engine.set(settings(config)),
                Event::Connected(networks) => {
                    engine.set_connected(networks.iter().filter_map(|text| Network::read(text)).collect());
                }
            }
        }
        if digest.at >= next.0 {
            engine.tick(next, 3);
            recorder.tick(next, 3, &engine).expect("space");
            next = next.saturating_add(TICK);
        }
        recorder.digest(digest).expect("space");
        engine.on_digest(digest);
    }
    recorder.end().expect("space");
    std::fs::read(&path).expect("a recording")
}

#[test]
fn all_hosts_are_local_in_recordings_that_do_not_say() {
    let bytes = recording(&traffic(1, 1), &[]);
    let text = String::from_utf8_lossy(&bytes).replacen("\"connected\":[],", "", 1);
    let header: Header = serde_json::from_str(text.lines().next().expect("a header")).expect("an old header");
    let network = Network::read(&header.connected[0]).expect("a network");
    assert!(network.contains(Address::v4([192, 0, 2, 1])) && network.contains(Address::v6([0x20; 16])));
}

#[test]
fn a_replay_decides_as_recorded_and_another_config_shows_where_it_differs() {
    let bytes = recording(&traffic(5, 10), &[]);
    let read = |bytes: &[u8]| Reader::new("a.recording", Cursor::new(bytes.to_vec())).expect("a recording");
    let replay = |reader: &mut Reader<_>, first| replay(reader, first, &mut |_, text| Some(settings(text)));
    let outcome = replay(&mut read(&bytes), settings(CONFIG));
    assert!(outcome.is_same() && outcome.ticks > 90, "{:?}", outcome.differences.first());
    let other = format!("{CONFIG}first_budget_kbps = 500.0\n");
    let outcome = replay(&mut read(&bytes), settings(&other));
    assert!(outcome.differences.first().is_some_and(|difference| difference.at_s < 1.0), "{outcome:?}");
    // Cut anywhere, it is replayed up to there.
    let outcome = replay(&mut read(&bytes[..bytes.len() / 2]), settings(CONFIG));
    assert!(outcome.is_same() && (30..70).contains(&outcome.ticks), "{} ticks", outcome.ticks);

    // Over a datapath that is made anew, other networks and another config. A replay that knows nothing of that differs from there on.
    let digests = traffic(5, 10);
    let third = digests.len() / 3;
    let set = Event::Set { mode: "live".into(), config: other };
    let events =
        [(third, Event::Blind), (third, Event::Connected(vec!["192.0.2.0/24".into()])), (2 * third, set)];
    let bytes = recording(&digests, &events);
    let outcome = replay(&mut read(&bytes), settings(CONFIG));
    assert!(outcome.is_same() && outcome.ticks > 90, "{:?}", outcome.differences.first());
    let outcome = fairhop_gateway::record::replay(&mut read(&bytes), settings(CONFIG), &mut |_, _| None);
    assert!(outcome.differences.first().is_some_and(|difference| difference.at_s > 6.0), "{outcome:?}");
}

#[test]
fn a_damaged_recording_is_an_error_or_a_short_replay_and_never_a_panic() {
    let bytes = recording(&traffic(2, 2), &[]);
    let header = bytes.iter().position(|byte| *byte == b'\n').expect("a header") + 1;
    let mut random = 1_u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % bound
    };
    let mut ticks = 0;
    for n in 0..200 {
        let mut damaged = bytes.clone();
        // Single bytes anywhere, header included; then whole fields, at their minima and maxima.
        if n % 2 == 0 {
            for _ in 0..4 {
                let at = below(damaged.len());
                damaged[at] = below(256) as u8;
            }
            if let Ok(mut reader) = Reader::new("a.recording", Cursor::new(&damaged)) {
                ticks += replay(&mut reader, settings(CONFIG), &mut |_, _| None).ticks;
            }
        } else {
            for _ in 0..4 {
                let at = header + below(damaged.len() - header - 8);
                damaged[at..at + (1 << below(4))].fill([0, 0x7f, 0x80, 0xff][below(4)]);
            }
            ticks += check_recording::check(&damaged[header..]).ticks;
        }
    }
    assert!(ticks > 1000, "{ticks}");
    let error = Reader::new("notes.txt", Cursor::new(b"hello\n".to_vec())).expect_err("no recording");
    assert!(error.to_string().starts_with("notes.txt is not a recording"), "{error}");
}
