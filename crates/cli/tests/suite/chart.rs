//! `fairhop run --chart`.

use std::fs;

use fairhop_sim::output::svg::escaped;

use crate::support::{folder, in_folder, text};

/// Whether every element is closed in order, and every attribute quoted.
fn is_well_formed(xml: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for element in xml.split('<').skip(1) {
        let Some((tag, _)) = element.split_once('>') else { return false };
        if tag.matches('"').count() % 2 == 1 || tag.contains('&') {
            return false;
        }
        match tag.strip_prefix('/') {
            Some(name) if open.pop() != Some(name) => return false,
            Some(_) => {}
            None if tag.ends_with('/') => {}
            None => open.push(tag.split_whitespace().next().unwrap_or_default()),
        }
    }
    open.is_empty()
}

#[test]
fn a_chart_is_one_picture_with_a_bar_for_each_node_and_a_page_has_the_tables_too() {
    let folder = folder();
    let run = |more: &[&'static str]| {
        let words = ["run", "small.toml", "--set", "name=\"<small> & \\\"calm\\\"\""];
        in_folder(folder.path(), &words.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    assert!(run(&["--chart", "one.svg"]).status.success());
    let one = read("one.svg");
    assert!(is_well_formed(&one), "{one}");
    assert_eq!(one.matches("class=\"airtime\"").count(), 3, "a string of two hops");
    assert!(one.contains("one call") && !one.contains("<polygon"));

    let several = run(&["--seeds", "3", "--chart", "three.html", "--set", "topology.hops=39"]);
    let page = read("three.html");
    let svg = &page[page.find("<svg").expect("a picture")..page.find("</svg>").expect("its end") + 6];
    assert!(is_well_formed(svg) && svg.contains("3 seeds, 1 to 3"), "{svg}");
    assert_eq!((svg.matches("class=\"airtime\"").count(), svg.matches("<polygon").count()), (40, 2));
    let report = escaped(&text(&several.stdout));
    assert!(page.contains(&report), "the page has what the terminal has");
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("http://www.w3.org/").count()
    );

    let quiet = run(&["--chart", "quiet.svg", "--set", "traffic=[]"]);
    assert!(quiet.status.success(), "{}", text(&quiet.stderr));
    assert!(read("quiet.svg").contains("no calls") && read("quiet.svg").contains("no flows"));

    let refused = run(&["--chart", "one.svg"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("one.svg") && read("one.svg") == one);
}
