//! What the gateway needs of this machine, whether it is there, and what to do.
//!
//! Everything is read from `uname`, `/proc`, `/sys`, the list of kernel modules and netlink; nothing is changed, and no
//! rights are needed to look. `ethtool` and `gzip` are asked where they are installed.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::config::{Config, GatewayAt, PacingChoice, ProbeSetting};
use crate::datapath::{self, DatapathError, Found, Pacing};
use crate::privileges;
use crate::probe::{Prober, own_address};

/// How a check has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, with less.
    Limited,
    /// The gateway cannot work.
    Bad,
}

/// A check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub found: String,
    /// How it is.
    pub verdict: Verdict,
    /// What to do; empty if nothing.
    pub fix: String,
}

impl Check {
    fn new(what: &str, verdict: Verdict, found: impl Into<String>, fix: impl Into<String>) -> Self {
        let fix = if verdict == Verdict::Good { String::new() } else { fix.into() };
        Self { what: what.to_owned(), found: found.into(), verdict, fix }
    }
}

/// Looks at everything that a config needs; without a config, at the kernel and the rights.
pub fn examine(config: Option<&Config>) -> Vec<Check> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut checks = vec![kernel(&release), jit(), rights()];
    let ways = Ways::of(&release);
    checks.extend(queues(ways, config));
    if let Some(config) = config {
        for gateway in &config.gateway {
            checks.extend(interfaces(gateway, config.paces_acks(gateway), ways, &release));
            checks.extend(gateway.probe.iter().flat_map(|setting| probes(setting, &gateway.mesh)));
        }
        checks.push(forwarding());
        checks.push(address(&config.api.listen));
        checks.push(folder(&config.journal.folder));
    }
    checks
}

