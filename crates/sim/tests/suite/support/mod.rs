//! A laboratory for tests: scenarios put together in a few lines, and a record of every frame and wired packet of their
//! runs.
// The lint exempts functions marked as tests only.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fairhop_model::phy::{Preamble, Rate, Standard};
use fairhop_model::units::Nanos;
use fairhop_sim::mac::{BROADCAST, Frame, FrameKind};
use fairhop_sim::packet::{Body, NodeId, PacketView};
use fairhop_sim::scenario::{
    Capture, Change, Internet, NamedPlace, NodeAt, Override, Place, Propagation, QueueLimit, Reception,
    Scenario, Topology, load, ready_made,
};
use fairhop_sim::world::control::Decided;
use fairhop_sim::world::{Tap, World};

/// Received power in dBm that is decoded in a [`Lab::of_links`].
pub(crate) const DECODED: f64 = -60.0;
/// Received power that locks the receiver but is not decoded.
pub(crate) const WEAK: f64 = -74.0;
/// Received power that is sensed as energy but does not lock the receiver.
pub(crate) const FELT: f64 = -84.0;

/// All neighbours.
pub(crate) const ALL: Place = Place::Named(NamedPlace::Broadcast);
/// The host behind the gateway.
pub(crate) const INTERNET: Place = Place::Named(NamedPlace::Internet);

pub(crate) const fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

pub(crate) const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// The keys `from` and `to` of an entry of the traffic.
fn ends(from: Place, to: Place) -> String {
    let [from, to] = [from, to].map(|place| toml::Value::try_from(place).unwrap());
    format!("from = {from}\nto = {to}\n")
}

pub(crate) fn node(number: u32) -> Place {
    Place::Node(number)
}

/// A change of the network during the run, from TOML.
pub(crate) fn change(text: &str) -> Change {
    toml::from_str(text).unwrap()
}

/// [`SeenPacket::number`] of RTCP reports, which the statistics of their call leave out.
pub(crate) const REPORT: u32 = u32::MAX;

/// A scenario under construction.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    pub(crate) scenario: Scenario,
    /// Packets added by [`Lab::packets`].
    packets: u64,
}

impl Lab {
    /// Nodes on a line, 30 m (100 ns of light) apart. Each of `links` is a pair of nodes and the received power in dBm, both
    /// ways; no other pair is in reach. Overlapping frames are lost (`none`) unless the test sets another capture rule.
    pub(crate) fn of_links(nodes: usize, links: &[(usize, usize, f64)]) -> Self {
        let mut lab = Self::at((0..nodes).map(|n| (30.0 * n as f64, 0.0)));
        lab.scenario.radio.propagation = Propagation::Matrix { loss_db: vec![vec![1000.0; nodes]; nodes] };
        lab.scenario.radio.tx_power_dbm = 0.0;
        lab.scenario.radio.sensitivity_dbm = Some(-70.0);
        lab.scenario.radio.preamble_detect_dbm = Some(-80.0);
        lab.scenario.radio.energy_detect_dbm = Some(-90.0);
        for &(a, b, dbm) in links {
            lab.hears(a, b, dbm);
            lab.hears(b, a, dbm);
        }
        lab
    }

    /// Nodes at places in metres under the range model (250 m, 550 m).
    pub(crate) fn at(places: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let nodes = places.into_iter().map(|(x_m, y_m)| NodeAt { x_m, y_m, waypoints: Vec::new() }).collect();
        let mut scenario: Scenario = toml::from_str(
            "name = \"test\"\nduration_s = 1.0\ntopology = { kind = \"explicit\", nodes = [] }",
        )
        .unwrap();
        scenario.topology = Topology::Explicit { nodes, gateway: 0.into() };
        scenario.radio.capture = Capture::None;
        scenario.record.interval_s = 0.1;
        Self { scenario, packets: 0 }
    }

    /// A ready-made scenario of this duration, without the traffic and changes that would begin later.
    pub(crate) fn ready(name: &str, duration_s: f64, warmup_s: f64) -> Self {
        let mut scenario = ready::<&str>(name, []);
        scenario.duration_s = duration_s;
        scenario.warmup_s = warmup_s;
        scenario.traffic.retain(|entry| entry.times().0 < duration_s);
        scenario.change.retain(|change| change.at_s() < duration_s);
        Self { scenario, packets: 0 }
    }

    /// The nodes and links of this laboratory with all the rest of another one.
    pub(crate) fn adopt(self, other: Self) -> Self {
        let mut lab = other;
        lab.scenario.topology = self.scenario.topology;
        lab.scenario.radio.propagation = self.scenario.radio.propagation;
        lab
    }

