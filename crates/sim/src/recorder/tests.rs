use super::*;

fn recorder(warmup_ms: u64) -> Recorder {
    let ms = Nanos::from_millis;
    Recorder::new(ms(warmup_ms), ms(1000), ms(10_000), ms(60), &[true, false], 1, 1)
}

#[test]
fn samples_are_taken_at_the_edges_of_bins_and_at_the_end_of_the_warm_up() {
    let recorder = recorder(1500);
    let mut at = Nanos::ZERO;
    let next = std::iter::repeat_with(|| {
        at = recorder.next_sample(at);
        at.as_millis_f64()
    });
    let times: Vec<f64> = next.take(4).collect();
    assert_eq!(times, [1000.0, 1500.0, 2000.0, 3000.0]);
    assert!(
        recorder.is_bin_edge(Nanos::from_millis(2000)) && !recorder.is_bin_edge(Nanos::from_millis(1500))
    );
}

/// 2 packets from 0.5 s to 3 s and 5 from there to 4 s, with a warm-up of 1 s: 2 · 2 + 5 · 1 packet-seconds.
#[test]
fn the_backlog_is_integrated_over_time_from_the_end_of_the_warm_up() {
    let mut node = NodeRecord::default();
    let ms = Nanos::from_millis;
    for (at, backlog) in [(100, 9), (500, 2), (3000, 5), (4000, 0)] {
        node.set_backlog(backlog, ms(at), ms(1000));
    }
    assert_eq!(node.backlog_integral, 9_000_000_000);
    assert_eq!(node.backlog_max, 5, "9 packets waited during the warm-up");
}

#[test]
fn the_wired_fingerprint_covers_time_direction_length_and_fate_and_is_apart_from_the_radios() {
    let fingerprint = |at, direction, bytes, lost| {
        let mut recorder = recorder(0);
        recorder.wire_crossed(Nanos(at), direction, bytes, lost);
        assert_eq!(recorder.fingerprint, EMPTY_FINGERPRINT);
        recorder.wired_fingerprint
    };
    let all = [
        (5, 1, 1500, false),
        (6, 1, 1500, false),
        (5, 0, 1500, false),
        (5, 1, 40, false),
        (5, 1, 1500, true),
    ];
    let mut all = all.map(|(at, direction, bytes, lost)| fingerprint(at, direction, bytes, lost));
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]) && !all.contains(&EMPTY_FINGERPRINT));
}

#[test]
fn every_reason_for_a_loss_has_a_place_and_a_name_of_its_own() {
    let mut names: Vec<_> = Loss::ALL.iter().map(|why| why.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Loss::ALL.len());
    assert!(Loss::ALL.iter().enumerate().all(|(index, &why)| why as usize == index));
}
