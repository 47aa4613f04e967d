//! `fairhop mos`: call quality from loss and delay.

use clap::Args;
use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec, EquipmentImpairment};
use fairhop_sim::results::ACCEPTABLE_MOS;
use serde_json::json;

use crate::failure::Failure;
use crate::table::{BAD, FAINT, GOOD, TITLE, wrap};
use crate::ui;

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop mos --codec g729a --loss 0.02 --delay-ms 104    2 % lost or late, 104 ms in the network
  fairhop mos --codec g711 --delay-ms 150
  fairhop mos --loss 0.05 --json | jq .mos";

/// Rating of a call without impairment (Cole and Rosenbluth).
const R_WITHOUT_IMPAIRMENT: f64 = 94.2;

/// Arguments of `fairhop mos`.
#[derive(Args, Debug)]
pub(crate) struct MosArgs {
    /// Codec: g729a, g711, g723.1 or opus
    #[arg(long, default_value = "g729a", value_parser = codec)]
    codec: Codec,
    /// Fraction of the packets that are lost or too late, 0 to 1
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = loss, allow_negative_numbers = true)]
    loss: f64,
    /// One-way network delay in ms; with a playout buffer, that of the fastest packet
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds, allow_negative_numbers = true)]
    delay_ms: f64,
    /// Time that the playout buffer adds to the fastest packet, in ms
    #[arg(long, value_name = "MS", default_value = "60", value_parser = milliseconds, allow_negative_numbers = true)]
    playout_ms: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The codec with this name, as an argument.
pub(crate) fn codec(name: &str) -> Result<Codec, String> {
    Codec::from_name(name).ok_or_else(|| format!("the codecs are {}", codec_names().join(", ")))
}

fn codec_names() -> Vec<&'static str> {
    Codec::ALL.iter().map(|codec| codec.profile().name).collect()
}

fn loss(text: &str) -> Result<f64, String> {
    const MEANT: &str = "must be a fraction from 0 to 1";
    let percent = text.trim_end_matches('%').trim_end();
    match percent.parse::<f64>() {
        Ok(loss) if (0.0..=1.0).contains(&loss) && percent == text => Ok(loss),
        Ok(loss) if (0.0..=100.0).contains(&loss) => {
            Err(format!("{MEANT}: for {loss} % write {}", loss / 100.0))
        }
        _ => Err(format!("{MEANT}: for 2 % write 0.02")),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    const MAX: f64 = 100_000.0;
    match text.parse::<f64>() {
        Ok(ms) if (0.0..=MAX).contains(&ms) => Ok(ms),
        Ok(_) => Err(format!("must be 0 to {MAX} ms")),
        Err(_) => Err("must be a number of milliseconds, without a unit".to_owned()),
    }
}

/// Prints the score and its terms.
///
/// # Errors
/// It cannot be written.
pub(crate) fn mos(args: &MosArgs) -> Result<u8, Failure> {
    let profile = args.codec.profile();
    let (network, playout) = (Nanos::from_millis_f64(args.delay_ms), Nanos::from_millis_f64(args.playout_ms));
    let mouth_to_ear = profile.vocoder_delay + network + playout;
    let (d, vocoder_ms) = (mouth_to_ear.as_millis_f64(), profile.vocoder_delay.as_millis_f64());
    let (id, ie) = (voice::delay_impairment(mouth_to_ear), profile.ie.at(args.loss));
    let r = voice::r_factor(args.codec, args.loss, network, playout);
    let mos = voice::mos(args.codec, args.loss, network, playout);
    if args.json {
        let object = json!({
            "codec": profile.name,
            "loss": args.loss,
            "delay_ms": args.delay_ms,
            "playout_ms": args.playout_ms,
            "vocoder_ms": vocoder_ms,
            "mouth_to_ear_ms": d,
            "id": id,
            "ie": ie,
            "r": r,
            "mos": mos,
        });
        ui::print(&format!("{object:#}\n"))?;
        return Ok(0);
    }
    let ie_formula = match profile.ie {
        EquipmentImpairment::Logarithmic { g1, g2, g3 } => format!("{g1} + {g2} ln(1 + {g3} e)"),
        EquipmentImpairment::Robustness { ie, bpl } => format!("{ie} + (95 − {ie}) 100 e / (100 e + {bpl})"),
    };
    let source = match args.codec {
        Codec::G729a | Codec::G711 => "Cole and Rosenbluth",
        Codec::G7231 => "ITU-T G.113 appendix I, G.107 §7.4",
        Codec::Opus => "an assumption: the robustness of G.711 with concealment (G.113 appendix I)",
    };
    let good = mos >= ACCEPTABLE_MOS;
    let style = if good { GOOD } else { BAD };
    let verdict = if good { "acceptable: 3.6 or more" } else { "not acceptable: less than 3.6" };
    let codec = profile.name;
    let terms = format!(
        "\
{TITLE}MOS{TITLE:#}  {style}{mos:<8.2}{style:#}  {verdict} (1 is bad, 4.5 is the maximum)
R    {r:<8.2}  {R_WITHOUT_IMPAIRMENT} − Id − Ie

d    {d:<8.1}  ms from mouth to ear: {vocoder_ms} {codec} encoder + {delay} network + {playout} playout buffer
Id   {id:<8.2}  delay: 0.024 d + 0.11 (d − 177.3) where d > 177.3 ms
Ie   {ie:<8.2}  {codec} with e = {loss} of its packets lost or late: {ie_formula}
",
        delay = args.delay_ms,
        playout = args.playout_ms,
        loss = args.loss,
    );
    let sources = wrap(&format!(
        "E-model of ITU-T G.107 as reduced by R. G. Cole and J. H. Rosenbluth, ACM CCR 31(2), 2001; R to MOS by G.107 \
         annex B; Ie of {codec}: {source}."
    ));
    ui::print(&format!("{terms}\n{FAINT}{sources}{FAINT:#}\n"))?;
    Ok(0)
}
