//! `fairhop airtime`: frame durations, and upper bounds for a path.

use clap::Args;
use fairhop_model::airtime::{Path, shared_links};
use fairhop_model::headers;
use fairhop_model::phy::{Phy, Preamble, Rate, Standard, frame};
use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::table::{Cell, FAINT, NOTHING, TITLE, Table, fixed, wrap};
use crate::ui;

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop airtime                                        802.11a at 12 Mb/s over four hops
  fairhop airtime --standard 802.11b --rate-mbps 2 --hops 3
  fairhop airtime --rate-mbps 54 --rts                   with RTS and CTS before every frame
  fairhop airtime --hops 1 --json | jq .path.tcp_mbps";

/// Delayed ACKs: one ACK for two segments (RFC 1122 §4.2.3.2).
const SEGMENTS_PER_ACK: f64 = 2.0;

/// Arguments of `fairhop airtime`.
#[derive(Args, Debug)]
pub(crate) struct AirtimeArgs {
    /// 802.11a, 802.11b or 802.11g
    #[arg(long, default_value = "802.11a", value_parser = standard)]
    standard: Standard,
    /// Preamble of 802.11b: long or short
    #[arg(long, default_value = "long", value_parser = preamble)]
    preamble: Preamble,
    /// Rate of data frames in Mb/s [default: 12, or 2 with 802.11b]
    #[arg(long, value_name = "MBPS")]
    rate_mbps: Option<f64>,
    /// Rates of ACK, RTS and CTS in Mb/s, separated by commas [default: 6, or 1 with 802.11b]
    #[arg(long, value_name = "MBPS", alias = "basic-rate-mbps", value_delimiter = ',')]
    basic_rates_mbps: Vec<f64>,
    /// Number of hops of the path
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hops: u32,
    /// Number of hops over which a frame is sensed and interferes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reach: u32,
    /// Receivers keep a frame despite a weaker one (capture `first` or `stronger`): spatial reuse begins one hop nearer
    #[arg(long)]
    capture: bool,
    /// Size of a data packet in bytes, including the IP header
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1500,
        value_parser = clap::value_parser!(u32).range(i64::from(headers::IP_TCP) + 1..=MAX_PACKET)
    )]
    packet_bytes: u32,
    /// RTS and CTS before every data frame, or, as in --rts=500, before frames of more than 500 bytes
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    rts: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// An MSDU has at most 2304 bytes (IEEE 802.11-2020, 9.2.4.7.1), including LLC and SNAP.
const MAX_PACKET: i64 = 2304 - headers::LLC_SNAP as i64;

fn standard(name: &str) -> Result<Standard, String> {
    [Standard::Dot11a, Standard::Dot11b, Standard::Dot11g]
        .into_iter()
        .find(|standard| standard.name() == name || standard.name().strip_prefix("802.11") == Some(name))
        .ok_or_else(|| "the standards are 802.11a, 802.11b and 802.11g".to_owned())
}

fn preamble(name: &str) -> Result<Preamble, String> {
    match name {
        "long" => Ok(Preamble::Long),
        "short" => Ok(Preamble::Short),
        _ => Err("the preambles are long and short".to_owned()),
    }
}

/// The rate of this standard with this speed.
fn rate(standard: Standard, option: &str, mbps: f64) -> Result<Rate, Failure> {
    standard.rate(mbps).ok_or_else(|| {
        let rates: Vec<String> = standard.rates().iter().map(|rate| rate.mbps().to_string()).collect();
        Failure::new(
            format!("--{option}: {} has no rate of {mbps} Mb/s", standard.name()),
            format!("its rates are {} Mb/s", rates.join(", ")),
        )
    })
}

