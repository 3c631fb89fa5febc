//! Where a policy is carried out, and what does so.

use core::fmt::{self, Display};
use core::str::FromStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use humpyard_traffic::TrafficError;
use humpyard_traffic::steer_record::SteerSample;
use humpyard_wire::{BucketCounters, FlowCount, HandOver, Hashing, IndirectionTable, ReceiveSteering};

use super::card::CardTable;
use super::change::Before;
use super::fanout::FanoutTable;
use super::observe::Look;
use super::receive::ReceiveTable;
use crate::LabError;
use crate::metrics::PacketsBy;

/// Where a policy is carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SteerTarget {
    /// `cpumap:IFACE`: a program of the kernel hands each packet to the processor of its bucket.
    CpuMap(String),
    /// `rss:IFACE`: the card gives each value of its hash a receive queue.
    Rss(String),
    /// `rps:IFACE`: the kernel divides the packets of each receive queue among a set of processors.
    Rps(String),
    /// `fanout:FILE`: a program for the fan-out group of another program chooses the socket of each bucket.
    Fanout(PathBuf),
}

impl SteerTarget {
    /// The interface; a fan-out group has none.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::CpuMap(interface) | Self::Rss(interface) | Self::Rps(interface) => Some(interface),
            Self::Fanout(_) => None,
        }
    }

    /// What results call it: the interface, or the object.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Fanout(object) => object.display().to_string(),
            Self::CpuMap(interface) | Self::Rss(interface) | Self::Rps(interface) => interface.clone(),
        }
    }

    /// Returns what a later command needs to undo this, should this one not come to its end.
    pub(super) fn before(&self) -> Result<Before, LabError> {
        Ok(match self {
            Self::CpuMap(_) | Self::Fanout(_) => Before::default(),
            Self::Rss(interface) => Before { queues: IndirectionTable::open(interface)?.read()?, ..Before::default() },
            Self::Rps(interface) => Before { masks: ReceiveSteering::open(interface)?.masks()?, ..Before::default() },
        })
    }

    /// For which core its packets count.
    pub fn packets_by(&self) -> PacketsBy {
        match self {
            Self::CpuMap(_) => PacketsBy::SteeredProcessor,
            Self::Rss(_) | Self::Rps(_) => PacketsBy::ReceivingProcessor,
            Self::Fanout(_) => PacketsBy::Socket,
        }
    }

    /// Rejects a target that is not there.
    ///
    /// # Errors
    /// An interface without receive queues for `rps:`, and one without an indirection table for `rss:`.
    pub fn check(&self) -> Result<(), LabError> {
        self.before().map(drop)
    }

    /// Returns how many buckets there are, as a power of two, where the target says so.
    pub(super) fn bucket_bits(&self) -> Result<Option<u32>, LabError> {
        Ok(match self {
            Self::Rss(interface) => Some(IndirectionTable::open(interface)?.entries().trailing_zeros()),
            Self::CpuMap(_) | Self::Rps(_) | Self::Fanout(_) => None,
        })
    }

    /// Begins to carry out a table: a core for each bucket. `maps` is the directory of the BPF file system in which
    /// the table of a fan-out group is.
    pub(super) fn begin(
        &self,
        hashing: Hashing,
        cores: &[u32],
        guard: Duration,
        maps: &Path,
    ) -> Result<Box<dyn SteeringTable>, LabError> {
        Ok(match self {
            Self::CpuMap(interface) => Box::new(CpuMapTable::begin(interface, hashing, cores, guard)?),
            Self::Rss(interface) => Box::new(CardTable::begin(interface, hashing)?),
            Self::Rps(interface) => Box::new(ReceiveTable::begin(interface, hashing, cores)?),
            Self::Fanout(object) => Box::new(FanoutTable::begin(object, maps, hashing, cores, guard)?),
        })
    }
}

impl FromStr for SteerTarget {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        match text.split_once(':') {
            Some(("cpumap", interface)) if !interface.is_empty() => Ok(Self::CpuMap(interface.to_owned())),
            Some(("rss", interface)) if !interface.is_empty() => Ok(Self::Rss(interface.to_owned())),
            Some(("rps", interface)) if !interface.is_empty() => Ok(Self::Rps(interface.to_owned())),
            Some(("fanout", object)) if !object.is_empty() => Ok(Self::Fanout(object.into())),
            _ => Err(LabError::option(format!(
                "unknown target `{text}`: give cpumap:IFACE, rss:IFACE, rps:IFACE or fanout:FILE"
            ))),
        }
    }
}

