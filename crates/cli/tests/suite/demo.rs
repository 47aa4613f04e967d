//! `fairhop demo`.

use std::fs;
use std::process::Output;

use crate::support::{folder, in_folder, text};

#[test]
fn the_demo_compares_runs_without_and_with_control_and_replaces_only_its_own_pictures() {
    let folder = folder();
    let Output { status, stdout, .. } = in_folder(folder.path(), &["demo", "--out", "pictures"]);
    let report = text(&stdout);
    assert!(status.success(), "{report}");
    for run in ["calls alone", "downloads alone", "together", "window", "pacing", "adaptive"] {
        assert!(report.contains(run), "{run}: {report}");
    }
    assert!(report.lines().all(|line| line.chars().count() <= 100), "{report}");
    let picture = folder.path().join("pictures/demo.svg");
    let drawn = fs::read_to_string(&picture).expect("a picture");
    assert!(drawn.contains("<svg"));
    let remedies = fs::read_to_string(folder.path().join("pictures/demo-control.svg")).expect("a picture");
    assert!(remedies.contains("adaptive") && !drawn.contains("adaptive"));

    assert!(in_folder(folder.path(), &["demo", "--out", "pictures"]).status.success());
    assert_eq!(fs::read_to_string(&picture).expect("a picture"), drawn);

    fs::write(&picture, "<svg>somebody else's</svg>").expect("a file");
    let refused = in_folder(folder.path(), &["demo", "--out", "pictures"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(fs::read_to_string(&picture).expect("a picture"), "<svg>somebody else's</svg>");
}