/// Prints frame times and bounds.
///
/// # Errors
/// The standard lacks a rate, or the output cannot be written.
pub(crate) fn airtime(args: &AirtimeArgs) -> Result<u8, Failure> {
    let standard = args.standard;
    let (default_rate, default_basic) = if standard == Standard::Dot11b { (2.0, 1.0) } else { (12.0, 6.0) };
    let basic: Vec<Rate> = if args.basic_rates_mbps.is_empty() {
        vec![rate(standard, "basic-rates-mbps", default_basic)?]
    } else {
        let rates = args.basic_rates_mbps.iter().map(|&mbps| rate(standard, "basic-rates-mbps", mbps));
        rates.collect::<Result<_, _>>()?
    };
    let computation = Computation {
        path: Path {
            phy: Phy::new(standard, args.preamble),
            rate: rate(standard, "rate-mbps", args.rate_mbps.unwrap_or(default_rate))?,
            basic: &basic,
            rts_threshold: args.rts,
            hops: args.hops,
            shared_links: shared_links(args.reach, args.capture),
        },
        packet_bytes: args.packet_bytes,
    };
    ui::print(&if args.json { format!("{:#}\n", computation.json()) } else { computation.text() })?;
    Ok(0)
}

/// Everything that is shown, in both forms.
struct Computation<'a> {
    path: Path<'a>,
    packet_bytes: u32,
}

/// A frame on the air.
struct OnAir {
    name: String,
    bytes: u32,
    rate: Rate,
    time: Nanos,
}