fn text_of(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Major and minor number of a release such as `6.1.0-18-amd64`.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The first release of Linux with TCX.
pub const WITH_TCX: (u32, u32) = (6, 6);

/// The ring buffer came with 5.8.
fn kernel(release: &str) -> Check {
    let (verdict, found, fix) = match version(release) {
        Some(version) if version >= WITH_TCX => (Verdict::Good, format!("{release}, with TCX"), ""),
        Some(version) if version >= (5, 10) => (
            Verdict::Limited,
            format!("{release}, without TCX"),
            "nothing to do: filters of clsact are used, which stay after a crash until the next start; Linux 6.6 has TCX",
        ),
        _ => (Verdict::Bad, release.to_owned(), "install Linux 5.10 or later"),
    };
    Check::new("kernel", verdict, found, fix)
}

fn jit() -> Check {
    let is_on = match text_of("/proc/sys/net/core/bpf_jit_enable").as_str() {
        "0" => Some(false),
        "" => None,
        _ => Some(true),
    };
    match is_on {
        Some(false) => Check::new(
            "BPF compiler",
            Verdict::Limited,
            "off: programs are interpreted",
            "sysctl -w net.core.bpf_jit_enable=1",
        ),
        Some(true) => Check::new("BPF compiler", Verdict::Good, "on", ""),
        None => Check::new("BPF compiler", Verdict::Good, "always on, or not visible here", ""),
    }
}

fn rights() -> Check {
    match privileges::missing() {
        Ok(missing) if missing.is_empty() => {
            Check::new("rights", Verdict::Good, "CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON", "")
        }
        Ok(missing) => Check::new(
            "rights",
            Verdict::Bad,
            format!("without {}", missing.join(", ")),
            "run it by systemd (systemctl start fairhop-gateway), or as root",
        ),
        Err(error) => Check::new("rights", Verdict::Bad, error.to_string(), "run it as root"),
    }
}

/// Whether a module is there: loaded, built in, or in the folder of modules. None if that cannot be seen.
fn has_module(release: &str, name: &str) -> Option<bool> {
    if Path::new("/sys/module").join(name).is_dir() {
        return Some(true);
    }
    if let Some(config) = kernel_config(release) {
        let option = match name {
            "sch_fq" => "CONFIG_NET_SCH_FQ=",
            "sch_htb" => "CONFIG_NET_SCH_HTB=",
            "sch_tbf" => "CONFIG_NET_SCH_TBF=",
            "veth" => "CONFIG_VETH=",
            "sch_ingress" => "CONFIG_NET_SCH_INGRESS=",
            "cls_bpf" => "CONFIG_NET_CLS_BPF=",
            _ => return None,
        };
        let line = config.lines().find_map(|line| line.strip_prefix(option));
        return Some(matches!(line, Some("y" | "m")));
    }
    let folder = Path::new("/lib/modules").join(release);
    // OpenWrt has all modules in this folder, and no lists.
    if folder.join(format!("{name}.ko")).is_file() {
        return Some(true);
    }
    let lists = ["modules.builtin", "modules.dep"].map(|list| fs::read_to_string(folder.join(list)));
    let known: Vec<String> = lists.into_iter().filter_map(Result::ok).collect();
    let file = format!("/{name}.ko");
    (!known.is_empty()).then(|| known.iter().any(|list| list.contains(&file)))
}

/// The options with which a kernel was built, where its package has left them, or the kernel shows them
/// (`CONFIG_IKCONFIG_PROC`).
fn kernel_config(release: &str) -> Option<String> {
    fs::read_to_string(format!("/boot/config-{release}"))
        .or_else(|_| fs::read_to_string(format!("/lib/modules/{release}/config")))
        .ok()
        .or_else(|| output("gzip", &["-dc", "/proc/config.gz"]))
}

/// A way of pacing, and what the doctor says of it.
#[derive(Clone, Copy, Debug)]
struct Way {
    pacing: Pacing,
    /// Its word in the config.
    word: &'static str,
    /// What it takes, and the options of the kernel for that.
    takes: &'static str,
    options: &'static str,
    offers: &'static str,
    /// Whether the kernel has what it takes; none if that cannot be seen.
    is_there: Option<bool>,
}

/// The ways of pacing, in the order in which a start tries them.
#[derive(Clone, Copy, Debug)]
struct Ways([Way; 3]);

impl Ways {
    fn of(release: &str) -> Self {
        let has = |name| has_module(release, name);
        let both = |a, b| has(a).zip(has(b)).map(|(a, b)| a && b);
        Self::new([has("sch_fq"), both("sch_tbf", "veth"), both("sch_htb", "sch_tbf")])
    }

    const fn new(are_there: [Option<bool>; 3]) -> Self {
        let [has_fq, has_loop, has_classes] = are_there;
        Self([
            Way {
                pacing: Pacing::DepartureTimes,
                word: "departure-times",
                takes: "queue fq",
                options: "CONFIG_NET_SCH_FQ",
                offers: "departure times and the gate",
                is_there: has_fq,
            },
            Way {
                pacing: Pacing::Polling,
                word: "polling",
                takes: "queue tbf and veth",
                options: "CONFIG_NET_SCH_TBF and CONFIG_VETH",
                offers: "polling, with the gate",
                is_there: has_loop,
            },
            Way {
                pacing: Pacing::Classes,
                word: "classes",
                takes: "queues htb and tbf",
                options: "CONFIG_NET_SCH_HTB and CONFIG_NET_SCH_TBF",
                offers: "classes, without a gate",
                is_there: has_classes,
            },
        ])
    }

    /// How a start would pace packets; none if that cannot be seen.
    fn pacing(self, choice: PacingChoice) -> Option<Pacing> {
        choice.way().or_else(|| match self.0.iter().find(|way| way.is_there != Some(false)) {
            Some(way) => way.is_there.map(|_| way.pacing),
            None => Some(Pacing::Off),
        })
    }
}

fn queues(ways: Ways, config: Option<&Config>) -> Vec<Check> {
    let is_asked_for = |pacing: Option<Pacing>| match config {
        Some(config) => config.gateway.iter().any(|at| at.pacing.way() == pacing),
        None => pacing.is_none(),
    };
    let mut is_open = is_asked_for(None);
    let mut checks = Vec::new();
    for (place, way) in ways.0.iter().enumerate() {
        let is_chosen = is_asked_for(Some(way.pacing));
        if !is_chosen && !is_open {
            continue;
        }
        let Way { word, takes, options, offers, .. } = *way;
        let kernel = format!("install a kernel with {options}, such as that of the distribution");
        checks.push(match way.is_there {
            Some(true) => Check::new(takes, Verdict::Good, format!("there: {offers}"), ""),
            Some(false) if is_chosen => Check::new(
                takes,
                Verdict::Bad,
                format!("not in this kernel: with pacing = \"{word}\", live mode does not start"),
                format!("set pacing = \"auto\", or {kernel}"),
            ),
            Some(false) => {
                let next = ways.0[place + 1..].iter().find(|way| way.is_there != Some(false));
                let instead = next.map_or("windows alone are limited", |way| way.offers);
                let found = format!("not in this kernel: {instead}");
                Check::new(takes, Verdict::Limited, found, format!("nothing to do, or {kernel}"))
            }
            None => unknown(takes),
        });
        is_open &= way.is_there != Some(true);
    }
    checks
}

fn unknown(what: &str) -> Check {
    Check::new(
        what,
        Verdict::Limited,
        "this kernel does not say what it has",
        "start it: `fairhop gateway status` says what is used",
    )
}

fn interfaces(gateway: &GatewayAt, paces_acks: bool, ways: Ways, release: &str) -> Vec<Check> {
    let mut checks = vec![interface(&gateway.mesh, "mesh")];
    if let Some(wired) = &gateway.wired {
        checks.push(interface(wired, "wired"));
    }
    let is_there = checks.iter().all(|check| check.verdict != Verdict::Bad);
    if is_there {
        let has_tcx = version(release).is_some_and(|version| version >= WITH_TCX);
        let pacing = ways.pacing(gateway.pacing);
        checks.extend(queue(&gateway.mesh, pacing, has_tcx));
        // Without `fq`, what goes into the mesh is paced, and the wired interface is left alone.
        let is_left = !paces_acks || pacing.is_some_and(|pacing| pacing != Pacing::DepartureTimes);
        if let Some(wired) = gateway.wired.as_ref().filter(|_| !is_left) {
            checks.extend(queue(wired, pacing, has_tcx));
        }
        checks.extend(offloads(&gateway.mesh));
        let misplaced = datapath::misplaced(&gateway.mesh, gateway.wired.as_deref());
        if let Ok(Some(DatapathError::Missing { missing, fix })) = misplaced {
            checks.push(Check::new(&format!("packets of {}", gateway.mesh), Verdict::Bad, missing, fix));
        }
    }
    checks
}

fn interface(name: &str, side: &str) -> Check {
    let what = format!("interface {name}");
    let folder = Path::new("/sys/class/net").join(name);
    if !folder.exists() {
        let others: Vec<String> = fs::read_dir("/sys/class/net")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name != "lo")
            .collect();
        let nearest = fairhop_config::nearest(name, others.iter().map(String::as_str));
        let fix = match nearest {
            None if others.is_empty() => "this machine has no interface but lo".to_owned(),
            Some(nearest) => format!("write {side} = \"{nearest}\""),
            None => format!("this machine has {}; write one of them", others.join(", ")),
        };
        return Check::new(&what, Verdict::Bad, "not there", fix);
    }
    let of = |file: &str| text_of(&folder.join(file).to_string_lossy());
    let (state, mtu) = (of("operstate"), of("mtu"));
    if state == "down" {
        return Check::new(&what, Verdict::Limited, "down", format!("ip link set {name} up"));
    }
    if side == "mesh" && has_default_route(&text_of("/proc/net/route"), name) {
        return Check::new(
            &what,
            Verdict::Limited,
            "the default route leaves by it",
            "if the Internet is behind it, `mesh` has to be the other interface",
        );
    }
    Check::new(&what, Verdict::Good, format!("{state}, packets of up to {mtu} bytes"), "")
}

