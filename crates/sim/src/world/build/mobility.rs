//! Trajectories of the nodes that move.

use std::collections::BTreeMap;

use fairhop_model::units::Nanos;

use super::reaches_too_far;
use crate::engine::{Purpose, Stream};
use crate::mac::MacParams;
use crate::mobility::{Area, Movement, Movements, RandomWaypoint, Trajectory, parse};
use crate::radio::{LIGHT_M_PER_S, Position, RadioParams, reach_m};
use crate::scenario::{Finding, Initial, Mobility, MobilityKind, Scenario, Waypoint};

/// The trajectories of a scenario by node, and the places of these nodes at the start. Empty if no node moves.
pub(super) fn trajectories(
    scenario: &Scenario,
    seed: u64,
    positions: &mut [Position],
) -> Result<Vec<Option<Trajectory>>, Vec<Finding>> {
    if !scenario.has_mobility() {
        return Ok(Vec::new());
    }
    let mut trajectories = vec![None; positions.len()];
    for (node, waypoints) in scenario.waypoints().filter(|(_, waypoints)| waypoints.len() > 1) {
        let place = |at: &Waypoint| (Nanos::from_secs_f64(at.at_s), Position { x_m: at.x_m, y_m: at.y_m });
        let places: Vec<_> = waypoints.iter().map(place).collect();
        trajectories[node] = Some(Trajectory::along(&places));
    }
    if let Some(mobility) = &scenario.mobility {
        by_movements(mobility, positions.len(), &mut trajectories)?;
        random_waypoint(mobility, seed, &mut trajectories);
    }
    for (position, trajectory) in positions.iter_mut().zip(&mut trajectories) {
        if let Some(trajectory) = trajectory {
            *position = trajectory.at(Nanos::ZERO);
        }
    }
    Ok(trajectories)
}

fn by_movements(
    mobility: &Mobility,
    nodes: usize,
    trajectories: &mut [Option<Trajectory>],
) -> Result<(), Vec<Finding>> {
    let Some(text) = &mobility.movements else { return Ok(()) };
    // The checks of the scenario have read it before.
    let Movements { starts, movements } = parse(text, nodes).map_err(|_| Vec::new())?;
    let mut of_node: BTreeMap<u32, Vec<Movement>> = BTreeMap::new();
    for movement in movements {
        of_node.entry(movement.node).or_default().push(movement);
    }
    for (node, start) in starts {
        let movements = of_node.get(&node).map_or(&[][..], Vec::as_slice);
        if let Some(trajectory) = trajectories.get_mut(node as usize) {
            *trajectory = Some(Trajectory::by_movements(start, movements));
        }
    }
    Ok(())
}

fn random_waypoint(mobility: &Mobility, seed: u64, trajectories: &mut [Option<Trajectory>]) {
    let (Some(MobilityKind::RandomWaypoint), Some(width_m), Some(height_m), Some((min_mps, max_mps))) =
        (mobility.kind, mobility.width_m, mobility.height_m, mobility.speeds())
    else {
        return;
    };
    let pause = Nanos::from_secs_f64(mobility.pause_s.unwrap_or_default());
    let area = Area { width_m, height_m, min_mps, max_mps, pause };
    for (node, trajectory) in trajectories.iter_mut().enumerate() {
        if mobility.nodes.as_ref().is_none_or(|nodes| nodes.contains(&(node as u32))) {
            let random = Stream::new(seed, node as u64, Purpose::Mobility);
            let model = match mobility.initial.unwrap_or_default() {
                Initial::Uniform => RandomWaypoint::uniform(area, random),
                Initial::SteadyState => RandomWaypoint::steady(area, random),
            };
            *trajectory = Some(Trajectory::random(model));
        }
    }
}

/// A signal must reach everybody before an answer to it can begin, wherever nodes go.
pub(super) fn check_possible_reach(
    scenario: &Scenario,
    radio: &RadioParams,
    mac: &MacParams,
    starts: &[Position],
) -> Result<(), Vec<Finding>> {
    let reach_m = reach_m(&scenario.radio.propagation, radio.tx_power, radio.floor_dbm);
    let most_s = mac.phy.sifs.as_secs_f64();
    if reach_m / LIGHT_M_PER_S < most_s {
        return Ok(());
    }
    let heard_m = reach_m.min(extent_m(scenario, starts));
    if heard_m / LIGHT_M_PER_S < most_s { Ok(()) } else { Err(vec![reaches_too_far(heard_m, mac)]) }
}

/// No two nodes are ever farther apart, in metres.
fn extent_m(scenario: &Scenario, starts: &[Position]) -> f64 {
    let mut places = starts.to_vec();
    for (_, waypoints) in scenario.waypoints() {
        places.extend(waypoints.iter().map(|at| Position { x_m: at.x_m, y_m: at.y_m }));
    }
    if let Some(mobility) = &scenario.mobility {
        if let (Some(x_m), Some(y_m)) = (mobility.width_m, mobility.height_m) {
            places.extend([Position::default(), Position { x_m, y_m }]);
        }
        let read = mobility.movements.as_deref().and_then(|text| parse(text, starts.len()).ok());
        places.extend(read.iter().flat_map(|read| read.movements.iter().map(|movement| movement.to)));
    }
    let extent = |pick: fn(&Position) -> f64| {
        let low = places.iter().map(pick).fold(f64::INFINITY, f64::min);
        places.iter().map(pick).fold(low, f64::max) - low
    };
    libm::hypot(extent(|at| at.x_m), extent(|at| at.y_m))
}
