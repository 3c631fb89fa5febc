//! Tables of what services cost.

use humpyard_core::cost::{LinearCost, MovePenalties};
use humpyard_core::name::unknown;

/// What the services of one source cost, in ns of one core.
#[derive(Clone, Copy, Debug)]
pub struct CostTable {
    /// The name on the command line.
    pub name: &'static str,
    /// Where the figures come from.
    pub source: &'static str,
    /// Cost by service.
    pub costs: &'static [(&'static str, LinearCost)],
    /// Bytes out for each that comes in, where that is not 1.
    pub expansions: &'static [(&'static str, f64)],
    /// What a packet takes longer whose flow moves to another core, in a run with a topology.
    pub moves: MovePenalties,
}

impl CostTable {
    /// What a service costs.
    ///
    /// # Errors
    /// A service that is not in the table; the message names those that are.
    pub fn cost(&self, service: &str) -> Result<LinearCost, String> {
        self.costs.iter().find(|(name, _)| *name == service).map(|&(_, cost)| cost).ok_or_else(|| {
            let names = self.costs.iter().map(|(name, _)| *name);
            format!("cost table `{}`: {}", self.name, unknown("service", service, names))
        })
    }

    /// Bytes that a service makes of each that comes in.
    pub fn expansion(&self, service: &str) -> f64 {
        self.expansions.iter().find(|(name, _)| *name == service).map_or(1.0, |&(_, expansion)| expansion)
    }
}

const fn linear(fixed: u64, per_byte_milli: u64, cold: u64) -> LinearCost {
    LinearCost { fixed, per_byte_milli, cold }
}

/// Every table, the default first.
pub const TABLES: [CostTable; 4] = [
    CostTable {
        name: "measured",
        source: "this project's services on a 2.6 GHz server core; a straight line through 64 and 1500 bytes",
        costs: &[
            ("forward", linear(60, 20, 100)),
            ("encrypt", linear(150, 90, 100)),
            ("decrypt", linear(110, 100, 100)),
            ("compress", linear(12, 1_010, 100)),
            ("decompress", linear(12, 250, 100)),
            ("fec", linear(205, 210, 100)),
            ("fec-decode", linear(65, 150, 100)),
            ("dpi", linear(138, 10, 100)),
            ("l7-filter", linear(116, 35, 100)),
            ("firewall", linear(50, 0, 100)),
            ("portscan", linear(10, 0, 100)),
            ("synflood", linear(10, 0, 100)),
            ("nat64", linear(165, 30, 100)),
            ("pass", linear(5, 0, 0)),
        ],
        expansions: &[
            ("encrypt", 1.1),
            ("decrypt", 0.902),
            ("compress", 0.851),
            ("decompress", 1.219),
            ("fec", 1.245),
            ("fec-decode", 0.787),
        ],
        moves: MovePenalties::NONE,
    },
    CostTable {
        name: "predictive",
        source: "the EFQ and LAP paper, table 1, on engines ten times as fast as its 167 MHz prototype; of what `compress` makes the most",
        costs: &[
            ("forward", linear(5_100, 0, 7_000)),
            ("encrypt", linear(32_000, 130_000, 17_000)),
            ("compress", linear(97_000, 760_000, 95_000)),
            ("fec", linear(32_000, 920_000, 17_500)),
        ],
        expansions: &[("compress", 0.34), ("fec", 1.14)],
        moves: MovePenalties::NONE,
    },
    CostTable {
        name: "everest",
        source: "the Everest paper, table 2: NAT-PT by direction and protocol",
        costs: &[
            ("forward", linear(13_700, 0, 0)),
            ("v4-v6-tcp", linear(18_220, 0, 0)),
            ("v4-v6-udp", linear(13_270, 0, 0)),
            ("v4-v6-icmp", linear(4_640, 0, 0)),
            ("v6-v4-tcp", linear(10_090, 0, 0)),
            ("v6-v4-udp", linear(9_720, 0, 0)),
            ("v6-v4-icmp", linear(1_780, 0, 0)),
        ],
        expansions: &[],
        moves: MovePenalties::NONE,
    },
    CostTable {
        name: "ps-hrw",
        source: "the PS-HRW paper: 5.2 us for a packet in layer 7; its flow moves for 5 % (shared L2), 25 % (socket), 45 %",
        costs: &[
            ("forward", linear(5_200, 0, 0)),
            ("dpi", linear(5_200, 0, 0)),
            ("l7-filter", linear(5_200, 0, 0)),
            ("pass", linear(5_200, 0, 0)),
        ],
        expansions: &[],
        moves: MovePenalties { shared_l2: 50, same_socket: 250, other_socket: 450 },
    },
];

/// The table of this name.
///
/// # Errors
/// There is none; the message names those there are.
pub fn find_table(name: &str) -> Result<&'static CostTable, String> {
    let found = TABLES.iter().find(|table| table.name == name);
    found.ok_or_else(|| unknown("cost table", name, TABLES.map(|table| table.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_the_papers_figures() {
        let predictive = find_table("predictive").unwrap();
        // PREDICTIVE section 3: encrypting 500 bytes takes 970 us at 167 MHz.
        assert_eq!(predictive.cost("encrypt").unwrap().work(500), 97_000);
        assert_eq!(find_table("everest").unwrap().cost("v4-v6-tcp").unwrap().work(1500), 18_220);
        assert_eq!(find_table("ps-hrw").unwrap().moves.other_socket, 450);
    }

    #[test]
    fn unknown_names_are_answered() {
        let error = find_table("everst").unwrap_err();
        assert_eq!(
            error,
            "no cost table `everst`; did you mean `everest`? There are: measured, predictive, everest, ps-hrw"
        );
        let error = find_table("measured").unwrap().cost("dip").unwrap_err();
        assert_eq!(
            error,
            "cost table `measured`: no service `dip`; did you mean `dpi`? There are: forward, encrypt, decrypt, compress, \
             decompress, fec, fec-decode, dpi, l7-filter, firewall, portscan, synflood, nat64, pass"
        );
    }
}
