//! Guests: other kernels, a clock that repeats, and what happens when something goes wrong.
//!
//! They need QEMU and download kernels once, so that they are skipped where QEMU is missing, except under CI.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::cell::Cell;
use std::fs;
use std::process;
use std::time::{Duration, Instant};

use fairhop_emulate::guest::{Command, Finished, Guest, GuestError, HostFiles, Kernel};

/// Whether guests can run here.
fn has_qemu() -> bool {
    let found = ["qemu-system-x86_64", "busybox", "depmod", "iperf3", "ip"].into_iter().all(|program| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders)
            .chain(["/usr/sbin".into()])
            .any(|folder| folder.join(program).exists())
    });
    assert!(found || std::env::var_os("CI").is_none(), "the tests of guests need `tools/prepare guests`");
    if !found {
        println!("skipped: needs `tools/prepare guests`");
    }
    found
}

/// A guest, what its command wrote, and how it ended.
struct Run {
    result: Result<Finished, GuestError>,
    out: String,
    err: String,
}

fn run(guest: &Guest, command: &Command) -> Run {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let result = guest.run(command, &mut out, &mut err, &|| false);
    Run { result, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}

fn bash(script: &str) -> Command {
    Command::new("bash").args(["-c", script]).mentioned(script)
}

fn guest(kernel: Kernel) -> Guest {
    Guest { kernel, timeout: Duration::from_secs(600), ..Guest::default() }
}

/// One flow over a bottleneck of 10 Mb/s, 40 ms and 83 packets, 3 s; then the guest's clock.
const FLOW: &str = "set -e
    uname -r
    for name in a b; do ip netns add $name; done
    ip link add name va netns a type veth peer name vb netns b
    for side in 'a 1' 'b 2'; do
        set -- $side
        ip -n $1 addr add 10.0.0.$2/24 dev v$1
        ip netns exec $1 ethtool -K v$1 tso off gso off gro off >/dev/null
        ip -n $1 link set v$1 up
    done
    ip netns exec a tc qdisc add dev va root netem rate 10mbit delay 20ms limit 83
    ip netns exec b tc qdisc add dev vb root netem delay 20ms
    ip netns exec b iperf3 -s -1 >/dev/null &
    sleep 0.5
    ip netns exec a iperf3 -c 10.0.0.2 -C bbr -t 3 -f k
    cat /proc/sys/kernel/random/uuid
    echo clock $EPOCHREALTIME";

/// The receiver's goodput in iperf3's report, kb/s.
fn goodput_kbps(report: &str) -> f64 {
    let line = report.lines().find(|line| line.ends_with("receiver")).expect(report);
    let words: Vec<_> = line.split_whitespace().collect();
    let unit = words.iter().position(|word| *word == "Kbits/sec").expect(line);
    words[unit - 1].parse().unwrap()
}

#[test]
fn the_same_flow_twice_is_equal_in_every_byte_and_takes_its_virtual_time() {
    if !has_qemu() {
        return;
    }
    let runs = [(); 2].map(|()| run(&guest(Kernel::V6_1), &bash(FLOW)));
    for run in &runs {
        let finished = run.result.as_ref().unwrap();
        assert_eq!(finished.status, 0, "{}\n{}", run.out, run.err);
        assert!(finished.release.starts_with("6.1."), "{finished:?}");
        // 3 s of traffic and 0.5 s of sleep; round trips and programs take the rest.
        assert!((3.5..4.5).contains(&finished.virtual_time.as_secs_f64()), "{finished:?}");
        let goodput = goodput_kbps(&run.out);
        assert!((8_000.0..9_700.0).contains(&goodput), "{goodput} kb/s");
    }
    // More than the 0.5 % that figures may differ: reports, random numbers and the clock's microseconds.
    assert_eq!(runs[0].out, runs[1].out);
    assert!(runs[0].out.contains("\nclock 1767225"), "the clock starts on 2026-01-01: {}", runs[0].out);
}

#[test]
fn other_kernels_have_the_modules_of_networks() {
    if !has_qemu() {
        return;
    }
    let script = "uname -r
        for qdisc in fq fq_codel cake htb netem tbf red; do
            tc qdisc add dev lo root $qdisc $(case $qdisc in
                tbf) echo rate 1mbit burst 10k latency 10ms ;;
                red) echo limit 60000 avpkt 1000 ;;
                netem) echo delay 1ms ;; esac) && echo qdisc $qdisc
            tc qdisc del dev lo root
        done
        for control in reno cubic bbr vegas westwood veno; do
            sysctl -qw net.ipv4.tcp_congestion_control=$control && echo tcp $control
        done
        ip link add name bat0 type batadv && echo batman
        ip tuntap add dev tap0 mode tap && echo tap";
    for kernel in [Kernel::V5_10, Kernel::V6_12] {
        let run = run(&guest(kernel), &bash(script));
        assert_eq!(run.result.as_ref().unwrap().status, 0, "{}\n{}", run.out, run.err);
        assert!(run.out.starts_with(&format!("{kernel}.")), "{}", run.out);
        let count = |word: &str| run.out.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!(
            [count("qdisc"), count("tcp"), count("batman"), count("tap")],
            [7, 6, 1, 1],
            "{kernel}: {}{}",
            run.out,
            run.err
        );
    }
}