impl Computation<'_> {
    fn frames(&self) -> Vec<OnAir> {
        let phy = &self.path.phy;
        let control = phy.control_rate(self.path.rate, self.path.basic);
        let answer = phy.control_rate(control, self.path.basic);
        let frame =
            |name: String, bytes, rate| OnAir { name, bytes, rate, time: phy.frame_duration(rate, bytes) };
        let data = |name: String, ip_bytes| frame(name, frame::of_ip_packet(ip_bytes), self.path.rate);
        let mut frames = vec![
            data(format!("data, {} byte packet", self.packet_bytes), self.packet_bytes),
            data("data, TCP ACK".to_owned(), headers::IP_TCP),
        ];
        frames.extend(Codec::ALL.map(|codec| {
            let profile = codec.profile();
            data(format!("data, {}", profile.name), headers::IP_UDP_RTP + profile.payload_bytes)
        }));
        frames.push(frame("ACK".to_owned(), frame::ACK, control));
        frames.push(frame("RTS".to_owned(), frame::RTS, control));
        frames.push(frame("CTS".to_owned(), frame::CTS, answer));
        frames
    }

    fn spaces(&self) -> [(&'static str, Nanos); 6] {
        let phy = &self.path.phy;
        let control = phy.control_rate(self.path.rate, self.path.basic);
        [
            ("slot", phy.slot),
            ("SIFS", phy.sifs),
            ("DIFS", phy.difs()),
            ("EIFS", phy.eifs(phy.standard.mandatory_rates()[0])),
            ("ACK timeout", phy.response_timeout_for(control)),
            ("mean backoff", self.path.packet_time(self.packet_bytes).backoff),
        ]
    }

    fn udp_payload(&self) -> u32 {
        self.packet_bytes - headers::IP_UDP
    }

    fn mss(&self) -> u32 {
        self.packet_bytes - headers::IP_TCP
    }

    /// A single hop, and the whole path.
    fn paths(&self) -> [Path<'_>; 2] {
        [Path { hops: 1, ..self.path }, self.path]
    }

    fn text(&self) -> String {
        let path = &self.path;
        let phy = &path.phy;
        let rates: Vec<String> = path.basic.iter().map(|rate| rate.mbps().to_string()).collect();
        let mut text = format!(
            "{TITLE}{} at {} Mb/s{TITLE:#}, basic rate{} {} Mb/s, contention window {} to {} slots\n\n",
            phy.standard.name(),
            path.rate.mbps(),
            if rates.len() == 1 { "" } else { "s" },
            rates.join(", "),
            phy.cw_min,
            phy.cw_max
        );

        let mut spaces = Table::new("Spaces").column("µs", 1);
        for (name, time) in self.spaces() {
            spaces.row(name, [micros(time)]);
        }
        text += &format!("{}\n", spaces.render());

        let mut frames = Table::new("Frames").column("bytes", 1).column("Mb/s", 1).column("µs", 1);
        for OnAir { name, bytes, rate, time } in self.frames() {
            frames.row(&name, [bytes.to_string().into(), rate.mbps().to_string().into(), micros(time)]);
        }
        text += &format!("{}\n", frames.render());

        let packet = path.packet_time(self.packet_bytes);
        let mut exchange = Table::new("One packet over one hop").column("µs", 1);
        exchange.row("DIFS", [micros(packet.difs)]);
        exchange.row("mean backoff", [micros(packet.backoff)]);
        if packet.protection > Nanos::ZERO {
            exchange.row("RTS, SIFS, CTS, SIFS", [micros(packet.protection)]);
        }
        exchange.row("data frame", [micros(packet.data)]);
        exchange.row("SIFS, ACK", [micros(packet.acknowledgment)]);
        exchange.row("total", [micros(packet.total())]);
        text += &format!("{}\n", exchange.render());

        let mut bounds = Table::new("Upper bounds").column("one hop", 1);
        if path.hops > 1 {
            bounds = bounds.column(format!("{} hops", path.hops), 1);
        }
        let columns = &self.paths()[..if path.hops > 1 { 2 } else { 1 }];
        let mut bound = |name: &str, of: &dyn Fn(&Path<'_>) -> String| {
            bounds.row(name, columns.iter().map(|path| Cell::from(of(path))));
        };
        bound("UDP goodput, Mb/s", &|path| fixed(path.udp_goodput(self.udp_payload()).as_mbps(), 3));
        bound("TCP goodput, Mb/s", &|path| {
            fixed(path.tcp_goodput(self.mss(), 0, SEGMENTS_PER_ACK).as_mbps(), 3)
        });
        for codec in Codec::ALL {
            bound(&format!("calls, {}", codec.profile().name), &|path| path.calls(codec).to_string());
        }
        text += &bounds.render();
        let sharing = if path.hops > 1 {
            format!(" Of {} consecutive links, at most one is in use.", path.shared_links.min(path.hops))
        } else {
            String::new()
        };
        let remark = format!(
            "Upper bounds for a perfect schedule without collisions, losses and queues, one kind of traffic at a time; UDP \
             payloads of {} bytes, TCP segments of {} bytes with an ACK for every second one.{sharing} `fairhop run` \
             simulates what 802.11 achieves.",
            self.udp_payload(),
            self.mss()
        );
        text + &format!("{FAINT}{}{FAINT:#}\n", wrap(&remark))
    }

    fn json(&self) -> Value {
        let path = &self.path;
        let phy = &path.phy;
        let us = |time: Nanos| Value::from(time.as_micros_f64());
        let frames: Vec<Value> = self
            .frames()
            .into_iter()
            .map(|f| json!({"name": f.name, "bytes": f.bytes, "rate_mbps": f.rate.mbps(), "us": us(f.time)}))
            .collect();
        let spaces: serde_json::Map<String, Value> = self
            .spaces()
            .into_iter()
            .map(|(name, time)| (format!("{}_us", name.to_lowercase().replace(' ', "_")), us(time)))
            .collect();
        let packet = path.packet_time(self.packet_bytes);
        let bounds = |path: &Path<'_>| {
            let calls: serde_json::Map<String, Value> = Codec::ALL
                .iter()
                .map(|&codec| (codec.profile().name.to_owned(), path.calls(codec).into()))
                .collect();
            json!({
                "hops": path.hops,
                "udp_mbps": path.udp_goodput(self.udp_payload()).as_mbps(),
                "tcp_mbps": path.tcp_goodput(self.mss(), 0, SEGMENTS_PER_ACK).as_mbps(),
                "calls": calls,
            })
        };
        let [one_hop, whole] = self.paths();
        json!({
            "standard": phy.standard.name(),
            "rate_mbps": path.rate.mbps(),
            "basic_rates_mbps": path.basic.iter().map(|rate| rate.mbps()).collect::<Vec<_>>(),
            "cw_min": phy.cw_min,
            "cw_max": phy.cw_max,
            "spaces": spaces,
            "frames": frames,
            "exchange": {
                "packet_bytes": self.packet_bytes,
                "difs_us": us(packet.difs),
                "backoff_us": us(packet.backoff),
                "protection_us": us(packet.protection),
                "data_us": us(packet.data),
                "acknowledgment_us": us(packet.acknowledgment),
                "total_us": us(packet.total()),
            },
            "shared_links": path.shared_links,
            "upper_bound": true,
            "one_hop": bounds(&one_hop),
            "path": bounds(&whole),
        })
    }
}

fn micros(time: Nanos) -> Cell {
    if time == Nanos::MAX { NOTHING.into() } else { fixed(time.as_micros_f64(), 1).into() }
}
