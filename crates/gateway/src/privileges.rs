//! The rights that the daemon keeps: CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON (`capabilities(7)`).
//!
//! Called before the first thread is started, since capabilities belong to a thread.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// The rights that are kept.
pub const KEPT: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::BPF).union(CapabilitySet::PERFMON);

/// The names of the kept rights that this process does not have.
///
/// # Errors
/// The kernel does not say.
pub fn missing() -> io::Result<Vec<&'static str>> {
    let has = capabilities(None)?.effective;
    let names = [
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::PERFMON, "CAP_PERFMON"),
    ];
    Ok(names.into_iter().filter(|(right, _)| !has.contains(*right)).map(|(_, name)| name).collect())
}

/// Gives up all rights but [`KEPT`], for this process and the programs that it starts.
///
/// # Errors
/// The kernel refuses.
pub fn drop_others() -> io::Result<()> {
    let has = capabilities(None)?;
    set_no_new_privs(true)?;
    if has.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(KEPT).iter() {
            // The kernel may be older than a capability.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    set_capabilities(
        None,
        CapabilitySets {
            effective: has.effective & KEPT,
            permitted: has.permitted & KEPT,
            inheritable: has.inheritable & KEPT,
        },
    )?;
    Ok(())
}