    /// In a [`Lab::of_links`]: sets the power at which node `to` receives node `from`, one way.
    pub(crate) fn hears(&mut self, to: usize, from: usize, dbm: f64) {
        if let Propagation::Matrix { loss_db } = &mut self.scenario.radio.propagation {
            loss_db[from][to] = -dbm;
        }
    }

    pub(crate) fn phy(mut self, phy: PhyCase) -> Self {
        let radio = &mut self.scenario.radio;
        (radio.standard, radio.rate_mbps, radio.preamble) = (phy.standard, phy.rate_mbps, phy.preamble);
        radio.basic_rates_mbps = phy.basic_mbps.map(<[f64]>::to_vec);
        self
    }

    pub(crate) fn rate(mut self, rate_mbps: f64, basic_mbps: &[f64]) -> Self {
        self.scenario.radio.rate_mbps = rate_mbps;
        self.scenario.radio.basic_rates_mbps = Some(basic_mbps.to_vec());
        self
    }

    pub(crate) fn capture(mut self, capture: Capture) -> Self {
        self.scenario.radio.capture = capture;
        self
    }

    pub(crate) fn reception(mut self, reception: Reception) -> Self {
        self.scenario.radio.reception = reception;
        self
    }

    pub(crate) fn rts(mut self) -> Self {
        self.scenario.mac.rts_threshold_bytes = Some(0);
        self
    }

    pub(crate) fn queue(mut self, limit: QueueLimit) -> Self {
        self.scenario.mac.queue = limit.into();
        self
    }

    pub(crate) fn attempts(mut self, short: u32, long: u32) -> Self {
        (self.scenario.mac.short_retry_limit, self.scenario.mac.long_retry_limit) = (short, long);
        self
    }

    pub(crate) fn internet(mut self, rate_mbps: f64, delay_ms: f64, queue: QueueLimit) -> Self {
        self.scenario.internet = Some(Internet { delay_ms, rate_mbps, queue: queue.into() });
        self
    }

    pub(crate) fn seconds(mut self, duration_s: f64) -> Self {
        self.scenario.duration_s = duration_s;
        self
    }

    pub(crate) fn with(mut self, traffic: &str) -> Self {
        self.scenario.traffic.push(toml::from_str(traffic).unwrap());
        self
    }

    /// `count` IP packets of `bytes` at once, at `at` plus a random time of up to `count` µs.
    pub(crate) fn packets(mut self, from: Place, to: Place, count: u32, bytes: u32, at: Nanos) -> Self {
        assert!(bytes <= 1250, "longer packets spread the start over more than a microsecond each");
        self.packets += u64::from(count);
        // 10 Gb/s: the interval over which the start is drawn is 0.8 ns a byte, and one interval lasts one burst.
        let own = if to == ALL {
            assert_eq!(count, 1);
            format!("kind = \"cbr\"\npayload_bytes = {}", bytes - 28)
        } else {
            format!("kind = \"burst\"\nburst_packets = {count}\npacket_bytes = {bytes}")
        };
        let interval_bytes = if to == ALL { bytes - 28 } else { count * bytes };
        let start_s = at.as_secs_f64();
        let stop_s = start_s + f64::from(interval_bytes) * 0.8e-9;
        let ends = ends(from, to);
        self.with(&format!("{own}\n{ends}rate_kbps = 1e7\nstart_s = {start_s:?}\nstop_s = {stop_s:?}"))
    }

    /// One IP packet of `bytes`.
    pub(crate) fn packet(self, from: Place, to: Place, bytes: u32, at: Nanos) -> Self {
        self.packets(from, to, 1, bytes, at)
    }

    /// IP packets of `bytes`, `per_second` of them.
    pub(crate) fn stream(self, from: Place, to: Place, bytes: u32, per_second: f64) -> Self {
        let payload_bytes = bytes - 28;
        let rate_kbps = per_second * f64::from(payload_bytes) * 8e-3;
        let ends = ends(from, to);
        self.with(&format!(
            "kind = \"cbr\"\n{ends}rate_kbps = {rate_kbps:?}\npayload_bytes = {payload_bytes}"
        ))
    }

    /// The [`World`], not yet run.
    pub(crate) fn world(&self, seed: u64) -> World {
        let findings = self.scenario.findings();
        assert!(findings.is_empty(), "{findings:?}");
        World::new(&self.scenario, seed).unwrap_or_else(|findings| panic!("{findings:?}"))
    }

