//! Tables and `summary.json`, read back from their files.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fairhop_sim::output::Directory;
use fairhop_sim::output::tables::{Meta, RunTables, write, write_summary};
use fairhop_sim::results::{Replications, Summary};
use fairhop_sim::scenario::{self, Scenario};
use fairhop_sim::world::World;
use parquet::basic::{LogicalType, Repetition, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

const SCENARIO: &str = r#"
name = "tables"
duration_s = 3.5
warmup_s = 1

[radio]
propagation = { model = "range", receive_m = 250, carrier_sense_m = 550 }

[topology]
kind = "string"
hops = 2
spacing_m = 200

[internet]
delay_ms = 5
rate_mbps = 10

[[traffic]]
kind = "call"
from = "internet"
to = 2
stop_s = 2

[[traffic]]
kind = "bulk"
from = "internet"
to = 2
size_bytes = 200_000

[[traffic]]
kind = "cbr"
from = 1
to = "broadcast"
rate_kbps = 20
payload_bytes = 101
"#;

fn scenario() -> Scenario {
    scenario::load("tables.toml", SCENARIO, &[]).unwrap().scenario
}

/// Runs the scenario under two seeds and writes everything into a new directory.
fn results(name: &str) -> (PathBuf, Vec<RunTables>, Vec<Summary>) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    let directory = Directory::create(&path).unwrap();
    let scenario = scenario();
    let meta = Meta::new(&scenario).unwrap();
    let (mut tables, mut summaries) = (Vec::new(), Vec::new());
    for seed in [1, u64::MAX] {
        let mut world = World::new(&scenario, seed).unwrap();
        world.run();
        tables.push(RunTables::collect(&world, false));
        summaries.push(Summary::of(&world, false));
    }
    write(&directory, &tables, &meta).unwrap();
    write_summary(&directory, &Replications::of(&summaries).unwrap(), &meta).unwrap();
    (path, tables, summaries)
}

fn open(directory: &Path, table: &str) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(directory.join(table).with_extension("parquet")).unwrap()).unwrap()
}

fn rows(directory: &Path, table: &str) -> Vec<Row> {
    open(directory, table).get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
    row.get_column_iter().find(|(column, _)| *column == name).unwrap().1
}

/// The columns, on which scripts of users rely.
const SCHEMA: &str = "
control
  seed: unsigned
  t_s: real
  gateway: integer
  kind: text
  state: text
  reason: text
  means: text
  budget_mbps: real or null
  down_mbps: real or null
  acks_mbps: real or null
  window_bytes: integer or null
  pacer_packets: integer
  mos_seen: real or null
delays
  seed: unsigned
  flow: integer
  name: text
  direction: text
  from_ms: real
  below_ms: real
  packets: integer
flow_series
  seed: unsigned
  flow: integer
  name: text
  kind: text
  direction: text
  t_s: real
  sent_packets: integer
  arrived_packets: integer
  in_time_packets: integer
  delay_mean_ms: real or null
  delivered_bytes: integer
  goodput_mbps: real
  mos: real or null
flows
  seed: unsigned
  flow: integer
  name: text
  kind: text
  direction: text
  sender: text
  receiver: text
  codec: text or null
  start_s: real
  stop_s: real or null
  measured_s: real
  sent_packets: integer
  arrived_packets: integer
  late_packets: integer
  lost_packets: integer
  lost_queue_full_packets: integer
  lost_retry_limit_packets: integer
  lost_wired_queue_full_packets: integer
  lost_aqm_packets: integer
  lost_link_packets: integer
  lost_control_packets: integer
  lost_no_route_packets: integer
  lost_ttl_packets: integer
  lost_route_broken_packets: integer
  lost_buffer_full_packets: integer
  lost_buffer_timeout_packets: integer
  in_flight_packets: integer
  overdue_packets: integer
  loss: real
  late: real
  outage: real or null
  receivers: integer or null
  delivery_mean: real or null
  delivery_min: real or null
  sent_bytes: integer
  delivered_bytes: integer
  sent_mbps: real
  goodput_mbps: real
  delay_min_ms: real or null
  delay_mean_ms: real or null
  delay_p50_ms: real or null
  delay_p95_ms: real or null
  delay_p99_ms: real or null
  delay_max_ms: real or null
  jitter_mean_ms: real or null
  mos: real or null
  tcp_retransmitted_segments: integer or null
  tcp_timeouts: integer or null
  tcp_recoveries: integer or null
  tcp_spurious_segments: integer or null
  tcp_ecn_reductions: integer or null
  tcp_undone: integer or null
  completed_s: real or null
  transactions_finished: integer or null
  transactions_open: integer or null
  transactions_failed: integer or null
  transaction_mean_ms: real or null
  transaction_p50_ms: real or null
  transaction_p95_ms: real or null
  transaction_p99_ms: real or null
  video_frames: integer or null
  video_complete_frames: integer or null
  video_late_frames: integer or null
  video_lost_frames: integer or null
