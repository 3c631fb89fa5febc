//! What the four applications of the paper cost: on its engines, and on the machine on which this was developed.
//!
//! The table is what `humpyard calibrate --services forward,encrypt,compress,fec --seconds 24` measured (2 virtual
//! cores of an AMD EPYC): `cold_ns` is what a packet takes longer after one of another service, the median over
//! services; `evicted_ns` what it takes longer when 16 MiB of memory were touched in between. It is kept, so that
//! figures are the same everywhere.

use humpyard_core::cost::LinearCost;

use humpyard_lab::Costs;

const MEASURED: &str = include_str!("costs.csv");

/// The applications of table 1, in its order.
pub(super) const NAMES: [&str; 4] = ["forward", "encrypt", "compress", "fec"];
/// Those that work on payloads.
pub(super) const PAYLOAD: [&str; 3] = ["encrypt", "compress", "fec"];
/// By how much processing times of compression stray from their line, and those of the others: a part of them.
const NOISE: (f64, f64) = (0.25, 0.05);

/// Whose costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Machine {
    /// Table 1 on engines ten times as fast as those it was measured on.
    Paper,
    /// The machine on which this was developed; cold is after a packet of another service.
    Here,
    /// Likewise, where all caches are lost whenever the service changes.
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

    /// What an application costs.
    pub(super) fn cost(self, application: &str) -> LinearCost {
        match self {
            Self::Paper => Costs::table("predictive").and_then(|table| table.cost(application)).expect("it has them"),
            Self::Here => measured(application, "cold_ns"),
            Self::HereEvicted => measured(application, "evicted_ns"),
        }
    }
}

/// By what part of itself the time of a packet may be off its line.
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
