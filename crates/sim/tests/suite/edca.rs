//! EDCA against the numbers of IEEE 802.11-2020, 10.23.2 and table 9-155, and against a model of saturated categories.

#![allow(clippy::unwrap_used)]

use crate::support::*;
use fairhop_model::bianchi::{AfterCollision, Contention, Exchange};
use fairhop_model::edca::{Class, saturation};
use fairhop_model::phy::{Phy, Preamble, Standard, frame};
use fairhop_model::units::Nanos;
use fairhop_sim::mac::FrameKind;
use fairhop_sim::scenario::{QueueLimit, Scenario};
use fairhop_sim::world::World;

/// Propagation over 30 m: 100 ns.
const HOP: Nanos = Nanos(100);

/// A name of a codepoint for each category, from the lowest: background, best effort, video, voice.
const DSCP: [&str; 4] = ["CS1", "BE", "AF41", "EF"];

/// Station 0 always has packets of 1200 bytes for station 1, in one category; 802.11a at 12 Mb/s.
fn saturated(edca: &str, dscp: &str) -> Run {
    let mut lab = Lab::of_links(2, &[(0, 1, DECODED)]).phy(PHYS[0]).seconds(0.3).with(&format!(
        "kind = \"cbr\"\nfrom = 0\nto = 1\nrate_kbps = 20000\npayload_bytes = 1172\ndscp = \"{dscp}\""
    ));
    lab.scenario.mac = toml::from_str(edca).unwrap();
    lab.run(1)
}

#[test]
fn a_category_waits_its_aifs_and_0_to_cwmin_slots_by_table_9_155() {
    let phy = PHYS[0];
    let none = "txop_limit_us = 0";
    let edca = format!(
        "edca = {{ background = {{ {none} }}, best_effort = {{ {none} }}, video = {{ {none} }}, voice = {{ {none} }} }}"
    );
    // AIFS = SIFS + AIFSN slots: 79, 43, 34 and 34 µs.
    for (dscp, aifs, cw_min) in [(DSCP[0], 79, 15), (DSCP[1], 43, 15), (DSCP[2], 34, 7), (DSCP[3], 34, 3)] {
        let run = saturated(&edca, dscp);
        let data = run.data(0);
        let mut backoffs = vec![0; cw_min + 1];
        for pair in data.windows(2) {
            // Data, 100 ns of light, SIFS, ACK, and light again.
            let answered = pair[0].end + HOP * 2 + us(phy.sifs + phy.ack);
            let k = slots(pair[1].at, answered + us(aifs), us(phy.slot)).expect("whole slots after AIFS");
            backoffs[k as usize] += 1;
        }
        assert!(data.len() > 250 && data[0].bytes == frame::of_ip_packet(IP_BYTES) + 2);
        assert_uniform(&backoffs, dscp);
    }
}

#[test]
fn a_txop_holds_as_many_frames_as_fit_in_its_limit_a_sifs_apart() {
    let phy = PHYS[0];
    // 1238 bytes are 9926 bits with service and tail, 207 symbols: 848 µs; with SIFS and ACK 896, and 912 to the next frame.
    // 2528 µs and 2080 µs hold 2 (1808 µs; three need 2720), 4096 µs holds 4 (3632 µs; five need 4544).
    for (dscp, frames) in [(DSCP[0], 2), (DSCP[1], 2), (DSCP[2], 4), (DSCP[3], 2)] {
        let run = saturated("edca = true", dscp);
        let data = run.data(0);
        let sifs_apart =
            |pair: &[&Seen]| pair[1].at == pair[0].end + HOP * 2 + us(phy.sifs + phy.ack + phy.sifs);
        let mut txops = vec![1];
        for pair in data.windows(2) {
            assert_eq!(pair[0].time(), us(848));
            if sifs_apart(pair) {
                *txops.last_mut().unwrap() += 1;
            } else {
                txops.push(1);
            }
        }
        // The first packet found the medium idle and the queue empty; the last TXOP may be cut.
        assert!(txops.len() > 50);
        assert!(txops[1..txops.len() - 1].iter().all(|&n| n == frames), "{dscp}: {txops:?}");
    }
}

