//! Receive packet steering (RPS): for each receive queue, the processors that the kernel divides its connections among.
//!
//! # Source
//! Linux, `Documentation/networking/scaling.rst`, "RPS: Receive Packet Steering".

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use humpyard_traffic::TrafficError;

use crate::interface::refused;

/// Processors in a group of a mask.
const GROUP: u32 = 32;

/// The receive queues of an interface, and the processors that each gives its packets to.
#[derive(Debug)]
pub struct ReceiveSteering {
    port: String,
    /// A file for each queue, by its number.
    files: Vec<PathBuf>,
}

impl ReceiveSteering {
    /// Finds the queues of an interface.
    ///
    /// # Errors
    /// If there is no such interface, it has no receive queues, or its masks cannot be written.
    pub fn open(interface: &str) -> Result<Self, TrafficError> {
        let port = format!("rps:{interface}");
        let files: Vec<PathBuf> =
            (0..receive_masks(interface).len()).map(|queue| mask_file(interface, queue)).collect();
        if files.is_empty() {
            return Err(TrafficError::unusable(
                &port,
                format!("no interface `{interface}` with receive queues is in /sys/class/net"),
            ));
        }
        let steering = Self { port, files };
        // Written as they are, for a lack of privilege to be known before anything changes.
        steering.restore(&steering.masks()?)?;
        Ok(steering)
    }

    /// Returns the mask of each queue, as the kernel writes it: hexadecimal, groups of 32 processors, the last first.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn masks(&self) -> Result<Vec<String>, TrafficError> {
        let read = |file: &PathBuf| fs::read_to_string(file).map(|mask| mask.trim().to_owned());
        self.files.iter().map(read).collect::<io::Result<_>>().map_err(|error| self.refused("reading a mask", &error))
    }

    /// Has a queue divide its connections among these processors; by none, packets stay where they arrive.
    ///
    /// # Errors
    /// If the kernel refuses it.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn set(&self, queue: usize, processors: &[u32]) -> Result<(), TrafficError> {
        self.write(queue, &mask(processors))
    }

    /// Writes masks as [`ReceiveSteering::masks`] had them; those of queues that are not there any more are left out.
    ///
    /// # Errors
    /// If the kernel refuses one.
    pub fn restore(&self, masks: &[String]) -> Result<(), TrafficError> {
        (0..self.files.len()).zip(masks).try_for_each(|(queue, mask)| self.write(queue, mask))
    }

    fn write(&self, queue: usize, mask: &str) -> Result<(), TrafficError> {
        fs::write(&self.files[queue], mask).map_err(|error| self.refused("writing a mask", &error))
    }

    fn refused(&self, doing: &str, error: &io::Error) -> TrafficError {
        refused(&self.port, doing, error)
    }
}

/// Returns the mask of each receive queue of an interface, as of [`ReceiveSteering::masks`]; of one that is not there,
/// none.
pub fn receive_masks(interface: &str) -> Vec<String> {
    let read = |queue| fs::read_to_string(mask_file(interface, queue)).ok();
    (0..).map_while(read).map(|mask| mask.trim().to_owned()).collect()
}

fn mask_file(interface: &str, queue: usize) -> PathBuf {
    Path::new("/sys/class/net").join(interface).join(format!("queues/rx-{queue}/rps_cpus"))
}

/// Writes a set of processors as the kernel reads it.
fn mask(processors: &[u32]) -> String {
    let groups = processors.iter().max().map_or(1, |last| last / GROUP + 1);
    let group = |number: u32| {
        let there = processors.iter().filter(|&&processor| processor / GROUP == number);
        there.fold(0_u32, |bits, processor| bits | 1 << (processor % GROUP))
    };
    (0..groups).rev().map(|number| format!("{:x}", group(number))).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_the_kernel_reads_them() {
        for (processors, expected) in
            [(&[][..], "0"), (&[0, 1], "3"), (&[5], "20"), (&[0, 33], "2,1"), (&[64, 31], "1,0,80000000")]
        {
            assert_eq!(mask(processors), expected);
        }
    }

    #[test]
    fn an_interface_that_is_not_there_has_no_queues() {
        assert_eq!((receive_masks("nowhere").len(), receive_masks("lo").len()), (0, 1));
        let said = ReceiveSteering::open("nowhere").unwrap_err().to_string();
        assert!(said.contains("no interface `nowhere`"), "{said}");
    }
}
