//! How to choose the parameters of AIMD(α, β) datagrams over a wireless link: L. Cai, X. Shen, J. W. Mark and J. Pan,
//! "QoS support for multimedia traffic in wireless/IP networks using AIMD protocols" (cai2005, section III).

/// α with which AIMD(α, β) takes no more than a TCP flow on the same path does, 3(1 − β)/(1 + β) (cai2005, equation 1).
pub fn tcp_friendly_alpha(beta: f64) -> f64 {
    3.0 * (1.0 - beta) / (1.0 + beta)
}