impl Display for SteerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuMap(interface) => write!(f, "cpumap:{interface}"),
            Self::Rss(interface) => write!(f, "rss:{interface}"),
            Self::Rps(interface) => write!(f, "rps:{interface}"),
            Self::Fanout(object) => write!(f, "fanout:{}", object.display()),
        }
    }
}

/// Carries a table out and counts what comes. When it is dropped, the interface is as before.
pub(super) trait SteeringTable {
    /// All counters, now.
    fn look(&self) -> Result<Look, LabError>;

    /// Sets the core that each bucket is to go to, after a sample. Returns how often something went to another core
    /// since the last call.
    fn set(&mut self, cores: &[u32], sample: &SteerSample) -> Result<u64, TrafficError>;

    /// How many buckets do not go yet where they are to go.
    fn pending(&self, cores: &[u32]) -> Result<u64, TrafficError>;

    /// Returns the flows of which most came since the last call, at most `most`.
    fn heavy_flows(&self, most: usize) -> Result<Vec<FlowCount>, TrafficError>;

    /// Ends it, and returns what became of all frames that were handed to other processors, none of which waits any
    /// more. `None`: none were, or they were not counted.
    fn end(self: Box<Self>) -> Result<Option<HandOver>, TrafficError> {
        Ok(None)
    }

    /// Whether frames are counted in the driver.
    fn is_native(&self) -> bool;

    /// How many processors there can be.
    fn processors(&self) -> usize;

    /// Whether each bucket goes to the core of the table, rather than to one that the kernel chooses.
    fn is_by_bucket(&self) -> bool;

    /// Says what was changed, in lines.
    fn changed(&self) -> Vec<String>;
}

/// A table of the kernel's program.
struct CpuMapTable {
    interface: String,
    counters: BucketCounters,
    /// By bucket, as it was last seen.
    cores: Vec<u32>,
}

impl CpuMapTable {
    fn begin(interface: &str, hashing: Hashing, cores: &[u32], guard: Duration) -> Result<Self, LabError> {
        let counters = BucketCounters::steer(interface, hashing, cores, guard)?;
        Ok(Self { interface: interface.to_owned(), counters, cores: cores.to_vec() })
    }
}

impl SteeringTable for CpuMapTable {
    fn look(&self) -> Result<Look, LabError> {
        Look::at(&self.counters)
    }

    fn set(&mut self, cores: &[u32], _: &SteerSample) -> Result<u64, TrafficError> {
        self.counters.set(cores)?;
        let now = self.counters.cores()?;
        let moves = now.iter().zip(&self.cores).filter(|(now, before)| now != before).count();
        self.cores = now;
        Ok(moves as u64)
    }

    fn pending(&self, cores: &[u32]) -> Result<u64, TrafficError> {
        Ok(self.counters.cores()?.iter().zip(cores).filter(|(now, wanted)| now != wanted).count() as u64)
    }

    fn heavy_flows(&self, most: usize) -> Result<Vec<FlowCount>, TrafficError> {
        self.counters.heavy_flows(most)
    }

    fn end(self: Box<Self>) -> Result<Option<HandOver>, TrafficError> {
        self.counters.end()
    }

    fn is_native(&self) -> bool {
        self.counters.is_native()
    }

    fn processors(&self) -> usize {
        self.counters.processors()
    }

    fn is_by_bucket(&self) -> bool {
        true
    }

    fn changed(&self) -> Vec<String> {
        let place = if self.is_native() { "in the driver" } else { "behind the driver" };
        vec![format!("{}: an XDP program {place}", self.interface)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        for text in ["cpumap:eth0", "rss:eth0", "rps:wlan0.5", "fanout:/var/lib/lb.o"] {
            assert_eq!(text.parse::<SteerTarget>().unwrap().to_string(), text);
        }
        for text in ["eth0", "cpumap:", "xps:eth0", "fanout:", ""] {
            let said = text.parse::<SteerTarget>().unwrap_err().to_string();
            assert!(said.starts_with(&format!("unknown target `{text}`: give cpumap:IFACE")), "{said}");
        }
    }
}
