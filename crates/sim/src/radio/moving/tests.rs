use proptest::prelude::*;

use super::*;
use crate::engine::Interrupt;
use crate::radio::Radio;

fn models() -> [Propagation; 4] {
    [
        Radio::default().propagation,
        Propagation::FreeSpace { frequency_ghz: 60.0 },
        Propagation::TwoRay { frequency_ghz: 5.0, antenna_height_m: 1.5 },
        Propagation::LogDistance {
            exponent: 3.3,
            reference_loss_db: 45.0,
            reference_m: 2.0,
            shadowing_db: 6.0,
        },
    ]
}

fn params(model: &Propagation) -> RadioParams {
    RadioParams::new(&Radio { propagation: model.clone(), ..Radio::default() })
}

#[test]
fn the_nearest_integer_is_that_of_the_standard_library() {
    let halves = [0.0, 0.499_999_999_999_999_94, 0.5, 1.5, 2.5, 4_503_599_627_370_495.5, 9e15, 9e18];
    for value in halves.into_iter().chain((0..2000).map(|step| f64::from(step) * 0.37)) {
        assert_eq!(nearest(value), value.round() as u64, "{value}");
    }
}

#[test]
fn power_equals_that_of_the_model() {
    for model in models() {
        let plain = match model.clone() {
            Propagation::LogDistance { exponent, reference_loss_db, reference_m, .. } => {
                Propagation::LogDistance { exponent, reference_loss_db, reference_m, shadowing_db: 0.0 }
            }
            other => other,
        };
        let law = Law::new(&plain, Dbm(16.0)).expect("a law");
        for metres in [1.0, 1.9, 2.1, 10.0, 250.0, 471.0, 472.0, 3000.0] {
            let exact = received_power(&plain, Dbm(16.0), (0, 1), metres, 1);
            let dbm = 10.0 * libm::log10(law.units(metres * metres) / 1e16);
            assert!((dbm - exact.0).abs() < 1e-9, "{plain:?} at {metres} m: {dbm}, {exact:?}");
        }
    }
}

/// A walk with a leg a second.
fn walk(places: &[(f64, f64)]) -> Trajectory {
    let at = |(i, &(x_m, y_m)): (usize, &(f64, f64))| (Nanos::from_secs(i as u64), Position { x_m, y_m });
    Trajectory::along(&places.iter().enumerate().map(at).collect::<Vec<_>>())
}

fn place() -> impl Strategy<Value = (f64, f64)> {
    (-900.0..900.0, -900.0..900.0)
}

proptest! {
    #[test]
    fn links_at_any_time_equal_links_computed_from_the_places_then(
        walks in prop::collection::vec(prop::collection::vec(place(), 1..5), 2..14),
        model in 0usize..4,
        asked in prop::collection::vec((any::<prop::sample::Index>(), 1u64..900), 1..25),
    ) {
        let model = &models()[model];
        let params = params(model);
        let mut walks: Vec<Vec<(f64, f64)>> = walks;
        walks[0].truncate(1); // at least one rests
        let starts: Vec<Position> = walks.iter().map(|walk| Position { x_m: walk[0].0, y_m: walk[0].1 }).collect();
        let trajectories = walks.iter().map(|places| (places.len() > 1).then(|| walk(places))).collect();
        let mut links = Links::new(model, &params, 7, starts.clone(), &Interrupt::NEVER).expect("links");
        let mut all = links.clone();
        let mut moving = Moving::new(model, &params, 7, &links, trajectories).expect("a law");
        let mut now = Nanos::ZERO;
        for (node, step_ms) in asked {
            now += Nanos::from_millis(step_ms);
            let node = node.index(walks.len());
            let places: Vec<Position> = walks.iter().map(|places| walk(places).at(now)).collect();
            let fresh = Links::new(model, &params, 7, places.clone(), &Interrupt::NEVER).expect("links");
            moving.update(node, now, &mut links);
            moving.update_all(now, &mut all);
            prop_assert_eq!(all.positions(), &places[..]);
            for (node, found) in [(node, &links)].into_iter().chain((0..walks.len()).map(|node| (node, &all))) {
                let (found, expected) = (found.from(node), fresh.from(node));
                prop_assert_eq!(
                    found.iter().map(|link| link.to).collect::<Vec<_>>(),
                    expected.iter().map(|link| link.to).collect::<Vec<_>>()
                );
                for (found, expected) in found.iter().zip(expected) {
                    prop_assert_eq!(found.delay_ns, expected.delay_ns);
                    prop_assert!(found.power.0.abs_diff(expected.power.0) as f64 <= 1.0 + 1e-9 * expected.power.0 as f64);
                }
            }
            let between = moving.between(0, node, now).map(|link| link.power);
            if node != 0 {
                prop_assert_eq!(between.is_some(), fresh.between(0, node).is_some());
            }
        }
    }
}
