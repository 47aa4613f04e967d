//! Scenarios: reading and checking them, and what they resolve to.
//!
//! [`load`] is pure: text and overrides go in, a checked [`Scenario`] or its errors come out. [`fairhop_config`] parses the
//! text, applies overrides, and checks keys, types and ranges against the types; `check` does what the types cannot
//! express. Whether links and routes exist is checked by the builder of the network; it returns [`Finding`]s, which
//! [`Loaded::locate`] places in the text.
//!
//! Radio, MAC, queues, wired links and routing own their parameter types, which are re-exported here as parts of a
//! scenario. None of these modules depends on this one.

mod attach;
mod attachments;
mod change;
mod check;
mod dscp;
mod library;
mod mobility;
mod place;
mod placement;
mod resolve;
mod sections;
mod topology;
mod traffic;
mod wired;

use std::sync::LazyLock;

pub use fairhop_config::control::{Control, ControlChange, ControlSetting, ShaperDiscipline, ShaperSetting};
pub use fairhop_config::{
    Errors as ScenarioErrors, Finding, MAX_COLLECTED, MAX_PROBLEMS, MAX_TEXT_BYTES, Override, Problem,
};

pub use attach::{Attach, AttachKind, Attachment};
pub use change::Change;
pub(crate) use check::MIN_DISTANCE_M;
pub use dscp::{Codepoint, DscpName};
pub use library::{Ready, library, nearest_ready_made, ready_made};
pub use mobility::{Initial, Mobility, MobilityKind};
pub use place::{Endpoint, HostName, NamedPlace, Place};
pub use placement::Linkage;
pub use sections::{Record, Scenario, Voice};
pub use topology::{Gateways, NodeAt, Topology, Waypoint};
pub use traffic::{
    Aimd, Bulk, Burst, Call, Cbr, Common, Ping, Quic, Real, Request, SizeLaw, TcpHyStart, TcpProfile,
    TcpRecovery, TcpVariant, TimeLaw, Traffic, Video, Web,
};
pub use wired::{Host, Internet, LinkDirection, LinkLoss, SlottedChannel, Wired, WiredLink};

pub use crate::mac::{AccessCategory, DscpMapping, Edca, EdcaChoice, Mac};
pub use crate::queue::{Discipline, HostOf, QueueLimit};
pub use crate::radio::{Capture, LinkRate, Propagation, Radio, RateReach, Reception};
pub use crate::routing::{AodvSettings, Hello, Metric, OnBreak, Protocol, Routing};
pub use crate::wired::LinkArq;

use fairhop_config::{Document, Form};

/// The form of scenarios.
static FORM: LazyLock<Form> = LazyLock::new(|| {
    Form::of::<Scenario>(
        "scenario",
        "remove comments, or describe the nodes by a grid, string or random topology",
    )
});

/// The JSON Schema (draft 2020-12) of a scenario.
pub fn schema() -> serde_json::Value {
    FORM.schema().clone()
}

/// A checked scenario with the position of each of its values in the text.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The scenario.
    pub scenario: Scenario,
    document: Document,
}

impl Loaded {
    /// Findings as errors with their places in the text; `None` if there are none.
    pub fn locate(&self, findings: Vec<Finding>) -> Option<ScenarioErrors> {
        self.document.locate(findings, 0)
    }

    /// The warnings of [`Scenario::warnings`] with their places in the text.
    pub fn warnings(&self) -> Vec<Problem> {
        self.document.warnings(self.scenario.warnings())
    }
}

/// Reads and checks a scenario.
///
/// `source_name` is the name of the text in errors: its file name.
///
/// # Errors
/// The errors of the first step that finds any: the size of the text, its syntax, its keys, types and ranges, or
/// contradictions and what cannot be simulated.
///
/// ```
/// use fairhop_sim::scenario::{Override, load, ready_made};
///
/// let mix = ready_made("k-mix").expect("a ready-made scenario");
/// let eight_calls = load("k-mix.toml", mix.text, &[Override::new("traffic.0.count=8")])?;
/// assert_eq!(eight_calls.scenario.traffic[0].count(), 8);
///
/// let errors = load("k-mix.toml", mix.text, &[Override::new("traffic.0.cuont=8")]).expect_err("a slip");
/// assert_eq!(errors.problems()[0].help(), "write `count`");
/// # Ok::<(), fairhop_sim::scenario::ScenarioErrors>(())
/// ```
pub fn load(source_name: &str, text: &str, overrides: &[Override]) -> Result<Loaded, ScenarioErrors> {
    load_with(source_name, text, overrides, |_| {
        Err("files are not read here: give its text as `movements`".to_owned())
    })
}

/// The same for a scenario that may name a file (`mobility.file`), whose text `read` gives, or the reason why it cannot.
///
/// # Errors
/// Those of [`load`], or a file that cannot be read.
pub fn load_with(
    source_name: &str,
    text: &str,
    overrides: &[Override],
    read: impl FnOnce(&str) -> Result<String, String>,
) -> Result<Loaded, ScenarioErrors> {
    let document = Document::read(source_name, text, overrides, &FORM)?;
    let mut loaded = Loaded { scenario: document.value()?, document };
    if let Some(mobility) = &mut loaded.scenario.mobility
        && let (Some(file), None) = (&mobility.file, &mobility.movements)
    {
        match read(file) {
            Ok(text) => mobility.movements = Some(text),
            Err(reason) => {
                let finding = Finding::new(
                    "mobility.file",
                    format!("cannot read {file}: {reason}"),
                    "not read",
                    "check the path, which is relative to the scenario's folder",
                );
                if let Some(errors) = loaded.document.locate(vec![finding], 0) {
                    return Err(errors);
                }
            }
        }
    }
    loaded.scenario.routing.fill_metric();
    let (findings, uncollected) = loaded.scenario.counted_findings();
    match loaded.document.locate(findings, uncollected) {
        Some(errors) => Err(errors),
        None => Ok(loaded),
    }
}

/// There is no path between the two nodes of a traffic entry. `hint` says how to get one, as in "node 4 is 300 m from its
/// nearest neighbour; receive_m is 250".
pub fn no_route(traffic: usize, from: u32, to: u32, hint: &str) -> Finding {
    Finding::new(
        format!("traffic.{traffic}.to"),
        format!("no route from node {from} to node {to}"),
        "cannot be reached",
        hint,
    )
}
