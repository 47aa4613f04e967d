use std::f64::consts::PI;

use super::*;
use crate::engine::Purpose;
use crate::mobility::Trajectory;

/// The area of the published comparisons (Broch et al. 1998).
fn area(pause_s: f64) -> Area {
    Area {
        width_m: 1500.0,
        height_m: 300.0,
        min_mps: 1.0,
        max_mps: 20.0,
        pause: Nanos::from_secs_f64(pause_s),
    }
}

fn nodes(area: Area, count: u64, model: fn(Area, Stream) -> RandomWaypoint) -> Vec<Trajectory> {
    let random = |node| Stream::new(5, node, Purpose::Mobility);
    (0..count).map(|node| Trajectory::random(model(area, random(node)))).collect()
}

fn mean_speed(nodes: &mut [Trajectory], at_s: u64) -> f64 {
    let at = Nanos::from_secs(at_s);
    nodes.iter_mut().map(|node| node.leg(at).speed_mps()).sum::<f64>() / nodes.len() as f64
}

fn within_2_percent(found: f64, theory: f64, what: &str) {
    assert!((found / theory - 1.0).abs() < 0.02, "{what}: {found}, theory {theory}");
}

#[test]
fn the_mean_distance_of_places_is_that_of_ghosh() {
    assert!((mean_length_m(1.0, 1.0) - 0.521_405_4).abs() < 1e-6);
    let mut random = Stream::new(1, 0, Purpose::Mobility);
    let area = area(0.0);
    let count = 200_000;
    let lengths = (0..count).map(|_| area.place(&mut random).distance_m(area.place(&mut random)));
    within_2_percent(lengths.sum::<f64>() / f64::from(count), mean_length_m(1500.0, 300.0), "length");
}

#[test]
fn the_mean_speed_is_that_of_theory_from_the_start_on_and_stays() {
    let mut moving = nodes(area(0.0), 20_000, RandomWaypoint::steady);
    let theory = 19.0 / libm::log(20.0); // (max − min) / ln(max / min)
    assert!((area(0.0).mean_speed_mps() - theory).abs() < 1e-9);
    for at_s in [0, 100, 900] {
        within_2_percent(mean_speed(&mut moving, at_s), theory, "speed");
    }
    let mut pausing = nodes(area(60.0), 40_000, RandomWaypoint::steady);
    for at_s in [0, 300] {
        within_2_percent(mean_speed(&mut pausing, at_s), area(60.0).mean_speed_mps(), "speed with pauses");
    }
}

#[test]
fn a_uniform_start_rests_for_a_pause_and_slows_down_afterwards() {
    let mut nodes = nodes(area(30.0), 5_000, RandomWaypoint::uniform);
    assert_eq!(mean_speed(&mut nodes, 29), 0.0);
    within_2_percent(mean_speed(&mut nodes, 31), 10.5, "speed after the first pause");
    assert!(mean_speed(&mut nodes, 600) < 6.0);
}

/// The density of places without pauses (Hyytiä, Lassila and Virtamo, IEEE TMC 2006): proportional to the integral over
/// directions of a₁ a₂ (a₁ + a₂), with the distances a₁ and a₂ to the border there and back.
fn density(x_m: f64, y_m: f64, (width_m, height_m): (f64, f64)) -> f64 {
    let to_border = |dx: f64, dy: f64| {
        let along = |at: f64, size: f64, d: f64| {
            if d > 0.0 {
                (size - at) / d
            } else if d < 0.0 {
                -at / d
            } else {
                f64::INFINITY
            }
        };
        along(x_m, width_m, dx).min(along(y_m, height_m, dy))
    };
    let directions = 180;
    let one = |i: i32| {
        let angle = PI * (f64::from(i) + 0.5) / f64::from(directions);
        let (dx, dy) = (libm::cos(angle), libm::sin(angle));
        let (there, back) = (to_border(dx, dy), to_border(-dx, -dy));
        there * back * (there + back)
    };
    (0..directions).map(one).sum()
}

#[test]
fn nodes_are_as_dense_as_in_theory_from_the_start_on() {
    // The share of nodes in the middle half of both directions, by theory on a grid of 40 × 40.
    let cells = 40;
    let (mut middle, mut all) = (0.0, 0.0);
    for i in 0..cells {
        for j in 0..cells {
            let place = |k: i32, size: f64| size * (f64::from(k) + 0.5) / f64::from(cells);
            let here = density(place(i, 1500.0), place(j, 300.0), (1500.0, 300.0));
            all += here;
            if (10..30).contains(&i) && (10..30).contains(&j) {
                middle += here;
            }
        }
    }
    let mut nodes = nodes(area(0.0), 30_000, RandomWaypoint::steady);
    for at_s in [0, 200] {
        let at = Nanos::from_secs(at_s);
        let inside = nodes
            .iter_mut()
            .map(|node| node.at(at))
            .filter(|at| (375.0..1125.0).contains(&at.x_m) && (75.0..225.0).contains(&at.y_m));
        within_2_percent(inside.count() as f64 / 30_000.0, middle / all, "share in the middle");
    }
}

#[test]
fn links_change_as_often_as_in_theory() {
    // Rice's formula: links of reach r change E|d'| f(r) times a second and pair, with the density f of the distance d.
    // Pairs of independent nodes in the steady state give both within a band of ±5 m.
    const REACH_M: f64 = 250.0;
    const BAND_M: f64 = 5.0;
    let mut sample = nodes(area(0.0), 3_000, RandomWaypoint::steady);
    let states: Vec<_> = sample
        .iter_mut()
        .map(|node| {
            let (now, soon) = (node.at(Nanos::ZERO), node.leg(Nanos::ZERO).at(Nanos::from_millis(1)));
            (now, ((soon.x_m - now.x_m) * 1e3, (soon.y_m - now.y_m) * 1e3))
        })
        .collect();
    let (mut approach, mut pairs) = (0.0, 0_u32);
    for (i, (a, va)) in states.iter().enumerate() {
        for (b, vb) in &states[..i] {
            let distance_m = a.distance_m(*b);
            pairs += 1;
            if (distance_m - REACH_M).abs() < BAND_M {
                let along = (a.x_m - b.x_m) * (va.0 - vb.0) + (a.y_m - b.y_m) * (va.1 - vb.1);
                approach += (along / distance_m).abs();
            }
        }
    }
    let theory = approach / (2.0 * BAND_M) / f64::from(pairs);

    let count = 800;
    let mut moving = nodes(area(0.0), count, RandomWaypoint::steady);
    let (mut linked, mut changes) = (Vec::<bool>::new(), 0_u32);
    let (steps, step_ms) = (600, 100);
    for step in 0..=steps {
        let at = Nanos::from_millis(step * step_ms);
        let places: Vec<_> = moving.iter_mut().map(|node| node.at(at)).collect();
        let mut pair = 0;
        for (i, a) in places.iter().enumerate() {
            for b in &places[..i] {
                let now = !a.is_farther_m(*b, REACH_M);
                if step == 0 {
                    linked.push(now);
                } else if std::mem::replace(&mut linked[pair], now) != now {
                    changes += 1;
                }
                pair += 1;
            }
        }
    }
    let seconds = (steps * step_ms) as f64 / 1e3;
    within_2_percent(f64::from(changes) / seconds / linked.len() as f64, theory, "link changes");
}