#[test]
fn if_two_categories_are_due_in_a_slot_the_higher_one_sends_and_the_lower_one_counts_a_failure() {
    // No backoff, equal AIFS, one frame a TXOP: voice and background want every slot.
    let same = "cw_min = 0, cw_max = 0, aifsn = 2, txop_limit_us = 0";
    let mut lab = Lab::of_links(2, &[(0, 1, DECODED)]).phy(PHYS[0]).seconds(0.3);
    lab.scenario.mac =
        toml::from_str(&format!("edca = {{ background = {{ {same} }}, voice = {{ {same} }} }}")).unwrap();
    for (dscp, start_s) in [("EF", 0.0), ("CS1", 0.01)] {
        lab = lab.with(&format!(
            "kind = \"cbr\"\nfrom = 0\nto = 1\nrate_kbps = 20000\npayload_bytes = 1172\ndscp = \"{dscp}\"\nstart_s = {start_s}"
        ));
    }
    let run = lab.run(1);
    let streams = |stream| run.data(0).iter().filter(|f| f.packet.unwrap().stream == stream).count();
    assert!(streams(0) > 300);
    assert_eq!(streams(2), 0, "background never has a slot for itself");
    let record = &run.world.recorder().streams[2];
    // A packet is dropped after losing seven slots to voice: about one for seven of voice.
    let dropped = record.lost[fairhop_sim::recorder::Loss::RetryLimit as usize];
    let voice = streams(0) as f64 * 0.29 / 0.3;
    assert!((dropped as f64 - voice / 7.0).abs() < 3.0, "{dropped} dropped in {voice} slots");
    assert_eq!(run.sent(0).filter(|frame| frame.retry).count(), 0, "nothing was on the air before");
}

#[test]
fn stations_respond_between_txops_and_every_packet_has_one_fate() {
    // Hidden stations on a string, all categories both ways, RTS for long frames, and losses of every kind.
    let mut lab =
        Lab::of_links(4, &[(0, 1, DECODED), (1, 2, DECODED), (2, 3, DECODED), (0, 2, WEAK), (1, 3, WEAK)])
            .phy(PHYS[0])
            .queue(QueueLimit::Packets(10))
            .seconds(20.0);
    lab.scenario.mac.edca = toml::from_str::<fairhop_sim::scenario::Mac>("edca = true").unwrap().edca;
    lab.scenario.mac.rts_threshold_bytes = Some(700);
    for (index, dscp) in DSCP.iter().enumerate() {
        let bytes = 100 + 400 * index;
        for (from, to) in [(0, 3), (3, 0)] {
            lab = lab.with(&format!(
                "kind = \"cbr\"\nname = \"{dscp} {from}\"\nfrom = {from}\nto = {to}\nrate_kbps = 300\npayload_bytes = {bytes}\n\
                 dscp = \"{dscp}\""
            ));
        }
    }
    for seed in 1..=3 {
        let run = lab.run(seed);
        for (stream, record) in run.world.recorder().streams.iter().enumerate().step_by(2) {
            let waiting = record.sent - record.arrived - record.lost_total();
            assert!(record.arrived > 0 && record.lost_total() > 0, "stream {stream}");
            assert!(waiting <= 40, "stream {stream}: {waiting} packets of unknown fate");
        }
        assert!(run.sent(1).any(|frame| frame.kind == FrameKind::Rts));
    }
}

/// The parameters of table 9-155 for 802.11a: CWmin, CWmax, AIFSN.
const TABLE: [(u32, u32, u64); 4] = [(15, 1023, 7), (15, 1023, 3), (7, 15, 2), (3, 7, 2)];
const ATTEMPTS: u32 = 7;

