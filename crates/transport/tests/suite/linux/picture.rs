//! The windows of two flows over time, as SVG.

use std::fmt::Write as _;

use super::trace::Trace;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 40.0;

/// The simulated window over the kernel's.
pub(crate) fn windows(name: &str, ours: &Trace, kernel: &Trace) -> String {
    let max = [ours, kernel].iter().flat_map(|t| &t.samples).map(|s| s.cwnd).max().unwrap_or(1);
    let max = f64::from(max.next_multiple_of(20));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{MARGIN}\" y=\"20\">{name}: \
         congestion window in packets over seconds; grey: Linux, blue: Fairhop</text>\n"
    );
    let mut add = |line: std::fmt::Arguments<'_>| svg.write_fmt(line).expect("a string takes everything");
    for tick in 0..=6 {
        let x = MARGIN + f64::from(tick) / 6.0 * (WIDTH - 2.0 * MARGIN);
        add(format_args!(
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            HEIGHT - 20.0,
            tick * 10
        ));
    }
    for tick in 0..=4 {
        let y = HEIGHT - MARGIN - f64::from(tick) / 4.0 * (HEIGHT - 2.0 * MARGIN);
        let value = max * f64::from(tick) / 4.0;
        add(format_args!("<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{value}</text>\n", MARGIN - 6.0));
        add(format_args!(
            "<line x1=\"{MARGIN}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>\n",
            WIDTH - MARGIN
        ));
    }
    for (trace, colour) in [(kernel, "#888"), (ours, "#06c")] {
        add(format_args!("<polyline fill=\"none\" stroke=\"{colour}\" points=\""));
        for sample in &trace.samples {
            let x = MARGIN + sample.t_ms as f64 / 60_000.0 * (WIDTH - 2.0 * MARGIN);
            let y = HEIGHT - MARGIN - f64::from(sample.cwnd) / max * (HEIGHT - 2.0 * MARGIN);
            add(format_args!("{x:.1},{y:.1} "));
        }
        add(format_args!("\"/>\n"));
    }
    svg.push_str("</svg>\n");
    svg
}
