//! What holds for all bytes that are taken for the frames of a recording. Used by the fuzz target and by a test.

use std::io::Cursor;

use fairhop_gateway::config::{self, Mode};
use fairhop_gateway::engine::Settings;
use fairhop_gateway::record::{FORMAT, Header, Outcome, Reader, replay};

/// Of the gateway that replays.
const CONFIG: &str = "mode = \"live\"\n[[gateway]]\nmesh = \"wlan0\"\n[control]\nkind = \"adaptive\"\n";

/// A recording with these frames, read and replayed by the controller: nothing panics, and the replay ends.
pub(crate) fn check(frames: &[u8]) -> Outcome {
    let header = Header {
        fairhop_recording: FORMAT,
        version: "1".into(),
        gateway: "wlan0".into(),
        mode: "live".into(),
        unix_s: 0.0,
        began_in_the_middle: false,
        budget: None,
        connected: Vec::new(),
        config: CONFIG.into(),
    };
    let mut bytes = serde_json::to_vec(&header).expect("a header");
    bytes.push(b'\n');
    bytes.extend(frames);
    let config = config::load("gateway.toml", CONFIG, &[]).expect("a config").config;
    let mut reader = Reader::new("a.recording", Cursor::new(bytes)).expect("a recording");
    let live = Settings::of(&config, &config.gateway[0], Mode::Live);
    replay(&mut reader, live.clone(), &mut |_, _| Some(live.clone()))
}