#[test]
fn a_command_gets_its_files_and_its_results_come_back_also_when_it_fails() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in"), "from the host\n").unwrap();
    let script = "mkdir -p out/deep; cp in out/deep/copy; echo told >&2; echo \"$WORD\"; exit 3";
    let command = bash(script)
        .directory(folder.path())
        .file("in")
        .output("out")
        .output("never")
        .env("WORD", "it's $HOME");
    let run = run(&guest(Kernel::V6_1), &command);
    assert_eq!(run.result.unwrap().status, 3);
    assert_eq!((run.out.as_str(), run.err.as_str()), ("it's $HOME\n", "told\n"));
    assert_eq!(fs::read_to_string(folder.path().join("out/deep/copy")).unwrap(), "from the host\n");
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["in", "out"]);
}

#[test]
fn a_guest_with_the_hosts_files_reads_them_all_and_writes_none() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "unchanged").unwrap();
    let guest = Guest { host_files: HostFiles::Shared, ..guest(Kernel::V6_1) };
    let script = format!("cat {0} && echo changed > {0} && cat {0} && ls /usr/bin/dpkg", file.display());
    let run = run(&guest, &bash(&script));
    assert_eq!(run.result.unwrap().status, 0, "{}", run.err);
    assert_eq!(run.out, "unchangedchanged\n/usr/bin/dpkg\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "unchanged");
}

#[test]
fn a_guest_that_panics_says_why() {
    if !has_qemu() {
        return;
    }
    let run = run(&guest(Kernel::V6_1), &bash("echo begun; echo c > /proc/sysrq-trigger"));
    let error = run.result.unwrap_err();
    assert_eq!(error.to_string(), "the guest's kernel panicked: sysrq triggered crash");
    assert_eq!(run.out, "begun\n");
}

#[test]
fn a_guest_ends_at_its_timeout_or_when_it_is_stopped() {
    if !has_qemu() {
        return;
    }
    // Built before, because the time limit does not count that.
    let guest = Guest { timeout: Duration::from_millis(300), ..guest(Kernel::V6_1) };
    guest.prepare().unwrap();
    let error = run(&guest, &bash("sleep 1000")).result.unwrap_err();
    assert_eq!(error.to_string(), "the guest was still running after 0.3 s of wall time");

    let asked = Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) > 5;
    let guest = Guest { timeout: Duration::from_secs(600), ..guest };
    let begin = Instant::now();
    let result = guest.run(&bash("sleep 1000"), &mut Vec::new(), &mut Vec::new(), &stop);
    assert!(matches!(result, Err(GuestError::Interrupted)), "{result:?}");
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_the_host_lacks_is_named() {
    if !has_qemu() {
        return;
    }
    let message = |command: &Command| run(&guest(Kernel::V6_1), command).result.unwrap_err().to_string();
    assert_eq!(message(&Command::new("no-such-program")), "no program `no-such-program` on this machine");
    assert!(
        message(&bash("true").file("/no/such/file")).starts_with("cannot read /no/such/file: No such file")
    );
}

/// Processes whose parent is `parent`.
fn children(parent: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| parent_of(name) == Some(parent)).collect()
}

/// The parent of a process that lives: the second field after the name in brackets, unless it is a zombie.
fn parent_of(process: &str) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace();
    if fields.next()? == "Z" { None } else { fields.next()?.parse().ok() }
}

#[test]
#[ignore = "not a test by itself: another one starts it as a process to be killed"]
fn a_process_with_a_guest() {
    let _ = run(&guest(Kernel::V6_1), &bash("sleep 100000"));
}

#[test]
fn a_guest_ends_with_the_process_that_started_it() {
    if !has_qemu() {
        return;
    }
    guest(Kernel::V6_1).prepare().unwrap();
    let mut parent = process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "a_process_with_a_guest"])
        .stdout(process::Stdio::null())
        .spawn()
        .unwrap();
    let until = |done: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !done() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(done());
    };
    let is_qemu = |child: &String| {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.starts_with("qemu"))
    };
    let guests = || children(parent.id()).into_iter().filter(is_qemu).collect::<Vec<_>>();
    until(&|| !guests().is_empty());
    let guests = guests();
    parent.kill().unwrap();
    parent.wait().unwrap();
    until(&|| guests.iter().all(|guest| parent_of(guest).is_none()));
}
