//! Pure arithmetic of calls and TCP that share an 802.11 multihop network: no state, no clock, no input or output.
//!
//! | module | what it computes | source |
//! |---|---|---|
//! | [`units`] | time, rate and power as types | – |
//! | [`headers`] | sizes of protocol headers | RFC 791, 768, 9293 and 3550; IEEE 802.11-2020, 9.2 and 9.3 |
//! | [`checksum`] | the checksum of Internet protocols | RFC 1071 |
//! | [`phy`] | frame durations and inter-frame spaces of 802.11a, b and g | IEEE 802.11-2020, clauses 10 and 15 to 18 |
//! | [`phy`] | probability that a chunk of a frame is received | Miller 2003 (OFDM), Proakis (DSSS), Pursley and Royster 2009 (CCK) |
//! | [`phy`] | sensitivity, noise floor | IEEE 802.11-2020, 15.4.6, 16.3.8, 17.3.10 |
//! | [`voice`] | codecs, MOS of a call, lateness, jitter | Cole and Rosenbluth 2001, ITU-T G.107 and G.113, RFC 3550 |
//! | [`bianchi`] | saturation throughput of a cell | Bianchi 2000, Wu et al. 2002, Tinnirello, Bianchi and Xiao 2010 |
//! | [`airtime`] | channel time of a packet, upper bounds for a path | IEEE 802.11-2020, clause 10.3; own derivation |
//! | [`markov`] | a slotted wireless channel with memory | Cai, Shen, Mark and Pan 2005; Gilbert 1960 |
//! | [`outage`] | parameters of AIMD(α, β) datagrams: window, buffer, utilization, delay outage | Cai, Shen, Mark and Pan 2005 |
//! | [`share`] | L-regions, max-min shares of C-load, the unfairness index | Osipov and Tschudin 2007 |
//! | [`stats`] | confidence intervals, fairness index | Student's t; Jain, Chiu and Hawe 1984 |

pub mod airtime;
pub mod bianchi;
pub mod checksum;
pub mod edca;
pub mod headers;
pub mod markov;
pub mod outage;
pub mod phy;
pub mod share;
pub mod stats;
pub mod units;
pub mod voice;
