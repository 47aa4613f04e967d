use super::*;

/// A config with one gateway and these further lines.
fn with(lines: &str) -> Result<Loaded, Errors> {
    load("gateway.toml", &format!("[[gateway]]\nmesh = \"wlan0\"\n{lines}"), &[])
}

fn message(lines: &str) -> String {
    with(lines).expect_err("an error").to_string()
}

#[test]
fn the_shortest_config_runs_dry_with_adaptive_control() {
    let loaded = with("").expect("a config");
    let config = loaded.config;
    assert_eq!(config.mode, Mode::DryRun);
    let control = config.control_of(&config.gateway[0]);
    assert_eq!(control.kind(), "adaptive");
    assert!(matches!(setting_of(&control), (ControllerConfig::Adaptive(_), 200)));
    assert_eq!(config.gateway[0].name(), "wlan0");
}

#[test]
fn the_example_of_the_package_is_valid_and_names_every_section() {
    let text = include_str!("../../package/gateway.toml");
    load("gateway.toml", text, &[]).expect("the example");
    for section in
        ["[[gateway]]", "[control]", "[voice]", "[limits]", "[api]", "[journal]", "[[host]]", "[[region]]"]
    {
        assert!(text.contains(section), "{section}");
    }
}

#[test]
fn errors_name_file_line_and_the_nearest_key() {
    assert_eq!(
        message("[control]\nkind = \"window\"\nwindow_pakets = 4\n"),
        "gateway.toml:5:1: unknown key `window_pakets` in [control] with kind = \"window\"\n  help: write `window_packets`"
    );
    assert!(message("mode = \"dry\"\n").contains("mode` belongs at the top of the file"));
    assert!(message("[api]\nlisten = \"9470\"\n").contains("write an IP address and a port"));
    assert!(message("[[host]]\nnetwork = \"10.1.0.0/33\"\nweight = 2.0\n").contains("is not a network"));
    let region = message("[[region]]\nnetworks = [\"10.1.0.0/16\", \"10.2.0.0/33\"]\nflows = 3\n");
    assert!(region.contains("4:28") && region.contains("is not a network"), "{region}");
    assert!(message("[[region]]\nnetworks = [\"10.1.0.0/16\"]\nflows = 0\n").contains("`flows`"));
    assert!(message("[[region]]\nnetworks = []\nflows = 1\n").contains("no network"));
    assert!(message("[voice]\nkbps_per_host = 100.0\n").contains("`kbps_per_call` is above"));
}

#[test]
fn a_control_of_scenarios_is_refused_with_the_reason() {
    let throttle = message("[control]\nkind = \"throttle\"\n");
    assert!(throttle.contains("gateway.toml:4:8: \"throttle\" is a control of scenarios"), "{throttle}");
    let both = message("[control]\nkind = \"window\"\nwindow_packets = 4\nwindow_bytes = 6000\n");
    assert!(both.contains("keep one of them"), "{both}");
}

#[test]
fn two_gateways_need_two_interfaces_and_two_names() {
    let twice = message("[[gateway]]\nmesh = \"wlan0\"\n");
    assert!(
        twice.contains("two gateways have the interface wlan0") && twice.contains("called wlan0"),
        "{twice}"
    );
    assert!(with("[[gateway]]\nmesh = \"wlan1\"\n").is_ok());
    assert!(
        message("wired = \"wlan0\"\n").contains("the same")
            || message("wired = \"wlan0\"\n").contains("both")
    );
    assert!(message("name = \"../etc\"\n").contains("also that of a file"));
}

#[test]
fn an_interface_has_the_queues_of_one_gateway() {
    let second = |lines: &str| format!("wired = \"eth0\"\n[[gateway]]\nmesh = \"wlan1\"\n{lines}");
    assert!(with(&second("")).is_ok() && with(&second("wired = \"eth1\"\n")).is_ok());
    let shared = message(&second("wired = \"eth0\"\n"));
    assert!(shared.contains("gateway.toml:6:9: eth0 is `wired` of the gateway wlan0, too"), "{shared}");
    assert!(shared.contains("leave `wired` out of one of the two"), "{shared}");
    assert_eq!(shared.matches("eth0").count(), 1, "one error for the two: {shared}");
    let mesh = message(&second("wired = \"wlan0\"\n"));
    assert!(mesh.contains("gateway.toml:6:9: wlan0 is `mesh` of the gateway wlan0"), "{mesh}");
    // In either order.
    let mesh = message("wired = \"wlan1\"\n[[gateway]]\nmesh = \"wlan1\"\n");
    assert!(mesh.contains("gateway.toml:3:9: wlan1 is `mesh` of the gateway wlan1"), "{mesh}");
}

