//! Costs of the paper's four applications: on its engines, and on this project's development machine.
//!
//! The table is the output of `humpyard calibrate --services forward,encrypt,compress,fec --seconds 24` (2
//! virtual cores of an AMD EPYC). `cold_ns` is the extra time of a packet after one of another service, as the
//! median over services. `evicted_ns` is the extra time after 16 MiB of memory were touched in between. The
//! table is stored, so that figures are the same everywhere.

use humpyard_core::cost::LinearCost;

use humpyard_lab::Costs;

const MEASURED: &str = include_str!("costs.csv");

/// The applications of table 1, in its order.
pub(super) const NAMES: [&str; 4] = ["forward", "encrypt", "compress", "fec"];
/// The applications that process payloads.
pub(super) const PAYLOAD: [&str; 3] = ["encrypt", "compress", "fec"];
/// Relative deviation of processing times from their line: of compression, and of the others.
const NOISE: (f64, f64) = (0.25, 0.05);

/// The machine whose costs are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Machine {
    /// Table 1 on engines ten times as fast as the measured ones.
    Paper,
    /// The development machine; a cold packet follows one of another service.
    Here,
    /// The same machine, with all caches lost when the service changes.
    HereEvicted,
}

impl Machine {
    pub(super) const ALL: [Self; 3] = [Self::Paper, Self::Here, Self::HereEvicted];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Here => "calibrated",
            Self::HereEvicted => "calibrated, caches lost",
        }
    }

    /// Returns its name for use in names of files.
    pub(super) fn file_name(self) -> String {
        self.name().replace(", ", "-").replace(' ', "-")
    }

    /// Returns the cost of an application.
    pub(super) fn cost(self, application: &str) -> LinearCost {
        match self {
            Self::Paper => Costs::table("predictive").and_then(|table| table.cost(application)).expect("it has them"),
            Self::Here => measured(application, "cold_ns"),
            Self::HereEvicted => measured(application, "evicted_ns"),
        }
    }
}

/// Returns the greatest relative deviation of a packet's time from its line.
pub(super) fn noise(application: &str) -> f64 {
    if application == "compress" { NOISE.0 } else { NOISE.1 }
}

fn measured(application: &str, cold: &str) -> LinearCost {
    let mut lines = MEASURED.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a line of names");
    let row = lines.find(|row| row[0] == application).expect("the table has this service");
    let number = |name: &str| {
        let place = names.iter().position(|known| *known == name).expect("the table has this column");
        row[place].parse::<f64>().expect("the table has numbers")
    };
    LinearCost {
        fixed: number("fixed_ns").round() as u64,
        per_byte_milli: (1e3 * number("per_byte_ns")).round() as u64,
        cold: number(cold).round() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_every_application() {
        let costs = |machine: Machine| NAMES.map(|name| machine.cost(name));
        assert_eq!(costs(Machine::Paper)[1], LinearCost { fixed: 32_000, per_byte_milli: 130_000, cold: 17_000 });
        for (warm, lost) in costs(Machine::Here).iter().zip(costs(Machine::HereEvicted)) {
            assert!(warm.fixed == lost.fixed && warm.fixed > 0 && lost.cold > warm.cold, "{lost:?}");
        }
    }
}