    /// `count` runs of a scenario whose only traffic is [`Lab::packets`], under the seeds 1, 2, … without those that draw the
    /// very end of a start interval: that packet is never sent.
    pub(crate) fn runs(&self, count: usize) -> impl Iterator<Item = Run> {
        let complete = |run: &Run| {
            run.world.recorder().streams.iter().map(|stream| stream.sent).sum::<u64>() == self.packets
        };
        (1..).map(|seed| self.run(seed)).filter(complete).take(count)
    }

    /// Runs to the end and returns everything that was seen.
    pub(crate) fn run(&self, seed: u64) -> Run {
        let mut world = self.world(seed);
        let seen = Arc::new(Mutex::new(Sights::default()));
        world.set_tap(Box::new(Watch(Arc::clone(&seen))));
        world.run();
        let Sights { frames, wired } = std::mem::take(&mut *seen.lock().unwrap());
        Run { world, frames, wired }
    }
}

/// A physical layer and its times in µs, worked out by hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhyCase {
    pub(crate) standard: Standard,
    pub(crate) rate_mbps: f64,
    pub(crate) preamble: Preamble,
    pub(crate) basic_mbps: Option<&'static [f64]>,
    /// An IP packet of 1200 bytes, 1236 on the air.
    pub(crate) data: u64,
    /// ACK or CTS.
    pub(crate) ack: u64,
    pub(crate) ack_rate: Rate,
    pub(crate) rts: u64,
    pub(crate) slot: u64,
    pub(crate) sifs: u64,
    pub(crate) difs: u64,
    pub(crate) eifs: u64,
    /// From the end of a frame to the timeout of its response.
    pub(crate) timeout: u64,
    pub(crate) cw_min: u32,
}

/// Bytes of the IP packet of which [`PhyCase::data`] is the time.
pub(crate) const IP_BYTES: u32 = 1200;

/// 1236 bytes are 9888 bits; with service and tail 9910. An ACK has 112 bits (134), an RTS 160 (182).
/// DIFS = SIFS + 2 slots; EIFS = SIFS + ACK at the lowest mandatory rate + DIFS; timeout = SIFS + slot + preamble and
/// header of the answer.
pub(crate) const PHYS: [PhyCase; 5] = [
    PhyCase {
        // 48 bits a symbol: 207, 3 and 4 symbols of 4 µs behind 20 µs. EIFS: 16 + 44 + 34.
        standard: Standard::Dot11a,
        rate_mbps: 12.0,
        preamble: Preamble::Long,
        basic_mbps: None,
        data: 20 + 4 * 207,
        ack: 20 + 4 * 3,
        ack_rate: Rate::Ofdm12,
        rts: 20 + 4 * 4,
        slot: 9,
        sifs: 16,
        difs: 16 + 2 * 9,
        eifs: 16 + 44 + 34,
        timeout: 16 + 9 + 20,
        cw_min: 15,
    },
    PhyCase {
        // 216 bits a symbol: 46 symbols; basic rate 6 Mb/s alone, 24 bits a symbol: 6 and 8 symbols.
        standard: Standard::Dot11a,
        rate_mbps: 54.0,
        preamble: Preamble::Long,
        basic_mbps: Some(&[6.0]),
        data: 20 + 4 * 46,
        ack: 20 + 4 * 6,
        ack_rate: Rate::Ofdm6,
        rts: 20 + 4 * 8,
        slot: 9,
        sifs: 16,
        difs: 16 + 2 * 9,
        eifs: 16 + 44 + 34,
        timeout: 16 + 9 + 20,
        cw_min: 15,
    },
    PhyCase {
        // 9888 / 11 → 899 µs; ACK and RTS at 2 Mb/s: 56 and 80 µs. EIFS with an ACK at 1 Mb/s: 10 + 304 + 50.
        standard: Standard::Dot11b,
        rate_mbps: 11.0,
        preamble: Preamble::Long,
        basic_mbps: None,
        data: 192 + 899,
        ack: 192 + 56,
        ack_rate: Rate::Dsss2,
        rts: 192 + 80,
        slot: 20,
        sifs: 10,
        difs: 10 + 2 * 20,
        eifs: 10 + 304 + 50,
        timeout: 10 + 20 + 192,
        cw_min: 31,
    },
    PhyCase {
        // The short preamble for all but the 1 Mb/s of EIFS.
        standard: Standard::Dot11b,
        rate_mbps: 11.0,
        preamble: Preamble::Short,
        basic_mbps: None,
        data: 96 + 899,
        ack: 96 + 56,
        ack_rate: Rate::Dsss2,
        rts: 96 + 80,
        slot: 20,
        sifs: 10,
        difs: 10 + 2 * 20,
        eifs: 10 + 304 + 50,
        timeout: 10 + 20 + 96,
        cw_min: 31,
    },
    PhyCase {
        // 6 µs of signal extension after every frame; answers at 24 Mb/s, 96 bits a symbol. EIFS: 10 + 50 + 28.
        standard: Standard::Dot11g,
        rate_mbps: 54.0,
        preamble: Preamble::Long,
        basic_mbps: None,
        data: 20 + 4 * 46 + 6,
        ack: 20 + 4 * 2 + 6,
        ack_rate: Rate::Ofdm24,
        rts: 20 + 4 * 2 + 6,
        slot: 9,
        sifs: 10,
        difs: 10 + 2 * 9,
        eifs: 10 + 50 + 28,
        timeout: 10 + 9 + 20,
        cw_min: 15,
    },
];

