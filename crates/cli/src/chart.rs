//! `--chart`: the runs of a scenario as a picture, as SVG, PNG or a page in HTML.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use fairhop_sim::output::PROGRAM;
use fairhop_sim::output::chart::{self, Column, Options};
use fairhop_sim::output::svg::escaped;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::Scenario;

use crate::failure::{Failure, reason};
use crate::html;
use crate::new_file::NewFile;

/// The program that makes a PNG of an SVG: librsvg's.
const CONVERTER: &str = "rsvg-convert";
/// Pixels of a PNG for each unit of the picture.
const ZOOM: &str = "2";

const STYLE: &str = "\
body { margin: 1rem auto; max-width: 60rem; padding: 0 1rem; background: #fff; color: #222; }
svg { display: block; max-width: 100%; height: auto; margin: 0 auto 1rem; }
pre { overflow-x: auto; font-size: clamp(0.6rem, 2.4vw, 0.85rem); line-height: 1.35; }
@media print { pre { white-space: pre-wrap; font-size: 7pt; } }";

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
    Html,
}

/// The file of a picture.
#[derive(Clone, Debug)]
pub(crate) struct ChartFile {
    file: NewFile,
    format: Format,
}

impl ChartFile {
    /// A file that does not exist yet. Everything is checked before anything runs.
    ///
    /// # Errors
    /// The extension is unknown, the file exists, its folder does not, or a PNG cannot be made here.
    pub(crate) fn claim(path: &Path) -> Result<Self, Failure> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        let format = match extension.as_deref() {
            Some("svg") => Format::Svg,
            Some("png") => Format::Png,
            Some("html" | "htm") => Format::Html,
            _ => {
                return Err(Failure::new(
                    format!("--chart {}: a chart is written as SVG, PNG or HTML", path.display()),
                    "give a file that ends in .svg, .png or .html",
                ));
            }
        };
        let file = NewFile::claim("--chart", path)?;
        if format == Format::Png {
            converter().arg("--version").output().map_err(|_| no_converter(path))?;
        }
        Ok(Self { file, format })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Writes the picture of runs; `report` makes their report as text, which a page has below the picture.
    ///
    /// # Errors
    /// The file cannot be written, or the PNG cannot be made.
    pub(crate) fn write(
        &self,
        scenario: &Scenario,
        columns: &[Column],
        runs: &[Summary],
        report: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let nodes: Vec<_> = runs.iter().map(|run| run.nodes.as_slice()).collect();
        let options = Options {
            title: scenario.name.clone(),
            subtitle: subtitle(scenario, runs),
            flow_word: "flow".to_owned(),
            warmup_s: scenario.warmup_s,
        };
        let picture = chart::own(columns, &nodes, &options);
        let content = match self.format {
            Format::Svg => picture.into_bytes(),
            Format::Png => self.png(&picture)?,
            Format::Html => page(&scenario.name, &picture, &report()).into_bytes(),
        };
        self.file.write(&content)
    }

    fn png(&self, picture: &str) -> Result<Vec<u8>, Failure> {
        let failed = |why: String| {
            Failure::new(
                format!("cannot make {}: {CONVERTER}: {why}", self.path().display()),
                "give a file that ends in .svg or .html",
            )
        };
        let mut child = converter()
            .args(["--format", "png", "--zoom", ZOOM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(reason(&error)))?;
        // It reads the whole picture before it writes. If it ends early, its exit code says so.
        if let Some(mut input) = child.stdin.take() {
            let _ = input.write_all(picture.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| failed(reason(&error)))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
        }
    }
}

fn converter() -> Command {
    Command::new(CONVERTER)
}

fn no_converter(path: &Path) -> Failure {
    Failure::new(
        format!("--chart {}: PNG is made by {CONVERTER}, which is not installed", path.display()),
        "install it (Debian: apt-get install librsvg2-bin), or give a file that ends in .svg or .html",
    )
}

/// Times, seeds and version.
fn subtitle(scenario: &Scenario, runs: &[Summary]) -> String {
    let seeds: Vec<u64> = runs.iter().flat_map(|run| run.seeds.iter().copied()).collect();
    let seeds = match seeds.as_slice() {
        [one] => format!("seed {one}"),
        [first, .., last] => format!("{} seeds, {first} to {last}", seeds.len()),
        [] => String::new(),
    };
    let warmup = match scenario.warmup_s {
        0.0 => String::new(),
        warmup_s => format!(", the first {warmup_s} s not counted"),
    };
    let partial = if runs.iter().any(|run| run.partial) { "; PARTIAL: ended early" } else { "" };
    format!("{} s simulated{warmup}; {seeds}; {PROGRAM}{partial}", scenario.duration_s)
}

/// A page with the picture and the report.
fn page(title: &str, picture: &str, report: &str) -> String {
    let report = anstream::adapter::strip_str(report).to_string();
    html::page(title, STYLE, &format!("{picture}<pre>{}</pre>\n", escaped(&report)))
}