/// Whether a routing table of IPv4 (proc(5), `/proc/net/route`) has a default route by an interface.
fn has_default_route(table: &str, interface: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        matches!(columns[..], [name, "00000000", _, _, _, _, _, "00000000", ..] if name == interface)
    })
}

/// Raw sockets, and a route into the mesh to each host that is to be probed.
fn probes(setting: &ProbeSetting, mesh: &str) -> Vec<Check> {
    let what = "sockets of probes";
    let sockets = match Prober::open().set(Some(setting)) {
        Ok(()) => Check::new(what, Verdict::Good, "can be opened", ""),
        Err((family, error)) => Check::new(
            what,
            Verdict::Limited,
            format!("{family}: {error}"),
            "run it by systemd, as root, or with CAP_NET_RAW; without them there are no probes",
        ),
    };
    let route = |host: IpAddr| {
        let what = format!("probe of {host}");
        match own_address(host) {
            Some(_) if device_to(host).is_some_and(|device| device != mesh) => Check::new(
                &what,
                Verdict::Limited,
                format!("the route to it does not leave by {mesh}"),
                "name a host of the mesh: the way to others says nothing of its air",
            ),
            Some(own) => Check::new(&what, Verdict::Good, format!("there is a route, from {own}"), ""),
            None => {
                Check::new(&what, Verdict::Limited, "no route", "correct the address, or add a route to it")
            }
        }
    };
    std::iter::once(sockets).chain(setting.addresses().map(route)).collect()
}

