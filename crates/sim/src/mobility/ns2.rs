//! Movements in ns-2's form, as setdest, BonnMotion and SUMO write them:
//!
//! ```tcl
//! $node_(0) set X_ 83.4
//! $node_(0) set Y_ 239.4
//! $node_(0) set Z_ 0.0
//! $ns_ at 2.5 "$node_(0) setdest 90.4 44.8 1.37"
//! ```
//! Blank lines and comments may stand between. Everything else is an error with its line, so that nothing is ignored that
//! ns-2 would execute.

use std::collections::BTreeMap;

use fairhop_model::units::Nanos;

use crate::radio::Position;

/// A node turns to a new destination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Movement {
    /// The node.
    pub node: u32,
    /// When it turns.
    pub at: Nanos,
    /// Its destination.
    pub to: Position,
    /// Its speed in m/s; 0: it stops.
    pub speed_mps: f64,
}

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// Largest coordinate in metres, time in seconds, and speed in m/s.
const MAX_NUMBER: f64 = 1e7;
/// Number of errors after which reading stops.
const MAX_ERRORS: usize = 20;

/// The starts and movements of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Movements {
    /// Where nodes start.
    pub starts: BTreeMap<u32, Position>,
    /// In the order of time; at the same time in that of the file.
    pub movements: Vec<Movement>,
}

/// Reads the movements of a network of `nodes` nodes.
///
/// # Errors
/// Each line that is not of the form above, and each node without both coordinates.
pub fn parse(text: &str, nodes: usize) -> Result<Movements, Vec<LineError>> {
    let mut starts: BTreeMap<u32, [Option<f64>; 2]> = BTreeMap::new();
    // The line of each node's first mention, for coordinates that are missing.
    let mut first_lines = BTreeMap::new();
    let mut movements = Vec::new();
    let mut errors = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let read = if content.starts_with("$ns_") {
            movement(content, nodes).map(|movement| {
                first_lines.entry(movement.node).or_insert(line);
                movements.push(movement);
            })
        } else {
            coordinate(content, nodes).map(|(node, axis, value)| {
                first_lines.entry(node).or_insert(line);
                let start = starts.entry(node).or_default();
                if let Some(place) = start.get_mut(axis) {
                    *place = Some(value);
                }
            })
        };
        if let Err(message) = read {
            errors.push(LineError { line, message });
            if errors.len() == MAX_ERRORS {
                return Err(errors);
            }
        }
    }
    for (&node, &line) in &first_lines {
        let missing = match starts.get(&node) {
            Some([Some(_), Some(_)]) => continue,
            Some([Some(_), None]) => "Y_",
            Some([None, Some(_)]) => "X_",
            _ => "X_ and Y_",
        };
        errors.push(LineError {
            line,
            message: format!("node {node} has no {missing}: write where it starts"),
        });
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    movements.sort_by_key(|movement: &Movement| movement.at);
    let place = |(node, start): (u32, [Option<f64>; 2])| match start {
        [Some(x_m), Some(y_m)] => Some((node, Position { x_m, y_m })),
        _ => None,
    };
    Ok(Movements { starts: starts.into_iter().filter_map(place).collect(), movements })
}

const FORMS: &str =
    "only `$node_(0) set X_ 1.0` and `$ns_ at 1.0 \"$node_(0) setdest 1.0 1.0 1.0\"` are read";

/// `$ns_ at TIME "$node_(N) setdest X Y SPEED"`
fn movement(content: &str, nodes: usize) -> Result<Movement, String> {
    let words: Vec<&str> = content.split_whitespace().collect();
    let ["$ns_", "at", time, node, command, x, y, speed] = words[..] else {
        return Err(format!("this is no movement; {FORMS}"));
    };
    let (Some(node), "setdest", Some(speed)) = (node.strip_prefix('"'), command, speed.strip_suffix('"'))
    else {
        return Err(format!("this is no movement; {FORMS}"));
    };
    Ok(Movement {
        node: number_of_node(node, nodes)?,
        at: Nanos::from_secs_f64(number("time", time, 0.0)?),
        to: Position { x_m: number("x", x, -MAX_NUMBER)?, y_m: number("y", y, -MAX_NUMBER)? },
        speed_mps: number("speed", speed, 0.0)?,
    })
}

