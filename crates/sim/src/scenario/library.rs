//! The ready-made scenarios of the folder `scenarios`, which are compiled into the program.

/// A ready-made scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Name on the command line: the file name without `.toml`.
    pub name: &'static str,
    /// Text of the file, comments included.
    pub text: &'static str,
}

impl Ready {
    /// File name.
    pub fn file_name(&self) -> String {
        format!("{}.toml", self.name)
    }

    /// Title: the first line of the opening comment.
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

macro_rules! ready {
    ($($name:literal),* $(,)?) => {
        &[$(Ready { name: $name, text: include_str!(concat!("../../../../scenarios/", $name, ".toml")) }),*]
    };
}

/// All ready-made scenarios: those of kim2010, of the other papers, of radio and mesh, of wired networks.
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
        "change-fail",
        "k-prio",
        "k-real",
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
        "o-mob",
        "n-static",
        "n-tcp1",
        "n-roam",
        "one-cell",
        "hidden-terminals",
        "exposed-terminals",
        "ring",
        "grid-cbr",
        "random-mesh",
        "walk",
        "random-waypoint",
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

/// The ready-made scenario of whose name `name` is most likely a misspelling.
pub fn nearest_ready_made(name: &str) -> Option<&'static str> {
    fairhop_config::nearest(name, library().iter().map(|ready| ready.name))
}
