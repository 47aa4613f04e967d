//! Gates: openings are where data meets no call, and a pacer obeys them.

use fairhop_control::FlowKey;
use fairhop_control::gate::{Gate, GateSpec};
use fairhop_control::pacer::{Pacer, PacerConfig};
use fairhop_model::units::{BitRate, Nanos};
use proptest::prelude::*;

const PERIOD: Nanos = Nanos::from_millis(20);

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn spec(packets: usize) -> GateSpec {
    GateSpec { guard: ms(1), clear: ms(5), step: ms(4), packets }
}

#[test]
fn openings_are_where_the_next_call_is_farthest() {
    let openings = |arrivals: &[Nanos], packets| {
        Gate::plan(PERIOD, &mut arrivals.to_vec(), spec(packets)).map(|gate| gate.openings().to_vec())
    };
    // Packets of calls come at 2, 5 and 17 ms of 20: gaps of 3, 12 and 5 ms.
    let calls = [ms(5), ms(37), ms(2)];
    assert_eq!(openings(&calls, 1), Some(vec![ms(6)]));
    // A second one 4 ms later is 7 ms before the next call; a third would be 3 ms before it, and one in the gap at 17 ms 4 ms.
    assert_eq!(openings(&calls, 2), Some(vec![ms(6), ms(10)]));
    assert_eq!(openings(&calls, 3), None);
    assert_eq!(openings(&[], 1), None);
    // One call: from 3 ms, every 4 ms, up to 5 ms before its next packet.
    assert_eq!(openings(&[ms(2)], 4), Some(vec![ms(3), ms(7), ms(11), ms(15)]));
}

#[test]
fn openings_repeat_every_period() {
    let Some(gate) = Gate::plan(PERIOD, &mut [ms(18)], spec(3)) else { panic!("no gate") };
    assert_eq!(gate.openings(), [ms(3), ms(7), ms(19)]);
    assert_eq!((gate.last(ms(19)), gate.next(ms(19))), (ms(19), ms(23)));
    assert_eq!((gate.last(ms(44)), gate.next(ms(44))), (ms(43), ms(47)));
    assert_eq!((gate.last(ms(42)), gate.next(ms(27))), (ms(39), ms(39)));
}

/// A packet of 1500 bytes takes 25 ms at the rate, and the gate opens every 20 ms: it makes each packet wait, but the waits do
/// not add up.
#[test]
fn a_gate_does_not_lower_the_rate() {
    let spec = GateSpec { guard: ms(1), clear: ms(2), step: ms(2), packets: 1 };
    let mut pacer = Pacer::new(PacerConfig::default());
    pacer.set_aggregate(Some(BitRate(480_000)));
    pacer.set_gate(Gate::plan(PERIOD, &mut [Nanos::ZERO], spec));
    (0..100).for_each(|packet| {
        assert_eq!(pacer.offer(Nanos::ZERO, &FlowKey::default(), 1500, false, packet), None);
    });
    let (mut now, mut sent) = (Nanos::ZERO, 0);
    while let Some(at) = pacer.next_time(now).filter(|&at| at <= ms(1000)) {
        now = at;
        sent += u32::from(pacer.poll(now).is_some());
    }
    assert!((39..=41).contains(&sent), "{sent} packets in 1 s");
}

proptest! {
    /// Every opening is at least the guard after the last packet of a call, and at least the clearance before the next one.
    #[test]
    fn no_opening_is_near_a_call(
        arrivals in prop::collection::vec(0_u64..40_000_000, 1..12),
        guard in 0_u64..3_000_000,
        clear in 0_u64..10_000_000,
        step in 1_u64..8_000_000,
        packets in 1_usize..40,
    ) {
        let spec = GateSpec { guard: Nanos(guard), clear: Nanos(clear), step: Nanos(step), packets };
        let mut sorted: Vec<Nanos> = arrivals.iter().copied().map(Nanos).collect();
        if let Some(gate) = Gate::plan(PERIOD, &mut sorted, spec) {
            prop_assert_eq!(gate.count(), packets.min(Gate::MAX_OPENINGS));
            for opening in gate.openings() {
                for arrival in &arrivals {
                    let since = (opening.0 + PERIOD.0 - arrival % PERIOD.0) % PERIOD.0;
                    prop_assert!(since >= guard || since == 0, "{since}");
                    prop_assert!(PERIOD.0 - since >= clear, "{since}");
                }
            }
        }
    }

    /// A pacer with a gate releases one packet at an opening and none between. Over any interval, it releases at most what the
    /// rate allows in the interval and one period, and one packet.
    #[test]
    fn a_pacer_obeys_the_gate_and_the_rate(
        arrivals in prop::collection::vec(0_u64..20_000_000, 1..4),
        rate in 50_000_u64..3_000_000,
        offers in prop::collection::vec((0_u64..30_000_000, 40_u32..1500), 1..60),
    ) {
        let mut sorted: Vec<Nanos> = arrivals.into_iter().map(Nanos).collect();
        let spec = GateSpec { guard: ms(1), clear: ms(2), step: ms(2), packets: 1 };
        let gate = Gate::plan(PERIOD, &mut sorted, spec);
        prop_assume!(gate.is_some());
        let rate = BitRate(rate);
        let mut pacer = Pacer::new(PacerConfig::default());
        pacer.set_aggregate(Some(rate));
        pacer.set_gate(gate);
        let key = FlowKey::default();
        let mut sent: Vec<(Nanos, u64)> = Vec::new();
        let mut now = Nanos::ZERO;
        let mut take = |pacer: &mut Pacer<u32>, until: Nanos, sent: &mut Vec<(Nanos, u64)>| {
            while let Some(at) = pacer.next_time(now).filter(|at| *at <= until) {
                now = at;
                let released = pacer.poll(at).map(|released| released.packet);
                prop_assert!(released.is_some(), "no packet at {at:?}, its next time");
                sent.push((at, u64::from(released.unwrap_or(0))));
            }
            now = until;
            Ok(())
        };
        let mut at = Nanos::ZERO;
        for (wait, bytes) in offers {
            at += Nanos(wait);
            take(&mut pacer, at, &mut sent)?;
            prop_assert_eq!(pacer.offer(at, &key, bytes, false, bytes), None);
        }
        take(&mut pacer, at + Nanos::from_secs(30), &mut sent)?;
        prop_assert!(pacer.is_empty());
        for pair in sent.windows(2) {
            let opened = gate.map(|gate| gate.last(pair[1].0));
            prop_assert!(opened > Some(pair[0].0), "two at one opening");
        }
        for first in 0..sent.len() {
            let mut bytes = 0;
            for last in first..sent.len() {
                bytes += sent[last].1;
                let span = sent[last].0.saturating_sub(sent[first].0) + PERIOD;
                let allowed = rate.0 as f64 * span.as_secs_f64() / 8.0 + 1500.0;
                prop_assert!(bytes as f64 <= allowed + 1.0, "{bytes} B in {span:?}");
            }
        }
    }
}