/// The interface by which packets to a host leave, if `ip` is installed.
fn device_to(host: IpAddr) -> Option<String> {
    let route = output("ip", &["-o", "route", "get", &host.to_string()])?;
    let mut words = route.split_whitespace().skip_while(|word| *word != "dev");
    words.nth(1).map(str::to_owned)
}

/// The output of a program, if it is installed and likes its arguments.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What becomes of the queues of an interface.
fn queue(interface: &str, pacing: Option<Pacing>, has_tcx: bool) -> Vec<Check> {
    datapath::look(interface).map_or_else(|_| Vec::new(), |found| fate(interface, &found, pacing, has_tcx))
}

fn fate(interface: &str, found: &Found, pacing: Option<Pacing>, has_tcx: bool) -> Vec<Check> {
    let what = format!("queue of {interface}");
    let bad = |what: &str, error: &DatapathError, effect: &str| match error {
        DatapathError::Missing { missing, fix } => {
            Check::new(what, Verdict::Bad, format!("{missing}: {effect}"), fix)
        }
        other => Check::new(what, Verdict::Bad, other.to_string(), "see the error"),
    };
    let Found { root, is_set_up, refusal, no_clsact } = found;
    let by = match pacing {
        Some(Pacing::DepartureTimes) => "fq",
        Some(Pacing::Classes) => "htb",
        _ => "fq or htb",
    };
    let mut checks = vec![match (pacing, refusal) {
        (Some(Pacing::Polling | Pacing::Off), _) => {
            Check::new(&what, Verdict::Good, format!("{root}; it stays"), "")
        }
        (_, Some(refusal)) => bad(&what, refusal, "live mode does not start"),
        (_, None) if *is_set_up && !is_plain(root) => Check::new(
            &what,
            Verdict::Limited,
            format!(
                "{root}, which somebody has set up: in live mode it is replaced by {by}, and put back at the end"
            ),
            "nothing to do for a shaper whose rate was a guess of the mesh's; otherwise set pacing = \"off\"",
        ),
        _ => Check::new(
            &what,
            Verdict::Good,
            format!("{root}; in live mode it is replaced by {by}, and put back at the end"),
            "",
        ),
    }];
    if let Some(error) = no_clsact.as_ref().filter(|_| !has_tcx) {
        checks.push(bad(&format!("filters of {interface}"), error, "the gateway does not start"));
    }
    checks
}