/// Mb/s of payload of each category over all stations: every station always has packets in each of its categories, on a small
/// circle around station 0; 802.11a at 24 Mb/s, one frame a TXOP.
fn simulated(stations: &[Vec<usize>]) -> [f64; 4] {
    let duration_s = 31.0;
    let txop = "txop_limit_us = 0";
    let mut text = format!(
        r#"
        name = "categories"
        duration_s = {duration_s:?}
        warmup_s = 1.0
        radio = {{ standard = "802.11a", rate_mbps = 24.0, basic_rates_mbps = [24.0], capture = "none" }}
        topology = {{ kind = "ring", nodes = {}, spacing_m = 1.0 }}
        [mac]
        long_retry_limit = {ATTEMPTS}
        queue = {{ packets = 3 }}
        edca = {{ background = {{ {txop} }}, best_effort = {{ {txop} }}, video = {{ {txop} }}, voice = {{ {txop} }} }}
        "#,
        (stations.len() + 1).max(3),
    );
    for (station, categories) in stations.iter().enumerate() {
        for &category in categories {
            text += &format!(
                "[[traffic]]\nkind = \"cbr\"\nfrom = {}\nto = 0\nrate_kbps = 30000\npayload_bytes = 1472\ndscp = \"{}\"\n",
                station + 1,
                DSCP[category]
            );
        }
    }
    let scenario: Scenario = toml::from_str(&text).unwrap();
    let mut world = World::new(&scenario, 1).unwrap();
    world.run();
    let mut mbps = [0.0; 4];
    let categories = stations.iter().flatten();
    for (&category, record) in categories.zip(world.recorder().streams.iter().step_by(2)) {
        mbps[category] += record.delivered_bytes as f64 * 8e-6 / (duration_s - 1.0);
    }
    mbps
}

/// A frame of the cell. The busy period ends with DIFS, the shortest AIFS. Senders and bystanders of a collision wait alike: 45 µs
/// for an answer that does not come, or EIFS − DIFS = 16 + 28 µs.
fn exchange() -> Exchange {
    let phy = Phy::new(Standard::Dot11a, Preamble::Long);
    let rate = phy.standard.rate(24.0).unwrap();
    Exchange::basic_access(&phy, rate, &[rate], 1502, 1472, AfterCollision::ResponseTimeout)
}

/// The same computed slot by slot from the standard's rules: at the beginning of each slot after its AIFS, a category sends,
/// loses to a higher one of its station, or subtracts one slot from its backoff (10.23.2.4).
fn slot_by_slot(stations: &[Vec<usize>]) -> [f64; 4] {
    struct Contender {
        category: usize,
        backoff: u32,
        cw: u32,
        failures: u32,
    }
    let mut state = 1_u64;
    // SplitMix64; the windows are powers of two.
    let mut draw = |cw: u32| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) as u32) & cw
    };
    let mut cell: Vec<Vec<Contender>> = stations
        .iter()
        .map(|categories| {
            let contender = |&category: &usize| {
                let cw = TABLE[category].0;
                Contender { category, backoff: draw(cw), cw, failures: 0 }
            };
            categories.iter().map(contender).collect()
        })
        .collect();
    let Exchange { payload_bits, slot, success, collision } = exchange();
    let (mut time, mut idle_slots, mut delivered) = (0.0, 0, [0.0; 4]);
    while time < 300.0 {
        let mut senders = Vec::new();
        let mut failed = Vec::new();
        for (station, contenders) in cell.iter_mut().enumerate() {
            let mut due: Vec<usize> = Vec::new();
            for (index, contender) in contenders.iter_mut().enumerate() {
                if idle_slots + 2 < TABLE[contender.category].2 {
                    continue;
                }
                match contender.backoff.checked_sub(1) {
                    Some(left) => contender.backoff = left,
                    None => due.push(index),
                }
            }
            due.sort_by_key(|&index| contenders[index].category);
            senders.extend(due.pop().map(|index| (station, index)));
            failed.extend(due.into_iter().map(|index| (station, index)));
        }
        idle_slots += 1;
        match senders[..] {
            [] => time += slot.as_secs_f64(),
            [(station, index)] => {
                time += success.as_secs_f64();
                let sender = &mut cell[station][index];
                delivered[sender.category] += payload_bits;
                (sender.cw, sender.failures) = (TABLE[sender.category].0, 0);
                sender.backoff = draw(sender.cw);
                idle_slots = 0;
            }
            _ => {
                time += collision.as_secs_f64();
                failed.append(&mut senders);
                idle_slots = 0;
            }
        }
        for (station, index) in failed {
            let loser = &mut cell[station][index];
            let (cw_min, cw_max, _) = TABLE[loser.category];
            loser.failures += 1;
            let is_last = loser.failures == ATTEMPTS;
            (loser.cw, loser.failures) =
                if is_last { (cw_min, 0) } else { ((2 * loser.cw + 1).min(cw_max), loser.failures) };
            loser.backoff = draw(loser.cw);
        }
    }
    delivered.map(|bits| bits * 1e-6 / time)
}