frame_losses
  seed: unsigned
  node: integer
  reason: text
  lost_frames: integer
links
  seed: unsigned
  link: integer
  sender: text
  receiver: text
  rate_mbps: real
  utilization: real
  sent_packets: integer
  queue_mean_packets: real
  queue_max_packets: integer
  queue_drops_packets: integer
  queue_early_drops_packets: integer
  lost_packets: integer
  failed_frames: integer
node_series
  seed: unsigned
  node: integer
  t_s: real
  airtime_own: real
  airtime_received: real
  airtime_overheard: real
  airtime_collided: real
  airtime_energy: real
  airtime_idle: real
  queue_packets: integer
nodes
  seed: unsigned
  node: integer
  x_m: real
  y_m: real
  gateway: truth
  airtime_own: real
  airtime_received: real
  airtime_overheard: real
  airtime_collided: real
  airtime_energy: real
  airtime_idle: real
  sent_frames: integer
  retried_frames: integer
  lost_frames: integer
  queue_drops_packets: integer
  queue_early_drops_packets: integer
  queue_mean_packets: real
  queue_max_packets: integer
receivers
  seed: unsigned
  flow: integer
  name: text
  node: integer
  sent_packets: integer
  received_packets: integer
  delivery: real or null
tcp_series
  seed: unsigned
  flow: integer
  name: text
  t_s: real
  cwnd_bytes: integer
  ssthresh_bytes: integer or null
  srtt_ms: real or null
  in_flight_bytes: integer
  retransmitted_segments: integer
  timeouts: integer
";

#[test]
fn tables_have_exactly_the_documented_columns() {
    let (directory, ..) = results("tables-schema");
    let mut names: Vec<String> =
        fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let mut schema = String::new();
    for name in names.iter().filter_map(|name| name.strip_suffix(".parquet")) {
        writeln!(schema, "{name}").unwrap();
        for column in open(&directory, name).metadata().file_metadata().schema_descr().columns() {
            let info = column.self_type().get_basic_info();
            let kind = match (column.physical_type(), column.logical_type_ref()) {
                (Type::INT64, None) => "integer",
                (Type::INT64, Some(LogicalType::Integer(_))) => "unsigned",
                (Type::DOUBLE, None) => "real",
                (Type::BYTE_ARRAY, Some(LogicalType::String)) => "text",
                (Type::BOOLEAN, None) => "truth",
                other => panic!("{other:?}"),
            };
            let null = if info.repetition() == Repetition::OPTIONAL { " or null" } else { "" };
            writeln!(schema, "  {}: {kind}{null}", column.name()).unwrap();
        }
    }
    assert_eq!(schema.trim(), SCHEMA.trim(), "{schema}");
    assert!(names.contains(&"summary.json".to_owned()) && names.len() == 11, "{names:?}");
}

#[test]
fn rows_read_back_equal_those_written_for_all_seeds_in_order() {
    let (directory, tables, summaries) = results("tables-rows");
    let flows = rows(&directory, "flows");
    let expected: Vec<_> = tables.iter().flat_map(|run| &run.flows).collect();
    assert_eq!(flows.len(), expected.len());
    for (row, expected) in flows.iter().zip(expected) {
        assert_eq!(*field(row, "seed"), Field::ULong(expected.seed.0));
        assert_eq!(*field(row, "name"), Field::Str(expected.name.to_string()));
        assert_eq!(*field(row, "sent_packets"), Field::Long(expected.sent_packets as i64));
        assert_eq!(*field(row, "goodput_mbps"), Field::Double(expected.goodput_mbps));
        assert_eq!(*field(row, "mos"), expected.mos.map_or(Field::Null, Field::Double));
        assert_eq!(*field(row, "completed_s"), expected.completed_s.map_or(Field::Null, Field::Double));
    }
    let of_first = |kind: &str| {
        let is = |row: &&Row| *field(row, "kind") == Field::Str(kind.to_owned());
        flows[..flows.len() / 2].iter().filter(is).collect::<Vec<_>>()
    };
    let (calls, summary) = (of_first("call"), &summaries[0].calls[0]);
    assert_eq!(*field(calls[0], "mos"), Field::Double(summary.forward.mos.unwrap()));
    assert_eq!(*field(calls[1], "mos"), Field::Double(summary.backward.mos.unwrap()));
    let (bulk, summary) = (of_first("bulk"), &summaries[0].flows[0]);
    assert_eq!(*field(bulk[0], "goodput_mbps"), Field::Double(summary.goodput_mbps));
    let completed = summary.tcp.as_ref().unwrap().completed_s.unwrap();
    assert_eq!(*field(bulk[0], "completed_s"), Field::Double(completed));
    assert_eq!(*field(of_first("cbr")[0], "receiver"), Field::Str("broadcast".to_owned()));
}

