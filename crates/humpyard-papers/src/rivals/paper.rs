//! The sources, and the setting that the experiments share.

use super::load::{BI2, ServiceTimes};
use crate::harness::Scale;

/// The sources.
pub(super) const PAPER: &str = "Rivals, as the specification reads their sources: Persephone (SOSP 2021), Shinjuku \
    (NSDI 2019), Concord (SOSP 2023), Tiny Quanta (ASPLOS 2024), R2P2 (ATC 2019), RSS++ (CoNEXT 2019), \
    SCR (NSDI 2025), NFVnice (SIGCOMM 2017), Caladan (OSDI 2020), Batchy (NSDI 2020), Open vSwitch.";

/// The setting of the experiments with 16 cores.
pub(super) const SETTING: &str = "16 cores, and packets that come as a Poisson process. Service times are exponential \
    with a mean of 1 us (`exp`), 1 or 100 us, half each (`bi1`), or 0.5 us and 500 us, 99.5 % and 0.5 % (`bi2`). \
    Nothing takes time but service and what an experiment names. Each packet is a client of its own. The first tenth \
    of the packets is left out. With each of ten seeds, a full run has 4,000,000 packets of `bi2`, as many as the \
    specification's prototype, and 400,000 of the others. A quick run has 20,000.";

/// Packets of a run (quick, full).
pub(super) const PACKETS: (usize, usize) = (20_000, 400_000);

/// Packets of a run in which few are long (quick, full).
const PACKETS_FEW_LONG: (usize, usize) = (20_000, 4_000_000);

/// Returns the packets of a run with these service times. Where 1 in 200 is long, fewer would say little of the tail.
pub(super) fn packets(times: ServiceTimes, scale: Scale) -> usize {
    scale.of(if times == BI2 { PACKETS_FEW_LONG } else { PACKETS })
}

/// Number of cores.
pub(super) const CORES: usize = 16;
