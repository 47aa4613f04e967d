//! Prints the numbers of `docs/validation/phy.md` and `docs/validation/voice.md`.
#![allow(clippy::print_stdout)]

use fairhop_model::airtime::{Path, shared_links};
use fairhop_model::bianchi::{
    AfterCollision, Contention, Exchange, head_start, saturation, saturation_with_freezing,
};
use fairhop_model::phy::{Phy, Preamble, Rate, Standard, chunk_success};
use fairhop_model::units::{Db, Nanos};
use fairhop_model::voice::{Codec, mos};

fn main() {
    sinr_of_loss();
    string_bounds();
    cells();
    scores();
}

/// SINRs at which 90, 50, 10 and 1 % of frames of 1024 bytes are lost.
fn sinr_of_loss() {
    println!(
        "| rate, Mb/s | SINR in dB at 90 % | 50 % | 10 % | 1 % loss of 1024 bytes |\n|---|---|---|---|---|"
    );
    for rate in Rate::ALL {
        let at = |loss: f64| {
            (-2000..4000)
                .map(|centibel| f64::from(centibel) / 100.0)
                .find(|db| 1.0 - chunk_success(rate, Db(*db).as_ratio(), 8192.0) <= loss)
                .unwrap_or(f64::NAN)
        };
        let [a, b, c, d] = [0.9, 0.5, 0.1, 0.01].map(at);
        println!("| {} | {a:.1} | {b:.1} | {c:.1} | {d:.1} |", rate.mbps());
    }
}

/// What airtime allows on strings of 802.11a at 12 Mb/s, control frames at 6 Mb/s, a reach of two hops.
fn string_bounds() {
    println!(
        "\n| hops | TCP, Mb/s, no capture | capture | G.729A calls, no capture | capture |\n|---|---|---|---|---|"
    );
    for hops in 1..=8 {
        let [none, capture] = [false, true].map(|capture| Path {
            phy: Phy::new(Standard::Dot11a, Preamble::Long),
            rate: Rate::Ofdm12,
            basic: &[Rate::Ofdm6],
            rts_threshold: None,
            hops,
            shared_links: shared_links(2, capture),
        });
        let tcp = |path: &Path<'_>| path.tcp_goodput(1460, 0, 2.0).as_mbps();
        let calls = |path: &Path<'_>| path.calls(Codec::G729a);
        println!(
            "| {hops} | {:.2} | {:.2} | {} | {} |",
            tcp(&none),
            tcp(&capture),
            calls(&none),
            calls(&capture)
        );
    }
}

/// Saturation throughput of 1500-byte packets: Bianchi with 7 attempts, and with freezing by the standard.
fn cells() {
    println!(
        "\n| stations | 802.11a 12 Mb/s: Bianchi | freezing | 802.11b 11 Mb/s: Bianchi | freezing |\n|---|---|---|---|---|"
    );
    for n in [1, 2, 5, 10, 20, 50] {
        let cell = |standard: Standard, rate: Rate| {
            let phy = Phy::new(standard, Preamble::Long);
            let basic = standard.mandatory_rates();
            let exchange =
                Exchange::basic_access(&phy, rate, basic, 1500, 1500, AfterCollision::ResponseTimeout);
            let contention = Contention::of(&phy, Some(7));
            let ahead = head_start(&phy, phy.control_rate(rate, basic));
            let plain = saturation(n, &contention, &exchange).throughput.as_mbps();
            let frozen = saturation_with_freezing(n, &contention, &exchange, ahead).throughput.as_mbps();
            format!("{plain:.3} | {frozen:.3}")
        };
        println!(
            "| {n} | {} | {} |",
            cell(Standard::Dot11a, Rate::Ofdm12),
            cell(Standard::Dot11b, Rate::Cck11)
        );
    }
}

/// MOS with a playout buffer of 60 ms.
fn scores() {
    println!(
        "\n| codec | loss 0, delay 0 | 0 %, 160 ms | 2 %, 0 | 2 %, 104 ms | 5 %, 50 ms | 10 %, 50 ms |\n|---|---|---|---|---|---|---|"
    );
    for codec in Codec::ALL {
        let score = |loss, ms| mos(codec, loss, Nanos::from_millis(ms), Nanos::from_millis(60));
        let row = [(0.0, 0), (0.0, 160), (0.02, 0), (0.02, 104), (0.05, 50), (0.1, 50)]
            .map(|(loss, ms)| format!("{:.2}", score(loss, ms)));
        println!("| {} | {} |", codec.profile().name, row.join(" | "));
    }
}