#[test]
fn series_add_up_to_the_rows_of_flows_and_airtime_adds_up_to_one() {
    let (_, tables, _) = results("tables-series");
    let run = &tables[0];
    for flow in &run.flows {
        let bins: Vec<_> =
            run.flow_series.iter().filter(|b| b.flow == flow.flow && b.direction == flow.direction).collect();
        assert_eq!(bins.iter().map(|bin| bin.t_s).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 3.5]);
        let measured = &bins[1..];
        assert_eq!(measured.iter().map(|bin| bin.delivered_bytes).sum::<u64>(), flow.delivered_bytes);
        let sent: u64 = measured.iter().map(|bin| u64::from(bin.sent_packets)).sum();
        assert_eq!(sent, flow.sent_packets - flow.in_flight_packets);
        if flow.kind == "call" {
            assert!(bins[1].mos.unwrap() > 3.6 && bins[3].mos.is_none(), "the call ends after 2 s");
        }
        let reasons = [
            flow.lost_queue_full_packets,
            flow.lost_retry_limit_packets,
            flow.lost_wired_queue_full_packets,
            flow.lost_aqm_packets,
            flow.lost_link_packets,
            flow.lost_control_packets,
            flow.lost_no_route_packets,
            flow.lost_ttl_packets,
            flow.lost_route_broken_packets,
            flow.lost_buffer_full_packets,
            flow.lost_buffer_timeout_packets,
        ];
        assert_eq!(reasons.iter().sum::<u64>(), flow.lost_packets);
        if &*flow.receiver != "broadcast" {
            let fates =
                flow.arrived_packets + flow.lost_packets + flow.in_flight_packets + flow.overdue_packets;
            assert_eq!(fates, flow.sent_packets);
        }
        let counted: u64 = run
            .delays
            .iter()
            .filter(|bucket| bucket.flow == flow.flow && bucket.direction == flow.direction)
            .map(|bucket| u64::from(bucket.packets))
            .sum();
        assert_eq!(counted, flow.arrived_packets);
    }
    for node in &run.node_series {
        let parts = [
            node.airtime_own,
            node.airtime_received,
            node.airtime_overheard,
            node.airtime_collided,
            node.airtime_energy,
            node.airtime_idle,
        ];
        assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{node:?}");
    }
    assert_eq!(run.tcp_series.len(), 3);
    assert!(run.tcp_series[0].cwnd_bytes > 0);
}

#[test]
fn every_file_holds_its_scenario_seeds_and_descriptions() {
    let (directory, ..) = results("tables-meta");
    for table in [
        "control",
        "delays",
        "flow_series",
        "flows",
        "frame_losses",
        "links",
        "node_series",
        "nodes",
        "receivers",
        "tcp_series",
    ] {
        let reader = open(&directory, table);
        let metadata = reader.metadata().file_metadata();
        let value = |key: &str| {
            let pairs = metadata.key_value_metadata().unwrap();
            pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()).unwrap()
        };
        assert_eq!(value("fairhop.version"), env!("CARGO_PKG_VERSION"));
        assert_eq!(value("fairhop.seeds"), "[1,18446744073709551615]");
        assert_eq!(value("fairhop.partial_seeds"), "[]");
        let resolved = scenario::load("resolved.toml", &value("fairhop.scenario"), &[]).unwrap();
        assert_eq!(resolved.scenario, scenario());
        let columns: serde_json::Value = serde_json::from_str(&value("fairhop.columns")).unwrap();
        assert_eq!(columns.as_object().unwrap().len(), metadata.schema_descr().num_columns());
        assert!(value("fairhop.table").starts_with("One row for each"));
    }
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(directory.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["resolved_scenario"]["topology"]["hops"], 2);
    assert!(summary["ci95"]["totals"]["mos_mean"].is_number() && summary["wall_s"].is_null());
}

#[test]
fn equal_runs_write_equal_bytes() {
    let (first, ..) = results("tables-once");
    let (again, ..) = results("tables-twice");
    for entry in fs::read_dir(&first).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(fs::read(first.join(&name)).unwrap() == fs::read(again.join(&name)).unwrap(), "{name:?}");
    }
}

#[test]
fn results_are_never_overwritten_and_a_failed_write_leaves_no_file() {
    let (directory, tables, _) = results("tables-keep");
    let error = Directory::create(&directory).unwrap_err();
    assert!(error.to_string().contains("tables-keep is already there"), "{error}");
    assert!(error.mend().contains("new or empty directory"));

    let inner = Directory::create(directory.join("new/and/deep")).unwrap();
    let before = fs::read_dir(inner.path()).unwrap().count();
    let broken = inner.write("x.txt", |_| Err(std::io::Error::other("no"))).unwrap_err();
    assert_eq!(broken.path(), inner.path().join("x.txt"));
    assert_eq!((before, fs::read_dir(inner.path()).unwrap().count()), (0, 0));

    let meta = Meta::new(&scenario()).unwrap();
    write(&inner, &tables, &meta).unwrap();
    assert!(write(&inner, &tables, &meta).is_err());
    assert!(Directory::create(directory.join("flows.parquet")).is_err(), "a file is no directory");
}