#[test]
fn networks_contain_the_addresses_that_begin_with_their_prefix() {
    let network = |text| Network::read(text).expect("a network");
    let address = |text: &str| text.parse::<std::net::IpAddr>().expect("an address").into();
    assert!(network("10.1.0.0/16").contains(address("10.1.255.4")));
    assert!(!network("10.1.0.0/16").contains(address("10.2.0.4")));
    assert!(!network("10.1.0.0/16").contains(address("fd00::1")));
    assert!(network("0.0.0.0/0").contains(address("192.0.2.1")));
    assert!(network("fd00::/8").contains(address("fd12::1")));
    assert!(network("10.1.0.4").contains(address("10.1.0.4")));
    assert_eq!(Network::read("fd00::/129"), None);
    assert_eq!(Network::read("host"), None);
    for text in ["10.1.0.0/16", "0.0.0.0/0", "10.1.0.4/32", "fd00::/8", "::1/128", "::/0", "::fc00:0:0/90"] {
        assert_eq!(network(text).to_string(), text);
    }
    // The bits after the prefix do not matter.
    assert_eq!(network("127.0.0.1/8"), network("127.0.0.0/8"));
    assert_eq!(network("fd00::1/0"), network("::/0"));
}

#[test]
fn probes_are_read_and_checked() {
    let of = |line: &str| {
        let text = format!("[[gateway]]\nmesh = \"wlan0\"\nprobe = {line}\n");
        load("gateway.toml", &text, &[]).map(|loaded| loaded.config.gateway[0].probe.clone())
    };
    let probe = of("{ hosts = [\"10.1.0.4\", \"fd00::4\"] }").expect("a config").expect("a probe");
    assert_eq!((probe.addresses().count(), probe.interval_ms, probe.calls), (2, 40, false));
    let probe = of("{ calls = true }").expect("a config").expect("a probe");
    assert_eq!((probe.addresses().count(), probe.interval_ms, probe.calls), (0, 40, true));
    for (line, what) in [
        ("{ hosts = [] }", "name 1 to 16 `hosts`, or write `calls = true`"),
        ("{ interval_ms = 20 }", "no host is to be probed"),
        ("{ hosts = [\"10.1.0.0/24\"] }", "`10.1.0.0/24` is not an address"),
        ("{ hosts = [\"10.1.0.4\", \"10.1.0.4\"] }", "10.1.0.4 is probed already"),
        ("{ hosts = [\"10.1.0.4\"], interval_ms = 100 }", "60"),
    ] {
        let error = of(line).expect_err("a slip").to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn networks_before_the_internet_are_read_and_checked() {
    let of = |line: &str| {
        let text = format!("[[gateway]]\nmesh = \"wlan0\"\n{line}\n");
        load("gateway.toml", &text, &[]).map(|loaded| loaded.config.gateway[0].local())
    };
    assert_eq!(of("").expect("a config"), []);
    let network = Network::read("10.0.0.0/8").expect("a network");
    assert_eq!(of("local = [\"10.0.0.0/8\"]").expect("a config"), [network]);
    let errors = of("local = [\"10.0.0.0/8\", \"10.0.0.0/33\"]").expect_err("a slip").to_string();
    assert!(errors.contains("`10.0.0.0/33` is not a network"), "{errors}");
}

#[test]
fn of_several_weights_the_longest_prefix_comes_first() {
    let config = with(
        "[[host]]\nnetwork = \"10.0.0.0/8\"\nweight = 1.0\n[[host]]\nnetwork = \"10.1.0.0/16\"\nweight = 2.0\n",
    );
    let weights = config.expect("a config").config.weights();
    assert_eq!(weights.iter().map(|(_, weight)| *weight).collect::<Vec<_>>(), [2.0, 1.0]);
}