/// Nothing that a gateway's own queue could lack: neither rate nor classes.
fn is_plain(kind: &str) -> bool {
    matches!(kind, "noqueue" | "pfifo_fast" | "fq_codel" | "fq" | "mq" | "pfifo" | "bfifo")
}

fn offloads(interface: &str) -> Option<Check> {
    let features = output("ethtool", &["-k", interface])?;
    let is_on =
        |name: &str| features.lines().any(|line| line.trim_start().starts_with(&format!("{name}: on")));
    let on: Vec<&str> = [
        ("tcp-segmentation-offload", "TSO"),
        ("generic-segmentation-offload", "GSO"),
        ("generic-receive-offload", "GRO"),
    ]
    .into_iter()
    .filter_map(|(name, short)| is_on(name).then_some(short))
    .collect();
    let found = if on.is_empty() { "off".to_owned() } else { format!("{}: handled", on.join(", ")) };
    Some(Check::new(&format!("offloads of {interface}"), Verdict::Good, found, ""))
}

fn forwarding() -> Check {
    let (v4, v6) =
        (text_of("/proc/sys/net/ipv4/ip_forward"), text_of("/proc/sys/net/ipv6/conf/all/forwarding"));
    let what = "forwarding";
    match (v4.as_str(), v6.as_str()) {
        ("1", "1") => Check::new(what, Verdict::Good, "IPv4 and IPv6", ""),
        ("1", _) => Check::new(what, Verdict::Good, "IPv4", ""),
        (_, "1") => Check::new(what, Verdict::Good, "IPv6", ""),
        _ => Check::new(
            what,
            Verdict::Limited,
            "off: this machine forwards no IP packets",
            "sysctl -w net.ipv4.ip_forward=1, unless it is a bridge",
        ),
    }
}

fn address(listen: &str) -> Check {
    let what = "address of the API";
    if listen.is_empty() {
        return Check::new(what, Verdict::Good, "none", "");
    }
    let Ok(address) = listen.parse::<SocketAddr>() else {
        return Check::new(what, Verdict::Bad, listen, "write an IP address and a port");
    };
    match TcpListener::bind(address) {
        Ok(_) if address.ip().is_loopback() => {
            Check::new(what, Verdict::Good, format!("{address}, free"), "")
        }
        Ok(_) => Check::new(
            what,
            Verdict::Limited,
            format!("{address}, which others can reach"),
            "anyone there can read addresses and calls; use 127.0.0.1, or a firewall",
        ),
        Err(error) => Check::new(
            what,
            Verdict::Limited,
            format!("{address}: {error}"),
            "fine if the gateway runs already; otherwise choose another address in [api] listen",
        ),
    }
}

