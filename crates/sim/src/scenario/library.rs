//! The ready-made scenarios of the folder `scenarios`, built into the program.

/// A ready-made scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// What it is called on the command line: the file's name without `.toml`.
    pub name: &'static str,
    /// The file, comments and all.
    pub text: &'static str,
}

impl Ready {
    /// The name of its file.
    pub fn file_name(&self) -> String {
        format!("{}.toml", self.name)
    }

    /// What it shows, in a line: the first line of its opening comment.
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

macro_rules! ready {
    ($($name:literal),* $(,)?) => {
        &[$(Ready { name: $name, text: include_str!(concat!("../../../../scenarios/", $name, ".toml")) }),*]
    };
}

/// All ready-made scenarios: first those of kim2010, then the other papers', then the radio's and the mesh's, then those of
/// wires.
pub fn library() -> &'static [Ready] {
    ready![
        "k-mix",
        "k-calls",
        "k-tcp",
        "k-burst",
        "k-control",
        "k-region",
        "adaptive-grid",
        "change-calls",
        "change-flows",
        "change-rate",
        "change-hop",
        "k-prio",
        "string-8",
        "rts-cts",
        "matrix",
        "x-adhoc",
        "x-lan",
        "x-mix",
        "x-out",
        "x-in",
        "x-win",
        "x-video",
        "osipov-string",
        "parallel-strings",
        "o-surf",
        "o-multi",
        "o-len",
        "one-cell",
        "hidden-terminals",
        "exposed-terminals",
        "ring",
        "grid-cbr",
        "random-mesh",
        "two-gateways",
        "web-and-calls",
        "quic-and-calls",
        "video",
        "linux-path",
        "dumbbell",
        "slotted-link",
        "c-outage",
        "c-share",
        "c-fair",
        "c-udp",
        "c-util",
    ]
}

/// The ready-made scenario with this name.
pub fn ready_made(name: &str) -> Option<Ready> {
    library().iter().copied().find(|ready| ready.name == name)
}

/// The name of the ready-made scenario that `name` was most likely meant to be.
pub fn nearest_ready_made(name: &str) -> Option<&'static str> {
    super::suggest::nearest(name, library().iter().map(|ready| ready.name))
}