/// A packet seen on the air or on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenPacket {
    pub(crate) stream: u32,
    /// Sequence number in a stream of datagrams, or [`REPORT`].
    pub(crate) number: u32,
    pub(crate) bytes: u32,
    pub(crate) created: Nanos,
}

impl SeenPacket {
    fn of(packet: PacketView<'_>) -> Self {
        let number = match packet.body {
            Body::Udp { sequence } | Body::Rtp { sequence, .. } | Body::Echo { sequence, .. } => sequence,
            Body::Aimd(datagram) => datagram.seq.get(),
            Body::AimdAck(ack) => ack.seq.get(),
            Body::Quic { number, .. } => number,
            Body::Tcp(_) | Body::Real { .. } | Body::Routing => 0,
            Body::Rtcp(_) => REPORT,
        };
        Self { stream: packet.stream, number, bytes: packet.bytes, created: packet.created }
    }
}

/// A frame that a station sent or received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) node: NodeId,
    pub(crate) received: bool,
    /// Start at the node's antenna.
    pub(crate) at: Nanos,
    /// End at the node's antenna.
    pub(crate) end: Nanos,
    pub(crate) from: NodeId,
    pub(crate) to: u32,
    pub(crate) kind: FrameKind,
    pub(crate) rate: Rate,
    pub(crate) bytes: u32,
    pub(crate) retry: bool,
    pub(crate) sequence: u16,
    pub(crate) nav: Nanos,
    pub(crate) packet: Option<SeenPacket>,
}

impl Seen {
    pub(crate) fn is_data(&self) -> bool {
        self.kind == FrameKind::Data
    }

    pub(crate) fn is_broadcast(&self) -> bool {
        self.to == BROADCAST
    }

    pub(crate) fn time(&self) -> Nanos {
        self.end - self.at
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.at < other.end && other.at < self.end
    }
}

/// A packet that entered or left a wired link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenWired {
    pub(crate) node: NodeId,
    pub(crate) at: Nanos,
    pub(crate) packet: SeenPacket,
    pub(crate) arrived: bool,
}

#[derive(Debug, Default)]
struct Sights {
    frames: Vec<Seen>,
    wired: Vec<SeenWired>,
}

struct Watch(Arc<Mutex<Sights>>);

impl Tap for Watch {
    fn frame(
        &mut self,
        node: NodeId,
        at: Nanos,
        frame: &Frame,
        from: NodeId,
        packet: Option<PacketView<'_>>,
        received: bool,
    ) {
        self.0.lock().unwrap().frames.push(Seen {
            node,
            received,
            at,
            end: at + frame.time,
            from,
            to: frame.to,
            kind: frame.kind,
            rate: frame.rate,
            bytes: frame.bytes,
            retry: frame.retry,
            sequence: frame.sequence,
            nav: frame.nav,
            packet: packet.map(SeenPacket::of),
        });
    }

    fn wired(&mut self, node: NodeId, _peer: NodeId, at: Nanos, packet: PacketView<'_>, arrived: bool) {
        self.0.lock().unwrap().wired.push(SeenWired { node, at, packet: SeenPacket::of(packet), arrived });
    }
}

/// A finished run.
pub(crate) struct Run {
    pub(crate) world: World,
    /// Every frame sent and received, in the order of the events.
    pub(crate) frames: Vec<Seen>,
    /// Every packet that entered or left a wired link.
    pub(crate) wired: Vec<SeenWired>,
}

impl Run {
    pub(crate) fn sent(&self, node: NodeId) -> impl Iterator<Item = &Seen> {
        self.frames.iter().filter(move |frame| !frame.received && frame.node == node)
    }

