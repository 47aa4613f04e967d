//! The datapath of the kernel for a gateway of the config.

use crate::config::{Config, GatewayAt, Mode, setting_of};
use crate::datapath::kernel::{Kernel, Settings};
use crate::datapath::{Datapath, DatapathError};

/// Where queues that are replaced are written down: the folder that systemd makes for the service, and keeps over a crash.
const STATE_DIR: &str = "/run/fairhop-gateway";

/// What the datapath of a gateway has to be. Only in live mode it may touch packets.
pub(super) fn datapath_of(config: &Config, gateway: &GatewayAt, mode: Mode) -> Settings {
    let (_, queue_packets) = setting_of(&config.control_of(gateway));
    Settings {
        // With other control, the interface keeps its queue.
        wired: gateway.wired.clone().filter(|_| config.paces_acks(gateway)),
        pacing: gateway.pacing.way(),
        flows: config.limits.flows,
        queue_packets: u32::try_from(queue_packets).unwrap_or(u32::MAX),
        observe_only: mode != Mode::Live,
        state_dir: STATE_DIR.into(),
        ..Settings::new(&gateway.mesh)
    }
}

/// Starts the datapath of the kernel.
///
/// # Errors
/// Those of [`Kernel::start`].
pub fn start_kernel(
    config: &Config,
    gateway: &GatewayAt,
    mode: Mode,
) -> Result<Box<dyn Datapath>, DatapathError> {
    Ok(Box::new(Kernel::start(datapath_of(config, gateway, mode))?))
}
