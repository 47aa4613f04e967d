use super::*;
use fairhop_sim::scenario;
use serde_json::json;
use std::fs;
use std::path::Path;

/// Synthetic results: figures grow with `step` and are the same for every call, flow and node.
fn run(seed: u64, step: f64, calls: usize) -> Summary {
    let delay = json!({
        "min_ms": 1.0, "mean_ms": 20.0 + step, "p50_ms": 18.0, "p95_ms": 80.0 + step, "p99_ms": 90.0, "max_ms": 99.0,
    });
    let lost = json!({"queue_full": 10.0, "retry_limit": 5.0 + step, "wired_queue_full": 0.0});
    let direction = |mos: f64| {
        json!({
            "mos": mos, "sent": 1000.0, "loss": 0.015, "late": 0.2, "lost": lost, "delay": delay, "jitter_ms": 3.0,
        })
    };
    let call = |index: usize| {
        json!({
            "name": format!("call-{index}"), "mos": 3.7 - 0.1 * step, "mos_worst": 3.5 - 0.01 * index as f64, "clear": 0.9,
            "loss": 0.015, "late": 0.2, "delay_ms": 20.0 + step, "jitter_ms": 3.0,
            "forward": direction(3.9), "backward": direction(3.5),
        })
    };
    let flow = |name: &str, kind: &str, tcp: Value| {
        let mut flow = json!({
            "name": name, "kind": kind, "goodput_mbps": 1.25 + step, "sent_mbps": 1.5 + step, "delay_ms": 20.0,
            "loss": 0.01, "sent": 5000.0, "lost": lost, "delay": delay, "jitter_ms": 2.0,
        });
        if !tcp.is_null() {
            flow["tcp"] = tcp;
        }
        flow
    };
    let tcp = json!({
        "efficiency": 0.95, "retransmitted": 12.0 + step, "timeouts": 1.0, "recoveries": 3.0, "completed_s": 8.5,
    });
    let node = |index: u32| {
        json!({
            "node": index, "frames_sent": 123_456.0, "retries": 789.0, "queue_drops": 15.0, "queue_mean": 4.5,
            "queue_max": 50.0,
            "airtime": {
                "own": 0.2, "received": 0.1, "overheard": 0.15, "collided": 0.05, "energy": 0.0, "idle": 0.5,
            },
            "frames_lost": {"collision": 1000.0, "transmitting": 20.0, "busy": 0.0},
        })
    };
    serde_json::from_value(json!({
        "fairhop": "0.1.0", "scenario": "synthetic", "seeds": [seed], "partial": seed == 3, "sim_s": 10.0,
        "frames": 200_000.0,
        "calls": (0..calls).map(call).collect::<Vec<_>>(),
        "flows": [
            flow("a download with a long name of its own", "bulk", tcp),
            flow("cbr-0", "cbr", Value::Null),
        ],
        "totals": {
            "mos_mean": 3.7 - 0.1 * step, "mos_min": 3.5, "calls_ok": 1.0, "calls_clear": 0.9, "tcp_goodput_mbps": 1.25 + step,
            "udp_goodput_mbps": 1.25 + step, "jain": 1.0,
        },
        "nodes": [node(0), node(1)],
    }))
    .expect("a summary")
}

const SCENARIO: &str = "name = \"synthetic\"\nduration_s = 10\nwarmup_s = 1\n[topology]\nkind = \"ring\"\nnodes = 3\nspacing_m = 100";

fn printed(runs: &[Summary]) -> String {
    let scenario = scenario::load("test", SCENARIO, &[]);
    let results = Replications::of(runs).expect("runs");
    anstream::adapter::strip_str(&report(&scenario.expect("a scenario").scenario, runs, &results)).to_string()
}

#[test]
fn reports_are_golden() {
    let cases = [
        ("one", vec![run(1, 0.0, 2)]),
        ("three-one-partial", vec![run(1, 0.0, 2), run(2, 0.5, 2), run(3, 1.0, 2)]),
    ];
    for (name, runs) in cases {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/report-{name}.txt"));
        let text = printed(&runs);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &text).expect("a golden file");
        }
        assert_eq!(text, fs::read_to_string(&path).unwrap_or_default(), "{name}");
    }
}

#[test]
fn broadcasts_show_the_mean_and_minimum_of_their_receivers_delivery_ratios() {
    let mut run = run(1, 0.0, 0);
    let broadcast = json!({"delivery_mean": 0.75, "delivery_min": 0.5, "delivery": {"1": 1.0, "2": 0.5}});
    run.flows[1].broadcast = Some(serde_json::from_value(broadcast).expect("a broadcast"));
    let text = printed(&[run]);
    let row = text.split("Broadcasts received").nth(1).and_then(|table| table.lines().nth(1)).expect("a row");
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells, ["cbr-0", "2", "75.00", "50.00"], "{text}");
}

#[test]
fn a_long_table_shows_its_worst_rows() {
    let text = printed(&[run(1, 0.0, 100)]);
    assert!(text.contains("call-99 ") && text.contains("call-80 ") && !text.contains("call-79 "), "{text}");
    assert!(text.contains("the 20 worst of 100"), "{text}");
}

/// A call that sent nothing has no score, loss or delay: null in JSON.
#[test]
fn absent_figures_are_shown_as_dashes() {
    let mut summary = serde_json::to_value(run(1, 0.0, 1)).expect("JSON");
    for key in ["mos", "mos_worst", "loss", "late", "delay_ms", "jitter_ms"] {
        summary["calls"][0][key] = Value::Null;
    }
    for key in ["mos_mean", "mos_min"] {
        summary["totals"][key] = Value::Null;
    }
    let scenario = scenario::load("test", SCENARIO, &[]).expect("a scenario").scenario;
    let results = Replications { mean: summary, ..Replications::of(&[run(1, 0.0, 1)]).expect("runs") };
    let text = report(&scenario, &[run(1, 0.0, 1)], &results);
    let text = anstream::adapter::strip_str(&text).to_string();
    let call = text.lines().find(|line| line.starts_with("call-0")).expect("the call");
    let cells: Vec<&str> = call.split_whitespace().skip(1).collect();
    assert_eq!(cells, ["–", "–", "–", "–", "–", "80.0", "–"], "{text}");
    for row in ["mean MOS", "worst direction's MOS"] {
        let line = text.lines().find(|line| line.starts_with(row)).expect("the total");
        assert!(line.ends_with(" –"), "{line}");
    }
}