    pub(crate) fn sent_kind(&self, node: NodeId, kind: FrameKind) -> Vec<&Seen> {
        self.sent(node).filter(|frame| frame.kind == kind).collect()
    }

    pub(crate) fn data(&self, node: NodeId) -> Vec<&Seen> {
        self.sent_kind(node, FrameKind::Data)
    }

    pub(crate) fn received(&self, node: NodeId) -> impl Iterator<Item = &Seen> {
        self.frames.iter().filter(move |frame| frame.received && frame.node == node)
    }

    /// The reception of a sent frame at a node, where it was received.
    pub(crate) fn reception(&self, of: &Seen, at: NodeId) -> Option<&Seen> {
        let delay = self.delay(of.node, at);
        self.received(at).find(|frame| frame.from == of.node && frame.at == of.at + delay)
    }

    /// Propagation delay.
    pub(crate) fn delay(&self, from: NodeId, to: NodeId) -> Nanos {
        self.world
            .links()
            .between(from as usize, to as usize)
            .map_or(Nanos::ZERO, fairhop_sim::radio::Link::delay)
    }

    /// The hops (from, to) of a stream's packets, by the data frames that were received.
    pub(crate) fn hops(&self, stream: u32) -> Vec<(NodeId, NodeId)> {
        let mut hops = Vec::new();
        for frame in self.frames.iter().filter(|f| f.received && f.is_data()) {
            let hop = (frame.from, frame.node);
            if frame.to == frame.node && frame.packet.unwrap().stream == stream && !hops.contains(&hop) {
                hops.push(hop);
            }
        }
        hops
    }
}

/// The whole number of slots from `free` to `start`; `None` where it is not whole or `start` is earlier.
pub(crate) fn slots(start: Nanos, free: Nanos, slot: Nanos) -> Option<u64> {
    let wait = start.0.checked_sub(free.0)?;
    wait.is_multiple_of(slot.0).then_some(wait / slot.0)
}

/// Asserts that counts of equally likely outcomes are spread evenly: chi-square at 1 in 1000, with the critical value
/// of Wilson and Hilferty (1931).
pub(crate) fn assert_uniform(counts: &[u64], what: &str) {
    let total: u64 = counts.iter().sum();
    let expected = total as f64 / counts.len() as f64;
    assert!(expected >= 5.0, "{what}: too few draws ({total}) for {} outcomes", counts.len());
    let chi_square: f64 = counts.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64 - 1.0;
    let spread = 2.0 / (9.0 * freedom);
    let critical = freedom * (1.0 - spread + 3.09 * spread.sqrt()).powi(3);
    assert!(chi_square < critical, "{what}: chi-square {chi_square:.1} of {critical:.1}, counts {counts:?}");
}

/// Asserts that `hits` of `trials` agree with a probability within 4.5 standard deviations.
pub(crate) fn assert_chance(hits: u64, trials: u64, chance: f64, what: &str) {
    let (hits, trials) = (hits as f64, trials as f64);
    let deviation = (trials * chance * (1.0 - chance)).sqrt();
    assert!(
        (hits - trials * chance).abs() <= 4.5 * deviation,
        "{what}: {hits} of {trials}, expected {:.1} ± {deviation:.1}",
        trials * chance
    );
}

/// A ready-made scenario with these changes, as `--set` has them.
pub(crate) fn ready<S: Into<String>>(name: &str, sets: impl IntoIterator<Item = S>) -> Scenario {
    let ready = ready_made(name).expect("a ready-made scenario");
    let sets: Vec<_> = sets.into_iter().map(Override::new).collect();
    load(&ready.file_name(), ready.text, &sets).unwrap_or_else(|e| panic!("{name}: {e}")).scenario
}

/// The largest budget between two times in seconds, in bits per second times hops.
pub(crate) fn max_budget(decisions: &[Decided], from: f64, until: f64) -> f64 {
    let within = decisions.iter().map(|one| one.decision);
    within
        .filter(|one| (from..until).contains(&one.at.as_secs_f64()))
        .filter_map(|one| one.budget)
        .fold(0.0, f64::max)
}

/// The results of `job` for all items, computed on all cores.
pub(crate) fn on_all_cores<T: Sync, R: Send>(items: &[T], job: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.map_while(|n| items.get(n).map(|item| (n, job(item)))).collect::<Vec<_>>()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread that ends")).collect()
    });
    found.sort_by_key(|&(n, _)| n);
    found.into_iter().map(|(_, result)| result).collect()
}