/// Stations with one category each, by (category, number of stations).
fn one_each(classes: &[(usize, usize)]) -> Vec<Vec<usize>> {
    classes.iter().flat_map(|&(category, count)| vec![vec![category]; count]).collect()
}

#[test]
fn saturated_categories_share_the_medium_as_in_a_slot_by_slot_computation_of_the_standard() {
    println!("stations: background, best effort, video, voice, Mb/s simulated / slot by slot");
    let mut worst: f64 = 0.0;
    for stations in [
        one_each(&[(1, 10), (0, 5)]),
        one_each(&[(2, 1), (1, 5)]),
        one_each(&[(3, 2)]),
        one_each(&[(3, 1), (1, 2)]),
        one_each(&[(3, 1), (2, 1), (1, 2), (0, 2)]),
        // With internal collisions.
        vec![vec![0, 1, 2, 3]],
        vec![vec![0, 1, 2, 3]; 2],
        vec![vec![1, 2]; 5],
    ] {
        let (simulated, expected) = (simulated(&stations), slot_by_slot(&stations));
        println!("{stations:?}: {simulated:.3?} / {expected:.3?}");
        let whole: f64 = expected.iter().sum();
        for (simulated, expected) in simulated.iter().zip(expected) {
            worst = worst.max((simulated - expected).abs() / whole);
        }
    }
    println!("worst: {:.2} % of the cell's throughput", worst * 100.0);
    // Statistics of thirty seconds, and the microsecond by which EIFS is shorter than the timeout.
    assert!(worst <= 0.015, "{:.2} % off", worst * 100.0);
}

#[test]
fn saturated_categories_agree_with_the_model_to_1_or_2_percent_and_to_5_with_voice_windows() {
    println!("(category, stations): simulated / model, Mb/s");
    for (classes, max) in [
        (&[(1, 5)][..], 0.01),
        (&[(1, 3), (0, 3)], 0.01),
        (&[(1, 10), (0, 5)], 0.01),
        (&[(2, 1), (1, 5)], 0.01),
        (&[(2, 2)], 0.02),
        // The model takes collisions for independent of the past, which two stations with 4 values of backoff are not.
        (&[(3, 2)], 0.05),
        (&[(3, 1), (1, 2)], 0.05),
        (&[(3, 1), (2, 1), (1, 2), (0, 2)], 0.02),
    ] {
        let earliest = classes.iter().map(|&(category, _)| TABLE[category].2).min().unwrap();
        let mut exchange = exchange();
        let longer = exchange.slot * (earliest - 2);
        (exchange.success, exchange.collision) = (exchange.success + longer, exchange.collision + longer);
        let class = |&(category, stations): &(usize, usize)| {
            let (cw_min, cw_max, aifsn) = TABLE[category];
            let stages = ((cw_max + 1) / (cw_min + 1)).ilog2();
            let contention = Contention { window: cw_min + 1, stages, attempts: Some(ATTEMPTS) };
            Class { stations: stations as u32, contention, later: (aifsn - earliest) as u32, exchange }
        };
        let model: Vec<f64> = saturation(&classes.iter().map(class).collect::<Vec<_>>())
            .iter()
            .map(|share| share.throughput_bps * 1e-6)
            .collect();
        let simulated = simulated(&one_each(classes));
        let simulated: Vec<f64> = classes.iter().map(|&(category, _)| simulated[category]).collect();
        println!("{classes:?}: {simulated:.3?} / {model:.3?}");
        let whole: f64 = model.iter().sum();
        for (simulated, model) in simulated.iter().zip(&model) {
            let off = (simulated - model).abs() / whole;
            assert!(off <= max, "{classes:?}: {:.2} % of the cell's throughput", off * 100.0);
        }
    }
}
