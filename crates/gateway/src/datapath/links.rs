//! Whether the packets of the mesh pass an interface, by how the interfaces of this machine are built on each other.

use super::netlink::Interface;
use super::{DatapathError, kernel};

/// What is wrong with the interface that a config names for the mesh; none if nothing is known to be.
///
/// # Errors
/// The kernel does not list its interfaces.
pub fn misplaced(mesh: &str, wired: Option<&str>) -> Result<Option<DatapathError>, DatapathError> {
    Ok(judge(&kernel::interfaces(&mut kernel::open()?)?, mesh, wired))
}

/// The same, by these interfaces.
pub(super) fn judge(interfaces: &[Interface], mesh: &str, wired: Option<&str>) -> Option<DatapathError> {
    let named = |name: &str| interfaces.iter().find(|interface| interface.name == name);
    let mesh = named(mesh)?;
    let above = |of: &Interface| interfaces.iter().find(|interface| Some(interface.index) == of.master);
    let name = &mesh.name;
    if let Some(upper) = above(mesh) {
        let what = match upper.kind.as_str() {
            "batadv" => "its packets are those of batman-adv, which cannot be read",
            "bond" | "team" => "it carries a part of the packets",
            _ => return None,
        };
        return Some(DatapathError::Missing {
            missing: format!("{name} belongs to {}: {what}", upper.name),
            fix: format!("write mesh = \"{}\"", upper.name),
        });
    }
    let wired = wired.and_then(named)?;
    (mesh.kind == "bridge" && wired.master == Some(mesh.index)).then(|| {
        let is_port = |other: &&Interface| other.master == Some(mesh.index) && other.index != wired.index;
        let ports: Vec<_> =
            interfaces.iter().filter(is_port).map(|port| format!("\"{}\"", port.name)).collect();
        let fix = match ports.as_slice() {
            [] => "write the interface to the mesh".to_owned(),
            [port] => format!("write mesh = {port}"),
            _ => format!("write the port to the mesh: one of {}", ports.join(", ")),
        };
        let missing = format!(
            "{name} is a bridge with {} as a port: packets from port to port do not pass it",
            wired.name
        );
        DatapathError::Missing { missing, fix }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, name: &str, kind: &str, master: u32) -> Interface {
        let master = (master != 0).then_some(master);
        Interface { name: name.into(), index, mtu: 1500, is_ethernet: true, kind: kind.into(), master }
    }

    #[test]
    fn an_interface_that_the_packets_of_the_mesh_do_not_pass_is_found() {
        let all = [
            interface(1, "eth0", "", 4),
            interface(2, "wlan0", "", 5),
            interface(3, "wlan1", "", 4),
            interface(4, "br0", "bridge", 0),
            interface(5, "bat0", "batadv", 0),
            interface(6, "eth1", "", 7),
            interface(7, "bond0", "bond", 0),
            interface(8, "eth2", "", 0),
            interface(9, "eth3", "", 4),
        ];
        let fix = |mesh, wired| match judge(&all, mesh, wired) {
            Some(DatapathError::Missing { fix, .. }) => fix,
            other => format!("{other:?}"),
        };
        assert_eq!(fix("wlan0", Some("eth2")), "write mesh = \"bat0\"");
        assert_eq!(fix("eth1", None), "write mesh = \"bond0\"");
        assert_eq!(fix("br0", Some("eth0")), "write the port to the mesh: one of \"wlan1\", \"eth3\"");
        // A bridge that routes, a port of it, and what is above the radio.
        for (mesh, wired) in [
            ("br0", Some("eth2")),
            ("br0", None),
            ("wlan1", Some("eth0")),
            ("bat0", Some("eth0")),
            ("none", None),
        ] {
            assert_eq!(fix(mesh, wired), "None", "{mesh}");
        }
    }
}