fn folder(path: &Path) -> Check {
    let what = "folder of the journal";
    let found = path.display().to_string();
    if path.is_dir() || path.parent().is_some_and(Path::is_dir) {
        Check::new(what, Verdict::Good, found, "")
    } else {
        Check::new(
            what,
            Verdict::Limited,
            format!("{found}: not there"),
            "it is made at the start, if rights allow",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_by_the_mesh_is_seen() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            wlan0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
            eth0\t00000000\t010010AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        assert!(has_default_route(table, "eth0") && !has_default_route(table, "wlan0"));
        assert!(!has_default_route("", "eth0"));
    }

    #[test]
    fn versions_of_kernels_are_compared_by_number() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.10.0"), Some((5, 10)));
        assert_eq!(version("unknown"), None);
        assert_eq!(kernel("6.12.8").verdict, Verdict::Good);
        assert_eq!(kernel("5.10.0").verdict, Verdict::Limited);
        assert_eq!(kernel("4.19.0").verdict, Verdict::Bad);
    }

    #[test]
    fn the_fate_of_a_queue_is_that_of_a_start() {
        let missing = || DatapathError::Missing { missing: "it".into(), fix: "do it".into() };
        let found = |root: &str, is_set_up, refused: bool, ingress: bool| Found {
            root: root.into(),
            is_set_up,
            refusal: refused.then(missing),
            no_clsact: ingress.then(missing),
        };
        let verdicts = |found: &Found, pacing, has_tcx| {
            fate("eth0", found, pacing, has_tcx).iter().map(|check| check.verdict).collect::<Vec<_>>()
        };
        let fq = Some(Pacing::DepartureTimes);
        let cases = [
            (found("noqueue", false, false, false), fq, vec![Verdict::Good]),
            (found("cake", true, false, false), fq, vec![Verdict::Limited]),
            (found("htb", true, true, false), fq, vec![Verdict::Bad]),
            (found("htb", true, true, false), Some(Pacing::Off), vec![Verdict::Good]),
            (found("mq", false, false, true), None, vec![Verdict::Good, Verdict::Bad]),
        ];
        for (found, pacing, wanted) in cases {
            assert_eq!(verdicts(&found, pacing, false), wanted, "{found:?}");
            assert_eq!(verdicts(&found, pacing, true), wanted[..1], "{found:?}");
        }
        let auto = |are_there| Ways::new(are_there).pacing(PacingChoice::Auto);
        assert_eq!(auto([Some(true), None, None]), fq);
        assert_eq!(auto([Some(false), Some(true), Some(true)]), Some(Pacing::Polling));
        assert_eq!(auto([Some(false), Some(false), Some(true)]), Some(Pacing::Classes));
        assert_eq!(auto([Some(false); 3]), Some(Pacing::Off));
        assert_eq!(auto([None, Some(true), Some(true)]), None);
        let verdicts = |are_there, config| {
            queues(Ways::new(are_there), config).iter().map(|check| check.verdict).collect::<Vec<_>>()
        };
        let polling = [Some(false), Some(true), Some(true)];
        assert_eq!(verdicts(polling, None), [Verdict::Limited, Verdict::Good]);
        assert_eq!(verdicts([Some(false); 3], None), [Verdict::Limited; 3]);
        // A choice is kept: the start would not take another one either.
        let text = "[[gateway]]\nmesh = \"m0\"\npacing = \"departure-times\"\n";
        let config = crate::config::load("gateway.toml", text, &[]).expect("a config").config;
        assert_eq!(verdicts(polling, Some(&config)), [Verdict::Bad]);
    }

    #[test]
    fn an_interface_that_is_not_there_is_bad_and_every_finding_that_is_not_good_has_a_fix() {
        let check = interface("fh-none-0", "mesh");
        assert_eq!((check.verdict, check.fix.is_empty()), (Verdict::Bad, false));
        // Without IPv6, or with a default route, the second one has another verdict.
        let setting = ProbeSetting {
            hosts: vec!["127.0.0.1".into(), "2001:db8::1".into()],
            calls: false,
            interval_ms: 40,
        };
        let checks = [examine(None), probes(&setting, "lo")].concat();
        assert!(checks.iter().any(|check| check.found.contains("from 127.0.0.1")), "{checks:?}");
        assert!(checks.len() >= 3);
        if device_to("127.0.0.1".parse().unwrap()).is_some() {
            let elsewhere = probes(&setting, "fh-none-0");
            assert!(elsewhere.iter().any(|check| check.found.ends_with("does not leave by fh-none-0")));
        }
        assert!(
            checks.iter().all(|check| check.verdict == Verdict::Good || !check.fix.is_empty()),
            "{checks:?}"
        );
    }
}
