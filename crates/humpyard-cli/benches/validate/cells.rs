//! The cells: of many random ones, each is that in which most pairs of values meet that have met
//! least.

use core::fmt;
use std::collections::HashMap;

use humpyard::random::{Random, Seed};

/// Services, from the shortest to the longest; the last is the first of a chain.
pub(crate) const SERVICES: [&str; 6] = ["forward", "encrypt", "dpi", "compress", "encrypt:cipher=cast-128", FIRST];
/// The first service of a chain.
pub(crate) const FIRST: &str = "firewall";
/// Policies: hashing, one queue, three of sharing, one that moves flows.
const POLICIES: [&str; 6] = ["hrw", "fcfs", "drr", "gr3", "efq", "rss++"];
/// Parts of the capacity that come.
const LOADS: [f64; 4] = [0.3, 0.6, 0.9, 1.3];
/// Workers; 0: all on the dispatcher's thread. Two share a processor with it where there are two.
const WORKERS: [usize; 3] = [0, 1, 2];
/// Names of the traffic, and their captures; the last is a generator.
const TRAFFIC: [(&str, &str); 4] = [
    ("uniform", "uniform/echo-connections.pcap"),
    ("elephants", "elephants/ModbusTCP.pcap"),
    ("video", "video/rtp_250k_rtp_only.pcap"),
    ("poisson", "gen:poisson:flows=1000,packets=100000"),
];
/// Candidates for each cell.
const CANDIDATES: usize = 64;

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) workers: usize,
    pub(crate) traffic: &'static str,
    pub(crate) service: &'static str,
    /// Whether packets go through `firewall` first.
    pub(crate) is_chain: bool,
    pub(crate) policy: &'static str,
    pub(crate) load: f64,
    values: [usize; KINDS],
}

/// Kinds of values: workers, traffic, service, chain, policy, load.
const KINDS: usize = 6;

impl Cell {
    fn draw(random: &mut Random) -> Self {
        let counts = [WORKERS.len(), TRAFFIC.len(), SERVICES.len() - 1, 2, POLICIES.len(), LOADS.len()];
        let values = counts.map(|count| random.below(count as u64) as usize);
        Self {
            workers: WORKERS[values[0]],
            traffic: TRAFFIC[values[1]].0,
            service: SERVICES[values[2]],
            is_chain: values[3] == 1,
            policy: POLICIES[values[4]],
            load: LOADS[values[5]],
            values,
        }
    }

    /// What is done to packets.
    pub(crate) fn services(&self) -> String {
        if self.is_chain { format!("{FIRST}, then {}", self.service) } else { self.service.to_owned() }
    }

    /// Where packets come from, of captures in this directory.
    pub(crate) fn input(&self, traces: &str) -> String {
        let (_, input) = TRAFFIC[self.values[1]];
        if input.starts_with("gen:") { input.to_owned() } else { format!("{traces}/{input}") }
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        let pairs = (0..KINDS).flat_map(|one| (one + 1..KINDS).map(move |other| (one, other)));
        pairs.map(|(one, other)| (one, other, self.values[one], self.values[other]))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, traffic, policy, load, .. } = self;
        write!(f, "{workers} workers, {traffic}, {}, {policy}, load {load}", self.services())
    }
}

/// The first cells, always the same.
pub(crate) fn cells(count: usize) -> Vec<Cell> {
    let mut random = Seed(1).stream("validate/cells");
    let mut met: HashMap<(usize, usize, usize, usize), u32> = HashMap::new();
    let mut cells = Vec::with_capacity(count);
    for _ in 0..count {
        let candidates = (0..CANDIDATES).map(|_| Cell::draw(&mut random));
        let gain = |cell: &Cell| {
            cell.pairs().map(|pair| 1.0 / f64::from(1 + met.get(&pair).copied().unwrap_or(0))).sum::<f64>()
        };
        let best = candidates.max_by(|a, b| gain(a).total_cmp(&gain(b))).expect("there are candidates");
        best.pairs().for_each(|pair| *met.entry(pair).or_default() += 1);
        cells.push(best);
    }
    cells
}