/// `$node_(N) set X_ VALUE`: the node, 0 for X_ and 1 for Y_, and the value.
fn coordinate(content: &str, nodes: usize) -> Result<(u32, usize, f64), String> {
    let words: Vec<&str> = content.split_whitespace().collect();
    let [node, "set", axis, value] = words[..] else {
        return Err(format!("this is no place of a node; {FORMS}"));
    };
    let node = number_of_node(node, nodes)?;
    let value = number(axis, value, -MAX_NUMBER)?;
    match axis {
        "X_" => Ok((node, 0, value)),
        "Y_" => Ok((node, 1, value)),
        "Z_" if value == 0.0 => Ok((node, 2, value)),
        "Z_" => Err(format!("Z_ is {value}: nodes move in a plane, so it must be 0")),
        _ => Err(format!("`{axis}` is not known; {FORMS}")),
    }
}

fn number_of_node(word: &str, nodes: usize) -> Result<u32, String> {
    let inner = word.strip_prefix("$node_(").and_then(|rest| rest.strip_suffix(')'));
    let Some(node) = inner.and_then(|inner| inner.parse::<u32>().ok()) else {
        return Err(format!("`{word}` is no node; {FORMS}"));
    };
    match nodes {
        _ if (node as usize) < nodes => Ok(node),
        0 => Err(format!("node {node} does not exist: the topology has no nodes")),
        _ => Err(format!("node {node} does not exist: the topology has nodes 0 to {}", nodes - 1)),
    }
}

fn number(name: &str, word: &str, min: f64) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(value) if (min..=MAX_NUMBER).contains(&value) => Ok(value),
        Ok(_) => Err(format!("{name} is {word}; it must lie between {min} and {MAX_NUMBER}")),
        Err(_) => Err(format!("{name} is `{word}`, which is no number")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "# two nodes\n\
        $node_(1) set X_ 83.4\n$node_(1) set Y_ 239.4\n$node_(1) set Z_ 0.0\n\
        $node_(0) set X_ 1\n$node_(0) set Y_ -2\n\n\
        $ns_ at 50.0 \"$node_(1) setdest 90.4 44.8 1.37\"\n\
        $ns_ at 2.5 \"$node_(0) setdest 3 4 0.5\"\n";

    #[test]
    fn starts_and_movements_are_read_and_sorted_by_time() {
        let read = parse(FILE, 2).expect("movements");
        assert_eq!(read.starts[&1], Position { x_m: 83.4, y_m: 239.4 });
        let order: Vec<_> = read.movements.iter().map(|movement| (movement.node, movement.at)).collect();
        assert_eq!(order, [(0, Nanos::from_millis(2500)), (1, Nanos::from_secs(50))]);
        assert_eq!(read.movements[1].to, Position { x_m: 90.4, y_m: 44.8 });
        assert_eq!(read.movements[1].speed_mps, 1.37);
    }

    #[test]
    fn everything_else_is_an_error_with_its_line() {
        for (text, line, words) in [
            ("\n$god_ set-dist 1 2 3", 2, "no place of a node"),
            ("$ns_ at 1.0 \"$god_ set-dist 1 2 3\"", 1, "no movement"),
            ("$ns_ at x \"$node_(0) setdest 1 1 1\"", 1, "time is `x`"),
            ("$ns_ at 1 \"$node_(0) setdest 1 1 -1\"", 1, "speed is"),
            ("$node_(7) set X_ 1", 1, "nodes 0 to 1"),
            ("$node_(0) set X_ nan", 1, "must lie between"),
            ("$node_(0) set Z_ 3", 1, "in a plane"),
            ("$node_(0) set W_ 3", 1, "`W_` is not known"),
            ("$node_(0) set X_ 3", 1, "has no Y_"),
            ("$ns_ at 1 \"$node_(0) setdest 1 1 1\"", 1, "has no X_ and Y_"),
        ] {
            let errors = parse(text, 2).expect_err(text);
            assert_eq!(errors[0].line, line, "{text}");
            assert!(errors[0].message.contains(words), "{text}: {}", errors[0].message);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[$a-z_()0-9 \"\n.-]{0,200}") {
            let _ = parse(&text, 3);
        }
    }
}
